/* odds: bounds against known values, and against runs that are drawn */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "deterministic/odds.h"

static void near_to(double got, double wanted, double within)
{
    if (!(fabs(got - wanted) <= within))
        fail_msg("%.6f, expected %.6f", got, wanted);
}

static void test_odds__bounds_are_those_of_the_books(void **state)
{
    (void)state;
    /* no hit in n: 1 - 0.05^(1/n); the rule of three */
    near_to(tb_odds_share(0, 10), 0.258866, 1e-5);
    near_to(tb_odds_share(0, 300), 0.009936, 1e-5);
    /* one in five, one in eight, five in ten: quantiles of the beta distribution */
    near_to(tb_odds_share(1, 5), 0.657408, 1e-5);
    near_to(tb_odds_share(1, 8), 0.470679, 1e-5);
    near_to(tb_odds_share(5, 10), 0.777559, 1e-5);
    near_to(tb_odds_share(5, 5), 1, 0);
}

static void test_odds__runs_and_chance_fit(void **state)
{
    (void)state;
    near_to(tb_odds_equal(0.5, 5), 0.0625, 1e-12);
    near_to(tb_odds_equal(0.5, 1), 1, 0);
    assert_int_equal(tb_odds_runs(0.5, 0.0625), 5);
    assert_int_equal(tb_odds_runs(0.5, 0.0624), 6);
    assert_int_equal(tb_odds_runs(0, 0.05), 2);
    assert_true(tb_odds_runs(1, 0.05) == UINT64_MAX);
    for (unsigned percent = 5; percent < 100; percent++) {
        double share = percent / 100.0;
        uint64_t n = tb_odds_runs(share, 0.05);
        assert_true(tb_odds_equal(share, n) <= 0.05 + 1e-9);
        assert_true(n == 2 || tb_odds_equal(share, n - 1) > 0.05);
    }
    near_to(tb_odds_excluded(5), 0.527129, 1e-5);
    near_to(tb_odds_equal(1 - tb_odds_excluded(60), 60), 0.05, 1e-9);
    near_to(tb_odds_excluded(1), 1, 0);
}

/* The true share is above the bound in one trial of twenty, at most */
static void test_odds__bound_holds_as_often_as_it_says(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;

    for (unsigned percent = 20; percent <= 90; percent += 10) {
        unsigned wrong = 0;
        for (unsigned trial = 0; trial < 4000; trial++) {
            uint64_t seen = 0;
            for (unsigned run = 0; run < 12; run++) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                seen += random % 100 < percent;
            }
            wrong += tb_odds_share(seen, 12) < percent / 100.0;
        }
        assert_in_range(wrong, 0, 250); /* 200, and the luck of 4000 trials */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odds__bounds_are_those_of_the_books),
        cmocka_unit_test(test_odds__runs_and_chance_fit),
        cmocka_unit_test(test_odds__bound_holds_as_often_as_it_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
