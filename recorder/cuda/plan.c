/*
 * Launches come back: what a kernel does with the same arguments, grid and blocks is kept as a plan
 * and holds as long as the memory that they lead to is the same.
 *
 * What differs from launch to launch is not in it: the stream and what that meets, tickets, the
 * event.
 */
#include <string.h>

#include "recorder/cuda/engine.h"

#define BYTES 1024u /* of arguments */

struct tb_cu_plan {
    uint64_t hash, stamp, args;
    uint64_t versions, changes; /* tb_cu's, when it was last right */
    struct tb_cu_ctx *ctx;      /* whose device may look at what is hashed */
    uint64_t site_hash;         /* of the kernel: it may be given another name */
    struct tb_cu_shape shape;
    uint32_t globals, bytes;
    bool early;
    uint32_t ring, site; /* the site's id on that ring; ring 0: not known yet */
    bool unsure;         /* it holds only while no memory comes or goes */
    struct tb_cu_learn *learn;
    uint32_t learn_version;
    uint32_t n, hashes;
    uint32_t room, block_room; /* of what follows */
    struct tb_cu_access *access;
    struct tb_wire_access *wire;
    uint32_t *hashed; /* indices of the accesses that a hash is drawn for */
    uint8_t *block;
};

static bool is_same(const struct tb_cu_plan *p, const struct tb_cu_work *w,
                    const struct tb_cu_asked *asked)
{
    return p->ctx == asked->ctx && p->site_hash == w->kernel->site_hash &&
           p->bytes == asked->bytes && p->early == asked->early &&
           p->globals == w->kernel->globals &&
           memcmp(&p->shape, &w->shape, sizeof(p->shape)) == 0 &&
           memcmp(p->block, asked->block, asked->bytes) == 0;
}

/* Whole words: what is behind the last byte of the arguments is 0. */
static uint64_t hash_of(const struct tb_cu_work *w, const struct tb_cu_asked *asked)
{
    uint64_t h = (uint64_t)w->shape.grid[0] << 32 ^ w->shape.block[0], v;

    for (const uint8_t *at = asked->block, *end = at + asked->bytes; at < end; at += 8) {
        memcpy(&v, at, 8);
        h = (h ^ v) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 29;
    }
    return h ^ h >> 32;
}

/* The memory that it leads to is what it was. */
static bool is_unchanged(struct tb_cu_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->access[i].alloc->version != p->access[i].version)
            return false;
    p->versions = tb_cu.versions;
    return true;
}

/* Nobody else uses it now. */
static bool is_free(const struct tb_cu_plan *p, const struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (!tb_cu_is_sole(w, &p->access[i].alloc->write) &&
            (tb_cu_unordered(w, &p->access[i]) ||
             tb_cu_shared(w, p->access[i].alloc, p->access[i].pointer)))
            return false;
    return true;
}

static inline bool holds(struct tb_cu_plan *p, const struct tb_cu_work *w)
{
    return (!p->unsure || p->changes == tb_cu.alloc_changes) &&
           (tb_likely(p->versions == tb_cu.versions) || is_unchanged(p)) &&
           (tb_cu.stream_indices == 1 || is_free(p, w));
}

static struct tb_cu_plan *find(const struct tb_cu_work *w, const struct tb_cu_asked *asked)
{
    const struct tb_cu_kernel *k = w->kernel;

    if (!k->plan || !asked->ctx || asked->bytes > BYTES)
        return NULL;
    uint64_t h = hash_of(w, asked);
    struct tb_cu_plan *p = k->plan[h % TB_CU_PLANS];
    return p && p->hash == h && p->ring == asked->ring && is_same(p, w, asked) ? p : NULL;
}

/* The same as last time, but for the time: most launches. */
static inline void note_use(struct tb_cu_work *w, const struct tb_cu_access *a)
{
    struct tb_cu_uses *uses = &a->alloc->write;
    struct tb_cu_use *use = &uses->use[uses->last];

    if (tb_unlikely(!uses->n || !tb_cu_is_sole(w, uses) || use->from != a->offset ||
                    use->bytes != a->bytes || use->guessed != a->guessed)) {
        tb_cu_note_use(w, a);
        return;
    }
    use->thread = tb_cu_thread();
    use->clock = w->order->known.at[w->order->index];
    use->seq = TB_REC_NO_SEQ;
    uses->unsaid = true;
}

static inline void add_hash(struct tb_cu_work *w, const struct tb_cu_plan *p, uint32_t i,
                            uint64_t ticket)
{
    struct tb_cu_again *r = &w->plan_run;
    const struct tb_cu_access *a = &p->access[p->hashed[i]];
    struct tb_wire_access *wire = &r->wire[p->hashed[i]];

    wire->alloc |= tb_cu_pending(a->rate);
    wire->fp_a = ticket;
    wire->fp_b = w->ctx->table;
    r->hashed[i] = wire;
    r->alloc[i] = a->alloc;
    r->batch.job[i] = (struct tb_fpd_job){
        .src = a->alloc->base + a->offset, .bytes = a->bytes, .ticket = ticket, .rate = a->rate};
    note_use(w, a);
}

bool tb_cu_plan_use(struct tb_cu_work *w, const struct tb_cu_asked *asked)
{
    struct tb_cu_plan *p = find(w, asked);
    struct tb_cu_again *r = &w->plan_run;
    uint64_t ticket = 0;

    if (!p || !holds(p, w) ||
        (p->learn && !tb_cu_learn_again(w->kernel, p->learn, p->learn_version)) ||
        (p->hashes && !tb_cu_draw(asked->ctx, p->hashes, &ticket)))
        return false;
    w->again = true;
    w->ctx = asked->ctx;
    w->args = p->args;
    r->thread = asked->thread;
    r->site = p->site;
    r->accesses = p->n + 1;
    memcpy(r->wire, p->wire, p->n * sizeof(*p->wire));
    r->wire[p->n] = (struct tb_wire_access){.alloc = TB_ALLOC_STREAM + w->order->ordinal,
                                            .offset = tb_cu_order_bits(w->order)};
    tb_cu_batch_begin(w->ctx, &r->batch);
    r->batch.jobs = p->hashes;
    for (uint32_t i = 0; i < p->hashes; i++)
        add_hash(w, p, i, ticket + i);
    if (tb_unlikely(tb_cu.split))
        tb_cu_split_used(w->order, p->access, p->n, true);
    return true;
}

/* ---------------------------------------------------------------- its end */

void tb_cu_again_undraw(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->plan_run.batch.jobs; i++)
        tb_cu_undraw(w->ctx, w->plan_run.batch.job[i].ticket);
}

static void give_up(struct tb_cu_work *w)
{
    struct tb_cu_again *r = &w->plan_run;

    tb_cu_again_undraw(w);
    for (uint32_t i = 0; i < r->batch.jobs; i++)
        *r->hashed[i] = (struct tb_wire_access){.alloc = r->hashed[i]->alloc & TB_ALLOC_MASK,
                                                .offset = r->hashed[i]->offset};
    w->missing = "the hash could not be launched";
}

static inline void end(struct tb_cu_work *w)
{
    struct tb_cu_again *r = &w->plan_run;

    if (r->batch.jobs && !tb_cu_launch_batch(w->ctx, w->stream, w->per_thread, &r->batch))
        give_up(w);
    tb_cu_event_put(w, r->thread, r->site, r->wire, r->accesses);
    tb_cu_work_over(w);
}

__attribute__((noinline)) static void end_away(struct tb_cu_work *w)
{
    struct tb_cu_visit v;

    tb_cu_visit(w->ctx->handle, &v);
    end(w);
    tb_cu_return(&v);
}

void tb_cu_again_end(struct tb_cu_work *w)
{
    if (tb_unlikely(w->away))
        end_away(w);
    else
        end(w);
}

/* ---------------------------------------------------------------- keeping */

static bool is_stable(const struct tb_cu_work *w, const struct tb_cu_asked *asked)
{
    const uint32_t wild = TB_KERNEL_INDIRECT_WRITE | TB_KERNEL_UNTRACED_WRITE |
                          TB_KERNEL_INDIRECT_READ | TB_KERNEL_UNTRACED_READ;
    const struct tb_cu_kernel *k = w->kernel;

    if (w->missing || w->torn || w->settles || !asked->ctx || !w->n || w->n > TB_CU_PLANNED ||
        asked->bytes > BYTES || k->launches < 2 || (k->info && (k->info->flags & wild)))
        return false;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if ((a->flags & TB_CU_BEFORE) || a->alloc->alias ||
            ((a->flags & TB_CU_HASH) && !tb_cu_may_look(asked->ctx, a->alloc)))
            return false;
    }
    return !w->learn || tb_cu_learn_stable(w);
}

/* Room for @n accesses and @bytes of arguments; what was there before is lost, for it is rare. */
static bool make_room(struct tb_cu_plan *p, uint32_t n, uint32_t bytes)
{
    if (p->room < n) {
        uint32_t room = (n + 3) & ~3u;
        p->access =
            tb_cu_small(room * (sizeof(*p->access) + sizeof(*p->wire) + sizeof(*p->hashed)));
        p->room = p->access ? room : 0;
        p->wire = (struct tb_wire_access *)(p->access + room);
        p->hashed = (uint32_t *)(p->wire + room);
    }
    if (p->block_room < bytes) {
        p->block = tb_cu_small((bytes + 63) & ~63u);
        p->block_room = p->block ? (bytes + 63) & ~63u : 0;
    }
    return p->room >= n && p->block_room >= bytes;
}

/* The plan to write over; NULL: no memory. */
static struct tb_cu_plan *place(const struct tb_cu_work *w, const struct tb_cu_asked *asked,
                                uint64_t h)
{
    struct tb_cu_kernel *k = w->kernel;
    struct tb_cu_plan **at;

    if (!k->plan && !(k->plan = tb_cu_small(TB_CU_PLANS * sizeof(struct tb_cu_plan *))))
        return NULL;
    at = &k->plan[h % TB_CU_PLANS];
    if (!*at && !(*at = tb_cu_small(sizeof(**at))))
        return NULL;
    (*at)->ring = 0; /* it is none until it is whole */
    return make_room(*at, w->n, asked->bytes) ? *at : NULL;
}

static void keep_accesses(struct tb_cu_plan *p, const struct tb_cu_work *w)
{
    p->n = w->n;
    p->hashes = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        p->access[i] = *a;
        p->wire[i] = tb_cu_wire(a);
        if (!(a->flags & TB_CU_HASH))
            continue;
        p->hashed[p->hashes++] = i;
        p->wire[i].alloc |= tb_cu_fills() ? TB_ACCESS_ALIKE : 0;
    }
}

void tb_cu_plan_keep(struct tb_cu_work *w, const struct tb_cu_asked *asked)
{
    struct tb_cu_plan *p;
    uint64_t h;

    if (!is_stable(w, asked))
        return;
    h = hash_of(w, asked);
    p = place(w, asked, h);
    if (!p)
        return;
    p->ctx = asked->ctx;
    p->site_hash = w->kernel->site_hash;
    p->shape = w->shape;
    p->globals = w->kernel->globals;
    p->bytes = asked->bytes;
    p->early = asked->early;
    p->changes = tb_cu.alloc_changes;
    p->versions = tb_cu.versions - 1; /* what it took to find them may have changed one */
    p->unsure = w->unsure;
    p->args = w->args;
    p->learn = w->learn;
    p->learn_version = w->learn ? tb_cu_learn_stable(w) : 0;
    keep_accesses(p, w);
    memcpy(p->block, asked->block, asked->bytes);
    p->hash = h;
    w->plan_stamp = p->stamp = ++tb_cu.plan_stamps;
    w->plan = p;
}

void tb_cu_plan_site(struct tb_cu_work *w, uint32_t ring, uint32_t site)
{
    tb_cu_lock();
    if (w->plan->stamp == w->plan_stamp) {
        w->plan->ring = ring;
        w->plan->site = site;
    }
    tb_cu_unlock();
}
