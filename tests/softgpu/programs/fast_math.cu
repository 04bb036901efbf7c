// Compiled with --use_fast_math: approximate functions within the documented error, subnormals
// flushed to zero, division and square root approximate.
// nvcc: --use_fast_math
#include "check.cuh"

enum { OUT = 14 };

__global__ void compute(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[2 * i], y = in[2 * i + 1], ax = fabsf(x) + 0.01f, *o = out + (size_t)i * OUT, s, c;
    o[0] = sinf(x);
    o[1] = cosf(x);
    o[2] = expf(x * 5);
    o[3] = exp10f(x);
    o[4] = logf(ax);
    o[5] = log2f(ax);
    o[6] = log10f(ax);
    o[7] = powf(ax, y);
    o[8] = x / (y + 4);
    o[9] = sqrtf(ax);
    o[10] = rsqrtf(ax);
    o[11] = tanf(x * 0.4f);
    sincosf(x, &s, &c);
    o[12] = s * s + c * c;
    o[13] = tanhf(x);
}

/* ftz: of a subnormal nothing is left */
__global__ void flush(float *out, const float *in)
{
    out[0] = in[0] + in[1];
    out[1] = in[0] * 4.f;
    out[2] = fmaf(in[2], in[3], in[1]);
    out[3] = in[0] > in[1] ? 1.f : 0.f;
    out[4] = fmaxf(in[0], in[1]);
    out[5] = __fdividef(1.f, 0x1.8p126f);
    out[6] = fabsf(in[0]);
}

int main()
{
    const int n = 1000;
    auto in = random_reals<float>(2 * n, 471, -3.1, 3.1);
    dev<float> din(in), out((size_t)n * OUT);
    compute<<<blocks_for(n, 128), 128>>>(out.p, din.p, n);
    SYNC();
    auto got = out.host();
    static const double REL[OUT] = {0,    0,    4e-6, 2e-6, 0,    0, 0,
                                    2e-5, 3e-7, 3e-7, 3e-7, 4e-6, 0, 3e-5};
    static const double ABS[OUT] = {1e-6, 1e-6, 0, 0, 4e-7, 4e-7, 4e-7,
                                    0,    0,    0, 0, 2e-6, 3e-6, 1e-5};
    for (int i = 0; i < n; i++) {
        float fx = in[2 * i];
        double x = fx, y = in[2 * i + 1], ax = fabsf(fx) + 0.01f;
        const double want[OUT] = {sin(x),     cos(x),       exp(fx * 5),
                                  pow(10, x), log(ax),      log2(ax),
                                  log10(ax),  pow(ax, y),   x / (in[2 * i + 1] + 4),
                                  sqrt(ax),   1 / sqrt(ax), tan(fx * 0.4f),
                                  1,          tanh(x)};
        for (int k = 0; k < OUT; k++)
            if (!(fabs(got[i * OUT + k] - want[k]) <= REL[k] * fabs(want[k]) + ABS[k]))
                fail("function %d of (%a, %a): %.9g instead of %.9g", k, x, y, got[i * OUT + k],
                     want[k]);
    }
    dev<float> tiny(std::vector<float>{0x1p-130f, 0, 0x1p-70f, 0x1p-70f}), flushed(7);
    flush<<<1, 1>>>(flushed.p, tiny.p);
    SYNC();
    expect_equal("flushed", flushed.host(), std::vector<float>(7));
    return ok("fast math: 14 functions, 7 flushed results");
}
