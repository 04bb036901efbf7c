/* The broken device behind the driver: SOFTGPU_FAULT and what belongs to it. */
#include "softgpu/driver/broken.h"

#include "softgpu/driver/memory_internal.h"

#include <stdlib.h>
#include <unistd.h>

static pid_t broken_pid; /* whose device it is: written at cuInit, a forked child has none */

static const char *variable(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

static bool allocation(void *arg, uint64_t id, uint64_t *addr, uint64_t *size)
{
    struct sg_rec rec;

    (void)arg;
    for (uint64_t at = 0; sg_rec_next(at, &rec); at = rec.a.addr + (rec.a.size ? rec.a.size : 1))
        if (rec.a.id == id) {
            *addr = rec.a.addr;
            *size = rec.a.size;
            return true;
        }
    return false;
}

/* Memory of the host, registered memory too; variables of modules have no record and are not. */
static bool host_sees(void *arg, uint64_t addr)
{
    const struct sg_mem *mem = sg_driver.mem;
    struct sg_rec rec;

    (void)arg;
    if (addr < mem->base || addr - mem->base >= mem->span)
        return true;
    return sg_rec_find(addr, &rec) && rec.host;
}

static void say(void *arg, const char *text)
{
    (void)arg;
    sg_log(1, "%s", text);
}

CUresult sg_broken_start(void)
{
    const struct sg_options *opt = &sg_driver.opt;
    struct sg_broken_options o = {.specs = variable("SOFTGPU_FAULT"),
                                  .log = variable("SOFTGPU_FAULT_LOG"),
                                  .replay = variable("SOFTGPU_FAULT_REPLAY"),
                                  .devices = opt->devices,
                                  .sms = opt->sms,
                                  .seed = opt->seed,
                                  .in_order = opt->in_order,
                                  .mem = sg_driver.mem,
                                  .allocation = allocation,
                                  .host_sees = host_sees,
                                  .say = say};
    struct tb_error err = {0};

    if (sg_driver.broken || (!o.specs && !o.replay))
        return CUDA_SUCCESS;
    broken_pid = getpid();
    if (sg_broken_new(&o, &sg_driver.broken, &err) == TB_OK)
        return CUDA_SUCCESS;
    sg_log(1, "%s: no device is there", err.text);
    return err.status == TB_ERR_NOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}

void sg_broken_finish(void)
{
    if (sg_driver.broken && getpid() == broken_pid)
        sg_broken_end(sg_driver.broken);
}

/* ---- copies and sets ------------------------------------------------------------------------- */

static bool on_device(uint64_t addr)
{
    struct sg_rec rec;

    return sg_rec_find(addr, &rec) && !rec.host;
}

void sg_broken_copy(const struct sg_copy_work *c, const struct CUctx_st *ctx)
{
    bool from = !c->staged && on_device(c->src), to = on_device(c->dst);
    struct sg_broken_move m = {.device = (uint32_t)ctx->dev->ordinal,
                               .way = !from ? SG_BROKEN_H2D
                                      : !to ? SG_BROKEN_D2H
                                            : SG_BROKEN_D2D,
                               .src = c->staged ? (uintptr_t)c->stage : c->src,
                               .dst = c->dst,
                               .width = c->width,
                               .height = c->height,
                               .depth = c->depth,
                               .src_pitch = c->staged ? c->width : c->src_pitch,
                               .src_slice = c->staged ? c->width * c->height : c->src_slice,
                               .dst_pitch = c->dst_pitch,
                               .dst_slice = c->dst_slice};

    if (!from && !to) /* from host to host: no engine of a device moves it */
        m.width = 0;
    sg_broken_copied(sg_driver.broken, &m);
}
