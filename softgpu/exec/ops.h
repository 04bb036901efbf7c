/*
 * ops - what the files ops_*.c share: loops over lanes and the tables that choose operations.
 *
 * A handler computes all 32 lanes; where some living lane is inactive, the results are blended with
 * what the destination held. Lanes that have ended may get garbage: nobody reads them.
 */
#ifndef SG_EXEC_OPS_H
#define SG_EXEC_OPS_H

#include "softgpu/exec/exec_internal.h"
#include "softgpu/num/num.h"

#include <immintrin.h>

#ifdef __clang__ /* it checks for overlaps when it runs */
#define SG_LANES for (int l = 0; l < SG_WARP; l++)
#else
#define SG_LANES _Pragma("GCC ivdep") for (int l = 0; l < SG_WARP; l++)
#endif

typedef uint8_t sg_u8;

/* Result loop: @expr of lane l goes into 32- or 64-bit lanes of @T at @d. */
#define SG_STORE_LANES(T, d, expr)                                                                 \
    do {                                                                                           \
        T *restrict_free_d = (d);                                                                  \
        if (__builtin_expect(w->full, 1)) {                                                        \
            SG_LANES restrict_free_d[l] = (T)(expr);                                               \
        } else {                                                                                   \
            T t_[SG_WARP] __attribute__((aligned(64)));                                            \
            SG_LANES t_[l] = (T)(expr);                                                            \
            SG_LANES restrict_free_d[l] = (T)((t_[l] & (T)(int64_t)w->lm[l]) |                     \
                                              (restrict_free_d[l] & ~(T)(int64_t)w->lm[l]));       \
        }                                                                                          \
    } while (0)

#define SG_HANDLER(name)                                                                           \
    static const struct sg_insn *name(struct sg_warp *w, const struct sg_insn *in)

#define SG_OP0(name, TD, expr)                                                                     \
    SG_HANDLER(name)                                                                               \
    {                                                                                              \
        SG_STORE_LANES(TD, sg_opnd(w, in->r[0]), expr);                                            \
        return in + 1;                                                                             \
    }
#define SG_OP1(name, TD, TA, expr)                                                                 \
    SG_HANDLER(name)                                                                               \
    {                                                                                              \
        const TA *a_ = sg_opnd(w, in->r[1]);                                                       \
        SG_STORE_LANES(TD, sg_opnd(w, in->r[0]), ({                                                \
                           TA x = a_[l];                                                           \
                           (expr);                                                                 \
                       }));                                                                        \
        return in + 1;                                                                             \
    }
#define SG_OP2(name, TD, TA, TB, expr)                                                             \
    SG_HANDLER(name)                                                                               \
    {                                                                                              \
        const TA *a_ = sg_opnd(w, in->r[1]);                                                       \
        const TB *b_ = sg_opnd(w, in->r[2]);                                                       \
        SG_STORE_LANES(TD, sg_opnd(w, in->r[0]), ({                                                \
                           TA x = a_[l];                                                           \
                           TB y = b_[l];                                                           \
                           (expr);                                                                 \
                       }));                                                                        \
        return in + 1;                                                                             \
    }
#define SG_OP3(name, TD, TA, TB, TC, expr)                                                         \
    SG_HANDLER(name)                                                                               \
    {                                                                                              \
        const TA *a_ = sg_opnd(w, in->r[1]);                                                       \
        const TB *b_ = sg_opnd(w, in->r[2]);                                                       \
        const TC *c_ = sg_opnd(w, in->r[3]);                                                       \
        SG_STORE_LANES(TD, sg_opnd(w, in->r[0]), ({                                                \
                           TA x = a_[l];                                                           \
                           TB y = b_[l];                                                           \
                           TC z = c_[l];                                                           \
                           (expr);                                                                 \
                       }));                                                                        \
        return in + 1;                                                                             \
    }

/* One bit a lane from -1 or 0. */
static inline uint32_t sg_lane_bits(const int32_t t[SG_WARP])
{
    uint32_t bits = 0;
#ifdef __AVX2__
    for (int i = 0; i < 4; i++) {
        __m256 v = _mm256_castsi256_ps(_mm256_load_si256((const __m256i *)(const void *)t + i));
        bits |= (uint32_t)_mm256_movemask_ps(v) << (8 * i);
    }
#else
    for (int i = 0; i < 8; i++) {
        __m128 v = _mm_castsi128_ps(_mm_load_si128((const __m128i *)(const void *)t + i));
        bits |= (uint32_t)_mm_movemask_ps(v) << (4 * i);
    }
#endif
    return bits;
}

/* Types are the first modifiers of mods.def. */
static inline bool sg_is_type(enum sg_ptx_mod m)
{
    return m != SG_M_NONE && m <= SG_M_S2F6X2;
}

/* The k-th type among the modifiers, or SG_M_NONE. */
static inline enum sg_ptx_mod sg_type_at(const struct sg_ptx_insn *p, unsigned k)
{
    for (unsigned i = 0; i < p->nmods; i++)
        if (sg_is_type((enum sg_ptx_mod)p->mods[i]) && k-- == 0)
            return (enum sg_ptx_mod)p->mods[i];
    return SG_M_NONE;
}

/* The first modifier of @p that is in the SG_M_NONE-ended @list, or SG_M_NONE. */
static inline enum sg_ptx_mod sg_mod_of(const struct sg_ptx_insn *p, const uint16_t *list)
{
    for (; *list != SG_M_NONE; list++)
        if (sg_ptx_has(p, (enum sg_ptx_mod) * list))
            return (enum sg_ptx_mod) * list;
    return SG_M_NONE;
}

static inline unsigned sg_float_flags(const struct sg_ptx_insn *p)
{
    return (sg_ptx_has(p, SG_M_FTZ) ? SG_NUM_FTZ : 0u) |
           (sg_ptx_has(p, SG_M_SAT) ? SG_NUM_SAT : 0u) |
           (sg_ptx_has(p, SG_M_RELU) ? SG_NUM_RELU : 0u);
}

/* A row of a table: operation and type choose a handler; -1 lanes are unused. */
struct sg_op_row {
    uint16_t op, type;
    sg_handler fn;
};

static inline sg_handler sg_row(const struct sg_op_row *rows, size_t n, unsigned op, unsigned type)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].op == op && rows[i].type == type)
            return rows[i].fn;
    return NULL;
}

/* Emit @fn with destination and up to three sources of the given types. */
static inline struct sg_insn *sg_emit_op(struct sg_dec *d, sg_handler fn, enum sg_ptx_mod td,
                                         enum sg_ptx_mod ta, enum sg_ptx_mod tb, enum sg_ptx_mod tc)
{
    const struct sg_ptx_insn *p = d->insn;
    const enum sg_ptx_mod types[3] = {ta, tb, tc};
    int32_t r[4] = {0};

    for (unsigned i = 1; i < 4; i++)
        if (types[i - 1] != SG_M_NONE) {
            if (i >= p->nopnds) {
                sg_dec_refuse(d, "an operand is missing");
                break;
            }
            r[i] = sg_dec_src(d, &p->opnds[i], types[i - 1]);
        }
    if (p->nopnds == 0)
        sg_dec_refuse(d, "an operand is missing");
    else
        r[0] = sg_dec_dst(d, &p->opnds[0], td);
    struct sg_insn *in = sg_dec_emit(d, fn);
    memcpy(in->r, r, sizeof(r));
    return in;
}

/* a predicate that is read: a register or 0 or 1; ops_bits.c */
int32_t SG_ISA(sg_dec_pred_source)(struct sg_dec *d, const struct sg_ptx_opnd *o, bool *neg);

/* one per file; @return false: not mine or not supported */
bool SG_ISA(sg_decode_int)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_bits)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_float)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_half)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_cvt)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_cmp)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_move)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_mem)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_atom)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_ctrl)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_warp)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_op_meet)(struct sg_warp *w);
bool SG_ISA(sg_decode_async)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_tensor)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_matrix)(struct sg_dec *d, const struct sg_ptx_insn *p);
bool SG_ISA(sg_decode_video)(struct sg_dec *d, const struct sg_ptx_insn *p);
const struct sg_insn *SG_ISA(sg_op_mov_sreg)(struct sg_warp *w, const struct sg_insn *in);
const struct sg_insn *SG_ISA(sg_op_narrow)(struct sg_warp *w, const struct sg_insn *in);
const struct sg_insn *SG_ISA(sg_op_widen)(struct sg_warp *w, const struct sg_insn *in);
const struct sg_insn *SG_ISA(sg_op_guarded)(struct sg_warp *w, const struct sg_insn *in);
const struct sg_insn *SG_ISA(sg_op_guarded_ctrl)(struct sg_warp *w, const struct sg_insn *in);
const struct sg_insn *SG_ISA(sg_op_end)(struct sg_warp *w, const struct sg_insn *in);

#endif
