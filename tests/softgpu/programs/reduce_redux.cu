// __reduce_*_sync over full and partial masks of a warp (compute capability 8.0).
#include "check.cuh"

__global__ void reduce(unsigned *out, const unsigned *in, unsigned mask)
{
    unsigned lane = threadIdx.x, x = in[blockIdx.x * 32 + lane];
    if (!(mask >> lane & 1))
        return;
    unsigned *o = out + (blockIdx.x * 32 + lane) * 8;
    o[0] = __reduce_add_sync(mask, x);
    o[1] = (unsigned)__reduce_add_sync(mask, (int)x);
    o[2] = __reduce_min_sync(mask, x);
    o[3] = (unsigned)__reduce_min_sync(mask, (int)x);
    o[4] = __reduce_max_sync(mask, x);
    o[5] = (unsigned)__reduce_max_sync(mask, (int)x);
    o[6] = __reduce_and_sync(mask, x) ^ __reduce_or_sync(mask, x);
    o[7] = __reduce_xor_sync(mask, x);
}

/* both halves of a warp reduce their own lanes, in branches of their own */
__global__ void two_halves(unsigned *out, const unsigned *in)
{
    unsigned lane = threadIdx.x;
    if (lane % 2)
        out[lane] = __reduce_add_sync(0xaaaaaaaau, in[lane]);
    else
        out[lane] = __reduce_max_sync(0x55555555u, in[lane]);
}

static void reference(unsigned *o, const unsigned *x, unsigned mask)
{
    unsigned add = 0, umin = ~0u, umax = 0, all = ~0u, any = 0, odd = 0;
    int smin = INT32_MAX, smax = INT32_MIN;
    for (int l = 0; l < 32; l++) {
        if (!(mask >> l & 1))
            continue;
        add += x[l], all &= x[l], any |= x[l], odd ^= x[l];
        umin = x[l] < umin ? x[l] : umin, umax = x[l] > umax ? x[l] : umax;
        smin = (int)x[l] < smin ? (int)x[l] : smin, smax = (int)x[l] > smax ? (int)x[l] : smax;
    }
    unsigned r[8] = {add, add, umin, (unsigned)smin, umax, (unsigned)smax, all ^ any, odd};
    memcpy(o, r, sizeof r);
}

int main()
{
    need_capability(8, 0);
    const int warps = 40;
    auto in = random_ints<unsigned>(warps * 32, 3, 0, 1ll << 32);
    dev<unsigned> din(in), out(warps * 32 * 8);
    for (unsigned mask : {0xffffffffu, 0x0000ffffu, 0x80000001u, 0x5a5a5a5au, 0x00100000u}) {
        out.zero();
        reduce<<<warps, 32>>>(out.p, din.p, mask);
        SYNC();
        std::vector<unsigned> want(warps * 32 * 8);
        for (int i = 0; i < warps * 32; i++)
            if (mask >> i % 32 & 1)
                reference(&want[(size_t)i * 8], &in[(size_t)(i / 32) * 32], mask);
        expect_equal("redux", out.host(), want);
    }
    dev<unsigned> two(32);
    two_halves<<<1, 32>>>(two.p, din.p);
    SYNC();
    unsigned odd[8], even[8];
    reference(odd, in.data(), 0xaaaaaaaau);
    reference(even, in.data(), 0x55555555u);
    std::vector<unsigned> want(32);
    for (int l = 0; l < 32; l++)
        want[l] = l % 2 ? odd[0] : even[4];
    expect_equal("halves", two.host(), want);
    return ok("redux: 8 reductions, 5 masks, 2 branches");
}
