/*
 * A program of the driver API that launches a kernel of four pointers, or copies a number to the
 * host; bench/recorder/launches.py counts what that takes in instructions.
 *
 * usage: bench_launches COUNT [bare|named|copy|async]    bare: launches, with a callback of CUPTI's
 * that does nothing; named: launches, with a name for what they write; copy, async: copies that the
 * host waits for, and those that go to pinned memory
 */
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/twinbit.h"

#define WORDS 64u

static const char code[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry add4(.param .u64 d, .param .u64 a, .param .u64 b, .param .u64 c, .param .u32 "
    "n)\n{\n"
    " .reg .pred %p1; .reg .f32 %f<6>; .reg .b32 %r<3>; .reg .b64 %rd<10>;\n"
    " ld.param.u64 %rd1, [d]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b];\n"
    " ld.param.u64 %rd4, [c]; ld.param.u32 %r1, [n];\n"
    " mov.u32 %r2, %tid.x; setp.ge.u32 %p1, %r2, %r1;\n"
    " @%p1 ret;\n"
    " mul.wide.u32 %rd5, %r2, 4; add.s64 %rd6, %rd1, %rd5; add.s64 %rd7, %rd2, %rd5;\n"
    " add.s64 %rd8, %rd3, %rd5; add.s64 %rd9, %rd4, %rd5;\n"
    " ld.global.f32 %f1, [%rd7]; ld.global.f32 %f2, [%rd8]; ld.global.f32 %f3, [%rd9];\n"
    " add.f32 %f4, %f1, %f2; add.f32 %f5, %f4, %f3; st.global.f32 [%rd6], %f5; ret;\n}\n";

#define CALLS(X)                                                                                   \
    X(cuInit)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemAllocHost_v2)                                                                           \
    X(cuMemcpyDtoH_v2)                                                                             \
    X(cuMemcpyDtoHAsync_v2)                                                                        \
    X(cuMemsetD32_v2)                                                                              \
    X(cuLaunchKernel)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    CALLS(MEMBER)
} cu;

static void must(int result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "%s: %d\n", what, result);
        exit(2);
    }
}

static void *function(void *lib, const char *name)
{
    void *f = lib ? dlsym(lib, name) : NULL;

    must(f == NULL, name);
    return f;
}

/* The least that a tool does that is told of every call. */
static void CUPTIAPI bare_callback(void *arg, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                   const void *data)
{
    (void)arg;
    (void)domain;
    (void)id;
    (void)data;
}

static void subscribe(void)
{
    void *cupti = dlopen(CUPTI_NAME, RTLD_NOW);
    CUpti_SubscriberHandle s;
    __typeof__(cuptiSubscribe) *open_slot;
    __typeof__(cuptiEnableDomain) *enable;

    *(void **)&open_slot = function(cupti, "cuptiSubscribe");
    *(void **)&enable = function(cupti, "cuptiEnableDomain");
    must((int)open_slot(&s, bare_callback, NULL), "cuptiSubscribe");
    must((int)enable(1, s, CUPTI_CB_DOMAIN_DRIVER_API), "cuptiEnableDomain");
}

static CUfunction open_driver(void)
{
    static const char *const names[] = {
#define NAME(name) #name,
        CALLS(NAME)};
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), **slot = (void **)&cu;
    CUcontext context;
    CUmodule module;
    CUfunction f;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        slot[i] = function(lib, names[i]);
    must((int)cu.cuInit(0), "cuInit");
    must((int)cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    must((int)cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must((int)cu.cuModuleLoadData(&module, code), "cuModuleLoadData");
    must((int)cu.cuModuleGetFunction(&f, module, "add4"), "cuModuleGetFunction");
    return f;
}

static void launch_all(CUfunction f, CUdeviceptr p[4], unsigned launches)
{
    unsigned n = WORDS;
    void *params[] = {&p[0], &p[1], &p[2], &p[3], &n};

    for (unsigned i = 0; i < launches; i++) {
        if (i < 16) /* contents that differ: then what is left alone can be learnt */
            for (unsigned k = 1; k < 4; k++)
                must((int)cu.cuMemsetD32_v2(p[k], i * 4 + k, WORDS), "cuMemsetD32");
        must((int)cu.cuLaunchKernel(f, 1, 1, 1, WORDS, 1, 1, 0, NULL, params, NULL), "launch");
        if (i < 16)
            must((int)cu.cuCtxSynchronize(), "cuCtxSynchronize");
    }
}

static void copy_all(CUdeviceptr from, unsigned copies, int async)
{
    unsigned *to = NULL, here = 0;

    must((int)cu.cuMemAllocHost_v2((void **)&to, sizeof(*to)), "cuMemAllocHost");
    must((int)cu.cuMemsetD32_v2(from, 1, WORDS), "cuMemsetD32");
    for (unsigned i = 0; i < copies; i++) {
        if (!async)
            must((int)cu.cuMemcpyDtoH_v2(&here, from, sizeof(here)), "cuMemcpyDtoH");
        else
            must((int)cu.cuMemcpyDtoHAsync_v2(to, from, sizeof(*to), NULL), "cuMemcpyDtoHAsync");
        if (async && i % 64 == 63)
            must((int)cu.cuCtxSynchronize(), "cuCtxSynchronize");
    }
}

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    const char *what = argc > 2 ? argv[2] : "";
    CUfunction f = open_driver();
    CUdeviceptr p[4];

    if (strcmp(what, "bare") == 0)
        subscribe();
    for (unsigned i = 0; i < 4; i++)
        must((int)cu.cuMemAlloc_v2(&p[i], 4 * WORDS), "cuMemAlloc");
    if (strcmp(what, "named") == 0)
        twinbit_tensor((const void *)p[0], 4 * WORDS, "f32", "sum");
    if (strcmp(what, "copy") == 0 || strcmp(what, "async") == 0)
        copy_all(p[0], count, strcmp(what, "async") == 0);
    else
        launch_all(f, p, count);
    must((int)cu.cuCtxSynchronize(), "cuCtxSynchronize");
    return 0;
}
