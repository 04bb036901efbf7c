// Host functions and stream callbacks: in stream order, once each, seeing what kernels before them
// wrote, releasing kernels after them.
#include "check.cuh"

#include <atomic>

__global__ void step(int *x)
{
    *x = *x * 2 + 1;
}

struct seen {
    const int *x; // pinned
    std::atomic<int> next{0};
    int values[40];
};

struct call {
    seen *s;
    int number;
};

static void look(void *arg)
{
    call *c = (call *)arg;
    int at = c->s->next++;
    if (at != c->number)
        fail("host function %d came at place %d", c->number, at);
    c->s->values[at] = *c->s->x;
}

static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *arg)
{
    if (status != cudaSuccess)
        fail("callback got %s", cudaGetErrorName(status));
    look(arg);
}

int main()
{
    int *x;
    seen s;
    cudaStream_t stream, other;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaHostAlloc((void **)&x, 4096, cudaHostAllocMapped));
    *x = 0;
    s.x = x;
    call calls[20];
    std::vector<int> want(20);
    for (int i = 0, v = 0; i < 20; i++) {
        calls[i] = {&s, i};
        step<<<1, 1, 0, stream>>>(x);
        if (i % 3)
            CHECK(cudaLaunchHostFunc(stream, look, &calls[i]));
        else
            CHECK(cudaStreamAddCallback(stream, callback, &calls[i], 0));
        want[i] = v = v * 2 + 1;
    }
    step<<<1, 1, 0, other>>>(x + 500); // another stream does not care
    CHECK(cudaStreamSynchronize(stream));
    expect_equal("values", std::vector<int>(s.values, s.values + 20), want);
    CHECK(cudaDeviceSynchronize());
    expect_value("other stream", x[500], 1);
    CHECK_ERROR(cudaLaunchHostFunc(stream, nullptr, nullptr), cudaErrorInvalidValue);
    return ok("host functions: 20 in order");
}
