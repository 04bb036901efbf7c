// Indices of scores above a threshold, then a weighted sum over them in the order of their slots.
#include "../job.cuh"

__global__ void select(int *slots, int *count, const float *scores, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n && scores[i] > 0.4f)
        slots[atomicAdd(count, 1)] = i;
}

__global__ void attend(float *out, const int *slots, const int *count, const float *scores,
                       const float *values)
{
    float sum = 0;

    for (int s = 0; s < *count; s++)
        sum += scores[slots[s]] * values[slots[s] * 32 + threadIdx.x];
    out[threadIdx.x] = sum;
}

int main()
{
    const int n = 4096;
    float *scores = device<float>(n, 1), *values = device<float>(n * 32, 2),
          *out = device<float>(32);
    int *slots = device<int>(n), *count = device<int>(1);

    select<<<n / 64, 64>>>(slots, count, scores, n);
    attend<<<1, 32>>>(out, slots, count, scores, values);
    result("output", out, 32);
    return 0;
}
