/*
 * ld and st. Addresses of a warp are mostly consecutive, or all the same: these two cases are
 * checked once and moved as a whole. So are loads of any places in one space, and what functions
 * have in local memory; everything else goes lane by lane.
 */
#include "softgpu/exec/access.h"

typedef uint32_t u32;
typedef uint64_t u64;

/* sg_insn of ld and st: r[0..3] registers, the rest as access.h says; x: bit i: register i has 64
 * bits. */

/* ---- all cases, lane by lane ----------------------------------------------------------------- */

static u64 read_element(const uint8_t *p, unsigned log, bool sign)
{
    u64 v = 0;

    memcpy(&v, p, (size_t)1 << log);
    if (sign && log < 3) {
        unsigned shift = 64 - (8u << log);
        v = (u64)((int64_t)(v << shift) >> shift);
    }
    return v;
}

SG_HANDLER(ld_any)
{
    unsigned log = in->y & SG_Y_SIZE, n = 1u << (in->y >> 3 & 7);
    u32 bytes = n << log;
    u64 a[SG_WARP];

    sg_addresses(w, in, a);
    for (unsigned l = 0; l < SG_WARP; l++) {
        if (!(w->mask >> l & 1))
            continue;
        const uint8_t *p =
            a[l] % bytes ? NULL : sg_lane_space(w, l, SG_SPACE(in), a[l], bytes, false);
        if (p == NULL)
            return sg_bad_address(w, in, l, a[l], bytes, false);
        for (unsigned k = 0; k < n; k++) {
            u64 v = read_element(p + ((size_t)k << log), log, in->y & SG_Y_SIGNED);
            uint8_t *d = sg_opnd(w, in->r[k]);
            memcpy(d + l * (in->x >> k & 1 ? 8u : 4u), &v, in->x >> k & 1 ? 8 : 4);
        }
    }
    return in + 1;
}

SG_HANDLER(st_any)
{
    unsigned log = in->y & SG_Y_SIZE, n = 1u << (in->y >> 3 & 7);
    u32 bytes = n << log;
    u64 a[SG_WARP];

    sg_addresses(w, in, a);
    for (unsigned l = 0; l < SG_WARP; l++) {
        if (!(w->mask >> l & 1))
            continue;
        uint8_t *p = a[l] % bytes ? NULL : sg_lane_space(w, l, SG_SPACE(in), a[l], bytes, true);
        if (p == NULL)
            return sg_bad_address(w, in, l, a[l], bytes, true);
        for (unsigned k = 0; k < n; k++) {
            const uint8_t *s = sg_opnd(w, in->r[k]);
            memcpy(p + ((size_t)k << log), s + l * (in->x >> k & 1 ? 8u : 4u), (size_t)1 << log);
        }
    }
    return in + 1;
}

/* ---- whole warps ----------------------------------------------------------------------------- */

enum pattern { SCATTERED, SAME, CONSECUTIVE };

static inline enum pattern find_pattern(const u64 a[SG_WARP], u32 bytes)
{
    u64 step = a[1] - a[0], bad = 0;

    if (step != 0 && step != bytes)
        return SCATTERED;
    SG_LANES bad |= a[l] ^ (a[0] + step * (u64)l);
    return bad ? SCATTERED : step ? CONSECUTIVE : SAME;
}

/* Host address of the @n bytes at @addr, checked; NULL also where only lanes are to be asked for.
 */
static inline uint8_t *whole(struct sg_warp *w, enum sg_ptx_space space, u64 addr, u32 n,
                             bool write)
{
    struct sg_block *b = w->block;

    if (space == SG_SPACE_SHARED) {
        addr &= 0xffffffffu;
        return addr + n <= b->shared_limit ? b->shared + addr : NULL;
    }
    if (space == SG_SPACE_GENERIC && !write) {
        u64 params = (u64)(uintptr_t)b->run->params, limit = b->run->param_bytes;

        if (addr - params < limit && n <= limit - (addr - params))
            return (uint8_t *)(uintptr_t)addr;
    }
    return sg_mem_ok(b->run->mem, addr, n, b->run->device_bit, write) ? (uint8_t *)(uintptr_t)addr
                                                                      : NULL;
}

/* @n elements of @T a lane; registers of the same size. */
#define LD_WHOLE(name, T, N, SPACE_ID)                                                             \
    SG_HANDLER(name)                                                                               \
    {                                                                                              \
        u64 a[SG_WARP] __attribute__((aligned(64)));                                               \
        const u32 bytes = sizeof(T) * (N);                                                         \
        if (w->mask != SG_FULL_MASK)                                                               \
            return ld_any(w, in);                                                                  \
        sg_addresses(w, in, a);                                                                    \
        enum pattern pat = a[0] % bytes ? SCATTERED : find_pattern(a, bytes);                      \
        if (pat == SCATTERED)                                                                      \
            return gather_##name(w, in, a);                                                        \
        const T *p = (const T *)(const void *)whole(w, SPACE_ID, a[0],                             \
                                                    pat == SAME ? bytes : bytes * SG_WARP, false); \
        if (p == NULL)                                                                             \
            return ld_any(w, in);                                                                  \
        for (unsigned k = 0; k < (N); k++) {                                                       \
            T *d = sg_opnd(w, in->r[k]);                                                           \
            if (pat == SAME)                                                                       \
                SG_LANES d[l] = p[k];                                                              \
            else                                                                                   \
                SG_LANES d[l] = p[(unsigned)l * (N) + k];                                          \
        }                                                                                          \
        return in + 1;                                                                             \
    }

/* Lanes at any places of shared memory. */
#define LD_GATHER(name, T, N)                                                                      \
    static const struct sg_insn *gather_##name(struct sg_warp *w, const struct sg_insn *in,        \
                                               const u64 a[SG_WARP])                               \
    {                                                                                              \
        const u32 bytes = sizeof(T) * (N), limit = w->block->shared_limit;                         \
        const uint8_t *s = w->block->shared;                                                       \
        u32 bad = limit < bytes;                                                                   \
        for (int l = 0; l < SG_WARP; l++)                                                          \
            bad |= (u32)((u32)a[l] % bytes != 0) | (u32)((u32)a[l] > limit - bytes);               \
        if (bad)                                                                                   \
            return ld_any(w, in);                                                                  \
        for (unsigned k = 0; k < (N); k++) {                                                       \
            T *d = sg_opnd(w, in->r[k]);                                                           \
            for (int l = 0; l < SG_WARP; l++)                                                      \
                d[l] = ((const T *)(const void *)(s + (u32)a[l]))[k];                              \
        }                                                                                          \
        return in + 1;                                                                             \
    }

/* Of global memory; the windows of other spaces are never mapped there. */
#define LD_SCATTERED(name, T, N, SPACE_ID)                                                         \
    static const struct sg_insn *gather_##name(struct sg_warp *w, const struct sg_insn *in,        \
                                               const u64 a[SG_WARP])                               \
    {                                                                                              \
        const u32 bytes = sizeof(T) * (N);                                                         \
        const struct sg_run *run = w->block->run;                                                  \
        u32 bad = 0;                                                                               \
        for (int l = 0; l < SG_WARP; l++)                                                          \
            bad |= (u32)(a[l] % bytes != 0) |                                                      \
                   (u32)!sg_mem_ok(run->mem, a[l], bytes, run->device_bit, false);                 \
        if (bad)                                                                                   \
            return ld_any(w, in);                                                                  \
        for (unsigned k = 0; k < (N); k++) {                                                       \
            T *d = sg_opnd(w, in->r[k]);                                                           \
            for (int l = 0; l < SG_WARP; l++)                                                      \
                d[l] = ((const T *)(uintptr_t)a[l])[k];                                            \
        }                                                                                          \
        return in + 1;                                                                             \
    }                                                                                              \
    LD_WHOLE(name, T, N, SPACE_ID)
#define LD_GLOBAL(name, T, N) LD_SCATTERED(name, T, N, SG_SPACE_GLOBAL)
#define LD_GENERIC(name, T, N) LD_SCATTERED(name, T, N, SG_SPACE_GENERIC)
#define LD_SHARED(name, T, N) LD_GATHER(name, T, N) LD_WHOLE(name, T, N, SG_SPACE_SHARED)

LD_GLOBAL(ldg_1x4, u32, 1)
LD_GLOBAL(ldg_2x4, u32, 2)
LD_GLOBAL(ldg_4x4, u32, 4)
LD_GLOBAL(ldg_1x8, u64, 1)
LD_GLOBAL(ldg_2x8, u64, 2)
LD_GENERIC(ldx_1x4, u32, 1)
LD_GENERIC(ldx_2x4, u32, 2)
LD_GENERIC(ldx_4x4, u32, 4)
LD_GENERIC(ldx_1x8, u64, 1)
LD_GENERIC(ldx_2x8, u64, 2)
LD_SHARED(lds_1x4, u32, 1)
LD_SHARED(lds_2x4, u32, 2)
LD_SHARED(lds_4x4, u32, 4)
LD_SHARED(lds_1x8, u64, 1)
LD_SHARED(lds_2x8, u64, 2)

#define ST_WHOLE(name, T, N, SPACE_ID)                                                             \
    SG_HANDLER(name)                                                                               \
    {                                                                                              \
        u64 a[SG_WARP] __attribute__((aligned(64)));                                               \
        const u32 bytes = sizeof(T) * (N);                                                         \
        if (w->mask != SG_FULL_MASK)                                                               \
            return st_any(w, in);                                                                  \
        sg_addresses(w, in, a);                                                                    \
        if (a[0] % bytes || find_pattern(a, bytes) != CONSECUTIVE)                                 \
            return st_any(w, in);                                                                  \
        T *p = (T *)(void *)whole(w, SPACE_ID, a[0], bytes * SG_WARP, true);                       \
        if (p == NULL)                                                                             \
            return st_any(w, in);                                                                  \
        for (unsigned k = 0; k < (N); k++) {                                                       \
            const T *s = sg_opnd(w, in->r[k]);                                                     \
            SG_LANES p[(unsigned)l * (N) + k] = s[l];                                              \
        }                                                                                          \
        return in + 1;                                                                             \
    }
ST_WHOLE(stg_1x4, u32, 1, SG_SPACE_GLOBAL)
ST_WHOLE(stg_2x4, u32, 2, SG_SPACE_GLOBAL)
ST_WHOLE(stg_4x4, u32, 4, SG_SPACE_GLOBAL)
ST_WHOLE(stg_1x8, u64, 1, SG_SPACE_GLOBAL)
ST_WHOLE(stg_2x8, u64, 2, SG_SPACE_GLOBAL)
ST_WHOLE(sts_1x4, u32, 1, SG_SPACE_SHARED)
ST_WHOLE(sts_2x4, u32, 2, SG_SPACE_SHARED)
ST_WHOLE(sts_4x4, u32, 4, SG_SPACE_SHARED)
ST_WHOLE(sts_1x8, u64, 1, SG_SPACE_SHARED)
ST_WHOLE(sts_2x8, u64, 2, SG_SPACE_SHARED)

/* The same place in each lane's local memory; NULL: lanes are to be asked one by one. */
static inline uint8_t *same_local(struct sg_warp *w, const struct sg_insn *in, u32 bytes)
{
    u64 a[SG_WARP] __attribute__((aligned(64)));

    if (w->mask != SG_FULL_MASK)
        return NULL;
    sg_addresses(w, in, a);
    if (a[0] % bytes || find_pattern(a, bytes) != SAME || (u32)a[0] + (u64)bytes > w->local_used)
        return NULL;
    return w->local + (u32)a[0];
}

#define LOCAL(name, T, N)                                                                          \
    SG_HANDLER(ld##name)                                                                           \
    {                                                                                              \
        const uint8_t *p = same_local(w, in, sizeof(T) * (N));                                     \
        if (p == NULL)                                                                             \
            return ld_any(w, in);                                                                  \
        for (unsigned k = 0; k < (N); k++) {                                                       \
            T *d = sg_opnd(w, in->r[k]);                                                           \
            for (int l = 0; l < SG_WARP; l++)                                                      \
                memcpy(&d[l], p + (size_t)l * w->local_cap + k * sizeof(T), sizeof(T));            \
        }                                                                                          \
        return in + 1;                                                                             \
    }                                                                                              \
    SG_HANDLER(st##name)                                                                           \
    {                                                                                              \
        uint8_t *p = same_local(w, in, sizeof(T) * (N));                                           \
        if (p == NULL)                                                                             \
            return st_any(w, in);                                                                  \
        for (unsigned k = 0; k < (N); k++) {                                                       \
            const T *s = sg_opnd(w, in->r[k]);                                                     \
            for (int l = 0; l < SG_WARP; l++)                                                      \
                memcpy(p + (size_t)l * w->local_cap + k * sizeof(T), &s[l], sizeof(T));            \
        }                                                                                          \
        return in + 1;                                                                             \
    }
LOCAL(l_1x4, u32, 1)
LOCAL(l_2x4, u32, 2)
LOCAL(l_4x4, u32, 4)
LOCAL(l_1x8, u64, 1)
LOCAL(l_2x8, u64, 2)

/* By space: global, generic, shared, local. */
static const struct {
    u32 log, nlog;
    sg_handler ldg, ldx, lds, ldl, stg, sts, stl;
} wholes[] = {
    {2, 0, ldg_1x4, ldx_1x4, lds_1x4, ldl_1x4, stg_1x4, sts_1x4, stl_1x4},
    {2, 1, ldg_2x4, ldx_2x4, lds_2x4, ldl_2x4, stg_2x4, sts_2x4, stl_2x4},
    {2, 2, ldg_4x4, ldx_4x4, lds_4x4, ldl_4x4, stg_4x4, sts_4x4, stl_4x4},
    {3, 0, ldg_1x8, ldx_1x8, lds_1x8, ldl_1x8, stg_1x8, sts_1x8, stl_1x8},
    {3, 1, ldg_2x8, ldx_2x8, lds_2x8, ldl_2x8, stg_2x8, sts_2x8, stl_2x8},
};

/* ---- kernel parameters ----------------------------------------------------------------------- */

SG_HANDLER(ld_param)
{
    const struct sg_run *r = w->block->run;
    unsigned log = in->y & SG_Y_SIZE, n = 1u << (in->y >> 3 & 7);

    for (unsigned k = 0; k < n; k++) {
        u64 v = read_element(r->params + in->imm + ((size_t)k << log), log, in->y & SG_Y_SIGNED);
        if (in->x >> k & 1)
            SG_STORE_LANES(u64, sg_opnd(w, in->r[k]), v);
        else
            SG_STORE_LANES(u32, sg_opnd(w, in->r[k]), v);
    }
    return in + 1;
}

/* ---- choosing -------------------------------------------------------------------------------- */

enum sg_ptx_space SG_ISA(sg_space_of)(const struct sg_ptx_insn *p)
{
    static const struct {
        uint16_t mod;
        uint8_t space;
    } rows[] = {{SG_M_GLOBAL, SG_SPACE_GLOBAL},      {SG_M_SHARED, SG_SPACE_SHARED},
                {SG_M_SHARED__CTA, SG_SPACE_SHARED}, {SG_M_SHARED__CLUSTER, SG_SPACE_SHARED},
                {SG_M_LOCAL, SG_SPACE_LOCAL},        {SG_M_CONST, SG_SPACE_CONST},
                {SG_M_PARAM, SG_SPACE_PARAM},        {SG_M_PARAM__ENTRY, SG_SPACE_PARAM},
                {SG_M_PARAM__FUNC, SG_SPACE_PARAM}};
    for (size_t i = 0; i < TB_ARRAY_LEN(rows); i++)
        if (sg_ptx_has(p, (enum sg_ptx_mod)rows[i].mod))
            return (enum sg_ptx_space)rows[i].space;
    return SG_SPACE_GENERIC;
}

static bool address_of_var(struct sg_dec *d, const struct sg_ptx_var *v, struct sg_address *a)
{
    const struct sg_ptx_func *f = d->ptx;
    u32 offset;

    if (f->is_entry && sg_var_in(v, f->params, f->nparams)) {
        a->imm += v->offset;
        a->param = true;
        return true;
    }
    if (sg_dec_formal(d, v, &offset)) {
        a->imm += offset;
        a->y |= SG_Y_LOCALVAR;
        a->space = SG_SPACE_LOCAL;
        return true;
    }
    const struct sg_var *x = sg_dec_var(d, v);
    if (x == NULL)
        return false;
    a->space = x->ptx->space == SG_SPACE_PARAM ? SG_SPACE_LOCAL : x->ptx->space;
    a->imm += x->addr;
    if (x->dynamic) {
        a->y |= SG_Y_DYNAMIC;
        d->func->uses_dynamic = true;
    }
    if (a->space == SG_SPACE_LOCAL)
        a->y |= SG_Y_LOCALVAR;
    return true;
}

bool SG_ISA(sg_dec_address)(struct sg_dec *d, const struct sg_ptx_opnd *o, enum sg_ptx_space space,
                            struct sg_address *a)
{
    *a = (struct sg_address){.space = space};
    if (o->kind == SG_OPND_VAR) { /* `ld.shared.u32 %r, [x]` may be written without brackets */
        a->imm = (u64)o->imm;
        return address_of_var(d, o->var, a);
    }
    if (o->kind != SG_OPND_ADDR)
        return sg_dec_refuse(d, "an address is expected");
    const struct sg_ptx_opnd *b = &o->sub[0];
    a->imm = (u64)o->imm;
    switch (b->kind) {
    case SG_OPND_REG:
        a->y |= sg_dec_reg_size(d, b) == 8 ? SG_Y_BASE64 : SG_Y_BASE32;
        a->base = sg_dec_src(d, b, sg_dec_reg_size(d, b) == 8 ? SG_M_B64 : SG_M_B32);
        if (a->space == SG_SPACE_PARAM) /* addresses of parameters are generic ones */
            a->space = SG_SPACE_GENERIC;
        return true;
    case SG_OPND_VAR:
        a->imm += (u64)b->imm;
        return address_of_var(d, b->var, a);
    case SG_OPND_IMM:
        a->imm += (u64)b->imm;
        return true;
    default:
        return sg_dec_refuse(d, "an address of an unexpected kind");
    }
}

static bool is_signed(enum sg_ptx_mod t)
{
    return t == SG_M_S8 || t == SG_M_S16 || t == SG_M_S32;
}

static u32 vector_log(const struct sg_ptx_insn *p)
{
    return sg_ptx_has(p, SG_M_V2) ? 1 : sg_ptx_has(p, SG_M_V4) ? 2 : sg_ptx_has(p, SG_M_V8) ? 3 : 0;
}

/* Order between blocks matters to who uses these. */
static bool is_strong(const struct sg_ptx_insn *p)
{
    static const uint16_t mods[] = {SG_M_VOLATILE, SG_M_RELAXED, SG_M_ACQUIRE,
                                    SG_M_RELEASE,  SG_M_MMIO,    SG_M_NONE};
    return sg_mod_of(p, mods) != SG_M_NONE;
}

static sg_handler whole_handler(bool load, enum sg_ptx_space space, u32 log, u32 nlog)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(wholes); i++) {
        if (wholes[i].log != log || wholes[i].nlog != nlog)
            continue;
        if (space == SG_SPACE_SHARED)
            return load ? wholes[i].lds : wholes[i].sts;
        if (space == SG_SPACE_GLOBAL || space == SG_SPACE_CONST)
            return load ? wholes[i].ldg : wholes[i].stg;
        if (space == SG_SPACE_LOCAL)
            return load ? wholes[i].ldl : wholes[i].stl;
        if (space == SG_SPACE_GENERIC)
            return load ? wholes[i].ldx : st_any;
    }
    return load ? ld_any : st_any;
}

static bool decode_access(struct sg_dec *d, const struct sg_ptx_insn *p, bool load)
{
    enum sg_ptx_mod t = sg_type_at(p, 0);
    u32 size = sg_ptx_type_size(t), nlog = vector_log(p), n = 1u << nlog, wide = 0;
    int32_t r[4] = {0};
    struct sg_address a;

    if (p->nopnds < 2)
        return false;
    if (size == 0 || size > 8 || n > 4)
        return sg_dec_refuse(d, "%u elements of %u bytes", n, size);
    const struct sg_ptx_opnd *v = &p->opnds[load ? 0 : 1];
    if (n == 1 && v->kind == SG_OPND_VEC && v->n == 1)
        v = v->sub; /* Triton writes `{ %r1 }` for one register */
    if (n > 1 && (v->kind != SG_OPND_VEC || v->n != n))
        return sg_dec_refuse(d, "a vector of %u registers is expected", n);
    if (!SG_ISA(sg_dec_address)(d, &p->opnds[load ? 1 : 0], SG_ISA(sg_space_of)(p), &a))
        return false;
    u32 log = (u32)__builtin_ctz(size);
    for (unsigned k = 0; k < n; k++) {
        const struct sg_ptx_opnd *o = n > 1 ? &v->sub[k] : v;
        bool w64 = o->kind == SG_OPND_REG ? sg_dec_reg_size(d, o) == 8 : size == 8;
        wide |= (u32)w64 << k;
        /* a register may be wider than the type: the handler knows its size */
        enum sg_ptx_mod as = w64                      ? SG_M_B64
                             : size > 4               ? SG_M_B64
                             : o->kind == SG_OPND_REG ? SG_M_B32
                                                      : t;
        r[k] = load ? sg_dec_dst(d, o, as) : sg_dec_src(d, o, as);
    }
    if (a.space != SG_SPACE_SHARED && a.space != SG_SPACE_LOCAL && is_strong(p))
        d->func->communicates = true;
    bool same_size = wide == (size == 8 ? (1u << n) - 1 : 0);
    sg_handler fn = same_size ? whole_handler(load, a.space, log, nlog) : load ? ld_any : st_any;
    if (a.param)
        fn = ld_param;
    u64 bytes = (u64)n << log;
    if (a.param && (!load || bytes > d->ptx->param_bytes || a.imm > d->ptx->param_bytes - bytes))
        return sg_dec_refuse(d, "an access outside the parameters");
    struct sg_insn *in = sg_dec_emit(d, fn);
    memcpy(in->r, r, sizeof(r));
    sg_address_store(in, &a);
    in->x = wide;
    in->y |= log | nlog << 3 | (is_signed(t) ? (u32)SG_Y_SIGNED : 0);
    return true;
}

SG_OP0(zero64, u64, 0)
SG_HANDLER(nothing)
{
    (void)w;
    return in + 1;
}

bool SG_ISA(sg_decode_mem)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    switch ((enum sg_ptx_op)p->op) {
    case SG_OP_LD:
    case SG_OP_LDU:
        return decode_access(d, p, true);
    case SG_OP_ST:
        return decode_access(d, p, false);
    case SG_OP_CREATEPOLICY: /* caches are not simulated */
        sg_emit_op(d, zero64, SG_M_B64, SG_M_NONE, SG_M_NONE, SG_M_NONE);
        return true;
    case SG_OP_PREFETCH:
    case SG_OP_PREFETCHU:
    case SG_OP_APPLYPRIORITY:
        sg_dec_emit(d, nothing);
        return true;
    default:
        return false;
    }
}
