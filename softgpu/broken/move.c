/* Copies: damaged by the engine that moves them, or by the line of the cache they were read
 * through.
 */
#include "softgpu/broken/broken_internal.h"

#include <string.h>

static uint64_t total_of(const struct sg_broken_move *m)
{
    return m->width * m->height * m->depth;
}

/* Byte @i of those that were moved, at its destination or source. */
static uint64_t address_of(const struct sg_broken_move *m, uint64_t i, bool dst)
{
    uint64_t x = i % m->width, y = i / m->width % m->height, z = i / m->width / m->height;

    return dst ? m->dst + z * m->dst_slice + y * m->dst_pitch + x
               : m->src + z * m->src_slice + y * m->src_pitch + x;
}

static uint64_t get(const struct sg_broken_move *m, uint64_t i, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned k = 0; k < bytes; k++)
        v |= (uint64_t) * (const uint8_t *)(uintptr_t)address_of(m, i + k, true) << (8 * k);
    return v;
}

static void put(const struct sg_broken_move *m, uint64_t i, unsigned bytes, uint64_t v)
{
    for (unsigned k = 0; k < bytes; k++)
        *(uint8_t *)(uintptr_t)address_of(m, i + k, true) = (uint8_t)(v >> (8 * k));
}

static void note(struct sg_broken *b, const struct sg_injected *f)
{
    const struct sg_spec *s = f->spec < b->specs.n ? &b->specs.s[f->spec] : NULL;

    atomic_fetch_add(&b->count, 1);
    if (b->log != NULL)
        sg_log_fault(b->log, f, NULL, s, NULL);
}

static void damage(struct sg_broken *b, const struct sg_broken_move *m, struct sg_injected f,
                   uint64_t i, unsigned bytes, uint64_t after)
{
    f.at = i;
    f.bits = (uint8_t)(bytes * 8);
    f.before = get(m, i, bytes);
    f.after = after;
    if (f.before == f.after)
        return;
    put(m, i, bytes, after);
    note(b, &f);
}

/* One word of each piece that is hit. */
static void by_engine(struct sg_broken *b, const struct sg_broken_move *m, struct sg_injected f,
                      const struct sg_spec *s)
{
    uint64_t total = total_of(m), h = sg_mix(s->seed ^ sg_mix(f.spec + 1));
    double rate = sg_spec_rate(b, s, b->launches[m->device]);

    h = sg_mix(sg_mix(h ^ m->device) ^ f.number ^ UINT64_C(0xc0) << 56);
    f.what = SG_WHAT_COPY;
    for (uint64_t at = 0; at < total; at += SG_PIECE) {
        uint64_t n = total - at < SG_PIECE ? total - at : SG_PIECE, rng = sg_mix(h ^ at);
        struct sg_shape t = {.mod = SG_M_B32, .parts = 1};
        unsigned bytes = n < 4 ? (unsigned)n : 4;

        if (sg_fraction(rng) >= rate)
            continue;
        uint64_t i = at + sg_draw(&rng) % (n / bytes) * bytes;
        t.width = bytes * 8;
        damage(b, m, f, i, bytes, sg_damage(s, &t, get(m, i, bytes), 0, &rng));
    }
}

/* Each time a row of the source crosses the line. */
static void by_line(struct sg_broken *b, const struct sg_broken_move *m, struct sg_injected f,
                    const struct sg_spec *s)
{
    const uint64_t cache = (uint64_t)SG_LINES * SG_LINE_BYTES;
    double rate = sg_spec_rate(b, s, b->launches[m->device]);

    f.what = SG_WHAT_LINE;
    for (uint64_t row = 0; row < m->height * m->depth; row++) {
        uint64_t first = address_of(m, row * m->width, false) - b->opt.mem->base;
        for (unsigned k = 0; k < s->bit.n; k++)
            for (uint64_t bit = s->bit.r[k].from; bit <= s->bit.r[k].to; bit++) {
                uint64_t want = s->line * SG_LINE_BYTES + bit / 8;
                uint64_t x = (want + cache - first % cache) % cache;
                uint8_t mask = (uint8_t)(1u << bit % 8);
                for (; x < m->width; x += cache) {
                    uint64_t i = row * m->width + x, v = get(m, i, 1);
                    uint64_t h = sg_mix(s->seed ^ sg_mix(f.spec + 1) ^ sg_mix(f.number));
                    if (sg_fraction(sg_mix(h ^ (first + x) / SG_LINE_BYTES)) >= rate)
                        continue;
                    damage(b, m, f, i, 1,
                           s->model == SG_MODEL_STUCK0   ? v & ~(uint64_t)mask
                           : s->model == SG_MODEL_STUCK1 ? v | mask
                                                         : v ^ mask);
                }
            }
    }
}

static void replay(struct sg_broken *b, const struct sg_broken_move *m, struct sg_injected f)
{
    size_t n;
    const struct sg_injected *r = sg_replay_find(&b->replay, &f, &n);

    for (size_t i = 0; r != NULL && i < n; i++) {
        unsigned bytes = r[i].bits / 8;
        if (r[i].what == SG_WHAT_CELL || r[i].at + bytes > total_of(m))
            continue;
        f.what = r[i].what;
        f.spec = r[i].spec;
        damage(b, m, f, r[i].at, bytes, get(m, r[i].at, bytes) ^ r[i].before ^ r[i].after);
    }
}

/* Under the lock. */
static void settle(struct sg_broken *b, uint32_t device, uint64_t number, bool late)
{
    struct sg_injected f = {
        .place = SG_PLACE_COPY, .device = device, .number = number, .late = late};

    sg_cells_settle(b, &f, note);
}

void sg_broken_before(struct sg_broken *b, uint32_t device)
{
    pthread_mutex_lock(&b->lock);
    settle(b, device, b->copies[device] + 1, false);
    pthread_mutex_unlock(&b->lock);
}

static bool through_cache(const struct sg_broken *b, const struct sg_broken_move *m)
{
    return m->way != SG_BROKEN_H2D && m->src >= b->opt.mem->base &&
           m->src - b->opt.mem->base < b->opt.mem->span;
}

static void damage_all(struct sg_broken *b, const struct sg_broken_move *m, struct sg_injected f)
{
    for (unsigned i = 0; i < b->specs.n; i++) {
        const struct sg_spec *s = &b->specs.s[i];

        f.spec = (uint8_t)i;
        if (!sg_in_ranges(&s->device, m->device) ||
            !sg_spec_old_enough(b, s, b->launches[m->device]))
            continue;
        if (s->kind == SG_SPEC_COPY && (s->ways >> m->way & 1))
            by_engine(b, m, f, s);
        if (s->kind == SG_SPEC_LINE && s->launch.n == 0 && through_cache(b, m))
            by_line(b, m, f, s);
    }
}

void sg_broken_copied(struct sg_broken *b, const struct sg_broken_move *m)
{
    struct sg_injected f = {.place = SG_PLACE_COPY, .device = m->device, .way = (uint8_t)m->way};

    pthread_mutex_lock(&b->lock);
    f.number = ++b->copies[m->device];
    if (total_of(m) != 0) {
        if (b->replaying)
            replay(b, m, f);
        else
            damage_all(b, m, f);
    }
    settle(b, m->device, f.number, true);
    if (b->log != NULL)
        sg_log_flush(b->log);
    pthread_mutex_unlock(&b->lock);
}

void sg_broken_after(struct sg_broken *b, uint32_t device)
{
    pthread_mutex_lock(&b->lock);
    settle(b, device, ++b->copies[device], true);
    if (b->log != NULL)
        sg_log_flush(b->log);
    pthread_mutex_unlock(&b->lock);
}
