// Virtual memory management by the driver API, found through cudaGetDriverEntryPointByVersion:
// reserve, create, map twice, set access, grow in place, unmap, remap.
#include "driver.cuh"

__global__ void iota(int *x, int start, size_t n)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = start + (int)i;
}

int main()
{
    int supported = 0;
    CHECK(cudaFree(nullptr)); // makes the context
    USE(cuDeviceGetAttribute);
    USE(cuMemGetAllocationGranularity);
    USE(cuMemAddressReserve);
    USE(cuMemAddressFree);
    USE(cuMemCreate);
    USE(cuMemRelease);
    USE(cuMemMap);
    USE(cuMemUnmap);
    USE(cuMemSetAccess);
    USE(cuMemGetAccess);
    DRV(p_cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                               0));
    if (!supported)
        skip("the device has no virtual memory management");

    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t grain = 0;
    DRV(p_cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size_t n = grain / sizeof(int);
    CUdeviceptr va;
    CUmemGenericAllocationHandle a, b;
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRV(p_cuMemAddressReserve(&va, 4 * grain, 0, 0, 0));
    DRV(p_cuMemCreate(&a, grain, &prop, 0));
    DRV(p_cuMemCreate(&b, grain, &prop, 0));
    DRV(p_cuMemMap(va, grain, 0, a, 0));
    DRV(p_cuMemSetAccess(va, grain, &access, 1));
    iota<<<4, 128>>>((int *)va, 100, n);
    SYNC();
    DRV(p_cuMemMap(va + grain, grain, 0, b, 0)); // grows in place
    DRV(p_cuMemSetAccess(va + grain, grain, &access, 1));
    DRV(p_cuMemMap(va + 2 * grain, grain, 0, a, 0)); // the first memory once more
    DRV(p_cuMemSetAccess(va + 2 * grain, grain, &access, 1));
    unsigned long long flags = 0;
    DRV(p_cuMemGetAccess(&flags, &prop.location, va));
    expect_value("access", (int)flags, (int)CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    iota<<<4, 128>>>((int *)(va + grain), 7, n);
    CHECK(cudaMemset((void *)(va + 2 * grain), 0xff, 64));
    SYNC();
    std::vector<int> got(2 * n), want(2 * n);
    CHECK(cudaMemcpy(got.data(), (void *)va, 2 * grain, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++) {
        want[i] = i < 16 ? -1 : 100 + (int)i;
        want[n + i] = 7 + (int)i;
    }
    expect_equal("mapped", got, want);

    DRV(p_cuMemUnmap(va, 3 * grain));
    DRV(p_cuMemMap(va + 3 * grain, grain, 0, b, 0)); // contents outlive the mapping
    DRV(p_cuMemSetAccess(va + 3 * grain, grain, &access, 1));
    CHECK(cudaMemcpy(got.data(), (void *)(va + 3 * grain), grain, cudaMemcpyDeviceToHost));
    expect_equal("remapped", std::vector<int>(&got[0], &got[n]),
                 std::vector<int>(&want[n], &want[n] + n));
    DRV(p_cuMemUnmap(va + 3 * grain, grain));
    DRV(p_cuMemRelease(a));
    DRV(p_cuMemRelease(b));
    DRV(p_cuMemAddressFree(va, 4 * grain));
    if (p_cuMemCreate(&a, grain + 1, &prop, 0) != CUDA_ERROR_INVALID_VALUE)
        fail("a size that is no multiple of the granularity was accepted");
    return ok("virtual memory: mapped twice, grown, remapped");
}
