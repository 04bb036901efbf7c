// PTX that compilers seldom write: slct, cnot, testp, copysign, sad, mad24, set, isspacep, vector
// moves, predicates in logic, brx through a table, ld/st of b8 and b16, min and max with NaN.
#include "check.cuh"

enum { OUT = 22 };

__global__ void rare(unsigned *out, const unsigned *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2], *o = out + (size_t)i * OUT;
    float x = __int_as_float((int)a), y = __int_as_float((int)b);
#define U3(at, text) asm(text : "=r"(o[at]) : "r"(a), "r"(b), "r"(c))
#define F2(at, text) asm(text : "=r"(o[at]) : "f"(x), "f"(y))
    U3(0, "slct.u32.s32 %0, %1, %2, %3;");
    U3(1, "cnot.b32 %0, %1;");
    U3(2, "sad.s32 %0, %1, %2, %3;");
    U3(3, "mad24.lo.u32 %0, %1, %2, %3;");
    U3(4, "mul24.hi.s32 %0, %1, %2;");
    U3(5, "set.gt.u32.s32 %0, %1, %2;");
    U3(6, "{.reg .pred p, q; setp.lt.u32 p|q, %1, %2; selp.u32 %0, %3, 5, q;}");
    U3(7,
       "{.reg .pred p, q, r; setp.ne.u32 p, %1, 0; setp.hi.and.u32 q, %2, %3, p; xor.pred r, p, q; "
       "not.pred r, r; selp.u32 %0, 1, 0, r;}");
    U3(8, "{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l};}");
    U3(9, "{.reg .b8 z; .reg .u16 s; cvt.u16.u32 s, %1; mul.wide.u16 %0, s, 1000;}");
    U3(10, "{.reg .s16 s, t; cvt.s16.s32 s, %1; cvt.sat.s8.s32 t, %2; mad.wide.s16 %0, s, t, %3;}");
    F2(11, "{.reg .f32 f; copysign.f32 f, %1, %2; mov.b32 %0, f;}");
    F2(12,
       "{.reg .pred p, q; testp.finite.f32 p, %1; testp.subnormal.f32 q, %2; selp.u32 %0, 1, 0, p; "
       "@q add.u32 %0, %0, 2;}");
    F2(13, "{.reg .f32 f; max.NaN.f32 f, %1, %2; mov.b32 %0, f;}");
    F2(14, "{.reg .f32 f; min.f32 f, %1, %2; mov.b32 %0, f;}");
    F2(15, "set.ltu.u32.f32 %0, %1, %2;");
    F2(16, "{.reg .f32 f; set.num.f32.f32 f, %1, %2; mov.b32 %0, f;}");
    F2(17, "{.reg .f32 f; add.sat.ftz.f32 f, %1, %2; mov.b32 %0, f;}");
    U3(18, "{.reg .u32 t; and.b32 t, %3, 3; .reg .pred p; mov.u32 %0, 77; setp.eq.u32 p, t, 2; "
           "@!p mov.u32 %0, %2;}");
    U3(19, "{.reg .b64 w; mov.b64 w, {%1, %2}; shl.b64 w, w, 9; bfind.shiftamt.u64 %0, w;}");
    U3(20, "{.reg .u32 t; shr.s32 t, %1, %3; shl.b32 %0, %2, %3; add.u32 %0, %0, t;}");
    asm("{.reg .pred p; setp.eq.u32 p, %1, 0; vote.sync.uni.pred p, p, 0xffffffff; selp.u32 %0, 1, "
        "0, p;}"
        : "=r"(o[21])
        : "r"(0));
}

__global__ void table_jump(unsigned *out, const unsigned *in)
{
    unsigned r, x = in[threadIdx.x];
    asm volatile("{\n\t"
                 ".reg .u32 t;\n\t"
                 "and.b32 t, %1, 3;\n\t"
                 "LIST: .branchtargets L0, L1, L2, L3;\n\t"
                 "brx.idx t, LIST;\n\t"
                 "L0: add.u32 %0, %1, 100; bra.uni END;\n\t"
                 "L1: mul.lo.u32 %0, %1, 3; bra.uni END;\n\t"
                 "L2: xor.b32 %0, %1, 255;\n\t"
                 "L3: not.b32 %0, %1;\n\t"
                 "END:\n\t}"
                 : "=&r"(r)
                 : "r"(x));
    out[threadIdx.x] = r;
}

static float as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static unsigned bits(float f)
{
    unsigned u;
    memcpy(&u, &f, sizeof u);
    return std::isnan(f) ? 0x7fffffff : u;
}

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static void reference(unsigned *o, unsigned a, unsigned b, unsigned c)
{
    float x = as_float(a), y = as_float(b);
    int sa = (int)a, sb = (int)b, s24a = sa << 8 >> 8, s24b = sb << 8 >> 8;
    int sat = sb > 127 ? 127 : sb < -128 ? -128 : sb;
    uint64_t w = ((uint64_t)b << 32 | a) << 9;
    o[0] = (int)c >= 0 ? a : b;
    o[1] = a == 0;
    o[2] = (sa > sb ? a - b : b - a) + c;
    o[3] = (unsigned)((uint64_t)(a & 0xffffff) * (b & 0xffffff)) + c;
    o[4] = (unsigned)((int64_t)s24a * s24b >> 16);
    o[5] = sa > sb ? ~0u : 0;
    o[6] = a < b ? 5 : c;
    o[7] = (a != 0) == ((b > c) && a != 0);
    o[8] = a >> 16 | a << 16;
    o[9] = (a & 0xffff) * 1000;
    o[10] = (unsigned)((int16_t)a * sat) + c;
    o[11] = (b & 0x7fffffff) | (a & 0x80000000);
    bool subnormal = y != 0 && fabsf(y) < 0x1p-126f;
    o[12] = (std::isfinite(x) ? 1 : 0) + (subnormal ? 2 : 0);
    o[13] = bits(std::isnan(x) || std::isnan(y)          ? NAN
                 : x > y || (x == y && !std::signbit(x)) ? x
                                                         : y);
    o[14] = bits(std::isnan(x)                          ? y
                 : std::isnan(y)                        ? x
                 : x < y || (x == y && std::signbit(x)) ? x
                                                        : y);
    o[15] = !(x >= y) ? ~0u : 0;
    o[16] = std::isnan(x) || std::isnan(y) ? 0 : 0x3f800000;
    float sum = flushed(x) + flushed(y);
    o[17] = bits(sum > 0 ? sum < 1 ? flushed(sum) : 1 : 0);
    o[18] = (c & 3) == 2 ? 77 : b;
    o[19] = w ? (unsigned)__builtin_clzll(w) : ~0u;
    o[20] = (c > 31 ? 0 : b << c) + (unsigned)(sa >> (c > 31 ? 31 : c));
    o[21] = 1;
}

int main()
{
    const int n = 2048;
    rng r(481);
    const unsigned special[] = {0,          1,          2,          0x80000000, 0x7f800000,
                                0xff800000, 0x7fc00000, 0x00000400, 0x3f000000, 0xbf000000};
    std::vector<unsigned> in(3 * n), want((size_t)n * OUT), jumps(64);
    for (auto &x : in)
        x = r.below(3) ? (unsigned)r.next() : r.below(2) ? special[r.below(10)] : r.below(40);
    for (int i = 0; i < n; i++)
        reference(&want[(size_t)i * OUT], in[3 * i], in[3 * i + 1], in[3 * i + 2]);
    dev<unsigned> din(in), out(want.size()), djumps(64);
    rare<<<n / 64, 64>>>(out.p, din.p, n);
    table_jump<<<1, 64>>>(djumps.p, din.p);
    SYNC();
    auto got = out.host();
    for (size_t i = 0; i < got.size(); i++)
        if (i % OUT == 13 || i % OUT == 14)
            got[i] = bits(as_float(got[i]));
    for (size_t i = 0; i < got.size(); i++)
        if (got[i] != want[i])
            fail("result %zu of (%#x, %#x, %#x): %#x instead of %#x", i % OUT, in[i / OUT * 3],
                 in[i / OUT * 3 + 1], in[i / OUT * 3 + 2], got[i], want[i]);
    for (int i = 0; i < 64; i++) {
        unsigned x = in[i];
        jumps[i] = x % 4 == 0 ? x + 100 : x % 4 == 1 ? x * 3 : ~x;
    }
    expect_equal("table jump", djumps.host(), jumps);
    return ok("rare PTX: 22 forms, brx through a table");
}
