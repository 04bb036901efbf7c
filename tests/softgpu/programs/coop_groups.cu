// Cooperative groups within a block: tiles of every size with shuffles, votes, reduce and scan;
// coalesced groups; labelled and binary partitions.
#include "check.cuh"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

struct result {
    int sum, max, xors, before, upto, from_last, rotated, votes;
};

template <int SIZE> __global__ void tiles(result *out, const int *in)
{
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<SIZE>(block);
    int t = block.thread_rank(), x = in[t];
    result r;
    r.sum = cg::reduce(tile, x, cg::plus<int>());
    r.max = cg::reduce(tile, x, cg::greater<int>());
    r.xors = cg::reduce(tile, x, cg::bit_xor<int>());
    r.before = cg::exclusive_scan(tile, x);
    r.upto = cg::inclusive_scan(tile, x, cg::less<int>());
    r.from_last = tile.shfl(x, SIZE - 1);
    r.rotated = tile.shfl(x, (tile.thread_rank() + 1) % SIZE);
    r.votes = (tile.any(x > 90) ? 1 : 0) + (tile.all(x < 95) ? 2 : 0) +
              4 * __popc(tile.ballot(x % 2 == 0)) + 1000 * tile.meta_group_rank();
    tile.sync();
    out[t] = r;
}

template <int SIZE> static void run_tiles(const std::vector<int> &in, const dev<int> &din)
{
    const int n = (int)in.size();
    dev<result> out(n);
    tiles<SIZE><<<1, n>>>(out.p, din.p);
    SYNC();
    std::vector<result> want(n);
    for (int i = 0; i < n; i++) {
        int first = i / SIZE * SIZE, even = 0;
        result r = {0, INT32_MIN, 0, 0, INT32_MAX, in[first + SIZE - 1], in[first + (i + 1) % SIZE],
                    0};
        bool any = false, all = true;
        for (int j = first; j < first + SIZE; j++) {
            r.sum += in[j], r.xors ^= in[j];
            r.max = in[j] > r.max ? in[j] : r.max;
            if (j < i)
                r.before += in[j];
            if (j <= i)
                r.upto = in[j] < r.upto ? in[j] : r.upto;
            any |= in[j] > 90, all &= in[j] < 95, even += in[j] % 2 == 0;
        }
        r.votes = any + 2 * all + 4 * even + 1000 * (i / SIZE);
        want[i] = r;
    }
    expect_equal(SIZE == 32 ? "32" : "tile", out.host(), want);
}

/* lanes that meet in a branch form a group; one of them does the atomic for all */
__global__ void coalesced(int *counter, int *slots, const int *in)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (in[t] % 3 == 0) {
        cg::coalesced_group g = cg::coalesced_threads();
        int base = 0;
        if (g.thread_rank() == 0)
            base = atomicAdd(counter, (int)g.size());
        base = g.shfl(base, 0);
        slots[base + (int)g.thread_rank()] = t;
    }
}

__global__ void partitions(int2 *out, const int *in)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int t = threadIdx.x, x = in[t];
    auto same = cg::labeled_partition(warp, x % 5);
    int sum = cg::reduce(same, x, cg::plus<int>());
    auto side = cg::binary_partition(warp, x > 50);
    out[t] = make_int2(sum, (int)side.size() * 100 + (int)same.size());
}

/* Tiles of several warps keep their state in shared memory that the system reserves. */
template <int size> __global__ void wide_tiles(int *out, const int *in)
{
    __shared__ int user[256];
    int t = threadIdx.x;
    user[t] = in[t];
    auto tile = cg::tiled_partition<size>(cg::this_thread_block());
    tile.sync();
    int sum = cg::reduce(tile, in[t], cg::plus<int>());
    int from = tile.shfl(in[t], 3);
    bool any = tile.any(in[t] == 50);
    __syncthreads();
    out[t] = user[t] == in[t] ? sum * 1000 + from * 10 + any : -1;
}

template <int size> static void run_wide_tiles(const std::vector<int> &in, dev<int> &din)
{
    dev<int> out(256);
    std::vector<int> want(256);
    wide_tiles<size><<<1, 256>>>(out.p, din.p);
    SYNC();
    for (int i = 0; i < 256; i++) {
        int first = i / size * size, sum = 0, any = 0;
        for (int j = first; j < first + size; j++)
            sum += in[j], any |= in[j] == 50;
        want[i] = sum * 1000 + in[first + 3] * 10 + any;
    }
    expect_equal("tiles of several warps", out.host(), want);
}

int main()
{
    need_capability(8, 0);
    auto in = random_ints<int>(256, 231, 0, 100);
    dev<int> din(in);
    run_tiles<1>(in, din);
    run_tiles<2>(in, din);
    run_tiles<4>(in, din);
    run_tiles<8>(in, din);
    run_tiles<16>(in, din);
    run_tiles<32>(in, din);

    run_wide_tiles<64>(in, din);
    run_wide_tiles<128>(in, din);
    run_wide_tiles<256>(in, din);

    dev<int> counter(1), slots(std::vector<int>(256, -1));
    coalesced<<<2, 128>>>(counter.p, slots.p, din.p);
    SYNC();
    std::vector<int> hits(256);
    int want = 0, have = counter.host()[0];
    for (int x : in)
        want += x % 3 == 0;
    expect_value("coalesced", have, want);
    auto got = slots.host();
    for (int i = 0; i < have; i++)
        if (got[i] < 0 || got[i] >= 256 || in[got[i]] % 3 || hits[got[i]]++)
            fail("slot %d holds %d", i, got[i]);

    dev<int2> parts(256);
    partitions<<<1, 256>>>(parts.p, din.p);
    SYNC();
    std::vector<int2> wanted(256);
    for (int i = 0; i < 256; i++) {
        int sum = 0, same = 0, side = 0;
        for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++) {
            if (in[j] % 5 == in[i] % 5)
                sum += in[j], same++;
            side += (in[j] > 50) == (in[i] > 50);
        }
        wanted[i] = make_int2(sum, side * 100 + same);
    }
    expect_equal("partitions", parts.host(), wanted);
    return ok("cooperative groups: 9 tile sizes, coalesced, labelled, binary");
}
