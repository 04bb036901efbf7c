/*
 * A kernel that the driver links from PTX when the program runs, as numba has it done: it writes
 * zeros over zeros, to the second of two buffers, and reads a variable of its module.
 *
 * usage: linked PARTS [VALUE]; prints what the buffers hold. 1: the PTX lies in front of a page
 * that cannot be read, without a NUL; 2: what it writes is done by a function in a second one.
 * VALUE: of the variable, which is added to all it writes
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define N 64u

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuLinkCreate)                                                                                \
    X(cuLinkAddData)                                                                               \
    X(cuLinkComplete)                                                                              \
    X(cuLinkDestroy)                                                                               \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuModuleGetGlobal)                                                                           \
    X(cuMemAlloc)                                                                                  \
    X(cuMemsetD8)                                                                                  \
    X(cuMemcpyHtoD)                                                                                \
    X(cuMemcpyDtoH)                                                                                \
    X(cuLaunchKernel)

#include "tests/recorder/cuda/driver.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
#define BEGIN                                                                                      \
    ".visible .global .align 4 .u32 value;\n"                                                      \
    ".visible .entry kernel(.param .u64 p, .param .u64 q) {\n"                                     \
    " .reg .b32 %r<3>; .reg .b64 %d<4>;\n"                                                         \
    " ld.param.u64 %d0, [q]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4;\n"                     \
    " add.u64 %d2, %d0, %d1; ld.global.u32 %r1, [value];\n"

static const char whole[] = HEAD BEGIN " st.global.u32 [%d2], %r1; ret; }\n";
static const char half[] = HEAD ".extern .func put(.param .b64 p, .param .b32 v);\n" BEGIN
                                " { .param .b64 a; .param .b32 b; st.param.b64 [a], %d2;\n"
                                " st.param.b32 [b], %r1; call.uni put, (a, b); } ret; }\n";
static const char other[] =
    HEAD ".visible .func put(.param .b64 p, .param .b32 v) {\n"
         " .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
         " ld.param.b64 %d0, [p]; ld.param.b32 %r0, [v]; st.u32 [%d0], %r0; ret; }\n";

/* Without its NUL, and so that reading on is a fault. */
static void *at_the_end(const char *text, size_t n)
{
    const size_t page = 4096, room = (n + page - 1) / page * page;
    char *p = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || mprotect(p + room, page, PROT_NONE) != 0)
        exit(2);
    memcpy(p + room - n, text, n);
    return p + room - n;
}

static CUmodule link_parts(bool two)
{
    const char *first = two ? half : whole;
    size_t n = strlen(first), size = 0;
    CUlinkState link;
    CUmodule module;
    void *code;

    OK(cu.cuLinkCreate(0, NULL, NULL, &link));
    OK(cu.cuLinkAddData(link, CU_JIT_INPUT_PTX, at_the_end(first, n), n, "first", 0, NULL, NULL));
    if (two)
        OK(cu.cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)other, sizeof(other), "other", 0, NULL,
                            NULL));
    OK(cu.cuLinkComplete(link, &code, &size));
    OK(cu.cuModuleLoadData(&module, code));
    OK(cu.cuLinkDestroy(link));
    return module;
}

int main(int argc, char **argv)
{
    unsigned v = argc > 2 ? (unsigned)atoi(argv[2]) : 0, got[2 * N];
    CUdeviceptr p, q, value;
    CUfunction kernel;
    size_t bytes;

    load_driver();
    (void)start_driver();
    CUmodule module = link_parts(argc > 1 && strcmp(argv[1], "2") == 0);
    OK(cu.cuModuleGetFunction(&kernel, module, "kernel"));
    OK(cu.cuModuleGetGlobal(&value, &bytes, module, "value"));
    OK(cu.cuMemAlloc(&p, N * 4));
    OK(cu.cuMemAlloc(&q, N * 4));
    OK(cu.cuMemsetD8(p, 0, N * 4));
    OK(cu.cuMemsetD8(q, 0, N * 4));
    OK(cu.cuMemcpyHtoD(value, &v, sizeof(v)));
    void *params[] = {&p, &q};
    for (int i = 0; i < 3; i++)
        OK(cu.cuLaunchKernel(kernel, 1, 1, 1, N, 1, 1, 0, NULL, params, NULL));
    OK(cu.cuMemcpyDtoH(got, p, N * 4));
    OK(cu.cuMemcpyDtoH(got + N, q, N * 4));
    for (unsigned i = 0; i < 2 * N; i++)
        printf("%u ", got[i]);
    return printf("\n") < 0;
}
