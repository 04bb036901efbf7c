/* Where in a tensor two runs differ, by the partial sums that `run --map` kept of it. */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <string.h>

static enum tb_status map_of(struct tb_trace *t, uint64_t event, uint32_t access,
                             uint64_t sums[2 * TB_FP_MAP_MAX], uint32_t *parts,
                             struct tb_error *err)
{
    struct tb_error local = {0};
    enum tb_status st = tb_trace_map(t, event, access, sums, parts, &local);

    if (st == TB_ERR_NOTFOUND) {
        *parts = 0;
        return TB_OK;
    }
    if (st != TB_OK && err)
        *err = local;
    return st;
}

enum tb_status compare_maps(const struct report_builder *rb, struct root *r, struct tb_error *err)
{
    const struct tb_diff_tensor *t = &r->r.tensor;
    struct tb_diff_part *o = &r->r.part;
    uint64_t a[2 * TB_FP_MAP_MAX], b[2 * TB_FP_MAP_MAX];
    uint32_t n = 0, m = 0;

    if (!t->known || !r->r.a.known || !r->r.b.known || !r->site_a)
        return TB_OK;
    enum tb_status st = map_of(rb->a->trace[r->r.a.trace], r->r.a.id, t->access, a, &n, err);
    if (st == TB_OK)
        st = map_of(rb->b->trace[r->r.b.trace], r->r.b.id, t->access, b, &m, err);
    uint32_t size = tb_dtype_size(t->dtype);
    const struct tb_site_access *s = &r->site_a->access[t->access];
    if (st != TB_OK || n == 0 || n != m || size == 0 || s->bytes != s->elements * size)
        return st;
    o->count = s->elements;
    o->parts = n;
    uint64_t run = tb_fp_map_leaves(s->bytes);
    for (uint32_t i = 0; i < n; i++) {
        if (memcmp(&a[2 * i], &b[2 * i], 16) == 0)
            continue;
        if (o->differ++ == 0) {
            o->first = i * run * TB_FP_LEAF / size;
            o->last = (i + 1) * run * TB_FP_LEAF / size - 1;
        }
    }
    if (o->last >= o->count)
        o->last = o->count ? o->count - 1 : 0;
    o->known = o->differ > 0;
    return TB_OK;
}
