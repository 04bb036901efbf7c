/* Launches of kernels. */
#include <string.h>

#include "recorder/cuda/engine.h"

/* What the forms of a launch have in common. */
struct launch {
    CUfunction f;
    CUstream stream;
    uint32_t grid[3], block[3], shared;
    void **params, **extra;
    bool per_thread, old; /* old: arguments were set by cuParamSet */
    const char *name;
};

#define FROM_KERNEL(p)                                                                             \
    {                                                                                              \
        .f = (p)->f, .stream = (p)->hStream,                                                       \
        .grid = {(p)->gridDimX, (p)->gridDimY, (p)->gridDimZ},                                     \
        .block = {(p)->blockDimX, (p)->blockDimY, (p)->blockDimZ}, .shared = (p)->sharedMemBytes,  \
        .params = (p)->kernelParams                                                                \
    }

static void from_config(const CUlaunchConfig *c, struct launch *l)
{
    *l = (struct launch){.stream = c->hStream,
                         .grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
                         .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
                         .shared = c->sharedMemBytes};
}

static bool read_call(const struct tb_cuda_call *c, struct launch *l)
{
    switch (c->id) {
    case TB_CUDA_cuLaunchKernel:
    case TB_CUDA_cuLaunchKernel_ptsz: {
        const struct tb_cuLaunchKernel_params *p = c->params;
        *l = (struct launch)FROM_KERNEL(p);
        l->extra = p->extra;
        l->per_thread = c->id == TB_CUDA_cuLaunchKernel_ptsz;
        return true;
    }
    case TB_CUDA_cuLaunchKernelEx:
    case TB_CUDA_cuLaunchKernelEx_ptsz: {
        const struct tb_cuLaunchKernelEx_params *p = c->params;
        *l = (struct launch){.f = NULL};
        if (!p->config)
            return true; /* nobody has checked it yet */
        from_config(p->config, l);
        l->f = p->f;
        l->params = p->kernelParams;
        l->extra = p->extra;
        l->per_thread = c->id == TB_CUDA_cuLaunchKernelEx_ptsz;
        return true;
    }
    case TB_CUDA_cuLaunchCooperativeKernel:
    case TB_CUDA_cuLaunchCooperativeKernel_ptsz: {
        const struct tb_cuLaunchCooperativeKernel_params *p = c->params;
        *l = (struct launch)FROM_KERNEL(p);
        l->per_thread = c->id == TB_CUDA_cuLaunchCooperativeKernel_ptsz;
        return true;
    }
    default:
        return false;
    }
}

/* Launches in the old manner, and one call for several devices: seen, but not looked into. */
static void not_looked_into(const struct tb_cuda_call *c)
{
    tb_cu_cover(1, TB_REC_NO_SEQ, "cuda",
                c->id == TB_CUDA_cuLaunchCooperativeKernelMultiDevice
                    ? "cuLaunchCooperativeKernelMultiDevice"
                    : "cuLaunch",
                "launches by this call are not looked into");
}

/* A seeded share of the launches of each kernel: the same ones in every run. */
static bool sampled(struct tb_cu_kernel *k)
{
    uint64_t n = __atomic_fetch_add(&k->launches, 1, __ATOMIC_RELAXED);
    uint32_t share = tb_cu.config->sample;

    if (!share || share >= 65536)
        return true;
    uint64_t h = tb_cu_mix(tb_cu_mix(tb_cu_mix_text(tb_cu.config->seed, k->symbol), n), 1);
    return (h >> 24 & 65535) < share;
}

static bool chosen(struct tb_cu_kernel *k)
{
    if (k->filtered)
        tb_cu_cover(1, TB_REC_NO_SEQ, "filter", k->name, "launches that --kernel leaves out");
    else if (!sampled(k))
        tb_cu_cover(0, TB_REC_NO_SEQ, "sample", k->name, "launches that --sample leaves out");
    else
        return true;
    return false;
}

/* @early: the launch is not queued yet. */
static struct tb_cu_work *begin(const struct tb_cuda_call *c, bool early)
{
    uint8_t block[TB_CU_PARAM_BYTES];
    struct tb_cu_kernel *k;
    struct tb_cu_work *w;
    struct launch l;

    if (!read_call(c, &l)) {
        not_looked_into(c);
        return NULL;
    }
    k = l.f ? tb_cu_kernel((uint64_t)(uintptr_t)l.f) : NULL;
    if (!k || tb_cu_capturing(l.stream, l.per_thread) || !chosen(k))
        return NULL;
    w = tb_cu_work_new(TB_EV_LAUNCH, k->name, l.stream, l.per_thread);
    if (!w)
        return NULL;
    w->kernel = k;
    memcpy(w->grid, l.grid, sizeof(w->grid));
    memcpy(w->block, l.block, sizeof(w->block));
    w->shared = l.shared;
    if (k->info && (k->info->flags & (TB_KERNEL_INDIRECT_WRITE | TB_KERNEL_UNTRACED_WRITE)))
        tb_cu_here();
    uint32_t bytes = tb_cu_params(k, l.params, l.extra, block);
    if (k->blind || (!bytes && k->param_bytes))
        w->missing = "its parameters could not be read";
    tb_cu_lock();
    w->order = tb_cu_stream(l.stream, l.per_thread);
    (void)tb_cu_stream_tick(w->order);
    tb_cu_kernel_accesses(w, k, block, bytes);
    if (early && tb_cu_learns(k))
        tb_cu_learn_plan(w, block, bytes);
    tb_cu_unlock();
    return w;
}

/* There are kernels to learn from; is this one of them? */
static bool learns(const struct tb_cuda_call *c)
{
    struct launch l;

    if (!__atomic_load_n(&tb_cu.learners, __ATOMIC_RELAXED) || !read_call(c, &l))
        return false;
    struct tb_cu_kernel *k = l.f ? tb_cu_kernel((uint64_t)(uintptr_t)l.f) : NULL;
    return k && tb_cu_learns(k);
}

/* In place of a struct tb_cu_work: the launch was looked at, and nothing is to be recorded. */
#define NOTHING 1u

void tb_cu_launch_enter(struct tb_cuda_call *c)
{
    struct tb_cu_work *w;

    if (c->id == TB_CUDA_cuLaunchHostFunc || c->id == TB_CUDA_cuLaunchHostFunc_ptsz ||
        !tb_cu_recording() || !(tb_cu_at_enter() || learns(c)))
        return;
    w = begin(c, true);
    if (w && tb_cu_tls.may_call)
        tb_cu_work_before(w);
    *c->user = w ? (uint64_t)(uintptr_t)w : NOTHING;
}

void tb_cu_launch_exit(struct tb_cuda_call *c)
{
    struct tb_cu_work *w = (struct tb_cu_work *)(uintptr_t)*c->user;

    if (*c->user == NOTHING || c->id == TB_CUDA_cuLaunchHostFunc ||
        c->id == TB_CUDA_cuLaunchHostFunc_ptsz)
        return;
    if (c->result != CUDA_SUCCESS) {
        tb_cu_work_drop(w);
        return;
    }
    if (!w && !tb_cu_at_enter() && tb_cu_recording())
        w = begin(c, false);
    if (w)
        tb_cu_work_end(w);
}
