// Blocks that wait for each other by flags in global memory: a ring buffer between producer and
// consumer blocks, a pipeline of blocks, a queue of work that makes more work.
#include "check.cuh"

enum { SLOTS = 4 };

struct ring {
    unsigned head, tail; // written by one side each
    int items[SLOTS][32];
};

__device__ unsigned load_acquire(unsigned *p)
{
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

__device__ void store_release(unsigned *p, unsigned v)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__global__ void pairs(ring *rings, long long *sums, int items)
{
    ring *r = &rings[blockIdx.x / 2];
    int lane = threadIdx.x;
    long long sum = 0;
    for (int i = 0; i < items; i++) {
        if (blockIdx.x % 2 == 0) {
            while (i - load_acquire(&r->tail) >= SLOTS)
                ;
            r->items[i % SLOTS][lane] = i * 32 + lane;
            __syncwarp();
            if (lane == 0)
                store_release(&r->head, i + 1);
        } else {
            while (load_acquire(&r->head) <= (unsigned)i)
                ;
            sum += (long long)r->items[i % SLOTS][lane] * (i % 3 + 1);
            __syncwarp();
            if (lane == 0)
                store_release(&r->tail, i + 1);
        }
        __syncwarp();
    }
    if (blockIdx.x % 2)
        sums[blockIdx.x / 2 * 32 + lane] = sum;
}

/* block b transforms what block b - 1 left; blocks may start in any order */
__global__ void stages(volatile int *values, volatile int *done, int n)
{
    int b = blockIdx.x;
    if (threadIdx.x == 0 && b > 0)
        while (done[b - 1] == 0)
            ;
    __syncthreads();
    __threadfence();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        values[i] = values[i] * 3 + b;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        done[b] = 1;
}

/* a binary tree counted by a queue: an item with depth d > 0 adds two of depth d - 1 */
__global__ void tree(int *queue, unsigned *tail, unsigned *head, int *open, int *leaves)
{
    for (;;) {
        if (*(volatile int *)open == 0)
            return;
        unsigned at = *(volatile unsigned *)head;
        if (at >= *(volatile unsigned *)tail || atomicCAS(head, at, at + 1) != at)
            continue;
        int depth;
        while ((depth = atomicExch(&queue[at], -1)) < 0)
            ; // the place is taken, the item not yet written
        if (depth == 0) {
            atomicAdd(leaves, 1);
        } else {
            atomicAdd(open, 2);
            for (int k = 0; k < 2; k++)
                atomicExch(&queue[atomicAdd(tail, 1u)], depth - 1);
        }
        __threadfence();
        atomicSub(open, 1);
    }
}

int main()
{
    const int rings = 5, items = 40;
    dev<ring> r(rings);
    dev<long long> sums(rings * 32);
    pairs<<<2 * rings, 32>>>(r.p, sums.p, items);
    SYNC();
    std::vector<long long> want(rings * 32);
    for (int i = 0; i < rings * 32; i++)
        for (int k = 0; k < items; k++)
            want[i] += (long long)(k * 32 + i % 32) * (k % 3 + 1);
    expect_equal("rings", sums.host(), want);

    const int n = 100, blocks = 30;
    auto in = random_ints<int>(n, 381, 0, 10);
    dev<int> values(in), done(blocks);
    stages<<<blocks, 64>>>(values.p, done.p, n);
    SYNC();
    for (int b = 0; b < blocks; b++)
        for (int &x : in)
            x = (int)((unsigned)x * 3 + b);
    expect_equal("stages", values.host(), in);

    const int depth = 7;
    std::vector<int> queue(1 << (depth + 1), -1);
    queue[0] = depth;
    dev<int> dqueue(queue), open(std::vector<int>{1}), leaves(1);
    dev<unsigned> tail(std::vector<unsigned>{1}), head(1);
    tree<<<6, 32>>>(dqueue.p, tail.p, head.p, open.p, leaves.p);
    SYNC();
    expect_value("leaves", leaves.host()[0], 1 << depth);
    return ok("waiting blocks: rings, stages, work queue");
}
