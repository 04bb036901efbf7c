// 2D convolution with filters in constant memory: separable in two passes, and a full one of
// several channels (im2col order), compared in the same order of additions.
#include "check.cuh"

enum { R = 4, TAPS = 2 * R + 1, K = 3, CIN = 3, COUT = 5 };

__constant__ float taps[TAPS];
__constant__ float weights[COUT][CIN][K][K];

template <bool VERTICAL> __global__ void separable(float *out, const float *in, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h)
        return;
    float sum = 0;
#pragma unroll
    for (int k = -R; k <= R; k++) {
        int xx = VERTICAL ? x : x + k, yy = VERTICAL ? y + k : y;
        if (xx >= 0 && xx < w && yy >= 0 && yy < h)
            sum = fmaf(in[yy * w + xx], taps[k + R], sum);
    }
    out[y * w + x] = sum;
}

__global__ void full(float *out, const float *in, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, o = blockIdx.z;
    int ow = w - K + 1, oh = h - K + 1;
    if (x >= ow)
        return;
    float sum = 0;
    for (int c = 0; c < CIN; c++)
        for (int i = 0; i < K; i++)
            for (int j = 0; j < K; j++)
                sum = fmaf(in[(c * h + y + i) * w + x + j], weights[o][c][i][j], sum);
    out[(o * oh + y) * ow + x] = fmaxf(sum, 0.f);
}

static std::vector<float> host_separable(const std::vector<float> &in, int w, int h,
                                         const std::vector<float> &t, bool vertical)
{
    std::vector<float> out(in.size());
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int k = -R; k <= R; k++) {
                int xx = vertical ? x : x + k, yy = vertical ? y + k : y;
                if (xx >= 0 && xx < w && yy >= 0 && yy < h)
                    out[y * w + x] = fmaf(in[yy * w + xx], t[k + R], out[y * w + x]);
            }
    return out;
}

int main()
{
    const int w = 61, h = 40;
    auto in = random_reals<float>(CIN * w * h, 101), t = random_reals<float>(TAPS, 102);
    auto f = random_reals<float>(COUT * CIN * K * K, 103);
    CHECK(cudaMemcpyToSymbol(taps, t.data(), sizeof taps));
    CHECK(cudaMemcpyToSymbol(weights, f.data(), sizeof weights));
    dev<float> din(in), mid(w * h), out(w * h);
    dim3 block(16, 8), grid(blocks_for(w, 16), blocks_for(h, 8));
    separable<false><<<grid, block>>>(mid.p, din.p, w, h);
    separable<true><<<grid, block>>>(out.p, mid.p, w, h);
    SYNC();
    std::vector<float> plane(in.begin(), in.begin() + w * h);
    expect_equal("separable", out.host(),
                 host_separable(host_separable(plane, w, h, t, false), w, h, t, true));

    const int ow = w - K + 1, oh = h - K + 1;
    std::vector<float> want(COUT * ow * oh);
    for (int o = 0; o < COUT; o++)
        for (int y = 0; y < oh; y++)
            for (int x = 0; x < ow; x++) {
                float sum = 0;
                for (int k = 0; k < CIN * K * K; k++) {
                    int c = k / (K * K), i = k / K % K, j = k % K;
                    sum = fmaf(in[(c * h + y + i) * w + x + j], f[o * CIN * K * K + k], sum);
                }
                want[(o * oh + y) * ow + x] = fmaxf(sum, 0.f);
            }
    dev<float> channels(want.size());
    full<<<dim3(blocks_for(ow, 32), oh, COUT), 32>>>(channels.p, din.p, w, h);
    SYNC();
    expect_equal("full", channels.host(), want);
    return ok("convolution: separable and full, filters in constant memory");
}
