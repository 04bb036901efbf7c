// k-means on integer points (exact in any order): assignment by the nearest centre held in constant
// memory, sums by shared and global atomics, until nothing moves.
#include "check.cuh"

enum { K = 7, N = 4000, MOST = 60 };

__constant__ int2 centres[K];

__host__ __device__ int nearest(int2 p, const int2 *c)
{
    int best = 0;
    long long least = INT64_MAX;
    for (int k = 0; k < K; k++) {
        long long dx = p.x - c[k].x, dy = p.y - c[k].y, d = dx * dx + dy * dy;
        if (d < least) {
            least = d;
            best = k;
        }
    }
    return best;
}

__global__ void assign(int *label, long long *sums, int *moved, const int2 *points, int n)
{
    __shared__ unsigned long long s[K][3];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 3 * K)
        s[t / 3][t % 3] = 0;
    __syncthreads();
    int changed = 0;
    if (i < n) {
        int k = nearest(points[i], centres);
        changed = label[i] != k;
        label[i] = k;
        atomicAdd(&s[k][0], (unsigned long long)points[i].x);
        atomicAdd(&s[k][1], (unsigned long long)points[i].y);
        atomicAdd(&s[k][2], 1ull);
    }
    changed = __syncthreads_count(changed);
    if (t == 0)
        atomicAdd(moved, changed);
    if (t < 3 * K)
        atomicAdd((unsigned long long *)&sums[t], s[t / 3][t % 3]);
}

static void move_centres(int2 *c, const long long *sums)
{
    for (int k = 0; k < K; k++)
        if (sums[k * 3 + 2])
            c[k] = make_int2((int)(sums[k * 3] / sums[k * 3 + 2]),
                             (int)(sums[k * 3 + 1] / sums[k * 3 + 2]));
}

int main()
{
    rng r(561);
    std::vector<int2> points(N);
    for (auto &p : points) {
        int blob = (int)r.below(K);
        p = make_int2(blob * 1000 + (int)r.below(900), blob * blob * 500 + (int)r.below(900));
    }
    int2 c[K], h[K];
    for (int k = 0; k < K; k++)
        c[k] = h[k] = points[k * 31];
    dev<int2> d(points);
    dev<int> label(std::vector<int>(N, -1)), moved(1);
    dev<long long> sums(3 * K);
    std::vector<int> want(N, -1);
    int rounds = 0;
    for (int changed = 1; changed && rounds < MOST; rounds++) {
        CHECK(cudaMemcpyToSymbol(centres, c, sizeof c));
        sums.zero(), moved.zero();
        assign<<<blocks_for(N, 96), 96>>>(label.p, sums.p, moved.p, d.p, N);
        SYNC();
        move_centres(c, sums.host().data());
        changed = moved.host()[0];
        long long hs[3 * K] = {};
        for (int i = 0; i < N; i++) {
            int k = want[i] = nearest(points[i], h);
            hs[k * 3] += points[i].x, hs[k * 3 + 1] += points[i].y, hs[k * 3 + 2]++;
        }
        move_centres(h, hs);
    }
    expect_equal("labels", label.host(), want);
    expect_equal("centres", std::vector<int2>(c, c + K), std::vector<int2>(h, h + K));
    return ok("k-means: %d rounds", rounds);
}
