#include "softgpu/exec/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <xmmintrin.h>

#define CALM_MXCSR                                                                                 \
    0x1f80u               /* nearest, no flushing, no traps: whatever the host's thread has set    \
                           */
#define SLICE_ALONE 4096u /* instructions a warp runs before another of its block does */
#define SLICE_SHARED 128u /* the same where blocks wait for each other; plus up to 511 */
#define MAX_WARPS 32u
#define MAX_THREADS_SM 2048u
#define MAX_SHARED_SM (164u << 10)
#define MAX_RESIDENT 4096u /* blocks, of a launch that is not cooperative */

struct sg_worker {
    struct sg_machine *machine;
    pthread_t thread;
    bool started;
    unsigned index;
    uint64_t seen;            /* generation of the last job */
    struct sg_block **blocks; /* memory of blocks, kept between launches */
    uint32_t nblocks;
    struct sg_block **active; /* those of them that run */
    uint32_t cap_active;
};

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* A number of 0 .. n - 1. */
static uint32_t draw(uint64_t *rng, uint32_t n)
{
    *rng = *rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((*rng >> 32) * n) >> 32);
}

/* ---- memory of blocks ------------------------------------------------------------------------ */

static void block_free(struct sg_block *b)
{
    if (b == NULL)
        return;
    for (uint32_t i = 0; i < MAX_WARPS && b->warps != NULL; i++) {
        free(b->warps[i].regs);
        free(b->warps[i].local);
    }
    free(b->warps);
    free((void *)b->runnable);
    free(b->shared);
    free(b);
}

static struct sg_block *block_new(void)
{
    struct sg_block *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return NULL;
    b->warps = aligned_alloc(64, sizeof(struct sg_warp) * MAX_WARPS);
    b->runnable = calloc(MAX_WARPS, sizeof(*b->runnable));
    if (b->warps == NULL || b->runnable == NULL) {
        free(b->warps);
        b->warps = NULL;
        block_free(b);
        return NULL;
    }
    memset(b->warps, 0, sizeof(struct sg_warp) * MAX_WARPS);
    return b;
}

static struct sg_block *worker_block(struct sg_worker *wk, uint32_t i)
{
    if (i >= wk->nblocks) {
        uint32_t n = wk->nblocks ? wk->nblocks * 2 : 4;
        while (n <= i)
            n *= 2;
        struct sg_block **p = realloc((void *)wk->blocks, n * sizeof(*p));
        if (p == NULL)
            return NULL;
        memset((void *)(p + wk->nblocks), 0, (n - wk->nblocks) * sizeof(*p));
        wk->blocks = p;
        wk->nblocks = n;
    }
    if (wk->blocks[i] == NULL)
        wk->blocks[i] = block_new();
    return wk->blocks[i];
}

static uint32_t threads_of_block(const struct sg_launch *l)
{
    return l->block[0] * l->block[1] * l->block[2];
}

static bool warp_prepare(struct sg_warp *w, struct sg_block *b, uint32_t index)
{
    const struct sg_run *run = b->run;
    const struct sg_func *f = run->kernel->func;
    const uint32_t *dim = run->launch->block;
    uint32_t threads = threads_of_block(run->launch), need = f->frame_bytes + 64;

    w->block = b;
    w->index = index;
    w->born = 0;
    for (uint32_t l = 0; l < SG_WARP; l++) {
        uint32_t t = index * SG_WARP + l;
        w->tid[0][l] = t % dim[0];
        w->tid[1][l] = t / dim[0] % dim[1];
        w->tid[2][l] = t / dim[0] / dim[1];
        if (t < threads)
            w->born |= 1u << l;
    }
    if (w->regs_cap < need) {
        free(w->regs);
        w->regs_cap = (need + 4095) & ~4095u;
        w->regs = aligned_alloc(64, w->regs_cap);
        if (w->regs == NULL) {
            w->regs_cap = 0;
            return false;
        }
        memset(w->regs, 0, w->regs_cap);
    }
    return sg_warp_grow_local(w, f->local_bytes);
}

/* Sizes of a block for this launch; its place in the grid comes later. */
static bool block_prepare(struct sg_block *b, struct sg_run *run)
{
    b->run = run;
    b->nwarps = (threads_of_block(run->launch) + SG_WARP - 1) / SG_WARP;
    if (b->shared_bytes != run->shared_total || b->shared == NULL) {
        free(b->shared);
        b->shared = aligned_alloc(128, (run->shared_total + 255) & ~127u);
        b->shared_bytes = run->shared_total;
        if (b->shared == NULL)
            return false;
    }
    b->shared_limit = run->watched ? 0 : b->shared_bytes;
    for (uint32_t i = 0; i < b->nwarps; i++)
        if (!warp_prepare(&b->warps[i], b, i))
            return false;
    return true;
}

static void block_start(struct sg_block *b, uint64_t linear)
{
    const struct sg_run *run = b->run;
    const struct sg_launch *l = run->launch;

    b->linear = linear;
    b->id[0] = (uint32_t)(linear % l->grid[0]);
    b->id[1] = (uint32_t)(linear / l->grid[0] % l->grid[1]);
    b->id[2] = (uint32_t)(linear / l->grid[0] / l->grid[1]);
    b->rng = mix(l->seed ^ mix(linear));
    b->smid = (uint32_t)(linear % l->sms);
    b->cluster = &b->own; /* the other ranks stay as they were: nobody looks */
    b->own.blocks[0] = b;
    b->own.nblocks = b->own.alive_blocks = 1;
    b->own.threads = threads_of_block(l);
    b->own.arrived = 0;
    b->alive_warps = b->nwarps;
    b->nrunnable = b->nwarps;
    if (b->shared_bytes != 0)
        memset(b->shared, 0, b->shared_bytes);
    if (b->reserved_used)
        memset(b->reserved, 0, sizeof(b->reserved));
    b->reserved_used = false;
    for (uint32_t i = 0; i < SG_BARRIERS; i++)
        b->bar[i] = (struct sg_barrier){.all = true};
    for (uint32_t i = 0; i < b->nwarps; i++) {
        struct sg_warp *w = &b->warps[i];
        sg_warp_start(w, run->kernel->func);
        w->rotate = l->in_order ? 0 : (uint32_t)(b->rng >> (i & 31)) & 31;
        w->queued = true;
        w->run_slot = i;
        b->runnable[i] = w;
    }
    if (run->watched)
        sg_watch_block(b, true);
}

static void unqueue(struct sg_block *b, struct sg_warp *w)
{
    struct sg_warp *last = b->runnable[--b->nrunnable];

    b->runnable[w->run_slot] = last;
    last->run_slot = w->run_slot;
    w->queued = false;
}

static void collect(struct sg_run *run, struct sg_warp *w)
{
    run->warp_insns += w->insns;
    run->lane_insns += w->lane_insns;
    w->insns = w->lane_insns = 0;
}

/* The launch ends where a thread of @w stands, which has done nothing wrong. */
static void give_up(struct sg_warp *w, enum sg_fault_kind kind, const char *why)
{
    const struct sg_split *s = &w->splits[0];

    w->func = s->func;
    w->cur = 0;
    sg_warp_fault(w, s->pc, kind, (unsigned)__builtin_ctz(s->mask), 0, why);
}

static bool cluster_can_go_on(const struct sg_cluster *c)
{
    for (uint32_t r = 0; r < c->nblocks; r++)
        if (c->blocks[r]->nrunnable != 0)
            return true;
    return false;
}

/* If no warp of the cluster can go on, none has done wrong: its barriers never open. */
static void look_for_deadlock(const struct sg_cluster *c)
{
    const struct sg_block *b = NULL;

    for (uint32_t r = c->nblocks; r-- > 0;)
        if (c->blocks[r]->alive_warps != 0)
            b = c->blocks[r];
    if (b == NULL || cluster_can_go_on(c))
        return;
    for (uint32_t i = 0; i < b->nwarps; i++) {
        struct sg_warp *w = &b->warps[i];
        if (w->alive == 0 || w->nsplits == 0)
            continue;
        give_up(w, SG_FAULT_DEADLOCK,
                w->splits[0].state == SG_WAIT_BAR || w->splits[0].state == SG_WAIT_CLUSTER
                    ? "deadlock: a barrier waits for threads that never come"
                    : "deadlock: a warp-wide instruction names lanes that never come");
        return;
    }
}

/* One slice of one warp, if one can run. Returns false when the block has ended or failed. */
static bool block_slice(struct sg_block *b, uint32_t budget)
{
    if (b->nrunnable == 0) /* waits for other blocks of its cluster */
        return true;
    uint32_t i = b->run->launch->in_order ? 0 : draw(&b->rng, b->nrunnable);
    struct sg_warp *w = b->runnable[i];
    enum sg_warp_state state;

    if (b->run->launch->in_order) /* the lowest first, then in turn */
        for (uint32_t k = 1; k < b->nrunnable; k++)
            if (b->runnable[k]->insns < w->insns ||
                (b->runnable[k]->insns == w->insns && b->runnable[k]->index < w->index))
                w = b->runnable[k];
    if (b->run->launch->max_warp_insns != 0 && b->run->clock >= b->run->launch->max_warp_insns) {
        give_up(w, SG_FAULT_TIMEOUT, "more instructions than the launch may execute");
        return false;
    }
    state = sg_warp_run(w, budget);
    if (state == SG_WARP_FAULT)
        return false;
    /* while it ran, others may have left the list or come back to it, but not this one */
    if (state == SG_WARP_BLOCKED) {
        bool ready = false;
        for (uint32_t k = 0; k < w->nsplits; k++)
            ready |= w->splits[k].state == SG_READY;
        if (!ready && w->queued)
            unqueue(b, w);
    }
    if (state == SG_WARP_DONE) {
        unqueue(b, w);
        sg_block_warp_ended(b);
    }
    if (b->nrunnable == 0)
        look_for_deadlock(b->cluster);
    return b->alive_warps != 0 && b->run->fault->kind == SG_FAULT_NONE;
}

static void block_ended(struct sg_block *b)
{
    for (uint32_t i = 0; i < b->nwarps; i++)
        collect(b->run, &b->warps[i]);
    if (b->run->watched)
        sg_watch_block(b, false);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Blocks of a chunk, one after the other, in a drawn order. */
static void run_chunk(struct sg_run *run, struct sg_block *b, uint64_t first, uint32_t n)
{
    uint16_t order[64];
    uint64_t rng = mix(run->launch->seed ^ ~first);

    for (uint32_t i = 0; i < n; i++)
        order[i] = (uint16_t)i;
    if (!run->launch->in_order)
        for (uint32_t i = n; i > 1; i--) {
            uint32_t k = draw(&rng, i);
            uint16_t t = order[k];
            order[k] = order[i - 1];
            order[i - 1] = t;
        }
    for (uint32_t i = 0; i < n && !atomic_load(&run->all->failed); i++) {
        block_start(b, first + order[i]);
        while (block_slice(b, SLICE_ALONE))
            ;
        block_ended(b);
    }
}

static void run_independent(struct sg_run *run, struct sg_worker *wk)
{
    struct sg_shared_run *all = run->all;
    struct sg_block *b = worker_block(wk, 0);

    if (b == NULL || !block_prepare(b, run)) {
        atomic_store(&all->no_memory, 1);
        return;
    }
    while (!atomic_load(&all->failed)) {
        uint64_t first = atomic_fetch_add(&all->next_block, all->chunk);
        if (first >= all->nblocks)
            return;
        uint64_t n = all->nblocks - first < all->chunk ? all->nblocks - first : all->chunk;
        run_chunk(run, b, first, (uint32_t)n);
    }
}

static uint32_t resident_blocks(const struct sg_run *run)
{
    const struct sg_launch *l = run->launch;
    uint32_t warps = (threads_of_block(l) + SG_WARP - 1) / SG_WARP;
    uint32_t by_threads = MAX_THREADS_SM / (warps * SG_WARP);
    uint32_t by_shared = MAX_SHARED_SM / (run->shared_total + 1024);
    uint32_t n = by_threads < by_shared ? by_threads : by_shared;

    if (l->cooperative)
        return UINT32_MAX;
    if (n > 32)
        n = 32;
    n = (n ? n : 1) * l->sms;
    return n < MAX_RESIDENT ? n : MAX_RESIDENT;
}

static uint32_t cluster_size(const struct sg_launch *l)
{
    return l->cluster[0] * l->cluster[1] * l->cluster[2];
}

/* Index in the grid of the block with rank @r of cluster @c. */
static uint64_t block_of_cluster(const struct sg_launch *l, uint64_t c, uint32_t r)
{
    const uint32_t *g = l->grid, *s = l->cluster;
    uint64_t nx = g[0] / s[0], ny = g[1] / s[1];
    uint64_t x = c % nx * s[0] + r % s[0];
    uint64_t y = c / nx % ny * s[1] + r / s[0] % s[1];
    uint64_t z = c / nx / ny * s[2] + r / s[0] / s[1];

    return x + g[0] * (y + g[1] * z);
}

/* Cluster @c runs in the memory of @blocks. */
static void cluster_start(struct sg_block **blocks, const struct sg_launch *l, uint64_t c)
{
    uint32_t n = cluster_size(l);
    struct sg_cluster *own = &blocks[0]->own;

    for (uint32_t r = 0; r < n; r++)
        block_start(blocks[r], block_of_cluster(l, c, r));
    *own = (struct sg_cluster){.nblocks = n, .alive_blocks = n, .threads = n * threads_of_block(l)};
    for (uint32_t r = 0; r < n; r++) {
        own->blocks[r] = blocks[r];
        blocks[r]->cluster = own;
    }
}

/* Memory of @n blocks, and room for a list of them. */
static bool prepare_resident(struct sg_run *run, struct sg_worker *wk, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sg_block *b = worker_block(wk, i);
        if (b == NULL || !block_prepare(b, run))
            return false;
    }
    if (wk->cap_active < n) {
        free((void *)wk->active);
        wk->active = calloc(n, sizeof(*wk->active));
        wk->cap_active = wk->active ? n : 0;
    }
    return wk->active != NULL;
}

/* Blocks that see each other: many are resident, and one warp after the other gets a slice. New
 * blocks enter in the order of their index, as programs rely on; those of a cluster together, when
 * all of one have ended. */
static void run_resident(struct sg_run *run, struct sg_worker *wk)
{
    const struct sg_launch *l = run->launch;
    uint32_t size = cluster_size(l), limit = resident_blocks(run), n, turn = 0;
    uint64_t nclusters = run->all->nblocks / size, next;

    limit = limit < size ? 1 : limit / size;
    limit = limit < nclusters ? limit : (uint32_t)nclusters;
    if (!prepare_resident(run, wk, limit * size)) {
        atomic_store(&run->all->no_memory, 1);
        return;
    }
    for (next = 0; next < limit; next++)
        cluster_start(&wk->blocks[next * size], l, next);
    n = limit * size;
    memcpy((void *)wk->active, (const void *)wk->blocks, n * sizeof(*wk->active));
    while (n != 0 && !atomic_load(&run->all->failed)) {
        uint32_t i = l->in_order ? turn++ % n : draw(&run->rng, n);
        uint32_t budget = l->in_order ? SLICE_SHARED + 256 : SLICE_SHARED + draw(&run->rng, 512);
        struct sg_block *b = wk->active[i];
        struct sg_cluster *c = b->cluster;
        if (block_slice(b, budget))
            continue;
        block_ended(b);
        wk->active[i] = wk->active[--n];
        if (--c->alive_blocks != 0 || next == nclusters)
            continue;
        struct sg_block *blocks[SG_CLUSTER];
        memcpy((void *)blocks, (const void *)c->blocks, sizeof(blocks));
        cluster_start(blocks, l, next++);
        for (uint32_t r = 0; r < size; r++) /* the first where the last one was */
            wk->active[n++] = blocks[r];
        blocks[0] = wk->active[i];
        wk->active[i] = wk->active[n - size];
        wk->active[n - size] = blocks[0];
    }
}

/* Must blocks be resident together? */
static bool communicates(const struct sg_launch *l)
{
    return l->kernel->info.communicates || l->cooperative || cluster_size(l) > 1;
}

static void work(struct sg_worker *wk, struct sg_shared_run *all)
{
    const struct sg_launch *l = all->launch;
    struct sg_mem *mem = wk->machine->mem;
    const struct sg_kernel *k = l->kernel;
    struct sg_run run = {.launch = l,
                         .kernel = k,
                         .image = k->func->image,
                         .machine = wk->machine,
                         .mem = mem,
                         .param_bytes = k->info.param_bytes,
                         .watched = l->watchers[0] != NULL,
                         .real_bit = (uint8_t)(1u << l->device),
                         .all = all,
                         .rng = mix(l->seed + 1),
                         .shared_window = mem->shared_window,
                         .local_window = mem->local_window,
                         .fault = &(struct sg_fault){.kind = SG_FAULT_NONE}};
    unsigned csr = _mm_getcsr();

    _mm_setcsr(CALM_MXCSR);
    run.device_bit = run.watched ? 0 : run.real_bit;
    run.parallel = !communicates(l) && wk->machine->nworkers > 1;
    run.shared_total = k->info.static_shared + l->dynamic_shared;
    run.params = (uint8_t *)(uintptr_t)l->params;
    if (communicates(l))
        run_resident(&run, wk);
    else
        run_independent(&run, wk);
    _mm_setcsr(csr);
    pthread_mutex_lock(&all->lock);
    all->stats.warp_insns += run.warp_insns;
    all->stats.thread_insns += run.lane_insns;
    if (run.fault->kind != SG_FAULT_NONE && all->fault.kind == SG_FAULT_NONE)
        all->fault = *run.fault;
    pthread_mutex_unlock(&all->lock);
}

static void *worker_main(void *arg)
{
    struct sg_worker *wk = arg;
    struct sg_machine *m = wk->machine;

    pthread_mutex_lock(&m->lock);
    for (;;) {
        while (!m->quit && m->generation == wk->seen)
            pthread_cond_wait(&m->wake, &m->lock);
        if (m->quit)
            break;
        wk->seen = m->generation;
        struct sg_shared_run *job = m->job;
        if (job == NULL)
            continue;
        m->busy++;
        pthread_mutex_unlock(&m->lock);
        work(wk, job);
        pthread_mutex_lock(&m->lock);
        if (--m->busy == 0)
            pthread_cond_signal(&m->done);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static void start_threads(struct sg_machine *m)
{
    m->threads_started = true;
    for (unsigned i = 1; i < m->nworkers; i++)
        m->workers[i].started =
            pthread_create(&m->workers[i].thread, NULL, worker_main, &m->workers[i]) == 0;
}

static void run_parallel(struct sg_machine *m, struct sg_shared_run *all)
{
    if (!m->threads_started)
        start_threads(m);
    pthread_mutex_lock(&m->lock);
    m->job = all;
    m->generation++;
    pthread_cond_broadcast(&m->wake);
    pthread_mutex_unlock(&m->lock);
    work(&m->workers[0], all);
    pthread_mutex_lock(&m->lock);
    m->job = NULL; /* who has not begun yet finds nothing */
    while (m->busy != 0)
        pthread_cond_wait(&m->done, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

/* Device memory where the blocks of a cooperative launch count themselves. */
static uint32_t *workspace_of(struct sg_machine *m, uint32_t device)
{
    uint64_t *at = &m->workspace[device];
    uint8_t bit = (uint8_t)(1u << device);

    if (*at == 0) {
        if (sg_mem_reserve(m->mem, 4096, 4096, 0, at, NULL) != TB_OK ||
            sg_mem_commit(m->mem, *at, 4096, NULL) != TB_OK)
            return NULL;
        sg_mem_allow(m->mem, *at, 4096, bit, bit);
    }
    uint32_t *w = (uint32_t *)(uintptr_t)*at;
    memset(w, 0, 16); /* CUDA's header counts in w[1], devicelib.c in w[2] and w[3] */
    w[0] = 4096;
    return w;
}

enum tb_status sg_exec_run(struct sg_machine *m, const struct sg_launch *launch,
                           struct sg_fault *fault, struct sg_run_stats *stats, struct tb_error *err)
{
    const struct sg_kernel_info *info = sg_kernel_info(launch->kernel);
    struct sg_shared_run all = {.launch = launch,
                                .nblocks =
                                    (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
                                .lock = PTHREAD_MUTEX_INITIALIZER};
    uint32_t cluster = cluster_size(launch);
    uint64_t share = all.nblocks / 16; /* not of the number of workers: orders stay the same */

    for (int d = 0; d < 3; d++)
        if (launch->cluster[d] == 0 || launch->grid[d] % launch->cluster[d] != 0 ||
            cluster > SG_CLUSTER)
            return tb_fail(err, TB_ERR_ARG, "kernel '%s': no clusters of %ux%ux%u blocks",
                           info->name, launch->cluster[0], launch->cluster[1], launch->cluster[2]);
    all.chunk = share < 1 ? 1 : share > 64 ? 64 : share;
    pthread_mutex_lock(&m->run_lock);
    if (launch->cooperative)
        all.workspace = workspace_of(m, launch->device);
    sg_watch_begin(launch);
    if (m->nworkers > 1 && all.nblocks > 1 && !communicates(launch) && !launch->in_order &&
        !sg_watch_serial(launch))
        run_parallel(m, &all);
    else
        work(&m->workers[0], &all);
    sg_watch_end(launch, &all.fault);
    pthread_mutex_unlock(&m->run_lock);
    if (stats != NULL)
        *stats = all.stats;
    if (atomic_load(&all.no_memory))
        return tb_fail(err, TB_ERR_NOMEM, "cannot run kernel '%s': no memory for its blocks",
                       info->name);
    *fault = all.fault;
    if (all.fault.kind != SG_FAULT_NONE)
        return tb_fail(err, TB_ERR_CUDA, "%s", all.fault.text);
    return TB_OK;
}

enum tb_status sg_machine_new(const struct sg_machine_options *opt, struct sg_mem *mem,
                              struct sg_machine **out, struct tb_error *err)
{
    struct sg_machine *m = calloc(1, sizeof(*m));
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (m == NULL)
        return tb_fail(err, TB_ERR_NOMEM, "cannot make a machine: no memory");
    m->mem = mem;
    m->nworkers = opt->workers != 0 ? opt->workers : cores > 0 ? (unsigned)cores : 1;
    if (m->nworkers > 64)
        m->nworkers = 64;
    m->workers = calloc(m->nworkers, sizeof(*m->workers));
    if (m->workers == NULL) {
        free(m);
        return tb_fail(err, TB_ERR_NOMEM, "cannot make a machine: no memory");
    }
    for (unsigned i = 0; i < m->nworkers; i++) {
        m->workers[i].machine = m;
        m->workers[i].index = i;
    }
    pthread_mutex_init(&m->run_lock, NULL);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wake, NULL);
    pthread_cond_init(&m->done, NULL);
    *out = m;
    return TB_OK;
}

static void stop_threads(struct sg_machine *m)
{
    pthread_mutex_lock(&m->lock);
    m->quit = true;
    pthread_cond_broadcast(&m->wake);
    pthread_mutex_unlock(&m->lock);
    for (unsigned i = 1; i < m->nworkers; i++)
        if (m->workers[i].started)
            pthread_join(m->workers[i].thread, NULL);
}

void sg_machine_free(struct sg_machine *m)
{
    if (m == NULL)
        return;
    stop_threads(m);
    for (unsigned i = 0; i < m->nworkers; i++) {
        for (uint32_t k = 0; k < m->workers[i].nblocks; k++)
            block_free(m->workers[i].blocks[k]);
        free((void *)m->workers[i].blocks);
        free((void *)m->workers[i].active);
    }
    for (int d = 0; d < SG_MEM_MAX_DEVICES; d++) {
        sg_heap_destroy(m->heaps[d]);
        if (m->workspace[d] != 0)
            sg_mem_release(m->mem, m->workspace[d]);
    }
    pthread_mutex_destroy(&m->run_lock);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->wake);
    pthread_cond_destroy(&m->done);
    free(m->workers);
    free(m);
}
