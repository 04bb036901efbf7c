/* What a launch reads must be what its last recorded writer left: unseen writers are found. */
#include "tests/collector/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job of launches over buffers: each has one access, of 64 floats at @offset of @alloc. */
struct job {
    struct bench b;
    struct producer p;
    uint32_t reads, writes, both, strided;
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
    assert_row(t, "continuity", "", 0, 0);
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
    reads(&j, 1, 0, 50);   /* overlaps what was written: counted, not compared */
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
    assert_row(t, "continuity", "not checked", 1, 0);
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

/* Against a model that knows each float of a buffer: random extents, some stray writes. */
static void test_continuity__agrees_with_a_model(void **state)
{
    enum { WORDS = 64, ROUNDS = 20000 };
    struct job j;
    uint64_t last[WORDS] = {0}, lo_of[WORDS] = {0}, r = 12345, stray = 0, next = 1;

    (void)state;
    begin(&j);
    reads(&j, 9, 0, 1); /* it begins */
    for (int i = 0; i < ROUNDS; i++) {
        r = r * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t lo = (r >> 33) % (WORDS - 3), what = (r >> 50) % 8;
        uint64_t hi = lo + 4; /* an access has 4 words of 64 bytes */
        if (what < 4) {
            writes(&j, 1, 64 * lo, ++next);
            for (uint64_t k = lo; k < hi; k++)
                last[k] = next, lo_of[k] = lo;
            for (uint64_t k = 0; k < WORDS; k++) /* the rest of what it cut is unknown */
                if ((k < lo || k >= hi) && last[k] && lo_of[k] < hi && lo_of[k] + 4 > lo)
                    last[k] = 0;
            continue;
        }
        bool whole = last[lo] && lo_of[lo] == lo && last[lo] == last[hi - 1];
        bool clear = true;
        for (uint64_t k = lo; k < hi; k++)
            clear = clear && !last[k];
        uint64_t fp = whole && what < 7 ? last[lo] : ++next;
        reads(&j, 1, 64 * lo, fp);
        stray += whole && fp != last[lo];
        for (uint64_t k = lo; k < hi && (whole || clear); k++)
            last[k] = fp, lo_of[k] = lo;
    }
    assert_true(stray > 100);
    struct tb_trace *t = close_merge(&j.b);
    assert_row(t, "unseen writer", "allocation 1 ", stray, 2);
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
        T(late_fingerprints_are_checked_in_order),
        T(forgets_what_was_not_used_for_longest),
        T(agrees_with_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
