// cub::DeviceSelect (if, flagged, unique), DevicePartition, DeviceRunLengthEncode, DeviceHistogram.
#include "cub_check.cuh"

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_partition.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_select.cuh>

template <class T> struct small {
    __host__ __device__ bool operator()(const T &x) const
    {
        return x < (T)40;
    }
};
template <> struct small<pair2> {
    __host__ __device__ bool operator()(const pair2 &x) const
    {
        return x.a < x.b;
    }
};

template <class T> static std::vector<T> first(const dev<T> &d, const dev<int> &count)
{
    auto v = d.host();
    v.resize((size_t)count.host()[0]);
    return v;
}

template <class T> static void run(const std::vector<T> &in)
{
    size_t n = in.size();
    auto flags = random_ints<uint8_t>(n, 21, 0, 2);
    dev<T> d(in), out(n);
    dev<uint8_t> f(flags);
    dev<int> many(1);
    std::vector<T> want, flagged, unique, parted(n);
    size_t front = 0, back = n;
    for (size_t i = 0; i < n; i++) {
        bool take = small<T>()(in[i]);
        if (take)
            want.push_back(in[i]);
        if (flags[i])
            flagged.push_back(in[i]);
        if (i == 0 || in[i] != in[i - 1])
            unique.push_back(in[i]);
        parted[take ? front++ : --back] = in[i];
    }
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceSelect::If(t, b, d.p, out.p, many.p, (int)n, small<T>());
    });
    same("If", n, first(out, many), want);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceSelect::Flagged(t, b, d.p, f.p, out.p, many.p, (int)n);
    });
    same("Flagged", n, first(out, many), flagged);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceSelect::Unique(t, b, d.p, out.p, many.p, (int)n);
    });
    same("Unique", n, first(out, many), unique);
    two_phase([&](void *t, size_t &b) {
        return cub::DevicePartition::If(t, b, d.p, out.p, many.p, (int)n, small<T>());
    });
    same("Partition", n, out.host(), parted);
}

static void runs(size_t n)
{
    auto in = random_ints<int>(n, 22, 0, 2);
    std::vector<int> unique, lengths;
    for (size_t i = 0; i < n; i++)
        if (i && in[i] == in[i - 1]) {
            lengths.back()++;
        } else {
            unique.push_back(in[i]);
            lengths.push_back(1);
        }
    dev<int> d(in), u(n), l(n), many(1);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceRunLengthEncode::Encode(t, b, d.p, u.p, l.p, many.p, (int)n);
    });
    same("run values", n, first(u, many), unique);
    same("run lengths", n, first(l, many), lengths);
}

static void histograms(size_t n)
{
    auto bytes = random_ints<uint8_t>(4 * n, 23, 0, 256);
    auto reals = random_reals<float>(n, 24, -1.5, 1.5);
    std::vector<int> even(16), rgb[3];
    for (float x : reals)
        if (x >= -1 && x < 1)
            even[(int)((x + 1) * 8)]++; // exact: the width is a power of two
    dev<float> r(reals);
    dev<uint8_t> d(bytes);
    dev<int> bins(16), c0(256), c1(256), c2(256);
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceHistogram::HistogramEven(t, b, r.p, bins.p, 17, -1.f, 1.f, (int)n);
    });
    same("HistogramEven", n, bins.host(), even);
    for (int c = 0; c < 3; c++) {
        rgb[c].resize(256);
        for (size_t i = 0; i < n; i++)
            rgb[c][bytes[4 * i + c]]++;
    }
    cuda::std::array<int *, 3> counts{c0.p, c1.p, c2.p};
    cuda::std::array<int, 3> levels{257, 257, 257}, lower{0, 0, 0}, upper{256, 256, 256};
    two_phase([&](void *t, size_t &b) {
        return cub::DeviceHistogram::MultiHistogramEven<4, 3>(t, b, d.p, counts, levels, lower,
                                                              upper, (int)n);
    });
    same("red", n, c0.host(), rgb[0]);
    same("blue", n, c2.host(), rgb[2]);
}

int main()
{
    for (size_t n : SIZES) {
        run(values<uint8_t>(n, 25));
        run(values<int>(n, 26));
        run(values<double>(n, 27));
        run(pairs(n, 28));
        runs(n);
        histograms(n);
    }
    return ok("cub: select, unique, partition, run lengths, histograms");
}
