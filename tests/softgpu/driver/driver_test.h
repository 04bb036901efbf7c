/* What the tests of devices, contexts, modules and launches share: short asserts, a process of its
 * own for what cuInit reads once, and a few kernels. They call only what cuda.h declares. */
#ifndef TEST_SOFTGPU_DRIVER_TEST_H
#define TEST_SOFTGPU_DRIVER_TEST_H

#define CUDA_ENABLE_DEPRECATED 1 /* no warning for the old calls */
#include <cuda.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/softgpu/driver/newest.h"

#define ok(call) assert_int_equal((call), CUDA_SUCCESS)
#define refused(call, why) assert_int_equal((call), (why))

/* For code that runs in a child process, where cmocka's asserts do not reach the parent. */
#define need(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Runs @fn in a fresh process with NAME=VALUE pairs set (ended by NULL); its exit status. */
static inline int in_child(void (*fn)(void *arg), void *arg, const char *const *env)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        for (; env && env[0]; env += 2)
            setenv(env[0], env[1], 1);
        fn(arg);
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL, NULL})

/* A device with its primary context current, for a whole program. */
static inline int start_device(void **state)
{
    CUcontext ctx;

    setenv("SOFTGPU_DEVICES", "2", 1);
    setenv("SOFTGPU_MEMORY", "256M", 1);
    *state = NULL;
    return cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&ctx, 0) != CUDA_SUCCESS ||
           cuCtxSetCurrent(ctx) != CUDA_SUCCESS;
}

static inline int stop_device(void **state)
{
    (void)state;
    return cuDevicePrimaryCtxRelease(0) != CUDA_SUCCESS;
}

/* copy(p, a, b): p[0] = a, p[1] = b; and twice(p): p[i] *= 2 for the thread's i; trap; variables.
 */
static const char test_ptx[] =
    "// a comment first\n/* and another */\n.version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 41;\n"
    ".visible .const .align 8 .u64 table[2] = {7, 9};\n"
    ".visible .entry copy(.param .u64 p, .param .u32 a, .param .u64 b)\n{\n"
    " .reg .u64 %rd<4>;\n .reg .u32 %r<4>;\n"
    " ld.param.u64 %rd0, [p];\n ld.param.u32 %r0, [a];\n ld.param.u64 %rd1, [b];\n"
    " cvt.u64.u32 %rd2, %r0;\n st.global.u64 [%rd0], %rd2;\n st.global.u64 [%rd0+8], %rd1;\n"
    " ret;\n}\n"
    ".visible .entry twice(.param .u64 p)\n.maxntid 128, 1, 1\n{\n"
    " .reg .u64 %rd<4>;\n .reg .u32 %r<4>;\n"
    " .shared .align 4 .b8 buffer[1024];\n"
    " ld.param.u64 %rd0, [p];\n mov.u32 %r0, %tid.x;\n mul.wide.u32 %rd1, %r0, 4;\n"
    " add.u64 %rd0, %rd0, %rd1;\n ld.global.u32 %r1, [%rd0];\n add.u32 %r1, %r1, %r1;\n"
    " st.global.u32 [%rd0], %r1;\n ret;\n}\n"
    ".visible .entry stop()\n{\n trap;\n}\n"
    ".visible .entry sms(.param .u64 p)\n{\n .reg .u64 %rd<2>;\n .reg .u32 %r<2>;\n"
    " ld.param.u64 %rd0, [p];\n mov.u32 %r0, %nsmid;\n st.global.u32 [%rd0], %r0;\n ret;\n}\n";

static inline CUfunction function_of(CUmodule m, const char *name)
{
    CUfunction f = NULL;

    ok(cuModuleGetFunction(&f, m, name));
    assert_non_null(f);
    return f;
}

static inline CUmodule load_test_module(void)
{
    CUmodule m = NULL;

    ok(cuModuleLoadData(&m, test_ptx));
    assert_non_null(m);
    return m;
}

#endif
