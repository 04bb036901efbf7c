/*
 * Embeddings of tokens and positions. The way back is a scatter: many rows add to the row of one
 * token. In a fixed order each token collects its rows; with atomics each row adds where it
 * belongs.
 */
#include "examples/cuda_gpt/columns.cuh"

#define THREADS 256

extern "C" __global__ void embedding_forward(float *y, const int *tokens, const float *token,
                                             const float *position, size_t n, int context,
                                             int width)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, row = i / width;
    int c = (int)(i % width);

    if (i < n)
        y[i] = token[(size_t)tokens[row] * width + c] + position[row % context * width + c];
}

/* a block has 32 columns of one token */
extern "C" __global__ void embedding_backward_token(float *dtoken, const float *dy,
                                                    const int *tokens, int rows, int width)
{
    __shared__ struct column_sums s;
    int c = blockIdx.x * COLUMNS + threadIdx.x, token = blockIdx.y;
    float sum = 0;

    for (int r = threadIdx.y; r < rows; r += ROW_THREADS)
        if (tokens[r] == token && c < width)
            sum += dy[(size_t)r * width + c];
    sum = column_sum(&s, sum);
    if (threadIdx.y == 0 && c < width)
        dtoken[(size_t)token * width + c] = sum;
}

extern "C" __global__ void embedding_backward_position(float *dposition, const float *dy, int batch,
                                                       size_t n)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    float sum = 0;

    if (i >= n)
        return;
    for (int b = 0; b < batch; b++)
        sum += dy[b * n + i];
    dposition[i] = sum;
}

extern "C" __global__ void embedding_backward_atomic(float *dtoken, float *dposition,
                                                     const float *dy, const int *tokens, size_t n,
                                                     int context, int width)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, row = i / width;
    int c = (int)(i % width);

    if (i >= n)
        return;
    atomicAdd(&dtoken[(size_t)tokens[row] * width + c], dy[i]);
    atomicAdd(&dposition[row % context * width + c], dy[i]);
}

static unsigned blocks_for(size_t n)
{
    return (unsigned)gpt_chunks(n, THREADS);
}

extern "C" cudaError_t gpt_embedding_forward(float *y, const int *tokens, const float *token,
                                             const float *position, int batch, int context,
                                             int width, cudaStream_t stream)
{
    size_t n = (size_t)batch * context * width;

    embedding_forward<<<blocks_for(n), THREADS, 0, stream>>>(y, tokens, token, position, n, context,
                                                             width);
    return cudaGetLastError();
}

static cudaError_t backward_atomic(float *dtoken, float *dposition, const float *dy,
                                   const int *tokens, int batch, int context, int width,
                                   int vocabulary, cudaStream_t stream)
{
    size_t n = (size_t)batch * context * width;
    size_t token_bytes = (size_t)vocabulary * width * sizeof(float);
    size_t position_bytes = (size_t)context * width * sizeof(float);
    cudaError_t e;

    if ((e = cudaMemsetAsync(dtoken, 0, token_bytes, stream)) ||
        (e = cudaMemsetAsync(dposition, 0, position_bytes, stream)))
        return e;
    embedding_backward_atomic<<<blocks_for(n), THREADS, 0, stream>>>(dtoken, dposition, dy, tokens,
                                                                     n, context, width);
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_embedding_backward(float *dtoken, float *dposition, const float *dy,
                                              const int *tokens, int batch, int context, int width,
                                              int vocabulary, bool atomics, cudaStream_t stream)
{
    dim3 grid((unsigned)gpt_chunks(width, COLUMNS), (unsigned)vocabulary), block = column_block();
    size_t n = (size_t)context * width;
    cudaError_t e;

    if (atomics)
        return backward_atomic(dtoken, dposition, dy, tokens, batch, context, width, vocabulary,
                               stream);
    embedding_backward_token<<<grid, block, 0, stream>>>(dtoken, dy, tokens, batch * context,
                                                         width);
    e = cudaGetLastError();
    if (e != cudaSuccess)
        return e;
    embedding_backward_position<<<blocks_for(n), THREADS, 0, stream>>>(dposition, dy, batch, n);
    return cudaGetLastError();
}
