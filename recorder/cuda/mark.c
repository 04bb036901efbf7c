/*
 * At level `boundary`, and outside of --steps: which memory was written since the last step, and by
 * which stream last. No work is an event then; state.c hashes what was written when a step ends.
 *
 * Where all work is in one stream and the program has named its memory none of this must be known,
 * and a launch costs next to nothing.
 */
#include <string.h>

#include "recorder/cuda/graph.h"

/* A work that writes. */
struct marker {
    struct tb_cu_stream *stream;
    uint64_t met; /* event whose hash it may have disturbed, TB_REC_NO_SEQ: none */
};

/* Is what @was did at @clock before what is queued in @s now? */
static bool knows(const struct tb_cu_stream *s, const struct tb_cu_stream *was, uint64_t clock)
{
    return s == was || (was->index != TB_CU_STREAMS - 1 && s->known.at[was->index] >= clock);
}

static void mark(struct marker *m, struct tb_cu_alloc *a)
{
    struct tb_cu_mark *k = &a->mark;
    struct tb_cu_stream *s = m->stream;

    if (k->stream && k->step == tb_cu.state.step && !knows(s, k->stream, k->clock))
        k->torn = true;
    if (k->reader && !knows(s, k->reader, k->read_clock)) {
        m->met = k->read_seq;
        k->meets = true;
        k->reader = NULL; /* said once */
    }
    k->stream = s;
    k->clock = s->known.at[s->index];
    k->step = tb_cu.state.step;
}

/* What lies in blocks is written by their names; a pointer to where all begins may be for all. */
static void mark_at(struct marker *m, struct tb_cu_alloc *a, uint64_t address)
{
    struct tb_cu_alloc *around = tb_cu.blocks ? tb_cu_alloc_around(address) : NULL;

    mark(m, a);
    if (!around || (a != around && !(a->part && a->base == around->base)))
        return;
    for (uint32_t i = 0; i < tb_cu.blocks; i++)
        if (tb_cu.block[i]->base - around->base < around->bytes)
            mark(m, tb_cu.block[i]);
}

static void mark_range(struct marker *m, uint64_t address, uint64_t bytes)
{
    for (uint64_t here; bytes && (here = tb_cu_run(address)) != 0; address += here) {
        here = here < bytes ? here : bytes;
        mark(m, tb_cu_alloc_at(address));
        bytes -= here;
    }
}

/* Pointers in memory, or an address made in a way that is not followed: it may be anywhere. */
static void mark_all(struct marker *m)
{
    for (uint32_t i = 0; i < tb_cu.allocs; i++)
        mark(m, tb_cu.alloc[i]);
    for (uint32_t i = 0; i < tb_cu.blocks; i++)
        mark(m, tb_cu.block[i]);
}

static uint64_t word_at(const uint8_t *block, uint32_t offset)
{
    uint64_t v;

    memcpy(&v, block + offset, sizeof(v));
    return v;
}

static bool mark_pointer(struct marker *m, uint64_t v)
{
    struct tb_cu_alloc *a = v < TB_CU_LOWEST ? NULL : tb_cu_alloc_at(v);

    if (a)
        mark_at(m, a, v);
    return a != NULL;
}

/* A pointer and the distance to other memory (params.c). */
static void mark_distances(struct marker *m, const struct tb_cu_kernel *k, const uint8_t *block,
                           uint64_t pointer, uint32_t bytes)
{
    for (uint32_t i = 0; i < k->info->words; i++) {
        const struct tb_wire_word *x = &k->word[i];
        if (x->bytes != 8 || x->offset + 8u > bytes || !(x->flags & TB_WORD_WRITE))
            continue;
        uint64_t d = word_at(block, x->offset);
        if (d && !tb_cu_alloc_at(d))
            (void)mark_pointer(m, pointer + d);
    }
}

static void mark_known(struct marker *m, const struct tb_cu_kernel *k, const uint8_t *block,
                       uint32_t bytes)
{
    bool writes = false, hit = false, offset = false;

    for (uint32_t i = 0; i < k->info->words; i++) {
        const struct tb_wire_word *x = &k->word[i];
        if (!(x->flags & TB_WORD_WRITE) || x->bytes != 8 || x->offset + 8u > bytes)
            continue;
        uint64_t v = word_at(block, x->offset);
        bool memory = mark_pointer(m, v);
        writes = writes || v;
        hit = hit || memory;
        offset = offset || (v && !memory);
    }
    for (uint32_t i = 0; hit && offset && i < k->info->words; i++) {
        const struct tb_wire_word *x = &k->word[i];
        if (x->bytes == 8 && x->offset + 8u <= bytes && (x->flags & TB_WORD_WRITE) &&
            tb_cu_alloc_at(word_at(block, x->offset)))
            mark_distances(m, k, block, word_at(block, x->offset), bytes);
    }
    if ((k->info->flags & (TB_KERNEL_INDIRECT_WRITE | TB_KERNEL_UNTRACED_WRITE)) ||
        (writes && !hit))
        mark_all(m);
}

static void mark_kernel(struct marker *m, const struct tb_cu_kernel *k, const uint8_t *block,
                        uint32_t bytes)
{
    if (k->blind || (!bytes && k->param_bytes))
        mark_all(m);
    else if (k->info)
        mark_known(m, k, block, bytes);
    else
        for (uint32_t at = 0; at + 8 <= bytes; at += 8)
            (void)mark_pointer(m, word_at(block, at));
    for (uint32_t i = 0; i < k->globals; i++)
        if (k->global[i].flags & TB_GLOBAL_WRITE)
            mark(m, k->global[i].alloc);
}

/* ---------------------------------------------------------------- works */

bool tb_cu_mark_stream(CUstream stream, bool per_thread)
{
    struct tb_cu_state *state = &tb_cu.state;

    if (tb_cu_capturing(stream, per_thread))
        return false;
    tb_cu_lock();
    struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    (void)tb_cu_stream_tick(s);
    if (tb_unlikely(!state->sole))
        state->sole = s;
    state->several = state->several || state->sole != s;
    bool needed = !state->names || state->several;
    tb_cu_unlock();
    return needed;
}

static struct marker begin(CUstream stream, bool per_thread)
{
    tb_cu_lock();
    return (struct marker){tb_cu_stream(stream, per_thread), TB_REC_NO_SEQ};
}

static void end(const struct marker *m)
{
    tb_cu_unlock();
    if (tb_unlikely(m->met != TB_REC_NO_SEQ))
        tb_cu_cover(1, m->met, "cuda", "state", TB_COVER_TORN);
}

void tb_cu_mark_launch(struct tb_cu_kernel *k, CUstream stream, bool per_thread, void **params,
                       void **extra)
{
    uint8_t block[TB_CU_PARAM_ROOM];
    uint32_t bytes = tb_cu_params(k, params, extra, block);
    struct marker m = begin(stream, per_thread);

    mark_kernel(&m, k, block, bytes);
    end(&m);
}

void tb_cu_mark_write(CUstream stream, bool per_thread, uint64_t address, uint64_t bytes)
{
    struct marker m = begin(stream, per_thread);

    mark_range(&m, address, bytes);
    end(&m);
}

void tb_cu_mark_graph(const struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    if (!tb_cu_mark_stream(stream, per_thread))
        return;
    struct marker m = begin(stream, per_thread);
    if (!x || !tb_cu_nodes_known(x))
        mark_all(&m);
    for (const struct tb_cu_node *n = x ? x->first : NULL; n; n = n->next) {
        if (n->disabled)
            continue;
        if (n->kernel)
            mark_kernel(&m, n->kernel, n->block, n->param_bytes);
        else if (tb_cu_node_works(n))
            mark_range(&m, n->dst, n->dst_bytes);
    }
    end(&m);
}
