// Dynamic shared memory: above 48 KiB after the attribute is set, refused before; several arrays in
// one block of it; its size by special register; static and dynamic together.
#include "check.cuh"

extern __shared__ __align__(16) int dynamic[];

__global__ void rotate(int *out, const int *in, int n)
{
    __shared__ int shift;
    if (threadIdx.x == 0)
        shift = n / 3;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        dynamic[i] = in[blockIdx.x * n + i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[blockIdx.x * n + i] = dynamic[(i + shift) % n];
}

__global__ void pieces(double *out, int n)
{
    double *d = (double *)dynamic;
    short *s = (short *)(d + n);
    char *c = (char *)(s + n);
    int t = threadIdx.x;
    if (t < n) {
        d[t] = t * 0.5;
        s[t] = (short)(t * 3);
        c[t] = (char)(t + 1);
    }
    __syncthreads();
    unsigned size, total;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    asm("mov.u32 %0, %%total_smem_size;" : "=r"(total));
    if (t < n)
        out[t] = d[n - 1 - t] + s[n - 1 - t] * 1000 + c[n - 1 - t] * 1e6 + (size - 11 * n) +
                 (total < size ? 1e9 : 0);
}

int main()
{
    int most = 0;
    CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    if (most < 64 << 10)
        skip("the device has %d bytes of shared memory a block", most);
    const int n = (most - 1024) / (int)sizeof(int), blocks = 2;
    auto in = random_ints<int>(n * blocks, 301, 0, 1 << 30);
    dev<int> din(in), out(n * blocks);
    rotate<<<blocks, 256, n * sizeof(int)>>>(out.p, din.p, n);
    CHECK_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(rotate, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               n * (int)sizeof(int)));
    CHECK(cudaFuncSetAttribute(rotate, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    rotate<<<blocks, 256, n * sizeof(int)>>>(out.p, din.p, n);
    SYNC();
    std::vector<int> want(in.size());
    for (int i = 0; i < n * blocks; i++)
        want[i] = in[i / n * n + (i % n + n / 3) % n];
    expect_equal("rotate", out.host(), want);
    cudaFuncAttributes a;
    CHECK(cudaFuncGetAttributes(&a, rotate));
    expect_value("limit", a.maxDynamicSharedSizeBytes, n * (int)sizeof(int));
    if (a.sharedSizeBytes < 4 || a.maxThreadsPerBlock < 256 || a.numRegs < 1)
        fail("attributes: shared %zu, threads %d, registers %d", a.sharedSizeBytes,
             a.maxThreadsPerBlock, a.numRegs);

    const int m = 100;
    dev<double> d(m);
    pieces<<<1, 128, m * 11>>>(d.p, m);
    SYNC();
    std::vector<double> w(m);
    for (int t = 0; t < m; t++) {
        int r = m - 1 - t;
        w[t] = r * 0.5 + r * 3 * 1000.0 + (r + 1) * 1e6;
    }
    expect_equal("pieces", d.host(), w);
    return ok("shared memory: %d bytes a block", n * 4);
}
