// Iteration counts of the Mandelbrot set in f32 and f64, without contraction: the same on host and
// device; rows go to blocks by an atomic counter.
// nvcc: -fmad=false
#include "check.cuh"

template <class T> __host__ __device__ int iterations(T cx, T cy, int most)
{
    T x = 0, y = 0;
    int i = 0;
    for (; i < most; i++) {
        T xx = x * x, yy = y * y;
        if (xx + yy > 4)
            break;
        y = fma(2 * x, y, cy);
        x = (xx - yy) + cx;
    }
    return i;
}

template <class T> __host__ __device__ int pixel(int x, int y, int w, int h, int most)
{
    return iterations<T>((T)-2.25 + (T)(3 * x) / (T)w, (T)-1.25 + (T)(5 * y) / (T)(2 * h), most);
}

template <class T> __global__ void grid(int *out, int w, int h, int most)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h)
        out[y * w + x] = pixel<T>(x, y, w, h, most);
}

template <class T> __global__ void rows(int *out, int w, int h, int most, int *next)
{
    __shared__ int row;
    for (;;) {
        if (threadIdx.x == 0)
            row = atomicAdd(next, 1);
        __syncthreads();
        int y = row;
        __syncthreads();
        if (y >= h)
            return;
        for (int x = threadIdx.x; x < w; x += blockDim.x)
            out[y * w + x] = pixel<T>(x, y, w, h, most);
    }
}

template <class T> static void run(const char *type)
{
    const int w = 90, h = 50, most = 120;
    std::vector<int> want(w * h);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            want[y * w + x] = pixel<T>(x, y, w, h, most);
    dev<int> out(w * h), next(1);
    grid<T><<<dim3(blocks_for(w, 16), blocks_for(h, 8)), dim3(16, 8)>>>(out.p, w, h, most);
    SYNC();
    expect_equal(type, out.host(), want);
    out.zero();
    rows<T><<<5, 32>>>(out.p, w, h, most, next.p);
    SYNC();
    expect_equal(type, out.host(), want);
}

int main()
{
    run<float>("f32");
    run<double>("f64");
    return ok("mandelbrot: f32 and f64, by grid and by rows");
}
