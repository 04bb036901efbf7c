/*
 * columns.cuh - sums over the rows of a matrix, for each column, in an order that is fixed.
 *
 * A block of 32 x 8 threads has 32 columns and GPT_CHUNK rows: each thread sums every eighth row,
 * then thread (c, 0) the eight of its column. What the blocks of a column found is summed by
 * gpt_columns_finish(), again in order, or by atomicAdd in the order in which blocks end.
 */
#ifndef CUDA_GPT_COLUMNS_CUH
#define CUDA_GPT_COLUMNS_CUH

#include "examples/cuda_gpt/kernels.h"

#define COLUMNS 32
#define ROW_THREADS 8

struct column_sums {
    float of[ROW_THREADS][COLUMNS];
};

/* all threads of the block call it; the sum is right where threadIdx.y is 0 */
static __device__ inline float column_sum(struct column_sums *s, float mine)
{
    __syncthreads();
    s->of[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    float sum = 0;
    if (threadIdx.y == 0)
        for (int i = 0; i < ROW_THREADS; i++)
            sum += s->of[i][threadIdx.x];
    return sum;
}

static inline dim3 column_grid(int rows, int cols)
{
    return dim3((unsigned)gpt_chunks(cols, COLUMNS), (unsigned)gpt_chunks(rows, GPT_CHUNK));
}

static inline dim3 column_block(void)
{
    return dim3(COLUMNS, ROW_THREADS);
}

/* out[cols] = the sum of @chunks rows of partial */
extern "C" cudaError_t gpt_columns_finish(float *out, const float *partial, int chunks, int cols,
                                          cudaStream_t stream);

#endif
