/*
 * Strided views: their bytes in row-major order, gathered one leaf at a time on the stack, or
 * hashed where they lie when a whole leaf is contiguous.
 */
#include "fingerprint/fp_view.h"

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

/* Whole leaves of the unit the cursor stands in, hashed in place. */
static struct tb_fp direct(struct fp_cursor *c, size_t leaves, uint64_t index)
{
    struct tb_fp sum = fp_full_body(c->p + c->off, leaves, index);

    c->off += leaves * TB_FP_LEAF;
    if (c->off == c->v->unit) {
        c->off = 0;
        fp_advance(c, c->v->ndim - 1, 1);
    }
    return sum;
}

static struct tb_fp view_part(const void *ctx, size_t first, size_t last)
{
    const struct fp_view *v = ctx;
    uint64_t pos = (uint64_t)first * TB_FP_LEAF;
    uint64_t end = last > v->bytes / TB_FP_LEAF ? v->bytes : (uint64_t)last * TB_FP_LEAF;
    struct tb_fp sum = {0, 0};
    struct fp_cursor c;
    uint8_t buf[TB_FP_LEAF];

    fp_seek(&c, v, pos);
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
        fp_gather(&c, buf, n);
        sum = tb_fp_add(sum, tb_fp_body(buf, n, pos / TB_FP_LEAF));
        pos += n;
    }
    return sum;
}

struct tb_fp tb_fp_strided(const void *base, const struct tb_fp_layout *l,
                           const struct tb_fp_pool *pool)
{
    struct fp_view v;
    struct tb_fp body;

    if (is_empty(l))
        return tb_fp_length(0);
    fp_view_init(&v, base, l);
    if (v.ndim == 0)
        return tb_fp_host_pool(base, (size_t)v.bytes, 0, pool);
    body = fp_split(pool, v.bytes, tb_fp_leaf_count((size_t)v.bytes),
                    fp_is_transposed(&v) ? fp_transposed_part : view_part, &v);
    return tb_fp_add(body, tb_fp_length(v.bytes));
}
