/* Happens-before between works: order.h, by hand and against a plain model. */
#include "softgpu/driver/order.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 400

struct told {
    unsigned n;
    int tag[MOST];
    enum sg_access_kind kind[MOST];
    uint64_t addr[MOST], bytes[MOST];
};

struct item { /* a work and what it knows */
    struct sg_clock clock;
    struct sg_epoch epoch;
    int tag;
};

static void tell(void *arg, const void *tag, enum sg_access_kind kind, uint64_t addr, uint64_t n)
{
    struct told *t = arg;

    assert_true(t->n < MOST);
    memcpy(&t->tag[t->n], tag, sizeof(int));
    t->kind[t->n] = kind;
    t->addr[t->n] = addr;
    t->bytes[t->n++] = n;
}

static struct item begin(struct sg_order *o, int tag, const struct item *after)
{
    struct item i = {.tag = tag};
    uint32_t hint = 0;

    if (after)
        sg_clock_join(&i.clock, &after->clock);
    i.epoch = sg_order_begin(o, &i.clock, &hint, &tag, sizeof(tag));
    return i;
}

static struct told touch(struct sg_order *o, const struct item *i, uint64_t addr, uint64_t n,
                         enum sg_access_kind kind)
{
    struct told t = {0};

    sg_order_access(o, i->epoch, &i->clock, addr, n, kind, tell, &t);
    return t;
}

static void test_order__two_writes_that_nothing_orders_are_told_once(void **state)
{
    struct sg_order *o = sg_order_new();
    struct item a = begin(o, 1, NULL), b = begin(o, 2, NULL);
    struct told t;

    (void)state;
    assert_int_equal(touch(o, &a, 1000, 50000, SG_ACCESS_WRITE).n, 0);
    t = touch(o, &b, 40000, 100000, SG_ACCESS_WRITE);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.tag[0], 1);
    assert_int_equal(t.kind[0], SG_ACCESS_WRITE);
    assert_int_equal(t.addr[0], 40000);
    assert_int_equal(touch(o, &b, 0, 1000, SG_ACCESS_WRITE).n, 0);
    sg_clock_release(&a.clock);
    sg_clock_release(&b.clock);
    sg_order_free(o);
}

static void test_order__an_edge_orders_all_before_it(void **state)
{
    struct sg_order *o = sg_order_new();
    struct item a = begin(o, 1, NULL), b = begin(o, 2, &a), c = begin(o, 3, &b);

    (void)state;
    assert_int_equal(a.epoch.chain, c.epoch.chain); /* one chain is enough */
    touch(o, &a, 0, 64, SG_ACCESS_WRITE);
    touch(o, &b, 64, 64, SG_ACCESS_READ);
    assert_int_equal(touch(o, &c, 0, 128, SG_ACCESS_WRITE).n, 0);
    sg_clock_release(&a.clock);
    sg_clock_release(&b.clock);
    sg_clock_release(&c.clock);
    sg_order_free(o);
}

static void test_order__reads_and_atomics_meet_only_writes(void **state)
{
    struct sg_order *o = sg_order_new();
    struct item a = begin(o, 1, NULL), b = begin(o, 2, NULL), c = begin(o, 3, NULL);

    (void)state;
    assert_int_equal(touch(o, &a, 0, 8, SG_ACCESS_READ).n, 0);
    assert_int_equal(touch(o, &b, 0, 8, SG_ACCESS_READ).n, 0);
    assert_int_equal(touch(o, &c, 0, 8, SG_ACCESS_WRITE).n, 2);
    assert_int_equal(touch(o, &a, 8, 8, SG_ACCESS_ATOMIC).n, 0);
    assert_int_equal(touch(o, &b, 8, 8, SG_ACCESS_ATOMIC).n, 0);
    assert_int_equal(touch(o, &c, 8, 8, SG_ACCESS_READ).n, 1); /* of the newest */
    assert_int_equal(touch(o, &c, 16, 8, SG_ACCESS_WRITE).n, 0);
    assert_int_equal(touch(o, &c, 16, 8, SG_ACCESS_READ).n, 0); /* its own */
    assert_int_equal(touch(o, &a, 16, 8, SG_ACCESS_ATOMIC).n, 1);
    sg_clock_release(&a.clock);
    sg_clock_release(&b.clock);
    sg_clock_release(&c.clock);
    sg_order_free(o);
}

static void test_order__what_is_forgotten_or_known_to_all_is_no_conflict(void **state)
{
    struct sg_order *o = sg_order_new();
    struct item a = begin(o, 1, NULL), b = begin(o, 2, NULL);
    struct item c = {0};
    uint32_t hint = 9;
    int tag = 3;

    (void)state;
    touch(o, &a, 0, 100, SG_ACCESS_WRITE);
    sg_order_forget(o, 10, 50);
    assert_int_equal(touch(o, &b, 10, 50, SG_ACCESS_WRITE).n, 0);
    assert_int_equal(touch(o, &b, 0, 10, SG_ACCESS_READ).n, 1);
    assert_int_equal(touch(o, &b, 60, 1, SG_ACCESS_READ).n, 1);
    sg_order_all(o, &c.clock);
    c.epoch = sg_order_begin(o, &c.clock, &hint, &tag, sizeof(tag));
    assert_int_equal(touch(o, &c, 0, 100, SG_ACCESS_WRITE).n, 0);
    sg_clock_release(&a.clock);
    sg_clock_release(&b.clock);
    sg_clock_release(&c.clock);
    sg_order_free(o);
}

/* ---- against a model: who reaches whom, and the last write of each byte ---------------------- */

enum { WORKS = 200, BYTES = 40000, STREAMS = 5 };

static bool before[WORKS][WORKS];
static int last_write[BYTES];

static unsigned draw(unsigned n)
{
    return (unsigned)rand() % n;
}

/* Writes only: then one conflict for each work that wrote some byte last and is not before. */
static void compare(const struct told *t, int me, unsigned from, unsigned n)
{
    bool want[WORKS] = {false}, got[WORKS] = {false};

    for (unsigned i = 0; i < t->n; i++)
        got[t->tag[i]] = true;
    for (unsigned i = from; i < from + n; i++) {
        int w = last_write[i];

        if (w >= 0 && w != me && !before[w][me])
            want[w] = true;
        last_write[i] = me;
    }
    assert_memory_equal(got, want, sizeof(want));
}

static void test_order__finds_what_a_model_finds(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct sg_order *o = sg_order_new();
        static struct item items[WORKS];
        int newest[STREAMS] = {-1, -1, -1, -1, -1};

        srand(seed);
        memset(before, 0, sizeof(before));
        memset(last_write, 0xff, sizeof(last_write));
        for (int me = 0; me < WORKS; me++) {
            unsigned s = draw(STREAMS), n = 1 + draw(9000), from = draw(BYTES - 9000);
            int preds[2] = {newest[s], draw(4) == 0 ? newest[draw(STREAMS)] : -1};
            uint32_t hint = s;
            struct told t;

            items[me] = (struct item){.tag = me};
            for (unsigned k = 0; k < 2; k++) {
                if (preds[k] < 0)
                    continue;
                sg_clock_join(&items[me].clock, &items[preds[k]].clock);
                before[preds[k]][me] = true;
                for (int i = 0; i < me; i++)
                    before[i][me] |= before[i][preds[k]];
            }
            items[me].epoch = sg_order_begin(o, &items[me].clock, &hint, &me, sizeof(me));
            t = touch(o, &items[me], from, n, SG_ACCESS_WRITE);
            compare(&t, me, from, n);
            newest[s] = me;
        }
        for (int i = 0; i < WORKS; i++)
            sg_clock_release(&items[i].clock);
        sg_order_free(o);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

static struct sg_order *shared;
static atomic_uint conflicts;

static void count(void *arg, const void *tag, enum sg_access_kind kind, uint64_t addr, uint64_t n)
{
    (void)arg;
    (void)tag;
    (void)kind;
    (void)addr;
    (void)n;
    atomic_fetch_add(&conflicts, 1);
}

static void *worker(void *arg)
{
    struct sg_clock clock = {0};
    uint32_t hint = 0;
    int tag = (int)(intptr_t)arg;

    for (unsigned i = 0; i < 200; i++) {
        struct sg_epoch e = sg_order_begin(shared, &clock, &hint, &tag, sizeof(tag));

        sg_order_access(shared, e, &clock, (uint64_t)tag * 1000000 + i, 5000, SG_ACCESS_WRITE,
                        count, NULL);
        sg_order_access(shared, e, &clock, 0, 100, SG_ACCESS_READ, count, NULL);
        if (i % 50 == 0)
            sg_order_forget(shared, (uint64_t)tag * 1000000, 1000);
    }
    sg_clock_release(&clock);
    return NULL;
}

static void test_order__threads_may_enter_accesses_at_once(void **state)
{
    pthread_t t[4];

    (void)state;
    shared = sg_order_new();
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, worker, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(conflicts, 0);
    sg_order_free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order__two_writes_that_nothing_orders_are_told_once),
        cmocka_unit_test(test_order__an_edge_orders_all_before_it),
        cmocka_unit_test(test_order__reads_and_atomics_meet_only_writes),
        cmocka_unit_test(test_order__what_is_forgotten_or_known_to_all_is_no_conflict),
        cmocka_unit_test(test_order__finds_what_a_model_finds),
        cmocka_unit_test(test_order__threads_may_enter_accesses_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
