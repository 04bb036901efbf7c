// Event times: not negative, longer for much more work, additive; an event that has not happened
// answers "not ready"; recording again moves it.
#include "check.cuh"

enum { MANY = 4000000 };

__global__ void spin(unsigned *x, int rounds)
{
    unsigned v = threadIdx.x;
    for (int i = 0; i < rounds; i++)
        v = v * 1664525u + 1013904223u;
    x[threadIdx.x] = v;
}

static unsigned host_spin(unsigned v, int rounds)
{
    for (int i = 0; i < rounds; i++)
        v = v * 1664525u + 1013904223u;
    return v;
}

int main()
{
    cudaEvent_t e[4], untimed;
    for (auto &x : e)
        CHECK(cudaEventCreate(&x));
    CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    dev<unsigned> x(32);
    spin<<<1, 32>>>(x.p, 10);
    SYNC();
    float few = 1e9f, many, both;
    for (int i = 0; i < 4; i++) { // the machine may be busy
        CHECK(cudaEventRecord(e[0]));
        spin<<<1, 32>>>(x.p, 10);
        CHECK(cudaEventRecord(e[1]));
        CHECK(cudaEventSynchronize(e[1]));
        CHECK(cudaEventElapsedTime(&many, e[0], e[1]));
        few = fminf(few, many);
    }
    spin<<<1, 32>>>(x.p, MANY);
    CHECK(cudaEventRecord(e[2]));
    cudaError_t now = cudaEventQuery(e[2]);
    if (now != cudaSuccess && now != cudaErrorNotReady)
        fail("query: %s", cudaGetErrorName(now));
    CHECK(cudaEventSynchronize(e[2]));
    float last;
    CHECK(cudaEventElapsedTime(&last, e[0], e[1]));
    CHECK(cudaEventElapsedTime(&many, e[1], e[2]));
    CHECK(cudaEventElapsedTime(&both, e[0], e[2]));
    expect_value("work", x.host()[7], host_spin(7, MANY));
    if (few < 0 || many <= 0 || many > 60000 || fabsf(last + many - both) > 0.01f + 1e-3f * both)
        fail("%g ms, %g ms, together %g ms", last, many, both);
    if (many < few)
        fail("%d rounds took %g ms, 10 took %g ms", MANY, many, few);
    CHECK(cudaEventRecord(e[0])); // later than e[2] now
    CHECK(cudaEventSynchronize(e[0]));
    CHECK(cudaEventElapsedTime(&both, e[2], e[0]));
    if (both < 0)
        fail("a later event is earlier by %g ms", both);
    CHECK(cudaEventRecord(untimed));
    CHECK(cudaEventSynchronize(untimed));
    CHECK_ERROR(cudaEventElapsedTime(&both, e[0], untimed), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaEventElapsedTime(&both, e[0], e[3]), cudaErrorInvalidResourceHandle);
    for (auto &x : e)
        CHECK(cudaEventDestroy(x));
    return ok("events: times in order");
}
