// Least-significant-digit radix sort, 4 bits a pass: stable, keys with values, signed and float.
// arch: -gencode arch=compute_75,code=compute_75 -gencode arch=compute_80,code=compute_80
#include "check.cuh"

#include <algorithm>
#include <numeric>

enum { BITS = 4, DIGITS = 1 << BITS, THREADS = 64 };

/* unsigned keys in the order of the type's values */
__host__ __device__ unsigned to_key(unsigned x)
{
    return x;
}
__host__ __device__ unsigned to_key(int x)
{
    return (unsigned)x ^ 0x80000000u;
}
__host__ __device__ unsigned to_key(float x)
{
    unsigned u;
    memcpy(&u, &x, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

template <class T> __global__ void make_keys(unsigned *keys, int *values, const T *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        keys[i] = to_key(in[i]);
        values[i] = i;
    }
}

__global__ void count(int *counts, const unsigned *keys, int n, int shift)
{
    __shared__ int s[DIGITS];
    if (threadIdx.x < DIGITS)
        s[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        atomicAdd(&s[keys[i] >> shift & (DIGITS - 1)], 1);
    __syncthreads();
    if (threadIdx.x < DIGITS)
        counts[threadIdx.x * gridDim.x + blockIdx.x] = s[threadIdx.x];
}

/* exclusive prefix sum of all counts: one warp walks over them */
__global__ void offsets(int *counts, int n)
{
    int carry = 0, lane = threadIdx.x;
    for (int base = 0; base < n; base += 32) {
        int own = base + lane < n ? counts[base + lane] : 0, x = own;
        for (int d = 1; d < 32; d *= 2) {
            int y = __shfl_up_sync(~0u, x, d);
            x += lane >= d ? y : 0;
        }
        if (base + lane < n)
            counts[base + lane] = carry + x - own;
        carry += __shfl_sync(~0u, x, 31);
    }
}

__global__ void scatter(unsigned *out_keys, int *out_values, const unsigned *keys,
                        const int *values, const int *counts, int n, int shift)
{
    __shared__ unsigned before[THREADS / 32][DIGITS];
    int i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned digit = i < n ? keys[i] >> shift & (DIGITS - 1) : DIGITS;
    unsigned same = __match_any_sync(~0u, digit);
    unsigned rank = __popc(same & ((1u << lane) - 1));
    if (lane < DIGITS)
        before[warp][lane] = 0;
    __syncwarp();
    if (digit < DIGITS && rank == 0)
        before[warp][digit] = __popc(same);
    __syncthreads();
    if (i >= n)
        return;
    int at = counts[digit * gridDim.x + blockIdx.x] + rank;
    for (int w = 0; w < warp; w++)
        at += before[w][digit];
    out_keys[at] = keys[i];
    out_values[at] = values[i];
}

template <class T> static void run(const char *type, const std::vector<T> &in)
{
    int n = (int)in.size(), blocks = (int)blocks_for(n, THREADS);
    dev<T> din(in);
    dev<unsigned> a(n), b(n);
    dev<int> va(n), vb(n), counts(blocks * DIGITS);
    unsigned *from = a.p, *to = b.p;
    int *vfrom = va.p, *vto = vb.p;
    make_keys<<<blocks, THREADS>>>(from, vfrom, din.p, n);
    for (int shift = 0; shift < 32; shift += BITS) {
        count<<<blocks, THREADS>>>(counts.p, from, n, shift);
        offsets<<<1, 32>>>(counts.p, blocks * DIGITS);
        scatter<<<blocks, THREADS>>>(to, vto, from, vfrom, counts.p, n, shift);
        std::swap(from, to);
        std::swap(vfrom, vto);
    }
    SYNC();
    std::vector<int> want(n);
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(),
                     [&](int x, int y) { return to_key(in[x]) < to_key(in[y]); });
    expect_equal(type, va.host(), want);
}

int main()
{
    run("unsigned", random_ints<unsigned>(3000, 51, 0, 1ll << 32));
    run("few", random_ints<unsigned>(1001, 52, 0, 7));
    run("int", random_ints<int>(777, 53, -1000, 1000));
    run("float", random_reals<float>(2049, 54, -1e3, 1e3));
    return ok("radix sort: 4 kinds of keys, stable");
}
