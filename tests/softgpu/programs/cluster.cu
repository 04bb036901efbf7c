// Thread-block clusters with distributed shared memory. Needs compute capability 9.0.
// arch: -gencode arch=compute_90,code=compute_90
// env: SOFTGPU_ARCH=sm_90
#include "check.cuh"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(4, 1, 1) ring(int *out, const int *in)
{
#if __CUDA_ARCH__ >= 900
    __shared__ int s[64];
    cg::cluster_group cluster = cg::this_cluster();
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 64 + t];
    cluster.sync();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    int *theirs = cluster.map_shared_rank(s, next);
    atomicAdd(&theirs[63 - t], 1000);
    cluster.sync();
    out[blockIdx.x * 64 + t] = s[t] + theirs[t] * 2;
    cluster.sync();
#endif
}

/* which block of its cluster; 100 for each block that its cluster has */
__global__ void ranks(int *out)
{
#if __CUDA_ARCH__ >= 900
    cg::cluster_group cluster = cg::this_cluster();
    out[blockIdx.y * gridDim.x + blockIdx.x] = cluster.block_rank() + 100 * cluster.num_blocks();
#endif
}

static cudaError_t launch_ranks(int *out, dim3 cluster, cudaStream_t stream)
{
    cudaLaunchAttribute attr = {};
    attr.id = cudaLaunchAttributeClusterDimension;
    attr.val.clusterDim = {cluster.x, cluster.y, cluster.z};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(8, 4);
    config.blockDim = dim3(32);
    config.stream = stream;
    config.attrs = &attr;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, ranks, out);
}

static std::vector<int> ranks_of(int cx, int cy)
{
    std::vector<int> want(32);
    for (int i = 0; i < 32; i++)
        want[i] = i % 8 % cx + cx * (i / 8 % cy) + 100 * cx * cy;
    return want;
}

/* Dimensions from the launch: alone, in a graph, changed in the graph, impossible ones. */
static void check_attribute()
{
    dev<int> out(32);
    CHECK(launch_ranks(out.p, dim3(2, 4), nullptr));
    expect_equal("of the launch", out.host(), ranks_of(2, 4));
    if (launch_ranks(out.p, dim3(3), nullptr) == cudaSuccess)
        fail("a grid that is no multiple of its clusters was launched");
    if (launch_ranks(out.p, dim3(8, 4), nullptr) == cudaSuccess)
        fail("clusters of 32 blocks were launched");
    cudaGetLastError();

    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    size_t n = 1;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(launch_ranks(out.p, dim3(4), s));
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    expect_equal("in a graph", out.host(), ranks_of(4, 1));
    CHECK(cudaGraphExecDestroy(exec));

    CHECK(cudaGraphGetNodes(graph, &node, &n));
    cudaLaunchAttributeValue value = {};
    value.clusterDim = {1, 2, 1};
    CHECK(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &value));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    expect_equal("changed in the graph", out.host(), ranks_of(1, 2));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(s));
}

int main()
{
    need_capability(9, 0);
    const int n = 8 * 64;
    auto in = random_ints<int>(n, 251, 0, 1000);
    dev<int> din(in), out(n);
    ring<<<8, 64>>>(out.p, din.p);
    SYNC();
    std::vector<int> want(n);
    for (int i = 0; i < n; i++) {
        int block = i / 64, next = block / 4 * 4 + (block + 1) % 4;
        want[i] = in[i] + 1000 + (in[next * 64 + i % 64] + 1000) * 2;
    }
    expect_equal("cluster", out.host(), want);
    check_attribute();
    return ok("clusters: distributed shared memory");
}
