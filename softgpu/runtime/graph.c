/*
 * Graph nodes that name kernels, host functions or variables, and the generic node calls: their
 * parameters differ between the runtime and the driver. All others are in simple.c.
 */
#include "softgpu/runtime/runtime.h"

#include <stdint.h>
#include <string.h>

#include "softgpu/runtime/api_gen.h"

/* ---- kernel nodes ---------------------------------------------------------------------------- */

/* struct cudaKernelNodeParams and ...V2 have the same fields; so have the driver's v2 and v3. */
#define KERNEL_TO_DRIVER(p, kernel)                                                                \
    {                                                                                              \
        .gridDimX = (p)->gridDim.x, .gridDimY = (p)->gridDim.y, .gridDimZ = (p)->gridDim.z,        \
        .blockDimX = (p)->blockDim.x, .blockDimY = (p)->blockDim.y, .blockDimZ = (p)->blockDim.z,  \
        .sharedMemBytes = (p)->sharedMemBytes, .kernelParams = (p)->kernelParams,                  \
        .extra = (p)->extra, .kern = (kernel)                                                      \
    }

static cudaError_t kernel_to_driver(const struct cudaKernelNodeParams *p,
                                    CUDA_KERNEL_NODE_PARAMS_v2 *out)
{
    CUkernel kernel = NULL;
    cudaError_t err = p == NULL ? cudaErrorInvalidValue : sg_rt_function(p->func, &kernel);

    if (err == cudaSuccess)
        *out = (CUDA_KERNEL_NODE_PARAMS_v2)KERNEL_TO_DRIVER(p, kernel);
    return err;
}

cudaError_t sg_cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                      const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    cudaError_t err = kernel_to_driver(pNodeParams, &p);

    return err != cudaSuccess ? err
                              : sg_rt_error(cuGraphAddKernelNode_v2(
                                    pGraphNode, graph, pDependencies, numDependencies, &p));
}

cudaError_t sg_cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                            struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    cudaError_t err = pNodeParams == NULL ? cudaErrorInvalidValue : sg_rt_enter();

    if (err == cudaSuccess)
        err = sg_rt_error(cuGraphKernelNodeGetParams_v2(node, &p));
    if (err != cudaSuccess)
        return err;
    *pNodeParams = (struct cudaKernelNodeParams){
        .func = p.kern != NULL ? sg_rt_host_of(p.kern) : (void *)p.func,
        .gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ},
        .blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ},
        .sharedMemBytes = p.sharedMemBytes,
        .kernelParams = p.kernelParams,
        .extra = p.extra,
    };
    return cudaSuccess;
}

cudaError_t sg_cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                            const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    cudaError_t err = kernel_to_driver(pNodeParams, &p);

    return err != cudaSuccess ? err : sg_rt_error(cuGraphKernelNodeSetParams_v2(node, &p));
}

cudaError_t sg_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    cudaError_t err = kernel_to_driver(pNodeParams, &p);

    return err != cudaSuccess
               ? err
               : sg_rt_error(cuGraphExecKernelNodeSetParams_v2(hGraphExec, node, &p));
}

/* ---- copy nodes ------------------------------------------------------------------------------ */

/* A copy node is added, or set in a graph or in an executable one: from the same descriptor. */
struct target {
    cudaGraphNode_t *added;
    cudaGraph_t graph;
    const cudaGraphNode_t *deps;
    size_t ndeps;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
};

static cudaError_t put_copy(const struct target *t, const CUDA_MEMCPY3D *c)
{
    if (t->graph != NULL)
        return sg_rt_error(
            cuGraphAddMemcpyNode(t->added, t->graph, t->deps, t->ndeps, c, sg_rt_current()));
    if (t->exec != NULL)
        return sg_rt_error(cuGraphExecMemcpyNodeSetParams(t->exec, t->node, c, sg_rt_current()));
    return sg_rt_error(cuGraphMemcpyNodeSetParams(t->node, c));
}

static cudaError_t put_3d(struct target t, const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D c;
    cudaError_t err = sg_rt_enter();

    if (err == cudaSuccess)
        err = sg_rt_copy_3d(p, &c);
    return err != cudaSuccess ? err : put_copy(&t, &c);
}

static cudaError_t put_1d(struct target t, void *dst, const void *src, size_t count,
                          enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D c;
    cudaError_t err = sg_rt_enter();

    if (err == cudaSuccess)
        err = sg_rt_copy_1d(dst, src, count, kind, &c);
    return err != cudaSuccess ? err : put_copy(&t, &c);
}

static cudaError_t put_to(struct target t, const void *symbol, const void *src, size_t count,
                          size_t offset, enum cudaMemcpyKind kind)
{
    void *at = NULL;
    cudaError_t err = sg_rt_symbol_range(symbol, count, offset, &at);

    return err != cudaSuccess ? err : put_1d(t, at, src, count, kind);
}

static cudaError_t put_from(struct target t, void *dst, const void *symbol, size_t count,
                            size_t offset, enum cudaMemcpyKind kind)
{
    void *at = NULL;
    cudaError_t err = sg_rt_symbol_range(symbol, count, offset, &at);

    return err != cudaSuccess ? err : put_1d(t, dst, at, count, kind);
}

/* A NULL graph or executable graph is the driver's to refuse, not a target of another kind. */
static cudaError_t missing(const void *handle, const void *out)
{
    return handle == NULL || out == NULL ? cudaErrorInvalidValue : cudaSuccess;
}

#define ADD                                                                                        \
    ((struct target){                                                                              \
        .added = pGraphNode, .graph = graph, .deps = pDependencies, .ndeps = numDependencies})
#define CHECKED(handle, out, call)                                                                 \
    (missing(handle, out) != cudaSuccess ? cudaErrorInvalidValue : (call))

cudaError_t sg_cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                      const struct cudaMemcpy3DParms *pCopyParams)
{
    return CHECKED(graph, pGraphNode, put_3d(ADD, pCopyParams));
}

cudaError_t sg_cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                        const cudaGraphNode_t *pDependencies,
                                        size_t numDependencies, void *dst, const void *src,
                                        size_t count, enum cudaMemcpyKind kind)
{
    return CHECKED(graph, pGraphNode, put_1d(ADD, dst, src, count, kind));
}

cudaError_t sg_cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                              const cudaGraphNode_t *pDependencies,
                                              size_t numDependencies, const void *symbol,
                                              const void *src, size_t count, size_t offset,
                                              enum cudaMemcpyKind kind)
{
    return CHECKED(graph, pGraphNode, put_to(ADD, symbol, src, count, offset, kind));
}

cudaError_t sg_cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                const cudaGraphNode_t *pDependencies,
                                                size_t numDependencies, void *dst,
                                                const void *symbol, size_t count, size_t offset,
                                                enum cudaMemcpyKind kind)
{
    return CHECKED(graph, pGraphNode, put_from(ADD, dst, symbol, count, offset, kind));
}

cudaError_t sg_cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                            const struct cudaMemcpy3DParms *pNodeParams)
{
    return put_3d((struct target){.node = node}, pNodeParams);
}

cudaError_t sg_cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
                                              size_t count, enum cudaMemcpyKind kind)
{
    return put_1d((struct target){.node = node}, dst, src, count, kind);
}

cudaError_t sg_cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol,
                                                    const void *src, size_t count, size_t offset,
                                                    enum cudaMemcpyKind kind)
{
    return put_to((struct target){.node = node}, symbol, src, count, offset, kind);
}

cudaError_t sg_cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst,
                                                      const void *symbol, size_t count,
                                                      size_t offset, enum cudaMemcpyKind kind)
{
    return put_from((struct target){.node = node}, dst, symbol, count, offset, kind);
}

#define IN_EXEC ((struct target){.exec = hGraphExec, .node = node})

cudaError_t sg_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                const struct cudaMemcpy3DParms *pNodeParams)
{
    return CHECKED(hGraphExec, node, put_3d(IN_EXEC, pNodeParams));
}

cudaError_t sg_cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                  void *dst, const void *src, size_t count,
                                                  enum cudaMemcpyKind kind)
{
    return CHECKED(hGraphExec, node, put_1d(IN_EXEC, dst, src, count, kind));
}

cudaError_t sg_cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec,
                                                        cudaGraphNode_t node, const void *symbol,
                                                        const void *src, size_t count,
                                                        size_t offset, enum cudaMemcpyKind kind)
{
    return CHECKED(hGraphExec, node, put_to(IN_EXEC, symbol, src, count, offset, kind));
}

cudaError_t sg_cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec,
                                                          cudaGraphNode_t node, void *dst,
                                                          const void *symbol, size_t count,
                                                          size_t offset, enum cudaMemcpyKind kind)
{
    return CHECKED(hGraphExec, node, put_from(IN_EXEC, dst, symbol, count, offset, kind));
}

cudaError_t sg_cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                            struct cudaMemcpy3DParms *pNodeParams)
{
    CUDA_MEMCPY3D c;
    cudaError_t err = pNodeParams == NULL ? cudaErrorInvalidValue : sg_rt_enter();

    if (err == cudaSuccess)
        err = sg_rt_error(cuGraphMemcpyNodeGetParams(node, &c));
    if (err == cudaSuccess)
        sg_rt_copy_3d_back(&c, pNodeParams);
    return err;
}

/* ---- nodes of any kind ----------------------------------------------------------------------- */

static cudaError_t node_to_driver(const struct cudaGraphNodeParams *p, CUgraphNodeParams *out)
{
    CUkernel kernel = NULL;
    cudaError_t err = p == NULL ? cudaErrorInvalidValue : sg_rt_enter();

    if (err != cudaSuccess)
        return err;
    memset(out, 0, sizeof(*out));
    out->type = (CUgraphNodeType)p->type;
    switch (p->type) {
    case cudaGraphNodeTypeKernel:
        err = sg_rt_function(p->kernel.func, &kernel);
        out->kernel = (CUDA_KERNEL_NODE_PARAMS_v3)KERNEL_TO_DRIVER(&p->kernel, kernel);
        return err;
    case cudaGraphNodeTypeMemcpy:
        out->memcpy.flags = p->memcpy.flags;
        out->memcpy.copyCtx = sg_rt_current();
        return sg_rt_copy_3d(&p->memcpy.copyParams, &out->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
        out->memset = (CUDA_MEMSET_NODE_PARAMS_v2){
            .dst = (CUdeviceptr)p->memset.dst,
            .pitch = p->memset.pitch,
            .value = p->memset.value,
            .elementSize = p->memset.elementSize,
            .width = p->memset.width,
            .height = p->memset.height,
            .ctx = sg_rt_current(),
        };
        return cudaSuccess;
    case cudaGraphNodeTypeConditional:
        out->conditional = (CUDA_CONDITIONAL_NODE_PARAMS){
            .handle = p->conditional.handle,
            .type = (CUgraphConditionalNodeType)p->conditional.type,
            .size = p->conditional.size,
            .ctx = sg_rt_current(),
        };
        return cudaSuccess;
    case cudaGraphNodeTypeHost:
    case cudaGraphNodeTypeGraph:
    case cudaGraphNodeTypeEmpty:
    case cudaGraphNodeTypeWaitEvent:
    case cudaGraphNodeTypeEventRecord:
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree:
        /* the same content, the same layout: layout.c */
        memcpy(out->reserved1, p->reserved1, sizeof(out->reserved1));
        return cudaSuccess;
    default:
        return sg_rt_unsupported("a graph node of an external semaphore");
    }
}

/* What the driver fills in. */
static void node_back(const CUgraphNodeParams *d, struct cudaGraphNodeParams *p)
{
    if (p->type == cudaGraphNodeTypeMemAlloc)
        p->alloc.dptr = (void *)d->alloc.dptr;
    else if (p->type == cudaGraphNodeTypeConditional)
        p->conditional.phGraph_out = d->conditional.phGraph_out;
}

cudaError_t sg_cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                const cudaGraphNode_t *pDependencies,
                                const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                                struct cudaGraphNodeParams *nodeParams)
{
    CUgraphNodeParams d;
    cudaError_t err = node_to_driver(nodeParams, &d);

    if (err == cudaSuccess)
        err = sg_rt_error(cuGraphAddNode_v2(pGraphNode, graph, pDependencies,
                                            (const CUgraphEdgeData *)(const void *)dependencyData,
                                            numDependencies, &d));
    if (err == cudaSuccess)
        node_back(&d, nodeParams);
    return err;
}

cudaError_t sg_cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams)
{
    CUgraphNodeParams d;
    cudaError_t err = node_to_driver(nodeParams, &d);

    return err != cudaSuccess ? err : sg_rt_error(cuGraphNodeSetParams(node, &d));
}

cudaError_t sg_cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                          struct cudaGraphNodeParams *nodeParams)
{
    CUgraphNodeParams d;
    cudaError_t err = node_to_driver(nodeParams, &d);

    return err != cudaSuccess ? err : sg_rt_error(cuGraphExecNodeSetParams(graphExec, node, &d));
}

#if CUDART_VERSION < 13000
cudaError_t sg_cudaGraphAddNode_v12(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                    const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                    struct cudaGraphNodeParams *nodeParams)
{
    return sg_cudaGraphAddNode(pGraphNode, graph, pDependencies, NULL, numDependencies, nodeParams);
}
#endif
