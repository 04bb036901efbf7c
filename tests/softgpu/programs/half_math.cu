// half and bfloat16 arithmetic, scalar and packed, against rounding once from double; comparisons,
// conversions in all modes, functions, fma with relu, atomics.
#include "check.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

enum { OUT = 24 };

struct half_type {
    using scalar = __half;
    using pair = __half2;
    enum { bits = 10, min_exponent = -14, max_exponent = 15 };
};
struct bf16_type {
    using scalar = __nv_bfloat16;
    using pair = __nv_bfloat162;
    enum { bits = 7, min_exponent = -126, max_exponent = 127 };
};

__device__ float as_float(__half x)
{
    return __half2float(x);
}
__device__ float as_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* every result as the float with its value */
template <class T> __global__ void compute(float *out, const typename T::scalar *in, int n)
{
    using pair = typename T::pair;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    auto a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    float *o = out + (size_t)i * OUT;
    o[0] = as_float(a + b);
    o[1] = as_float(a - b);
    o[2] = as_float(a * b);
    o[3] = as_float(__hfma(a, b, c));
    o[4] = as_float(__hadd_sat(a, b));
    o[5] = as_float(__hfma_relu(a, b, c));
    o[6] = as_float(__hmax(a, b));
    o[7] = as_float(__hmin_nan(a, b));
    o[8] = as_float(-a) + as_float(__habs(b));
    o[9] = __hlt(a, b) * 4 + __heq(a, b) * 2 + __hge(a, c) + __hisnan(a) * 8;
    pair p, q, r;
    p.x = a, p.y = b, q.x = c, q.y = a, r.x = b, r.y = c;
    pair s = __hadd2(p, q), f = __hfma2(p, q, r), m = __hmul2(p, r), x = __hmax2(p, q);
    o[10] = as_float(s.x), o[11] = as_float(s.y), o[12] = as_float(f.x), o[13] = as_float(f.y);
    o[14] = as_float(m.x), o[15] = as_float(m.y), o[16] = as_float(x.x), o[17] = as_float(x.y);
    pair less = __hlt2(p, q), sub = __hsub2(q, r);
    o[18] = as_float(less.x) + 2 * as_float(less.y) + 4 * __hbeq2(p, p);
    o[19] = as_float(sub.x), o[20] = as_float(sub.y);
    o[21] = as_float(hfloor(a)), o[22] = as_float(htrunc(b)), o[23] = as_float(hrint(c));
}

/* the nearest value of T, ties to even, subnormals kept */
template <class T> static float rounded(double x)
{
    if (x == 0 || !std::isfinite(x))
        return (float)x;
    int e;
    frexp(x, &e);
    e = (e - 1 > T::min_exponent ? e - 1 : (int)T::min_exponent) - T::bits;
    double r = ldexp(nearbyint(ldexp(x, -e)), e);
    return (float)(fabs(r) >= ldexp(1, T::max_exponent + 1) ? copysign(INFINITY, x) : r);
}

/* a * b + c rounded to odd: rounding it again to fewer bits is as good as rounding once */
static double odd_fma(double a, double b, double c)
{
    double p = a * b, s = p + c; // p is exact
    if (!std::isfinite(s))
        return s;
    double t = s - p, rest = (p - (s - t)) + (c - t);
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    return rest == 0 || bits & 1 ? s : nextafter(s, rest > 0 ? INFINITY : -INFINITY);
}

template <class T> static void reference(float *o, double a, double b, double c)
{
    auto r = [](double x) { return rounded<T>(x); };
    auto fma = [](double x, double y, double z) { return rounded<T>(odd_fma(x, y, z)); };
    auto add = [](double x, double y) { return rounded<T>(odd_fma(x, 1, y)); };
    auto larger = [](double x, double y) { return std::isnan(x) || y > x ? y : x; };
    o[0] = add(a, b), o[1] = add(a, -b), o[2] = r(a * b), o[3] = fma(a, b, c);
    double sum = add(a, b), sum3 = fma(a, b, c);
    o[4] = sum > 0 ? sum < 1 ? (float)sum : 1 : 0;
    o[5] = std::isnan(sum3) ? NAN : sum3 > 0 ? (float)sum3 : 0;
    o[6] = (float)larger(a, b);
    o[7] = std::isnan(a) || std::isnan(b) ? NAN : (float)(a < b ? a : b);
    o[8] = (float)-a + (float)fabs(b);
    o[9] = (a < b) * 4 + (a == b) * 2 + (a >= c) + std::isnan(a) * 8;
    o[10] = add(a, c), o[11] = add(b, a), o[12] = fma(a, c, b), o[13] = fma(b, a, c);
    o[14] = r(a * b), o[15] = r(b * c), o[16] = (float)larger(a, c), o[17] = (float)larger(b, a);
    o[18] = (a < c) + 2 * (b < a) + 4 * (a == a && b == b);
    o[19] = add(c, -b), o[20] = add(a, -c);
    o[21] = (float)floor(a), o[22] = (float)trunc(b), o[23] = (float)rint(c);
}

template <class T> static void run(const char *what)
{
    const int n = 2000;
    rng g(441 + T::bits);
    std::vector<typename T::scalar> in(3 * n);
    std::vector<float> want((size_t)n * OUT);
    const float special[] = {
        0, -0.f, INFINITY, -INFINITY, NAN, 1, ldexpf(1, T::min_exponent - T::bits), 3.5f};
    for (auto &x : in)
        x = (typename T::scalar)(g.below(8)   ? ldexpf((float)g.real(-2, 2), (int)g.below(12) - 6)
                                 : g.below(2) ? special[g.below(8)]
                                              : ldexpf((float)g.real(-2, 2), T::min_exponent - 2));
    for (int i = 0; i < n; i++)
        reference<T>(&want[(size_t)i * OUT], (float)in[3 * i], (float)in[3 * i + 1],
                     (float)in[3 * i + 2]);
    dev<typename T::scalar> din(in);
    dev<float> out(want.size());
    compute<T><<<blocks_for(n, 64), 64>>>(out.p, din.p, n);
    SYNC();
    expect_close(what, out.host(), want, 0, 0);
}

__global__ void conversions(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i], *o = out + i * 10;
    o[0] = __half2float(__float2half_rn(x)), o[1] = __half2float(__float2half_rz(x));
    o[2] = __half2float(__float2half_ru(x)), o[3] = __half2float(__float2half_rd(x));
    o[4] = __bfloat162float(__float2bfloat16_rn(x)),
    o[5] = __bfloat162float(__float2bfloat16_rz(x));
    o[6] = __half2int_rn(__float2half(x)), o[7] = __half2float(__int2half_rn((int)(x * 100)));
    o[8] = __half2float(hsqrt(__float2half(fabsf(x)))),
    o[9] = __half2float(__ushort2half_rn((unsigned short)fabsf(x)));
}

__global__ void functions(float *out, const float *in)
{
    int i = threadIdx.x;
    __half h = __float2half(in[i]), a = __habs(h);
    __nv_bfloat16 b = __float2bfloat16(in[i]);
    float *o = out + i * 8;
    o[0] = __half2float(hexp(h)) / expf(__half2float(h)),
    o[1] = __half2float(hlog2(a)) - log2f(__half2float(a));
    o[2] = __half2float(hsin(h)) - sinf(__half2float(h)),
    o[3] = __half2float(hrcp(h)) * __half2float(h);
    o[4] = __half2float(hrsqrt(a)) * sqrtf(__half2float(a)),
    o[5] = __bfloat162float(hexp2(b)) / exp2f(__bfloat162float(b));
    o[6] = __bfloat162float(htanh(b)) - tanhf(__bfloat162float(b)),
    o[7] = __half2float(h2exp10(__half2half2(a)).y) / exp10f(__half2float(a));
}

__global__ void adds(__half *h, __half2 *h2, __nv_bfloat162 *b2)
{
    atomicAdd(h, __float2half(1));
    atomicAdd(h2, __floats2half2_rn(1, 2));
    atomicAdd(b2, __floats2bfloat162_rn(0.5f, -1));
}

int main()
{
    need_capability(8, 0);
    run<half_type>("half");
    run<bf16_type>("bfloat16");
    const int n = 500;
    auto in = random_reals<float>(n, 451, -300, 300);
    std::vector<float> want(n * 10);
    for (int i = 0; i < n; i++) {
        double x = in[i];
        float near = rounded<half_type>(x), *o = &want[i * 10];
        int e;
        frexp(x, &e);
        double up = ldexp(ceil(ldexp(x, 11 - e)), e - 11),
               down = ldexp(floor(ldexp(x, 11 - e)), e - 11);
        o[0] = near, o[1] = (float)(x > 0 ? down : up), o[2] = (float)up, o[3] = (float)down;
        o[4] = rounded<bf16_type>(x), o[5] = (float)ldexp(trunc(ldexp(x, 8 - e)), e - 8);
        o[6] = rintf(near), o[7] = rounded<half_type>((int)(in[i] * 100));
        o[8] = rounded<half_type>(sqrt(fabs(near))), o[9] = rounded<half_type>(floor(fabs(x)));
    }
    dev<float> din(in), out(want.size()), small(random_reals<float>(64, 452, 0.1, 4)),
        checks(64 * 8);
    conversions<<<blocks_for(n, 64), 64>>>(out.p, din.p, n);
    functions<<<1, 64>>>(checks.p, small.p);
    SYNC();
    expect_close("conversions", out.host(), want, 0, 0);
    auto got = checks.host();
    for (int i = 0; i < 64 * 8; i++) {
        const float should[8] = {1, 0, 0, 1, 1, 1, 0, 1};
        if (!(fabsf(got[i] - should[i % 8]) < (i % 8 >= 5 ? 6e-3f : 1.1e-3f)))
            fail("function %d of input %d: off by %g", i % 8, i / 8, got[i] - should[i % 8]);
    }
    dev<__half> h(1);
    dev<__half2> h2(1);
    dev<__nv_bfloat162> b2(1);
    adds<<<2, 50>>>(h.p, h2.p, b2.p);
    SYNC();
    expect_near("atomic half", __half2float(h.host()[0]), 100, 0);
    expect_near("atomic half2", __half2float(h2.host()[0].y), 200, 0);
    expect_near("atomic bfloat162", __bfloat162float(b2.host()[0].y), -100, 0);
    return ok("half and bfloat16: 24 results, conversions, functions, atomics");
}
