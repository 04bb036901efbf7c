/* Tensors of chosen events, kept whole: "3/backward:h.1.attn/aten::addmm#0" after rank, process,
 * thread. */
#include "recorder/pytap/pytap_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *before(const char *from, const char *end, char c)
{
    while (end > from && end[-1] != c)
        end--;
    return end > from ? end - 1 : NULL;
}

static void parse(const char *line, size_t n)
{
    const char *end = line + n;
    const char *hash = before(line, end, '#');
    const char *op = hash ? before(line, hash, '/') : NULL;
    const char *range = op ? before(line, op, '/') : NULL;

    if (!range || tb_pt.spec_count == TB_PT_SNAP_SPECS)
        return;
    const char *step = before(line, range, '/');
    struct tb_pt_spec *s = &tb_pt.specs[tb_pt.spec_count++];
    s->step = strtoull(step ? step + 1 : line, NULL, 10);
    s->k = strtoull(hash + 1, NULL, 10);
    (void)snprintf(s->range, sizeof(s->range), "%.*s", (int)(op - range - 1), range + 1);
    (void)snprintf(s->op, sizeof(s->op), "%.*s", (int)(hash - op - 1), op + 1);
}

void tb_pt_snap_parse(const char *events)
{
    while (*events) {
        size_t n = strcspn(events, "\n");
        parse(events, n);
        events += n + (events[n] == '\n');
    }
}

static bool is_due(const struct tb_pt_ctx *c)
{
    if (c->snap_spec < 0)
        return false;
    const struct tb_pt_spec *s = &tb_pt.specs[c->snap_spec];
    return __atomic_load_n(&s->seen, __ATOMIC_RELAXED) == s->k;
}

void tb_pt_snap_match(const struct tb_pt_thread *t, struct tb_pt_ctx *c)
{
    uint64_t step = __atomic_load_n(&tb_pt.step, __ATOMIC_RELAXED);
    const char *op = tb_pt.spec_count ? tb_pt_string(c->op) : "";
    char range[400];

    for (uint32_t i = 0; i < tb_pt.spec_count && c->snap_spec < 0; i++) {
        if (tb_pt.specs[i].step != step || strcmp(tb_pt.specs[i].op, op) != 0)
            continue;
        (void)snprintf(range, sizeof(range), "%s:%s", tb_pt_phase(t),
                       tb_pt_string(tb_pt_module(t)));
        if (strcmp(range, tb_pt.specs[i].range) == 0)
            c->snap_spec = (int32_t)i;
    }
}

static void copy_strided(const struct tb_pt_ctx *c, const struct tb_pt_access *a, char *out)
{
    const int64_t *sizes = c->dims + a->dims, *strides = sizes + a->ndim;
    int64_t at[TB_FP_MAX_DIMS] = {0};

    for (uint64_t done = 0; done < a->bytes; done += a->elem) {
        int64_t off = 0;
        for (int d = 0; d < a->ndim; d++)
            off += at[d] * strides[d];
        memcpy(out + done, a->ptr + off * a->elem, a->elem);
        for (int d = a->ndim - 1; d >= 0 && ++at[d] == sizes[d]; d--)
            at[d] = 0;
    }
}

void tb_pt_snap_take(struct tb_pt_ctx *c, struct tb_rec_thread *rt, size_t from, char mode)
{
    for (size_t i = from; is_due(c) && i < c->count && c->snap_count < TB_PT_SNAPS; i++) {
        const struct tb_pt_access *a = &c->access[i];
        void *handle = NULL;
        char *out = NULL;
        if (a->mode == mode && a->ptr && a->bytes)
            out = tb_pt.api->snapshot_open(rt, a->bytes, &handle);
        if (!out)
            continue;
        if (a->flags & TB_PT_CONTIGUOUS)
            memcpy(out, a->ptr, a->bytes);
        else
            copy_strided(c, a, out);
        c->snaps[c->snap_count++] = (struct tb_pt_snap){handle, (uint32_t)i};
    }
}

void tb_pt_snap_send(struct tb_pt_ctx *c, struct tb_rec_thread *rt, uint64_t seq)
{
    for (uint32_t i = 0; i < c->snap_count; i++)
        tb_pt.api->snapshot_send(rt, c->snaps[i].handle, seq, c->snaps[i].access);
    c->snap_count = 0;
    if (c->snap_spec >= 0)
        __atomic_fetch_add(&tb_pt.specs[c->snap_spec].seen, 1, __ATOMIC_RELAXED);
}

void tb_pt_snap_new_step(void)
{
    for (uint32_t i = 0; i < tb_pt.spec_count; i++)
        __atomic_store_n(&tb_pt.specs[i].seen, 0, __ATOMIC_RELAXED);
}
