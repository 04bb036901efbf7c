/*
 * AdamW with the gradients' norm limited. The norm is a sum over all parameters: partial sums of
 * squares, one a block, are added up in a fixed order, or each warp adds to one number.
 */
#include "examples/cuda_gpt/kernels.h"

#define THREADS 256

/* all threads call it; the sum is right in thread 0. A fixed order */
static __device__ inline float block_sum(float mine)
{
    __shared__ float s[THREADS];

    s[threadIdx.x] = mine;
    for (int d = THREADS / 2; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < (unsigned)d)
            s[threadIdx.x] += s[threadIdx.x + d];
    }
    return s[0];
}

/* of this thread's part of the block's GPT_SQUARES elements */
static __device__ inline float squares_of_thread(const float *gradient, size_t n)
{
    size_t begin = (size_t)blockIdx.x * GPT_SQUARES, end = min(n, begin + GPT_SQUARES);
    float sum = 0;

    for (size_t i = begin + threadIdx.x; i < end; i += THREADS)
        sum = fmaf(gradient[i], gradient[i], sum);
    return sum;
}

extern "C" __global__ void adamw_squares(float *squares, const float *gradient, size_t n)
{
    float sum = block_sum(squares_of_thread(gradient, n));

    if (threadIdx.x == 0)
        squares[blockIdx.x] = sum;
}

extern "C" __global__ void adamw_squares_atomic(struct gpt_update *update, const float *gradient,
                                                size_t n)
{
    float sum = squares_of_thread(gradient, n);

    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&update->squares, sum);
}

/* one block; n == 0: the sum is in @update already */
extern "C" __global__ void adamw_begin(struct gpt_update *update, const float *squares, size_t n,
                                       float limit)
{
    float sum = 0;

    for (size_t i = threadIdx.x; i < n; i += THREADS)
        sum += squares[i];
    sum = block_sum(sum);
    if (threadIdx.x != 0)
        return;
    float norm = sqrtf(n ? sum : update->squares);
    update->squares = 0;
    update->norm = norm;
    update->scale = norm > limit ? limit / norm : 1;
    update->beta1 *= GPT_BETA1;
    update->beta2 *= GPT_BETA2;
}

extern "C" __global__ void adamw_update(float *value, float *m, float *v, const float *gradient,
                                        const struct gpt_update *update, float rate, float decay,
                                        size_t n)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= n)
        return;
    float g = gradient[i] * update->scale;
    float first = GPT_BETA1 * m[i] + (1 - GPT_BETA1) * g;
    float second = GPT_BETA2 * v[i] + (1 - GPT_BETA2) * g * g;
    float step = first / (1 - update->beta1) / (sqrtf(second / (1 - update->beta2)) + GPT_EPSILON);
    m[i] = first;
    v[i] = second;
    value[i] -= rate * (step + decay * value[i]);
}

extern "C" cudaError_t gpt_adamw_squares(float *squares, struct gpt_update *update,
                                         const float *gradient, size_t n, bool atomics,
                                         cudaStream_t stream)
{
    unsigned blocks = (unsigned)gpt_chunks(n, GPT_SQUARES);

    if (atomics)
        adamw_squares_atomic<<<blocks, THREADS, 0, stream>>>(update, gradient, n);
    else
        adamw_squares<<<blocks, THREADS, 0, stream>>>(squares, gradient, n);
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_adamw_begin(struct gpt_update *update, const float *squares, size_t n,
                                       float limit, bool atomics, cudaStream_t stream)
{
    adamw_begin<<<1, THREADS, 0, stream>>>(update, squares, atomics ? 0 : n, limit);
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_adamw_update(float *value, float *m, float *v, const float *gradient,
                                        const struct gpt_update *update, float rate, float decay,
                                        size_t n, cudaStream_t stream)
{
    unsigned blocks = (unsigned)gpt_chunks(n, THREADS);

    adamw_update<<<blocks, THREADS, 0, stream>>>(value, m, v, gradient, update, rate, decay, n);
    return cudaGetLastError();
}
