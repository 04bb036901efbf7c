/* Instructions that read or write memory. */
#include "kernelinfo/kernelinfo_internal.h"

/* ---------------------------------------------------------------- state spaces */

enum space { GENERIC, GLOBAL, CONST, SHARED, LOCAL, PARAM };

static bool space_of(unsigned mod, enum space *out)
{
    switch (mod) {
    case SG_M_GLOBAL:
        *out = GLOBAL;
        return true;
    case SG_M_CONST:
        *out = CONST;
        return true;
    case SG_M_SHARED:
    case SG_M_SHARED__CTA:
    case SG_M_SHARED__CLUSTER:
        *out = SHARED;
        return true;
    case SG_M_LOCAL:
        *out = LOCAL;
        return true;
    case SG_M_PARAM:
    case SG_M_PARAM__ENTRY:
    case SG_M_PARAM__FUNC:
        *out = PARAM;
        return true;
    default:
        return false;
    }
}

/* The k-th state space that the instruction names, from 0. */
static enum space space(const struct sg_ptx_insn *in, unsigned k)
{
    enum space s = GENERIC;

    for (unsigned i = 0; i < in->nmods; i++)
        if (space_of(in->mods[i], &s) && k-- == 0)
            return s;
    return GENERIC;
}

/* ---------------------------------------------------------------- loads */

/* A parameter of the kernel, or 8 bytes at every place of it if the offset is not known. */
static struct ki_val load_param(struct ki_flow *k, uint32_t number, struct ki_val at,
                                unsigned bytes)
{
    const struct sg_ptx_var *v = k->u->vars[number];
    uint32_t step = v->size < 8 ? (uint32_t)v->size : 8;
    struct ki_val out = ki_number(KI_DT_MIXED);

    if (at.displaced == 1 && at.off >= 0 && (uint64_t)at.off + bytes <= v->size) {
        for (uint32_t i = 0; i < bytes && !k->gave_up; i += 8) {
            uint32_t n = bytes - i < 8 ? bytes - i : 8;
            uint32_t w = ki_word(k, (uint32_t)(v->offset + (uint64_t)at.off + i), n);
            bool whole = n * 8 >= k->u->m->address_size;

            out = ki_join(
                k, out,
                ki_from(k, KI_ATOM(whole ? KI_WORD : KI_PIECE, w) | (whole ? KI_STRONG : 0)));
        }
        return out;
    }
    for (uint64_t i = 0; step && i + step <= v->size && !k->gave_up; i += step) {
        uint32_t w = ki_word(k, (uint32_t)(v->offset + i), step);

        out = ki_join(
            k, out, ki_from(k, step == 8 ? KI_ATOM(KI_WORD, w) | KI_STRONG : KI_ATOM(KI_PIECE, w)));
    }
    return out;
}

static struct ki_val loaded(struct ki_flow *k, unsigned bytes)
{
    bool whole = bytes * 8 >= k->u->m->address_size;

    return ki_from(k, whole ? KI_ATOM(KI_LOADED, 0) | KI_STRONG : KI_ATOM(KI_LOADED_PIECE, 0));
}

/* What an address points to, other than global memory; @others: it may point there, too. */
static struct ki_val load_known(struct ki_flow *k, struct ki_val at, unsigned bytes, bool *others)
{
    struct ki_val v = {0};

    *others = k->sets.set[at.set].n == 0;
    for (uint32_t i = 0; i < k->sets.set[at.set].n; i++) {
        uint32_t atom = k->sets.atoms[k->sets.set[at.set].at + i];

        if (KI_KIND(atom) == KI_OBJECT)
            v = ki_join(k, v, ki_load_object(k, KI_INDEX(atom), at, bytes));
        else if (KI_KIND(atom) == KI_PARAM)
            v = ki_join(k, v, load_param(k, KI_INDEX(atom), at, bytes));
        else if (KI_KIND(atom) == KI_UNKNOWN)
            v = ki_join(k, v, ki_from(k, atom));
        else
            *others = true;
    }
    return v;
}

/* Local memory at an address of which nothing is known: any of it. */
static struct ki_val load_local(struct ki_flow *k, struct ki_val at, unsigned bytes)
{
    struct ki_val any = {.displaced = 2}, v;
    bool others;

    v = ki_join(k, load_known(k, at, bytes, &others),
                ki_load_object(k, KI_OBJECT_LOCAL, any, bytes));
    if (!others)
        return v;
    for (uint32_t f = 0; f < k->nreached; f++) {
        const struct ki_func *fn = &k->u->funcs[k->reached[f]];

        for (uint32_t i = 0; i < fn->f->nvars; i++)
            if (fn->f->vars[i].space == SG_SPACE_LOCAL)
                v = ki_join(k, v, ki_load_object(k, fn->first_var + i, any, bytes));
    }
    return v;
}

static struct ki_val load_from(const struct ki_at *at, enum space s, struct ki_val a,
                               unsigned bytes, uint8_t dt)
{
    struct ki_flow *k = at->k;
    struct ki_val v;
    bool others;

    switch (s) {
    case SHARED:
        return ki_load_object(k, KI_OBJECT_SHARED, a, bytes);
    case LOCAL:
        return load_local(k, a, bytes);
    case PARAM:
        return load_known(k, a, bytes, &others);
    default:
        ki_access(k, a.set, KI_READ, dt);
        if (s == GLOBAL || s == CONST)
            return loaded(k, bytes);
        v = load_known(k, a, bytes, &others);
        return others ? ki_join(k, v, loaded(k, bytes)) : v;
    }
}

/* The type of what is loaded into @dst: as the instruction or else its uses say. */
static uint8_t type_loaded(const struct ki_at *at, const struct sg_ptx_opnd *dst, unsigned type)
{
    uint8_t use = dst->kind == SG_OPND_REG ? at->k->u->funcs[at->func].uses[dst->reg] : 0;

    return ki_dt_access(type, use);
}

static void load_vector(const struct ki_at *at, enum space s, const struct sg_ptx_opnd *dst,
                        struct ki_val a, unsigned type)
{
    unsigned bytes = sg_ptx_type_size((enum sg_ptx_mod)type);
    uint32_t n = dst->kind == SG_OPND_VEC ? dst->n : 1;

    for (uint32_t i = 0; i < n; i++, a.off += bytes) {
        const struct sg_ptx_opnd *to = dst->kind == SG_OPND_VEC ? &dst->sub[i] : dst;
        uint8_t dt = type_loaded(at, to, type);
        struct ki_val v = load_from(at, s, a, bytes, dt);

        if (ki_dt_is_float(dt) || !v.dt || v.dt == KI_DT_MIXED)
            v.dt = dt;
        ki_put(at, to, v);
    }
}

/* ---------------------------------------------------------------- stores */

static void store_known(struct ki_flow *k, struct ki_val at, unsigned bytes, struct ki_val v,
                        bool *others)
{
    *others = k->sets.set[at.set].n == 0;
    for (uint32_t i = 0; i < k->sets.set[at.set].n; i++) {
        uint32_t atom = k->sets.atoms[k->sets.set[at.set].at + i];

        if (KI_KIND(atom) == KI_OBJECT)
            ki_store_object(k, KI_INDEX(atom), at, bytes, v);
        else
            *others |= KI_KIND(atom) != KI_PARAM;
    }
}

static void store_to(struct ki_flow *k, enum space s, struct ki_val a, unsigned bytes,
                     struct ki_val v, unsigned how, uint8_t dt)
{
    bool others = true;

    switch (s) {
    case SHARED:
        ki_store_object(k, KI_OBJECT_SHARED, (struct ki_val){.displaced = 2}, bytes, v);
        return;
    case LOCAL:
        store_known(k, a, bytes, v, &others);
        if (others)
            ki_store_object(k, KI_OBJECT_LOCAL, (struct ki_val){.displaced = 2}, bytes, v);
        return;
    case PARAM:
        store_known(k, a, bytes, v, &others);
        return;
    case CONST:
        return;
    default:
        ki_access(k, a.set, how, dt);
        if (s == GENERIC)
            store_known(k, a, bytes, v, &others);
        if (others) {
            ki_value_used(k, v.set);
            ki_escape(k, v.set);
        }
    }
}

static void store_vector(const struct ki_at *at, enum space s, struct ki_val a,
                         const struct sg_ptx_opnd *src, unsigned type, unsigned how)
{
    unsigned bytes = sg_ptx_type_size((enum sg_ptx_mod)type);
    uint32_t n = src->kind == SG_OPND_VEC ? src->n : 1;

    bytes = bytes ? bytes : 8; /* st.bulk has no type */
    for (uint32_t i = 0; i < n; i++, a.off += bytes) {
        struct ki_val v = ki_get(at, src->kind == SG_OPND_VEC ? &src->sub[i] : src);

        store_to(at->k, s, a, bytes, v, how, ki_dt_access(type, v.dt));
    }
}

/* ---------------------------------------------------------------- atomics */

static void float_atomic(struct ki_flow *k, const struct sg_ptx_insn *in)
{
    bool adds = sg_ptx_has(in, SG_M_ADD);

    for (unsigned i = 0; adds && i < in->nmods; i++)
        if (ki_dt_is_float(ki_dt_of(in->mods[i])) && k->report)
            k->flags |= TB_KERNEL_FLOAT_ATOMIC;
}

/* atom d, [a], b, c and red [a], b */
static void atomic(const struct ki_at *at, unsigned address)
{
    const struct sg_ptx_insn *in = at->in;
    unsigned type = ki_last_type(in), bytes = sg_ptx_type_size((enum sg_ptx_mod)type);
    enum space s = space(in, 0);
    struct ki_val a, v;

    if (in->nopnds <= address)
        return;
    a = ki_address(at, &in->opnds[address]);
    float_atomic(at->k, at->in);
    for (unsigned i = address + 1; i < in->nopnds && i < address + 3; i++)
        store_vector(at, s, a, &in->opnds[i], type, KI_READ | KI_WRITE | KI_ATOMIC);
    if (address == 0)
        return;
    v = load_from(at, s, a, bytes, 0);
    v.dt = ki_dt_access(type, 0);
    ki_put(at, &in->opnds[0], v);
}

/* ---------------------------------------------------------------- copies by the device */

/* Its type is that of what else is stored there, or what uses it says. */
static void fill_shared(struct ki_flow *k)
{
    struct ki_val v = loaded(k, 8);

    v.dt = 0;
    ki_store_object(k, KI_OBJECT_SHARED, (struct ki_val){.displaced = 2}, 8, v);
}

/* cp.async.bulk.tensor: where a tensor map lies is written in the map */
static void copy_tensor(struct ki_flow *k, const struct sg_ptx_insn *in)
{
    bool store = space(in, 0) == GLOBAL && !sg_ptx_has(in, SG_M_PREFETCH);

    ki_untraced(k, store ? KI_WRITE : KI_READ);
    float_atomic(k, in);
    if (store)
        ki_escape(k, k->objects[KI_OBJECT_SHARED].all.set);
    else
        fill_shared(k);
}

static void copy_out(const struct ki_at *at, unsigned how)
{
    uint8_t dt = ki_dt_of(ki_last_type(at->in));

    ki_access(at->k, ki_address(at, &at->in->opnds[0]).set, how, dt);
    ki_value_used(at->k, at->k->objects[KI_OBJECT_SHARED].all.set);
    ki_escape(at->k, at->k->objects[KI_OBJECT_SHARED].all.set);
}

/* cp.async, cp.async.bulk, cp.reduce.async.bulk and prefetches */
static void copy(const struct ki_at *at)
{
    const struct sg_ptx_insn *in = at->in;

    if (in->nopnds == 0 || in->opnds[0].kind != SG_OPND_ADDR)
        return; /* commit_group, wait_group */
    if (sg_ptx_has(in, SG_M_TENSOR)) {
        copy_tensor(at->k, in);
    } else if (sg_ptx_has(in, SG_M_PREFETCH)) {
        ki_access(at->k, ki_address(at, &in->opnds[0]).set, KI_READ, KI_DT_MIXED);
    } else if (space(in, 0) == GLOBAL) {
        bool reduce = sg_ptx_has(in, SG_M_REDUCE);

        float_atomic(at->k, at->in);
        copy_out(at, reduce ? KI_READ | KI_WRITE | KI_ATOMIC : KI_WRITE);
    } else if (in->nopnds > 1 && in->opnds[1].kind == SG_OPND_ADDR && space(in, 1) == GLOBAL) {
        ki_access(at->k, ki_address(at, &in->opnds[1]).set, KI_READ, KI_DT_MIXED);
        fill_shared(at->k);
    }
}

/* ---------------------------------------------------------------- others */

/* Matrices, tensor memory: values come from shared memory, or go there. */
static void matrix(const struct ki_at *at, enum space s, bool store)
{
    const struct sg_ptx_insn *in = at->in;
    unsigned type = ki_last_type(in);

    if (in->nopnds < 2)
        return;
    if (store) /* all of it goes somewhere behind the address */
        store_vector(at, s,
                     (struct ki_val){.set = ki_address(at, &in->opnds[0]).set, .displaced = 2},
                     &in->opnds[1], type, KI_WRITE);
    else
        load_vector(at, s, &in->opnds[0],
                    (struct ki_val){.set = ki_address(at, &in->opnds[1]).set, .displaced = 2},
                    type);
}

static void wmma(const struct ki_at *at)
{
    bool load = sg_ptx_has(at->in, SG_M_LOAD);

    if (load || sg_ptx_has(at->in, SG_M_STORE))
        matrix(at, space(at->in, 0), !load);
    else if (at->in->nopnds)
        ki_put(at, &at->in->opnds[0], ki_number(ki_dt_of(ki_type(at->in, 0))));
}

static void tensor_memory(const struct ki_at *at)
{
    if (sg_ptx_has(at->in, SG_M_LD) || sg_ptx_has(at->in, SG_M_ST))
        matrix(at, SHARED, sg_ptx_has(at->in, SG_M_ST));
}

/* Addresses of several devices at once: what lies there is not known. */
static void multimem(const struct ki_at *at)
{
    bool load = sg_ptx_has(at->in, SG_M_LD_REDUCE);
    unsigned how = load                           ? KI_READ
                   : sg_ptx_has(at->in, SG_M_RED) ? KI_READ | KI_WRITE | KI_ATOMIC
                                                  : KI_WRITE;
    unsigned type = ki_last_type(at->in);

    if (at->in->nopnds < 2)
        return;
    ki_untraced(at->k, how);
    ki_access(at->k, ki_address(at, &at->in->opnds[load]).set, how, ki_dt_of(type));
    float_atomic(at->k, at->in);
    if (load)
        ki_put(at, &at->in->opnds[0], loaded(at->k, sg_ptx_type_size((enum sg_ptx_mod)type)));
    else
        ki_value_used(at->k, ki_get(at, &at->in->opnds[1]).set);
}

static void tensormap(const struct ki_at *at)
{
    const struct sg_ptx_insn *in = at->in;

    if (in->nopnds && space(in, 0) != SHARED)
        ki_access(at->k, ki_address(at, &in->opnds[0]).set, KI_WRITE, KI_DT_MIXED);
    if (in->nopnds > 1)
        ki_value_used(at->k, ki_get(at, &in->opnds[in->nopnds - 1]).set);
}

/* Textures and surfaces are named by handles: the memory behind them is not known. */
static void texture(const struct ki_at *at, unsigned how)
{
    ki_untraced(at->k, how);
    for (unsigned i = 0; i < at->in->nopnds; i++)
        ki_value_used(at->k, ki_get(at, &at->in->opnds[i]).set);
    if (at->in->nopnds && at->in->opnds[0].kind != SG_OPND_ADDR)
        ki_put(at, &at->in->opnds[0], loaded(at->k, 4));
}

static void touch(const struct ki_at *at, unsigned how)
{
    enum space s = space(at->in, 0);

    if (at->in->nopnds && (s == GLOBAL || s == GENERIC) && !sg_ptx_has(at->in, SG_M_TENSORMAP))
        ki_access(at->k, ki_address(at, &at->in->opnds[0]).set, how, 0);
}

bool ki_memory(const struct ki_at *at)
{
    const struct sg_ptx_insn *in = at->in;

    switch (in->op) {
    case SG_OP_LD:
    case SG_OP_LDU:
        if (in->nopnds > 1)
            load_vector(at, space(in, 0), &in->opnds[0], ki_address(at, &in->opnds[1]),
                        ki_last_type(in));
        return true;
    case SG_OP_ST:
        if (in->nopnds > 1)
            store_vector(at, space(in, 0), ki_address(at, &in->opnds[0]), &in->opnds[1],
                         ki_last_type(in), KI_WRITE);
        return true;
    case SG_OP_ATOM:
        atomic(at, 1);
        return true;
    case SG_OP_RED:
        atomic(at, 0);
        return true;
    case SG_OP_CP:
        copy(at);
        return true;
    case SG_OP_LDMATRIX:
    case SG_OP_STMATRIX:
        matrix(at, SHARED, in->op == SG_OP_STMATRIX);
        return true;
    case SG_OP_WMMA:
        wmma(at);
        return true;
    case SG_OP_TCGEN05:
        tensor_memory(at);
        return true;
    case SG_OP_MULTIMEM:
        multimem(at);
        return true;
    case SG_OP_TENSORMAP:
        tensormap(at);
        return true;
    case SG_OP_PREFETCH:
    case SG_OP_PREFETCHU:
        touch(at, KI_READ);
        return true;
    case SG_OP_DISCARD:
        touch(at, KI_WRITE);
        return true;
    case SG_OP_TEX:
    case SG_OP_TLD4:
    case SG_OP_SULD:
        texture(at, KI_READ);
        return true;
    case SG_OP_SUST:
    case SG_OP_SURED:
        texture(at, KI_READ | KI_WRITE);
        return true;
    default:
        return false;
    }
}
