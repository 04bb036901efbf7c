/*
 * One call: who makes it, what is to be done with it, the bytes of its stream, what is written
 * down. Each call has a stream of its own, made of seed, process, thread, class and number, so that
 * a call that asks for more or less changes none of the others.
 */
#include <string.h>

#include "deterministic/preload/pins_internal.h"

static uint32_t mode_of(enum tb_pins_class class)
{
    const struct tb_preload_config *c = tb_pins.config;

    return class == TB_LISTING    ? c->listing
           : class == TB_TEMPNAME ? c->tempnames
           : class == TB_SEED     ? c->seeds
                                  : c->entropy;
}

bool tb_pins_begin(struct tb_pins_call *c, uint16_t kind, enum tb_pins_class class, const void *pc)
{
    struct tb_pins_proc *p = tb_pins_self();

    if (!p)
        return false;
    *c = (struct tb_pins_call){.p = p, .kind = kind, .class = class, .mode = mode_of(class)};
    if (c->mode == TB_PRELOAD_OFF)
        return false;
    struct tb_pins_site s = tb_pins_site(p, pc);
    if (s.flags & TB_SITE_OURS)
        return false;
    c->site = s.number;
    c->caller = s.caller;
    if (class == TB_ENTROPY && (s.flags & TB_SITE_REAL) &&
        !(tb_pins.config->flags & TB_PRELOAD_ALL_CALLERS)) {
        c->class = TB_EXEMPT;
        c->marks = TB_PRELOAD_EXEMPT | TB_PRELOAD_REAL;
    }
    if (tb_unlikely(!tb_pins_tls.told))
        tb_pins_thread(p);
    c->n = __atomic_fetch_add(&tb_pins_tls.seq[c->class], 1, __ATOMIC_RELAXED);
    return true;
}

void tb_pins_fill(const struct tb_pins_call *c, void *bytes, size_t n, uint64_t from)
{
    uint64_t stream = tb_preload_mix(tb_preload_mix(tb_pins.config->seed, c->p->id),
                                     tb_pins_tls.thread ^ ((uint64_t)c->class << 56));
    uint64_t a = tb_preload_mix(stream, c->n), b = tb_preload_mix(a, stream);
    char *out = bytes;

    for (uint64_t i = from / 8; n > 0; i++) {
        uint64_t word = tb_preload_mix64(tb_preload_mix64(a + i * 0x9E3779B97F4A7C15ull) ^ b);
        size_t part = n < 8 ? n : 8;
        memcpy(out, &word, part);
        out += part;
        n -= part;
    }
}

static bool is_it(const struct tb_pins_call *c, const struct tb_preload_record *r)
{
    enum tb_pins_class class = r->kind == TB_PRELOAD_LISTING    ? TB_LISTING
                               : r->kind == TB_PRELOAD_TEMPNAME ? TB_TEMPNAME
                               : r->kind == TB_PRELOAD_SEED     ? TB_SEED
                                                                : TB_ENTROPY;

    return r->kind >= TB_PRELOAD_GETRANDOM && r->kind != TB_PRELOAD_TIME &&
           !tb_preload_is_decision(r->kind) && class == c->class &&
           r->thread == tb_pins_tls.thread && !(r->marks & TB_PRELOAD_EXEMPT);
}

/* What std::random_device drew from libc was written down as that where it was passed on. */
static bool as_kind(const struct tb_pins_call *c, const struct tb_preload_record *r)
{
    return r->kind == c->kind || (c->kind == TB_PRELOAD_RANDOM_DEVICE && r->asked == 4);
}

/* The records of a thread lie in its order; each class is followed by a cursor of its own. */
const struct tb_preload_record *tb_pins_recorded(struct tb_pins_call *c)
{
    const struct tb_preload_record *r = NULL;
    uint64_t *cursor = &tb_pins_tls.cursor[c->class];
    uint64_t at = *cursor ? *cursor : TB_PRELOAD_LOG_START;

    if (!c->p->replay)
        return NULL;
    while ((r = tb_preload_next(c->p->replay, c->p->replay_size, &at)) != NULL) {
        if (!is_it(c, r) || r->n < c->n)
            continue;
        if (r->n == c->n)
            *cursor = at;
        return r->n == c->n && as_kind(c, r) ? r : NULL;
    }
    *cursor = at;
    return NULL;
}

void tb_pins_note(struct tb_pins_call *c, uint64_t asked, uint64_t served, const void *bytes,
                  size_t n, uint64_t hash)
{
    bool cut = n > tb_pins.config->value_limit && c->class == TB_ENTROPY;
    bool keep = bytes && !cut && !(c->marks & TB_PRELOAD_EXEMPT);
    struct tb_preload_record *r;
    uint64_t offset;

    r = tb_pins_log_room(c->p, keep ? (uint32_t)n : 0, &offset);
    if (!r)
        return;
    r->kind = c->kind;
    r->marks = (uint16_t)(c->marks | tb_pins_tls.marks | (cut ? TB_PRELOAD_CUT : 0));
    r->site = c->site;
    r->thread = tb_pins_tls.thread;
    r->n = c->n;
    r->asked = asked;
    r->served = served;
    r->hash = hash;
    r->caller = c->caller;
    if (bytes && !hash && !(c->marks & TB_PRELOAD_EXEMPT))
        r->hash = tb_preload_hash(0, bytes, n);
    r->payload = keep ? (uint32_t)n : 0;
    if (keep)
        memcpy(r + 1, bytes, n);
    tb_pins_log_whole(r, offset);
}

void tb_pins_note_real(struct tb_pins_call *c, uint64_t asked, int64_t result, const void *bytes)
{
    c->marks |= TB_PRELOAD_REAL | (result < 0 ? TB_PRELOAD_FAILED : 0);
    tb_pins_note(c, asked, result < 0 ? 0 : (uint64_t)result, result < 0 ? NULL : bytes,
                 result < 0 ? 0 : (size_t)result, 0);
}

/* Recorded, whole and of the size that is asked for now? */
static bool from_log(struct tb_pins_call *c, void *bytes, size_t n)
{
    const struct tb_preload_record *r = tb_pins_recorded(c);

    if (!r || r->asked != n || r->payload != n || (r->marks & TB_PRELOAD_FAILED) ||
        tb_preload_hash(0, r + 1, n) != r->hash)
        return false;
    memcpy(bytes, r + 1, n);
    c->marks |= TB_PRELOAD_FROM_LOG;
    if (r->caller != c->caller && r->kind == c->kind)
        c->marks |= TB_PRELOAD_OTHER_CALLER;
    return true;
}

void tb_pins_serve(struct tb_pins_call *c, void *bytes, size_t n)
{
    if (c->mode != TB_PRELOAD_REPLAY || !from_log(c, bytes, n)) {
        tb_pins_fill(c, bytes, n, 0);
        if (c->mode == TB_PRELOAD_REPLAY)
            c->marks |= TB_PRELOAD_NOT_IN_LOG;
    }
    tb_pins_note(c, n, n, bytes, n, 0);
}
