/* ddmin: the smallest set is found, needs stay together, few questions, wrong answers are mended */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deterministic/ddmin.h"

#define ITEMS 45

/* A job that needs all of @wanted, and none of @spoils; and what it was asked */
struct job {
    size_t items;
    bool wanted[ITEMS], spoils[ITEMS];
    unsigned asked, stop_after; /* 0: never */
    unsigned seen;              /* sets, for the one who looks for repetitions */
    bool set[4000][ITEMS];
    uint64_t random;
    unsigned wrong_in; /* a set that does not do passes once in so many questions; 0: never */
};

static uint64_t draw(struct job *j)
{
    j->random ^= j->random << 13;
    j->random ^= j->random >> 7;
    j->random ^= j->random << 17;
    return j->random;
}

static bool does(const struct job *j, const bool *in)
{
    for (size_t i = 0; i < j->items; i++)
        if ((j->wanted[i] && !in[i]) || (j->spoils[i] && in[i]))
            return false;
    return true;
}

static enum tb_ddmin_answer ask(const bool *in, void *arg)
{
    struct job *j = arg;

    if (j->stop_after && j->asked == j->stop_after)
        return TB_DDMIN_STOP;
    for (unsigned i = 0; i < j->seen; i++)
        assert_true(memcmp(j->set[i], in, j->items * sizeof(*in)) != 0); /* asked before */
    assert_true(j->seen < TB_ARRAY_LEN(j->set));
    memcpy(j->set[j->seen++], in, j->items * sizeof(*in));
    j->asked++;
    if (does(j, in))
        return TB_DDMIN_PASS;
    return j->wrong_in && draw(j) % j->wrong_in == 0 ? TB_DDMIN_PASS : TB_DDMIN_FAIL;
}

static struct job *new_job(size_t items, uint64_t wanted)
{
    struct job *j = calloc(1, sizeof(*j));

    assert_non_null(j);
    j->items = items;
    j->random = 88172645463325252u;
    for (size_t i = 0; i < items; i++)
        j->wanted[i] = wanted >> i & 1;
    return j;
}

static void fill(bool *set, size_t items, uint64_t bits)
{
    for (size_t i = 0; i < items; i++)
        set[i] = bits >> i & 1;
}

static uint64_t bits_of(const bool *set, size_t items)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < items; i++)
        bits |= (uint64_t)set[i] << i;
    return bits;
}

#define ALL UINT64_MAX

static void test_ddmin__finds_each_single_item_in_few_questions(void **state)
{
    (void)state;
    for (size_t items = 1; items <= ITEMS; items++)
        for (size_t i = 0; i < items; i++) {
            struct job *j = new_job(items, (uint64_t)1 << i);
            struct tb_ddmin *d = tb_ddmin_new(items, ask, j);
            bool set[ITEMS];
            fill(set, items, ALL);
            assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_PASS);
            assert_true(bits_of(set, items) == (uint64_t)1 << i);
            assert_in_range(j->asked, 1, 16); /* 1 + 2 * log2(45), and that none does not do */
            tb_ddmin_free(d);
            free(j);
        }
}

static void test_ddmin__finds_every_set_of_a_few(void **state)
{
    (void)state;
    for (uint64_t wanted = 0; wanted < 256; wanted++) {
        struct job *j = new_job(8, wanted);
        struct tb_ddmin *d = tb_ddmin_new(8, ask, j);
        bool set[8];
        fill(set, 8, ALL);
        assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_PASS);
        assert_true(bits_of(set, 8) == wanted);
        tb_ddmin_free(d);
        free(j);
    }
}

static void test_ddmin__pairs_far_apart(void **state)
{
    (void)state;
    for (size_t a = 0; a < ITEMS; a += 4)
        for (size_t b = a + 1; b < ITEMS; b += 3) {
            uint64_t wanted = (uint64_t)1 << a | (uint64_t)1 << b;
            struct job *j = new_job(ITEMS, wanted);
            struct tb_ddmin *d = tb_ddmin_new(ITEMS, ask, j);
            bool set[ITEMS];
            fill(set, ITEMS, ALL);
            assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_PASS);
            assert_true(bits_of(set, ITEMS) == wanted);
            assert_in_range(j->asked, 1, 90);
            tb_ddmin_free(d);
            free(j);
        }
}

static void test_ddmin__says_so_if_all_do_not_do(void **state)
{
    (void)state;
    struct job *j = new_job(6, 1);
    struct tb_ddmin *d = tb_ddmin_new(6, ask, j);
    bool set[6];

    j->spoils[3] = true;
    fill(set, 6, ALL);
    assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_FAIL);
    assert_true(bits_of(set, 6) == 63);
    assert_int_equal(j->asked, 1);
    fill(set, 6, ALL ^ 8); /* without what spoils it */
    assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_PASS);
    assert_true(bits_of(set, 6) == 1);
    tb_ddmin_free(d);
    free(j);
}

static void test_ddmin__needs_come_along(void **state)
{
    (void)state;
    struct job *j = new_job(10, 1u << 7);
    struct tb_ddmin *d = tb_ddmin_new(10, ask, j);
    bool set[10];

    tb_ddmin_need(d, 7, 2); /* 7 needs 2, which needs 9; 3 needs 7 and is of no use */
    tb_ddmin_need(d, 2, 9);
    tb_ddmin_need(d, 3, 7);
    fill(set, 10, ALL);
    assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_PASS);
    assert_true(bits_of(set, 10) == (1u << 7 | 1u << 2 | 1u << 9));
    for (unsigned i = 0; i < j->seen; i++) {
        assert_true(!j->set[i][7] || j->set[i][2]);
        assert_true(!j->set[i][2] || j->set[i][9]);
        assert_true(!j->set[i][3] || j->set[i][7]);
    }
    fill(set, 10, 1u << 7); /* what is missing in the set given is added */
    assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_PASS);
    assert_true(bits_of(set, 10) == (1u << 7 | 1u << 2 | 1u << 9));
    tb_ddmin_free(d);
    free(j);
}

/* Either of two does: the one that stands first is kept */
static enum tb_ddmin_answer either(const bool *in, void *arg)
{
    (*(unsigned *)arg)++;
    return in[2] || in[30] ? TB_DDMIN_PASS : TB_DDMIN_FAIL;
}

static void test_ddmin__keeps_what_stands_first(void **state)
{
    (void)state;
    unsigned asked = 0;
    struct tb_ddmin *d = tb_ddmin_new(ITEMS, either, &asked);
    bool set[ITEMS];

    fill(set, ITEMS, ALL);
    assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_PASS);
    assert_true(bits_of(set, ITEMS) == 4);
    assert_in_range(asked, 1, 16);
    tb_ddmin_free(d);
}

static void test_ddmin__stops_with_the_smallest_so_far(void **state)
{
    (void)state;
    size_t before = ITEMS;

    for (unsigned after = 1; after <= 20; after++) {
        struct job *j = new_job(ITEMS, (uint64_t)1 << 5 | (uint64_t)1 << 40);
        struct tb_ddmin *d = tb_ddmin_new(ITEMS, ask, j);
        bool set[ITEMS];
        size_t size = 0;
        j->stop_after = after;
        fill(set, ITEMS, ALL);
        assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_STOP);
        assert_true(does(j, set));
        for (size_t i = 0; i < ITEMS; i++)
            size += set[i];
        assert_true(size <= before);
        before = size;
        tb_ddmin_free(d);
        free(j);
    }
    assert_true(before < ITEMS / 2);
}

/* A test that is wrong now and then: the result is tested again, taken back, and searched anew */
static void test_ddmin__wrong_answers_are_mended(void **state)
{
    (void)state;
    unsigned mended = 0, asked = 0;

    for (unsigned trial = 1; trial <= 300; trial++) {
        uint64_t wanted = (uint64_t)1 << trial % ITEMS | (uint64_t)1 << trial * 7 % ITEMS;
        struct job *j = new_job(ITEMS, wanted);
        struct tb_ddmin *d = tb_ddmin_new(ITEMS, ask, j);
        bool set[ITEMS];
        j->random += trial;
        j->wrong_in = 10;
        for (unsigned again = 0;; again++) {
            assert_in_range(again, 0, 60);
            j->seen = 0; /* it may ask again */
            fill(set, ITEMS, ALL);
            assert_int_equal(tb_ddmin_run(d, set), TB_DDMIN_PASS);
            if (does(j, set))
                break;
            mended++;
            tb_ddmin_note(d, set, TB_DDMIN_FAIL);
        }
        assert_true((bits_of(set, ITEMS) & wanted) == wanted);
        asked += j->asked;
        tb_ddmin_free(d);
        free(j);
    }
    assert_true(mended > 50); /* something was tested */
    assert_in_range(asked / 300, 1, 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddmin__finds_each_single_item_in_few_questions),
        cmocka_unit_test(test_ddmin__finds_every_set_of_a_few),
        cmocka_unit_test(test_ddmin__pairs_far_apart),
        cmocka_unit_test(test_ddmin__says_so_if_all_do_not_do),
        cmocka_unit_test(test_ddmin__needs_come_along),
        cmocka_unit_test(test_ddmin__keeps_what_stands_first),
        cmocka_unit_test(test_ddmin__stops_with_the_smallest_so_far),
        cmocka_unit_test(test_ddmin__wrong_answers_are_mended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
