/*
 * softgpu/num - the scalar arithmetic of PTX on bit patterns, exact where PTX defines it.
 *
 * Three layers: vectorisable inlines for what an interpreter does in loops over lanes
 * (num_inline.h: floats, num_cmp.h: predicates, num_int.h: integers, num_approx.h: ex2, sin ...,
 * the same bits on every x86-64; all come with this header), and correctly rounded functions for
 * every rounding mode and the conversions, in pure integer arithmetic (this header). Types:
 * num_types.h. Floats travel as their bits, never as float. Rules chosen and where they come from:
 * README.md. Matrix products of tensor cores: tensor.h.
 *
 * Threads: everything here is pure: no state, no allocation, any thread. Functions of this header
 * do not depend on MXCSR; inlines that compute with float or double say so (see sg_num_enter()).
 * The folder's users inherit -ffp-contract=off: a fused a * b + c would change bits.
 */
#ifndef SG_NUM_NUM_H
#define SG_NUM_NUM_H

#include "softgpu/num/num_approx.h"
#include "softgpu/num/num_cmp.h"
#include "softgpu/num/num_inline.h"
#include "softgpu/num/num_int.h"
#include "softgpu/num/num_types.h"

#include "common/common.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- correctly rounded, every rounding mode ------------------------------------------------
 * @rnd is RN, RZ, RM or RP; @flags of SG_NUM_FTZ and SG_NUM_SAT (f32 only). A result that rounds
 * to a subnormal is flushed after the rounding. NaN: f32 gives SG_F32_NAN; f64 gives its first NaN
 * operand, made quiet, or SG_F64_NAN for an invalid operation. */
uint32_t sg_f32_add(uint32_t a, uint32_t b, enum sg_rnd rnd, unsigned flags);
uint32_t sg_f32_sub(uint32_t a, uint32_t b, enum sg_rnd rnd, unsigned flags);
uint32_t sg_f32_mul(uint32_t a, uint32_t b, enum sg_rnd rnd, unsigned flags);
uint32_t sg_f32_fma(uint32_t a, uint32_t b, uint32_t c, enum sg_rnd rnd, unsigned flags);
uint32_t sg_f32_div(uint32_t a, uint32_t b, enum sg_rnd rnd, unsigned flags);
uint32_t sg_f32_sqrt(uint32_t a, enum sg_rnd rnd, unsigned flags);
uint32_t sg_f32_rcp(uint32_t a, enum sg_rnd rnd, unsigned flags);

uint64_t sg_f64_add(uint64_t a, uint64_t b, enum sg_rnd rnd);
uint64_t sg_f64_sub(uint64_t a, uint64_t b, enum sg_rnd rnd);
uint64_t sg_f64_mul(uint64_t a, uint64_t b, enum sg_rnd rnd);
uint64_t sg_f64_fma(uint64_t a, uint64_t b, uint64_t c, enum sg_rnd rnd);
uint64_t sg_f64_div(uint64_t a, uint64_t b, enum sg_rnd rnd);
uint64_t sg_f64_sqrt(uint64_t a, enum sg_rnd rnd);
uint64_t sg_f64_rcp(uint64_t a, enum sg_rnd rnd);

/* The same by name of the operation, for every float type: the reference that the inlines for
 * f16 and bf16 are tested against. @c is used by FMA only, @b not by SQRT and RCP. */
enum sg_num_op {
    SG_NUM_ADD,
    SG_NUM_SUB,
    SG_NUM_MUL,
    SG_NUM_FMA,
    SG_NUM_DIV,
    SG_NUM_SQRT,
    SG_NUM_RCP
};
uint64_t sg_num_arith(enum sg_num_op op, enum sg_type t, uint64_t a, uint64_t b, uint64_t c,
                      enum sg_rnd rnd, unsigned flags);

/* ---- conversions ------------------------------------------------------------------------- */

enum sg_cvt_mode {
    SG_CVT_PLAIN,    /* no rounding modifier */
    SG_CVT_FLOAT,    /* .rn .rz .rm .rp .rna */
    SG_CVT_INTEGRAL, /* .rni .rzi .rmi .rpi: the value is rounded to an integer */
};

/* A conversion chosen once, when an instruction is decoded. */
struct sg_cvt {
    uint64_t (*fn)(const struct sg_cvt *c, uint64_t a, uint64_t b);
    uint8_t dst, src;  /* enum sg_type of an element */
    uint8_t rnd, mode; /* enum sg_rnd, enum sg_cvt_mode */
    uint8_t flags;     /* enum sg_num_flags */
    bool pack;         /* the destination is a pair: f16x2, bf16x2, e4m3x2, e5m2x2 */
    bool src_pair;     /* the source is one packed pair; else a pair comes from a (high), b (low) */
};

/**
 * sg_cvt_init - choose the conversion for a cvt instruction
 * @c:   dst, src, rnd, mode, flags, pack and src_pair are filled in by the caller
 * @err: says which modifier or pair of types is not legal
 *
 * Legal is what PTX ISA 9.0 lists for the types of enum sg_type; a rounding modifier that the types
 * need and that is missing is refused, as is one that they must not have. SG_NUM_SAT on integers
 * clamps to the destination; floats to integers always clamp.
 * Returns: TB_OK, c->fn set; TB_ERR_FORMAT.
 */
TB_MUST_CHECK enum tb_status sg_cvt_init(struct sg_cvt *c, struct tb_error *err);

/**
 * sg_cvt_run - convert
 * @a: source bits; those above the source type are ignored
 * @b: second source of the two-source packs (it becomes the low half)
 *
 * Returns: the destination's bits; signed integers are sign-extended to 64 bits, all else is
 * zero-extended, so that a store into a wider register is the truncation of it.
 */
static inline uint64_t sg_cvt_run(const struct sg_cvt *c, uint64_t a, uint64_t b)
{
    return c->fn(c, a, b);
}

/* cvt.pack.sat: @a and @b clamped to @bits (16, 8, 4, 2) and packed, @a above @b; @c moves up */
uint32_t sg_cvt_pack(int32_t a, int32_t b, uint32_t c, unsigned bits, bool is_signed);

/* ---- video instructions ------------------------------------------------------------------- */

enum sg_video_op {
    SG_VIDEO_ADD,
    SG_VIDEO_SUB,
    SG_VIDEO_ABSDIFF,
    SG_VIDEO_MIN,
    SG_VIDEO_MAX,
    SG_VIDEO_AVRG, /* SIMD only */
    SG_VIDEO_SHL,  /* scalar only */
    SG_VIDEO_SHR,
    SG_VIDEO_SET,
};

/* Parts of a register as struct sg_ptx_opnd.half counts them: 0 whole, 1..4 .b0-.b3, 5, 6 .h0 .h1
 */
enum sg_video_second { SG_VIDEO_NONE, SG_VIDEO_OP2_ADD, SG_VIDEO_OP2_MIN, SG_VIDEO_OP2_MAX };

struct sg_video {
    uint8_t op;                          /* enum sg_video_op */
    bool dst_signed, a_signed, b_signed; /* .u32 or .s32 */
    bool sat;
    bool wrap;                    /* vshl, vshr: .wrap, else .clamp */
    uint8_t cmp;                  /* vset: EQ .. GE */
    uint8_t a_sel, b_sel;         /* scalar: parts of the sources */
    uint8_t d_sel;                /* scalar: merge into that part of c; 0: none */
    uint8_t second;               /* enum sg_video_second; SIMD: NONE (merge by mask) or OP2_ADD */
    uint8_t lanes;                /* SIMD: 2 or 4 */
    uint8_t mask;                 /* SIMD: bit i: lane i is written */
    uint8_t a_lane[4], b_lane[4]; /* SIMD: which of the parts of {b, a}: a's are 0.., b's lanes.. */
};

uint32_t sg_video_scalar(const struct sg_video *v, uint32_t a, uint32_t b, uint32_t c);
uint32_t sg_video_simd(const struct sg_video *v, uint32_t a, uint32_t b, uint32_t c);

struct sg_vmad {
    bool a_signed, b_signed;
    bool a_neg, b_neg, c_neg; /* '-' before the operand */
    bool po;                  /* plus one */
    bool sat;
    uint8_t a_sel, b_sel;
    uint8_t shift; /* 0, 7 or 15 */
};
uint32_t sg_vmad(const struct sg_vmad *v, uint32_t a, uint32_t b, uint32_t c);

/**
 * sg_num_enter - give the calling thread the default floating-point environment
 *
 * The inlines that compute with float or double, and an interpreter's own loops, need it: a
 * program may have set flush-to-zero for its thread. Returns what sg_num_leave() puts back.
 */
uint32_t sg_num_enter(void);
void sg_num_leave(uint32_t saved);

#endif
