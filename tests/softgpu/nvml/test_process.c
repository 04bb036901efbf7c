/* Who uses a device, how much of its memory, and how long: across processes. */
#include "softgpu/driver/usage.h"
#include "tests/softgpu/nvml/nvml_test.h"

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (UINT64_C(3) << 20)

static nvmlProcessInfo_t infos[64];

/* The entry of @pid among the processes of a device, or NULL. */
static nvmlProcessInfo_t *entry(unsigned index, pid_t pid)
{
    unsigned n = 64;

    OK(nvmlDeviceGetComputeRunningProcesses(device_at(index), &n, infos));
    for (unsigned i = 0; i < n; i++)
        if (infos[i].pid == (unsigned)pid)
            return &infos[i];
    return NULL;
}

/* Uses device 1 until @go closes. */
static int use_device(int ready, int go)
{
    CUcontext ctx;
    CUdeviceptr p;
    char c;

    if (cuInit(0) || cuCtxCreate_v2(&ctx, 0, 1) || cuMemAlloc_v2(&p, BYTES))
        return 1;
    if (write(ready, "r", 1) != 1 || read(go, &c, 1) != 0)
        return 2;
    return cuCtxDestroy_v2(ctx) == CUDA_SUCCESS ? 0 : 3;
}

static void test_other_process__is_seen_until_it_ends(void **state)
{
    nvmlProcessInfo_t *e;
    nvmlMemory_t memory;
    int ready[2], go[2], status;
    char c, name[256];
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ready) | pipe(go), 0);
    child = fork();
    if (child == 0) {
        close(go[1]);
        _exit(use_device(ready[1], go[0]));
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    e = entry(1, child);
    assert_non_null(e);
    assert_int_equal(e->usedGpuMemory, BYTES);
    assert_null(entry(0, child));
    OK(nvmlDeviceGetMemoryInfo(device_at(1), &memory));
    assert_true(memory.used >= BYTES);
    assert_int_equal(memory.free, memory.total - memory.used);
    OK(nvmlSystemGetProcessName((unsigned)child, name, sizeof(name)));
    assert_non_null(strstr(name, "test_softgpu_nvml_process"));
    close(go[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_null(entry(1, child));
    FAILS(nvmlSystemGetProcessName(0x7ffffff0, name, sizeof(name)), NVML_ERROR_NOT_FOUND);
}

static void test_this_process__is_seen_while_it_has_a_context(void **state)
{
    nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
    CUcontext a, b;
    CUdeviceptr p;
    unsigned none = 0;

    (void)state;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_null(entry(0, getpid()));
    assert_int_equal(cuCtxCreate_v2(&a, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxCreate_v2(&b, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc_v2(&p, BYTES), CUDA_SUCCESS);
    assert_int_equal(entry(0, getpid())->usedGpuMemory, BYTES);
    FAILS(nvmlDeviceGetComputeRunningProcesses(device_at(0), &none, NULL),
          NVML_ERROR_INSUFFICIENT_SIZE);
    assert_true(none >= 1);
    OK(nvmlDeviceGetMemoryInfo_v2(device_at(0), &memory));
    assert_true(memory.used >= BYTES);
    memory.version = 1;
    FAILS(nvmlDeviceGetMemoryInfo_v2(device_at(0), &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
    assert_int_equal(entry(0, getpid())->usedGpuMemory, 0);
    cuCtxDestroy_v2(a);
    assert_non_null(entry(0, getpid()));
    cuCtxDestroy_v2(b);
    assert_null(entry(0, getpid()));
}

#define W SG_USAGE_WINDOW

static void test_busy__is_that_of_the_last_window(void **state)
{
    struct sg_usage_device d = {.window = 10, .current = W / 2, .last = W / 4};

    (void)state;
    assert_int_equal(sg_usage_busy(&d, 10 * W + 5), W / 4);
    assert_int_equal(sg_usage_busy(&d, 11 * W + 5), W / 2);
    assert_int_equal(sg_usage_busy(&d, 12 * W + 5), 0);
    d.running = 1; /* a kernel since the middle of window 11 */
    d.since = 11 * W + W / 2;
    assert_int_equal(sg_usage_busy(&d, 11 * W + W / 2 + 5), W / 2);
    assert_int_equal(sg_usage_busy(&d, 12 * W + 5), W / 2);
    assert_int_equal(sg_usage_busy(&d, 13 * W + 5), W);
}

/* Runs for more than three windows, by the clock that kernels have. */
static const char spin[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                           ".visible .entry spin()\n{\n.reg .b64 %rd<4>;\n.reg .pred %p;\n"
                           "mov.u64 %rd1, %globaltimer;\n"
                           "again:\nmov.u64 %rd2, %globaltimer;\nsub.u64 %rd3, %rd2, %rd1;\n"
                           "setp.lt.u64 %p, %rd3, 900000000;\n@%p bra again;\nret;\n}\n";

/* Kernels, until @go closes: whoever watches may come late. */
static int run_spin(int go)
{
    struct pollfd closed = {.fd = go, .events = POLLIN};
    CUcontext ctx;
    CUmodule module;
    CUfunction function;

    if (cuInit(0) || cuCtxCreate_v2(&ctx, 0, 1) || cuModuleLoadData(&module, spin) ||
        cuModuleGetFunction(&function, module, "spin"))
        return 1;
    do {
        if (cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) || cuCtxSynchronize())
            return 2;
    } while (poll(&closed, 1, 0) == 0);
    return 0;
}

static void test_utilization__is_seen_while_a_kernel_runs(void **state)
{
    nvmlUtilization_t u = {0};
    int go[2], status;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(go), 0);
    child = fork();
    if (child == 0) {
        close(go[1]);
        _exit(run_spin(go[0]));
    }
    for (int i = 0; i < 3000 && u.gpu < 100; i++) {
        usleep(10000);
        OK(nvmlDeviceGetUtilizationRates(device_at(1), &u));
    }
    close(go[0]);
    close(go[1]);
    assert_int_equal(u.gpu, 100); /* a whole window long nothing else */
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_utilization__is_what_is_said(void **state)
{
    nvmlUtilization_t u;

    (void)state;
    setenv("SOFTGPU_NVML", "utilization=37 utilization.memory=5", 1);
    OK(nvmlDeviceGetUtilizationRates(device_at(0), &u));
    assert_int_equal(u.gpu, 37);
    assert_int_equal(u.memory, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* these two fork: before cuInit */
        cmocka_unit_test(test_other_process__is_seen_until_it_ends),
        cmocka_unit_test(test_utilization__is_seen_while_a_kernel_runs),
        cmocka_unit_test(test_this_process__is_seen_while_it_has_a_context),
        cmocka_unit_test(test_busy__is_that_of_the_last_window),
        cmocka_unit_test(test_utilization__is_what_is_said),
    };

    return cmocka_run_group_tests(tests, start_nvml, stop_nvml);
}
