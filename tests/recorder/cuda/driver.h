/*
 * The CUDA driver of a test's program, which is not linked with it. CUDA_FUNCTIONS(X), defined
 * before this is read in, is an X(name) for each function wanted besides those that start it.
 */
#ifndef TB_TESTS_RECORDER_CUDA_DRIVER_H
#define TB_TESTS_RECORDER_CUDA_DRIVER_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef CUDA_FUNCTIONS
#define CUDA_FUNCTIONS(X)
#endif
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuInit)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    CUDA_FUNCTIONS(X)

static struct cuda {
#define MEMBER_(name) __typeof__(name) *name;
#define MEMBER(name) MEMBER_(name)
    DRIVER_FUNCTIONS(MEMBER)
    CUresult (*synchronize)(void); /* cuCtxSynchronize, which has two versions of one name */
} cu;

static inline void ok(CUresult result, const char *file, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "%s:%d: CUDA error %d\n", file, line, (int)result);
    exit(1);
}
#define OK(call) ok(call, __FILE__, __LINE__)

/* Exit status 77: there is no driver, or it is too old. */
static inline void load_driver(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);

#define LOAD_(name)                                                                                \
    if (!lib || (*(void **)&cu.name = dlsym(lib, #name)) == NULL)                                  \
        exit(77);
#define LOAD(name) LOAD_(name)
    DRIVER_FUNCTIONS(LOAD)
    *(void **)&cu.synchronize = dlsym(lib, "cuCtxSynchronize");
}

/* Behind load_driver(): the primary context of device 0 is this thread's. */
static inline CUcontext start_driver(void)
{
    CUcontext context;

    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    return context;
}

#endif
