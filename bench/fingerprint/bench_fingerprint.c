/*
 * bench_fingerprint - how fast the fingerprint is beside XXH3_128bits over the same bytes and
 * beside a plain sum of them, which stands for the speed at which memory can be read.
 *
 * Every round runs all peers one after the other; a ratio is taken inside a round. With more
 * threads than one each peer's buffer is dealt to a standing pool: for XXH3 and the sum, one run of
 * bytes a thread; for ours, as tb_fp_host_pool() deals it. Prints what bench/README.md asks for.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <xxhash.h>

#include "fingerprint/fingerprint.h"

#define MAX_THREADS 16
#define MAX_ROUNDS 101
#define POOL_LEAST (1u << 20) /* smaller buffers are measured with one thread only */

typedef XXH128_hash_t xxh_fn(const void *src, size_t n);

static volatile uint64_t sink; /* keeps results alive */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a standing pool ---- */

struct pool {
    unsigned threads; /* the caller is one of them */
    unsigned generation, done, stop;
    size_t next, units;
    void (*body)(void *arg, size_t begin, size_t end);
    void *arg;
    pthread_t thread[MAX_THREADS];
};

/* Ranges of an eighth of a thread's fair share, so that a disturbed thread leaves work to others.
 */
static void work(struct pool *p)
{
    size_t grain = p->units / (8 * p->threads) + 1;

    for (;;) {
        size_t begin = __atomic_fetch_add(&p->next, grain, __ATOMIC_RELAXED);

        if (begin >= p->units)
            return;
        p->body(p->arg, begin, begin + grain < p->units ? begin + grain : p->units);
    }
}

static void *worker(void *arg)
{
    struct pool *p = arg;
    unsigned seen = 0;

    for (;;) {
        while (__atomic_load_n(&p->generation, __ATOMIC_ACQUIRE) == seen)
            sched_yield();
        seen++;
        if (__atomic_load_n(&p->stop, __ATOMIC_RELAXED))
            return NULL;
        work(p);
        __atomic_fetch_add(&p->done, 1, __ATOMIC_RELEASE);
    }
}

static void pool_run(void *ctx, void (*body)(void *arg, size_t begin, size_t end), void *arg,
                     size_t n)
{
    struct pool *p = ctx;

    p->body = body;
    p->arg = arg;
    p->units = n;
    p->next = 0;
    p->done = 0;
    __atomic_fetch_add(&p->generation, 1, __ATOMIC_RELEASE);
    work(p);
    while (__atomic_load_n(&p->done, __ATOMIC_ACQUIRE) != p->threads - 1)
        sched_yield();
}

static int pool_start(struct pool *p, unsigned threads)
{
    memset(p, 0, sizeof *p);
    p->threads = threads;
    for (unsigned k = 1; k < threads; k++)
        if (pthread_create(&p->thread[k], NULL, worker, p) != 0)
            return -1;
    return 0;
}

static void pool_stop(struct pool *p)
{
    __atomic_store_n(&p->stop, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&p->generation, 1, __ATOMIC_RELEASE);
    for (unsigned k = 1; k < p->threads; k++)
        pthread_join(p->thread[k], NULL);
}

/* ---- the peers ---- */

struct bytes {
    const uint8_t *src;
    size_t n;
    xxh_fn *xxh;
    size_t chunk; /* of a range of the pool, for XXH3 and the sum */
};

typedef uint64_t vec __attribute__((vector_size(32), aligned(1)));

#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
static uint64_t
read_sum(const uint8_t *p, size_t n)
{
    vec s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    const uint8_t *end = p + n / 128 * 128;

    for (; p < end; p += 128) {
        s0 += *(const vec *)(const void *)p;
        s1 += *(const vec *)(const void *)(p + 32);
        s2 += *(const vec *)(const void *)(p + 64);
        s3 += *(const vec *)(const void *)(p + 96);
    }
    s0 += s1 + s2 + s3;
    return s0[0] + s0[1] + s0[2] + s0[3];
}

static void read_body(void *arg, size_t begin, size_t end)
{
    const struct bytes *b = arg;

    sink += read_sum(b->src + begin * b->chunk, (end - begin) * b->chunk);
}

static void xxh_body(void *arg, size_t begin, size_t end)
{
    const struct bytes *b = arg;

    sink += b->xxh(b->src + begin * b->chunk, (end - begin) * b->chunk).low64;
}

static void run_read(struct bytes *b, struct pool *p)
{
    if (p->threads > 1)
        pool_run(p, read_body, b, b->n / b->chunk);
    else
        sink += read_sum(b->src, b->n);
}

static void run_xxh(struct bytes *b, struct pool *p)
{
    if (p->threads > 1)
        pool_run(p, xxh_body, b, b->n / b->chunk);
    else
        sink += b->xxh(b->src, b->n).low64;
}

static void run_ours(struct bytes *b, struct pool *p)
{
    struct tb_fp_pool lent = {pool_run, p, p->threads, 0};

    sink += tb_fp_host_pool(b->src, b->n, 0, &lent).a;
}

enum { OURS, XXH, READ, PEERS };
static void (*const peers[PEERS])(struct bytes *b, struct pool *p) = {run_ours, run_xxh, run_read};

/* ---- measuring ---- */

/* Seconds a call, over as many calls as fill @least seconds. */
static double time_one(void (*peer)(struct bytes *b, struct pool *p), struct bytes *b,
                       struct pool *p, size_t calls)
{
    double begin = now();

    for (size_t k = 0; k < calls; k++)
        peer(b, p);
    return (now() - begin) / (double)calls;
}

static void print_samples(const char *metric, const char *unit, const double *s, unsigned count,
                          const char *goal)
{
    printf("{\"metric\": \"%s\", \"unit\": \"%s\", ", metric, unit);
    if (goal)
        printf("\"goal\": \"%s\", ", goal);
    printf("\"samples\": [");
    for (unsigned k = 0; k < count; k++)
        printf("%s%.5g", k ? ", " : "", s[k]);
    printf("]}\n");
}

static void size_name(char out[16], size_t n)
{
    if (n >= 1u << 30)
        snprintf(out, 16, "%zuGiB", n >> 30);
    else if (n >= 1u << 20)
        snprintf(out, 16, "%zuMiB", n >> 20);
    else if (n >= 1u << 10)
        snprintf(out, 16, "%zuKiB", n >> 10);
    else
        snprintf(out, 16, "%zuB", n);
}

/* Where a buffer of a size lies when it is read again and again. */
enum place { IN_CACHE, BETWEEN, IN_MEMORY };

static enum place place_of(size_t n, size_t cache)
{
    if (n <= cache / 2)
        return IN_CACHE;
    return n >= 4 * cache ? IN_MEMORY : BETWEEN;
}

struct plan {
    double least;    /* seconds a sample, at least */
    unsigned rounds; /* samples */
    size_t cache;    /* last-level cache, bytes */
};

static void measure(const struct plan *plan, struct bytes *b, struct pool *p)
{
    double s[PEERS][MAX_ROUNDS];
    double by_xxh[MAX_ROUNDS], by_read[MAX_ROUNDS];
    size_t calls[PEERS];
    char metric[64], size[16];
    enum place place = place_of(b->n, plan->cache);

    for (int k = 0; k < PEERS; k++) {
        double t = time_one(peers[k], b, p, 1);

        t = time_one(peers[k], b, p, 1);
        calls[k] = 1 + (size_t)(plan->least / (t + 1e-9));
    }
    for (unsigned r = 0; r < plan->rounds; r++) {
        for (int k = 0; k < PEERS; k++)
            s[k][r] = (double)b->n / time_one(peers[k], b, p, calls[k]) * 1e-9;
        by_xxh[r] = s[OURS][r] / s[XXH][r];
        by_read[r] = s[OURS][r] / s[READ][r];
    }
    size_name(size, b->n);
    snprintf(metric, sizeof metric, "%s_%ut_by_xxh3", size, p->threads);
    print_samples(metric, "ratio", by_xxh, plan->rounds, place == IN_CACHE ? ">=0.85" : NULL);
    snprintf(metric, sizeof metric, "%s_%ut_by_read", size, p->threads);
    print_samples(metric, "ratio", by_read, plan->rounds, place == IN_MEMORY ? ">=0.90" : NULL);
    snprintf(metric, sizeof metric, "%s_%ut", size, p->threads);
    print_samples(metric, "GB/s", s[OURS], plan->rounds, NULL);
    snprintf(metric, sizeof metric, "%s_%ut_xxh3", size, p->threads);
    print_samples(metric, "GB/s", s[XXH], plan->rounds, NULL);
    snprintf(metric, sizeof metric, "%s_%ut_read", size, p->threads);
    print_samples(metric, "GB/s", s[READ], plan->rounds, NULL);
}

/* A call for @n bytes, each call waiting for the one before it. */
static void measure_small(const struct plan *plan, const uint8_t *src, size_t n)
{
    double ns[MAX_ROUNDS];
    char metric[64], size[16];

    for (unsigned r = 0; r < plan->rounds; r++) {
        struct tb_fp fp = {0, 0};
        double begin = now();

        for (int k = 0; k < 20000; k++)
            fp = tb_fp_host(src + (fp.a & 1), n, 0);
        ns[r] = (now() - begin) / 20000 * 1e9;
        sink += fp.a;
    }
    size_name(size, n);
    snprintf(metric, sizeof metric, "small_%s", size);
    print_samples(metric, "ns", ns, plan->rounds, NULL);
}

static void measure_summary(const struct plan *plan, const uint8_t *src, enum tb_dtype dt)
{
    double s[MAX_ROUNDS];
    char metric[64];
    size_t n = 64 << 10;

    for (unsigned r = 0; r < plan->rounds; r++) {
        struct tb_summary out;
        double begin = now();

        for (int k = 0; k < 10; k++)
            if (tb_summarize(src, dt, n / tb_dtype_size(dt), &out) == TB_OK)
                sink += out.zero;
        s[r] = (double)(10 * n) / (now() - begin) * 1e-9;
    }
    snprintf(metric, sizeof metric, "summary_%s", tb_dtype_name(dt));
    print_samples(metric, "GB/s", s, plan->rounds, NULL);
}

/* Row-major 2-D views of f32, 4 MiB: transposes with short and long rows, and rows with padding. */
static void measure_strided(const struct plan *plan, const uint8_t *src)
{
    static const struct {
        const char *name;
        int64_t sizes[2], strides[2];
    } views[] = {
        {"strided_transposed_1024x1024", {1024, 1024}, {1, 1024}},
        {"strided_transposed_256x4096", {256, 4096}, {1, 256}},
        {"strided_transposed_2730x384", {2730, 384}, {1, 2730}},
        {"strided_every_second", {1, 1 << 20}, {0, 2}},
        {"strided_padded_rows", {1024, 1024}, {1100, 1}},
    };

    for (size_t v = 0; v < TB_ARRAY_LEN(views); v++) {
        struct tb_fp_layout l = {4, 2, views[v].sizes, views[v].strides};
        double s[MAX_ROUNDS];

        for (unsigned r = 0; r < plan->rounds; r++) {
            double begin = now();

            sink += tb_fp_strided(src, &l, NULL).a;
            s[r] = (double)tb_fp_layout_bytes(&l) / (now() - begin) * 1e-9;
        }
        print_samples(views[v].name, "GB/s", s, plan->rounds, NULL);
    }
}

/* Numbers as a job has them: not one page may be shared or zero. */
static uint8_t *make_bytes(size_t n)
{
    uint8_t *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, n, MADV_HUGEPAGE);
    for (size_t k = 0; k < n; k += 4) {
        float x = (float)(uint32_t)(k * 2654435761u) * 0x1p-32f + 0x1p-30f;

        memcpy(p + k, &x, 4);
    }
    return p;
}

static unsigned cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return CPU_COUNT(&set) < MAX_THREADS ? (unsigned)CPU_COUNT(&set) : MAX_THREADS;
}

/* Bytes of the last-level cache this machine may use; sysconf() tells a whole socket's. */
static size_t cache_size(void)
{
    unsigned kib = 0;
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");

    if (f) {
        if (fscanf(f, "%uK", &kib) != 1)
            kib = 0;
        fclose(f);
    }
    return kib ? (size_t)kib << 10 : 32u << 20;
}

static xxh_fn *fastest_xxh(void)
{
    xxh_fn *f = NULL;

    *(void **)&f = dlsym(RTLD_DEFAULT, "XXH3_128bits_dispatch");
    printf("{\"versions\": {\"fingerprint\": \"%s\", \"xxh3\": \"libxxhash %u, %s\"}}\n",
           tb_fp_impl(), XXH_versionNumber(), f ? "XXH3_128bits_dispatch" : "XXH3_128bits");
    return f ? f : XXH3_128bits;
}

static const size_t sizes_full[] = {4u << 10, 16u << 10, 64u << 10, 256u << 10, 1u << 20,
                                    4u << 20, 16u << 20, 64u << 20, 256u << 20, 1u << 30};
static const size_t sizes_quick[] = {4u << 10, 64u << 10, 256u << 10,
                                     1u << 20, 8u << 20,  256u << 20};

static void run_all(const struct plan *plan, const size_t *sizes, size_t count, struct bytes *b)
{
    static const size_t small[] = {4, 8, 32, 128, 240, 512, 2048, 4096};
    static const enum tb_dtype dtypes[] = {TB_DT_F32, TB_DT_F64, TB_DT_BF16, TB_DT_I64};
    struct pool pool;

    for (unsigned t = 1; t <= cores(); t *= 2) {
        if (pool_start(&pool, t) != 0)
            exit(2);
        for (size_t k = 0; k < count; k++) {
            b->n = sizes[k];
            b->chunk = sizes[k] / (16 * t) / 128 * 128;
            if (t == 1 || sizes[k] >= POOL_LEAST)
                measure(plan, b, &pool);
        }
        pool_stop(&pool);
    }
    for (size_t k = 0; k < TB_ARRAY_LEN(small); k++)
        measure_small(plan, b->src, small[k]);
    for (size_t k = 0; k < TB_ARRAY_LEN(dtypes); k++)
        measure_summary(plan, b->src, dtypes[k]);
    measure_strided(plan, b->src);
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    struct plan plan = {
        .least = quick ? 0.01 : 0.02, .rounds = quick ? 21 : 31, .cache = cache_size()};
    size_t most = quick ? 256u << 20 : 1u << 30;
    struct bytes b = {.src = make_bytes(most)};

    if (!b.src) {
        fprintf(stderr, "bench_fingerprint: cannot map %zu bytes\n", most);
        return 2;
    }
    tb_fp_init();
    b.xxh = fastest_xxh();
    printf("{\"note\": \"last-level cache: %zu MiB\"}\n", plan.cache >> 20);
    if (quick)
        run_all(&plan, sizes_quick, TB_ARRAY_LEN(sizes_quick), &b);
    else
        run_all(&plan, sizes_full, TB_ARRAY_LEN(sizes_full), &b);
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 2;
}
