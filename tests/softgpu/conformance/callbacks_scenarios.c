/* The calls of each scenario of callbacks.txt. Functions that a list is about are called once. */
#include "callbacks.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#endif

#include <stdlib.h>
#include <string.h>

const char cb_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                      ".visible .entry nothing() { ret; }\n"
                      ".visible .entry store(.param .u64 p) {\n"
                      "  .reg .b64 %rd<3>;\n"
                      "  .reg .b32 %r<2>;\n"
                      "  ld.param.u64 %rd1, [p];\n"
                      "  cvta.to.global.u64 %rd2, %rd1;\n"
                      "  mov.u32 %r1, 7;\n"
                      "  st.global.u32 [%rd2], %r1;\n"
                      "  ret;\n"
                      "}\n";

static CUcontext other;
static CUstream left;
static CUgraph graph;
static CUgraphNode node;
static CUgraphExec exec;
static cudaKernel_t kernel;
static cudaLibrary_t library;
static void *pointer;

/* ---- start ----------------------------------------------------------------------------------- */

static void init(struct stage *s)
{
    OK(CU(cuInit)(0));
    OK(CU(cuDeviceGet)(&s->dev, 0));
    OK(CU(cuDevicePrimaryCtxRetain)(&s->ctx, s->dev));
    OK(CU(cuCtxSetCurrent)(s->ctx));
}

static void furnish(struct stage *s)
{
    OK(CU(cuModuleLoadData)(&s->module, cb_ptx));
    OK(CU(cuModuleGetFunction)(&s->nothing, s->module, "nothing"));
    OK(CU(cuModuleGetFunction)(&s->store, s->module, "store"));
    OK(CU(cuStreamCreate)(&s->stream, CU_STREAM_NON_BLOCKING));
    OK(CU(cuMemAlloc)(&s->mem, 4096));
}

/* ---- the driver ------------------------------------------------------------------------------ */

static void alloc_driver(struct stage *s)
{
    CUdeviceptr p;

    (void)s;
    OK(CU(cuMemAlloc)(&p, 16));
    OK(CU(cuMemFree)(p));
}

static void copy_driver(struct stage *s)
{
    int host = 1;

    OK(CU(cuMemcpyHtoD)(s->mem, &host, sizeof(host)));
    OK(CU(cuMemsetD8Async)(s->mem, 0, 16, s->stream));
    OK(CU(cuMemcpyDtoHAsync)(&host, s->mem, sizeof(host), s->stream));
}

static void synchronize(struct stage *s)
{
    OK(CU(cuStreamSynchronize)(s->stream));
}

static void launch_driver(struct stage *s)
{
    OK(CU(cuLaunchKernel)(s->store, 1, 1, 1, 32, 1, 1, 0, s->stream, (void *[]){&s->mem}, NULL));
}

static void launch_ex(struct stage *s)
{
    CUlaunchConfig c = {1, 1, 1, 32, 1, 1, 0, s->stream, NULL, 0};

    OK(CU(cuLaunchKernelEx)(&c, s->nothing, NULL, NULL));
}

static void error_driver(struct stage *s)
{
    (void)s;
    CU(cuMemAlloc)(NULL, 16);
}

static void error_launch(struct stage *s)
{
    CU(cuLaunchKernel)(s->nothing, 0, 1, 1, 32, 1, 1, 0, s->stream, NULL, NULL);
}

static void wait_driver(struct stage *s)
{
    CUevent e;

    OK(CU(cuEventCreate)(&e, 0));
    OK(CU(cuEventRecord)(e, s->stream));
    OK(CU(cuStreamWaitEvent)(s->stream, e, 0));
    OK(CU(cuEventSynchronize)(e));
    OK(CU(cuStreamSynchronize)(s->stream));
    OK(CU(cuCtxSynchronize)());
    OK(CU(cuEventDestroy)(e));
}

/* ---- the runtime ----------------------------------------------------------------------------- */

/* What loads lazily is loaded, and the thread has a device. */
static void warm_runtime(struct stage *s)
{
    (void)s;
    OK(RT(cudaLibraryLoadData)(&library, cb_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(RT(cudaLibraryGetKernel)(&kernel, library, "nothing"));
    OK(RT(cudaLaunchKernel)((void *)kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL));
    OK(RT(cudaDeviceSynchronize)());
}

static void cool_runtime(struct stage *s)
{
    (void)s;
    OK(RT(cudaLibraryUnload)(library));
}

static void alloc_runtime(struct stage *s)
{
    (void)s;
    OK(RT(cudaMalloc)(&pointer, 16));
    OK(RT(cudaFree)(pointer));
}

static void copy_runtime(struct stage *s)
{
    int host = 1;

    OK(RT(cudaMemcpy)((void *)(uintptr_t)s->mem, &host, sizeof(host), cudaMemcpyHostToDevice));
}

static void launch_runtime(struct stage *s)
{
    (void)s;
    OK(RT(cudaLaunchKernel)((void *)kernel, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, NULL));
}

static void error_runtime(struct stage *s)
{
    (void)s;
    RT(cudaMalloc)(&pointer, (size_t)1 << 60);
    RT(cudaGetLastError)();
}

static void wait_runtime(struct stage *s)
{
    (void)s;
    OK(RT(cudaDeviceSynchronize)());
}

/* ---- objects --------------------------------------------------------------------------------- */

static void make_context(struct stage *s)
{
#if CUDA_VERSION >= 13000
    OK(CU(cuCtxCreate)(&other, NULL, 0, s->dev));
#else
    OK(CU(cuCtxCreate)(&other, 0, s->dev));
#endif
}

static void end_context(struct stage *s)
{
    OK(CU(cuCtxDestroy)(other));
    OK(CU(cuCtxSetCurrent)(s->ctx));
}

static void make_context_with_stream(struct stage *s)
{
    make_context(s);
    OK(CU(cuStreamCreate)(&left, CU_STREAM_NON_BLOCKING));
}

static void destroy_context(struct stage *s)
{
    (void)s;
    OK(CU(cuCtxDestroy)(other));
}

static void back(struct stage *s)
{
    OK(CU(cuCtxSetCurrent)(s->ctx));
}

static void streams(struct stage *s)
{
    const CUstreamAttrValue v = {.syncPolicy = CU_SYNC_POLICY_YIELD};
    CUstream one;

    (void)s;
    OK(CU(cuStreamCreate)(&one, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamSetAttribute)(one, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
    OK(CU(cuStreamDestroy)(one));
}

static void modules(struct stage *s)
{
    CUmodule m;

    (void)s;
    OK(CU(cuModuleLoadData)(&m, cb_ptx));
    OK(CU(cuModuleUnload)(m));
}

static void lazy_module(struct stage *s)
{
    CUlibrary lib;
    CUkernel k;

    OK(CU(cuLibraryLoadData)(&lib, cb_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(CU(cuLibraryGetKernel)(&k, lib, "nothing"));
    OK(CU(cuLaunchKernel)((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, s->stream, NULL, NULL));
    OK(CU(cuLibraryUnload)(lib));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void capture(struct stage *s)
{
    OK(CU(cuStreamBeginCapture)(s->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(CU(cuLaunchKernel)(s->store, 1, 1, 1, 1, 1, 1, 0, s->stream, (void *[]){&s->mem}, NULL));
    OK(CU(cuMemsetD8Async)(s->mem, 0, 16, s->stream));
    OK(CU(cuStreamEndCapture)(s->stream, &graph));
    OK(CU(cuGraphInstantiate)(&exec, graph, 0));
    OK(CU(cuGraphLaunch)(exec, s->stream));
    OK(CU(cuStreamSynchronize)(s->stream));
    OK(CU(cuGraphExecDestroy)(exec));
    OK(CU(cuGraphDestroy)(graph));
}

static CUDA_KERNEL_NODE_PARAMS node_params(struct stage *s, unsigned grid)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = s->nothing,
                                     .gridDimX = grid,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1};
}

static void build_graph(struct stage *s)
{
    const CUDA_KERNEL_NODE_PARAMS p = node_params(s, 1);
    CUgraphNode second;

    OK(CU(cuGraphCreate)(&graph, 0));
    OK(CU(cuGraphAddKernelNode)(&node, graph, NULL, 0, &p));
    OK(CU(cuGraphAddEmptyNode)(&second, graph, &node, 1));
}

static void end_graph(struct stage *s)
{
    (void)s;
    OK(CU(cuGraphDestroy)(graph));
}

static void instantiate(struct stage *s)
{
    build_graph(s);
    OK(CU(cuGraphInstantiate)(&exec, graph, 0));
}

static void end_instance(struct stage *s)
{
    OK(CU(cuGraphExecDestroy)(exec));
    end_graph(s);
}

#if CUDA_VERSION >= 13000
static void update(struct stage *s)
{
    const CUDA_KERNEL_NODE_PARAMS p = node_params(s, 2);
    CUgraphExecUpdateResultInfo info;

    OK(CU(cuGraphExecKernelNodeSetParams)(exec, node, &p));
    OK(CU(cuGraphExecUpdate)(exec, graph, &info));
}
#endif

static void clone_graph(struct stage *s)
{
    CUgraph clone;

    (void)s;
    OK(CU(cuGraphClone)(&clone, graph));
    OK(CU(cuGraphDestroy)(clone));
}

static void drop_node(struct stage *s)
{
    (void)s;
    OK(CU(cuGraphDestroyNode)(node));
}

/* ---- NVTX ------------------------------------------------------------------------------------ */

static void nvtx(struct stage *s)
{
    (void)s;
#ifdef HAVE_NVTX
    nvtxRangePushA("range");
    nvtxMarkA("mark");
    nvtxRangePop();
#endif
}

#define DRIVER "driver resource sync"
const struct scenario cb_scenarios[] = {
    {"init", DRIVER, NULL, furnish, init},
    {"alloc-driver", DRIVER, NULL, NULL, alloc_driver},
    {"copy-driver", DRIVER, NULL, synchronize, copy_driver},
    {"launch-driver", DRIVER, NULL, synchronize, launch_driver},
    {"launch-ex", DRIVER, NULL, synchronize, launch_ex},
    {"error-driver", DRIVER, NULL, NULL, error_driver},
    {"error-launch", DRIVER, NULL, NULL, error_launch},
    {"wait-driver", DRIVER, NULL, NULL, wait_driver},
    {"alloc-runtime", "driver runtime", warm_runtime, NULL, alloc_runtime},
    {"copy-runtime", "driver runtime", NULL, NULL, copy_runtime},
    {"launch-runtime", "driver runtime", NULL, synchronize, launch_runtime},
    {"error-runtime", "driver runtime", NULL, NULL, error_runtime},
    {"wait-runtime", "driver runtime sync", NULL, cool_runtime, wait_runtime},
    {"context", "resource", NULL, end_context, make_context},
    {"context-end", "resource", make_context_with_stream, back, destroy_context},
    {"stream", "resource", NULL, NULL, streams},
    {"module", "resource", NULL, NULL, modules},
    {"module-lazy", "resource", NULL, synchronize, lazy_module},
    {"capture", DRIVER, NULL, NULL, capture},
    {"graph", "resource", NULL, end_graph, build_graph},
    {"instance", "resource", NULL, end_instance, instantiate},
#if CUDA_VERSION >= 13000 /* the ids are no older */
    {"update", "resource", instantiate, end_instance, update},
#endif
    {"clone", "resource", build_graph, end_graph, clone_graph},
    {"node-end", "resource", build_graph, end_graph, drop_node},
#ifdef HAVE_NVTX
    {"nvtx", "nvtx", NULL, NULL, nvtx},
#endif
};
const size_t cb_nscenarios = sizeof(cb_scenarios) / sizeof(cb_scenarios[0]);
