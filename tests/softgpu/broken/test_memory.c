/* Bad cells of memory, bad lines of the cache, bad copies. */
#include "tests/softgpu/broken/broken_test.h"

#define N 4096u /* bytes */

/* p[i]: 32-bit words + 5; the sum of a word read twice goes behind all. */
static const char add_five[] = KERNEL("", "ld.global.u32 %r5, [%rd9];\nadd.u32 %r5, %r5, 5;\n"
                                          "st.global.u32 [%rd9], %r5;\n");
static const char copy_up[] = KERNEL("", "ld.global.u32 %r5, [%rd9];\n"
                                         "st.global.u32 [%rd9+2048], %r5;\n");

static uint64_t first_alloc;

static bool allocation(void *arg, uint64_t id, uint64_t *addr, uint64_t *size)
{
    (void)arg;
    *addr = first_alloc;
    *size = N;
    return id == 3 && first_alloc != 0;
}

static struct sg_broken *broken_memory(const char *specs, const void *p)
{
    struct sg_broken_options opt = broken_options(specs);

    first_alloc = (uintptr_t)p;
    opt.allocation = allocation;
    return broken_with(&opt);
}

static const struct broken_run run = {.blocks = 1, .threads = 32};

static void test_memory__a_stuck_cell_is_stuck_for_whoever_reads_it(void **state)
{
    struct sg_image *image = load_ptx(add_five);
    uint32_t *p = device_bytes(N);
    struct sg_broken *b = broken_memory("mem=alloc#3+20 bit=0 model=stuck0", p);

    (void)state;
    for (unsigned i = 0; i < 32; i++)
        p[i] = 2 * i;
    run_broken(b, image, run, p); /* 10 + 5 is 15, its lowest bit is lost */
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(p[i], 2 * i + 5 - (i == 5));
    assert_int_equal(log_lines("\"what\":\"cell\",\"place\":\"step\""), 1);
    assert_non_null(strstr(last_line, "\"before\":\"0xf\",\"after\":\"0xe\""));
    run_broken(b, image, run, p);
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(p[i], 2 * i + 10 - 2 * (i == 5)); /* 14 + 5 is 19: 18 */
    sg_broken_free(b);
    sg_image_free(image);
    device_free(p);
}

static void test_memory__a_cell_flips_once_after_so_many_launches(void **state)
{
    struct sg_image *image = load_ptx(add_five);
    uint32_t *p = device_bytes(N);
    struct sg_broken *b = broken_memory("mem=alloc#3+4 bit=7 after=2", p);

    (void)state;
    memset(p, 0, N);
    for (unsigned i = 1; i <= 5; i++) {
        struct broken_run r = run;
        r.number = i;
        run_broken(b, image, r, p);
        assert_int_equal(p[1], i * 5 + (i >= 3 ? 128 : 0));
        assert_int_equal(p[2], i * 5);
    }
    assert_int_equal(sg_broken_count(b), 1);
    assert_int_equal(log_lines("\"place\":\"launch\""), 1);
    assert_non_null(strstr(last_line, "\"launch\":3"));
    sg_broken_free(b);
    sg_image_free(image);
    device_free(p);
}

static void test_memory__cells_by_address_and_of_memory_that_is_gone(void **state)
{
    struct sg_image *image = load_ptx(add_five);
    uint32_t *p = device_bytes(N), *q = device_bytes(N);
    char spec[80];

    (void)state;
    snprintf(spec, sizeof(spec), "mem=%p bit=3,4 model=stuck1", (void *)(p + 7));
    struct sg_broken *b = broken(spec);
    memset(p, 0, N);
    run_broken(b, image, run, p);
    assert_int_equal(p[7], 24 + 5);
    assert_int_equal(p[6], 5);
    device_free(p); /* nobody is asked for it any more */
    run_broken(b, image, run, q);
    sg_broken_before(b, 0);
    sg_broken_free(b);
    sg_image_free(image);
    device_free(q);
}

/* The line of the cache that @p lies in. */
static unsigned line_of(const void *p)
{
    return (unsigned)(((uintptr_t)p - test_mem->base) / SG_LINE_BYTES % SG_LINES);
}

static void test_memory__a_bad_line_spoils_reads_and_not_memory(void **state)
{
    struct sg_image *image = load_ptx(copy_up);
    uint32_t *p = device_bytes(N);
    char spec[80];

    (void)state;
    snprintf(spec, sizeof(spec), "l2line=%u bit=%u", line_of(p), 8 * 12 + 3);
    struct sg_broken *b = broken(spec);
    for (unsigned i = 0; i < N / 4; i++)
        p[i] = i;
    run_broken(b, image, (struct broken_run){.blocks = 2, .threads = 32}, p);
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(p[i], i);
        assert_int_equal(p[512 + i], i == 3 ? 3 ^ 8 : i);
    }
    assert_int_equal(log_lines("\"what\":\"l2\""), 1);
    sg_broken_free(b);
    sg_image_free(image);
    device_free(p);
}

static struct sg_broken_move flat(enum sg_broken_way way, const void *src, const void *dst,
                                  uint64_t n)
{
    return (struct sg_broken_move){.way = way,
                                   .src = (uintptr_t)src,
                                   .dst = (uintptr_t)dst,
                                   .width = n,
                                   .height = 1,
                                   .depth = 1,
                                   .src_pitch = n,
                                   .src_slice = n,
                                   .dst_pitch = n,
                                   .dst_slice = n};
}

static void test_memory__copies_read_through_the_bad_line_too(void **state)
{
    uint8_t *p = device_bytes(N), out[N];
    char spec[80];

    (void)state;
    snprintf(spec, sizeof(spec), "l2line=%u bit=0,9 model=stuck1", line_of(p + 256));
    struct sg_broken *b = broken(spec);
    memset(p, 0, N);
    memset(out, 0, N);
    struct sg_broken_move m = flat(SG_BROKEN_D2H, p, out, N);
    sg_broken_before(b, 0);
    sg_broken_copied(b, &m);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(out[i], i == 256 ? 1 : i == 257 ? 2 : 0);
    assert_int_equal(log_lines("\"what\":\"l2\",\"place\":\"copy\""), 2);
    memset(out, 0, N);
    m = flat(SG_BROKEN_H2D, out, p, N);
    sg_broken_copied(b, &m);
    assert_int_equal(p[256], 0);
    sg_broken_free(b);
    device_free(p);
}

static unsigned changed(const uint8_t *p, uint64_t n, uint8_t was)
{
    unsigned k = 0;

    for (uint64_t i = 0; i < n; i++)
        k += p[i] != was;
    return k;
}

static void test_memory__the_copy_engine_damages_a_word_of_a_piece(void **state)
{
    const uint64_t n = 40 * SG_PIECE + 1;
    uint8_t *out = calloc(1, n), *again = calloc(1, n);
    struct sg_broken *b = broken("unit=copy dir=h2d bit=13");
    struct sg_broken_move m = flat(SG_BROKEN_H2D, out, out, n);

    (void)state;
    assert_non_null(out);
    assert_non_null(again);
    sg_broken_copied(b, &m);
    assert_int_equal(changed(out, n, 0), 40); /* the byte behind them has no bit 13 */
    assert_int_equal(log_lines(FAULT), 40);
    for (uint64_t i = 0; i < n; i++)
        assert_true(out[i] == 0 || (out[i] == 1u << 5 && i % 4 == 1));
    m.way = SG_BROKEN_D2H;
    memset(out, 0, n);
    sg_broken_copied(b, &m);
    assert_int_equal(changed(out, n, 0), 0);
    sg_broken_free(b);
    b = broken("unit=copy rate=0.2 seed=5");
    sg_broken_copied(b, &m);
    assert_in_range(changed(out, n, 0), 1, 20);
    m = flat(SG_BROKEN_D2H, again, again, n);
    sg_broken_free(b);
    b = broken("unit=copy rate=0.2 seed=5");
    sg_broken_copied(b, &m);
    assert_memory_equal(out, again, n);
    sg_broken_free(b);
    free(out);
    free(again);
}

/* Rows with gaps between them: what lies in the gaps stays. */
static void test_memory__rows_of_a_copy(void **state)
{
    uint8_t out[64 * 16] = {0};
    struct sg_broken *b = broken("unit=copy bit=0-31 model=stuck1");
    struct sg_broken_move m = flat(SG_BROKEN_D2D, out, out, 6);

    (void)state;
    m.height = 16;
    m.dst_pitch = m.src_pitch = 64;
    m.dst_slice = m.src_slice = sizeof(out);
    sg_broken_copied(b, &m);
    assert_int_equal(changed(out, sizeof(out), 0), 4);
    for (unsigned i = 0; i < sizeof(out); i++)
        assert_true(out[i] == 0 || i % 64 < 6);
    sg_broken_free(b);
}

/* What a log holds of copies and cells is injected again, without any specification. */
static void test_memory__copies_and_cells_are_replayed(void **state)
{
    static const char spec[] = "unit=copy rate=0.3 bit=random; mem=alloc#3+9 bit=2 model=stuck1";
    const uint64_t n = 20 * SG_PIECE;
    uint8_t *out = calloc(1, n), *again = calloc(1, n);
    struct sg_image *image = load_ptx(add_five);
    uint8_t *p = device_bytes(N), kept[N];
    char name[128];
    struct sg_broken_options opt;

    (void)state;
    for (unsigned turn = 0; turn < 2; turn++) {
        uint8_t *to = turn ? again : out;
        struct sg_broken_move m = flat(SG_BROKEN_D2H, to, to, n);
        struct sg_broken *b;
        memset(p, 0, N);
        opt = broken_options(NULL);
        snprintf(name, sizeof(name), "%s.first", log_path);
        opt.log = NULL;
        opt.replay = name;
        b = turn ? broken_with(&opt) : broken_memory(spec, p);
        for (unsigned i = 1; i <= 3; i++) {
            struct broken_run r = run;
            r.number = i;
            sg_broken_before(b, 0);
            sg_broken_copied(b, &m);
            run_broken(b, image, r, p);
        }
        assert_true(sg_broken_count(b) > 8);
        sg_broken_free(b);
        if (turn == 0) {
            memcpy(kept, p, N);
            assert_int_equal(rename(log_path, name), 0);
        }
    }
    unlink(name);
    assert_memory_equal(out, again, n);
    assert_memory_equal(kept, p, N);
    free(out);
    free(again);
    sg_image_free(image);
    device_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory__a_stuck_cell_is_stuck_for_whoever_reads_it),
        cmocka_unit_test(test_memory__a_cell_flips_once_after_so_many_launches),
        cmocka_unit_test(test_memory__cells_by_address_and_of_memory_that_is_gone),
        cmocka_unit_test(test_memory__a_bad_line_spoils_reads_and_not_memory),
        cmocka_unit_test(test_memory__copies_read_through_the_bad_line_too),
        cmocka_unit_test(test_memory__the_copy_engine_damages_a_word_of_a_piece),
        cmocka_unit_test(test_memory__rows_of_a_copy),
        cmocka_unit_test(test_memory__copies_and_cells_are_replayed),
    };
    return cmocka_run_group_tests(tests, broken_setup, broken_teardown);
}
