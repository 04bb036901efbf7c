/*
 * mma.sync and wmma: fragments are gathered into whole matrices, multiplied by softgpu/num, and
 * scattered. The layout of mma fragments is the ISA's; that of wmma fragments, which the ISA leaves
 * open, is: the distinct elements of a matrix in row-major order, divided evenly over the lanes.
 */
#include "softgpu/exec/access.h"
#include "softgpu/num/tensor.h"

#include <stdio.h>

typedef uint32_t u32;
typedef uint64_t u64;

#define MAX_REGS 16
#define MAX_ELEMENTS 1024

/* Where the elements of one matrix lie: place[e] = lane | reg << 5 | part << 9. */
struct fragment {
    u32 rows, cols, bits, nregs;
    int32_t reg[MAX_REGS];
    enum sg_ptx_mod type;
    uint16_t *place;
};

struct product {
    struct sg_mma_shape shape;
    struct fragment a, b, c, d; /* b: rows are k */
    bool satfinite, and_popc;
    struct sg_mma_types types;
};

static bool sign_of(enum sg_ptx_mod t)
{
    return t == SG_M_S8 || t == SG_M_S4;
}

static u32 bits_of(enum sg_ptx_mod t)
{
    switch (t) {
    case SG_M_B1:
        return 1;
    case SG_M_U4:
    case SG_M_S4:
        return 4;
    case SG_M_U8:
    case SG_M_S8:
    case SG_M_E4M3:
    case SG_M_E5M2:
        return 8;
    case SG_M_F16:
    case SG_M_BF16:
        return 16;
    case SG_M_F64:
        return 64;
    default:
        return 32;
    }
}

/* ---- gathering ------------------------------------------------------------------------------- */

static u32 element(const struct sg_warp *w, const struct fragment *f, u32 e)
{
    u32 p = f->place[e], lane = p & 31, part = p >> 9;
    u32 v = ((const u32 *)sg_opnd(w, f->reg[p >> 5 & 15]))[lane] >> (part * f->bits);

    if (f->bits == 32)
        return v;
    v &= (1u << f->bits) - 1;
    if (sign_of(f->type))
        v = (u32)((int32_t)(v << (32 - f->bits)) >> (32 - f->bits));
    return v;
}

static void gather(const struct sg_warp *w, const struct fragment *f, u32 *out)
{
    for (u32 e = 0; e < f->rows * f->cols; e++)
        out[e] = element(w, f, e);
}

static void gather64(const struct sg_warp *w, const struct fragment *f, u64 *out)
{
    for (u32 e = 0; e < f->rows * f->cols; e++) {
        u32 p = f->place[e];
        out[e] = ((const u64 *)sg_opnd(w, f->reg[p >> 5 & 15]))[p & 31];
    }
}

static void scatter(struct sg_warp *w, const struct fragment *f, const u32 *in)
{
    for (u32 e = 0; e < f->rows * f->cols; e++) {
        u32 p = f->place[e], part = p >> 9;
        u32 *r = &((u32 *)sg_opnd(w, f->reg[p >> 5 & 15]))[p & 31];
        u32 mask = f->bits == 32 ? ~0u : ((1u << f->bits) - 1) << (part * f->bits);
        *r = (*r & ~mask) | (in[e] << (part * f->bits) & mask);
    }
}

/* One bit an element: rows of a and columns of b as words. */
static void gather_bits(const struct sg_warp *w, const struct fragment *f, bool by_column, u32 *out)
{
    u32 lines = by_column ? f->cols : f->rows, k = by_column ? f->rows : f->cols;

    memset(out, 0, (size_t)lines * (k / 32) * sizeof(*out));
    for (u32 i = 0; i < lines; i++)
        for (u32 j = 0; j < k; j++)
            out[i * (k / 32) + j / 32] |=
                element(w, f, by_column ? j * f->cols + i : i * f->cols + j) << (j % 32);
}

SG_HANDLER(multiply_float)
{
    const struct product *p = in->ptr;
    u32 a[MAX_ELEMENTS], b[MAX_ELEMENTS], c[MAX_ELEMENTS] = {0};

    if (!sg_warp_converged(w, in, SG_FULL_MASK))
        return sg_warp_leave(w);
    gather(w, &p->a, a);
    gather(w, &p->b, b);
    gather(w, &p->c, c);
    sg_mma_float(p->shape, p->types, a, b, c, c);
    scatter(w, &p->d, c);
    return in + 1;
}

SG_HANDLER(multiply_int)
{
    const struct product *p = in->ptr;
    u32 a[MAX_ELEMENTS], b[MAX_ELEMENTS], c[MAX_ELEMENTS] = {0};

    if (!sg_warp_converged(w, in, SG_FULL_MASK))
        return sg_warp_leave(w);
    gather(w, &p->a, a);
    gather(w, &p->b, b);
    gather(w, &p->c, c);
    sg_mma_int(p->shape, (const int32_t *)a, (const int32_t *)b, (const int32_t *)c, (int32_t *)c,
               p->satfinite);
    scatter(w, &p->d, c);
    return in + 1;
}

SG_HANDLER(multiply_bits)
{
    const struct product *p = in->ptr;
    u32 a[MAX_ELEMENTS], b[MAX_ELEMENTS], c[MAX_ELEMENTS] = {0};

    if (!sg_warp_converged(w, in, SG_FULL_MASK))
        return sg_warp_leave(w);
    gather_bits(w, &p->a, false, a);
    gather_bits(w, &p->b, true, b);
    gather(w, &p->c, c);
    sg_mma_b1(p->shape, p->and_popc, a, b, (const int32_t *)c, (int32_t *)c);
    scatter(w, &p->d, c);
    return in + 1;
}

SG_HANDLER(multiply_f64)
{
    const struct product *p = in->ptr;
    u64 a[MAX_ELEMENTS], b[MAX_ELEMENTS], c[MAX_ELEMENTS] = {0};

    if (!sg_warp_converged(w, in, SG_FULL_MASK))
        return sg_warp_leave(w);
    gather64(w, &p->a, a);
    gather64(w, &p->b, b);
    gather64(w, &p->c, c);
    sg_mma_f64(p->shape, (enum sg_rnd)in->x, a, b, c, c);
    for (u32 e = 0; e < p->d.rows * p->d.cols; e++) {
        u32 at = p->d.place[e];
        ((u64 *)sg_opnd(w, p->d.reg[at >> 5 & 15]))[at & 31] = c[e];
    }
    return in + 1;
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void put(struct fragment *f, u32 row, u32 col, u32 lane, u32 reg, u32 part)
{
    f->place[row * f->cols + col] = (uint16_t)(lane | reg << 5 | part << 9);
}

/* mma: lane = 4 g + t. A register of a holds elements of row g, or g + 8 for the odd ones of 16
 * rows, at k = t * per; b the same with its column; c and d two neighbours of a row. */
static void layout_ab(struct fragment *f, bool is_a)
{
    u32 per = f->bits == 64 ? 1 : 32 / f->bits, rows16 = is_a && f->rows == 16;

    for (u32 lane = 0; lane < SG_WARP; lane++)
        for (u32 r = 0; r < f->nregs; r++)
            for (u32 i = 0; i < per; i++) {
                u32 line = lane / 4 + (rows16 ? 8 * (r & 1) : 0);
                u32 k = (rows16 ? r >> 1 : r) * 4 * per + lane % 4 * per + i;
                if (is_a)
                    put(f, line, k, lane, r, i);
                else
                    put(f, k, line, lane, r, i);
            }
}

static void layout_cd(struct fragment *f)
{
    u32 per = f->bits >= 32 ? 1 : 2;

    for (u32 lane = 0; lane < SG_WARP; lane++)
        for (u32 s = 0; s < f->nregs * per; s++)
            put(f, lane / 4 + 8 * (s / 2), lane % 4 * 2 + s % 2, lane, s / per, s % per);
}

static void layout_wmma(struct fragment *f)
{
    u32 each = f->rows * f->cols / SG_WARP, per = f->bits == 64 ? 1 : 32 / f->bits;

    for (u32 e = 0; e < f->rows * f->cols; e++) {
        u32 s = e % each;
        f->place[e] = (uint16_t)(e / each | (s / per) << 5 | (s % per) << 9);
    }
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* "m16n8k16" of the shape's modifier. */
static bool shape_of(const struct sg_ptx_insn *p, struct sg_mma_shape *s)
{
    for (unsigned i = 0; i < p->nmods; i++) {
        unsigned m, n, k;
        char rest;
        const char *name = sg_ptx_mod_name((enum sg_ptx_mod)p->mods[i]);
        if (sscanf(name, "m%un%uk%u%c", &m, &n, &k, &rest) == 3) {
            *s = (struct sg_mma_shape){(uint16_t)m, (uint16_t)n, (uint16_t)k};
            return true;
        }
    }
    return false;
}

/* Registers of a fragment; how many are needed is known from the shape. */
static bool operands(struct sg_dec *d, const struct sg_ptx_opnd *o, struct fragment *f, u32 rows,
                     u32 cols, enum sg_ptx_mod type, bool writes)
{
    f->rows = rows;
    f->cols = cols;
    f->type = type;
    f->bits = bits_of(type);
    f->nregs = o->kind == SG_OPND_VEC ? o->n : 1;
    if (f->nregs > MAX_REGS || rows * cols > MAX_ELEMENTS * (f->bits == 1 ? 8u : 1u))
        return sg_dec_refuse(d, "matrices of %ux%u", rows, cols);
    f->place = sg_image_own(d->image, (size_t)rows * cols * sizeof(*f->place));
    if (f->place == NULL)
        return sg_dec_refuse(d, "no memory");
    enum sg_ptx_mod as = f->bits == 64 ? SG_M_F64 : SG_M_B32;
    for (u32 i = 0; i < f->nregs; i++) {
        const struct sg_ptx_opnd *r = o->kind == SG_OPND_VEC ? &o->sub[i] : o;
        f->reg[i] = writes ? sg_dec_dst(d, r, as) : sg_dec_src(d, r, as);
    }
    return true;
}

/* Fragments of wmma may hold elements twice, those of mma do not. */
static bool enough(struct sg_dec *d, const struct fragment *f, bool exactly)
{
    u32 bits = f->rows * f->cols * f->bits / SG_WARP, have = f->nregs * (f->bits == 64 ? 64 : 32);

    return (exactly ? have == bits : have >= bits) ||
           sg_dec_refuse(d, "%u registers for %ux%u elements of %u bits", f->nregs, f->rows,
                         f->cols, f->bits);
}

static uint8_t num_type(enum sg_ptx_mod t)
{
    switch (t) {
    case SG_M_F16:
        return SG_T_F16;
    case SG_M_BF16:
        return SG_T_BF16;
    case SG_M_TF32:
        return SG_T_TF32;
    case SG_M_E4M3:
        return SG_T_E4M3;
    case SG_M_E5M2:
        return SG_T_E5M2;
    default:
        return SG_T_F32;
    }
}

static bool is_ab_float(enum sg_ptx_mod t)
{
    return t == SG_M_F16 || t == SG_M_BF16 || t == SG_M_TF32 || t == SG_M_E4M3 || t == SG_M_E5M2;
}

/* Types of d, a, b, c; wmma of f16 names only d's and c's. */
static bool types_of(const struct sg_ptx_insn *p, enum sg_ptx_mod t[4])
{
    for (unsigned i = 0; i < 4; i++)
        t[i] = sg_type_at(p, i);
    if (t[2] == SG_M_NONE && t[1] != SG_M_NONE) {
        t[3] = t[1];
        t[1] = t[2] = SG_M_F16;
    }
    return t[3] != SG_M_NONE;
}

static bool refused_forms(const struct sg_ptx_insn *p)
{
    static const uint16_t mods[] = {SG_M_SP, SG_M_SP__ORDERED_METADATA, SG_M_BLOCK_SCALE,
                                    SG_M_KIND__F8F6F4, SG_M_NONE};
    return sg_mod_of(p, mods) != SG_M_NONE;
}

static sg_handler multiplier(const struct product *m, const enum sg_ptx_mod t[4])
{
    if (t[1] == SG_M_F64)
        return multiply_f64;
    if (t[1] == SG_M_B1)
        return multiply_bits;
    if (is_ab_float(t[1]) && is_ab_float(t[2]) && m->shape.n % 8 == 0)
        return multiply_float;
    return m->a.bits <= 8 && !is_ab_float(t[1]) ? multiply_int : NULL;
}

static enum sg_rnd rounding(const struct sg_ptx_insn *p)
{
    return sg_ptx_has(p, SG_M_RZ)   ? SG_RND_RZ
           : sg_ptx_has(p, SG_M_RM) ? SG_RND_RM
           : sg_ptx_has(p, SG_M_RP) ? SG_RND_RP
                                    : SG_RND_RN;
}

static bool lay_out(struct sg_dec *d, struct product *m, bool wmma)
{
    struct fragment *f[4] = {&m->a, &m->b, &m->c, &m->d};

    for (unsigned i = 0; i < 4; i++)
        if (!enough(d, f[i], !wmma))
            return false;
    for (unsigned i = 0; i < 4; i++)
        if (wmma)
            layout_wmma(f[i]);
        else if (i < 2)
            layout_ab(f[i], i == 0);
        else
            layout_cd(f[i]);
    return true;
}

static bool decode_product(struct sg_dec *d, const struct sg_ptx_insn *p, bool wmma)
{
    struct product *m = sg_image_own(d->image, sizeof(*m));
    enum sg_ptx_mod t[4];
    struct sg_mma_shape s;

    if (m == NULL)
        return sg_dec_refuse(d, "no memory");
    if (p->nopnds != 4 || refused_forms(p) || !shape_of(p, &s) || !types_of(p, t))
        return false;
    if (!wmma && s.m == 8 && t[1] == SG_M_F16)
        return sg_dec_refuse(d, "products of quarter warps");
    if (!wmma && (!sg_ptx_has(p, SG_M_ROW) || !sg_ptx_has(p, SG_M_COL)))
        return false;
    m->shape = s;
    m->satfinite = sg_ptx_has(p, SG_M_SATFINITE);
    m->and_popc = sg_ptx_has(p, SG_M_AND);
    m->types =
        (struct sg_mma_types){num_type(t[1]), num_type(t[2]), num_type(t[3]), num_type(t[0])};
    if (!operands(d, &p->opnds[1], &m->a, s.m, s.k, t[1], false) ||
        !operands(d, &p->opnds[2], &m->b, s.k, s.n, t[2], false) ||
        !operands(d, &p->opnds[3], &m->c, s.m, s.n, t[3], false) ||
        !operands(d, &p->opnds[0], &m->d, s.m, s.n, t[0], true) || !lay_out(d, m, wmma))
        return false;
    sg_handler fn = multiplier(m, t);
    if (fn == NULL)
        return false;
    struct sg_insn *in = sg_dec_emit(d, fn);
    in->ptr = m;
    in->x = rounding(p);
    return true;
}

/* ---- wmma.load, wmma.store ------------------------------------------------------------------- */

struct tile {
    struct fragment f;
    bool col; /* column-major in memory */
};

/* Byte address and bit of element (row, col); @stride in elements. */
static u64 tile_address(const struct tile *t, u64 base, u32 stride, u32 row, u32 col, u32 *bit)
{
    u64 at = t->col ? (u64)col * stride + row : (u64)row * stride + col;
    u64 bits = at * t->f.bits;

    *bit = bits % 8;
    return base + bits / 8;
}

static u64 tile_read(const struct tile *t, const uint8_t *p, u32 bit)
{
    u64 v = 0;

    memcpy(&v, p, t->f.bits < 8 ? 1 : t->f.bits / 8);
    return t->f.bits < 8 ? v >> bit & ((1u << t->f.bits) - 1) : v;
}

/* Place s of a lane holds element lane * each + s % each: some types have every element twice. */
static const struct sg_insn *move_tile(struct sg_warp *w, const struct sg_insn *in, bool load)
{
    const struct tile *t = in->ptr;
    const struct fragment *f = &t->f;
    u64 base[SG_WARP];
    const u32 *stride = sg_opnd(w, in->r[4]);
    u32 per = f->bits == 64 ? 1 : 32 / f->bits, each = f->rows * f->cols / SG_WARP;
    u32 bytes = f->bits < 8 ? 1 : f->bits / 8;
    struct sg_insn addr = *in;

    if (!sg_warp_converged(w, in, SG_FULL_MASK))
        return sg_warp_leave(w);
    addr.imm = (u64)(int64_t)in->r[6];
    sg_addresses(w, &addr, base);
    for (unsigned l = 0; l < SG_WARP; l++)
        for (u32 s = 0; s < (load ? f->nregs * per : each); s++) {
            u32 e = l * each + s % each, bit;
            u64 at = tile_address(t, base[l], stride[l], e / f->cols, e % f->cols, &bit);
            uint8_t *p = at % bytes ? NULL : sg_lane_space(w, l, SG_SPACE(in), at, bytes, !load);
            if (p == NULL)
                return sg_bad_address(w, in, l, at, bytes, !load);
            if (f->bits == 64) {
                u64 *r = &((u64 *)sg_opnd(w, f->reg[s]))[l];
                memcpy(load ? (void *)r : (void *)p, load ? (void *)p : (void *)r, 8);
                continue;
            }
            u32 *r = &((u32 *)sg_opnd(w, f->reg[s / per]))[l], shift = s % per * f->bits;
            u32 mask = f->bits == 32 ? ~0u : ((1u << f->bits) - 1) << shift;
            if (load) {
                *r = (*r & ~mask) | ((u32)tile_read(t, p, bit) << shift & mask);
            } else {
                u32 v = (*r & mask) >> shift;
                memcpy(p, &v, bytes);
            }
        }
    return in + 1;
}

SG_HANDLER(load_tile)
{
    return move_tile(w, in, true);
}

SG_HANDLER(store_tile)
{
    return move_tile(w, in, false);
}

static bool decode_tile(struct sg_dec *d, const struct sg_ptx_insn *p, bool load)
{
    struct tile *t = sg_image_own(d->image, sizeof(*t));
    bool is_a = sg_ptx_has(p, SG_M_A), is_b = sg_ptx_has(p, SG_M_B);
    struct sg_mma_shape s;
    struct sg_address a;
    enum sg_ptx_mod type = sg_type_at(p, 0);

    if (t == NULL)
        return sg_dec_refuse(d, "no memory");
    if (p->nopnds < 2 || !shape_of(p, &s))
        return false;
    t->col = sg_ptx_has(p, SG_M_COL);
    u32 rows = is_b ? s.k : s.m, cols = is_a ? s.k : s.n;
    if (!SG_ISA(sg_dec_address)(d, &p->opnds[load ? 1 : 0], SG_ISA(sg_space_of)(p), &a) || a.param)
        return false;
    int32_t stride = p->nopnds > 2 ? sg_dec_src(d, &p->opnds[2], SG_M_U32)
                                   : sg_dec_const(d, t->col ? rows : cols, 4);
    if (!operands(d, &p->opnds[load ? 0 : 1], &t->f, rows, cols, type, load) ||
        !enough(d, &t->f, false))
        return false;
    if ((int64_t)a.imm != (int32_t)a.imm)
        return sg_dec_refuse(d, "an absolute address");
    if (!load && (is_a || is_b))
        return false;
    struct sg_insn *in = sg_dec_emit(d, load ? load_tile : store_tile);
    sg_address_store(in, &a);
    in->r[6] = (int32_t)a.imm; /* the pointer takes the place of the offset */
    in->r[4] = stride;
    in->ptr = t;
    return true;
}

bool SG_ISA(sg_decode_tensor)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    if (p->op == SG_OP_MMA)
        return decode_product(d, p, false);
    if (p->op != SG_OP_WMMA)
        return SG_ISA(sg_decode_matrix)(d, p);
    if (sg_ptx_has(p, SG_M_LOAD))
        return decode_tile(d, p, true);
    if (sg_ptx_has(p, SG_M_STORE))
        return decode_tile(d, p, false);
    return decode_product(d, p, true);
}
