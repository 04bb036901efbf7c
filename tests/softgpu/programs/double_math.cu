// libdevice's double-precision functions against the host's libm, within the error bounds of the
// CUDA programming guide (in units of the last place) plus one for the host.
#include "check.cuh"

enum { OUT = 34 };

__host__ __device__ void functions(double *o, double x, double y)
{
    double ax = fabs(x) + 1e-3, u = x / 1000, s, c, frac, whole;
    int e, q;
    o[0] = sin(x), o[1] = cos(x), o[2] = tan(x);
    o[3] = asin(u), o[4] = acos(u), o[5] = atan(x), o[6] = atan2(x, y);
    o[7] = sinh(u * 20), o[8] = cosh(u * 20), o[9] = tanh(u * 5);
    o[10] = asinh(x), o[11] = acosh(ax + 1), o[12] = atanh(u);
    o[13] = exp(u * 700), o[14] = exp2(u * 1000), o[15] = expm1(u), o[16] = log(ax);
    o[17] = log2(ax), o[18] = log10(ax), o[19] = log1p(ax);
    o[20] = pow(ax, y / 200), o[21] = sqrt(ax), o[22] = cbrt(x), o[23] = hypot(x, y);
    o[24] = erf(u * 3), o[25] = erfc(u * 3), o[26] = tgamma(u * 20 + 25);
    o[27] = lgamma(ax), o[28] = fmod(x, y), o[29] = remquo(x, y, &q);
    sincos(x, &s, &c);
    frac = modf(x, &whole), whole = frexp(whole + 0.5, &e);
    o[30] = fabs(s) + fabs(c), o[31] = frac + ldexp(whole, e - 3);
    o[32] = logb(ax) + ilogb(y + 2000) + nextafter(x, y), o[33] = fdim(x, y) + copysign(ax, y);
}

/* bound of each in ulp: the guide's, plus what composed expressions add */
static const double ULP[OUT] = {3, 3, 3, 3, 3, 3, 3, 3, 2, 3,  4, 3, 3, 3, 3, 2, 2,
                                2, 2, 2, 3, 1, 2, 3, 3, 6, 11, 9, 0, 0, 6, 1, 0, 0};

__global__ void compute(double *out, const double *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        functions(out + (size_t)i * OUT, in[2 * i], in[2 * i + 1]);
}

__global__ void device_only(double *out, const double *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double x = in[2 * i] / 1000, s, c, *o = out + (size_t)i * 6;
    o[0] = rsqrt(fabs(x) + 0.5) * sqrt(fabs(x) + 0.5);
    o[1] = erfinv(erf(x));
    o[2] = normcdf(x) + normcdf(-x);
    sincospi(x, &s, &c);
    o[3] = s * s + c * c;
    o[4] = exp10(x) * exp10(-x);
    o[5] = norm3d(x, 2.0, 3.0) - sqrt(x * x + 13);
}

int main()
{
    const int n = 600;
    auto in = random_reals<double>(2 * n, 421, -1000, 1000);
    std::vector<double> want((size_t)n * OUT);
    for (int i = 0; i < n; i++)
        functions(&want[(size_t)i * OUT], in[2 * i], in[2 * i + 1]);
    dev<double> din(in), out(want.size()), extra((size_t)n * 6);
    compute<<<blocks_for(n, 64), 64>>>(out.p, din.p, n);
    device_only<<<blocks_for(n, 64), 64>>>(extra.p, din.p, n);
    SYNC();
    auto got = out.host(), more = extra.host();
    for (size_t i = 0; i < got.size(); i++) {
        double w = want[i], ulp = fabs(nextafter(w, INFINITY) - w);
        if (!(fabs(got[i] - w) <= (ULP[i % OUT] + 1) * ulp || got[i] == w))
            fail("function %zu of (%a, %a): %a instead of %a", i % OUT, in[i / OUT * 2],
                 in[i / OUT * 2 + 1], got[i], w);
    }
    for (int i = 0; i < n; i++) {
        const double x = in[2 * i] / 1000, w[6] = {1, x, 1, 1, 1, 0};
        for (int k = 0; k < 6; k++)
            if (!(fabs(more[(size_t)i * 6 + k] - w[k]) < 1e-14))
                fail("identity %d at %a: off by %g", k, x, more[(size_t)i * 6 + k] - w[k]);
    }
    return ok("f64 functions: 34 within their bounds, 6 identities");
}
