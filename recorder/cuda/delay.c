/*
 * run --stress: in front of some of the job's works a kernel that does nothing for a while, so that
 * streams which nothing orders meet each other in other orders than they usually do. Which works
 * and how long follows from a seed. Never in a stream that is being captured.
 */
#include "recorder/cuda/engine.h"

#define MOST 16u /* such kernels at once: a device in software counts kernels, not time */
#define CYCLES (16u * 1024u) /* of one, at most; sixteen are about 150 us */

/* It ends by the clock, and after a number of rounds where the clock is slow. */
static const char image[] =
    ".version 6.3\n.target sm_70\n.address_size 64\n"
    ".visible .entry twinbit_delay(.param .u64 cycles) {\n"
    " .reg .pred %p; .reg .pred %q; .reg .b32 %r; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [cycles]; mov.u64 %d1, %clock64; mov.u32 %r, 0;\n"
    "again:\n"
    " mov.u64 %d2, %clock64; sub.u64 %d2, %d2, %d1; add.u32 %r, %r, 1;\n"
    " setp.ge.u64 %p, %d2, %d0; @%p ret; setp.lt.u32 %q, %r, 4096; @%q bra again; ret; }\n";

void tb_cu_delay_load(struct tb_cu_ctx *c)
{
    const struct tb_cu_driver *d = &tb_cu.driver;

    if (!tb_cu_stresses() || d->cuModuleLoadData(&c->delays, image) != CUDA_SUCCESS)
        return;
    if (d->cuModuleGetFunction(&c->delay, c->delays, "twinbit_delay") != CUDA_SUCCESS)
        c->delay = NULL;
}

void tb_cu_delay_unload(struct tb_cu_ctx *c)
{
    if (c->delays && tb_cu.driver.cuModuleUnload)
        (void)tb_cu.driver.cuModuleUnload(c->delays);
    c->delays = NULL;
    c->delay = NULL;
}

static uint64_t mix(uint64_t n, uint64_t what)
{
    return tb_cu_mix(tb_cu_mix(tb_cu.config->stress, n), what) >> 16;
}

static uint64_t draw(void)
{
    return mix(__atomic_fetch_add(&tb_cu.delays, 1, __ATOMIC_RELAXED), 1);
}

/* In each run some streams are slow, some are not delayed at all, and some now and then. */
static bool chosen(const struct tb_cu_stream *s, uint64_t some)
{
    uint64_t pace = mix(s ? s->ordinal : 0, 2) % 3;

    return pace == 2 || (pace == 1 && some % 2 == 0);
}

static void launch(CUstream stream, bool per_thread, uint64_t n)
{
    const struct tb_cu_ctx *c = tb_cu_ctx();

    while (c && c->delay && n-- > 0) {
        uint64_t cycles = draw() % CYCLES;
        if (!tb_cu_launch(c->delay, 1, 1, stream, per_thread, &cycles))
            return; /* the call of the job's will say why */
    }
}

/* With one stream there is nothing that others could come before. */
void tb_cu_delay(CUstream stream, bool per_thread)
{
    uint64_t some = draw();
    struct tb_cu_visit v;

    if (!tb_cu_tls.may_call || tb_cu_capturing(stream, per_thread))
        return;
    tb_cu_where();
    tb_cu_lock();
    const struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    CUcontext context = s ? s->context : NULL;
    bool delays = tb_cu.stream_indices > 1 && chosen(s, some);
    tb_cu_unlock();
    if (!delays)
        return;
    tb_cu_visit(context, &v);
    launch(stream, per_thread, 1 + some / 2 % MOST);
    tb_cu_return(&v);
}
