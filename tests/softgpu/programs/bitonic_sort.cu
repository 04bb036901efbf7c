// Bitonic sort: in shared memory for short pieces, in global memory for long strides; by shuffle
// within a warp.
#include "check.cuh"

#include <algorithm>

enum { PIECE = 256 };

__device__ void order(float &a, float &b, bool up)
{
    if ((a > b) == up) {
        float t = a;
        a = b;
        b = t;
    }
}

__global__ void sort_piece(float *data)
{
    __shared__ float s[PIECE];
    unsigned t = threadIdx.x, base = blockIdx.x * PIECE;
    s[t] = data[base + t];
    s[t + PIECE / 2] = data[base + t + PIECE / 2];
    for (unsigned size = 2; size <= PIECE; size *= 2)
        for (unsigned d = size / 2; d > 0; d /= 2) {
            __syncthreads();
            unsigned i = 2 * t - (t & (d - 1));
            order(s[i], s[i + d], ((base + i) & size) == 0);
        }
    __syncthreads();
    data[base + t] = s[t];
    data[base + t + PIECE / 2] = s[t + PIECE / 2];
}

__global__ void merge_step(float *data, unsigned size, unsigned d)
{
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x, i = 2 * t - (t & (d - 1));
    order(data[i], data[i + d], (i & size) == 0);
}

__global__ void sort_warp(int *data)
{
    int lane = threadIdx.x % 32, x = data[blockIdx.x * blockDim.x + threadIdx.x];
    for (int size = 2; size <= 32; size *= 2)
        for (int d = size / 2; d > 0; d /= 2) {
            int y = __shfl_xor_sync(~0u, x, d);
            bool lower = (lane & d) == 0, up = (lane & size) == 0 || size == 32;
            x = lower == up ? min(x, y) : max(x, y);
        }
    data[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

int main()
{
    const unsigned n = 4096;
    auto in = random_reals<float>(n, 61);
    in[5] = in[900]; // equal values
    dev<float> data(in);
    sort_piece<<<n / PIECE, PIECE / 2>>>(data.p);
    for (unsigned size = 2 * PIECE; size <= n; size *= 2)
        for (unsigned d = size / 2; d > 0; d /= 2)
            merge_step<<<n / 256, 128>>>(data.p, size, d);
    SYNC();
    std::sort(in.begin(), in.end());
    expect_equal("bitonic", data.host(), in);

    auto ints = random_ints<int>(320, 62, -99, 100);
    dev<int> dints(ints);
    sort_warp<<<5, 64>>>(dints.p);
    SYNC();
    for (int w = 0; w < 10; w++)
        std::sort(ints.begin() + w * 32, ints.begin() + w * 32 + 32);
    expect_equal("warp", dints.host(), ints);
    return ok("bitonic sort: shared, global, shuffle");
}
