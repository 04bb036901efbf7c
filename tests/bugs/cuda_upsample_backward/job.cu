// 12x12 pixels were enlarged to 64x64; gradients go back.
#include "../job.cuh"

enum { SMALL = 12, LARGE = 64 };

__global__ void backward(float *small, const float *large)
{
    int y = blockIdx.x, x = threadIdx.x;
    float scale = (float)(SMALL - 1) / (LARGE - 1), fy = y * scale, fx = x * scale;
    int y0 = (int)fy, x0 = (int)fx, y1 = min(y0 + 1, SMALL - 1), x1 = min(x0 + 1, SMALL - 1);
    float wy = fy - y0, wx = fx - x0, g = large[y * LARGE + x];

    atomicAdd(&small[y0 * SMALL + x0], g * (1 - wy) * (1 - wx));
    atomicAdd(&small[y0 * SMALL + x1], g * (1 - wy) * wx);
    atomicAdd(&small[y1 * SMALL + x0], g * wy * (1 - wx));
    atomicAdd(&small[y1 * SMALL + x1], g * wy * wx);
}

int main()
{
    float *small = device<float>(SMALL * SMALL), *large = device<float>(LARGE * LARGE, 1);

    backward<<<LARGE, LARGE>>>(small, large);
    result("gradient", small, SMALL * SMALL);
    return 0;
}
