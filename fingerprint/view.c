/* Views in their simplest form, and how their bytes are gathered in row-major order. */
#include <string.h>

#include "fingerprint/fp_view.h"

void fp_view_init(struct fp_view *v, const void *base, const struct tb_fp_layout *l)
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

void fp_seek(struct fp_cursor *c, const struct fp_view *v, uint64_t byte)
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

void fp_advance(struct fp_cursor *c, int dim, uint64_t k)
{
    const struct fp_view *v = c->v;

    for (int d = dim; d >= 0; d--) {
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
static size_t take_part(struct fp_cursor *c, uint8_t *dst, size_t want)
{
    size_t k = c->v->unit - c->off < want ? c->v->unit - c->off : want;

    memcpy(dst, c->p + c->off, k);
    c->off += k;
    if (c->off == c->v->unit) {
        c->off = 0;
        fp_advance(c, c->v->ndim - 1, 1);
    }
    return k;
}

/* Whole units of the innermost dimension; there is room for one at least, and a dimension. */
static size_t take_row(struct fp_cursor *c, uint8_t *dst, size_t want)
{
    const struct fp_view *v = c->v;
    int last = v->ndim - 1;
    uint64_t count = v->size[last] - c->index[last];

    if (count > want / v->unit)
        count = want / v->unit;
    gather_row(dst, c->p, (size_t)count, v->step[last], v->unit);
    fp_advance(c, last, count);
    return (size_t)count * v->unit;
}

void fp_gather(struct fp_cursor *c, uint8_t *dst, size_t want)
{
    while (want > 0) {
        bool part = c->off != 0 || c->v->unit > want || c->v->ndim == 0;
        size_t k = part ? take_part(c, dst, want) : take_row(c, dst, want);

        dst += k;
        want -= k;
    }
}
