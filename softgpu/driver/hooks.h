/*
 * What the generated exports are made of: the call of an implementation that may not exist, the
 * per-thread default stream of _ptds/_ptsz names, and the seam where a stand-in for CUPTI attaches
 * (softgpu_set_hooks(), the one export that is not CUDA's).
 */
#ifndef SG_DRIVER_HOOKS_H
#define SG_DRIVER_HOOKS_H

#include "softgpu/driver/driver.h"

#define SG_EXPORT __attribute__((visibility("default")))

/* One call of an exported function. */
struct sg_call {
    uint32_t id;      /* CUPTI's callback id where cupti_driver_cbid.h was there, else >= 0x10000 */
    const char *name; /* static: "cuMemAlloc_v2" */
    void *params;     /* struct sg_<name>_params, equal to <name>_params of generated_cuda_meta.h */
    CUresult result;  /* on exit */
    uint64_t user;    /* for whoever hooks: kept from enter to exit */
};

struct softgpu_hooks {
    void (*enter)(void *arg, struct sg_call *call);
    void (*exit)(void *arg, struct sg_call *call);
    void *arg;
};

/** softgpu_set_hooks - call @hooks around every exported function; NULL: no more. @hooks is
 * borrowed until then, and until calls under way have returned. Any thread. */
SG_EXPORT void softgpu_set_hooks(const struct softgpu_hooks *hooks);

extern atomic_int sg_hook_active;
#define SG_HOOKED                                                                                  \
    __builtin_expect(atomic_load_explicit(&sg_hook_active, memory_order_relaxed) != 0, 0)

void sg_hook_enter(struct sg_call *call);
CUresult sg_hook_exit(struct sg_call *call); /* returns call->result */
void sg_hooks_init(void);                    /* options are read: SOFTGPU_LOG=3 traces calls */

/** sg_unsupported - CUDA_ERROR_NOT_SUPPORTED; one log line a name and process */
CUresult sg_unsupported(const char *name);

/* sg_<name>() is declared weak where these are used */
#define SG_CALL(name, args) (sg_##name ? sg_##name args : sg_unsupported(#name))
#define SG_PTDS(name, args)                                                                        \
    __extension__({                                                                                \
        struct sg_tls *tls_ = sg_tls();                                                            \
        bool before_ = tls_->ptds;                                                                 \
        tls_->ptds = true;                                                                         \
        CUresult result_ = SG_CALL(name, args);                                                    \
        tls_->ptds = before_;                                                                      \
        result_;                                                                                   \
    })

#endif
