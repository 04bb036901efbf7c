/*
 * atom and red. The lanes of a warp take their turns from a lane that the seed chooses. Integer
 * operations are atomic for the host and for other workers too; all others occur only in kernels
 * that one thread executes.
 */
#include "softgpu/exec/access.h"

typedef uint32_t u32;
typedef uint64_t u64;
typedef uint16_t u16;

enum op { ADD, MIN, MAX, INC, DEC, AND, OR, XOR, EXCH, CAS };

/* in->x: op, type and whether there is a result; the address as access.h says. r[0] result (or
 * vector in ptr-free form r[0..3]), r[1..4] second operand, r[6] third. */
enum { X_OP = 0xf, X_TYPE_SHIFT = 4, X_RESULT = 1 << 14, X_64 = 1 << 15, X_THIRD64 = 1 << 16 };

static u64 combine_int(enum op op, enum sg_ptx_mod t, u64 old, u64 v)
{
    bool sign = t == SG_M_S32 || t == SG_M_S64, wide = t == SG_M_S64;
    bool less = sign ? (wide ? (int64_t)old < (int64_t)v : (int32_t)old < (int32_t)v) : old < v;

    switch (op) {
    case ADD:
        return old + v;
    case MIN:
        return less ? old : v;
    case MAX:
        return less ? v : old;
    case INC:
        return old >= v ? 0 : old + 1;
    case DEC:
        return old == 0 || old > v ? v : old - 1;
    case AND:
        return old & v;
    case OR:
        return old | v;
    case XOR:
        return old ^ v;
    default:
        return v;
    }
}

static u32 half_op(enum op op, bool bf16, u16 a, u16 b)
{
    if (op == ADD)
        return bf16 ? sg_bf16_add(a, b, 0) : sg_f16_add(a, b, 0);
    if (op == MIN)
        return bf16 ? sg_bf16_min(a, b, 0) : sg_f16_min(a, b, 0);
    return bf16 ? sg_bf16_max(a, b, 0) : sg_f16_max(a, b, 0);
}

/* Additions of f32 in global memory flush subnormals, those in shared memory do not (PTX ISA). */
static u64 combine(enum op op, enum sg_ptx_mod t, u64 old, u64 v, bool shared)
{
    switch (t) {
    case SG_M_F32:
        return op == ADD   ? sg_f32_add((u32)old, (u32)v, SG_RND_RN, shared ? 0 : SG_NUM_FTZ)
               : op == MIN ? sg_f32_min((u32)old, (u32)v, 0)
               : op == MAX ? sg_f32_max((u32)old, (u32)v, 0)
                           : v;
    case SG_M_F64:
        return sg_f64_add(old, v, SG_RND_RN);
    case SG_M_F16:
    case SG_M_BF16:
        return half_op(op, t == SG_M_BF16, (u16)old, (u16)v);
    case SG_M_F16X2:
    case SG_M_BF16X2:
        return half_op(op, t == SG_M_BF16X2, (u16)old, (u16)v) |
               half_op(op, t == SG_M_BF16X2, (u16)(old >> 16), (u16)(v >> 16)) << 16;
    default:
        return combine_int(op, t, old, v);
    }
}

/* One lane's operation on @size bytes at @p; returns what was there. */
static u64 apply32(u32 *p, enum op op, enum sg_ptx_mod t, u32 v, u32 third, bool shared)
{
    u32 old = __atomic_load_n(p, __ATOMIC_RELAXED), want;

    if (op == CAS) {
        old = v;
        __atomic_compare_exchange_n(p, &old, third, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return old;
    }
    do {
        want = (u32)combine(op, t, old, v, shared);
    } while (!__atomic_compare_exchange_n(p, &old, want, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    return old;
}

static u64 apply64(u64 *p, enum op op, enum sg_ptx_mod t, u64 v, u64 third, bool shared)
{
    u64 old = __atomic_load_n(p, __ATOMIC_RELAXED), want;

    if (op == CAS) {
        old = v;
        __atomic_compare_exchange_n(p, &old, third, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return old;
    }
    do {
        want = combine(op, t, old, v, shared);
    } while (!__atomic_compare_exchange_n(p, &old, want, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    return old;
}

static u64 apply16(u16 *p, enum op op, enum sg_ptx_mod t, u16 v, u16 third, bool shared)
{
    u16 old = *p;

    *p = op == CAS ? (old == v ? third : old) : (u16)combine(op, t, old, v, shared);
    return old;
}

static u64 apply(uint8_t *p, u32 size, enum op op, enum sg_ptx_mod t, u64 v, u64 third, bool shared)
{
    switch (size) {
    case 2:
        return apply16((u16 *)(void *)p, op, t, (u16)v, (u16)third, shared);
    case 4:
        return apply32((u32 *)(void *)p, op, t, (u32)v, (u32)third, shared);
    default:
        return apply64((u64 *)(void *)p, op, t, v, third, shared);
    }
}

static u64 read_lane(struct sg_warp *w, int32_t off, unsigned l, u32 size)
{
    const uint8_t *p = sg_opnd(w, off);
    u64 v = 0;

    memcpy(&v, p + l * (size == 8 ? 8u : 4u), size == 8 ? 8 : 4);
    return v;
}

static void write_lane(struct sg_warp *w, int32_t off, unsigned l, u32 size, u64 v)
{
    uint8_t *p = sg_opnd(w, off);

    memcpy(p + l * (size == 8 ? 8u : 4u), &v, size == 8 ? 8 : 4);
}

static bool in_shared(const struct sg_warp *w, const struct sg_insn *in, u64 addr)
{
    return SG_SPACE(in) == SG_SPACE_SHARED || addr - w->block->run->shared_window < SG_MEM_WINDOW;
}

/* Scalars: r[0] result, r[1] value, r[6] third. Vectors: r[1..4] values, no result. */
SG_HANDLER(atomic)
{
    u32 size = 1u << (in->y & SG_Y_SIZE), n = 1u << (in->y >> 3 & 7);
    enum op op = (enum op)(in->x & X_OP);
    enum sg_ptx_mod t = (enum sg_ptx_mod)(in->x >> X_TYPE_SHIFT & 0x3ff);
    u64 a[SG_WARP];

    sg_addresses(w, in, a);
    for (unsigned i = 0; i < SG_WARP; i++) {
        unsigned l = (i + w->rotate) & 31;
        if (!(w->mask >> l & 1))
            continue;
        uint8_t *p =
            a[l] % (size * n) ? NULL : sg_lane_space(w, l, SG_SPACE(in), a[l], size * n, true);
        if (p == NULL)
            return sg_bad_address(w, in, l, a[l], size * n, true);
        for (u32 k = 0; k < n; k++) {
            u64 v = read_lane(w, in->r[1 + k], l, size);
            u64 third = op == CAS ? read_lane(w, in->r[6], l, size) : 0;
            u64 old = apply(p + (size_t)k * size, size, op, t, v, third, in_shared(w, in, a[l]));
            if (in->x & X_RESULT)
                write_lane(w, in->r[0], l, size, old);
        }
    }
    return in + 1;
}

/* Unsigned additions without a result are what histograms are made of. */
SG_HANDLER(red_add32)
{
    const u32 *v = sg_opnd(w, in->r[1]);
    u64 a[SG_WARP];

    sg_addresses(w, in, a);
    for (unsigned l = 0; l < SG_WARP; l++) {
        if (!(w->mask >> l & 1))
            continue;
        u32 *p = a[l] % 4 ? NULL : sg_lane_space(w, l, SG_SPACE(in), a[l], 4, true);
        if (p == NULL)
            return sg_bad_address(w, in, l, a[l], 4, true);
        if (SG_SPACE(in) == SG_SPACE_SHARED)
            *p += v[l];
        else
            __atomic_fetch_add(p, v[l], __ATOMIC_RELAXED);
    }
    return in + 1;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool operation(const struct sg_ptx_insn *p, enum op *op)
{
    static const uint16_t mods[] = {SG_M_ADD, SG_M_MIN, SG_M_MAX, SG_M_INC,  SG_M_DEC,
                                    SG_M_AND, SG_M_OR,  SG_M_XOR, SG_M_EXCH, SG_M_CAS};

    for (unsigned i = 0; i < TB_ARRAY_LEN(mods); i++)
        if (sg_ptx_has(p, (enum sg_ptx_mod)mods[i])) {
            *op = (enum op)i;
            return true;
        }
    return false;
}

static bool is_float(enum sg_ptx_mod t)
{
    return t == SG_M_F32 || t == SG_M_F64 || t == SG_M_F16 || t == SG_M_BF16 || t == SG_M_F16X2 ||
           t == SG_M_BF16X2;
}

/* Types that an operation is defined for; everything else is refused. */
static bool legal(enum op op, enum sg_ptx_mod t)
{
    bool u = t == SG_M_U32 || t == SG_M_U64, s = t == SG_M_S32 || t == SG_M_S64;
    bool b = t == SG_M_B32 || t == SG_M_B64, half = is_float(t) && t != SG_M_F32 && t != SG_M_F64;

    switch (op) {
    case ADD:
        return u || t == SG_M_S32 || t == SG_M_S64 || is_float(t);
    case MIN:
    case MAX:
        return u || s || half;
    case INC:
    case DEC:
        return t == SG_M_U32;
    case AND:
    case OR:
    case XOR:
        return b || u || s;
    case EXCH:
        return b || u || s || t == SG_M_F32;
    default:
        return b || u || s || t == SG_M_B16;
    }
}

/* Does the order of the blocks show? Not for integer sums and the like whose result nobody reads.
 */
static bool order_shows(enum op op, enum sg_ptx_mod t, bool result)
{
    return result || is_float(t) || op == INC || op == DEC || op == EXCH || op == CAS;
}

static bool result_is_read(const struct sg_dec *d, const struct sg_ptx_opnd *o)
{
    return o->kind == SG_OPND_REG && d->reads[o->reg] != 0;
}

static u32 vector_of(const struct sg_ptx_insn *p)
{
    return sg_ptx_has(p, SG_M_V2) ? 1 : sg_ptx_has(p, SG_M_V4) ? 2 : sg_ptx_has(p, SG_M_V8) ? 3 : 0;
}

bool SG_ISA(sg_decode_atom)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    bool atom = p->op == SG_OP_ATOM, result;
    enum sg_ptx_mod t = sg_type_at(p, 0);
    u32 size = sg_ptx_type_size(t), nlog = vector_of(p);
    const struct sg_ptx_opnd *o = p->opnds + atom;
    struct sg_address a;
    int32_t r[7] = {0};
    enum op op;

    if (sg_ptx_has(p, SG_M_ASYNC))
        return sg_dec_refuse(d, "asynchronous reductions");
    bool hint = sg_ptx_has(p, SG_M_L2__CACHE_HINT);
    if (!operation(p, &op) || p->nopnds != 2u + atom + (op == CAS) + hint)
        return false;
    if (!legal(op, t) || size > 8 || nlog > 2)
        return sg_dec_refuse(d, "the operation on this type");
    result = atom && p->opnds[0].kind != SG_OPND_SINK && result_is_read(d, &p->opnds[0]);
    if (nlog != 0 && atom && p->opnds[0].kind != SG_OPND_SINK)
        return sg_dec_refuse(d, "vectors with a result");
    if (!SG_ISA(sg_dec_address)(d, &o[0], SG_ISA(sg_space_of)(p), &a))
        return false;
    if (a.param)
        return sg_dec_refuse(d, "kernel parameters cannot be written");
    if (nlog == 0) {
        r[1] = sg_dec_src(d, &o[1], t);
    } else {
        if (o[1].kind != SG_OPND_VEC || o[1].n != 1u << nlog)
            return sg_dec_refuse(d, "a vector of values is expected");
        for (u32 k = 0; k < 1u << nlog; k++)
            r[1 + k] = sg_dec_src(d, &o[1].sub[k], t);
    }
    if (op == CAS)
        r[6] = sg_dec_src(d, &o[2], t);
    if (result)
        r[0] = sg_dec_dst(d, &p->opnds[0], t);
    if (a.space != SG_SPACE_SHARED && order_shows(op, t, result))
        d->func->communicates = true;
    bool fast = op == ADD && (t == SG_M_U32 || t == SG_M_S32) && !result && nlog == 0;
    struct sg_insn *in = sg_dec_emit(d, fast ? red_add32 : atomic);
    sg_address_store(in, &a);
    int32_t base = in->r[5];
    memcpy(in->r, r, sizeof(r));
    in->r[5] = base;
    in->x = (u32)op | (u32)t << X_TYPE_SHIFT | (result ? (u32)X_RESULT : 0);
    in->y |= (u32)__builtin_ctz(size) | nlog << 3;
    return true;
}
