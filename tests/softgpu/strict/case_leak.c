/* What is still there when a program ends. */
#include "tests/softgpu/strict/case.h"

static void device_memory(bool bad)
{
    CUdeviceptr p[3];

    strict_keep = true;
    for (int i = 0; i < 3; i++)
        OK(cuMemAlloc(&p[i], 512));
    for (int i = 0; !bad && i < 3; i++)
        OK(cuMemFree(p[i]));
}

static void pinned_memory(bool bad)
{
    void *p;

    strict_keep = true;
    OK(cuMemHostAlloc(&p, 4096, 0));
    if (!bad)
        OK(cuMemFreeHost(p));
}

static void managed_memory(bool bad)
{
    CUdeviceptr p;

    strict_keep = true;
    OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
    if (!bad)
        OK(cuMemFree(p));
}

static void pool_memory(bool bad)
{
    CUdeviceptr p;

    strict_keep = true;
    OK(cuMemAllocAsync(&p, 4096, NULL));
    if (!bad)
        OK(cuMemFreeAsync(p, NULL));
}

static void mapped_memory(bool bad)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    size_t size = 2 << 20;

    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    strict_keep = true;
    OK(cuMemAddressReserve(&p, size, 0, 0, 0));
    OK(cuMemCreate(&handle, size, &prop, 0));
    OK(cuMemMap(p, size, 0, handle, 0));
    OK(cuMemRelease(handle));
    if (bad)
        exit(0); /* the range is there too, but that is a note of another rule */
    OK(cuMemUnmap(p, size));
    OK(cuMemAddressFree(p, size));
}

/* Memory of a context goes with it. */
static void context_ends(bool bad)
{
    CUdeviceptr p;
    CUcontext ctx;

    strict_keep = true;
    OK(cuCtxCreate(&ctx, NULL, 0, 0));
    if (bad)
        OK(cuCtxSetCurrent(strict_ctx));
    OK(cuMemAlloc(&p, 512));
    OK(cuCtxDestroy(ctx));
}

static void handles(bool bad)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUstream stream;
    CUevent event;
    CUgraph graph;

    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    strict_keep = true;
    OK(cuStreamCreate(&stream, 0));
    OK(cuEventCreate(&event, 0));
    OK(cuGraphCreate(&graph, 0));
    OK(cuMemCreate(&handle, 2 << 20, &prop, 0));
    if (bad)
        return;
    OK(cuStreamDestroy(stream));
    OK(cuEventDestroy(event));
    OK(cuGraphDestroy(graph));
    OK(cuMemRelease(handle));
}

static const struct strict_case cases[] = {
    {"device_memory", "leak", "-", device_memory},
    {"pinned_memory", "leak", "-", pinned_memory},
    {"managed_memory", "leak", "-", managed_memory},
    {"pool_memory", "leak", "-", pool_memory},
    {"mapped_memory", "leak,leaked-handle", "-", mapped_memory},
    {"context_ends", "leak", "-", context_ends},
    {"handles", "leaked-handle", "-", handles},
};

int main(int argc, char **argv)
{
    return strict_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
