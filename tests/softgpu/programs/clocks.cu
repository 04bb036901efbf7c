// Clocks and special registers: clock, clock64, globaltimer and nanosleep go forward; indices, lane
// masks, warp and SM numbers are consistent.
#include "check.cuh"

#define SREG(name, type)                                                                           \
    __device__ unsigned name()                                                                     \
    {                                                                                              \
        unsigned r;                                                                                \
        asm volatile("mov." type " %0, %%" #name ";" : "=r"(r));                                   \
        return r;                                                                                  \
    }
SREG(laneid, "u32")
SREG(warpid, "u32")
SREG(nwarpid, "u32")
SREG(smid, "u32")
SREG(nsmid, "u32")
SREG(lanemask_eq, "u32")
SREG(lanemask_le, "u32")
SREG(lanemask_gt, "u32")

__device__ unsigned long long globaltimer()
{
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

__global__ void tick(long long *out, unsigned *work)
{
    long long a = clock64();
    clock_t small = clock();
    unsigned long long t = globaltimer();
    unsigned v = threadIdx.x;
    for (int i = 0; i < 300; i++)
        v = v * 69069u + 1;
    work[threadIdx.x] = v;
    __nanosleep(2000);
    unsigned long long t2 = globaltimer();
    clock_t small2 = clock();
    long long b = clock64();
    long long *o = out + threadIdx.x * 3;
    o[0] = b - a;
    o[1] = (long long)(unsigned)(small2 - small);
    o[2] = (long long)(t2 - t);
}

__global__ void registers(unsigned *bad)
{
    unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
    unsigned wrong = laneid() != lane;
    wrong |= (nwarpid() < warps) << 1;
    wrong |= (warpid() >= nwarpid()) << 2;
    wrong |= (smid() >= nsmid()) << 3;
    wrong |= (lanemask_eq() != 1u << lane) << 4;
    wrong |= ((lanemask_le() ^ lanemask_gt()) != ~0u) << 5;
    wrong |= (__isGlobal(bad) ? 0u : 1u) << 6;
    __shared__ unsigned s;
    unsigned local = lane;
    wrong |= (__isShared(&s) ? 0u : 1u) << 7;
    wrong |= (__isLocal(&local) && !__isGlobal(&local) ? 0u : 1u) << 8;
    if (wrong)
        atomicOr(bad, wrong);
}

int main()
{
    dev<long long> out(32 * 3);
    dev<unsigned> work(32), bad(1);
    tick<<<1, 32>>>(out.p, work.p);
    registers<<<5, 96>>>(bad.p);
    SYNC();
    auto got = out.host();
    for (int i = 0; i < 32; i++)
        if (got[i * 3] <= 0 || got[i * 3 + 1] <= 0 || got[i * 3 + 2] < 0)
            fail("thread %d: clocks went forward by %lld, %lld, the timer by %lld", i, got[i * 3],
                 got[i * 3 + 1], got[i * 3 + 2]);
    expect_value("registers", bad.host()[0], 0u);
    return ok("clocks and special registers");
}
