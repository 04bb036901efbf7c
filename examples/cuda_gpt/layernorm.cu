/*
 * Layer norm. On the rows a warp has a row; gradients of gain and bias are sums over rows, see
 * columns.cuh.
 */
#include "examples/cuda_gpt/columns.cuh"

#define WARPS 4 /* in a block: rows */
#define EPSILON 1e-5f

static __device__ inline float warp_sum(float x)
{
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_xor_sync(~0u, x, d);
    return x;
}

extern "C" __global__ void layernorm_forward(float *y, float *mean, float *rstd, const float *x,
                                             const float *gain, const float *bias, int rows,
                                             int width)
{
    int row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0, squares = 0;

    if (row >= rows)
        return;
    x += (size_t)row * width;
    y += (size_t)row * width;
    for (int c = lane; c < width; c += 32)
        sum += x[c];
    float m = warp_sum(sum) / width;
    for (int c = lane; c < width; c += 32)
        squares = fmaf(x[c] - m, x[c] - m, squares);
    float r = rsqrtf(warp_sum(squares) / width + EPSILON);
    for (int c = lane; c < width; c += 32)
        y[c] = fmaf((x[c] - m) * r, gain[c], bias[c]);
    if (lane == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

extern "C" __global__ void layernorm_backward(float *dx, const float *dy, const float *dresidual,
                                              const float *x, const float *mean, const float *rstd,
                                              const float *gain, int rows, int width)
{
    int row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t at = (size_t)row * width;
    float sum = 0, sum_x = 0;

    if (row >= rows)
        return;
    float m = mean[row], r = rstd[row];
    for (int c = lane; c < width; c += 32) {
        float d = dy[at + c] * gain[c];
        sum += d;
        sum_x = fmaf(d, (x[at + c] - m) * r, sum_x);
    }
    sum = warp_sum(sum) / width;
    sum_x = warp_sum(sum_x) / width;
    for (int c = lane; c < width; c += 32) {
        float d = (dy[at + c] * gain[c] - sum - (x[at + c] - m) * r * sum_x) * r;
        dx[at + c] = dresidual ? dresidual[at + c] + d : d;
    }
}

template <bool ATOMICS>
static __device__ inline void params_chunk(float *gain, float *bias, const float *dy,
                                           const float *x, const float *mean, const float *rstd,
                                           int rows, int width)
{
    __shared__ struct column_sums s;
    int c = blockIdx.x * COLUMNS + threadIdx.x, begin = blockIdx.y * GPT_CHUNK;
    int end = min(rows, begin + GPT_CHUNK);
    float sum_gain = 0, sum_bias = 0;

    for (int r = begin + threadIdx.y; r < end && c < width; r += ROW_THREADS) {
        size_t at = (size_t)r * width + c;
        sum_gain = fmaf(dy[at], (x[at] - mean[r]) * rstd[r], sum_gain);
        sum_bias += dy[at];
    }
    sum_gain = column_sum(&s, sum_gain);
    sum_bias = column_sum(&s, sum_bias);
    if (threadIdx.y != 0 || c >= width)
        return;
    if (ATOMICS) {
        atomicAdd(&gain[c], sum_gain);
        atomicAdd(&bias[c], sum_bias);
    } else {
        gain[(size_t)blockIdx.y * width + c] = sum_gain;
        bias[(size_t)blockIdx.y * width + c] = sum_bias;
    }
}

extern "C" __global__ void layernorm_backward_params(float *partial_gain, float *partial_bias,
                                                     const float *dy, const float *x,
                                                     const float *mean, const float *rstd, int rows,
                                                     int width)
{
    params_chunk<false>(partial_gain, partial_bias, dy, x, mean, rstd, rows, width);
}

extern "C" __global__ void layernorm_backward_params_atomic(float *dgain, float *dbias,
                                                            const float *dy, const float *x,
                                                            const float *mean, const float *rstd,
                                                            int rows, int width)
{
    params_chunk<true>(dgain, dbias, dy, x, mean, rstd, rows, width);
}

extern "C" cudaError_t gpt_layernorm_forward(float *y, float *mean, float *rstd, const float *x,
                                             const float *gain, const float *bias, int rows,
                                             int width, cudaStream_t stream)
{
    unsigned blocks = (unsigned)gpt_chunks(rows, WARPS);

    layernorm_forward<<<blocks, WARPS * 32, 0, stream>>>(y, mean, rstd, x, gain, bias, rows, width);
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_layernorm_backward(float *dx, const float *dy, const float *dresidual,
                                              const float *x, const float *mean, const float *rstd,
                                              const float *gain, int rows, int width,
                                              cudaStream_t stream)
{
    unsigned blocks = (unsigned)gpt_chunks(rows, WARPS);

    layernorm_backward<<<blocks, WARPS * 32, 0, stream>>>(dx, dy, dresidual, x, mean, rstd, gain,
                                                          rows, width);
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_layernorm_backward_params(float *dgain, float *dbias,
                                                     float *partial_gain, float *partial_bias,
                                                     const float *dy, const float *x,
                                                     const float *mean, const float *rstd, int rows,
                                                     int width, bool atomics, cudaStream_t stream)
{
    dim3 grid = column_grid(rows, width), block = column_block();
    cudaError_t e;

    if (atomics) {
        if ((e = cudaMemsetAsync(dgain, 0, (size_t)width * sizeof(*dgain), stream)) ||
            (e = cudaMemsetAsync(dbias, 0, (size_t)width * sizeof(*dbias), stream)))
            return e;
        layernorm_backward_params_atomic<<<grid, block, 0, stream>>>(dgain, dbias, dy, x, mean,
                                                                     rstd, rows, width);
        return cudaGetLastError();
    }
    layernorm_backward_params<<<grid, block, 0, stream>>>(partial_gain, partial_bias, dy, x, mean,
                                                          rstd, rows, width);
    if ((e = cudaGetLastError()) ||
        (e = gpt_columns_finish(dgain, partial_gain, (int)grid.y, width, stream)))
        return e;
    return gpt_columns_finish(dbias, partial_bias, (int)grid.y, width, stream);
}
