// Uniform numbers by a grid that strides over the elements; its size follows from the device.
#include "../job.cuh"

__global__ void uniform(float *out, int n, unsigned seed)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x, draw = 0;

    for (int i = thread; i < n; i += gridDim.x * blockDim.x, draw++) {
        unsigned x = (thread * 0x9e3779b9u) ^ (draw * 0x85ebca6bu) ^ seed;
        for (int round = 0; round < 4; round++) {
            x ^= x >> 16;
            x *= 0x7feb352du;
            x ^= x >> 15;
        }
        out[i] = x * 0x1p-32f;
    }
}

int main()
{
    const int n = 20000;
    float *out = device<float>(n);
    int multiprocessors;

    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    uniform<<<multiprocessors * 4, 64>>>(out, n, 42);
    result("numbers", out, n);
    return 0;
}
