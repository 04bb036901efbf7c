// Other ways to launch: cudaLaunchKernel, cudaLaunchKernelExC with attributes, large parameter
// blocks, structs by value, occupancy queries and what the device reports about itself.
#include "check.cuh"

struct big {
    double scale;
    int shift[200];
    char tag;
    float3 v;
};

__global__ void use(double *out, const big b, char c, short s, long long l)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = b.shift[i % 200] * b.scale + c + s * 10.0 + l + b.v.y + b.tag;
}

__global__ void where(uint3 *out)
{
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
        make_uint3(blockIdx.x * 100 + threadIdx.x, blockIdx.y * 100 + threadIdx.y,
                   blockIdx.z * 100 + threadIdx.z);
}

int main()
{
    big b = {};
    b.scale = 0.5, b.tag = 3, b.v.y = 0.25f;
    for (int i = 0; i < 200; i++)
        b.shift[i] = i * 3;
    const int n = 256;
    dev<double> out(n);
    char c = -2;
    short s = 7;
    long long l = -100;
    std::vector<double> want(n);
    for (int i = 0; i < n; i++)
        want[i] = b.shift[i % 200] * 0.5 + -2 + 70.0 - 100 + 0.25 + 3;
    use<<<4, 64>>>(out.p, b, c, s, l);
    SYNC();
    expect_equal("<<<>>>", out.host(), want);
    out.zero();
    void *args[] = {&out.p, &b, &c, &s, &l};
    CHECK(cudaLaunchKernel((const void *)use, dim3(2), dim3(128), args, 0, 0));
    SYNC();
    expect_equal("cudaLaunchKernel", out.host(), want);
    out.zero();
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaLaunchAttribute a[2] = {};
    a[0].id = cudaLaunchAttributePriority, a[0].val.priority = 0;
    a[1].id = cudaLaunchAttributeCooperative, a[1].val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1), config.blockDim = dim3(256), config.stream = stream;
    config.attrs = a, config.numAttrs = 2;
    CHECK(cudaLaunchKernelExC(&config, (const void *)use, args));
    CHECK(cudaStreamSynchronize(stream));
    expect_equal("cudaLaunchKernelExC", out.host(), want);

    const dim3 grid(3, 2, 4), block(5, 3, 2);
    dev<uint3> w(3 * 2 * 4 * 5 * 3 * 2);
    where<<<grid, block>>>(w.p);
    SYNC();
    std::vector<uint3> places;
    for (unsigned i = 0; i < 24; i++)
        for (unsigned j = 0; j < 30; j++)
            places.push_back(
                {i % 3 * 100 + j % 5, i / 3 % 2 * 100 + j / 5 % 3, i / 6 * 100 + j / 15});
    expect_equal("indices", w.host(), places);

    int blocks = 0, min_grid = 0, best = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, use, 256, 0));
    CHECK(cudaOccupancyMaxPotentialBlockSize(&min_grid, &best, use, 0, 0));
    cudaDeviceProp prop;
    CHECK(cudaGetDeviceProperties(&prop, 0));
    if (blocks < 1 || blocks * 256 > prop.maxThreadsPerMultiProcessor || best < 32 || best > 1024)
        fail("occupancy: %d blocks, best size %d", blocks, best);
    if (prop.warpSize != 32 || prop.maxThreadsPerBlock != 1024 || prop.major < 7 || !prop.name[0] ||
        prop.totalGlobalMem < 1 << 28 || prop.multiProcessorCount < 1)
        fail("device properties");
    size_t free_bytes, total_bytes;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    if (free_bytes > total_bytes || total_bytes > prop.totalGlobalMem)
        fail("memory info: %zu of %zu", free_bytes, total_bytes);
    return ok("launches: 3 ways, %zu bytes of parameters, 3D indices", sizeof b);
}
