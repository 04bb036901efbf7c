// malloc, free, new and delete in kernels: lists that grow by atomics, memory that outlives the
// kernel, exhaustion answers NULL, freed memory is used again.
#include "check.cuh"

struct node {
    node *next;
    int value;
};

__device__ node *heads[8];

__global__ void push(int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    node *fresh = (node *)malloc(sizeof(node));
    if (!fresh)
        return;
    fresh->value = i;
    unsigned long long *head = (unsigned long long *)&heads[i % 8], seen = *head, old;
    do {
        old = seen;
        fresh->next = (node *)old;
        __threadfence();
        seen = atomicCAS(head, old, (unsigned long long)fresh);
    } while (seen != old);
}

__global__ void drain(int *hits)
{
    node *n = heads[threadIdx.x];
    heads[threadIdx.x] = nullptr;
    while (n) {
        node *next = n->next;
        if (n->value % 8 == (int)threadIdx.x)
            hits[n->value]++;
        free(n);
        n = next;
    }
}

/* sizes that differ; every byte is written and read */
__global__ void scratch(unsigned *out, int rounds)
{
    unsigned sum = 0, t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < rounds; r++) {
        unsigned n = 1 + (t * 37 + r * 11) % 300;
        unsigned char *p = (unsigned char *)malloc(n);
        if (!p) {
            sum = ~0u;
            break;
        }
        for (unsigned i = 0; i < n; i++)
            p[i] = (unsigned char)(t + i);
        for (unsigned i = 0; i < n; i++)
            sum += p[i];
        free(p);
    }
    out[t] = sum;
}

__global__ void exhaust(int *blocks, size_t size)
{
    void *first = nullptr;
    int n = 0;
    for (void **p; (p = (void **)malloc(size)); first = p, n++)
        *p = first;
    while (first) {
        void *next = *(void **)first;
        free(first);
        first = next;
    }
    *blocks = n;
}

int main()
{
    const size_t heap = 8 << 20;
    size_t limit = 0;
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap));
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    if (limit < heap)
        fail("heap limit %zu", limit);
    const int n = 1000;
    dev<int> hits(n), count(1);
    for (int round = 0; round < 3; round++) {
        hits.zero();
        push<<<blocks_for(n, 64), 64>>>(n);
        drain<<<1, 8>>>(hits.p);
        SYNC();
        expect_equal("nodes", hits.host(), std::vector<int>(n, 1));
    }
    dev<unsigned> out(96);
    scratch<<<3, 32>>>(out.p, 20);
    SYNC();
    std::vector<unsigned> want(96);
    for (unsigned t = 0; t < 96; t++)
        for (int r = 0; r < 20; r++)
            for (unsigned i = 0; i < 1 + (t * 37 + r * 11) % 300; i++)
                want[t] += (unsigned char)(t + i);
    expect_equal("scratch", out.host(), want);

    std::vector<int> blocks;
    for (int round = 0; round < 2; round++) {
        exhaust<<<1, 1>>>(count.p, 100 << 10);
        SYNC();
        blocks.push_back(count.host()[0]);
        if (blocks[round] < 20 || blocks[round] > (int)(limit / (100 << 10)))
            fail("%d blocks of 100 KiB in a heap of %zu", blocks[round], limit);
    }
    if (blocks[1] < blocks[0] * 9 / 10)
        fail("%d blocks, then only %d: freed memory is lost", blocks[0], blocks[1]);
    return ok("device heap: lists, scratch, exhaustion after %d blocks", blocks[0]);
}
