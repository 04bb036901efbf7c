/*
 * The seam where a stand-in for CUPTI attaches to the runtime: softgpu_rt_set_hooks(), the one
 * export that is not CUDA's. Off, it costs an exported function one branch.
 */
#ifndef SG_RUNTIME_HOOKS_H
#define SG_RUNTIME_HOOKS_H

#include "softgpu/runtime/cuda_api.h"

#include <stdatomic.h>
#include <stdint.h>

#define SG_RT_EXPORT __attribute__((visibility("default")))

/* One call of an exported function that returns a cudaError_t. */
struct sg_rt_call {
    uint32_t id; /* CUPTI's callback id where cupti_runtime_cbid.h was there, else >= 0x10000 */
    const char *name;   /* static: "cudaMalloc", "cudaMemcpyAsync_ptsz" */
    void *params;       /* struct sg_<name>_params: as in generated_cuda_runtime_api_meta.h */
    cudaError_t result; /* on exit */
    uint64_t user;      /* for whoever hooks: kept from enter to exit */
};

struct softgpu_rt_hooks {
    void (*enter)(void *arg, struct sg_rt_call *call);
    void (*exit)(void *arg, struct sg_rt_call *call);
    void *arg;
};

/** softgpu_rt_set_hooks - call @hooks around every exported function; NULL: no more. @hooks is
 * borrowed until then, and until calls under way have returned. Any thread. */
SG_RT_EXPORT void softgpu_rt_set_hooks(const struct softgpu_rt_hooks *hooks);

extern const struct softgpu_rt_hooks *_Atomic sg_rt_hooks __attribute__((visibility("hidden")));
#define SG_RT_HOOKED                                                                               \
    __builtin_expect(atomic_load_explicit(&sg_rt_hooks, memory_order_relaxed) != NULL, 0)

void sg_rt_hook_enter(struct sg_rt_call *call);
cudaError_t sg_rt_hook_exit(struct sg_rt_call *call); /* returns call->result */

#endif
