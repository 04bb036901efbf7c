// Recursion and local memory: Ackermann, quicksort with an explicit and with the call stack, Hanoi,
// arrays indexed by data; the stack limit.
#include "check.cuh"

#include <algorithm>

__host__ __device__ __noinline__ unsigned ackermann(unsigned m, unsigned n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

__device__ void quicksort(int *x, int lo, int hi)
{
    while (lo < hi) {
        int pivot = x[(lo + hi) / 2], i = lo, j = hi;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i <= j) {
                int t = x[i];
                x[i++] = x[j];
                x[j--] = t;
            }
        }
        if (j - lo < hi - i) {
            quicksort(x, lo, j);
            lo = i;
        } else {
            quicksort(x, i, hi);
            hi = j;
        }
    }
}

__host__ __device__ unsigned hanoi(int n, int from, int to, unsigned hash)
{
    if (n == 0)
        return hash;
    hash = hanoi(n - 1, from, 6 - from - to, hash);
    hash = hash * 31 + from * 4 + to;
    return hanoi(n - 1, 6 - from - to, to, hash);
}

__global__ void recurse(unsigned *ack, unsigned *moves)
{
    int t = threadIdx.x;
    ack[t] = ackermann(t % 3, t % 5); // depths differ between lanes
    moves[t] = hanoi(t % 7, 1, 3, 17);
}

__global__ void sort_rows(int *x, int n)
{
    quicksort(x + (size_t)threadIdx.x * n, 0, n - 1);
}

/* counts of digits in an array that only an index knows */
__global__ void local_counts(int *out, const unsigned *in)
{
    int counts[16] = {};
    unsigned char order[16];
    unsigned x = in[threadIdx.x];
    for (int k = 0; k < 8; k++)
        counts[x >> 4 * k & 15]++;
    for (int k = 0; k < 16; k++)
        order[(k * 5 + x) % 16] = (unsigned char)k;
    int hash = 0;
    for (int k = 0; k < 16; k++)
        hash = hash * 9 + counts[order[k]] + order[15 - k];
    out[threadIdx.x] = hash;
}

static int host_counts(unsigned x)
{
    int counts[16] = {}, order[16], hash = 0;
    for (int k = 0; k < 8; k++)
        counts[x >> 4 * k & 15]++;
    for (int k = 0; k < 16; k++)
        order[(k * 5 + x) % 16] = k;
    for (int k = 0; k < 16; k++)
        hash = (int)((unsigned)hash * 9 + counts[order[k]] + order[15 - k]);
    return hash;
}

int main()
{
    size_t limit = 0;
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
    if (limit < 8192)
        fail("stack limit %zu", limit);
    dev<unsigned> ack(64), moves(64);
    recurse<<<1, 64>>>(ack.p, moves.p);
    SYNC();
    std::vector<unsigned> want_ack(64), want_moves(64);
    for (int t = 0; t < 64; t++) {
        want_ack[t] = ackermann(t % 3, t % 5);
        want_moves[t] = hanoi(t % 7, 1, 3, 17);
    }
    expect_equal("ackermann", ack.host(), want_ack);
    expect_equal("hanoi", moves.host(), want_moves);

    const int rows = 40, n = 50;
    auto x = random_ints<int>(rows * n, 341, -100, 100);
    dev<int> d(x), out(128);
    sort_rows<<<1, rows>>>(d.p, n);
    SYNC();
    for (int r = 0; r < rows; r++)
        std::sort(&x[r * n], &x[r * n] + n);
    expect_equal("quicksort", d.host(), x);

    auto in = random_ints<unsigned>(128, 342, 0, 1ll << 32);
    dev<unsigned> din(in);
    local_counts<<<1, 128>>>(out.p, din.p);
    SYNC();
    std::vector<int> want(128);
    for (int i = 0; i < 128; i++)
        want[i] = host_counts(in[i]);
    expect_equal("local arrays", out.host(), want);
    return ok("recursion: Ackermann, Hanoi, quicksort, local arrays");
}
