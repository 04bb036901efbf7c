// Relocatable device code: functions, variables and a virtual table of another file, linked when
// the program is loaded.
// nvcc: -rdc=true
// also: parts/separate_part.cu
#include "check.cuh"

#include "parts/separate_part.cuh"

__device__ int shared_counter = 3;
static __device__ int own = 1; // the part has one of the same name

__device__ int twice(int x)
{
    return 2 * x + own;
}

__global__ void use(int *out, int n)
{
    int i = threadIdx.x;
    part_base *p = make_part(i % 2);
    out[i] = part_function(i, twice) + part_table[i % 4] + (p ? p->value(i) : -1000);
    delete p;
    if (i == 0)
        part_counts(n);
}

int main()
{
    dev<int> out(64);
    use<<<1, 64>>>(out.p, 40);
    SYNC();
    std::vector<int> want(64);
    const int table[4] = {10, 20, 30, 40};
    for (int i = 0; i < 64; i++)
        want[i] = (2 * i + 1) * 100 + 5 + table[i % 4] + (i % 2 ? i * i : -i);
    expect_equal("out", out.host(), want);
    int counter = 0;
    CHECK(cudaMemcpyFromSymbol(&counter, shared_counter, sizeof counter));
    expect_value("counter", counter, 43);
    part_launch(out.p, 64);
    SYNC();
    for (int i = 0; i < 64; i++)
        want[i] = 43 + i + 5;
    expect_equal("kernel of the part", out.host(), want);
    return ok("separate compilation: functions, variables, virtual calls");
}
