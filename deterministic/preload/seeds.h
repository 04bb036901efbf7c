/*
 * preload/seeds - seeds that a job gives to generators, and what is taken for the time or the pid.
 *
 * Start at tb_pins_seed(), and tb_pins_is_chance() behind it. State: the last readings of the
 * thread (struct tb_pins_readings), and in seed_state.c where generators whose state is the
 * caller's stand.
 */
#ifndef TB_DETERMINISTIC_PRELOAD_SEEDS_H
#define TB_DETERMINISTIC_PRELOAD_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deterministic/preload/pins_internal.h"

/* Widths of a seed in bits; stored in records (TB_PRELOAD_SEED): never reuse one. */
#define TB_SEED_DOUBLE 0u /* an IEEE double, as random.seed(time.time()) has it */
#define TB_SEED_TEXT 1u   /* a text or several numbers: struct tb_preload_seed_text (log.h) */
#define TB_SEED_48 48u    /* three words of 16 bits, the low one first */

/**
 * tb_pins_seed - what a generator is to be seeded with; writes it down
 * @asked: what the job asked for, of @bits bits
 * @where: line of the job, or NULL
 * @pc:    who calls
 *
 * Returns: @asked where nothing is pinned. Keeps errno.
 */
uint64_t tb_pins_seed(uint64_t asked, unsigned bits, const char *where, const void *pc);

/** tb_pins_seed_48 - the same for the three words of drand48() and its kin */
void tb_pins_seed_48(unsigned short to[3], const unsigned short from[3], const void *pc);

/** tb_pins_saw_clock - the thread has read the time of day; @ns: since 1970 */
void tb_pins_saw_clock(uint64_t ns);

/** tb_pins_saw_pid - the thread has asked for its pid */
void tb_pins_saw_pid(void);

/** tb_pins_is_chance - is a seed @x of @bits bits the clock, the pid, or both mixed in a usual way?
 */
bool tb_pins_is_chance(uint64_t x, unsigned bits);

/** tb_pins_is_own_reading - is it more than seconds, and of the last readings of this very thread?
 */
bool tb_pins_is_own_reading(uint64_t x, unsigned bits);

/**
 * tb_pins_other_seed - what stands in place of a seed @x that is chance, by its low 31 bits or more
 * @at: of the numbers of this call
 *
 * The same for the same @x in this process, and in those that it forks afterwards: what is equal in
 * the job stays equal.
 */
uint64_t tb_pins_other_seed(const struct tb_pins_call *c, uint64_t x, unsigned bits, uint64_t at);

/** tb_pins_date_in - bytes of the date and time of today that a text begins with; 0: none */
size_t tb_pins_date_in(const char *text, size_t n);

#endif
