/* Which work of a GPU is before which, and what is only so if another thread's wait was in time. */
#include "recorder/wire.h"
#include "store/store.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MAIN = 1, FIRST, SECOND };

static struct tb_work_order event(struct tb_order *o, uint32_t thread, uint8_t kind,
                                  const char *name, uint64_t stream)
{
    const struct tb_site_access line = {.mode = 'q', .argument = "stream"};
    const struct tb_site site = {.name = name, .access_count = 1, .access = &line};
    const struct tb_store_access access = {.alloc = TB_ALLOC_STREAM + stream,
                                           .offset = TB_ORDER_FREE};
    const struct tb_store_event e = {.thread = thread, .kind = kind};
    struct tb_work_order w = {0};

    assert_int_equal(tb_order_event(o, &e, &site, &access, &w), kind != TB_EV_SYNC);
    return w;
}

static struct tb_work_order launch(struct tb_order *o, uint32_t thread, uint64_t stream)
{
    return event(o, thread, TB_EV_LAUNCH, "kernel", stream);
}

static void wait_for(struct tb_order *o, uint32_t thread, uint64_t stream)
{
    (void)event(o, thread, TB_EV_SYNC, "cuStreamSynchronize", stream);
}

static void test_one_thread(void **state)
{
    struct tb_order *o = tb_order_new();

    (void)state;
    struct tb_work_order a = launch(o, MAIN, 1);
    struct tb_work_order b = launch(o, MAIN, 2);
    assert_true(b.known->at[a.lane] < a.clock);
    assert_true(b.sure->at[a.lane] < a.clock);
    wait_for(o, MAIN, 1);
    b = launch(o, MAIN, 2);
    assert_true(b.known->at[a.lane] >= a.clock);
    assert_true(b.sure->at[a.lane] >= a.clock);
    tb_order_free(o);
}

/* A call may have begun before the wait of another thread was over, but not before its thread's
 * last event. */
static void test_other_thread(void **state)
{
    struct tb_order *o = tb_order_new();

    (void)state;
    (void)launch(o, MAIN, 3);
    struct tb_work_order a = launch(o, FIRST, 1);
    (void)launch(o, SECOND, 2);
    wait_for(o, FIRST, 1);
    struct tb_work_order b = launch(o, SECOND, 2);
    assert_true(b.known->at[a.lane] >= a.clock);
    assert_true(b.sure->at[a.lane] < a.clock);
    b = launch(o, SECOND, 2);
    assert_true(b.sure->at[a.lane] >= a.clock);
    struct tb_work_order own = launch(o, FIRST, 4);
    assert_true(own.sure->at[a.lane] >= a.clock);
    tb_order_free(o);
}

/* When a thread began is not known: nothing was surely done by then. */
static void test_new_thread(void **state)
{
    struct tb_order *o = tb_order_new();

    (void)state;
    struct tb_work_order a = launch(o, FIRST, 1);
    wait_for(o, FIRST, 1);
    struct tb_work_order b = launch(o, SECOND, 2);
    assert_true(b.known->at[a.lane] >= a.clock);
    assert_true(b.sure->at[a.lane] < a.clock);
    b = launch(o, SECOND, 2);
    assert_true(b.sure->at[a.lane] >= a.clock);
    tb_order_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_thread),
                                       cmocka_unit_test(test_other_thread),
                                       cmocka_unit_test(test_new_thread)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
