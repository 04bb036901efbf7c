// Vector addition: every arithmetic type, sizes that do not fill the last block, the empty vector.
// arch: -gencode arch=compute_75,code=compute_75 -gencode arch=compute_80,code=compute_80
#include "check.cuh"

template <class T> __host__ __device__ T sum_of(T a, T b)
{
    return (T)(a + b);
}

template <class T> __global__ void add(T *out, const T *a, const T *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = sum_of(a[i], b[i]);
}

template <class T>
static void run(const char *type, const std::vector<T> &a, const std::vector<T> &b)
{
    dev<T> da(a), db(b), out(a.size());
    std::vector<T> want(a.size());
    for (size_t i = 0; i < a.size(); i++)
        want[i] = sum_of(a[i], b[i]);
    for (unsigned threads : {32u, 96u, 256u}) {
        if (a.empty())
            continue;
        out.zero();
        add<<<blocks_for(a.size(), threads), threads>>>(out.p, da.p, db.p, (int)a.size());
        SYNC();
        expect_equal(type, out.host(), want);
    }
}

template <class T> static void run_ints(const char *type, size_t n, int64_t lo, int64_t hi)
{
    run<T>(type, random_ints<T>(n, 1, lo, hi), random_ints<T>(n, 2, lo, hi));
}

int main()
{
    for (size_t n : {0, 1, 31, 32, 33, 1000, 4097}) {
        run_ints<int8_t>("int8", n, -128, 128);
        run_ints<uint16_t>("uint16", n, 0, 65536);
        run_ints<int>("int", n, INT32_MIN / 2, INT32_MAX / 2);
        run_ints<uint64_t>("uint64", n, 0, INT64_MAX);
        run("float", random_reals<float>(n, 3), random_reals<float>(n, 4));
        run("double", random_reals<double>(n, 5), random_reals<double>(n, 6));
    }
    add<int><<<0, 32>>>(nullptr, nullptr, nullptr, 0);
    CHECK_ERROR(cudaGetLastError(), cudaErrorInvalidConfiguration);
    return ok("vecadd: 6 types, 7 sizes");
}
