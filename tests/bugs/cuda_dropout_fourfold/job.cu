// Dropout with a counter-based generator; the counter is that of the group, and so is the number.
#include "../job.cuh"

__device__ unsigned number(unsigned counter, unsigned seed)
{
    unsigned x = counter * 0x9e3779b9u ^ seed;

    for (int round = 0; round < 4; round++) {
        x ^= x >> 16;
        x *= 0x7feb352du;
        x ^= x >> 15;
    }
    return x;
}

__global__ void dropout(float *y, const float *x, unsigned seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    y[i] = number(i / 4, seed) >> 31 ? 2 * x[i] : 0;
}

int main()
{
    float *x = device<float>(4096, 1), *y = device<float>(4096);

    dropout<<<64, 64>>>(y, x, 42);
    int whole = 0;
    std::vector<float> values = host(y, 4096);
    for (int i = 0; i < 4096; i += 4) {
        int zeros = 0;
        for (int k = 0; k < 4; k++)
            zeros += values[i + k] == 0;
        whole += zeros == 0 || zeros == 4;
    }
    printf("%d of 1024 groups of four are kept or dropped as a whole\n", whole);
    return 0;
}
