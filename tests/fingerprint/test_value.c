/* The value: against a plain second implementation, known answers, and every way of splitting the
 * work. */
#include "tests/fingerprint/fp_test.h"
#include "tests/fingerprint/plain.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#define MAX_SMALL (3 * TB_FP_LEAF + 1)

static void assert_is(struct tb_fp got, struct plain want)
{
    assert_int_equal(got.a, want.first);
    assert_int_equal(got.b, want.second);
}

static void test_host__all_sizes_up_to_three_leaves_and_one(void **state)
{
    /* In a block of exactly n bytes, so that ASan sees a read past the end. */
    (void)state;
    for (size_t n = 0; n <= MAX_SMALL; n++) {
        uint8_t *p = must_alloc(n);

        fill_pattern(p, n, (uint32_t)n);
        assert_is(tb_fp_host(p, n, 0), plain_fp(p, n, 0));
        free(p);
    }
}

static void test_host__ten_thousand_random_inputs(void **state)
{
    struct rng r = {1};
    size_t most = 1 << 17;
    uint8_t *buf = must_alloc(most + 64);

    (void)state;
    rng_fill(&r, buf, most + 64);
    for (int k = 0; k < 10000; k++) {
        size_t n = rng_log(&r, 17);
        uint64_t base = rng_log(&r, 63);
        size_t at = rng_below(&r, most + 64 - n + 1);

        buf[at] = (uint8_t)rng_next(&r);
        assert_is(tb_fp_host(buf + at, n, base), plain_fp(buf + at, n, base));
        assert_is(tb_fp_body(buf + at, n, base), plain_body(buf + at, n, base));
    }
    free(buf);
}

static void test_host__alignment_does_not_matter(void **state)
{
    size_t n = 5 * TB_FP_LEAF + 77;
    uint8_t *buf = must_alloc(n + 64);
    uint8_t *p = must_alloc(n);

    (void)state;
    fill_pattern(p, n, 3);
    for (size_t at = 0; at < 64; at++) {
        memcpy(buf + at, p, n);
        assert_true(tb_fp_equal(tb_fp_host(buf + at, n, 9), tb_fp_host(p, n, 9)));
    }
    free(p);
    free(buf);
}

static void test_host__null_is_legal_for_no_bytes(void **state)
{
    struct tb_fp empty = {0xAAB090688E361251u, 0x137BE8E53E3B200Fu};

    (void)state;
    assert_true(tb_fp_equal(tb_fp_host(NULL, 0, 0), empty));
    assert_true(tb_fp_equal(tb_fp_host(NULL, 0, 12345), empty));
    assert_true(tb_fp_equal(tb_fp_host_pool(NULL, 0, 0, NULL), empty));
    assert_true(tb_fp_equal(tb_fp_body(NULL, 0, 7), (struct tb_fp){0, 0}));
    assert_int_equal(tb_fp_leaf_count(0), 0);
    assert_int_equal(tb_fp_map(NULL, 0, NULL), 0);
}

/* Parts between the leaf boundaries whose bits are set in @cuts. */
static struct tb_fp sum_of_parts(const uint8_t *p, size_t n, uint64_t base, unsigned cuts)
{
    struct tb_fp sum = {0, 0};
    size_t leaves = tb_fp_leaf_count(n);
    size_t begin = 0;

    for (size_t k = 1; k <= leaves; k++) {
        size_t end = k == leaves ? n : k * TB_FP_LEAF;

        if (k < leaves && !(cuts >> (k - 1) & 1))
            continue;
        sum = tb_fp_add(sum, tb_fp_body(p + begin, end - begin, base + begin / TB_FP_LEAF));
        begin = end;
    }
    return sum;
}

static void test_body__every_split_at_leaf_boundaries(void **state)
{
    static const size_t ends[] = {1, 240, 4095, 4096};
    uint8_t *p = must_alloc(9 * TB_FP_LEAF);

    (void)state;
    fill_pattern(p, 9 * TB_FP_LEAF, 77);
    for (size_t leaves = 1; leaves <= 9; leaves++)
        for (size_t e = 0; e < TB_ARRAY_LEN(ends); e++)
            for (unsigned cuts = 0; cuts < 1u << (leaves - 1); cuts++) {
                size_t n = (leaves - 1) * TB_FP_LEAF + ends[e];
                struct tb_fp sum = sum_of_parts(p, n, 5, cuts);

                assert_is(sum, plain_body(p, n, 5));
                assert_is(tb_fp_add(sum, tb_fp_length(n)), plain_fp(p, n, 5));
            }
    free(p);
}

static void test_stream__any_pieces(void **state)
{
    struct rng r = {2};
    size_t most = 20 * TB_FP_LEAF;
    uint8_t *p = must_alloc(most);

    (void)state;
    rng_fill(&r, p, most);
    for (int k = 0; k < 3000; k++) {
        struct tb_fp_stream s;
        size_t n = rng_below(&r, k % 2 ? most : 2 * TB_FP_LEAF + 2);
        uint64_t base = rng_log(&r, 60);
        unsigned bits = (unsigned)rng_below(&r, 17);

        tb_fp_stream_init(&s, base);
        for (size_t at = 0; at < n;) {
            size_t piece = rng_log(&r, bits) + (bits == 0);

            piece = piece < n - at ? piece : n - at;
            tb_fp_stream_update(&s, p + at, piece);
            at += piece;
        }
        assert_is(tb_fp_stream_final(&s), plain_fp(p, n, base));
    }
    free(p);
}

static void test_stream__final_can_be_asked_at_any_time(void **state)
{
    size_t n = MAX_SMALL;
    uint8_t *p = must_alloc(n);
    struct tb_fp_stream s;

    (void)state;
    fill_pattern(p, n, 4);
    tb_fp_stream_init(&s, 0);
    assert_is(tb_fp_stream_final(&s), plain_fp(p, 0, 0));
    for (size_t k = 0; k < n; k++) {
        tb_fp_stream_update(&s, p + k, 1);
        if (k % 61 == 0 || k % TB_FP_LEAF < 2 || k % TB_FP_LEAF == TB_FP_LEAF - 1)
            assert_is(tb_fp_stream_final(&s), plain_fp(p, k + 1, 0));
    }
    tb_fp_stream_update(&s, NULL, 0);
    assert_is(tb_fp_stream_final(&s), plain_fp(p, n, 0));
    free(p);
}

static void test_leaves__give_the_body_and_can_be_updated(void **state)
{
    struct rng r = {5};
    size_t most = 40 * TB_FP_LEAF;
    uint8_t *p = must_alloc(most);
    struct tb_fp_leaf leaves[40];

    (void)state;
    rng_fill(&r, p, most);
    for (int k = 0; k < 2000; k++) {
        size_t n = 1 + rng_below(&r, most);
        size_t count = tb_fp_leaf_count(n);
        size_t at = rng_below(&r, count);
        size_t size = at == count - 1 ? n - at * TB_FP_LEAF : TB_FP_LEAF;
        struct tb_fp fp = tb_fp_host(p, n, 3);

        tb_fp_leaves(p, n, leaves);
        assert_is(tb_fp_of_leaves(leaves, count, 3), plain_body(p, n, 3));
        rng_fill(&r, p + at * TB_FP_LEAF + size / 2, size - size / 2);
        fp = tb_fp_update(fp, 3 + at, leaves[at], tb_fp_leaf_hash(p + at * TB_FP_LEAF, size));
        assert_is(fp, plain_fp(p, n, 3));
    }
    free(p);
}

static void test_map__parts_are_bodies_of_equal_runs(void **state)
{
    static const size_t sizes[] = {1,         4096,         4097,  16 * 4096, 16 * 4096 + 1,
                                   17 * 4096, 80000,        65535, 65537,     47 * 4096 + 5,
                                   1 << 20,   (1 << 20) + 1};
    uint8_t *p = must_alloc((1 << 20) + 1);

    (void)state;
    fill_pattern(p, (1 << 20) + 1, 6);
    for (size_t k = 0; k < TB_ARRAY_LEN(sizes); k++) {
        struct tb_fp map[TB_FP_MAP_MAX];
        struct tb_fp sum = tb_fp_length(sizes[k]);
        unsigned parts = tb_fp_map(p, sizes[k], map);
        size_t count = (sizes[k] + 4095) / 4096;
        size_t run = (count + 15) / 16;

        assert_int_equal(parts, (count + run - 1) / run);
        for (unsigned j = 0; j < parts; j++) {
            size_t begin = j * run * 4096;
            size_t end = begin + run * 4096 < sizes[k] ? begin + run * 4096 : sizes[k];

            assert_is(map[j], plain_body(p + begin, end - begin, j * run));
            sum = tb_fp_add(sum, map[j]);
        }
        assert_is(sum, plain_fp(p, sizes[k], 0));
    }
    free(p);
}

static void test_sampled__one_leaf_of_each_run(void **state)
{
    struct rng rng = {31};
    size_t room = 300 * TB_FP_LEAF;
    uint8_t *p = must_alloc(room);

    (void)state;
    rng_fill(&rng, p, room);
    for (int k = 0; k < 400; k++) {
        size_t n = k < 40 ? (size_t)k * 1000 : rng_below(&rng, room);
        uint32_t rate = (uint32_t)rng_log(&rng, 10);

        assert_is(tb_fp_sampled(p, n, rate), plain_sampled(p, n, rate));
        if (rate <= 1)
            assert_is(tb_fp_sampled(p, n, rate), plain_fp(p, n, 0));
    }
    assert_is(tb_fp_sampled(NULL, 0, 5), plain_length(0));
    free(p);
}

static void test_store__bytes_are_little_endian(void **state)
{
    static const uint8_t want[16] = {8,    7,    6,    5,    4,    3,    2,    1,
                                     0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};
    struct tb_fp fp = {0x0102030405060708u, 0x1112131415161718u};
    uint8_t out[16];

    (void)state;
    tb_fp_store(out, fp);
    assert_memory_equal(out, want, 16);
    assert_true(tb_fp_equal(tb_fp_load(out), fp));
}

/* A pool that deals pieces of @piece units to @threads threads, the last piece first. */
struct pool {
    unsigned threads;
    size_t piece;
    unsigned calls;
    void (*body)(void *arg, size_t begin, size_t end);
    void *arg;
    size_t n, next;
};

static void *pool_thread(void *arg)
{
    struct pool *p = arg;

    for (;;) {
        size_t k = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
        size_t pieces = (p->n + p->piece - 1) / p->piece;

        if (k >= pieces)
            return NULL;
        size_t begin = (pieces - 1 - k) * p->piece;
        size_t end = begin + p->piece < p->n ? begin + p->piece : p->n;

        p->body(p->arg, begin, end);
    }
}

static void pool_run(void *ctx, void (*body)(void *arg, size_t begin, size_t end), void *arg,
                     size_t n)
{
    struct pool *p = ctx;
    pthread_t t[8];

    p->body = body;
    p->arg = arg;
    p->n = n;
    p->next = 0;
    p->calls++;
    for (unsigned k = 0; k < p->threads; k++)
        assert_int_equal(pthread_create(&t[k], NULL, pool_thread, p), 0);
    for (unsigned k = 0; k < p->threads; k++)
        pthread_join(t[k], NULL);
}

static void test_pool__value_is_independent_of_the_split(void **state)
{
    static const size_t pieces[] = {1, 2, 3, 7, 1000};
    size_t n = 61 * TB_FP_LEAF + 123;
    uint8_t *p = must_alloc(n);

    (void)state;
    fill_pattern(p, n, 8);
    for (unsigned threads = 2; threads <= 8; threads += 3)
        for (size_t k = 0; k < TB_ARRAY_LEN(pieces); k++)
            for (size_t cut = 0; cut < 10; cut++) {
                struct pool mine = {.threads = threads, .piece = pieces[k]};
                struct tb_fp_pool lent = {pool_run, &mine, threads, 0};
                size_t size = n - cut * 1111;

                assert_is(tb_fp_host_pool(p, size, 11, &lent), plain_fp(p, size, 11));
                assert_int_equal(mine.calls, 1);
            }
    free(p);
}

static void test_pool__is_not_called_below_min_or_alone(void **state)
{
    struct pool mine = {.threads = 2, .piece = 1};
    struct tb_fp_pool lent = {pool_run, &mine, 2, 100 * TB_FP_LEAF};
    size_t n = 100 * TB_FP_LEAF;
    uint8_t *p = must_alloc(n);

    (void)state;
    fill_pattern(p, n, 9);
    assert_is(tb_fp_host_pool(p, n - 1, 0, &lent), plain_fp(p, n - 1, 0));
    assert_int_equal(mine.calls, 0);
    assert_is(tb_fp_host_pool(p, n, 0, &lent), plain_fp(p, n, 0));
    assert_int_equal(mine.calls, 1);
    lent.threads = 1;
    assert_is(tb_fp_host_pool(p, n, 0, &lent), plain_fp(p, n, 0));
    assert_is(tb_fp_host_pool(p, n, 0, NULL), plain_fp(p, n, 0));
    assert_int_equal(mine.calls, 1);
    free(p);
}

/* ---- known answers ---- */

#define MAX_WORDS 64

static uint64_t hex(const char *w)
{
    return strtoull(w, NULL, 16);
}

static uint64_t dec(const char *w)
{
    return strtoull(w, NULL, 10);
}

static void assert_stored(struct tb_fp got, const char *want)
{
    uint8_t out[16];
    char text[33];

    tb_fp_store(out, got);
    for (int k = 0; k < 16; k++)
        snprintf(text + 2 * k, 3, "%02x", out[k]);
    assert_string_equal(text, want);
}

static uint8_t *pattern(const char *n, const char *seed)
{
    uint8_t *p = must_alloc(dec(n));

    fill_pattern(p, dec(n), (uint32_t)dec(seed));
    return p;
}

static void check_leaf(char **w, int count)
{
    uint8_t *p = pattern(w[1], w[2]);
    struct tb_fp_leaf d = tb_fp_leaf_hash(p, dec(w[1]));

    assert_int_equal(count, 5);
    assert_int_equal(d.lo, hex(w[3]));
    assert_int_equal(d.hi, hex(w[4]));
    free(p);
}

static void check_mix(char **w, int count)
{
    struct tb_fp c = tb_fp_mix((struct tb_fp_leaf){hex(w[1]), hex(w[2])}, hex(w[3]));

    assert_int_equal(count, 6);
    assert_int_equal(c.a, hex(w[4]));
    assert_int_equal(c.b, hex(w[5]));
}

static void check_length(char **w, int count)
{
    assert_int_equal(count, 4);
    assert_int_equal(tb_fp_length(dec(w[1])).a, hex(w[2]));
    assert_int_equal(tb_fp_length(dec(w[1])).b, hex(w[3]));
}

static void check_fp(char **w, int count)
{
    uint8_t *p = pattern(w[1], w[2]);

    assert_int_equal(count, 5);
    assert_stored(tb_fp_host(p, dec(w[1]), dec(w[3])), w[4]);
    free(p);
}

static void check_map(char **w, int count)
{
    uint8_t *p = pattern(w[1], w[2]);
    struct tb_fp map[TB_FP_MAP_MAX];
    unsigned parts = tb_fp_map(p, dec(w[1]), map);

    assert_int_equal(parts, dec(w[3]));
    assert_int_equal(count, 4 + (int)parts);
    for (unsigned k = 0; k < parts; k++)
        assert_stored(map[k], w[4 + k]);
    free(p);
}

static void check_sampled(char **w, int count)
{
    uint8_t *p = pattern(w[1], w[2]);

    assert_int_equal(count, 5);
    assert_stored(tb_fp_sampled(p, dec(w[1]), (uint32_t)dec(w[3])), w[4]);
    free(p);
}

static void check_strided(char **w, int count)
{
    uint8_t *p = pattern(w[1], w[2]);
    int64_t sizes[TB_FP_MAX_DIMS];
    int64_t strides[TB_FP_MAX_DIMS];
    int ndim = (int)dec(w[5]);
    struct tb_fp_layout l = {(uint32_t)dec(w[4]), ndim, sizes, strides};

    assert_int_equal(count, 8 + 2 * ndim);
    for (int d = 0; d < ndim; d++) {
        sizes[d] = strtoll(w[6 + d], NULL, 10);
        strides[d] = strtoll(w[6 + ndim + d], NULL, 10);
    }
    assert_int_equal(tb_fp_layout_bytes(&l), dec(w[6 + 2 * ndim]));
    assert_stored(tb_fp_strided(p + dec(w[3]), &l, NULL), w[7 + 2 * ndim]);
    free(p);
}

static const struct {
    const char *name;
    void (*check)(char **words, int count);
    int least; /* rows the file must have */
} checks[] = {
    {"leaf", check_leaf, 18},       {"mix", check_mix, 35}, {"length", check_length, 5},
    {"fp", check_fp, 42},           {"map", check_map, 8},  {"strided", check_strided, 18},
    {"sampled", check_sampled, 11},
};

static void check_row(char *line, int *seen)
{
    char *words[MAX_WORDS];
    int count = 0;
    char *save = NULL;

    for (char *w = strtok_r(line, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
        assert_in_range(count, 0, MAX_WORDS - 1);
        words[count++] = w;
    }
    for (size_t k = 0; k < TB_ARRAY_LEN(checks); k++)
        if (strcmp(words[0], checks[k].name) == 0) {
            checks[k].check(words, count);
            seen[k]++;
            return;
        }
    fail_msg("vectors.txt: unknown row '%s'", words[0]);
}

static void test_vectors__known_answers(void **state)
{
    const char *top = getenv("TB_SOURCE_DIR");
    char path[4096];
    char line[2048];
    int seen[TB_ARRAY_LEN(checks)] = {0};
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/fingerprint/vectors.txt", top ? top : ".");
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (line[0] != '#')
            check_row(line, seen);
    fclose(f);
    for (size_t k = 0; k < TB_ARRAY_LEN(checks); k++)
        assert_in_range(seen[k], checks[k].least, 100000);
}

/* A candidate that gives wrong values is dropped without a word: none may be. */
static void test_init__chooses_what_the_machine_has(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        assert_non_null(strstr(tb_fp_impl(), "avx2"));
#endif
    if (dlsym(RTLD_DEFAULT, "XXH3_128bits_dispatch"))
        assert_non_null(strstr(tb_fp_impl(), "libxxhash-dispatch"));
    errno = 77;
    tb_fp_init(); /* a second time: the same */
    assert_int_equal(errno, 77);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_vectors__known_answers),
    cmocka_unit_test(test_host__all_sizes_up_to_three_leaves_and_one),
    cmocka_unit_test(test_host__ten_thousand_random_inputs),
    cmocka_unit_test(test_host__alignment_does_not_matter),
    cmocka_unit_test(test_host__null_is_legal_for_no_bytes),
    cmocka_unit_test(test_body__every_split_at_leaf_boundaries),
    cmocka_unit_test(test_stream__any_pieces),
    cmocka_unit_test(test_stream__final_can_be_asked_at_any_time),
    cmocka_unit_test(test_leaves__give_the_body_and_can_be_updated),
    cmocka_unit_test(test_map__parts_are_bodies_of_equal_runs),
    cmocka_unit_test(test_sampled__one_leaf_of_each_run),
    cmocka_unit_test(test_store__bytes_are_little_endian),
    cmocka_unit_test(test_pool__value_is_independent_of_the_split),
    cmocka_unit_test(test_pool__is_not_called_below_min_or_alone),
};

int main(void)
{
    const struct CMUnitTest chosen[] = {
        cmocka_unit_test(test_init__chooses_what_the_machine_has),
    };
    int failed;

    /* Once with the code that is there without tb_fp_init(), once with what it chooses. */
    printf("implementation: %s\n", tb_fp_impl());
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    tb_fp_init();
    printf("implementation: %s\n", tb_fp_impl());
    failed += cmocka_run_group_tests(chosen, NULL, NULL);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
