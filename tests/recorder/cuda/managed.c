/*
 * Memory that the host writes, too: what the host has left there, and what a kernel makes of it.
 * The program of tests/e2e/t098-diff-host-writes.sh and t118-diff-host-sources.sh.
 *
 * usage: managed KIND CASE VALUE; KIND: managed, pinned, device (but for the variable). VALUE is
 * what the host of two runs differs in. Start at main()
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/twinbit.h"

#define BLOCKS 8u
#define N (BLOCKS * 64)
#define BYTES ((size_t)N * 4)

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuCtxSynchronize)                                                                            \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemHostGetDevicePointer)                                                                   \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemcpyDtoD)                                                                                \
    X(cuModuleGetGlobal)                                                                           \
    X(cuMemcpyHtoD)                                                                                \
    X(cuLaunchKernel)

#include "tests/recorder/cuda/driver.h"

#define INDEX                                                                                      \
    " mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 64, %r2;\n"                 \
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1;\n"
static const char image[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .attribute(.managed) .align 4 .b8 shared[2048];\n"
    /* q[i] = shared[i] */
    ".visible .entry variable(.param .u64 q) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<5>;\n"
    " ld.param.u64 %d3, [q]; cvta.to.global.u64 %d3, %d3; mov.u64 %d0, shared;\n" INDEX
    " ld.global.u32 %r0, [%d2]; add.u64 %d4, %d3, %d1; st.global.u32 [%d4], %r0; ret; }\n"
    /* p[i] = v */
    ".visible .entry part(.param .u64 p, .param .u32 v) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v]; cvta.to.global.u64 %d0, %d0;\n" INDEX
    " st.global.u32 [%d2], %r0; ret; }\n"
    /* p[i] += 1 */
    ".visible .entry more(.param .u64 p) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [p]; cvta.to.global.u64 %d0, %d0;\n" INDEX
    " ld.global.u32 %r0, [%d2]; add.u32 %r0, %r0, 1; st.global.u32 [%d2], %r0; ret; }\n"
    /* q[i] = p[i] */
    ".visible .entry take(.param .u64 p, .param .u64 q) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<5>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u64 %d3, [q]; cvta.to.global.u64 %d0, %d0;\n"
    " cvta.to.global.u64 %d3, %d3;\n" INDEX
    " ld.global.u32 %r0, [%d2]; add.u64 %d4, %d3, %d1; st.global.u32 [%d4], %r0; ret; }\n"
    /* the last block leaves its number in p[64] */
    ".visible .entry last(.param .u64 p) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<2>;\n"
    " ld.param.u64 %d0, [p]; cvta.to.global.u64 %d0, %d0; mov.u32 %r3, %ctaid.x;\n"
    " atom.global.exch.b32 %r1, [%d0+256], %r3; ret; }\n"
    /* t[0][i] += 1 */
    ".visible .entry table(.param .u64 t) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d3, [t]; cvta.to.global.u64 %d3, %d3; ld.global.u64 %d0, [%d3];\n" INDEX
    " ld.global.u32 %r0, [%d2]; add.u32 %r0, %r0, 1; st.global.u32 [%d2], %r0; ret; }\n";

static CUfunction part, more, take, last, table, variable;
static CUdeviceptr m, b, list, var; /* m, var: of both */
static unsigned *host;              /* the same as the host sees it */

static void begin(const char *kind)
{
    CUmodule module;
    size_t bytes;

    load_driver();
    (void)start_driver();
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&part, module, "part"));
    OK(cu.cuModuleGetFunction(&more, module, "more"));
    OK(cu.cuModuleGetFunction(&take, module, "take"));
    OK(cu.cuModuleGetFunction(&last, module, "last"));
    OK(cu.cuModuleGetFunction(&table, module, "table"));
    OK(cu.cuModuleGetFunction(&variable, module, "variable"));
    OK(cu.cuModuleGetGlobal(&var, &bytes, module, "shared"));
    OK(cu.cuMemAlloc(&b, BYTES));
    OK(cu.cuMemAlloc(&list, sizeof(m)));
    if (strcmp(kind, "device") == 0) {
        static unsigned own[N];
        OK(cu.cuMemAlloc(&m, BYTES));
        host = own;
    } else if (strcmp(kind, "managed") == 0) {
        OK(cu.cuMemAllocManaged(&m, BYTES, CU_MEM_ATTACH_GLOBAL));
        host = (unsigned *)m;
    } else {
        OK(cu.cuMemHostAlloc((void **)&host, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
        OK(cu.cuMemHostGetDevicePointer(&m, host, 0));
    }
    memset(host, 0, BYTES);
    if (strcmp(kind, "managed") == 0)
        twinbit_tensor((void *)m, BYTES, "u32", "weights");
}

/* ---------------------------------------------------------------- launches */

static void launch(CUfunction f, unsigned blocks, void **params)
{
    OK(cu.cuLaunchKernel(f, blocks, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
}

/* The elements from @from on. */
static void do_part(unsigned from, unsigned v)
{
    CUdeviceptr p = m + from * 4ull;
    void *params[] = {&p, &v};

    launch(part, (N - from) / 64, params);
}

static void do_more(void)
{
    void *params[] = {&m};

    launch(more, BLOCKS, params);
}

static void do_take(void)
{
    void *params[] = {&m, &b};

    launch(take, BLOCKS, params);
}

static void do_last(void)
{
    void *params[] = {&m};

    launch(last, BLOCKS, params);
}

static void do_table(void)
{
    void *params[] = {&list};

    OK(cu.cuMemcpyHtoD(list, &m, sizeof(m)));
    launch(table, BLOCKS, params);
}

/* The host writes @v to a variable of the module. */
static void do_variable(unsigned v)
{
    void *params[] = {&b};

    ((unsigned *)var)[5] = v;
    launch(variable, BLOCKS, params);
}

/* The host writes @v behind all that the device has done. */
static void put(unsigned v)
{
    OK(cu.cuCtxSynchronize());
    host[3] = v;
}

static void show(void)
{
    static unsigned got[N];
    unsigned sum = 0;

    OK(cu.cuMemcpyDtoH(got, b, BYTES));
    for (unsigned i = 0; i < N; i++)
        sum = sum * 31 + got[i] + 7 * host[i];
    printf("%08x\n", sum);
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "", *what = argc > 2 ? argv[2] : "";
    unsigned value = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;

    begin(kind);
    do_part(0, 1);
    put(strcmp(what, "kernel") == 0 || strcmp(what, "variable") == 0 ? 5 : value);
    if (strcmp(what, "beside") == 0) /* what the kernel writes, and does not read */
        do_part(64, 2);
    else if (strcmp(what, "same") == 0) /* it adds to that */
        do_more();
    else if (strcmp(what, "read") == 0)
        do_take();
    else if (strcmp(what, "table") == 0)
        do_table();
    else if (strcmp(what, "copy") == 0)
        OK(cu.cuMemcpyDtoD(b, m, BYTES));
    else if (strcmp(what, "variable") == 0)
        do_variable(value);
    else if (strcmp(what, "over") == 0) /* nothing of it is left */
        do_part(0, 2);
    else if (strcmp(what, "kernel") == 0) /* the kernel alone, by chance */
        do_last();
    if (strcmp(what, "variable") != 0) {
        do_more();
        do_take();
    }
    OK(cu.cuCtxSynchronize());
    show();
    return 0;
}
