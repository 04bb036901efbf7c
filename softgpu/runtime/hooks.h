/*
 * The runtime's side of the seam where a stand-in for CUPTI attaches (driver/seam.h): the driver is
 * told of softgpu_rt_set_hooks(), the one export that is not CUDA's, when the library is loaded.
 * Off, it costs an exported function one branch.
 */
#ifndef SG_RUNTIME_HOOKS_H
#define SG_RUNTIME_HOOKS_H

#include "softgpu/runtime/cuda_api.h"

#include "softgpu/driver/seam.h"

#include <stdatomic.h>
#include <stdint.h>

#define SG_RT_EXPORT __attribute__((visibility("default")))

/** softgpu_rt_set_hooks - call @hooks around every exported function that returns a cudaError_t;
 * NULL: no more. @hooks is borrowed until then, and until calls under way have returned. Any
 * thread. */
SG_RT_EXPORT void softgpu_rt_set_hooks(const struct softgpu_call_hooks *hooks);

extern const struct softgpu_call_hooks *_Atomic sg_rt_hooks __attribute__((visibility("hidden")));
#define SG_RT_HOOKED                                                                               \
    __builtin_expect(atomic_load_explicit(&sg_rt_hooks, memory_order_relaxed) != NULL, 0)

void sg_rt_hook_enter(struct sg_call *call);
cudaError_t sg_rt_hook_exit(struct sg_call *call); /* returns call->result */

#endif
