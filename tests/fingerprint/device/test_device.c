/*
 * Device = host for every kernel: all lengths and alignments, batches, several blocks, streams,
 * indirection, samples, views.
 *
 * usage: test_device [-l LIBRARY] [-u]     softgpu's libcuda.so.1; a GPU's by default
 *
 * All memory that is hashed was written, and no byte around it; with -u none was.
 */
#include "tests/fingerprint/fp_test.h"
#include "tests/fingerprint/plain.h"

#include <unistd.h>

#include "gpu.h"

static_assert(sizeof(struct tb_wire_slot) == TB_FPD_SCRATCH, "scratch is indexed as slots are");

static struct gpu gpu; /* opened by main() before any test */

/* ------------------------------------------------------------------ one buffer after the other */

/* Buffers that wait for their fingerprints, each alone in its allocation and written to the byte.
 */
struct pending {
    CUdeviceptr block;
    uint8_t *bytes;
    uint64_t n, ticket;
    uint32_t rate;
};

struct round {
    struct tb_fpd_batch b;
    struct pending job[TB_FPD_MAX];
};

static void round_add(struct round *r, struct rng *rng, uint64_t n, unsigned align, uint32_t rate)
{
    struct pending *p = &r->job[r->b.jobs];

    *p = (struct pending){.n = n, .rate = rate, .bytes = must_alloc(n)};
    NEED(cuMemAlloc, &p->block, align + n + (align + n == 0));
    rng_fill(rng, p->bytes, n);
    if (n)
        NEED(cuMemcpyHtoD, p->block + align, p->bytes, n);
    p->ticket = gpu_add(&gpu, &r->b, p->block + align, n, rate);
}

static void check(struct tb_fp got, struct tb_fp want, const char *what, uint64_t n, uint64_t extra)
{
    if (!tb_fp_equal(got, want))
        fail_msg("%s of %llu bytes (%llu): %016llx %016llx, not %016llx %016llx", what,
                 (unsigned long long)n, (unsigned long long)extra, (unsigned long long)got.a,
                 (unsigned long long)got.b, (unsigned long long)want.a, (unsigned long long)want.b);
}

/* Launched before; waits for all, compares, frees. */
static void round_end(struct round *r)
{
    NEED(cuCtxSynchronize);
    for (uint32_t k = 0; k < r->b.jobs; k++) {
        struct pending *p = &r->job[k];
        struct tb_fp want = tb_fp_sampled(p->bytes, p->n, p->rate);

        check(gpu_take(&gpu, p->ticket), want, "buffer", p->n, r->b.job[k].src % 16);
        NEED(cuMemFree, p->block);
        free(p->bytes);
    }
    gpu_begin(&gpu, &r->b);
}

static void round_flush(struct round *r, uint32_t sms)
{
    gpu_launch(&gpu, &r->b, sms, NULL);
    round_end(r);
}

static void each_length(const uint64_t *n, size_t count, unsigned step)
{
    struct rng rng = {1};
    struct round *r = must_alloc(sizeof *r);

    gpu_begin(&gpu, &r->b);
    for (size_t k = 0; k < count; k++)
        for (unsigned align = k % step; align < 16; align += step) {
            round_add(r, &rng, n[k], align, 0);
            if (r->b.jobs == TB_FPD_MAX)
                round_flush(r, gpu.sms);
        }
    round_flush(r, gpu.sms);
    free(r);
    assert_true(gpu_settled(&gpu));
}

static void test_device__short_lengths(void **state)
{
    uint64_t n[601];

    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(n); k++)
        n[k] = k;
    each_length(n, TB_ARRAY_LEN(n), 5);
}

static void test_device__every_alignment(void **state)
{
    static const uint64_t n[] = {1,   2,   3,    4,    5,    8,    9,    16,   17,    32,   33,
                                 64,  65,  96,   97,   128,  129,  160,  161,  192,   239,  240,
                                 241, 256, 1024, 1025, 4095, 4096, 4097, 8192, 12345, 16384};

    (void)state;
    each_length(n, TB_ARRAY_LEN(n), 1);
}

static void test_device__around_blocks_and_leaves(void **state)
{
    static const int about[] = {-64, -17, -1, 0, 1, 15, 63, 64, 65};
    uint64_t n[9 * TB_ARRAY_LEN(about)];
    size_t count = 0;

    (void)state;
    for (uint64_t k = 1; k <= 9; k++)
        for (size_t a = 0; a < TB_ARRAY_LEN(about); a++)
            n[count++] = (k < 6 ? k * 1024 : (k - 4) * 4096) + (uint64_t)about[a];
    each_length(n, count, 7);
}

/* ------------------------------------------------------------------ batches, blocks, samples */

static void random_batches(uint32_t rounds, uint32_t jobs, unsigned bits, uint32_t rates)
{
    struct rng rng = {bits * 7 + rates};
    struct round *r = must_alloc(sizeof *r);

    gpu_begin(&gpu, &r->b);
    for (uint32_t k = 0; k < rounds; k++) {
        uint32_t count = 1 + (uint32_t)rng_below(&rng, jobs);

        for (uint32_t j = 0; j < count; j++)
            round_add(r, &rng, rng_log(&rng, bits), (unsigned)rng_below(&rng, 2) * 3 * (j % 5),
                      rates ? (uint32_t)rng_below(&rng, rates) : 0);
        round_flush(r, 1 + (uint32_t)rng_below(&rng, 6));
    }
    free(r);
    assert_true(gpu_settled(&gpu));
}

static void test_device__batches_of_mixed_sizes(void **state)
{
    (void)state;
    random_batches(4, TB_FPD_MAX, 15, 0);
    random_batches(20, TB_FPD_FEW, 19, 0);
}

static void test_device__samples(void **state)
{
    (void)state;
    random_batches(12, 20, 19, 40);
}

static void test_device__the_rule_of_samples(void **state)
{
    (void)state;
    for (uint32_t rate = 0; rate < 70; rate += 1 + rate / 4)
        for (uint64_t index = 0, run = 0, found = 0; index < 3000; index++) {
            found += (unsigned)tb_fpd_is_sampled(index, rate);
            if (++run < rate)
                continue;
            assert_int_equal(found, 1); /* one in each run */
            run = found = 0;
        }
    assert_true(tb_fpd_is_sampled(0, 1000));
}

/* ------------------------------------------------------------------ slots */

static void test_device__base_is_added_to_tickets(void **state)
{
    struct rng rng = {5};
    struct round *r = must_alloc(sizeof *r);
    CUdeviceptr base;
    uint64_t more = 3 * GPU_SLOTS - 5, stored = more + 1;

    (void)state;
    NEED(cuMemAlloc, &base, 8);
    NEED(cuMemcpyHtoD, base, &stored, 8);
    gpu_begin(&gpu, &r->b);
    for (uint64_t k = 0; k < 9; k++)
        round_add(r, &rng, k * k * 700, 0, 0);
    r->b.base = base;
    gpu_launch(&gpu, &r->b, 2, NULL);
    for (uint32_t k = 0; k < r->b.jobs; k++)
        r->job[k].ticket += more;
    round_end(r);
    gpu.ticket += more;
    NEED(cuMemFree, base);
    free(r);
    assert_true(gpu_settled(&gpu));
}

static void test_device__nothing_is_written_where_nobody_has_drawn(void **state)
{
    struct rng rng = {6};
    struct round *r = must_alloc(sizeof *r);
    CUdeviceptr base;
    uint64_t none = 0;

    (void)state;
    NEED(cuMemAlloc, &base, 8);
    NEED(cuMemcpyHtoD, base, &none, 8);
    gpu_begin(&gpu, &r->b);
    for (uint64_t k = 0; k < 9; k++)
        round_add(r, &rng, k * k * 700, 0, 0);
    r->b.base = base;
    gpu_launch(&gpu, &r->b, 2, NULL);
    NEED(cuCtxSynchronize);
    for (uint32_t k = 0; k < r->b.jobs; k++) {
        assert_int_not_equal(gpu.slots[r->job[k].ticket & (GPU_SLOTS - 1)].stamp,
                             r->job[k].ticket + 1);
        NEED(cuMemFree, r->job[k].block);
        free(r->job[k].bytes);
    }
    NEED(cuMemFree, base);
    free(r);
    assert_true(gpu_settled(&gpu));
}

static void test_device__a_job_writes_its_slot_only(void **state)
{
    struct rng rng = {6};
    struct round *r = must_alloc(sizeof *r);
    struct tb_wire_slot before[GPU_SLOTS];
    uint64_t ticket;

    (void)state;
    rng_fill(&rng, gpu.slots, sizeof before);
    memcpy(before, gpu.slots, sizeof before);
    gpu_begin(&gpu, &r->b);
    ticket = gpu.ticket;
    round_add(r, &rng, 50000, 0, 0);
    gpu_launch(&gpu, &r->b, 4, NULL);
    NEED(cuCtxSynchronize);
    for (uint64_t k = 0; k < GPU_SLOTS; k++)
        if (k == (ticket & (GPU_SLOTS - 1)))
            assert_int_equal(gpu.slots[k].taken, before[k].taken);
        else
            assert_memory_equal(&gpu.slots[k], &before[k], sizeof before[k]);
    round_end(r);
    free(r);
}

/* Two bytes that count as one, at all alignments: few bytes and many, samples, some in a row. */
static void test_device__alike(void **state)
{
    static const uint64_t n[] = {0,   1,   3,   4,    8,    9,     16,    17,
                                 100, 240, 241, 4096, 4099, 16385, 100003};
    struct rng rng = {8};
    struct round *r = must_alloc(sizeof *r);
    struct tb_fpd_alike a = {.byte = {0xa5, 0x5a}};
    void *params[] = {&a};

    (void)state;
    for (uint32_t align = 0; align < 16; align += 3) {
        gpu_begin(&gpu, &r->b);
        for (size_t k = 0; k < TB_ARRAY_LEN(n); k++) {
            round_add(r, &rng, n[k], align, k % 3);
            struct pending *p = &r->job[k];
            for (uint64_t i = 0; i < p->n; i++) /* of what there is, half is the one or the other */
                p->bytes[i] = p->bytes[i] & 1 ? p->bytes[i] & 2 ? 0xa5 : 0x5a : p->bytes[i];
            if (p->n)
                NEED(cuMemcpyHtoD, p->block + align, p->bytes, p->n);
            for (uint64_t i = 0; i < p->n; i++)
                p->bytes[i] = p->bytes[i] == 0x5a ? 0xa5 : p->bytes[i];
        }
        a.batch = r->b;
        uint32_t grid = tb_fpd_plan(&a.batch, gpu.sms);
        NEED(cuLaunchKernel, gpu.alike, grid, 1, 1, TB_FPD_THREADS, 1, 1, 0, NULL, params, NULL);
        round_end(r);
    }
    free(r);
    assert_true(gpu_settled(&gpu));
}

/* All bytes that are asked for, and none beside them */
static void test_device__fill(void **state)
{
    enum { ROOM = 20000 };
    static const uint64_t n[] = {0, 1, 3, 4, 5, 1000, 19000};
    static uint8_t want[ROOM], got[ROOM];
    struct rng rng = {9};
    CUdeviceptr block;

    (void)state;
    NEED(cuMemAlloc, &block, ROOM);
    for (size_t k = 0; k < 4 * TB_ARRAY_LEN(n); k++) {
        struct tb_fpd_fill f = {.dst = block + 64 + k % 4, .bytes = n[k / 4], .byte = 0xa5};
        void *params[] = {&f};
        rng_fill(&rng, want, ROOM);
        NEED(cuMemcpyHtoD, block, want, ROOM);
        NEED(cuLaunchKernel, gpu.fill, 3, 1, 1, TB_FPD_THREADS, 1, 1, 0, NULL, params, NULL);
        NEED(cuMemcpyDtoH, got, block, ROOM);
        memset(want + 64 + k % 4, 0xa5, f.bytes);
        assert_memory_equal(got, want, ROOM);
    }
    NEED(cuMemFree, block);
}

static void test_device__streams_at_once(void **state)
{
    enum { STREAMS = 4, ROUNDS = 3 };
    static struct round r[STREAMS * ROUNDS];
    struct rng rng = {7};
    CUstream stream[STREAMS];

    (void)state;
    for (size_t k = 0; k < STREAMS; k++)
        NEED(cuStreamCreate, &stream[k], CU_STREAM_NON_BLOCKING);
    for (size_t k = 0; k < TB_ARRAY_LEN(r); k++) {
        gpu_begin(&gpu, &r[k].b);
        for (uint32_t j = 0; j < 1 + k; j++)
            round_add(&r[k], &rng, rng_log(&rng, 17), 0, 0);
    }
    NEED(cuCtxSynchronize);
    for (size_t k = 0; k < TB_ARRAY_LEN(r); k++)
        gpu_launch(&gpu, &r[k].b, 3, stream[k % STREAMS]);
    for (size_t k = 0; k < TB_ARRAY_LEN(r); k++)
        round_end(&r[k]);
    for (size_t k = 0; k < STREAMS; k++)
        NEED(cuStreamDestroy, stream[k]);
    assert_true(gpu_settled(&gpu));
}

/* ------------------------------------------------------------------ views */

#define VIEW_BYTES 400000u

struct shape {
    uint32_t elem;
    int ndim;
    int64_t size[TB_FPD_STRIDED_DIMS], stride[TB_FPD_STRIDED_DIMS];
    uint64_t first; /* byte of element (0, 0, ...) in the buffer */
};

/* A view inside of VIEW_BYTES: a shuffled, cut, reversed or repeated one. */
static struct shape random_shape(struct rng *rng)
{
    static const uint32_t elems[] = {1, 2, 4, 8, 16, 4, 2, 3, 6, 12, 5};
    struct shape s = {.elem = elems[rng_below(rng, TB_ARRAY_LEN(elems))],
                      .ndim = (int)rng_below(rng, TB_FPD_STRIDED_DIMS + 1)};
    int64_t span = 1, low = 0;
    unsigned bits = s.ndim ? (unsigned)(15 / s.ndim) + 1 : 0;

    for (int d = s.ndim - 1; d >= 0; d--) {
        int64_t gap = rng_below(rng, 3) == 0 ? (int64_t)rng_below(rng, 3) : 0;

        s.size[d] = 1 + (int64_t)(rng_next(rng) >> (64 - bits));
        s.stride[d] = span + gap;
        while ((span + gap) * s.size[d] * s.elem > VIEW_BYTES - 64)
            s.size[d] = s.size[d] / 2;
        if (s.size[d] < 1)
            s.size[d] = 1;
        span = s.stride[d] * s.size[d];
    }
    for (int d = 0; d < s.ndim; d++) {
        int other = (int)rng_below(rng, (uint64_t)s.ndim);
        int64_t size = s.size[d], stride = s.stride[d];

        if (rng_below(rng, 2))
            continue;
        s.size[d] = s.size[other], s.stride[d] = s.stride[other];
        s.size[other] = size, s.stride[other] = stride;
    }
    for (int d = 0; d < s.ndim; d++) {
        uint64_t what = rng_below(rng, 12);

        if (what == 0)
            s.stride[d] = 0;
        if (what == 1)
            s.size[d] = (int64_t)rng_below(rng, 2);
        if (what == 2)
            low += s.stride[d] * (s.size[d] - 1), s.stride[d] = -s.stride[d];
    }
    s.first = (uint64_t)low * s.elem + rng_below(rng, 3) * 16 + rng_below(rng, 3) * (s.elem % 3);
    return s;
}

static void hash_view(const uint8_t *host, CUdeviceptr at, const struct shape *s, uint32_t sms)
{
    struct tb_fp_layout l = {
        .elem = s->elem, .ndim = s->ndim, .sizes = s->size, .strides = s->stride};
    struct tb_fpd_strided b = {.slots = gpu.slots_at,
                               .scratch = gpu.scratch,
                               .mask = GPU_SLOTS - 1,
                               .elem = s->elem,
                               .src = at + s->first,
                               .ticket = gpu.ticket++,
                               .ndim = (uint32_t)s->ndim};
    void *params[] = {&b};
    uint32_t blocks;

    memcpy(b.size, s->size, sizeof b.size);
    memcpy(b.stride, s->stride, sizeof b.stride);
    blocks = tb_fpd_plan_strided(&b, sms);
    assert_int_not_equal(blocks, 0);
    NEED(cuLaunchKernel, gpu.strided, blocks, 1, 1, TB_FPD_THREADS, 1, 1, 0, NULL, params, NULL);
    NEED(cuCtxSynchronize);
    check(gpu_take(&gpu, b.ticket), tb_fp_strided(host + s->first, &l, NULL), "view", b.bytes,
          s->elem);
}

static void test_device__views(void **state)
{
    static const struct shape shapes[] = {
        {.elem = 4},
        {.elem = 16, .ndim = 1, .size = {0}, .stride = {1}},
        {.elem = 4, .ndim = 2, .size = {150, 130}, .stride = {1, 150}},
        {.elem = 2, .ndim = 2, .size = {130, 170}, .stride = {1, 130}, .first = 1},
        {.elem = 8, .ndim = 2, .size = {100, 60}, .stride = {100, 1}},
        {.elem = 4, .ndim = 1, .size = {30000}, .stride = {1}},
        {.elem = 4, .ndim = 1, .size = {30000}, .stride = {-1}, .first = 4 * 29999},
        {.elem = 4, .ndim = 2, .size = {5000, 6}, .stride = {0, 7}},
        {.elem = 1,
         .ndim = 12,
         .size = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
         .stride = {1, 3, 9, 27, 81, 243, 729, 2187, 6561, 19683, 59049, 177147}},
    };
    struct rng rng = {8};
    uint8_t *host = must_alloc(VIEW_BYTES);
    CUdeviceptr at;

    (void)state;
    rng_fill(&rng, host, VIEW_BYTES);
    NEED(cuMemAlloc, &at, VIEW_BYTES);
    NEED(cuMemcpyHtoD, at, host, VIEW_BYTES);
    for (size_t k = 0; k < TB_ARRAY_LEN(shapes); k++)
        hash_view(host, at, &shapes[k], 2);
    for (int k = 0; k < 100; k++) {
        struct shape s = random_shape(&rng);

        hash_view(host, at, &s, 1 + (uint32_t)rng_below(&rng, 3));
    }
    NEED(cuMemFree, at);
    free(host);
    assert_true(gpu_settled(&gpu));
}

static void test_device__memory_that_was_never_written(void **state)
{
    enum { N = 100001 };
    struct tb_fpd_batch b;
    CUdeviceptr at;
    uint8_t *host = must_alloc(N);
    uint64_t ticket;

    (void)state;
    NEED(cuMemAlloc, &at, N);
    gpu_begin(&gpu, &b);
    ticket = gpu_add(&gpu, &b, at, N, 0);
    gpu_launch(&gpu, &b, gpu.sms, NULL);
    NEED(cuCtxSynchronize);
    NEED(cuMemcpyDtoH, host, at, N);
    check(gpu_take(&gpu, ticket), tb_fp_host(host, N, 0), "buffer", N, 0);
    NEED(cuMemFree, at);
    free(host);
}

static void test_device__what_is_no_view_is_refused(void **state)
{
    struct tb_fpd_strided none = {.elem = 0}, wide = {.elem = 17};
    struct tb_fpd_strided deep = {.elem = 1, .ndim = TB_FPD_STRIDED_DIMS + 1};
    struct tb_fpd_strided less = {.elem = 1, .ndim = 1, .size = {-1}};
    struct tb_fpd_batch empty = {.jobs = 0};

    (void)state;
    assert_int_equal(tb_fpd_plan_strided(&none, 1), 0);
    assert_int_equal(tb_fpd_plan_strided(&wide, 1), 0);
    assert_int_equal(tb_fpd_plan_strided(&deep, 1), 0);
    assert_int_equal(tb_fpd_plan_strided(&less, 1), 0);
    assert_int_equal(tb_fpd_plan(&empty, 1), 0);
}

static void test_device__the_text_alone_loads_too(void **state)
{
    CUmodule m;
    CUfunction f;
    size_t n, all;
    const char *text = tb_fpd_ptx(&n);

    (void)state;
    assert_int_equal(strlen(text), n);
    tb_fpd_image(&all);
    assert_true(all > 1000);
    NEED(cuModuleLoadData, &m, text);
    NEED(cuModuleGetFunction, &f, m, "twinbit_fp_few");
    NEED(cuModuleUnload, m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device__short_lengths),
        cmocka_unit_test(test_device__every_alignment),
        cmocka_unit_test(test_device__around_blocks_and_leaves),
        cmocka_unit_test(test_device__batches_of_mixed_sizes),
        cmocka_unit_test(test_device__samples),
        cmocka_unit_test(test_device__the_rule_of_samples),
        cmocka_unit_test(test_device__base_is_added_to_tickets),
        cmocka_unit_test(test_device__nothing_is_written_where_nobody_has_drawn),
        cmocka_unit_test(test_device__a_job_writes_its_slot_only),
        cmocka_unit_test(test_device__alike),
        cmocka_unit_test(test_device__fill),
        cmocka_unit_test(test_device__streams_at_once),
        cmocka_unit_test(test_device__views),
        cmocka_unit_test(test_device__what_is_no_view_is_refused),
        cmocka_unit_test(test_device__the_text_alone_loads_too),
    };
    const struct CMUnitTest unwritten[] = {
        cmocka_unit_test(test_device__memory_that_was_never_written),
    };
    const char *library = NULL;
    bool only_unwritten = false;
    size_t bytes;
    int failed, opt;

    while ((opt = getopt(argc, argv, "l:u")) != -1) {
        if (opt == 'l')
            library = optarg;
        else if (opt == 'u')
            only_unwritten = true;
        else
            return 2;
    }
    tb_fp_init();
    gpu_open(&gpu, library, tb_fpd_image(&bytes));
    failed = only_unwritten ? cmocka_run_group_tests(unwritten, NULL, NULL)
                            : cmocka_run_group_tests(tests, NULL, NULL);
    gpu_close(&gpu);
    return failed != 0;
}
