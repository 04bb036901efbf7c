/*
 * Memory that is written in part, and what is made of it: the program of
 * tests/e2e/t091-run-poison-cuda.sh. KIND says how the memory is allocated, CASE what is read of
 * it.
 *
 * usage: poison KIND CASE; start at main()
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 512u    /* words of an allocation */
#define HALF 256u /* that are written */
#define VMM (2u << 20)
#define LARGE 65536u

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocPitch)                                                                             \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemAllocFromPoolAsync)                                                                     \
    X(cuMemAllocHost)                                                                              \
    X(cuMemPoolCreate)                                                                             \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemSetAccess)                                                                              \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemcpy2D)                                                                                  \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuMemcpyDtoD)                                                                                \
    X(cuMemcpyHtoD)                                                                                \
    X(cuLaunchKernel)                                                                              \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphLaunch)

#include "tests/recorder/cuda/driver.h"

#define KERNEL(name, op)                                                                           \
    ".visible .entry " name "(.param .u64 a, .param .u64 b) {\n"                                   \
    " .reg .b32 %r<4>; .reg .b64 %d<5>;\n"                                                         \
    " ld.param.u64 %d0, [a]; ld.param.u64 %d3, [b];\n"                                             \
    " cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d3, %d3;\n"                                 \
    " mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 64, %r2;\n"                 \
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1; add.u64 %d4, %d3, %d1;\n" op " ret; }\n"

static const char image[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* a[i] = i */
    KERNEL("number", "st.global.u32 [%d2], %r2;")
    /* b[i] = a[i] */
    KERNEL("move", "ld.global.u32 %r0, [%d2]; st.global.u32 [%d4], %r0;")
    /* b[i] = 2 * a[i] + 1 */
    KERNEL("twice",
           "ld.global.u32 %r0, [%d2]; mad.lo.u32 %r0, %r0, 2, 1; st.global.u32 [%d4], %r0;");

static CUfunction number, move, twice;
static CUstream stream;
static CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

static void begin(void)
{
    CUmodule module;

    load_driver();
    (void)start_driver();
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&number, module, "number"));
    OK(cu.cuModuleGetFunction(&move, module, "move"));
    OK(cu.cuModuleGetFunction(&twice, module, "twice"));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static CUdeviceptr mapped(CUmemGenericAllocationHandle *handle)
{
    CUdeviceptr p = 0;

    OK(cu.cuMemAddressReserve(&p, VMM, 0, 0, 0));
    OK(cu.cuMemMap(p, VMM, 0, *handle, 0));
    OK(cu.cuMemSetAccess(p, VMM, &access, 1));
    return p;
}

static CUdeviceptr from_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr p = 0;

    OK(cu.cuMemPoolCreate(&pool, &props));
    OK(cu.cuMemAllocFromPoolAsync(&p, N * 4, pool, stream));
    return p;
}

/* Memory of N words that nobody has written. */
static CUdeviceptr memory(const char *kind)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p = 0;
    size_t pitch;

    if (strcmp(kind, "alloc") == 0)
        OK(cu.cuMemAlloc(&p, N * 4));
    else if (strcmp(kind, "pitch") == 0)
        OK(cu.cuMemAllocPitch(&p, &pitch, 1024, 2, 4));
    else if (strcmp(kind, "managed") == 0)
        OK(cu.cuMemAllocManaged(&p, N * 4, CU_MEM_ATTACH_GLOBAL));
    else if (strcmp(kind, "host") == 0)
        OK(cu.cuMemAllocHost((void **)&p, N * 4));
    else if (strcmp(kind, "async") == 0)
        OK(cu.cuMemAllocAsync(&p, N * 4, stream));
    else if (strcmp(kind, "pool") == 0)
        p = from_pool();
    else if (strcmp(kind, "mapped") == 0) {
        OK(cu.cuMemCreate(&handle, VMM, &prop, 0));
        p = mapped(&handle);
    } else
        exit(2);
    return p;
}

static void launch(CUfunction f, CUdeviceptr a, CUdeviceptr b, unsigned words)
{
    void *params[] = {&a, &b};

    OK(cu.cuLaunchKernel(f, words / 64, 1, 1, 64, 1, 1, 0, stream, params, NULL));
}

static void bring(CUdeviceptr p, unsigned words, const char *what)
{
    unsigned char got[N * 4];
    unsigned sum = 0;

    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemcpyDtoH(got, p, words * 4));
    for (unsigned i = 0; i < words * 4; i++)
        sum = sum * 31 + got[i];
    printf("%s %08x, last byte %02x\n", what, sum, got[words * 4 - 1]);
}

/* Both kernels by a graph, so that its nodes are looked at. */
static void by_graph(CUfunction f, CUdeviceptr a, CUdeviceptr b, unsigned words)
{
    CUgraph graph;
    CUgraphExec exec;

    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch(number, a, 0, HALF);
    launch(f, a, b, words);
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, stream));
}

/* More than the host hashes itself, or by a node of a graph. */
static void leave(bool graph, bool only)
{
    CUdeviceptr p;
    void *to;

    OK(cu.cuMemAlloc(&p, LARGE));
    OK(cu.cuMemAllocHost(&to, LARGE));
    if (graph) {
        CUgraph g;
        CUgraphExec exec;
        OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch(number, p, 0, HALF);
        OK(cu.cuMemcpyDtoHAsync(to, p, LARGE, stream));
        OK(cu.cuStreamEndCapture(stream, &g));
        OK(cu.cuGraphInstantiateWithFlags(&exec, g, 0));
        OK(cu.cuGraphLaunch(exec, stream));
        OK(cu.cuStreamSynchronize(stream));
    } else {
        if (!only)
            launch(number, p, 0, HALF);
        OK(cu.cuStreamSynchronize(stream));
        OK(cu.cuMemcpyDtoH(to, p, LARGE));
    }
}

/* Physical memory that is mapped once more holds what it held. */
static void again(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;

    OK(cu.cuMemCreate(&handle, VMM, &prop, 0));
    p = mapped(&handle);
    launch(number, p, 0, N);
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemUnmap(p, VMM));
    p = mapped(&handle);
    OK(cu.cuMemRelease(handle));
    bring(p, N, "again");
}

/* A block of the host's in which half is set, copied whole. */
static void from_host(CUdeviceptr a, CUdeviceptr b)
{
    unsigned *block = malloc(N * 4);

    if (!block)
        exit(1);

    for (unsigned i = 0; i < HALF; i++)
        block[i] = i;
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemcpyHtoD(a, block, N * 4));
    launch(twice, a, b, HALF);
    bring(b, HALF, "host");
    free(block);
}

/* Two rows with a gap between them, which nobody writes or reads. */
static void rows(CUdeviceptr a, CUdeviceptr b)
{
    unsigned block[128] = {1, 2, 3};
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = block,
                          .srcPitch = 256,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = a,
                          .dstPitch = 1024,
                          .WidthInBytes = 256,
                          .Height = 2};

    OK(cu.cuMemcpy2D(&copy));
    launch(twice, a + 1024, b, 64);
    bring(b, 64, "rows");
    copy = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = a,
                           .srcPitch = 1024,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = block,
                           .dstPitch = 256,
                           .WidthInBytes = 256,
                           .Height = 2};
    OK(cu.cuMemcpy2D(&copy));
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    begin();
    const char *what = argv[2];
    if (strcmp(what, "again") == 0) {
        again();
        return 0;
    }
    if (strncmp(what, "large", 5) == 0) {
        leave(strcmp(what, "large_graph") == 0, strcmp(what, "large_only") == 0);
        return 0;
    }
    CUdeviceptr a = memory(argv[1]), b = memory(argv[1]);
    if (strncmp(what, "graph", 5) == 0) {
        by_graph(twice, a, b, strcmp(what, "graph") == 0 ? HALF : HALF + 64);
        bring(b, HALF, what);
        return 0;
    }
    if (strcmp(what, "rows") == 0) {
        rows(a, b);
        return 0;
    }
    launch(number, a, 0, HALF);
    if (strcmp(what, "parts") == 0) { /* what was not written is not read */
        launch(twice, a, b, HALF);
        bring(b, HALF, what);
    } else if (strcmp(what, "read") == 0) { /* 64 words too many */
        launch(twice, a, b, HALF + 64);
        bring(b, HALF, what);
    } else if (strcmp(what, "leaves") == 0) {
        launch(twice, a, b, HALF);
        bring(b, N, what);
    } else if (strcmp(what, "moved") == 0) {
        launch(move, a, b, N);
        bring(b, N, what);
    } else if (strcmp(what, "bytes") == 0) { /* all of it is written, with each value of a byte */
        launch(number, a, 0, N);
        for (unsigned i = 0; i < 4; i++)
            launch(move, a, b, N);
        bring(b, N, what);
        bring(a, N, what);
    } else if (strcmp(what, "carried") == 0) { /* copied along, and left there */
        OK(cu.cuStreamSynchronize(stream));
        OK(cu.cuMemcpyDtoD(b, a, N * 4));
        bring(b, HALF, what);
    } else if (strcmp(what, "host") == 0) {
        from_host(a, b);
    } else {
        return 2;
    }
    return 0;
}
