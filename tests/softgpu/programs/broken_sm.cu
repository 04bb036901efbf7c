// env: "SOFTGPU_FAULT=sm=2 unit=fma bit=9 when=|x|>1.5 rate=0.05 seed=4"
/*
 * Finds a broken multiprocessor by comparing two runs: the same tiles, in the second run each by
 * another block and so on another multiprocessor. A tile that differs accuses both that computed
 * it; the one that all differing tiles have in common is it.
 */
#include "check.cuh"

static const int TILE = 16, TILES = 64, DEPTH = 64;

__device__ static unsigned smid()
{
    unsigned id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

__global__ void product(const float *a, const float *b, float *c, unsigned *sm, int turn)
{
    int tile = (blockIdx.x + turn) % TILES, x = threadIdx.x, y = threadIdx.y;
    float sum = 0;

    for (int k = 0; k < DEPTH; k++)
        sum = fmaf(a[(tile * TILE + y) * DEPTH + k], b[k * TILE + x], sum);
    c[(tile * TILE + y) * TILE + x] = sum;
    if (x == 0 && y == 0)
        sm[tile] = smid();
}

struct run {
    std::vector<float> c;
    std::vector<unsigned> sm;
};

static run compute(const dev<float> &a, const dev<float> &b, int turn)
{
    dev<float> c(TILES * TILE * TILE);
    dev<unsigned> sm(TILES);

    product<<<TILES, dim3(TILE, TILE)>>>(a.p, b.p, c.p, sm.p, turn);
    CHECK(cudaGetLastError());
    return {c.host(), sm.host()};
}

int main()
{
    std::vector<float> a(TILES * TILE * DEPTH), b(DEPTH * TILE);
    bool broken = getenv("SOFTGPU_FAULT") || getenv("SOFTGPU_FAULT_REPLAY");
    unsigned differ = 0;

    for (size_t i = 0; i < a.size(); i++)
        a[i] = (float)(int)(i * 2654435761u % 4093) / 1000 - 2;
    for (size_t i = 0; i < b.size(); i++)
        b[i] = (float)(int)(i * 40503u % 1021) / 300 - 2;
    dev<float> da(a), db(b);
    run first = compute(da, db, 0), second = compute(da, db, 1);
    std::vector<unsigned> accused(1024);

    for (int t = 0; t < TILES; t++) {
        if (first.sm[t] == second.sm[t])
            skip("one multiprocessor only");
        if (memcmp(&first.c[t * TILE * TILE], &second.c[t * TILE * TILE],
                   sizeof(float) * TILE * TILE) == 0)
            continue;
        differ++;
        accused.at(first.sm[t])++;
        accused.at(second.sm[t])++;
    }
    if (!broken) {
        if (differ != 0)
            fail("%u tiles differ on a device that is not broken", differ);
        return ok("no tile differs");
    }
    if (differ == 0)
        fail("no tile differs on a broken device");
    for (unsigned sm = 0; sm < accused.size(); sm++)
        if (accused[sm] == differ && sm != 2)
            fail("multiprocessor %u is accused by all of %u tiles", sm, differ);
    if (accused[2] != differ)
        fail("multiprocessor 2 is accused by %u of %u tiles", accused[2], differ);
    return ok("multiprocessor 2 is broken: all of %u tiles that differ were on it", differ);
}
