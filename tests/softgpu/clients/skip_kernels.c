/* A libcuda.so.1 that accepts every kernel launch and executes none; everything else is softgpu's.
 * A suite that is run on it shows which of its tests prove nothing about kernels. Only for programs
 * that ask cuGetProcAddress for all functions, as cuda-bindings does. SKIP_KERNELS_DRIVER names the
 * real libcuda.so.1. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef CUresult get_proc(const char *name, void **fn, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status);

static CUresult skip_kernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                            void **params, void **extra)
{
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz;
    (void)shared, (void)stream, (void)params, (void)extra;
    return CUDA_SUCCESS;
}

static CUresult skip_cooperative(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                 void **params)
{
    return skip_kernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}

static CUresult skip_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    (void)config, (void)f, (void)params, (void)extra;
    return CUDA_SUCCESS;
}

static get_proc *real(void)
{
    const char *path = getenv("SKIP_KERNELS_DRIVER");
    void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    get_proc *get = NULL;

    if (lib)
        *(void **)&get = dlsym(lib, "cuGetProcAddress_v2");
    if (!get)
        fprintf(stderr, "skip_kernels: SKIP_KERNELS_DRIVER names no libcuda.so.1 that loads\n");
    return get;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **fn, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    get_proc *get = real();
    CUresult r = get ? get(name, fn, version, flags, status) : CUDA_ERROR_NOT_INITIALIZED;

    if (r != CUDA_SUCCESS || !*fn)
        return r;
    if (strcmp(name, "cuLaunchKernel") == 0)
        *(CUresult(**)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream, void **, void **))fn = skip_kernel;
    else if (strcmp(name, "cuLaunchKernelEx") == 0)
        *(CUresult(**)(const CUlaunchConfig *, CUfunction, void **, void **))fn = skip_ex;
    else if (strcmp(name, "cuLaunchCooperativeKernel") == 0)
        *(CUresult(**)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream, void **))fn = skip_cooperative;
    else if (strcmp(name, "cuGetProcAddress") == 0)
        *(get_proc **)fn = cuGetProcAddress_v2;
    return CUDA_SUCCESS;
}
