/*
 * Memory that a program asks the driver to take back, and that the driver refuses; a managed
 * variable that kernels get as an argument only; sets and values that a stream writes into pinned
 * memory; a kernel that prints. In each, the last of four writes stores VALUE.
 *
 * usage: refused MODE VALUE; prints what the memory holds
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 64u
#define SHARE (2u << 20)

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuLibraryLoadData)                                                                           \
    X(cuLibraryGetKernel)                                                                          \
    X(cuLibraryGetManaged)                                                                         \
    X(cuKernelGetFunction)                                                                         \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocHost)                                                                              \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemFree)                                                                                   \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemHostUnregister)                                                                         \
    X(cuMemCreate)                                                                                 \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemMap)                                                                                    \
    X(cuMemSetAccess)                                                                              \
    X(cuMemUnmap)                                                                                  \
    X(cuIpcCloseMemHandle)                                                                         \
    X(cuCtxDestroy)                                                                                \
    X(cuCtxGetCurrent)                                                                             \
    X(cuStreamCreate)                                                                              \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuStreamWriteValue32)                                                                        \
    X(cuStreamSynchronize)                                                                         \
    X(cuMemsetD32Async)                                                                            \
    X(cuMemsetD2D32)                                                                               \
    X(cuMemcpyDtoH)                                                                                \
    X(cuLaunchKernel)

#include "tests/recorder/cuda/driver.h"

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".global .attribute(.managed) .align 4 .b8 shared[256];\n"
                          ".visible .entry put(.param .u64 p, .param .u32 x) {\n"
                          " .reg .b32 %r<3>; .reg .b64 %d<4>;\n"
                          " ld.param.u64 %d0, [p]; ld.param.u32 %r1, [x]; mov.u32 %r0, %tid.x;\n"
                          " mul.wide.u32 %d1, %r0, 4; add.u64 %d2, %d0, %d1; xor.b32 %r1, %r1, 0;\n"
                          " st.global.u32 [%d2], %r1; ret; }\n";

struct job {
    CUlibrary library;
    CUfunction put;
    CUstream stream;
    CUdeviceptr p;
    bool of_host;
};

static void map_one(CUdeviceptr *p)
{
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = what.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;

    OK(cu.cuMemCreate(&handle, SHARE, &what, 0));
    OK(cu.cuMemAddressReserve(p, SHARE, 0, 0, 0));
    OK(cu.cuMemMap(*p, SHARE, 0, handle, 0));
    OK(cu.cuMemSetAccess(*p, SHARE, &access, 1));
}

/* By the first letter: pinned, managed, of a pool, mapped, a variable; else of the device */
static void make(struct job *j, const char *mode)
{
    size_t bytes;
    void *host;

    j->of_host = strchr("pmv", mode[0]) != NULL;
    switch (mode[0]) {
    case 'p':
        OK(cu.cuMemAllocHost(&host, N * 4));
        j->p = (CUdeviceptr)(uintptr_t)host;
        break;
    case 'm':
        OK(cu.cuMemAllocManaged(&j->p, N * 4, CU_MEM_ATTACH_GLOBAL));
        break;
    case 'a':
        OK(cu.cuMemAllocAsync(&j->p, N * 4, j->stream));
        OK(cu.cuStreamSynchronize(j->stream));
        break;
    case 'x':
        map_one(&j->p);
        break;
    case 'v':
        OK(cu.cuLibraryGetManaged(&j->p, &bytes, j->library, "shared"));
        break;
    default:
        OK(cu.cuMemAlloc(&j->p, N * 4));
    }
}

/* Each is refused: it is no such memory, or a capture goes on. */
static CUresult take_back(struct job *j, const char *how)
{
    void *p = (void *)(uintptr_t)j->p;
    CUcontext context;
    CUgraph graph;
    CUresult r;

    if (strcmp(how, "free-host") == 0)
        return cu.cuMemFreeHost(p);
    if (strcmp(how, "unregister") == 0)
        return cu.cuMemHostUnregister(p);
    if (strcmp(how, "unmap") == 0)
        return cu.cuMemUnmap(j->p, SHARE / 2);
    if (strcmp(how, "ipc") == 0)
        return cu.cuIpcCloseMemHandle(j->p);
    if (strcmp(how, "free") == 0)
        return cu.cuMemFree(j->p);
    if (strcmp(how, "free-async") == 0)
        return cu.cuMemFreeAsync(j->p, j->stream);
    if (strcmp(how, "context") == 0) {
        OK(cu.cuCtxGetCurrent(&context));
        return cu.cuCtxDestroy(context);
    }
    OK(cu.cuStreamBeginCapture(j->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    r = cu.cuMemFree(j->p);
    (void)cu.cuStreamEndCapture(j->stream, &graph);
    return r;
}

static void put(const struct job *j, const char *how, unsigned value)
{
    CUdeviceptr p = j->p;
    void *args[] = {&p, &value};

    if (strcmp(how, "set") == 0)
        OK(cu.cuMemsetD32Async(j->p, value, N, j->stream));
    else if (strcmp(how, "set-2d") == 0)
        OK(cu.cuMemsetD2D32(j->p, 32, value, 4, N / 8));
    else if (strcmp(how, "value") == 0)
        OK(cu.cuStreamWriteValue32(j->stream, j->p, value, 0));
    else
        OK(cu.cuLaunchKernel(j->put, 1, 1, 1, N, 1, 1, 0, j->stream, args, NULL));
    OK(cu.cuStreamSynchronize(j->stream));
    OK(cu.synchronize());
}

int main(int argc, char **argv)
{
    const char *mode = argc == 3 ? argv[1] : "", *how = strchr(mode, ':');
    unsigned last = argc == 3 ? (unsigned)atoi(argv[2]) : 0, got[N] = {0};
    struct job j = {0};
    CUkernel kernel;

    if (!how)
        return 2;
    how++;
    load_driver();
    (void)start_driver();
    OK(cu.cuLibraryLoadData(&j.library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernel(&kernel, j.library, "put"));
    OK(cu.cuKernelGetFunction(&j.put, kernel));
    OK(cu.cuStreamCreate(&j.stream, CU_STREAM_NON_BLOCKING));
    make(&j, mode);
    for (unsigned i = 0; i < 4; i++) {
        put(&j, how, i == 3 ? last : i);
        if (i == 1 && strncmp(how, "set", 3) != 0 && strcmp(how, "value") != 0 &&
            strcmp(how, "pass") != 0 && take_back(&j, how) == CUDA_SUCCESS)
            return 3;
    }
    if (j.of_host)
        memcpy(got, (const void *)(uintptr_t)j.p, sizeof(got));
    else
        OK(cu.cuMemcpyDtoH(got, j.p, sizeof(got)));
    printf("%u\n", got[0]);
    return 0;
}
