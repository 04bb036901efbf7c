/*
 * Seeds that are a text, or several numbers told as one: str(time.time()), [seed, rank]. Each
 * number in it that is the time or the pid, and each date of today, becomes another number; in a
 * replay the whole becomes what it was. Called by python/twinbit/_seeds.py, and by nobody else.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/seeds.h"

/**
 * twinbit_pins_seed_text - what a generator is to be seeded with in place of a text
 * @asked, @n: the text; may hold any bytes
 * @given:     room for @room bytes
 * @where:     line of the job, or NULL; written down with it
 *
 * Returns: bytes in @given; -1: @asked is to stay.
 */
TB_EXPORT long twinbit_pins_seed_text(const void *asked, size_t n, void *given, size_t room,
                                      const char *where);

#define TEXT_MAX 16384u
#define ASKED_KEPT 64u
#define WHERE_KEPT 200u

/* What is built; over: it does not fit, and the text stays. */
struct out {
    char *p;
    size_t n, room;
    bool over;
};

static void put(struct out *o, const char *bytes, size_t n)
{
    o->over = o->over || n > o->room - o->n;
    if (o->over)
        return;
    memcpy(o->p + o->n, bytes, n);
    o->n += n;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number at the begin of @text: its length with what follows a point, its whole part into *x, of
 * which a date is the begin if it is long */
static size_t number(const char *text, size_t n, uint64_t *x)
{
    size_t i = 0;

    *x = 0;
    for (; i < n && is_digit(text[i]); i++)
        if (i < 19)
            *x = *x * 10 + (unsigned)(text[i] - '0');
    if (i + 1 < n && text[i] == '.' && is_digit(text[i + 1]))
        for (i++; i < n && is_digit(text[i]);)
            i++;
    return i;
}

/* Another number, which follows from the run's seed; @at: of those of this text. By 31 bits, as a
 * seed of 32 bits that is the same number has */
static void put_other(const struct tb_pins_call *c, struct out *o, uint64_t x, uint64_t at)
{
    uint64_t seed = tb_pins_other_seed(c, x, x >> 32 ? 64 : 32, at);
    char text[24] = "";

    put(o, text, (size_t)snprintf(text, sizeof(text), "%u", (unsigned)(seed >> 33)));
}

static void rewrite(const struct tb_pins_call *c, const char *text, size_t n, struct out *o)
{
    uint64_t x, others = 0;

    for (size_t i = 0, len; i < n; i += len) {
        len = number(text + i, n - i, &x);
        size_t date = len ? tb_pins_date_in(text + i, n - i) : 0;
        if (date && i + date + 1 < n && text[i + date] == '.' && is_digit(text[i + date + 1]))
            date += 1 + number(text + i + date + 1, n - i - date - 1, &x);
        if (date || (len && tb_pins_is_chance(x, x >> 32 ? 64 : 32))) {
            len = date ? date : len;
            put_other(c, o, x, others++);
        } else {
            len = len ? len : 1;
            put(o, text + i, len);
        }
    }
}

/* In a replay: what it was then. */
static bool recorded(struct tb_pins_call *c, struct out *o)
{
    const struct tb_preload_record *r = tb_pins_recorded(c);
    const char *payload = r ? (const char *)(r + 1) : NULL;
    struct tb_preload_seed_text head;

    if (!r || r->served != TB_SEED_TEXT || r->payload < sizeof(head) ||
        tb_preload_hash(0, payload, r->payload) != r->hash)
        return false;
    memcpy(&head, payload, sizeof(head));
    if (head.given > r->payload - sizeof(head) || head.given > o->room)
        return false;
    put(o, payload + sizeof(head), head.given);
    c->marks |= TB_PRELOAD_FROM_LOG | (r->caller != c->caller ? TB_PRELOAD_OTHER_CALLER : 0);
    return true;
}

/* false: it stays as it is */
static bool choose(struct tb_pins_call *c, const char *asked, size_t n, struct out *o)
{
    if (c->mode == TB_PRELOAD_REPLAY && recorded(c, o))
        return true;
    if (c->mode != TB_PRELOAD_LOG)
        rewrite(c, asked, n, o);
    if (c->mode == TB_PRELOAD_LOG || o->over || (o->n == n && memcmp(o->p, asked, n) == 0)) {
        c->marks |= TB_PRELOAD_REAL;
        return false;
    }
    if (c->mode == TB_PRELOAD_REPLAY)
        c->marks |= TB_PRELOAD_NOT_IN_LOG;
    return true;
}

static void note(struct tb_pins_call *c, const char *asked, size_t n, const char *given,
                 size_t n_given, const char *where)
{
    struct tb_preload_seed_text head = {(uint32_t)n_given,
                                        (uint32_t)(n < ASKED_KEPT ? n : ASKED_KEPT)};
    char value[sizeof(head) + TEXT_MAX + ASKED_KEPT + WHERE_KEPT];
    struct out o = {.p = value, .room = sizeof(value)};

    put(&o, (const char *)&head, sizeof(head));
    put(&o, given, n_given);
    put(&o, asked, head.asked);
    put(&o, where ? where : "", where ? strnlen(where, WHERE_KEPT) : 0);
    tb_pins_note(c, tb_preload_hash(0, asked, n), TB_SEED_TEXT, value, o.n, 0);
}

long twinbit_pins_seed_text(const void *asked, size_t n, void *given, size_t room,
                            const char *where)
{
    struct out o = {.p = given, .room = room < TEXT_MAX ? room : TEXT_MAX};
    struct tb_pins_call c;
    int saved = errno;
    bool other;

    if (n > TEXT_MAX || !tb_pins_begin(&c, TB_PRELOAD_SEED, TB_SEED, TB_HERE))
        return -1;
    other = choose(&c, asked, n, &o);
    note(&c, asked, n, other ? given : asked, other ? o.n : n, where);
    errno = saved;
    return other ? (long)o.n : -1;
}
