/*
 * Softmax and cross-entropy, forward and backward at once: a warp has a row. The mean of the rows'
 * losses is taken by one block in a fixed order, or by an atomicAdd of each row.
 */
#include "examples/cuda_gpt/kernels.h"

#define WARPS 4 /* in a block: rows */
#define THREADS 256

static __device__ inline float warp_sum(float x)
{
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_xor_sync(~0u, x, d);
    return x;
}

static __device__ inline float warp_max(float x)
{
    for (int d = 16; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

/* the loss of this warp's row; writes its dlogits */
static __device__ inline float row_loss(float *dlogits, const float *logits, int target, int rows,
                                        int vocabulary)
{
    int lane = threadIdx.x % 32;
    float most = -INFINITY, sum = 0;

    for (int i = lane; i < vocabulary; i += 32)
        most = fmaxf(most, logits[i]);
    most = warp_max(most);
    for (int i = lane; i < vocabulary; i += 32)
        sum += expf(logits[i] - most);
    sum = warp_sum(sum);
    for (int i = lane; i < vocabulary; i += 32)
        dlogits[i] = (expf(logits[i] - most) / sum - (i == target ? 1.0f : 0.0f)) / rows;
    return logf(sum) + most - logits[target];
}

template <bool ATOMICS>
static __device__ inline void rows_of_block(float *loss, float *losses, float *dlogits,
                                            const float *logits, const int *targets, int rows,
                                            int vocabulary)
{
    int row = blockIdx.x * WARPS + threadIdx.x / 32;
    size_t at = (size_t)row * vocabulary;

    if (row >= rows)
        return;
    float mine = row_loss(dlogits + at, logits + at, targets[row], rows, vocabulary);
    if (threadIdx.x % 32 != 0)
        return;
    losses[row] = mine;
    if (ATOMICS)
        atomicAdd(loss, mine / rows);
}

extern "C" __global__ void crossentropy(float *losses, float *dlogits, const float *logits,
                                        const int *targets, int rows, int vocabulary)
{
    rows_of_block<false>(NULL, losses, dlogits, logits, targets, rows, vocabulary);
}

extern "C" __global__ void crossentropy_atomic(float *loss, float *losses, float *dlogits,
                                               const float *logits, const int *targets, int rows,
                                               int vocabulary)
{
    rows_of_block<true>(loss, losses, dlogits, logits, targets, rows, vocabulary);
}

extern "C" __global__ void crossentropy_mean(float *loss, const float *losses, int rows)
{
    __shared__ float s[THREADS];
    float sum = 0;

    for (int r = threadIdx.x; r < rows; r += THREADS)
        sum += losses[r] / rows;
    s[threadIdx.x] = sum;
    for (int d = THREADS / 2; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < (unsigned)d)
            s[threadIdx.x] += s[threadIdx.x + d];
    }
    if (threadIdx.x == 0)
        *loss = s[0];
}

extern "C" cudaError_t gpt_crossentropy(float *loss, float *losses, float *dlogits,
                                        const float *logits, const int *targets, int rows,
                                        int vocabulary, bool atomics, cudaStream_t stream)
{
    unsigned blocks = (unsigned)gpt_chunks(rows, WARPS);
    cudaError_t e;

    if (atomics) {
        e = cudaMemsetAsync(loss, 0, sizeof(*loss), stream);
        if (e != cudaSuccess)
            return e;
        crossentropy_atomic<<<blocks, WARPS * 32, 0, stream>>>(loss, losses, dlogits, logits,
                                                               targets, rows, vocabulary);
        return cudaGetLastError();
    }
    crossentropy<<<blocks, WARPS * 32, 0, stream>>>(losses, dlogits, logits, targets, rows,
                                                    vocabulary);
    e = cudaGetLastError();
    if (e != cudaSuccess)
        return e;
    crossentropy_mean<<<1, THREADS, 0, stream>>>(loss, losses, rows);
    return cudaGetLastError();
}
