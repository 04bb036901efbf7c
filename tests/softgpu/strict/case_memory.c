/* Faults of kernels, and uses of memory that is free. */
#include "tests/softgpu/strict/case.h"

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry store(.param .u64 p)\n{\n"
                          " .reg .u64 %a<1>;\n ld.param.u64 %a0, [p];\n"
                          " st.global.u32 [%a0], 7;\n ret;\n}\n";

static CUresult store(CUdeviceptr p)
{
    CUresult r = cuLaunchKernel(strict_kernel(ptx, "store"), 1, 1, 1, 1, 1, 1, 0, NULL,
                                (void *[]){&p}, NULL);

    return r == CUDA_SUCCESS ? cuCtxSynchronize() : r;
}

static void out_of_bounds(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 512));
    MAY(store(bad ? p + 512 : p + 508));
}

static void copy_too_long(bool bad)
{
    CUdeviceptr p;
    char host[101] = {0};

    OK(cuMemAlloc(&p, 100));
    MAY(cuMemcpyHtoD(p, host, bad ? 101 : 100));
}

static void set_too_long(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 100));
    MAY(cuMemsetD32(p + 4, 7, bad ? 25 : 24));
}

static void misaligned(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 512));
    MAY(store(bad ? p + 2 : p + 4));
}

static void kernel_uses_freed(bool bad)
{
    CUdeviceptr p, q;

    OK(cuMemAlloc(&p, 512));
    if (bad)
        OK(cuMemFree(p));
    OK(cuMemAlloc(&q, 512)); /* not at the same place */
    MAY(store(p));
}

static void copy_from_freed(bool bad)
{
    CUdeviceptr p;
    char host[16];

    OK(cuMemAlloc(&p, 512));
    OK(cuMemsetD8(p, 1, 512));
    if (bad)
        OK(cuMemFree(p));
    MAY(cuMemcpyDtoH(host, p + 16, sizeof(host)));
    if (!bad)
        OK(cuMemFree(p));
}

static void set_freed_host(bool bad)
{
    void *p;

    OK(cuMemAllocHost(&p, 4096));
    if (bad)
        OK(cuMemFreeHost(p));
    MAY(cuMemsetD8((CUdeviceptr)(uintptr_t)p, 0, 16));
}

/* The free is queued in the stream, and so is what comes after it. */
static void copy_behind_free(bool bad)
{
    CUdeviceptr p, q;

    OK(cuMemAlloc(&q, 512));
    OK(cuMemAllocAsync(&p, 512, CU_STREAM_PER_THREAD));
    OK(cuMemsetD8Async(p, 1, 512, CU_STREAM_PER_THREAD));
    if (bad)
        OK(cuMemFreeAsync(p, CU_STREAM_PER_THREAD));
    MAY(cuMemcpyDtoDAsync(q, p, 512, CU_STREAM_PER_THREAD));
    if (!bad)
        OK(cuMemFreeAsync(p, CU_STREAM_PER_THREAD));
    MAY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

/* Another allocation of the pool must not take its place. */
static void pool_reused(bool bad)
{
    CUdeviceptr p, q;

    OK(cuMemAllocAsync(&p, 512, CU_STREAM_PER_THREAD));
    OK(cuMemFreeAsync(p, CU_STREAM_PER_THREAD));
    OK(cuMemAllocAsync(&q, 512, CU_STREAM_PER_THREAD));
    MAY(cuMemsetD8Async(bad ? p : q, 1, 512, CU_STREAM_PER_THREAD));
    MAY(cuMemFreeAsync(q, CU_STREAM_PER_THREAD));
    MAY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

static void unmapped(bool bad)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    size_t size = 2 << 20;
    CUdeviceptr p;

    prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemAddressReserve(&p, size, 0, 0, 0));
    OK(cuMemCreate(&handle, size, &prop, 0));
    OK(cuMemMap(p, size, 0, handle, 0));
    OK(cuMemSetAccess(p, size, &access, 1));
    OK(cuMemsetD8(p, 0, size));
    OK(cuMemUnmap(p, size));
    if (!bad) { /* mapped anew: nothing is stale */
        OK(cuMemMap(p, size, 0, handle, 0));
        OK(cuMemSetAccess(p, size, &access, 1));
    }
    MAY(cuMemsetD8(p, 0, size));
    if (!bad)
        OK(cuMemUnmap(p, size));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(p, size));
}

static void ask_freed(bool bad)
{
    CUdeviceptr p;
    int type = 0;

    OK(cuMemAlloc(&p, 512));
    if (bad)
        OK(cuMemFree(p));
    MAY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
}

static void free_twice(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 512));
    OK(cuMemFree(p));
    if (bad)
        MAY(cuMemFree(p));
}

static void free_twice_async(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAllocAsync(&p, 512, NULL));
    OK(cuMemFreeAsync(p, NULL));
    if (bad)
        MAY(cuMemFreeAsync(p, NULL));
}

static const struct strict_case cases[] = {
    {"out_of_bounds", "out-of-bounds", "error", out_of_bounds},
    {"copy_too_long", "out-of-bounds", "error", copy_too_long},
    {"set_too_long", "out-of-bounds", "error", set_too_long},
    {"misaligned", "misaligned", "error", misaligned},
    {"kernel_uses_freed", "use-after-free", "error", kernel_uses_freed},
    {"copy_from_freed", "use-after-free", "error", copy_from_freed},
    {"set_freed_host", "use-after-free", "error", set_freed_host},
    {"copy_behind_free", "use-after-free", "error", copy_behind_free},
    {"pool_reused", "use-after-free", "error", pool_reused},
    {"unmapped", "use-after-free", "error", unmapped},
    {"ask_freed", "use-after-free", "error", ask_freed},
    {"free_twice", "double-free", "error", free_twice},
    {"free_twice_async", "double-free", "error", free_twice_async},
};

int main(int argc, char **argv)
{
    return strict_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
