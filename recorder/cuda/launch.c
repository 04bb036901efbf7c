/* Launches of kernels. */
#include <string.h>

#include "recorder/cuda/engine.h"

/* What the forms of a launch have in common. */
struct launch {
    CUfunction f;
    CUstream stream;
    struct tb_cu_shape shape;
    void **params, **extra;
    bool per_thread, old; /* old: arguments were set by cuParamSet */
    const char *name;
};

#define FROM_KERNEL(p)                                                                             \
    {                                                                                              \
        .f = (p)->f, .stream = (p)->hStream,                                                       \
        .shape = {{(p)->gridDimX, (p)->gridDimY, (p)->gridDimZ},                                   \
                  {(p)->blockDimX, (p)->blockDimY, (p)->blockDimZ},                                \
                  (p)->sharedMemBytes},                                                            \
        .params = (p)->kernelParams                                                                \
    }

static void from_config(const CUlaunchConfig *c, struct launch *l)
{
    *l = (struct launch){.stream = c->hStream,
                         .shape = {{c->gridDimX, c->gridDimY, c->gridDimZ},
                                   {c->blockDimX, c->blockDimY, c->blockDimZ},
                                   c->sharedMemBytes}};
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
tb_cold static void not_looked_into(const struct tb_cuda_call *c)
{
    tb_cu_cover(1, TB_REC_NO_SEQ, "cuda",
                c->id == TB_CUDA_cuLaunchCooperativeKernelMultiDevice
                    ? "cuLaunchCooperativeKernelMultiDevice"
                    : "cuLaunch",
                "launches by this call are not looked into");
}

/* A seeded share of the launches of each kernel: the same ones in every run, whichever thread comes
 * first. So each thread counts its own; their numbers are chance, too. */
static bool sampled(struct tb_cu_kernel *k)
{
    uint32_t share = tb_cu.config->sample;

    (void)__atomic_fetch_add(&k->launches, 1, __ATOMIC_RELAXED);
    if (!share || share >= 65536)
        return true;
    struct tb_rec_thread *t = tb_cu.api->self();
    uint64_t key = tb_cu_mix_text(0, k->symbol);
    uint64_t n = t ? tb_cu.api->count(t, key) : 0;
    uint64_t h = tb_cu_mix(tb_cu_mix(tb_cu_mix_text(tb_cu.config->seed, k->symbol), n), 1);
    return (h >> 24 & 65535) < share;
}

static bool chosen(struct tb_cu_kernel *k)
{
    if (k->filtered)
        tb_cu_cover(1, TB_REC_NO_SEQ, "filter", k->name, "launches that --kernel leaves out");
    else if (!sampled(k))
        tb_cu_cover(1, TB_REC_NO_SEQ, "sample", k->name, "launches that --sample leaves out");
    else
        return true;
    return false;
}

bool tb_cu_chosen(struct tb_cu_kernel *k)
{
    return chosen(k);
}

/* What a launch by a plan needs. With DEFER the work waits, and its thread may end meanwhile. */
static void may_plan(struct tb_cu_asked *asked)
{
    if (tb_cu.config->flags & TB_CFG_DEFER)
        return;
    asked->thread = tb_cu.api->self();
    asked->ctx = asked->thread ? tb_cu_ctx() : NULL;
    if (!asked->ctx)
        return;
    asked->ring = tb_cu.api->ring(asked->thread);
    tb_cu_await_slots(asked->ctx, TB_CU_PLANNED);
}

/* Its stream may be of a context that is not the current one. */
static void look_away(struct tb_cu_work *w, struct tb_cu_asked *asked)
{
    CUcontext context = w->order->context;

    if (!context || !asked->ctx || asked->ctx->handle == context)
        return;
    w->away = true;
    asked->ctx = tb_cu_ctx_ready(context);
}

/* Under the lock. */
static void describe(struct tb_cu_work *w, struct tb_cu_kernel *k, const struct launch *l,
                     struct tb_cu_asked *asked)
{
    w->kernel = k;
    __atomic_store_n(&tb_cu.last_kernel, k->name, __ATOMIC_RELAXED);
    w->shape = l->shape;
    if (k->blind || (!asked->bytes && k->param_bytes))
        w->missing = "its parameters could not be read";
    w->order = tb_cu_stream(l->stream, l->per_thread);
    (void)tb_cu_stream_tick(w->order);
    if (tb_unlikely(w->order != &tb_cu.legacy))
        look_away(w, asked);
    if (tb_likely(!w->missing && tb_cu_plan_use(w, asked)))
        return;
    tb_cu_kernel_accesses(w, k, asked->block, asked->bytes);
    if (tb_unlikely(tb_cu_has_shared()))
        tb_cu_add_host_writes(w);
    if (asked->early && k->learns)
        tb_cu_learn_plan(w, asked->block, asked->bytes);
    tb_cu_settle(w);
    tb_cu_plan_keep(w, asked);
    tb_cu_split_uses(w, true);
}

static struct tb_cu_kernel *kernel_of(const struct launch *l)
{
    return tb_likely(l->f != NULL) ? tb_cu_kernel(HANDLE(l->f)) : NULL;
}

/* @early: the launch is not queued yet. */
static struct tb_cu_work *begin(struct tb_cu_kernel *k, const struct launch *l, bool early)
{
    uint8_t block[TB_CU_PARAM_ROOM];
    struct tb_cu_work *w;

    if (!k || tb_cu_capturing(l->stream, l->per_thread) || !chosen(k))
        return NULL;
    struct tb_cu_asked asked = {block, tb_cu_params(k, l->params, l->extra, block), .early = early};
    if (!tb_cu_at_enter() && tb_cu_tls.may_call)
        may_plan(&asked); /* which asks for the context */
    else
        tb_cu_where();
    if (tb_unlikely(__atomic_load_n(&tb_cu.devices, __ATOMIC_RELAXED)))
        tb_cu_kernel_globals(k);
    tb_cu_lock();
    w = tb_cu_work_take(TB_EV_LAUNCH, k->name, l->stream, l->per_thread);
    if (w)
        describe(w, k, l, &asked);
    tb_cu_unlock();
    return w;
}

/* In place of a struct tb_cu_work: the launch was looked at, and nothing is to be recorded. */
#define NOTHING 1u

static bool is_host_function(const struct tb_cuda_call *c)
{
    return c->id == TB_CUDA_cuLaunchHostFunc || c->id == TB_CUDA_cuLaunchHostFunc_ptsz;
}

tb_cold static void delay(const struct tb_cuda_call *c)
{
    const struct tb_cuLaunchHostFunc_params *p = c->params;
    struct launch l;

    if (is_host_function(c))
        tb_cu_delay(p->hStream, c->id == TB_CUDA_cuLaunchHostFunc_ptsz);
    else if (read_call(c, &l))
        tb_cu_delay(l.stream, l.per_thread);
}

/* Only called where there are launches that must be looked at before they are queued. */
void tb_cu_launch_enter(struct tb_cuda_call *c)
{
    struct launch l;

    if (tb_cu_stresses())
        delay(c);
    if (is_host_function(c) || !tb_cu_recording())
        return;
    if (!read_call(c, &l)) {
        not_looked_into(c);
        *c->user = NOTHING;
        return;
    }
    struct tb_cu_kernel *k = kernel_of(&l);
    if (!tb_cu_at_enter() && !tb_cu_has_shared() && !(k && k->learns))
        return;
    struct tb_cu_work *w = begin(k, &l, true);
    if (w && !w->again && tb_cu_tls.may_call)
        tb_cu_work_before(w);
    *c->user = w ? HANDLE(w) : NOTHING;
}

static struct tb_cu_work *begin_late(const struct tb_cuda_call *c)
{
    struct launch l;

    if (tb_likely(read_call(c, &l)))
        return begin(kernel_of(&l), &l, false);
    not_looked_into(c);
    return NULL;
}

/* Its work is no event, perhaps, but what it writes is a part of the step's state. */
tb_cold static void mark(const struct tb_cuda_call *c)
{
    struct launch l;

    if (c->result != CUDA_SUCCESS || is_host_function(c) || !read_call(c, &l) || !l.f ||
        !tb_cu_mark_stream(l.stream, l.per_thread))
        return;
    struct tb_cu_kernel *k = kernel_of(&l);
    if (k)
        tb_cu_mark_launch(k, l.stream, l.per_thread, l.params, l.extra);
}

void tb_cu_launch_exit(struct tb_cuda_call *c)
{
    struct tb_cu_work *w = (struct tb_cu_work *)(uintptr_t)*c->user;

    if (tb_unlikely(tb_cu_marks()))
        mark(c);
    if (is_host_function(c) && c->result == CUDA_SUCCESS)
        tb_cu_host_function();
    if (*c->user == NOTHING || is_host_function(c))
        return;
    if (c->result != CUDA_SUCCESS) {
        tb_cu_work_drop(w);
        return;
    }
    if (!w && !tb_cu_at_enter() && tb_cu_recording())
        w = begin_late(c);
    if (w && w->again)
        tb_cu_again_end(w);
    else if (w)
        tb_cu_work_end(w);
}
