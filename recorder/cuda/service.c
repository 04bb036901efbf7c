/* What other taps of the process and twinbit.h may ask: struct tb_rec_cuda. */
#include <string.h>

#include "recorder/cuda/engine.h"

/* PyTorch is here: the state of a step is its parameters, and its tap says when it ends. */
static void other_tap(void)
{
    if (tb_unlikely(tb_cu_marks()))
        __atomic_store_n(&tb_cu.marks, false, __ATOMIC_RELAXED);
}

static void op_begin(void)
{
    other_tap();
    tb_cu_tls.op_depth++;
}

static void op_end(void)
{
    if (tb_cu_tls.op_depth)
        tb_cu_tls.op_depth--;
}

/* Called under a lock of PyTorch's: in which stream a block is used is not known here. */
static void recycled(uint64_t bytes)
{
    if (!bytes)
        __atomic_store_n(&tb_cu.recycles, true, __ATOMIC_RELAXED);
    else if (__atomic_exchange_n(&tb_cu.recycles, false, __ATOMIC_RELAXED))
        tb_cu_fill_none("what PyTorch's allocator gives out again (not with "
                        "PYTORCH_NO_CUDA_MEMORY_CACHING=1)");
}

static void block(int device, uint64_t address, uint64_t bytes)
{
    other_tap();
    if (tb_cu_fills())
        recycled(bytes);
    tb_cu_lock();
    tb_cu_block(device, address, bytes);
    tb_cu_unlock();
}

static uint64_t alloc(uint64_t address, uint64_t *offset, uint64_t *bytes)
{
    const struct tb_cu_alloc *a;
    uint64_t ordinal = 0;

    tb_cu_lock();
    a = tb_cu_alloc_at(address);
    if (a) {
        ordinal = a->ordinal;
        *offset = address - a->base;
        *bytes = a->bytes;
    }
    tb_cu_unlock();
    return ordinal;
}

static void name(void *function, const char *text)
{
    struct tb_cu_kernel *k;

    tb_cu_lock();
    k = tb_cu_map_get(&tb_cu.kernels, (uint64_t)(uintptr_t)function);
    if (k && strcmp(k->extra, text) != 0) {
        k->extra = tb_cu_text(text);
        k->site_hash = tb_cu_mix_text(k->site_hash, k->extra);
    }
    tb_cu_unlock();
}

/* A part with a name lies there, perhaps over several mappings. */
static void tell_parts(uint64_t address, uint64_t bytes)
{
    struct tb_cu_alloc *a;

    for (uint64_t at = address; at - address < bytes; at = a->base + a->bytes) {
        a = tb_cu_alloc_around(at);
        if (!a)
            return;
        a->has_parts = true;
    }
}

/* Which bytes of memory get a name; NULL: none. Under the lock. */
static struct tb_cu_alloc *named(uint64_t address, uint64_t bytes, const char **why)
{
    struct tb_cu_alloc *a = tb_cu_alloc_at(address), *around = tb_cu_alloc_around(address);

    if (!a || !around || !bytes)
        return NULL;
    if (bytes > tb_cu_room_at(around, address)) {
        *why = "a name for more bytes than its allocation has: it is cut at the end of that";
        bytes = tb_cu_room_at(around, address);
    }
    if (a->base == address && a->bytes == bytes)
        return a;
    if (a != around && !a->part) {
        *why = "a name for a part of a block of a caching allocator: it is ignored";
        return NULL;
    }
    tb_cu_block(around->device, address, bytes);
    a = tb_cu_alloc_at(address);
    if (a && a->base == address && a != around) {
        a->part = true;
        tb_cu.parts++;
        tell_parts(address, bytes);
    }
    return a;
}

/* The whole of an allocation gets the name; a part of one becomes a block of its own. */
static void tensor(uint64_t address, uint64_t bytes, const char *dtype, const char *label)
{
    const char *why = NULL;
    struct tb_cu_alloc *a;

    if (!__atomic_load_n(&tb_cu.on, __ATOMIC_ACQUIRE))
        return;
    tb_cu_lock();
    a = named(address, bytes, &why);
    if (a) {
        a->dtype = (uint8_t)tb_dtype_from_name(dtype, strlen(dtype));
        a->name = label[0] ? tb_cu_name(label) : NULL;
        tb_cu.state.names += label[0] != 0;
        tb_cu_alloc_changed(a);
    }
    tb_cu_unlock();
    if (why)
        tb_cu_cover(0, TB_REC_NO_SEQ, "name", label, why);
}

/* ---------------------------------------------------------------- hashes for others */

bool tb_cu_launch_view(struct tb_cu_ctx *c, CUstream stream, bool per_thread,
                       const struct tb_rec_view *v, uint64_t ticket)
{
    struct tb_fpd_strided s = {.slots = c->slots,
                               .scratch = c->scratch,
                               .mask = TB_CU_SLOTS - 1,
                               .elem = v->elem,
                               .src = v->address,
                               .ticket = ticket,
                               .ndim = (uint32_t)v->ndim};

    memcpy(s.size, v->sizes, (size_t)v->ndim * sizeof(*s.size));
    memcpy(s.stride, v->strides, (size_t)v->ndim * sizeof(*s.stride));
    uint32_t grid = tb_fpd_plan_strided(&s, c->sms);
    return grid && tb_cu_launch(c->strided, grid, TB_FPD_THREADS, stream, per_thread, &s);
}

struct tb_cu_ctx *tb_cu_enter_device(int device, struct tb_cu_visit *v)
{
    struct tb_cu_ctx *c = tb_cu_ctx();

    *v = (struct tb_cu_visit){.pushed = false};
    if (c && c->device == device)
        return c;
    for (c = tb_cu.contexts; c; c = c->next)
        if (c->device == device && c->state == TB_CU_CTX_READY) {
            tb_cu_visit(c->handle, v);
            return v->pushed ? c : NULL;
        }
    return NULL;
}

/* Nothing is written there before the graph is launched, and that is an event of its own. */
static const char captured[] = "its stream is being captured into a graph";

static const char *hash_in(int device, CUstream stream, const struct tb_rec_view *v,
                           struct tb_wire_access *out)
{
    bool plain = v->sizes == NULL, drawn, ok;
    struct tb_cu_visit was;
    uint64_t ticket = 0;

    if (tb_cu_capturing(stream, false))
        return captured;
    if (!plain && v->ndim > (int)TB_FPD_STRIDED_DIMS)
        return "a view of more dimensions than are hashed on the device";
    struct tb_cu_ctx *c = tb_cu_enter_device(device, &was);
    if (!c) {
        tb_cu_return(&was);
        return "nothing can be hashed on this device";
    }
    tb_cu_lock();
    drawn = tb_cu_draw(c, 1, &ticket);
    tb_cu_unlock();
    ok = drawn && (plain ? tb_cu_launch_job(c, stream, false, v->address, v->bytes, ticket)
                         : tb_cu_launch_view(c, stream, false, v, ticket));
    tb_cu_return(&was);
    if (!ok)
        return drawn ? "the hash could not be launched" : "the table of fingerprints is full";
    out->alloc |= (uint64_t)(plain ? TB_FP_BYTES : TB_FP_ROWMAJOR) << 48 | TB_ACCESS_PENDING;
    out->fp_a = ticket;
    out->fp_b = c->table;
    return NULL;
}

static bool hash(struct tb_rec_thread *t, int device, void *stream, const struct tb_rec_view *v,
                 struct tb_wire_access *out)
{
    bool entered = tb_cu.api->enter(), may = tb_cu_tls.may_call;
    const char *why;

    other_tap();
    tb_cu_tls.may_call = true;
    why = hash_in(device, stream, v, out);
    tb_cu_tls.may_call = may;
    if (why)
        tb_cu.api->cover(t, why != captured, TB_REC_NO_SEQ, "cuda", "tensor", why, 1);
    if (entered)
        tb_cu.api->leave();
    return !why;
}

/* In a forked child nothing of its parent's CUDA is left. */
static void step_ends(void)
{
    bool may = tb_cu_tls.may_call;

    if (!__atomic_load_n(&tb_cu.on, __ATOMIC_ACQUIRE) || !tb_cu_marks() ||
        tb_cu.api->generation() != tb_cu.generation || !tb_cu.api->enter())
        return;
    tb_cu_tls.may_call = true;
    tb_cu_step_ends();
    tb_cu_tls.may_call = may;
    tb_cu.api->leave();
}

const struct tb_rec_cuda *tb_cu_service(void)
{
    static const struct tb_rec_cuda service = {
        .size = sizeof(service),
        .hash = hash,
        .snapshot = tb_cu_snapshot,
        .op_begin = op_begin,
        .op_end = op_end,
        .block = block,
        .tensor = tensor,
        .name = name,
        .alloc = alloc,
        .step_ends = step_ends,
    };

    return &service;
}
