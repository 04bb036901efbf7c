/* cuGraphDebugDotPrint: a graph as text for Graphviz. */
#include "softgpu/driver/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const type_names[] = {
    [CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
    [CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
    [CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
    [CU_GRAPH_NODE_TYPE_HOST] = "HOST",
    [CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
    [CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
    [CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "EVENT_WAIT",
    [CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
    [CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL] = "EXT_SEMAS_SIGNAL",
    [CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT] = "EXT_SEMAS_WAIT",
    [CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "MEM_ALLOC",
    [CU_GRAPH_NODE_TYPE_MEM_FREE] = "MEM_FREE",
    [CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "BATCH_MEM_OP",
};

static bool wants(unsigned flags, unsigned bit)
{
    return (flags & (bit | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0;
}

static void print_copy(FILE *f, const struct sg_copy_work *c)
{
    fprintf(f, "\\n0x%" PRIx64 " -> 0x%" PRIx64 "\\n%" PRIu64 " x %" PRIu64 " x %" PRIu64 " bytes",
            c->src, c->dst, c->width, c->height, c->depth);
}

static void print_work(FILE *f, const struct sg_work *w, unsigned flags)
{
    switch (w->kind) {
    case SG_WORK_KERNEL:
        fprintf(f, "\\n%s", sg_kernel_alive(&w->kernel) ? w->kernel.func->info->name : "unloaded");
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
            fprintf(f, "\\n\\<\\<\\<(%u,%u,%u),(%u,%u,%u),%u\\>\\>\\>", w->kernel.grid[0],
                    w->kernel.grid[1], w->kernel.grid[2], w->kernel.block[0], w->kernel.block[1],
                    w->kernel.block[2], w->kernel.shared_bytes);
        break;
    case SG_WORK_COPY:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
            print_copy(f, &w->copy);
        break;
    case SG_WORK_FILL:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
            fprintf(f, "\\n0x%" PRIx64 " = 0x%x\\n%" PRIu64 " x %" PRIu64 " elements of %u",
                    w->fill.dst, w->fill.value, w->fill.width, w->fill.height, w->fill.elem);
        break;
    case SG_WORK_HOST:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
            fprintf(f, "\\nuser data %p", w->host.arg);
        break;
    case SG_WORK_EVENT_RECORD:
    case SG_WORK_EVENT_WAIT:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
            fprintf(f, "\\nevent %p", (const void *)w->event.event);
        break;
    case SG_WORK_MEM_ALLOC:
    case SG_WORK_MEM_FREE:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS |
                             CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
            fprintf(f, "\\n0x%" PRIx64 "\\n%zu bytes", w->mem.addr, w->mem.size);
        break;
    case SG_WORK_BATCH_MEM_OP:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS))
            fprintf(f, "\\n%u operations", w->batch.n);
        break;
    default:
        break;
    }
}

static void print_graph(FILE *f, CUgraph g, unsigned flags)
{
    fprintf(f,
            "subgraph cluster_%" PRIu64 " {\nlabel=\"graph_%" PRIu64 "\" graph[style=\"dashed\"]\n",
            g->id, g->id);
    for (size_t i = 0; i < g->n; i++) {
        CUgraphNode node = g->nodes[i];

        fprintf(f,
                "\"graph_%" PRIu64 "_node_%zu\"[style=\"bold\" shape=\"octagon\" label=\"%zu\\n%s",
                g->id, i, i, type_names[node->type]);
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
            fprintf(f, "\\nnode %p", (const void *)node);
        if (node->child)
            fprintf(f, "\\ngraph_%" PRIu64, node->child->id);
        else if (node->work)
            print_work(f, &node->work->w, flags);
        fprintf(f, "\"];\n");
        node->mark = i;
    }
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->nodes[i]->ndeps; k++)
            fprintf(f,
                    "\"graph_%" PRIu64 "_node_%" PRIu64 "\" -> \"graph_%" PRIu64 "_node_%zu\";\n",
                    g->id, g->nodes[i]->deps[k].node->mark, g->id, i);
    fprintf(f, "}\n");
    for (size_t i = 0; i < g->n; i++)
        if (g->nodes[i]->child)
            print_graph(f, g->nodes[i]->child, flags);
}

/* The text is made with the lock and written without it. */
CUresult sg_cuGraphDebugDotPrint(CUgraph g, const char *path, unsigned flags)
{
    char *text = NULL;
    size_t n = 0;
    FILE *mem, *file;
    bool ok;
    CUresult r = sg_graph_check(g);

    if (r != CUDA_SUCCESS)
        return r;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    mem = open_memstream(&text, &n);
    if (!mem)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fprintf(mem, "digraph dot {\n");
    sg_engine_lock();
    print_graph(mem, g, flags);
    sg_engine_unlock();
    fprintf(mem, "}\n");
    ok = fclose(mem) == 0 && text;
    file = ok ? fopen(path, "w") : NULL;
    if (file) {
        ok = fwrite(text, 1, n, file) == n;
        ok = fclose(file) == 0 && ok;
    }
    free(text);
    return ok && file ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
