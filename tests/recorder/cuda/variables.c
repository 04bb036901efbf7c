/*
 * Kernels that read variables of their module: who wrote these last is the argument, and
 * tests/e2e/t060-diff-module-variables.sh says what a recording must have. Prints what was read.
 *
 * usage: variables CASE [NUMBER]; start at main()
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 64u

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuLibraryLoadData)                                                                           \
    X(cuLibraryGetKernel)                                                                          \
    X(cuModuleGetGlobal)                                                                           \
    X(cuMemAlloc)                                                                                  \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemcpyHtoD)                                                                                \
    X(cuMemsetD8)                                                                                  \
    X(cuLaunchKernel)                                                                              \
    X(cuStreamCreate)                                                                              \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphLaunch)

#include "tests/recorder/cuda/driver.h"

#define INDEX " mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4;\n"
#define REGISTERS " .reg .pred %q; .reg .b32 %r<6>; .reg .b64 %d<8>;\n"
#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static const char image[] = HEAD
    ".visible .const .align 4 .b8 factor[256];\n"
    ".visible .global .align 4 .b8 state[256];\n"
    ".global .align 4 .b8 hidden[256];\n"
    ".visible .global .attribute(.managed) .align 4 .b8 both[256];\n"
    ".func (.param .b32 v) of_state(.param .b64 i) {\n" REGISTERS
    " ld.param.u64 %d0, [i]; mov.u64 %d2, state; add.u64 %d1, %d0, %d2;\n"
    " ld.global.u32 %r1, [%d1]; st.param.b32 [v], %r1; ret; }\n"
    /* out[i] = factor[i] + state[i], the second by a function */
    ".visible .entry use(.param .u64 out) {\n" REGISTERS INDEX
    " ld.param.u64 %d2, [out]; cvta.to.global.u64 %d2, %d2; add.u64 %d2, %d2, %d1;\n"
    " mov.u64 %d3, factor; add.u64 %d3, %d3, %d1; ld.const.u32 %r2, [%d3];\n"
    " { .param .b64 x; .param .b32 y; st.param.b64 [x], %d1; call (y), of_state, (x);\n"
    " ld.param.b32 %r3, [y]; } add.u32 %r4, %r2, %r3; st.global.u32 [%d2], %r4; ret; }\n"
    ".visible .entry put(.param .u32 v) {\n" REGISTERS INDEX
    " ld.param.u32 %r2, [v]; mov.u64 %d2, state; add.u64 %d2, %d2, %d1;\n"
    " st.global.u32 [%d2], %r2; ret; }\n"
    /* each block leaves its number: the last one stays */
    ".visible .entry last() {\n" REGISTERS INDEX
    " mov.u64 %d2, state; mov.u32 %r2, %ctaid.x; atom.global.exch.b32 %r3, [%d2], %r2; ret; }\n"
    ".visible .entry tell(.param .u64 to) {\n" REGISTERS
    " ld.param.u64 %d2, [to]; cvta.to.global.u64 %d2, %d2; mov.u64 %d3, hidden;\n"
    " cvta.global.u64 %d3, %d3; st.global.u64 [%d2], %d3; ret; }\n"
    /* out[i] = from[0][i] */
    ".visible .entry follow(.param .u64 out, .param .u64 from) {\n" REGISTERS INDEX
    " ld.param.u64 %d2, [out]; cvta.to.global.u64 %d2, %d2; add.u64 %d2, %d2, %d1;\n"
    " ld.param.u64 %d3, [from]; cvta.to.global.u64 %d3, %d3; ld.global.u64 %d4, [%d3];\n"
    " add.u64 %d4, %d4, %d1; ld.u32 %r2, [%d4]; st.global.u32 [%d2], %r2; ret; }\n"
    ".visible .entry from_both(.param .u64 out) {\n" REGISTERS INDEX
    " ld.param.u64 %d2, [out]; cvta.to.global.u64 %d2, %d2; add.u64 %d2, %d2, %d1;\n"
    " mov.u64 %d3, both; add.u64 %d3, %d3, %d1; ld.global.u32 %r2, [%d3];\n"
    " st.global.u32 [%d2], %r2; ret; }\n";

/* Kernels that may call anything, and never do. */
#define CALLS(name)                                                                                \
    ".visible .entry " name "(.param .u64 f) {\n" REGISTERS                                        \
    " ld.param.u64 %d2, [f]; setp.ne.u64 %q, %d2, 0; @!%q ret;\n"                                  \
    " proto: .callprototype _ (); call %d2, (), proto; ret; }\n"
static const char open_image[] = HEAD ".visible .global .u32 g;\n" CALLS("one") CALLS("two");
static const char closed_image[] = HEAD CALLS("one") CALLS("two");

static CUmodule module;
static CUdeviceptr out;

static void begin(void)
{
    load_driver();
    (void)start_driver();
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuMemAlloc(&out, N * 4));
    OK(cu.cuMemsetD8(out, 0, N * 4));
    OK(cu.synchronize());
}

static void launch(const char *name, unsigned blocks, CUstream stream, void *a, void *b)
{
    void *params[] = {a, b};
    CUfunction f;

    OK(cu.cuModuleGetFunction(&f, module, name));
    OK(cu.cuLaunchKernel(f, blocks, 1, 1, N, 1, 1, 0, stream, params, NULL));
}

static void use(CUstream stream)
{
    launch("use", 1, stream, &out, NULL);
}

static void put(unsigned v, CUstream stream)
{
    launch("put", 1, stream, &v, NULL);
}

static CUdeviceptr variable(const char *name)
{
    CUdeviceptr p;
    size_t bytes;

    OK(cu.cuModuleGetGlobal(&p, &bytes, module, name));
    return p;
}

/* The host writes what the kernel reads of constant memory. */
static void constant(unsigned v)
{
    unsigned values[N];

    for (unsigned i = 0; i < N; i++)
        values[i] = v;
    OK(cu.cuMemcpyHtoD(variable("factor"), values, sizeof(values)));
    use(NULL);
}

/* It is written by the host before any kernel that uses it is known, and once more behind one. */
static void renewed(unsigned v)
{
    constant(v);
    constant(v + 1);
}

static void race(unsigned v)
{
    CUstream first, second;

    OK(cu.cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    put(1, NULL);
    OK(cu.synchronize());
    put(v, first);
    use(second);
}

/* The same launch again and again, of other values each time. */
static void again(void)
{
    for (unsigned i = 0; i < 8; i++) {
        put(i, NULL);
        use(NULL);
    }
}

static void graph(void)
{
    CUgraphExec exec;
    CUgraph captured;
    CUstream stream;

    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    use(stream);
    launch("last", 8, stream, NULL, NULL);
    OK(cu.cuStreamEndCapture(stream, &captured));
    OK(cu.cuGraphInstantiateWithFlags(&exec, captured, 0));
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuGraphLaunch(exec, stream));
}

static void through_memory(void)
{
    CUdeviceptr at;

    OK(cu.cuMemAlloc(&at, 8));
    launch("tell", 1, NULL, &at, NULL);
    launch("follow", 1, NULL, &out, &at);
}

/* The host writes it, too, which no call tells. */
static void managed(unsigned v)
{
    volatile unsigned *both = (volatile unsigned *)(uintptr_t)variable("both");

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < N; i++)
            both[i] = v + round;
        launch("from_both", 1, NULL, &out, NULL);
        OK(cu.synchronize());
    }
}

static void not_followed(const char *text, unsigned launches)
{
    CUdeviceptr nothing = 0;
    CUfunction f;

    OK(cu.cuModuleLoadData(&module, text));
    OK(cu.cuModuleGetFunction(&f, module, "one"));
    for (unsigned i = 0; i < launches; i++) {
        launch("one", 1, NULL, &nothing, NULL);
        launch("two", 1, NULL, &nothing, NULL);
    }
}

/* A kernel of a library is one for all devices, and each of these has variables of its own. */
static void devices(void)
{
    CUcontext contexts[2];
    CUlibrary library;
    CUkernel f[2];

    OK(cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernel(&f[0], library, "put"));
    OK(cu.cuLibraryGetKernel(&f[1], library, "use"));
    for (int d = 0; d < 2; d++)
        OK(cu.cuDevicePrimaryCtxRetain(&contexts[d], d));
    for (unsigned i = 0; i < 6; i++) {
        void *number[] = {&i}, *to[] = {&out};
        CUdeviceptr theirs;

        OK(cu.cuCtxSetCurrent(contexts[i % 2]));
        OK(cu.cuMemAlloc(&theirs, N * 4));
        if (i % 2)
            to[0] = &theirs;
        OK(cu.cuLaunchKernel((CUfunction)f[0], 1, 1, 1, N, 1, 1, 0, NULL, number, NULL));
        OK(cu.cuLaunchKernel((CUfunction)f[1], 1, 1, 1, N, 1, 1, 0, NULL, to, NULL));
        OK(cu.synchronize());
    }
    OK(cu.cuCtxSetCurrent(contexts[0]));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "constant";
    unsigned v = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 5, result[N], sum = 0;

    begin();
    if (strcmp(how, "constant") == 0)
        constant(v);
    else if (strcmp(how, "renewed") == 0)
        renewed(v);
    else if (strcmp(how, "race") == 0)
        race(v);
    else if (strcmp(how, "again") == 0)
        again();
    else if (strcmp(how, "graph") == 0)
        graph();
    else if (strcmp(how, "memory") == 0)
        through_memory();
    else if (strcmp(how, "managed") == 0)
        managed(v);
    else if (strcmp(how, "open") == 0)
        not_followed(open_image, 3);
    else if (strcmp(how, "closed") == 0)
        not_followed(closed_image, 3);
    else if (strcmp(how, "devices") == 0)
        devices();
    else if (strcmp(how, "loaded") == 0)
        not_followed(open_image, 0);
    else if (strcmp(how, "kernel") == 0) {
        launch("last", 8, NULL, NULL, NULL);
        use(NULL);
    }
    OK(cu.synchronize());
    OK(cu.cuMemcpyDtoH(result, out, sizeof(result)));
    for (unsigned i = 0; i < N; i++)
        sum = sum * 31 + result[i];
    printf("%08x, first %u\n", sum, result[0]);
    return 0;
}
