/* Occupancy against NVIDIA's own calculator, the public header cuda_occupancy.h, on every
 * architecture; where the header is not there, against numbers worked out by hand. */
#include "tests/softgpu/driver/driver_test.h"

#if __has_include(<cuda_occupancy.h>)
#define HAVE_CALCULATOR 1
#include <cuda_occupancy.h>
#else
#define HAVE_CALCULATOR 0
#endif

static CUfunction start(CUmodule *m, const char *name)
{
    CUcontext ctx;
    CUfunction f;

    need(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
    need(cuModuleLoadData(m, test_ptx) == 0 && cuModuleGetFunction(&f, *m, name) == 0);
    return f;
}

#if HAVE_CALCULATOR
static int of_device(CUdevice_attribute a)
{
    int value = -1;

    need(cuDeviceGetAttribute(&value, a, 0) == CUDA_SUCCESS);
    return value;
}

static int of_function(CUfunction f, CUfunction_attribute a)
{
    int value = -1;

    need(cuFuncGetAttribute(&value, a, f) == CUDA_SUCCESS);
    return value;
}

static cudaOccDeviceProp device_prop(void)
{
    cudaOccDeviceProp p = {0};

    p.computeMajor = of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    p.computeMinor = of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    p.maxThreadsPerBlock = of_device(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    p.maxThreadsPerMultiprocessor = of_device(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    p.regsPerBlock = of_device(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    p.regsPerMultiprocessor = of_device(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    p.warpSize = 32;
    p.sharedMemPerBlock = (size_t)of_device(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    p.sharedMemPerMultiprocessor =
        (size_t)of_device(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    p.numSms = of_device(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    p.sharedMemPerBlockOptin =
        (size_t)of_device(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    p.reservedSharedMemPerBlock =
        (size_t)of_device(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    return p;
}

static void like_the_calculator(void *arg)
{
    const char *name = arg;
    CUmodule m;
    CUfunction f = start(&m, name);
    cudaOccDeviceProp prop = device_prop();
    cudaOccDeviceState device = {.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};
    int optin = (int)prop.sharedMemPerBlockOptin;
    int fixed = of_function(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);

    need(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin - fixed) ==
         0);
    cudaOccFuncAttributes attr = {
        .maxThreadsPerBlock = of_function(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        .numRegs = of_function(f, CU_FUNC_ATTRIBUTE_NUM_REGS),
        .sharedSizeBytes = (size_t)fixed,
        .partitionedGCConfig = PARTITIONED_GC_OFF,
        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
        .maxDynamicSharedSizeBytes = (size_t)(optin - fixed),
        .numBlockBarriers = 1,
    };
    for (int threads = 1; threads <= attr.maxThreadsPerBlock; threads += threads < 40 ? 1 : 37) {
        for (int shared = 0; shared <= optin - fixed; shared += 1 + shared / 5) {
            cudaOccResult want;
            int got = -1;

            need(cudaOccMaxActiveBlocksPerMultiprocessor(&want, &prop, &attr, &device, threads,
                                                         (size_t)shared) == CUDA_OCC_SUCCESS);
            need(cuOccupancyMaxActiveBlocksPerMultiprocessor(&got, f, threads, (size_t)shared) ==
                 0);
            if (got != want.activeBlocksPerMultiprocessor)
                fprintf(stderr, "%s: %d threads, %d bytes: %d, not %d\n", name, threads, shared,
                        got, want.activeBlocksPerMultiprocessor);
            need(got == want.activeBlocksPerMultiprocessor);
        }
    }
}
#endif

static void test_blocks__are_what_the_public_calculator_says(void **state)
{
    (void)state;
#if HAVE_CALCULATOR
    static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90"};
    char copy[] = "copy", twice[] = "twice";

    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        assert_int_equal(in_child(like_the_calculator, copy, ENV("SOFTGPU_ARCH", archs[i])), 0);
        assert_int_equal(in_child(like_the_calculator, twice, ENV("SOFTGPU_ARCH", archs[i])), 0);
    }
#else
    print_message("no cuda_occupancy.h among the headers\n");
    skip();
#endif
}

static size_t shared_of(int threads)
{
    return (size_t)threads * 64;
}

static void on_sm_80(void *arg)
{
    CUmodule m;
    CUfunction f = start(&m, "copy"), twice;
    int blocks, grid, block;
    size_t bytes;

    (void)arg;
    need(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, 0) == 0 && blocks == 32);
    need(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 1024, 0) == 0 && blocks == 2);
    /* 48 KiB and 1 KiB of the system's, of 164 KiB */
    need(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, 48 << 10) == 0);
    need(blocks == 3);
    need(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, (48 << 10) + 1) == 0);
    need(blocks == 0);
    need(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    need(cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, f, 32, 0) == CUDA_ERROR_INVALID_VALUE);

    need(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, 0) == 0);
    need(block == 1024 && grid == 2 * 108);
    need(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, 100) == 0);
    need(block == 100 || block == 96 || block == 64);
    need(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, shared_of, 0, 0) == 0);
    need(block <= 768 && block % 32 == 0 && grid % 108 == 0);
    need(cuModuleGetFunction(&twice, m, "twice") == 0);
    need(cuOccupancyMaxPotentialBlockSize(&grid, &block, twice, NULL, 0, 0) == 0);
    need(block == 128 && grid == 16 * 108);

    need(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, 4, 256) == 0);
    need(bytes == (40 << 10));
    need(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 256, bytes) == 0 && blocks == 4);
    need(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, 4, 1024) == CUDA_ERROR_INVALID_VALUE);
    need(cuOccupancyMaxActiveClusters(&blocks, f, &(CUlaunchConfig){.blockDimX = 1}) ==
         CUDA_ERROR_NOT_SUPPORTED);
}

static void test_blocks__by_hand_on_sm_80(void **state)
{
    (void)state;
    assert_int_equal(in_child(on_sm_80, NULL, NULL), 0);
}

static void clusters_on_sm_90(void *arg)
{
    CUlaunchAttribute size = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                              .value.clusterDim = {4, 2, 1}};
    CUlaunchConfig config = {.gridDimX = 8,
                             .gridDimY = 8,
                             .gridDimZ = 1,
                             .blockDimX = 1024,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = &size,
                             .numAttrs = 1};
    CUmodule m;
    CUfunction f = start(&m, "sms");
    int n = 0;

    (void)arg;
    need(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0) == 0 && n == 1);
    need(cuOccupancyMaxActiveClusters(&n, f, &config) == 0 && n == 2 * 108 / 8);
    need(cuOccupancyMaxPotentialClusterSize(&n, f, &config) == 0 && n == 8);
    need(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1) == 0);
    need(cuOccupancyMaxPotentialClusterSize(&n, f, &config) == 0 && n == 16);
    size.value.clusterDim.x = 16;
    need(cuOccupancyMaxActiveClusters(&n, f, &config) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

static void test_clusters__on_sm_90(void **state)
{
    (void)state;
    assert_int_equal(in_child(clusters_on_sm_90, NULL, ENV("SOFTGPU_ARCH", "sm_90")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks__are_what_the_public_calculator_says),
        cmocka_unit_test(test_blocks__by_hand_on_sm_80),
        cmocka_unit_test(test_clusters__on_sm_90),
    };

    setenv("SOFTGPU_LOG", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
