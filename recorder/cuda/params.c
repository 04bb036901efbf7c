/* The arguments of a launch: one block of bytes, the pointers in it, and the numbers. */
#include <string.h>

#include "recorder/cuda/engine.h"

/* Padding, too, is 0, up to a whole word: blocks are compared. */
static inline void zero(uint8_t *block, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i += 16)
        memset(block + i, 0, 16);
}

static uint32_t from_extra(void **extra, uint8_t *block)
{
    const void *buffer = NULL;
    size_t size = 0;

    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            size = *(const size_t *)extra[1];
        else
            return 0;
    }
    if (!buffer || !size || size > TB_CU_PARAM_BYTES)
        return 0;
    zero(block, (uint32_t)size);
    memcpy(block, buffer, size);
    return (uint32_t)size;
}

uint32_t tb_cu_params(const struct tb_cu_kernel *k, void **params, void **extra,
                      uint8_t block[TB_CU_PARAM_ROOM])
{
    const uint32_t words = k->words, n = k->params, bytes = k->param_bytes;
    const struct tb_cu_param *p = k->param;

    if (extra && *extra != CU_LAUNCH_PARAM_END)
        return from_extra(extra, block);
    if (!params || k->blind)
        return 0;
    if (tb_unlikely(k->gaps))
        zero(block, bytes);
    memset(block + (bytes & ~7u), 0, 8);
    for (uint32_t i = 0; i < words; i++) {
        if (tb_unlikely(!params[i]))
            return 0;
        memcpy(block + 8 * (size_t)i, params[i], 8);
    }
    for (uint32_t i = words; i < n; i++) {
        if (tb_unlikely(!params[i]))
            return 0;
        if (p[i].size == 4)
            memcpy(block + p[i].offset, params[i], 4);
        else
            memcpy(block + p[i].offset, params[i], p[i].size);
    }
    return bytes;
}

static uint64_t word_at(const uint8_t *block, uint32_t offset, uint32_t bytes)
{
    uint64_t v = 0;
    uint32_t half;

    if (tb_likely(bytes >= 8)) {
        memcpy(&v, block + offset, 8);
    } else if (bytes == 4) {
        memcpy(&half, block + offset, 4);
        v = half;
    } else {
        memcpy(&v, block + offset, bytes);
    }
    return v;
}

#define PIECES ((TB_CU_ACCESSES - 32) / 2) /* of what is read, and as many of what is written */

/* Its blocks, too: operators and other launches speak of these. */
static void whole(struct tb_cu_work *w, uint8_t mode, struct tb_cu_alloc *a, const char *name,
                  uint32_t *room)
{
    struct tb_cu_piece piece[PIECES];
    uint32_t n = tb_cu_pieces(a, piece, *room);

    for (uint32_t i = 0; i < n; i++)
        if (piece[i].block)
            tb_cu_add_alloc(w, mode, piece[i].block, name);
        else
            tb_cu_add_part(w, mode, a, piece[i].offset, piece[i].bytes, name);
    if (!n) {
        tb_cu_add_alloc(w, mode, a, name);
        w->missing = "more blocks in memory that it reaches than an event has room for";
    }
    *room -= n ? n : 1;
}

/*
 * A pointer to where a named part begins may be for that part or for all of the allocation, as an
 * optimizer's is that goes over all parameters.
 */
static bool add_pointer(struct tb_cu_work *w, uint8_t mode, uint64_t v, uint16_t word,
                        uint8_t dtype)
{
    struct tb_cu_alloc *a;
    uint32_t room = PIECES;

    if (!tb_cu_add(w, mode, v, 0, word, dtype, NULL))
        return false;
    a = tb_unlikely(tb_cu.parts != 0) ? tb_cu_alloc_around(v) : NULL;
    if (tb_unlikely(a && a->has_parts)) {
        whole(w, mode, a, "beside what it points to", &room);
        if (a->mapped)
            tb_cu_add_behind(w, &(struct tb_cu_access){.mode = mode, .word = word, .dtype = dtype},
                             a->base + a->bytes);
    }
    return true;
}

/* Where in its memory a pointer leads to: by that a launch, and its thread, are known again. */
static void add_place(struct tb_cu_work *w, uint32_t offset, uint64_t v)
{
    const struct tb_cu_alloc *a = tb_cu_alloc_at(v);

    if (a && v != a->base)
        w->args = tb_cu_mix(tb_cu_mix(w->args, offset), v - a->base);
}

/*
 * A number of the arguments. Addresses differ from run to run: of one that is only compared, stored
 * or printed, its place in an allocation counts, and of one of the host's nothing.
 */
static void add_number(struct tb_cu_work *w, uint32_t offset, uint32_t bytes, uint64_t v)
{
    const struct tb_cu_alloc *a = bytes == 8 ? tb_cu_alloc_at(v) : NULL;

    if (bytes == 8)
        tb_cu_unsure(w, v);
    if (a)
        v -= a->base;
    else if (bytes == 8 && v >> 44 && !(v >> 47))
        v = 0;
    w->args = tb_cu_mix(tb_cu_mix(w->args, offset), v);
}

/* Is word @i a part of one of 8 bytes, which says all of it? Words lie in order of their offset. */
static bool is_part(const struct tb_cu_kernel *k, uint32_t i)
{
    const struct tb_wire_word *x = &k->word[i];

    if (x->bytes == 8)
        return false;
    for (uint32_t j = i; j-- > 0 && k->word[j].offset + 8u > x->offset;)
        if (k->word[j].bytes == 8)
            return true;
    for (uint32_t j = i + 1; j < k->info->words && k->word[j].offset == x->offset; j++)
        if (k->word[j].bytes == 8)
            return true;
    return false;
}

/* What a launch does by words of its parameters that are addresses of memory we know. */
struct reach {
    bool reads, writes;         /* there is such a word */
    bool read_hit, written_hit; /* and one of them is an address */
    bool offset;                /* there is one of 8 bytes that is none */
};

/*
 * An address may be the sum of two words: a pointer, and the distance to another buffer. A distance
 * within the pointer's own allocation is an index, and leads nowhere else.
 */
static void by_distance(struct tb_cu_work *w, const struct tb_cu_kernel *k, const uint8_t *block,
                        const struct tb_wire_word *pointer, uint64_t v, uint32_t bytes)
{
    const struct tb_cu_alloc *own = tb_cu_alloc_at(v);

    for (uint32_t i = 0; own && i < k->info->words; i++) {
        const struct tb_wire_word *x = &k->word[i];
        uint8_t both = x->flags & pointer->flags;
        if (x->bytes != 8 || x->offset + 8u > bytes || !(both & (TB_WORD_READ | TB_WORD_WRITE)))
            continue;
        uint64_t d = word_at(block, x->offset, 8);
        const struct tb_cu_alloc *other = d && !tb_cu_alloc_at(d) ? tb_cu_alloc_at(v + d) : NULL;
        if (!other || other == own)
            continue;
        if (both & TB_WORD_READ)
            (void)add_pointer(w, 'r', v + d, x->offset, x->read);
        if (both & TB_WORD_WRITE)
            (void)add_pointer(w, 'w', v + d, x->offset, x->write);
    }
}

static void by_distances(struct tb_cu_work *w, const struct tb_cu_kernel *k, const uint8_t *block,
                         uint32_t bytes)
{
    for (uint32_t i = 0; i < k->info->words; i++) {
        const struct tb_wire_word *x = &k->word[i];
        if (x->bytes == 8 && x->offset + 8u <= bytes)
            by_distance(w, k, block, x, word_at(block, x->offset, 8), bytes);
    }
}

/*
 * The code is known: words that lead to memory, and words that are numbers. A word may be marked as
 * a part of an address and be an index; but where none of them is an address, the kernel makes it
 * of them in a way that is not followed.
 */
static struct reach by_code(struct tb_cu_work *w, const struct tb_cu_kernel *k,
                            const uint8_t *block, uint32_t bytes)
{
    struct reach r = {.reads = false};

    for (uint32_t i = 0; i < k->info->words; i++) {
        const struct tb_wire_word *x = &k->word[i];
        if (x->offset + x->bytes > bytes)
            continue;
        uint64_t v = word_at(block, x->offset, x->bytes);
        bool reads = x->flags & TB_WORD_READ, writes = x->flags & TB_WORD_WRITE, memory = false;
        if (x->bytes == 8 && reads)
            r.read_hit |= memory = add_pointer(w, 'r', v, x->offset, x->read);
        if (x->bytes == 8 && writes && add_pointer(w, 'w', v, x->offset, x->write))
            r.written_hit = memory = true;
        r.reads |= reads && v;
        r.writes |= writes && v;
        r.offset |= x->bytes == 8 && (reads || writes) && v && !memory;
        if (memory)
            add_place(w, x->offset, v);
        else if (!is_part(k, i))
            add_number(w, x->offset, x->bytes, v);
    }
    if (tb_unlikely(r.offset && (r.read_hit || r.written_hit)))
        by_distances(w, k, block, bytes);
    return r;
}

/* It is not: whatever looks like an address may be read and written. */
static void by_guess(struct tb_cu_work *w, const struct tb_cu_kernel *k, const uint8_t *block,
                     uint32_t bytes)
{
    struct tb_cu_param all = {0, (uint16_t)bytes};
    const struct tb_cu_param *param = k->params ? k->param : &all;
    uint32_t n = k->params ? k->params : 1;

    for (uint32_t i = 0; i < n; i++) {
        const struct tb_cu_param *p = &param[i];
        bool memory = false;
        for (uint32_t at = (p->offset + 7u) & ~7u; at + 8 <= (uint32_t)p->offset + p->size;
             at += 8) {
            uint64_t v = word_at(block, at, 8);
            bool here = add_pointer(w, 'r', v, (uint16_t)at, TB_DT_UNKNOWN) &&
                        add_pointer(w, 'w', v, (uint16_t)at, TB_DT_UNKNOWN);
            if (here)
                add_place(w, at, v);
            memory = memory || here;
        }
        if (!memory && p->size <= 8) /* structs have padding, whose bytes mean nothing */
            add_number(w, p->offset, p->size, word_at(block, p->offset, p->size));
    }
}

/* Pointers that lie in memory lead anywhere: all that there is may have been written. */
static void everything(struct tb_cu_work *w, uint8_t mode)
{
    int here = w->order && w->order->device >= 0 ? w->order->device : tb_cu_tls.device;
    uint64_t peers = here >= 0 && here < 64 ? tb_cu.peers[here] : 0;
    uint32_t room = PIECES;

    for (uint32_t i = 0; i < tb_cu.allocs && room; i++) {
        struct tb_cu_alloc *a = tb_cu.alloc[i];
        bool peer = a->device >= 0 && a->device < 64 && (peers >> a->device & 1);
        if (a->kind == TB_CU_HOST || a->kind == TB_CU_REGISTERED)
            w->beyond = w->beyond || mode == 'w';
        else if (a->device == here || peer)
            whole(w, mode, a, "reached through memory", &room);
    }
    if (!room)
        w->missing = "more memory that it reaches than an event has room for";
}

static void known(struct tb_cu_work *w, const struct tb_cu_kernel *k, const uint8_t *block,
                  uint32_t bytes)
{
    const uint32_t wild_reads = TB_KERNEL_INDIRECT_READ | TB_KERNEL_UNTRACED_READ;
    const uint32_t wild_writes = TB_KERNEL_INDIRECT_WRITE | TB_KERNEL_UNTRACED_WRITE;
    struct reach r = by_code(w, k, block, bytes);

    if ((k->info->flags & wild_reads) || (r.reads && !r.read_hit))
        everything(w, 'r');
    if ((k->info->flags & wild_writes) || (r.writes && !r.written_hit))
        everything(w, 'w');
}

/* Of its module; on each device a kernel of a library has others. */
static void variables(struct tb_cu_work *w, const struct tb_cu_kernel *k)
{
    int here = w->order && w->order->device >= 0 ? w->order->device : tb_cu_tls.device;
    bool any = false;

    for (uint32_t i = 0; i < k->globals; i++) {
        const struct tb_cu_global *g = &k->global[i];
        if (tb_unlikely(tb_cu.devices && g->alloc->device != here && !g->alloc->unstable))
            continue;
        any = true;
        if (g->flags & TB_GLOBAL_READ)
            tb_cu_add_alloc(w, 'r', g->alloc, g->alloc->name);
        if (g->flags & TB_GLOBAL_WRITE)
            tb_cu_add_alloc(w, 'w', g->alloc, g->alloc->name);
    }
    if (!any)
        w->missing = "variables of its module on a device that was not current";
}

void tb_cu_kernel_accesses(struct tb_cu_work *w, struct tb_cu_kernel *k, const uint8_t *block,
                           uint32_t bytes)
{
    w->args = tb_cu_mix(0x4b41, bytes);
    if (k->info && !(tb_cu.config->flags & TB_CFG_LEARN))
        known(w, k, block, bytes);
    else
        by_guess(w, k, block, bytes);
    if (k->globals)
        variables(w, k);
}
