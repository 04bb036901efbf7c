/* Attributes of kernel nodes: kept in the node's work, as a launch with attributes has them. */
#include "softgpu/driver/graph.h"
#include "softgpu/driver/launch.h"

#include <stdlib.h>
#include <string.h>

/* Those that graph nodes can have. */
static bool known(CUkernelNodeAttrID id)
{
    switch ((int)id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return true;
    default:
        return false;
    }
}

static CUlaunchAttribute *find(const struct sg_kernel_work *k, CUkernelNodeAttrID id)
{
    for (unsigned i = 0; i < k->nattrs; i++)
        if (k->attrs[i].id == id)
            return &k->attrs[i];
    return NULL;
}

static void get_locked(const struct sg_kernel_work *k, CUkernelNodeAttrID id,
                       CUkernelNodeAttrValue *value)
{
    const CUlaunchAttribute *a = find(k, id);

    memset(value, 0, sizeof(*value));
    if (a)
        *value = a->value;
    else if (id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
        value->memSyncDomainMap.remote = 1;
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        value->cooperative = k->cooperative;
}

CUresult sg_cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                          CUkernelNodeAttrValue *value)
{
    CUresult r = sg_node_check_type(node, CU_GRAPH_NODE_TYPE_KERNEL);

    if (r == CUDA_SUCCESS && (!value || !known(id)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    get_locked(&node->work->w.kernel, id, value);
    sg_engine_unlock();
    return CUDA_SUCCESS;
}

static CUresult put(struct sg_kernel_work *k, CUkernelNodeAttrID id,
                    const CUkernelNodeAttrValue *value)
{
    CUlaunchAttribute *a = find(k, id);

    if (!a) {
        a = realloc(k->attrs, (k->nattrs + 1) * sizeof(*a));
        if (!a)
            return CUDA_ERROR_OUT_OF_MEMORY;
        k->attrs = a;
        a = &k->attrs[k->nattrs++];
        memset(a, 0, sizeof(*a));
        a->id = id;
    }
    a->value = *value;
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        k->cooperative = value->cooperative != 0;
    return CUDA_SUCCESS;
}

CUresult sg_kernel_set_priority(struct sg_kernel_work *k, int priority)
{
    CUkernelNodeAttrValue v = {.priority = priority};

    return find(k, CU_LAUNCH_ATTRIBUTE_PRIORITY) ? CUDA_SUCCESS
                                                 : put(k, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v);
}

static bool divides(unsigned a, uint32_t b)
{
    return a && b % a == 0;
}

static CUresult check(const struct sg_kernel_work *k, CUkernelNodeAttrID id,
                      const CUkernelNodeAttrValue *v)
{
    if (!known(id) || !v)
        return CUDA_ERROR_INVALID_VALUE;
    if (id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        return CUDA_SUCCESS;
    if (!divides(v->clusterDim.x, k->grid[0]) || !divides(v->clusterDim.y, k->grid[1]) ||
        !divides(v->clusterDim.z, k->grid[2]))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Work is shared and never changes: a changed copy takes its place. */
static CUresult set_locked(CUgraphNode node, const CUlaunchAttribute *attrs, unsigned n)
{
    struct sg_work w;
    struct sg_wref *ref;
    CUresult r = sg_kernel_alive(&node->work->w.kernel) ? sg_work_clone(&node->work->w, &w)
                                                        : CUDA_ERROR_INVALID_VALUE;

    if (r != CUDA_SUCCESS)
        return r;
    for (unsigned i = 0; i < n && r == CUDA_SUCCESS; i++) {
        r = check(&w.kernel, attrs[i].id, &attrs[i].value);
        if (r == CUDA_SUCCESS)
            r = put(&w.kernel, attrs[i].id, &attrs[i].value);
        if (r == CUDA_SUCCESS && attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            r = sg_launch_cluster(&w.kernel, w.ctx->dev);
    }
    if (r != CUDA_SUCCESS) {
        sg_work_release(&w);
        return r;
    }
    ref = sg_wref_new(&w);
    if (!ref)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_node_set_work(node, ref);
    return CUDA_SUCCESS;
}

CUresult sg_cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                          const CUkernelNodeAttrValue *value)
{
    CUlaunchAttribute a = {.id = id};
    CUresult r = sg_node_check_type(node, CU_GRAPH_NODE_TYPE_KERNEL);

    if (r == CUDA_SUCCESS && !value)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    a.value = *value;
    sg_engine_lock();
    r = set_locked(node, &a, 1);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    CUresult r = sg_node_check_type(dst, CU_GRAPH_NODE_TYPE_KERNEL);

    if (r == CUDA_SUCCESS)
        r = sg_node_check_type(src, CU_GRAPH_NODE_TYPE_KERNEL);
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    if (src->work->w.ctx != dst->work->w.ctx)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (src != dst)
        r = set_locked(dst, src->work->w.kernel.attrs, src->work->w.kernel.nattrs);
    sg_engine_unlock();
    return r;
}
