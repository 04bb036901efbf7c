// Requests come from another thread; one row is multiplied in eight slices, more of them without.
#include "../job.cuh"

#include <atomic>
#include <thread>

enum { K = 256, N = 32, REQUESTS = 48 };

__global__ void one_row(float *y, const float *x, const float *w)
{
    __shared__ float part[8][N];
    int slice = threadIdx.x / N, column = threadIdx.x % N;
    float sum = 0;

    for (int k = slice * (K / 8); k < (slice + 1) * (K / 8); k++)
        sum += x[k] * w[k * N + column];
    part[slice][column] = sum;
    __syncthreads();
    if (slice == 0) {
        sum = 0;
        for (int s = 0; s < 8; s++)
            sum += part[s][column];
        y[column] = sum;
    }
}

__global__ void rows(float *y, const float *x, const float *w)
{
    float sum = 0;

    for (int k = 0; k < K; k++)
        sum += x[blockIdx.x * K + k] * w[k * N + threadIdx.x];
    y[blockIdx.x * N + threadIdx.x] = sum;
}

int main()
{
    float *x = device<float>(REQUESTS * K, 1), *w = device<float>(K * N, 2),
          *y = device<float>(REQUESTS * N);
    std::atomic<int> arrived(0);
    std::thread client([&] {
        for (int i = 0; i < REQUESTS; i++) {
            std::this_thread::sleep_for(std::chrono::microseconds(i % 3 * 300));
            arrived++;
        }
    });

    for (int done = 0; done < REQUESTS;) {
        int n = arrived - done;
        if (n == 1)
            one_row<<<1, 8 * N>>>(y + done * N, x + done * K, w);
        else if (n > 1)
            rows<<<n, N>>>(y + done * N, x + done * K, w);
        CHECK(cudaDeviceSynchronize());
        done += n;
    }
    client.join();
    result("answers", y, REQUESTS * N);
    return 0;
}
