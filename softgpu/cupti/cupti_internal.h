/*
 * softgpu/cupti - a stand-in for libcupti.so.13: the callback and the activity API on softgpu's
 * driver and runtime, which it meets at softgpu/driver/seam.h.
 *
 * Every function of CUPTI's headers is exported by a generated function that calls sg_<name>() if
 * some file here defines it, and otherwise answers CUPTI_ERROR_NOT_SUPPORTED with one log line.
 *
 * Start at attach.c (the one state, correlation ids, who listens), then callback.c (the
 * subscriber). Nothing is started, and the driver is not asked for, before somebody subscribes or
 * enables an activity.
 */
#ifndef SG_CUPTI_INTERNAL_H
#define SG_CUPTI_INTERNAL_H

#include "softgpu/driver/seam.h"

#include <cupti.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_CUPTI_EXPORT __attribute__((visibility("default")))

/* ---- attach.c -------------------------------------------------------------------------------- */

/** sg_cupti_done - remember an error for cuptiGetLastError(); returns @r */
CUptiResult sg_cupti_done(CUptiResult r);
/** sg_cupti_unsupported - CUPTI_ERROR_NOT_SUPPORTED; one log line a name and process */
CUptiResult sg_cupti_unsupported(const char *name);
/** sg_cupti_log - one line on stderr, "softgpu: " before it, if SOFTGPU_LOG (default 1) >= @level
 */
void sg_cupti_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** sg_cupti_attach - find softgpu's driver, loading it if need be. CUPTI_ERROR_UNKNOWN: there is
 * none. Any thread. */
CUptiResult sg_cupti_attach(void);
/** sg_cupti_tools - what the driver answers; NULL before sg_cupti_attach() succeeded */
const struct softgpu_tools *sg_cupti_tools(void);

/** sg_cupti_thread_id - the calling thread as cuptiSetThreadIdType() asks; 0: no ids wanted */
uint32_t sg_cupti_thread_id(void);

/* One who is told of calls and objects. Called without locks, on the thread of the call. */
struct sg_cupti_listener {
    /* @call->correlation is set and stays the same until exit. A driver call that implements a
     * runtime call has that one's id. @call->start is the listener's own. */
    void (*enter)(struct sg_call *call, bool runtime);
    void (*exit)(struct sg_call *call, bool runtime);
    void (*notice)(const struct sg_notice *n);
};

/* At enter callbacks come first, at exit last: the activity's times do not hold a tool's own. */
enum sg_cupti_slot { SG_CUPTI_CALLBACKS, SG_CUPTI_ACTIVITY, SG_CUPTI_SLOTS };

/** sg_cupti_listen - put a static listener, which may have NULL functions, in its place; NULL:
 * none. With none in any place calls cost one branch again. Calls under way are told of their end
 * if they were told of their start. Any thread; sg_cupti_attach() has succeeded. */
void sg_cupti_listen(enum sg_cupti_slot slot, const struct sg_cupti_listener *listener);

/** sg_cupti_launch_name - the kernel's name if @call is a launch, else NULL */
const char *sg_cupti_launch_name(const struct sg_call *call, bool runtime);

/* ---- callback.c ------------------------------------------------------------------------------ */

/** sg_cupti_deliver - call the subscriber if it wants @cbid; any thread, no locks */
void sg_cupti_deliver(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data);
/** sg_cupti_wants - would it? one load and two branches */
bool sg_cupti_wants(CUpti_CallbackDomain domain, CUpti_CallbackId cbid);

/* ---- act_buffer.c ---------------------------------------------------------------------------- */

/** sg_cupti_now - the time that records have: nanoseconds of the client's clock, else
 * CLOCK_REALTIME as far as that goes forward. May call the client: without locks. */
uint64_t sg_cupti_now(void);

/* ---- what a part defines that may be left out ------------------------------------------------ */

/** sg_cupti_activity_finalize - cuptiFinalize(): forget everything */
__attribute__((weak)) void sg_cupti_activity_finalize(void);

#endif
