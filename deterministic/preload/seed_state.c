/*
 * Generators of libc whose state is the caller's: rand_r(), erand48() and their kin have no call
 * that seeds. A state that is not what this thread left there is a seed. The table is small and of
 * the thread; a place that it has lost is looked at as a seed again, and where that goes on without
 * end no more is looked at.
 */
#include <stdlib.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/seeds.h"

#define STATES 64u
#define SEEDS_MAX 4096u

struct states {
    struct {
        const void *at;
        uint64_t last;
    } slot[STATES];
    uint32_t seeds;
};

static _Thread_local struct states states;

static unsigned slot_of(const void *at)
{
    return (unsigned)(tb_preload_mix64((uintptr_t)at >> 1) % STATES);
}

static bool is_seed(const void *at, uint64_t state)
{
    unsigned i = slot_of(at);

    if (states.slot[i].at == at && states.slot[i].last == state)
        return false;
    return states.seeds < SEEDS_MAX && ++states.seeds;
}

static void leave(const void *at, uint64_t state)
{
    unsigned i = slot_of(at);

    states.slot[i].at = at;
    states.slot[i].last = state;
}

static uint64_t word48(const unsigned short x[3])
{
    return x[0] | (uint64_t)x[1] << 16 | (uint64_t)x[2] << 32;
}

static void enter48(unsigned short x[3], const void *pc)
{
    if (is_seed(x, word48(x)))
        tb_pins_seed_48(x, x, pc);
}

TB_EXPORT int rand_r(unsigned *seed)
{
    if (is_seed(seed, *seed))
        *seed = (unsigned)tb_pins_seed(*seed, 32, NULL, TB_HERE);
    int r = TB_NEXT(rand_r)(seed);
    leave(seed, *seed);
    return r;
}

TB_EXPORT double erand48(unsigned short x[3])
{
    enter48(x, TB_HERE);
    double r = TB_NEXT(erand48)(x);
    leave(x, word48(x));
    return r;
}

TB_EXPORT long nrand48(unsigned short x[3])
{
    enter48(x, TB_HERE);
    long r = TB_NEXT(nrand48)(x);
    leave(x, word48(x));
    return r;
}

TB_EXPORT long jrand48(unsigned short x[3])
{
    enter48(x, TB_HERE);
    long r = TB_NEXT(jrand48)(x);
    leave(x, word48(x));
    return r;
}
