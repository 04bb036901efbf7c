/* What the logs of a job's processes say of cuBLAS: its handles, and algorithms of cuBLASLt. */
#include "collector/draws.h"

#include <stdio.h>
#include <string.h>

#include "collector/collector_internal.h"
#include "deterministic/cublas/abi.h"
#include "deterministic/cublas/cublas.h"
#include "deterministic/plan.h"

/* "libtorch_cuda.so+0x1234", behind the @bytes of a payload */
static void put_caller(char *out, size_t size, const struct tb_preload_event *e, size_t bytes)
{
    (void)snprintf(out, size, "%.*s", (int)(e->record->payload - bytes),
                   (const char *)e->payload + bytes);
}

static void count_atomics(struct tb_draws_cublas *c, const struct tb_preload_event *e)
{
    struct tb_cublas_atomics a;

    if (e->record->payload < sizeof(a))
        return;
    memcpy(&a, e->payload, sizeof(a));
    if (a.event == TB_CUBLAS_CREATED) {
        c->handles++;
        c->others += a.mode != TB_CUBLAS_NOT_ALLOWED;
        return;
    }
    if (!c->asker[0])
        put_caller(c->asker, sizeof(c->asker), e, sizeof(a));
    c->allowed += a.mode != TB_CUBLAS_NOT_ALLOWED;
}

static void count_algorithm(struct tb_draws_cublas *c, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    bool new = r->n == 0;

    if (r->payload < sizeof(struct tb_cublas_algorithm)) {
        c->full = true;
        return;
    }
    c->products += new;
    c->changes += !new;
    c->put_back += (r->marks & TB_PRELOAD_PUT_BACK) != 0;
    c->unknown += (r->marks & TB_PRELOAD_NOT_IN_LOG) != 0;
    c->refused += (r->marks & TB_PRELOAD_FAILED) != 0;
    c->hash += tb_preload_mix(tb_preload_mix(r->asked, r->n), r->hash);
    if ((r->marks & (TB_PRELOAD_PUT_BACK | TB_PRELOAD_NOT_IN_LOG | TB_PRELOAD_FAILED)) &&
        !c->first[0])
        put_caller(c->first, sizeof(c->first), e, sizeof(struct tb_cublas_algorithm));
}

bool tb_draws_count_cublas(struct tb_draws_cublas *c, const struct tb_preload_event *e)
{
    if (e->record->kind == TB_PRELOAD_ATOMICS)
        count_atomics(c, e);
    else if (e->record->kind == TB_PRELOAD_ALGORITHM)
        count_algorithm(c, e);
    else
        return false;
    return true;
}

void tb_draws_add_cublas(struct tb_draws_cublas *all, const struct tb_draws_cublas *c)
{
    if (c->first[0] && !all->first[0])
        (void)snprintf(all->first, sizeof(all->first), "%s", c->first);
    all->put_back += c->put_back;
    all->unknown += c->unknown;
    all->refused += c->refused;
}

/* ---------------------------------------------------------------- rows */

static const char *s(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void say_atomics(struct tb_pins *pins, pid_t pid, const char *program,
                        const struct tb_draws_cublas *c)
{
    enum tb_pin_state state = c->allowed  ? TB_PIN_WAS_JOB
                              : c->others ? TB_PIN_WAS_MISSED
                                          : TB_PIN_WAS_HELD;
    char text[400];

    if (c->allowed)
        (void)snprintf(text, sizeof(text), "ALLOWED, asked for by %s", c->asker);
    else if (c->others)
        (void)snprintf(text, sizeof(text), "another mode for %llu of %llu handle%s",
                       (unsigned long long)c->others, (unsigned long long)c->handles,
                       s(c->handles));
    else
        (void)snprintf(text, sizeof(text), "NOT_ALLOWED for %llu handle%s%s%s",
                       (unsigned long long)c->handles, s(c->handles),
                       c->asker[0] ? ", though ALLOWED was asked for by " : "", c->asker);
    if (c->handles || c->asker[0])
        tb_pins_say(pins, pid, program, "cuda.cublas_atomics", state, text);
}

static int put_count(char *text, size_t room, uint64_t n, const char *what)
{
    return n ? snprintf(text, room, ", %llu %s", (unsigned long long)n, what) : 0;
}

static void say_algorithms(struct tb_pins *pins, pid_t pid, const char *program,
                           const struct tb_draws_cublas *c)
{
    char text[400];
    int n = snprintf(text, sizeof(text), "%llu product%s, algorithms %016llx",
                     (unsigned long long)c->products, s(c->products), (unsigned long long)c->hash);

    n += put_count(text + n, sizeof(text) - (size_t)n, c->changes, "named anew");
    n += put_count(text + n, sizeof(text) - (size_t)n, c->put_back, "put back");
    n += put_count(text + n, sizeof(text) - (size_t)n, c->refused, "not accepted any more");
    n += put_count(text + n, sizeof(text) - (size_t)n, c->unknown, "not in the log");
    if (c->full)
        (void)snprintf(text + n, sizeof(text) - (size_t)n, ", no room for more products");
    if (c->products)
        tb_pins_say(pins, pid, program, "cuda.cublaslt_heuristics", TB_PIN_WAS_READ, text);
}

void tb_draws_say_cublas(struct tb_pins *pins, const struct tb_preload_file *f,
                         const struct tb_draws_cublas *c)
{
    char program[sizeof(f->program) + 1];

    (void)snprintf(program, sizeof(program), "%.*s", (int)sizeof(f->program), f->program);
    say_atomics(pins, (pid_t)f->pid, program, c);
    say_algorithms(pins, (pid_t)f->pid, program, c);
}

void tb_draws_report_cublas(const struct tb_draws_cublas *c,
                            void (*line)(void *arg, const char *text), void *arg)
{
    char text[400], first[sizeof(c->first)];

    (void)snprintf(first, sizeof(first), "%s", c->first);
    (void)tb_plain(first, false);
    if (!c->put_back && !c->refused && !c->unknown)
        return;
    (void)snprintf(text, sizeof(text),
                   "replay: of algorithms of cuBLASLt %llu %s others than recorded, and put back, "
                   "%llu %s not accepted any more, %llu %s not in the log; the first asked for by "
                   "%s",
                   (unsigned long long)c->put_back, c->put_back == 1 ? "was" : "were",
                   (unsigned long long)c->refused, c->refused == 1 ? "was" : "were",
                   (unsigned long long)c->unknown, c->unknown == 1 ? "was" : "were", first);
    line(arg, text);
}
