/* rangemap and the forgetting table against plain references that keep everything */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diff/diff_internal.h"

#define BYTES 64
#define ALLOCS 5
#define WRITES 400

static uint64_t rng_state;

static uint64_t rnd(uint64_t n)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (rng_state >> 11) % n;
}

/* ---------------------------------------------------------------- table */

static void test_table__finds_what_was_put(void **state)
{
    struct gentab t;

    (void)state;
    gentab_init(&t, 1 << 20);
    for (uint64_t k = 1; k < 20000; k++) {
        struct gentab_slot *s = gentab_put(&t, k * 0x9E3779B97F4A7C15u);
        assert_non_null(s);
        s->value = k;
        s->aux = (uint32_t)k + 1;
    }
    for (uint64_t k = 1; k < 20000; k++) {
        struct gentab_slot *s = gentab_get(&t, k * 0x9E3779B97F4A7C15u);
        assert_non_null(s);
        assert_int_equal(s->value, k);
        assert_int_equal(s->aux, k + 1);
    }
    assert_null(gentab_get(&t, 12345));
    assert_false(t.forgot);
    gentab_release(&t);
}

static void test_table__forgets_what_was_not_touched(void **state)
{
    struct gentab t;

    (void)state;
    gentab_init(&t, 100);
    gentab_put(&t, 1)->value = 7;
    for (uint64_t k = 2; k < 1000; k++) {
        assert_non_null(gentab_put(&t, k));
        assert_int_equal(gentab_get(&t, 1)->value, 7); /* touched all the time: it stays */
    }
    assert_true(t.forgot);
    assert_null(gentab_get(&t, 2));
    assert_non_null(gentab_get(&t, 999));
    gentab_release(&t);
}

/* ---------------------------------------------------------------- rangemap */

/* Every byte's last dense writer before each number, the plain way */
struct reference {
    uint64_t writer[WRITES + 1][ALLOCS][BYTES]; /* by number of writes done */
};

static void compare(struct rangemap *m, const struct reference *ref, uint64_t open, uint64_t alloc,
                    int64_t lo, int64_t hi)
{
    struct range_vec v = {0};
    int64_t at = lo;

    assert_int_equal(rangemap_resolve(m, alloc + 1, lo, hi, open, &v), TB_OK);
    for (size_t i = 0; i < v.n; i++) {
        assert_int_equal(v.r[i].lo, at);
        assert_true(v.r[i].hi > v.r[i].lo);
        for (int64_t b = v.r[i].lo; b < v.r[i].hi; b++) {
            uint64_t w = ref->writer[open][alloc][b];
            assert_int_equal(v.r[i].writer, w);
            assert_int_equal(v.r[i].token, w ? w * 2 + 1 : 0);
        }
        at = v.r[i].hi;
    }
    assert_int_equal(at, hi);
    free(v.r);
}

static void test_rangemap__resolves_as_a_byte_map(void **state)
{
    struct reference *ref = calloc(1, sizeof(*ref));

    (void)state;
    assert_non_null(ref);
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct rangemap *m = rangemap_new();
        rng_state = seed * 7919;
        memset(ref, 0, sizeof(*ref));
        assert_non_null(m);
        for (uint64_t n = 0; n < WRITES; n++) { /* write n has number n */
            uint64_t alloc = rnd(ALLOCS);
            int64_t lo = (int64_t)rnd(BYTES), hi = lo + 1 + (int64_t)rnd((uint64_t)(BYTES - lo));
            struct range r = {.lo = lo,
                              .hi = hi,
                              .start = lo,
                              .token = (n + 1) * 2 + 1,
                              .lineage = n + 1,
                              .writer = n + 1,
                              .seq = n};
            assert_int_equal(rangemap_write(m, alloc + 1, &r, true), TB_OK);
            memcpy(ref->writer[n + 1], ref->writer[n], sizeof(ref->writer[n]));
            for (int64_t b = lo; b < hi; b++)
                ref->writer[n + 1][alloc][b] = n + 1;
            for (int q = 0; q < 4; q++) { /* now, and some numbers ago */
                uint64_t back = rnd(n + 1 < 30 ? n + 1 : 30);
                int64_t from = (int64_t)rnd(BYTES);
                compare(m, ref, n + 1 - back, rnd(ALLOCS), from,
                        from + 1 + (int64_t)rnd((uint64_t)(BYTES - from)));
            }
        }
        rangemap_free(m);
    }
    free(ref);
}

static struct range whole(uint64_t token, uint64_t seq)
{
    return (struct range){
        .lo = 0, .hi = 64, .token = token, .lineage = seq + 1, .writer = seq + 1, .seq = seq};
}

static uint64_t token_at(struct rangemap *m, uint64_t alloc, int64_t at)
{
    struct range_vec v = {0};

    assert_int_equal(rangemap_resolve(m, alloc, at, at + 1, UINT64_MAX, &v), TB_OK);
    assert_int_equal(v.n, 1);
    uint64_t t = v.r[0].token;
    free(v.r);
    return t;
}

static void test_rangemap__strided_write_keeps_what_lay_between(void **state)
{
    struct rangemap *m[2] = {rangemap_new(), rangemap_new()};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct range old = whole(i ? 9 : 11, 0), strided = whole(21, 1);
        assert_int_equal(rangemap_write(m[i], 1, &old, true), TB_OK);
        assert_int_equal(rangemap_write(m[i], 1, &strided, false), TB_OK);
    }
    assert_int_not_equal(token_at(m[0], 1, 5), token_at(m[1], 1, 5)); /* the gaps still differ */
    for (int i = 0; i < 2; i++) {
        struct range fresh = whole(33, 2);
        assert_int_equal(rangemap_write(m[i], 1, &fresh, true), TB_OK);
    }
    assert_int_equal(token_at(m[0], 1, 5), token_at(m[1], 1, 5)); /* healed */
    rangemap_free(m[0]);
    rangemap_free(m[1]);
}

static void test_rangemap__many_pieces_fold_alike(void **state)
{
    struct rangemap *m[3] = {rangemap_new(), rangemap_new(), rangemap_new()};

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < 5000; k++) {
            struct range r = {.lo = k * 8,
                              .hi = k * 8 + 4,
                              .start = k * 8,
                              .token = (uint64_t)(k == 77 && i == 2 ? 3 : 2 * k + 1),
                              .lineage = (uint64_t)k + 1,
                              .writer = (uint64_t)k + 1,
                              .seq = (uint64_t)k};
            assert_int_equal(rangemap_write(m[i], 1, &r, true), TB_OK);
        }
    assert_int_equal(token_at(m[0], 1, 8), token_at(m[1], 1, 8));
    assert_int_not_equal(token_at(m[0], 1, 8), token_at(m[2], 1, 8));
    for (int i = 0; i < 3; i++)
        rangemap_free(m[i]);
}

static void test_rangemap__memory_is_bounded(void **state)
{
    struct rangemap *m = rangemap_new();

    (void)state;
    for (uint64_t a = 1; a < 1200000; a++) {
        struct range r = whole(2 * a + 1, a);
        assert_int_equal(rangemap_write(m, a, &r, true), TB_OK);
        r.writer = 77;
        if (a % 1000 == 0) /* an old allocation that is in use stays known */
            assert_int_equal(rangemap_write(m, 5, &r, true), TB_OK);
    }
    assert_true(rangemap_forgot(m));
    assert_int_equal(token_at(m, 6, 1), 0);
    assert_int_not_equal(token_at(m, 5, 1), 0);
    assert_int_not_equal(token_at(m, 1199999, 1), 0);
    rangemap_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table__finds_what_was_put),
        cmocka_unit_test(test_table__forgets_what_was_not_touched),
        cmocka_unit_test(test_rangemap__resolves_as_a_byte_map),
        cmocka_unit_test(test_rangemap__strided_write_keeps_what_lay_between),
        cmocka_unit_test(test_rangemap__many_pieces_fold_alike),
        cmocka_unit_test(test_rangemap__memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
