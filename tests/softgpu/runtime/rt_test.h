/* What the tests of the runtime share: they use its public API only, as a client does. */
#ifndef TESTS_SOFTGPU_RUNTIME_RT_TEST_H
#define TESTS_SOFTGPU_RUNTIME_RT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        cudaError_t err_ = (call);                                                                 \
        if (err_ != cudaSuccess)                                                                   \
            print_error("%s: %s\n", #call, cudaGetErrorName(err_));                                \
        assert_int_equal(err_, cudaSuccess);                                                       \
    } while (0)

/* The call fails so, the failure is the thread's last error, and asking clears it. */
#define assert_fails(call, error)                                                                  \
    do {                                                                                           \
        assert_int_equal(call, error);                                                             \
        assert_int_equal(cudaPeekAtLastError(), error);                                            \
        assert_int_equal(cudaGetLastError(), error);                                               \
        assert_int_equal(cudaGetLastError(), cudaSuccess);                                         \
    } while (0)

/* What nvcc's host code calls (crt/host_runtime.h). */
extern void **__cudaRegisterFatBinary(void *fatCubin);
extern void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
extern void __cudaUnregisterFatBinary(void **fatCubinHandle);
extern void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global);
extern void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress,
                                     char *deviceAddress, const char *deviceName, int ext,
                                     size_t size, int constant, int global);
extern char __cudaInitModule(void **fatCubinHandle);
extern void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                                   const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
                                   dim3 *bDim, dim3 *gDim, int *wSize);
extern unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                            struct CUstream_st *stream);
extern cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                              void *stream);
extern cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr);
extern cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                      size_t sharedMem, cudaStream_t stream);

#endif
