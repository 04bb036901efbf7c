// 8-bit floats: every e4m3 and e5m2 value to half and back, rounding and saturation of floats by
// the device against the header's host code.
#include "check.cuh"

#include <cuda_fp8.h>

enum { OUT = 6 };

__host__ __device__ void convert(unsigned short *o, float x)
{
    __half h = __float2half(x);
    o[0] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
    o[1] = __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3);
    o[2] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
    o[3] = __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2);
    o[4] = __nv_cvt_halfraw_to_fp8(h, __NV_SATFINITE, __NV_E4M3);
    o[5] = __nv_cvt_float2_to_fp8x2(make_float2(x, -x), __NV_SATFINITE, __NV_E5M2);
}

__global__ void to_fp8(unsigned short *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        convert(out + (size_t)i * OUT, in[i]);
}

__global__ void from_fp8(float *out)
{
    int i = threadIdx.x;
    __nv_fp8_e4m3 a;
    __nv_fp8_e5m2 b;
    a.__x = b.__x = (__nv_fp8_storage_t)i;
    out[i] = (float)a;
    out[256 + i] = (float)b;
    __nv_fp8x2_storage_t pair = (__nv_fp8x2_storage_t)(i | (255 - i) << 8);
    __half2 h = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3);
    out[512 + i] = __half2float(h.y);
}

/* by the definition of the format: @bits of mantissa, @bias */
static float value(int x, int bits, int bias, bool infinities)
{
    int e = x >> bits & ((1 << (7 - bits)) - 1), m = x & ((1 << bits) - 1),
        top = (1 << (7 - bits)) - 1;
    float sign = x & 0x80 ? -1.f : 1.f;
    if (infinities && e == top)
        return m ? NAN : sign * INFINITY;
    if (!infinities && e == top && m == (1 << bits) - 1)
        return NAN;
    return sign * (e ? ldexpf((float)((1 << bits) + m), e - bias - bits)
                     : ldexpf((float)m, 1 - bias - bits));
}

int main()
{
    std::vector<float> want(768);
    for (int i = 0; i < 256; i++) {
        want[i] = value(i, 3, 7, false);
        want[256 + i] = value(i, 2, 15, true);
    }
    for (int i = 0; i < 256; i++)
        want[512 + i] = want[255 - i];
    dev<float> values(768);
    from_fp8<<<1, 256>>>(values.p);
    SYNC();
    expect_close("values", values.host(), want, 0, 0);

    const int n = 4000;
    rng r(461);
    std::vector<float> in(n);
    for (int i = 0; i < n; i++)
        in[i] = i < 512 ? want[i] * (i % 2 ? 1.f : 1.0625f)
                        : ldexpf((float)r.real(-2, 2), (int)r.below(40) - 22);
    std::vector<unsigned short> codes((size_t)n * OUT);
    for (int i = 0; i < n; i++)
        convert(&codes[(size_t)i * OUT], in[i]);
    dev<float> din(in);
    dev<unsigned short> out(codes.size());
    to_fp8<<<blocks_for(n, 64), 64>>>(out.p, din.p, n);
    SYNC();
    expect_equal("codes", out.host(), codes);
    return ok("fp8: 512 values, %d roundings of 6 kinds", n);
}
