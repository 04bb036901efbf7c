// A prefetcher converts batches in its own stream; the step in the main stream forgets to wait for
// it.
#include "../job.cuh"

enum { N = 2048 };

__global__ void convert(float *batch, const int *raw, int number)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    batch[i] = (raw[i] + number) / 255.0f;
}

__global__ void step(float *weights, const float *batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    weights[i] -= 0.1f * (weights[i] - batch[i]);
}

int main()
{
    float *batch = device<float>(N), *weights = device<float>(N, 1);
    int *raw = device<int>(N);
    cudaStream_t prefetch, compute;

    CHECK(cudaStreamCreateWithFlags(&prefetch, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    for (int number = 1; number <= 6; number++) {
        convert<<<N / 64, 64, 0, prefetch>>>(batch, raw, number);
        step<<<N / 64, 64, 0, compute>>>(weights, batch);
        CHECK(cudaStreamSynchronize(
            compute)); /* the loss is read; the prefetcher is not waited for */
    }
    result("weights", weights, N);
    return 0;
}
