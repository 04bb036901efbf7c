// Loads and stores of vector types and odd structs, and the cache-hint forms of both.
#include "check.cuh"

struct odd { // 12 bytes, alignment 4
    int16_t a;
    int8_t b;
    float c;
    uint8_t d[3];
};

template <class V> __global__ void reverse(V *out, const V *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[n - 1 - i] = in[i];
}

template <class V> __global__ void hinted(V *out, const V *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 6)
        return;
    const V *p = in + 6 * i;
    V *q = out + 6 * i;
    __stwb(q, __ldg(p));
    __stcg(q + 1, __ldca(p + 1));
    __stcs(q + 2, __ldcg(p + 2));
    __stwt(q + 3, __ldcs(p + 3));
    __stwt(q + 4, __ldlu(p + 4));
    __stcg(q + 5, __ldcv(p + 5));
}

template <class V> static std::vector<V> random_bytes(size_t n, uint64_t seed)
{
    std::vector<V> v(n);
    auto bytes = random_ints<uint8_t>(n * sizeof(V), seed, 0, 256);
    memcpy((void *)v.data(), bytes.data(), bytes.size());
    return v;
}

template <class V> static void run_reverse(const char *type)
{
    const int n = 301;
    auto in = random_bytes<V>(n, sizeof(V));
    dev<V> din(in), out(n);
    reverse<<<blocks_for(n, 64), 64>>>(out.p, din.p, n);
    SYNC();
    expect_equal(type, out.host(), std::vector<V>(in.rbegin(), in.rend()));
}

template <class V> static void run_hinted(const char *type)
{
    const int n = 6 * 70;
    auto in = random_bytes<V>(n, 7 + sizeof(V));
    dev<V> din(in), out(n);
    hinted<<<blocks_for(n / 6, 64), 64>>>(out.p, din.p, n);
    SYNC();
    expect_equal(type, out.host(), in);
}

#define REVERSE(type) run_reverse<type>(#type)
#define HINTED(type) run_hinted<type>("hinted " #type)
int main()
{
    REVERSE(char2);
    REVERSE(uchar3);
    REVERSE(char4);
    REVERSE(short2);
    REVERSE(ushort4);
    REVERSE(int2);
    REVERSE(uint3);
    REVERSE(int4);
    REVERSE(longlong2);
    REVERSE(ulonglong4_16a);
    REVERSE(float3);
    REVERSE(float4);
    REVERSE(double2);
    HINTED(char);
    HINTED(unsigned short);
    HINTED(int);
    HINTED(float);
    HINTED(double);
    HINTED(float2);
    HINTED(int4);
    HINTED(double2);
    HINTED(uchar4);
    std::vector<odd> in(100);
    for (int i = 0; i < 100; i++)
        memset((void *)&in[i], i, sizeof(odd));
    dev<odd> din(in), out(100);
    reverse<<<4, 32>>>(out.p, din.p, 100);
    SYNC();
    auto got = out.host();
    for (int i = 0; i < 100; i++) {
        const odd &g = got[i], &w = in[99 - i];
        if (g.a != w.a || g.b != w.b || memcmp(&g.c, &w.c, 4) || memcmp(g.d, w.d, 3))
            fail("odd[%d] differs", i);
    }
    return ok("vector access: 13 vector types, 9 hinted, one odd struct");
}
