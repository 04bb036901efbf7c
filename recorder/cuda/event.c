/* The record of a work: its site and its event. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "recorder/cuda/engine.h"

static const char *argument(const struct tb_cu_access *a, char *out, size_t size)
{
    if (a->alloc && a->alloc->name)
        return a->alloc->name;
    if (a->name)
        return a->name;
    (void)snprintf(out, size, a->mode == 's' ? "memory %u" : "arg+%u", a->word);
    return out;
}

/* The type if whole elements of it fill the extent, else bytes. */
static uint8_t dtype_of(const struct tb_cu_access *a)
{
    unsigned size = tb_dtype_size(a->dtype);

    return size && (a->bytes & (size - 1)) == 0 ? a->dtype : TB_DT_U8;
}

/* What the host may write unseen is told apart from what it may not. */
enum place { PLACE_NONE, PLACE_CPU, PLACE_SHARED, PLACE_CUDA };
static enum place place_of(const struct tb_cu_access *a)
{
    if (!a->alloc)
        return PLACE_NONE;
    if (a->alloc->kind == TB_CU_HOST || a->alloc->kind == TB_CU_REGISTERED)
        return PLACE_CPU;
    return a->alloc->unstable ? PLACE_SHARED : PLACE_CUDA;
}

static uint64_t mix_rows(uint64_t h, const struct tb_cu_rows *r)
{
    h = tb_cu_mix(tb_cu_mix(tb_cu_mix(h, r->width), r->count), r->slices);
    return tb_cu_mix(tb_cu_mix(h, r->pitch), r->slice);
}

/* All that add_head() and add_line() write. */
static uint64_t site_key(const struct tb_cu_work *w)
{
    uint64_t h = tb_cu_mix(0x43554441, w->kind);

    h = w->kernel ? tb_cu_mix(h, w->kernel->site_hash) : tb_cu_mix(h, (uintptr_t)w->name);
    for (int i = 0; w->kernel && i < 3; i++)
        h = tb_cu_mix(h, (uint64_t)w->shape.grid[i] << 32 | w->shape.block[i]);
    h = tb_cu_mix_text(tb_cu_mix(h, (uint64_t)w->learns << 32 | w->shape.shared), w->detail);
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        uint64_t device = a->alloc ? (uint64_t)(uint16_t)a->alloc->device : 0xffff;
        h = tb_cu_mix(h, device << 48 | (uint64_t)place_of(a) << 40 | (uint64_t)a->mode << 32 |
                             (uint64_t)dtype_of(a) << 24 | (uint64_t)a->beside << 16 | a->word);
        h = tb_cu_mix(h, a->bytes);
        h = tb_cu_mix(h, (uintptr_t)(a->alloc && a->alloc->name ? a->alloc->name : a->name));
        h = a->flags & TB_CU_ROWS ? mix_rows(h, &w->rows) : h;
    }
    return h;
}

struct text {
    char *p;
    size_t n, size;
};

static void add_text(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_text(struct text *t, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    int n = vsnprintf(t->p + t->n, t->size - t->n, format, list);
    va_end(list);
    if (n > 0)
        t->n = t->n + (size_t)n < t->size ? t->n + (size_t)n : t->size - 1;
}

static void add_hex(struct text *t, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_text(t, "%02x", bytes[i]);
}

static void add_head(struct text *t, const struct tb_cu_work *w)
{
    const struct tb_cu_kernel *k = w->kernel;

    add_text(t, "cuda\n%.200s", w->name);
    if (k && w->kind == TB_EV_LAUNCH) {
        add_text(t, "\tgrid=%u,%u,%u\tblock=%u,%u,%u\tshared=%u\tsymbol=%.1024s", w->shape.grid[0],
                 w->shape.grid[1], w->shape.grid[2], w->shape.block[0], w->shape.block[1],
                 w->shape.block[2], w->shape.shared, k->symbol);
        if (k->code && k->code->image) {
            add_text(t, "\timage=");
            add_hex(t, k->code->image->hash, 8);
        }
        if (k->info && (k->info->flags & TB_KERNEL_FLOAT_ATOMIC))
            add_text(t, "\tatomics=1");
        if (w->learns || !k->info)
            add_text(t, w->learns ? "\twrites=learnt" : "\twrites=guessed");
        if (k->extra[0])
            add_text(t, "\t%.200s", k->extra);
    }
    add_text(t, "%s\n", w->detail);
}

static void add_rows(struct text *t, const struct tb_cu_rows *r)
{
    add_text(t, " [%llu,%llu,%llu] [%llu,%llu,1]", (unsigned long long)r->slices,
             (unsigned long long)r->count, (unsigned long long)r->width,
             (unsigned long long)r->slice, (unsigned long long)r->pitch);
}

static void add_line(struct text *t, const struct tb_cu_work *w, const struct tb_cu_access *a)
{
    char name[32];
    uint8_t dtype = dtype_of(a);

    if (a->mode == 'q') {
        add_text(t, "q ? cuda [] - %s\n", a->name);
        return;
    }
    dtype = a->flags & TB_CU_ROWS ? TB_DT_U8 : dtype;
    add_text(t, "%c %s ", a->mode, tb_dtype_name(dtype));
    if (place_of(a) == PLACE_CPU)
        add_text(t, "cpu");
    else
        add_text(t, "%s:%d", place_of(a) == PLACE_SHARED ? "shared" : "cuda", a->alloc->device);
    if (a->flags & TB_CU_ROWS)
        add_rows(t, &w->rows);
    else
        add_text(t, " [%llu] -", (unsigned long long)(a->bytes / tb_dtype_size(dtype)));
    add_text(t, " %s%s\n", a->beside ? "before " : "", argument(a, name, sizeof(name)));
}

/* The text of a new site: long, but rare. The lines of 512 accesses fit. */
static uint32_t define(struct tb_rec_thread *t, const struct tb_cu_work *w, uint64_t key)
{
    struct text text = {.size = 2048 + 160 * (size_t)w->n};

    text.p = tb_cu.api->pool(text.size);
    if (!text.p)
        return 0;
    add_head(&text, w);
    for (uint32_t i = 0; i < w->n; i++)
        add_line(&text, w, &w->access[i]);
    uint32_t id = tb_cu.api->site_define(t, key, text.p, text.n);
    tb_cu.api->unpool(text.p, text.size);
    return id;
}

/* Where the pointer leads, if not to where the extent begins. A variable has no pointer. */
static uint64_t place(const struct tb_cu_access *a)
{
    if (a->by_pointer)
        return a->pointer != a->offset ? tb_wire_place(a->pointer) : 0;
    return a->guessed && a->alloc && a->alloc->kind != TB_CU_GLOBAL ? TB_PLACE_NOWHERE : 0;
}

struct tb_wire_access tb_cu_wire(const struct tb_cu_access *a)
{
    struct tb_wire_access out = {.alloc = a->ordinal,
                                 .offset = a->offset | place(a) << TB_PLACE_SHIFT};

    if (a->flags & TB_CU_BELIEVED)
        out.alloc |= (uint64_t)TB_FP_UNCHANGED << 48;
    if (a->flags & TB_CU_ARRIVED) {
        out.alloc |= (uint64_t)(a->flags & TB_CU_ROWS ? TB_FP_ROWMAJOR : TB_FP_BYTES) << 48;
        out.fp_a = a->ticket;
        out.fp_b = a->before;
    }
    if (!a->table)
        return out;
    out.alloc |= a->flags & TB_CU_ROWS ? (uint64_t)TB_FP_ROWMAJOR << 48 | TB_ACCESS_PENDING
                                       : tb_cu_pending(a->rate);
    out.fp_a = a->ticket;
    out.fp_b = a->table;
    if (a->flags & TB_CU_CHANGE) {
        out.alloc |= TB_ACCESS_CHANGE | (a->flags & TB_CU_DOUBT ? TB_ACCESS_DOUBT : 0);
        out.fp_b |= (a->ticket - a->before) << 32;
    }
    return out;
}

/* An order, not memory. */
void tb_cu_add_order(struct tb_cu_work *w)
{
    if (w->order && w->n < TB_CU_ACCESSES)
        w->access[w->n++] = (struct tb_cu_access){.ordinal = TB_ALLOC_STREAM + w->order->ordinal,
                                                  .offset = tb_cu_order_bits(w->order) |
                                                            (w->waited ? TB_ORDER_WAITED : 0),
                                                  .word = 0xffff,
                                                  .mode = 'q',
                                                  .name = "stream"};
}

/* What its fingerprints do not say. */
static void cover(const struct tb_cu_work *w)
{
    if (w->missing)
        tb_cu_cover(1, w->seq, "cuda", w->name, w->missing);
    if (w->torn)
        tb_cu_cover(1, w->torn_seq, "cuda", w->name, TB_COVER_TORN);
    if (w->torn_here)
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", w->name,
                    "memory was used by nodes of a graph at once: fingerprints of it may be torn");
    if (w->torn_state)
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", w->name,
                    "memory that streams write at once: fingerprints of it may be torn");
    if (w->not_before)
        tb_cu_cover(0, w->seq, "cuda", w->name,
                    "what the host writes to memory of both is not told from what it writes");
    if (w->left_unhashed)
        tb_cu_cover(1, w->seq, "cuda", w->name, "what its copies bring to the host is not hashed");
    if (w->fed)
        tb_cu_cover(1, w->seq, "cuda", w->name,
                    "what its copies bring from the host is not hashed before it");
    if (w->left_torn)
        tb_cu_cover(1, w->seq, "cuda", w->name, TB_COVER_LEFT);
    if (w->beyond)
        tb_cu_cover(1, w->seq, "cuda", w->name,
                    "pinned memory that it may reach through memory is not hashed");
}

void tb_cu_event_put(struct tb_cu_work *w, struct tb_rec_thread *t, uint32_t site,
                     const struct tb_wire_access *wire, uint32_t n)
{
    struct tb_wire_event e = {
        .kind = w->kind, .args = w->args, .open = w->open, .site = site, .accesses = n};

    e.range = tb_cu.api->range(t);
    e.step = tb_cu.api->step();
    if (tb_cu.config->flags & TB_CFG_INPUTS)
        e.flags |= TB_EVF_READS_HASHED;
    if (w->missing)
        e.flags |= TB_EVF_PARTIAL;
    w->seq = tb_cu.api->event(t, &e, wire);
    if (tb_unlikely(w->missing || w->torn || w->torn_here || w->torn_state || w->beyond ||
                    w->not_before || w->left_torn || w->left_unhashed || w->fed))
        cover(w);
}

/* Fingerprints that are not of the bytes as they are. */
static void mark_alike(struct tb_wire_access *wire, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (wire[i].alloc & TB_ACCESS_PENDING)
            wire[i].alloc |= TB_ACCESS_ALIKE;
}

void tb_cu_event_write(struct tb_cu_work *w)
{
    struct tb_rec_thread *t = tb_cu.api->self();
    struct tb_wire_access wire[TB_CU_ACCESSES];

    if (!t)
        return;
    uint64_t key = site_key(w);
    uint32_t site = tb_cu.api->site_find(t, key);
    if (tb_unlikely(!site))
        site = define(t, w, key);
    for (uint32_t i = 0; i < w->n; i++)
        wire[i] = tb_cu_wire(&w->access[i]);
    if (tb_cu_fills() && !w->exact)
        mark_alike(wire, w->n);
    tb_cu_event_put(w, t, site, wire, w->n);
    if (w->plan && site)
        tb_cu_plan_site(w, tb_cu.api->ring(t), site);
}
