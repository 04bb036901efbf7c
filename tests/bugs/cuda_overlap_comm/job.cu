// Two buckets are written by two streams, a third one adds to them those of another rank.
#include "../job.cuh"

enum { N = 1024 };

__global__ void gradient(float *bucket, const float *data, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    bucket[i] = data[i] * scale;
}

__global__ void reduce(float *out, const float *first, const float *second, const float *other)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    out[i] += (first[i] + other[i]) + (second[i] + other[N + i]);
}

int main()
{
    float *first = device<float>(N), *second = device<float>(N), *data = device<float>(N, 1);
    float *other = device<float>(2 * N, 2), *out = device<float>(N);
    cudaStream_t main_stream, aside, comm;
    cudaEvent_t ready;

    CHECK(cudaStreamCreateWithFlags(&main_stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&comm, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    for (int step = 1; step <= 6; step++) {
        gradient<<<N / 64, 64, 0, main_stream>>>(first, data, 1.0f / step);
        gradient<<<N / 64, 64, 0, aside>>>(second, data, 1.0f / step);
        CHECK(cudaEventRecord(ready, main_stream)); /* and none of the other stream */
        CHECK(cudaStreamWaitEvent(comm, ready, 0));
        reduce<<<N / 64, 64, 0, comm>>>(out, first, second, other);
        CHECK(cudaStreamSynchronize(comm));
    }
    result("reduced", out, N);
    return 0;
}
