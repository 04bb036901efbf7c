/*
 * pitfalls.h - between pitfalls.c and the files beside it: the driver's functions, and what a call
 * must return.
 */
#ifndef TEST_CUDA_PITFALLS_H
#define TEST_CUDA_PITFALLS_H

#include <cuda.h>
#include <stdio.h>

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuInit)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuDevicePrimaryCtxReset)                                                                     \
    X(cuCtxDestroy)                                                                                \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxPopCurrent)                                                                             \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuModuleGetGlobal)                                                                           \
    X(cuLibraryLoadData)                                                                           \
    X(cuLibraryUnload)                                                                             \
    X(cuLibraryGetKernel)                                                                          \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemFree)                                                                                   \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemcpyHtoD)                                                                                \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemcpyPeerAsync)                                                                           \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuMemcpyDtoD)                                                                                \
    X(cuMemcpy2D)                                                                                  \
    X(cuMemcpy3D)                                                                                  \
    X(cuMemsetD8Async)                                                                             \
    X(cuMemsetD8)                                                                                  \
    X(cuMemCreate)                                                                                 \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemSetAccess)                                                                              \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchKernelEx)                                                                            \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamDestroy)                                                                             \
    X(cuStreamQuery)                                                                               \
    X(cuStreamWaitEvent)                                                                           \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuGraphCreate)                                                                               \
    X(cuGraphDestroy)                                                                              \
    X(cuGraphAddKernelNode)                                                                        \
    X(cuGraphAddChildGraphNode)                                                                    \
    X(cuGraphAddDependencies_v2)                                                                   \
    X(cuGraphAddMemAllocNode)                                                                      \
    X(cuGraphAddMemFreeNode)                                                                       \
    X(cuGraphChildGraphNodeGetGraph)                                                               \
    X(cuGraphGetNodes)                                                                             \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphExecChildGraphNodeSetParams)                                                          \
    X(cuGraphExecUpdate_v2)                                                                        \
    X(cuGraphExecKernelNodeSetParams)                                                              \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphLaunch)

struct cuda {
#define MEMBER_(name) __typeof__(name) *name;
#define MEMBER(name) MEMBER_(name)
    CUDA_FUNCTIONS(MEMBER)
    /* whose declaration depends on the version of the headers */
    CUresult (*synchronize)(void);
    CUresult (*create)(CUcontext *, unsigned, CUdevice);
};
extern struct cuda cu;

void must_be(int result, int want, const char *what, int line);
#define IS(call, want) must_be((int)(call), (int)(want), #call, __LINE__)
#define OK(call) IS(call, CUDA_SUCCESS)

/** pitfalls_begin - this thread has device 0 and the kernels of pitfalls_fill(p, value, n),
 * pitfalls_by_distance(p, distance, value) and pitfalls_gather(p, distance, to) */
void pitfalls_begin(void);
CUfunction pitfalls_fill(void);
/** pitfalls_load - the kernels of pitfalls.c in the current context */
CUmodule pitfalls_load(void);
CUfunction pitfalls_by_distance(void);
CUfunction pitfalls_gather(void);

void pitfalls_peek(void);
void pitfalls_parts(void);
void pitfalls_kinds(void);
void pitfalls_plans(void);
void pitfalls_halves(void);
void pitfalls_threads(void);
void pitfalls_capture(void);
void pitfalls_nested(void);
void pitfalls_graph_memory(void);
void pitfalls_elsewhere(void);
void pitfalls_split(void);
void pitfalls_split_thread(void);
void pitfalls_states_named(void);
void pitfalls_states_unnamed(void);
void pitfalls_states_streams(void);
void pitfalls_states_halves(void);
void pitfalls_states_early(void);
void pitfalls_states_gone(void);
void pitfalls_states_large(void);
void pitfalls_states_freed(void);
void pitfalls_states_last(void);
void pitfalls_branch_halves(void);
void pitfalls_branch_base(void);
void pitfalls_branch_stuck(void);
void pitfalls_branch_child(void);
void pitfalls_branch_change(void);
void pitfalls_branch_read(void);
void pitfalls_branch_update(void);
void pitfalls_branch_many(void);

#endif
