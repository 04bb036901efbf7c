// Stencils with halos in shared memory: 1D of radius 3, 2D five-point in place by two buffers, 3D
// seven-point with a register queue along z. Sums in a fixed order: bit for bit.
#include "check.cuh"

enum { RADIUS = 3, BLOCK = 128 };

__global__ void stencil_1d(float *out, const float *in, int n)
{
    __shared__ float s[BLOCK + 2 * RADIUS];
    int g = blockIdx.x * BLOCK + threadIdx.x, l = threadIdx.x + RADIUS;
    auto at = [&](int i) { return i >= 0 && i < n ? in[i] : 0.f; };
    s[l] = at(g);
    if (threadIdx.x < RADIUS) {
        s[l - RADIUS] = at(g - RADIUS);
        s[l + BLOCK] = at(g + BLOCK);
    }
    __syncthreads();
    float sum = 0;
    for (int d = -RADIUS; d <= RADIUS; d++)
        sum = fmaf(s[l + d], 1.f / (1 + d * d), sum);
    if (g < n)
        out[g] = sum;
}

__host__ __device__ double five_point(double c, double n, double s, double w, double e)
{
    return fma(0.125, (n + s) + (w + e), 0.5 * c);
}

__global__ void stencil_2d(double *out, const double *in, int w, int h)
{
    __shared__ double s[10][34];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    int lx = threadIdx.x + 1, ly = threadIdx.y + 1;
    auto at = [&](int c, int r) { return in[min(max(r, 0), h - 1) * w + min(max(c, 0), w - 1)]; };
    s[ly][lx] = at(x, y);
    if (threadIdx.x == 0)
        s[ly][0] = at(x - 1, y);
    if (threadIdx.x == 31)
        s[ly][33] = at(x + 1, y);
    if (threadIdx.y == 0)
        s[0][lx] = at(x, y - 1);
    if (threadIdx.y == 7)
        s[9][lx] = at(x, y + 1);
    __syncthreads();
    if (x < w && y < h)
        out[y * w + x] =
            five_point(s[ly][lx], s[ly - 1][lx], s[ly + 1][lx], s[ly][lx - 1], s[ly][lx + 1]);
}

__global__ void stencil_3d(float *out, const float *in, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1)
        return;
    const float *p = in + y * n + x;
    int slice = n * n;
    float below = p[0], here = p[slice];
    for (int z = 1; z < n - 1; z++) {
        p += slice;
        float above = p[slice];
        out[z * slice + y * n + x] =
            fmaf(-6.f, here, ((below + above) + (p[-1] + p[1])) + (p[-n] + p[n]));
        below = here;
        here = above;
    }
}

int main()
{
    const int n1 = 1000;
    auto in1 = random_reals<float>(n1, 91);
    std::vector<float> want1(n1);
    for (int i = 0; i < n1; i++)
        for (int d = -RADIUS; d <= RADIUS; d++)
            want1[i] =
                fmaf(i + d >= 0 && i + d < n1 ? in1[i + d] : 0.f, 1.f / (1 + d * d), want1[i]);
    dev<float> d1(in1), o1(n1);
    stencil_1d<<<blocks_for(n1, BLOCK), BLOCK>>>(o1.p, d1.p, n1);
    SYNC();
    expect_equal("1D", o1.host(), want1);

    const int w = 70, h = 45, steps = 6;
    auto a = random_reals<double>(w * h, 92);
    dev<double> da(a), db(a.size());
    for (int s = 0; s < steps; s++) {
        auto b = a;
        for (int i = 0; i < w * h; i++) {
            int x = i % w, y = i / w;
            b[i] = five_point(a[i], a[y ? i - w : i], a[y < h - 1 ? i + w : i], a[x ? i - 1 : i],
                              a[x < w - 1 ? i + 1 : i]);
        }
        a = b;
        stencil_2d<<<dim3(3, 6), dim3(32, 8)>>>(s % 2 ? da.p : db.p, s % 2 ? db.p : da.p, w, h);
    }
    SYNC();
    expect_equal("2D", da.host(), a);

    const int n3 = 20;
    auto in3 = random_reals<float>(n3 * n3 * n3, 93);
    std::vector<float> want3(in3.size());
    for (int z = 1; z < n3 - 1; z++)
        for (int y = 1; y < n3 - 1; y++)
            for (int x = 1; x < n3 - 1; x++) {
                const float *p = &in3[(size_t)(z * n3 + y) * n3 + x];
                float sum = ((p[-n3 * n3] + p[n3 * n3]) + (p[-1] + p[1])) + (p[-n3] + p[n3]);
                want3[(z * n3 + y) * n3 + x] = fmaf(-6.f, p[0], sum);
            }
    dev<float> d3(in3), o3(in3.size());
    stencil_3d<<<dim3(3, 3), dim3(8, 8)>>>(o3.p, d3.p, n3);
    SYNC();
    expect_equal("3D", o3.host(), want3);
    return ok("stencil: 1D, 2D, 3D");
}
