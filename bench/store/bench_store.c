/*
 * bench_store - one round: write EVENTS events of a made-up training job, read them back.
 *
 *     bench_store FOLDER EVENTS
 *
 * The job: 300 sites, 1,500 events a step, 2.8 accesses an event of which one is a hashed write,
 * one tensor allocated an event, scalars hashed. Prints one line: the figures, blank-separated (see
 * run). Time is the process's CPU time, kernel included: what one core needs, however busy the
 * machine is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"
#include "store/store.h"

#define SITES 300u
#define STEP 1500u
#define RANGES 200u

static double cpu(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void need(enum tb_status rc, const struct tb_error *err)
{
    if (rc == TB_OK)
        return;
    (void)fprintf(stderr, "bench_store: %s\n", err->text);
    exit(2);
}

static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

/* What the job does in one step: the same site, range and shape of reads at the same place of each.
 */
struct plan {
    uint32_t site[SITES], accesses[SITES], range[RANGES];
    uint32_t thread;
    uint16_t at_site[STEP], at_range[STEP];
};

static void make_sites(struct tb_store *s, struct plan *p, struct tb_error *err)
{
    char text[1024];

    for (uint32_t i = 0; i < SITES; i++) {
        uint32_t reads = i % 5 == 0 ? 1 : 2; /* 1.8 on average */
        int n = snprintf(text, sizeof(text), "torch\naten::op_%u.Tensor\n", i / 4);
        for (uint32_t k = 0; k < reads; k++)
            n += snprintf(text + n, sizeof(text) - (size_t)n, "r f32 cpu [%u,384] %s %s\n", i + 1,
                          i % 7 ? "-" : "[1,384]", k ? "other" : "self");
        n += snprintf(text + n, sizeof(text) - (size_t)n, "w f32 cpu [%u,384] - out\n", i + 1);
        need(tb_store_intern_site(s, text, (size_t)n, &p->site[i], err), err);
        p->accesses[i] = reads + 1;
    }
    for (uint32_t i = 0; i < RANGES; i++) {
        int n = snprintf(text, sizeof(text), "%s\ttransformer.h.%u.attn.c_%u\t",
                         i & 1 ? "forward" : "backward", i / 8, i % 8);
        need(tb_store_intern_range(s, text, (size_t)n, &p->range[i], err), err);
    }
}

static void make_plan(struct tb_store *s, struct plan *p, struct tb_error *err)
{
    struct tb_store_process process = {
        .rank = -1, .worker = -1, .pid = 1, .argv = "python train.py", .identity = "0"};
    uint64_t x = 88172645463325252u;
    uint32_t id;

    need(tb_store_add_process(s, &process, &id, err), err);
    need(tb_store_add_thread(s, id, 0, "main", &p->thread, err), err);
    make_sites(s, p, err);
    for (uint32_t i = 0; i < STEP; i++) {
        p->at_site[i] = (uint16_t)(next(&x) % SITES);
        p->at_range[i] = (uint16_t)(i * RANGES / STEP);
    }
}

static void write_event(struct tb_store *s, const struct plan *p, uint64_t i, uint64_t *x,
                        struct tb_error *err)
{
    uint32_t at = (uint32_t)(i % STEP), site = p->at_site[at], n = p->accesses[site];
    struct tb_store_access a[3] = {{0}};
    uint64_t r = next(x), born = 5000 + i; /* each event's output is a new allocation */
    struct tb_store_event e = {.thread = p->thread,
                               .kind = TB_EV_OP,
                               .flags = at > STEP / 2 ? TB_EVF_BACKWARD : 0,
                               .site = p->site[site],
                               .range = p->range[p->at_range[at]],
                               .seq = i,
                               .open = at % 8 == 0 && at > 0 ? i - 3 : i,
                               .step = i / STEP,
                               .args = at % 6 ? r * 0x9E3779B97F4A7C15u : 0,
                               .time_ns = 1000000000000u + i * 4000 + r % 1000};

    for (uint32_t k = 0; k + 1 < n; k++) {
        a[k].alloc = r >> (8 * k) & 3 ? born - 1 - (r >> (16 + 8 * k) & 0xff) : r % 300;
        a[k].offset = r >> (4 * k) & 15 ? 0 : 4096 * (r & 7);
    }
    a[n - 1].alloc = born;
    a[n - 1].fp_kind = TB_FP_BYTES;
    memcpy(a[n - 1].fp, &r, 8);
    memcpy(a[n - 1].fp + 8, x, 8);
    need(tb_store_event(s, &e, a, n, NULL, err), err);
}

/* Seconds of CPU for writing, closing included. */
static double write_trace(const char *path, uint64_t events, struct tb_error *err)
{
    struct tb_store_options options = {.force = true};
    struct plan *p = calloc(1, sizeof(*p));
    uint64_t x = 1181783497276652981u;
    struct tb_store *s;

    if (!p)
        exit(2);
    need(tb_store_create(&s, path, &options, err), err);
    make_plan(s, p, err);
    double begin = cpu();
    for (uint64_t i = 0; i < events; i++)
        write_event(s, p, i, &x, err);
    need(tb_store_close(s, err), err);
    double end = cpu();
    free(p);
    return end - begin;
}

/* What reading every access would give a caller; also keeps the compiler from dropping the loop. */
static double read_trace(const char *path, uint64_t *events, uint64_t *accesses,
                         struct tb_error *err)
{
    const struct tb_trace_event *e;
    struct tb_cursor *c;
    struct tb_trace *t;
    double begin = cpu();

    need(tb_trace_open(&t, path, err), err);
    need(tb_cursor_open_process(&c, t, 1, 0, UINT64_MAX, err), err);
    for (;;) {
        need(tb_cursor_next(c, &e, err), err);
        if (!e)
            break;
        ++*events;
        *accesses += e->site->access_count;
    }
    tb_cursor_close(c);
    tb_trace_close(t);
    return cpu() - begin;
}

/* What a verdict over equal runs needs: all segments, no event. */
static double read_segments(const char *path, struct tb_error *err)
{
    struct tb_trace_segment *s;
    struct tb_trace *t;
    double begin = cpu();
    size_t n;

    need(tb_trace_open(&t, path, err), err);
    need(tb_trace_segments(t, 1, &s, &n, err), err);
    free(s);
    tb_trace_close(t);
    return cpu() - begin;
}

int main(int argc, char **argv)
{
    struct tb_error err = {0};
    uint64_t read = 0, accesses = 0;
    struct rusage usage;
    struct stat st;
    char path[4096];

    if (argc != 3)
        return 2;
    uint64_t events = strtoull(argv[2], NULL, 10);
    (void)snprintf(path, sizeof(path), "%s/bench.twinbit", argv[1]);
    double w = write_trace(path, events, &err);
    double r = read_trace(path, &read, &accesses, &err);
    double g = read_segments(path, &err);
    if (read != events || stat(path, &st) != 0 || getrusage(RUSAGE_SELF, &usage) != 0)
        return 2;
    (void)remove(path);
    (void)printf("%.0f %.1f %.0f %.3f %.1f %.2f\n", (double)events / w,
                 (double)st.st_size / (double)events, (double)events / r, g * 1e7 / (double)events,
                 (double)usage.ru_maxrss / 1024, (double)accesses / (double)events);
    return 0;
}
