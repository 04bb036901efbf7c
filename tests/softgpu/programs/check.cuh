/*
 * What every program in this folder uses: CUDA error checks, seeded numbers, vectors in device
 * memory, and comparisons that say what differs. A program exits 0 after one line "ok ...", 1 after
 * a line on stderr that names the difference, 77 after a line that says what the device lacks.
 * Start at CHECK, dev<T> and expect_equal.
 */
#ifndef SOFTGPU_PROGRAMS_CHECK_CUH
#define SOFTGPU_PROGRAMS_CHECK_CUH

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

static inline void say(FILE *f, const char *before, const char *fmt, va_list ap)
{
    fputs(before, f);
    vfprintf(f, fmt, ap);
    fputc('\n', f);
    fflush(f);
}

[[noreturn]] static inline void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(stderr, "wrong: ", fmt, ap);
    va_end(ap);
    _exit(1);
}

[[noreturn]] static inline void skip(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(stdout, "skipped: ", fmt, ap);
    va_end(ap);
    _exit(77);
}

/* the closing line of a program that found nothing wrong; main returns its value */
static inline int ok(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(stdout, "ok ", fmt, ap);
    va_end(ap);
    return 0;
}

static inline void check_cuda(cudaError_t e, const char *call, const char *file, int line)
{
    if (e != cudaSuccess)
        fail("%s:%d: %s: %d %s: %s", file, line, call, (int)e, cudaGetErrorName(e),
             cudaGetErrorString(e));
}
#define CHECK(call) check_cuda((call), #call, __FILE__, __LINE__)
/* after a launch: it was accepted, and it ran to its end */
#define SYNC()                                                                                     \
    do {                                                                                           \
        CHECK(cudaGetLastError());                                                                 \
        CHECK(cudaDeviceSynchronize());                                                            \
    } while (0)

/* the call must answer this error; a pending one is cleared */
static inline void check_error(cudaError_t got, cudaError_t want, const char *call, int line)
{
    (void)cudaGetLastError();
    if (got != want)
        fail("line %d: %s: %s instead of %s", line, call, cudaGetErrorName(got),
             cudaGetErrorName(want));
}
#define CHECK_ERROR(call, want) check_error((call), (want), #call, __LINE__)

/* skips unless the device's compute capability is at least major.minor */
static inline void need_capability(int major, int minor)
{
    int have_major = 0, have_minor = 0;
    CHECK(cudaDeviceGetAttribute(&have_major, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(cudaDeviceGetAttribute(&have_minor, cudaDevAttrComputeCapabilityMinor, 0));
    if (have_major * 10 + have_minor < major * 10 + minor)
        skip("needs compute capability %d.%d, the device has %d.%d", major, minor, have_major,
             have_minor);
}

/* splitmix64 */
struct rng {
    uint64_t state;
    explicit rng(uint64_t seed) : state(seed)
    {
    }
    uint64_t next()
    {
        uint64_t z = state += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }
    uint32_t below(uint32_t n)
    {
        return (uint32_t)((next() >> 32) * n >> 32);
    }
    double real(double lo, double hi)
    {
        return lo + (hi - lo) * (double)(next() >> 11) * 0x1p-53;
    }
};

template <class T>
static std::vector<T> random_reals(size_t n, uint64_t seed, double lo = -1, double hi = 1)
{
    rng r(seed);
    std::vector<T> v(n);
    for (T &x : v)
        x = (T)r.real(lo, hi);
    return v;
}

/* integers lo..hi-1, as any type that takes them */
template <class T>
static std::vector<T> random_ints(size_t n, uint64_t seed, int64_t lo, int64_t hi)
{
    rng r(seed);
    std::vector<T> v(n);
    for (T &x : v)
        x = (T)(lo + (int64_t)(r.next() % (uint64_t)(hi - lo)));
    return v;
}

/* an array in device memory */
template <class T> struct dev {
    T *p = nullptr;
    size_t n;
    explicit dev(size_t count) : n(count)
    {
        CHECK(cudaMalloc((void **)&p, (n ? n : 1) * sizeof(T)));
        zero();
    }
    explicit dev(const std::vector<T> &v) : dev(v.size())
    {
        set(v);
    }
    dev(const dev &) = delete;
    dev &operator=(const dev &) = delete;
    ~dev()
    {
        cudaFree(p);
    }
    /* both wait: streams that do not wait for the NULL stream may use it afterwards */
    void set(const std::vector<T> &v)
    {
        CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize());
    }
    void zero()
    {
        CHECK(cudaMemset(p, 0, (n ? n : 1) * sizeof(T)));
        CHECK(cudaDeviceSynchronize());
    }
    std::vector<T> host() const
    {
        std::vector<T> v(n);
        CHECK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }
};

template <class T> static void show_value(char *text, size_t n, const T &x)
{
    if constexpr (std::is_floating_point<T>::value) {
        snprintf(text, n, "%.9g (%a)", (double)x, (double)x);
    } else if constexpr (std::is_integral<T>::value) {
        snprintf(text, n, "%lld (0x%llx)", (long long)x, (unsigned long long)x);
    } else {
        size_t at = 0;
        for (size_t i = 0; i < sizeof x && at + 3 < n; i++)
            at += (size_t)snprintf(text + at, n - at, "%02x", ((const unsigned char *)&x)[i]);
    }
}

template <class T>
[[noreturn]] static void fail_at(const char *what, size_t i, size_t n, const T &got, const T &want)
{
    char g[80], w[80];
    show_value(g, sizeof g, got);
    show_value(w, sizeof w, want);
    fail("%s[%zu of %zu]: %s instead of %s", what, i, n, g, w);
}

/* same bytes */
template <class T>
static void expect_equal(const char *what, const std::vector<T> &got, const std::vector<T> &want)
{
    if (got.size() != want.size())
        fail("%s: %zu elements instead of %zu", what, got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++)
        if (memcmp(&got[i], &want[i], sizeof(T)))
            fail_at(what, i, got.size(), got[i], want[i]);
}

template <class T> static void expect_value(const char *what, T got, T want)
{
    expect_equal(what, std::vector<T>{got}, std::vector<T>{want});
}

/* |got - want| <= rel * |want| + abs; infinities and NaN must be the same */
template <class T>
static void expect_close(const char *what, const std::vector<T> &got, const std::vector<T> &want,
                         double rel, double abs)
{
    if (got.size() != want.size())
        fail("%s: %zu elements instead of %zu", what, got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++) {
        double g = (double)got[i], w = (double)want[i];
        bool same = g == w || (std::isnan(g) && std::isnan(w));
        if (!same && !(std::isfinite(w) && std::fabs(g - w) <= rel * std::fabs(w) + abs))
            fail_at(what, i, got.size(), got[i], want[i]);
    }
}

static inline void expect_near(const char *what, double got, double want, double rel,
                               double abs = 0)
{
    expect_close(what, std::vector<double>{got}, std::vector<double>{want}, rel, abs);
}

static inline unsigned blocks_for(size_t n, unsigned threads)
{
    return (unsigned)((n + threads - 1) / threads);
}

/* runs part() in a process of its own, which must not have touched CUDA before, and wants its exit
 * status 0: for what kills a context, and for what writes to stdout */
template <class F> static void in_child(const char *what, F part)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        part();
        _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        fail("%s: cannot fork", what);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        _exit(77);
    if (status)
        fail("%s: child ended with status 0x%x", what, status);
}

#endif
