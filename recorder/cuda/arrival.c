/*
 * What a copy brings to the host is hashed on the device before it leaves. Where it has arrived
 * when the call is over, the host does that, if there is little of it. And what another stream may
 * write meanwhile is hashed where it arrives: it might be written between a hash and the copy.
 */
#include "recorder/cuda/engine.h"

#define FEW_BYTES 16384u /* the host has hashed them before a kernel would begin to */

static bool is_pinned(uint64_t address)
{
    const struct tb_cu_alloc *a = tb_cu_alloc_at(address);

    return a && a->kind == TB_CU_HOST;
}

void tb_cu_arrival_plan(struct tb_cu_work *w, uint64_t dst, uint64_t src, bool home, bool waits)
{
    if (!w->leaves || (!waits && tb_cu.stream_indices == 1)) /* nobody else writes anything */
        return;
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (a->mode != 'r' || !(a->flags & TB_CU_BEFORE) || a->rate)
            continue;
        bool few = waits && a->bytes <= FEW_BYTES, met = tb_cu_unordered(w, a);
        if (w->waited && (few || met) && (home || is_pinned(dst)))
            a->flags = TB_CU_ARRIVED;
        else if (met && !w->waited && is_pinned(dst))
            a->flags = TB_CU_HASH; /* behind the copy, and of its twin */
        if (!(a->flags & TB_CU_BEFORE))
            a->twin = dst + (a->alloc->base + a->offset - src);
    }
}

void tb_cu_arrival_hash(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & TB_CU_ARRIVED))
            continue;
        struct tb_fp fp =
            tb_cu.api->fp_host_pool((const void *)(uintptr_t)a->twin, a->bytes, 0, NULL);
        a->ticket = fp.a;
        a->before = fp.b;
    }
}
