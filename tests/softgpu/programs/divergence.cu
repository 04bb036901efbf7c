// Control flow that differs between lanes: nested loops, switch with fall-through, early return,
// break and continue out of inner loops, goto, short-circuit conditions, loops that call functions.
// The host runs the same function.
// nvcc: -lineinfo
#include "check.cuh"

__host__ __device__ __noinline__ unsigned collatz(unsigned n)
{
    unsigned steps = 0;
    while (n != 1 && steps < 200) {
        n = n % 2 ? 3 * n + 1 : n / 2;
        steps++;
    }
    return steps;
}

__host__ __device__ unsigned nested(unsigned x)
{
    unsigned h = 1;
    for (unsigned i = 0; i < x % 9; i++) {
        for (unsigned j = i; j < x % 13; j++) {
            if ((i + j) % 5 == 3)
                continue;
            if (h % 97 == 11)
                break;
            for (unsigned k = 0; k < (i ^ j) % 4; k++) {
                h = h * 31 + k;
                if (h % 23 == 0)
                    goto next;
            }
            h += i * j;
        next:;
        }
        if (h > 0xf0000000u)
            return h ^ i;
        h = h * 7 + i;
    }
    return h;
}

__host__ __device__ unsigned switched(unsigned x)
{
    unsigned h = 0;
    for (int round = 0; round < 12; round++) {
        switch ((x >> round) % 11) {
        case 0:
            h += 3;
            // fall through
        case 1:
            h ^= x;
            break;
        case 2:
            if (h % 2)
                h = h * 5 + 1;
            else
                continue;
            break;
        case 4:
        case 5:
            h += collatz(x % 50 + 1);
            break;
        case 7:
            return h * 2;
        case 9:
            for (unsigned i = 0; i < x % 6; i++)
                h = h << 3 ^ h >> 2 ^ i;
            // fall through
        default:
            h += 0x9e37;
        }
        h = h * 3 + 1;
    }
    return h;
}

__host__ __device__ unsigned conditions(unsigned x, const unsigned *table)
{
    unsigned h = x;
    int i = 0;
    do {
        unsigned t = table[(x + i) % 64];
        if ((t % 3 == 0 && table[t % 64] > x) || (t % 5 == 1 && !(table[(t + 1) % 64] % 2)))
            h += t;
        else if (t % 7 < 3 ? x % 2 : table[t / 7 % 64] % 2)
            h ^= t << 3;
        if (x % 17 == 4 && i == 5)
            return h;
        i++;
    } while (i < (int)(x % 20) && h % 31 != 7);
    return h + i;
}

__host__ __device__ unsigned all_of(unsigned x, const unsigned *table)
{
    if (x % 29 == 0)
        return 0;
    unsigned h = nested(x);
    h = h * 17 + switched(x);
    if (x % 4 != 1)
        h = h * 17 + conditions(x, table);
    return h + collatz(x % 1000 + 1);
}

__global__ void torture(unsigned *out, const unsigned *in, const unsigned *table, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = all_of(in[i], table);
}

/* barriers reached from a loop whose length only the block knows, with lanes diverged before */
__global__ void around_barriers(unsigned *out, const unsigned *in, int rounds)
{
    __shared__ unsigned s[96];
    unsigned t = threadIdx.x, x = in[t];
    for (int r = 0; r < rounds; r++) {
        if (x % 3 == 0)
            x = collatz(x % 100 + 1);
        else if (x % 3 == 1)
            x = nested(x);
        s[t] = x;
        __syncthreads();
        x += s[(t * 7 + 1) % 96];
        __syncthreads();
    }
    out[t] = x;
}

int main()
{
    const int n = 3000;
    auto in = random_ints<unsigned>(n, 361, 0, 1ll << 32),
         table = random_ints<unsigned>(64, 362, 0, 999);
    dev<unsigned> din(in), dtable(table), out(n), few(96);
    torture<<<blocks_for(n, 128), 128>>>(out.p, din.p, dtable.p, n);
    SYNC();
    std::vector<unsigned> want(n);
    for (int i = 0; i < n; i++)
        want[i] = all_of(in[i], table.data());
    expect_equal("torture", out.host(), want);

    around_barriers<<<1, 96>>>(few.p, din.p, 6);
    SYNC();
    std::vector<unsigned> x(in.begin(), in.begin() + 96);
    for (int r = 0; r < 6; r++) {
        for (unsigned &v : x)
            v = v % 3 == 0 ? collatz(v % 100 + 1) : v % 3 == 1 ? nested(v) : v;
        auto s = x;
        for (unsigned t = 0; t < 96; t++)
            x[t] += s[(t * 7 + 1) % 96];
    }
    expect_equal("around barriers", few.host(), x);
    return ok("divergence: loops, switch, goto, returns, barriers");
}
