/* Allocation and free nodes: whose memory they mean, and what launches have done with it so far. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/memory.h"

#include <stdlib.h>

static struct sg_memnode *find(uint64_t addr)
{
    struct sg_memnode *m = sg_driver.engine->memnodes;

    while (m && m->addr != addr)
        m = m->next;
    return m;
}

static CUresult attach_alloc(CUgraphNode node)
{
    struct sg_engine *e = sg_driver.engine;
    const struct sg_work *w = &node->work->w;
    struct sg_memnode *m = find(w->mem.addr) ? NULL : calloc(1, sizeof(*m));

    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->refs = 1;
    m->addr = w->mem.addr;
    m->size = w->mem.size;
    m->owner = node->graph->id;
    m->dev = w->ctx->dev;
    m->next = e->memnodes;
    e->memnodes = m;
    node->mem = m;
    return CUDA_SUCCESS;
}

static CUresult attach_free(CUgraphNode node)
{
    const struct CUgraph_st *g = node->graph;
    struct sg_memnode *m = find(node->work->w.mem.addr);
    bool here = m && m->owner == g->id;

    if (!m || m->freed_here || (here && m->freed_there))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < g->n; i++)
        if (g->nodes[i]->mem == m && g->nodes[i]->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return CUDA_ERROR_INVALID_VALUE;
    *(here ? &m->freed_here : &m->freed_there) = true;
    m->refs++;
    node->mem = m;
    return CUDA_SUCCESS;
}

CUresult sg_memnode_attach(CUgraphNode node)
{
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;

    if (!node->graph->owned) /* graphs inside others must not get any */
        r = node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? attach_alloc(node) : attach_free(node);
    if (r == CUDA_SUCCESS)
        node->graph->has_mem = true;
    return r;
}

static void set_live(struct sg_memnode *m, bool live)
{
    struct sg_engine *e = sg_driver.engine;
    uint64_t *used = &e->memnode_used[m->dev->ordinal], *high = &e->memnode_high[m->dev->ordinal];

    if (m->live == live)
        return;
    m->live = live;
    *used += live ? m->size : -(uint64_t)m->size;
    if (*used > *high)
        *high = *used;
}

/* Out of the books once no node knows it and no launch has left it in use. */
static void dispose(struct sg_memnode *m)
{
    struct sg_memnode **p = &sg_driver.engine->memnodes;

    if (m->refs || m->live)
        return;
    while (*p && *p != m)
        p = &(*p)->next;
    if (*p)
        *p = m->next;
    sg_graph_mem_delete(m->addr);
    free(m);
}

void sg_memnode_put(struct sg_memnode *m)
{
    if (m && --m->refs == 0)
        dispose(m);
}

bool sg_memnode_free(uint64_t addr, CUresult *result)
{
    struct sg_memnode *m;

    sg_engine_lock();
    m = find(addr);
    if (m) {
        *result = m->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        set_live(m, false);
        dispose(m);
    }
    sg_engine_unlock();
    return m != NULL;
}

/* ---- launches ---------------------------------------------------- */

static CUresult free_before(struct sg_memnode *m, struct CUstream_st *s)
{
    struct sg_work w = {.kind = SG_WORK_MEM_FREE, .ctx = s->ctx};
    struct sg_wref *ref;
    CUresult r;

    w.mem.addr = m->addr;
    ref = sg_wref_new(&w);
    r = ref ? sg_stream_push(s, s->ctx, ref, NULL, NULL) : CUDA_ERROR_OUT_OF_MEMORY;
    sg_wref_put(ref);
    if (r == CUDA_SUCCESS)
        set_live(m, false);
    return r;
}

CUresult sg_memnodes_check(CUgraph g, bool auto_free, struct CUstream_st *s)
{
    CUresult r = CUDA_SUCCESS;

    for (size_t i = 0; i < g->n && r == CUDA_SUCCESS; i++) {
        CUgraphNode node = g->nodes[i];

        if (node->child)
            r = sg_memnodes_check(node->child, auto_free, s);
        else if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->mem->live)
            r = auto_free ? free_before(node->mem, s) : CUDA_ERROR_INVALID_VALUE;
    }
    return r;
}

static void mark_nodes(CUgraph g, CUgraphNodeType type, bool live)
{
    for (size_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->child)
            mark_nodes(g->nodes[i]->child, type, live);
        else if (g->nodes[i]->type == type)
            set_live(g->nodes[i]->mem, live);
    }
}

void sg_memnodes_launched(CUgraph g)
{
    if (!sg_graph_has_mem(g))
        return;
    mark_nodes(g, CU_GRAPH_NODE_TYPE_MEM_ALLOC, true);
    mark_nodes(g, CU_GRAPH_NODE_TYPE_MEM_FREE, false);
}

/* ---- what a device tells of it ----------------------------------- */

static uint64_t *attribute_of(struct sg_engine *e, CUdevice device, CUgraphMem_attribute attr)
{
    switch (attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: /* nothing is kept for later */
        return &e->memnode_used[device];
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &e->memnode_high[device];
    default:
        return NULL;
    }
}

static CUresult open_attribute(CUdevice device, CUgraphMem_attribute attr, const void *value)
{
    struct sg_device *dev;
    CUresult r = sg_enter();

    if (r == CUDA_SUCCESS)
        r = sg_device_at(device, &dev);
    if (r == CUDA_SUCCESS && (!value || !attribute_of(sg_driver.engine, device, attr)))
        r = CUDA_ERROR_INVALID_VALUE;
    return r;
}

CUresult sg_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    CUresult r = open_attribute(device, attr, value);

    if (r != CUDA_SUCCESS)
        return r;
    *(cuuint64_t *)value = *attribute_of(sg_engine_lock(), device, attr);
    sg_engine_unlock();
    return CUDA_SUCCESS;
}

CUresult sg_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    CUresult r = open_attribute(device, attr, value);
    struct sg_engine *e;

    if (r != CUDA_SUCCESS)
        return r;
    if ((attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) ||
        *(const cuuint64_t *)value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    e = sg_engine_lock();
    e->memnode_high[device] = e->memnode_used[device];
    sg_engine_unlock();
    return CUDA_SUCCESS;
}

CUresult sg_cuDeviceGraphMemTrim(CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_enter();

    return r == CUDA_SUCCESS ? sg_device_at(device, &dev) : r; /* nothing is kept for later */
}
