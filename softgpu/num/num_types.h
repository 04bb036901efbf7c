/* Types, flags and constants of softgpu/num; start at num.h. */
#ifndef SG_NUM_NUM_TYPES_H
#define SG_NUM_NUM_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#define SG_INLINE static inline __attribute__((always_inline, unused))

__extension__ typedef __int128 sg_i128;
__extension__ typedef unsigned __int128 sg_u128;

/* Types of elements, packed ones named by their element. */
enum sg_type {
    SG_T_U8,
    SG_T_S8,
    SG_T_U16,
    SG_T_S16,
    SG_T_U32,
    SG_T_S32,
    SG_T_U64,
    SG_T_S64,
    SG_T_F16,
    SG_T_BF16,
    SG_T_F32,
    SG_T_F64,
    SG_T_TF32, /* in 32 bits, the low 13 are zero */
    SG_T_E4M3, /* no infinity, one NaN */
    SG_T_E5M2,
    SG_T_COUNT
};

static inline bool sg_type_is_float(enum sg_type t)
{
    return t >= SG_T_F16;
}
static inline bool sg_type_is_signed(enum sg_type t) /* of integer types */
{
    return (t & 1) != 0;
}
unsigned sg_type_bits(enum sg_type t); /* TF32: 32 */

enum sg_rnd {
    SG_RND_RN,  /* nearest, ties to even; .rni of integral rounding */
    SG_RND_RZ,  /* towards zero; .rzi */
    SG_RND_RM,  /* towards -infinity; .rmi */
    SG_RND_RP,  /* towards +infinity; .rpi */
    SG_RND_RNA, /* nearest, ties away from zero: only cvt to tf32 */
};

enum sg_num_flags {
    SG_NUM_FTZ = 1 << 0,  /* subnormal inputs and results become zeros of their sign */
    SG_NUM_SAT = 1 << 1,  /* result clamped to [+0, 1], NaN becomes +0; integers: see sg_cvt_init */
    SG_NUM_RELU = 1 << 2, /* negative results (-0 too) become +0, NaN becomes the canonical NaN */
    SG_NUM_SATFINITE = 1 << 3, /* cvt: what would overflow becomes the largest finite number */
    SG_NUM_NAN = 1 << 4,       /* min, max: a NaN operand makes the result NaN */
    SG_NUM_XORSIGN = 1 << 5,   /* min, max .xorsign.abs */
};

/* NaNs that are not inputs handed on. f32, f16, bf16 and fp8 results are always these. */
#define SG_F32_NAN 0x7fffffffu
#define SG_F16_NAN 0x7fffu
#define SG_BF16_NAN 0x7fffu
#define SG_E4M3_NAN 0x7fu
#define SG_E5M2_NAN 0x7fu
#define SG_F64_NAN UINT64_C(0xfff8000000000000)

enum sg_cmp {
    SG_CMP_EQ,
    SG_CMP_NE,
    SG_CMP_LT,
    SG_CMP_LE,
    SG_CMP_GT,
    SG_CMP_GE,
    SG_CMP_EQU, /* from here: true if an operand is NaN */
    SG_CMP_NEU,
    SG_CMP_LTU,
    SG_CMP_LEU,
    SG_CMP_GTU,
    SG_CMP_GEU,
    SG_CMP_NUM,
    SG_CMP_NAN,
};

#endif
