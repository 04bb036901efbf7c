// Sums by shuffle, by shared memory, by a second pass, and by the block that finishes last.
#include "check.cuh"

__device__ unsigned int finished;

template <class T> __device__ T warp_sum(T x)
{
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_down_sync(0xffffffffu, x, d);
    return x;
}

template <class T> __device__ T block_sum_shuffle(T x)
{
    __shared__ T part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = warp_sum(x);
    if (lane == 0)
        part[warp] = x;
    __syncthreads();
    x = threadIdx.x < blockDim.x / 32 ? part[lane] : T(0);
    return warp == 0 ? warp_sum(x) : T(0);
}

template <class T> __device__ T block_sum_tree(T x)
{
    extern __shared__ __align__(16) unsigned char raw[];
    T *s = (T *)raw;
    s[threadIdx.x] = x;
    __syncthreads();
    for (unsigned d = blockDim.x / 2; d > 0; d >>= 1) {
        if (threadIdx.x < d)
            s[threadIdx.x] += s[threadIdx.x + d];
        __syncthreads();
    }
    return s[0];
}

template <class T, bool TREE> __global__ void partial(T *out, const T *in, int n)
{
    T x = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x += in[i];
    x = TREE ? block_sum_tree(x) : block_sum_shuffle(x);
    if (threadIdx.x == 0)
        out[blockIdx.x] = x;
}

template <class T> __global__ void last_block(T *total, T *part, const T *in, int n)
{
    __shared__ bool last;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    T x = block_sum_shuffle(i < n ? in[i] : T(0));
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        T sum = 0;
        for (unsigned b = 0; b < gridDim.x; b++)
            sum += ((volatile T *)part)[b];
        *total = sum;
    }
}

/* all values are small integers: every order of additions gives the same sum */
template <class T> static void run(const char *type)
{
    const int n = 20011, threads = 128, grid = 12;
    auto in = random_ints<T>(n, 11, -50, 50);
    T want = 0;
    for (T x : in)
        want += x;
    dev<T> din(in), part(grid), total(1);
    partial<T, false><<<grid, threads>>>(part.p, din.p, n);
    partial<T, true><<<1, 32, 32 * sizeof(T)>>>(total.p, part.p, grid);
    SYNC();
    expect_equal(type, total.host(), {want});
    partial<T, true><<<grid, threads, threads * sizeof(T)>>>(part.p, din.p, n);
    partial<T, false><<<1, 32>>>(total.p, part.p, grid);
    SYNC();
    expect_equal(type, total.host(), {want});
    const int blocks = (int)blocks_for(n, threads);
    dev<T> part2(blocks);
    for (int repeat = 0; repeat < 2; repeat++) {
        total.zero();
        last_block<<<blocks, threads>>>(total.p, part2.p, din.p, n);
        SYNC();
        expect_equal(type, total.host(), {want});
    }
}

int main()
{
    run<int>("int");
    run<float>("float");
    run<double>("double");
    run<long long>("long long");
    return ok("reduce: shuffle, tree, two passes, last block; 4 types");
}
