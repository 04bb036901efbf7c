/*
 * deterministic/ddmin - the smallest set of items that passes a test, by delta debugging.
 *
 * Start at tb_ddmin_new(), say with tb_ddmin_need() which items bring others with them, then
 * tb_ddmin_run(). The test is the caller's: it is asked about sets of items, and the answers are
 * kept. That a set passes may be wrong now and then (a job that differs rarely): the caller tests
 * the result again, takes the answer back with tb_ddmin_note() and runs once more, which asks what
 * is new and what has become doubtful. Knows nothing of pins. Threads: one per handle.
 */
#ifndef TB_DETERMINISTIC_DDMIN_H
#define TB_DETERMINISTIC_DDMIN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/common.h"

enum tb_ddmin_answer {
    TB_DDMIN_FAIL, /* the set does not do */
    TB_DDMIN_PASS, /* it does */
    TB_DDMIN_STOP, /* not known, and there shall be no further question */
};

/** tb_ddmin_ask - does this set pass? @in: of each item, is it in; borrowed for the call */
typedef enum tb_ddmin_answer (*tb_ddmin_ask)(const bool *in, void *arg);

struct tb_ddmin;

/**
 * tb_ddmin_new - for @items items, the ones to be kept rather first: where it makes no difference
 * the last are dropped
 * Returns: NULL: no memory. Freed with tb_ddmin_free().
 */
struct tb_ddmin *tb_ddmin_new(size_t items, tb_ddmin_ask ask, void *arg);
void tb_ddmin_free(struct tb_ddmin *d);

/** tb_ddmin_need - every set with @item in it has @need in it, too; need not be called in order */
void tb_ddmin_need(struct tb_ddmin *d, size_t item, size_t need);

/** tb_ddmin_note - the answer about this set is known. FAIL where it had passed: sets that passed
 * and hold it are asked about again */
void tb_ddmin_note(struct tb_ddmin *d, const bool *in, enum tb_ddmin_answer answer);

/**
 * tb_ddmin_run - make @set smaller for as long as it passes
 * @set: of each item, is it in; brings what it needs. Afterwards the smallest set that passed
 *
 * Returns: PASS: @set passes, and no set that is one item smaller does (it and what needs it taken
 * out). FAIL: @set as given does not pass. STOP: the test stopped; @set is the smallest that had
 * passed until then, or as given if none had.
 */
enum tb_ddmin_answer tb_ddmin_run(struct tb_ddmin *d, bool *set);

#endif
