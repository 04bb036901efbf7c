/* What the programs of strict mode's tests share. Each is called with the name of a case and "bad"
 * or "good"; without arguments it lists its cases, a line each: name, rule, and what "fail" mode
 * makes of the bad one ("error": a call fails, "-": no call does). */
#ifndef TEST_SOFTGPU_STRICT_CASE_H
#define TEST_SOFTGPU_STRICT_CASE_H

#include "tests/softgpu/driver/newest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct strict_case {
    const char *name, *rule, *fail;
    void (*run)(bool bad);
};

static CUcontext strict_ctx;
static bool strict_failed; /* a call that may fail did */

/* A call that must succeed whatever the mode. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        CUresult r_ = (call);                                                                      \
        if (r_ != CUDA_SUCCESS) {                                                                  \
            fprintf(stderr, "%s:%d: %s is %d\n", __FILE__, __LINE__, #call, (int)r_);              \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)
/* One that may fail: what the finding is about. */
#define MAY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != CUDA_SUCCESS)                                                                \
            strict_failed = true;                                                                  \
    } while (0)

static inline CUfunction strict_kernel(const char *ptx, const char *name)
{
    CUmodule module;
    CUfunction f;

    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

/* The context ends at exit, so that nothing of the case leaks; those about leaks set this. */
static bool strict_keep;

static inline int strict_main(int argc, char **argv, const struct strict_case *cases, size_t n)
{
    if (argc < 3) {
        for (size_t i = 0; i < n; i++)
            printf("%s %s %s\n", cases[i].name, cases[i].rule, cases[i].fail);
        return 0;
    }
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&strict_ctx, 0));
    OK(cuCtxSetCurrent(strict_ctx));
    for (size_t i = 0; i < n; i++) {
        if (strcmp(cases[i].name, argv[1]) != 0)
            continue;
        cases[i].run(strcmp(argv[2], "bad") == 0);
        if (!strict_keep)
            cuDevicePrimaryCtxReset(0);
        return strict_failed ? 1 : 0;
    }
    fprintf(stderr, "no case '%s'\n", argv[1]);
    return 2;
}

#endif
