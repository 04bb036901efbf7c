#include "tests/collector/bench.h"

#include <stdio.h>
#include <string.h>

static void open_store(struct bench *b)
{
    struct tb_error err = {0};
    struct tb_store_options so = {.force = true};

    memset(b, 0, sizeof(*b));
    assert_int_equal(tb_store_create(&b->store, "out.twinbit", &so, &err), TB_OK);
    for (unsigned i = 0; i < 2; i++) {
        b->process[i].index = i + 1;
        b->process[i].pidfd = -1;
        b->process[i].nonce = NONCE + i;
        snprintf(b->process[i].identity, sizeof(b->process[i].identity), "job#%u", i);
    }
}

void open_bench(struct bench *b, unsigned processes)
{
    struct tb_error err = {0};

    open_store(b);
    assert_int_equal(tb_drain_start(&b->drain, b->store, &b->bell, &err), TB_OK);
    for (unsigned i = 0; i < processes; i++)
        tb_drain_post(b->drain,
                      &(struct tb_drain_cmd){.kind = TB_DRAIN_PROCESS, .process = &b->process[i]});
}

void post(struct bench *b, unsigned process, enum tb_drain_kind kind, void *map, size_t bytes,
          uint32_t thread)
{
    tb_drain_post(b->drain, &(struct tb_drain_cmd){.kind = kind,
                                                   .process = &b->process[process],
                                                   .map = map,
                                                   .bytes = bytes,
                                                   .thread = thread});
}

void post_ring(struct bench *b, unsigned process, struct producer *p)
{
    post(b, process, TB_DRAIN_RING, p->page, p->bytes, p->page->thread);
    producer_close(p);
}

void post_slots(struct bench *b, unsigned process, struct device *d)
{
    post(b, process, TB_DRAIN_SLOTS, d->page, d->bytes, d->page->table);
    device_close(d);
}

struct tb_trace *close_bench(struct bench *b, unsigned processes)
{
    struct tb_error err = {0};

    for (unsigned i = 0; i < processes; i++)
        tb_drain_post(b->drain,
                      &(struct tb_drain_cmd){.kind = TB_DRAIN_GONE, .process = &b->process[i]});
    tb_drain_post(b->drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_END});
    assert_int_equal(tb_drain_join(b->drain, NULL, &err), TB_OK);
    assert_int_equal(tb_store_close(b->store, &err), TB_OK);
    return open_trace();
}

void open_merge(struct bench *b)
{
    open_store(b);
    b->sink.store = b->store;
    b->merge = tb_merge_new(&b->sink, &b->process[0]);
    assert_non_null(b->merge);
}

void merge_ring(struct bench *b, struct producer *p)
{
    struct tb_ring *r = tb_ring_new(p->page, p->bytes, p->page->thread);

    producer_close(p);
    assert_non_null(r);
    r->next = b->merge->rings;
    b->merge->rings = r;
}

void merge_slots(struct bench *b, struct device *d)
{
    struct tb_slots *s = tb_slots_new(d->page, d->bytes, d->page->table, NONCE);

    device_close(d);
    assert_non_null(s);
    assert_true(tb_slots_add(b->merge, s));
}

struct tb_trace *close_merge(struct bench *b)
{
    struct tb_error err = {0};

    tb_merge_finish(b->merge, &b->sink);
    tb_merge_free(b->merge);
    assert_int_equal(b->sink.error.status, TB_OK);
    assert_int_equal(tb_store_close(b->store, &err), TB_OK);
    return open_trace();
}

struct row {
    const char *kind, *text;
    uint64_t count;
    uint32_t severity;
};

static bool count_row(void *arg, const struct tb_trace_coverage *row)
{
    struct row *r = arg;

    if (strcmp(row->kind, r->kind) == 0 &&
        (strstr(row->subject, r->text) || strstr(row->detail, r->text))) {
        r->count += row->count;
        r->severity = row->severity;
    }
    return true;
}

void assert_row(struct tb_trace *t, const char *kind, const char *text, uint64_t count,
                uint32_t severity)
{
    struct row r = {kind, text, 0, severity};
    struct tb_error err = {0};

    assert_int_equal(tb_trace_coverage(t, 0, count_row, &r, &err), TB_OK);
    assert_int_equal(r.count, count);
    assert_int_equal(r.severity, severity);
}
