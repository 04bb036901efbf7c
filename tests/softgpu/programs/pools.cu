// Stream-ordered allocation: malloc and free in streams, an own pool with a limit, reuse, trimming,
// attributes, allocations used by another stream after an event.
#include "check.cuh"

__global__ void fill(int *x, int v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = v + i;
}

static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which)
{
    uint64_t value = 0;
    CHECK(cudaMemPoolGetAttribute(pool, which, &value));
    return value;
}

int main()
{
    int supported = 0;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    if (!supported)
        skip("the device has no memory pools");
    cudaStream_t s, t;
    cudaEvent_t e;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamCreate(&t));
    CHECK(cudaEventCreate(&e));
    const int n = 3000;
    std::vector<int> got(n), want(n);
    for (int round = 0; round < 10; round++) {
        int *x, *y;
        CHECK(cudaMallocAsync((void **)&x, n * sizeof(int), s));
        fill<<<blocks_for(n, 128), 128, 0, s>>>(x, round * 1000, n);
        CHECK(cudaMallocAsync((void **)&y, n * sizeof(int), s));
        CHECK(cudaMemcpyAsync(y, x, n * sizeof(int), cudaMemcpyDeviceToDevice, s));
        CHECK(cudaFreeAsync(x, s));
        CHECK(cudaEventRecord(e, s));
        CHECK(cudaStreamWaitEvent(t, e, 0));
        CHECK(cudaMemcpyAsync(got.data(), y, n * sizeof(int), cudaMemcpyDeviceToHost, t));
        CHECK(cudaFreeAsync(y, t));
        CHECK(cudaStreamSynchronize(t));
        for (int i = 0; i < n; i++)
            want[i] = round * 1000 + i;
        expect_equal("round", got, want);
    }
    CHECK(cudaDeviceSynchronize());

    cudaMemPool_t pool, current;
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.maxSize = 64 << 20;
    CHECK(cudaMemPoolCreate(&pool, &props));
    uint64_t keep = UINT64_MAX;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    void *a, *b;
    CHECK(cudaMallocFromPoolAsync(&a, 1 << 20, pool, s));
    CHECK(cudaMallocFromPoolAsync(&b, 1 << 20, pool, s));
    CHECK(cudaStreamSynchronize(s));
    if (attribute(pool, cudaMemPoolAttrUsedMemCurrent) < 2 << 20 ||
        attribute(pool, cudaMemPoolAttrReservedMemCurrent) < 2 << 20)
        fail("pool holds too little");
    CHECK(cudaFreeAsync(a, s));
    CHECK(cudaFreeAsync(b, s));
    CHECK(cudaStreamSynchronize(s));
    expect_value("used", attribute(pool, cudaMemPoolAttrUsedMemCurrent), (uint64_t)0);
    if (attribute(pool, cudaMemPoolAttrReservedMemCurrent) < 2 << 20)
        fail("memory below the threshold was given back");
    if (attribute(pool, cudaMemPoolAttrUsedMemHigh) < 2 << 20)
        fail("high-water mark is too low");
    CHECK(cudaMemPoolTrimTo(pool, 0));
    expect_value("trimmed", attribute(pool, cudaMemPoolAttrReservedMemCurrent), (uint64_t)0);

    CHECK(cudaDeviceSetMemPool(0, pool));
    CHECK(cudaDeviceGetMemPool(&current, 0));
    if (current != pool)
        fail("the device's pool was not changed");
    CHECK(cudaMallocAsync(&a, 1 << 16, s));
    CHECK(cudaStreamSynchronize(s));
    if (attribute(pool, cudaMemPoolAttrUsedMemCurrent) < 1 << 16)
        fail("cudaMallocAsync did not use the device's pool");
    CHECK(cudaFree(a)); // allowed too
    CHECK(cudaDeviceGetDefaultMemPool(&current, 0));
    CHECK(cudaDeviceSetMemPool(0, current));
    CHECK(cudaMemPoolDestroy(pool));
    return ok("pools: 10 rounds, own pool, attributes, trim");
}
