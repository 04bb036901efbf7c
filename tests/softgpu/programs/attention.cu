// Causal attention: scores and softmax written out, and the same with the online softmax over tiles
// of keys in shared memory.
#include "check.cuh"

enum { D = 32, TILE = 16 };

__global__ void scores(float *s, const float *q, const float *k, int t)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y, h = blockIdx.z;
    if (j >= t)
        return;
    float dot = 0;
    for (int d = 0; d < D; d++)
        dot = fmaf(q[(h * t + i) * D + d], k[(h * t + j) * D + d], dot);
    s[(h * t + i) * t + j] = j <= i ? dot * rsqrtf((float)D) : -INFINITY;
}

__global__ void weigh(float *out, float *s, const float *v, int t)
{
    int d = threadIdx.x, i = blockIdx.x, h = blockIdx.y;
    float *row = s + (size_t)(h * t + i) * t, m = -INFINITY, sum = 0, acc = 0;
    for (int j = 0; j < t; j++)
        m = fmaxf(m, row[j]);
    for (int j = 0; j < t; j++) {
        float p = expf(row[j] - m);
        sum += p;
        acc = fmaf(p, v[(h * t + j) * D + d], acc);
    }
    out[(h * t + i) * D + d] = acc / sum;
}

/* a thread a query; keys and values come a tile at a time */
__global__ void online(float *out, const float *q, const float *k, const float *v, int t)
{
    __shared__ float sk[TILE][D], sv[TILE][D];
    int i = blockIdx.x * blockDim.x + threadIdx.x, h = blockIdx.y;
    float qr[D], acc[D], m = -INFINITY, sum = 0;
    for (int d = 0; d < D; d++) {
        qr[d] = i < t ? q[(h * t + i) * D + d] * rsqrtf((float)D) : 0;
        acc[d] = 0;
    }
    int last = min((int)((blockIdx.x + 1) * blockDim.x), t);
    for (int base = 0; base < last; base += TILE) {
        for (int e = threadIdx.x; e < TILE * D; e += blockDim.x) {
            int j = base + e / D;
            sk[e / D][e % D] = j < t ? k[(h * t + j) * D + e % D] : 0;
            sv[e / D][e % D] = j < t ? v[(h * t + j) * D + e % D] : 0;
        }
        __syncthreads();
        for (int j = 0; j < TILE && base + j <= i && i < t; j++) {
            float dot = 0;
#pragma unroll
            for (int d = 0; d < D; d++)
                dot = fmaf(qr[d], sk[j][d], dot);
            float bigger = fmaxf(m, dot), scale = __expf(m - bigger), p = __expf(dot - bigger);
            sum = sum * scale + p;
#pragma unroll
            for (int d = 0; d < D; d++)
                acc[d] = acc[d] * scale + p * sv[j][d];
            m = bigger;
        }
        __syncthreads();
    }
    for (int d = 0; d < D && i < t; d++)
        out[(h * t + i) * D + d] = acc[d] / sum;
}

int main()
{
    const int heads = 3, t = 70, n = heads * t * D;
    auto q = random_reals<float>(n, 131, -2, 2), k = random_reals<float>(n, 132, -2, 2);
    auto v = random_reals<float>(n, 133);
    std::vector<float> want(n);
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < t; i++) {
            std::vector<double> acc(D);
            double sum = 0;
            for (int j = 0; j <= i; j++) {
                double dot = 0;
                for (int d = 0; d < D; d++)
                    dot += (double)q[(h * t + i) * D + d] * k[(h * t + j) * D + d];
                double p = exp(dot / sqrt((double)D));
                sum += p;
                for (int d = 0; d < D; d++)
                    acc[d] += p * v[(h * t + j) * D + d];
            }
            for (int d = 0; d < D; d++)
                want[(h * t + i) * D + d] = (float)(acc[d] / sum);
        }
    dev<float> dq(q), dk(k), dv(v), s(heads * t * t), out(n);
    scores<<<dim3(blocks_for(t, 32), t, heads), 32>>>(s.p, dq.p, dk.p, t);
    weigh<<<dim3(t, heads), D>>>(out.p, s.p, dv.p, t);
    SYNC();
    expect_close("written out", out.host(), want, 2e-5, 2e-6);
    out.zero();
    online<<<dim3(blocks_for(t, 64), heads), 64>>>(out.p, dq.p, dk.p, dv.p, t);
    SYNC();
    expect_close("online", out.host(), want, 5e-5, 5e-6);
    return ok("attention: written out and online");
}
