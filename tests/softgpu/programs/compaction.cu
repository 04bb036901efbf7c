// Keeping what satisfies a condition: in order by ballots and a scan of block counts, in any order
// by warp-aggregated atomics; removal of repeats; run lengths.
#include "check.cuh"

#include <algorithm>

enum { BLOCK = 128 };

__host__ __device__ bool wanted(int x)
{
    return x % 3 == 1 || x < -90;
}

__global__ void count(int *counts, const int *in, int n)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    int many = __syncthreads_count(i < n && wanted(in[i]));
    if (threadIdx.x == 0)
        counts[blockIdx.x] = many;
}

__global__ void place(int *out, const int *counts, const int *in, int n)
{
    __shared__ int warp_base[BLOCK / 32], base;
    int i = blockIdx.x * BLOCK + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool keep = i < n && wanted(in[i]);
    unsigned ballot = __ballot_sync(~0u, keep);
    if (lane == 0)
        warp_base[warp] = __popc(ballot);
    if (threadIdx.x == 0)
        base = 0;
    __syncthreads();
    int in_blocks = 0, at = __popc(ballot & ((1u << lane) - 1));
    for (int b = threadIdx.x; b < (int)blockIdx.x; b += BLOCK)
        in_blocks += counts[b];
    if (in_blocks)
        atomicAdd(&base, in_blocks);
    for (int w = 0; w < warp; w++)
        at += warp_base[w];
    __syncthreads();
    if (keep)
        out[base + at] = in[i];
}

__global__ void aggregate(int *out, int *size, const int *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && wanted(in[i])) {
        unsigned active = __activemask(), lane = threadIdx.x % 32;
        int leader = __ffs(active) - 1, at = 0;
        if ((int)lane == leader)
            at = atomicAdd(size, __popc(active));
        at = __shfl_sync(active, at, leader);
        out[at + __popc(active & ((1u << lane) - 1))] = in[i];
    }
}

/* starts of runs of equal values: position and number of the run */
__global__ void run_starts(int *starts, int *runs, const int *in, int n)
{
    __shared__ int s[256];
    int carry = 0;
    for (int base = 0; base < n; base += 256) {
        int i = base + threadIdx.x;
        int head = i < n && (i == 0 || in[i] != in[i - 1]);
        s[threadIdx.x] = head;
        __syncthreads();
        for (int d = 1; d < 256; d *= 2) {
            int x = (int)threadIdx.x >= d ? s[threadIdx.x - d] : 0;
            __syncthreads();
            s[threadIdx.x] += x;
            __syncthreads();
        }
        if (head)
            starts[carry + s[threadIdx.x] - 1] = i;
        carry += s[255];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *runs = carry;
}

int main()
{
    const int n = 9001, blocks = (int)blocks_for(n, BLOCK);
    auto in = random_ints<int>(n, 581, -100, 100);
    std::vector<int> want;
    std::copy_if(in.begin(), in.end(), std::back_inserter(want), wanted);
    dev<int> din(in), out(n), counts(blocks), size(1);
    count<<<blocks, BLOCK>>>(counts.p, din.p, n);
    place<<<blocks, BLOCK>>>(out.p, counts.p, din.p, n);
    SYNC();
    auto got = out.host();
    got.resize(want.size());
    expect_equal("in order", got, want);

    out.zero();
    aggregate<<<blocks_for(n, 96), 96>>>(out.p, size.p, din.p, n);
    SYNC();
    expect_value("size", size.host()[0], (int)want.size());
    got = out.host();
    got.resize(want.size());
    std::sort(got.begin(), got.end());
    std::sort(want.begin(), want.end());
    expect_equal("any order", got, want);

    for (int &x : in)
        x = x > 50;
    din.set(in);
    run_starts<<<1, 256>>>(out.p, size.p, din.p, n);
    SYNC();
    want.clear();
    for (int i = 0; i < n; i++)
        if (i == 0 || in[i] != in[i - 1])
            want.push_back(i);
    got = out.host();
    got.resize(size.host()[0]);
    expect_equal("runs", got, want);
    return ok("compaction: in order, aggregated, runs");
}
