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

int main()
{
    need_capability(9, 0);
    const int n = 8 * 64;
    auto in = random_ints<int>(n, 251, 0, 1000);
    dev<int> din(in), out(n);
    ring<<<8, 64>>>(out.p, din.p);
    if (cudaPeekAtLastError() == cudaErrorNotSupported)
        skip("the device refuses clusters");
    SYNC();
    std::vector<int> want(n);
    for (int i = 0; i < n; i++) {
        int block = i / 64, next = block / 4 * 4 + (block + 1) % 4;
        want[i] = in[i] + 1000 + (in[next * 64 + i % 64] + 1000) * 2;
    }
    expect_equal("cluster", out.host(), want);
    return ok("clusters: distributed shared memory");
}
