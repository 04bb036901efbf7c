// cub::DeviceRadixSort (keys, pairs, descending, a range of bits), DeviceMergeSort (structs,
// stable), DeviceSegmentedSort.
#include "cub_check.cuh"

#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_sort.cuh>

template <class T> static std::vector<T> keys(size_t n, uint64_t seed)
{
    auto v = random_ints<T>(n, seed, std::is_signed<T>::value ? -(1 << 30) : 0, 1 << 30);
    for (size_t i = 0; i < n; i += 7)
        v[i] = v[n / 2]; // equal keys
    return v;
}

template <class T> static void radix(size_t n)
{
    auto in = keys<T>(n, 1);
    std::vector<int> index(n);
    std::iota(index.begin(), index.end(), 0);
    dev<T> a(in), b(n);
    dev<int> va(index), vb(n);
    two_phase([&](void *t, size_t &bytes) {
        return cub::DeviceRadixSort::SortKeys(t, bytes, a.p, b.p, (int)n);
    });
    auto want = in;
    std::stable_sort(want.begin(), want.end());
    same("SortKeys", n, b.host(), want);
    two_phase([&](void *t, size_t &bytes) {
        return cub::DeviceRadixSort::SortPairsDescending(t, bytes, a.p, b.p, va.p, vb.p, (int)n);
    });
    std::stable_sort(index.begin(), index.end(), [&](int x, int y) { return in[x] > in[y]; });
    same("SortPairsDescending", n, vb.host(), index);
}

static void some_bits(size_t n)
{
    auto in = keys<uint32_t>(n, 2);
    dev<uint32_t> a(in), b(n);
    two_phase([&](void *t, size_t &bytes) {
        return cub::DeviceRadixSort::SortKeys(t, bytes, a.p, b.p, (int)n, 8, 21);
    });
    std::stable_sort(in.begin(), in.end(),
                     [](uint32_t x, uint32_t y) { return (x >> 8 & 8191) < (y >> 8 & 8191); });
    same("SortKeys bits 8..20", n, b.host(), in);
}

struct by_a {
    __host__ __device__ bool operator()(const pair2 &x, const pair2 &y) const
    {
        return x.a < y.a;
    }
};

static void merge(size_t n)
{
    auto in = pairs(n, 3);
    dev<pair2> d(in);
    two_phase([&](void *t, size_t &bytes) {
        return cub::DeviceMergeSort::StableSortKeys(t, bytes, d.p, (int)n, by_a());
    });
    std::stable_sort(in.begin(), in.end(), by_a());
    same("StableSortKeys", n, d.host(), in);
}

static void segmented(size_t n)
{
    auto in = keys<float>(n, 4);
    rng r(5);
    std::vector<int> starts{0};
    while ((size_t)starts.back() < n)
        starts.push_back(starts.back() + (int)std::min<size_t>(r.below(700), n - starts.back()));
    dev<float> a(in), b(n);
    dev<int> s(starts);
    two_phase([&](void *t, size_t &bytes) {
        return cub::DeviceSegmentedSort::SortKeys(t, bytes, a.p, b.p, (int)n,
                                                  (int)starts.size() - 1, s.p, s.p + 1);
    });
    for (size_t i = 0; i + 1 < starts.size(); i++)
        std::sort(in.begin() + starts[i], in.begin() + starts[i + 1]);
    same("segmented", n, b.host(), in);
}

int main()
{
    for (size_t n : SIZES) {
        radix<uint8_t>(n);
        radix<int16_t>(n);
        radix<int32_t>(n);
        radix<uint64_t>(n);
        radix<float>(n);
        radix<double>(n);
        some_bits(n);
        merge(n);
        segmented(n);
    }
    return ok("cub: radix sort of 6 types, merge sort, segmented sort");
}
