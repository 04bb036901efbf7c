/*
 * Predicates of set, setp, testp and slct on the bits of floats; vectorisable where @cmp and @flags
 * are constants. They need the default floating-point environment: sg_num_enter().
 */
#ifndef SG_NUM_NUM_CMP_H
#define SG_NUM_NUM_CMP_H

#include "softgpu/num/num_inline.h"

#define SG_DEFINE_CMP(name, F)                                                                     \
    SG_INLINE bool name(enum sg_cmp cmp, F a, F b)                                                 \
    {                                                                                              \
        bool num = (a == a) & (b == b); /* NOLINT(misc-redundant-expression) */                    \
        switch (cmp) {                                                                             \
        case SG_CMP_EQ:                                                                            \
            return a == b;                                                                         \
        case SG_CMP_NE:                                                                            \
            return (a < b) | (a > b);                                                              \
        case SG_CMP_LT:                                                                            \
            return a < b;                                                                          \
        case SG_CMP_LE:                                                                            \
            return a <= b;                                                                         \
        case SG_CMP_GT:                                                                            \
            return a > b;                                                                          \
        case SG_CMP_GE:                                                                            \
            return a >= b;                                                                         \
        case SG_CMP_EQU:                                                                           \
            return !((a < b) | (a > b));                                                           \
        case SG_CMP_NEU:                                                                           \
            return !(a == b);                                                                      \
        case SG_CMP_LTU:                                                                           \
            return !(a >= b);                                                                      \
        case SG_CMP_LEU:                                                                           \
            return !(a > b);                                                                       \
        case SG_CMP_GTU:                                                                           \
            return !(a <= b);                                                                      \
        case SG_CMP_GEU:                                                                           \
            return !(a < b);                                                                       \
        case SG_CMP_NUM:                                                                           \
            return num;                                                                            \
        case SG_CMP_NAN:                                                                           \
            return !num;                                                                           \
        }                                                                                          \
        return false;                                                                              \
    }

SG_DEFINE_CMP(sg_cmp_f32_, float)
SG_DEFINE_CMP(sg_cmp_f64_, double)

/* set, setp on floats; FTZ flushes both operands */
SG_INLINE bool sg_f32_cmp(enum sg_cmp cmp, uint32_t a, uint32_t b, unsigned flags)
{
    if (flags & SG_NUM_FTZ) {
        a = sg_f32_ftz(a);
        b = sg_f32_ftz(b);
    }
    return sg_cmp_f32_(cmp, sg_f32_val(a), sg_f32_val(b));
}

SG_INLINE bool sg_f64_cmp(enum sg_cmp cmp, uint64_t a, uint64_t b)
{
    return sg_cmp_f64_(cmp, sg_f64_val(a), sg_f64_val(b));
}

SG_INLINE bool sg_f16_cmp(enum sg_cmp cmp, uint16_t a, uint16_t b, unsigned flags)
{
    return sg_cmp_f32_(cmp, sg_f16_in_(a, flags), sg_f16_in_(b, flags));
}

SG_INLINE bool sg_bf16_cmp(enum sg_cmp cmp, uint16_t a, uint16_t b)
{
    return sg_cmp_f32_(cmp, sg_bf16_in_(a, 0), sg_bf16_in_(b, 0));
}

enum sg_testp {
    SG_TESTP_FINITE,
    SG_TESTP_INFINITE,
    SG_TESTP_NUMBER,
    SG_TESTP_NAN,
    SG_TESTP_NORMAL, /* zeros are normal */
    SG_TESTP_SUBNORMAL,
};

#define SG_DEFINE_TESTP(name, U, INF, MIN_NORMAL)                                                  \
    SG_INLINE bool name(enum sg_testp what, U u)                                                   \
    {                                                                                              \
        U m = u & ~((U)1 << (sizeof(U) * 8 - 1));                                                  \
        switch (what) {                                                                            \
        case SG_TESTP_FINITE:                                                                      \
            return m < (INF);                                                                      \
        case SG_TESTP_INFINITE:                                                                    \
            return m == (INF);                                                                     \
        case SG_TESTP_NUMBER:                                                                      \
            return m <= (INF);                                                                     \
        case SG_TESTP_NAN:                                                                         \
            return m > (INF);                                                                      \
        case SG_TESTP_NORMAL:                                                                      \
            return m == 0 || (m >= (MIN_NORMAL) && m < (INF));                                     \
        case SG_TESTP_SUBNORMAL:                                                                   \
            return m != 0 && m < (MIN_NORMAL);                                                     \
        }                                                                                          \
        return false;                                                                              \
    }

SG_DEFINE_TESTP(sg_f32_testp, uint32_t, 0x7f800000u, 0x00800000u)
SG_DEFINE_TESTP(sg_f64_testp, uint64_t, UINT64_C(0x7ff0000000000000), UINT64_C(0x0010000000000000))

/* slct with an f32 selector: c >= 0 (-0 too) takes a; NaN takes b */
SG_INLINE bool sg_slct_f32(uint32_t c, unsigned flags)
{
    return sg_f32_cmp(SG_CMP_GE, c, 0, flags);
}

#endif
