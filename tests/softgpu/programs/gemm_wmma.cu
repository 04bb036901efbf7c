// Tensor cores through nvcuda::wmma: f16, bf16, tf32, s8, u8, f64, all shapes and layouts of
// compute capability 8.0. Values are small integers, so every order of additions is exact.
#include "check.cuh"

#include <mma.h>

using namespace nvcuda;

/* how an element type is stored in memory, and made from an integer */
template <class T> struct stored {
    using type = T;
};
template <> struct stored<wmma::precision::tf32> {
    using type = float;
};

template <class T> static T from_int(int64_t x)
{
    if constexpr (std::is_same<T, double>::value)
        return (T)x;
    else
        return (T)(float)x;
}

template <int M, int N, int K, class T, class Acc, class LA, class LB>
__global__ void multiply(Acc *c, const typename stored<T>::type *a,
                         const typename stored<T>::type *b, int m, int n, int k)
{
    constexpr bool row_a = std::is_same<LA, wmma::row_major>::value;
    constexpr bool row_b = std::is_same<LB, wmma::row_major>::value;
    int i = blockIdx.y * M, j = blockIdx.x * N;
    wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
    wmma::fill_fragment(fc, (Acc)1);
    for (int l = 0; l < k; l += K) {
        wmma::load_matrix_sync(fa, row_a ? a + i * k + l : a + l * m + i, row_a ? k : m);
        wmma::load_matrix_sync(fb, row_b ? b + l * n + j : b + j * k + l, row_b ? n : k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int e = 0; e < fc.num_elements; e++)
        fc.x[e] = fc.x[e] + fc.x[e];
    wmma::store_matrix_sync(c + i * n + j, fc, n, wmma::mem_row_major);
}

template <int M, int N, int K, class T, class Acc, class LA, class LB>
static void run(const char *what, int lo, int hi)
{
    using E = typename stored<T>::type;
    constexpr bool row_a = std::is_same<LA, wmma::row_major>::value;
    constexpr bool row_b = std::is_same<LB, wmma::row_major>::value;
    const int m = 2 * M, n = 2 * N, k = 3 * K;
    auto ia = random_ints<int>(m * k, 151, lo, hi), ib = random_ints<int>(k * n, 152, lo, hi);
    std::vector<E> a(m * k), b(k * n);
    std::vector<Acc> want(m * n);
    for (int i = 0; i < m; i++)
        for (int l = 0; l < k; l++)
            a[row_a ? i * k + l : l * m + i] = from_int<E>(ia[i * k + l]);
    for (int l = 0; l < k; l++)
        for (int j = 0; j < n; j++)
            b[row_b ? l * n + j : j * k + l] = from_int<E>(ib[l * n + j]);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            int64_t sum = 1;
            for (int l = 0; l < k; l++)
                sum += (int64_t)ia[i * k + l] * ib[l * n + j];
            want[i * n + j] = from_int<Acc>(2 * sum);
        }
    dev<E> da(a), db(b);
    dev<Acc> c(m * n);
    multiply<M, N, K, T, Acc, LA, LB><<<dim3(2, 2), 32>>>(c.p, da.p, db.p, m, n, k);
    SYNC();
    expect_equal(what, c.host(), want);
}

template <int M, int N, int K, class T, class Acc>
static void layouts(const char *what, int lo, int hi)
{
    run<M, N, K, T, Acc, wmma::row_major, wmma::col_major>(what, lo, hi);
    run<M, N, K, T, Acc, wmma::col_major, wmma::row_major>(what, lo, hi);
}

int main()
{
    need_capability(8, 0);
    layouts<16, 16, 16, half, float>("f16, f32", -8, 9);
    layouts<16, 16, 16, half, half>("f16, f16", -3, 4);
    layouts<32, 8, 16, half, float>("f16 32x8", -8, 9);
    layouts<8, 32, 16, half, half>("f16 8x32", -3, 4);
    layouts<16, 16, 16, __nv_bfloat16, float>("bf16", -100, 101);
    layouts<32, 8, 16, __nv_bfloat16, float>("bf16 32x8", -100, 101);
    layouts<16, 16, 8, wmma::precision::tf32, float>("tf32", -500, 501);
    layouts<16, 16, 16, signed char, int>("s8", -128, 128);
    layouts<8, 32, 16, unsigned char, int>("u8", 0, 256);
    layouts<8, 8, 4, double, double>("f64", -30000, 30001);
    return ok("wmma: f16, bf16, tf32, s8, u8, f64; 10 shapes, 2 layouts each");
}
