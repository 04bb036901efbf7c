// Products of 32x32 matrices, each the input of the next.
#include "../job.cuh"

enum { N = 32 };

__global__ void product(float *c, const float *a, const float *b)
{
    int row = blockIdx.x, column = threadIdx.x;
    float sum = 0;

    for (int k = 0; k < N; k++)
        sum = fmaf(a[row * N + k], b[k * N + column], sum);
    c[row * N + column] = sum;
}

int main()
{
    float *w = device<float>(N * N, 1), *x = device<float>(N * N, 2), *y = device<float>(N * N);

    for (int layer = 0; layer < 4; layer++) {
        product<<<N, N>>>(y, x, w);
        std::swap(x, y);
    }
    result("output", x, N * N);
    return 0;
}
