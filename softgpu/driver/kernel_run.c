/* Execution of one launch, called by the queue without locks. */
#include "softgpu/driver/accesses.h"
#include "softgpu/driver/broken.h"
#include "softgpu/driver/core.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/order_item.h"
#include "softgpu/driver/strict.h"
#include "softgpu/driver/usage.h"

#include <inttypes.h>
#include <stdio.h>

static void print(void *arg, const char *text, size_t n)
{
    bool *printed = arg;

    *printed = true;
    fwrite(text, 1, n, stdout);
}

/* SMs that execute it: those of the device, in a green context its share of them. */
static uint32_t simulated_sms(const struct CUctx_st *ctx)
{
    const struct sg_device *dev = ctx->dev;
    uint32_t sms = (uint32_t)((uint64_t)dev->sms * sg_context_sms(ctx) / dev->sms_reported);

    return sms ? sms : 1;
}

CUresult sg_kernel_run(const struct sg_kernel_work *k, struct CUctx_st *ctx)
{
    struct sg_device *dev = ctx->dev;
    uint64_t number = k->func->tools ? UINT64_MAX - 1 : atomic_fetch_add(&dev->launches, 1);
    bool printed = false;
    struct sg_launch launch = {
        .kernel = k->func->kernel,
        .grid = {k->grid[0], k->grid[1], k->grid[2]},
        .block = {k->block[0], k->block[1], k->block[2]},
        .cluster = {k->cluster[0], k->cluster[1], k->cluster[2]},
        .dynamic_shared = k->shared_bytes,
        .params = k->params,
        .cooperative = k->cooperative,
        .in_order = sg_driver.opt.in_order,
        .device = (uint32_t)dev->ordinal,
        .sms = simulated_sms(ctx),
        .seed = sg_hash64(sg_driver.opt.seed, (uint64_t)dev->ordinal, number),
        .grid_id = number + 1,
        .malloc_heap = ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE],
        .stack_limit = (uint32_t)ctx->limits[CU_LIMIT_STACK_SIZE],
        .print = print,
        .print_arg = &printed,
    };
    struct sg_run_stats stats = {0};
    struct sg_fault fault = {0};
    struct tb_error err = {0};
    enum tb_status status;

    if (sg_strict() && sg_touch_new(&launch.touch, NULL) != TB_OK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (sg_strict())
        sg_strict_watch(&launch);
    sg_accesses_watch(&launch);

    sg_usage_begin(dev->physical);
    status = sg_driver.broken
                 ? sg_broken_run(sg_driver.broken, sg_driver.machine, &launch, &fault, &stats, &err)
                 : sg_exec_run(sg_driver.machine, &launch, &fault, &stats, &err);
    sg_usage_end(dev->physical);
    if (launch.touch)
        sg_order_touched(launch.touch, k->func->tools);
    sg_touch_free(launch.touch);
    k->func->launches++;
    if (printed)
        fflush(stdout);
    if (status == TB_OK) {
        sg_log(2, "ran '%s': %" PRIu64 " warp instructions, %" PRIu64 " of threads",
               k->func->info->name, stats.warp_insns, stats.thread_insns);
        return CUDA_SUCCESS;
    }
    if (status == TB_ERR_CUDA && fault.kind != SG_FAULT_NONE)
        return sg_fault_set(ctx, &fault);
    sg_log(1, "cannot run '%s': %s", k->func->info->name, err.text);
    return status == TB_ERR_NOMEM ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_ERROR_LAUNCH_FAILED;
}
