// A graph of many nodes, over more buffers than one event of a recorder may have accesses.
#include "check.cuh"

__global__ void step(unsigned *y, const unsigned *x, unsigned a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = y[i] * 31 + a * x[i] + 1;
}

int main()
{
    const int nodes = 3000, buffers = 300, n = 32;
    std::vector<unsigned> first = random_ints<unsigned>(n, 882, 0, 1 << 20);
    std::vector<dev<unsigned> *> b;
    for (int i = 0; i < buffers; i++)
        b.push_back(new dev<unsigned>(first));
    cudaGraph_t g;
    cudaGraphNode_t last;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&g, 0));
    std::vector<std::vector<unsigned>> want(buffers, first);
    for (int i = 0; i < nodes; i++) {
        unsigned *y = b[i % buffers]->p, *x = b[(i + 1) % buffers]->p, a = i;
        int size = n;
        void *list[] = {&y, &x, &a, &size};
        cudaKernelNodeParams p = {};
        p.func = (void *)step, p.gridDim = dim3(1), p.blockDim = dim3(n), p.kernelParams = list;
        CHECK(cudaGraphAddKernelNode(&last, g, i ? &last : nullptr, i ? 1 : 0, &p));
        for (int k = 0; k < n; k++)
            want[i % buffers][k] = want[i % buffers][k] * 31 + a * want[(i + 1) % buffers][k] + 1;
    }
    CHECK(cudaGraphInstantiate(&exec, g, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < buffers; i++) {
        expect_equal("buffer", b[i]->host(), want[i]);
        delete b[i];
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(g));
    return ok("graph: %d nodes over %d buffers", nodes, buffers);
}
