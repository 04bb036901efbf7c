/*
 * softgpu/driver/order.h - which work nothing orders: happens-before between works, and the last
 * accesses of each byte.
 *
 * A clock says of each chain of works how far it is known. The queue joins clocks along every edge
 * that the API promises: a stream's order, events, the legacy stream, what the host has waited for.
 * sg_order_begin() puts a work that is about to run on a chain whose last work its clock knows, a
 * new one if there is none; then sg_order_access() compares what it touches with what others did.
 * Two works are ordered if the clock of the later knows the earlier; works run in an order that the
 * edges allow, so it is enough to ask the second.
 * Calls of different host threads count as ordered: what orders them is not seen.
 *
 * Threads: clocks are their owner's (the engine's lock); a struct sg_order is locked by itself.
 */
#ifndef SG_DRIVER_ORDER_H
#define SG_DRIVER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_clock { /* zero: knows nothing */
    uint32_t n, *ticks;
};

/** sg_clock_join - @c knows what @from knows. Without memory it stays as it is: then works may seem
 * unordered that are not. */
void sg_clock_join(struct sg_clock *c, const struct sg_clock *from);
void sg_clock_release(struct sg_clock *c);

struct sg_epoch { /* one work; tick 0: none */
    uint32_t chain, tick;
};

bool sg_clock_knows(const struct sg_clock *c, struct sg_epoch e);

enum sg_access_kind { SG_ACCESS_READ, SG_ACCESS_WRITE, SG_ACCESS_ATOMIC };

struct sg_order;

struct sg_order *sg_order_new(void); /* NULL: no memory */
void sg_order_free(struct sg_order *o);

/**
 * sg_order_begin - a work runs now
 * @c:    what comes before it; knows the work itself afterwards
 * @hint: a chain to try first, such as that of its stream; receives the one it is on
 * @tag:  borrowed bytes that say which work it is, @size of them, copied; given to the function
 *        below for as long as its accesses are remembered
 */
struct sg_epoch sg_order_begin(struct sg_order *o, struct sg_clock *c, uint32_t *hint,
                               const void *tag, size_t size);

/** sg_conflict_fn - @tag: of the earlier work, which did @kind to the @n bytes at @addr */
typedef void sg_conflict_fn(void *arg, const void *tag, enum sg_access_kind kind, uint64_t addr,
                            uint64_t n);

/** sg_order_access - the work @e, whose clock is @c, touches bytes; @fn is told once of each
 * earlier work that nothing orders before it, for the first bytes they share. Atomics among
 * themselves are no conflict. @fn must not call the order. */
void sg_order_access(struct sg_order *o, struct sg_epoch e, const struct sg_clock *c, uint64_t addr,
                     uint64_t n, enum sg_access_kind kind, sg_conflict_fn *fn, void *arg);
/** sg_order_forget - the bytes are gone; others that come there later are none of theirs */
void sg_order_forget(struct sg_order *o, uint64_t addr, uint64_t n);
/** sg_order_all - @c knows every work that has begun */
void sg_order_all(struct sg_order *o, struct sg_clock *c);

#endif
