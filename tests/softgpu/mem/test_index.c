#include "softgpu/mem/index.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sg_index *fresh(size_t words)
{
    struct sg_index *ix = NULL;

    assert_int_equal(sg_index_new(words, &ix, NULL), TB_OK);
    return ix;
}

static void test_index__finds_the_range_that_holds_an_address(void **state)
{
    struct sg_index *ix = fresh(2);
    uint64_t v[2] = {7, 8}, got[2] = {0}, base = 0, size = 0;

    (void)state;
    assert_int_equal(sg_index_put(ix, 100, 50, v, NULL), TB_OK);
    assert_true(sg_index_find(ix, 100, &base, &size, got));
    assert_int_equal(base, 100);
    assert_int_equal(size, 50);
    assert_memory_equal(got, v, sizeof(v));
    assert_true(sg_index_find(ix, 149, NULL, NULL, NULL));
    assert_false(sg_index_find(ix, 150, NULL, NULL, NULL));
    assert_false(sg_index_find(ix, 99, NULL, NULL, NULL));
    assert_true(sg_index_next(ix, 0, &base, NULL, NULL));
    assert_int_equal(base, 100);
    assert_false(sg_index_next(ix, 150, NULL, NULL, NULL));
    sg_index_free(ix);
}

static void test_index__refuses_what_meets_another_range(void **state)
{
    struct sg_index *ix = fresh(1);
    static const struct {
        uint64_t addr, size;
        enum tb_status want;
    } cases[] = {
        {100, 50, TB_ERR_EXISTS},
        {90, 11, TB_ERR_EXISTS},
        {149, 1, TB_ERR_EXISTS},
        {110, 5, TB_ERR_EXISTS},
        {50, 200, TB_ERR_EXISTS},
        {0, 0, TB_ERR_ARG},
        {UINT64_MAX, 2, TB_ERR_ARG},
        {90, 10, TB_OK},
        {150, 1, TB_OK},
        {UINT64_MAX, 1, TB_OK},
        {UINT64_MAX - 9, 9, TB_OK},
    };
    uint64_t v = 1;

    (void)state;
    assert_int_equal(sg_index_put(ix, 100, 50, &v, NULL), TB_OK);
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++)
        assert_int_equal(sg_index_put(ix, cases[i].addr, cases[i].size, &v, NULL), cases[i].want);
    assert_true(sg_index_find(ix, UINT64_MAX, NULL, NULL, NULL));
    sg_index_free(ix);
}

static void test_index__only_the_first_byte_removes_or_updates(void **state)
{
    struct sg_index *ix = fresh(1);
    uint64_t v = 1, w = 2, got = 0;

    (void)state;
    assert_int_equal(sg_index_put(ix, 100, 50, &v, NULL), TB_OK);
    assert_false(sg_index_remove(ix, 101, NULL));
    assert_false(sg_index_update(ix, 101, &w));
    assert_true(sg_index_update(ix, 100, &w));
    assert_true(sg_index_remove(ix, 100, &got));
    assert_int_equal(got, 2);
    assert_int_equal(sg_index_count(ix), 0);
    sg_index_free(ix);
}

/* Against a plain array: 20,000 seeded puts and removes in 512 places. */
static void test_index__agrees_with_a_plain_array(void **state)
{
    struct sg_index *ix = fresh(1);
    uint64_t model[512] = {0}, rng = 88172645463325252u, got;

    (void)state;
    for (uint64_t step = 1; step <= 20000; step++) {
        size_t at;

        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        at = rng % 512;
        if (model[at]) {
            assert_true(sg_index_remove(ix, at * 16, &got));
            assert_int_equal(got, model[at]);
            model[at] = 0;
        } else {
            assert_int_equal(sg_index_put(ix, at * 16, 16, &step, NULL), TB_OK);
            model[at] = step;
        }
        at = (rng >> 20) % 512;
        assert_int_equal(sg_index_find(ix, at * 16 + 7, NULL, NULL, &got), model[at] != 0);
        if (model[at])
            assert_int_equal(got, model[at]);
    }
    sg_index_free(ix);
}

struct race {
    struct sg_index *ix;
    atomic_int stop, torn, found;
};

static void *reader(void *arg)
{
    struct race *r = arg;
    uint64_t v[4], base, size;

    while (!atomic_load(&r->stop)) {
        for (uint64_t a = 0; a < 300; a++) {
            if (!sg_index_find(r->ix, a * 64 + 5, &base, &size, v))
                continue;
            atomic_fetch_add(&r->found, 1);
            if (base != a * 64 || size != 64 || v[0] != v[1] || v[1] != v[2] || v[2] != v[3] ||
                v[0] / 1000 != a)
                atomic_fetch_add(&r->torn, 1);
        }
    }
    return NULL;
}

static void test_index__readers_never_see_half_a_change(void **state)
{
    struct race r = {.ix = fresh(4)};
    pthread_t t;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, reader, &r), 0);
    for (unsigned round = 0; round < 60; round++) {
        for (uint64_t a = 0; a < 300; a++) {
            uint64_t x = a * 1000 + round, v[4] = {x, x, x, x};

            if (round % 3 == 0)
                assert_int_equal(sg_index_put(r.ix, a * 64, 64, v, NULL), TB_OK);
            else if (round % 3 == 1)
                assert_true(sg_index_update(r.ix, a * 64, v));
            else
                assert_true(sg_index_remove(r.ix, a * 64, NULL));
        }
    }
    atomic_store(&r.stop, 1);
    pthread_join(t, NULL);
    assert_int_equal(atomic_load(&r.torn), 0);
    sg_index_free(r.ix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index__finds_the_range_that_holds_an_address),
        cmocka_unit_test(test_index__refuses_what_meets_another_range),
        cmocka_unit_test(test_index__only_the_first_byte_removes_or_updates),
        cmocka_unit_test(test_index__agrees_with_a_plain_array),
        cmocka_unit_test(test_index__readers_never_see_half_a_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
