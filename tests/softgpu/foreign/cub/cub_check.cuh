/*
 * What the drivers of CUB's and Thrust's algorithms share: sizes, value types with a host order,
 * and the two-phase call (first how much temporary memory, then the work).
 */
#ifndef SOFTGPU_FOREIGN_CUB_CHECK_CUH
#define SOFTGPU_FOREIGN_CUB_CHECK_CUH

#include "../../programs/check.cuh"

#include <algorithm>
#include <numeric>
#include <string>

static const size_t SIZES[] = {0, 1, 2, 31, 1000, 4097, 100003};

/* what the types are called in messages */
template <class T> static std::string type_name()
{
    std::string f = __PRETTY_FUNCTION__;
    size_t at = f.find("T = ") + 4;
    return f.substr(at, f.find_first_of(";]", at) - at);
}

/* calls f(temporary, bytes) twice, as CUB wants it, and waits */
template <class F> static void two_phase(F f)
{
    size_t bytes = 0;
    CHECK(f((void *)nullptr, bytes));
    dev<unsigned char> temporary(bytes);
    CHECK(f((void *)temporary.p, bytes));
    SYNC();
}

/* values of all signs, few enough different ones that some repeat */
template <class T> static std::vector<T> values(size_t n, uint64_t seed)
{
    int64_t lo = std::is_signed<T>::value ? -100 : 0;
    return random_ints<T>(n, seed, lo, 120);
}

/* a pair that is no built-in type */
struct pair2 {
    int a, b;
    __host__ __device__ bool operator==(const pair2 &o) const
    {
        return a == o.a && b == o.b;
    }
    __host__ __device__ bool operator!=(const pair2 &o) const
    {
        return !(*this == o);
    }
    __host__ __device__ bool operator<(const pair2 &o) const
    {
        return a != o.a ? a < o.a : b < o.b;
    }
    __host__ __device__ pair2 operator+(const pair2 &o) const
    {
        return {a + o.a, b + o.b};
    }
};

static inline std::vector<pair2> pairs(size_t n, uint64_t seed)
{
    auto raw = random_ints<int>(2 * n, seed, -30, 30);
    std::vector<pair2> v(n);
    for (size_t i = 0; i < n; i++)
        v[i] = {raw[2 * i], raw[2 * i + 1]};
    return v;
}

template <class T>
static void same(const char *what, size_t n, const std::vector<T> &got, const std::vector<T> &want)
{
    std::string text = std::string(what) + " of " + std::to_string(n) + " " + type_name<T>();
    expect_equal(text.c_str(), got, want);
}

#endif
