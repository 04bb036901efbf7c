/*
 * bench_diff - makes traces of a made-up job, and compares two of them.
 *
 *     bench_diff make PATH EVENTS AT    a trace of EVENTS events; from event AT on (0: never) all
 * it writes is other bytes bench_diff diff A B               prints: verdict, roots, seconds, CPU
 * seconds, MiB at most, events compared, events skipped
 *
 * 1,500 events a step, each with two reads and a hashed write into memory of its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "diff/diff.h"
#include "recorder/wire.h"
#include "store/store.h"

#define STEP 1500u
#define SITES 300u

struct maker {
    struct tb_store *s;
    uint32_t thread, site[SITES], end, range[50];
    uint64_t seq;
    struct tb_error err;
};

static void need(enum tb_status rc, const struct tb_error *err)
{
    if (rc == TB_OK)
        return;
    (void)fprintf(stderr, "bench_diff: %s\n", err->text);
    exit(2);
}

static void make_names(struct maker *m)
{
    struct tb_store_process p = {
        .rank = -1, .worker = -1, .pid = 1, .argv = "python train.py", .identity = "python#0"};
    char text[512];
    uint32_t process;

    need(tb_store_add_process(m->s, &p, &process, &m->err), &m->err);
    need(tb_store_add_thread(m->s, process, 0, "main", &m->thread, &m->err), &m->err);
    for (uint32_t i = 0; i < SITES; i++) {
        int n = snprintf(text, sizeof(text),
                         "torch\naten::op_%u\nr f32 cpu [%u,8] - self\nr f32 cpu [%u,8] - other\n"
                         "w f32 cpu [%u,8] - out\n",
                         i, i + 1, i + 1, i + 1);
        need(tb_store_intern_site(m->s, text, (size_t)n, &m->site[i], &m->err), &m->err);
    }
    need(tb_store_intern_site(m->s, "torch\nstep\n", 11, &m->end, &m->err), &m->err);
    for (uint32_t i = 0; i < 50; i++) {
        int n = snprintf(text, sizeof(text), "forward\tmodel.h.%u\t", i);
        need(tb_store_intern_range(m->s, text, (size_t)n, &m->range[i], &m->err), &m->err);
    }
}

static void event(struct maker *m, uint64_t i, bool other)
{
    uint32_t at = (uint32_t)(i % STEP);
    uint64_t h = (i + other) * 0x9E3779B97F4A7C15u;
    struct tb_store_access a[3] = {{.alloc = i % 700 ? i : 1},
                                   {.alloc = i > 20 ? i - 19 : 1},
                                   {.alloc = i + 1, .fp_kind = TB_FP_BYTES}};
    struct tb_store_event e = {.thread = m->thread,
                               .kind = TB_EV_OP,
                               .site = m->site[at % SITES],
                               .range = m->range[at / 30],
                               .seq = m->seq,
                               .open = m->seq,
                               .step = i / STEP,
                               .args = at % 6,
                               .time_ns = 4000 * i};

    memcpy(a[2].fp, &h, sizeof(h));
    m->seq++;
    need(tb_store_event(m->s, &e, a, 3, NULL, &m->err), &m->err);
    if (at + 1 < STEP)
        return;
    e = (struct tb_store_event){.thread = m->thread,
                                .kind = TB_EV_STEP,
                                .site = m->end,
                                .seq = m->seq,
                                .open = m->seq,
                                .step = i / STEP};
    m->seq++;
    need(tb_store_event(m->s, &e, NULL, 0, NULL, &m->err), &m->err);
}

static int make(const char *path, uint64_t events, uint64_t from)
{
    struct maker m = {.seq = 0};
    struct tb_store_options o = {.force = true};

    need(tb_store_create(&m.s, path, &o, &m.err), &m.err);
    make_names(&m);
    for (uint64_t i = 0; i < events; i++)
        event(&m, i, from && i >= from);
    need(tb_store_close(m.s, &m.err), &m.err);
    return 0;
}

static int compare(const char *a, const char *b)
{
    struct tb_diff_report *r = NULL;
    struct tb_error err = {0};
    struct timespec cpu;
    struct rusage use;

    need(tb_diff_run(&r, a, b, NULL, &err), &err);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    (void)getrusage(RUSAGE_SELF, &use);
    printf("%d %zu %.4f %.4f %.1f %" PRIu64 " %" PRIu64 "\n", (int)r->verdict, r->root_count,
           r->seconds, (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9,
           (double)use.ru_maxrss / 1024.0, r->compared, r->skipped);
    tb_diff_free(r);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "make") == 0)
        return make(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "diff") == 0)
        return compare(argv[2], argv[3]);
    fputs("usage: bench_diff make PATH EVENTS AT | bench_diff diff A B\n", stderr);
    return 2;
}
