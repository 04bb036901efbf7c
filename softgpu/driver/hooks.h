/*
 * What the generated exports are made of: the call of an implementation that may not exist, the
 * per-thread default stream of _ptds/_ptsz names, and the driver's side of the seam where a
 * stand-in for CUPTI attaches (seam.h).
 */
#ifndef SG_DRIVER_HOOKS_H
#define SG_DRIVER_HOOKS_H

#include "softgpu/driver/driver.h"

#define SG_EXPORT __attribute__((visibility("default")))

extern atomic_int sg_hook_active;
#define SG_HOOKED                                                                                  \
    __builtin_expect(atomic_load_explicit(&sg_hook_active, memory_order_relaxed) != 0, 0)

void sg_hook_enter(struct sg_call *call);
CUresult sg_hook_exit(struct sg_call *call);    /* returns call->result */
const struct softgpu_runtime *sg_runtime(void); /* NULL: there is none */
void sg_hooks_init(void);                       /* options are read: SOFTGPU_LOG=3 traces calls */

/** sg_notice_send - tell a tool now, if there is one; without locks. */
void sg_notice_send(const struct sg_notice *n);
/** sg_notice_later - the same where the engine's lock is held: kept for this thread and told by
 * sg_notice_flush(), or when the call ends. @n->module.data and @n->value must live as
 * long. */
void sg_notice_later(const struct sg_notice *n);
void sg_notice_flush(void); /* without locks */
/** sg_notice_mark / sg_notice_forget - drop what was kept since, because it was undone */
static inline unsigned sg_notice_mark(void)
{
    return sg_tls()->nnotices;
}
static inline void sg_notice_forget(unsigned mark)
{
    sg_tls()->nnotices = mark;
}
#define SG_TELL(...)                                                                               \
    do {                                                                                           \
        if (SG_HOOKED)                                                                             \
            sg_notice_send(&(const struct sg_notice){__VA_ARGS__});                                \
    } while (0)
#define SG_TELL_LATER(...)                                                                         \
    do {                                                                                           \
        if (SG_HOOKED)                                                                             \
            sg_notice_later(&(const struct sg_notice){__VA_ARGS__});                               \
    } while (0)

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
