// A prefix sum in a single pass: each block publishes its sum, then looks back over its
// predecessors until it meets one that knows its whole prefix. Blocks wait for each other.
#include "check.cuh"

enum { EMPTY = 0, SUM = 1, PREFIX = 2, THREADS = 128, ITEMS = 4, TILE = THREADS * ITEMS };

struct tile_state {
    unsigned status;
    int sum, prefix;
};

__device__ int look_back(volatile tile_state *tiles, int tile)
{
    int before = 0;
    for (int t = tile - 1; t >= 0; t--) {
        unsigned status;
        while ((status = tiles[t].status) == EMPTY)
            ;
        __threadfence();
        if (status == PREFIX)
            return before + tiles[t].prefix;
        before += tiles[t].sum;
    }
    return before;
}

/* 32 predecessors at a time; sum and status travel in one 64-bit word */
__device__ int look_back_warp(volatile unsigned long long *words, int tile)
{
    int before = 0, lane = threadIdx.x;
    for (int base = tile - 1;; base -= 32) {
        int t = base - lane;
        unsigned long long w = (unsigned long long)PREFIX << 32;
        if (t >= 0)
            do
                w = words[t];
            while (w >> 32 == EMPTY);
        __syncwarp();
        unsigned done = __ballot_sync(~0u, (w >> 32) == PREFIX);
        int last = done ? __ffs(done) - 1 : 31;
        before += __reduce_add_sync(~0u, lane <= last ? (int)(unsigned)w : 0);
        if (done)
            return before;
    }
}

template <bool WARP>
__global__ void scan(int *out, const int *in, int n, void *state, int *next_tile)
{
    __shared__ int warp_sums[THREADS / 32], tile_shared, before_shared;
    tile_state *tiles = (tile_state *)state;
    unsigned long long *words = (unsigned long long *)state;
    if (threadIdx.x == 0)
        tile_shared = atomicAdd(next_tile, 1);
    __syncthreads();
    int tile = tile_shared, at = tile * TILE + threadIdx.x * ITEMS, x[ITEMS], sum = 0;
    for (int k = 0; k < ITEMS; k++) {
        sum += at + k < n ? in[at + k] : 0;
        x[k] = sum;
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, inclusive = sum;
    for (int d = 1; d < 32; d *= 2) {
        int y = __shfl_up_sync(~0u, inclusive, d);
        inclusive += lane >= d ? y : 0;
    }
    if (lane == 31)
        warp_sums[warp] = inclusive;
    __syncthreads();
    int offset = inclusive - sum, total = 0;
    for (int w = 0; w < THREADS / 32; w++) {
        offset += w < warp ? warp_sums[w] : 0;
        total += warp_sums[w];
    }
    if (WARP && warp == 0) {
        if (lane == 0)
            atomicExch(&words[tile], (unsigned long long)SUM << 32 | (unsigned)total);
        int before = look_back_warp(words, tile);
        if (lane == 0) {
            atomicExch(&words[tile], (unsigned long long)PREFIX << 32 | (unsigned)(before + total));
            before_shared = before;
        }
    }
    if (!WARP && threadIdx.x == 0) {
        tiles[tile].sum = total;
        __threadfence();
        atomicExch(&tiles[tile].status, (unsigned)SUM);
        before_shared = look_back(tiles, tile);
        tiles[tile].prefix = before_shared + total;
        __threadfence();
        atomicExch(&tiles[tile].status, (unsigned)PREFIX);
    }
    __syncthreads();
    for (int k = 0; k < ITEMS; k++)
        if (at + k < n)
            out[at + k] = before_shared + offset + x[k];
}

int main()
{
    need_capability(8, 0);
    for (int n : {1, TILE - 1, (int)TILE, 60000, 200 * TILE + 3}) {
        auto in = random_ints<int>(n, 31, -100, 101);
        std::vector<int> want(n);
        for (int i = 0, sum = 0; i < n; i++)
            want[i] = sum += in[i];
        unsigned tiles = blocks_for(n, TILE);
        dev<int> din(in), out(n), next(1);
        dev<tile_state> state(tiles);
        scan<false><<<tiles, THREADS>>>(out.p, din.p, n, state.p, next.p);
        SYNC();
        expect_equal("look-back", out.host(), want);
        out.zero(), state.zero(), next.zero();
        scan<true><<<tiles, THREADS>>>(out.p, din.p, n, state.p, next.p);
        SYNC();
        expect_equal("warp look-back", out.host(), want);
    }
    return ok("look-back scan: 5 sizes, by a thread and by a warp");
}
