/*
 * Producers and the collector's drain in one process and on one mapping, so that ThreadSanitizer
 * sees both ends: the runtime's own files, linked here, write; the store gets what was written.
 */
#include "tests/collector/harness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collector/collector_internal.h"
#include "recorder/recorder_internal.h"

/* hook.c and glue.c are left out: nothing is interposed in this program. */
void *tb_rt_real_dlsym(void *handle, const char *name)
{
    return dlsym(handle, name);
}
void tb_rt_glue(const char *tap)
{
    (void)tap;
}

#define THREADS 6u

struct bench {
    struct tb_store *store;
    struct tb_drain *drain;
    struct tb_wire_bell *bell;
    struct tb_col_process process;
    struct tb_rt_ring *posted;
    pthread_t acceptor;
    int listener, stop;
};

/* Takes what the runtime sends and forgets it: rings are posted from the runtime's own list. */
static void *accept_main(void *arg)
{
    struct bench *b = arg;
    int fd;

    while ((fd = accept(b->listener, NULL, NULL)) >= 0) {
        struct tb_wire_msg m;
        (void)!recv(fd, &m, sizeof(m), 0);
        close(fd);
    }
    return NULL;
}

static void start_runtime(struct bench *b, uint32_t flags, uint32_t wait_ms)
{
    memset(&tb_rt, 0, sizeof(tb_rt));
    tb_rt.page = tb_rt_pool(4096);
    assert_non_null(tb_rt.page);
    tb_rt.config = (struct tb_wire_config){.level = TB_LEVEL_OP,
                                           .flags = flags,
                                           .ring_bytes = 65536,
                                           .ring_total = 4 * 65536,
                                           .wait_ms = wait_ms};
    tb_rt.generation = 1;
    tb_rt.nonce = 99;
    tb_rt.bell = b->bell;
    tb_rt.socket.sun_family = AF_UNIX;
    snprintf(tb_rt.socket.sun_path, sizeof(tb_rt.socket.sun_path), "s");
    assert_int_equal(pthread_key_create(&tb_rt.key, tb_rt_thread_end), 0);
    tb_rt_api_init(&tb_rt.api);
    tb_rt.page->state = TB_RT_ON;
}

static void open_bench(struct bench *b, uint32_t flags, uint32_t wait_ms)
{
    struct tb_error err = {0};
    struct tb_store_options so = {.force = true};
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "s"};

    memset(b, 0, sizeof(*b));
    b->bell = tb_rt_pool(4096);
    b->listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    unlink("s");
    assert_int_equal(bind(b->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(b->listener, 100), 0);
    assert_int_equal(pthread_create(&b->acceptor, NULL, accept_main, b), 0);
    start_runtime(b, flags, wait_ms);
    assert_int_equal(tb_store_create(&b->store, "out.twinbit", &so, &err), TB_OK);
    assert_int_equal(tb_drain_start(&b->drain, b->store, b->bell, &err), TB_OK);
    b->process.index = 1;
    b->process.pidfd = -1;
    b->process.nonce = 99;
    tb_drain_post(b->drain,
                  &(struct tb_drain_cmd){.kind = TB_DRAIN_PROCESS, .process = &b->process});
}

/* New rings go to the drain on the mapping that the producers use. */
static void post_rings(struct bench *b)
{
    tb_rt_lock(&tb_rt.page->setup_lock);
    struct tb_rt_ring *first = tb_rt.rings;
    for (struct tb_rt_ring *r = first; r != b->posted; r = r->next)
        tb_drain_post(b->drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_RING,
                                                       .process = &b->process,
                                                       .map = r->page,
                                                       .bytes = r->size + TB_WIRE_RING_PAGE,
                                                       .thread = r->page->thread});
    b->posted = first;
    tb_rt_unlock(&tb_rt.page->setup_lock);
}

static void close_bench(struct bench *b)
{
    struct tb_error err = {0};

    post_rings(b);
    tb_drain_post(b->drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_GONE, .process = &b->process});
    tb_drain_post(b->drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_END});
    assert_int_equal(tb_drain_join(b->drain, NULL, &err), TB_OK);
    assert_int_equal(tb_store_close(b->store, &err), TB_OK);
    shutdown(b->listener, SHUT_RDWR);
    pthread_join(b->acceptor, NULL);
    close(b->listener);
    tb_tls.thread = NULL;
    pthread_key_delete(tb_rt.key);
}

static const char text[] = "torch\naten::add.Tensor\nr f32 cpu [4] - self\nw f32 cpu [4] - out\n";

static bool one_event(uint64_t tag)
{
    struct tb_rec_thread *t = tb_rt.api.self();
    struct tb_wire_access a[2] = {{.alloc = 1}, {.alloc = 2, .offset = tag}};
    struct tb_wire_event e = {.kind = TB_EV_OP, .accesses = 2, .args = tag};

    if (!t)
        return false;
    e.site = tb_rt.api.site_find(t, 5);
    if (!e.site)
        e.site = tb_rt.api.site_define(t, 5, text, sizeof(text) - 1);
    return tb_rt.api.event(t, &e, a) != TB_REC_NO_SEQ;
}

struct work {
    uint64_t base, n, done;
};

static void *produce(void *arg)
{
    struct work *w = arg;

    for (uint64_t i = 0; i < w->n; i++)
        w->done += one_event(w->base + i);
    return NULL;
}

static void run_threads(struct bench *b, struct work *w, uint64_t n)
{
    pthread_t id[THREADS];

    for (unsigned k = 0; k < THREADS; k++) {
        w[k] = (struct work){(uint64_t)(k + 1) << 32, n, 0};
        assert_int_equal(pthread_create(&id[k], NULL, produce, &w[k]), 0);
    }
    for (int i = 0; i < 50; i++) { /* rings appear with each thread's first event */
        post_rings(b);
        usleep(2000);
    }
    for (unsigned k = 0; k < THREADS; k++)
        pthread_join(id[k], NULL);
}

static void test_ring__threads_and_drain(void **state)
{
    struct bench b;
    struct work w[THREADS];

    (void)state;
    open_bench(&b, 0, 5000);
    run_threads(&b, w, 10000);
    close_bench(&b);
    struct tb_trace *t = open_trace();
    struct tags tags = process_tags(t, 1);
    for (unsigned k = 0; k < THREADS; k++) {
        assert_int_equal(w[k].done, 10000);
        assert_run(&tags, (uint64_t)(k + 1) << 32, 10000);
    }
    assert_int_equal(tags.n, THREADS * 10000);
    assert_int_equal(tb_trace_info(t)->lost, 0);
    free(tags.tag);
    tb_trace_close(t);
}

static void test_ring__what_is_dropped_is_counted(void **state)
{
    struct bench b;
    struct work w[THREADS];
    uint64_t done = 0, lost = 0;
    const char *why;

    (void)state;
    open_bench(&b, TB_CFG_DROP, 0);
    run_threads(&b, w, 20000);
    close_bench(&b);
    for (unsigned k = 0; k < THREADS; k++)
        done += w[k].done;
    struct tb_trace *t = open_trace();
    struct tags tags = process_tags(t, 1);
    assert_int_equal(tags.n, done);
    bool any = tb_trace_lost(t, &lost, &why);
    assert_int_equal(any, done != THREADS * 20000);
    free(tags.tag);
    tb_trace_close(t);
}

static void test_ring__a_coarse_map_keeps_its_number_when_its_event_is_lost(void **state)
{
    struct bench b;
    struct tb_fp sums[1] = {{1, 2}};

    (void)state;
    open_bench(&b, 0, 5000);
    assert_true(one_event(0));
    post_rings(&b);
    struct tb_rec_thread *t = tb_rt.api.self();
    tb_rt.api.map(t, 1, 16, sums, 1);
    struct tb_wire_event bad = {.kind = TB_EV_OP, .site = 0}; /* no site: not written */
    assert_int_equal(tb_rt.api.event(t, &bad, NULL), TB_REC_NO_SEQ);
    for (uint64_t i = 1; i < 500; i++)
        assert_true(one_event(i));
    close_bench(&b);
    struct tb_trace *trace = open_trace();
    struct tags tags = process_tags(trace, 1);
    assert_run(&tags, 0, 500);
    assert_int_equal(tb_trace_info(trace)->lost, 0);
    free(tags.tag);
    tb_trace_close(trace);
}

static void test_ring__nonsense_in_a_ring_breaks_that_ring_only(void **state)
{
    struct bench b;

    (void)state;
    open_bench(&b, 0, 200);
    for (uint64_t i = 0; i < 100; i++)
        assert_true(one_event(i));
    struct tb_rec_thread *t = tb_rt.api.self();
    struct tb_wire_rec *rec = (void *)(t->ring->data + (t->ring->head & (t->ring->size - 1)));
    *rec = (struct tb_wire_rec){.kind = 200, .bytes = 12345};
    tb_rt_publish(t->ring, 64);
    close_bench(&b);
    struct tb_trace *trace = open_trace();
    struct tags tags = process_tags(trace, 1);
    assert_run(&tags, 0, 100);
    assert_true(has_coverage(trace, "record", "no record"));
    assert_true(tb_trace_info(trace)->lost > 0);
    free(tags.tag);
    tb_trace_close(trace);
}

static void test_ring__the_table_finds_what_was_put_in(void **state)
{
    struct tb_rt_table t = {0};
    uint64_t key = 1;

    (void)state;
    assert_int_equal(tb_rt_table_find(&t, 5), 0);
    for (uint32_t i = 1; i <= 20000; i++) {
        key = key * 6364136223846793005ull + 1442695040888963407ull;
        assert_int_equal(tb_rt_table_find(&t, key), 0);
        assert_true(tb_rt_table_add(&t, key, i));
    }
    assert_true(tb_rt_table_add(&t, 0, 20001));
    assert_int_equal(tb_rt_table_find(&t, 0), 20001);
    key = 1;
    for (uint32_t i = 1; i <= 20000; i++) {
        key = key * 6364136223846793005ull + 1442695040888963407ull;
        assert_int_equal(tb_rt_table_find(&t, key), i);
    }
    tb_rt_unmap(t.slot, t.capacity * sizeof(*t.slot));
}

static void test_ring__one_within_itself_sees_nothing(void **state)
{
    struct bench b;

    (void)state;
    open_bench(&b, 0, 200);
    assert_true(one_event(0));
    tb_tls.busy = 1; /* as in a signal handler that interrupted the recorder */
    assert_null(tb_rt.api.self());
    assert_false(tb_rt.api.enter());
    assert_false(one_event(1));
    tb_tls.busy = 0;
    assert_true(tb_rt.api.enter());
    assert_false(tb_rt.api.enter());
    assert_non_null(tb_rt.api.self());
    tb_rt.api.leave();
    close_bench(&b);
}

#define T(name) cmocka_unit_test_setup_teardown(test_ring__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(threads_and_drain),
        T(what_is_dropped_is_counted),
        T(a_coarse_map_keeps_its_number_when_its_event_is_lost),
        T(nonsense_in_a_ring_breaks_that_ring_only),
        T(the_table_finds_what_was_put_in),
        T(one_within_itself_sees_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
