/* Strided views, every fast path against the plain row-major copy of plain.h. */
#include "tests/fingerprint/fp_test.h"
#include "tests/fingerprint/plain.h"

#include <pthread.h>

#define ARENA (6u << 20)

struct shape {
    uint32_t elem;
    int ndim;
    int64_t sizes[TB_FP_MAX_DIMS];
    int64_t strides[TB_FP_MAX_DIMS];
};

static struct tb_fp_layout layout_of(const struct shape *s)
{
    return (struct tb_fp_layout){s->elem, s->ndim, s->sizes, s->strides};
}

/* Lowest and highest byte offset of the view from its element (0, 0, ..), the latter past the end.
 */
static void extent(const struct shape *s, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = s->elem;
    for (int d = 0; d < s->ndim; d++) {
        int64_t reach = (s->sizes[d] > 0 ? s->sizes[d] - 1 : 0) * s->strides[d] * s->elem;

        *low += reach < 0 ? reach : 0;
        *high += reach > 0 ? reach : 0;
    }
}

/* Two threads, ranges from both ends. */
struct piece {
    void (*body)(void *arg, size_t begin, size_t end);
    void *arg;
    size_t begin, end;
};

static void *run_piece(void *arg)
{
    struct piece *p = arg;

    /* ranges of 1, 2, 3, .. units from the end */
    for (size_t k = p->end, n = 1; k > p->begin; n++) {
        size_t begin = k - p->begin > n ? k - n : p->begin;

        p->body(p->arg, begin, k);
        k = begin;
    }
    return NULL;
}

static void pool_run(void *ctx, void (*body)(void *arg, size_t begin, size_t end), void *arg,
                     size_t n)
{
    struct piece first = {body, arg, 0, n / 2};
    struct piece second = {body, arg, n / 2, n};
    pthread_t t;

    ++*(int *)ctx;
    assert_int_equal(pthread_create(&t, NULL, run_piece, &first), 0);
    run_piece(&second);
    pthread_join(t, NULL);
}

/* The view lies in a block of its own size, so that ASan sees a read outside of it. */
static void check(const struct shape *s)
{
    struct tb_fp_layout l = layout_of(s);
    struct rng r = {(uint64_t)s->ndim + s->elem};
    int runs = 0;
    struct tb_fp_pool pool = {pool_run, &runs, 2, 0};
    int64_t low;
    int64_t high;
    size_t n;

    extent(s, &low, &high);
    assert_in_range(high - low, 1, ARENA);
    uint8_t *block = must_alloc((size_t)(high - low));
    const uint8_t *origin = block - low;

    rng_fill(&r, block, (size_t)(high - low));
    uint8_t *copy = plain_row_major(origin, s->elem, s->ndim, s->sizes, s->strides, &n);
    struct plain want = plain_fp(copy, n, 0);
    struct tb_fp alone = tb_fp_strided(origin, &l, NULL);
    struct tb_fp shared = tb_fp_strided(origin, &l, &pool);

    assert_int_equal(tb_fp_layout_bytes(&l), n);
    assert_int_equal(alone.a, want.first);
    assert_int_equal(alone.b, want.second);
    assert_true(tb_fp_equal(alone, shared));
    assert_int_equal(runs, n > 8 * TB_FP_LEAF);
    if (tb_fp_layout_contiguous(&l)) {
        assert_true(tb_fp_equal(alone, tb_fp_host(n ? origin : NULL, n, 0)));
        assert_memory_equal(copy, origin, n);
    }
    free(copy);
    free(block);
}

static void test_strided__named_layouts(void **state)
{
    static const struct shape shapes[] = {
        {4, 0, {0}, {0}},                          /* a scalar */
        {4, 1, {0}, {1}},                          /* nothing */
        {4, 3, {2, 0, 3}, {3, 3, 1}},              /* nothing */
        {4, 2, {0, 5}, {0, 0}},                    /* nothing, of stride 0 */
        {4, 2, {100, 300}, {300, 1}},              /* contiguous */
        {4, 4, {1, 100, 1, 300}, {7, 300, 9, 1}},  /* contiguous but for size 1 */
        {4, 2, {300, 100}, {1, 300}},              /* transposed */
        {2, 2, {512, 4096}, {1, 512}},             /* transposed, rows of two leaves */
        {4, 2, {1000, 1000}, {1, 1003}},           /* transposed, a part */
        {8, 2, {333, 777}, {1, 333}},              /* transposed */
        {1, 2, {1000, 999}, {1, 1000}},            /* transposed */
        {16, 2, {99, 333}, {1, 99}},               /* transposed */
        {4, 2, {40, 1024}, {1, 1024}},             /* transposed, rows of one leaf */
        {4, 2, {37, 1537}, {1, 40}},               /* transposed, three rows in four leaves or so */
        {4, 2, {70, 2048}, {1, 70}},               /* the longest short row */
        {4, 2, {70, 2049}, {1, 70}},               /* the shortest long row */
        {4, 2, {19, 4096}, {1, 19}},               /* long rows, begins on leaves */
        {4, 2, {19, 4099}, {1, 23}},               /* long rows, begins anywhere */
        {2, 2, {9, 50257}, {1, 9}},                /* long rows */
        {1, 2, {17, 9001}, {1, 17}},               /* long rows */
        {8, 2, {2, 3000}, {1, 2}},                 /* two long rows */
        {4, 3, {3, 11, 2500}, {27500, 1, -11}},    /* long rows, backwards, in a batch */
        {16, 2, {257, 513}, {1, 257}},             /* a long row ends with a tile's only column */
        {4, 3, {5, 3, 3000}, {9000, 1, 3}},        /* few long rows in a batch */
        {4, 3, {7, 64, 100}, {6400, 1, 64}},       /* transposed in a batch */
        {4, 4, {2, 8, 30, 30}, {7200, 1, 240, 8}}, /* channels last */
        {4, 2, {40, 5000}, {6000, 1}},             /* rows longer than a leaf */
        {4, 2, {3, 1024}, {2048, 1}},              /* rows of one leaf */
        {4, 2, {300, 3}, {10, 1}},                 /* short rows */
        {4, 1, {10000}, {3}},                      /* every third */
        {4, 1, {10000}, {-1}},                     /* backwards */
        {8, 2, {100, 50}, {-50, 1}},               /* rows backwards */
        {4, 2, {100, 90}, {91, -1}},               /* columns backwards */
        {4, 2, {1000, 64}, {1, 1}},                /* overlapping windows */
        {4, 2, {50, 400}, {0, 1}},                 /* expanded */
        {4, 2, {400, 50}, {1, 0}},                 /* expanded */
        {4, 3, {30, 20, 40}, {40, 0, 1}},          /* expanded in the middle */
        {4, 2, {30, 40}, {0, 0}},                  /* one element */
        {3, 2, {100, 70}, {1, 100}},               /* elements that straddle leaves */
        {12, 2, {100, 70}, {1, 100}},
        {5, 2, {700, 3}, {4, 1}},
        {7, 1, {5000}, {2}},
        {16, 1, {2000}, {2}},
    };

    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(shapes); k++)
        check(&shapes[k]);
}

static void test_strided__sixty_four_dimensions(void **state)
{
    struct shape s = {.elem = 2, .ndim = TB_FP_MAX_DIMS};
    int64_t stride = 1;

    (void)state;
    for (int d = 0; d < TB_FP_MAX_DIMS; d++) {
        s.sizes[d] = d % 5 == 0 ? 2 : 1;
        s.strides[d] = d % 5 == 0 ? stride : 12345;
        if (d % 5 == 0)
            stride *= 3;
        if (d > 55)
            s.sizes[d] = 1;
    }
    check(&s);
}

/* Sizes and strides of a random view over a random permutation of a padded dense block. */
static void draw_dense(struct rng *r, struct shape *s)
{
    int order[6];
    int64_t stride = 1;

    for (int d = 0; d < s->ndim; d++)
        order[d] = d;
    for (int d = s->ndim - 1; d > 0; d--) {
        int e = (int)rng_below(r, (uint64_t)d + 1);
        int t = order[d];

        order[d] = order[e];
        order[e] = t;
    }
    for (int k = s->ndim - 1; k >= 0; k--) {
        int d = order[k];

        s->strides[d] = rng_below(r, 4) ? stride : -stride;
        stride *= s->sizes[d] + (rng_below(r, 3) ? 0 : (int64_t)rng_below(r, 3));
        stride *= rng_below(r, 8) ? 1 : 2;
        if (rng_below(r, 12) == 0)
            s->strides[d] = (int64_t)rng_below(r, 3); /* expanded or overlapping */
    }
}

static void draw(struct rng *r, struct shape *s)
{
    static const uint32_t elems[] = {1, 2, 4, 8, 16, 4, 2, 3, 6, 12};
    int64_t room = 1 << (4 + rng_below(r, 13));

    s->elem = elems[rng_below(r, TB_ARRAY_LEN(elems))];
    s->ndim = (int)rng_below(r, 7);
    for (int d = 0; d < s->ndim; d++) {
        s->sizes[d] = 1 + (int64_t)rng_log(r, 10);
        if (s->sizes[d] > room)
            s->sizes[d] = room;
        room /= s->sizes[d];
        if (rng_below(r, 60) == 0)
            s->sizes[d] = 0;
    }
    draw_dense(r, s);
}

static void test_strided__random_views(void **state)
{
    struct rng r = {41};
    int done = 0;

    (void)state;
    while (done < 3000) {
        struct shape s;
        int64_t low;
        int64_t high;

        draw(&r, &s);
        extent(&s, &low, &high);
        if (high - low > (int64_t)ARENA)
            continue;
        check(&s);
        done++;
    }
}

/* A transposed matrix in a batch, rows short and long, the pool's parts beginning anywhere. */
static void test_strided__random_transposed_views(void **state)
{
    static const uint32_t elems[] = {1, 2, 4, 8, 16};
    struct rng r = {43};

    (void)state;
    for (int k = 0; k < 150; k++) {
        struct shape s = {.elem = elems[rng_below(&r, 5)], .ndim = 3};
        int64_t columns = 1 + (int64_t)rng_below(&r, 30000 / s.elem);
        int64_t rows = 1 + (int64_t)rng_below(&r, 400000 / s.elem / (uint64_t)columns + 3);
        int64_t pitch = rows + (int64_t)rng_below(&r, 4);
        int64_t batch = 1 + (int64_t)rng_below(&r, 4);

        s.sizes[0] = batch;
        s.sizes[1] = rows;
        s.sizes[2] = columns;
        s.strides[0] = columns * pitch + (int64_t)rng_below(&r, 3);
        s.strides[1] = 1;
        s.strides[2] = rng_below(&r, 4) ? pitch : -pitch;
        check(&s);
    }
}

static void test_strided__order_counts(void **state)
{
    /* The same bytes in memory, read in two orders: unequal; padding between rows: no part of it.
     */
    static const int64_t sizes[] = {64, 64};
    static const int64_t row[] = {80, 1};
    static const int64_t column[] = {1, 80};
    struct tb_fp_layout l = {4, 2, sizes, row};
    uint8_t *p = must_alloc(64 * 80 * 4);
    struct tb_fp before;

    (void)state;
    fill_pattern(p, 64 * 80 * 4, 42);
    before = tb_fp_strided(p, &l, NULL);
    p[64 * 4 + 5] ^= 1;
    assert_true(tb_fp_equal(tb_fp_strided(p, &l, NULL), before));
    p[63 * 4] ^= 1;
    assert_false(tb_fp_equal(tb_fp_strided(p, &l, NULL), before));
    p[63 * 4] ^= 1;
    l.strides = column;
    assert_false(tb_fp_equal(tb_fp_strided(p, &l, NULL), before));
    free(p);
}

static void test_contiguous__as_torch_means_it(void **state)
{
    static const struct {
        struct shape s;
        bool contiguous;
    } cases[] = {
        {{4, 0, {0}, {0}}, true},        {{4, 1, {5}, {1}}, true},
        {{4, 1, {5}, {2}}, false},       {{4, 1, {1}, {9}}, true},
        {{4, 1, {5}, {0}}, false},       {{4, 2, {3, 4}, {4, 1}}, true},
        {{4, 2, {3, 4}, {1, 3}}, false}, {{4, 2, {3, 4}, {5, 1}}, false},
        {{4, 2, {1, 4}, {77, 1}}, true}, {{4, 2, {3, 1}, {1, 77}}, true},
        {{4, 2, {0, 4}, {77, 9}}, true}, {{4, 1, {5}, {-1}}, false},
        {{4, 2, {3, 4}, {0, 1}}, false}, {{4, 3, {2, 1, 4}, {4, 0, 1}}, true},
    };

    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(cases); k++) {
        struct tb_fp_layout l = layout_of(&cases[k].s);

        assert_int_equal(tb_fp_layout_contiguous(&l), cases[k].contiguous);
    }
}

static int choose(void **state)
{
    (void)state;
    tb_fp_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strided__named_layouts),
        cmocka_unit_test(test_strided__sixty_four_dimensions),
        cmocka_unit_test(test_strided__random_views),
        cmocka_unit_test(test_strided__random_transposed_views),
        cmocka_unit_test(test_strided__order_counts),
        cmocka_unit_test(test_contiguous__as_torch_means_it),
    };

    return cmocka_run_group_tests(tests, choose, NULL);
}
