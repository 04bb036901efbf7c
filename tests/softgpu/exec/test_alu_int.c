/* Integer arithmetic, logic, shifts, bit fields, permutes, comparisons, moves: against plain C. */
#include "tests/softgpu/exec/alu.h"

#include <stdio.h>
#include <string.h>

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

/* Values of x[0] bits, signed if x[1]. */
static s64 value(const struct alu *t, u64 v)
{
    unsigned bits = (unsigned)t->x[0];

    if (bits == 64)
        return (s64)v;
    v &= (UINT64_C(1) << bits) - 1;
    return t->x[1] && v >> (bits - 1) ? (s64)(v | ~((UINT64_C(1) << bits) - 1)) : (s64)v;
}

static bool less(const struct alu *t, u64 a, u64 b)
{
    return t->x[1] ? value(t, a) < value(t, b) : (u64)value(t, a) < (u64)value(t, b);
}

static sg_i128 wide(const struct alu *t, u64 v)
{
    return t->x[1] ? (sg_i128)value(t, v) : (sg_i128)(sg_u128)(u64)value(t, v);
}

static u64 high(const struct alu *t, u64 a, u64 b)
{
    return (u64)(((sg_u128)wide(t, a) * (sg_u128)wide(t, b)) >> t->x[0]);
}

static u64 quotient(const struct alu *t, u64 a, u64 b)
{
    if (value(t, b) == 0)
        return ~UINT64_C(0);
    if (!t->x[1])
        return (u64)value(t, a) / (u64)value(t, b);
    return value(t, b) == -1 ? 0 - a : (u64)(value(t, a) / value(t, b));
}

static u64 remainder_of(const struct alu *t, u64 a, u64 b)
{
    return value(t, b) == 0 ? a : (u64)(wide(t, a) - wide(t, quotient(t, a, b)) * wide(t, b));
}

static u64 clamp32(sg_i128 v)
{
    return (u32)(s32)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

WANT(want_add, a + b)
WANT(want_sub, a - b)
WANT(want_mul, a *b)
WANT(want_mulhi, high(t, a, b))
WANT(want_mulwide, wide(t, a) * wide(t, b))
WANT(want_mad, a *b + c)
WANT(want_madhi, high(t, a, b) + c)
WANT(want_madwide, wide(t, a) * wide(t, b) + (sg_i128)c)
WANT(want_div, quotient(t, a, b))
WANT(want_rem, remainder_of(t, a, b))
WANT(want_min, less(t, a, b) ? a : b)
WANT(want_max, less(t, a, b) ? b : a)
WANT(want_sad, c + (less(t, a, b) ? b - a : a - b))
WANT(want_neg, 0 - a)
WANT(want_abs, value(t, a) < 0 ? 0 - a : a)
WANT(want_add_sat, clamp32((sg_i128)(s32)a + (s32)b))
WANT(want_sub_sat, clamp32((sg_i128)(s32)a - (s32)b))
WANT(want_madhi_sat, clamp32((sg_i128)(s32)high(t, a, b) + (s32)c))

/* Every type: opcode and operands of that width. */
static void each_type(const char *op, unsigned sources, const char *types, const char *lits,
                      u64 (*f)(const struct alu *, u64, u64, u64, u64 *))
{
    static const struct {
        const char *name;
        char reg, bits, is_signed;
    } all[] = {{"u16", 'h', 16, 0}, {"s16", 'h', 16, 1}, {"u32", 'r', 32, 0},
               {"s32", 'r', 32, 1}, {"u64", 'l', 64, 0}, {"s64", 'l', 64, 1}};

    for (size_t i = 0; i < TB_ARRAY_LEN(all); i++) {
        struct alu t = {.inputs = ALU_INT, .want = f, .lits = lits};
        if (strstr(types, all[i].name) == NULL)
            continue;
        snprintf(t.text, sizeof(t.text), "%s.%s", op, all[i].name);
        for (unsigned k = 0; k < 5; k++)
            t.regs[k] = k <= sources ? all[i].reg : '.';
        t.x[0] = all[i].bits;
        t.x[1] = all[i].is_signed;
        alu_check(&t);
    }
}

#define ALL "u16 s16 u32 s32 u64 s64"
#define SIGNED "s16 s32 s64"

static void test_integers__every_type(void **state)
{
    (void)state;
    each_type("add", 2, ALL, "ii.", want_add);
    each_type("sub", 2, ALL, "ii.", want_sub);
    each_type("mul.lo", 2, ALL, ".i.", want_mul);
    each_type("mul.hi", 2, ALL, ".i.", want_mulhi);
    each_type("mad.lo", 3, ALL, ".ii", want_mad);
    each_type("mad.hi", 3, ALL, "..i", want_madhi);
    each_type("div", 2, ALL, "ii.", want_div);
    each_type("rem", 2, ALL, ".i.", want_rem);
    each_type("min", 2, ALL, ".i.", want_min);
    each_type("max", 2, ALL, "i..", want_max);
    each_type("sad", 3, ALL, "..i", want_sad);
    each_type("neg", 1, SIGNED, "i..", want_neg);
    each_type("abs", 1, SIGNED, "i..", want_abs);
}

static u64 pair(u64 lo, u64 hi)
{
    return (lo & 0xffff) | (hi & 0xffff) << 16;
}

static u64 half_min(const struct alu *t, u64 a, u64 b)
{
    bool max = t->x[2];
    u64 r = less(t, a, b) != max ? a : b;

    return t->x[3] && (s16)r < 0 ? 0 : r;
}

WANT(want_add_pair, pair(a + b, (a >> 16) + (b >> 16)))
WANT(want_min_pair, pair(half_min(t, a, b), half_min(t, a >> 16, b >> 16)))
WANT(want_relu, value(t, (less(t, a, b) != (t->x[2] != 0)) ? a : b) < 0
                    ? 0
                    : ((less(t, a, b) != (t->x[2] != 0)) ? a : b))

/* The carries: x[0] bits */
static sg_u128 ones(const struct alu *t)
{
    return ((sg_u128)1 << t->x[0]) - 1;
}

WANT(want_addc, a + c + (u64)(((sg_u128)a + b) >> t->x[0]))
WANT(want_subc, a - c - (a < b))
WANT(want_sub_addc, a + c + !(a < b))
WANT(want_addc_addc,
     c + b + (u64)(((sg_u128)a + c + (u64)(((sg_u128)a + b) >> t->x[0])) >> t->x[0]))
WANT(want_mad_carry,
     high(t, a, b) + c + (u64)((((sg_u128)a * b & ones(t)) + (c & ones(t))) >> t->x[0]))

static s64 s24(u64 v, bool is_signed)
{
    return is_signed ? (s64)(v << 40) >> 40 : (s64)(v & 0xffffff);
}

WANT(want_mul24, s24(a, t->x[1]) * s24(b, t->x[1]) >> t->x[2])
WANT(want_mad24, (s24(a, t->x[1]) * s24(b, t->x[1]) >> t->x[2]) + (s64)c)
WANT(want_mad24_sat, clamp32((sg_i128)(s32)(u32)(s24(a, true) * s24(b, true) >> 16) + (s32)c))

static const struct alu special[] = {
    {"mul.wide.u16", "rhh..", ALU_INT, want_mulwide, .x = {16, 0}, .lits = ".i."},
    {"mul.wide.s16", "rhh..", ALU_INT, want_mulwide, .x = {16, 1}, .lits = ".i."},
    {"mul.wide.u32", "lrr..", ALU_INT, want_mulwide, .x = {32, 0}, .lits = ".i."},
    {"mul.wide.s32", "lrr..", ALU_INT, want_mulwide, .x = {32, 1}, .lits = ".i."},
    {"mad.wide.u16", "rhhr.", ALU_INT, want_madwide, .x = {16, 0}},
    {"mad.wide.s16", "rhhr.", ALU_INT, want_madwide, .x = {16, 1}},
    {"mad.wide.u32", "lrrl.", ALU_INT, want_madwide, .x = {32, 0}, .lits = ".ii"},
    {"mad.wide.s32", "lrrl.", ALU_INT, want_madwide, .x = {32, 1}},
    {"mad.hi.sat.s32", "rrrr.", ALU_INT, want_madhi_sat, .x = {32, 1}},
    {"add.sat.s32", "rrr..", ALU_INT, want_add_sat, .x = {32, 1}},
    {"sub.sat.s32", "rrr..", ALU_INT, want_sub_sat, .x = {32, 1}},
    {"add.u16x2", "rrr..", ALU_INT, want_add_pair, .x = {0}},
    {"add.s16x2", "rrr..", ALU_INT, want_add_pair, .x = {0}},
    {"min.u16x2", "rrr..", ALU_INT, want_min_pair, .x = {16, 0, 0, 0}},
    {"max.u16x2", "rrr..", ALU_INT, want_min_pair, .x = {16, 0, 1, 0}},
    {"min.s16x2", "rrr..", ALU_INT, want_min_pair, .x = {16, 1, 0, 0}},
    {"max.s16x2", "rrr..", ALU_INT, want_min_pair, .x = {16, 1, 1, 0}},
    {"min.relu.s16x2", "rrr..", ALU_INT, want_min_pair, .x = {16, 1, 0, 1}},
    {"max.relu.s16x2", "rrr..", ALU_INT, want_min_pair, .x = {16, 1, 1, 1}},
    {"min.relu.s32", "rrr..", ALU_INT, want_relu, .x = {32, 1, 0}},
    {"max.relu.s32", "rrr..", ALU_INT, want_relu, .x = {32, 1, 1}},
    {"mul24.lo.u32", "rrr..", ALU_INT, want_mul24, .x = {0, 0, 0}},
    {"mul24.lo.s32", "rrr..", ALU_INT, want_mul24, .x = {0, 1, 0}},
    {"mul24.hi.u32", "rrr..", ALU_INT, want_mul24, .x = {0, 0, 16}},
    {"mul24.hi.s32", "rrr..", ALU_INT, want_mul24, .x = {0, 1, 16}},
    {"mad24.lo.u32", "rrrr.", ALU_INT, want_mad24, .x = {0, 0, 0}},
    {"mad24.lo.s32", "rrrr.", ALU_INT, want_mad24, .x = {0, 1, 0}},
    {"mad24.hi.u32", "rrrr.", ALU_INT, want_mad24, .x = {0, 0, 16}},
    {"mad24.hi.s32", "rrrr.", ALU_INT, want_mad24, .x = {0, 1, 16}},
    {"mad24.hi.sat.s32", "rrrr.", ALU_INT, want_mad24_sat, .x = {0}},
    {"add.cc.u32 t0, A, B; addc.u32 D, A, C", "rrrr.", ALU_INT, want_addc, .x = {32}},
    {"add.cc.s32 t0, A, B; addc.s32 D, A, C", "rrrr.", ALU_INT, want_addc, .x = {32}},
    {"add.cc.u64 u0, A, B; addc.u64 D, A, C", "llll.", ALU_INT, want_addc, .x = {64}},
    {"add.cc.u32 t0, A, B; addc.cc.u32 t0, A, C; addc.u32 D, C, B", "rrrr.", ALU_INT,
     want_addc_addc, .x = {32}},
    {"add.cc.s64 u0, A, B; addc.cc.s64 u0, A, C; addc.s64 D, C, B", "llll.", ALU_INT,
     want_addc_addc, .x = {64}},
    {"sub.cc.u32 t0, A, B; subc.u32 D, A, C", "rrrr.", ALU_INT, want_subc, .x = {32}},
    {"sub.cc.s32 t0, A, B; subc.cc.s32 D, A, C", "rrrr.", ALU_INT, want_subc, .x = {32}},
    {"sub.cc.u64 u0, A, B; subc.u64 D, A, C", "llll.", ALU_INT, want_subc, .x = {64}},
    {"sub.cc.u32 t0, A, B; addc.u32 D, A, C", "rrrr.", ALU_INT, want_sub_addc, .x = {32}},
    {"mad.lo.cc.u32 t0, A, B, C; madc.hi.u32 D, A, B, C", "rrrr.", ALU_INT, want_mad_carry,
     .x = {32, 0}},
    {"mad.lo.cc.s32 t0, A, B, C; madc.hi.s32 D, A, B, C", "rrrr.", ALU_INT, want_mad_carry,
     .x = {32, 1}},
    {"mad.lo.cc.u64 u0, A, B, C; madc.hi.u64 D, A, B, C", "llll.", ALU_INT, want_mad_carry,
     .x = {64, 0}},
    {"mad.lo.cc.s64 u0, A, B, C; madc.hi.cc.s64 D, A, B, C", "llll.", ALU_INT, want_mad_carry,
     .x = {64, 1}},
};

static void test_integers__widening_saturation_pairs_and_carries(void **state)
{
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(special); i++)
        alu_check(&special[i]);
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* bit by bit, as the ISA writes it; x[0] bits, x[1] signed */
static u64 bfe(const struct alu *t, u64 a, u64 b, u64 c)
{
    unsigned msb = (unsigned)t->x[0] - 1, pos = b & 255, len = c & 255, at = pos + len - 1;
    u64 sign = !t->x[1] || len == 0 ? 0 : a >> (at < msb ? at : msb) & 1, d = 0;

    for (unsigned i = 0; i <= msb; i++)
        d |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : sign) << i;
    return d;
}

static u64 bfi(const struct alu *t, u64 a, u64 b, unsigned pos, unsigned len)
{
    for (unsigned i = 0; i < len && pos + i < (unsigned)t->x[0]; i++)
        b = (b & ~(UINT64_C(1) << (pos + i))) | (a >> i & 1) << (pos + i);
    return b;
}

static u64 bfind(const struct alu *t, u64 a)
{
    int msb = t->x[0] - 1;

    if (t->x[1] && a >> msb & 1)
        a = ~a;
    for (int i = msb; i >= 0; i--)
        if (a >> i & 1)
            return (u64)(t->x[2] ? msb - i : i);
    return 0xffffffff;
}

static u64 brev(u64 a, unsigned bits)
{
    u64 d = 0;

    for (unsigned i = 0; i < bits; i++)
        d |= (a >> i & 1) << (bits - 1 - i);
    return d;
}

static u64 clz(u64 a, unsigned bits)
{
    u64 n = 0;

    while (n < bits && !(a >> (bits - 1 - n) & 1))
        n++;
    return n;
}

static u64 shr(const struct alu *t, u64 a, u64 b)
{
    u32 n = (u32)b;

    if (t->x[1])
        return (u64)(value(t, a) >> (n > 63 ? 63 : n));
    return n > 63 ? 0 : (u64)value(t, a) >> n;
}

static u64 shf(const struct alu *t, u64 a, u64 b, u64 c)
{
    u64 both = b << 32 | (u32)a, n = t->x[1] ? c & 31 : (u32)c > 32 ? 32 : (u32)c;

    return t->x[2] ? (n == 32 ? a : both << n >> 32) : both >> n;
}

static u64 lop3(u64 a, u64 b, u64 c, int lut)
{
    u64 d = 0;

    for (int i = 0; i < 32; i++)
        d |= (u64)(lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
    return d;
}

static u64 prmt(const struct alu *t, u64 a, u64 b, u64 c)
{
    static const char *const rows[] = {"3210432154326543", "5670670170120123", "0000111122223333",
                                       "3210321132223333", "0000111022103210", "1010323210103232"};
    u64 both = b << 32 | (u32)a, d = 0;

    for (unsigned i = 0; i < 4; i++) {
        unsigned s = t->x[0] == 0 ? c >> (4 * i) & 15
                                  : (unsigned)(rows[t->x[0] - 1][4 * (c & 3) + 3 - i] - '0');
        u64 byte = both >> (8 * (s & 7)) & 255;
        d |= (s & 8 ? (byte >> 7) * 255 : byte) << (8 * i);
    }
    return d;
}

static u64 fns(u64 mask, u64 base, s32 offset)
{
    s64 count = offset < 0 ? -(s64)offset : offset;
    int step = offset < 0 ? -1 : 1;

    if (base > 31)
        return 0xffffffff;
    if (offset == 0)
        return mask >> base & 1 ? base : 0xffffffff;
    for (int pos = (int)base; pos >= 0 && pos < 32; pos += step)
        if ((mask >> pos & 1) && --count == 0)
            return (u64)pos;
    return 0xffffffff;
}

static u64 dp(const struct alu *t, u64 a, u64 b, u64 c)
{
    int n = t->x[0] == 2 ? 2 : 4, width = t->x[0] == 2 ? 16 : 8, first = t->x[3] ? 16 : 0;

    for (int i = 0; i < n; i++) {
        s64 x = (s64)(a << (64 - width * (i + 1))) >> (64 - width);
        s64 y = (s64)(b << (56 - 8 * i - first)) >> 56;
        x = t->x[1] ? x : x & ((1 << width) - 1);
        y = t->x[2] ? y : y & 255;
        c += (u64)(x * y);
    }
    return c;
}

static u64 szext(const struct alu *t, u64 a, u64 b)
{
    u64 n = t->x[1] ? b & 31 : (u32)b;

    if (n >= 32)
        return a;
    if (n == 0)
        return 0;
    a &= (UINT64_C(1) << n) - 1;
    return t->x[0] && a >> (n - 1) ? a | ~((UINT64_C(1) << n) - 1) : a;
}

static u64 bmsk(const struct alu *t, u64 a, u64 b)
{
    u64 pos = t->x[1] ? a & 31 : (u32)a, len = t->x[1] ? b & 31 : (u32)b, d = 0;

    for (u64 i = 0; i < 32; i++)
        d |= (u64)(i >= pos && i - pos < len) << i;
    return d;
}

WANT(want_and, a &b)
WANT(want_or, a | b)
WANT(want_xor, a ^ b)
WANT(want_not, ~a)
WANT(want_cnot, a == 0)
WANT(want_shl, (u32)b >= (u32)t->x[0] ? 0 : a << (b & 63))
WANT(want_shr, shr(t, a, b))
WANT(want_popc, __builtin_popcountll(a))
WANT(want_clz, clz(a, (unsigned)t->x[0]))
WANT(want_brev, brev(a, (unsigned)t->x[0]))
WANT(want_bfind, bfind(t, a))
WANT(want_bfe, bfe(t, a, b, c))
WANT(want_bfi_lit, bfi(t, a, b, (unsigned)t->x[2] & 255, (unsigned)t->x[3] & 255))
WANT(want_bfi_pos, bfi(t, a, b, c & 255, (unsigned)t->x[3] & 255))
WANT(want_bfi_len, bfi(t, a, b, (unsigned)t->x[2] & 255, c & 255))
WANT(want_shf, shf(t, a, b, c))
WANT(want_lop3, lop3(a, b, c, t->x[0]))
WANT(want_prmt, prmt(t, a, b, c))
WANT(want_fns, fns(a, b, (s32)c))
WANT(want_fns_down, fns(a, b & 31, -(s32)(c & 7)))
WANT(want_dp, dp(t, a, b, c))
WANT(want_szext, szext(t, a, b))
WANT(want_bmsk, bmsk(t, b, c))
WANT(want_pred_not, !a)

static u64 want_lop3_pred(const struct alu *t, u64 a, u64 b, u64 c, u64 *e)
{
    u64 d = lop3(a, b, c, 0x3c);
    bool q = (u32)b < (u32)c;

    *e = t->x[0] ? (d != 0) && q : d != 0 || q;
    return d;
}

static const struct alu bit_table[] = {
    {"and.b16", "hhh..", ALU_INT, want_and, .x = {0}, .lits = ".i."},
    {"and.b32", "rrr..", ALU_INT, want_and, .x = {0}, .lits = "ii."},
    {"and.b64", "lll..", ALU_INT, want_and, .x = {0}, .lits = ".i."},
    {"or.b16", "hhh..", ALU_INT, want_or, .x = {0}},
    {"or.b32", "rrr..", ALU_INT, want_or, .x = {0}, .lits = ".i."},
    {"or.b64", "lll..", ALU_INT, want_or, .x = {0}},
    {"xor.b16", "hhh..", ALU_INT, want_xor, .x = {0}},
    {"xor.b32", "rrr..", ALU_INT, want_xor, .x = {0}, .lits = ".i."},
    {"xor.b64", "lll..", ALU_INT, want_xor, .x = {0}},
    {"not.b16", "hh...", ALU_INT, want_not, .x = {0}},
    {"not.b32", "rr...", ALU_INT, want_not, .x = {0}},
    {"not.b64", "ll...", ALU_INT, want_not, .x = {0}},
    {"cnot.b16", "hh...", ALU_SHIFT, want_cnot, .x = {0}},
    {"cnot.b32", "rr...", ALU_SHIFT, want_cnot, .x = {0}},
    {"cnot.b64", "ll...", ALU_SHIFT, want_cnot, .x = {0}},
    {"and.pred", "ppp..", ALU_INT, want_and, .x = {0}},
    {"or.pred", "ppp..", ALU_INT, want_or, .x = {0}},
    {"xor.pred", "ppp..", ALU_INT, want_xor, .x = {0}},
    {"not.pred", "pp...", ALU_INT, want_pred_not, .x = {0}},
    {"shl.b16", "hhr..", ALU_SHIFT, want_shl, .x = {16}, .lits = ".i."},
    {"shl.b32", "rrr..", ALU_SHIFT, want_shl, .x = {32}, .lits = ".i."},
    {"shl.b64", "llr..", ALU_SHIFT, want_shl, .x = {64}, .lits = ".i."},
    {"shr.b16", "hhr..", ALU_SHIFT, want_shr, .x = {16, 0}, .lits = ".i."},
    {"shr.u16", "hhr..", ALU_SHIFT, want_shr, .x = {16, 0}},
    {"shr.s16", "hhr..", ALU_SHIFT, want_shr, .x = {16, 1}},
    {"shr.b32", "rrr..", ALU_SHIFT, want_shr, .x = {32, 0}},
    {"shr.u32", "rrr..", ALU_SHIFT, want_shr, .x = {32, 0}, .lits = ".i."},
    {"shr.s32", "rrr..", ALU_SHIFT, want_shr, .x = {32, 1}, .lits = ".i."},
    {"shr.b64", "llr..", ALU_SHIFT, want_shr, .x = {64, 0}},
    {"shr.u64", "llr..", ALU_SHIFT, want_shr, .x = {64, 0}},
    {"shr.s64", "llr..", ALU_SHIFT, want_shr, .x = {64, 1}, .lits = ".i."},
    {"popc.b32", "rr...", ALU_INT, want_popc, .x = {0}},
    {"popc.b64", "rl...", ALU_INT, want_popc, .x = {0}},
    {"clz.b32", "rr...", ALU_SHIFT, want_clz, .x = {32}},
    {"clz.b64", "rl...", ALU_INT, want_clz, .x = {64}},
    {"brev.b32", "rr...", ALU_INT, want_brev, .x = {32}},
    {"brev.b64", "ll...", ALU_INT, want_brev, .x = {64}},
    {"bfind.u32", "rr...", ALU_INT, want_bfind, .x = {32, 0, 0}},
    {"bfind.s32", "rr...", ALU_INT, want_bfind, .x = {32, 1, 0}},
    {"bfind.u64", "rl...", ALU_INT, want_bfind, .x = {64, 0, 0}},
    {"bfind.s64", "rl...", ALU_INT, want_bfind, .x = {64, 1, 0}},
    {"bfind.shiftamt.u32", "rr...", ALU_INT, want_bfind, .x = {32, 0, 1}},
    {"bfind.shiftamt.s32", "rr...", ALU_INT, want_bfind, .x = {32, 1, 1}},
    {"bfind.shiftamt.u64", "rl...", ALU_INT, want_bfind, .x = {64, 0, 1}},
    {"bfind.shiftamt.s64", "rl...", ALU_INT, want_bfind, .x = {64, 1, 1}},
    {"bfe.u32", "rrrr.", ALU_SHIFT, want_bfe, .x = {32, 0}, .lits = ".ii"},
    {"bfe.s32", "rrrr.", ALU_SHIFT, want_bfe, .x = {32, 1}, .lits = ".ii"},
    {"bfe.u64", "llrr.", ALU_SHIFT, want_bfe, .x = {64, 0}},
    {"bfe.s64", "llrr.", ALU_SHIFT, want_bfe, .x = {64, 1}},
    {"bfi.b32 D, A, B, 5, 9", "rrr..", ALU_INT, want_bfi_lit, .x = {32, 0, 5, 9}},
    {"bfi.b32 D, A, B, 31, 200", "rrr..", ALU_INT, want_bfi_lit, .x = {32, 0, 31, 200}},
    {"bfi.b32 D, A, B, 0, 32", "rrr..", ALU_INT, want_bfi_lit, .x = {32, 0, 0, 32}},
    {"bfi.b32 D, A, B, C, 7", "rrrr.", ALU_SHIFT, want_bfi_pos, .x = {32, 0, 0, 7}},
    {"bfi.b32 D, A, B, 9, C", "rrrr.", ALU_SHIFT, want_bfi_len, .x = {32, 0, 9, 0}},
    {"bfi.b64 D, A, B, C, 40", "lllr.", ALU_SHIFT, want_bfi_pos, .x = {64, 0, 0, 40}},
    {"bfi.b64 D, A, B, 3, C", "lllr.", ALU_SHIFT, want_bfi_len, .x = {64, 0, 3, 0}},
    {"shf.l.clamp.b32", "rrrr.", ALU_SHIFT, want_shf, .x = {0, 0, 1}, .lits = "..i"},
    {"shf.l.wrap.b32", "rrrr.", ALU_SHIFT, want_shf, .x = {0, 1, 1}, .lits = "..i"},
    {"shf.r.clamp.b32", "rrrr.", ALU_SHIFT, want_shf, .x = {0, 0, 0}, .lits = "..i"},
    {"shf.r.wrap.b32", "rrrr.", ALU_SHIFT, want_shf, .x = {0, 1, 0}, .lits = "..i"},
    {"fns.b32", "rrrr.", ALU_SHIFT, want_fns, .x = {0}},
    {"and.b32 t0, B, 31; and.b32 t1, C, 7; neg.s32 t1, t1; fns.b32 D, A, t0, t1", "rrrr.", ALU_INT,
     want_fns_down, .x = {0}},
    {"szext.clamp.u32", "rrr..", ALU_SHIFT, want_szext, .x = {0, 0}},
    {"szext.clamp.s32", "rrr..", ALU_SHIFT, want_szext, .x = {1, 0}},
    {"szext.wrap.u32", "rrr..", ALU_SHIFT, want_szext, .x = {0, 1}},
    {"szext.wrap.s32", "rrr..", ALU_SHIFT, want_szext, .x = {1, 1}, .lits = ".i."},
    {"bmsk.clamp.b32 D, B, C", "rrrr.", ALU_SHIFT, want_bmsk, .x = {0, 0}},
    {"bmsk.wrap.b32 D, B, C", "rrrr.", ALU_SHIFT, want_bmsk, .x = {0, 1}},
    {"prmt.b32", "rrrr.", ALU_INT, want_prmt, .x = {0}, .lits = "..i"},
    {"prmt.b32.f4e", "rrrr.", ALU_INT, want_prmt, .x = {1}},
    {"prmt.b32.b4e", "rrrr.", ALU_INT, want_prmt, .x = {2}},
    {"prmt.b32.rc8", "rrrr.", ALU_INT, want_prmt, .x = {3}},
    {"prmt.b32.ecl", "rrrr.", ALU_INT, want_prmt, .x = {4}},
    {"prmt.b32.ecr", "rrrr.", ALU_INT, want_prmt, .x = {5}},
    {"prmt.b32.rc16", "rrrr.", ALU_INT, want_prmt, .x = {6}},
    {"dp4a.u32.u32", "rrrr.", ALU_INT, want_dp, .x = {4, 0, 0, 0}},
    {"dp4a.s32.u32", "rrrr.", ALU_INT, want_dp, .x = {4, 1, 0, 0}},
    {"dp4a.u32.s32", "rrrr.", ALU_INT, want_dp, .x = {4, 0, 1, 0}},
    {"dp4a.s32.s32", "rrrr.", ALU_INT, want_dp, .x = {4, 1, 1, 0}},
    {"dp2a.lo.u32.u32", "rrrr.", ALU_INT, want_dp, .x = {2, 0, 0, 0}},
    {"dp2a.lo.s32.u32", "rrrr.", ALU_INT, want_dp, .x = {2, 1, 0, 0}},
    {"dp2a.lo.u32.s32", "rrrr.", ALU_INT, want_dp, .x = {2, 0, 1, 0}},
    {"dp2a.lo.s32.s32", "rrrr.", ALU_INT, want_dp, .x = {2, 1, 1, 0}},
    {"dp2a.hi.u32.u32", "rrrr.", ALU_INT, want_dp, .x = {2, 0, 0, 1}},
    {"dp2a.hi.s32.u32", "rrrr.", ALU_INT, want_dp, .x = {2, 1, 0, 1}},
    {"dp2a.hi.u32.s32", "rrrr.", ALU_INT, want_dp, .x = {2, 0, 1, 1}},
    {"dp2a.hi.s32.s32", "rrrr.", ALU_INT, want_dp, .x = {2, 1, 1, 1}},
    {"setp.lt.u32 q0, B, C; lop3.or.b32 D|E, A, B, C, 0x3c, q0", "rrrrp", ALU_INT, want_lop3_pred,
     .x = {0}},
    {"setp.lt.u32 q0, B, C; lop3.and.b32 D|E, A, B, C, 0x3c, q0", "rrrrp", ALU_INT, want_lop3_pred,
     .x = {1}},
};

static void test_bits__every_instruction(void **state)
{
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(bit_table); i++)
        alu_check(&bit_table[i]);
    for (int lut = 0; lut < 256; lut++) {
        struct alu t = {
            .regs = "rrrr.", .inputs = ALU_INT, .want = want_lop3, .x = {lut}, .n = 500};
        snprintf(t.text, sizeof(t.text), "lop3.b32 D, A, B, C, 0x%x", (unsigned)lut);
        alu_check(&t);
    }
}

/* ---- comparisons and selections ---------------------------------------------------------------
 */

static bool compare(const struct alu *t, u64 a, u64 b, const char *op)
{
    bool lt = less(t, a, b), gt = less(t, b, a);

    if (strcmp(op, "eq") == 0)
        return !lt && !gt;
    if (strcmp(op, "ne") == 0)
        return lt || gt;
    if (strcmp(op, "lt") == 0 || strcmp(op, "lo") == 0)
        return lt;
    if (strcmp(op, "le") == 0 || strcmp(op, "ls") == 0)
        return !gt;
    if (strcmp(op, "gt") == 0 || strcmp(op, "hi") == 0)
        return gt;
    return !lt;
}

/* x[2]: 0 plain, 1 and, 2 or, 3 xor with bit 0 of c; x[3]: that negated */
static bool with_third(const struct alu *t, bool r, u64 c)
{
    bool q = (c & 1) != (u64)(t->x[3] != 0);

    return t->x[2] == 1 ? r && q : t->x[2] == 2 ? r || q : t->x[2] == 3 ? r != q : r;
}

static u64 want_setp(const struct alu *t, u64 a, u64 b, u64 c, u64 *e)
{
    bool r = compare(t, a, b, t->ptr);

    *e = with_third(t, !r, c);
    return with_third(t, r, c);
}

WANT(want_set_int, with_third(t, compare(t, a, b, t->ptr), c) ? 0xffffffff : 0)
WANT(want_set_float, with_third(t, compare(t, a, b, t->ptr), c) ? 0x3f800000 : 0)

static const struct {
    const char *name, *ops;
    char reg, bits, is_signed;
} compared[] = {
    {"b16", "eq ne", 'h', 16, 0},
    {"b32", "eq ne", 'r', 32, 0},
    {"b64", "eq ne", 'l', 64, 0},
    {"u16", "eq ne lt le gt ge lo ls hi hs", 'h', 16, 0},
    {"u32", "eq ne lt le gt ge lo ls hi hs", 'r', 32, 0},
    {"u64", "eq ne lt le gt ge lo ls hi hs", 'l', 64, 0},
    {"s16", "eq ne lt le gt ge", 'h', 16, 1},
    {"s32", "eq ne lt le gt ge", 'r', 32, 1},
    {"s64", "eq ne lt le gt ge", 'l', 64, 1},
};

static void check_comparison(size_t i, const char *op)
{
    static const char *const ends[] = {"", ".and", ".or", ".xor"};
    char reg = compared[i].reg;

    for (int k = 0; k < 8; k++) {
        struct alu t = {.inputs = ALU_INT,
                        .want = want_setp,
                        .ptr = op,
                        .n = 4000,
                        .x = {compared[i].bits, compared[i].is_signed, k / 2, k & 1}};
        const char *third = k < 2 ? "" : k & 1 ? ", !C" : ", C";
        snprintf(t.regs, sizeof(t.regs), "p%c%c%cp", reg, reg, k < 2 ? '.' : 'p');
        snprintf(t.text, sizeof(t.text), "setp.%s%s.%s D|E, A, B%s", op, ends[k / 2],
                 compared[i].name, third);
        alu_check(&t);
        t.regs[4] = '.';
        snprintf(t.text, sizeof(t.text), "setp.%s%s.%s D, A, B%s", op, ends[k / 2],
                 compared[i].name, third);
        if (k == 0)
            t.lits = ".i.";
        alu_check(&t);
        t.lits = NULL;
        t.regs[0] = 'r';
        t.want = want_set_int;
        snprintf(t.text, sizeof(t.text), "set.%s%s.%s.%s D, A, B%s", op, ends[k / 2],
                 k & 2 ? "u32" : "s32", compared[i].name, third);
        alu_check(&t);
        t.want = want_set_float;
        snprintf(t.text, sizeof(t.text), "set.%s%s.f32.%s D, A, B%s", op, ends[k / 2],
                 compared[i].name, third);
        alu_check(&t);
    }
}

static void test_comparisons__every_type_and_combination(void **state)
{
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(compared); i++) {
        char ops[64], *rest = NULL;
        snprintf(ops, sizeof(ops), "%s", compared[i].ops);
        for (char *op = strtok_r(ops, " ", &rest); op != NULL; op = strtok_r(NULL, " ", &rest))
            check_comparison(i, op);
    }
}

WANT(want_selp, t->x[0] != (int)(c & 1) ? a : b)
WANT(want_slct, (s32)c >= 0 ? a : b)
WANT(want_join, (u32)a | b << 32)
WANT(want_join_halves, pair(a, b))
WANT(want_copy, a)
WANT(want_third_half, a >> 32 & 0xffff)
WANT(want_bytes, ((a & 255) << 24 | (a >> 8 & 255) << 16 | (a >> 16 & 255) << 8 | (a >> 24 & 255)))
WANT(want_swap, (u32)(a >> 32) - (u32)a)

static const struct alu moves[] = {
    {"mov.b64 D, {A, B}", "lrr..", ALU_INT, want_join, .x = {0}},
    {"mov.b32 D, {A, B}", "rhh..", ALU_INT, want_join_halves, .x = {0}},
    {"mov.b64 {t0, t1}, A; sub.u32 D, t1, t0", "rl...", ALU_INT, want_swap, .x = {0}},
    {"mov.b64 {_, _, h0, _}, A; mov.b16 D, h0", "hl...", ALU_INT, want_third_half, .x = {0}},
    {"mov.b32 {h0, h1, h2, h3}, A; mov.b32 D, {h3, h2, h1, h0}", "rr...", ALU_INT, want_bytes,
     .x = {0}},
    {"mov.b32 {h0, h1}, A; mov.b64 D, {h0, h1, h1, h0}; mov.b64 {t0, t1}, D; mov.b64 D, {t0, B}",
     "lrr..", ALU_INT, want_join, .x = {0}},
    {"mov.u16", "hh...", ALU_INT, want_copy, .x = {0}, .lits = "i.."},
    {"mov.s32", "rr...", ALU_INT, want_copy, .x = {0}, .lits = "i.."},
    {"mov.b64", "ll...", ALU_INT, want_copy, .x = {0}, .lits = "i.."},
    {"mov.f32", "rr...", ALU_F32, want_copy, .x = {0}, .lits = "f.."},
    {"mov.f64", "ll...", ALU_F64, want_copy, .x = {0}, .lits = "d.."},
    {"mov.pred", "pp...", ALU_INT, want_copy, .x = {0}},
};

static void test_moves__parts_and_selections(void **state)
{
    (void)state;
    static const struct {
        const char *types;
        char reg;
    } kinds[] = {{"b16 u16 s16", 'h'}, {"b32 u32 s32 f32", 'r'}, {"b64 u64 s64 f64", 'l'}};

    for (size_t i = 0; i < TB_ARRAY_LEN(moves); i++)
        alu_check(&moves[i]);
    for (size_t i = 0; i < TB_ARRAY_LEN(kinds); i++) {
        char types[32], *rest = NULL;
        snprintf(types, sizeof(types), "%s", kinds[i].types);
        for (char *ty = strtok_r(types, " ", &rest); ty; ty = strtok_r(NULL, " ", &rest)) {
            struct alu t = {
                .inputs = ALU_INT, .want = want_selp, .lits = *ty == 'f' ? NULL : "i.."};
            snprintf(t.regs, sizeof(t.regs), "%c%c%cp.", kinds[i].reg, kinds[i].reg, kinds[i].reg);
            snprintf(t.text, sizeof(t.text), "selp.%s", ty);
            alu_check(&t);
            t.lits = NULL;
            t.x[0] = 1;
            snprintf(t.text, sizeof(t.text), "selp.%s D, A, B, !C", ty);
            alu_check(&t);
            t.want = want_slct;
            t.regs[3] = 'r';
            snprintf(t.text, sizeof(t.text), "slct.%s.s32", ty);
            alu_check(&t);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers__every_type),
        cmocka_unit_test(test_integers__widening_saturation_pairs_and_carries),
        cmocka_unit_test(test_bits__every_instruction),
        cmocka_unit_test(test_comparisons__every_type_and_combination),
        cmocka_unit_test(test_moves__parts_and_selections),
    };
    return cmocka_run_group_tests(tests, alu_setup, alu_teardown);
}
