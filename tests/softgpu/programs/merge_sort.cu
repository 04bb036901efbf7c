// Merge sort: insertion sort of short runs in local arrays, then merges along the merge path, each
// thread finding its piece by binary search.
#include "check.cuh"

#include <algorithm>

enum { RUN = 16, PER_THREAD = 11 };

struct item {
    int key;
    int was;
};

__global__ void sort_runs(item *data, int n)
{
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * RUN;
    item local[RUN];
    int have = min(RUN, n - start);
    for (int i = 0; i < have; i++) {
        item x = data[start + i];
        int at = i;
        while (at > 0 && local[at - 1].key > x.key) {
            local[at] = local[at - 1];
            at--;
        }
        local[at] = x;
    }
    for (int i = 0; i < have; i++)
        data[start + i] = local[i];
}

/* how many of the first @diagonal outputs come from a; equal keys are taken from a first */
__device__ int split(const item *a, int na, const item *b, int nb, int diagonal)
{
    int lo = max(0, diagonal - nb), hi = min(diagonal, na);
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (a[mid].key <= b[diagonal - 1 - mid].key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

__global__ void merge_runs(item *out, const item *in, int n, int run)
{
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * PER_THREAD;
    for (int k = first; k < first + PER_THREAD && k < n;) {
        int pair = k / (2 * run) * (2 * run), middle = min(pair + run, n);
        int end = min(pair + 2 * run, n), diagonal = k - pair;
        const item *a = in + pair, *b = in + middle;
        int na = middle - pair, nb = end - middle, i = split(a, na, b, nb, diagonal);
        int j = diagonal - i, stop = min(end, first + PER_THREAD);
        for (; k < stop; k++)
            out[k] = j >= nb || (i < na && a[i].key <= b[j].key) ? a[i++] : b[j++];
    }
}

int main()
{
    for (int n : {1, 15, 16, 1000, 5003}) {
        auto keys = random_ints<int>(n, 71 + n, -200, 200);
        std::vector<item> in(n);
        for (int i = 0; i < n; i++)
            in[i] = {keys[i], i};
        dev<item> a(in), b(n);
        item *from = a.p, *to = b.p;
        sort_runs<<<blocks_for(n, RUN * 64), 64>>>(from, n);
        for (int run = RUN; run < n; run *= 2, std::swap(from, to))
            merge_runs<<<blocks_for(n, PER_THREAD * 96), 96>>>(to, from, n, run);
        SYNC();
        std::stable_sort(in.begin(), in.end(),
                         [](const item &x, const item &y) { return x.key < y.key; });
        expect_equal("merge sort", (from == a.p ? a : b).host(), in);
    }
    return ok("merge sort: 5 sizes, stable");
}
