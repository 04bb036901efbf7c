// libcu++: cuda::atomic and atomic_ref in three scopes and orders, cuda::barrier, latch, counting
// semaphore, and a block-wide cuda::pipeline.
#include "check.cuh"

#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>

#include <cooperative_groups.h>

#include <utility>

using block_barrier = cuda::barrier<cuda::thread_scope_block>;
using device_int = cuda::atomic<int, cuda::thread_scope_device>;

struct state {
    device_int tickets, peak;
    cuda::atomic<unsigned long long, cuda::thread_scope_system> sum;
    cuda::counting_semaphore<cuda::thread_scope_device, 4> room;
    cuda::latch<cuda::thread_scope_device> gate;
    int inside;
};

__global__ void init(state *s, int blocks)
{
    new (&s->tickets) device_int(0);
    new (&s->peak) device_int(0);
    new (&s->sum) cuda::atomic<unsigned long long, cuda::thread_scope_system>(0);
    new (&s->room) cuda::counting_semaphore<cuda::thread_scope_device, 4>(3);
    new (&s->gate) cuda::latch<cuda::thread_scope_device>(blocks);
}

/* at most three blocks are inside at a time; nobody leaves before all blocks came in */
__global__ void visit(state *s, int *tickets)
{
    if (threadIdx.x)
        return;
    s->room.acquire();
    cuda::atomic_ref<int, cuda::thread_scope_device> inside(s->inside);
    int now = inside.fetch_add(1, cuda::memory_order_acq_rel) + 1;
    s->peak.fetch_max(now, cuda::memory_order_relaxed);
    int ticket = s->tickets.fetch_add(1);
    tickets[ticket] = blockIdx.x;
    s->sum.fetch_add(1ull << blockIdx.x, cuda::memory_order_seq_cst);
    inside.fetch_sub(1, cuda::memory_order_release);
    s->room.release();
    s->gate.arrive_and_wait();
    int expected = (int)gridDim.x;
    while (!s->tickets.compare_exchange_weak(expected, -1))
        if (expected == -1)
            return;
        else
            expected = (int)gridDim.x;
}

__global__ void barrier_sum(int *out)
{
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ block_barrier bar;
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t == 0)
        init(&bar, blockDim.x);
    s[t] = t * t;
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
        auto token = bar.arrive();
        bar.wait(std::move(token));
        if (t < d)
            s[t] += s[t + d];
    }
    bar.arrive_and_wait();
    out[t] = s[0];
}

__global__ void pipelined(int *out, const int *in, int tiles)
{
    __shared__ int s[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> shared;
    auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &shared);
    int t = threadIdx.x;
    for (int i = 0; i <= tiles; i++) {
        if (i < tiles) {
            pipe.producer_acquire();
            cuda::memcpy_async(&s[i % 2][t], &in[i * 64 + t], sizeof(int), pipe);
            pipe.producer_commit();
        }
        if (i > 0) {
            pipe.consumer_wait();
            out[(i - 1) * 64 + t] = s[(i - 1) % 2][63 - t];
            pipe.consumer_release();
        }
    }
}

int main()
{
    need_capability(8, 0);
    const int blocks = 20;
    dev<unsigned char> raw(sizeof(state));
    state *s = (state *)raw.p;
    dev<int> tickets(blocks);
    init<<<1, 1>>>(s, blocks);
    visit<<<blocks, 32>>>(s, tickets.p);
    SYNC();
    auto bytes = raw.host();
    const state *h = (const state *)bytes.data();
    expect_value("all came", h->sum.load(), (1ull << blocks) - 1);
    expect_value("tickets", h->tickets.load(), -1);
    if (h->peak.load() < 1 || h->peak.load() > 3 || h->inside != 0)
        fail("semaphore: %d inside at most, %d at the end", h->peak.load(), h->inside);

    dev<int> sums(64);
    barrier_sum<<<1, 64>>>(sums.p);
    SYNC();
    expect_equal("barrier", sums.host(), std::vector<int>(64, 63 * 64 * 127 / 6));

    const int tiles = 9;
    auto in = random_ints<int>(tiles * 64, 201, -99, 99);
    auto want = in;
    for (int i = 0; i < tiles * 64; i++)
        want[i] = in[i / 64 * 64 + 63 - i % 64];
    dev<int> din(in), out(tiles * 64);
    pipelined<<<1, 64>>>(out.p, din.p, tiles);
    SYNC();
    expect_equal("pipeline", out.host(), want);
    return ok("libcu++: atomics, semaphore, latch, barrier, pipeline");
}
