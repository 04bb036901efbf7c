// Thrust on the device: sort by key, transform and reduce, scans, unique, sets, searches,
// permutation and counting iterators, copy_if, min_max, inner product.
#include "cub_check.cuh"

#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

template <class T> static std::vector<T> host(const thrust::device_vector<T> &v)
{
    std::vector<T> h(v.size());
    thrust::copy(v.begin(), v.end(), h.begin());
    return h;
}

struct square {
    __host__ __device__ long long operator()(int x) const
    {
        return (long long)x * x;
    }
};
struct odd {
    __host__ __device__ bool operator()(int x) const
    {
        return x & 1;
    }
};

static void ordered(size_t n, std::vector<int> a, std::vector<int> b)
{
    thrust::device_vector<int> da(a), db(b), out(2 * n), index(n);
    thrust::sequence(index.begin(), index.end());
    thrust::stable_sort_by_key(da.begin(), da.end(), index.begin());
    std::vector<int> want(n);
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(), [&](int x, int y) { return a[x] < a[y]; });
    same("sort by key", n, host(index), want);
    thrust::sort(db.begin(), db.end());
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    same("sort", n, host(db), b);

    std::vector<int> both;
    out.resize(thrust::set_intersection(da.begin(), da.end(), db.begin(), db.end(), out.begin()) -
               out.begin());
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    same("intersection", n, host(out), both);
    thrust::device_vector<int> place(n);
    thrust::lower_bound(da.begin(), da.end(), db.begin(), db.end(), place.begin());
    for (size_t i = 0; i < n; i++)
        want[i] = (int)(std::lower_bound(a.begin(), a.end(), b[i]) - a.begin());
    same("lower bound", n, host(place), want);
    da.erase(thrust::unique(da.begin(), da.end()), da.end());
    a.erase(std::unique(a.begin(), a.end()), a.end());
    same("unique", n, host(da), a);
}

static void folded(size_t n, const std::vector<int> &a, const std::vector<int> &b)
{
    thrust::device_vector<int> da(a), db(b), scan(n), chosen(n);
    long long squares = 0, product = 0;
    for (size_t i = 0; i < n; i++) {
        squares += (long long)a[i] * a[i];
        product += (long long)a[i] * b[i];
    }
    expect_value(
        "squares",
        thrust::transform_reduce(da.begin(), da.end(), square(), 0ll, thrust::plus<long long>()),
        squares);
    expect_value("inner product", thrust::inner_product(da.begin(), da.end(), db.begin(), 0ll),
                 product);
    expect_value("maximum", thrust::reduce(da.begin(), da.end(), INT32_MIN, thrust::maximum<int>()),
                 n ? *std::max_element(a.begin(), a.end()) : INT32_MIN);
    thrust::inclusive_scan(da.begin(), da.end(), scan.begin());
    std::vector<int> want(n), odds;
    std::partial_sum(a.begin(), a.end(), want.begin());
    same("scan", n, host(scan), want);
    chosen.resize(thrust::copy_if(da.begin(), da.end(), chosen.begin(), odd()) - chosen.begin());
    std::copy_if(a.begin(), a.end(), std::back_inserter(odds), odd());
    same("copy_if", n, host(chosen), odds);
    if (n == 0)
        return;
    auto ends = thrust::minmax_element(da.begin(), da.end());
    expect_value("first minimum", (size_t)(ends.first - da.begin()),
                 (size_t)(std::min_element(a.begin(), a.end()) - a.begin()));
    thrust::device_vector<int> index(n), picked(n);
    auto numbers = thrust::counting_iterator<int>(0);
    thrust::transform(numbers, numbers + n, index.begin(),
                      [m = (int)n] __device__(int i) { return (int)((i * 7919ll) % m); });
    auto permuted = thrust::permutation_iterator<decltype(da.begin()), decltype(index.begin())>(
        da.begin(), index.begin());
    thrust::copy(permuted, permuted + n, picked.begin());
    for (size_t i = 0; i < n; i++)
        want[i] = a[i * 7919 % n];
    same("permuted", n, host(picked), want);
}

int main()
{
    for (size_t n : SIZES) {
        auto a = random_ints<int>(n, 31, -5000, 5000), b = random_ints<int>(n, 32, -5000, 5000);
        ordered(n, a, b);
        folded(n, a, b);
    }
    return ok("thrust: sorts, sets, searches, folds, iterators");
}
