/*
 * Modules, libraries and their functions inside the driver. A module belongs to a context; a
 * library belongs to none and has a module in each context where it was used (library.c).
 */
#ifndef SG_DRIVER_MODULE_H
#define SG_DRIVER_MODULE_H

#include "softgpu/driver/code.h"
#include "softgpu/driver/jit.h"

struct CUmod_st {
    uint32_t magic;
    struct CUctx_st *ctx; /* never a green one: their modules are the primary context's */
    struct sg_image *image;
    struct CUfunc_st *funcs;
    size_t nfuncs;
    struct CUlib_st *lib;         /* owner, or NULL */
    struct CUmod_st *next_in_ctx; /* under sg_driver.lock */
    struct CUmod_st *next_in_lib; /* under the library lock */
    size_t nmanaged;              /* variables seen so far, while the image is made */
    uint32_t tool_id;             /* as tools know it; unique in the process */
    void *text;                   /* what it was made from, for tools; owned */
    size_t text_size;
};

/**
 * sg_module_new - make a module in @ctx's root
 * @lib: the library it is an instance of, or NULL; its managed variables are shared
 * @err: says why it was refused
 */
CUresult sg_module_new(struct CUctx_st *ctx, const struct sg_code *code, const char *name,
                       struct CUlib_st *lib, struct CUmod_st **out, struct tb_error *err);
void sg_module_free(struct CUmod_st *m); /* nothing of it is queued any more */
/** sg_module_tell - sg_notice_later() of a module */
void sg_module_tell(enum sg_notice_kind kind, const struct CUmod_st *m);

/** sg_module_refused - one log line and the program's log buffers; returns @r */
CUresult sg_module_refused(CUresult r, const char *name, const struct sg_jit *jit,
                           const struct tb_error *err);

struct CUfunc_st *sg_module_function(struct CUmod_st *m, const char *name);
/** sg_module_var - CUDA_ERROR_NOT_FOUND; one of @addr and @bytes may be NULL */
CUresult sg_module_var(const struct CUmod_st *m, const char *name, CUdeviceptr *addr,
                       size_t *bytes);

/* library.c */
/** sg_library_managed - address of the library's @i-th managed variable; made if it is not there */
CUresult sg_library_managed(struct CUlib_st *lib, struct CUctx_st *ctx, size_t i, size_t size,
                            size_t align, uint64_t *addr);
bool sg_library_owns(struct CUlib_st *lib, uint64_t addr);
/** sg_library_forget - a module of a library ended with its context */
void sg_library_forget(struct CUmod_st *m);
/** sg_kernel_function - the function of a kernel in a context; the module is made if needed */
CUresult sg_kernel_function(CUkernel kernel, struct CUctx_st *ctx, struct CUfunc_st **out);

/* func.c */
/** sg_function_of - what a CUfunction handle, which may be a CUkernel, means in @ctx
 * @kernel: the kernel or NULL; may be NULL */
CUresult sg_function_of(CUfunction f, struct CUctx_st *ctx, struct CUfunc_st **out,
                        CUkernel *kernel);
/** sg_function_init - defaults of a new function */
void sg_function_init(struct CUfunc_st *f, struct CUmod_st *m, const struct sg_kernel *k);
/** sg_function_regs - registers a thread, as told to programs: never more than what lets a block
 * of the kernel's greatest size start, which a compiler for the device would have ensured too */
unsigned sg_function_regs(const struct sg_kernel_info *info);

/** sg_func_param - one parameter; CUDA_ERROR_INVALID_VALUE beyond the last */
CUresult sg_func_param(const struct sg_kernel_info *info, size_t index, size_t *offset,
                       size_t *size);

/* Attributes that functions have and kernels carry for each device. */
struct sg_func_attrs {
    int max_dynamic_shared, carveout, cluster_policy, nonportable_cluster;
    int cluster[3];
    unsigned set; /* bit: CUfunction_attribute that somebody set */
};
/** sg_func_attr_set - check and set one: CUDA_ERROR_INVALID_VALUE, _NOT_PERMITTED */
CUresult sg_func_attr_set(struct sg_func_attrs *a, const struct sg_kernel_info *info,
                          const struct sg_device *dev, CUfunction_attribute attribute, int value);
CUresult sg_func_attr_get(const struct sg_func_attrs *a, const struct sg_kernel_info *info,
                          const struct sg_device *dev, CUfunction_attribute attribute, int *value);
void sg_func_attrs_default(struct sg_func_attrs *a, const struct sg_kernel_info *info);
void sg_function_attrs_get(const struct CUfunc_st *f, struct sg_func_attrs *a);
void sg_function_attrs_put(struct CUfunc_st *f, const struct sg_func_attrs *a);

#endif
