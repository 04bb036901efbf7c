/* SOFTGPU_FAULT as a program meets it: copies, memory, kernels, and the device that is not broken.
 */
#include "tests/softgpu/driver/driver_test.h"

#include <string.h>

#define N 65536u

static const char twice[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry twice(.param .u64 p)\n{\n"
    ".reg .b32 %r<5>; .reg .b64 %rd<5>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nld.global.u32 %r2, [%rd3];\n"
    "shl.b32 %r3, %r2, 1;\nst.global.u32 [%rd3], %r3;\nret;\n}\n";

#define MUST(call) must(call, #call)
static void must(CUresult r, const char *what)
{
    if (r != CUDA_SUCCESS) {
        fprintf(stderr, "%s: %d\n", what, (int)r);
        _exit(2);
    }
}

static CUdeviceptr start(int device)
{
    CUcontext ctx;
    CUdeviceptr p;

    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&ctx, device));
    MUST(cuCtxSetCurrent(ctx));
    MUST(cuMemAlloc_v2(&p, N));
    return p;
}

static void be(bool right)
{
    if (!right)
        _exit(3);
}

static unsigned char here[N], back[N];

static unsigned changed(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < N; i++)
        n += here[i] != back[i];
    return n;
}

/* 16 pieces of 4 KiB, a word in each. */
static void copies_up(void *arg)
{
    int device = *(const int *)arg;
    CUdeviceptr p = start(device);

    MUST(cuMemcpyHtoD_v2(p, here, N));
    MUST(cuMemcpyDtoH_v2(back, p, N));
    be(changed() == (device == 1 ? 16 : 0));
    MUST(cuMemsetD8_v2(p, 0, N));
    MUST(cuMemcpyDtoH_v2(back, p, N));
    be(changed() == 0);
}

static void test_broken__copies_of_one_device(void **state)
{
    (void)state;
    for (int device = 0; device < 2; device++)
        assert_int_equal(in_child(copies_up, &device,
                                  ENV("SOFTGPU_DEVICES", "2", "SOFTGPU_FAULT",
                                      "unit=copy dir=h2d device=1 bit=9")),
                         0);
}

/* The cell is in the first allocation that the program makes. */
static void stuck_cell(void *arg)
{
    CUdeviceptr p = start(0);
    unsigned long long id = 0;

    (void)arg;
    MUST(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    be(id == 1);
    MUST(cuMemcpyHtoD_v2(p, here, N));
    MUST(cuMemcpyDtoH_v2(back, p, N));
    be(changed() == 1 && back[77] == 4);
    MUST(cuMemsetD8_v2(p, 3, N));
    MUST(cuMemcpyDtoH_v2(back, p, N));
    be(back[77] == 7 && back[76] == 3);
}

static void test_broken__a_cell_of_an_allocation(void **state)
{
    (void)state;
    assert_int_equal(
        in_child(stuck_cell, NULL, ENV("SOFTGPU_FAULT", "mem=alloc#1+77 bit=2 model=stuck1")), 0);
}

static void launch(void *arg)
{
    unsigned expected = *(const unsigned *)arg, *v = (unsigned *)(void *)back;
    CUdeviceptr p = start(0);
    CUmodule module;
    CUfunction f;
    void *params[] = {&p};

    MUST(cuModuleLoadData(&module, twice));
    MUST(cuModuleGetFunction(&f, module, "twice"));
    MUST(cuMemsetD32_v2(p, 5, N / 4));
    for (unsigned i = 1; i <= 3; i++) {
        MUST(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        MUST(cuMemcpyDtoH_v2(back, p, N));
        be(v[4] == 5u << i && v[3] == (i < 3 ? 5u << i : expected));
    }
}

static void test_broken__the_third_launch(void **state)
{
    unsigned wrong = 5u << 3 ^ 1u << 20, right = 5u << 3;

    (void)state;
    assert_int_equal(
        in_child(launch, &wrong, ENV("SOFTGPU_FAULT", "op=shl lanes=3 launch=3.. bit=20")), 0);
    assert_int_equal(
        in_child(launch, &right, ENV("SOFTGPU_FAULT", "unit=fma; unit=sfu; unit=copy launch")), 2);
    assert_int_equal(in_child(launch, &right, ENV("SOFTGPU_FAULT", "unit=fma; unit=sfu")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken__copies_of_one_device),
        cmocka_unit_test(test_broken__a_cell_of_an_allocation),
        cmocka_unit_test(test_broken__the_third_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
