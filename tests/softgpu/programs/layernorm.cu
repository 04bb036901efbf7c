// Layer normalization: forward by a block a row (Welford), backward with shared partial sums and
// atomics for the weights.
#include "check.cuh"

struct moments {
    float n, mean, m2;
};

__device__ moments combine(moments a, moments b)
{
    float n = a.n + b.n;
    if (n == 0)
        return a;
    float d = b.mean - a.mean;
    return {n, a.mean + d * (b.n / n), a.m2 + b.m2 + d * d * (a.n * b.n / n)};
}

__global__ void forward(float *out, float *mean, float *rstd, const float *in, const float *w,
                        const float *b, int cols)
{
    __shared__ moments part[32];
    const float *x = in + (size_t)blockIdx.x * cols;
    moments m = {0, 0, 0};
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        m = combine(m, {1, x[i], 0});
    for (int d = 16; d > 0; d /= 2)
        m = combine(m, {__shfl_xor_sync(~0u, m.n, d), __shfl_xor_sync(~0u, m.mean, d),
                        __shfl_xor_sync(~0u, m.m2, d)});
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = m;
    __syncthreads();
    m = part[0];
    for (int i = 1; i < (int)blockDim.x / 32; i++)
        m = combine(m, part[i]);
    float rs = rsqrtf(m.m2 / cols + 1e-5f);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = m.mean;
        rstd[blockIdx.x] = rs;
    }
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        out[(size_t)blockIdx.x * cols + i] = (x[i] - m.mean) * rs * w[i] + b[i];
}

__global__ void backward(float *dx, float *dw, float *db, const float *dy, const float *in,
                         const float *w, const float *mean, const float *rstd, int rows, int cols)
{
    extern __shared__ float s[];
    float *sw = s, *sb = s + cols;
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 2 * cols; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row < rows) {
        const float *x = in + (size_t)row * cols, *g = dy + (size_t)row * cols;
        float a = 0, c = 0;
        for (int i = lane; i < cols; i += 32) {
            float norm = (x[i] - mean[row]) * rstd[row], gw = g[i] * w[i];
            a += gw;
            c += gw * norm;
            atomicAdd(&sw[i], g[i] * norm);
            atomicAdd(&sb[i], g[i]);
        }
        for (int d = 16; d > 0; d /= 2) {
            a += __shfl_xor_sync(~0u, a, d);
            c += __shfl_xor_sync(~0u, c, d);
        }
        for (int i = lane; i < cols; i += 32) {
            float norm = (x[i] - mean[row]) * rstd[row];
            dx[(size_t)row * cols + i] = rstd[row] * (g[i] * w[i] - a / cols - norm * c / cols);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        atomicAdd(&dw[i], sw[i]);
        atomicAdd(&db[i], sb[i]);
    }
}

int main()
{
    const int rows = 37, cols = 200, n = rows * cols;
    auto x = random_reals<float>(n, 121, -3, 5), dy = random_reals<float>(n, 122);
    auto w = random_reals<float>(cols, 123), b = random_reals<float>(cols, 124);
    std::vector<float> y(n), dx(n), dw(cols), db(cols);
    std::vector<double> sw(cols), sb(cols);
    for (int r = 0; r < rows; r++) {
        double mean = 0, var = 0, a = 0, c = 0;
        const float *xr = &x[(size_t)r * cols], *g = &dy[(size_t)r * cols];
        for (int i = 0; i < cols; i++)
            mean += xr[i] / (double)cols;
        for (int i = 0; i < cols; i++)
            var += (xr[i] - mean) * (xr[i] - mean) / cols;
        double rs = 1 / sqrt(var + 1e-5);
        for (int i = 0; i < cols; i++) {
            double norm = (xr[i] - mean) * rs;
            y[r * cols + i] = (float)(norm * w[i] + b[i]);
            a += (double)g[i] * w[i], c += g[i] * w[i] * norm;
            sw[i] += g[i] * norm, sb[i] += g[i];
        }
        for (int i = 0; i < cols; i++)
            dx[r * cols + i] =
                (float)(rs * ((double)g[i] * w[i] - a / cols - (xr[i] - mean) * rs * c / cols));
    }
    for (int i = 0; i < cols; i++)
        dw[i] = (float)sw[i], db[i] = (float)sb[i];
    dev<float> d_x(x), d_dy(dy), d_w(w), d_b(b), d_y(n), d_dx(n), d_dw(cols), d_db(cols),
        mean(rows), rstd(rows);
    forward<<<rows, 96>>>(d_y.p, mean.p, rstd.p, d_x.p, d_w.p, d_b.p, cols);
    backward<<<blocks_for(rows, 4), 128, 2 * cols * sizeof(float)>>>(
        d_dx.p, d_dw.p, d_db.p, d_dy.p, d_x.p, d_w.p, mean.p, rstd.p, rows, cols);
    SYNC();
    expect_close("forward", d_y.host(), y, 1e-5, 2e-6);
    expect_close("dx", d_dx.host(), dx, 1e-4, 2e-6);
    expect_close("dw", d_dw.host(), dw, 1e-4, 2e-5);
    expect_close("db", d_db.host(), db, 1e-4, 2e-5);
    return ok("layernorm: forward and backward");
}
