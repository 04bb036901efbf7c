/* What a program made and never freed or destroyed, when it ends. Memory is summed up by the place
 * that allocated it; handles by their kind. What belongs to a context that has ended is gone. */
#include "softgpu/driver/graph.h"
#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/pool.h"
#include "softgpu/driver/strict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 256

struct group { /* allocations of one kind from one place */
    struct sg_near first;
    uint64_t n, bytes;
};

struct groups {
    struct group all[GROUPS_MAX];
    size_t n;
};

/* Modules free their variables themselves, managed ones too. */
static bool is_the_programs(const struct sg_near *a)
{
    return strcmp(a->kind, "module") != 0 && a->allocated.call &&
           strncmp(a->allocated.call, "cuMem", 5) == 0;
}

static void collect(void *arg, const struct sg_near *a)
{
    struct groups *g = arg;
    size_t i = 0;

    if (!is_the_programs(a) || a->freed)
        return;
    while (i < g->n && (g->all[i].first.allocated.site != a->allocated.site ||
                        g->all[i].first.allocated.call != a->allocated.call))
        i++;
    if (i == GROUPS_MAX)
        i--; /* the last one takes all that is left */
    if (i == g->n)
        g->all[g->n++].first = *a;
    g->all[i].n++;
    g->all[i].bytes += a->size;
}

static void tell_memory(const struct group *g)
{
    struct sg_finding f = {.rule = SG_RULE_LEAK, .near = g->first, .number = g->n};
    char site[256];

    f.address = g->first.addr;
    f.size = g->bytes;
    sg_strict_site_text(g->first.allocated.site, site, sizeof(site));
    snprintf(
        f.text, sizeof(f.text),
        "%llu allocations of %s memory, %llu bytes, were never freed: %s, first in call %llu%s%s",
        (unsigned long long)g->n, g->first.kind, (unsigned long long)g->bytes,
        g->first.allocated.call, (unsigned long long)g->first.allocated.number,
        *site ? ", from " : "", site);
    sg_report(&f);
}

static void tell_handles(const char *what, size_t n)
{
    struct sg_finding f = {.rule = SG_RULE_LEAKED_HANDLE, .number = n};

    if (!n)
        return;
    snprintf(f.text, sizeof(f.text), "%zu %s were never destroyed", n, what);
    sg_report(&f);
}

/* ---- which handles are the program's own; all of these live ------- */

static bool own_stream(const void *p)
{
    const struct CUstream_st *s = p;

    return !s->legacy && !s->per_thread;
}

static bool own_any(const void *p)
{
    return p != NULL;
}

static bool own_graph(const void *p)
{
    const struct CUgraph_st *g = p;

    return !g->owned && !g->captures;
}

static bool own_module(const void *p)
{
    const struct CUmod_st *m = p;

    return !m->lib;
}

static bool own_pool(const void *p)
{
    const struct CUmemPoolHandle_st *pool = p;

    return !pool->is_default;
}

static size_t own_contexts(void)
{
    size_t n = 0;

    pthread_mutex_lock(&sg_driver.lock);
    for (const struct CUctx_st *c = sg_driver.contexts; c; c = c->next)
        n += !c->is_primary && c->active;
    pthread_mutex_unlock(&sg_driver.lock);
    return n;
}

static void all_handles(void)
{
    static const struct {
        uint32_t magic;
        const char *what;
        bool (*own)(const void *p);
    } kinds[] = {
        {SG_MAGIC_STREAM, "streams", own_stream}, {SG_MAGIC_EVENT, "events", own_any},
        {SG_MAGIC_GRAPH, "graphs", own_graph},    {SG_MAGIC_GEXEC, "executable graphs", own_any},
        {SG_MAGIC_MODULE, "modules", own_module}, {SG_MAGIC_POOL, "memory pools", own_pool},
    };

    for (size_t i = 0; i < TB_ARRAY_LEN(kinds); i++) {
        size_t n;

        sg_engine_lock();
        n = sg_handle_count(kinds[i].magic, kinds[i].own);
        sg_engine_unlock();
        tell_handles(kinds[i].what, n);
    }
    tell_handles("contexts", own_contexts());
    tell_handles("handles of cuMemCreate", sg_vmm_handles());
    tell_handles("address ranges of cuMemAddressReserve", sg_index_count(sg_driver.memory->ranges));
}

void sg_strict_leaks(void)
{
    struct groups *g = calloc(1, sizeof(*g));

    if (g)
        sg_book_each(collect, g);
    for (size_t i = 0; g && i < g->n; i++)
        tell_memory(&g->all[i]);
    free(g);
    all_handles();
}
