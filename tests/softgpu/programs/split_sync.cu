// Warp-wide instructions that the lanes of a warp reach on different paths: what counts is that all
// members execute one with the same qualifiers and the same member mask.
#include "check.cuh"

__global__ void branches(int4 *out)
{
    int t = threadIdx.x, lane = t % 32, v = t, other;
    unsigned votes;
    bool any;
    if (lane < 16) {
        v += 100;
        other = __shfl_xor_sync(0xffffffffu, v, 16);
        votes = __ballot_sync(0xffffffffu, t % 3 == 0);
        any = __any_sync(0xffffffffu, lane == 20);
    } else {
        v += 200;
        other = __shfl_xor_sync(0xffffffffu, v * 2, 16);
        votes = __ballot_sync(0xffffffffu, t % 5 == 0);
        any = __any_sync(0xffffffffu, lane == 21);
    }
    out[t] = make_int4(v, other, (int)votes, any);
}

/* In a switch, with halves of the warp that know nothing of each other. */
__global__ void halves(int *out)
{
    int t = threadIdx.x, lane = t % 32, r = 0;
    unsigned members = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    switch (lane % 4) {
    case 0:
        r = __shfl_sync(members, t * 10, 3, 16);
        break;
    case 1:
        r = __shfl_sync(members, t * 20, 3, 16) + 1;
        break;
    case 2:
        r = __shfl_sync(members, t * 30, 3, 16) + 2;
        break;
    default:
        r = __shfl_sync(members, t * 40, 3, 16) + 3;
    }
    out[t] = r;
}

/* One instruction, called from two places. */
__device__ __noinline__ int sum_of(int x)
{
    for (int d = 16; d; d /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

__global__ void calls(int *out)
{
    int t = threadIdx.x;
    if (t % 2)
        out[t] = sum_of(t) * 2;
    else
        out[t] = sum_of(t + 1000) * 3;
}

__global__ void groups(int4 *out, const unsigned long long *in)
{
    int t = threadIdx.x, all;
    unsigned same, least;
    if (t % 32 > 10) {
        same = __match_any_sync(0xffffffffu, in[t]);
        least = __reduce_min_sync(0xffffffffu, (unsigned)(in[t] >> 32));
        __match_all_sync(0xffffffffu, in[t] >> 60, &all);
    } else {
        unsigned long long x = in[t];
        same = __match_any_sync(0xffffffffu, x);
        least = __reduce_min_sync(0xffffffffu, (unsigned)(x >> 32) | 1u);
        __match_all_sync(0xffffffffu, x >> 60, &all);
    }
    out[t] = make_int4((int)same, (int)least, all, 0);
}

static void check_groups()
{
    std::vector<unsigned long long> in(64);
    for (int i = 0; i < 64; i++)
        in[i] = (unsigned long long)(i % 7 + 2) << 33 | (i * i % 5) << 8;
    dev<unsigned long long> din(in);
    dev<int4> out(64);
    groups<<<1, 64>>>(out.p, din.p);
    SYNC();
    std::vector<int4> want(64);
    for (int i = 0; i < 64; i++) {
        unsigned same = 0, least = ~0u;
        for (int j = i / 32 * 32, k = 0; k < 32; j++, k++) {
            same |= (unsigned)(in[i] == in[j]) << k;
            unsigned v = (unsigned)(in[j] >> 32) | (k > 10 ? 0u : 1u);
            least = v < least ? v : least;
        }
        want[i] = make_int4((int)same, (int)least, 1, 0);
    }
    expect_equal("groups", out.host(), want);
}

int main()
{
    need_capability(8, 0);
    dev<int4> out4(64);
    dev<int> out(64);
    std::vector<int4> want4(64);
    std::vector<int> want(64);

    branches<<<1, 64>>>(out4.p);
    SYNC();
    for (int i = 0; i < 64; i++) {
        int lane = i % 32, o = i ^ 16;
        unsigned votes = 0;
        for (int k = 0; k < 32; k++)
            votes |= (unsigned)((i / 32 * 32 + k) % (k < 16 ? 3 : 5) == 0) << k;
        want4[i] = make_int4(i + (lane < 16 ? 100 : 200), lane < 16 ? (o + 200) * 2 : o + 100,
                             (int)votes, 0);
    }
    for (int i = 0; i < 64; i++)
        want4[i].w = 1; // lane 21 says so in its branch
    expect_equal("branches", out4.host(), want4);

    halves<<<1, 64>>>(out.p);
    SYNC();
    for (int i = 0; i < 64; i++)
        want[i] = (i / 16 * 16 + 3) * 40 + i % 4;
    expect_equal("halves", out.host(), want);

    calls<<<1, 64>>>(out.p);
    SYNC();
    for (int i = 0; i < 64; i++) {
        int sum = 0;
        for (int j = i / 32 * 32, k = 0; k < 32; j++, k++)
            sum += j % 2 ? j : j + 1000;
        want[i] = sum * (i % 2 ? 2 : 3);
    }
    expect_equal("calls", out.host(), want);
    check_groups();
    return ok("warp-wide instructions on divided paths");
}
