/*
 * The driver API for programs that link the runtime only: USE(cuMemCreate) defines p_cuMemCreate,
 * found through cudaGetDriverEntryPointByVersion; DRV(call) wants CUDA_SUCCESS.
 */
#ifndef SOFTGPU_PROGRAMS_DRIVER_CUH
#define SOFTGPU_PROGRAMS_DRIVER_CUH

#include "check.cuh"

#include <cuda.h>

/* the second argument is there for its type: nothing of libcuda is linked */
template <class F> static F *find_driver(const char *name, F *)
{
    void *p = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion(name, &p, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || !p)
        fail("no entry point %s", name);
    return (F *)p;
}

#define USE(name) const auto p_##name = find_driver(#name, (decltype(name) *)nullptr)
#define DRV(call)                                                                                  \
    do {                                                                                           \
        CUresult r_ = call;                                                                        \
        if (r_ != CUDA_SUCCESS)                                                                    \
            fail("line %d: %s: %d", __LINE__, #call, (int)r_);                                     \
    } while (0)

#endif
