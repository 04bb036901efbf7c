/* One event in the making: its accesses, its hashes on the device, its record. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "recorder/cuda/engine.h"

/* ---------------------------------------------------------------- life */

struct tb_cu_work *tb_cu_work_new(uint8_t kind, const char *name, CUstream stream, bool per_thread)
{
    tb_cu_lock();
    struct tb_cu_work *w = tb_cu.free_works;
    if (w)
        tb_cu.free_works = w->next;
    else
        w = tb_cu_small(sizeof(*w));
    tb_cu_unlock();
    if (!w)
        return NULL;
    memset(w, 0, offsetof(struct tb_cu_work, access));
    w->kind = kind;
    w->name = name;
    w->stream = stream;
    w->per_thread = per_thread;
    w->open = tb_cu.api->seq();
    w->seq = TB_REC_NO_SEQ;
    return w;
}

/* Tickets of hashes that were queued before work that then was not. */
static void undraw_all(struct tb_cu_work *w)
{
    for (uint32_t i = 0; w->ctx && i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (a->flags & TB_CU_CHANGE)
            tb_cu_undraw(w->ctx, a->before);
        if (a->table)
            tb_cu_undraw(w->ctx, a->ticket);
    }
}

/* Under the lock. */
static void give_back(struct tb_cu_work *w)
{
    if (tb_unlikely(w->seq == TB_REC_NO_SEQ)) /* no event carries its tickets */
        undraw_all(w);
    w->next = tb_cu.free_works;
    tb_cu.free_works = w;
}

void tb_cu_work_drop(struct tb_cu_work *w)
{
    if (!w)
        return;
    tb_cu_lock();
    give_back(w);
    tb_cu_unlock();
}

void tb_cu_detail(struct tb_cu_work *w, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(w->detail, sizeof(w->detail), format, list);
    va_end(list);
}

/* ---------------------------------------------------------------- accesses */

static const struct tb_cu_access *earlier(const struct tb_cu_work *w, uint8_t mode,
                                          uint64_t ordinal, uint64_t offset, uint64_t bytes)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (a->mode == mode && a->ordinal == ordinal && a->offset <= offset &&
            a->offset + a->bytes >= offset + bytes)
            return a;
    }
    return NULL;
}

static bool overlaps(const struct tb_cu_use *u, uint64_t from, uint64_t bytes)
{
    return u->from < from + bytes && from < u->from + u->bytes;
}

static const struct tb_cu_use *find_unordered(const struct tb_cu_work *w,
                                              const struct tb_cu_uses *uses, uint64_t from,
                                              uint64_t bytes)
{
    for (uint32_t i = 0; i < uses->n; i++)
        if (overlaps(&uses->use[i], from, bytes) && tb_cu_meet(w->order, &uses->use[i]))
            return &uses->use[i];
    return NULL;
}

/* The use of the same bytes that no stream, event or wait orders with this one; NULL: none. */
static inline const struct tb_cu_use *
unordered(const struct tb_cu_work *w, const struct tb_cu_uses *uses, uint64_t from, uint64_t bytes)
{
    if (tb_likely(!uses->several && (!uses->n || uses->stream == w->order->index)))
        return NULL;
    return find_unordered(w, uses, from, bytes);
}

/*
 * A hash takes more than the work itself has used. If it meets another stream's writing, extents
 * are cut where pointers begin, from here on; if it still does, the streams share the bytes
 * themselves. Returns: may these bytes be hashed?
 */
static bool check_order(struct tb_cu_work *w, struct tb_cu_alloc *a, uint8_t mode, uint64_t from,
                        uint64_t bytes)
{
    bool inputs = tb_cu.config->flags & TB_CFG_INPUTS;
    const struct tb_cu_use *other = NULL;

    if (!w->order || (mode == 'r' && !inputs))
        return true;
    other = unordered(w, &a->write, from, bytes);
    if (!other && mode == 'w' && inputs)
        other = unordered(w, &a->read, from, bytes);
    if (!other)
        return true;
    w->torn = true;
    w->torn_seq = other->seq;
    return other->guessed; /* then its extent was too large, and ours may be right */
}

/* The place of the oldest use that is known to be over, else of the oldest. */
static struct tb_cu_use *place_for(const struct tb_cu_work *w, struct tb_cu_uses *uses,
                                   uint64_t from, uint64_t bytes)
{
    struct tb_cu_use *use = uses->use;

    for (uint32_t i = 0; i < uses->n; i++)
        if (use[i].from == from && use[i].bytes == bytes &&
            (use[i].stream == w->order->index || !tb_cu_meet(w->order, &use[i])))
            return &use[i];
    if (uses->n < TB_CU_USES)
        return &use[uses->n++];
    for (uint32_t i = 0; i < TB_CU_USES; i++)
        if (!tb_cu_meet(w->order, &use[i]))
            return &use[i];
    uses->next = (uint8_t)((uses->next + 1) % TB_CU_USES);
    return &use[uses->next];
}

static void note_use(struct tb_cu_work *w, struct tb_cu_alloc *a, uint8_t mode, uint64_t from,
                     uint64_t bytes, bool guessed)
{
    struct tb_cu_uses *uses = mode == 'w' ? &a->write : &a->read;

    if (!w->order || (mode == 'r' && !(tb_cu.config->flags & TB_CFG_INPUTS)))
        return;
    uses->several = uses->several || w->order->index == TB_CU_STREAMS - 1 ||
                    (uses->n && uses->stream != w->order->index);
    uses->stream = w->order->index;
    uses->unsaid = true;
    *place_for(w, uses, from, bytes) =
        (struct tb_cu_use){.stream = w->order->index,
                           .clock = w->order->known.at[w->order->index],
                           .seq = TB_REC_NO_SEQ,
                           .from = from,
                           .bytes = bytes,
                           .guessed = guessed};
}

/* Where the next access is made; put() keeps it. */
static struct tb_cu_access *next_access(struct tb_cu_work *w, struct tb_cu_access *spare)
{
    return w->n < TB_CU_ACCESSES ? &w->access[w->n] : spare;
}

static void put(struct tb_cu_work *w, const struct tb_cu_access *access)
{
    if (w->n == TB_CU_ACCESSES)
        w->missing = "more accesses than an event has room for";
    else if (!earlier(w, access->mode, access->ordinal, access->offset, access->bytes))
        w->n++;
}

/* Beyond the budget of a launch: one leaf of `rate`, or none. */
static void budget(struct tb_cu_work *w, struct tb_cu_access *a)
{
    uint64_t left = tb_cu.config->launch_bytes;

    if (!left)
        return;
    left = left > w->hashed ? left - w->hashed : 0;
    if (a->bytes > left) {
        uint64_t share = left < 65536 ? 65536 : left;
        uint64_t rate = (a->bytes + share - 1) / share;
        a->rate = rate > 1 ? (uint32_t)(rate > 1u << 30 ? 1u << 30 : rate) : 0;
    }
    w->hashed += a->rate ? a->bytes / a->rate : a->bytes;
}

/* An access whose bytes are hashed: may they be, and how much of them? */
static void plan_hash(struct tb_cu_work *w, struct tb_cu_access *out, bool guessed)
{
    struct tb_cu_alloc *a = out->alloc;
    bool inputs = tb_cu.config->flags & TB_CFG_INPUTS;
    bool ordered = check_order(w, a, out->mode, out->offset, out->bytes);

    note_use(w, a, out->mode, out->offset, out->bytes, guessed);
    if (ordered && (out->mode == 'w' || (inputs && out->mode == 'r'))) {
        out->flags = out->mode == 'w' ? TB_CU_HASH : TB_CU_BEFORE;
        budget(w, out);
    } else if (!ordered) {
        w->missing = "memory that streams use at once";
    }
}

static inline void access_of(struct tb_cu_work *w, struct tb_cu_alloc *a, uint8_t mode,
                             uint64_t from, uint64_t bytes, bool guessed, struct tb_cu_access *out)
{
    out->alloc = a;
    out->ordinal = a->ordinal;
    out->offset = from;
    out->bytes = bytes;
    out->mode = mode;
    if (a->dtype)
        out->dtype = a->dtype;
    if (mode != 'r' || (tb_cu.config->flags & TB_CFG_INPUTS))
        plan_hash(w, out, guessed);
}

/* The extent of an access: exact for copies; for a kernel what its pointer may be for. Returns: is
 * it guessed, and so perhaps too large? */
static bool extent_of(struct tb_cu_work *w, struct tb_cu_alloc *a, uint8_t mode, uint64_t offset,
                      uint64_t *from, uint64_t *bytes)
{
    uint64_t exact = *bytes;

    if (exact) {
        *from = offset;
        *bytes = exact < a->bytes - offset ? exact : a->bytes - offset;
        tb_cu_bound(a, offset);
        tb_cu_bound(a, offset + *bytes);
        if (*bytes < a->bytes && w->order && w->order != &tb_cu.legacy)
            a->split = true;
        return false;
    }
    tb_cu_extent(a, offset, from, bytes);
    if (a->split || !w->order)
        return !a->split;
    if (unordered(w, &a->write, *from, *bytes)) {
        (void)check_order(w, a, mode, *from, *bytes);
        a->split = true;
        tb_cu_extent(a, offset, from, bytes);
    }
    return !a->split;
}

bool tb_cu_add(struct tb_cu_work *w, uint8_t mode, uint64_t address, uint64_t bytes, uint16_t word,
               uint8_t dtype, const char *name)
{
    struct tb_cu_alloc *a = tb_cu_alloc_at(address);
    struct tb_cu_access spare, *access = next_access(w, &spare);
    uint64_t from;

    if (!a)
        return false;
    *access = (struct tb_cu_access){.word = word, .dtype = dtype, .name = name};
    bool guessed = extent_of(w, a, mode, address - a->base, &from, &bytes);
    access_of(w, a, mode, from, bytes, guessed, access);
    put(w, access);
    return true;
}

void tb_cu_add_alloc(struct tb_cu_work *w, uint8_t mode, struct tb_cu_alloc *a, const char *name,
                     uint8_t dtype)
{
    struct tb_cu_access spare, *access = next_access(w, &spare);

    *access = (struct tb_cu_access){.word = 0xffff, .dtype = dtype, .name = name};
    access_of(w, a, mode, 0, a->bytes, true, access);
    put(w, access);
}

/* ---------------------------------------------------------------- hashing */

/* Nothing is hashed before the work. */
static void no_before(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (a->flags & TB_CU_DOUBT) /* as if it had not been chosen */
            a->flags = (uint8_t)((a->flags & ~TB_CU_HASH) | TB_CU_BELIEVED);
        a->flags &= (uint8_t) ~(TB_CU_CHANGE | TB_CU_DOUBT);
    }
}

/* Tickets for all accesses with one of @flag; how many hashes that makes. Under the lock. */
static uint32_t draw(struct tb_cu_work *w, uint8_t flag)
{
    uint32_t n = 0;
    uint64_t ticket;

    for (uint32_t i = 0; i < w->n; i++)
        n += (w->access[i].flags & flag) != 0;
    if (!n || !tb_cu_draw(w->ctx, n, &ticket)) {
        if (n)
            w->missing = "the table of fingerprints is full: the device lags far behind";
        if (flag & TB_CU_CHANGE)
            no_before(w);
        return 0;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & flag))
            continue;
        if (flag & a->flags & TB_CU_CHANGE) {
            a->before = ticket++;
            continue;
        }
        a->ticket = ticket++;
        a->table = w->ctx->table;
    }
    return n;
}

static void give_up(struct tb_cu_work *w, uint8_t flag, const char *why)
{
    tb_cu_lock();
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if ((a->flags & flag) && a->table) {
            tb_cu_undraw(w->ctx, a->ticket);
            a->table = 0;
        }
        if ((a->flags & TB_CU_CHANGE) && w->ctx)
            tb_cu_undraw(w->ctx, a->before);
    }
    no_before(w);
    tb_cu_unlock();
    w->missing = why;
}

/* Memory that a device may not use must not be looked at there: that would end the job's context.
 */
bool tb_cu_may_look(const struct tb_cu_work *w, const struct tb_cu_alloc *a)
{
    if (a->kind == TB_CU_REGISTERED || a->device == TB_CU_NO_DEVICE)
        return false;
    if (a->kind != TB_CU_DEVICE || a->device == w->ctx->device)
        return true;
    return w->ctx->device < 64 && a->device < 64 && tb_cu.peers[w->ctx->device] >> a->device & 1;
}

/* What arrived on a device that may not be read here is what has left this one. */
static bool find_twin(const struct tb_cu_work *w, struct tb_cu_access *a)
{
    for (uint32_t i = 0; w->plain && a->mode == 'w' && i < w->n; i++) {
        const struct tb_cu_access *r = &w->access[i];
        if (r->mode != 'r' || r->bytes != a->bytes || !tb_cu_may_look(w, r->alloc))
            continue;
        a->twin = r->alloc->base + r->offset;
        return true;
    }
    return false;
}

static void leave_out(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & (TB_CU_HASH | TB_CU_BEFORE)))
            continue;
        if (a->alloc->ordinal != a->ordinal || !a->alloc->bytes) {
            w->missing = "memory that another thread has freed meanwhile";
            a->flags = 0;
            continue;
        }
        if (tb_cu_may_look(w, a->alloc) || find_twin(w, a))
            continue;
        if (a->flags & TB_CU_HASH)
            w->missing = a->alloc->kind == TB_CU_REGISTERED
                             ? "memory of the host that was registered is not hashed"
                             : "memory of another device, which this one may not read";
        a->flags = 0;
    }
}

static void hash(struct tb_cu_work *w, uint8_t flag)
{
    struct tb_fpd_batch b; /* 3 KB, of which few bytes are used */
    uint32_t n;
    bool ok = true;

    tb_cu_await_slots(w->ctx, w->n);
    tb_cu_batch_begin(w->ctx, &b);
    tb_cu_lock();
    leave_out(w);
    n = draw(w, flag);
    tb_cu_unlock();
    for (uint32_t i = 0; n && i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & flag))
            continue;
        b.job[b.jobs++] =
            (struct tb_fpd_job){.src = a->twin ? a->twin : a->alloc->base + a->offset,
                                .bytes = a->bytes,
                                .ticket = flag & a->flags & TB_CU_CHANGE ? a->before : a->ticket,
                                .rate = a->rate};
        if (b.jobs < TB_FPD_MAX)
            continue;
        ok = tb_cu_launch_batch(w->ctx, w->stream, w->per_thread, &b) && ok;
        b.jobs = 0;
    }
    if (b.jobs)
        ok = tb_cu_launch_batch(w->ctx, w->stream, w->per_thread, &b) && ok;
    if (!ok)
        give_up(w, flag, "the hash could not be launched");
}

void tb_cu_work_before(struct tb_cu_work *w)
{
    w->ctx = w->n ? tb_cu_ctx() : NULL;
    w->snapshot = tb_cu_snapshot_due(w);
    if (w->ctx)
        hash(w, TB_CU_BEFORE | TB_CU_CHANGE);
    else
        no_before(w);
    if (w->snapshot)
        tb_cu_snapshot_take(w, 'r');
}

/* ---------------------------------------------------------------- the record */

static const char *argument(const struct tb_cu_access *a, char *out, size_t size)
{
    if (a->alloc && a->alloc->name)
        return a->alloc->name;
    if (a->name)
        return a->name;
    (void)snprintf(out, size, "arg+%u", a->word);
    return out;
}

/* The type if whole elements of it fill the extent, else bytes. */
static uint8_t dtype_of(const struct tb_cu_access *a)
{
    unsigned size = tb_dtype_size(a->dtype);

    return size && (a->bytes & (size - 1)) == 0 ? a->dtype : TB_DT_U8;
}

static uint64_t site_key(const struct tb_cu_work *w)
{
    uint64_t h = tb_cu_mix(0x43554441, w->kind);

    h = w->kernel ? tb_cu_mix(h, w->kernel->site_hash) : tb_cu_mix(h, (uintptr_t)w->name);
    for (int i = 0; w->kernel && i < 3; i++)
        h = tb_cu_mix(h, (uint64_t)w->grid[i] << 32 | w->block[i]);
    h = tb_cu_mix_text(tb_cu_mix(h, (uint64_t)w->learns << 32 | w->shared), w->detail);
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        uint64_t device = a->alloc ? (uint64_t)(uint16_t)a->alloc->device : 0xffff;
        h = tb_cu_mix(h, device << 48 | (uint64_t)a->mode << 32 | (uint64_t)dtype_of(a) << 24 |
                             a->word);
        h = tb_cu_mix(h, a->bytes);
        h = tb_cu_mix(h, (uintptr_t)(a->alloc && a->alloc->name ? a->alloc->name : a->name));
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
        add_text(t, "\tgrid=%u,%u,%u\tblock=%u,%u,%u\tshared=%u\tsymbol=%.1024s", w->grid[0],
                 w->grid[1], w->grid[2], w->block[0], w->block[1], w->block[2], w->shared,
                 k->symbol);
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

static void add_line(struct text *t, const struct tb_cu_access *a)
{
    char name[32];
    uint8_t dtype = dtype_of(a);

    if (a->mode == 'q') {
        add_text(t, "q ? cuda [] - %s\n", a->name);
        return;
    }
    add_text(t, "%c %s ", a->mode, tb_dtype_name(dtype));
    if (a->alloc->kind == TB_CU_HOST || a->alloc->kind == TB_CU_REGISTERED)
        add_text(t, "cpu");
    else
        add_text(t, "%s:%d", a->alloc->unstable ? "shared" : "cuda", a->alloc->device);
    add_text(t, " [%llu] - %s\n", (unsigned long long)(a->bytes / tb_dtype_size(dtype)),
             argument(a, name, sizeof(name)));
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
        add_line(&text, &w->access[i]);
    uint32_t id = tb_cu.api->site_define(t, key, text.p, text.n);
    tb_cu.api->unpool(text.p, text.size);
    return id;
}

static void wire_of(const struct tb_cu_access *a, struct tb_wire_access *out)
{
    uint64_t kind = a->rate > 1 ? TB_FP_SAMPLED : TB_FP_BYTES;

    *out = (struct tb_wire_access){.alloc = a->ordinal, .offset = a->offset};
    if (a->flags & TB_CU_BELIEVED)
        out->alloc |= (uint64_t)TB_FP_UNCHANGED << 48;
    if (!a->table)
        return;
    out->alloc |= kind << 48 | TB_ACCESS_PENDING;
    out->fp_a = a->ticket;
    out->fp_b = a->table;
    if (a->flags & TB_CU_CHANGE) {
        out->alloc |= TB_ACCESS_CHANGE | (a->flags & TB_CU_DOUBT ? TB_ACCESS_DOUBT : 0);
        out->fp_b |= (a->ticket - a->before) << 32;
    }
}

/* The stream is the last access: an order, not memory. */
static void add_order(struct tb_cu_work *w)
{
    if (w->order && w->n < TB_CU_ACCESSES)
        w->access[w->n++] = (struct tb_cu_access){.ordinal = TB_ALLOC_STREAM + w->order->ordinal,
                                                  .word = 0xffff,
                                                  .mode = 'q',
                                                  .name = "stream"};
}

static void write_event(struct tb_cu_work *w)
{
    struct tb_rec_thread *t = tb_cu.api->self();
    struct tb_wire_access wire[TB_CU_ACCESSES];
    struct tb_wire_event e = {.kind = w->kind, .args = w->args, .open = w->open};

    if (!t)
        return;
    uint64_t key = site_key(w);
    e.site = tb_cu.api->site_find(t, key);
    if (tb_unlikely(!e.site))
        e.site = define(t, w, key);
    for (uint32_t i = 0; i < w->n; i++)
        wire_of(&w->access[i], &wire[i]);
    e.accesses = w->n;
    e.range = tb_cu.api->range(t);
    e.step = tb_cu.api->step();
    if (tb_cu.config->flags & TB_CFG_INPUTS)
        e.flags |= TB_EVF_READS_HASHED;
    if (w->missing)
        e.flags |= TB_EVF_PARTIAL;
    w->seq = tb_cu.api->event(t, &e, wire);
    if (tb_unlikely(w->missing != NULL))
        tb_cu_cover(1, w->seq, "cuda", w->name, w->missing);
    if (tb_unlikely(w->torn))
        tb_cu_cover(1, w->torn_seq, "cuda", w->name,
                    "memory was used by streams at once: fingerprints of it may be torn");
}

static void say_seq(struct tb_cu_uses *uses, uint64_t seq)
{
    for (uint32_t i = 0; uses->unsaid && i < uses->n; i++)
        if (uses->use[i].seq == TB_REC_NO_SEQ)
            uses->use[i].seq = seq;
    uses->unsaid = false;
}

/* What the accesses lead to: later ones must know which event it was. Under the lock. */
static void note_seq(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_alloc *a = w->access[i].alloc;
        if (!a || a->ordinal != w->access[i].ordinal)
            continue;
        say_seq(&a->write, w->seq);
        say_seq(&a->read, w->seq);
    }
}

void tb_cu_work_write(struct tb_cu_work *w)
{
    write_event(w);
    if (w->snaps)
        tb_cu_snapshot_send(w);
    tb_cu_lock();
    note_seq(w);
    give_back(w);
    tb_cu_unlock();
}

void tb_cu_work_ordered(struct tb_cu_work *w)
{
    add_order(w);
    tb_cu_work_write(w);
}

void tb_cu_work_end(struct tb_cu_work *w)
{
    struct tb_cu_work *before = tb_cu_tls.pending;

    tb_cu_tls.pending = NULL;
    if (before) { /* no place was reached where CUDA may be called */
        give_up(before, TB_CU_HASH, "no call of CUDA was allowed before the next one");
        add_order(before);
        tb_cu_work_write(before);
    }
    if (!tb_cu_tls.may_call) {
        tb_cu_tls.pending = w;
        return;
    }
    if (w->n && !w->ctx)
        w->ctx = tb_cu_ctx();
    if (w->ctx)
        hash(w, TB_CU_HASH);
    if (w->learn && w->ctx) {
        tb_cu_lock();
        tb_cu_learn_note(w);
        tb_cu_unlock();
    }
    if (w->snapshot)
        tb_cu_snapshot_take(w, 'w');
    if (!w->ctx && w->n && !w->missing)
        w->missing = "nothing can be hashed in this context";
    add_order(w);
    tb_cu_work_write(w);
}
