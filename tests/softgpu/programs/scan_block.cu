// Prefix sums within a warp (shuffle up), within a block (Hillis-Steele and Blelloch in shared
// memory), and over a long array in three passes.
#include "check.cuh"

template <class T> __device__ T warp_inclusive(T x)
{
    unsigned lane = threadIdx.x % 32;
    for (unsigned d = 1; d < 32; d *= 2) {
        T y = __shfl_up_sync(0xffffffffu, x, d);
        if (lane >= d)
            x += y;
    }
    return x;
}

template <class T> __device__ T block_inclusive(T x)
{
    __shared__ T sums[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = warp_inclusive(x);
    if (lane == 31)
        sums[warp] = x;
    __syncthreads();
    if (warp == 0)
        sums[lane] = warp_inclusive(lane < blockDim.x / 32 ? sums[lane] : T(0));
    __syncthreads();
    return warp ? x + sums[warp - 1] : x;
}

template <class T> __global__ void scan_blocks(T *out, T *totals, const T *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    T x = block_inclusive(i < n ? in[i] : T(0));
    if (i < n)
        out[i] = x;
    if (threadIdx.x == blockDim.x - 1)
        totals[blockIdx.x] = x;
}

template <class T> __global__ void add_before(T *out, const T *totals, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && blockIdx.x > 0)
        out[i] += totals[blockIdx.x - 1];
}

template <class T> __global__ void hillis_steele(T *out, const T *in)
{
    __shared__ T s[2][256];
    unsigned t = threadIdx.x;
    int from = 0;
    s[0][t] = in[t];
    __syncthreads();
    for (unsigned d = 1; d < blockDim.x; d *= 2, from ^= 1) {
        s[from ^ 1][t] = t >= d ? s[from][t] + s[from][t - d] : s[from][t];
        __syncthreads();
    }
    out[t] = s[from][t];
}

template <class T> __global__ void blelloch_exclusive(T *out, const T *in)
{
    extern __shared__ __align__(16) unsigned char raw[];
    T *s = (T *)raw;
    unsigned t = threadIdx.x, n = 2 * blockDim.x, step = 1;
    s[2 * t] = in[2 * t];
    s[2 * t + 1] = in[2 * t + 1];
    for (unsigned d = n / 2; d > 0; d /= 2, step *= 2) {
        __syncthreads();
        if (t < d)
            s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1];
    }
    if (t == 0)
        s[n - 1] = 0;
    for (unsigned d = 1; d < n; d *= 2) {
        step /= 2;
        __syncthreads();
        if (t < d) {
            unsigned a = step * (2 * t + 1) - 1, b = step * (2 * t + 2) - 1;
            T x = s[a];
            s[a] = s[b];
            s[b] += x;
        }
    }
    __syncthreads();
    out[2 * t] = s[2 * t];
    out[2 * t + 1] = s[2 * t + 1];
}

template <class T> static void run(const char *type)
{
    const int n = 256 * 100 - 17;
    auto in = random_ints<T>(n, 21, -9, 10);
    std::vector<T> want(n), before(512);
    T sum = 0;
    for (int i = 0; i < n; i++) {
        if (i < 512)
            before[i] = sum;
        want[i] = sum += in[i];
    }
    int blocks = (int)blocks_for(n, 256);
    dev<T> din(in), out(n), totals(blocks), top(1);
    scan_blocks<<<blocks, 256>>>(out.p, totals.p, din.p, n);
    scan_blocks<<<1, 128>>>(totals.p, top.p, totals.p, blocks);
    add_before<<<blocks, 256>>>(out.p, totals.p, n);
    SYNC();
    expect_equal(type, out.host(), want);
    expect_equal("total", top.host(), {want[n - 1]});

    dev<T> small(256), big(512);
    hillis_steele<<<1, 256>>>(small.p, din.p);
    blelloch_exclusive<<<1, 256, 512 * sizeof(T)>>>(big.p, din.p);
    SYNC();
    expect_equal("hillis-steele", small.host(), std::vector<T>(&want[0], &want[256]));
    expect_equal("blelloch", big.host(), before);
}

int main()
{
    run<int>("int");
    run<double>("double");
    return ok("scan: warp, block, three passes; int and double");
}
