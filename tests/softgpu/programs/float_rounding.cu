// IEEE arithmetic in all rounding modes, f32 and f64, against the host's floating-point
// environment: add, multiply, fma, divide, square root, reciprocal, conversions, subnormals.
// nvcc: -Xcompiler -frounding-math
#include "check.cuh"

#include <cfenv>

enum { OUT = 24 };

#define MODES(o, at, name, args)                                                                   \
    o[at] = name##_rn args, o[at + 1] = name##_rz args, o[at + 2] = name##_ru args,                \
    o[at + 3] = name##_rd args

__device__ void ops(float *o, float a, float b, float c)
{
    MODES(o, 0, __fadd, (a, b));
    MODES(o, 4, __fmul, (a, b));
    MODES(o, 8, __fmaf, (a, b, c));
    MODES(o, 12, __fdiv, (a, b));
    MODES(o, 16, __fsqrt, (fabsf(a)));
    MODES(o, 20, __frcp, (c));
}

__device__ void ops(double *o, double a, double b, double c)
{
    MODES(o, 0, __dadd, (a, b));
    MODES(o, 4, __dmul, (a, b));
    MODES(o, 8, __fma, (a, b, c));
    MODES(o, 12, __ddiv, (a, b));
    MODES(o, 16, __dsqrt, (fabs(a)));
    MODES(o, 20, __drcp, (c));
}

template <class T> __global__ void compute(T *out, const T *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        ops(out + (size_t)i * OUT, in[3 * i], in[3 * i + 1], in[3 * i + 2]);
}

__global__ void convert(double *out, const double *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double x = in[i], *o = out + (size_t)i * OUT;
    float f = (float)x;
    MODES(o, 0, __double2float, (x));
    MODES(o, 4, __double2ll, (x));
    MODES(o, 8, __float2int, (f));
    MODES(o, 12, __ll2float, (__double2ll_rz(x)));
    MODES(o, 16, __double2uint, (x));
    o[20] = __saturatef(f);
    o[21] = rint(x);
    o[22] = trunc(x) + floor(x) - ceil(x);
    o[23] = __int2double_rn(__double2hiint(x)) + __float_as_int(f);
}

static const int MODE[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};

template <class T> static void host_ops(T *o, T a, T b, T c)
{
    volatile T va = a, vb = b, vc = c, r;
    for (int m = 0; m < 4; m++) {
        fesetround(MODE[m]);
        r = va + vb, o[m] = r;
        r = va * vb, o[4 + m] = r;
        r = std::fma((T)va, (T)vb, (T)vc), o[8 + m] = r;
        r = va / vb, o[12 + m] = r;
        r = std::sqrt((T)std::fabs((T)va)), o[16 + m] = r;
        r = (T)1 / vc, o[20 + m] = r;
    }
    fesetround(FE_TONEAREST);
}

/* to an integer type's range by the device's rules: saturated */
static double to_integer(double x, double lo, double hi)
{
    volatile double v = x;
    return std::fmin(std::fmax(std::rint((double)v), lo), hi) + 0.0; // no minus zero
}

static void host_convert(double *o, double x)
{
    volatile double v = x;
    volatile float f = (float)x, g;
    long long whole = x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (long long)x;
    for (int m = 0; m < 4; m++) {
        fesetround(MODE[m]);
        g = (float)v, o[m] = g;
        o[4 + m] = to_integer(v, -0x1p63, 0x1p63);
        o[8 + m] = to_integer(f, -0x1p31, 0x1p31 - 1);
        volatile long long w = whole;
        g = (float)w, o[12 + m] = g;
        o[16 + m] = to_integer(v, 0, 0x1p32 - 1);
    }
    fesetround(FE_TONEAREST);
    float plain = f;
    int bits, high = (int)(*(uint64_t *)&x >> 32);
    memcpy(&bits, &plain, sizeof bits);
    o[20] = plain > 0 ? plain < 1 ? plain : 1 : 0;
    o[21] = std::rint(x);
    o[22] = std::trunc(x) + std::floor(x) - std::ceil(x);
    o[23] = (double)high + bits;
}

/* a NaN is a NaN: its payload is not compared */
template <class T> static void compare(const char *what, std::vector<T> got, std::vector<T> want)
{
    for (auto *v : {&got, &want})
        for (T &x : *v)
            x = std::isnan(x) ? (T)NAN : x;
    for (size_t i = 0; i < got.size(); i++)
        if (memcmp(&got[i], &want[i], sizeof(T)))
            fail_at(what, i, got.size(), got[i], want[i]);
}

template <class T, class U> static void run(const char *what, int n, U exponent_bias)
{
    rng r(411 + sizeof(T));
    const T special[] = {0,
                         (T)-0.0,
                         INFINITY,
                         -INFINITY,
                         (T)NAN,
                         1,
                         -1,
                         std::ldexp((T)1, -(int)exponent_bias),
                         std::ldexp((T)-3, -(int)exponent_bias - 9),
                         (T)0.1};
    std::vector<T> in(3 * n), want((size_t)n * OUT);
    for (T &x : in)
        x = r.below(6) ? std::ldexp((T)r.real(-2, 2), (int)r.below(60) - 30)
            : r.below(2)
                ? special[r.below(10)]
                : std::ldexp((T)r.real(-2, 2), (int)r.below(2 * exponent_bias) - exponent_bias);
    for (int i = 0; i < n; i++)
        host_ops(&want[(size_t)i * OUT], in[3 * i], in[3 * i + 1], in[3 * i + 2]);
    dev<T> din(in), out(want.size());
    compute<<<blocks_for(n, 64), 64>>>(out.p, din.p, n);
    SYNC();
    compare(what, out.host(), want);
}

int main()
{
    const int n = 3000;
    run<float>("f32", n, 126);
    run<double>("f64", n, 1022);
    rng r(419);
    std::vector<double> in(n), want((size_t)n * OUT);
    for (double &x : in)
        x = r.below(8)   ? std::ldexp(r.real(-2, 2), (int)r.below(70) - 8)
            : r.below(2) ? (double)r.below(100) / 2 - 20
            : r.below(2) ? 0x1p100
                         : -1e300;
    for (int i = 0; i < n; i++)
        host_convert(&want[(size_t)i * OUT], in[i]);
    dev<double> din(in), out(want.size());
    convert<<<blocks_for(n, 64), 64>>>(out.p, din.p, n);
    SYNC();
    compare("conversions", out.host(), want);
    return ok("rounding: 24 results of f32, f64, conversions; %d inputs each", n);
}
