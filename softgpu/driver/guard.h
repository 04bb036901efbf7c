/*
 * softgpu/driver/guard.h - host memory that a queued copy is still to write or read, kept from the
 * host's threads in strict mode.
 *
 * While a copy waits in its queue, the whole pages of its pinned or registered destination cannot
 * be touched, those of its source cannot be written. A thread that does so is stopped by a signal,
 * reported, and goes on. Seen are whole pages of copies without gaps; what lies in part of a page,
 * and what a host touches while the device executes, is not. A system call on such memory fails
 * with EFAULT.
 *
 * All with the engine's lock, but the signal's handler.
 */
#ifndef SG_DRIVER_GUARD_H
#define SG_DRIVER_GUARD_H

#include "softgpu/driver/stream.h"

/** sg_guard_item - a copy has been queued */
void sg_guard_item(struct sg_item *i);
/** sg_guard_release - it runs now, or never will; no guard is legal */
void sg_guard_release(struct sg_item *i);
/** sg_guard_listen - the signal's handler is there; false: it cannot be. Any thread. */
bool sg_guard_listen(void);
/** sg_guard_lift - the device may touch what is guarded: nothing is until sg_guard_restore() */
void sg_guard_lift(void);
void sg_guard_restore(void);

#endif
