/*
 * Integer instructions whose edge cases PTX defines and C does not; what C's operators do right
 * (add, and, mul.lo, unsigned compare ...) is not here. Vectorisable where the hardware has a way.
 */
#ifndef SG_NUM_NUM_INT_H
#define SG_NUM_NUM_INT_H

#include "softgpu/num/num_types.h"

/* ---- saturation, products, quotients --------------------------------------------------------- */

SG_INLINE uint32_t sg_sat_s32(int64_t v)
{
    return (uint32_t)(int32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

SG_INLINE uint32_t sg_add_sat_s32(uint32_t a, uint32_t b)
{
    /* overflow if the sum's sign differs from both operands': in 32 bits, for the vectoriser */
    uint32_t s = a + b, limit = (int32_t)a < 0 ? 0x80000000u : 0x7fffffffu;
    return (int32_t)((a ^ s) & (b ^ s)) < 0 ? limit : s;
}

SG_INLINE uint32_t sg_sub_sat_s32(uint32_t a, uint32_t b)
{
    uint32_t d = a - b, limit = (int32_t)a < 0 ? 0x80000000u : 0x7fffffffu;
    return (int32_t)((a ^ b) & (a ^ d)) < 0 ? limit : d;
}

SG_INLINE uint32_t sg_mulhi_u32(uint32_t a, uint32_t b)
{
    return (uint32_t)(((uint64_t)a * b) >> 32);
}

SG_INLINE uint32_t sg_mulhi_s32(uint32_t a, uint32_t b)
{
    return (uint32_t)(((int64_t)(int32_t)a * (int32_t)b) >> 32);
}

SG_INLINE uint16_t sg_mulhi_u16(uint16_t a, uint16_t b)
{
    return (uint16_t)(((uint32_t)a * b) >> 16);
}

SG_INLINE uint16_t sg_mulhi_s16(uint16_t a, uint16_t b)
{
    return (uint16_t)(((int32_t)(int16_t)a * (int16_t)b) >> 16);
}

SG_INLINE uint64_t sg_mulhi_u64(uint64_t a, uint64_t b)
{
    return (uint64_t)(((sg_u128)a * b) >> 64);
}

SG_INLINE uint64_t sg_mulhi_s64(uint64_t a, uint64_t b)
{
    return (uint64_t)(((sg_i128)(int64_t)a * (int64_t)b) >> 64);
}

/* mad.hi.sat.s32 */
SG_INLINE uint32_t sg_madhi_sat_s32(uint32_t a, uint32_t b, uint32_t c)
{
    return sg_add_sat_s32(sg_mulhi_s32(a, b), c);
}

SG_INLINE int64_t sg_sext_(uint64_t v, unsigned bits)
{
    return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* the 48-bit product of the low 24 bits, sign- or zero-extended to 64 bits: mul24.lo is its low
 * word, mul24.hi (uint32_t)(p >> 16) */
SG_INLINE uint64_t sg_mul24_s32(uint32_t a, uint32_t b)
{
    return (uint64_t)(sg_sext_(a & 0xffffffu, 24) * sg_sext_(b & 0xffffffu, 24));
}

SG_INLINE uint64_t sg_mul24_u32(uint32_t a, uint32_t b)
{
    return (uint64_t)(a & 0xffffffu) * (b & 0xffffffu);
}

/* mad24.hi.sat.s32 */
SG_INLINE uint32_t sg_mad24hi_sat_s32(uint32_t a, uint32_t b, uint32_t c)
{
    return sg_add_sat_s32((uint32_t)(sg_mul24_s32(a, b) >> 16), c);
}

/* Division by zero: PTX leaves it open; here the quotient is all ones, the remainder the dividend.
 * The smallest number by -1: the quotient wraps to itself, the remainder is 0. */
#define SG_DEFINE_DIV(suffix, U, S)                                                                \
    SG_INLINE U sg_div_u##suffix(U a, U b)                                                         \
    {                                                                                              \
        return b ? (U)(a / (b ? b : 1)) : (U) ~(U)0;                                               \
    }                                                                                              \
    SG_INLINE U sg_rem_u##suffix(U a, U b)                                                         \
    {                                                                                              \
        return b ? (U)(a % (b ? b : 1)) : a;                                                       \
    }                                                                                              \
    SG_INLINE U sg_div_s##suffix(U a, U b)                                                         \
    {                                                                                              \
        S d = (S)b == 0 || (S)b == -1 ? 1 : (S)b;                                                  \
        U q = (U)((S)a / d);                                                                       \
        q = (S)b == -1 ? (U)(0 - a) : q;                                                           \
        return b == 0 ? (U) ~(U)0 : q;                                                             \
    }                                                                                              \
    SG_INLINE U sg_rem_s##suffix(U a, U b)                                                         \
    {                                                                                              \
        S d = (S)b == 0 || (S)b == -1 ? 1 : (S)b;                                                  \
        return b == 0 ? a : (U)((S)a % d);                                                         \
    }                                                                                              \
    SG_INLINE U sg_abs_s##suffix(U a) /* abs of the smallest is itself */                          \
    {                                                                                              \
        return (S)a < 0 ? (U)(0 - a) : a;                                                          \
    }                                                                                              \
    SG_INLINE U sg_sad_u##suffix(U a, U b, U c)                                                    \
    {                                                                                              \
        return (U)(c + (a < b ? b - a : a - b));                                                   \
    }                                                                                              \
    SG_INLINE U sg_sad_s##suffix(U a, U b, U c)                                                    \
    {                                                                                              \
        return (U)(c + ((S)a < (S)b ? b - a : a - b));                                             \
    }

SG_DEFINE_DIV(16, uint16_t, int16_t)
SG_DEFINE_DIV(32, uint32_t, int32_t)
SG_DEFINE_DIV(64, uint64_t, int64_t)

/* ---- shifts: counts from the width up give 0 or the sign ------------------------------------- */

#define SG_DEFINE_SHIFT(bits, U, S)                                                                \
    SG_INLINE U sg_shl_b##bits(U a, uint32_t n)                                                    \
    {                                                                                              \
        return n >= bits ? 0 : (U)(a << (n & (bits - 1)));                                         \
    }                                                                                              \
    SG_INLINE U sg_shr_u##bits(U a, uint32_t n)                                                    \
    {                                                                                              \
        return n >= bits ? 0 : (U)(a >> (n & (bits - 1)));                                         \
    }                                                                                              \
    SG_INLINE U sg_shr_s##bits(U a, uint32_t n)                                                    \
    {                                                                                              \
        U sign = (S)a < 0 ? (U)-1 : 0;                                                             \
        return (U)((U)((U)(a ^ sign) >> (n >= bits ? bits - 1 : n)) ^ sign);                       \
    }

SG_DEFINE_SHIFT(16, uint16_t, int16_t)
SG_DEFINE_SHIFT(32, uint32_t, int32_t)
SG_DEFINE_SHIFT(64, uint64_t, int64_t)

/* shf.l, shf.r: @b above @a; .wrap takes the count modulo 32, .clamp at most 32 */
SG_INLINE uint32_t sg_shf_l(uint32_t a, uint32_t b, uint32_t n, bool wrap)
{
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return n == 32 ? a : (uint32_t)((((uint64_t)b << 32 | a) << n) >> 32);
}

SG_INLINE uint32_t sg_shf_r(uint32_t a, uint32_t b, uint32_t n, bool wrap)
{
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return (uint32_t)(((uint64_t)b << 32 | a) >> n);
}

/* ---- bits ------------------------------------------------------------------------------------ */

SG_INLINE uint32_t sg_popc32(uint32_t a)
{
    a -= (a >> 1) & 0x55555555u;
    a = (a & 0x33333333u) + ((a >> 2) & 0x33333333u);
    return (((a + (a >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24;
}

SG_INLINE uint32_t sg_popc64(uint64_t a)
{
    return sg_popc32((uint32_t)a) + sg_popc32((uint32_t)(a >> 32));
}

SG_INLINE uint32_t sg_clz32(uint32_t a)
{
    return a ? (uint32_t)__builtin_clz(a) : 32;
}

SG_INLINE uint32_t sg_clz64(uint64_t a)
{
    return a ? (uint32_t)__builtin_clzll(a) : 64;
}

SG_INLINE uint32_t sg_brev32(uint32_t a)
{
    a = ((a >> 1) & 0x55555555u) | ((a & 0x55555555u) << 1);
    a = ((a >> 2) & 0x33333333u) | ((a & 0x33333333u) << 2);
    a = ((a >> 4) & 0x0f0f0f0fu) | ((a & 0x0f0f0f0fu) << 4);
    a = ((a >> 8) & 0x00ff00ffu) | ((a & 0x00ff00ffu) << 8);
    return (a >> 16) | (a << 16);
}

SG_INLINE uint64_t sg_brev64(uint64_t a)
{
    return (uint64_t)sg_brev32((uint32_t)a) << 32 | sg_brev32((uint32_t)(a >> 32));
}

/* bfind: the highest bit that is not the sign, 0xffffffff if there is none */
SG_INLINE uint32_t sg_bfind32(uint32_t a, bool is_signed, bool shiftamt)
{
    a = is_signed && (int32_t)a < 0 ? ~a : a;
    uint32_t z = sg_clz32(a);
    return a == 0 ? UINT32_MAX : shiftamt ? z : 31 - z;
}

SG_INLINE uint32_t sg_bfind64(uint64_t a, bool is_signed, bool shiftamt)
{
    a = is_signed && (int64_t)a < 0 ? ~a : a;
    uint32_t z = sg_clz64(a);
    return a == 0 ? UINT32_MAX : shiftamt ? z : 63 - z;
}

/* bfe: position and length are the low 8 bits of @pos and @len; bits past the register's end are
 * the sign (of the field's last bit, or of the register) or 0. bfi: bits past the end are lost. */
#define SG_DEFINE_BITFIELD(bits, U, S)                                                             \
    SG_INLINE U sg_bfe_u##bits(U a, uint32_t pos, uint32_t len)                                    \
    {                                                                                              \
        pos &= 255;                                                                                \
        len &= 255;                                                                                \
        U v = sg_shr_u##bits(a, pos);                                                              \
        return len >= bits ? v : (U)(v & (((U)1 << (len & (bits - 1))) - 1));                      \
    }                                                                                              \
    SG_INLINE U sg_bfe_s##bits(U a, uint32_t pos, uint32_t len)                                    \
    {                                                                                              \
        pos &= 255;                                                                                \
        len &= 255;                                                                                \
        uint32_t last = pos + len - 1, top = bits - 1;                                             \
        last = last > top ? top : last;                                                            \
        U v = (U)(a << (top - last)); /* the field's last bit is the sign now */                   \
        uint32_t down = top - last + pos;                                                          \
        return len == 0 ? 0 : (U)((S)v >> (down > top ? top : down));                              \
    }                                                                                              \
    SG_INLINE U sg_bfi_b##bits(U a, U b, uint32_t pos, uint32_t len)                               \
    {                                                                                              \
        pos &= 255;                                                                                \
        len &= 255;                                                                                \
        U ones = len >= bits ? (U) ~(U)0 : (U)(((U)1 << (len & (bits - 1))) - 1);                  \
        U mask = sg_shl_b##bits(ones, pos);                                                        \
        return (U)((sg_shl_b##bits(a, pos) & mask) | (b & ~mask));                                 \
    }

SG_DEFINE_BITFIELD(32, uint32_t, int32_t)
SG_DEFINE_BITFIELD(64, uint64_t, int64_t)

/* fns.b32: the @offset-th set bit from @base on, upwards or downwards; base from 32: none */
SG_INLINE uint32_t sg_fns(uint32_t mask, uint32_t base, int32_t offset)
{
    if (base > 31)
        return UINT32_MAX;
    if (offset == 0)
        return (mask >> base) & 1 ? base : UINT32_MAX;
    uint32_t count = offset < 0 ? 0u - (uint32_t)offset : (uint32_t)offset;
    for (int pos = (int)base; pos >= 0 && pos < 32; pos += offset < 0 ? -1 : 1)
        if (((mask >> pos) & 1) && --count == 0)
            return (uint32_t)pos;
    return UINT32_MAX;
}

/* szext: the low @n bits of @a, sign- or zero-extended */
SG_INLINE uint32_t sg_szext(uint32_t a, uint32_t n, bool is_signed, bool wrap)
{
    uint32_t k = n & 31;
    if (n >= 32 && !wrap)
        return a;
    uint32_t mask = ~UINT32_C(0) << k;
    bool sign = is_signed && k != 0 && ((a >> ((k - 1) & 31)) & 1);
    return (a & ~mask) | (sign ? mask : 0);
}

/* bmsk: ones from bit @a on, @b of them */
SG_INLINE uint32_t sg_bmsk(uint32_t a, uint32_t b, bool wrap)
{
    uint32_t pos = a & 31, len = b & 31;
    if (!wrap && a >= 32)
        return 0;
    uint32_t from = ~UINT32_C(0) << pos;
    if (pos + len >= 32 || (!wrap && b >= 32))
        return from;
    return from & ~(~UINT32_C(0) << (pos + len));
}

SG_INLINE uint32_t sg_lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t lut)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < 8; i++) {
        uint32_t m = (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
        r |= (lut >> i) & 1 ? m : 0;
    }
    return r;
}

enum sg_prmt_mode {
    SG_PRMT_DEFAULT,
    SG_PRMT_F4E,
    SG_PRMT_B4E,
    SG_PRMT_RC8,
    SG_PRMT_ECL,
    SG_PRMT_ECR,
    SG_PRMT_RC16,
};

/* the selector of the default mode that the other modes stand for; their count is 2 bits of @c */
SG_INLINE uint32_t sg_prmt_selector(enum sg_prmt_mode mode, uint32_t c)
{
    static const uint16_t sel[7][4] = {
        [SG_PRMT_F4E] = {0x3210, 0x4321, 0x5432, 0x6543},
        [SG_PRMT_B4E] = {0x5670, 0x6701, 0x7012, 0x0123},
        [SG_PRMT_RC8] = {0x0000, 0x1111, 0x2222, 0x3333},
        [SG_PRMT_ECL] = {0x3210, 0x3211, 0x3222, 0x3333},
        [SG_PRMT_ECR] = {0x0000, 0x1110, 0x2210, 0x3210},
        [SG_PRMT_RC16] = {0x1010, 0x3232, 0x1010, 0x3232},
    };
    return mode == SG_PRMT_DEFAULT ? c : sel[mode][c & 3];
}

SG_INLINE uint32_t sg_prmt(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t ab = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint32_t s = selector >> (4 * i);
        uint32_t v = (uint32_t)(ab >> (8 * (s & 7))) & 0xff;
        v = s & 8 ? (v & 0x80 ? 0xff : 0) : v; /* the sign of the byte, replicated */
        r |= v << (8 * i);
    }
    return r;
}

/* ---- dot products of packed integers ----------------------------------------------------------
 */

SG_INLINE uint32_t sg_dp4a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed)
{
    for (unsigned i = 0; i < 32; i += 8) {
        uint32_t x = (a >> i) & 0xff, y = (b >> i) & 0xff;
        x = a_signed ? (uint32_t)(int8_t)x : x;
        y = b_signed ? (uint32_t)(int8_t)y : y;
        c += x * y;
    }
    return c;
}

/* dp2a: the halves of @a by the low (or @hi) two bytes of @b */
SG_INLINE uint32_t sg_dp2a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed,
                           bool hi)
{
    b = hi ? b >> 16 : b;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t x = (a >> (16 * i)) & 0xffff, y = (b >> (8 * i)) & 0xff;
        x = a_signed ? (uint32_t)(int16_t)x : x;
        y = b_signed ? (uint32_t)(int8_t)y : y;
        c += x * y;
    }
    return c;
}

#endif
