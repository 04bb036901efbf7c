// Every atomic function of CUDA C++, on global and on shared memory, in device, block and system
// scope, against a loop over the same values.
#include "check.cuh"

#include <algorithm>

struct totals {
    int add, sub, min, max, and_, or_, xor_;
    unsigned uadd, umin, umax, inc, dec;
    unsigned long long add64, umin64, umax64, and64, or64, xor64;
    long long min64, max64;
    float addf;
    double addd;
    int swapped; // sum of all values that passed through an exchange, and the one that stayed
    unsigned cas_max;
    unsigned long long cas_count;
};

__device__ void update(totals *t, int x, int *slot)
{
    unsigned u = (unsigned)x;
    unsigned long long w = ((unsigned long long)u << 32) | (u * 2654435761u);
    atomicAdd(&t->add, x);
    atomicSub(&t->sub, x);
    atomicMin(&t->min, x);
    atomicMax(&t->max, x);
    atomicAnd(&t->and_, x | 0x70000000);
    atomicOr(&t->or_, x);
    atomicXor(&t->xor_, x);
    atomicAdd_block(&t->uadd, u);
    atomicMin(&t->umin, u);
    atomicMax_system(&t->umax, u);
    atomicInc(&t->inc, 1000);
    atomicDec(&t->dec, 700);
    atomicAdd_system(&t->add64, w);
    atomicMin(&t->umin64, w);
    atomicMax(&t->umax64, w);
    atomicAnd(&t->and64, w | 1);
    atomicOr(&t->or64, w);
    atomicXor(&t->xor64, w);
    atomicMin(&t->min64, (long long)w);
    atomicMax(&t->max64, (long long)w);
    atomicAdd(&t->addf, (float)(x % 64));
    atomicAdd(&t->addd, (double)(x % 1024));
    int before = atomicExch(slot, x);
    atomicAdd(&t->swapped, before);
    unsigned seen = *(volatile unsigned *)&t->cas_max;
    while (seen < u) {
        unsigned old = atomicCAS(&t->cas_max, seen, u);
        if (old == seen)
            break;
        seen = old;
    }
    unsigned long long c = *(volatile unsigned long long *)&t->cas_count, old;
    while ((old = atomicCAS(&t->cas_count, c, c + 3)) != c)
        c = old;
}

__global__ void in_global(totals *t, int *slot, const int *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        update(t, in[i], slot);
}

__global__ void in_shared(totals *t, int *slot, const int *in, int n)
{
    __shared__ totals s;
    __shared__ int sslot;
    if (threadIdx.x == 0) {
        s = *t;
        sslot = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        update(&s, in[i], &sslot);
    __syncthreads();
    if (threadIdx.x == 0) {
        *t = s;
        *slot = sslot;
    }
}

static totals empty()
{
    totals t;
    memset(&t, 0, sizeof t);
    t.min = INT32_MAX;
    t.max = INT32_MIN;
    t.and_ = -1;
    t.umin = UINT32_MAX;
    t.umin64 = UINT64_MAX;
    t.and64 = UINT64_MAX;
    t.min64 = INT64_MAX;
    t.max64 = INT64_MIN;
    return t;
}

static totals reference(const std::vector<int> &in)
{
    totals t = empty();
    for (int x : in) {
        unsigned u = (unsigned)x;
        unsigned long long w = ((unsigned long long)u << 32) | (u * 2654435761u);
        t.add += x, t.sub -= x, t.min = std::min(t.min, x), t.max = std::max(t.max, x);
        t.and_ &= x | 0x70000000, t.or_ |= x, t.xor_ ^= x;
        t.uadd += u, t.umin = std::min(t.umin, u), t.umax = std::max(t.umax, u);
        t.inc = t.inc >= 1000 ? 0 : t.inc + 1;
        t.dec = t.dec == 0 || t.dec > 700 ? 700 : t.dec - 1;
        t.add64 += w, t.umin64 = std::min(t.umin64, w), t.umax64 = std::max(t.umax64, w);
        t.and64 &= w | 1, t.or64 |= w, t.xor64 ^= w;
        t.min64 = std::min(t.min64, (long long)w), t.max64 = std::max(t.max64, (long long)w);
        t.addf += (float)(x % 64), t.addd += (double)(x % 1024);
        t.swapped += x;
        t.cas_max = std::max(t.cas_max, u);
        t.cas_count += 3;
    }
    return t;
}

#define SAME(field) expect_value(#field, got.field, want.field)
static void compare(totals got, int left, const totals &want)
{
    got.swapped += left;
    SAME(add), SAME(sub), SAME(min), SAME(max), SAME(and_), SAME(or_), SAME(xor_);
    SAME(uadd), SAME(umin), SAME(umax), SAME(inc), SAME(dec);
    SAME(add64), SAME(umin64), SAME(umax64), SAME(and64), SAME(or64), SAME(xor64);
    SAME(min64), SAME(max64), SAME(addf), SAME(addd), SAME(swapped), SAME(cas_max);
    SAME(cas_count);
}

int main()
{
    auto in = random_ints<int>(3001, 5, 1, 1 << 20);
    totals want = reference(in);
    dev<int> din(in), slot(1);
    dev<totals> t(std::vector<totals>{empty()});
    in_global<<<24, 128>>>(t.p, slot.p, din.p, (int)in.size());
    SYNC();
    compare(t.host()[0], slot.host()[0], want);
    t.set({empty()});
    in_shared<<<1, 256>>>(t.p, slot.p, din.p, (int)in.size());
    SYNC();
    compare(t.host()[0], slot.host()[0], want);
    return ok("atomics: 25 totals on global and on shared memory");
}
