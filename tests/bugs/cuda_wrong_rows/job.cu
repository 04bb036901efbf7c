// A product of 16x32 and 32x16, one thread an element; rows of the second half read the first
// half's place.
#include "../job.cuh"

enum { M = 16, N = 16, K = 32 };

__global__ void product(float *c, const float *a, const float *b)
{
    int row = blockIdx.x, column = threadIdx.x, from = row < 8 ? row : (row & 7) | 1;
    float sum = 0;

    for (int k = 0; k < K; k++)
        sum += a[from * K + k] * b[k * N + column];
    c[row * N + column] = sum;
}

int main()
{
    float *a = device<float>(M * K, 1), *b = device<float>(K * N, 2), *c = device<float>(M * N);

    product<<<M, N>>>(c, a, b);
    result("product", c, M * N);
    return 0;
}
