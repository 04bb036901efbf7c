/* Which operands of an instruction are written, and where control goes after it. */
#include "softgpu/exec/operands.h"

/* Instructions whose first operand is no destination, whatever their modifiers are. */
static bool never_writes(enum sg_ptx_op op)
{
    switch (op) {
    case SG_OP_ST:
    case SG_OP_RED:
    case SG_OP_BRA:
    case SG_OP_BRX:
    case SG_OP_MEMBAR:
    case SG_OP_FENCE:
    case SG_OP_RET:
    case SG_OP_EXIT:
    case SG_OP_TRAP:
    case SG_OP_BRKPT:
    case SG_OP_PREFETCH:
    case SG_OP_PREFETCHU:
    case SG_OP_CP:
    case SG_OP_NANOSLEEP:
    case SG_OP_STMATRIX:
    case SG_OP_DISCARD:
    case SG_OP_APPLYPRIORITY:
    case SG_OP_GRIDDEPCONTROL:
    case SG_OP_SETMAXNREG:
    case SG_OP_STACKRESTORE:
    case SG_OP_PMEVENT:
        return true;
    default:
        return false;
    }
}

bool sg_operands_writes_first(const struct sg_ptx_insn *in)
{
    if (in->nopnds == 0)
        return false;
    switch ((enum sg_ptx_op)in->op) {
    case SG_OP_BAR:
    case SG_OP_BARRIER:
        return sg_ptx_has(in, SG_M_RED);
    case SG_OP_WMMA:
        return !sg_ptx_has(in, SG_M_STORE);
    case SG_OP_MBARRIER:
        return sg_ptx_has(in, SG_M_TEST_WAIT) || sg_ptx_has(in, SG_M_TRY_WAIT) ||
               sg_ptx_has(in, SG_M_PENDING_COUNT) ||
               (in->nopnds > 1 && in->opnds[0].kind != SG_OPND_ADDR &&
                (sg_ptx_has(in, SG_M_ARRIVE) || sg_ptx_has(in, SG_M_ARRIVE_DROP)));
    default:
        return !never_writes((enum sg_ptx_op)in->op);
    }
}

static void visit(const struct sg_ptx_opnd *o, bool def, sg_operand_fn fn, void *arg)
{
    switch (o->kind) {
    case SG_OPND_REG:
        fn(arg, o->reg, def);
        break;
    case SG_OPND_VEC:
        for (uint32_t i = 0; i < o->n; i++)
            visit(&o->sub[i], def, fn, arg);
        break;
    case SG_OPND_PAIR:
        visit(&o->sub[0], def, fn, arg);
        visit(&o->sub[1], def, fn, arg);
        break;
    case SG_OPND_ADDR:
        visit(&o->sub[0], false, fn, arg);
        break;
    default:
        break;
    }
}

void sg_operands_visit(const struct sg_ptx_insn *in, sg_operand_fn fn, void *arg)
{
    bool writes = sg_operands_writes_first(in);

    if (in->op == SG_OP_CALL) {
        for (unsigned i = 0; i < in->nopnds; i++)
            visit(&in->opnds[i], i == 0, fn, arg);
    } else {
        /* reads before writes: who visits may rely on it */
        for (unsigned i = 0; i < in->nopnds; i++)
            if (i != 0 || !writes)
                visit(&in->opnds[i], false, fn, arg);
        if (writes)
            visit(&in->opnds[0], true, fn, arg);
    }
    if (in->guarded)
        fn(arg, in->guard, false);
}

bool sg_operands_falls_through(const struct sg_ptx_insn *in)
{
    if (in->guarded)
        return true;
    switch ((enum sg_ptx_op)in->op) {
    case SG_OP_BRA:
    case SG_OP_BRX:
    case SG_OP_RET:
    case SG_OP_EXIT:
        return false;
    default:
        return true;
    }
}

void sg_operands_targets(const struct sg_ptx_insn *in, sg_target_fn fn, void *arg)
{
    if (in->op != SG_OP_BRA && in->op != SG_OP_BRX)
        return;
    for (unsigned i = 0; i < in->nopnds; i++) {
        const struct sg_ptx_opnd *o = &in->opnds[i];
        if (o->kind == SG_OPND_LABEL)
            fn(arg, o->target);
        else if (o->kind == SG_OPND_TABLE && o->table->kind == SG_TABLE_BRANCH)
            for (uint32_t k = 0; k < o->table->n; k++)
                fn(arg, o->table->targets[k]);
    }
}
