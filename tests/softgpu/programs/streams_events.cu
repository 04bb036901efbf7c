// Several streams ordered by events alone: a chain through three streams, a diamond, the NULL
// stream's implicit order, priorities, queries.
#include "check.cuh"

__global__ void fill(int *x, int value, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = value;
}

__global__ void combine(int *x, const int *y, int f, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = x[i] * f + y[i];
}

enum { N = 2000, STREAMS = 4 };

static void wait_for(cudaStream_t waits, cudaStream_t works, cudaEvent_t e)
{
    CHECK(cudaEventRecord(e, works));
    CHECK(cudaStreamWaitEvent(waits, e, 0));
}

int main()
{
    int low, high;
    CHECK(cudaDeviceGetStreamPriorityRange(&low, &high));
    cudaStream_t s[STREAMS];
    cudaEvent_t e;
    for (int i = 0; i < STREAMS; i++)
        CHECK(cudaStreamCreateWithPriority(&s[i], cudaStreamNonBlocking, i % 2 ? low : high));
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    int priority = 77;
    CHECK(cudaStreamGetPriority(s[1], &priority));
    expect_value("priority", priority, low);

    dev<int> x(N), y(N);
    std::vector<int> got(N);
    int want = 0;
    for (int round = 0; round < 8; round++) { // x = ((v * 2 + 1) * 3 + 1), each step elsewhere
        fill<<<3, 64, 0, s[0]>>>(x.p, round, N);
        fill<<<3, 64, 0, s[1]>>>(y.p, 1, N);
        wait_for(s[1], s[0], e);
        combine<<<3, 64, 0, s[1]>>>(x.p, y.p, 2, N);
        wait_for(s[2], s[1], e);
        combine<<<3, 64, 0, s[2]>>>(x.p, y.p, 3, N);
        wait_for(s[3], s[2], e);
        CHECK(cudaMemcpyAsync(got.data(), x.p, N * sizeof(int), cudaMemcpyDeviceToHost, s[3]));
        wait_for(s[0], s[3], e);
        wait_for(s[1], s[3], e);
        CHECK(cudaStreamSynchronize(s[3]));
        want = (round * 2 + 1) * 3 + 1;
        expect_equal("chain", got, std::vector<int>(N, want));
    }

    cudaStream_t a, b; // blocking streams and the NULL stream order each other
    CHECK(cudaStreamCreate(&a));
    CHECK(cudaStreamCreate(&b));
    for (int round = 0; round < 8; round++) {
        fill<<<2, 64, 0, a>>>(x.p, round, N);
        fill<<<2, 64, 0, b>>>(y.p, 10, N);
        combine<<<2, 64>>>(x.p, y.p, 5, N);
        combine<<<2, 64, 0, b>>>(x.p, y.p, 2, N);
        fill<<<2, 64>>>(y.p, 0, N);
        CHECK(cudaMemcpy(got.data(), x.p, N * sizeof(int), cudaMemcpyDeviceToHost));
        expect_equal("NULL stream", got, std::vector<int>(N, (round * 5 + 10) * 2 + 10));
    }

    CHECK(cudaEventSynchronize(e));
    CHECK(cudaEventQuery(e));
    for (int i = 0; i < STREAMS; i++) {
        CHECK(cudaStreamSynchronize(s[i]));
        CHECK(cudaStreamQuery(s[i]));
        CHECK(cudaStreamDestroy(s[i]));
    }
    fill<<<1, 32, 0, a>>>(x.p, 5, N);
    CHECK(cudaStreamDestroy(a)); // its work is still done
    CHECK(cudaDeviceSynchronize());
    expect_equal("destroyed stream", x.host(), std::vector<int>(N, 5));
    cudaEvent_t unused;
    CHECK(cudaEventCreate(&unused));
    CHECK(cudaEventQuery(unused)); // never recorded: counts as complete
    CHECK(cudaStreamWaitEvent(b, unused, 0));
    float ms;
    CHECK_ERROR(cudaEventElapsedTime(&ms, unused, unused), cudaErrorInvalidResourceHandle);
    CHECK(cudaStreamSynchronize(b));
    return ok("streams: chain of 4, NULL stream, priorities, queries");
}
