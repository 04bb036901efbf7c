/*
 * Allocations that streams use at once: what a pointer there is for ends where the next one leads
 * to, until that is over and it is for the whole again.
 *
 * It is over when one stream alone has used the allocation for some launches, and all that others
 * did there is before them: what it writes is then hashed whole, with nobody to tear that. If
 * streams meet there once more, twice as many launches are waited for the next time, so that a
 * program which comes and goes pays with few torn fingerprints.
 *
 * Extents are a part of what runs are compared by, so their end must not depend on how fast host
 * or device are. Orders that do are not counted here: queries, which are answered by the time, and
 * what other threads than the main one waited for (struct tb_cu_clocks, `said`). For the same
 * reason an allocation that other threads use meanwhile stays as it is.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/cuda/engine.h"

#define PATIENCE 16u /* launches */
#define DOUBLINGS 20u

/* What has happened since it was cut. */
struct tb_cu_parting {
    uint64_t last[TB_CU_STREAMS]; /* clock of each stream's last use; 0: none */
    uint32_t stream;              /* index of the last one that used it */
    uint32_t calm;                /* its launches since another one did */
    bool forever;                 /* nobody can say when it is over */
};

bool tb_cu_is_main_thread(void)
{
    struct tb_cu_tls *tls = &tb_cu_tls;

    if (!tls->thread)
        tls->thread =
            syscall(SYS_gettid) == syscall(SYS_getpid) ? TB_CU_MAIN_THREAD : TB_CU_OTHER_THREAD;
    return tls->thread == TB_CU_MAIN_THREAD;
}

uint32_t tb_cu_thread(void)
{
    struct tb_cu_tls *tls = &tb_cu_tls;

    if (tb_unlikely(!tls->tid))
        tls->tid = (uint32_t)syscall(SYS_gettid);
    return tls->tid;
}

bool tb_cu_by_chance(const struct tb_cu_stream *s, const struct tb_cu_use *use)
{
    return use->clock && use->stream != s->index && use->thread != tb_cu_thread() &&
           use->clock > s->known.said[use->stream] && use->clock > tb_cu.host.said[use->stream];
}

static void note(struct tb_cu_parting *p, const struct tb_cu_uses *uses)
{
    for (uint32_t i = 0; i < uses->n; i++) {
        const struct tb_cu_use *u = &uses->use[i];
        if (p->last[u->stream] < u->clock)
            p->last[u->stream] = u->clock;
    }
}

void tb_cu_split(struct tb_cu_alloc *a)
{
    if (a->split)
        return;
    tb_cu_alloc_changed(a);
    a->split = true;
    a->splits += a->splits <= DOUBLINGS;
    tb_cu.split = true;
    if (!a->parting && !(a->parting = tb_cu_small(sizeof(*a->parting))))
        return; /* for good */
    *a->parting = (struct tb_cu_parting){.stream = UINT32_MAX};
    note(a->parting, &a->write);
    note(a->parting, &a->read);
}

/* All that other streams did there is before what @s does. */
static bool is_over(const struct tb_cu_parting *p, const struct tb_cu_stream *s)
{
    for (uint32_t i = 0; i < TB_CU_STREAMS; i++)
        if (i != s->index && p->last[i] > s->known.said[i])
            return false;
    return true;
}

static void used(struct tb_cu_alloc *a, const struct tb_cu_stream *s, bool launch)
{
    struct tb_cu_parting *p = a->parting;
    uint64_t clock = s->known.at[s->index];

    if (!p || p->last[s->index] == clock) /* the same work again */
        return;
    p->forever = p->forever || s->index == TB_CU_STREAMS - 1 || !tb_cu_is_main_thread();
    p->last[s->index] = clock;
    p->calm = p->stream == s->index ? p->calm + launch : 0;
    p->stream = s->index;
    if (!launch || p->forever || p->calm < PATIENCE << (a->splits - 1) || !is_over(p, s))
        return;
    a->split = false;
    tb_cu_alloc_changed(a);
}

void tb_cu_split_used(const struct tb_cu_stream *s, const struct tb_cu_access *access, uint32_t n,
                      bool launch)
{
    for (uint32_t i = 0; i < n; i++)
        if (access[i].alloc && access[i].alloc->split)
            used(access[i].alloc, s, launch);
}
