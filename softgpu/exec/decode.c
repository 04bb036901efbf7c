/*
 * Turns the instructions of a function into struct sg_insn. What an instruction does is chosen by
 * the files ops_*.c; here are operands: registers, immediates, variables.
 */
#include "softgpu/exec/exec_internal.h"
#include "softgpu/exec/operands.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define POOL_SLOT 256u

const struct sg_isa *sg_isa(void)
{
#if defined(__x86_64__)
    static _Atomic int chosen; /* 0 not yet, 1 base, 2 AVX2: the same answer whoever asks first */
    int c = atomic_load(&chosen);

    if (c == 0) {
        const char *want = getenv("SOFTGPU_ISA"); /* for tests: "base" */
        __builtin_cpu_init();
        c = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    !(want != NULL && strcmp(want, "base") == 0)
                ? 2
                : 1;
        atomic_store(&chosen, c);
    }
    return c == 2 ? &sg_isa_avx2 : &sg_isa_base;
#else
    return &sg_isa_base;
#endif
}

/* ---- refusals -------------------------------------------------------------------------------- */

static size_t insn_text(const struct sg_ptx_insn *in, char *buf, size_t n)
{
    size_t k = (size_t)snprintf(buf, n, "%s", sg_ptx_op_name((enum sg_ptx_op)in->op));

    for (unsigned i = 0; i < in->nmods && k < n; i++)
        k += (size_t)snprintf(buf + k, n - k, ".%s", sg_ptx_mod_name((enum sg_ptx_mod)in->mods[i]));
    return k;
}

bool sg_dec_refuse(struct sg_dec *d, const char *fmt, ...)
{
    char name[160], why[200];
    va_list ap;

    if (d->status != TB_OK)
        return false;
    insn_text(d->insn, name, sizeof(name));
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    d->status = tb_fail(d->err, TB_ERR_UNSUPPORTED, "%s: '%s' in '%s', line %u: %s", d->image->path,
                        name, d->ptx->name, d->insn->line, why);
    return false;
}

static void no_memory(struct sg_dec *d)
{
    if (d->status == TB_OK)
        d->status = tb_fail(d->err, TB_ERR_NOMEM, "%s: no memory", d->image->path);
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool pool_grow(struct sg_image *image)
{
    uint32_t cap = image->cap_pool ? image->cap_pool * 2 : 64;
    uint8_t *p = aligned_alloc(64, (size_t)cap * POOL_SLOT);
    uint32_t *h = calloc((size_t)cap * 2, sizeof(*h));

    if (p == NULL || h == NULL) {
        free(p);
        free(h);
        return false;
    }
    uint8_t *end = p + (size_t)cap * POOL_SLOT;
    size_t used = (size_t)image->npool * POOL_SLOT;
    if (used != 0)
        memcpy(end - used, image->pool_end - used, used);
    free(image->pool);
    free(image->pool_hash);
    image->pool = p;
    image->pool_end = end;
    image->pool_hash = h;
    image->pool_hash_cap = cap * 2;
    image->cap_pool = cap;
    for (uint32_t i = 0; i < image->npool; i++) {
        uint64_t bits;
        memcpy(&bits, end - (size_t)(i + 1) * POOL_SLOT, sizeof(bits));
        uint32_t at = (uint32_t)(bits * 0x9E3779B97F4A7C15u >> 40) % image->pool_hash_cap;
        while (h[at] != 0)
            at = (at + 1) % image->pool_hash_cap;
        h[at] = i + 1;
    }
    return true;
}

/* All sizes are broadcast as 64 bits: a 32-bit value twice, so one slot serves either way. */
int32_t sg_dec_const(struct sg_dec *d, uint64_t bits, unsigned size)
{
    struct sg_image *image = d->image;

    if (size <= 4) {
        bits &= 0xffffffffu;
        bits |= bits << 32;
    }
    if (image->npool == image->cap_pool && !pool_grow(image)) {
        no_memory(d);
        return -(int32_t)POOL_SLOT;
    }
    uint32_t at = (uint32_t)(bits * 0x9E3779B97F4A7C15u >> 40) % image->pool_hash_cap;
    for (; image->pool_hash[at] != 0; at = (at + 1) % image->pool_hash_cap) {
        uint32_t i = image->pool_hash[at];
        if (memcmp(image->pool_end - (size_t)i * POOL_SLOT, &bits, sizeof(bits)) == 0)
            return -(int32_t)(i * POOL_SLOT);
    }
    image->pool_hash[at] = ++image->npool;
    uint8_t *slot = image->pool_end - (size_t)image->npool * POOL_SLOT;
    for (unsigned l = 0; l < SG_WARP; l++)
        memcpy(slot + 8 * l, &bits, sizeof(bits));
    return -(int32_t)(image->npool * POOL_SLOT);
}

/* ---- instructions ---------------------------------------------------------------------------- */

struct sg_insn *sg_dec_emit(struct sg_dec *d, sg_handler fn)
{
    struct sg_image *image = d->image;
    static struct sg_insn nowhere; /* written to after a failure, never run */

    if (image->ncode + 2 >= image->cap_code) {
        uint32_t cap = image->cap_code ? image->cap_code * 2 : 1024;
        struct sg_insn *p = aligned_alloc(64, (size_t)cap * sizeof(*p));
        uint32_t *ptx_of = realloc(image->ptx_of, (size_t)cap * sizeof(*ptx_of));
        if (ptx_of != NULL)
            image->ptx_of = ptx_of;
        if (p == NULL || ptx_of == NULL) {
            free(p);
            no_memory(d);
            return &nowhere;
        }
        if (image->ncode != 0)
            memcpy(p, image->code, (size_t)image->ncode * sizeof(*p));
        free(image->code);
        image->code = p;
        image->cap_code = cap;
    }
    struct sg_insn *in = &image->code[image->ncode];
    memset(in, 0, sizeof(*in));
    in->fn = fn;
    image->ptx_of[image->ncode++] =
        d->insn != NULL ? (uint32_t)(d->insn - d->ptx->insns) : SG_NO_PTX;
    return in;
}

int32_t sg_dec_temp(struct sg_dec *d)
{
    if (d->temps_used == TB_ARRAY_LEN(d->temp)) {
        sg_dec_refuse(d, "too many operands that need a conversion");
        return d->temp[0];
    }
    return d->temp[d->temps_used++];
}

/* ---- operands -------------------------------------------------------------------------------- */

unsigned sg_dec_reg_size(const struct sg_dec *d, const struct sg_ptx_opnd *o)
{
    if (o->kind != SG_OPND_REG)
        return 8;
    return sg_ptx_type_size(d->ptx->regs[o->reg].type) > 4 ? 8 : 4;
}

static bool is_pred_reg(const struct sg_dec *d, const struct sg_ptx_opnd *o)
{
    return o->kind == SG_OPND_REG && d->ptx->regs[o->reg].type == SG_M_PRED;
}

static int32_t reg_offset(const struct sg_dec *d, const struct sg_ptx_opnd *o)
{
    const struct sg_ptx_reg *r = &d->ptx->regs[o->reg];
    unsigned size = sg_ptx_type_size(r->type) > 4 ? 256 : 128;

    return d->slot[o->reg] + (int32_t)(r->vec > 1 ? o->comp * size : 0);
}

static bool float_type(enum sg_ptx_mod t)
{
    return t == SG_M_F32 || t == SG_M_F64 || t == SG_M_F16 || t == SG_M_BF16 || t == SG_M_TF32;
}

/* Bits of a literal as a value of @type. Bit-typed and integer operands take a literal's integer;
 * float literals keep their bits. */
static uint64_t literal_bits(const struct sg_ptx_opnd *o, enum sg_ptx_mod type)
{
    bool is_float = o->kind == SG_OPND_FIMM;
    double v = is_float ? o->f64 : (double)o->imm;
    float f = (float)v;
    uint64_t bits = (uint64_t)o->imm;
    uint32_t low;

    if (!is_float && !float_type(type))
        return bits;
    if (sg_ptx_type_size(type) <= 4) {
        if (is_float && o->is_f32)
            return o->f32;
        memcpy(&low, &f, sizeof(low));
        return low;
    }
    if (is_float && o->is_f32) { /* a 0f literal as f64: the same value */
        memcpy(&f, &o->f32, sizeof(f));
        v = f;
    }
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

/* Operands of floats take literals of floats, integers those of integers, bits any; halves none. */
static bool literal_fits(bool is_float, enum sg_ptx_mod type)
{
    if (type >= SG_M_B8 && type <= SG_M_B64)
        return true;
    return is_float ? type == SG_M_F32 || type == SG_M_F64
                    : !float_type(type) && type != SG_M_F16X2;
}

/* Runtime values: addresses of local, dynamic shared and parameter space, special registers. */
static int32_t runtime_value(struct sg_dec *d, uint32_t what, uint32_t comp, uint64_t imm,
                             unsigned size)
{
    int32_t t = sg_dec_temp(d);
    struct sg_insn *in = sg_dec_emit(d, sg_isa()->mov_sreg);

    in->r[0] = t;
    in->x = what;
    in->y = comp | (size > 4 ? 0x100u : 0);
    in->imm = imm;
    return t;
}

bool sg_dec_formal(const struct sg_dec *d, const struct sg_ptx_var *v, uint32_t *offset)
{
    const struct sg_ptx_func *f = d->ptx;

    if (f->is_entry)
        return false;
    if (sg_var_in(v, f->params, f->nparams)) {
        *offset = d->func->params[v - f->params].offset;
        return true;
    }
    if (sg_var_in(v, f->rets, f->nrets)) {
        *offset = d->func->rets[v - f->rets].offset;
        return true;
    }
    return false;
}

const struct sg_var *sg_dec_var(struct sg_dec *d, const struct sg_ptx_var *v)
{
    const struct sg_ptx_func *f = d->ptx;
    const struct sg_var *x;

    if (sg_var_in(v, f->vars, f->nvars))
        return &d->image->vars[d->func->var_base + (v - f->vars)];
    x = sg_link_var(d->image, f->module, v);
    if (x == NULL)
        sg_dec_refuse(d, "undefined symbol '%s'", v->name);
    return x;
}

struct sg_func *sg_dec_func(struct sg_dec *d, const struct sg_ptx_func *f, enum sg_builtin *builtin)
{
    struct sg_func *x = sg_link_func(d->image, f);

    *builtin = x == NULL ? sg_builtin_find(f->name) : SG_BUILTIN_NONE;
    if (x == NULL && *builtin == SG_BUILTIN_NONE)
        sg_dec_refuse(d, "undefined function '%s'", f->name);
    return x;
}

static int32_t var_address(struct sg_dec *d, const struct sg_ptx_opnd *o, unsigned size)
{
    const struct sg_ptx_func *f = d->ptx;
    uint32_t offset;

    if (f->is_entry && sg_var_in(o->var, f->params, f->nparams))
        return runtime_value(d, SG_RUNTIME_PARAM, 0, o->var->offset + (uint64_t)o->imm, size);
    if (sg_dec_formal(d, o->var, &offset))
        return runtime_value(d, SG_RUNTIME_LOCAL, 1, offset + (uint64_t)o->imm, size);
    const struct sg_var *v = sg_dec_var(d, o->var);
    if (v == NULL)
        return 0;
    if (v->dynamic) {
        d->func->uses_dynamic = true;
        return runtime_value(d, SG_RUNTIME_DYNAMIC, 0, (uint64_t)o->imm, size);
    }
    if (v->ptx->space == SG_SPACE_LOCAL || v->ptx->space == SG_SPACE_PARAM)
        return runtime_value(d, SG_RUNTIME_LOCAL, v->ptx->space == SG_SPACE_PARAM,
                             v->addr + (uint64_t)o->imm, size);
    if (v->device_space && size < 8)
        sg_dec_refuse(d, "32 bits of the address of '%s'", o->var->name);
    return sg_dec_const(d, v->addr + (uint64_t)o->imm, size);
}

int32_t sg_dec_src(struct sg_dec *d, const struct sg_ptx_opnd *o, enum sg_ptx_mod type)
{
    unsigned size = sg_ptx_type_size(type);
    enum sg_builtin builtin;
    int32_t t;

    switch (o->kind) {
    case SG_OPND_REG:
        if (is_pred_reg(d, o)) {
            sg_dec_refuse(d, "a predicate where a value is expected");
            return 0;
        }
        if (sg_dec_reg_size(d, o) == 8 && size <= 4) {
            struct sg_insn *in = sg_dec_emit(d, sg_isa()->narrow);
            in->r[0] = t = sg_dec_temp(d);
            in->r[1] = reg_offset(d, o);
            return t;
        }
        if (sg_dec_reg_size(d, o) == 4 && size > 4) {
            sg_dec_refuse(d, "operand '%s' is too narrow", d->ptx->regs[o->reg].name);
            return 0;
        }
        return reg_offset(d, o);
    case SG_OPND_IMM:
    case SG_OPND_FIMM:
        if (!literal_fits(o->kind == SG_OPND_FIMM, type))
            sg_dec_refuse(d, "a literal of another type");
        return sg_dec_const(d, literal_bits(o, type), size);
    case SG_OPND_SREG:
        return runtime_value(d, o->sreg, o->comp, 0, size);
    case SG_OPND_VAR:
        return var_address(d, o, size);
    case SG_OPND_FUNC: {
        struct sg_func *f = sg_dec_func(d, o->func, &builtin);
        if (f == NULL)
            sg_dec_refuse(d, "the address of '%s'", o->func->name);
        return sg_dec_const(d, (uint64_t)(uintptr_t)f, 8);
    }
    default:
        sg_dec_refuse(d, "an operand of an unexpected kind");
        return 0;
    }
}

int32_t sg_dec_dst(struct sg_dec *d, const struct sg_ptx_opnd *o, enum sg_ptx_mod type)
{
    unsigned size = sg_ptx_type_size(type);

    if (o->kind == SG_OPND_SINK)
        return sg_dec_temp(d);
    if (o->kind != SG_OPND_REG || is_pred_reg(d, o)) {
        sg_dec_refuse(d, "a destination that is no register");
        return 0;
    }
    if (sg_dec_reg_size(d, o) == 4 && size > 4) {
        sg_dec_refuse(d, "destination '%s' is too narrow", d->ptx->regs[o->reg].name);
        return 0;
    }
    if (sg_dec_reg_size(d, o) == 8 && size <= 4) {
        int32_t t = sg_dec_temp(d);
        if (d->nafter == TB_ARRAY_LEN(d->after)) {
            sg_dec_refuse(d, "too many operands that need a conversion");
            return t;
        }
        d->after[d->nafter].temp = t;
        d->after[d->nafter].signext = type == SG_M_S8 || type == SG_M_S16 || type == SG_M_S32;
        d->after[d->nafter++].reg = reg_offset(d, o);
        return t;
    }
    return reg_offset(d, o);
}

int32_t sg_dec_pred(struct sg_dec *d, const struct sg_ptx_opnd *o, bool *neg)
{
    *neg = o->neg;
    if (o->kind == SG_OPND_SINK)
        return sg_dec_temp(d);
    if (!is_pred_reg(d, o)) {
        sg_dec_refuse(d, "a predicate is expected");
        return 0;
    }
    return d->slot[o->reg];
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool divides_first(const struct sg_ptx_insn *in)
{
    switch ((enum sg_ptx_op)in->op) {
    case SG_OP_CALL:
    case SG_OP_BRX:
    case SG_OP_BAR:
    case SG_OP_BARRIER:
    case SG_OP_EXIT:
    case SG_OP_RET:
    case SG_OP_TRAP:
        return true;
    default:
        return false;
    }
}

/* Everything emitted for one guarded instruction runs for the lanes whose guard holds; branches
 * look at their guard themselves. */
static void guard(struct sg_dec *d, uint32_t from)
{
    const struct sg_ptx_insn *p = d->insn;

    for (uint32_t i = from; i < d->image->ncode; i++) {
        struct sg_insn *in = &d->image->code[i];
        bool ctrl = divides_first(p) && i + 1 == d->image->ncode;
        in->guard = d->slot[p->guard];
        in->guard_neg = p->guard_neg;
        if (p->op == SG_OP_BRA)
            continue;
        in->inner = in->fn;
        in->fn = ctrl ? sg_isa()->guarded_ctrl : sg_isa()->guarded;
    }
}

static void widen_results(struct sg_dec *d)
{
    for (unsigned i = 0; i < d->nafter; i++) {
        struct sg_insn *in = sg_dec_emit(d, sg_isa()->widen);
        in->r[0] = d->after[i].reg;
        in->r[1] = d->after[i].temp;
        in->x = d->after[i].signext;
    }
}

static void decode_insn(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    uint32_t from = d->image->ncode;

    d->insn = p;
    d->temps_used = 0;
    d->nafter = 0;
    if (!sg_insn_legal(d, p) || !sg_isa()->decode(d, p))
        sg_dec_refuse(d, "not supported");
    if (d->status != TB_OK)
        return;
    widen_results(d);
    if (p->guarded)
        guard(d, from);
}

/* Branches were emitted with the index of their PTX instruction. */
static void fix_branches(struct sg_dec *d, uint32_t from)
{
    for (uint32_t i = from; i < d->image->ncode; i++) {
        struct sg_insn *in = &d->image->code[i];
        if (in->y == SG_FIX_BRANCH)
            in->x = d->at[in->x] - i + SG_BRANCH_BIAS;
        if (in->y == SG_FIX_TABLE) {
            uint32_t *t = (uint32_t *)(uintptr_t)in->imm;
            for (uint32_t k = 0; k < t[0]; k++)
                t[k + 1] = d->at[t[k + 1]];
        }
    }
}

static enum tb_status decode_body(struct sg_dec *d)
{
    uint32_t from = d->image->ncode;

    d->func->first = from;
    for (uint32_t i = 0; i < d->ptx->ninsns && d->status == TB_OK; i++) {
        d->at[i] = d->image->ncode;
        decode_insn(d, &d->ptx->insns[i]);
    }
    if (d->status != TB_OK)
        return d->status;
    d->at[d->ptx->ninsns] = d->image->ncode;
    d->insn = NULL; /* it is none of the PTX */
    sg_dec_emit(d, sg_isa()->end);
    d->func->count = d->image->ncode - from;
    fix_branches(d, from);
    return d->status;
}

enum tb_status sg_decode_func(struct sg_image *image, struct sg_func *f, struct tb_error *err)
{
    const struct sg_ptx_func *p = f->ptx;
    uint32_t base = (uint32_t)((sizeof(struct sg_frame_head) + 255) & ~(size_t)255);
    struct sg_dec d = {.image = image, .func = f, .ptx = p, .err = err, .status = TB_OK};
    uint32_t *reads = calloc((size_t)p->nregs + 1, sizeof(*reads));

    for (unsigned i = 0; i < TB_ARRAY_LEN(d.temp); i++, base += 256)
        d.temp[i] = (int32_t)base;
    d.slot = calloc((size_t)p->nregs + 1, sizeof(*d.slot));
    d.at = calloc((size_t)p->ninsns + 1, sizeof(*d.at));
    d.reads = reads;
    if (d.slot == NULL || d.at == NULL || reads == NULL)
        no_memory(&d);
    if (d.status == TB_OK)
        d.status = sg_regalloc(p, base, d.slot, &f->frame_bytes, reads, &f->live_in, &f->nlive_in,
                               &f->reg_units, err);
    if (d.status == TB_OK) {
        f->frame_bytes = (f->frame_bytes + 255) & ~255u;
        d.status = decode_body(&d);
    }
    f->slot = d.slot;
    free(d.at);
    free(reads);
    return d.status;
}
