// Locks: one taken by every lane of a warp in turn (lanes must make progress on their own), a
// ticket lock, a lock a bucket, and a reader that waits for a lane of its own warp.
// arch: -gencode arch=compute_75,code=compute_75
#include "check.cuh"

__device__ void lock(int *l)
{
    while (atomicCAS(l, 0, 1) != 0)
        __nanosleep(20);
    __threadfence();
}

__device__ void unlock(int *l)
{
    __threadfence();
    atomicExch(l, 0);
}

__global__ void count(volatile int *counter, int *l)
{
    lock(l);
    *counter = *counter + 1;
    unlock(l);
}

__global__ void tickets(volatile int *counter, unsigned *next, volatile unsigned *serving)
{
    unsigned mine = atomicAdd(next, 1u);
    while (*serving != mine)
        ;
    __threadfence();
    *counter = *counter * 3 + (int)(mine % 5);
    __threadfence();
    *serving = mine + 1;
}

/* moves money between accounts under both locks, in the order of their numbers */
__global__ void transfers(volatile long long *accounts, int *locks, const int2 *moves, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || moves[i].x == moves[i].y)
        return;
    int a = min(moves[i].x, moves[i].y), b = max(moves[i].x, moves[i].y);
    lock(&locks[a]);
    lock(&locks[b]);
    long long amount = accounts[moves[i].x] / 3 + i;
    accounts[moves[i].x] = accounts[moves[i].x] - amount;
    accounts[moves[i].y] = accounts[moves[i].y] + amount;
    unlock(&locks[b]);
    unlock(&locks[a]);
}

/* lane l waits for lane l+1: the last one starts the chain */
__global__ void chain(volatile int *flags, int *out)
{
    int lane = threadIdx.x;
    if (lane < (int)blockDim.x - 1)
        while (flags[lane + 1] == 0)
            ;
    int value = lane == (int)blockDim.x - 1 ? 1 : flags[lane + 1] + 1;
    out[lane] = value;
    __threadfence();
    flags[lane] = value;
}

int main()
{
    need_capability(7, 0);
    dev<int> counter(1), l(1);
    count<<<4, 64>>>(counter.p, l.p);
    SYNC();
    expect_value("count", counter.host()[0], 4 * 64);

    dev<unsigned> next(1), serving(1);
    counter.zero();
    tickets<<<3, 64>>>(counter.p, next.p, serving.p);
    SYNC();
    unsigned want = 0;
    for (unsigned i = 0; i < 3 * 64; i++)
        want = want * 3 + i % 5;
    expect_value("tickets", (unsigned)counter.host()[0], want);

    const int n = 300, many = 8;
    std::vector<int2> moves(n);
    rng r(371);
    for (auto &m : moves)
        m = make_int2((int)r.below(many), (int)r.below(many));
    dev<int2> dmoves(moves);
    dev<long long> accounts(std::vector<long long>(many, 1000));
    dev<int> locks(many);
    transfers<<<blocks_for(n, 96), 96>>>(accounts.p, locks.p, dmoves.p, n);
    SYNC();
    long long sum = 0;
    for (long long a : accounts.host())
        sum += a;
    expect_value("money", sum, 8000ll);
    expect_equal("locks", locks.host(), std::vector<int>(many));

    dev<int> flags(64), out(64);
    chain<<<1, 64>>>(flags.p, out.p);
    SYNC();
    std::vector<int> wanted(64);
    for (int i = 0; i < 64; i++)
        wanted[i] = 64 - i;
    expect_equal("chain", out.host(), wanted);
    return ok("locks: one a lane, tickets, two at a time, chain of lanes");
}
