/*
 * Products of matrices. A block makes a tile of 64 x 64 of the result, each of its 256 threads 4 x
 * 4 of it, and goes along the inner dimension in steps of 16 through shared memory: one order.
 *
 * The variants with atomics cut the inner dimension into as many as MAX_PARTS parts (blockIdx.z);
 * each adds its products to the result when it has them.
 */
#include "examples/cuda_gpt/columns.cuh"

#define TILE 64
#define STEP 16
#define EACH 4           /* a thread makes EACH x EACH */
#define PITCH (TILE + 4) /* of shared memory: rows stay aligned to 16 bytes */
#define THREADS ((TILE / EACH) * (TILE / EACH))
#define MAX_PARTS 8

/*
 * load_tile - tile[k][i] = m(i0 + i, k0 + k), zero outside of it
 * Element (i, k) of m is m[i * pitch + k] if k runs along its rows, else m[k * pitch + i]; threads
 * that follow one another read what lies side by side.
 */
template <bool ALONG>
static __device__ inline void load_tile(float (*tile)[PITCH], const float *m, int pitch, int i0,
                                        int i_end, int k0, int k_end)
{
    for (int t = threadIdx.x; t < TILE * STEP; t += THREADS) {
        int k = ALONG ? t % STEP : t / TILE, i = ALONG ? t / STEP : t % TILE;
        bool inside = i0 + i < i_end && k0 + k < k_end;
        size_t at = ALONG ? (size_t)(i0 + i) * pitch + k0 + k : (size_t)(k0 + k) * pitch + i0 + i;
        tile[k][i] = inside ? m[at] : 0;
    }
}

/* sum[a][b] += products of what both tiles have for this thread's rows and columns */
static __device__ inline void multiply_tiles(float (*sum)[EACH], float (*ta)[PITCH],
                                             float (*tb)[PITCH], int row, int col)
{
#pragma unroll
    for (int k = 0; k < STEP; k++) {
        float4 a4 = *(const float4 *)&ta[k][row], b4 = *(const float4 *)&tb[k][col];
        float a[EACH] = {a4.x, a4.y, a4.z, a4.w}, b[EACH] = {b4.x, b4.y, b4.z, b4.w};
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
                sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
    }
}

/* c[m,n] = a[m,k] b[k,n]: this block's tile, over this block's part of k */
template <bool A_ALONG, bool B_ALONG, bool ATOMICS>
static __device__ inline void product(float *c, const float *a, const float *b, const float *bias,
                                      const float *residual, int m, int n, int k, int pitch_a,
                                      int pitch_b)
{
    __shared__ __align__(16) float ta[STEP][PITCH], tb[STEP][PITCH];
    int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
    int row = threadIdx.x / (TILE / EACH) * EACH, col = threadIdx.x % (TILE / EACH) * EACH;
    int steps = (k + STEP - 1) / STEP, parts = gridDim.z;
    int begin = (int)((long long)steps * blockIdx.z / parts) * STEP;
    int end = min(k, (int)((long long)steps * (blockIdx.z + 1) / parts) * STEP);
    float sum[EACH][EACH] = {};

    for (int k0 = begin; k0 < end; k0 += STEP) {
        load_tile<A_ALONG>(ta, a, pitch_a, row0, m, k0, end);
        load_tile<B_ALONG>(tb, b, pitch_b, col0, n, k0, end);
        __syncthreads();
        multiply_tiles(sum, ta, tb, row, col);
        __syncthreads();
    }
    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < EACH; j++) {
            int r = row0 + row + i, s = col0 + col + j;
            size_t at = (size_t)r * n + s;
            if (r >= m || s >= n)
                continue;
            float more = 0;
            if (bias && blockIdx.z == 0)
                more += bias[s];
            if (residual && blockIdx.z == 0)
                more += residual[at];
            if (ATOMICS)
                atomicAdd(&c[at], sum[i][j] + more);
            else
                c[at] = sum[i][j] + more;
        }
    }
}

#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)

KERNEL matmul_forward(float *y, const float *x, const float *w, const float *bias,
                      const float *residual, int rows, int in, int out)
{
    product<true, false, false>(y, x, w, bias, residual, rows, out, in, in, out);
}

KERNEL matmul_forward_atomic(float *y, const float *x, const float *w, const float *bias,
                             const float *residual, int rows, int in, int out)
{
    product<true, false, true>(y, x, w, bias, residual, rows, out, in, in, out);
}

KERNEL matmul_backward_input(float *dx, const float *dy, const float *w, int rows, int in, int out)
{
    product<true, true, false>(dx, dy, w, NULL, NULL, rows, in, out, out, out);
}

KERNEL matmul_backward_input_atomic(float *dx, const float *dy, const float *w, int rows, int in,
                                    int out)
{
    product<true, true, true>(dx, dy, w, NULL, NULL, rows, in, out, out, out);
}

KERNEL matmul_backward_weight(float *dw, const float *x, const float *dy, int rows, int in, int out)
{
    product<false, false, false>(dw, x, dy, NULL, NULL, in, out, rows, in, out);
}

KERNEL matmul_backward_weight_atomic(float *dw, const float *x, const float *dy, int rows, int in,
                                     int out)
{
    product<false, false, true>(dw, x, dy, NULL, NULL, in, out, rows, in, out);
}

template <bool ATOMICS>
static __device__ inline void bias_chunk(float *out, const float *dy, int rows, int cols)
{
    __shared__ struct column_sums s;
    int c = blockIdx.x * COLUMNS + threadIdx.x, begin = blockIdx.y * GPT_CHUNK;
    int end = min(rows, begin + GPT_CHUNK);
    float sum = 0;

    for (int r = begin + threadIdx.y; r < end && c < cols; r += ROW_THREADS)
        sum += dy[(size_t)r * cols + c];
    sum = column_sum(&s, sum);
    if (threadIdx.y != 0 || c >= cols)
        return;
    if (ATOMICS)
        atomicAdd(&out[c], sum);
    else
        out[(size_t)blockIdx.y * cols + c] = sum;
}

extern "C" __global__ void matmul_backward_bias(float *partial, const float *dy, int rows, int out)
{
    bias_chunk<false>(partial, dy, rows, out);
}

extern "C" __global__ void matmul_backward_bias_atomic(float *dbias, const float *dy, int rows,
                                                       int out)
{
    bias_chunk<true>(dbias, dy, rows, out);
}

/* a block for each tile of c[m,n]; with atomics several, and c is cleared for them */
static cudaError_t prepare(dim3 *grid, float *c, int m, int n, int k, bool atomics,
                           cudaStream_t stream)
{
    size_t parts = gpt_chunks(k, STEP);

    *grid = dim3((unsigned)gpt_chunks(n, TILE), (unsigned)gpt_chunks(m, TILE));
    if (!atomics)
        return cudaSuccess;
    grid->z = (unsigned)(parts < MAX_PARTS ? parts : MAX_PARTS);
    return cudaMemsetAsync(c, 0, (size_t)m * n * sizeof(*c), stream);
}

extern "C" cudaError_t gpt_matmul_forward(float *y, const float *x, const float *w,
                                          const float *bias, const float *residual, int rows,
                                          int in, int out, bool atomics, cudaStream_t stream)
{
    dim3 grid;
    cudaError_t e = prepare(&grid, y, rows, out, in, atomics, stream);

    if (e != cudaSuccess)
        return e;
    if (atomics)
        matmul_forward_atomic<<<grid, THREADS, 0, stream>>>(y, x, w, bias, residual, rows, in, out);
    else
        matmul_forward<<<grid, THREADS, 0, stream>>>(y, x, w, bias, residual, rows, in, out);
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_matmul_backward_input(float *dx, const float *dy, const float *w,
                                                 int rows, int in, int out, bool atomics,
                                                 cudaStream_t stream)
{
    dim3 grid;
    cudaError_t e = prepare(&grid, dx, rows, in, out, atomics, stream);

    if (e != cudaSuccess)
        return e;
    if (atomics)
        matmul_backward_input_atomic<<<grid, THREADS, 0, stream>>>(dx, dy, w, rows, in, out);
    else
        matmul_backward_input<<<grid, THREADS, 0, stream>>>(dx, dy, w, rows, in, out);
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_matmul_backward_weight(float *dw, const float *x, const float *dy,
                                                  int rows, int in, int out, bool atomics,
                                                  cudaStream_t stream)
{
    dim3 grid;
    cudaError_t e = prepare(&grid, dw, in, out, rows, atomics, stream);

    if (e != cudaSuccess)
        return e;
    if (atomics)
        matmul_backward_weight_atomic<<<grid, THREADS, 0, stream>>>(dw, x, dy, rows, in, out);
    else
        matmul_backward_weight<<<grid, THREADS, 0, stream>>>(dw, x, dy, rows, in, out);
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_matmul_backward_bias(float *dbias, float *partial, const float *dy,
                                                int rows, int out, bool atomics,
                                                cudaStream_t stream)
{
    dim3 grid = column_grid(rows, out), block = column_block();
    cudaError_t e;

    if (atomics) {
        e = cudaMemsetAsync(dbias, 0, (size_t)out * sizeof(*dbias), stream);
        if (e != cudaSuccess)
            return e;
        matmul_backward_bias_atomic<<<grid, block, 0, stream>>>(dbias, dy, rows, out);
        return cudaGetLastError();
    }
    matmul_backward_bias<<<grid, block, 0, stream>>>(partial, dy, rows, out);
    e = cudaGetLastError();
    return e != cudaSuccess ? e : gpt_columns_finish(dbias, partial, (int)grid.y, out, stream);
}
