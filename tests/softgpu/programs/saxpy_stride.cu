// Grid-stride loops: y = a x + y with few threads, two-dimensional grids, float4 pieces.
// nvcc: --compress-mode=speed
#include "check.cuh"

__global__ void saxpy(float *y, const float *x, float a, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        y[i] = fmaf(a, x[i], y[i]);
}

__global__ void daxpy_2d(double *y, const double *x, double a, unsigned width, unsigned height)
{
    for (unsigned r = blockIdx.y * blockDim.y + threadIdx.y; r < height;
         r += gridDim.y * blockDim.y)
        for (unsigned c = blockIdx.x * blockDim.x + threadIdx.x; c < width;
             c += gridDim.x * blockDim.x)
            y[(size_t)r * width + c] = fma(a, x[(size_t)r * width + c], y[(size_t)r * width + c]);
}

__global__ void saxpy4(float4 *y, const float4 *x, float a, int n4)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
#pragma unroll 2
    for (; i < n4; i += step) {
        float4 u = x[i], v = y[i];
        v.x = fmaf(a, u.x, v.x);
        v.y = fmaf(a, u.y, v.y);
        v.z = fmaf(a, u.z, v.z);
        v.w = fmaf(a, u.w, v.w);
        y[i] = v;
    }
}

int main()
{
    const size_t n = 10007;
    auto x = random_reals<float>(n, 1), y = random_reals<float>(n, 2);
    auto want = y;
    for (size_t i = 0; i < n; i++)
        want[i] = fmaf(2.5f, x[i], y[i]);
    dev<float> dx(x), dy(y);
    saxpy<<<3, 100>>>(dy.p, dx.p, 2.5f, n);
    SYNC();
    expect_equal("saxpy", dy.host(), want);

    dy.set(y);
    saxpy4<<<5, 64>>>((float4 *)dy.p, (const float4 *)dx.p, 2.5f, (int)(n / 4));
    SYNC();
    for (size_t i = n / 4 * 4; i < n; i++)
        want[i] = y[i];
    expect_equal("saxpy4", dy.host(), want);

    const unsigned w = 77, h = 53;
    auto xd = random_reals<double>(w * h, 3), yd = random_reals<double>(w * h, 4);
    auto wantd = yd;
    for (size_t i = 0; i < w * h; i++)
        wantd[i] = fma(-0.75, xd[i], yd[i]);
    dev<double> dxd(xd), dyd(yd);
    daxpy_2d<<<dim3(2, 3), dim3(16, 5)>>>(dyd.p, dxd.p, -0.75, w, h);
    SYNC();
    expect_equal("daxpy_2d", dyd.host(), wantd);
    return ok("saxpy: grid-stride in one and two dimensions");
}
