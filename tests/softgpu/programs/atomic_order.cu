// A sum of floats by atomics: close to the true sum; its bits depend on the order of the additions.
// The bits are printed: one seed must give the same ones, other seeds others (see order.sh).
#include "check.cuh"

__global__ void sum(float *total, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(total, in[i]);
}

int main()
{
    const int n = 20000;
    auto in = random_reals<float>(n, 601, -1, 1);
    double want = 0;
    for (float x : in)
        want += x;
    dev<float> d(in), total(1);
    sum<<<blocks_for(n, 64), 64>>>(total.p, d.p, n);
    SYNC();
    float got = total.host()[0];
    expect_near("sum", got, want, 0, 0.01);
    return ok("atomic order: %a", got);
}
