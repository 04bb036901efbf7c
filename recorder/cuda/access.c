/* What a work reads and writes: extents, their order among streams, what of them is hashed. */
#include <string.h>

#include "recorder/cuda/engine.h"

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

/* Its extent was larger than what the work has used, as far as pointers tell now: it ends where the
 * next one leads to. */
static bool too_large(const struct tb_cu_alloc *a, const struct tb_cu_use *u, uint64_t from)
{
    for (uint8_t i = 0; u->pointed && i < a->bounds; i++)
        if (a->bound[i] > u->from)
            return a->bound[i] <= from;
    return u->guessed;
}

/* The use of the same bytes that no stream, event or wait orders with this one; NULL: none. */
static inline const struct tb_cu_use *
unordered(const struct tb_cu_work *w, const struct tb_cu_uses *uses, uint64_t from, uint64_t bytes)
{
    if (tb_likely(tb_cu_is_sole(w, uses)))
        return NULL;
    return find_unordered(w, uses, from, bytes);
}

/* Beyond the budget of a launch: one leaf of `rate`, or none. */
void tb_cu_budget(struct tb_cu_work *w, struct tb_cu_access *a)
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

/* ---------------------------------------------------------------- what streams wrote at once */

/* Fingerprints of it may be torn, and its content is not known until it is hashed behind both. */
static void tear(struct tb_cu_alloc *a, uint64_t from, uint64_t bytes)
{
    if (!a->torn_to) {
        a->torn_from = from;
        tb_cu_alloc_changed(a); /* launches that come back hash what they read of it, too */
    }
    a->torn_from = from < a->torn_from ? from : a->torn_from;
    a->torn_to = from + bytes > a->torn_to ? from + bytes : a->torn_to;
}

/* These bytes are hashed, and nothing is unordered with that. */
static void heal(struct tb_cu_alloc *a, uint64_t from, uint64_t bytes)
{
    if (from <= a->torn_from && from + bytes > a->torn_from)
        a->torn_from = from + bytes;
    else if (from < a->torn_to && from + bytes >= a->torn_to)
        a->torn_to = from;
    if (a->torn_from >= a->torn_to)
        a->torn_from = a->torn_to = 0;
}

static bool also_writes(const struct tb_cu_work *w, const struct tb_cu_access *r)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (a->mode == 'w' && a->ordinal == r->ordinal && a->offset < r->offset + r->bytes &&
            r->offset < a->offset + a->bytes)
            return true;
    }
    return false;
}

/* Has it torn bytes that this device may look at? */
static bool is_torn(const struct tb_cu_access *r)
{
    const struct tb_cu_alloc *a = r->alloc;

    return a->torn_to && r->offset < a->torn_to && r->offset + r->bytes > a->torn_from &&
           (a->kind == TB_CU_DEVICE || a->kind == TB_CU_GLOBAL) && a->device == tb_cu_tls.device;
}

static void settle(struct tb_cu_work *w, struct tb_cu_access *r)
{
    struct tb_cu_alloc *a = r->alloc;

    if (!is_torn(r) || r->flags || also_writes(w, r) ||
        unordered(w, &a->write, r->offset, r->bytes))
        return;
    r->flags = TB_CU_HASH; /* behind it: it leaves the bytes as they are */
    tb_cu_budget(w, r);
    heal(a, r->offset, r->bytes);
    w->settles = true;
}

void tb_cu_settle(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n && w->order && !w->learns; i++)
        if (w->access[i].mode == 'r')
            settle(w, &w->access[i]);
}

/* ---------------------------------------------------------------- what is hashed */

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
    if (mode == 'w' && !inputs) {
        tear(a, from, bytes);
        tear(a, other->from, other->bytes);
    }
    return too_large(a, other, from); /* then ours may be right */
}

/* The place of the oldest use that is known to be over, else of the oldest. */
static struct tb_cu_use *place_for(const struct tb_cu_work *w, struct tb_cu_uses *uses,
                                   uint64_t from, uint64_t bytes)
{
    struct tb_cu_use *use = uses->use;

    if (tb_likely(uses->n && use[uses->last].from == from && use[uses->last].bytes == bytes &&
                  use[uses->last].stream == w->order->index))
        return &use[uses->last];
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

bool tb_cu_unordered(const struct tb_cu_work *w, const struct tb_cu_access *a)
{
    if (unordered(w, &a->alloc->write, a->offset, a->bytes))
        return true;
    return a->mode == 'w' && (tb_cu.config->flags & TB_CFG_INPUTS) &&
           unordered(w, &a->alloc->read, a->offset, a->bytes);
}

static void note_use(struct tb_cu_work *w, const struct tb_cu_access *a, struct tb_cu_alloc *alloc)
{
    struct tb_cu_uses *uses = a->mode == 'w' ? &alloc->write : &alloc->read;
    uint32_t stream = w->order->index;

    uses->several =
        uses->several || stream == TB_CU_STREAMS - 1 || (uses->n && uses->stream != stream);
    uses->stream = stream;
    uses->unsaid = true;
    struct tb_cu_use *use = place_for(w, uses, a->offset, a->bytes);
    use->stream = stream;
    use->thread = tb_cu_thread();
    use->clock = w->order->known.at[stream];
    use->seq = TB_REC_NO_SEQ;
    use->from = a->offset;
    use->bytes = a->bytes;
    use->guessed = a->guessed;
    use->pointed = a->by_pointer && !a->guessed;
    uses->last = (uint8_t)(use - uses->use);
}

/* The same memory has other addresses, too. */
static tb_cold void note_aliases(struct tb_cu_work *w, const struct tb_cu_access *a)
{
    for (uint32_t i = 0; i < tb_cu.allocs; i++)
        if (tb_cu.alloc[i] != a->alloc && tb_cu.alloc[i]->ordinal == a->ordinal)
            note_use(w, a, tb_cu.alloc[i]);
}

void tb_cu_note_use(struct tb_cu_work *w, const struct tb_cu_access *a)
{
    if (!w->order || (a->mode == 'r' && !(tb_cu.config->flags & TB_CFG_INPUTS)))
        return;
    note_use(w, a, a->alloc);
    if (tb_unlikely(a->alloc->alias))
        note_aliases(w, a);
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

/* Does @w bring these bytes of a device to the host as they are? Their extent is exact. */
static bool leaves(const struct tb_cu_work *w, const struct tb_cu_access *a)
{
    return w->leaves && a->mode == 'r' && a->alloc->kind != TB_CU_HOST &&
           a->alloc->kind != TB_CU_REGISTERED;
}

/* An access whose bytes are hashed: may they be, and how much of them? Those that leave for the
 * host are, whatever else uses them: if they differ then, the host has seen it. */
static void plan_hash(struct tb_cu_work *w, struct tb_cu_access *out)
{
    bool inputs = tb_cu.config->flags & TB_CFG_INPUTS;
    bool ordered = check_order(w, out->alloc, out->mode, out->offset, out->bytes);

    if (tb_unlikely(out->alloc->torn_to) && w->order && (out->mode == 'w' || leaves(w, out)) &&
        !unordered(w, &out->alloc->write, out->offset, out->bytes))
        heal(out->alloc, out->offset, out->bytes);
    tb_cu_note_use(w, out);
    if (leaves(w, out) || (ordered && (out->mode == 'w' || (inputs && out->mode == 'r')))) {
        out->flags = out->mode == 'w' ? TB_CU_HASH : TB_CU_BEFORE;
        tb_cu_budget(w, out);
    } else if (!ordered) {
        w->missing = "memory that streams use at once";
    }
}

static inline void access_of(struct tb_cu_work *w, struct tb_cu_alloc *a, uint8_t mode,
                             uint64_t from, uint64_t bytes, bool guessed, struct tb_cu_access *out)
{
    out->alloc = a;
    out->ordinal = a->ordinal;
    out->version = a->version;
    out->guessed = guessed;
    out->offset = from;
    out->bytes = bytes;
    out->mode = mode;
    if (a->dtype)
        out->dtype = a->dtype;
    if (mode != 'r' || (tb_cu.config->flags & TB_CFG_INPUTS) || leaves(w, out))
        plan_hash(w, out);
}

/* Kernels got pointers to several places of it. */
static void note_pointer(struct tb_cu_alloc *a, uint64_t offset)
{
    if (tb_likely(a->pointed == offset + 1))
        return;
    a->places = a->pointed != 0;
    a->pointed = offset + 1;
}

/*
 * What one thread had waited for before another one came there, another run may have behind that or
 * at the same time: extents must not depend on it.
 */
bool tb_cu_shared(const struct tb_cu_work *w, const struct tb_cu_alloc *a, uint64_t pointer)
{
    for (uint32_t i = 0; !a->split && i < a->write.n; i++) {
        const struct tb_cu_use *u = &a->write.use[i];
        if ((u->guessed ? a->places : u->from != pointer) && tb_cu_by_chance(w->order, u))
            return true;
    }
    return false;
}

/* Streams, or threads, use parts of it from now on. */
static bool parts(struct tb_cu_work *w, struct tb_cu_alloc *a, uint8_t mode, uint64_t pointer,
                  uint64_t from, uint64_t bytes)
{
    if (a->split || !w->order || tb_cu_is_sole(w, &a->write))
        return false;
    if (unordered(w, &a->write, from, bytes))
        (void)check_order(w, a, mode, from, bytes);
    else if (!tb_cu_shared(w, a, pointer))
        return false;
    tb_cu_split(a);
    return true;
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
        if (mode == 'w') { /* what is read of it tells nothing of who writes where */
            tb_cu_bound(a, offset);
            tb_cu_bound(a, offset + *bytes);
        }
        return false;
    }
    note_pointer(a, offset);
    tb_cu_extent(a, offset, from, bytes);
    if (parts(w, a, mode, offset, *from, *bytes))
        tb_cu_extent(a, offset, from, bytes);
    if (tb_unlikely(w->cuts != NULL))
        tb_cu_cut(w->cuts, a->ordinal, offset, from, bytes);
    return !a->split;
}

bool tb_cu_add(struct tb_cu_work *w, uint8_t mode, uint64_t address, uint64_t bytes, uint16_t word,
               uint8_t dtype, const char *name)
{
    struct tb_cu_alloc *a = tb_cu_alloc_at(address);
    struct tb_cu_access spare, *access = next_access(w, &spare);
    uint64_t from;

    if (!a) {
        tb_cu_unsure(w, address);
        return false;
    }
    *access = (struct tb_cu_access){
        .word = word, .dtype = dtype, .name = name, .pointer = address - a->base};
    access->by_pointer = bytes == 0;
    bool guessed = extent_of(w, a, mode, address - a->base, &from, &bytes);
    access_of(w, a, mode, from, bytes, guessed, access);
    put(w, access);
    if (tb_unlikely(a->mapped && access->by_pointer && from + bytes == a->bytes))
        tb_cu_add_behind(w, access, a->base + a->bytes);
    return true;
}

/* What of mapping @a, from @offset on, the pointer may be for; false: not for what is behind. */
static bool add_next(struct tb_cu_work *w, const struct tb_cu_access *like, struct tb_cu_alloc *a,
                     uint64_t offset)
{
    struct tb_cu_access spare, *access = next_access(w, &spare);
    uint64_t run = tb_cu_run(a->base + offset), from = offset;
    uint64_t bytes = tb_cu_until_bound(a, offset, run);

    if (parts(w, a, like->mode, TB_CU_BEFORE_IT, from, bytes))
        bytes = tb_cu_until_bound(a, offset, run);
    if (w->cuts)
        tb_cu_cut(w->cuts, a->ordinal, TB_CU_BEFORE_IT, &from, &bytes);
    if (!bytes)
        return false;
    *access = (struct tb_cu_access){
        .word = like->word, .dtype = like->dtype, .pointer = TB_CU_BEFORE_IT, .by_pointer = true};
    access_of(w, a, like->mode, from, bytes, !a->split, access);
    put(w, access);
    return bytes == run;
}

/* A block of a caching allocator is a buffer of its own, a named part may not be. What is read
 * leaves room for what is written. */
void tb_cu_add_behind(struct tb_cu_work *w, const struct tb_cu_access *like, uint64_t address)
{
    const struct tb_cu_access first = *like; /* it may lie where the next one is made */
    uint32_t room = TB_CU_ACCESSES / 4 * (like->mode == 'w' ? 3 : 1);
    struct tb_cu_alloc *a, *x;

    while ((a = tb_cu_goes_on(address)) != NULL && (x = tb_cu_alloc_at(address)) != NULL) {
        if (w->n >= room) {
            w->missing = "more mappings behind a pointer than an event has room for";
            return;
        }
        if (x == a ? !add_next(w, &first, a, address - a->base) : !x->part)
            return;
        if (x != a && x->base == address)
            tb_cu_add_alloc(w, first.mode, x, "beside what it points to");
        address += tb_cu_run(address);
    }
}

void tb_cu_add_range(struct tb_cu_work *w, uint8_t mode, uint64_t address, uint64_t bytes,
                     const char *name)
{
    uint64_t here;

    for (; bytes && (here = tb_cu_run(address)) != 0; address += here, bytes -= here) {
        here = here < bytes ? here : bytes;
        (void)tb_cu_add(w, mode, address, here, 0xffff, TB_DT_UNKNOWN, name);
    }
}

void tb_cu_add_part(struct tb_cu_work *w, uint8_t mode, struct tb_cu_alloc *a, uint64_t from,
                    uint64_t bytes, const char *name)
{
    struct tb_cu_access spare, *access = next_access(w, &spare);

    *access = (struct tb_cu_access){.word = 0xffff, .dtype = TB_DT_UNKNOWN, .name = name};
    access_of(w, a, mode, from, bytes, true, access);
    put(w, access);
}

void tb_cu_add_alloc(struct tb_cu_work *w, uint8_t mode, struct tb_cu_alloc *a, const char *name)
{
    tb_cu_add_part(w, mode, a, 0, a->bytes, name);
}

/* ---------------------------------------------------------------- what the host wrote */

static bool host_writes(const struct tb_cu_alloc *a)
{
    return a->kind == TB_CU_MANAGED || a->kind == TB_CU_HOST ||
           (a->kind == TB_CU_GLOBAL && a->unstable);
}

/* Within a budget of its own: what is hashed of the writes must not depend on it. */
static void hash_before(struct tb_cu_work *w, struct tb_cu_access *r, uint64_t *hashed)
{
    uint64_t written = w->hashed;

    if (r->flags || (w->order && unordered(w, &r->alloc->write, r->offset, r->bytes)))
        return;
    if (tb_cu.config->flags & TB_CFG_DEFER) {
        w->not_before = true;
        return;
    }
    r->flags = TB_CU_BEFORE;
    w->hashed = *hashed;
    tb_cu_budget(w, r);
    *hashed = w->hashed;
    w->hashed = written;
}

static void add_beside(struct tb_cu_work *w, const struct tb_cu_access *a)
{
    struct tb_cu_access spare, *r = next_access(w, &spare);

    *r = *a;
    r->mode = 'r';
    r->flags = 0;
    r->rate = 0;
    r->beside = true;
    put(w, r);
}

void tb_cu_add_host_writes(struct tb_cu_work *w)
{
    uint64_t hashed = 0;

    for (uint32_t i = 0, n = w->n; i < n; i++)
        if (w->access[i].mode == 'w' && host_writes(w->access[i].alloc))
            add_beside(w, &w->access[i]); /* if it is not read anyway */
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *r = &w->access[i];
        if (r->mode == 'r' && host_writes(r->alloc) &&
            (r->by_pointer || r->beside || r->alloc->kind == TB_CU_GLOBAL || also_writes(w, r)))
            hash_before(w, r, &hashed);
    }
}

void tb_cu_add_host_source(struct tb_cu_work *w)
{
    uint64_t hashed = 0;

    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *r = &w->access[i];
        if (r->mode == 'r' && host_writes(r->alloc) && r->alloc->kind != TB_CU_HOST)
            hash_before(w, r, &hashed);
    }
}
