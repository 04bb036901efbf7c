/* The queue's side of trace.h: which items are to be reported, and their report. */
#ifndef SG_DRIVER_TRACE_ITEM_H
#define SG_DRIVER_TRACE_ITEM_H

#include "softgpu/driver/stream.h"
#include "softgpu/driver/trace.h"

extern atomic_bool sg_trace_active;
#define SG_TRACED __builtin_expect(atomic_load_explicit(&sg_trace_active, memory_order_relaxed), 0)

/* What seam.h exports; without the lock. */

void sg_trace_set(const struct softgpu_trace_hooks *hooks);
bool sg_trace_event_ids(CUevent event, struct softgpu_recorded *out);
bool sg_trace_place(CUstream stream, bool per_thread, struct softgpu_place *out);

/* With the lock, while the item is made. */

/** sg_trace_submit - ask who listens about a new item with work */
void sg_trace_submit(struct sg_item *i);
void sg_trace_node(struct sg_item *i, const struct CUgraphExec_st *x, uint64_t node);
void sg_trace_event(struct sg_item *i, const struct CUevent_st *ev);
/** sg_trace_graph - @first and @last enclose a launch of @x */
void sg_trace_graph(struct sg_item *first, struct sg_item *last, struct CUgraphExec_st *x);

/* Without the lock, around the execution of an item whose trace has a kind. */

void sg_trace_begin(struct sg_item *i, struct softgpu_trace_work *t);
void sg_trace_end(const struct sg_item *i, struct softgpu_trace_work *t, CUresult result);
/** sg_trace_point - an item without work of its own was reached */
void sg_trace_point(struct sg_item *i);

#endif
