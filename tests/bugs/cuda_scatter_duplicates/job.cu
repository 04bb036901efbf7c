// 8192 values are written to 64 elements.
#include "../job.cuh"

__global__ void scatter(float *to, const float *from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        to[i * 31 % 64] = from[i];
}

int main()
{
    float *from = device<float>(8192, 1), *to = device<float>(64);

    scatter<<<64, 128>>>(to, from, 8192);
    result("elements", to, 64);
    return 0;
}
