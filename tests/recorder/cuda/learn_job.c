/*
 * A program of the driver API whose kernels write in ways that are hard to learn.
 *
 * usage: learn_job MODE
 *   copies   300 launches that copy, from a source that changes; every 50th is waited for
 *   zeros    20 launches that write zeros over zeros, one over something else, one over zeros
 *   late     200 launches that leave an argument alone, then 200 that write it
 *   stray    a kernel writes an argument's memory by way of another's address
 *   large [LEAF]  64 launches that write a word of one leaf each of 64 MiB, another to leaf LEAF
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 256u

static const char code[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    /* dst[i] = src[i] */
    ".visible .entry copy(.param .u64 d, .param .u64 s)\n{\n"
    " .reg .b32 %r<3>; .reg .b64 %rd<6>;\n"
    " ld.param.u64 %rd1, [d]; ld.param.u64 %rd2, [s];\n"
    " mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;\n"
    " add.s64 %rd4, %rd2, %rd3; add.s64 %rd5, %rd1, %rd3;\n"
    " ld.global.u32 %r2, [%rd4]; st.global.u32 [%rd5], %r2; ret;\n}\n"
    /* p[i] = 0 */
    ".visible .entry zero(.param .u64 p)\n{\n"
    " .reg .b32 %r<3>; .reg .b64 %rd<4>;\n"
    " ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;\n"
    " add.s64 %rd3, %rd1, %rd2; mov.u32 %r2, 0; st.global.u32 [%rd3], %r2; ret;\n}\n"
    /* q[i] = n; if (n) p[i] = ~n */
    ".visible .entry some(.param .u64 q, .param .u64 p, .param .u32 n)\n{\n"
    " .reg .pred %p1; .reg .b32 %r<4>; .reg .b64 %rd<6>;\n"
    " ld.param.u64 %rd1, [q]; ld.param.u64 %rd2, [p]; ld.param.u32 %r1, [n];\n"
    " mov.u32 %r2, %tid.x; mul.wide.u32 %rd3, %r2, 4;\n"
    " add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n"
    " st.global.u32 [%rd4], %r1; not.b32 %r3, %r1; setp.eq.u32 %p1, %r1, 0;\n"
    " @%p1 ret;\n st.global.u32 [%rd5], %r3; ret;\n}\n"
    /* (p + by)[i] = by; what lies at q is read */
    ".visible .entry stray(.param .u64 p, .param .u64 q, .param .u64 by)\n{\n"
    " .reg .b32 %r<4>; .reg .b64 %rd<8>;\n"
    " ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; ld.param.u64 %rd3, [by];\n"
    " mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4;\n"
    " add.s64 %rd5, %rd1, %rd3; add.s64 %rd5, %rd5, %rd4; add.s64 %rd6, %rd2, %rd4;\n"
    " ld.global.u32 %r2, [%rd6]; not.b32 %r2, %r2; st.global.u32 [%rd5], %r2; ret;\n}\n"
    /* p[at] = *v */
    ".visible .entry poke(.param .u64 p, .param .u64 at, .param .u64 v)\n{\n"
    " .reg .b32 %r<2>; .reg .b64 %rd<5>;\n"
    " ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [at]; ld.param.u64 %rd4, [v];\n"
    " ld.global.u32 %r1, [%rd4]; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ret;\n}\n";

#define CALLS(X)                                                                                   \
    X(cuInit)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemsetD32_v2)                                                                              \
    X(cuMemsetD32Async)                                                                            \
    X(cuLaunchKernel)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    CALLS(MEMBER)
} cu;

static CUmodule module;

static void must(CUresult r, const char *what)
{
    if (r != CUDA_SUCCESS) {
        printf("%s: %d\n", what, (int)r);
        exit(2);
    }
}

static void open_driver(void)
{
    static const char *const names[] = {
#define NAME(name) #name,
        CALLS(NAME)};
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), **slot = (void **)&cu;
    CUcontext context;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!lib || !(slot[i] = dlsym(lib, names[i]))) {
            printf("no %s\n", names[i]);
            exit(2);
        }
    must(cu.cuInit(0), "cuInit");
    must(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cu.cuModuleLoadData(&module, code), "cuModuleLoadData");
}

static CUfunction kernel(const char *name)
{
    CUfunction f;

    must(cu.cuModuleGetFunction(&f, module, name), name);
    return f;
}

static CUdeviceptr words(size_t n, unsigned value)
{
    CUdeviceptr p;

    must(cu.cuMemAlloc_v2(&p, 4 * n), "cuMemAlloc");
    must(cu.cuMemsetD32_v2(p, value, n), "cuMemsetD32");
    return p;
}

static void launch(CUfunction f, unsigned threads, void **params)
{
    must(cu.cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, NULL, params, NULL), "cuLaunchKernel");
}

static void copies(void)
{
    CUdeviceptr dst = words(WORDS, 0), src = words(WORDS, 1);
    CUfunction f = kernel("copy");
    void *params[] = {&dst, &src};

    for (unsigned i = 0; i < 300; i++) {
        must(cu.cuMemsetD32Async(src, i, WORDS, NULL), "cuMemsetD32Async");
        launch(f, WORDS, params);
        if (i % 50 == 49)
            must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
    }
}

static void zeros(void)
{
    CUdeviceptr p = words(WORDS, 0);
    CUfunction f = kernel("zero");
    void *params[] = {&p};

    for (unsigned i = 0; i < 22; i++) {
        if (i == 20)
            must(cu.cuMemsetD32_v2(p, 5, WORDS), "cuMemsetD32");
        launch(f, WORDS, params);
        must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
    }
}

static void late(void)
{
    CUdeviceptr q = words(WORDS, 0), p = words(WORDS, 0);
    CUfunction f = kernel("some");
    unsigned n = 0;
    void *params[] = {&q, &p, &n};

    for (unsigned i = 0; i < 400; i++) {
        n = i < 200 ? 0 : i;
        if (i < 200)
            must(cu.cuMemsetD32_v2(p, i, WORDS), "cuMemsetD32");
        launch(f, WORDS, params);
        must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
    }
}

static void stray(void)
{
    CUdeviceptr p = words(WORDS, 1), q = words(WORDS, 2);
    unsigned long long by = q - p;
    CUfunction f = kernel("stray");
    void *params[] = {&p, &q, &by};

    launch(f, WORDS, params);
    must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
}

static void large(int other)
{
    CUdeviceptr p = words(16u << 20, 1), value = words(WORDS, 2);
    CUfunction f = kernel("poke");
    unsigned long long at;
    void *params[] = {&p, &at, &value};

    for (int i = 0; i < 64; i++) {
        at = 4096ull * (64 + (unsigned)i); /* of the second 64 leaves one is looked at */
        if (i == other)
            at += 4;
        launch(f, 1, params);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    open_driver();
    if (strcmp(mode, "copies") == 0)
        copies();
    else if (strcmp(mode, "zeros") == 0)
        zeros();
    else if (strcmp(mode, "late") == 0)
        late();
    else if (strcmp(mode, "stray") == 0)
        stray();
    else if (strcmp(mode, "large") == 0)
        large(argc > 2 ? atoi(argv[2]) : -1);
    else
        return 1;
    must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
    return 0;
}
