/* What kernels may not do with memory: bounds to the byte, bytes never written, the heap of device
 * malloc. */
#include "tests/softgpu/strict/case.h"

#define HEAD ".version 7.0\n.target sm_75\n.address_size 64\n"
#define HEAP                                                                                       \
    ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"                                      \
    ".extern .func free (.param .b64 p);\n"
/* A kernel of (u64 p, u64 q) in %p and %q; %r, %s: 32 and 16 bits; %x: 64 bits; %c: predicates. */
#define KERNEL(name, vars, body)                                                                   \
    ".visible .entry " name "(.param .u64 pp, .param .u64 pq)\n{\n"                                \
    " .reg .u64 %p, %q, %x<8>;\n .reg .u32 %r<8>;\n .reg .u16 %s<8>;\n .reg .pred %c<4>;\n" vars   \
    " ld.param.u64 %p, [pp];\n ld.param.u64 %q, [pq];\n" body " ret;\n}\n"

static void launch(const char *ptx, const char *name, CUdeviceptr p, CUdeviceptr q)
{
    CUresult r = cuLaunchKernel(strict_kernel(ptx, name), 1, 1, 1, 1, 1, 1, 0, NULL,
                                (void *[]){&p, &q}, NULL);

    MAY(r == CUDA_SUCCESS ? cuCtxSynchronize() : r);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static const char bounds[] = HEAD ".file 1 \"store.cu\"\n" KERNEL(
    "store8", "", " mov.u16 %s0, 1;\n .loc 1 42 3\n st.global.u8 [%p], %s0;\n")
    KERNEL("store64", "", " mov.u64 %x0, 1;\n st.global.u64 [%p], %x0;\n")
        KERNEL("generic16", "", " ld.u16 %s0, [%p];\n st.global.u16 [%q], %s0;\n");

static void device_behind(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 100));
    launch(bounds, "store8", p + (bad ? 100 : 99), 0);
}

static void device_straddles(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 100));
    launch(bounds, "store64", p + (bad ? 96 : 88), 0);
}

static void pool_behind(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAllocAsync(&p, 100, NULL));
    launch(bounds, "store8", p + (bad ? 100 : 99), 0);
}

static void managed_behind(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAllocManaged(&p, 100, CU_MEM_ATTACH_GLOBAL));
    launch(bounds, "store8", p + (bad ? 100 : 99), 0);
}

static void pinned_behind(bool bad)
{
    CUdeviceptr q;
    void *p;

    OK(cuMemAllocHost(&p, 100));
    OK(cuMemAlloc(&q, 2));
    launch(bounds, "generic16", (uintptr_t)p + (bad ? 100 : 98), q);
}

static void registered_behind(bool bad)
{
    static uint8_t host[8192];
    CUdeviceptr p;

    OK(cuMemHostRegister(host, 5000, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&p, host, 0));
    launch(bounds, "store8", p + (bad ? 5000 : 4999), 0);
}

static void mapped_behind(bool bad)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    size_t size = 2 << 20;
    CUdeviceptr p;

    prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemAddressReserve(&p, 2 * size, 0, 0, 0));
    OK(cuMemCreate(&handle, size, &prop, 0));
    OK(cuMemMap(p, size, 0, handle, 0));
    OK(cuMemSetAccess(p, size, &access, 1));
    OK(cuMemRelease(handle));
    launch(bounds, "store8", p + size - !bad, 0);
    cuMemUnmap(p, size);
    cuMemAddressFree(p, 2 * size);
}

/* One variable ends where another could begin. */
static const char variables[] =
    HEAD ".global .align 4 .b8 a[12];\n.global .align 4 .b8 b[12];\n" KERNEL(
        "behind", "", " mov.u64 %x0, a;\n st.global.u32 [%x0+12], 1;\n")
        KERNEL("inside", "",
               " mov.u64 %x0, a;\n st.global.u32 [%x0+8], 1;\n st.global.u32 [b], 1;\n");

static void variable_behind(bool bad)
{
    launch(variables, bad ? "behind" : "inside", 0, 0);
}

static const char shared_bounds[] = HEAD KERNEL(
    "store", " .shared .align 4 .b8 s[10];\n",
    " mov.u32 %r0, s;\n cvt.u32.u64 %r1, %p;\n add.u32 %r0, %r0, %r1;\n mov.u16 %s0, 1;\n"
    " st.shared.u8 [%r0], %s0;\n");

static void shared_behind(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 512)); /* global memory has nothing to do with it */
    launch(shared_bounds, "store", bad ? 10 : 9, 0);
}

/* ---- bytes never written --------------------------------------------------------------------- */

static const char unwritten[] = HEAD KERNEL(
    "add", "", " ld.global.u32 %r0, [%p];\n add.u32 %r0, %r0, 1;\n st.global.u32 [%q], %r0;\n")
    KERNEL("branch", "",
           " ld.global.u32 %r0, [%p];\n setp.eq.u32 %c0, %r0, 7;\n @%c0 st.global.u32 [%q], 1;\n")
        KERNEL("point", " .shared .align 4 .b8 s[8];\n",
               " ld.global.u32 %r0, [%p];\n st.shared.u32 [%r0], 1;\n")
            KERNEL("count", "", " red.global.add.u32 [%p], 1;\n")
                KERNEL("exchange", "", " atom.global.exch.b32 %r0, [%p], 1;\n")
    /* a struct of u8, 3 bytes of padding, u32 */
    KERNEL("fields", "", " mov.u16 %s0, 7;\n st.global.u8 [%p], %s0;\n st.global.u32 [%p+4], 9;\n")
        KERNEL("copy", "",
               " ld.global.v2.u32 {%r0, %r1}, [%p];\n mov.b64 %x0, {%r0, %r1};\n"
               " st.global.u64 [%q], %x0;\n")
            KERNEL("use", "",
                   " ld.global.v2.u32 {%r0, %r1}, [%p];\n and.b32 %r2, %r0, 255;\n"
                   " shl.b32 %r3, %r0, 24;\n bfe.u32 %r4, %r0, 0, 8;\n cvt.u16.u32 %s0, %r0;\n"
                   " cvt.u32.u8 %r5, %s0;\n add.u32 %r2, %r2, %r1;\n add.u32 %r3, %r3, %r4;\n"
                   " add.u32 %r2, %r2, %r5;\n add.u32 %r2, %r2, %r3;\n"
                   " st.global.u32 [%q], %r2;\n")
                KERNEL("use_padding", "",
                       " ld.global.v2.u32 {%r0, %r1}, [%p];\n and.b32 %r2, %r0, 511;\n"
                       " add.u32 %r2, %r2, %r1;\n st.global.u32 [%q], %r2;\n")
    /* %q of the two words at %p, the other one may be anything */
    KERNEL("choose", "",
           " ld.global.v2.u32 {%r0, %r1}, [%p];\n setp.eq.u64 %c0, %q, 0;\n"
           " selp.b32 %r2, %r0, %r1, %c0;\n add.u32 %r2, %r2, 1;\n"
           " st.global.u32 [%p], %r2;\n")
    /* every other block leaves an unwritten value in a register that the next one sets anew */
    KERNEL("blocks", "",
           " mov.u32 %r3, %ctaid.x;\n and.b32 %r3, %r3, 1;\n setp.eq.u32 %c0, %r3, 0;\n"
           " mov.u32 %r0, 5;\n @%c0 ld.global.u32 %r0, [%p];\n ld.global.u32 %r1, [%p];\n"
           " @%c0 ret;\n setp.eq.u64 %c1, %q, 0;\n selp.u32 %r2, %r0, %r1, %c1;\n"
           " add.u32 %r2, %r2, 1;\n st.global.u32 [%p+4], %r2;\n")
    /* compared in any case, and of use only where %q says so */
    KERNEL("speculate", "",
           " ld.global.u32 %r0, [%p+4];\n add.u32 %r0, %r0, 5;\n setp.gt.u32 %c0, %r0, 4;\n"
           " setp.ne.u64 %c1, %q, 0;\n and.pred %c2, %c0, %c1;\n selp.u32 %r1, 1, 2, %c2;\n"
           " setp.lt.and.u32 %c3, %r0, 7, %c1;\n @%c3 st.global.u32 [%p], 3;\n"
           " st.global.u32 [%p], %r1;\n")
        KERNEL("shared", " .shared .align 4 .b8 s[8];\n",
               " cvt.u32.u64 %r1, %p;\n mov.u32 %r0, s;\n st.shared.u32 [%r0], 1;\n"
               " add.u32 %r0, %r0, %r1;\n ld.shared.u32 %r2, [%r0];\n add.u32 %r2, %r2, 1;\n"
               " st.global.u32 [%q], %r2;\n")
    /* 8 of 16 bytes exist: cp.async fills up with zeros */
    KERNEL("async", " .shared .align 16 .b8 s[16];\n",
           " mov.u32 %r0, s;\n cp.async.ca.shared.global [%r0], [%p], 16, 8;\n"
           " cp.async.wait_all;\n ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r0];\n"
           " add.u32 %r1, %r1, %r2;\n add.u32 %r3, %r3, %r4;\n add.u32 %r1, %r1, %r3;\n"
           " st.global.u32 [%q], %r1;\n");

static void fill_and_launch(const char *kernel, bool bad)
{
    CUdeviceptr p, q;

    OK(cuMemAlloc(&p, 64));
    OK(cuMemAlloc(&q, 64));
    if (!bad)
        OK(cuMemsetD8(p, 0, 64));
    launch(unwritten, kernel, p, q);
}

static void computes(bool bad)
{
    fill_and_launch("add", bad);
}

static void branches(bool bad)
{
    fill_and_launch("branch", bad);
}

/* Two kernels, each a finding of its own. */
static void computes_and_branches(bool bad)
{
    fill_and_launch("add", bad);
    if (!strict_failed)
        fill_and_launch("branch", bad);
}

/* What "add" makes of unwritten memory is used by "branch": written it is. */
static void computes_in_turn(bool bad)
{
    CUdeviceptr p, q;

    OK(cuMemAlloc(&p, 64));
    OK(cuMemAlloc(&q, 64));
    if (!bad)
        OK(cuMemsetD8(p, 0, 64));
    launch(unwritten, "add", p, q);
    if (!strict_failed)
        launch(unwritten, "branch", q, p);
}

static void counts(bool bad)
{
    fill_and_launch("count", bad);
}

static void points(bool bad)
{
    fill_and_launch("point", bad);
}

static void exchange_writes(bool bad)
{
    CUdeviceptr p, q;

    OK(cuMemAlloc(&p, 8));
    OK(cuMemAlloc(&q, 8));
    launch(unwritten, "exchange", p, 0);
    launch(unwritten, "add", p + (bad ? 4 : 0), q);
}

/* Structs are copied with their padding, by kernels and calls; whoever uses that has it wrong. */
static void padding(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 64));
    launch(unwritten, "fields", p, 0);
    launch(unwritten, "copy", p, p + 8);
    OK(cuMemcpyDtoD(p + 16, p + 8, 8));
    launch(unwritten, bad ? "use_padding" : "use", p + 16, p + 32);
}

static void chosen(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 8));
    OK(cuMemsetD8(p, 0, 4));
    launch(unwritten, "choose", p, bad);
}

static void next_block(bool bad)
{
    CUdeviceptr p, q = bad;
    CUresult r;

    OK(cuMemAlloc(&p, 8));
    r = cuLaunchKernel(strict_kernel(unwritten, "blocks"), 8, 1, 1, 1, 1, 1, 0, NULL,
                       (void *[]){&p, &q}, NULL);
    MAY(r == CUDA_SUCCESS ? cuCtxSynchronize() : r);
}

static void speculated(bool bad)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 8));
    launch(unwritten, "speculate", p, bad);
}

static void shared_unwritten(bool bad)
{
    CUdeviceptr q;

    OK(cuMemAlloc(&q, 4));
    launch(unwritten, "shared", bad ? 4 : 0, q);
}

static void async_copy(bool bad)
{
    CUdeviceptr p, q;

    OK(cuMemAlloc(&p, 16));
    OK(cuMemAlloc(&q, 4));
    OK(cuMemsetD8(p, 0, bad ? 4 : 8));
    launch(unwritten, "async", p, q);
}

static void copied_then_used(bool bad)
{
    CUdeviceptr p, q;

    OK(cuMemAlloc(&p, 64));
    OK(cuMemAlloc(&q, 64));
    OK(cuMemsetD8(p, 0, 4));
    OK(cuMemcpyDtoD(q, p, 8));
    launch(unwritten, "add", q + (bad ? 4 : 0), p);
}

static void pool_unwritten(bool bad)
{
    CUdeviceptr p, q;

    OK(cuMemAllocAsync(&p, 64, NULL));
    OK(cuMemAllocAsync(&q, 64, NULL));
    if (!bad)
        OK(cuMemsetD8Async(p, 0, 64, NULL));
    launch(unwritten, "add", p, q);
    cuMemFreeAsync(p, NULL);
    cuMemFreeAsync(q, NULL);
}

static void told_to_host(bool bad)
{
    CUdeviceptr p;
    char host[64];

    OK(cuMemAlloc(&p, 64));
    OK(cuMemsetD8(p, 0, 60));
    OK(cuMemcpyDtoH(host, p, bad ? 61 : 60));
}

/* ---- device malloc --------------------------------------------------------------------------- */

#define CALL_MALLOC(bytes)                                                                         \
    " { .param .b64 n; .param .b64 r; st.param.b64 [n], " bytes ";\n"                              \
    " call.uni (r), malloc, (n);\n ld.param.b64 %x0, [r]; }\n"
#define CALL_FREE " { .param .b64 a; st.param.b64 [a], %x0;\n call.uni free, (a); }\n"

static const char heap[] = HEAD HEAP KERNEL(
    "behind", "",
    CALL_MALLOC("10") " add.u64 %x1, %x0, %p;\n mov.u16 %s0, 1;\n st.u8 [%x1], %s0;\n" CALL_FREE)
    KERNEL("early", "", CALL_MALLOC("64") CALL_FREE " st.u32 [%x0], 1;\n")
        KERNEL("late", "", CALL_MALLOC("64") " st.u32 [%x0], 1;\n" CALL_FREE)
            KERNEL("unwritten", "",
                   CALL_MALLOC("64") " st.u32 [%x0], 1;\n add.u64 %x1, %x0, %p;\n"
                                     " ld.u32 %r0, [%x1];\n add.u32 %r0, %r0, 1;\n st.global.u32 "
                                     "[%q], %r0;\n" CALL_FREE);

static void heap_behind(bool bad)
{
    launch(heap, "behind", bad ? 10 : 9, 0);
}

static void heap_freed(bool bad)
{
    launch(heap, bad ? "early" : "late", 0, 0);
}

static void heap_unwritten(bool bad)
{
    CUdeviceptr q;

    OK(cuMemAlloc(&q, 4));
    launch(heap, "unwritten", bad ? 4 : 0, q);
}

static const struct strict_case cases[] = {
    {"device_behind", "out-of-bounds", "error", device_behind},
    {"device_straddles", "out-of-bounds", "error", device_straddles},
    {"pool_behind", "out-of-bounds", "error", pool_behind},
    {"managed_behind", "out-of-bounds", "error", managed_behind},
    {"pinned_behind", "out-of-bounds", "error", pinned_behind},
    {"registered_behind", "out-of-bounds", "error", registered_behind},
    /* what the context held cannot be given back once it is dead */
    {"mapped_behind", "out-of-bounds,leak,leaked-handle", "error", mapped_behind},
    {"variable_behind", "out-of-bounds", "error", variable_behind},
    {"shared_behind", "out-of-bounds", "error", shared_behind},
    {"computes", "uninitialised-read", "error", computes},
    {"branches", "uninitialised-read", "error", branches},
    {"computes_and_branches", "uninitialised-read", "error", computes_and_branches},
    {"computes_in_turn", "uninitialised-read", "error", computes_in_turn},
    {"points", "uninitialised-read", "error", points},
    {"counts", "uninitialised-read", "error", counts},
    {"exchange_writes", "uninitialised-read", "error", exchange_writes},
    {"padding", "uninitialised-read", "error", padding},
    {"chosen", "uninitialised-read", "error", chosen},
    {"next_block", "uninitialised-read", "error", next_block},
    {"speculated", "uninitialised-read", "error", speculated},
    {"shared_unwritten", "uninitialised-read", "error", shared_unwritten},
    {"async_copy", "uninitialised-read", "error", async_copy},
    {"copied_then_used", "uninitialised-read", "error", copied_then_used},
    {"pool_unwritten", "uninitialised-read", "error", pool_unwritten},
    {"told_to_host", "uninitialised-read", "-", told_to_host},
    {"heap_behind", "out-of-bounds", "error", heap_behind},
    {"heap_freed", "use-after-free", "error", heap_freed},
    {"heap_unwritten", "uninitialised-read", "error", heap_unwritten},
};

int main(int argc, char **argv)
{
    return strict_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
