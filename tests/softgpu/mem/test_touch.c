#include "softgpu/mem/touch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 64

struct seen {
    size_t n, stop;
    uint64_t addr[MOST], bytes[MOST];
    enum sg_touch_kind kind[MOST];
};

static bool note(void *arg, uint64_t addr, uint64_t n, enum sg_touch_kind kind)
{
    struct seen *s = arg;

    assert_true(s->n < MOST);
    s->addr[s->n] = addr;
    s->bytes[s->n] = n;
    s->kind[s->n++] = kind;
    return s->n != s->stop;
}

static struct sg_touch *fresh(void)
{
    struct sg_touch *t = NULL;

    assert_int_equal(sg_touch_new(&t, NULL), TB_OK);
    return t;
}

static void assert_range(const struct seen *s, size_t i, uint64_t addr, uint64_t n,
                         enum sg_touch_kind kind)
{
    assert_true(i < s->n);
    assert_int_equal(s->addr[i], addr);
    assert_int_equal(s->bytes[i], n);
    assert_int_equal(s->kind[i], kind);
}

static void test_touch__nothing_marked_is_no_range(void **state)
{
    struct sg_touch *t = fresh();
    struct seen s = {0};

    (void)state;
    sg_touch_mark(t, 100, 0, SG_TOUCH_READ);
    sg_touch_each(t, note, &s);
    assert_int_equal(s.n, 0);
    sg_touch_free(t);
}

static void test_touch__ranges_are_joined_and_ascend(void **state)
{
    struct sg_touch *t = fresh();
    struct seen s = {0};

    (void)state;
    sg_touch_mark(t, 5000, 4, SG_TOUCH_WRITE);
    sg_touch_mark(t, 600, 8, SG_TOUCH_READ);
    sg_touch_mark(t, 592, 8, SG_TOUCH_READ);
    sg_touch_mark(t, 509, 6, SG_TOUCH_READ); /* across a line */
    sg_touch_mark(t, 4996, 4, SG_TOUCH_WRITE);
    sg_touch_mark(t, 5000, 4, SG_TOUCH_ATOMIC);
    sg_touch_each(t, note, &s);
    assert_int_equal(s.n, 4);
    assert_range(&s, 0, 509, 6, SG_TOUCH_READ);
    assert_range(&s, 1, 592, 16, SG_TOUCH_READ);
    assert_range(&s, 2, 4996, 8, SG_TOUCH_WRITE);
    assert_range(&s, 3, 5000, 4, SG_TOUCH_ATOMIC);
    sg_touch_free(t);
}

static void test_touch__a_long_range_is_one_and_telling_can_stop(void **state)
{
    struct sg_touch *t = fresh();
    struct seen s = {0}, first = {.stop = 1};

    (void)state;
    sg_touch_mark(t, 12345, 1000000, SG_TOUCH_WRITE);
    sg_touch_mark(t, 3000000, 64, SG_TOUCH_WRITE);
    sg_touch_each(t, note, &s);
    assert_int_equal(s.n, 2);
    assert_range(&s, 0, 12345, 1000000, SG_TOUCH_WRITE);
    assert_range(&s, 1, 3000000, 64, SG_TOUCH_WRITE);
    sg_touch_each(t, note, &first);
    assert_int_equal(first.n, 1);
    sg_touch_free(t);
}

/* Against a plain array of bytes. */
static void test_touch__marks_merges_and_clears_as_an_array_would(void **state)
{
    enum { SPAN = 8192 };
    static unsigned char want[SG_TOUCH_KINDS][SPAN], got[SG_TOUCH_KINDS][SPAN];
    struct sg_touch *t[2] = {fresh(), fresh()};

    (void)state;
    srand(5);
    for (int i = 0; i < 30; i++) {
        uint64_t at = (uint64_t)rand() % (SPAN - 600), n = (uint64_t)rand() % 600;
        enum sg_touch_kind kind = (enum sg_touch_kind)(rand() % SG_TOUCH_KINDS);

        sg_touch_mark(t[i % 2], at, n, kind);
        memset(want[kind] + at, 1, n);
        if (i == 15) /* marking goes on after telling */
            sg_touch_each(t[0], note, &(struct seen){.stop = 1});
    }
    sg_touch_merge(t[0], t[1]);
    struct seen s = {0};
    sg_touch_each(t[0], note, &s);
    for (size_t i = 0; i < s.n; i++)
        memset(got[s.kind[i]] + s.addr[i], 1, s.bytes[i]);
    assert_memory_equal(got, want, sizeof(want));
    assert_false(sg_touch_lost(t[0]));
    sg_touch_clear(t[0]);
    s = (struct seen){0};
    sg_touch_each(t[0], note, &s);
    assert_int_equal(s.n, 0);
    sg_touch_free(t[0]);
    sg_touch_free(t[1]);
    sg_touch_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_touch__nothing_marked_is_no_range),
        cmocka_unit_test(test_touch__ranges_are_joined_and_ascend),
        cmocka_unit_test(test_touch__a_long_range_is_one_and_telling_can_stop),
        cmocka_unit_test(test_touch__marks_merges_and_clears_as_an_array_would),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
