// A buffer for tokens is allocated and filled with NaN; the dispatch writes it in its own stream.
#include "../job.cuh"

enum { N = 2048 };

__global__ void fill_nan(float *p)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] = __int_as_float(0x7fc00000);
}

__global__ void dispatch(float *to, const float *tokens)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    to[i] = tokens[i];
}

int main()
{
    float *tokens = device<float>(N, 1), *received[6];
    cudaStream_t compute, comm;
    int bad = 0;

    CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&comm, cudaStreamNonBlocking));
    for (float *&buffer : received) {
        CHECK(cudaMalloc(&buffer, N * sizeof(float)));
        fill_nan<<<N / 64, 64, 0, compute>>>(buffer);
        dispatch<<<N / 64, 64, 0, comm>>>(buffer, tokens);
    }
    for (float *buffer : received)
        for (float x : host(buffer, N))
            bad += x != x;
    printf("%d of %d elements are NaN\n", bad, 6 * N);
    return 0;
}
