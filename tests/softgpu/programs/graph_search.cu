// Breadth-first search with a frontier queue, connected components by union-find with compare and
// swap, all-pairs shortest paths by Floyd and Warshall.
// arch: -gencode arch=compute_75,code=compute_75
#include "check.cuh"

#include <algorithm>
#include <queue>

__global__ void expand(const int *start, const int *edges, int *level, const int *frontier, int n,
                       int *next, int *count, int depth)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int v = frontier[i];
    for (int e = start[v]; e < start[v + 1]; e++)
        if (atomicCAS(&level[edges[e]], -1, depth) == -1)
            next[atomicAdd(count, 1)] = edges[e];
}

__device__ int find(volatile int *parent, int v)
{
    while (parent[v] != v) {
        parent[v] = parent[parent[v]]; // path halving: only ever moves closer to the root
        v = parent[v];
    }
    return v;
}

__global__ void unite(int *parent, const int2 *pairs, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int a = pairs[i].x, b = pairs[i].y;
    for (;;) {
        a = find(parent, a), b = find(parent, b);
        if (a == b)
            return;
        if (a < b) { // the larger root goes under the smaller
            int t = a;
            a = b;
            b = t;
        }
        if (atomicCAS(&parent[a], a, b) == a)
            return;
    }
}

__global__ void flatten(int *parent, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        ((volatile int *)parent)[i] = find(parent, i); // others look on meanwhile
}

__global__ void relax(float *d, int n, int k)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    float over = j < n ? d[i * n + k] + d[k * n + j] : INFINITY;
    if (j < n && over < d[i * n + j]) // never so in row k or column k, which others read
        d[i * n + j] = over;
}

static void search(int n, const std::vector<int2> &pairs)
{
    std::vector<std::vector<int>> near(n);
    for (auto &p : pairs) {
        near[p.x].push_back(p.y);
        near[p.y].push_back(p.x);
    }
    std::vector<int> start{0}, edges, level(n, -1), want(n, -1);
    for (auto &l : near) {
        edges.insert(edges.end(), l.begin(), l.end());
        start.push_back((int)edges.size());
    }
    std::queue<int> q;
    want[0] = 0;
    for (q.push(0); !q.empty(); q.pop())
        for (int v : near[q.front()])
            if (want[v] < 0) {
                want[v] = want[q.front()] + 1;
                q.push(v);
            }
    level[0] = 0;
    dev<int> dstart(start), dedges(edges), dlevel(level), a(std::vector<int>(n, 0)), b(n), count(1);
    int have = 1;
    for (int depth = 1; have; depth++) {
        count.zero();
        expand<<<blocks_for(have, 64), 64>>>(dstart.p, dedges.p, dlevel.p, depth % 2 ? a.p : b.p,
                                             have, depth % 2 ? b.p : a.p, count.p, depth);
        SYNC();
        have = count.host()[0];
    }
    expect_equal("levels", dlevel.host(), want);
}

static void components(int n, const std::vector<int2> &pairs)
{
    std::vector<int> parent(n), want(n);
    for (int i = 0; i < n; i++)
        parent[i] = want[i] = i;
    for (bool changed = true; changed;) { // smallest number spreads
        changed = false;
        for (auto &p : pairs) {
            int m = std::min(want[p.x], want[p.y]);
            changed |= want[p.x] != m || want[p.y] != m;
            want[p.x] = want[p.y] = m;
        }
    }
    dev<int> d(parent);
    dev<int2> dpairs(pairs);
    unite<<<blocks_for(pairs.size(), 64), 64>>>(d.p, dpairs.p, (int)pairs.size());
    flatten<<<blocks_for(n, 64), 64>>>(d.p, n);
    SYNC();
    expect_equal("components", d.host(), want);
}

static void shortest(int n)
{
    rng r(523);
    std::vector<float> d(n * n, INFINITY);
    for (int i = 0; i < n; i++) {
        d[i * n + i] = 0;
        for (int k = 0; k < 3; k++)
            d[i * n + r.below(n)] = 1 + r.below(50);
    }
    dev<float> dd(d);
    for (int k = 0; k < n; k++)
        relax<<<dim3(blocks_for(n, 64), n), 64>>>(dd.p, n, k);
    SYNC();
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n * n; i++)
            d[i] = std::min(d[i], d[i / n * n + k] + d[k * n + i % n]);
    expect_equal("distances", dd.host(), d);
}

int main()
{
    const int n = 1500;
    rng r(521);
    std::vector<int2> pairs;
    for (int i = 0; i < n; i++)
        pairs.push_back(make_int2((int)r.below(n), (int)r.below(i % 3 ? n : 40)));
    search(n, pairs);
    components(n, pairs);
    shortest(50);
    return ok("graphs: breadth-first, components, shortest paths");
}
