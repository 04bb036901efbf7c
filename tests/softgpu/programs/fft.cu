// Fast Fourier transforms of radix 2: in shared memory with twiddle factors from sincospi, forward
// and back, against a discrete transform in double precision; convolution through it.
#include "check.cuh"

#include <complex>

enum { LOG = 9, N = 1 << LOG };

__device__ float2 mul(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* a block transforms one row of N; direction -1 forward, 1 back (not scaled) */
__global__ void transform(float2 *data, float direction)
{
    __shared__ float2 s[N];
    float2 *row = data + (size_t)blockIdx.x * N;
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        s[__brev((unsigned)i) >> (32 - LOG)] = row[i];
    for (int half = 1; half < N; half *= 2) {
        __syncthreads();
        for (int k = threadIdx.x; k < N / 2; k += blockDim.x) {
            int j = k % half, at = (k / half) * 2 * half + j;
            float2 w;
            sincospif(direction * j / half, &w.y, &w.x);
            float2 a = s[at], b = mul(s[at + half], w);
            s[at] = make_float2(a.x + b.x, a.y + b.y);
            s[at + half] = make_float2(a.x - b.x, a.y - b.y);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        row[i] = s[i];
}

__global__ void multiply(float2 *a, const float2 *b, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float2 p = mul(a[i], b[i]);
    a[i] = make_float2(p.x * scale, p.y * scale);
}

static void expect_row(const char *what, const std::vector<float2> &got,
                       const std::vector<std::complex<double>> &want, double tolerance)
{
    for (int i = 0; i < N; i++)
        if (!(std::abs(std::complex<double>(got[i].x, got[i].y) - want[i]) < tolerance))
            fail("%s[%d]: (%g, %g) instead of (%g, %g)", what, i, got[i].x, got[i].y,
                 want[i].real(), want[i].imag());
}

int main()
{
    const double pi = acos(-1.0);
    auto x = random_reals<float>(4 * N, 541);
    std::vector<float2> in(2 * N);
    for (int i = 0; i < 2 * N; i++)
        in[i] = make_float2(x[2 * i], x[2 * i + 1]);
    std::vector<std::complex<double>> turn(N), want(N), circular(N);
    for (int i = 0; i < N; i++)
        turn[i] = std::polar(1.0, -2 * pi * i / N);
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++) {
            want[k] += std::complex<double>(in[i].x, in[i].y) * turn[i * k % N];
            circular[k] +=
                std::complex<double>(in[i].x, in[i].y) *
                std::complex<double>(in[N + (k - i + N) % N].x, in[N + (k - i + N) % N].y);
        }
    dev<float2> d(in);
    transform<<<2, 128>>>(d.p, -1);
    SYNC();
    expect_row("spectrum", d.host(), want, 2e-4);
    multiply<<<N / 64, 64>>>(d.p, d.p + N, 1.f / N);
    transform<<<1, 64>>>(d.p, 1);
    SYNC();
    expect_row("convolution", d.host(), circular, 2e-4);
    return ok("fft: %d points, spectrum and convolution", N);
}
