/* Cells of memory that are stuck, or flip once. A stuck one is made what it is before anybody reads
 * it: when a launch, copy or set begins and ends, and behind each instruction that has stored to
 * it. */
#include "softgpu/broken/broken_internal.h"

#include <string.h>

/* Where a cell lies; false: nowhere yet, or its memory is gone. */
static bool find(struct sg_broken *b, const struct sg_spec *s, struct sg_cell *c, uint32_t device)
{
    uint64_t addr = 0, size = 0;
    uint8_t bits = (uint8_t)(1u << device);

    if (c->addr == 0 && s->alloc == 0)
        c->addr = s->addr;
    if (c->addr == 0 && b->opt.allocation != NULL &&
        b->opt.allocation(b->opt.arg, s->alloc, &addr, &size) && s->addr < size)
        c->addr = addr + s->addr;
    return c->addr >= b->opt.mem->base && c->addr - b->opt.mem->base < b->opt.mem->span &&
           sg_mem_ok(b->opt.mem, c->addr, 1, bits, false);
}

static void change(struct sg_broken *b, const struct sg_injected *place, unsigned spec,
                   uint64_t addr, uint8_t flip, sg_note *note)
{
    struct sg_injected f = *place;
    uint8_t *p = (uint8_t *)(uintptr_t)addr;

    f.what = SG_WHAT_CELL;
    f.spec = (uint8_t)spec;
    f.bits = 8;
    f.at = addr - b->opt.mem->base;
    f.before = __atomic_fetch_xor(p, flip, __ATOMIC_RELAXED);
    f.after = f.before ^ flip;
    note(b, &f);
}

static void settle_logged(struct sg_broken *b, const struct sg_injected *place, sg_note *note)
{
    size_t n;
    const struct sg_injected *f = sg_replay_find(&b->replay, place, &n);

    for (size_t i = 0; f != NULL && i < n; i++) {
        uint64_t addr = b->opt.mem->base + f[i].at;
        if (f[i].what == SG_WHAT_CELL && f[i].late == place->late &&
            sg_mem_ok(b->opt.mem, addr, 1, (uint8_t)(1u << place->device), false))
            change(b, place, f[i].spec, addr, (uint8_t)(f[i].before ^ f[i].after), note);
    }
}

void sg_cells_settle(struct sg_broken *b, const struct sg_injected *place, sg_note *note)
{
    if (b->replaying) {
        settle_logged(b, place, note);
        return;
    }
    for (unsigned i = 0; i < b->specs.n; i++) {
        const struct sg_spec *s = &b->specs.s[i];
        struct sg_cell *c = &b->cells[i];
        uint8_t bits = 0, now, want;

        if (s->kind != SG_SPEC_CELL || c->done || !sg_in_ranges(&s->device, place->device) ||
            !sg_spec_old_enough(b, s, b->launches[place->device]) || !find(b, s, c, place->device))
            continue;
        for (unsigned k = 0; k < 8; k++)
            bits |= (uint8_t)((unsigned)sg_in_ranges(&s->bit, k) << k);
        now = __atomic_load_n((const uint8_t *)(uintptr_t)c->addr, __ATOMIC_RELAXED);
        want = s->model == SG_MODEL_STUCK0   ? (uint8_t)(now & ~bits)
               : s->model == SG_MODEL_STUCK1 ? (uint8_t)(now | bits)
                                             : (uint8_t)(now ^ bits);
        c->done = s->model == SG_MODEL_FLIP;
        if (want != now)
            change(b, place, i, c->addr, (uint8_t)(now ^ want), note);
    }
}

/* Cells that have to be looked after while a launch runs. */
bool sg_cells_any(const struct sg_broken *b, uint32_t device)
{
    for (unsigned i = 0; i < b->specs.n; i++) {
        const struct sg_spec *s = &b->specs.s[i];
        if (s->kind == SG_SPEC_CELL && s->model != SG_MODEL_FLIP &&
            sg_in_ranges(&s->device, device) && sg_spec_old_enough(b, s, b->launches[device]))
            return true;
    }
    return false;
}
