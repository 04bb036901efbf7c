/*
 * Memory that is mapped in pieces of 2 MiB (cuMemMap): what a kernel writes through a pointer may
 * lie in several mappings of one reserved range, and one piece of memory may be mapped at two
 * addresses. tests/e2e/t129-diff-mappings.sh says what diff must say.
 *
 * usage: mappings CASE VALUE - one element that kernel add#1 writes differs by VALUE; start at
 * main()
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/twinbit.h"

#define PIECE ((size_t)2 << 20)
#define BYTES (3 * PIECE / 2) /* of a buffer over three pieces */

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc)                                                                                  \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemsetD8)                                                                                  \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemSetAccess)                                                                              \
    X(cuMemRetainAllocationHandle)                                                                 \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuStreamWaitEvent)                                                                           \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuGraphInstantiate)                                                                          \
    X(cuGraphLaunch)                                                                               \
    X(cuLaunchKernel)

#include "tests/recorder/cuda/driver.h"

static const char image[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* p[i] += 1 for all i < n, and p[n - 9] += v */
    ".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 v) {\n"
    " .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<3>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n]; ld.param.u32 %r1, [v];\n"
    " cvta.to.global.u64 %d0, %d0; sub.u32 %r6, %r0, 9;\n"
    " mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 256, %r2;\n"
    " setp.ge.u32 %p0, %r2, %r0; @%p0 ret;\n"
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1; ld.global.u32 %r4, [%d2];\n"
    " add.u32 %r4, %r4, 1; setp.eq.u32 %p1, %r2, %r6; @%p1 add.u32 %r4, %r4, %r1;\n"
    " st.global.u32 [%d2], %r4; ret; }\n"
    /* b[i] = a[i] for all i < n */
    ".visible .entry take(.param .u64 a, .param .u64 b, .param .u32 n) {\n"
    " .reg .b32 %r<8>; .reg .b64 %d<5>; .reg .pred %p<2>;\n"
    " ld.param.u64 %d0, [a]; ld.param.u64 %d3, [b]; ld.param.u32 %r0, [n];\n"
    " cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d3, %d3;\n"
    " mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 256, %r2;\n"
    " setp.ge.u32 %p0, %r2, %r0; @%p0 ret;\n"
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1; ld.global.u32 %r4, [%d2];\n"
    " add.u64 %d4, %d3, %d1; st.global.u32 [%d4], %r4; ret; }\n";

static CUfunction add_kernel, take_kernel;
static CUdeviceptr out;

static void begin(void)
{
    CUmodule module;

    load_driver();
    (void)start_driver();
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&add_kernel, module, "add"));
    OK(cu.cuModuleGetFunction(&take_kernel, module, "take"));
    OK(cu.cuMemAlloc(&out, BYTES));
}

static CUmemGenericAllocationHandle physical(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle h;

    OK(cu.cuMemCreate(&h, PIECE, &prop, 0));
    return h;
}

static void map(CUdeviceptr at, CUmemGenericAllocationHandle h)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    OK(cu.cuMemMap(at, PIECE, 0, h, 0));
    OK(cu.cuMemSetAccess(at, PIECE, &access, 1));
}

/* Pieces @from to @end of the range at @va get memory of their own, full of zeros. */
static void grow(CUdeviceptr va, unsigned from, unsigned end)
{
    for (unsigned i = from; i < end; i++) {
        map(va + i * PIECE, physical());
        OK(cu.cuMemsetD8(va + i * PIECE, 0, PIECE));
    }
}

static CUdeviceptr reserve(unsigned pieces)
{
    CUdeviceptr va;

    OK(cu.cuMemAddressReserve(&va, pieces * PIECE, 0, 0, 0));
    return va;
}

static void add(CUdeviceptr p, size_t bytes, unsigned v, CUstream s)
{
    unsigned n = (unsigned)(bytes / 4);
    void *params[] = {&p, &n, &v};

    OK(cu.cuLaunchKernel(add_kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, s, params, NULL));
}

static void take(CUdeviceptr p, size_t bytes)
{
    unsigned n = (unsigned)(bytes / 4);
    void *params[] = {&p, &out, &n};

    OK(cu.cuLaunchKernel(take_kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
}

static void tell(CUdeviceptr p, size_t bytes)
{
    static unsigned host[4 * PIECE / 4];
    unsigned sum = 0;

    OK(cu.cuMemcpyDtoH(host, p, bytes));
    for (size_t i = 0; i < bytes / 4; i++)
        sum = sum * 31 + host[i];
    printf("%08x\n", sum);
}

/* A buffer over three mappings of four, by its pointer or by its name. */
static void over(unsigned v, bool named)
{
    CUdeviceptr va = reserve(4), p = va + PIECE - 4096;

    grow(va, 0, 4);
    if (named)
        twinbit_tensor((void *)(uintptr_t)p, BYTES, "i32", "w");
    add(p, BYTES, 0, NULL);
    add(p, BYTES, v, NULL);
    take(p, BYTES);
    tell(out, BYTES);
}

/* The range has two pieces, then three, and equal launches go on; the one that differs is add#4. */
static void growing(unsigned v)
{
    CUdeviceptr va = reserve(4), p = va + PIECE - 4096;

    grow(va, 0, 2);
    for (int i = 0; i < 3; i++)
        add(p, 64, 0, NULL);
    grow(va, 2, 3);
    add(p, 64, 0, NULL);
    add(p, BYTES, v, NULL);
    take(p, BYTES);
    tell(out, BYTES);
}

/* A piece in the middle goes, with a name over it, and another one comes: add#3 differs. */
static void shrinking(unsigned v)
{
    CUdeviceptr va = reserve(3), p = va + PIECE - 4096;

    grow(va, 0, 3);
    twinbit_tensor((void *)(uintptr_t)p, BYTES, "i32", "w");
    add(p, BYTES, 0, NULL);
    OK(cu.synchronize());
    OK(cu.cuMemUnmap(va + PIECE, PIECE));
    add(p, 4096, 0, NULL);
    add(va + 2 * PIECE, 4096, 0, NULL);
    OK(cu.synchronize());
    grow(va, 1, 2);
    add(p, BYTES, v, NULL);
    take(p, BYTES);
    tell(out, BYTES);
}

/* One piece of memory at two addresses: written by one, read by the other. */
static void alias(unsigned v)
{
    CUmemGenericAllocationHandle h = physical(), again;
    CUdeviceptr va = reserve(1), vb = reserve(1);

    map(va, h);
    OK(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)va));
    OK(cu.cuMemRelease(h));
    OK(cu.cuMemsetD8(va, 0, PIECE));
    map(vb, again);
    for (unsigned i = 0; i < 3; i++) {
        add(vb, 4096, i == 1 ? v : 0, NULL);
        take(va, 4096);
    }
    tell(out, 4096);
    tell(vb, 4096);
}

/* Two streams write it at once, each by its own address. */
static void meet(void)
{
    CUmemGenericAllocationHandle h = physical();
    CUdeviceptr va = reserve(1), vb = reserve(1);
    CUstream s[2];

    map(va, h);
    map(vb, h);
    OK(cu.cuMemsetD8(va, 0, PIECE));
    OK(cu.synchronize());
    for (int i = 0; i < 2; i++) {
        OK(cu.cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
        add(i ? vb : va, 4096, 0, s[i]);
    }
    OK(cu.synchronize());
}

/* What a piece holds goes with it to another address. */
static void moved(unsigned v)
{
    CUmemGenericAllocationHandle h = physical();
    CUdeviceptr va = reserve(1), vb = reserve(1);

    map(va, h);
    OK(cu.cuMemsetD8(va, 0, PIECE));
    add(va, 4096, 0, NULL);
    add(va, 4096, v, NULL);
    OK(cu.synchronize());
    OK(cu.cuMemUnmap(va, PIECE));
    map(vb, h);
    take(vb, 4096);
    tell(out, 4096);
}

/* Two streams, or branches of a graph, each with a piece of its own in one range. */
static void apart(unsigned v, bool graph)
{
    CUdeviceptr va = reserve(2);
    CUstream s[2];
    CUevent e[2];
    CUgraph g;
    CUgraphExec x;

    grow(va, 0, 2);
    OK(cu.synchronize());
    for (int i = 0; i < 2; i++) {
        OK(cu.cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
        OK(cu.cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
    }
    if (graph) {
        OK(cu.cuStreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cu.cuEventRecord(e[0], s[0]));
        OK(cu.cuStreamWaitEvent(s[1], e[0], 0));
    }
    for (unsigned i = 0; i < 4; i++) {
        add(va, 4096, 0, s[0]);
        add(va + PIECE, 4096, i == 2 ? v : 0, s[1]);
    }
    if (graph) {
        OK(cu.cuEventRecord(e[1], s[1]));
        OK(cu.cuStreamWaitEvent(s[0], e[1], 0));
        OK(cu.cuStreamEndCapture(s[0], &g));
        OK(cu.cuGraphInstantiate(&x, g, 0));
        OK(cu.cuGraphLaunch(x, s[0]));
        OK(cu.cuGraphLaunch(x, s[0]));
    }
    for (int i = 0; i < 2; i++)
        OK(cu.cuStreamSynchronize(s[i]));
    tell(va, 4096);
    tell(va + PIECE, 4096);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    unsigned v = argc > 2 ? (unsigned)atoi(argv[2]) : 0;

    begin();
    if (strcmp(what, "over") == 0 || strcmp(what, "named") == 0)
        over(v, what[0] == 'n');
    else if (strcmp(what, "growing") == 0)
        growing(v);
    else if (strcmp(what, "shrinking") == 0)
        shrinking(v);
    else if (strcmp(what, "alias") == 0)
        alias(v);
    else if (strcmp(what, "meet") == 0)
        meet();
    else if (strcmp(what, "moved") == 0)
        moved(v);
    else
        apart(v, strcmp(what, "branches") == 0);
    return 0;
}
