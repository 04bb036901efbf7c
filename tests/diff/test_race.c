/*
 * Races between streams: what a made-up program queues is a script, and what its consumer writes
 * differs between the runs.
 *
 * A word is one event: a letter and a stream.
 *   p produces: writes the buffer     c consumes: reads the buffer, writes another
 *   v writes what c writes            V writes a part of that, elsewhere
 *   P writes a part of the buffer's allocation, elsewhere
 *   a may write the whole buffer, through a pointer to its byte 16    b consumes it through one
 *   t reads what c writes, too, and adds floats by atomics
 *   n writes the buffer, without a fingerprint
 *   x copies to its begin             u may have written the buffer and did not
 *   m writes what it reaches through memory, perhaps the buffer
 *   z reads what c writes, and what it writes differs, too
 *   k a launch that has nothing to do with it    h a copy to the host that waits
 *   D, H copies to the host of what c writes, which differ, or not    A of the buffer, which differ
 *   r records event 1   w waits for it   e the host waits for it   s the host waits for the stream
 *   d the host waits for all   q, Q the host found event 1, the stream done by asking
 *   ! orders were made that nobody saw   f a host function was queued
 *   | a step ends
 * Streams 1 to 4 and 10 up do not heed the legacy one, 0; 5 to 9 do.
 *   i from here on the trace says of which device a stream is: those from 200 on are of device 1,
 *   201 to 204 as 1 to 4, 205 to 209 as 5 to 9, 200 its legacy one   g the host waits for a device
 * as the recorder has it of several devices; without them a trace is as earlier recorders had it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diff/diff_internal.h"
#include "tests/diff/job.h"

#define STREAM "q ? cuda [] - stream\n"
#define EVENT "q ? cuda [] - event\n"
#define DEVICE "q ? cuda [] - device\n"

struct out {
    struct tb_store *s;
    uint32_t process, thread;
    uint64_t seq, step, asked; /* orders without an event, as in wire.h */
    uint64_t result;           /* of the consumer */
    uint64_t host;             /* host functions were queued */
    bool hashed;               /* what it reads */
    bool devices;              /* streams have numbers of devices */
};

static struct tb_error err;

static void ok(enum tb_status st)
{
    if (st != TB_OK)
        fail_msg("%s", err.text);
}

static struct tb_store_access memory(uint64_t alloc, uint64_t offset, uint64_t value, uint8_t kind)
{
    struct tb_store_access a = {.alloc = alloc, .offset = offset, .fp_kind = kind};

    memcpy(a.fp, &value, kind == TB_FP_NONE ? 0 : 8);
    return a;
}

static void put(struct out *o, uint8_t kind, const char *text, const struct tb_store_access *a,
                uint32_t n)
{
    struct tb_store_event e = {.thread = o->thread,
                               .kind = kind,
                               .flags = o->hashed ? TB_EVF_READS_HASHED : 0,
                               .step = o->step,
                               .seq = o->seq,
                               .open = o->seq};
    uint64_t id = 0;

    ok(tb_store_intern_site(o->s, text, strlen(text), &e.site, &err));
    ok(tb_store_event(o->s, &e, a, n, &id, &err));
    o->seq++;
}

static struct tb_store_access stream_of(const struct out *o, unsigned stream, bool waited)
{
    unsigned number = stream % 200, device = stream / 200;
    bool blocking = number == 0 || (number >= 5 && number <= 9);
    uint64_t bits =
        o->asked | o->host | (blocking ? 0 : TB_ORDER_FREE) | (waited ? TB_ORDER_WAITED : 0);

    if (o->devices)
        bits |= (device + 1ull) << TB_ORDER_DEVICE | (number ? 0 : TB_ORDER_LEGACY);
    return (struct tb_store_access){.alloc = TB_ALLOC_STREAM + stream, .offset = bits};
}

static void work(struct out *o, char what, unsigned stream)
{
    struct tb_store_access a[3] = {stream_of(o, stream, what == 'h')};

    switch (what) {
    case 'p':
        a[1] = memory(1, 0, 7, TB_FP_BYTES);
        put(o, TB_EV_LAUNCH, "cuda\nproduce\n" STREAM "w f32 cuda:0 [16] - a\n", a, 2);
        return;
    case 'P':
        a[1] = memory(1, 16, 7, TB_FP_BYTES);
        put(o, TB_EV_LAUNCH, "cuda\nelsewhere\n" STREAM "w f32 cuda:0 [8] - a\n", a, 2);
        return;
    case 'a':
        a[1] = memory(1, 0, 7, TB_FP_BYTES);
        a[1].place = tb_wire_place(16);
        put(o, TB_EV_LAUNCH, "cuda\nuncut\n" STREAM "w f32 cuda:0 [16] - a\n", a, 2);
        return;
    case 'x':
        a[1] = memory(1, 0, 7, TB_FP_BYTES);
        put(o, TB_EV_COPY, "cuda\ncuMemcpyHtoDAsync\n" STREAM "w u8 cuda:0 [32] - dst\n", a, 2);
        return;
    case 'u':
        a[1] = memory(1, 0, 7, TB_FP_UNCHANGED);
        put(o, TB_EV_LAUNCH, "cuda\nlearnt\n" STREAM "w f32 cuda:0 [16] - a\n", a, 2);
        return;
    case 'm':
        a[1] = memory(1, 0, 7, TB_FP_BYTES);
        put(o, TB_EV_LAUNCH,
            "cuda\nby_table\n" STREAM "w u8 cuda:0 [64] - reached through memory\n", a, 2);
        return;
    case 'v':
        a[1] = memory(2, 0, 5, TB_FP_BYTES);
        put(o, TB_EV_LAUNCH, "cuda\nalso\n" STREAM "w f32 cuda:0 [16] - b\n", a, 2);
        return;
    case 'V':
        a[1] = memory(2, 16, 5, TB_FP_BYTES);
        put(o, TB_EV_LAUNCH, "cuda\nbeside\n" STREAM "w f32 cuda:0 [8] - b\n", a, 2);
        return;
    case 'n':
        a[1] = memory(1, 0, 0, TB_FP_NONE);
        put(o, TB_EV_LAUNCH, "cuda\nunhashed\n" STREAM "w f32 cuda:0 [16] - a\n", a, 2);
        return;
    case 'A':
    case 'D':
    case 'H':
        a[1] = memory(what == 'A' ? 1 : 2, 0, what == 'H' ? 3 : o->result + 3, TB_FP_BYTES);
        put(o, TB_EV_COPY, "cuda\ncuMemcpyDtoH\n" STREAM "r u8 cuda:0 [64] - src\n", a, 2);
        return;
    case 'b':
    case 'c':
        a[1] = memory(1, 0, o->result, o->hashed ? TB_FP_BYTES : TB_FP_NONE);
        a[1].place = what == 'b' ? tb_wire_place(16) : 0;
        a[2] = memory(2, 0, o->result, TB_FP_BYTES);
        put(o, TB_EV_LAUNCH,
            "cuda\nconsume\n" STREAM "r f32 cuda:0 [16] - a\nw f32 cuda:0 [16] - b\n", a, 3);
        return;
    case 't':
        a[1] = memory(2, 0, 0, TB_FP_NONE);
        a[2] = memory(3, 0, o->result + 20, TB_FP_BYTES);
        put(o, TB_EV_LAUNCH,
            "cuda\nadd\tatomics=1\n" STREAM "r f32 cuda:0 [16] - b\nw f32 cuda:0 [16] - d\n", a, 3);
        return;
    case 'z':
        a[1] = memory(2, 0, 0, TB_FP_NONE);
        a[2] = memory(3, 0, o->result + 10, TB_FP_BYTES);
        put(o, TB_EV_LAUNCH,
            "cuda\nfollow\n" STREAM "r f32 cuda:0 [16] - b\nw f32 cuda:0 [16] - d\n", a, 3);
        return;
    case 'k':
        a[1] = memory(9, 0, 1, TB_FP_BYTES);
        put(o, TB_EV_LAUNCH, "cuda\nother\n" STREAM "w f32 cuda:0 [16] - x\n", a, 2);
        return;
    case 'h':
        a[1] = memory(9, 0, 0, TB_FP_NONE);
        put(o, TB_EV_COPY, "cuda\ncuMemcpyDtoH\n" STREAM "r u8 cuda:0 [64] - src\n", a, 2);
        return;
    default:
        fail_msg("what is '%c'?", what);
    }
}

static void ask(struct out *o, unsigned orders, uint64_t last)
{
    uint64_t count = (o->asked >> TB_ORDER_COUNT & TB_ORDER_COUNT_MASK) + orders;

    o->asked = (count & TB_ORDER_COUNT_MASK) << TB_ORDER_COUNT | last << TB_ORDER_LAST;
}

static void word(struct out *o, char what, unsigned stream)
{
    struct tb_store_access a[2] = {stream_of(o, stream, false),
                                   {.alloc = TB_ALLOC_EVENT + 1, .offset = o->asked}};

    switch (what) {
    case 'r':
        put(o, TB_EV_SYNC, "cuda\ncuEventRecord\n" STREAM EVENT, a, 2);
        return;
    case 'w':
        put(o, TB_EV_SYNC, "cuda\ncuStreamWaitEvent\n" STREAM EVENT, a, 2);
        return;
    case 'e':
        put(o, TB_EV_SYNC, "cuda\ncuEventSynchronize\n" EVENT, a + 1, 1);
        return;
    case 's':
        put(o, TB_EV_SYNC, "cuda\ncuStreamSynchronize\n" STREAM, a, 1);
        return;
    case 'd':
        put(o, TB_EV_SYNC, "cuda\ncuCtxSynchronize\n", NULL, 0);
        return;
    case 'g':
        a[0] = (struct tb_store_access){.alloc = TB_ALLOC_DEVICE + stream, .offset = o->asked};
        put(o, TB_EV_SYNC, "cuda\ncuCtxSynchronize\n" DEVICE, a, 1);
        return;
    case 'i':
        o->devices = true;
        return;
    case 'q':
        ask(o, 1, 2 * 1 + 1);
        return;
    case 'Q':
        ask(o, 1, 2 * (uint64_t)stream);
        return;
    case '!':
        ask(o, 2, 0);
        return;
    case 'f':
        o->host = TB_ORDER_HOST;
        return;
    case '|':
        put(o, TB_EV_STEP, "host\nstep\n", NULL, 0);
        o->step++;
        return;
    default:
        work(o, what, stream);
    }
}

static void run_script(struct out *o, const char *script)
{
    for (const char *p = script; *p;) {
        char what = *p++;
        unsigned stream = 0;
        while (*p >= '0' && *p <= '9')
            stream = stream * 10 + (unsigned)(*p++ - '0');
        word(o, what, stream);
        while (*p == ' ')
            p++;
    }
}

static void write_trace(const char *path, const char *script, uint64_t result, bool hashed)
{
    struct tb_store_process p = {.rank = -1, .worker = -1, .argv = "./two", .identity = "two#0"};
    struct out o = {.result = result, .hashed = hashed};

    ok(tb_store_create(&o.s, path, &(struct tb_store_options){.force = true}, &err));
    ok(tb_store_meta(o.s, "argv", "./two", &err));
    ok(tb_store_add_process(o.s, &p, &o.process, &err));
    ok(tb_store_add_thread(o.s, o.process, 0, "main", &o.thread, &err));
    run_script(&o, script);
    ok(tb_store_close(o.s, &err));
}

static struct tb_diff_report *compare_any(const char *script, bool hashed)
{
    const char *pa = job_scratch("a.twinbit"), *pb = job_scratch("b.twinbit");
    struct tb_diff_report *r = NULL;

    write_trace(pa, script, 7, hashed);
    write_trace(pb, script, 8, hashed);
    if (tb_diff_run(&r, pa, pb, NULL, &err) != TB_OK)
        fail_msg("%s", err.text);
    return r;
}

static struct tb_diff_report *compare(const char *script, bool hashed)
{
    struct tb_diff_report *r = compare_any(script, hashed);

    if (r->verdict != TB_DIFF_DIVERGED)
        fail_msg("'%s': %s", script, r->reason);
    return r;
}

static void done(struct tb_diff_report *r)
{
    tb_diff_free(r);
    job_clean();
}

static void assert_race(const char *script, const char *writer)
{
    struct tb_diff_report *r = compare(script, false);
    const struct tb_diff_race *c = &r->roots[0].race;

    if (r->roots[0].cause != TB_CAUSE_STREAM_RACE)
        fail_msg("'%s': %s", script, tb_diff_cause_text(r->roots[0].cause));
    assert_true(c->known && c->sure);
    assert_string_equal(c->event.name.op, "consume");
    assert_string_equal(c->other.name.op, writer);
    done(r);
}

static void assert_no_race(const char *script)
{
    struct tb_diff_report *r = compare(script, false);

    if (r->roots[0].cause != TB_CAUSE_UNEXPLAINED || r->roots[0].race.known)
        fail_msg("'%s': %s", script, tb_diff_cause_text(r->roots[0].cause));
    done(r);
}

static void test_race__streams_without_order_race(void **state)
{
    (void)state;
    assert_race("k0 p1 c2", "produce");
    assert_race("k0 c2 p1", "produce");      /* the reader is not waited for */
    assert_race("p1 d k0 p1 c2", "produce"); /* the second one */
    assert_race("k1 v1 c2 z2", "also");      /* both write */
    assert_race("k1 x1 c2", "cuMemcpyHtoDAsync");
    assert_race("k1 p1 r1 c2", "produce");    /* not waited for */
    assert_race("k1 r1 p1 w2 c2", "produce"); /* recorded before */
    assert_race("k1 p1 w2 r1 c2", "produce"); /* waited for before it was recorded */
    assert_race("k1 p1 r1 w3 c2", "produce"); /* in another stream */
    assert_race("k1 p1 s2 c2", "produce");    /* the wrong one */
    assert_race("k1 p1 s0 c2", "produce");    /* the legacy stream does not wait for it */
    assert_race("k1 p1 k0 c2", "produce");
    assert_race("k1 p5 k0 c2", "produce");       /* 2 does not heed the legacy stream */
    assert_race("k1 k2 r1 p1 q0 c2", "produce"); /* asked about what was before */
}

static void test_race__what_is_ordered_is_none(void **state)
{
    (void)state;
    assert_no_race("p1 c1");
    assert_no_race("k1 p1 r1 w2 c2");
    assert_no_race("k1 p1 r1 w3 r3 w2 c2");
    assert_no_race("k1 p1 r1 e0 c2");
    assert_no_race("k1 p1 s1 c2");
    assert_no_race("k1 p1 d0 c2");
    assert_no_race("k1 p1 h1 c2"); /* the host goes on behind the copy */
    assert_no_race("k1 p0 c5");
    assert_no_race("k1 p5 c0");
    assert_no_race("k1 p5 k0 c6");
    assert_no_race("k1 p5 s0 c2"); /* the host waits for the legacy stream, and so for 5 */
    assert_no_race("k1 p1 r1 q0 c2");
    assert_no_race("k1 p1 Q1 c2");
    assert_no_race("k1 p1 !0 c2");
    assert_no_race("k1 c2 r2 w1 p1");
    assert_no_race("k1 c2 s2 p1");
}

/* Who waits for one device, or queues in its legacy stream, has not waited for the others. */
static void test_race__devices_are_waited_for_one_by_one(void **state)
{
    (void)state;
    assert_race("i k1 k201 p1 g1 c201", "produce");
    assert_race("i k1 k201 p1 g1 c2", "produce");
    assert_race("i k1 k201 p5 k200 c205", "produce");
    assert_race("i k1 k201 p0 c200", "produce");
    assert_race("i k1 k201 p0 c205", "produce");
    assert_race("i k1 k201 p5 s200 c201", "produce");
    assert_no_race("i k1 k201 p1 g0 c201");
    assert_no_race("i k1 k201 p0 g0 c200");
    assert_no_race("i k1 k201 p201 g1 c2");
    assert_no_race("i k1 k201 p205 k200 c206");
    assert_no_race("i k1 k201 p205 s200 c2");
    assert_no_race("i k1 k201 p1 r1 w201 g1 c2"); /* what it had waited for itself */
}

/* As it was recorded before: a wait without a device was for all, and streams were of any. */
static void test_race__waits_and_streams_without_a_device_are_of_all(void **state)
{
    (void)state;
    assert_no_race("i k1 k201 p1 d0 c201");
    assert_no_race("k1 k201 p1 g1 c2");
    assert_no_race("k1 p1 i g1 k201 c201");
}

static void test_race__only_what_was_written_counts(void **state)
{
    (void)state;
    assert_no_race("k1 k2 u1 c2"); /* it left the bytes as they were */
    assert_no_race("k1 m1 c2");    /* it may write anything */
    assert_no_race("k1 k3 c2");
}

static void assert_only_possible(const struct tb_diff_root *root)
{
    assert_int_equal(root->cause, TB_CAUSE_UNEXPLAINED);
    assert_true(root->race.known);
    assert_false(root->race.sure);
    assert_non_null(strstr(root->evidence[3], "only possible: "));
    assert_null(strstr(root->next, "CUDA_LAUNCH_BLOCKING"));
}

/* Their pointers lead to different places: perhaps the parts do not meet. */
static void test_race__one_that_is_only_possible_is_no_cause(void **state)
{
    struct tb_diff_report *r = compare("k1 P1 c2", false);

    (void)state;
    assert_only_possible(&r->roots[0]);
    done(r);
    r = compare("k1 V1 c2 z2", false);
    assert_int_equal(r->infected, 1);
    assert_only_possible(&r->roots[0]);
    done(r);
}

/* An extent that was not cut begins before its pointer: that is where the kernel begins. */
static void test_race__begins_where_the_pointer_leads(void **state)
{
    struct tb_diff_report *r = compare("k1 a1 c2", false);

    (void)state;
    assert_only_possible(&r->roots[0]);
    done(r);
    r = compare("k1 p1 b2", false);
    assert_only_possible(&r->roots[0]);
    done(r);
    assert_race("k1 a1 b2", "uncut");
    assert_race("k1 P1 b2", "elsewhere");
}

/* A torn fingerprint takes no blame from what has a reason of its own, and is no root beside it. */
static void test_race__what_has_its_own_reason_is_the_root(void **state)
{
    struct tb_diff_report *r = compare("k1 V1 c2 t2", false);

    (void)state;
    assert_int_equal(r->root_count, 1);
    assert_string_equal(r->roots[0].a.name.op, "add");
    assert_int_equal(r->roots[0].cause, TB_CAUSE_ACCUMULATION);
    assert_non_null(strstr(r->notes[0].text, "1 fingerprint differs, too, taken while another"));
    done(r);
    r = compare("k1 v1 c2 t2", false); /* the same bytes: that is a race all the same */
    assert_int_equal(r->root_count, 1);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_STREAM_RACE);
    done(r);
}

/* Both write, and perhaps parts that do not meet: then the difference is perhaps only of the moment
 * of the fingerprint, unless something follows from it. */
static void assert_may_be_torn(const char *script)
{
    struct tb_diff_report *r = compare_any(script, false);
    const struct tb_diff_root *root = &r->roots[0];

    if (r->verdict != TB_DIFF_UNKNOWN)
        fail_msg("'%s': %s", script, r->reason);
    assert_non_null(strstr(r->reason, "consume#0, b differs, and nothing after it: it may hold "
                                      "what another stream wrote meanwhile"));
    assert_int_equal(r->root_count, 1);
    assert_true(root->torn && root->race.known && !root->race.sure);
    assert_int_equal(root->cause, TB_CAUSE_UNEXPLAINED);
    assert_non_null(strstr(root->evidence[5], "the two may write parts that do not meet"));
    assert_non_null(strstr(root->next, "CUDA_LAUNCH_BLOCKING"));
    done(r);
}

static void assert_settled(const char *script)
{
    struct tb_diff_report *r = compare_any(script, false);

    if (r->verdict != TB_DIFF_IDENTICAL)
        fail_msg("'%s': %s", script, r->reason);
    assert_int_equal(r->root_count, 0);
    assert_int_equal(r->note_count, 1);
    assert_non_null(strstr(r->notes[0].text, "1 fingerprint differs, taken while another stream or "
                                             "node of its graph may have written there"));
    done(r);
}

static void test_race__a_fingerprint_that_may_be_torn_is_no_divergence(void **state)
{
    (void)state;
    assert_may_be_torn("k1 v1 c2");
    assert_may_be_torn("k1 V1 c2");
    assert_may_be_torn("k1 c2 v1");
    assert_may_be_torn("k1 v1 c2 s1 s2 h0"); /* a copy of other memory */
    assert_may_be_torn("k1 v1 c2 s1 H3");    /* not behind both */
    assert_may_be_torn("k1 c2 |0 k3 v1 |0"); /* a step later */
    assert_settled("k1 c2 |0 k3 v1 s2 s1 H0 |0");
    assert_settled("k1 v1 c2 s1 s2 H0");
    assert_settled("k1 v1 c2 d0 v1");
    assert_settled("k1 c2 V1 d0 k1 H0");
}

static void test_race__a_torn_fingerprint_with_a_result_is_one(void **state)
{
    struct tb_diff_report *r;

    (void)state;
    assert_race("k1 v1 c2 s1 s2 D0", "also");
    assert_race("k1 v1 c2 s1 s2 H0 D0", "also");
    assert_no_race("k1 c2 D2");
    r = compare("k1 c2 v1 s1 s2 D0", false); /* the last one to write it is equal */
    assert_int_equal(r->roots[0].cause, TB_CAUSE_STREAM_RACE);
    assert_string_equal(r->roots[0].a.name.op, "cuMemcpyDtoH");
    assert_string_equal(r->roots[0].race.event.name.op, "also");
    assert_string_equal(r->roots[0].race.other.name.op, "consume");
    done(r);
}

/* What leaves for the host has a fingerprint of its own. */
static void test_race__shows_in_what_leaves_for_the_host(void **state)
{
    struct tb_diff_report *r = compare("k1 p1 p2 s1 s2 A0", false);

    (void)state;
    assert_int_equal(r->roots[0].cause, TB_CAUSE_STREAM_RACE);
    assert_string_equal(r->roots[0].a.name.op, "cuMemcpyDtoH");
    done(r);
    r = compare("k1 p1 s1 A0", false);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_UNSEEN_WRITER);
    done(r);
    r = compare("k1 n1 s1 A0", false);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_UNEXPLAINED);
    assert_non_null(strstr(r->roots[0].evidence[0], "unhashed#0, without a fingerprint"));
    done(r);
}

/* Nobody sees what a host function orders: that is said. */
static void test_race__is_less_sure_beside_host_functions(void **state)
{
    struct tb_diff_report *r = compare("k1 p1 f0 c2", false);

    (void)state;
    assert_int_equal(r->roots[0].cause, TB_CAUSE_STREAM_RACE);
    assert_true(r->roots[0].race.host);
    assert_non_null(strstr(r->roots[0].evidence[3], "queues host functions"));
    done(r);
    r = compare("k1 p1 c2", false);
    assert_false(r->roots[0].race.host);
    assert_non_null(strstr(r->roots[0].evidence[3], "likely: both begin at the same byte; a flag"));
    done(r);
}

static void test_race__is_named_with_both_its_events(void **state)
{
    struct tb_diff_report *r = compare("k0 k2 c2 p1", false);
    const struct tb_diff_root *root = &r->roots[0];
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    (void)state;
    assert_true(root->race.later && root->race.read);
    assert_int_equal(root->race.stream, 2);
    assert_int_equal(root->race.other_stream, 1);
    assert_int_equal(root->race.lo, 0);
    assert_int_equal(root->race.hi, 64);
    assert_non_null(strstr(root->evidence[0], "produce#0 (stream 1) writes bytes 0..64 of 'a', "
                                              "which consume#0 (stream 2) reads"));
    assert_non_null(strstr(root->evidence[2], "recorded in stream 2 behind consume#0, and waited "
                                              "for in stream 1 before produce#0"));
    assert_string_equal(root->next, "CUDA_LAUNCH_BLOCKING=1 twinbit run -n 3 -- ./two");
    tb_diff_text(r, f, false);
    (void)fclose(f);
    assert_non_null(strstr(text, "cause       race between streams 2 and 1: consume#0 and "
                                 "produce#0 are not ordered"));
    free(text);
    done(r);
}

/* The read differs, and its last writer wrote the same in both runs: that one came at any time. */
static void test_race__explains_an_unseen_writer(void **state)
{
    struct tb_diff_report *r = compare("k1 p1 c2", true);

    (void)state;
    assert_int_equal(r->roots[0].cause, TB_CAUSE_STREAM_RACE);
    done(r);
    r = compare("k1 p1 s1 c2", true);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_UNSEEN_WRITER);
    done(r);
}

/* Of more streams than are followed nothing is said; events that are forgotten were waited for. */
static void test_race__is_not_made_of_what_was_forgotten(void **state)
{
    char script[2048] = "k1 p1 ";
    size_t n = strlen(script);

    (void)state;
    for (unsigned i = 10; i < 10 + TB_ORDER_STREAMS; i++)
        n += (size_t)snprintf(script + n, sizeof(script) - n, "k%u ", i);
    (void)snprintf(script + n, sizeof(script) - n, "c2");
    assert_no_race(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_race__streams_without_order_race),
        cmocka_unit_test(test_race__what_is_ordered_is_none),
        cmocka_unit_test(test_race__devices_are_waited_for_one_by_one),
        cmocka_unit_test(test_race__waits_and_streams_without_a_device_are_of_all),
        cmocka_unit_test(test_race__only_what_was_written_counts),
        cmocka_unit_test(test_race__one_that_is_only_possible_is_no_cause),
        cmocka_unit_test(test_race__begins_where_the_pointer_leads),
        cmocka_unit_test(test_race__what_has_its_own_reason_is_the_root),
        cmocka_unit_test(test_race__a_fingerprint_that_may_be_torn_is_no_divergence),
        cmocka_unit_test(test_race__a_torn_fingerprint_with_a_result_is_one),
        cmocka_unit_test(test_race__shows_in_what_leaves_for_the_host),
        cmocka_unit_test(test_race__is_less_sure_beside_host_functions),
        cmocka_unit_test(test_race__is_named_with_both_its_events),
        cmocka_unit_test(test_race__explains_an_unseen_writer),
        cmocka_unit_test(test_race__is_not_made_of_what_was_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
