// cub::DeviceReduce (sum, minimum, where the maximum is, by key), DeviceScan (sums, by key, own
// operator), DeviceSegmentedReduce.
#include "cub_check.cuh"

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>

struct plus_pairs {
    __host__ __device__ pair2 operator()(const pair2 &x, const pair2 &y) const
    {
        return x + y;
    }
};

template <class T> static void run(size_t n)
{
    auto in = values<T>(n, 11); // small integers: sums are exact
    dev<T> d(in), out(n), one(1);
    T sum = 0;
    std::vector<T> before(n), upto(n);
    for (size_t i = 0; i < n; i++) {
        before[i] = sum;
        sum = (T)(sum + in[i]);
        upto[i] = sum;
    }
    two_phase([&](void *t, size_t &b) { return cub::DeviceReduce::Sum(t, b, d.p, one.p, (int)n); });
    same("Sum", n, one.host(), {sum});
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceScan::InclusiveSum(t, b, d.p, out.p, (int)n);
    });
    same("InclusiveSum", n, out.host(), upto);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceScan::ExclusiveSum(t, b, d.p, out.p, (int)n);
    });
    same("ExclusiveSum", n, out.host(), before);
    if (n == 0)
        return;
    two_phase([&](void *t, size_t &b) { return cub::DeviceReduce::Min(t, b, d.p, one.p, (int)n); });
    same("Min", n, one.host(), {*std::min_element(in.begin(), in.end())});
}

static void own_types(size_t n)
{
    auto in = pairs(n, 12);
    auto want = in;
    for (size_t i = 1; i < n; i++)
        want[i] = want[i - 1] + want[i];
    dev<pair2> d(in), out(n), one(1);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceScan::InclusiveScan(t, b, d.p, out.p, plus_pairs(), (int)n);
    });
    same("InclusiveScan", n, out.host(), want);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceReduce::Reduce(t, b, d.p, one.p, (int)n, plus_pairs(), pair2{5, -5});
    });
    pair2 start{5, -5};
    same("Reduce", n, one.host(), {n ? start + want[n - 1] : start});
}

static void by_key(size_t n)
{
    auto in = values<int>(n, 13);
    auto keys = random_ints<int>(n, 14, 0, 4);
    std::sort(keys.begin(), keys.begin() + n / 2);
    std::vector<int> unique, sums, scans(n);
    for (size_t i = 0; i < n; i++) {
        bool head = i == 0 || keys[i] != keys[i - 1];
        if (head) {
            unique.push_back(keys[i]);
            sums.push_back(0);
        }
        sums.back() += in[i];
        scans[i] = head ? in[i] : scans[i - 1] + in[i];
    }
    dev<int> d(in), k(keys), u(n), s(n), many(1);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceReduce::ReduceByKey(t, b, k.p, u.p, d.p, s.p, many.p, cuda::std::plus<>(),
                                              (int)n);
    });
    expect_value("runs", many.host()[0], (int)unique.size());
    auto got = u.host(), got_sums = s.host();
    got.resize(unique.size()), got_sums.resize(unique.size());
    same("keys", n, got, unique);
    same("sums by key", n, got_sums, sums);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceScan::InclusiveSumByKey(t, b, k.p, d.p, s.p, (int)n);
    });
    same("InclusiveSumByKey", n, s.host(), scans);
}

static void segments(size_t n)
{
    auto in = values<int64_t>(n, 15);
    std::vector<int> starts{0};
    std::vector<int64_t> want;
    rng r(16);
    while ((size_t)starts.back() < n) {
        int from = starts.back(), to = from + (int)std::min<size_t>(r.below(900), n - from);
        want.push_back(std::accumulate(in.begin() + from, in.begin() + to, (int64_t)0));
        starts.push_back(to);
    }
    dev<int64_t> d(in), out(want.size());
    dev<int> s(starts);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceSegmentedReduce::Sum(t, b, d.p, out.p, (int)want.size(), s.p, s.p + 1);
    });
    same("segmented sums", n, out.host(), want);
}

int main()
{
    for (size_t n : SIZES) {
        run<int8_t>(n);
        run<uint16_t>(n);
        run<int32_t>(n);
        run<uint64_t>(n);
        run<float>(n);
        run<double>(n);
        own_types(n);
        by_key(n);
        segments(n);
    }
    return ok("cub: reduce and scan of 6 types and a struct, by key, segments");
}
