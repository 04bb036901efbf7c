/*
 * Fingerprints that a device writes after their event: order is kept, nothing is given up while the
 * process lives, and what never came is said. Rings and slot tables are written by hand; the drain
 * runs in this process on the same mappings, so that ThreadSanitizer sees both ends.
 */
#include "tests/collector/bench.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char launch_text[] = "cuda\nfill\tgrid=1,1,1\tblock=64,1,1\n"
                                  "q ? cuda:0 [] - stream\n"
                                  "r f32 cuda:0 [64] - in\n"
                                  "w f32 cuda:0 [64] - out\n";

static void launch_in(struct producer *p, uint32_t site, uint64_t seq, uint64_t table,
                      uint64_t ticket)
{
    struct tb_wire_access a[3] = {
        {.alloc = TB_ALLOC_STREAM + 1},
        {.alloc = 1},
        {.alloc = 2 | (uint64_t)TB_FP_BYTES << 48 | TB_ACCESS_PENDING,
         .fp_a = ticket,
         .fp_b = table},
    };
    struct tb_wire_event e = {
        .kind = TB_EV_LAUNCH, .seq = seq, .open = seq, .site = site, .args = ticket};

    producer_event(p, e, a, 3);
}

/* A launch whose write has @ticket of table @table; args is the ticket. */
static void launch(struct producer *p, uint32_t site, uint64_t seq, uint64_t ticket)
{
    launch_in(p, site, seq, 1, ticket);
}

static uint64_t half(const uint8_t *fp, int second)
{
    uint64_t x;

    memcpy(&x, fp + 8 * second, 8);
    return x;
}

/* Events of @process are numbered by their args, and each write has what its device left: the
 * ticket plus @a, and @b; @none of them have nothing. Returns how many there are. */
static uint64_t check_launches(struct tb_trace *t, uint32_t process, uint64_t a, uint64_t b,
                               uint64_t none)
{
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *e;
    struct tb_error err = {0};
    uint64_t n = 0, without = 0;

    assert_int_equal(tb_cursor_open_process(&c, t, process, 0, UINT64_MAX, &err), TB_OK);
    for (;; n++) {
        if (tb_cursor_next(c, &e, &err) != TB_OK)
            fail_msg("%s", err.text);
        if (!e)
            break;
        const struct tb_store_access *w = &e->access[2];
        assert_int_equal(e->e.args, n);
        assert_int_equal(w->alloc, 2);
        without += w->fp_kind == TB_FP_NONE;
        if (w->fp_kind == TB_FP_NONE)
            continue;
        assert_int_equal(w->fp_kind, TB_FP_BYTES);
        assert_int_equal(half(w->fp, 0), n + a);
        assert_int_equal(half(w->fp, 1), b);
    }
    tb_cursor_close(c);
    assert_int_equal(without, none);
    return n;
}

/* ---------------------------------------------------------------- while the process lives */

struct stamping {
    struct device *d;
    uint64_t n, a;
    uint64_t *written; /* tickets whose event is in the ring; atomic */
};

/* The device is behind the host, and the table is small: slots are used many times. */
static void *stamp_main(void *arg)
{
    struct stamping *s = arg;

    for (uint64_t i = 0; i < s->n; i++) {
        while (__atomic_load_n(s->written, __ATOMIC_ACQUIRE) <= i)
            usleep(50);
        device_stamp(s->d, i, i + s->a, 7);
    }
    return NULL;
}

static void test_slots__a_small_table_is_used_again_and_again(void **state)
{
    struct bench b;
    struct producer p;
    struct device d;
    uint64_t written = 0, n = 3000;
    pthread_t id;

    (void)state;
    open_bench(&b, 1);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 256);
    struct stamping s = {&d, n, 5, &written};
    post_slots(&b, 0, &d);
    post_ring(&b, 0, &p);
    uint32_t site = producer_site(&p, launch_text);
    assert_int_equal(pthread_create(&id, NULL, stamp_main, &s), 0);
    for (uint64_t i = 0; i < n; i++) {
        device_wait(&d, i);
        launch(&p, site, i, i);
        __atomic_store_n(&written, i + 1, __ATOMIC_RELEASE);
    }
    pthread_join(id, NULL);
    struct tb_trace *t = close_bench(&b, 1);
    assert_int_equal(check_launches(t, 1, 5, 7, 0), n);
    assert_int_equal(tb_trace_info(t)->lost, 0);
    tb_trace_close(t);
}

static uint64_t events_on_disk(void)
{
    struct tb_trace *t = open_trace();
    uint64_t n = tb_trace_info(t)->events;

    tb_trace_close(t);
    return n;
}

/* As many as a job can have queued; stamped in no order while two threads go on. */
static void test_slots__100000_in_flight_are_stamped_in_any_order(void **state)
{
    enum { N = 100000, COUNT = 131072 };
    struct bench b;
    struct producer p[2];
    struct device d;
    uint32_t site[2];

    (void)state;
    open_bench(&b, 1);
    device_open(&d, NONCE, 1, COUNT);
    post_slots(&b, 0, &d);
    for (uint32_t k = 0; k < 2; k++) {
        producer_open(&p[k], NONCE, k, 65536);
        post_ring(&b, 0, &p[k]);
        site[k] = producer_site(&p[k], launch_text);
    }
    for (uint64_t i = 0; i < N; i++)
        launch(&p[i % 2], site[i % 2], i, i);
    usleep(300000); /* longer than a flush */
    assert_int_equal(events_on_disk(), 0);
    for (uint64_t i = 0, k = 0; i < COUNT; i++, k = (k * 5 + 3) % COUNT) /* each number once */
        if (k < N)
            device_stamp(&d, k, k + 1, 2);
    struct tb_trace *t = close_bench(&b, 1);
    assert_int_equal(check_launches(t, 1, 1, 2, 0), N);
    assert_int_equal(tb_trace_info(t)->lost, 0);
    tb_trace_close(t);
}

static void test_slots__processes_do_not_wait_for_each_other(void **state)
{
    struct bench b;
    struct producer p[2];
    struct device d[2];

    (void)state;
    open_bench(&b, 2);
    for (unsigned k = 0; k < 2; k++) {
        device_open(&d[k], NONCE + k, 1, 1024);
        producer_open(&p[k], NONCE + k, 0, 65536);
        post_slots(&b, k, &d[k]);
        post_ring(&b, k, &p[k]);
        uint32_t site = producer_site(&p[k], launch_text);
        for (uint64_t i = 0; i < 1000; i++)
            launch(&p[k], site, i, i);
    }
    for (uint64_t i = 0; i < 1000; i++)
        device_stamp(&d[1], i, i, 1); /* the same tickets of another table */
    for (int i = 0; events_on_disk() < 1000 && i < 6000; i++)
        usleep(10000);
    assert_int_equal(events_on_disk(), 1000);
    for (uint64_t i = 0; i < 1000; i++)
        device_stamp(&d[0], i, i, 0);
    struct tb_trace *t = close_bench(&b, 2);
    assert_int_equal(check_launches(t, 1, 0, 0, 0), 1000);
    assert_int_equal(check_launches(t, 2, 0, 1, 0), 1000);
    tb_trace_close(t);
}

/* The clock is given to the merge: a day passes, and no number is given up. */
static void test_slots__no_number_is_given_up_for_a_slot(void **state)
{
    struct bench b;
    struct producer p;
    struct device d;

    (void)state;
    open_merge(&b);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 64);
    merge_ring(&b, &p);
    merge_slots(&b, &d);
    uint32_t site = producer_site(&p, launch_text);
    for (uint64_t i = 0; i < 10; i++)
        launch(&p, site, i, i);
    device_stamp(&d, 0, 0, 0);
    for (uint64_t s = 1; s < 86400; s += 3600)
        assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, s * SECOND), s == 1);
    assert_true(b.merge->held);
    for (uint64_t i = 1; i < 10; i++)
        device_stamp(&d, i, i, 0);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, 90000 * SECOND), 9);
    assert_false(b.merge->held);
    struct tb_trace *t = close_merge(&b);
    assert_int_equal(check_launches(t, 1, 0, 0, 0), 10);
    assert_int_equal(tb_trace_info(t)->lost, 0);
    tb_trace_close(t);
}

/* At the limit nothing more is taken out of the ring, and the loop has no reason to run. */
static void test_slots__at_the_limit_producers_wait(void **state)
{
    struct bench b;
    struct producer p;
    struct device d;
    uint64_t n = 0, now = SECOND;

    (void)state;
    open_merge(&b);
    b.merge->hold_limit = 1u << 20;
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 65536);
    merge_ring(&b, &p);
    merge_slots(&b, &d);
    uint32_t site = producer_site(&p, launch_text);
    for (int rounds = 0; rounds < 1000; rounds++, now += SECOND / 50) {
        while (producer_room(&p, 192))
            launch(&p, site, n, n), n++;
        assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, now), 0);
    }
    assert_true(b.merge->spilled >= 1u << 20 && b.merge->spilled < (1u << 20) + 65536);
    assert_false(producer_room(&p, 192));
    p.page->waiting = 1;
    assert_false(tb_merge_is_urgent(b.merge));
    for (uint64_t i = 0; i < n; i++)
        device_stamp(&d, i, i, 0);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, UINT32_MAX, now), n);
    assert_true(producer_room(&p, 192)); /* told */
    assert_int_equal(b.merge->spilled, 0);
    struct tb_trace *t = close_merge(&b);
    assert_int_equal(check_launches(t, 1, 0, 0, 0), n);
    assert_int_equal(tb_trace_info(t)->lost, 0);
    tb_trace_close(t);
}

/* What an event that was held left behind is no reason to give up the next number at once. */
static void test_slots__a_missing_number_after_a_long_wait_has_its_time(void **state)
{
    struct bench b;
    struct producer p, q;
    struct device d;
    uint64_t n = 0, now = SECOND;

    (void)state;
    open_merge(&b);
    producer_open(&p, NONCE, 0, 65536);
    producer_open(&q, NONCE, 1, 65536);
    device_open(&d, NONCE, 1, 1u << 20);
    merge_ring(&b, &p);
    merge_ring(&b, &q);
    merge_slots(&b, &d);
    uint32_t site = producer_site(&p, launch_text), other = producer_site(&q, launch_text);
    launch(&p, site, 0, 0); /* and number 1 comes from the other thread, late */
    while (b.merge->spilled < 70u << 20) {
        while (producer_room(&p, 192))
            launch(&p, site, n + 2, n + 2), n++;
        assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, now), 0);
    }
    for (uint64_t i = 0; i < n + 2; i++)
        device_stamp(&d, i, i, 0);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, UINT32_MAX, now), 1);
    for (int i = 0; i < 40; i++)
        assert_int_equal(tb_merge_run(b.merge, &b.sink, UINT32_MAX, now += SECOND / 10), 0);
    launch(&q, other, 1, 1);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, UINT32_MAX, now), n + 1);
    struct tb_trace *t = close_merge(&b);
    assert_int_equal(tb_trace_info(t)->events, n + 2);
    assert_int_equal(tb_trace_info(t)->lost, 0);
    tb_trace_close(t);
}

/* Its message is on another way than the ring; the one that nobody sends is not waited for long. */
static void test_slots__a_table_may_come_after_its_first_event(void **state)
{
    struct bench b;
    struct producer p;
    struct device d;
    uint64_t now = 100 * SECOND;

    (void)state;
    open_merge(&b);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 64);
    merge_ring(&b, &p);
    uint32_t site = producer_site(&p, launch_text);
    launch(&p, site, 0, 0);
    device_stamp(&d, 0, 0, 0);
    for (int i = 0; i < 10; i++, now += SECOND / 50)
        assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, now), 0);
    now += 60 * SECOND; /* twinbit was stopped: that is no minute of waiting */
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, now), 0);
    merge_slots(&b, &d);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, now), 1);
    launch_in(&p, site, 1, 2, 1);
    for (int i = 0; i < 100; i++, now += SECOND / 20)
        assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, now), 0);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, now + SECOND / 10), 1);
    launch_in(&p, site, 2, 2, 2); /* once is enough */
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, now + SECOND / 5), 1);
    struct device late;
    device_open(&late, NONCE, 2, 64);
    merge_slots(&b, &late); /* it comes after all */
    device_stamp(&late, 3, 3, 0);
    launch_in(&p, site, 3, 2, 3);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, now + SECOND), 1);
    struct tb_trace *t = close_merge(&b);
    assert_int_equal(check_launches(t, 1, 0, 0, 2), 4);
    assert_row(t, "fingerprint", "no such ticket or slot table", 2, 1);
    tb_trace_close(t);
}

/* Accesses of one event in several records, stamped last to first. */
static void test_slots__wide_events_wait_for_all_their_slots(void **state)
{
    enum { N = 600, MORE = 250 };
    static char text[N * 32];
    static struct tb_wire_access a[N];
    struct bench b;
    struct producer p;
    struct device d;
    int n = snprintf(text, sizeof(text), "cuda\nwide\n");

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, "w f32 cuda:0 [4] - out.%u\n", i);
        a[i] = (struct tb_wire_access){.alloc = (i + 1) | (uint64_t)TB_FP_BYTES << 48 |
                                                TB_ACCESS_PENDING,
                                       .fp_a = i,
                                       .fp_b = 1};
    }
    open_merge(&b);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 1024);
    merge_ring(&b, &p);
    merge_slots(&b, &d);
    struct tb_wire_event e = {.kind = TB_EV_LAUNCH, .site = producer_site(&p, text)};
    for (uint32_t i = 0; i < 2 * MORE; i += MORE) {
        struct tb_wire_def more = {.rec.kind = TB_REC_MORE, .id = i, .len = MORE * sizeof(*a)};
        producer_put(&p, &more, sizeof(more), a + i, more.len);
    }
    e.rec.kind = TB_REC_EVENT;
    e.accesses = N;
    producer_put(&p, &e, sizeof(e), a + 2 * MORE, (N - 2 * MORE) * sizeof(*a));
    for (unsigned i = N; i > 0; i--) {
        assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 0);
        device_stamp(&d, i - 1, i, i * 3);
    }
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 1);
    struct tb_trace *t = close_merge(&b);
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *ev;
    struct tb_error err = {0};
    assert_int_equal(tb_cursor_open_process(&c, t, 1, 0, UINT64_MAX, &err), TB_OK);
    assert_int_equal(tb_cursor_next(c, &ev, &err), TB_OK);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(half(ev->access[i].fp, 0), i + 1);
        assert_int_equal(half(ev->access[i].fp, 1), (i + 1) * 3);
    }
    tb_cursor_close(c);
    tb_trace_close(t);
}

/* ---------------------------------------------------------------- before and after */

/* A launch whose write was hashed before it (ticket @after - @distance) and after it. */
static void launch_twice(struct producer *p, uint32_t site, uint64_t seq, uint64_t after,
                         uint64_t distance, uint64_t flags)
{
    struct tb_wire_access a[3] = {
        {.alloc = TB_ALLOC_STREAM + 1},
        {.alloc = 1 | (uint64_t)TB_FP_UNCHANGED << 48},
        {.alloc = 2 | (uint64_t)TB_FP_BYTES << 48 | TB_ACCESS_PENDING | TB_ACCESS_CHANGE | flags,
         .fp_a = after,
         .fp_b = 1 | distance << 32},
    };
    struct tb_wire_event e = {.kind = TB_EV_LAUNCH, .seq = seq, .open = seq, .site = site};

    producer_event(p, e, a, 3);
}

static void test_slots__equal_before_and_after_is_unchanged(void **state)
{
    static const uint8_t kinds[] = {TB_FP_UNCHANGED, TB_FP_BYTES, TB_FP_UNCHANGED, TB_FP_BYTES,
                                    TB_FP_NONE};
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *e;
    struct tb_error err = {0};
    struct bench b;
    struct producer p;
    struct device d;

    (void)state;
    open_merge(&b);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 64);
    merge_ring(&b, &p);
    merge_slots(&b, &d);
    uint32_t site = producer_site(&p, launch_text);
    launch_twice(&p, site, 0, 1, 1, 0);
    launch_twice(&p, site, 1, 5, 3, 0);
    launch_twice(&p, site, 2, 7, 1, TB_ACCESS_DOUBT);
    launch_twice(&p, site, 3, 9, 1, TB_ACCESS_DOUBT);
    launch_twice(&p, site, 4, 11, 1, TB_ACCESS_DOUBT);
    device_stamp(&d, 1, 30, 31); /* the later one alone is not enough */
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 0);
    device_stamp(&d, 0, 30, 31);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 1);
    device_stamp(&d, 2, 40, 41);
    device_stamp(&d, 5, 40, 42);
    device_stamp(&d, 6, 50, 51);
    device_stamp(&d, 7, 50, 51);
    device_stamp(&d, 8, 60, 61);
    device_stamp(&d, 9, 62, 61);
    device_stamp(&d, 10, 70, 71);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 3);
    struct tb_trace *t = close_merge(&b);
    assert_int_equal(tb_cursor_open_process(&c, t, 1, 0, UINT64_MAX, &err), TB_OK);
    for (unsigned i = 0; i < TB_ARRAY_LEN(kinds); i++) {
        assert_int_equal(tb_cursor_next(c, &e, &err), TB_OK);
        assert_int_equal(e->access[1].fp_kind, TB_FP_UNCHANGED);
        assert_int_equal(half(e->access[1].fp, 0), 0);
        assert_int_equal(e->access[2].fp_kind, kinds[i]);
    }
    tb_cursor_close(c);
    assert_row(t, "learnt", "a write that was not learnt: out", 1, 1); /* launch 3 alone */
    assert_row(t, "learnt", "were not looked for", 5, 0);
    tb_trace_close(t);
}

/* ---------------------------------------------------------------- what never came */

static void test_slots__what_was_not_stamped_at_the_end_never_is(void **state)
{
    struct bench b;
    struct producer p;
    struct device d;

    (void)state;
    open_bench(&b, 1);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 1024);
    post_slots(&b, 0, &d);
    post_ring(&b, 0, &p);
    uint32_t site = producer_site(&p, launch_text);
    for (uint64_t i = 0; i < 300; i++)
        launch(&p, site, i, i);
    for (uint64_t i = 0; i < 300; i += 3)
        device_stamp(&d, i, i, 0);
    struct tb_trace *t = close_bench(&b, 1);
    assert_int_equal(check_launches(t, 1, 0, 0, 200), 300);
    assert_row(t, "fingerprint", "the process ended before", 200, 1);
    assert_row(t, "fingerprint", "fill", 200, 1);
    assert_int_equal(tb_trace_info(t)->lost, 0); /* the events are there */
    tb_trace_close(t);
}

/* A process that outlives the recording. */
static void test_slots__the_end_of_recording_is_no_end_of_the_process(void **state)
{
    struct bench b;
    struct producer p;
    struct device d;

    (void)state;
    open_bench(&b, 1);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 64);
    post_slots(&b, 0, &d);
    post_ring(&b, 0, &p);
    launch(&p, producer_site(&p, launch_text), 0, 0);
    struct tb_trace *t = close_bench(&b, 0);
    assert_int_equal(check_launches(t, 1, 0, 0, 1), 1);
    assert_row(t, "fingerprint", "recording ended before", 1, 1);
    tb_trace_close(t);
}

static void test_slots__nonsense_is_said_and_harms_nothing(void **state)
{
    struct bench b;
    struct producer p;
    struct device d;

    (void)state;
    open_merge(&b);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 64);
    merge_ring(&b, &p);
    merge_slots(&b, &d);
    uint32_t site = producer_site(&p, launch_text);
    device_stamp(&d, 5, 1, 0);
    launch(&p, site, 0, 5);
    launch(&p, site, 1, 5);                /* used twice */
    launch(&p, site, 2, UINT64_MAX);       /* no ticket */
    launch(&p, site, 3, (1ull << 40) + 3); /* never drawn */
    launch_in(&p, site, 4, 0, 6);          /* no number of a table */
    launch_in(&p, site, 5, UINT64_MAX, 6); /* the same */
    device_stamp(&d, 7 + 64, 1, 0);
    launch(&p, site, 6, 7); /* written over */
    struct tb_wire_access a[3] = {{.alloc = 1}, {.alloc = 2}, {.alloc = 3 | TB_ACCESS_PENDING}};
    a[2].fp_a = 8; /* of no kind: there is nothing to keep */
    a[2].fp_b = 1;
    device_stamp(&d, 8, 77, 78);
    producer_event(&p, (struct tb_wire_event){.kind = TB_EV_LAUNCH, .seq = 7, .site = site}, a, 3);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 8);
    assert_int_equal(d.slot[5].taken, 6);
    assert_int_equal(d.slot[7].taken, 8);
    assert_int_equal(d.slot[8].taken, 9);
    struct tb_trace *t = close_merge(&b);
    assert_row(t, "fingerprint", "no such ticket", 5, 1);
    assert_row(t, "fingerprint", "written over", 1, 1);
    assert_int_equal(tb_trace_info(t)->events, 8);
    tb_trace_close(t);
}

static void test_slots__tables_that_are_none_are_refused(void **state)
{
    struct bench b;
    struct device d;
    static const struct {
        uint32_t magic, version, table, count;
        uint64_t nonce;
    } bad[] = {
        {1, TB_WIRE_VERSION, 1, 64, NONCE},
        {TB_WIRE_MAGIC, 1, 1, 64, NONCE},
        {TB_WIRE_MAGIC, TB_WIRE_VERSION, 2, 64, NONCE},
        {TB_WIRE_MAGIC, TB_WIRE_VERSION, 1, 63, NONCE},
        {TB_WIRE_MAGIC, TB_WIRE_VERSION, 1, 0, NONCE},
        {TB_WIRE_MAGIC, TB_WIRE_VERSION, 1, 128, NONCE},
        {TB_WIRE_MAGIC, TB_WIRE_VERSION, 1, 1u << 31, NONCE},
        {TB_WIRE_MAGIC, TB_WIRE_VERSION, 1, 64, NONCE + 1},
    };

    (void)state;
    open_bench(&b, 1);
    for (size_t i = 0; i < TB_ARRAY_LEN(bad); i++) {
        device_open(&d, NONCE, 1, 64);
        d.page->magic = bad[i].magic;
        d.page->version = bad[i].version;
        d.page->table = bad[i].table;
        d.page->count = bad[i].count;
        d.page->nonce = bad[i].nonce;
        post(&b, 0, TB_DRAIN_SLOTS, d.page, d.bytes, 1);
        device_close(&d);
    }
    for (int twice = 0; twice < 2; twice++) { /* the second has a number that is in use */
        device_open(&d, NONCE, 1, 64);
        post_slots(&b, 0, &d);
    }
    struct tb_trace *t = close_bench(&b, 1);
    assert_row(t, "record", "a slot table could not be used", TB_ARRAY_LEN(bad) + 1, 2);
    tb_trace_close(t);
}

/* Real processes, each killed when its device had done half of its work; a whole collector. */
static void test_slots__killed_jobs_keep_what_their_devices_wrote(void **state)
{
    const char *argv[] = {driver_path(), "-o", "out.twinbit", "-R",    "result", "--",
                          TEST_WIRE_JOB, "2",  "20000",       "10000", NULL};
    struct outcome o;
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *e;
    struct tb_error err = {0};

    (void)state;
    finish(start(argv), &o);
    assert_int_equal(o.exit_status, 137);
    assert_int_equal(o.processes, 2);
    assert_int_equal(o.events, 40000);
    assert_int_equal(o.lost, 0);
    struct tb_trace *t = open_trace();
    for (uint32_t process = 1; process <= 2; process++) {
        assert_int_equal(tb_cursor_open_process(&c, t, process, 0, UINT64_MAX, &err), TB_OK);
        for (uint64_t i = 0; i < 20000; i++) {
            assert_int_equal(tb_cursor_next(c, &e, &err), TB_OK);
            assert_int_equal(e->e.args, i);
            assert_int_equal(e->access[0].fp_kind, i < 10000 ? TB_FP_BYTES : TB_FP_NONE);
            if (i < 10000)
                assert_int_equal(half(e->access[0].fp, 0), i);
        }
        tb_cursor_close(c);
    }
    assert_row(t, "fingerprint", "the process ended before", 20000, 1);
    tb_trace_close(t);
}

/* ---------------------------------------------------------------- snapshots */

static void assert_snapshot(struct tb_trace *t, uint64_t event, uint8_t byte)
{
    void *data = NULL;
    uint64_t n = 0;
    struct tb_error err = {0};

    assert_int_equal(tb_trace_snapshot(t, event, 2, &data, &n, &err), TB_OK);
    assert_int_equal(n, 256);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(((uint8_t *)data)[i], byte);
    free(data);
}

/* One has a ticket of its own, one shares that of its access, one comes before its event. */
static void test_slots__snapshots_are_read_once_they_are_stamped(void **state)
{
    struct bench b;
    struct producer p;
    struct device d;
    uint8_t *bytes[3];
    static const struct {
        uint64_t seq, ticket;
    } of[3] = {{0, 10}, {1, 1}, {2, 12}};

    (void)state;
    open_merge(&b);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 64);
    merge_ring(&b, &p);
    merge_slots(&b, &d);
    uint32_t site = producer_site(&p, launch_text);
    for (uint64_t i = 0; i < 2; i++)
        launch(&p, site, i, i);
    for (unsigned i = 0; i < 3; i++) {
        struct tb_wire_snapshot head = {.magic = TB_WIRE_MAGIC,
                                        .version = TB_WIRE_VERSION,
                                        .nonce = NONCE,
                                        .seq = of[i].seq,
                                        .access = 2,
                                        .table = 1,
                                        .bytes = 256,
                                        .ticket = of[i].ticket};
        tb_pending_snapshot(b.merge, &b.sink, snapshot_memfd(&head, &bytes[i]));
    }
    device_stamp(&d, 0, 0, 0);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 1);
    memset(bytes[0], 3, 256); /* after its event was written */
    device_stamp(&d, 10, 1, 2);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 0);
    assert_int_equal(d.slot[10].taken, 11); /* only for the snapshot: given back */
    memset(bytes[1], 4, 256);
    device_stamp(&d, 1, 1, 0);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 1);
    memset(bytes[2], 5, 256);
    device_stamp(&d, 12, 1, 2);
    device_stamp(&d, 2, 2, 0);
    launch(&p, site, 2, 2);
    assert_int_equal(tb_merge_run(b.merge, &b.sink, 8192, SECOND), 1);
    assert_int_equal(d.slot[12].taken, 13);
    for (unsigned i = 0; i < 3; i++)
        munmap(bytes[i] - TB_WIRE_RING_PAGE, TB_WIRE_RING_PAGE + 256);
    struct tb_trace *t = close_merge(&b);
    assert_int_equal(check_launches(t, 1, 0, 0, 0), 3);
    assert_snapshot(t, 1, 3);
    assert_snapshot(t, 2, 4);
    assert_snapshot(t, 3, 5);
    tb_trace_close(t);
}

static void test_slots__a_snapshot_that_never_came_is_said(void **state)
{
    struct bench b;
    struct producer p;
    struct device d;
    uint8_t *bytes;
    struct tb_wire_snapshot head = {.magic = TB_WIRE_MAGIC,
                                    .version = TB_WIRE_VERSION,
                                    .nonce = NONCE,
                                    .access = 2,
                                    .table = 1,
                                    .bytes = 256,
                                    .ticket = 9};

    (void)state;
    open_bench(&b, 1);
    producer_open(&p, NONCE, 0, 65536);
    device_open(&d, NONCE, 1, 64);
    post_slots(&b, 0, &d);
    post_ring(&b, 0, &p);
    for (unsigned i = 0; i < 2; i++) { /* of an event that is there, and of one that is not */
        head.seq = i * 5;
        tb_drain_post(b.drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_SNAPSHOT,
                                                      .process = &b.process[0],
                                                      .fd = snapshot_memfd(&head, &bytes)});
        munmap(bytes - TB_WIRE_RING_PAGE, TB_WIRE_RING_PAGE + 256);
    }
    device_stamp(&d, 0, 0, 0);
    launch(&p, producer_site(&p, launch_text), 0, 0);
    struct tb_trace *t = close_bench(&b, 1);
    assert_row(t, "snapshot", "its bytes never arrived", 1, 1);
    assert_row(t, "snapshot", "its event was not recorded", 1, 1);
    tb_trace_close(t);
}

#define T(name) cmocka_unit_test_setup_teardown(test_slots__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_small_table_is_used_again_and_again),
        T(100000_in_flight_are_stamped_in_any_order),
        T(processes_do_not_wait_for_each_other),
        T(no_number_is_given_up_for_a_slot),
        T(at_the_limit_producers_wait),
        T(a_missing_number_after_a_long_wait_has_its_time),
        T(a_table_may_come_after_its_first_event),
        T(equal_before_and_after_is_unchanged),
        T(wide_events_wait_for_all_their_slots),
        T(what_was_not_stamped_at_the_end_never_is),
        T(killed_jobs_keep_what_their_devices_wrote),
        T(the_end_of_recording_is_no_end_of_the_process),
        T(nonsense_is_said_and_harms_nothing),
        T(tables_that_are_none_are_refused),
        T(snapshots_are_read_once_they_are_stamped),
        T(a_snapshot_that_never_came_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
