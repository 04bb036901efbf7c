/*
 * softgpu/mem/touch.h - which bytes a launch has read, written or changed by atomics: what a strict
 * device compares between launches that nothing orders.
 *
 * Start at sg_touch_mark(), which is called for each access; then sg_touch_each() tells the ranges.
 * One thread at a time: each worker has its own and adds it to the launch's by sg_touch_merge().
 */
#ifndef SG_MEM_TOUCH_H
#define SG_MEM_TOUCH_H

#include "common/common.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sg_touch_kind { SG_TOUCH_READ, SG_TOUCH_WRITE, SG_TOUCH_ATOMIC, SG_TOUCH_KINDS };

struct sg_touch;

TB_MUST_CHECK enum tb_status sg_touch_new(struct sg_touch **out, struct tb_error *err);
void sg_touch_free(struct sg_touch *t); /* NULL is legal */
void sg_touch_clear(struct sg_touch *t);

/** sg_touch_mark - the @n bytes at @addr were accessed; what finds no memory is forgotten, and
 * sg_touch_lost() says so */
void sg_touch_mark(struct sg_touch *t, uint64_t addr, uint64_t n, enum sg_touch_kind kind);
/** sg_touch_merge - add all that @from has */
void sg_touch_merge(struct sg_touch *into, const struct sg_touch *from);
bool sg_touch_lost(const struct sg_touch *t);

/** sg_touch_fn - false: enough */
typedef bool sg_touch_fn(void *arg, uint64_t addr, uint64_t n, enum sg_touch_kind kind);
/** sg_touch_each - the ranges of each kind, by kind, then ascending and as long as they can be */
void sg_touch_each(struct sg_touch *t, sg_touch_fn *fn, void *arg);

#endif
