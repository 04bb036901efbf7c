/* Races inside kernels: SOFTGPU_STRICT_RACES=1. Good twins are the patterns that programs rely on.
 */
#include "tests/softgpu/strict/case.h"

#define HEAD ".version 7.8\n.target sm_90\n.address_size 64\n"
/* A kernel of (u64 p); %r0 thread, %r1 block, %r2 place of the thread's word of s[], 64 words. */
#define KERNEL(name, body)                                                                         \
    ".visible .entry " name "(.param .u64 pp)\n{\n"                                                \
    " .reg .u64 %p, %x<8>;\n .reg .u32 %r<16>;\n .reg .u16 %s<4>;\n .reg .pred %c<8>;\n"           \
    " .shared .align 16 .b8 s[256];\n .shared .align 8 .b8 bar[8];\n"                              \
    " ld.param.u64 %p, [pp];\n mov.u32 %r0, %tid.x;\n mov.u32 %r1, %ctaid.x;\n"                    \
    " shl.b32 %r2, %r0, 2;\n mov.u32 %r3, s;\n add.u32 %r2, %r2, %r3;\n" body " ret;\n}\n"

struct shape {
    unsigned blocks, threads;
    bool cooperative, cluster;
};

static void launch(const char *ptx, const char *name, struct shape shape)
{
    CUfunction f = strict_kernel(ptx, name);
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    CUlaunchConfig config = {.gridDimX = shape.blocks, .blockDimX = shape.threads};
    CUdeviceptr p;
    CUresult r;

    OK(cuMemAlloc(&p, 4096));
    OK(cuMemsetD8(p, 0, 4096));
    attr.value.clusterDim.x = shape.blocks;
    attr.value.clusterDim.y = attr.value.clusterDim.z = 1;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.attrs = &attr;
    config.numAttrs = shape.cluster;
    if (shape.cooperative)
        r = cuLaunchCooperativeKernel(f, shape.blocks, 1, 1, shape.threads, 1, 1, 0, NULL,
                                      (void *[]){&p});
    else
        r = cuLaunchKernelEx(&config, f, (void *[]){&p}, NULL);
    MAY(r == CUDA_SUCCESS ? cuCtxSynchronize() : r);
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* A tree over 64 threads: warps first wait for the block, then lanes for their warp. */
#define STEP(stride, wait)                                                                         \
    " setp.lt.u32 %c0, %r0, " #stride ";\n @%c0 ld.shared.u32 %r4, [%r2];\n"                       \
    " @%c0 ld.shared.u32 %r5, [%r2+4*" #stride "];\n @%c0 add.u32 %r4, %r4, %r5;\n"                \
    " @%c0 st.shared.u32 [%r2], %r4;\n " wait ";\n"
#define LANES "bar.warp.sync -1"
#define TREE(first, second) /* of words that were written before: the race is all that is wrong */ \
    " st.shared.u32 [%r2], 0;\n bar.sync 0;\n st.shared.u32 [%r2], %r0;\n " first                  \
    ";\n" STEP(32, second) STEP(16, LANES)                                                         \
        STEP(8, LANES) " setp.eq.u32 %c0, %r0, 0;\n @%c0 ld.shared.u32 %r4, [%r2];\n"              \
                       " @%c0 st.global.u32 [%p], %r4;\n"
#define WARP_TREE(wait)                                                                            \
    " st.shared.u32 [%r2], %r0;\n " wait ";\n" STEP(16, wait) STEP(8, wait) STEP(4, wait)

static const char shared[] = HEAD KERNEL("good", TREE("bar.sync 0", "bar.sync 0"))
    KERNEL("no_barrier", TREE("bar.warp.sync -1", "bar.sync 0")) KERNEL("warp", WARP_TREE(LANES))
        KERNEL("no_warp_barrier", WARP_TREE("mov.u32 %r9, 0"))
    /* neighbours through a shuffle: every .sync instruction orders lanes */
    KERNEL("shuffle", " st.shared.u32 [%r2], %r0;\n shfl.sync.bfly.b32 %r4, %r0, 1, 31, -1;\n"
                      " xor.b32 %r5, %r2, 4;\n ld.shared.u32 %r4, [%r5];\n")
        KERNEL("no_shuffle", " st.shared.u32 [%r2], %r0;\n xor.b32 %r5, %r2, 4;\n"
                             " ld.shared.u32 %r4, [%r5];\n")
    /* bytes of one word belong to four threads */
    KERNEL("bytes", " add.u32 %r4, %r3, %r0;\n cvt.u16.u32 %s0, %r0;\n st.shared.u8 [%r4], %s0;\n"
                    " ld.shared.u8 %s1, [%r4];\n")
        KERNEL("same_bytes", " shr.u32 %r5, %r0, 1;\n add.u32 %r4, %r3, %r5;\n"
                             " cvt.u16.u32 %s0, %r0;\n st.shared.u8 [%r4], %s0;\n")
    /* warp 0 fills for warp 1: barrier 1 says full */
    KERNEL("named", " setp.ge.u32 %c0, %r0, 32;\n @%c0 bra eat;\n st.shared.u32 [%r2], %r0;\n"
                    " bar.arrive 1, 64;\n ret;\neat:\n bar.sync 1, 64;\n"
                    " ld.shared.u32 %r4, [%r2+-128];\n")
        KERNEL("other_named", " setp.ge.u32 %c0, %r0, 32;\n @%c0 bra eat;\n bar.arrive 1, 64;\n"
                              " st.shared.u32 [%r2], %r0;\n ret;\neat:\n bar.sync 1, 64;\n"
                              " ld.shared.u32 %r4, [%r2+-128];\n")
    /* warp 0 fills, every lane of it arrives at an mbarrier that warp 1 waits for */
    KERNEL("mbarrier", " mov.u32 %r6, bar;\n setp.eq.u32 %c0, %r0, 0;\n"
                       " @%c0 mbarrier.init.shared.b64 [%r6], 32;\n bar.sync 0;\n"
                       " setp.ge.u32 %c0, %r0, 32;\n @%c0 bra eat;\n st.shared.u32 [%r2], %r0;\n"
                       " mbarrier.arrive.shared.b64 %x0, [%r6];\n ret;\neat:\n"
                       " mbarrier.try_wait.parity.shared.b64 %c1, [%r6], 0;\n @!%c1 bra eat;\n"
                       " ld.shared.u32 %r4, [%r2+-128];\n")
        KERNEL("early_arrival",
               " mov.u32 %r6, bar;\n setp.eq.u32 %c0, %r0, 0;\n"
               " @%c0 mbarrier.init.shared.b64 [%r6], 32;\n bar.sync 0;\n"
               " setp.ge.u32 %c0, %r0, 32;\n @%c0 bra eat;\n"
               " mbarrier.arrive.shared.b64 %x0, [%r6];\n"
               " st.shared.u32 [%r2], %r0;\n ret;\neat:\n"
               " mbarrier.try_wait.parity.shared.b64 %c1, [%r6], 0;\n @!%c1 bra eat;\n"
               " ld.shared.u32 %r4, [%r2+-128];\n")
    /* cp.async: the copying thread waits, then the block does */
    KERNEL("async", " mul.wide.u32 %x0, %r0, 4;\n add.u64 %x0, %x0, %p;\n"
                    " cp.async.ca.shared.global [%r2], [%x0], 4;\n cp.async.wait_all;\n"
                    " bar.sync 0;\n xor.b32 %r5, %r2, 128;\n ld.shared.u32 %r4, [%r5];\n")
        KERNEL("async_alone", " mul.wide.u32 %x0, %r0, 4;\n add.u64 %x0, %x0, %p;\n"
                              " cp.async.ca.shared.global [%r2], [%x0], 4;\n cp.async.wait_all;\n"
                              " xor.b32 %r5, %r2, 128;\n ld.shared.u32 %r4, [%r5];\n")
            KERNEL("counts",
                   " and.b32 %r4, %r0, 7;\n shl.b32 %r4, %r4, 2;\n add.u32 %r4, %r4, %r3;\n"
                   " st.shared.u32 [%r2], 0;\n bar.sync 0;\n red.shared.add.u32 [%r4], 1;\n"
                   " bar.sync 0;\n ld.shared.u32 %r5, [%r2];\n")
                KERNEL("plain_counts",
                       " and.b32 %r4, %r0, 7;\n shl.b32 %r4, %r4, 2;\n add.u32 %r4, %r4, %r3;\n"
                       " st.shared.u32 [%r2], 0;\n bar.sync 0;\n ld.shared.u32 %r5, [%r4];\n"
                       " add.u32 %r5, %r5, 1;\n st.shared.u32 [%r4], %r5;\n");

static const struct shape block = {.blocks = 1, .threads = 64};

static void reduction(bool bad)
{
    launch(shared, bad ? "no_barrier" : "good", block);
}

static void warp_reduction(bool bad)
{
    launch(shared, bad ? "no_warp_barrier" : "warp", (struct shape){.blocks = 1, .threads = 32});
}

static void shuffles(bool bad)
{
    launch(shared, bad ? "no_shuffle" : "shuffle", block);
}

static void bytes_of_words(bool bad)
{
    launch(shared, bad ? "same_bytes" : "bytes", block);
}

static void named_barrier(bool bad)
{
    launch(shared, bad ? "other_named" : "named", block);
}

static void mbarrier(bool bad)
{
    launch(shared, bad ? "early_arrival" : "mbarrier", block);
}

static void async_copy(bool bad)
{
    launch(shared, bad ? "async_alone" : "async", block);
}

static void histogram(bool bad)
{
    launch(shared, bad ? "plain_counts" : "counts", block);
}

/* ---- global memory --------------------------------------------------------------------------- */

/* %x0: the place of block %r1 - 1's pair of words (value, flag); %x1: the own one */
#define PAIRS                                                                                      \
    " mul.wide.u32 %x1, %r1, 64;\n add.u64 %x1, %x1, %p;\n sub.u64 %x0, %x1, 64;\n"                \
    " setp.eq.u32 %c0, %r1, 0;\n @%c0 mov.u64 %x0, %x1;\n"

static const char global[] = HEAD
    /* each block's own word, or one word of all */
    KERNEL("own",
           " mul.wide.u32 %x0, %r1, 4;\n add.u64 %x0, %x0, %p;\n st.global.u32 [%x0], %r1;\n")
        KERNEL("one", " st.global.u32 [%p], %r1;\n") KERNEL("equal", " st.global.u32 [%p], 1;\n")
            KERNEL("atomic", " red.global.add.u32 [%p], %r1;\n")
    /* look-back: wait for the flag of the block before, read its value, give one's own */
    KERNEL("chain",
           PAIRS " @%c0 bra own;\nspin:\n ld.volatile.global.u32 %r4, [%x0+4];\n"
                 " setp.eq.u32 %c1, %r4, 0;\n @%c1 bra spin;\n membar.gl;\n"
                 " ld.global.u32 %r5, [%x0];\nown:\n st.global.u32 [%x1], %r1;\n membar.gl;\n"
                 " st.volatile.global.u32 [%x1+4], 1;\n")
        KERNEL("late_value",
               PAIRS " @%c0 bra own;\nspin:\n ld.volatile.global.u32 %r4, [%x0+4];\n"
                     " setp.eq.u32 %c1, %r4, 0;\n @%c1 bra spin;\n membar.gl;\n"
                     " ld.global.u32 %r5, [%x0];\nown:\n membar.gl;\n"
                     " st.volatile.global.u32 [%x1+4], 1;\n st.global.u32 [%x1], %r1;\n")
    /* the last block to come sums up what all have written */
    KERNEL("last", PAIRS " st.global.u32 [%x1], %r0;\n membar.gl;\n bar.sync 0;\n"
                         " setp.ne.u32 %c1, %r0, 0;\n @%c1 ret;\n"
                         " atom.global.add.u32 %r4, [%p+2048], 1;\n setp.ne.u32 %c2, %r4, 3;\n"
                         " @%c2 ret;\n membar.gl;\n ld.global.u32 %r5, [%p];\n"
                         " ld.global.u32 %r5, [%p+64];\n ld.global.u32 %r5, [%p+128];\n"
                         " ld.global.u32 %r5, [%p+192];\n")
        KERNEL("any", PAIRS " st.global.u32 [%x1], %r1;\n ld.global.u32 %r5, [%x0];\n")
    /* a grid that waits for itself: each block counts, then spins */
    KERNEL("grid",
           PAIRS " st.global.u32 [%x1], %r1;\n bar.sync 0;\n setp.ne.u32 %c1, %r0, 0;\n"
                 " @%c1 bra joined;\n membar.gl;\n red.global.add.u32 [%p+2048], 1;\nspin:\n"
                 " ld.acquire.gpu.global.u32 %r4, [%p+2048];\n setp.ne.u32 %c2, %r4, 4;\n"
                 " @%c2 bra spin;\njoined:\n bar.sync 0;\n ld.global.u32 %r5, [%x0];\n")
        KERNEL("half_grid",
               PAIRS " st.global.u32 [%x1], %r1;\n bar.sync 0;\n ld.global.u32 %r5, [%x0];\n")
    /* blocks of a cluster */
    KERNEL("cluster", PAIRS " st.global.u32 [%x1], %r1;\n barrier.cluster.arrive.aligned;\n"
                            " barrier.cluster.wait.aligned;\n ld.global.u32 %r5, [%x0];\n");

static const struct shape four = {.blocks = 4, .threads = 1};
static const struct shape together = {.blocks = 4, .threads = 1, .cooperative = true};

static void one_word(bool bad)
{
    launch(global, bad ? "one" : "own", four);
}

static void equal_or_atomic(bool bad)
{
    launch(global, bad ? "one" : "equal", four);
    if (!bad)
        launch(global, "atomic", four);
}

static void look_back(bool bad)
{
    launch(global, bad ? "late_value" : "chain", four);
}

static void last_block(bool bad)
{
    launch(global, bad ? "any" : "last", four);
}

static void grid_sync(bool bad)
{
    launch(global, bad ? "half_grid" : "grid", together);
}

static void cluster(bool bad)
{
    launch(global, bad ? "any" : "cluster",
           (struct shape){.blocks = 4, .threads = 1, .cluster = true});
}

static const struct strict_case cases[] = {
    {"reduction", "shared-race", "error", reduction},
    {"warp_reduction", "shared-race", "error", warp_reduction},
    {"shuffles", "shared-race", "error", shuffles},
    {"bytes_of_words", "shared-race", "-", bytes_of_words},
    {"named_barrier", "shared-race", "error", named_barrier},
    {"mbarrier", "shared-race", "error", mbarrier},
    {"async_copy", "shared-race", "error", async_copy},
    {"histogram", "shared-race", "error", histogram},
    {"one_word", "global-race", "error", one_word},
    {"equal_or_atomic", "global-race", "error", equal_or_atomic},
    {"look_back", "global-race", "error", look_back},
    {"last_block", "global-race", "error", last_block},
    {"grid_sync", "global-race", "error", grid_sync},
    {"cluster", "global-race", "error", cluster},
};

int main(int argc, char **argv)
{
    const char *mode = getenv("SOFTGPU_STRICT");

    setenv("SOFTGPU_ARCH", "sm_90", 1);
    if (mode && strcmp(mode, "off") != 0)
        setenv("SOFTGPU_STRICT_RACES", "1", 1);
    return strict_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
