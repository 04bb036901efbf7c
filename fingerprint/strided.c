/*
 * Strided views: their bytes in row-major order, gathered one leaf at a time on the stack, or
 * hashed where they lie when a whole leaf is contiguous.
 */
#include <string.h>

#include "fingerprint/fp_internal.h"

/*
 * A layout in its simplest form: units of contiguous bytes, and dimensions (outer first) that say
 * where the next unit lies. Sizes are > 1; no dimension of stride 0 is left.
 */
struct view {
    const uint8_t *base;
    size_t unit;
    uint64_t bytes; /* of all units */
    int ndim;
    uint64_t size[TB_FP_MAX_DIMS];
    int64_t step[TB_FP_MAX_DIMS]; /* bytes */
};

/* A place in the row-major byte order of a view. */
struct cursor {
    const struct view *v;
    const uint8_t *p; /* the unit */
    size_t off;       /* in the unit */
    uint64_t index[TB_FP_MAX_DIMS];
};

static bool is_empty(const struct tb_fp_layout *l)
{
    for (int d = 0; d < l->ndim; d++)
        if (l->sizes[d] == 0)
            return true;
    return false;
}

bool tb_fp_layout_contiguous(const struct tb_fp_layout *l)
{
    int64_t expected = 1;

    if (is_empty(l))
        return true;
    for (int d = l->ndim - 1; d >= 0; d--) {
        if (l->sizes[d] == 1)
            continue;
        if (l->strides[d] != expected)
            return false;
        expected *= l->sizes[d];
    }
    return true;
}

uint64_t tb_fp_layout_bytes(const struct tb_fp_layout *l)
{
    uint64_t bytes = l->elem;

    for (int d = 0; d < l->ndim; d++)
        if (l->sizes[d] == 0 || l->strides[d] != 0)
            bytes *= (uint64_t)l->sizes[d];
    return bytes;
}

/* @l is not empty */
static void simplify(const void *base, const struct tb_fp_layout *l, struct view *v)
{
    int n = 0;

    for (int d = 0; d < l->ndim; d++) {
        uint64_t size = (uint64_t)l->sizes[d];
        int64_t step = l->strides[d] * (int64_t)l->elem;

        if (size == 1 || step == 0)
            continue;
        if (n > 0 && v->step[n - 1] == step * (int64_t)size) {
            v->size[n - 1] *= size;
            v->step[n - 1] = step;
            continue;
        }
        v->size[n] = size;
        v->step[n++] = step;
    }
    v->base = base;
    v->unit = l->elem;
    v->bytes = tb_fp_layout_bytes(l);
    if (n > 0 && v->step[n - 1] == (int64_t)v->unit)
        v->unit *= (size_t)v->size[--n];
    v->ndim = n;
}

static void seek(struct cursor *c, const struct view *v, uint64_t byte)
{
    uint64_t q = byte / v->unit;

    c->v = v;
    c->p = v->base;
    c->off = (size_t)(byte % v->unit);
    for (int d = v->ndim - 1; d >= 0; d--) {
        c->index[d] = q % v->size[d];
        c->p += (int64_t)c->index[d] * v->step[d];
        q /= v->size[d];
    }
}

/* @k units on; @k is at most what is left of the innermost dimension */
static void advance(struct cursor *c, uint64_t k)
{
    const struct view *v = c->v;

    for (int d = v->ndim - 1; d >= 0; d--) {
        c->index[d] += k;
        c->p += (int64_t)k * v->step[d];
        if (c->index[d] < v->size[d])
            return;
        c->p -= (int64_t)v->size[d] * v->step[d];
        c->index[d] = 0;
        k = 1;
    }
}

/* @count units of @unit bytes, @step bytes apart; a constant @unit makes the copy one move */
static inline __attribute__((always_inline)) void copy_row(uint8_t *dst, const uint8_t *src,
                                                           size_t count, int64_t step, size_t unit)
{
    for (size_t k = 0; k < count; k++) {
        memcpy(dst, src, unit);
        dst += unit;
        src += step;
    }
}

static void gather_row(uint8_t *dst, const uint8_t *src, size_t count, int64_t step, size_t unit)
{
    switch (unit) {
    case 1:
        copy_row(dst, src, count, step, 1);
        break;
    case 2:
        copy_row(dst, src, count, step, 2);
        break;
    case 4:
        copy_row(dst, src, count, step, 4);
        break;
    case 8:
        copy_row(dst, src, count, step, 8);
        break;
    case 16:
        copy_row(dst, src, count, step, 16);
        break;
    default:
        copy_row(dst, src, count, step, unit);
    }
}

/* Part of the unit the cursor stands in. */
static size_t take_part(struct cursor *c, uint8_t *dst, size_t want)
{
    size_t k = c->v->unit - c->off < want ? c->v->unit - c->off : want;

    memcpy(dst, c->p + c->off, k);
    c->off += k;
    if (c->off == c->v->unit) {
        c->off = 0;
        advance(c, 1);
    }
    return k;
}

/* Whole units of the innermost dimension; there is room for one at least, and a dimension. */
static size_t take_row(struct cursor *c, uint8_t *dst, size_t want)
{
    const struct view *v = c->v;
    int last = v->ndim - 1;
    uint64_t count = v->size[last] - c->index[last];

    if (count > want / v->unit)
        count = want / v->unit;
    gather_row(dst, c->p, (size_t)count, v->step[last], v->unit);
    advance(c, count);
    return (size_t)count * v->unit;
}

static void gather(struct cursor *c, uint8_t *dst, size_t want)
{
    while (want > 0) {
        bool part = c->off != 0 || c->v->unit > want || c->v->ndim == 0;
        size_t k = part ? take_part(c, dst, want) : take_row(c, dst, want);

        dst += k;
        want -= k;
    }
}

/* Whole leaves of the unit the cursor stands in, hashed in place. */
static struct tb_fp direct(struct cursor *c, size_t leaves, uint64_t index)
{
    struct tb_fp sum = fp_full_body(c->p + c->off, leaves, index);

    c->off += leaves * TB_FP_LEAF;
    if (c->off == c->v->unit) {
        c->off = 0;
        advance(c, 1);
    }
    return sum;
}

static struct tb_fp view_part(const void *ctx, size_t first, size_t last)
{
    const struct view *v = ctx;
    uint64_t pos = (uint64_t)first * TB_FP_LEAF;
    uint64_t end = last > v->bytes / TB_FP_LEAF ? v->bytes : (uint64_t)last * TB_FP_LEAF;
    struct tb_fp sum = {0, 0};
    struct cursor c;
    uint8_t buf[TB_FP_LEAF];

    seek(&c, v, pos);
    while (pos < end) {
        size_t here = v->unit - c.off;
        uint64_t left = end - pos;
        size_t leaves = (size_t)(here < left ? here : left) / TB_FP_LEAF;
        size_t n = left < TB_FP_LEAF ? (size_t)left : TB_FP_LEAF;

        if (leaves > 0) {
            sum = tb_fp_add(sum, direct(&c, leaves, pos / TB_FP_LEAF));
            pos += (uint64_t)leaves * TB_FP_LEAF;
            continue;
        }
        gather(&c, buf, n);
        sum = tb_fp_add(sum, tb_fp_body(buf, n, pos / TB_FP_LEAF));
        pos += n;
    }
    return sum;
}

struct tb_fp tb_fp_strided(const void *base, const struct tb_fp_layout *l,
                           const struct tb_fp_pool *pool)
{
    struct view v;

    if (is_empty(l))
        return tb_fp_length(0);
    simplify(base, l, &v);
    if (v.ndim == 0)
        return tb_fp_host_pool(base, (size_t)v.bytes, 0, pool);
    return tb_fp_add(fp_split(pool, v.bytes, tb_fp_leaf_count((size_t)v.bytes), view_part, &v),
                     tb_fp_length(v.bytes));
}
