// A cooperative launch: all blocks meet at grid barriers several times; the launch of more blocks
// than fit is refused.
#include "check.cuh"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

/* game of "sum of neighbours": a grid barrier between steps instead of a launch */
__global__ void steps(unsigned *a, unsigned *b, int n, int rounds)
{
    cg::grid_group grid = cg::this_grid();
    for (int r = 0; r < rounds; r++) {
        for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size())
            b[i] = 3 * a[i] + a[(i + 1) % n] + a[(i + n - 1) % n];
        unsigned *t = a;
        a = b;
        b = t;
        grid.sync();
    }
}

__global__ void ranks(int *out)
{
    cg::grid_group grid = cg::this_grid();
    out[grid.thread_rank()] = (int)grid.block_rank() * 100 + grid.is_valid();
    grid.sync();
    if (grid.thread_rank() == 0)
        out[0] += (int)grid.num_blocks() * 10000;
}

int main()
{
    int supported = 0, sms = 0, per_sm = 0;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
    if (!supported)
        skip("the device does not support cooperative launches");
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, steps, 64, 0));
    int n = 1000, rounds = 7;
    auto in = random_ints<unsigned>(n, 241, 0, 1000);
    dev<unsigned> a(in), b(n);
    void *args[] = {&a.p, &b.p, &n, &rounds};
    CHECK(cudaLaunchCooperativeKernel((void *)steps, dim3(6), dim3(64), args, 0, 0));
    SYNC();
    for (int r = 0; r < rounds; r++) {
        auto old = in;
        for (int i = 0; i < n; i++)
            in[i] = 3 * old[i] + old[(i + 1) % n] + old[(i + n - 1) % n];
    }
    expect_equal("steps", b.host(), in);

    dev<int> out(4 * 32);
    void *args2[] = {&out.p};
    CHECK(cudaLaunchCooperativeKernel((void *)ranks, dim3(2, 2), dim3(32), args2, 0, 0));
    SYNC();
    std::vector<int> want(4 * 32);
    for (int i = 0; i < 4 * 32; i++)
        want[i] = i / 32 * 100 + 1;
    want[0] += 40000;
    expect_equal("ranks", out.host(), want);

    CHECK_ERROR(
        cudaLaunchCooperativeKernel((void *)steps, dim3(sms * per_sm + 1), dim3(64), args, 0, 0),
        cudaErrorCooperativeLaunchTooLarge);
    return ok("grid barriers: 7 rounds over 6 blocks");
}
