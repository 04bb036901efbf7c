// What a training step is made of beside its products: cross entropy forward and backward, gelu,
// bias gradients, the global norm with clipping, and AdamW, each against double precision.
#include "check.cuh"

__global__ void cross_entropy(float *loss, float *dlogits, const float *logits, const int *target,
                              int v)
{
    const float *x = logits + (size_t)blockIdx.x * v;
    int lane = threadIdx.x, t = target[blockIdx.x];
    float m = -INFINITY, sum = 0;
    for (int i = lane; i < v; i += 32)
        m = fmaxf(m, x[i]);
    for (int d = 16; d > 0; d /= 2)
        m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    for (int i = lane; i < v; i += 32)
        sum += expf(x[i] - m);
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    for (int i = lane; i < v; i += 32)
        dlogits[(size_t)blockIdx.x * v + i] = (expf(x[i] - m) / sum - (i == t)) / gridDim.x;
    if (lane == 0)
        loss[blockIdx.x] = logf(sum) + m - x[t];
}

__global__ void gelu(float *y, float *dy, const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float c = x[i], inner = 0.7978845608f * (c + 0.044715f * c * c * c), t = tanhf(inner);
    y[i] = 0.5f * c * (1 + t);
    float sech2 = 1 - t * t;
    dy[i] = 0.5f * (1 + t) + 0.5f * c * sech2 * 0.7978845608f * (1 + 3 * 0.044715f * c * c);
}

__global__ void bias_gradient(float *db, const float *dy, int rows, int cols)
{
    __shared__ float s[8][33];
    int c = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int r = threadIdx.y; r < rows && c < cols; r += 8)
        sum += dy[r * cols + c];
    s[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < cols) {
        for (int k = 1; k < 8; k++)
            sum += s[k][threadIdx.x];
        db[c] = sum;
    }
}

__global__ void squares(double *total, const float *g, int n)
{
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += (double)g[i] * g[i];
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0)
        atomicAdd(total, sum);
}

__global__ void adamw(float *w, float *m, float *v, const float *g, const double *norm2, int step,
                      int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float norm = (float)sqrt(*norm2), x = g[i] * (norm > 1 ? 1 / norm : 1);
    m[i] = 0.9f * m[i] + 0.1f * x;
    v[i] = 0.95f * v[i] + 0.05f * x * x;
    float mh = m[i] / (1 - powf(0.9f, step)), vh = v[i] / (1 - powf(0.95f, step));
    w[i] -= 1e-2f * (mh / (sqrtf(vh) + 1e-8f) + 0.1f * w[i]);
}

static void losses()
{
    const int rows = 24, v = 131;
    auto x = random_reals<float>(rows * v, 551, -8, 8);
    auto target = random_ints<int>(rows, 552, 0, v);
    std::vector<float> loss(rows), grad(rows * v);
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < v; i++)
            sum += exp((double)x[r * v + i]);
        loss[r] = (float)(log(sum) - x[r * v + target[r]]);
        for (int i = 0; i < v; i++)
            grad[r * v + i] = (float)((exp((double)x[r * v + i]) / sum - (i == target[r])) / rows);
    }
    dev<float> dx(x), dloss(rows), dgrad(rows * v), db(v);
    dev<int> dtarget(target);
    cross_entropy<<<rows, 32>>>(dloss.p, dgrad.p, dx.p, dtarget.p, v);
    bias_gradient<<<blocks_for(v, 32), dim3(32, 8)>>>(db.p, dgrad.p, rows, v);
    SYNC();
    expect_close("loss", dloss.host(), loss, 1e-5, 1e-6);
    expect_close("gradient", dgrad.host(), grad, 1e-4, 1e-8);
    std::vector<float> bias(v);
    for (int i = 0; i < v; i++) {
        double sum = 0;
        for (int r = 0; r < rows; r++)
            sum += grad[r * v + i];
        bias[i] = (float)sum;
    }
    expect_close("bias", db.host(), bias, 1e-4, 1e-7);
}

static void activation()
{
    const int n = 900;
    auto x = random_reals<float>(n, 553, -4, 4);
    std::vector<float> y(n), dy(n);
    for (int i = 0; i < n; i++) {
        double c = x[i], k = 0.7978845608, t = tanh(k * (c + 0.044715 * c * c * c));
        y[i] = (float)(0.5 * c * (1 + t));
        dy[i] = (float)(0.5 * (1 + t) + 0.5 * c * (1 - t * t) * k * (1 + 3 * 0.044715 * c * c));
    }
    dev<float> dx(x), out(n), slope(n);
    gelu<<<blocks_for(n, 128), 128>>>(out.p, slope.p, dx.p, n);
    SYNC();
    expect_close("gelu", out.host(), y, 1e-5, 1e-6);
    expect_close("gelu slope", slope.host(), dy, 1e-5, 3e-6);
}

static void optimizer()
{
    const int n = 2000;
    auto w = random_reals<float>(n, 554);
    std::vector<double> hw(w.begin(), w.end()), m(n), v(n);
    dev<float> dw(w), dm(n), dv(n);
    dev<double> norm(1);
    for (int step = 1; step <= 4; step++) {
        auto g = random_reals<float>(n, 555 + step);
        dev<float> dg(g);
        norm.zero();
        squares<<<4, 128>>>(norm.p, dg.p, n);
        adamw<<<blocks_for(n, 128), 128>>>(dw.p, dm.p, dv.p, dg.p, norm.p, step, n);
        SYNC();
        double sum = 0;
        for (float x : g)
            sum += (double)x * x;
        expect_near("norm", norm.host()[0], sum, 1e-12);
        for (int i = 0; i < n; i++) {
            double x = g[i] / sqrt(sum);
            m[i] = 0.9 * m[i] + 0.1 * x, v[i] = 0.95 * v[i] + 0.05 * x * x;
            double mh = m[i] / (1 - pow(0.9, step)), vh = v[i] / (1 - pow(0.95, step));
            hw[i] -= 1e-2 * (mh / (sqrt(vh) + 1e-8) + 0.1 * hw[i]);
        }
    }
    expect_close("weights", dw.host(), std::vector<float>(hw.begin(), hw.end()), 1e-4, 1e-5);
}

int main()
{
    losses();
    activation();
    optimizer();
    return ok("training: cross entropy, gelu, bias, norm, adamw");
}
