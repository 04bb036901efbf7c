/*
 * What a copy brings to the host is hashed on the device before it leaves. Where it has arrived
 * when the call is over, the host does that, if there is little of it. And what another stream may
 * write meanwhile is hashed where it arrives: it might be written between a hash and the copy. Who
 * may do so is not known yet where the host does not wait for the copy.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "recorder/cuda/engine.h"

#define FEW_BYTES 16384u /* the host has hashed them before a kernel would begin to */

static bool is_of(uint64_t address, uint8_t kind)
{
    const struct tb_cu_alloc *a = tb_cu_alloc_at(address);

    return a && a->kind == kind;
}

/* A device may read it, too. */
static bool is_pinned(uint64_t address)
{
    return is_of(address, TB_CU_HOST);
}

/* May the host read the byte at @address? Asks the kernel, which does not mind if it may not. */
static bool is_readable(uint64_t address)
{
    uint8_t byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)address, 1};
    int before = errno;
    bool read = process_vm_readv((pid_t)syscall(SYS_getpid), &here, 1, &there, 1, 0) == 1;

    errno = before;
    return read;
}

/* An address that no call of CUDA gave away is the host's, or of memory that came in ways that are
 * not followed. */
static bool is_hosts(const struct tb_cu_arrival *to)
{
    return to->home || is_pinned(to->dst) || is_of(to->dst, TB_CU_REGISTERED) ||
           (is_readable(to->dst) && is_readable(to->dst + to->dst_bytes - 1));
}

/* Where the bytes of @a go; 0: that is not known. */
static uint64_t twin_of(const struct tb_cu_work *w, const struct tb_cu_access *a,
                        const struct tb_cu_arrival *to)
{
    uint64_t at = a->alloc->base + a->offset;

    if (!to->rows)
        return to->dst + (at - to->src);
    bool all = a->flags & TB_CU_ROWS || a->bytes == w->to.width * w->to.count * w->to.slices;
    return all && at == to->src ? to->dst : 0;
}

static void plan(struct tb_cu_work *w, struct tb_cu_access *a, const struct tb_cu_arrival *to)
{
    bool met = tb_cu_unordered(w, a), few = to->waits && a->bytes <= FEW_BYTES && !to->rows;
    bool known = to->home || is_pinned(to->dst);
    uint64_t twin = a->rate ? 0 : twin_of(w, a, to);
    uint8_t rows = a->flags & TB_CU_ROWS;

    if (twin && w->waited && ((few && known) || (met && is_hosts(to))))
        a->flags = TB_CU_ARRIVED | rows;
    else if (twin && !w->waited && is_pinned(to->dst))
        a->flags = TB_CU_HASH | rows; /* behind the copy: others may be queued before it is done */
    else
        w->left_torn = w->left_torn || met;
    if (!(a->flags & TB_CU_BEFORE))
        a->twin = twin;
}

void tb_cu_arrival_plan(struct tb_cu_work *w, uint32_t from, const struct tb_cu_arrival *to)
{
    if (!w->leaves || (!to->waits && tb_cu.stream_indices == 1)) /* nobody else writes anything */
        return;
    for (uint32_t i = from; i < w->n; i++)
        if (w->access[i].mode == 'r' && (w->access[i].flags & TB_CU_BEFORE))
            plan(w, &w->access[i], to);
}

bool tb_cu_arrival_rows(const struct tb_cu_work *w, const struct tb_cu_access *a,
                        struct tb_cu_rows *rows)
{
    *rows = w->to;
    if (a->flags & TB_CU_ROWS && !w->to.width) { /* the gaps are left behind */
        *rows = w->rows;
        rows->pitch = rows->width;
        rows->slice = rows->width * rows->count;
    }
    return rows->width != 0;
}

static void fingerprint(const struct tb_cu_work *w, const struct tb_cu_access *a, struct tb_fp *fp)
{
    const void *at = (const void *)(uintptr_t)a->twin;
    struct tb_cu_rows r;

    if (!tb_cu_arrival_rows(w, a, &r)) {
        *fp = tb_cu.api->fp_host_pool(at, a->bytes, 0, NULL);
        return;
    }
    const int64_t sizes[] = {(int64_t)r.slices, (int64_t)r.count, (int64_t)r.width};
    const int64_t strides[] = {(int64_t)r.slice, (int64_t)r.pitch, 1};
    const struct tb_fp_layout layout = {.ndim = 3, .elem = 1, .sizes = sizes, .strides = strides};
    *fp = tb_cu.api->fp_strided(at, &layout, NULL);
}

void tb_cu_arrival_hash(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & TB_CU_ARRIVED))
            continue;
        struct tb_fp fp;
        fingerprint(w, a, &fp);
        a->ticket = fp.a;
        a->before = fp.b;
    }
}
