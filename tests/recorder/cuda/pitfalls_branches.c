/* pitfalls with graphs whose nodes nothing orders, on parts of one allocation: each program is
 * right, and writes the same in every order. */
#include "pitfalls.h"

#include <stdlib.h>

#define HALF 1024u /* bytes */
#define LAUNCHES 4

/* 64 times @v at @p + @d, or 256 times at @p where @d is 0 and @all is set. */
struct store {
    CUdeviceptr p, d;
    unsigned v, n;
    void *far[3], *fill[3];
    CUDA_KERNEL_NODE_PARAMS params;
};

static CUDA_KERNEL_NODE_PARAMS *store_of(struct store *s, CUdeviceptr p, CUdeviceptr d, unsigned v,
                                         unsigned n)
{
    *s = (struct store){.p = p, .d = d, .v = v, .n = n};
    s->far[0] = s->fill[0] = &s->p;
    s->far[1] = &s->d;
    s->far[2] = s->fill[1] = &s->v;
    s->fill[2] = &s->n;
    s->params = (CUDA_KERNEL_NODE_PARAMS){.func = n ? pitfalls_fill() : pitfalls_by_distance(),
                                          .gridDimX = n ? n / 64 : 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 64,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = n ? s->fill : s->far};
    return &s->params;
}

/* @n times @v from @p on */
static CUgraphNode fill(CUgraph g, const CUgraphNode *after, size_t count, CUdeviceptr p,
                        unsigned v, unsigned n)
{
    struct store s;
    CUgraphNode node;

    OK(cu.cuGraphAddKernelNode(&node, g, after, count, store_of(&s, p, 0, v, n)));
    return node;
}

/* 64 times @v from @p + @d on, with @p as the only pointer */
static CUgraphNode store(CUgraph g, const CUgraphNode *after, size_t count, CUdeviceptr p,
                         CUdeviceptr d, unsigned v)
{
    struct store s;
    CUgraphNode node;

    OK(cu.cuGraphAddKernelNode(&node, g, after, count, store_of(&s, p, d, v, 0)));
    return node;
}

static CUdeviceptr memory(size_t bytes)
{
    CUdeviceptr p;

    OK(cu.cuMemAlloc(&p, bytes));
    OK(cu.cuMemsetD8(p, 0, bytes));
    return p;
}

static CUgraph graph(void)
{
    CUgraph g;

    OK(cu.cuGraphCreate(&g, 0));
    return g;
}

static void run(CUgraph g, int launches)
{
    CUgraphExec exec;

    OK(cu.cuGraphInstantiateWithFlags(&exec, g, 0));
    for (int i = 0; i < launches; i++)
        OK(cu.cuGraphLaunch(exec, NULL));
    OK(cu.cuStreamSynchronize(NULL));
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(g));
}

static void check(CUdeviceptr p, unsigned v, unsigned n)
{
    unsigned got[256];

    OK(cu.cuMemcpyDtoH(got, p, n * sizeof(*got)));
    for (unsigned i = 0; i < n; i++)
        IS(got[i], v);
}

/* The halves of one allocation, each by a pointer of its own; both behind a node that clears them,
 * a copy of both behind. */
void pitfalls_branch_halves(void)
{
    CUdeviceptr p = memory(2 * HALF);
    CUgraph g = graph();
    CUgraphNode first = fill(g, NULL, 0, p, 1, 2 * HALF / 4), both[2];

    both[0] = fill(g, &first, 1, p, 2, HALF / 4);
    both[1] = fill(g, &first, 1, p + HALF, 3, HALF / 4);
    (void)fill(g, both, 2, p, 4, 64);
    run(g, LAUNCHES);
    check(p, 4, 64);
    check(p + 256, 2, HALF / 4 - 64);
    check(p + HALF, 3, HALF / 4);
}

/* Both by the same pointer, at a distance, the second half gets $PITFALL_VALUE; then another node
 * writes there. */
void pitfalls_branch_base(void)
{
    CUdeviceptr p = memory(2 * HALF);
    CUgraph g = graph();
    CUgraphNode first = fill(g, NULL, 0, p, 1, 2 * HALF / 4), both[2];

    const char *value = getenv("PITFALL_VALUE");
    unsigned v = value ? (unsigned)atoi(value) : 3;

    both[0] = store(g, &first, 1, p, 0, 2);
    both[1] = store(g, &first, 1, p, HALF, v);
    (void)store(g, both, 2, p, 256, 4);
    run(g, LAUNCHES);
    check(p, 2, 64);
    check(p + 256, 4, 64);
    check(p + HALF, v, 64);
}

/* The same, and one branch goes on writing: no place is behind both and before that. */
void pitfalls_branch_stuck(void)
{
    CUdeviceptr p = memory(2 * HALF);
    CUgraph g = graph();
    CUgraphNode one = store(g, NULL, 0, p, 0, 2);

    (void)store(g, NULL, 0, p, HALF, 3);
    (void)store(g, &one, 1, p, 256, 4);
    run(g, LAUNCHES);
    check(p, 2, 64);
    check(p + 256, 4, 64);
    check(p + HALF, 3, 64);
}

/* One of them in a child graph of a child graph. */
void pitfalls_branch_child(void)
{
    CUdeviceptr p = memory(2 * HALF), q = memory(2 * HALF);
    CUgraph inner = graph(), outer = graph(), g = graph();
    CUgraphNode node, both[2];

    node = store(inner, NULL, 0, p, 0, 2);
    (void)fill(inner, &node, 1, q, 5, HALF / 4);
    OK(cu.cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner));
    OK(cu.cuGraphAddChildGraphNode(&both[0], g, NULL, 0, outer));
    both[1] = store(g, NULL, 0, p, HALF, 3);
    (void)fill(g, NULL, 0, q + HALF, 6, HALF / 4);
    (void)store(g, both, 2, p, 256, 4);
    run(g, LAUNCHES);
    check(p, 2, 64);
    check(p + 256, 4, 64);
    check(p + HALF, 3, 64);
    check(q, 5, HALF / 4);
    check(q + HALF, 6, HALF / 4);
    OK(cu.cuGraphDestroy(inner));
    OK(cu.cuGraphDestroy(outer));
}

/* Nodes that are on parts of one allocation since they were changed between launches. */
void pitfalls_branch_change(void)
{
    CUdeviceptr p = memory(2 * HALF), q = memory(2 * HALF);
    CUgraph g = graph();
    CUgraphNode one = fill(g, NULL, 0, p, 2, HALF / 4), two = fill(g, NULL, 0, q, 3, HALF / 4);
    CUgraphExec exec;
    struct store s;

    OK(cu.cuGraphInstantiateWithFlags(&exec, g, 0));
    for (int i = 0; i < LAUNCHES; i++) {
        OK(cu.cuGraphLaunch(exec, NULL));
        OK(cu.cuStreamSynchronize(NULL));
        OK(cu.cuGraphExecKernelNodeSetParams(
            exec, two, store_of(&s, i % 2 ? q : p + HALF, 0, (unsigned)i, HALF / 4)));
    }
    OK(cu.cuGraphExecKernelNodeSetParams(exec, one, store_of(&s, p + 512, 0, 9, 64)));
    OK(cu.cuGraphExecKernelNodeSetParams(exec, two, store_of(&s, p, 0, 8, 64)));
    OK(cu.cuGraphLaunch(exec, NULL));
    OK(cu.cuStreamSynchronize(NULL));
    check(p, 8, 64);
    check(p + 512, 9, 64);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(g));
}

/* One half is read while a node writes the other, both by a pointer to the whole. */
void pitfalls_branch_read(void)
{
    CUdeviceptr p = memory(2 * HALF), q = memory(256), d = 0;
    void *list[3] = {&p, &d, &q};
    CUgraph g = graph();
    CUgraphNode first = fill(g, NULL, 0, p, 1, 2 * HALF / 4), node;
    CUDA_KERNEL_NODE_PARAMS params = {.func = pitfalls_gather(),
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 64,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = list};

    (void)store(g, &first, 1, p, HALF, 3);
    node = fill(g, &first, 1, q, 2, 64);
    OK(cu.cuGraphAddKernelNode(&node, g, &node, 1, &params));
    run(g, LAUNCHES);
    check(q, 1, 64);
    check(p + HALF, 3, 64);
}

/* A child graph with branches, its first half; beside it a node for the second half, then one over
 * both. */
static CUgraph nested(CUdeviceptr p, unsigned v, CUgraph *inner, CUgraphNode *nest)
{
    CUgraph g = graph();
    CUgraphNode node, both[2];

    *inner = graph();
    node = store(*inner, NULL, 0, p, 0, v);
    (void)store(*inner, NULL, 0, p, 256, v + 1);
    OK(cu.cuGraphAddChildGraphNode(nest, g, NULL, 0, *inner));
    both[0] = *nest;
    both[1] = store(g, NULL, 0, p, HALF, v + 2);
    node = store(g, both, 2, p, 512, v + 3);
    (void)fill(g, &node, 1, p, v + 4, 64);
    return g;
}

static void check_nested(CUdeviceptr p, unsigned v, unsigned in)
{
    check(p, v + 4, 64);
    check(p + 256, in + 1, 64);
    check(p + 512, v + 3, 64);
    check(p + HALF, v + 2, 64);
}

/* The whole graph is updated, then its child graph alone. */
void pitfalls_branch_update(void)
{
    CUdeviceptr p = memory(2 * HALF);
    CUgraph inner[3], g[3];
    CUgraphNode nest[3];
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;

    for (unsigned i = 0; i < 3; i++)
        g[i] = nested(p, 10 * i, &inner[i], &nest[i]);
    OK(cu.cuGraphInstantiateWithFlags(&exec, g[0], 0));
    OK(cu.cuGraphLaunch(exec, NULL));
    check_nested(p, 0, 0);
    OK(cu.cuGraphExecUpdate_v2(exec, g[1], &info));
    OK(cu.cuGraphLaunch(exec, NULL));
    check_nested(p, 10, 10);
    OK(cu.cuGraphExecChildGraphNodeSetParams(exec, nest[0], inner[2]));
    OK(cu.cuGraphLaunch(exec, NULL));
    check_nested(p, 10, 20);
    OK(cu.cuGraphExecDestroy(exec));
    for (int i = 0; i < 3; i++)
        OK(cu.cuGraphDestroy(g[i]));
}

/* $PITFALL_NODES nodes: as many branches on one allocation, or (with a sign) one long branch and a
 * short one. */
void pitfalls_branch_many(void)
{
    const char *value = getenv("PITFALL_NODES");
    int n = value ? atoi(value) : 64;
    unsigned count = (unsigned)(n < 0 ? -n : n);
    CUdeviceptr p = memory((size_t)count * 256);
    CUgraph g = graph();
    CUgraphNode node = NULL;

    for (unsigned i = 0; i < count; i++)
        node = fill(g, &node, n < 0 && i && i != count / 2, p + (CUdeviceptr)i * 256, i, 64);
    run(g, 2);
    check(p + (CUdeviceptr)(count - 1) * 256, count - 1, 64);
}
