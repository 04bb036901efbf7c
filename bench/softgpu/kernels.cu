/* The kernels of bench_softgpu; kernels.ptx is made of it:
 * nvcc -arch=compute_80 -ptx kernels.cu -o kernels.ptx */

#define TILE 64
#define STEP 16

/* c = a * b, n x n, n a multiple of 64: 64x64 of c a block of 256 threads, 4x4 a thread. */
extern "C" __global__ void sgemm(const float *__restrict__ a, const float *__restrict__ b,
                                 float *__restrict__ c, int n)
{
    __shared__ float as[STEP][TILE], bs[STEP][TILE];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    float sum[4][4] = {};

    for (int k = 0; k < n; k += STEP) {
        for (int i = threadIdx.x; i < STEP * TILE; i += 256) {
            as[i % STEP][i / STEP] = a[(row + i / STEP) * n + k + i % STEP];
            bs[i / TILE][i % TILE] = b[(k + i / TILE) * n + col + i % TILE];
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < STEP; j++) {
            float4 x = *(const float4 *)&as[j][4 * ty], y = *(const float4 *)&bs[j][4 * tx];
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
            for (int p = 0; p < 4; p++)
                for (int q = 0; q < 4; q++)
                    sum[p][q] += xs[p] * ys[q];
        }
        __syncthreads();
    }
    for (int p = 0; p < 4; p++)
        for (int q = 0; q < 4; q++)
            c[(row + 4 * ty + p) * n + col + 4 * tx + q] = sum[p][q];
}

extern "C" __global__ void empty()
{
}

extern "C" __global__ void axpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void gather(const float *x, const int *at, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = x[at[i]];
}
