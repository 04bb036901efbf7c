// Barriers inside a block: the reducing __syncthreads, named ones (producers arrive, consumers
// wait), barriers of warps, mbarrier with phases and with cp.async.
#include "check.cuh"

#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline.h>

__global__ void reducing(int *out, const int *in)
{
    int x = in[threadIdx.x];
    int many = __syncthreads_count(x > 50);
    int all = __syncthreads_and(x >= 0), any = __syncthreads_or(x == 99),
        none = __syncthreads_or(x < 0);
    out[threadIdx.x] = many * 8 + (all != 0) * 4 + (any != 0) * 2 + (none != 0);
}

/* even warps make values, odd warps use them: two named barriers for each pair of warps */
__global__ void named(int *out, int rounds)
{
    __shared__ volatile int box[2][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pair = warp / 2;
    int full = 1 + 2 * pair, empty = 2 + 2 * pair, sum = 0;
    for (int r = 0; r < rounds; r++) {
        if (warp % 2 == 0) {
            if (r)
                asm volatile("bar.sync %0, 64;" ::"r"(empty) : "memory");
            box[pair][lane] = r * 100 + lane + pair;
            asm volatile("bar.arrive %0, 64;" ::"r"(full) : "memory");
        } else {
            asm volatile("bar.sync %0, 64;" ::"r"(full) : "memory");
            sum += box[pair][31 - lane];
            if (r < rounds - 1)
                asm volatile("bar.arrive %0, 64;" ::"r"(empty) : "memory");
        }
    }
    if (warp % 2)
        out[pair * 32 + lane] = sum;
}

/* threads with odd numbers add to the neighbour's value between two phases of an mbarrier */
__global__ void phases(int *out, int rounds)
{
    __shared__ __mbarrier_t bar;
    __shared__ int s[128];
    int t = threadIdx.x;
    if (t == 0)
        __mbarrier_init(&bar, blockDim.x);
    s[t] = t;
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        __mbarrier_token_t token = __mbarrier_arrive(&bar);
        while (!__mbarrier_test_wait(&bar, token))
            ;
        int x = s[(t + 1) % blockDim.x];
        token = __mbarrier_arrive(&bar);
        while (!__mbarrier_test_wait(&bar, token))
            ;
        s[t] += x;
    }
    __syncthreads();
    out[t] = s[t];
    if (t == 0)
        __mbarrier_inval(&bar);
}

/* the last thread leaves for good after one phase */
__global__ void dropped(int *out)
{
    __shared__ __mbarrier_t bar;
    if (threadIdx.x == 0)
        __mbarrier_init(&bar, blockDim.x);
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) {
        __mbarrier_arrive_and_drop(&bar);
        return;
    }
    for (int r = 0; r < 3; r++) {
        __mbarrier_token_t token = __mbarrier_arrive(&bar);
        while (!__mbarrier_test_wait(&bar, token))
            ;
    }
    atomicAdd(out, 1);
}

__global__ void copy_arrives(int *out, const int *in)
{
    __shared__ __mbarrier_t bar;
    __shared__ __align__(16) int s[128];
    int t = threadIdx.x;
    if (t == 0)
        __mbarrier_init(&bar, 2 * blockDim.x);
    __syncthreads();
    __pipeline_memcpy_async(&s[t], &in[t], sizeof(int));
    __pipeline_arrive_on(&bar);
    __mbarrier_token_t token = __mbarrier_arrive(&bar);
    __mbarrier_arrive(&bar);
    while (!__mbarrier_test_wait(&bar, token))
        ;
    out[t] = s[blockDim.x - 1 - t];
}

int main()
{
    need_capability(8, 0);
    auto in = random_ints<int>(128, 191, 0, 99);
    in[77] = 99;
    int many = 0;
    for (int x : in)
        many += x > 50;
    dev<int> din(in), out(128);
    reducing<<<1, 128>>>(out.p, din.p);
    SYNC();
    expect_equal("reducing", out.host(), std::vector<int>(128, many * 8 + 6));

    const int rounds = 9;
    dev<int> pairs(64);
    named<<<1, 128>>>(pairs.p, rounds);
    SYNC();
    std::vector<int> want(64);
    for (int i = 0; i < 64; i++)
        want[i] = rounds * (rounds - 1) / 2 * 100 + rounds * (31 - i % 32 + i / 32);
    expect_equal("named", pairs.host(), want);

    phases<<<1, 128>>>(out.p, 5);
    SYNC();
    std::vector<int> s(128);
    for (int i = 0; i < 128; i++)
        s[i] = i;
    for (int r = 0; r < 5; r++) {
        auto old = s;
        for (int i = 0; i < 128; i++)
            s[i] = old[i] + old[(i + 1) % 128];
    }
    expect_equal("phases", out.host(), s);

    out.zero();
    dropped<<<1, 96>>>(out.p);
    SYNC();
    expect_value("dropped", out.host()[0], 95);
    copy_arrives<<<1, 128>>>(out.p, din.p);
    SYNC();
    expect_equal("copy", out.host(), std::vector<int>(in.rbegin(), in.rend()));
    return ok("barriers: reducing, named, mbarrier phases, drop, async copy");
}
