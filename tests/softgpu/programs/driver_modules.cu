// PTX text through the driver API: loaded, linked of two parts, as a library; functions, globals
// and attributes by name; text with an error is refused with a log.
#include "driver.cuh"

#include <string>

static const char *const HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n";
static const char *const SCALE = R"(
.visible .global .align 4 .u32 factor = 3;
.extern .func (.param .b32 r) twist (.param .b32 x);
.visible .entry scale(.param .u64 p, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n];
    setp.ge.s32 %p1, %r4, %r5;
    @%p1 bra DONE;
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    mad.wide.s32 %rd3, %r4, 4, %rd2;
    ld.global.u32 %r6, [%rd3];
    ld.global.u32 %r7, [factor];
    mul.lo.s32 %r6, %r6, %r7;
    {
    .param .b32 arg;
    .param .b32 res;
    st.param.b32 [arg], %r6;
    call.uni (res), twist, (arg);
    ld.param.b32 %r8, [res];
    }
    st.global.u32 [%rd3], %r8;
DONE:
    ret;
}
)";
static const char *const TWIST = R"(
.visible .func (.param .b32 r) twist (.param .b32 x)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [x];
    xor.b32 %r2, %r1, 0x55;
    st.param.b32 [r], %r2;
    ret;
}
)";

static void run(CUfunction f, unsigned factor, const char *what)
{
    USE(cuLaunchKernel);
    const int n = 777;
    auto x = random_ints<unsigned>(n, 321, 0, 1 << 20);
    dev<unsigned> d(x);
    int size = n;
    void *args[] = {&d.p, &size};
    DRV(p_cuLaunchKernel(f, blocks_for(n, 64), 1, 1, 64, 1, 1, 0, nullptr, args, nullptr));
    SYNC();
    for (unsigned &v : x)
        v = v * factor ^ 0x55;
    expect_equal(what, d.host(), x);
    struct {
        void *p;
        int n;
    } packed = {d.p, n};
    size_t bytes = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    DRV(p_cuLaunchKernel(f, blocks_for(n, 64), 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra));
    SYNC();
    for (unsigned &v : x)
        v = v * factor ^ 0x55;
    expect_equal("packed parameters", d.host(), x);
}

int main()
{
    CHECK(cudaFree(nullptr)); // makes the context
    need_capability(8, 0);
    USE(cuModuleLoadData);
    USE(cuModuleLoadDataEx);
    USE(cuModuleGetFunction);
    USE(cuModuleGetGlobal);
    USE(cuModuleUnload);
    USE(cuFuncGetAttribute);
    USE(cuLinkCreate);
    USE(cuLinkAddData);
    USE(cuLinkComplete);
    USE(cuLinkDestroy);
    USE(cuMemcpyHtoD);
    std::string whole = std::string(HEAD) + TWIST + SCALE;
    size_t declared = whole.find(".extern .func"); // defined in the same text: no .extern
    whole.erase(declared, whole.find('\n', declared) - declared);
    CUmodule module;
    CUfunction f;
    CUdeviceptr factor;
    size_t bytes;
    DRV(p_cuModuleLoadData(&module, whole.c_str()));
    DRV(p_cuModuleGetFunction(&f, module, "scale"));
    run(f, 3, "module");
    DRV(p_cuModuleGetGlobal(&factor, &bytes, module, "factor"));
    expect_value("bytes", bytes, (size_t)4);
    unsigned five = 5;
    DRV(p_cuMemcpyHtoD(factor, &five, sizeof five));
    run(f, 5, "changed global");
    int threads = 0;
    DRV(p_cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    if (threads < 64)
        fail("at most %d threads", threads);
    if (p_cuModuleGetFunction(&f, module, "absent") != CUDA_ERROR_NOT_FOUND)
        fail("found a function that is not there");
    DRV(p_cuModuleUnload(module));

    CUlinkState link;
    void *image;
    std::string part1 = std::string(HEAD) + SCALE, part2 = std::string(HEAD) + TWIST;
    DRV(p_cuLinkCreate(0, nullptr, nullptr, &link));
    DRV(p_cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)part1.c_str(), part1.size() + 1, "one", 0,
                        nullptr, nullptr));
    DRV(p_cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)part2.c_str(), part2.size() + 1, "two", 0,
                        nullptr, nullptr));
    DRV(p_cuLinkComplete(link, &image, &bytes));
    DRV(p_cuModuleLoadData(&module, image));
    DRV(p_cuLinkDestroy(link));
    DRV(p_cuModuleGetFunction(&f, module, "scale"));
    run(f, 3, "linked");

    cudaLibrary_t library;
    cudaKernel_t kernel;
    CHECK(cudaLibraryLoadData(&library, whole.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cudaLibraryGetKernel(&kernel, library, "scale"));
    dev<int> d(std::vector<int>{4, 5});
    int two = 2;
    void *args[] = {&d.p, &two};
    CHECK(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(32), args, 0, 0));
    SYNC();
    expect_equal("library", d.host(), {12 ^ 0x55, 15 ^ 0x55});
    CHECK(cudaLibraryUnload(library));

    char log[2000] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    std::string bad = whole;
    bad.replace(bad.find("mul.lo.s32"), 10, "mul.zz.s32");
    CUresult r = p_cuModuleLoadDataEx(&module, bad.c_str(), 2, options, values);
    if (r != CUDA_ERROR_INVALID_PTX || !log[0])
        fail("bad PTX: %d, log '%s'", (int)r, log);
    return ok("driver: module, link, library, globals, error log");
}
