// Two devices: peer access, copies between them both ways, a kernel that reads the other device's
// memory, events that order streams of two devices. Needs SOFTGPU_DEVICES=2.
// env: SOFTGPU_DEVICES=2
#include "check.cuh"

__global__ void add_one(int *out, const int *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] + 1;
}

int main()
{
    int devices = 0, can = 0, current = -1;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2)
        skip("needs two devices, there is %d", devices);
    const int n = 5000;
    auto in = random_ints<int>(n, 281, 0, 1 << 20);
    int *a, *b, *c;
    cudaStream_t s0, s1;
    cudaEvent_t ready;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc((void **)&a, n * sizeof(int)));
    CHECK(cudaStreamCreate(&s0));
    CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc((void **)&b, n * sizeof(int)));
    CHECK(cudaMalloc((void **)&c, n * sizeof(int)));
    CHECK(cudaStreamCreate(&s1));

    CHECK(cudaSetDevice(0));
    CHECK(cudaMemcpyAsync(a, in.data(), n * sizeof(int), cudaMemcpyHostToDevice, s0));
    add_one<<<blocks_for(n, 128), 128, 0, s0>>>(a, a, n);
    CHECK(cudaMemcpyPeerAsync(b, 1, a, 0, n * sizeof(int), s0));
    CHECK(cudaEventRecord(ready, s0));
    CHECK(cudaSetDevice(1));
    CHECK(cudaStreamWaitEvent(s1, ready, 0));
    add_one<<<blocks_for(n, 128), 128, 0, s1>>>(c, b, n);
    CHECK(cudaStreamSynchronize(s1));
    std::vector<int> got(n), want(n);
    for (int i = 0; i < n; i++)
        want[i] = in[i] + 2;
    CHECK(cudaMemcpy(got.data(), c, n * sizeof(int), cudaMemcpyDeviceToHost));
    expect_equal("peer copy", got, want);

    cudaPointerAttributes where;
    CHECK(cudaPointerGetAttributes(&where, c));
    expect_value("device of c", where.device, 1);
    CHECK(cudaGetDevice(&current));
    expect_value("current", current, 1);
    CHECK(cudaDeviceCanAccessPeer(&can, 1, 0));
    if (can) {
        CHECK(cudaDeviceEnablePeerAccess(0, 0));
        CHECK_ERROR(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
        add_one<<<blocks_for(n, 128), 128, 0, s1>>>(c, a, n); // runs on 1, reads memory of 0
        CHECK(cudaStreamSynchronize(s1));
        CHECK(cudaMemcpy(got.data(), c, n * sizeof(int), cudaMemcpyDefault));
        expect_equal("peer access", got, want);
        CHECK(cudaDeviceDisablePeerAccess(0));
        CHECK_ERROR(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
    }
    CHECK(cudaMemset(c, 0, n * sizeof(int)));
    CHECK(cudaMemcpy(a, c, n * sizeof(int), cudaMemcpyDefault));
    CHECK(cudaMemcpy(got.data(), a, n * sizeof(int), cudaMemcpyDefault));
    expect_equal("unified copy", got, std::vector<int>(n));
    CHECK_ERROR(cudaSetDevice(devices), cudaErrorInvalidDevice);
    return ok("two devices: copies, events%s", can ? ", peer access" : "");
}
