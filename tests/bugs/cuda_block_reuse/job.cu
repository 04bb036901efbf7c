// A pool of one block: the gradient in it goes to a side stream, its next owner is the activation
// of the next layer.
#include "../job.cuh"

enum { N = 2048 };

__global__ void fill(float *p, float v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    p[i] = v + i;
}

__global__ void accumulate(float *sum, const float *p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    sum[i] += p[i];
}

int main()
{
    float *block = device<float>(N), *sum = device<float>(N);
    cudaStream_t compute, side;
    cudaEvent_t ready;

    CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    for (int layer = 0; layer < 8; layer++) {
        fill<<<N / 64, 64, 0, compute>>>(block, 1 + layer); /* the gradient */
        CHECK(cudaEventRecord(ready, compute));
        CHECK(cudaStreamWaitEvent(side, ready, 0));
        accumulate<<<N / 64, 64, 0, side>>>(sum, block);
        fill<<<N / 64, 64, 0, compute>>>(
            block, -1 - layer); /* its next owner does not wait for the side stream */
    }
    result("gradients", sum, N);
    return 0;
}
