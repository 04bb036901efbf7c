/* The broken device: what it is made of, its launches, and whether their faults were masked. */
#include "softgpu/broken/broken_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double sg_broken_seconds(const struct sg_broken *b)
{
    return (double)(now_ns() - b->born_ns) * 1e-9;
}

bool sg_spec_old_enough(const struct sg_broken *b, const struct sg_spec *s, uint64_t launches)
{
    if (s->after.n <= 0)
        return true;
    return s->after.seconds ? sg_broken_seconds(b) >= s->after.n : (double)launches > s->after.n;
}

double sg_spec_rate(const struct sg_broken *b, const struct sg_spec *s, uint64_t launches)
{
    double age, rate;

    if (s->ageing.period <= 0)
        return s->rate;
    age = s->ageing.seconds ? sg_broken_seconds(b) : launches ? (double)(launches - 1) : 0;
    rate = s->rate * pow(s->ageing.factor, age / s->ageing.period);
    return rate < 1 ? rate : 1;
}

/* ---- making one ------------------------------------------------------------------------------ */

enum tb_status sg_broken_new(const struct sg_broken_options *opt, struct sg_broken **out,
                             struct tb_error *err)
{
    struct sg_broken *b = calloc(1, sizeof(*b));
    enum tb_status st = TB_OK;

    if (b == NULL)
        return tb_fail(err, TB_ERR_NOMEM, "cannot break a device: no memory");
    pthread_mutex_init(&b->run_lock, NULL);
    pthread_mutex_init(&b->lock, NULL);
    pthread_mutex_init(&b->now.lock, NULL);
    b->opt = *opt;
    b->born_ns = now_ns();
    b->watcher = sg_inject_watcher;
    b->watcher.arg = b;
    b->clean = sg_inject_clean_watcher;
    b->clean.arg = b;
    st = sg_specs_parse(opt->specs, opt->devices, opt->sms, &b->specs, err);
    if (st == TB_OK && opt->replay != NULL) {
        b->replaying = true;
        st = sg_replay_read(opt, &b->replay, err);
    }
    if (st == TB_OK && opt->log != NULL) {
        b->first = sg_undo_new();
        b->second = sg_undo_new();
        st = b->first && b->second ? sg_log_open(opt, &b->specs, &b->log, err)
                                   : tb_fail(err, TB_ERR_NOMEM, "cannot break a device: no memory");
    }
    b->opt.specs = b->opt.log = b->opt.replay = NULL;
    if (st == TB_OK)
        *out = b;
    else
        sg_broken_free(b);
    return st;
}

void sg_broken_free(struct sg_broken *b)
{
    if (b == NULL)
        return;
    sg_log_close(b->log);
    sg_undo_free(b->first);
    sg_undo_free(b->second);
    free(b->replay.f);
    free(b->now.faults);
    pthread_mutex_destroy(&b->now.lock);
    pthread_mutex_destroy(&b->lock);
    pthread_mutex_destroy(&b->run_lock);
    free(b);
}

uint64_t sg_broken_count(const struct sg_broken *b)
{
    return atomic_load(&b->count);
}

void sg_broken_end(struct sg_broken *b)
{
    unsigned long long n = sg_broken_count(b), logged = b->replay.n;
    char text[160];

    if (b->opt.say == NULL || (b->replaying ? n == logged : n != 0))
        return;
    if (b->replaying)
        snprintf(text, sizeof(text),
                 "%llu of the %llu faults of the log were injected: the program took another way",
                 n, logged);
    else
        snprintf(text, sizeof(text), "no fault was injected: nothing met the specifications");
    b->opt.say(b->opt.arg, text);
}

/* ---- was it masked? -------------------------------------------------------------------------- */

struct output { /* of printf: handed on, and a hash of it kept */
    void (*print)(void *arg, const char *text, size_t n);
    void *arg;
    uint64_t hash;
};

static void print(void *arg, const char *text, size_t n)
{
    struct output *o = arg;

    for (size_t i = 0; i < n; i++)
        o->hash = (o->hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    if (o->print != NULL)
        o->print(o->arg, text, n);
}

/* The launch once more, without faults, from the memory that it found; memory is then again what
 * the broken run has left. */
static enum sg_masked judge(struct sg_broken *b, struct sg_machine *m,
                            const struct sg_launch *launch, const struct sg_fault *fault,
                            uint64_t printed, const char **why)
{
    struct sg_launch again = *launch;
    struct output quiet = {0};
    struct sg_fault second = {0};
    struct sg_now *now = &b->now;
    enum tb_status st;
    bool same;

    *why = atomic_load(&now->uncertain);
    if (*why == NULL && (now->lost || !sg_undo_whole(b->first)))
        *why = "there is no memory for a second execution";
    if (*why != NULL)
        return SG_MASKED_UNKNOWN;
    sg_undo_swap(b->first);
    now->mode = SG_NOW_CLEAN;
    now->undo = b->second;
    memset((void *)again.watchers, 0, sizeof(again.watchers));
    again.watchers[0] = &b->clean;
    again.touch = NULL;
    again.print = print;
    again.print_arg = &quiet;
    st = sg_exec_run(m, &again, &second, NULL, NULL);
    same = quiet.hash == printed && sg_undo_same(b->first, b->second);
    sg_undo_swap(b->second);
    sg_undo_swap(b->first);
    *why = atomic_load(&now->uncertain);
    if (st == TB_ERR_CUDA && fault->kind == second.kind)
        *why = "it ends with this error without faults too";
    else if (st != TB_OK && st != TB_ERR_CUDA)
        *why = "it could not be executed a second time";
    else if (!sg_undo_whole(b->second))
        *why = "there is no memory for a second execution";
    if (*why != NULL)
        return SG_MASKED_UNKNOWN;
    return same && fault->kind == second.kind ? SG_MASKED_YES : SG_MASKED_NO;
}

/* ---- launches -------------------------------------------------------------------------------- */

static void write_lines(struct sg_broken *b, const struct sg_launch_line *l)
{
    static const char *const masked[] = {"false", "true", "\"unknown\""};
    const char *kernel = sg_kernel_info(l->launch->kernel)->name;
    const struct sg_now *now = &b->now;

    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < now->nfaults; i++) {
        const struct sg_injected *f = &now->faults[i];
        sg_log_fault(b->log, f, kernel, f->spec < b->specs.n ? &b->specs.s[f->spec] : NULL,
                     now->total == 1 ? masked[l->masked] : NULL);
    }
    sg_log_launch(b->log, l);
    sg_log_flush(b->log);
    pthread_mutex_unlock(&b->lock);
}

static void say_diverged(struct sg_broken *b, const struct sg_launch *launch)
{
    char text[160];

    if (b->now.diverged == 0 || b->opt.say == NULL)
        return;
    snprintf(text, sizeof(text),
             "launch %llu of device %u: %llu replayed faults met other values than were logged",
             (unsigned long long)launch->grid_id, launch->device,
             (unsigned long long)b->now.diverged);
    b->opt.say(b->opt.arg, text);
}

static void finish(struct sg_broken *b, struct sg_machine *m, const struct sg_launch *launch,
                   const struct sg_fault *fault, uint64_t printed)
{
    struct sg_now *now = &b->now;
    struct sg_launch_line l = {.launch = launch,
                               .faults = now->total,
                               .logged = now->nfaults,
                               .diverged = now->diverged,
                               .error = fault->kind == SG_FAULT_NONE ? NULL : fault->text};

    atomic_fetch_add(&b->count, now->total);
    say_diverged(b, launch);
    if (now->total == 0 || b->log == NULL)
        return;
    if (now->nfaults != 0)
        qsort(now->faults, now->nfaults, sizeof(*now->faults), sg_injected_order);
    l.masked = judge(b, m, launch, fault, printed, &l.why);
    write_lines(b, &l);
}

static void note_now(struct sg_broken *b, const struct sg_injected *f)
{
    atomic_fetch_add(&b->count, 1);
    if (b->log == NULL)
        return;
    sg_log_fault(b->log, f, NULL, NULL, NULL);
    sg_log_flush(b->log);
}

static void settle(struct sg_broken *b, const struct sg_launch *launch, bool late)
{
    struct sg_injected f = {.place = SG_PLACE_LAUNCH,
                            .device = launch->device,
                            .number = launch->grid_id,
                            .late = late};

    pthread_mutex_lock(&b->lock);
    b->launches[launch->device] = launch->grid_id;
    sg_cells_settle(b, &f, note_now);
    pthread_mutex_unlock(&b->lock);
}

/* With the watcher behind those that are there already. */
static enum tb_status run_watched(struct sg_broken *b, struct sg_machine *m,
                                  const struct sg_launch *launch, struct sg_fault *fault,
                                  struct sg_run_stats *stats, struct tb_error *err)
{
    struct sg_launch broken = *launch;
    struct output out = {.print = launch->print, .arg = launch->print_arg};
    enum tb_status st;
    int free_place = 0;

    while (free_place < SG_MAX_WATCHERS && broken.watchers[free_place] != NULL)
        free_place++;
    if (free_place == SG_MAX_WATCHERS)
        return tb_fail(err, TB_ERR_LIMIT, "too many watch the launch: it cannot be broken too");
    broken.watchers[free_place] = &b->watcher;
    broken.print = print;
    broken.print_arg = &out;
    b->now.undo = b->first;
    if (b->first != NULL) {
        sg_undo_clear(b->first);
        sg_undo_clear(b->second);
    }
    *fault = (struct sg_fault){.kind = SG_FAULT_NONE};
    st = sg_exec_run(m, &broken, fault, stats, err);
    if (st == TB_OK || st == TB_ERR_CUDA)
        finish(b, m, launch, fault, out.hash);
    return st;
}

enum tb_status sg_broken_run(struct sg_broken *b, struct sg_machine *m,
                             const struct sg_launch *launch, struct sg_fault *fault,
                             struct sg_run_stats *stats, struct tb_error *err)
{
    enum tb_status st;

    pthread_mutex_lock(&b->run_lock);
    settle(b, launch, false);
    if (sg_inject_prepare(b, launch)) {
        st = run_watched(b, m, launch, fault, stats, err);
        sg_inject_release(b);
    } else {
        st = sg_exec_run(m, launch, fault, stats, err);
    }
    settle(b, launch, true);
    pthread_mutex_unlock(&b->run_lock);
    return st;
}
