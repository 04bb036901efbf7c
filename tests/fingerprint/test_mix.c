/* The mix: a bijection, avalanche of all inputs, no sum that survives a swap of leaves. */
#include "tests/fingerprint/fp_test.h"

#define SAMPLES 4096
#define IN_BITS 192 /* lo, hi, index */
#define OUT_BITS 128
#define MAX_DISTANCE 40

struct input {
    uint64_t word[3]; /* lo, hi, index */
};

static struct tb_fp mix_of(struct input in)
{
    return tb_fp_mix((struct tb_fp_leaf){in.word[0], in.word[1]}, in.word[2]);
}

/* ---- bijection: the inverse that FORMAT.md section 3 states ---- */

static uint64_t unshift33(uint64_t h)
{
    return h ^ h >> 33;
}

static uint64_t inverse_of(uint64_t odd)
{
    uint64_t x = odd;

    for (int k = 0; k < 6; k++)
        x *= 2 - odd * x;
    return x;
}

static uint64_t f(uint64_t h)
{
    h = unshift33(h) * 0xFF51AFD7ED558CCDu;
    h = unshift33(h) * 0xC4CEB9FE1A85EC53u;
    return unshift33(h);
}

static uint64_t f_inverse(uint64_t h)
{
    h = unshift33(h) * inverse_of(0xC4CEB9FE1A85EC53u);
    h = unshift33(h) * inverse_of(0xFF51AFD7ED558CCDu);
    return unshift33(h);
}

static void test_mix__can_be_undone_for_every_index(void **state)
{
    struct rng r = {1};

    (void)state;
    for (int k = 0; k < 200000; k++) {
        struct tb_fp_leaf d = {rng_log(&r, 64), rng_log(&r, 64)};
        uint64_t i = k % 5 ? rng_log(&r, 64) : UINT64_MAX - rng_log(&r, 10);
        struct tb_fp c = tb_fp_mix(d, i);
        uint64_t lo = f_inverse(c.a) - f(c.b ^ i);

        assert_int_equal(lo, d.lo);
        assert_int_equal(f_inverse(c.b) ^ f(lo ^ f(i + 0x9E3779B97F4A7C15u)), d.hi);
    }
}

/* ---- avalanche ---- */

static void count_flips(struct tb_fp diff, uint32_t *flips)
{
    for (int b = 0; b < 64; b++) {
        flips[b] += (uint32_t)(diff.a >> b & 1);
        flips[64 + b] += (uint32_t)(diff.b >> b & 1);
    }
}

static struct input random_input(struct rng *r)
{
    return (struct input){{rng_next(r), rng_next(r), rng_next(r)}};
}

/* The digests of leaves of zeros, or digest 0 itself, at the indices real buffers have. */
static struct input zero_input(struct rng *r)
{
    return (struct input){{0, 0, rng_below(r, 1u << 20)}};
}

static struct input small_input(struct rng *r)
{
    return (struct input){{rng_log(r, 64), rng_log(r, 64), rng_log(r, 40)}};
}

/*
 * Over SAMPLES inputs every input bit must flip every output bit in half of them. The standard
 * deviation is 1/128; 24,576 pairs stay within 6.4 of them but for one chance in 10^5 (seeds are
 * fixed).
 */
static void check_avalanche(struct input (*draw)(struct rng *r), uint64_t seed)
{
    for (int in = 0; in < IN_BITS; in++) {
        struct rng r = {seed};
        uint32_t flips[OUT_BITS] = {0};

        for (int k = 0; k < SAMPLES; k++) {
            struct input x = draw(&r);
            struct tb_fp before = mix_of(x);

            x.word[in / 64] ^= 1ull << (in % 64);
            struct tb_fp after = mix_of(x);
            count_flips((struct tb_fp){before.a ^ after.a, before.b ^ after.b}, flips);
        }
        for (int out = 0; out < OUT_BITS; out++)
            assert_in_range(flips[out], SAMPLES * 45 / 100, SAMPLES * 55 / 100);
    }
}

static void test_mix__avalanche_of_random_inputs(void **state)
{
    (void)state;
    check_avalanche(random_input, 11);
}

static void test_mix__avalanche_from_digest_zero(void **state)
{
    (void)state;
    check_avalanche(zero_input, 12);
}

static void test_mix__avalanche_of_small_numbers(void **state)
{
    (void)state;
    check_avalanche(small_input, 13);
}

/* ---- swaps ---- */

static int bits_of(struct tb_fp x)
{
    return __builtin_popcountll(x.a) + __builtin_popcountll(x.b);
}

/* What swapping digests @x and @y at indices @i and @j adds to a body. */
static struct tb_fp swap_change(struct tb_fp_leaf x, struct tb_fp_leaf y, uint64_t i, uint64_t j)
{
    struct tb_fp before = tb_fp_add(tb_fp_mix(x, i), tb_fp_mix(y, j));

    return tb_fp_sub(tb_fp_add(tb_fp_mix(y, i), tb_fp_mix(x, j)), before);
}

/* Far from 0 in both halves, not just unequal: 2 in 10^9 random 64-bit words have <= 12 bits set.
 */
static void assert_random_looking(struct tb_fp change)
{
    assert_in_range(__builtin_popcountll(change.a), 6, 58);
    assert_in_range(__builtin_popcountll(change.b), 6, 58);
}

static void test_mix__swap_of_unequal_leaves_at_all_distances(void **state)
{
    struct rng r = {21};
    const struct tb_fp_leaf zero = {0, 0};

    (void)state;
    for (int s = 0; s <= MAX_DISTANCE; s++) {
        uint64_t total = 0;

        for (int k = 0; k < 2000; k++) {
            uint64_t i = rng_log(&r, 40);
            struct tb_fp_leaf x = {rng_next(&r), rng_next(&r)};
            struct tb_fp_leaf y = {rng_next(&r), rng_next(&r)};
            struct tb_fp_leaf near = {x.lo ^ 1ull << (k % 64), x.hi};
            struct tb_fp change = swap_change(x, y, i, i + (1ull << s));

            assert_random_looking(change);
            assert_random_looking(swap_change(zero, y, i, i + (1ull << s)));
            assert_random_looking(swap_change(x, near, i, i + (1ull << s)));
            assert_random_looking(swap_change(zero, (struct tb_fp_leaf){1, 0}, i, i + (1ull << s)));
            assert_random_looking(swap_change(zero, (struct tb_fp_leaf){0, 1}, i, i + (1ull << s)));
            total += (uint64_t)bits_of(change);
        }
        assert_in_range(total, 2000 * 63, 2000 * 65);
    }
}

/* Equal leaves: a swap changes nothing, but the place of each must count all the same. */
static void test_mix__equal_leaves_at_all_distances(void **state)
{
    struct rng r = {22};

    (void)state;
    for (int s = 0; s <= MAX_DISTANCE; s++)
        for (int k = 0; k < 2000; k++) {
            struct tb_fp_leaf d = {rng_next(&r), rng_next(&r)};
            uint64_t i = rng_log(&r, 40);
            uint64_t j = i + (1ull << s);

            if (k % 2)
                d = (struct tb_fp_leaf){0, 0};
            assert_true(tb_fp_equal(swap_change(d, d, i, j), (struct tb_fp){0, 0}));
            assert_random_looking(tb_fp_sub(tb_fp_mix(d, j), tb_fp_mix(d, i)));
        }
}

static int compare_fp(const void *x, const void *y)
{
    return memcmp(x, y, sizeof(struct tb_fp));
}

/*
 * Were two steps of equal distance to change the sum by the same amount, moving one leaf up and
 * another down would cancel. So the changes must be pairwise different, for one digest and for
 * digest 0.
 */
static void test_mix__steps_of_one_distance_never_repeat(void **state)
{
    const size_t count = 1 << 16;
    struct tb_fp *change = must_alloc(count * sizeof *change);
    static const struct tb_fp_leaf digests[] = {{0, 0}, {0x0123456789ABCDEFu, 0xFEDCBA98u}};

    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(digests); k++)
        for (int s = 0; s <= MAX_DISTANCE; s += 8) {
            for (size_t i = 0; i < count; i++)
                change[i] =
                    tb_fp_sub(tb_fp_mix(digests[k], i + (1ull << s)), tb_fp_mix(digests[k], i));
            qsort(change, count, sizeof *change, compare_fp);
            for (size_t i = 1; i < count; i++)
                assert_false(tb_fp_equal(change[i - 1], change[i]));
        }
    free(change);
}

static void test_length__is_injective(void **state)
{
    const size_t count = 1 << 17;
    struct tb_fp *l = must_alloc(count * sizeof *l);
    struct rng r = {23};

    (void)state;
    for (size_t n = 0; n < count; n++)
        l[n] = tb_fp_length(n);
    qsort(l, count, sizeof *l, compare_fp);
    for (size_t n = 1; n < count; n++)
        assert_false(tb_fp_equal(l[n - 1], l[n]));
    free(l);
    /* and its inverse finds every n */
    for (int k = 0; k < 100000; k++) {
        uint64_t n = rng_log(&r, 64);
        struct tb_fp c = tb_fp_length(n);

        assert_int_equal(f_inverse(c.a) - f(c.b ^ UINT64_MAX), n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mix__can_be_undone_for_every_index),
        cmocka_unit_test(test_mix__avalanche_of_random_inputs),
        cmocka_unit_test(test_mix__avalanche_from_digest_zero),
        cmocka_unit_test(test_mix__avalanche_of_small_numbers),
        cmocka_unit_test(test_mix__swap_of_unequal_leaves_at_all_distances),
        cmocka_unit_test(test_mix__equal_leaves_at_all_distances),
        cmocka_unit_test(test_mix__steps_of_one_distance_never_repeat),
        cmocka_unit_test(test_length__is_injective),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
