/* What a launch reads must be what its last recorded writer left: unseen writers are found. */
#include "tests/collector/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job of launches over buffers: each has one access, of 64 floats at @offset of @alloc. */
struct job {
    struct bench b;
    struct producer p;
    uint32_t reads, writes, both, strided, shared, pinned;
    uint32_t read_of[3], write_of[3]; /* of 64, 128 and 256 floats */
    uint64_t seq;
};

static void begin(struct job *j)
{
    memset(j, 0, sizeof(*j));
    open_merge(&j->b);
    producer_open(&j->p, NONCE, 0, 65536);
    merge_ring(&j->b, &j->p);
    j->reads = producer_site(&j->p, "cuda\nconsume\nr f32 cuda:0 [64] - in\n");
    j->writes = producer_site(&j->p, "cuda\nproduce\nw f32 cuda:0 [64] - out\n");
    j->both = producer_site(&j->p, "cuda\nscale\nr f32 cuda:0 [64] - x\nw f32 cuda:0 [64] - x\n");
    j->shared = producer_site(&j->p, "cuda\nconsume\nr f32 shared:0 [64] - in\n");
    j->pinned = producer_site(&j->p, "cuda\ncopy\nr f32 cpu [64] - src\n");
    for (unsigned i = 0; i < 3; i++) {
        char text[80];
        snprintf(text, sizeof(text), "cuda\nconsume\nr f32 cuda:0 [%u] - in\n", 64u << i);
        j->read_of[i] = producer_site(&j->p, text);
        snprintf(text, sizeof(text), "cuda\nproduce\nw f32 cuda:0 [%u] - out\n", 64u << i);
        j->write_of[i] = producer_site(&j->p, text);
    }
    j->strided = producer_site(&j->p, "cuda\ncolumn\nw f32 cuda:0 [8] [8] out\n");
}

static struct tb_wire_access access_of(uint64_t alloc, uint64_t offset, uint64_t fp)
{
    uint64_t kind = fp ? TB_FP_BYTES : TB_FP_NONE;

    return (struct tb_wire_access){.alloc = alloc | kind << 48, .offset = offset, .fp_a = fp};
}

static void event(struct job *j, uint32_t site, uint8_t kind, const struct tb_wire_access *a,
                  uint32_t n)
{
    struct tb_wire_event e = {
        .kind = kind, .flags = TB_EVF_READS_HASHED, .seq = j->seq, .open = j->seq, .site = site};

    j->seq++;
    producer_event(&j->p, e, a, n);
    (void)tb_merge_run(j->b.merge, &j->b.sink, 8192, SECOND);
}

static void reads(struct job *j, uint64_t alloc, uint64_t offset, uint64_t fp)
{
    struct tb_wire_access a = access_of(alloc, offset, fp);

    event(j, j->reads, TB_EV_LAUNCH, &a, 1);
}

static void writes(struct job *j, uint64_t alloc, uint64_t offset, uint64_t fp)
{
    struct tb_wire_access a = access_of(alloc, offset, fp);

    event(j, j->writes, TB_EV_COPY, &a, 1);
}

static void test_continuity__a_changed_buffer_has_an_unseen_writer(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    writes(&j, 1, 0, 11);
    reads(&j, 1, 0, 11);
    reads(&j, 1, 0, 12); /* somebody wrote */
    reads(&j, 1, 0, 12); /* said once */
    reads(&j, 1, 0, 13); /* and again */
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "produce", 1, 2);
    assert_row(t, "unseen writer",
               "allocation 1 bytes 0..256: written by produce (event 0), changed by nobody seen, "
               "found by consume: 000000000000000b0000000000000000 became "
               "000000000000000c0000000000000000",
               1, 2);
    assert_row(t, "unseen writer", "read by consume (event 2)", 1, 2);
    tb_trace_close(t);
}

static void test_continuity__recorded_work_is_no_unseen_writer(void **state)
{
    struct job j;
    struct tb_wire_access a[2];

    (void)state;
    begin(&j);
    for (uint64_t i = 0; i < 100; i++) {
        writes(&j, 1, 256 * (i % 4), i + 1);
        reads(&j, 1, 256 * (i % 4), i + 1);
        a[0] = access_of(1, 256 * (i % 4), i + 1);
        a[1] = access_of(1, 256 * (i % 4), i + 1000); /* in place: read before it is written */
        event(&j, j.both, TB_EV_LAUNCH, a, 2);
        reads(&j, 1, 256 * (i % 4), i + 1000);
        reads(&j, 2, 0, 7); /* never written: what was read first must stay */
    }
    reads(&j, 0, 0, 1); /* no allocation */
    reads(&j, 0, 0, 2);
    reads(&j, TB_ALLOC_STREAM + 1, 0, 1);
    reads(&j, TB_ALLOC_STREAM + 1, 0, 2);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 0, 0);
    assert_row(t, "origin", "not written or read as a whole", 1, 0); /* of the second buffer */
    tb_trace_close(t);
}

/* What a write overlaps is not known any more, and other extents are not compared. */
static void test_continuity__extents_written_over_are_forgotten(void **state)
{
    struct job j;
    struct tb_wire_access a;

    (void)state;
    begin(&j);
    writes(&j, 1, 0, 1);
    writes(&j, 1, 256, 2);
    writes(&j, 1, 512, 3);
    writes(&j, 1, 128, 4); /* over the half of the first two */
    reads(&j, 1, 0, 50);   /* not whole any more: nothing to compare it with */
    reads(&j, 1, 0, 50);
    reads(&j, 1, 512, 3);
    reads(&j, 1, 128, 4);
    a = access_of(1, 512, 9);
    event(&j, j.strided, TB_EV_LAUNCH, &a, 1); /* some bytes of it: not known what lies there */
    reads(&j, 1, 512, 10);
    a = access_of(1, 512, 0);
    event(&j, j.writes, TB_EV_SET, &a, 1); /* without a fingerprint */
    reads(&j, 1, 512, 11);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 0, 0);
    assert_row(t, "origin", "not written or read as a whole", 3, 0);
    tb_trace_close(t);
}

/* An operator's own write counts; its reads were checked in the job. */
static void test_continuity__operators_write_device_memory_too(void **state)
{
    struct job j;
    struct tb_wire_access a = access_of(1, 0, 2);

    (void)state;
    begin(&j);
    writes(&j, 1, 0, 1);
    event(&j, j.writes, TB_EV_OP, &a, 1);
    reads(&j, 1, 0, 2);
    a = access_of(1, 0, 3);
    event(&j, j.reads, TB_EV_OP, &a, 1);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 0, 0);
    tb_trace_close(t);
}

/* Memory that the host may write: the job says so, of one allocation or of all that is read. */
static void test_continuity__what_the_job_explains_is_not_reported(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    for (uint64_t alloc = 1; alloc <= 3; alloc++)
        writes(&j, alloc, 0, 1);
    producer_cover(&j.p, j.seq, 0, "origin\thost\tmapped memory");
    reads(&j, 1, 0, 2);
    producer_cover(&j.p, j.seq, 0, "origin\thost\tallocation 2: managed memory");
    reads(&j, 2, 0, 2);
    producer_cover(&j.p, j.seq, 0, "origin\thost\tallocation 2: managed memory");
    reads(&j, 3, 0, 2); /* another one */
    reads(&j, 1, 0, 2); /* is that from now on */
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 1, 2);
    assert_row(t, "unseen writer", "allocation 3", 1, 2);
    tb_trace_close(t);
}

/* Without --inputs no read is hashed: nothing is kept. */
static void test_continuity__costs_nothing_where_reads_are_not_hashed(void **state)
{
    struct job j;
    struct tb_wire_access a = access_of(1, 0, 1);
    struct tb_wire_event e = {.kind = TB_EV_LAUNCH};

    (void)state;
    begin(&j);
    e.site = j.writes;
    producer_event(&j.p, e, &a, 1);
    (void)tb_merge_run(j.b.merge, &j.b.sink, 8192, SECOND);
    assert_null(j.b.merge->continuity);
    tb_trace_close(close_merge(&j.b));
}

static void reads_alike(struct job *j, uint64_t alloc, uint64_t fp)
{
    struct tb_wire_access a = access_of(alloc, 0, fp);

    a.alloc |= TB_ACCESS_ALIKE;
    event(j, j->reads, TB_EV_LAUNCH, &a, 1);
}

/* Under run --poison fingerprints of two kinds are about: each is compared with its own. */
static void test_continuity__fingerprints_of_two_kinds_are_not_compared(void **state)
{
    struct job j;
    struct tb_wire_access a = access_of(1, 0, 11);

    (void)state;
    begin(&j);
    a.alloc |= TB_ACCESS_ALIKE;
    event(&j, j.writes, TB_EV_LAUNCH, &a, 1);
    reads(&j, 1, 0, 21); /* the same bytes, as they are */
    reads_alike(&j, 1, 11);
    reads(&j, 1, 0, 21);
    writes(&j, 2, 0, 31);
    reads_alike(&j, 2, 41);
    reads(&j, 2, 0, 31);
    writes(&j, 3, 0, 31);
    reads_alike(&j, 3, 41);
    reads_alike(&j, 3, 42); /* somebody wrote */
    writes(&j, 4, 0, 51);
    reads_alike(&j, 4, 61);
    reads(&j, 4, 0, 52); /* and here */
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 2, 2);
    assert_row(t, "unseen writer", "allocation 3 ", 1, 2);
    assert_row(t, "unseen writer", "0000000000000033000000", 1, 2);
    assert_row(t, "origin", "in another way before", 4, 0);
    tb_trace_close(t);
}

/* Fingerprints that come late are checked when they come. */
static void test_continuity__late_fingerprints_are_checked_in_order(void **state)
{
    struct job j;
    struct device d;

    (void)state;
    begin(&j);
    device_open(&d, NONCE, 1, 64);
    merge_slots(&j.b, &d);
    for (uint64_t i = 0; i < 3; i++) {
        struct tb_wire_access a = access_of(1, 0, 1);
        a.alloc |= TB_ACCESS_PENDING;
        a.fp_a = i;
        a.fp_b = 1;
        event(&j, i == 0 ? j.writes : j.reads, TB_EV_LAUNCH, &a, 1);
    }
    device_stamp(&d, 2, 6, 0);
    device_stamp(&d, 1, 5, 0);
    device_stamp(&d, 0, 5, 0);
    assert_int_equal(tb_merge_run(j.b.merge, &j.b.sink, 8192, SECOND), 3);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "written by produce (event 0)", 1, 2);
    tb_trace_close(t);
}

/* Bounded: what was not used for longest is forgotten, and then seen as new. */
static void test_continuity__forgets_what_was_not_used_for_longest(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    j.b.merge->continuity = tb_continuity_new(200);
    for (uint64_t alloc = 1; alloc <= 1000; alloc++) {
        writes(&j, alloc, 0, 1);
        reads(&j, 1, 0, 1); /* in use all the time */
    }
    reads(&j, 2, 0, 2);   /* long ago: not known any more */
    reads(&j, 999, 0, 2); /* that was written just now */
    reads(&j, 1, 0, 2);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 2, 2);
    assert_row(t, "unseen writer", "allocation 999 ", 1, 2);
    assert_row(t, "unseen writer", "allocation 1 ", 1, 2);
    tb_trace_close(t);
}

/* A buffer that is written in parts is read as a whole, and what one read found the next must. */
static void test_continuity__reads_of_a_larger_extent_are_compared_among_themselves(void **state)
{
    struct job j;
    struct tb_wire_access whole = access_of(1, 0, 7);

    (void)state;
    begin(&j);
    writes(&j, 1, 0, 1);
    writes(&j, 1, 256, 2);
    event(&j, j.read_of[1], TB_EV_LAUNCH, &whole, 1); /* both */
    event(&j, j.read_of[1], TB_EV_LAUNCH, &whole, 1);
    reads(&j, 1, 256, 2); /* the parts are still known */
    whole.fp_a = 8;
    event(&j, j.read_of[1], TB_EV_LAUNCH, &whole, 1); /* changed */
    reads(&j, 1, 256, 3);                             /* this part of it */
    writes(&j, 1, 0, 4);                              /* ends what overlaps, and no more */
    whole.fp_a = 9;
    event(&j, j.read_of[1], TB_EV_LAUNCH, &whole, 1);
    reads(&j, 1, 256, 3);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 2, 2);
    assert_row(t, "unseen writer", "bytes 0..512: read by consume", 1, 2);
    assert_row(t, "unseen writer", "bytes 256..512: written by produce", 1, 2);
    tb_trace_close(t);
}

/* Pinned and managed memory: that it changes is nobody's fault. */
static void test_continuity__memory_of_the_host_may_change(void **state)
{
    struct job j;

    (void)state;
    begin(&j);
    for (uint64_t i = 1; i <= 10; i++) {
        struct tb_wire_access a[2] = {access_of(1, 0, i), access_of(2, 0, i)};
        event(&j, j.shared, TB_EV_LAUNCH, &a[0], 1);
        event(&j, j.pinned, TB_EV_COPY, &a[1], 1);
    }
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 0, 0);
    assert_row(t, "origin", "the host may write", 20, 0);
    tb_trace_close(t);
}

/* What the model remembers of one extent; lo and hi in words of 256 bytes. */
struct known {
    uint64_t lo, hi, fp;
};

/* Against a plain list of what is known: random extents of three lengths, some stray writes. */
static void test_continuity__agrees_with_a_model(void **state)
{
    enum { WORDS = 40, ROUNDS = 12000 };
    static struct known list[3 * WORDS];
    struct job j;
    uint64_t r = 12345, next = 1, stray = 0, first = 1;
    size_t n = 0;

    (void)state;
    begin(&j);
    reads(&j, 9, 0, 1); /* it begins */
    for (int i = 0; i < ROUNDS; i++) {
        r = r * 6364136223846793005ull + 1442695040888963407ull;
        unsigned length = (r >> 20) % 3, what = (r >> 50) % 8;
        struct known k = {.lo = (r >> 33) % (WORDS - 4)};
        k.hi = k.lo + (1u << length);
        size_t at = 0;
        while (at < n && (list[at].lo != k.lo || list[at].hi != k.hi))
            at++;
        k.fp = what < 2 || what == 7 || at == n ? ++next : list[at].fp;
        struct tb_wire_access a = access_of(1, 256 * k.lo, k.fp);
        event(&j, what < 2 ? j.write_of[length] : j.read_of[length], TB_EV_LAUNCH, &a, 1);
        if (what >= 2) {
            stray += at < n && k.fp != list[at].fp;
            first += at == n;
            n += at == n;
            list[at] = k;
            continue;
        }
        size_t kept = 0;
        for (size_t m = 0; m < n; m++)
            if (list[m].hi <= k.lo || list[m].lo >= k.hi)
                list[kept++] = list[m];
        list[kept] = k;
        n = kept + 1;
    }
    assert_true(stray > 100);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "allocation 1 ", stray, 2);
    assert_row(t, "origin", "not written or read as a whole", first, 0);
    tb_trace_close(t);
}

/* A launch of @site over allocation 1 in @stream */
static void in_stream(struct job *j, uint32_t site, unsigned stream, uint64_t fp)
{
    struct tb_wire_access a[2] = {access_of(1, 0, fp),
                                  {.alloc = TB_ALLOC_STREAM + stream, .offset = TB_ORDER_FREE}};

    event(j, site, TB_EV_LAUNCH, a, 2);
}

static void begin_streams(struct job *j, uint32_t *read, uint32_t *write, uint32_t *wait)
{
    begin(j);
    *read = producer_site(&j->p, "cuda\nconsume\nr f32 cuda:0 [64] - in\nq ? cuda [] - stream\n");
    *write = producer_site(&j->p, "cuda\nproduce\nw f32 cuda:0 [64] - out\nq ? cuda [] - stream\n");
    *wait = producer_site(&j->p, "cuda\ncuStreamSynchronize\nq ? cuda [] - stream\n");
}

/* Work of another stream, which nothing orders with the read, may have written at any time. */
static void test_continuity__a_race_is_no_unseen_writer(void **state)
{
    uint32_t read, write, wait;
    struct job j;

    (void)state;
    begin_streams(&j, &read, &write, &wait);
    in_stream(&j, write, 1, 11);
    in_stream(&j, read, 2, 10); /* before it was written */
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 0, 0);
    assert_row(t, "race",
               "allocation 1 bytes 0..256: written by produce (event 0) and read by consume (event "
               "1) in another stream",
               1, 1);
    tb_trace_close(t);
}

static void test_continuity__a_later_writer_races_too(void **state)
{
    uint32_t read, write, wait;
    struct job j;

    (void)state;
    begin_streams(&j, &read, &write, &wait);
    in_stream(&j, write, 2, 11);
    in_stream(&j, read, 2, 12); /* what comes next was there already */
    in_stream(&j, write, 1, 12);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "", 0, 0);
    assert_row(t, "race", "written by produce (event 2) and read by consume (event 1)", 1, 1);
    tb_trace_close(t);
}

static void wait_for(struct job *j, uint32_t wait, unsigned stream)
{
    struct tb_wire_access s = {.alloc = TB_ALLOC_STREAM + stream, .offset = TB_ORDER_FREE};

    event(j, wait, TB_EV_SYNC, &s, 1);
}

/* What two streams wrote at once is not known by either's fingerprint, and both may be right. */
static void test_continuity__what_streams_wrote_at_once_is_not_known(void **state)
{
    uint32_t read, write, wait;
    struct job j;

    (void)state;
    begin_streams(&j, &read, &write, &wait);
    for (uint64_t i = 0; i < 3; i++) {
        in_stream(&j, write, 1, 10 + i);
        in_stream(&j, write, 2, i == 1 ? 0 : 20 + i); /* the second one is not hashed */
        in_stream(&j, write, 1, 40 + i);
        wait_for(&j, wait, 1);
        wait_for(&j, wait, 2);
        in_stream(&j, read, 1, 30 + i);
        in_stream(&j, read, 2, 30 + i);
        wait_for(&j, wait, 2);
    }
    in_stream(&j, read, 1, 50); /* but this */
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "read by consume", 1, 2);
    assert_row(t, "unseen writer", "", 1, 2);
    assert_row(t, "race", "", 0, 0);
    tb_trace_close(t);
}

static void test_continuity__what_is_ordered_is_no_race(void **state)
{
    struct tb_wire_access s = {.alloc = TB_ALLOC_STREAM + 1, .offset = TB_ORDER_FREE};
    uint32_t read, write, wait;
    struct job j;

    (void)state;
    begin_streams(&j, &read, &write, &wait);
    in_stream(&j, write, 1, 11);
    event(&j, wait, TB_EV_SYNC, &s, 1);
    in_stream(&j, read, 2, 12);
    s.alloc = TB_ALLOC_STREAM + 2;
    event(&j, wait, TB_EV_SYNC, &s, 1);
    in_stream(&j, write, 1, 13);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "changed by nobody seen, found by consume", 1, 2);
    assert_row(t, "race", "", 0, 0);
    tb_trace_close(t);
}

#define T(name) cmocka_unit_test_setup_teardown(test_continuity__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_changed_buffer_has_an_unseen_writer),
        T(recorded_work_is_no_unseen_writer),
        T(extents_written_over_are_forgotten),
        T(operators_write_device_memory_too),
        T(what_the_job_explains_is_not_reported),
        T(costs_nothing_where_reads_are_not_hashed),
        T(fingerprints_of_two_kinds_are_not_compared),
        T(late_fingerprints_are_checked_in_order),

        T(forgets_what_was_not_used_for_longest),
        T(reads_of_a_larger_extent_are_compared_among_themselves),
        T(memory_of_the_host_may_change),
        T(agrees_with_a_model),
        T(a_race_is_no_unseen_writer),
        T(a_later_writer_races_too),
        T(what_streams_wrote_at_once_is_not_known),
        T(what_is_ordered_is_no_race),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
