// Kernels that do what they must not. Each in a process of its own: which error comes back, that it
// stays until the device is reset, and that the process lives on.
#include "check.cuh"

#include <cassert>

__global__ void write_to(int *p)
{
    *p = 1;
}

__global__ void read_far(int *p, size_t far)
{
    p[0] = p[far + threadIdx.x];
}

__global__ void misaligned(char *p)
{
    *(int *)(p + 1 + threadIdx.x) = 1;
}

__global__ void traps(int *p)
{
    if (threadIdx.x == 17)
        __trap();
    p[threadIdx.x] = 1;
}

__global__ void asserts(int *p)
{
    assert(p[threadIdx.x] == 0 || threadIdx.x < 5);
}

__global__ void one(int *p)
{
    *p = 1;
}

/* a fault, its error, and what follows */
static void expect_fault(const char *what, cudaError_t want, cudaError_t also)
{
    cudaError_t got = cudaDeviceSynchronize();
    if (got != want && got != also)
        fail("%s: %s instead of %s", what, cudaGetErrorName(got), cudaGetErrorName(want));
    void *p = nullptr;
    for (int i = 0; i < 2; i++) {
        if (cudaMalloc(&p, 4) != got || cudaDeviceSynchronize() != got)
            fail("%s: the error does not stay", what);
        if (cudaGetLastError() != got)
            fail("%s: the last error was cleared", what);
    }
    one<<<1, 1>>>((int *)p);
    if (cudaGetLastError() != got)
        fail("%s: a launch is accepted afterwards", what);
    CHECK(cudaDeviceReset());
    int *fresh, value = 0;
    CHECK(cudaMalloc((void **)&fresh, sizeof *fresh));
    one<<<1, 1>>>(fresh);
    CHECK(cudaMemcpy(&value, fresh, sizeof value, cudaMemcpyDeviceToHost));
    expect_value("after reset", value, 1);
}

static int *buffer()
{
    int *p;
    CHECK(cudaMalloc((void **)&p, 4096));
    CHECK(cudaMemset(p, 0, 4096));
    return p;
}

int main()
{
    in_child("null", [] {
        write_to<<<1, 1>>>(nullptr);
        expect_fault("null", cudaErrorIllegalAddress, cudaErrorIllegalAddress);
    });
    in_child("far", [] {
        read_far<<<2, 64>>>(buffer(), (size_t)1 << 36);
        expect_fault("far", cudaErrorIllegalAddress, cudaErrorIllegalAddress);
    });
    in_child("wild", [] {
        int *p = buffer(), *bad = (int *)((size_t)64 << 40);
        one<<<1, 1>>>(p);
        write_to<<<1, 32>>>(bad);
        expect_fault("wild", cudaErrorIllegalAddress, cudaErrorIllegalAddress);
    });
    in_child("misaligned", [] {
        misaligned<<<1, 8>>>((char *)buffer());
        expect_fault("misaligned", cudaErrorMisalignedAddress, cudaErrorMisalignedAddress);
    });
    in_child("trap", [] {
        traps<<<4, 32>>>(buffer());
        expect_fault("trap", cudaErrorLaunchFailure, cudaErrorIllegalInstruction);
    });
    in_child("assert", [] {
        int *p = buffer(), bad = 3;
        CHECK(cudaMemcpy(p + 9, &bad, sizeof bad, cudaMemcpyHostToDevice));
        if (!freopen("/dev/null", "w", stderr)) // the assertion's text
            fail("no /dev/null");
        asserts<<<1, 64>>>(p);
        expect_fault("assert", cudaErrorAssert, cudaErrorAssert);
    });
    return ok("faults: illegal address, misaligned, trap, assert; sticky until reset");
}
