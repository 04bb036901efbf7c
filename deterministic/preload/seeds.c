/*
 * Seeds that a job takes from the clock or from its pid: srand(time(NULL)) and its kin. The clock
 * is never changed, for that hangs and breaks jobs; the seed is, where it becomes one. Python's own
 * generators come here, too (python/twinbit/_pins.py calls twinbit_pins_seed()).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/seeds.h"

/**
 * twinbit_pins_seed - what a generator is to be seeded with
 * @asked:    what the job asked for
 * @bits:     32, 48 or 64: how wide the seed is; 0: it is a double, by its bits
 * @where:    line of the job, or NULL; written down with it
 * @replaced: 1 if the result is not @asked by will
 *
 * Returns: the seed: @asked where nothing is pinned.
 */
TB_EXPORT uint64_t twinbit_pins_seed(uint64_t asked, unsigned bits, const char *where,
                                     int *replaced);

/** twinbit_pins_seeds - are seeds looked at? enum tb_preload_mode */
TB_EXPORT int twinbit_pins_seeds(void);

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
    bool chance = tb_pins_is_chance(asked, bits);
    if (c->mode == TB_PRELOAD_LOG || !chance) {
        c->marks |= TB_PRELOAD_REAL;
        return asked;
    }
    if (c->mode == TB_PRELOAD_REPLAY)
        c->marks |= TB_PRELOAD_NOT_IN_LOG;
    seed = tb_pins_other_seed(c, asked, bits, 0);
    seed >>= bits == TB_SEED_DOUBLE ? 12 : 65 - bits; /* positive in signed types, too */
    if (bits == TB_SEED_DOUBLE) {
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

uint64_t tb_pins_seed(uint64_t asked, unsigned bits, const char *where, const void *pc)
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
    uint64_t seed = tb_pins_seed(asked, bits, where, TB_HERE);

    *replaced = seed != asked;
    return seed;
}

int twinbit_pins_seeds(void)
{
    return tb_pins_self() ? (int)tb_pins.config->seeds : TB_PRELOAD_OFF;
}

static uint32_t decide32(uint32_t seed, const void *pc)
{
    return (uint32_t)tb_pins_seed(seed, 32, NULL, pc);
}

void tb_pins_seed_48(unsigned short to[3], const unsigned short from[3], const void *pc)
{
    uint64_t seed = from[0] | (uint64_t)from[1] << 16 | (uint64_t)from[2] << 32;

    seed = tb_pins_seed(seed, TB_SEED_48, NULL, pc);
    for (int i = 0; i < 3; i++)
        to[i] = (unsigned short)(seed >> 16 * i);
}

TB_EXPORT void srand(unsigned seed)
{
    TB_NEXT(srand)(decide32(seed, TB_HERE));
}

TB_EXPORT void srandom(unsigned seed)
{
    TB_NEXT(srandom)(decide32(seed, TB_HERE));
}

TB_EXPORT int srandom_r(unsigned seed, struct random_data *buf)
{
    return TB_NEXT(srandom_r)(decide32(seed, TB_HERE), buf);
}

TB_EXPORT char *initstate(unsigned seed, char *state, size_t n)
{
    return TB_NEXT(initstate)(decide32(seed, TB_HERE), state, n);
}

TB_EXPORT int initstate_r(unsigned seed, char *state, size_t n, struct random_data *buf)
{
    return TB_NEXT(initstate_r)(decide32(seed, TB_HERE), state, n, buf);
}

TB_EXPORT void srand48(long seed)
{
    TB_NEXT(srand48)((long)tb_pins_seed((uint64_t)seed, 64, NULL, TB_HERE));
}

TB_EXPORT int srand48_r(long seed, struct drand48_data *buf)
{
    return TB_NEXT(srand48_r)((long)tb_pins_seed((uint64_t)seed, 64, NULL, TB_HERE), buf);
}

TB_EXPORT unsigned short *seed48(unsigned short x[3])
{
    unsigned short given[3], *before;

    tb_pins_seed_48(given, x, TB_HERE);
    before = TB_NEXT(seed48)(given);
    return before;
}

TB_EXPORT int seed48_r(unsigned short x[3], struct drand48_data *buf)
{
    unsigned short given[3];

    tb_pins_seed_48(given, x, TB_HERE);
    return TB_NEXT(seed48_r)(given, buf);
}

/* The words behind the first three are constants of the generator. */
TB_EXPORT void lcong48(unsigned short param[7])
{
    unsigned short given[7];

    memcpy(given, param, sizeof(given));
    tb_pins_seed_48(given, param, TB_HERE);
    TB_NEXT(lcong48)(given);
}

TB_EXPORT int lcong48_r(unsigned short param[7], struct drand48_data *buf)
{
    unsigned short given[7];

    memcpy(given, param, sizeof(given));
    tb_pins_seed_48(given, param, TB_HERE);
    return TB_NEXT(lcong48_r)(given, buf);
}
