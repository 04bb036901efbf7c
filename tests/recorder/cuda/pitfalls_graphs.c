/* pitfalls with graphs: kernels in child graphs of child graphs, and memory that graphs make. */
#include "pitfalls.h"

static CUdeviceptr memory(void)
{
    CUdeviceptr p;

    OK(cu.cuMemAlloc(&p, 256));
    return p;
}

/* The one kernel of this file: 64 times @v at @p. */
struct fill {
    CUdeviceptr p;
    unsigned v, n;
    void *list[3];
    CUDA_KERNEL_NODE_PARAMS params;
};

static CUDA_KERNEL_NODE_PARAMS *fill_of(struct fill *f, CUdeviceptr p, unsigned v)
{
    *f = (struct fill){.p = p, .v = v, .n = 64, .list = {&f->p, &f->v, &f->n}};
    f->params = (CUDA_KERNEL_NODE_PARAMS){.func = pitfalls_fill(),
                                          .gridDimX = 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 64,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = f->list};
    return &f->params;
}

static CUgraphNode add_fill(CUgraph g, const CUgraphNode *after, CUdeviceptr p, unsigned v)
{
    struct fill f;
    CUgraphNode node;

    OK(cu.cuGraphAddKernelNode(&node, g, after, after ? 1 : 0, fill_of(&f, p, v)));
    return node;
}

static void launch(CUdeviceptr p, unsigned v)
{
    struct fill f;

    (void)fill_of(&f, p, v);
    OK(cu.cuLaunchKernel(pitfalls_fill(), 1, 1, 1, 64, 1, 1, 0, NULL, f.list, NULL));
}

static void check(CUdeviceptr p, unsigned v)
{
    unsigned got[64];

    OK(cu.cuMemcpyDtoH(got, p, sizeof(got)));
    for (int i = 0; i < 64; i++)
        IS(got[i], v);
}

static void run(CUgraphExec exec)
{
    OK(cu.cuGraphLaunch(exec, NULL));
    OK(cu.cuStreamSynchronize(NULL));
}

/* The same memory filled with 1 to 5 by launches; then by nodes with 1 2 3 4, and with 1 5 3 4, the
 * 5 elsewhere: the first in a child graph, the third and second, made in that order, in a child
 * graph of that. At last with 6. */
void pitfalls_nested(void)
{
    CUdeviceptr p = memory(), other = memory();
    CUgraph inner, outer, whole, child;
    CUgraphNode first, second, third, nest, list[2];
    CUgraphExec exec;
    size_t n = 2;
    struct fill five;

    for (unsigned v = 1; v <= 5; v++)
        launch(p, v);
    OK(cu.cuGraphCreate(&inner, 0));
    OK(cu.cuGraphCreate(&outer, 0));
    OK(cu.cuGraphCreate(&whole, 0));
    third = add_fill(inner, NULL, p, 3);
    second = add_fill(inner, NULL, p, 2);
    OK(cu.cuGraphAddDependencies_v2(inner, &second, &third, NULL, 1));
    first = add_fill(outer, NULL, p, 1);
    OK(cu.cuGraphAddChildGraphNode(&nest, outer, &first, 1, inner));
    OK(cu.cuGraphAddChildGraphNode(&nest, whole, NULL, 0, outer));
    (void)add_fill(whole, &nest, p, 4);
    OK(cu.cuGraphInstantiateWithFlags(&exec, whole, 0));
    run(exec);
    for (int depth = 0; depth < 2; depth++) {
        OK(cu.cuGraphChildGraphNodeGetGraph(nest, &child));
        OK(cu.cuGraphGetNodes(child, list, &n));
        IS(n, 2);
        nest = list[1];
    }
    OK(cu.cuGraphExecKernelNodeSetParams(exec, list[1], fill_of(&five, other, 5)));
    run(exec);
    check(p, 4);
    check(other, 5);
    launch(p, 6);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(inner));
    OK(cu.cuGraphDestroy(outer));
    OK(cu.cuGraphDestroy(whole));
}

static CUgraphNode allocate(CUgraph g, CUdeviceptr *p)
{
    CUDA_MEM_ALLOC_NODE_PARAMS m = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = 256};
    CUgraphNode node;

    OK(cu.cuGraphAddMemAllocNode(&node, g, NULL, 0, &m));
    *p = m.dptr;
    return node;
}

static CUgraphExec instantiate(CUgraph g)
{
    CUgraphExec exec;

    OK(cu.cuGraphInstantiateWithFlags(&exec, g, 0));
    return exec;
}

/* Memory that a graph makes and frees, that it leaves behind, and that another one frees. */
void pitfalls_graph_memory(void)
{
    CUdeviceptr p = memory(), inside, left;
    CUgraph within, leaves, frees;
    CUgraphExec exec[3];
    CUgraphNode node;

    launch(p, 7);
    launch(p, 8);
    OK(cu.cuGraphCreate(&within, 0));
    OK(cu.cuGraphCreate(&leaves, 0));
    OK(cu.cuGraphCreate(&frees, 0));
    node = allocate(within, &inside);
    node = add_fill(within, &node, inside, 6);
    OK(cu.cuGraphAddMemFreeNode(&node, within, &node, 1, inside));
    node = allocate(leaves, &left);
    (void)add_fill(leaves, &node, left, 7);
    node = add_fill(frees, NULL, left, 9);
    OK(cu.cuGraphAddMemFreeNode(&node, frees, &node, 1, left));
    exec[0] = instantiate(within);
    exec[1] = instantiate(leaves);
    exec[2] = instantiate(frees);
    run(exec[0]);
    check(p, 8);
    for (int i = 0; i < 2; i++) {
        run(exec[1]);
        check(left, 7);
        launch(left, 8);
        check(left, 8);
        run(exec[2]);
    }
    run(exec[1]);
    OK(cu.cuMemFree(left));
    launch(p, 8);
    for (int i = 0; i < 3; i++)
        OK(cu.cuGraphExecDestroy(exec[i]));
}
