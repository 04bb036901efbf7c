/*
 * Small CUDA programs, each with one thing in which recorders of launches go wrong; see
 * tests/e2e/t047-run-cuda-pitfalls.sh for what their traces must have. Each checks what it computed
 * itself and prints "ok CASE".
 *
 * usage: pitfalls CASE; start at main()
 */
#include "pitfalls.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/twinbit.h"
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#endif

struct cuda cu;
static CUcontext context;
static CUfunction fill, by_struct, by_table, by_global, by_distance, gather, wild;
static CUmodule module;

static const char image[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter[64];\n"
    ".visible .entry fill(.param .u64 p, .param .u32 v, .param .u32 n) {\n"
    " .reg .pred %q; .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v]; ld.param.u32 %r1, [n];\n"
    " cvta.to.global.u64 %d0, %d0; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;\n"
    " mad.lo.u32 %r2, %r3, 64, %r2; setp.ge.u32 %q, %r2, %r1; @%q ret;\n"
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1; st.global.u32 [%d2], %r0; ret; }\n"
    ".visible .entry by_struct(.param .align 8 .b8 s[24]) {\n"
    " .reg .b32 %r<3>; .reg .b64 %d<3>;\n"
    " ld.param.u32 %r0, [s]; ld.param.u64 %d0, [s+8]; cvta.to.global.u64 %d0, %d0;\n"
    " mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d0, %d1;\n"
    " st.global.u32 [%d2], %r0; ret; }\n"
    ".visible .entry by_table(.param .u64 t, .param .u32 v) {\n"
    " .reg .b32 %r<3>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d0, [t]; ld.param.u32 %r0, [v]; cvta.to.global.u64 %d0, %d0;\n"
    " ld.global.u64 %d1, [%d0]; cvta.to.global.u64 %d1, %d1; mov.u32 %r1, %tid.x;\n"
    " mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2; st.global.u32 [%d3], %r0; ret; }\n"
    ".visible .entry by_global(.param .u32 v) {\n"
    " .reg .b32 %r<3>; .reg .b64 %d<3>;\n"
    " ld.param.u32 %r0, [v]; mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4;\n"
    " mov.u64 %d0, counter; add.u64 %d2, %d0, %d1; st.global.u32 [%d2], %r0; ret; }\n"
    ".visible .entry by_distance(.param .u64 p, .param .u64 d, .param .u32 v) {\n"
    " .reg .b32 %r<3>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u64 %d1, [d]; ld.param.u32 %r0, [v];\n"
    " cvta.to.global.u64 %d0, %d0; add.u64 %d0, %d0, %d1; mov.u32 %r1, %tid.x;\n"
    " mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d0, %d2; st.global.u32 [%d3], %r0; ret; }\n"
    ".visible .entry gather(.param .u64 p, .param .u64 d, .param .u64 q) {\n"
    " .reg .b32 %r<2>; .reg .b64 %d<5>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u64 %d1, [d]; ld.param.u64 %d3, [q];\n"
    " cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d3, %d3; add.u64 %d0, %d0, %d1;\n"
    " mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d0, %d0, %d2;\n"
    " add.u64 %d3, %d3, %d2; ld.global.u32 %r0, [%d0]; st.global.u32 [%d3], %r0; ret; }\n"
    ".visible .entry wild() { .reg .b64 %d<2>; mov.u64 %d0, 64; st.global.u64 [%d0], %d0; ret; }\n";

void must_be(int result, int want, const char *what, int line)
{
    if (result == want)
        return;
    fprintf(stderr, "pitfalls.c:%d: %s: %d instead of %d\n", line, what, result, want);
    exit(1);
}

static void open_cuda(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);

#define LOAD_(name)                                                                                \
    if (!lib || (*(void **)&cu.name = dlsym(lib, #name)) == NULL) {                                \
        fprintf(stderr, "no %s\n", #name);                                                         \
        exit(1);                                                                                   \
    }
#define LOAD(name) LOAD_(name)
    CUDA_FUNCTIONS(LOAD)
    *(void **)&cu.synchronize = dlsym(lib, "cuCtxSynchronize");
    *(void **)&cu.create = dlsym(lib, "cuCtxCreate_v2");
}

CUmodule pitfalls_load(void)
{
    CUmodule m;

    OK(cu.cuModuleLoadData(&m, image));
    return m;
}

static void load(void)
{
    module = pitfalls_load();
    OK(cu.cuModuleGetFunction(&fill, module, "fill"));
    OK(cu.cuModuleGetFunction(&by_struct, module, "by_struct"));
    OK(cu.cuModuleGetFunction(&by_table, module, "by_table"));
    OK(cu.cuModuleGetFunction(&by_global, module, "by_global"));
    OK(cu.cuModuleGetFunction(&by_distance, module, "by_distance"));
    OK(cu.cuModuleGetFunction(&gather, module, "gather"));
    OK(cu.cuModuleGetFunction(&wild, module, "wild"));
}

void pitfalls_begin(void)
{
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    load();
}

CUfunction pitfalls_fill(void)
{
    return fill;
}

CUfunction pitfalls_by_distance(void)
{
    return by_distance;
}

CUfunction pitfalls_gather(void)
{
    return gather;
}

static CUdeviceptr memory(size_t bytes)
{
    CUdeviceptr p;

    OK(cu.cuMemAlloc(&p, bytes));
    return p;
}

static void launch_fill(CUfunction f, CUdeviceptr p, unsigned v, unsigned n, CUstream s)
{
    void *params[] = {&p, &v, &n};

    OK(cu.cuLaunchKernel(f, (n + 63) / 64, 1, 1, 64, 1, 1, 0, s, params, NULL));
}

static void check(CUdeviceptr p, unsigned v, unsigned n)
{
    unsigned got[4096];

    OK(cu.cuMemcpyDtoH(got, p, n * sizeof(*got)));
    for (unsigned i = 0; i < n; i++)
        if (got[i] != v)
            must_be((int)got[i], (int)v, "an element", (int)i);
}

/* ---------------------------------------------------------------- arguments */

/* The same work by kernelParams and by one buffer. */
static void args(void)
{
    CUdeviceptr p = memory(1024);
    unsigned n = 256;
    struct {
        CUdeviceptr p;
        unsigned v, n;
    } block = {p, 7, n};
    size_t size = sizeof(block);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};

    launch_fill(fill, p, 7, n, NULL);
    check(p, 7, n);
    OK(cu.cuMemsetD8(p, 0, 1024));
    OK(cu.cuLaunchKernel(fill, 4, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    check(p, 7, n);
}

/* Zeros over zeros, twice: three writes with one fingerprint. */
static void equal(void)
{
    CUdeviceptr p = memory(1024);

    OK(cu.cuMemsetD8(p, 0, 1024));
    launch_fill(fill, p, 0, 256, NULL);
    launch_fill(fill, p, 0, 256, NULL);
    check(p, 0, 256);
}

/* A pointer in a struct, one in memory, a variable of the module, a pointer and a distance. */
static void hidden(void)
{
    CUdeviceptr p = memory(256), q = memory(256), table = memory(8), far = memory(256), variable;
    CUdeviceptr distance = far - p;
    unsigned v = 9, w = 4;
    struct {
        unsigned v, pad;
        CUdeviceptr p;
        unsigned more[2];
    } s = {5, 0, p, {0, 0}};
    void *one[] = {&s}, *two[] = {&table, &v}, *three[] = {&v};
    void *four[] = {&p, &distance, &w};
    size_t bytes;

    OK(cu.cuMemsetD8(q, 0, 256));
    OK(cu.cuMemcpyHtoD(table, &q, 8));
    OK(cu.cuLaunchKernel(by_struct, 1, 1, 1, 64, 1, 1, 0, NULL, one, NULL));
    OK(cu.cuLaunchKernel(by_table, 1, 1, 1, 64, 1, 1, 0, NULL, two, NULL));
    OK(cu.cuLaunchKernel(by_global, 1, 1, 1, 64, 1, 1, 0, NULL, three, NULL));
    check(p, 5, 64);
    check(q, 9, 64);
    OK(cu.cuModuleGetGlobal(&variable, &bytes, module, "counter"));
    check(variable, 9, 64);
    OK(cu.cuLaunchKernel(by_distance, 1, 1, 1, 64, 1, 1, 0, NULL, four, NULL));
    check(far, 4, 64);
    check(p, 5, 64);
}

/* A kernel's handle itself, and a launch with attributes. */
static void handles(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUdeviceptr p = memory(256);
    unsigned v = 3, n = 64;
    void *params[] = {&p, &v, &n};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 0};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 64,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = &attribute,
                             .numAttrs = 1};

    OK(cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernel(&kernel, library, "fill"));
    launch_fill((CUfunction)kernel, p, 2, n, NULL);
    check(p, 2, n);
    OK(cu.cuLaunchKernelEx(&config, fill, params, NULL));
    check(p, 3, n);
    /* what the driver refuses must not be looked at before it */
    IS(cu.cuLaunchKernelEx(NULL, fill, params, NULL), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemcpy2D(NULL), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemcpy3D(NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuLibraryUnload(library));
}

/* ---------------------------------------------------------------- memory */

static CUmemGenericAllocationHandle physical(size_t bytes)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle h;

    OK(cu.cuMemCreate(&h, bytes, &prop, 0));
    return h;
}

static void map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle h)
{
    CUmemAccessDesc access = {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    OK(cu.cuMemMap(at, bytes, 0, h, 0));
    OK(cu.cuMemSetAccess(at, bytes, &access, 1));
}

/* A segment that grows by pieces, shrinks, and gets another piece of memory at the same address;
 * the kernel that could write anywhere looks at nothing that is not mapped. */
static void segments(void)
{
    const size_t piece = 2 << 20;
    CUmemGenericAllocationHandle h[3] = {physical(piece), physical(piece), physical(piece)};
    CUdeviceptr va, q = memory(256), table = memory(8);
    unsigned v = 4;
    void *params[] = {&table, &v};

    OK(cu.cuMemcpyHtoD(table, &q, 8));
    OK(cu.cuMemAddressReserve(&va, 2 * piece, 0, 0, 0));
    map(va, piece, h[0]);
    launch_fill(fill, va, 1, 256, NULL);
    OK(cu.cuLaunchKernel(by_table, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    map(va + piece, piece, h[1]);
    launch_fill(fill, va + piece, 2, 256, NULL);
    check(va, 1, 256);
    OK(cu.cuMemUnmap(va, piece));
    OK(cu.cuLaunchKernel(by_table, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    map(va, piece, h[2]);
    launch_fill(fill, va, 3, 256, NULL);
    check(va, 3, 256);
    check(va + piece, 2, 256);
    OK(cu.cuMemUnmap(va, 2 * piece));
    OK(cu.cuLaunchKernel(by_table, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    check(q, 4, 64);
}

/* Blocks of an allocation that are known by themselves; a table leads to one of them. */
static void blocks(void)
{
    CUdeviceptr whole = memory(65536), table = memory(8), block = whole + 4096;
    unsigned v = 8;
    void *params[] = {&table, &v};

    twinbit_tensor((const void *)block, 256, "u32", "block");
    twinbit_tensor((const void *)(block + 256), 256, "u32", "next");
    OK(cu.cuMemsetD8(whole, 1, 4096));
    OK(cu.cuMemsetD8(block, 0, 256));
    OK(cu.cuMemsetD8(block + 256, 0, 256));
    OK(cu.cuMemcpyHtoD(table, &block, 8));
    OK(cu.cuLaunchKernel(by_table, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    launch_fill(fill, whole, 0x01010101, 64, NULL);
    check(block, 8, 64);
    check(block + 256, 0, 64);
    check(whole, 0x01010101, 1024);
}

/* Memory of a pool that is used again; what a capture allocates is not there outside of its graph.
 */
static void pool(void)
{
    CUdeviceptr p, inside, q = memory(256), table = memory(8);
    CUstream s;
    CUgraph graph;
    unsigned v = 4;
    void *params[] = {&table, &v};

    OK(cu.cuMemcpyHtoD(table, &q, 8));
    OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 1; i < 4; i++) {
        OK(cu.cuMemAllocAsync(&p, 1024, s));
        launch_fill(fill, p, i, 256, s);
        OK(cu.cuStreamSynchronize(s));
        check(p, i, 256);
        OK(cu.cuMemFreeAsync(p, s));
    }
    OK(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cu.cuMemAllocAsync(&inside, 1024, s));
    launch_fill(fill, inside, 9, 256, s);
    OK(cu.cuMemFreeAsync(inside, s));
    OK(cu.cuStreamEndCapture(s, &graph));
    OK(cu.cuLaunchKernel(by_table, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    check(q, 4, 64);
}

/* ---------------------------------------------------------------- contexts */

static void again(void)
{
    CUdeviceptr p = memory(256), q = memory(256), table = memory(8);
    unsigned v = 6;
    void *params[] = {&table, &v}, *one[] = {&v};

    OK(cu.cuMemsetD8(q, 0, 256));
    OK(cu.cuMemcpyHtoD(table, &q, 8));
    launch_fill(fill, p, 1, 64, NULL);
    OK(cu.cuLaunchKernel(by_global, 1, 1, 1, 64, 1, 1, 0, NULL, one, NULL));
    OK(cu.cuLaunchKernel(by_table, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    check(p, 1, 64);
    check(q, 6, 64);
}

/* The primary context ends by reset and by its last release, another one by destroy; each time all
 * that was in it is gone, and CUDA starts again. */
static void reset(void)
{
    again();
    OK(cu.cuDevicePrimaryCtxReset(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    load();
    again();
    while (cu.cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS)
        ;
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    load();
    again();
    for (int i = 0; i < 2; i++) {
        CUcontext other;
        OK(cu.create(&other, 0, 0));
        load();
        again();
        OK(cu.cuCtxDestroy(other));
    }
    OK(cu.cuCtxSetCurrent(context));
    load();
    again();
}

static CUfunction kernel_of(CUlibrary library, const char *name)
{
    CUkernel k;

    OK(cu.cuLibraryGetKernel(&k, library, name));
    return (CUfunction)k;
}

/* A library outlives its device's contexts: its variable lies elsewhere in the next one. */
static void library(void)
{
    CUlibrary l;

    OK(cu.cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0));
    fill = kernel_of(l, "fill");
    by_global = kernel_of(l, "by_global");
    by_table = kernel_of(l, "by_table");
    again();
    for (int i = 0; i < 2; i++) {
        OK(cu.cuDevicePrimaryCtxReset(0));
        OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
        OK(cu.cuCtxSetCurrent(context));
        again();
    }
}

/* Modules that come and go, with variables of theirs. */
static void modules(void)
{
    CUdeviceptr variable;
    size_t bytes;

    for (int i = 0; i < 3; i++) {
        OK(cu.cuModuleGetGlobal(&variable, &bytes, module, "counter"));
        again();
        OK(cu.cuModuleUnload(module));
        load();
    }
    again();
}

/* Both devices, in turn; a kernel that may write anywhere does so on its own device. */
static void devices(void)
{
    CUcontext other, first = context;

    again();
    OK(cu.cuDevicePrimaryCtxRetain(&other, 1));
    OK(cu.cuCtxSetCurrent(other));
    load();
    again();
    OK(cu.cuCtxSetCurrent(first));
    load();
    again();
}

/* After a fault the context answers with it; a reset makes a new one. */
static void fault(void)
{
    CUdeviceptr p = memory(256);

    launch_fill(fill, p, 1, 64, NULL);
    OK(cu.synchronize());
    OK(cu.cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    IS(cu.synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    IS(cu.cuMemsetD8(p, 0, 256), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cu.cuDevicePrimaryCtxReset(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    load();
    again();
}

/* ---------------------------------------------------------------- processes */

static void at_the_end(void)
{
    again();
    printf("ok at exit\n");
    fflush(stdout);
}

__attribute__((destructor)) static void last(void)
{
    if (context && cu.synchronize)
        (void)cu.synchronize();
}

static void ending(void)
{
    (void)atexit(at_the_end);
    again();
}

static void killed(void)
{
    CUdeviceptr p = memory(1024);

    for (unsigned i = 0; i < 20; i++)
        launch_fill(fill, p, i, 256, NULL);
    check(p, 19, 256);
    printf("ok killed\n");
    fflush(stdout);
    (void)raise(SIGKILL);
}

static int wait_for(pid_t pid)
{
    int status = 0;

    must_be(waitpid(pid, &status, 0) == pid, 1, "waitpid", __LINE__);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* A child of a process that has CUDA may not use it: it gets the driver's answer, nothing else. */
static void late_fork(void)
{
    CUdeviceptr p = memory(1024);

    launch_fill(fill, p, 1, 256, NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(cu.cuMemsetD8(p, 0, 1024) == CUDA_SUCCESS ? 1 : 0);
    must_be(wait_for(pid), 0, "child", __LINE__);
    check(p, 1, 256);
}

/* before CUDA has started: each child starts it itself */
static void early_fork(void)
{
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            pitfalls_begin();
            again();
            exit(0);
        }
        must_be(wait_for(pid), 0, "child", __LINE__);
    }
}

/* ---------------------------------------------------------------- marks */

static void marks(void)
{
    CUdeviceptr p = memory(1024), q = memory(1024);

    twinbit_tensor((const void *)p, 1024, "i32", "weights");
    for (unsigned step = 0; step < 4; step++) {
        twinbit_range_push("attention");
        launch_fill(fill, p, step, 256, NULL);
        twinbit_range_pop();
        twinbit_pause(1);
        launch_fill(fill, q, step, 256, NULL);
        twinbit_pause(0);
        OK(cu.cuMemcpyDtoD(q, p, 1024));
        twinbit_step();
    }
    check(q, 3, 256);
}

/* Names that a shell or a terminal would obey; the copy is of $PITFALL_VALUE. */
static void names(void)
{
    CUdeviceptr p = memory(1024);
    const char *value = getenv("PITFALL_VALUE");
    int data[256] = {value ? atoi(value) : 0};

    twinbit_tensor((const void *)p, 1024, "i32", "two\nlines\033[31m");
    twinbit_range_push("it's $(touch pwned)`touch pwned`\033[31m");
    OK(cu.cuMemcpyHtoD(p, data, sizeof(data)));
    launch_fill(fill, p, 4, 256, NULL);
    twinbit_range_pop();
}

/* Ranges of NVTX, and twinbit.h's within. */
static void nvtx(void)
{
#ifdef HAVE_NVTX
    CUdeviceptr p = memory(1024);

    (void)nvtxRangePushA("layer");
    launch_fill(fill, p, 1, 256, NULL);
    (void)nvtxRangePushA("inner");
    launch_fill(fill, p, 2, 256, NULL);
    (void)nvtxRangePop();
    twinbit_range_push("own");
    launch_fill(fill, p, 3, 256, NULL);
    twinbit_range_pop();
    (void)nvtxRangePop();
    launch_fill(fill, p, 4, 256, NULL);
    check(p, 4, 256);
#else
    printf("no header of NVTX\n");
#endif
}

static void many(void)
{
    CUdeviceptr p = memory(1024);

    for (unsigned i = 0; i < 100; i++)
        launch_fill(fill, p, i, 256, NULL);
    check(p, 99, 256);
}

static const struct {
    const char *name;
    void (*run)(void);
    bool starts; /* CUDA itself */
} cases[] = {
    {"args", args, false},
    {"equal", equal, false},
    {"hidden", hidden, false},
    {"handles", handles, false},
    {"segments", segments, false},
    {"blocks", blocks, false},
    {"pool", pool, false},
    {"reset", reset, false},
    {"library", library, false},
    {"modules", modules, false},
    {"devices", devices, false},
    {"fault", fault, false},
    {"ending", ending, false},
    {"killed", killed, false},
    {"late_fork", late_fork, false},
    {"early_fork", early_fork, true},
    {"plans", pitfalls_plans, false},
    {"marks", marks, false},
    {"many", many, false},
    {"names", names, false},
    {"nvtx", nvtx, false},
    {"threads", pitfalls_threads, true},
    {"capture", pitfalls_capture, true},
    {"halves", pitfalls_halves, false},
    {"peek", pitfalls_peek, false},
    {"parts", pitfalls_parts, false},
    {"kinds", pitfalls_kinds, false},
    {"nested", pitfalls_nested, false},
    {"graph_memory", pitfalls_graph_memory, false},
    {"elsewhere", pitfalls_elsewhere, false},
    {"split", pitfalls_split, false},
    {"split_thread", pitfalls_split_thread, false},
    {"states_named", pitfalls_states_named, false},
    {"states_unnamed", pitfalls_states_unnamed, false},
    {"states_streams", pitfalls_states_streams, false},
    {"states_halves", pitfalls_states_halves, false},
    {"states_early", pitfalls_states_early, false},
    {"states_gone", pitfalls_states_gone, false},
    {"states_large", pitfalls_states_large, false},
    {"states_freed", pitfalls_states_freed, false},
    {"states_last", pitfalls_states_last, false},
    {"branch_halves", pitfalls_branch_halves, false},
    {"branch_base", pitfalls_branch_base, false},
    {"branch_stuck", pitfalls_branch_stuck, false},
    {"branch_child", pitfalls_branch_child, false},
    {"branch_change", pitfalls_branch_change, false},
    {"branch_read", pitfalls_branch_read, false},
    {"branch_update", pitfalls_branch_update, false},
    {"branch_many", pitfalls_branch_many, false},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            open_cuda();
            if (!cases[i].starts)
                pitfalls_begin();
            cases[i].run();
            printf("ok %s\n", argv[1]);
            return 0;
        }
    fprintf(stderr, "usage: pitfalls CASE\n");
    return 2;
}
