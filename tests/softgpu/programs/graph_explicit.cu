// A graph built node by node: kernel, memset, copy, host, empty, event and child nodes; its edges
// read back; parameters of nodes changed in the executable graph; a clone.
#include "check.cuh"

__global__ void axpy(int *y, const int *x, int a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

struct observed {
    int *result;
    long long sum;
};

static void add_up(void *arg)
{
    observed *o = (observed *)arg;
    o->sum = 0;
    for (int i = 0; i < 256; i++)
        o->sum += o->result[i];
}

static cudaKernelNodeParams axpy_params(void **args)
{
    cudaKernelNodeParams p = {};
    p.func = (void *)axpy;
    p.gridDim = dim3(4);
    p.blockDim = dim3(64);
    p.kernelParams = args;
    return p;
}

int main()
{
    const int n = 256;
    auto in = random_ints<int>(n, 271, -50, 50);
    dev<int> x(in), y(n), z(n);
    observed seen;
    CHECK(cudaMallocHost((void **)&seen.result, n * sizeof(int)));
    cudaEvent_t done;
    CHECK(cudaEventCreate(&done));

    cudaGraph_t child, graph;
    cudaGraphNode_t fill, kernel, kernel2, sub, copy, host, empty, record;
    CHECK(cudaGraphCreate(&child, 0));
    CHECK(cudaGraphCreate(&graph, 0));
    int a = 2, size = n;
    void *args[] = {&z.p, &y.p, &a, &size};
    cudaKernelNodeParams kp = axpy_params(args);
    CHECK(cudaGraphAddKernelNode(&kernel2, child, nullptr, 0, &kp)); // z += 2 y

    cudaMemsetParams mp = {};
    mp.dst = y.p, mp.value = 7, mp.elementSize = 4, mp.width = n, mp.height = 1;
    CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &mp)); // y = 7
    int b = 3;
    void *args2[] = {&y.p, &x.p, &b, &size};
    cudaKernelNodeParams kp2 = axpy_params(args2);
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &fill, 1, &kp2)); // y += 3 x
    b = 1000; // the node has its own copy of the arguments
    CHECK(cudaGraphAddEmptyNode(&empty, graph, &kernel, 1));
    CHECK(cudaGraphAddChildGraphNode(&sub, graph, &empty, 1, child));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &sub, 1, seen.result, z.p, n * sizeof(int),
                                   cudaMemcpyDeviceToHost));
    cudaHostNodeParams hp = {add_up, &seen};
    CHECK(cudaGraphAddHostNode(&host, graph, &copy, 1, &hp));
    CHECK(cudaGraphAddEventRecordNode(&record, graph, &host, 1, done));

    size_t edges = 0, roots = 0;
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
    expect_value("edges", edges, (size_t)6);
    expect_value("roots", roots, (size_t)1);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(sub, &type));
    expect_value("type", (int)type, (int)cudaGraphNodeTypeGraph);

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<int> want(n), zero(n);
    for (int launch = 0; launch < 2; launch++) {
        CHECK(cudaGraphLaunch(exec, 0));
        CHECK(cudaEventSynchronize(done));
        for (int i = 0; i < n; i++)
            want[i] += 2 * (7 + 3 * in[i]);
        expect_equal("z", std::vector<int>(seen.result, seen.result + n), want);
        long long sum = 0;
        for (int v : want)
            sum += v;
        expect_value("sum", seen.sum, sum);
    }

    cudaGraph_t copy_of;
    CHECK(cudaGraphClone(&copy_of, graph));
    a = -1, b = 5;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel, &kp2));
    mp.value = 11;
    CHECK(cudaGraphExecMemsetNodeSetParams(exec, fill, &mp));
    z.set(zero);
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        want[i] = 2 * (11 + 5 * in[i]);
    expect_equal("changed", z.host(), want);

    cudaGraphExec_t exec2;
    CHECK(cudaGraphInstantiate(&exec2, copy_of, 0)); // as it was before the change
    z.set(zero);
    CHECK(cudaGraphLaunch(exec2, 0));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        want[i] = 2 * (7 + 3 * in[i]);
    expect_equal("clone", z.host(), want);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphExecDestroy(exec2));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(child));
    CHECK(cudaGraphDestroy(copy_of));
    return ok("graph: 7 kinds of nodes, changed parameters, clone");
}
