/* What a fingerprint must notice in a buffer of 1 MiB: any flipped bit, any swap of leaves or
 * words. */
#include "tests/fingerprint/fp_test.h"

#define SIZE (1u << 20)
#define LEAVES (SIZE / TB_FP_LEAF)
#define WORDS (SIZE / 8)

/* A buffer with its leaf digests and fingerprint. */
struct whole {
    uint8_t *bytes;
    struct tb_fp_leaf leaf[LEAVES];
    struct tb_fp fp;
};

static void measure(struct whole *w)
{
    tb_fp_leaves(w->bytes, SIZE, w->leaf);
    w->fp = tb_fp_add(tb_fp_of_leaves(w->leaf, LEAVES, 0), tb_fp_length(SIZE));
    assert_true(tb_fp_equal(w->fp, tb_fp_host(w->bytes, SIZE, 0)));
}

static void fill_random(struct whole *w)
{
    struct rng r = {31};

    rng_fill(&r, w->bytes, SIZE);
}

static void fill_zeros(struct whole *w)
{
    memset(w->bytes, 0, SIZE);
}

/* A ramp of floats: words and leaves differ in few bits. */
static void fill_ramp(struct whole *w)
{
    for (uint32_t k = 0; k < SIZE / 4; k++) {
        float x = (float)k * 0.5f;

        memcpy(w->bytes + 4 * k, &x, 4);
    }
}

/* Words of 0 and 1 only, as masks have. */
static void fill_mask(struct whole *w)
{
    struct rng r = {32};

    for (uint32_t k = 0; k < WORDS; k++) {
        uint64_t x = rng_next(&r) & 1;

        memcpy(w->bytes + 8 * k, &x, 8);
    }
}

static void (*const fills[])(struct whole *w) = {fill_random, fill_zeros, fill_ramp, fill_mask};

/* The fingerprint after the leaf at @index was written to. */
static struct tb_fp updated(const struct whole *w, struct tb_fp fp, size_t index)
{
    return tb_fp_update(fp, index, w->leaf[index],
                        tb_fp_leaf_hash(w->bytes + index * TB_FP_LEAF, TB_FP_LEAF));
}

static int compare_fp(const void *x, const void *y)
{
    return memcmp(x, y, sizeof(struct tb_fp));
}

/* No two of @fp, sorted afterwards, are equal. */
static void assert_distinct(struct tb_fp *fp, size_t count)
{
    qsort(fp, count, sizeof *fp, compare_fp);
    for (size_t k = 1; k < count; k++)
        assert_false(tb_fp_equal(fp[k - 1], fp[k]));
}

/* @count distinct bits: multiples of the odd @step, modulo the 2^23 bits there are. */
static void check_flips(struct whole *w, size_t count, uint32_t step, size_t full_every)
{
    struct tb_fp *seen = must_alloc((count + 1) * sizeof *seen);
    uint32_t bit = step >> 5;

    for (size_t k = 0; k < count; k++) {
        bit = (bit + step) % (8 * SIZE);
        w->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        seen[k] = updated(w, w->fp, bit / 8 / TB_FP_LEAF);
        assert_false(tb_fp_equal(seen[k], w->fp));
        if (k % full_every == 0)
            assert_true(tb_fp_equal(seen[k], tb_fp_host(w->bytes, SIZE, 0)));
        w->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    seen[count] = w->fp;
    assert_distinct(seen, count + 1);
    assert_true(tb_fp_equal(w->fp, tb_fp_host(w->bytes, SIZE, 0)));
    free(seen);
}

static void test_flip__hundred_thousand_bits(void **state)
{
    struct whole *w = *state;

    for (size_t k = 0; k < TB_ARRAY_LEN(fills); k++) {
        fills[k](w);
        measure(w);
        check_flips(w, 100000, 5326691 + 2 * (uint32_t)k, 500);
    }
}

/* Every pair, by digests; equal leaves must not change anything. */
static void check_all_leaf_swaps(const struct whole *w)
{
    for (size_t i = 0; i < LEAVES; i++)
        for (size_t j = i + 1; j < LEAVES; j++) {
            bool equal =
                memcmp(w->bytes + i * TB_FP_LEAF, w->bytes + j * TB_FP_LEAF, TB_FP_LEAF) == 0;
            struct tb_fp fp = tb_fp_update(w->fp, i, w->leaf[i], w->leaf[j]);

            fp = tb_fp_update(fp, j, w->leaf[j], w->leaf[i]);
            assert_int_equal(tb_fp_equal(fp, w->fp), equal);
        }
}

static void swap_bytes(uint8_t *x, uint8_t *y, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        uint8_t t = x[k];

        x[k] = y[k];
        y[k] = t;
    }
}

static void test_swap__any_two_leaves(void **state)
{
    struct whole *w = *state;
    struct rng r = {33};

    for (size_t k = 0; k < TB_ARRAY_LEN(fills); k++) {
        fills[k](w);
        measure(w);
        check_all_leaf_swaps(w);
    }
    fill_random(w);
    measure(w);
    for (int k = 0; k < 200; k++) {
        uint8_t *x = w->bytes + rng_below(&r, LEAVES) * TB_FP_LEAF;
        uint8_t *y = w->bytes + rng_below(&r, LEAVES) * TB_FP_LEAF;

        if (x == y)
            continue;
        swap_bytes(x, y, TB_FP_LEAF);
        assert_false(tb_fp_equal(tb_fp_host(w->bytes, SIZE, 0), w->fp));
        swap_bytes(x, y, TB_FP_LEAF);
    }
}

/* One swap of two words: in one leaf, in neighbouring leaves, anywhere, in turn. */
static void check_word_swap(struct whole *w, size_t i, size_t j, bool full)
{
    uint8_t *x = w->bytes + 8 * i;
    uint8_t *y = w->bytes + 8 * j;
    bool equal = memcmp(x, y, 8) == 0;
    size_t li = 8 * i / TB_FP_LEAF;
    size_t lj = 8 * j / TB_FP_LEAF;
    struct tb_fp fp;

    swap_bytes(x, y, 8);
    fp = updated(w, w->fp, li);
    if (lj != li)
        fp = updated(w, fp, lj);
    if (full)
        assert_true(tb_fp_equal(fp, tb_fp_host(w->bytes, SIZE, 0)));
    assert_int_equal(tb_fp_equal(fp, w->fp), equal);
    swap_bytes(x, y, 8);
}

static void test_swap__any_two_words(void **state)
{
    static const uint64_t reach[] = {8, TB_FP_LEAF / 8, 2 * TB_FP_LEAF / 8, WORDS};
    struct whole *w = *state;
    struct rng r = {34};

    for (size_t k = 0; k < TB_ARRAY_LEN(fills); k++) {
        fills[k](w);
        measure(w);
        for (size_t n = 0; n < 25000; n++) {
            size_t i = rng_below(&r, WORDS);
            size_t j = (i + 1 + rng_below(&r, reach[n % 4] - 1)) % WORDS;

            check_word_swap(w, i, j, n % 500 == 0);
        }
    }
}

static void test_length__counts_even_for_zeros(void **state)
{
    struct whole *w = *state;
    struct tb_fp *seen = must_alloc(3 * TB_FP_LEAF * sizeof *seen);

    fill_zeros(w);
    for (size_t n = 0; n < 3 * TB_FP_LEAF; n++)
        seen[n] = tb_fp_host(w->bytes, n, 0);
    assert_distinct(seen, 3 * TB_FP_LEAF);
    free(seen);
}

static int setup(void **state)
{
    struct whole *w = must_alloc(sizeof *w);

    w->bytes = must_alloc(SIZE);
    tb_fp_init();
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct whole *w = *state;

    free(w->bytes);
    free(w);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flip__hundred_thousand_bits),
        cmocka_unit_test(test_swap__any_two_leaves),
        cmocka_unit_test(test_swap__any_two_words),
        cmocka_unit_test(test_length__counts_even_for_zeros),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
