// Votes, matches, ballots, active masks and shuffles of every kind and width, on full warps, within
// branches and on partial masks.
#include "check.cuh"

enum { OUT = 20 };

__global__ void everything(unsigned long long *out, const int *in)
{
    int lane = threadIdx.x % 32, x = in[blockIdx.x * blockDim.x + threadIdx.x];
    unsigned long long *o = out + (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * OUT;
    int pred;
    o[0] = __all_sync(~0u, x < 99) != 0;
    o[1] = __any_sync(~0u, x > 97) != 0;
    o[2] = __ballot_sync(~0u, x % 3 == 0);
    o[3] = __match_any_sync(~0u, x % 7);
    o[4] = __match_all_sync(~0u, x / 100, &pred);
    o[5] = pred != 0;
    o[6] = (unsigned)__shfl_sync(~0u, x, lane * 5 + 40); // taken modulo 32
    o[7] = (unsigned)__shfl_sync(~0u, x, 3, 8);
    o[8] = (unsigned)__shfl_up_sync(~0u, x, 3);
    o[9] = (unsigned)__shfl_up_sync(~0u, x, 2, 4);
    o[10] = (unsigned)__shfl_down_sync(~0u, x, 5);
    o[11] = (unsigned)__shfl_down_sync(~0u, x, 1, 16);
    o[12] = (unsigned)__shfl_xor_sync(~0u, x, 21);
    o[13] = (unsigned)__shfl_xor_sync(~0u, x, 6, 4);
    o[14] = (unsigned long long)__shfl_sync(~0u, (long long)x << 33, 31 - lane);
    double d = __shfl_xor_sync(~0u, x * 0.5, 1);
    o[15] = (unsigned long long)(d * 4);
    o[16] = __match_any_sync(~0u, (long long)(x % 3) << 40);
    unsigned mask;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    o[17] = mask;
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(mask));
    o[18] = mask;
    o[19] = (unsigned)__popc(mask) * 100 + __fns(0xf0f0f0f0u, 0, 3);
}

static void reference(unsigned long long *o, const int *w, int lane)
{
    auto at = [&](int l) { return (unsigned long long)(unsigned)w[l]; };
    unsigned long long all = 1, any = 0, ballot = 0, same = 0, same3 = 0, alike = 1;
    for (int l = 0; l < 32; l++) {
        all &= w[l]<99, any |= w[l]> 97;
        ballot |= (unsigned long long)(w[l] % 3 == 0) << l;
        same |= (unsigned long long)(w[l] % 7 == w[lane] % 7) << l;
        same3 |= (unsigned long long)(w[l] % 3 == w[lane] % 3) << l;
        alike &= w[l] / 100 == w[0] / 100;
    }
    unsigned long long r[OUT] = {all,
                                 any,
                                 ballot,
                                 same,
                                 alike ? 0xffffffffull : 0,
                                 alike,
                                 at((lane * 5 + 40) % 32),
                                 at(lane / 8 * 8 + 3),
                                 at(lane >= 3 ? lane - 3 : lane),
                                 at(lane % 4 >= 2 ? lane - 2 : lane),
                                 at(lane + 5 < 32 ? lane + 5 : lane),
                                 at(lane % 16 < 15 ? lane + 1 : lane),
                                 at(lane ^ 21),
                                 at((lane ^ 6) / 4 <= lane / 4 ? lane ^ 6 : lane),
                                 at(31 - lane) << 33,
                                 at(lane ^ 1) * 2,
                                 same3,
                                 (1ull << lane) - 1,
                                 0xffffffffull & ~((1ull << lane) - 1),
                                 (32ull - lane) * 100 + 6};
    memcpy(o, r, sizeof r);
}

/* lanes leave one by one; the others keep voting among themselves */
__global__ void leaving(unsigned *out, const int *until)
{
    int lane = threadIdx.x, stay = until[lane];
    unsigned mask = ~0u, seen = 0;
    for (int r = 0; r < 10; r++) {
        mask = __ballot_sync(mask, r < stay);
        if (r >= stay)
            break;
        seen += __popc(mask) + __shfl_sync(mask, lane, __ffs(mask) - 1);
        seen += __popc(__activemask() & mask) ? 1 : 0;
    }
    out[lane] = seen;
}

__global__ void branches(unsigned *out, const int *in)
{
    int lane = threadIdx.x, x = in[lane];
    unsigned mask = __match_any_sync(~0u, x % 4);
    switch (x % 4) {
    case 0:
        out[lane] = __ballot_sync(mask, x > 50);
        break;
    case 1:
        out[lane] = (unsigned)__shfl_sync(mask, x, 31 - __clz(mask));
        break;
    case 2:
        out[lane] = (__any_sync(mask, x > 90) ? 2 : 0) + (__all_sync(mask, x > 5) ? 1 : 0);
        break;
    default:
        out[lane] = __match_any_sync(mask, x / 10);
    }
    __syncwarp();
}

int main()
{
    const int n = 256;
    auto in = random_ints<int>(n, 351, 0, 100);
    for (int i = 32; i < 64; i++)
        in[i] = 98; // a uniform warp
    in[70] = 150;
    dev<int> din(in);
    dev<unsigned long long> out(n * OUT);
    everything<<<2, 128>>>(out.p, din.p);
    SYNC();
    std::vector<unsigned long long> want(n * OUT);
    for (int i = 0; i < n; i++)
        reference(&want[(size_t)i * OUT], &in[i / 32 * 32], i % 32);
    expect_equal("everything", out.host(), want);

    auto until = random_ints<int>(32, 352, 0, 12);
    dev<int> duntil(until);
    dev<unsigned> seen(32);
    leaving<<<1, 32>>>(seen.p, duntil.p);
    SYNC();
    std::vector<unsigned> wanted(32);
    for (int r = 0; r < 10; r++) {
        unsigned many = 0, first = 32;
        for (unsigned l = 0; l < 32; l++)
            if (r < until[l]) {
                many++;
                first = l < first ? l : first;
            }
        for (int l = 0; l < 32; l++)
            wanted[l] += r < until[l] ? many + first + 1 : 0;
    }
    expect_equal("leaving", seen.host(), wanted);

    branches<<<1, 32>>>(seen.p, din.p);
    SYNC();
    for (int l = 0; l < 32; l++) {
        unsigned ballot = 0, last = 0, any = 0, all = 1, same = 0;
        for (int k = 0; k < 32; k++) {
            if (in[k] % 4 != in[l] % 4)
                continue;
            ballot |= (unsigned)(in[k] > 50) << k;
            last = (unsigned)in[k];
            any |= in[k] > 90, all &= in[k] > 5;
            same |= (unsigned)(in[k] / 10 == in[l] / 10) << k;
        }
        const unsigned by_case[4] = {ballot, last, any * 2 + all, same};
        wanted[l] = by_case[in[l] % 4];
    }
    expect_equal("branches", seen.host(), wanted);
    return ok("warp: 20 results a lane, leaving lanes, 4 branches");
}
