// mma.sync of every element type and shape of compute capability 8.0, each fragment filled by the
// tables of the PTX manual (row and column of element i of a lane). Integer values: exact.
#include "check.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define HD __host__ __device__ static
#define GROUP (lane / 4)
#define IN_GROUP (lane % 4)

/* rows and columns of 16-bit elements; C is the same for all m16n8 shapes */
template <class E, int DEPTH> struct sixteen_bit {
    enum { M = 16, N = 8, K = DEPTH, NA = DEPTH / 2, NB = DEPTH / 4, NC = 4 };
    using elem = E;
    using acc = float;
    HD int a_row(int lane, int i)
    {
        return GROUP + (i / 2 % 2) * 8;
    }
    HD int a_col(int lane, int i)
    {
        return IN_GROUP * 2 + i % 2 + i / 4 * 8;
    }
    HD int b_row(int lane, int i)
    {
        return IN_GROUP * 2 + i % 2 + i / 2 * 8;
    }
    HD int c_row(int lane, int i)
    {
        return GROUP + i / 2 * 8;
    }
};

template <int DEPTH> struct tf32_shape : sixteen_bit<float, DEPTH> {
    enum { M = 16, N = 8, K = DEPTH, NA = DEPTH / 2, NB = DEPTH / 4, NC = 4 };
    HD int a_row(int lane, int i)
    {
        return GROUP + i % 2 * 8;
    }
    HD int a_col(int lane, int i)
    {
        return IN_GROUP + i / 2 * 4;
    }
    HD int b_row(int lane, int i)
    {
        return IN_GROUP + i * 4;
    }
};

template <class E, int ROWS, int DEPTH> struct eight_bit {
    enum { M = ROWS, N = 8, K = DEPTH, NA = ROWS * DEPTH / 32, NB = DEPTH / 4, NC = ROWS / 4 };
    using elem = E;
    using acc = int;
    HD int a_row(int lane, int i)
    {
        return GROUP + (ROWS == 16 ? i / 4 % 2 * 8 : 0);
    }
    HD int a_col(int lane, int i)
    {
        return IN_GROUP * 4 + i % 4 + (i / 8) * 16;
    }
    HD int b_row(int lane, int i)
    {
        return IN_GROUP * 4 + i % 4 + i / 4 * 16;
    }
    HD int c_row(int lane, int i)
    {
        return GROUP + i / 2 * 8;
    }
};

#define MMA(name) asm volatile("mma.sync.aligned." name
#define OUT4(t) : "+" t(c[0]), "+" t(c[1]), "+" t(c[2]), "+" t(c[3])

struct f16_k16 : sixteen_bit<half, 16> {
    __device__ static void mma(float *c, const unsigned *a, const unsigned *b)
    {
        MMA("m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};")
        OUT4("f") : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};
struct f16_k8 : sixteen_bit<half, 8> {
    __device__ static void mma(float *c, const unsigned *a, const unsigned *b)
    {
        MMA("m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};")
        OUT4("f") : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    }
};
struct bf16_k16 : sixteen_bit<__nv_bfloat16, 16> {
    __device__ static void mma(float *c, const unsigned *a, const unsigned *b)
    {
        MMA("m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};")
        OUT4("f") : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};
struct bf16_k8 : sixteen_bit<__nv_bfloat16, 8> {
    __device__ static void mma(float *c, const unsigned *a, const unsigned *b)
    {
        MMA("m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};")
        OUT4("f") : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    }
};
struct tf32_k8 : tf32_shape<8> {
    __device__ static void mma(float *c, const unsigned *a, const unsigned *b)
    {
        MMA("m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};")
        OUT4("f") : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};
struct tf32_k4 : tf32_shape<4> {
    __device__ static void mma(float *c, const unsigned *a, const unsigned *b)
    {
        MMA("m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};")
        OUT4("f") : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    }
};
struct f16_f16 : sixteen_bit<half, 16> {
    using acc = half;
    __device__ static void mma(half *h, const unsigned *a, const unsigned *b)
    {
        unsigned c[2];
        memcpy(c, h, sizeof c);
        MMA("m16n8k16.row.col.f16.f16.f16.f16 {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};")
            : "+r"(c[0]), "+r"(c[1])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        memcpy(h, c, sizeof c);
    }
};
struct s8_k32 : eight_bit<signed char, 16, 32> {
    __device__ static void mma(int *c, const unsigned *a, const unsigned *b)
    {
        MMA("m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};")
        OUT4("r") : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};
struct u8_k16 : eight_bit<unsigned char, 16, 16> {
    __device__ static void mma(int *c, const unsigned *a, const unsigned *b)
    {
        MMA("m16n8k16.row.col.satfinite.s32.u8.u8.s32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};")
        OUT4("r") : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    }
};
struct s8_m8 : eight_bit<signed char, 8, 16> {
    __device__ static void mma(int *c, const unsigned *a, const unsigned *b)
    {
        MMA("m8n8k16.row.col.s32.s8.s8.s32 {%0,%1},{%2},{%3},{%0,%1};")
            : "+r"(c[0]), "+r"(c[1])
            : "r"(a[0]), "r"(b[0]));
    }
};
struct f64_m8 {
    enum { M = 8, N = 8, K = 4, NA = 1, NB = 1, NC = 2 };
    using elem = double;
    using acc = double;
    HD int a_row(int lane, int)
    {
        return GROUP;
    }
    HD int a_col(int lane, int)
    {
        return IN_GROUP;
    }
    HD int b_row(int lane, int)
    {
        return IN_GROUP;
    }
    HD int c_row(int lane, int)
    {
        return GROUP;
    }
    __device__ static void mma(double *c, const double *a, const double *b)
    {
        MMA("m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};")
            : "+d"(c[0]), "+d"(c[1])
            : "d"(a[0]), "d"(b[0]));
    }
};

template <class S>
__global__ void multiply(typename S::acc *c, const typename S::elem *a, const typename S::elem *b)
{
    using word = typename std::conditional<sizeof(typename S::elem) == 8, double, unsigned>::type;
    int lane = threadIdx.x;
    __align__(8) typename S::elem fa[S::NA], fb[S::NB];
    typename S::acc fc[S::NC];
    word ra[sizeof fa / sizeof(word)], rb[sizeof fb / sizeof(word)];
    for (int i = 0; i < S::NA; i++)
        fa[i] = a[S::a_row(lane, i) * S::K + S::a_col(lane, i)];
    for (int i = 0; i < S::NB; i++)
        fb[i] = b[S::b_row(lane, i) * S::N + lane / 4];
    for (int i = 0; i < S::NC; i++)
        fc[i] = c[S::c_row(lane, i) * S::N + lane % 4 * 2 + i % 2];
    memcpy(ra, fa, sizeof fa);
    memcpy(rb, fb, sizeof fb);
    S::mma(fc, ra, rb);
    for (int i = 0; i < S::NC; i++)
        c[S::c_row(lane, i) * S::N + lane % 4 * 2 + i % 2] = fc[i];
}

template <class T> static T from_int(int x)
{
    if constexpr (std::is_same<T, double>::value)
        return x;
    else
        return (T)(float)x;
}

template <class S> static void run(const char *what, int lo, int hi)
{
    using E = typename S::elem;
    using A = typename S::acc;
    auto ia = random_ints<int>(S::M * S::K, 161, lo, hi),
         ib = random_ints<int>(S::K * S::N, 162, lo, hi);
    auto ic = random_ints<int>(S::M * S::N, 163, -60, 61);
    std::vector<E> a(ia.size()), b(ib.size());
    std::vector<A> c(ic.size()), want(ic.size());
    for (size_t i = 0; i < a.size(); i++)
        a[i] = from_int<E>(ia[i]);
    for (size_t i = 0; i < b.size(); i++)
        b[i] = from_int<E>(ib[i]);
    for (int i = 0; i < S::M * S::N; i++) {
        int sum = ic[i];
        for (int l = 0; l < S::K; l++)
            sum += ia[i / S::N * S::K + l] * ib[l * S::N + i % S::N];
        c[i] = from_int<A>(ic[i]);
        want[i] = from_int<A>(sum);
    }
    dev<E> da(a), db(b);
    dev<A> dc(c);
    multiply<S><<<1, 32>>>(dc.p, da.p, db.p);
    SYNC();
    expect_equal(what, dc.host(), want);
}

int main()
{
    need_capability(8, 0);
    run<f16_k16>("m16n8k16 f16", -20, 21);
    run<f16_k8>("m16n8k8 f16", -20, 21);
    run<bf16_k16>("m16n8k16 bf16", -128, 129);
    run<bf16_k8>("m16n8k8 bf16", -128, 129);
    run<tf32_k8>("m16n8k8 tf32", -1000, 1001);
    run<tf32_k4>("m16n8k4 tf32", -1000, 1001);
    run<f16_f16>("m16n8k16 f16 f16", -10, 11);
    run<s8_k32>("m16n8k32 s8", -128, 128);
    run<u8_k16>("m16n8k16 u8", 0, 256);
    run<s8_m8>("m8n8k16 s8", -128, 128);
    run<f64_m8>("m8n8k4 f64", -20000, 20001);
    return ok("mma.sync: 11 shapes");
}
