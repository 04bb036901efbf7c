/*
 * pitfalls: launches that come back with the same arguments while something else changes. What a
 * recorder has kept of the launches before must not be believed.
 */
#include "pitfalls.h"

#include <stdbool.h>
#include <stddef.h>

#include "include/twinbit.h"

#define TIMES 4u /* until the recorder knows the launch */
#define PIECE (2u << 20)
#define BUFFERS 70u

static const char image[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry store(.param .u64 p, .param .u64 v) {\n"
    " .reg .b32 %r0; .reg .b64 %d<5>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u64 %d1, [v]; cvta.to.global.u64 %d0, %d0;\n"
    " mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 8; add.u64 %d3, %d0, %d2;\n"
    " st.global.u64 [%d3], %d1; ret; }\n";

static void launch(CUdeviceptr p, unsigned grid, CUstream s)
{
    unsigned v = 7, n = 64 * grid;
    void *params[] = {&p, &v, &n};

    for (unsigned i = 0; i < TIMES; i++)
        OK(cu.cuLaunchKernel(pitfalls_fill(), grid, 1, 1, 64, 1, 1, 0, s, params, NULL));
}

static void map(CUdeviceptr at, size_t bytes)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;

    OK(cu.cuMemCreate(&h, bytes, &prop, 0));
    OK(cu.cuMemMap(at, bytes, 0, h, 0));
    OK(cu.cuMemSetAccess(at, bytes, &access, 1));
}

/* The same address is memory of another size. */
static void other_memory(CUdeviceptr at)
{
    map(at, PIECE);
    launch(at, 1, NULL);
    OK(cu.cuMemUnmap(at, PIECE));
    map(at, 2 * PIECE);
    launch(at, 1, NULL);
    OK(cu.cuMemUnmap(at, 2 * PIECE));
}

/* A number is none any more: memory was mapped where it points to. */
static void number(CUdeviceptr at)
{
    CUdeviceptr p, v = at + 64;
    void *params[] = {&p, &v};
    CUmodule module;
    CUfunction store;

    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&store, module, "store"));
    OK(cu.cuMemAlloc(&p, 512));
    for (unsigned i = 0; i < 3 * TIMES; i++) {
        if (i == TIMES)
            map(at, PIECE);
        if (i == 2 * TIMES)
            OK(cu.cuMemUnmap(at, PIECE));
        OK(cu.cuLaunchKernel(store, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    }
}

/* Other grids, a name, a part that gets a name of its own. */
static void names(CUdeviceptr p)
{
    launch(p, 1, NULL);
    launch(p, 2, NULL);
    launch(p, 1, NULL);
    twinbit_tensor((const void *)p, 4096, "i32", "whole");
    launch(p, 1, NULL);
    twinbit_tensor((const void *)p, 1024, "i32", "part");
    launch(p, 1, NULL);
}

/* Another stream takes over, in order and then not: each has its half. */
static void streams(CUdeviceptr p)
{
    CUstream s[2];
    CUevent e;

    OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 2; i++)
        OK(cu.cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    launch(p, 1, s[0]);
    OK(cu.cuEventRecord(e, s[0]));
    OK(cu.cuStreamWaitEvent(s[1], e, 0));
    launch(p, 1, s[1]);
    OK(cu.cuStreamSynchronize(s[1]));
    for (unsigned i = 0; i < TIMES; i++) {
        launch(p + 2048, 1, s[0]);
        launch(p, 1, s[1]);
    }
    OK(cu.cuStreamSynchronize(s[0]));
    OK(cu.cuStreamSynchronize(s[1]));
}

/* More launches than are kept, and the first ones again. */
static void many(void)
{
    CUdeviceptr p[BUFFERS];

    for (unsigned i = 0; i < BUFFERS; i++) {
        OK(cu.cuMemAlloc(&p[i], 256 + 256 * i));
        launch(p[i], 1, NULL);
    }
    for (unsigned i = 0; i < BUFFERS; i++)
        launch(p[i], 1, NULL);
    for (unsigned i = 0; i < BUFFERS; i += 2)
        OK(cu.cuMemFree(p[i]));
    for (unsigned i = 1; i < BUFFERS; i += 2)
        launch(p[i], 1, NULL);
}

/* One stream; the host takes a number out of a buffer that a kernel writes whole. */
void pitfalls_peek(void)
{
    unsigned v = 7, n = 4096, seen;
    void *params[] = {NULL, &v, &n};
    CUdeviceptr p;
    CUstream s;

    OK(cu.cuMemAlloc(&p, 4 * n));
    OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    params[0] = &p;
    for (; v < 11; v++) {
        OK(cu.cuLaunchKernel(pitfalls_fill(), n / 64, 1, 1, 64, 1, 1, 0, s, params, NULL));
        OK(cu.cuMemcpyDtoHAsync(&seen, p + 64, sizeof(seen), s));
        OK(cu.cuMemsetD8Async(p + 128, 0, 8, s));
    }
    OK(cu.cuStreamSynchronize(s));
    IS(seen, 10);
}

/* The same work on memory of one size and of two kinds; the host writes what is its, too. */
void pitfalls_kinds(void)
{
    CUdeviceptr p[4], to;
    unsigned seen[64];

    OK(cu.cuMemAlloc(&to, 256));
    for (unsigned i = 0; i < 4; i++) {
        bool managed = i == 1 || i == 2;
        if (managed)
            OK(cu.cuMemAllocManaged(&p[i], 256, CU_MEM_ATTACH_GLOBAL));
        else
            OK(cu.cuMemAlloc(&p[i], 256));
        launch(p[i], 1, NULL);
        OK(cu.synchronize());
        if (managed)
            ((unsigned *)p[i])[3] = 8;
        OK(cu.cuMemcpyDtoD(to, p[i], 256));
        OK(cu.cuMemcpyDtoH(seen, to, 256));
        IS(seen[3], managed ? 8 : 7);
    }
}

/* Names for parts of an allocation that one kernel writes whole, and for more than there is. */
void pitfalls_parts(void)
{
    unsigned v = 7, n = 4096;
    void *params[] = {NULL, &v, &n};
    CUdeviceptr p, q;

    OK(cu.cuMemAlloc(&p, 4 * n));
    OK(cu.cuMemAlloc(&q, 256));
    twinbit_tensor((const void *)p, 4096, "i32", "first");
    twinbit_tensor((const void *)(p + 4096), 4096, "i32", "second");
    twinbit_tensor((const void *)q, 1u << 30, "i32", "too long");
    params[0] = &p;
    OK(cu.cuLaunchKernel(pitfalls_fill(), n / 64, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    launch(q, 1, NULL);
    OK(cu.cuMemsetD8Async(p, 1, 4 * n, NULL));
    OK(cu.synchronize());
}

void pitfalls_plans(void)
{
    CUdeviceptr at, p;

    OK(cu.cuMemAddressReserve(&at, 2 * PIECE, 0, 0, 0));
    OK(cu.cuMemAlloc(&p, 4096));
    other_memory(at);
    number(at);
    names(p);
    streams(p);
    many();
    OK(cu.synchronize());
}
