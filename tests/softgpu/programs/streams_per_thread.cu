// Per-thread default streams: threads launch on "their" NULL stream at the same time.
// nvcc: --default-stream per-thread
#include "check.cuh"

#include <thread>

__global__ void multiply(unsigned *x, unsigned f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= f;
}

static void chain(unsigned *x, int n, unsigned f, int rounds, std::vector<unsigned> *out)
{
    CHECK(cudaMemsetAsync(x, 1, n * sizeof(unsigned), 0));
    for (int r = 0; r < rounds; r++)
        multiply<<<blocks_for(n, 64), 64>>>(x, f + r, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(out->data(), x, n * sizeof(unsigned), cudaMemcpyDeviceToHost, 0));
    CHECK(cudaStreamSynchronize(0));
}

int main()
{
    const int n = 500, threads = 4, rounds = 10;
    dev<unsigned> x(n * threads);
    CHECK(cudaDeviceSynchronize());
    std::vector<std::thread> all;
    std::vector<std::vector<unsigned>> out(threads, std::vector<unsigned>(n));
    for (int t = 0; t < threads; t++)
        all.emplace_back(chain, x.p + t * n, n, 3u + t, rounds, &out[t]);
    for (auto &t : all)
        t.join();
    for (int t = 0; t < threads; t++) {
        unsigned want = 0x01010101;
        for (int r = 0; r < rounds; r++)
            want *= 3u + t + r;
        expect_equal("chain", out[t], std::vector<unsigned>(n, want));
    }
    // the legacy stream still waits for all of them
    multiply<<<blocks_for(n, 64), 64, 0, cudaStreamPerThread>>>(x.p, 2, n);
    multiply<<<blocks_for(n, 64), 64, 0, cudaStreamLegacy>>>(x.p, 5, n);
    CHECK(cudaStreamSynchronize(cudaStreamLegacy));
    unsigned first;
    CHECK(cudaMemcpy(&first, x.p, sizeof first, cudaMemcpyDeviceToHost));
    expect_value("legacy", first, out[0][0] * 10);
    return ok("per-thread default streams: 4 threads");
}
