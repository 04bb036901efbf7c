// Probabilities of 8192 tokens over 8 experts: squares are summed in a block, blocks by atomics.
#include "../job.cuh"

__global__ void aux_loss(float *loss, const float *probabilities)
{
    __shared__ float sums[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float sum = 0;

    for (int e = 0; e < 8; e++)
        sum += probabilities[i * 8 + e] * probabilities[i * 8 + e];
    sums[threadIdx.x] = sum;
    for (int d = 64; d; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d)
            sums[threadIdx.x] += sums[threadIdx.x + d];
    }
    if (threadIdx.x == 0)
        atomicAdd(loss, sums[0] / 3);
}

int main()
{
    float *p = device<float>(8192 * 8, 1), *loss = device<float>(4);

    for (int layer = 0; layer < 4; layer++)
        aux_loss<<<64, 128>>>(loss + layer, p);
    result("loss", loss, 4);
    return 0;
}
