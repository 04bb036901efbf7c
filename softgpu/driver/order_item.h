/* The queue's side of order.h, for strict mode only: ask sg_strict() before. */
#ifndef SG_DRIVER_ORDER_ITEM_H
#define SG_DRIVER_ORDER_ITEM_H

#include "softgpu/driver/stream.h"

CUresult sg_order_init(struct sg_engine *e);

/* With the lock. */

/** sg_order_behind - an item follows all that has ended in a stream */
void sg_order_behind(struct sg_item *i, const struct CUstream_st *s);
void sg_order_behind_all(struct sg_item *i, const struct CUctx_st *ctx);
/** sg_order_append - an item is appended to a stream: so says the API what it follows */
void sg_order_append(struct sg_item *i, const struct CUstream_st *s);
void sg_order_run(struct sg_engine *e, struct sg_item *i);
/** sg_order_finish - before its followers are made ready */
void sg_order_finish(struct sg_engine *e, struct sg_item *i);
void sg_order_stream_gone(struct CUstream_st *s);
/** sg_order_host_waited - what has ended in a stream is known to have */
void sg_order_host_waited(struct sg_engine *e, const struct CUstream_st *s);
void sg_order_host_waited_ctx(struct sg_engine *e, const struct CUctx_st *ctx);

/* Without the lock, by the thread that executes an item. */

/** sg_order_touch - the item touches bytes */
void sg_order_touch(uint64_t addr, uint64_t n, enum sg_access_kind kind);
/** sg_order_touched - the same for all that a launch has touched; but not for what a kernel of
 * SOFTGPU_TOOL_KERNELS (@tools) has read */
void sg_order_touched(struct sg_touch *t, bool tools);
/** sg_order_freed - memory is gone; any thread */
void sg_order_freed(uint64_t addr, uint64_t n);

#endif
