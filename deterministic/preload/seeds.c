/*
 * Seeds that a job takes from the clock or from its pid: srand(time(NULL)) and its kin. The clock
 * is never changed, for that hangs and breaks jobs; the seed is, where it becomes one. Python's own
 * generators come here, too (python/twinbit/_pins.py calls twinbit_pins_seed()).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

/**
 * twinbit_pins_seed - what a generator is to be seeded with
 * @asked:    what the job asked for
 * @bits:     32 or 64: how wide the seed is; 0: it is a double, by its bits
 * @where:    line of the job, or NULL; written down with it
 * @replaced: 1 if the result is not @asked by will
 *
 * Returns: the seed: @asked where nothing is pinned.
 */
TB_EXPORT uint64_t twinbit_pins_seed(uint64_t asked, unsigned bits, const char *where,
                                     int *replaced);

/** twinbit_pins_seeds - are seeds looked at? enum tb_preload_mode */
TB_EXPORT int twinbit_pins_seeds(void);

#define DAY 86400u
#define A_DOUBLE 0u /* in place of the bits: an IEEE double, as random.seed(time.time()) has it */

static uint64_t cut(uint64_t x, unsigned bits)
{
    return bits > 0 && bits < 64 ? x & ((1ull << bits) - 1) : x;
}

/* A whole time of the last day, or of two seconds to come; @unit: parts of a second that it counts
 */
static bool is_whole(uint64_t x, uint64_t now, uint64_t unit)
{
    uint64_t at = now / (1000000000u / unit);

    return x - (at - DAY * unit) <= (DAY + 2) * unit;
}

/* The low 32 bits of a moment ago. As a fixed seed may be any number, the window is so narrow that
 * one falls into it in one of 200,000 runs, and small ones never do. */
static bool is_low(uint64_t x, uint64_t now, uint64_t unit, uint64_t window)
{
    uint64_t at = now / (1000000000u / unit);

    return x >= 1u << 20 && x <= UINT32_MAX && cut(at - x, 32) <= window;
}

static bool is_time(uint64_t x, unsigned bits, uint64_t now)
{
    bool wide = bits > 32 && (is_whole(x, now, 1000) || is_whole(x, now, 1000000) ||
                              is_whole(x, now, 1000000000));

    return wide || is_whole(x, now, 1) || is_low(x, now, 1000, 1000) ||
           is_low(x, now, 1000000, 20000);
}

static bool is_double_time(uint64_t asked, uint64_t now)
{
    double x;

    memcpy(&x, &asked, sizeof(x));
    if (!(x > 1e8 && x < 1e18))
        return false;
    return is_whole((uint64_t)x, now, 1) || is_whole((uint64_t)x, now, 1000) ||
           is_whole((uint64_t)x, now, 1000000);
}

/* From the clock, from the pid, or from both by one of the usual ways */
static bool is_chance(uint64_t x, unsigned bits)
{
    struct timespec t;
    uint64_t pid = (uint64_t)tb_sys3(SYS_getpid, 0, 0, 0);

    if (TB_NEXT(clock_gettime)(CLOCK_REALTIME, &t) != 0)
        return false;
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (bits == A_DOUBLE)
        return is_double_time(x, now);
    return (pid >= 1000 && x == pid) || is_time(x, bits, now) || is_whole(x ^ pid, now, 1) ||
           is_whole(x - pid, now, 1) || is_whole(x + pid, now, 1);
}

/* In a replay: what it was then. */
static bool recorded(struct tb_pins_call *c, uint64_t *seed, unsigned bits)
{
    const struct tb_preload_record *r = tb_pins_recorded(c);

    if (!r || r->payload < sizeof(*seed) || r->served != bits ||
        tb_preload_hash(0, r + 1, r->payload) != r->hash)
        return false;
    memcpy(seed, r + 1, sizeof(*seed));
    c->marks |= TB_PRELOAD_FROM_LOG | (r->caller != c->caller ? TB_PRELOAD_OTHER_CALLER : 0);
    return true;
}

static uint64_t choose(struct tb_pins_call *c, uint64_t asked, unsigned bits)
{
    uint64_t seed = asked;

    if (c->mode == TB_PRELOAD_REPLAY && recorded(c, &seed, bits))
        return seed;
    bool chance = is_chance(asked, bits);
    if (c->mode == TB_PRELOAD_LOG || !chance) {
        c->marks |= TB_PRELOAD_REAL;
        return asked;
    }
    if (c->mode == TB_PRELOAD_REPLAY)
        c->marks |= TB_PRELOAD_NOT_IN_LOG;
    tb_pins_fill(c, &seed, sizeof(seed), 0);
    seed = bits == A_DOUBLE ? seed >> 12 : cut(seed, bits) >> 1; /* positive in signed types, too */
    if (bits == A_DOUBLE) {
        double x = (double)seed;
        memcpy(&seed, &x, sizeof(seed));
    }
    return seed;
}

/* The seed, and behind it the line that asked */
static void note(struct tb_pins_call *c, uint64_t asked, uint64_t seed, unsigned bits,
                 const char *where)
{
    char value[sizeof(seed) + 200];
    size_t n = where ? strnlen(where, sizeof(value) - sizeof(seed)) : 0;

    memcpy(value, &seed, sizeof(seed));
    memcpy(value + sizeof(seed), where ? where : "", n);
    tb_pins_note(c, asked, bits, value, sizeof(seed) + n, 0);
}

static uint64_t decide(uint64_t asked, unsigned bits, const char *where, const void *pc)
{
    struct tb_pins_call c;
    uint64_t seed = asked;
    int saved = errno;

    if (tb_pins_begin(&c, TB_PRELOAD_SEED, TB_SEED, pc)) {
        seed = choose(&c, asked, bits);
        note(&c, asked, seed, bits, where);
    }
    errno = saved;
    return seed;
}

uint64_t twinbit_pins_seed(uint64_t asked, unsigned bits, const char *where, int *replaced)
{
    uint64_t seed = decide(asked, bits, where, TB_HERE);

    *replaced = seed != asked;
    return seed;
}

int twinbit_pins_seeds(void)
{
    return tb_pins_self() ? (int)tb_pins.config->seeds : TB_PRELOAD_OFF;
}

TB_EXPORT void srand(unsigned seed)
{
    TB_NEXT(srand)((unsigned)decide(seed, 32, NULL, TB_HERE));
}

TB_EXPORT void srandom(unsigned seed)
{
    TB_NEXT(srandom)((unsigned)decide(seed, 32, NULL, TB_HERE));
}

TB_EXPORT void srand48(long seed)
{
    TB_NEXT(srand48)((long)decide((uint64_t)seed, 64, NULL, TB_HERE));
}

TB_EXPORT int srandom_r(unsigned seed, struct random_data *buf)
{
    return TB_NEXT(srandom_r)((unsigned)decide(seed, 32, NULL, TB_HERE), buf);
}

TB_EXPORT int srand48_r(long seed, struct drand48_data *buf)
{
    return TB_NEXT(srand48_r)((long)decide((uint64_t)seed, 64, NULL, TB_HERE), buf);
}

TB_EXPORT char *initstate(unsigned seed, char *state, size_t n)
{
    return TB_NEXT(initstate)((unsigned)decide(seed, 32, NULL, TB_HERE), state, n);
}
