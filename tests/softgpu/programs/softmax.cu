// Row softmax: three passes by a block, online (maximum and sum in one pass) by a warp, and its
// backward; masked entries of minus infinity.
#include "check.cuh"

#include <algorithm>

template <bool MAX> __device__ float block_combine(float x)
{
    __shared__ float part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int d = 16; d > 0; d /= 2) {
        float y = __shfl_xor_sync(~0u, x, d);
        x = MAX ? fmaxf(x, y) : x + y;
    }
    __syncthreads();
    if (lane == 0)
        part[warp] = x;
    __syncthreads();
    x = part[0];
    for (int w = 1; w < warps; w++)
        x = MAX ? fmaxf(x, part[w]) : x + part[w];
    return x;
}

__global__ void softmax_block(float *out, const float *in, int cols)
{
    const float *row = in + (size_t)blockIdx.x * cols;
    float m = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        m = fmaxf(m, row[i]);
    m = block_combine<true>(m);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        sum += expf(row[i] - m);
    sum = block_combine<false>(sum);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        out[(size_t)blockIdx.x * cols + i] = expf(row[i] - m) / sum;
}

__global__ void softmax_online(float *out, const float *in, int rows, int cols)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const float *x = in + (size_t)row * cols;
    float m = -INFINITY, sum = 0;
    for (int i = lane; i < cols; i += 32) {
        float bigger = fmaxf(m, x[i]);
        if (bigger > -INFINITY)
            sum = sum * __expf(m - bigger) + __expf(x[i] - bigger);
        m = bigger;
    }
    for (int d = 16; d > 0; d /= 2) {
        float m2 = __shfl_xor_sync(~0u, m, d), sum2 = __shfl_xor_sync(~0u, sum, d);
        float bigger = fmaxf(m, m2);
        sum = (m > -INFINITY ? sum * __expf(m - bigger) : 0) +
              (m2 > -INFINITY ? sum2 * __expf(m2 - bigger) : 0);
        m = bigger;
    }
    for (int i = lane; i < cols; i += 32)
        out[(size_t)row * cols + i] = __fdividef(__expf(x[i] - m), sum);
}

__global__ void softmax_backward(float *dx, const float *y, const float *dy, int cols)
{
    size_t row = (size_t)blockIdx.x * cols;
    float dot = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        dot += y[row + i] * dy[row + i];
    dot = block_combine<false>(dot);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        dx[row + i] = y[row + i] * (dy[row + i] - dot);
}

int main()
{
    const int rows = 21, cols = 301;
    auto in = random_reals<float>(rows * cols, 111, -20, 20),
         dy = random_reals<float>(rows * cols, 112);
    for (int i = 0; i < rows * cols; i += 13)
        in[i] = -INFINITY;
    std::vector<float> want(in.size()), dwant(in.size());
    for (int r = 0; r < rows; r++) {
        const float *x = &in[(size_t)r * cols];
        double m = *std::max_element(x, x + cols), sum = 0, dot = 0;
        for (int i = 0; i < cols; i++)
            sum += exp(x[i] - m);
        for (int i = 0; i < cols; i++)
            want[r * cols + i] = (float)(exp(x[i] - m) / sum);
        for (int i = r * cols; i < (r + 1) * cols; i++)
            dot += (double)want[i] * dy[i];
        for (int i = r * cols; i < (r + 1) * cols; i++)
            dwant[i] = (float)(want[i] * (dy[i] - dot));
    }
    dev<float> din(in), out(in.size()), ddy(dy), dx(in.size());
    softmax_block<<<rows, 128>>>(out.p, din.p, cols);
    softmax_backward<<<rows, 64>>>(dx.p, out.p, ddy.p, cols);
    SYNC();
    expect_close("block", out.host(), want, 1e-5, 1e-30);
    expect_close("backward", dx.host(), dwant, 1e-4, 1e-7);
    out.zero();
    softmax_online<<<blocks_for(rows, 4), 128>>>(out.p, din.p, rows, cols);
    SYNC();
    expect_close("online", out.host(), want, 2e-5, 1e-30);
    return ok("softmax: three-pass, online, backward");
}
