// Refused launches and calls leave the context alive: which error each returns, and that
// cudaGetLastError hands it out once.
#include "check.cuh"

__global__ void touch(int *p)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

__global__ void __launch_bounds__(64) narrow(int *p)
{
    p[threadIdx.x] = 2;
}

static cudaError_t launch(dim3 grid, dim3 block, size_t shared, int *p)
{
    touch<<<grid, block, shared>>>(p);
    return cudaPeekAtLastError();
}

int main()
{
    dev<int> x(64);
    CHECK_ERROR(launch(0, 32, 0, x.p), cudaErrorInvalidConfiguration);
    CHECK_ERROR(launch(1, 0, 0, x.p), cudaErrorInvalidConfiguration);
    CHECK_ERROR(launch(1, 1025, 0, x.p), cudaErrorInvalidConfiguration);
    CHECK_ERROR(launch(1, dim3(1, 1, 65), 0, x.p), cudaErrorInvalidConfiguration);
    CHECK_ERROR(launch(dim3(1, 65536), 32, 0, x.p), cudaErrorInvalidConfiguration);
    CHECK_ERROR(launch(1, 32, 1 << 20, x.p), cudaErrorInvalidValue);
    narrow<<<1, 65>>>(x.p); // the manual does not say which error
    if (cudaGetLastError() == cudaSuccess)
        fail("more threads than __launch_bounds__ allows were accepted");
    touch<<<1, 2048>>>(x.p);
    if (cudaPeekAtLastError() != cudaErrorInvalidConfiguration ||
        cudaGetLastError() != cudaErrorInvalidConfiguration)
        fail("the last error is not kept");
    CHECK(cudaGetLastError());

    void *p;
    CHECK_ERROR(cudaMalloc(&p, (size_t)1 << 50), cudaErrorMemoryAllocation);
    CHECK_ERROR(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
    CHECK_ERROR(cudaFree((void *)(x.p + 1)), cudaErrorInvalidValue);
    CHECK(cudaFree(nullptr));
    CHECK_ERROR(cudaMemcpy(x.p, nullptr, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemcpy(x.p, x.p, 4, (cudaMemcpyKind)77), cudaErrorInvalidMemcpyDirection);
    CHECK_ERROR(cudaMemset(nullptr, 0, 4), cudaErrorInvalidValue);
    CHECK_ERROR(cudaSetDevice(-1), cudaErrorInvalidDevice);
    CHECK_ERROR(cudaEventDestroy(nullptr), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaFuncSetAttribute((const void *)touch,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30),
                cudaErrorInvalidValue);
    cudaFuncAttributes attributes;
    CHECK_ERROR(cudaFuncGetAttributes(&attributes, (const void *)&x),
                cudaErrorInvalidDeviceFunction);

    touch<<<2, 32>>>(x.p); // none of all this ran or did harm
    SYNC();
    expect_equal("touched", x.host(), std::vector<int>(64, 1));
    if (strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") ||
        !*cudaGetErrorString(cudaErrorIllegalAddress))
        fail("error names");
    return ok("launch errors: 19 refusals, none sticky");
}
