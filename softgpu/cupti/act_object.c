/* Records of devices, contexts and streams: when they come to be, or of all that are there. */
#include "softgpu/cupti/act.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The call under way, if there is one. */
static uint32_t correlation(void)
{
    return sg_cupti_tools()->thread()->correlation;
}

static void put_context(const struct softgpu_context_info *c)
{
    struct sg_act_context r;

    memset(&r, 0, sizeof(r));
    r.c.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
    r.c.contextId = c->id;
    r.c.deviceId = c->device;
    r.c.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
    r.c.nullStreamId = (uint16_t)c->null_stream;
    r.c.parentContextId = c->parent;
    r.c.isGreenContext = c->green;
    r.c.numMultiprocessors = c->green ? (uint16_t)c->sms : 0;
    SG_ACT_PROCESS(&r) = (uint64_t)getpid();
    SG_ACT_PUT(&r);
}

static void put_stream(const struct softgpu_stream_info *s)
{
    CUpti_ActivityStream r = {.kind = CUPTI_ACTIVITY_KIND_STREAM,
                              .contextId = s->context,
                              .streamId = s->id,
                              .priority = (uint32_t)s->priority,
                              .flag = s->null ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL
                                      : s->flags & CU_STREAM_NON_BLOCKING
                                          ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING
                                          : CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT,
                              .correlationId = correlation()};

    SG_ACT_PUT(&r);
}

/* ---- devices ------------------------------------------------------------------------------------
 */

static uint32_t ask(int device, CUdevice_attribute attribute)
{
    int value = 0;

    sg_cupti_tools()->attribute(device, attribute, &value);
    return (uint32_t)value;
}

/* Double data rate: two transfers a clock. kB/s = kHz * bytes. */
static uint64_t bandwidth(int device)
{
    return 2 * (uint64_t)ask(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
           ask(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
}

static void put_device(int device)
{
    struct sg_act_device r;
    const char *name;
    uint64_t memory;
    CUuuid uuid;

    if (!sg_cupti_tools()->identity(device, &name, &uuid, &memory))
        return;
    memset(&r, 0, sizeof(r));
    r.d.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    r.d.flags = CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS;
    r.d.globalMemoryBandwidth = bandwidth(device);
    r.d.globalMemorySize = memory;
#define ASK(field, name) r.d.field = ask(device, CU_DEVICE_ATTRIBUTE_##name)
    ASK(constantMemorySize, TOTAL_CONSTANT_MEMORY);
    ASK(l2CacheSize, L2_CACHE_SIZE);
    ASK(numThreadsPerWarp, WARP_SIZE);
    ASK(coreClockRate, CLOCK_RATE);
    ASK(numMemcpyEngines, ASYNC_ENGINE_COUNT);
    ASK(numMultiprocessors, MULTIPROCESSOR_COUNT);
    ASK(maxBlocksPerMultiprocessor, MAX_BLOCKS_PER_MULTIPROCESSOR);
    ASK(maxSharedMemoryPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    ASK(maxRegistersPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR);
    ASK(maxRegistersPerBlock, MAX_REGISTERS_PER_BLOCK);
    ASK(maxSharedMemoryPerBlock, MAX_SHARED_MEMORY_PER_BLOCK);
    ASK(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
    ASK(maxBlockDimX, MAX_BLOCK_DIM_X);
    ASK(maxBlockDimY, MAX_BLOCK_DIM_Y);
    ASK(maxBlockDimZ, MAX_BLOCK_DIM_Z);
    ASK(maxGridDimX, MAX_GRID_DIM_X);
    ASK(maxGridDimY, MAX_GRID_DIM_Y);
    ASK(maxGridDimZ, MAX_GRID_DIM_Z);
    ASK(computeCapabilityMajor, COMPUTE_CAPABILITY_MAJOR);
    ASK(computeCapabilityMinor, COMPUTE_CAPABILITY_MINOR);
    ASK(eccEnabled, ECC_ENABLED);
#undef ASK
    r.d.maxWarpsPerMultiprocessor =
        ask(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / 32;
    r.d.id = (uint32_t)device;
    r.d.uuid = uuid;
    r.d.name = sg_act_name(name);
    r.d.isCudaVisible = 1;
    r.d.numaId = invalidNumaId;
    SG_ACT_PUT(&r);
}

static void put_devices(void)
{
    for (int device = 0; sg_cupti_tools()->device(device); device++)
        put_device(device);
}

/* ---- when ---------------------------------------------------------------------------------------
 */

void sg_act_notice(const struct sg_notice *n)
{
    const struct softgpu_tools *tools = sg_cupti_tools();
    struct softgpu_context_info context;
    struct softgpu_stream_info stream;

    if (n->kind == SG_NOTICE_INIT && sg_act_wants(0, SG_ACT_BIT(CUPTI_ACTIVITY_KIND_DEVICE)))
        put_devices();
    else if (n->kind == SG_NOTICE_CONTEXT_CREATED && tools->context_info(n->ctx, &context) &&
             sg_act_wants(context.id, SG_ACT_BIT(CUPTI_ACTIVITY_KIND_CONTEXT)))
        put_context(&context);
    else if (n->kind == SG_NOTICE_STREAM_CREATED && tools->stream_info(n->stream, &stream) &&
             sg_act_wants(stream.context, SG_ACT_BIT(CUPTI_ACTIVITY_KIND_STREAM)))
        put_stream(&stream);
}

static CUptiResult dump_contexts(void)
{
    size_t n = sg_cupti_tools()->contexts(NULL, 0), found;
    struct softgpu_context_info *all = calloc(n + 1, sizeof(*all));

    if (!all)
        return CUPTI_ERROR_OUT_OF_MEMORY;
    found = sg_cupti_tools()->contexts(all, n); /* others may come and go meanwhile */
    for (size_t i = 0; i < n && i < found; i++)
        put_context(&all[i]);
    free(all);
    return CUPTI_SUCCESS;
}

static CUptiResult dump_streams(void)
{
    size_t n = sg_cupti_tools()->streams(NULL, 0), found;
    struct softgpu_stream_info *all = calloc(n + 1, sizeof(*all));

    if (!all)
        return CUPTI_ERROR_OUT_OF_MEMORY;
    found = sg_cupti_tools()->streams(all, n);
    for (size_t i = 0; i < n && i < found; i++)
        put_stream(&all[i]);
    free(all);
    return CUPTI_SUCCESS;
}

CUptiResult sg_act_dump(CUpti_ActivityKind kind)
{
    if (kind == CUPTI_ACTIVITY_KIND_CONTEXT)
        return dump_contexts();
    if (kind == CUPTI_ACTIVITY_KIND_STREAM)
        return dump_streams();
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE)
        put_devices();
    return CUPTI_SUCCESS;
}
