// Pinned, mapped and registered host memory: kernels that read and write it, asynchronous copies,
// and what the pointer attributes say about each kind of memory.
#include "check.cuh"

__global__ void copy_through(int *out, const int *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] * 2 + 1;
}

/* the host sees a flag while the kernel still runs, and answers */
__global__ void talk(volatile int *ask, volatile int *answer)
{
    *ask = 1;
    __threadfence_system();
    while (*answer == 0)
        ;
    *ask = *answer + 1;
}

static void expect_kind(const char *what, const void *p, cudaMemoryType type, const void *device)
{
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, p));
    if (a.type != type || a.devicePointer != device)
        fail("%s: type %d, device pointer %p", what, (int)a.type, a.devicePointer);
}

int main()
{
    const int n = 1500;
    const size_t bytes = n * sizeof(int);
    int *pinned, *mapped, *mapped_device, *registered, *registered_device;
    CHECK(cudaMallocHost((void **)&pinned, bytes));
    CHECK(cudaHostAlloc((void **)&mapped, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    CHECK(cudaHostGetDevicePointer((void **)&mapped_device, mapped, 0));
    if (posix_memalign((void **)&registered, 4096, 8192))
        fail("no memory");
    CHECK(cudaHostRegister(registered, 8192, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer((void **)&registered_device, registered, 0));
    dev<int> x(n);
    unsigned flags = 0;
    CHECK(cudaHostGetFlags(&flags, mapped));
    if (!(flags & cudaHostAllocMapped))
        fail("flags 0x%x", flags);
    expect_kind("device", x.p + 5, cudaMemoryTypeDevice, x.p + 5);
    expect_kind("mapped", mapped + 3, cudaMemoryTypeHost, mapped_device + 3);
    expect_kind("registered", registered, cudaMemoryTypeHost, registered_device);
    expect_kind("stack", &flags, cudaMemoryTypeUnregistered, nullptr);

    auto in = random_ints<int>(n, 291, -1000, 1000);
    std::vector<int> want(n);
    memcpy(registered, in.data(), bytes);
    copy_through<<<blocks_for(n, 128), 128>>>(mapped_device, registered_device, n);
    SYNC();
    for (int i = 0; i < n; i++)
        want[i] = in[i] * 2 + 1;
    expect_equal("zero copy", std::vector<int>(mapped, mapped + n), want);

    CHECK(cudaMemcpyAsync(x.p, mapped, bytes, cudaMemcpyDefault, 0));
    copy_through<<<blocks_for(n, 128), 128>>>(x.p, x.p, n);
    CHECK(cudaMemcpyAsync(pinned, x.p, bytes, cudaMemcpyDefault, 0));
    CHECK(cudaStreamSynchronize(0));
    for (int &v : want)
        v = v * 2 + 1;
    expect_equal("pinned", std::vector<int>(pinned, pinned + n), want);

    volatile int *ask = mapped, *answer = mapped + 100;
    *ask = *answer = 0;
    talk<<<1, 1>>>(mapped_device, mapped_device + 100);
    CHECK(cudaGetLastError());
    (void)cudaStreamQuery(0); // starts it
    while (*ask == 0)
        ;
    *answer = 41;
    CHECK(cudaDeviceSynchronize());
    expect_value("answer", (int)*ask, 42);

    CHECK(cudaHostUnregister(registered));
    expect_kind("unregistered", registered, cudaMemoryTypeUnregistered, nullptr);
    CHECK_ERROR(cudaHostUnregister(registered), cudaErrorHostMemoryNotRegistered);
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFreeHost(mapped));
    free(registered);
    return ok("host memory: pinned, mapped, registered, talk with a running kernel");
}
