// Histograms: one counter array in global memory, one a block in shared memory, one a thread in
// bytes of shared memory; bytes and floats as input.
#include "check.cuh"

enum { BINS = 256, SMALL = 16 };

__global__ void global_bins(unsigned *bins, const uchar4 *in, int n4)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n4) {
        uchar4 v = in[i];
        atomicAdd(&bins[v.x], 1u);
        atomicAdd(&bins[v.y], 1u);
        atomicAdd(&bins[v.z], 1u);
        atomicAdd(&bins[v.w], 1u);
    }
}

__global__ void shared_bins(unsigned *bins, const uint8_t *in, int n)
{
    __shared__ unsigned s[BINS];
    for (int b = threadIdx.x; b < BINS; b += blockDim.x)
        s[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&s[in[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += blockDim.x)
        if (s[b])
            atomicAdd(&bins[b], s[b]);
}

/* a thread sees at most 255 values, so its counters are bytes */
__global__ void byte_bins(unsigned *bins, const float *in, int n)
{
    __shared__ uint8_t s[SMALL][64];
    for (int b = 0; b < SMALL; b++)
        s[b][threadIdx.x] = 0;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64)
        s[min(max((int)floorf((in[i] + 1) * (SMALL / 2)), 0), SMALL - 1)][threadIdx.x]++;
    __syncthreads();
    if (threadIdx.x < SMALL) {
        unsigned sum = 0;
        for (int t = 0; t < 64; t++)
            sum += s[threadIdx.x][t];
        atomicAdd(&bins[threadIdx.x], sum);
    }
}

int main()
{
    const int n = 20000;
    auto in = random_ints<uint8_t>(n, 41, 0, 256);
    for (int i = 0; i < n / 2; i++) // half of them fall into a few bins
        in[i] = in[i] % 5;
    std::vector<unsigned> want(BINS), want_small(SMALL);
    for (uint8_t b : in)
        want[b]++;
    dev<uint8_t> din(in);
    dev<unsigned> bins(BINS), small(SMALL);
    global_bins<<<blocks_for(n / 4, 128), 128>>>(bins.p, (const uchar4 *)din.p, n / 4);
    SYNC();
    expect_equal("global", bins.host(), want);
    bins.zero();
    shared_bins<<<7, 96>>>(bins.p, din.p, n);
    SYNC();
    expect_equal("shared", bins.host(), want);

    auto reals = random_reals<float>(n, 42, -1.1, 1.1);
    for (float x : reals) {
        int b = (int)floorf((x + 1) * (SMALL / 2));
        want_small[b < 0 ? 0 : b >= SMALL ? SMALL - 1 : b]++;
    }
    dev<float> dreals(reals);
    byte_bins<<<5, 64>>>(small.p, dreals.p, n);
    SYNC();
    expect_equal("bytes", small.host(), want_small);
    return ok("histogram: global, shared, a byte a thread");
}
