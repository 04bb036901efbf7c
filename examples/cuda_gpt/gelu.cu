/*
 * Gelu, in the form with tanh. The way back also sums its result over rows, see columns.cuh: that
 * is the gradient of the bias that was added before.
 */
#include "examples/cuda_gpt/columns.cuh"

#define THREADS 256
#define ROOT 0.7978845608f /* of 2/pi */
#define CUBE 0.044715f

extern "C" __global__ void gelu_forward(float *y, const float *x, size_t n)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= n)
        return;
    float t = tanhf(ROOT * (x[i] + CUBE * x[i] * x[i] * x[i]));
    y[i] = 0.5f * x[i] * (1 + t);
}

static __device__ inline float slope(float x)
{
    float t = tanhf(ROOT * (x + CUBE * x * x * x));

    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * ROOT * (1 + 3 * CUBE * x * x);
}

template <bool ATOMICS>
static __device__ inline void backward_chunk(float *dx, float *sums, const float *dy,
                                             const float *x, int rows, int width)
{
    __shared__ struct column_sums s;
    int c = blockIdx.x * COLUMNS + threadIdx.x, begin = blockIdx.y * GPT_CHUNK;
    int end = min(rows, begin + GPT_CHUNK);
    float sum = 0;

    for (int r = begin + threadIdx.y; r < end && c < width; r += ROW_THREADS) {
        size_t at = (size_t)r * width + c;
        float d = dy[at] * slope(x[at]);
        dx[at] = d;
        sum += d;
    }
    sum = column_sum(&s, sum);
    if (threadIdx.y != 0 || c >= width)
        return;
    if (ATOMICS)
        atomicAdd(&sums[c], sum);
    else
        sums[(size_t)blockIdx.y * width + c] = sum;
}

extern "C" __global__ void gelu_backward(float *dx, float *partial, const float *dy, const float *x,
                                         int rows, int width)
{
    backward_chunk<false>(dx, partial, dy, x, rows, width);
}

extern "C" __global__ void gelu_backward_atomic(float *dx, float *dbias, const float *dy,
                                                const float *x, int rows, int width)
{
    backward_chunk<true>(dx, dbias, dy, x, rows, width);
}

extern "C" cudaError_t gpt_gelu_forward(float *y, const float *x, size_t n, cudaStream_t stream)
{
    gelu_forward<<<(unsigned)gpt_chunks(n, THREADS), THREADS, 0, stream>>>(y, x, n);
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_gelu_backward(float *dx, float *dbias, float *partial, const float *dy,
                                         const float *x, int rows, int width, bool atomics,
                                         cudaStream_t stream)
{
    dim3 grid = column_grid(rows, width), block = column_block();
    cudaError_t e;

    if (atomics) {
        e = cudaMemsetAsync(dbias, 0, (size_t)width * sizeof(*dbias), stream);
        if (e != cudaSuccess)
            return e;
        gelu_backward_atomic<<<grid, block, 0, stream>>>(dx, dbias, dy, x, rows, width);
        return cudaGetLastError();
    }
    gelu_backward<<<grid, block, 0, stream>>>(dx, partial, dy, x, rows, width);
    e = cudaGetLastError();
    return e != cudaSuccess ? e : gpt_columns_finish(dbias, partial, (int)grid.y, width, stream);
}
