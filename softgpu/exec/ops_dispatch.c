/* Which file decodes an instruction. */
#include "softgpu/exec/ops.h"

static bool is_half(enum sg_ptx_mod t)
{
    return t == SG_M_F16 || t == SG_M_F16X2 || t == SG_M_BF16 || t == SG_M_BF16X2;
}

static bool is_float(enum sg_ptx_mod t)
{
    return t == SG_M_F32 || t == SG_M_F64 || t == SG_M_F32X2;
}

/* Arithmetic has the same names for all types. */
static bool arithmetic(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = sg_type_at(p, 0);

    if (is_half(t) || is_half(sg_type_at(p, 1)))
        return is_half(t) && sg_type_at(p, 1) == SG_M_NONE && SG_ISA(sg_decode_half)(d, p);
    return is_float(t) ? SG_ISA(sg_decode_float)(d, p) : SG_ISA(sg_decode_int)(d, p);
}

static bool decode(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    switch ((enum sg_ptx_op)p->op) {
    case SG_OP_ADD:
    case SG_OP_SUB:
    case SG_OP_MUL:
    case SG_OP_MAD:
    case SG_OP_FMA:
    case SG_OP_DIV:
    case SG_OP_REM:
    case SG_OP_MIN:
    case SG_OP_MAX:
    case SG_OP_NEG:
    case SG_OP_ABS:
    case SG_OP_ADDC:
    case SG_OP_SUBC:
    case SG_OP_MADC:
    case SG_OP_MUL24:
    case SG_OP_MAD24:
    case SG_OP_SAD:
    case SG_OP_SQRT:
    case SG_OP_RCP:
    case SG_OP_RSQRT:
    case SG_OP_SIN:
    case SG_OP_COS:
    case SG_OP_EX2:
    case SG_OP_LG2:
    case SG_OP_TANH:
    case SG_OP_COPYSIGN:
        return arithmetic(d, p);
    case SG_OP_CVT:
        return SG_ISA(sg_decode_cvt)(d, p);
    case SG_OP_SETP:
    case SG_OP_SET:
    case SG_OP_SELP:
    case SG_OP_SLCT:
    case SG_OP_TESTP:
        return SG_ISA(sg_decode_cmp)(d, p);
    case SG_OP_MOV:
    case SG_OP_CVTA:
    case SG_OP_ISSPACEP:
    case SG_OP_MAPA:
    case SG_OP_GETCTARANK:
        return SG_ISA(sg_decode_move)(d, p);
    case SG_OP_ATOM:
    case SG_OP_RED:
        return SG_ISA(sg_decode_atom)(d, p);
    case SG_OP_LD:
    case SG_OP_LDU:
    case SG_OP_ST:
    case SG_OP_CREATEPOLICY:
    case SG_OP_PREFETCH:
    case SG_OP_PREFETCHU:
    case SG_OP_APPLYPRIORITY:
        return SG_ISA(sg_decode_mem)(d, p);
    case SG_OP_SHFL:
    case SG_OP_VOTE:
    case SG_OP_MATCH:
    case SG_OP_REDUX:
    case SG_OP_ACTIVEMASK:
    case SG_OP_ELECT:
        return SG_ISA(sg_decode_warp)(d, p);
    case SG_OP_CP:
    case SG_OP_MBARRIER:
        return SG_ISA(sg_decode_async)(d, p);
    case SG_OP_MMA:
    case SG_OP_WMMA:
    case SG_OP_LDMATRIX:
    case SG_OP_STMATRIX:
    case SG_OP_MOVMATRIX:
        return SG_ISA(sg_decode_tensor)(d, p);
    case SG_OP_BRA:
    case SG_OP_BRX:
    case SG_OP_CALL:
    case SG_OP_EXIT:
    case SG_OP_RET:
    case SG_OP_TRAP:
    case SG_OP_BRKPT:
    case SG_OP_BAR:
    case SG_OP_BARRIER:
    case SG_OP_MEMBAR:
    case SG_OP_FENCE:
    case SG_OP_NANOSLEEP:
    case SG_OP_PMEVENT:
    case SG_OP_GRIDDEPCONTROL:
    case SG_OP_SETMAXNREG:
        return SG_ISA(sg_decode_ctrl)(d, p);
    default:
        return SG_ISA(sg_decode_bits)(d, p) || SG_ISA(sg_decode_video)(d, p);
    }
}

const struct sg_isa SG_ISA(sg_isa) = {
    .name = SG_ISA_NAME,
    .decode = decode,
    .guarded = SG_ISA(sg_op_guarded),
    .guarded_ctrl = SG_ISA(sg_op_guarded_ctrl),
    .narrow = SG_ISA(sg_op_narrow),
    .widen = SG_ISA(sg_op_widen),
    .meet = SG_ISA(sg_op_meet),
    .mov_sreg = SG_ISA(sg_op_mov_sreg),
    .end = SG_ISA(sg_op_end),
};
