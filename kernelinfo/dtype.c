/*
 * Types of what is loaded and stored. An instruction that says .f32 is believed. One that says .b32
 * (all that some compilers write) or .u16 (what nvcc writes for halves) moves what the value is:
 * the result of the instruction that made it, or what those that use it take it for.
 */
#include "kernelinfo/kernelinfo_internal.h"

#include <string.h>

uint8_t ki_dt_merge(uint8_t a, uint8_t b)
{
    if (!a || a == b)
        return b;
    return b ? KI_DT_MIXED : a;
}

uint8_t ki_dt_of(unsigned mod)
{
    switch (mod) {
    case SG_M_F16:
    case SG_M_F16X2:
        return TB_DT_F16;
    case SG_M_BF16:
    case SG_M_BF16X2:
        return TB_DT_BF16;
    case SG_M_F32:
    case SG_M_F32X2:
    case SG_M_TF32:
        return TB_DT_F32;
    case SG_M_F64:
        return TB_DT_F64;
    case SG_M_E4M3:
    case SG_M_E4M3X2:
    case SG_M_E4M3X4:
        return TB_DT_F8E4M3;
    case SG_M_E5M2:
    case SG_M_E5M2X2:
    case SG_M_E5M2X4:
        return TB_DT_F8E5M2;
    case SG_M_U8:
        return TB_DT_U8;
    case SG_M_S8:
        return TB_DT_I8;
    case SG_M_U16:
        return TB_DT_U16;
    case SG_M_S16:
        return TB_DT_I16;
    case SG_M_U32:
        return TB_DT_U32;
    case SG_M_S32:
        return TB_DT_I32;
    case SG_M_U64:
        return TB_DT_U64;
    case SG_M_S64:
        return TB_DT_I64;
    default:
        return KI_DT_MIXED;
    }
}

bool ki_dt_is_float(uint8_t dt)
{
    switch (dt) {
    case TB_DT_F16:
    case TB_DT_BF16:
    case TB_DT_F32:
    case TB_DT_F64:
    case TB_DT_F8E4M3:
    case TB_DT_F8E5M2:
        return true;
    default:
        return false;
    }
}

uint8_t ki_dt_access(unsigned mod, uint8_t value)
{
    uint8_t dt = ki_dt_of(mod);
    unsigned n = sg_ptx_type_size((enum sg_ptx_mod)mod);

    if (ki_dt_is_float(dt))
        return dt;
    if (ki_dt_is_float(value) && tb_dtype_size(value) <= n)
        return value; /* several of them in one register, too */
    if (dt == KI_DT_MIXED && value && value != KI_DT_MIXED && tb_dtype_size(value) == n)
        return value; /* .b32; what says .u32 is left so: integers have no sign of their own */
    return dt;
}

unsigned ki_type(const struct sg_ptx_insn *in, unsigned k)
{
    for (unsigned i = 0; i < in->nmods; i++)
        if ((sg_ptx_type_size((enum sg_ptx_mod)in->mods[i]) || in->mods[i] == SG_M_PRED) &&
            k-- == 0)
            return in->mods[i];
    return SG_M_NONE;
}

unsigned ki_last_type(const struct sg_ptx_insn *in)
{
    for (unsigned i = in->nmods; i-- > 0;)
        if (sg_ptx_type_size((enum sg_ptx_mod)in->mods[i]))
            return in->mods[i];
    return SG_M_NONE;
}

/* ---------------------------------------------------------------- uses */

static void note(const struct sg_ptx_opnd *o, uint8_t dt, uint8_t *out)
{
    if (!dt || dt == KI_DT_MIXED)
        return;
    if (o->kind == SG_OPND_REG)
        out[o->reg] = ki_dt_merge(out[o->reg], dt);
    for (uint32_t i = 0; o->kind == SG_OPND_VEC && i < o->n; i++)
        note(&o->sub[i], dt, out);
}

/* Sources of an instruction that calculates: of its type, but where it names one for each. */
static void note_sources(const struct sg_ptx_insn *in, uint8_t *out)
{
    uint8_t first = ki_dt_of(ki_type(in, 0)), second = ki_dt_of(ki_type(in, 1));

    for (unsigned i = 1; i < in->nopnds; i++) {
        uint8_t dt = first;

        if (in->op == SG_OP_CVT || in->op == SG_OP_SET)
            dt = second;
        else if (in->op == SG_OP_MMA) /* .d.a.b.c */
            dt = i < 4 ? ki_dt_of(ki_type(in, i)) : KI_DT_MIXED;
        if (ki_dt_is_float(dt))
            note(&in->opnds[i], dt, out);
    }
}

static uint8_t known(const struct sg_ptx_opnd *o, const uint8_t *out)
{
    uint8_t dt = 0;

    if (o->kind == SG_OPND_REG)
        return out[o->reg];
    for (uint32_t i = 0; o->kind == SG_OPND_VEC && i < o->n; i++)
        dt = ki_dt_merge(dt, known(&o->sub[i], out));
    return dt;
}

static void note_insn(const struct sg_ptx_insn *in, uint8_t *out)
{
    switch (in->op) {
    case SG_OP_MOV:
    case SG_OP_SELP:
    case SG_OP_SLCT:
        for (unsigned i = 1; i < in->nopnds && i < 3; i++)
            note(&in->opnds[i], known(&in->opnds[0], out), out);
        break;
    case SG_OP_LD:
    case SG_OP_ST:
    case SG_OP_LDU:
    case SG_OP_ATOM:
    case SG_OP_RED:
    case SG_OP_CALL:
    case SG_OP_SHFL:
    case SG_OP_WMMA:
    case SG_OP_CP:
        break;
    default:
        note_sources(in, out);
    }
}

void ki_dt_uses(const struct sg_ptx_func *f, uint8_t *out)
{
    memset(out, 0, f->nregs);
    for (int pass = 0; pass < 2; pass++) /* copies of copies around a loop */
        for (uint32_t i = f->ninsns; i-- > 0;)
            note_insn(&f->insns[i], out);
}
