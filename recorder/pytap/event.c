/* Events: where a call happens, what must be hashed before it, and the record of it. */
#include "recorder/pytap/pytap_internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define HOST_READ (1u << 20) /* bytes up to which host-made memory is hashed at every read */

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void tb_pt_ctx_begin(struct tb_pt_ctx *c, uint32_t op, uint8_t kind)
{
    c->op = op;
    c->kind = kind;
    c->partial = false;
    c->open = tb_pt.api->seq();
    c->args = 0;
    c->time_ns = now_ns();
    c->count = c->dim_count = 0;
    c->snap_spec = -1;
    c->snap_count = 0;
}

/* ---------------------------------------------------------------- ranges */

const char *tb_pt_phase(const struct tb_pt_thread *t)
{
    return t->node ? "backward" : t->optimizer ? "optimizer" : "forward";
}

uint32_t tb_pt_module(const struct tb_pt_thread *t)
{
    if (t->node && t->depth <= t->base)
        return t->backward_module;
    if (t->depth == 0)
        return 0;
    return t->modules[t->depth < TB_PT_MODULES ? t->depth - 1 : TB_PT_MODULES - 1];
}

static uint32_t range_of(struct tb_pt_thread *t, struct tb_rec_thread *rt)
{
    const struct tb_rec_api *api = tb_pt.api;
    uint32_t module = tb_pt_module(t), generation = api->generation();
    uint64_t key = tb_pt_key(tb_pt_key(1, module),
                             (uint64_t)t->node_name << 2 | (t->node != 0) << 1 | t->optimizer);

    if (key == t->range_key && generation == t->generation)
        return t->range;
    uint32_t id = api->range_find(rt, key);
    if (id == 0) {
        t->text_size = 0;
        tb_pt_put(t, tb_pt_phase(t));
        tb_pt_put_char(t, '\t');
        tb_pt_put(t, tb_pt_string(module));
        tb_pt_put_char(t, '\t');
        tb_pt_put(t, tb_pt_string(t->node_name));
        id = api->range_define(rt, key, t->text, t->text_size);
    }
    t->range_key = key;
    t->range = id;
    t->generation = generation;
    return id;
}

/* ---------------------------------------------------------------- before the call */

static void cover(struct tb_rec_thread *rt, unsigned severity, uint64_t seq, const char *kind,
                  const char *subject, const char *detail)
{
    tb_pt.api->cover(rt, severity, seq, kind, subject, detail, 1);
}

/* --inputs: what is read in the very layout of the last recorded write must be what that left
 * there. */
static void check_read(struct tb_pt_ctx *c, struct tb_rec_thread *rt, const struct tb_pt_alloc *al,
                       const struct tb_pt_access *a)
{
    const char *reader = tb_pt_string(c->op);
    char detail[320];

    if (al->writes == 0) {
        if (al->origin == TB_PT_EMPTY && a->bytes)
            cover(rt, 1, TB_REC_NO_SEQ, "uninitialised read", reader,
                  "bytes of an empty tensor that nobody wrote");
        else if (a->bytes)
            cover(rt, 0, TB_REC_NO_SEQ, "origin",
                  al->origin == TB_PT_EXTERNAL ? "shared memory" : "host construction", "");
        return;
    }
    if (al->last_seq == TB_REC_NO_SEQ || al->last_key != tb_pt_extent_key(c, a) ||
        al->origin == TB_PT_EXTERNAL || (al->last_fp.a == a->fp.a && al->last_fp.b == a->fp.b))
        return;
    const char *writer = tb_pt_string(al->writer);
    (void)snprintf(
        detail, sizeof(detail),
        "allocation %llu bytes %lld..%lld: written by %.60s (event %llu), changed by nobody "
        "seen, found by %.60s: %016llx%016llx became %016llx%016llx",
        (unsigned long long)al->id, (long long)a->offset,
        (long long)a->offset + (long long)a->bytes, writer, (unsigned long long)al->last_seq,
        reader, (unsigned long long)al->last_fp.a, (unsigned long long)al->last_fp.b,
        (unsigned long long)a->fp.a, (unsigned long long)a->fp.b);
    cover(rt, 2, c->open, "unseen writer", writer, detail);
}

/* The allocation as it was known before this access; says whether its bytes are to be hashed. */
static bool look_up(struct tb_pt_access *a, struct tb_pt_alloc *before)
{
    bool hash = a->mode == 'w' || a->mode == 's' || (a->mode == 'r' && tb_pt.inputs);

    (void)pthread_mutex_lock(&tb_pt.lock);
    struct tb_pt_alloc *al = tb_pt_alloc_find(a);
    if (al) {
        *before = *al;
        a->alloc = al->id;
        if (a->mode == 'r' && al->writes == 0 && al->origin != TB_PT_EMPTY &&
            (a->bytes <= HOST_READ || !al->hashed))
            hash = al->hashed = true; /* bytes that came from outside: where blame ends */
    }
    (void)pthread_mutex_unlock(&tb_pt.lock);
    return hash;
}

/* Allocations of the accesses from @from on; what must be hashed now is. */
void tb_pt_resolve(struct tb_pt_ctx *c, struct tb_rec_thread *rt, size_t from)
{
    for (size_t i = from; i < c->count; i++) {
        struct tb_pt_access *a = &c->access[i];
        struct tb_pt_alloc before = {.id = 0};
        if (!a->storage || !look_up(a, &before))
            continue;
        tb_pt_hash(c, a);
        if (a->mode == 'r' && tb_pt.inputs && before.id)
            check_read(c, rt, &before, a);
    }
}

/* ---------------------------------------------------------------- the record */

void tb_pt_note_writes(struct tb_pt_ctx *c, size_t from, uint64_t seq)
{
    (void)pthread_mutex_lock(&tb_pt.lock);
    for (size_t i = from; i < c->count; i++) {
        struct tb_pt_access *a = &c->access[i];
        struct tb_pt_alloc *al = a->mode == 'w' && a->storage ? tb_pt_alloc_find(a) : NULL;
        if (!al)
            continue;
        al->writes++;
        al->last_seq = seq;
        al->last_key = tb_pt_extent_key(c, a);
        al->last_fp = a->fp;
        al->writer = c->op;
    }
    (void)pthread_mutex_unlock(&tb_pt.lock);
}

static uint32_t site_of(struct tb_pt_thread *t, const struct tb_pt_ctx *c, struct tb_rec_thread *rt)
{
    uint64_t key = tb_pt_site_key(c);
    uint32_t site = tb_pt.api->site_find(rt, key);

    if (site == 0) {
        tb_pt_site_text(t, c);
        site = tb_pt.api->site_define(rt, key, t->text, t->text_size);
    }
    return site;
}

uint64_t tb_pt_emit(struct tb_pt_thread *t, struct tb_pt_ctx *c, struct tb_rec_thread *rt,
                    uint16_t flags)
{
    uint32_t site = site_of(t, c, rt);
    bool mark = c->kind == TB_EV_STATE || c->kind == TB_EV_STEP;

    if (site == 0 || !tb_pt_grow(&t->wire, &t->wire_capacity, c->count, sizeof(*t->wire)))
        return TB_REC_NO_SEQ;
    for (size_t i = 0; i < c->count; i++) {
        const struct tb_pt_access *a = &c->access[i];
        t->wire[i] =
            (struct tb_wire_access){(a->alloc & TB_ALLOC_MASK) | (uint64_t)a->fp_kind << 48,
                                    (uint64_t)a->offset, a->fp.a, a->fp.b};
    }
    struct tb_wire_event e = {
        .kind = c->kind,
        .flags =
            (uint16_t)(flags | (t->node ? TB_EVF_BACKWARD : 0) | (c->partial ? TB_EVF_PARTIAL : 0) |
                       (tb_pt.inputs ? TB_EVF_READS_HASHED : 0)),
        .accesses = (uint32_t)c->count,
        .open = c->open,
        .site = site,
        .range = mark ? 0 : range_of(t, rt),
        .step = __atomic_load_n(&tb_pt.step, __ATOMIC_RELAXED),
        .args = c->args,
        .time_ns = c->time_ns,
    };
    uint64_t seq = tb_pt.api->event(rt, &e, t->wire);
    if (t->line && seq != TB_REC_NO_SEQ) {
        const char *line = tb_pt_string(t->line);
        tb_pt.api->stack(rt, seq, line, strlen(line));
    }
    return seq;
}
