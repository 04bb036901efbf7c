/* The second pass of sums over rows; see columns.cuh. */
#include "examples/cuda_gpt/columns.cuh"

extern "C" __global__ void columns_finish(float *out, const float *partial, int chunks, int cols)
{
    __shared__ struct column_sums s;
    int c = blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0;

    for (int i = threadIdx.y; i < chunks && c < cols; i += ROW_THREADS)
        sum += partial[(size_t)i * cols + c];
    sum = column_sum(&s, sum);
    if (threadIdx.y == 0 && c < cols)
        out[c] = sum;
}

extern "C" cudaError_t gpt_columns_finish(float *out, const float *partial, int chunks, int cols,
                                          cudaStream_t stream)
{
    unsigned blocks = (unsigned)gpt_chunks(cols, COLUMNS);

    columns_finish<<<blocks, column_block(), 0, stream>>>(out, partial, chunks, cols);
    return cudaGetLastError();
}
