// A product of 16x1024 and 1024x16 in 16 slices of the inner dimension.
#include "../job.cuh"

enum { M = 16, N = 16, K = 1024, SLICES = 16 };

__global__ void slice(float *c, const float *a, const float *b)
{
    int row = threadIdx.x / N, column = threadIdx.x % N, first = blockIdx.x * (K / SLICES);
    float part = 0;

    for (int k = first; k < first + K / SLICES; k++)
        part += a[row * K + k] * b[k * N + column];
    atomicAdd(&c[row * N + column], part);
}

int main()
{
    float *a = device<float>(M * K, 1), *b = device<float>(K * N, 2), *c = device<float>(M * N);

    slice<<<SLICES, M * N>>>(c, a, b);
    result("product", c, M * N);
    return 0;
}
