/*
 * softgpu/runtime - the CUDA runtime (libcudart.so.12 or .13) on top of the public driver API.
 *
 * Every function of cuda_runtime_api.h is exported by a generated trampoline (gen_runtime.py) that
 * calls sg_<name>() if some file here or the generated simple.c defines it, and otherwise answers
 * cudaErrorNotSupported with one log line. Inside, call sg_ and cu functions, never cuda ones: the
 * trampoline is where errors are remembered and a tool is told.
 *
 * Start at sg_rt_enter(): everything that needs a device calls it first. What nvcc's host code
 * registers is in register.c; sg_rt_function() gets from a host function to its kernel.
 */
#ifndef SG_RUNTIME_RUNTIME_H
#define SG_RUNTIME_RUNTIME_H

#include "softgpu/runtime/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>

#define SG_RT_MAX_DEVICES 64
#define SG_RT_MAX_CONFIGS 32

/* <<<grid, block, shared, stream>>> between __cudaPushCallConfiguration and its Pop */
struct sg_rt_config {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

struct sg_rt_tls {
    int device;           /* cudaSetDevice; meaningful while @chosen */
    bool chosen;          /* the thread has called cudaSetDevice */
    bool ptds;            /* this call came through a _ptsz/_ptds name */
    cudaError_t last;     /* cudaGetLastError */
    unsigned last_resets; /* resets when it was set: a sticky error ends with its device's state */
    unsigned resets;      /* of sg_rt_enter(): device resets that this thread has seen */
    unsigned nconfigs;
    struct sg_rt_config configs[SG_RT_MAX_CONFIGS];
};
struct sg_rt_tls *sg_rt_tls(void);

/* ---- context.c ------------------------------------------------------------------------------- */

/** sg_rt_init - cuInit() once; its error again and again. Any thread, no lock after the first. */
cudaError_t sg_rt_init(void);
/** sg_rt_enter - sg_rt_init(), and some context is current: the thread's, else the primary one of
 * the thread's device, which is made current. Any thread, no lock when there is one. */
cudaError_t sg_rt_enter(void);
/** sg_rt_device - the calling thread's device, as cudaGetDevice() */
cudaError_t sg_rt_device(int *device);
/** sg_rt_primary - a device's primary context, retained for the process */
cudaError_t sg_rt_primary(int device, CUcontext *ctx);
int sg_rt_device_count(void); /* after sg_rt_init() */
CUcontext sg_rt_current(void);
unsigned sg_rt_resets(void); /* device resets so far */

/** sg_rt_stream - what the driver is to be told: NULL may mean the per-thread stream */
static inline CUstream sg_rt_stream(cudaStream_t stream)
{
    return stream == NULL && sg_rt_tls()->ptds ? CU_STREAM_PER_THREAD : stream;
}

/* A driver function without a stream parameter, in the form that this call's default stream asks */
#define SG_RT_PT(function) (sg_rt_tls()->ptds ? function##_ptds : function)
#define SG_RT_PTSZ(function) (sg_rt_tls()->ptds ? function##_ptsz : function)

/* ---- errors.c -------------------------------------------------------------------------------- */

/** sg_rt_error - the runtime's error for a driver's: the same number where the runtime has it */
cudaError_t sg_rt_error(CUresult result);
/** sg_rt_failed - remember @err for cudaGetLastError(); returns it */
cudaError_t sg_rt_failed(cudaError_t err);
/** sg_rt_unsupported - cudaErrorNotSupported; one log line a name and process */
cudaError_t sg_rt_unsupported(const char *name);
/** sg_rt_log - one line on stderr, "softgpu: " before it, if SOFTGPU_LOG (default 1) >= @level */
void sg_rt_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *sg_rt_error_name(int value); /* generated; NULL: no such error */

/* ---- register.c ------------------------------------------------------------------------------ */

struct sg_rt_symbol;

/**
 * sg_rt_function - the kernel of a __global__ function
 * @func:   its host address, a cudaKernel_t, or what sg_rt_handle() gave
 * @kernel: usable in every context
 *
 * Loads the fat binary it is in, at the first need.
 * Returns: cudaErrorInvalidDeviceFunction; cudaErrorNoKernelImageForDevice, logged with the
 * kernel's name; whatever loading failed with, the same every time.
 */
cudaError_t sg_rt_function(const void *func, CUkernel *kernel);
/** sg_rt_function_here - the same for the current context */
cudaError_t sg_rt_function_here(const void *func, CUfunction *function);
/** sg_rt_handle - as sg_rt_function(), but on failure *@kernel is a handle too: using it later
 * fails again with the same error */
cudaError_t sg_rt_handle(const void *func, CUkernel *kernel);
/** sg_rt_host_of - the registered host function of a kernel; @kernel itself if there is none */
void *sg_rt_host_of(CUkernel kernel);
/** sg_rt_symbol_name - the name of the kernel of a __global__ function, or of a cudaKernel_t that
 * came from one; loads nothing. NULL: neither. */
const char *sg_rt_symbol_name(const void *func);
/** sg_rt_variable - address and size of a __device__, __constant__ or __managed__ variable in the
 * current context; cudaErrorInvalidSymbol */
cudaError_t sg_rt_variable(const void *symbol, CUdeviceptr *addr, size_t *size);

/* ---- launch.c -------------------------------------------------------------------------------- */

CUlaunchConfig sg_rt_launch_config(const cudaLaunchConfig_t *l);

/* ---- copy.c ---------------------------------------------------------------------------------- */

/** sg_rt_copy_3d - the driver's descriptor of a copy; cudaErrorInvalidMemcpyDirection,
 * cudaErrorInvalidPitchValue, cudaErrorNotSupported (arrays) */
cudaError_t sg_rt_copy_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *out);
/** sg_rt_copy_1d - the same of @count bytes in a row */
cudaError_t sg_rt_copy_1d(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                          CUDA_MEMCPY3D *out);
/** sg_rt_copy_3d_back - what the runtime calls a driver's descriptor */
void sg_rt_copy_3d_back(const CUDA_MEMCPY3D *c, struct cudaMemcpy3DParms *out);
/** sg_rt_symbol_range - address of @count bytes at @offset of a variable; cudaErrorInvalidValue */
cudaError_t sg_rt_symbol_range(const void *symbol, size_t count, size_t offset, void **addr);

/* A CUDA 12 device number, -1 for the host */
static inline CUmemLocation sg_rt_location(int device)
{
    return (CUmemLocation){.type =
                               device < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = device < 0 ? 0 : device};
}

#define SG_RT_LOCATION(l) ((CUmemLocation){.type = (CUmemLocationType)(l).type, .id = (l).id})

/* ---- what the generated exports are made of -------------------------------------------------- */

static inline cudaError_t sg_rt_result(cudaError_t err)
{
    return __builtin_expect(err == cudaSuccess, 1) ? err : sg_rt_failed(err);
}

/* sg_<impl>() is declared weak where these are used */
#define SG_RT_PLAIN(impl, name, args) (sg_##impl ? sg_##impl args : sg_rt_unsupported(name))
#define SG_RT_CALL(impl, name, args) sg_rt_result(SG_RT_PLAIN(impl, name, args))
#define SG_RT_PER_THREAD(impl, name, args)                                                         \
    __extension__({                                                                                \
        struct sg_rt_tls *tls_ = sg_rt_tls();                                                      \
        bool before_ = tls_->ptds;                                                                 \
        cudaError_t result_;                                                                       \
        tls_->ptds = true;                                                                         \
        result_ = SG_RT_CALL(impl, name, args);                                                    \
        tls_->ptds = before_;                                                                      \
        result_;                                                                                   \
    })

#endif
