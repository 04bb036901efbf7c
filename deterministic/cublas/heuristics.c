/*
 * Which algorithm cuBLASLt's heuristic names for a product: the first one is written down for each
 * thread and product, and again whenever it is another one. In a replay the recorded one is put
 * first, if cuBLASLt still takes it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "deterministic/cublas/cublas.h"
#include "deterministic/cublas/cublas_internal.h"

#define ROWS 16384u
#define PROBES 64u

/** struct product - of one thread, which alone writes it once it is claimed */
struct product {
    uint64_t key; /* of thread, product and pid: a forked child begins anew; 0: free */
    uint64_t asks;
    uint32_t records; /* written */
    uint32_t marks;   /* of the last of them */
    uint64_t algo[TB_CUBLASLT_ALGO];
    /* in a replay: what holds now, and what comes next; in the log that is repeated */
    const struct tb_preload_record *now, *next;
    uint64_t at;
    uint32_t taken; /* records read; the next one's number */
};

static struct product products[ROWS];
static uint32_t full; /* there was no room: said once; changed atomically */

static struct product *product_of(uint64_t stream)
{
    uint64_t key = tb_preload_mix(stream, (uint64_t)getpid()) | 1;

    for (uint32_t i = 0; i < PROBES; i++) {
        struct product *p = &products[(tb_preload_mix64(key) + i) % ROWS];
        uint64_t there = 0;
        if (__atomic_compare_exchange_n(&p->key, &there, key, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE) ||
            there == key)
            return p;
    }
    return NULL;
}

/* ---------------------------------------------------------------- the log that is repeated */

static struct tb_cublas_algorithm value_of(const struct tb_preload_record *r)
{
    struct tb_cublas_algorithm a;

    memcpy(&a, r + 1, sizeof(a));
    return a;
}

static const struct tb_preload_record *read_next(struct product *p, uint64_t stream)
{
    const struct tb_preload_record *r =
        tb_cublas_recorded(TB_PRELOAD_ALGORITHM, stream, p->taken++, &p->at);

    return r && r->payload >= sizeof(struct tb_cublas_algorithm) ? r : NULL;
}

/* Brings `now` up to question @ask; NULL: that run did not ask about this product */
static const struct tb_preload_record *recorded(struct product *p, uint64_t stream, uint64_t ask)
{
    if (ask == 0)
        p->next = read_next(p, stream);
    while (p->next && value_of(p->next).ask <= ask) {
        p->now = p->next;
        p->next = read_next(p, stream);
    }
    return p->now;
}

/* ---------------------------------------------------------------- putting it first */

static bool fits(const struct tb_cublas_real *real, const struct tb_cublas_question *q,
                 const struct tb_cublaslt_result *result)
{
    uint64_t most = 0;
    size_t written = 0;

    return real->preference && q->preference &&
           real->preference(q->preference, TB_CUBLASLT_PREF_MAX_WORKSPACE, &most, sizeof(most),
                            &written) == TB_CUBLAS_SUCCESS &&
           result->workspace <= most;
}

static bool accepted(const struct tb_cublas_real *real, const struct tb_cublas_question *q,
                     const struct tb_cublas_algorithm *want, struct tb_cublaslt_result *result)
{
    *result = (struct tb_cublaslt_result){.workspace = 0};
    memcpy(result->algo, want->algo, sizeof(result->algo));
    if (!real->version || real->version() != want->version || !real->check ||
        real->check(q->lt, q->operation, q->layout[0], q->layout[1], q->layout[2], q->layout[3],
                    want->algo, result) != TB_CUBLAS_SUCCESS)
        return false;
    memcpy(result->algo, want->algo, sizeof(result->algo));
    result->state = TB_CUBLAS_SUCCESS;
    return fits(real, q, result);
}

/* @first before all others; those up to place @until move down by one */
static void put_first(const struct tb_cublas_question *q, const struct tb_cublaslt_result *first,
                      int until)
{
    struct tb_cublaslt_result copy = *first;

    memmove(q->results + 1, q->results, (size_t)until * sizeof(*q->results));
    q->results[0] = copy;
}

static unsigned repeat(const struct tb_cublas_real *real, const struct tb_cublas_question *q,
                       const struct tb_cublas_algorithm *want)
{
    struct tb_cublaslt_result result;

    for (int i = 0; i < *q->given; i++)
        if (memcmp(q->results[i].algo, want->algo, sizeof(want->algo)) == 0 &&
            q->results[i].state == TB_CUBLAS_SUCCESS) {
            put_first(q, &q->results[i], i);
            return TB_PRELOAD_FROM_LOG | (i ? TB_PRELOAD_PUT_BACK : 0u);
        }
    if (!accepted(real, q, want, &result))
        return TB_PRELOAD_FAILED;
    if (*q->given < q->asked)
        ++*q->given;
    put_first(q, &result, *q->given - 1);
    return TB_PRELOAD_FROM_LOG | TB_PRELOAD_PUT_BACK;
}

/* ---------------------------------------------------------------- one question */

static void note(struct product *p, const struct tb_cublas_real *real, uint64_t stream,
                 const struct tb_cublaslt_result *first, unsigned marks, uint64_t ask,
                 const void *pc)
{
    struct tb_cublas_algorithm value = {.workspace = first->workspace, .ask = ask};

    if (p->records && p->marks == marks && memcmp(p->algo, first->algo, sizeof(p->algo)) == 0)
        return;
    memcpy(value.algo, first->algo, sizeof(value.algo));
    value.version = real->version ? real->version() : 0;
    tb_cublas_say(TB_PRELOAD_ALGORITHM | marks << 16, stream, p->records++, &value, sizeof(value),
                  pc);
    memcpy(p->algo, first->algo, sizeof(p->algo));
    p->marks = marks;
}

static void decide(const struct tb_cublas_real *real, const struct tb_cublas_question *q,
                   const void *pc)
{
    uint64_t stream = tb_preload_mix(tb_cublas_thread(), tb_cublas_problem(real, q));
    struct product *p = product_of(stream);
    unsigned marks = 0;

    if (!p) {
        if (__atomic_exchange_n(&full, 1, __ATOMIC_RELAXED) == 0)
            tb_cublas_say(TB_PRELOAD_ALGORITHM | (unsigned)TB_PRELOAD_CUT << 16, 0, 0, NULL, 0, pc);
        return;
    }
    uint64_t ask = p->asks++;
    if (tb_cublas_wanted()->replay) {
        const struct tb_preload_record *r = recorded(p, stream, ask);
        struct tb_cublas_algorithm want;
        if (r)
            want = value_of(r);
        marks = r ? repeat(real, q, &want) : TB_PRELOAD_NOT_IN_LOG;
    }
    note(p, real, stream, &q->results[0], marks, ask, pc);
}

static int ask(const struct tb_cublas_question *q, const void *pc)
{
    struct tb_cublas_real real;

    tb_cublas_real(pc, &real);
    if (!real.heuristic)
        return TB_CUBLAS_NOT_INITIALIZED;
    int status = real.heuristic(q->lt, q->operation, q->layout[0], q->layout[1], q->layout[2],
                                q->layout[3], q->preference, q->asked, q->results, q->given);
    int saved = errno;
    if (status == TB_CUBLAS_SUCCESS && tb_cublas_wanted()->heuristics && q->results && q->given &&
        *q->given > 0 && *q->given <= q->asked && q->results[0].state == TB_CUBLAS_SUCCESS)
        decide(&real, q, pc);
    errno = saved;
    return status;
}

int cublasLtMatmulAlgoGetHeuristic(void *lt, void *operation, void *a, void *b, void *c, void *d,
                                   void *preference, int asked, struct tb_cublaslt_result *results,
                                   int *given)
{
    struct tb_cublas_question q = {lt, operation, {a, b, c, d}, preference, asked, results, given};

    return ask(&q, TB_HERE);
}
