/* Records of executed work, from what the driver tells (driver/trace.h). */
#include "softgpu/cupti/act.h"

#include <string.h>

/* In a tag's `want`, above the bits of kinds: what the call that submitted says. */
#define BY_RUNTIME (UINT64_C(1) << 62)
#define ASYNC (UINT64_C(1) << 63)

/* ---- submission ---------------------------------------------------------------------------------
 */

static uint64_t kinds_of(enum softgpu_trace_kind kind)
{
    switch (kind) {
    case SOFTGPU_TRACE_KERNEL:
        return SG_ACT_BIT(CUPTI_ACTIVITY_KIND_KERNEL) |
               SG_ACT_BIT(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    case SOFTGPU_TRACE_COPY:
        return SG_ACT_BIT(CUPTI_ACTIVITY_KIND_MEMCPY) | SG_ACT_BIT(CUPTI_ACTIVITY_KIND_MEMCPY2);
    case SOFTGPU_TRACE_FILL:
        return SG_ACT_BIT(CUPTI_ACTIVITY_KIND_MEMSET);
    case SOFTGPU_TRACE_EVENT:
        return sg_act_option(SG_ACT_EVENT_TIMESTAMPS) ? SG_ACT_EVENT_KINDS : 0;
    case SOFTGPU_TRACE_GRAPH:
        return SG_ACT_BIT(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    default:
        return 0;
    }
}

/* Graphs are traced as a whole or by their nodes, as CUPTI's manual has it. */
static bool submit(void *arg, enum softgpu_trace_kind kind, uint32_t context,
                   struct softgpu_trace_tag *tag)
{
    uint32_t correlation = sg_cupti_tools()->thread()->correlation;
    const struct sg_act_call *call = sg_act_call();
    uint64_t want = sg_act_wants(context, kinds_of(kind));
    bool known = call->name && call->correlation == correlation; /* its start was seen */
    bool graph = known && strstr(call->name, "GraphLaunch");

    (void)arg;
    if (!want)
        return false;
    if (graph && kind != SOFTGPU_TRACE_GRAPH &&
        sg_act_wants(context, SG_ACT_BIT(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)))
        return false;
    if (known && call->runtime)
        want |= BY_RUNTIME;
    if (graph || (known && strstr(call->name, "Async")))
        want |= ASYNC;
    *tag = (struct softgpu_trace_tag){
        .correlation = correlation, .time = known ? call->start : 0, .want = want};
    return true;
}

static uint64_t now(void *arg)
{
    (void)arg;
    return sg_cupti_now();
}

/* ---- the records --------------------------------------------------------------------------------
 */

static void put_kernel(const struct softgpu_trace_work *w)
{
    bool concurrent = w->tag.want & SG_ACT_BIT(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    const struct softgpu_trace_kernel *k = &w->kernel;
    bool cluster = k->cluster[0] * k->cluster[1] * k->cluster[2] > 1;
    uint64_t threads =
        (uint64_t)k->grid[0] * k->grid[1] * k->grid[2] * k->block[0] * k->block[1] * k->block[2];
    struct sg_act_kernel r;

    memset(&r, 0, sizeof(r)); /* its padding goes to the client too */
    r.k.kind = concurrent ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL : CUPTI_ACTIVITY_KIND_KERNEL;
    r.k.cacheConfig.config.requested = (uint8_t)(k->cache_config & 15);
    r.k.cacheConfig.config.executed = (uint8_t)(k->cache_config & 15);
    r.k.sharedMemoryConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    r.k.registersPerThread = (uint16_t)k->regs;
    r.k.start = w->start;
    r.k.end = r.k.completed = w->end;
    r.k.deviceId = w->device;
    r.k.contextId = w->context;
    r.k.streamId = (uint32_t)w->stream;
    r.k.gridX = (int32_t)k->grid[0];
    r.k.gridY = (int32_t)k->grid[1];
    r.k.gridZ = (int32_t)k->grid[2];
    r.k.blockX = (int32_t)k->block[0];
    r.k.blockY = (int32_t)k->block[1];
    r.k.blockZ = (int32_t)k->block[2];
    r.k.staticSharedMemory = (int32_t)k->static_shared;
    r.k.dynamicSharedMemory = (int32_t)k->dynamic_shared;
    r.k.localMemoryPerThread = k->local_bytes;
    r.k.localMemoryTotal_v2 = threads * k->local_bytes;
    r.k.localMemoryTotal =
        r.k.localMemoryTotal_v2 > UINT32_MAX ? UINT32_MAX : (uint32_t)r.k.localMemoryTotal_v2;
    r.k.correlationId = w->tag.correlation;
    r.k.gridId = (int64_t)k->grid_id;
    r.k.name = sg_act_name(k->name);
    r.k.queued = r.k.submitted =
        sg_act_option(SG_ACT_LATENCY) ? w->tag.time : CUPTI_TIMESTAMP_UNKNOWN;
    r.k.launchType = k->cooperative ? CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE
                                    : CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR;
    r.k.isSharedMemoryCarveoutRequested = k->carveout_set;
    r.k.sharedMemoryCarveoutRequested = k->carveout_set ? (uint8_t)k->carveout : 0;
    r.k.sharedMemoryExecuted = k->static_shared + k->dynamic_shared;
    r.k.graphNodeId = w->node;
    r.k.graphId = (uint32_t)w->graph;
    r.k.shmemLimitConfig =
        k->shared_optin ? CUPTI_FUNC_SHMEM_LIMIT_OPTIN : CUPTI_FUNC_SHMEM_LIMIT_DEFAULT;
    r.k.channelID = CUPTI_INVALID_CHANNEL_ID; /* there is no such hardware */
    r.k.channelType = CUPTI_CHANNEL_TYPE_INVALID;
    r.k.clusterX = cluster ? k->cluster[0] : 0;
    r.k.clusterY = cluster ? k->cluster[1] : 0;
    r.k.clusterZ = cluster ? k->cluster[2] : 0;
    r.k.clusterSchedulingPolicy = (uint32_t)k->cluster_policy;
    SG_ACT_PRIORITY(&r) = k->priority;
    SG_ACT_PUT(&r);
}

static uint8_t memory_kind(enum softgpu_trace_memory m)
{
    static const uint8_t kinds[] = {
        [SOFTGPU_MEMORY_PAGEABLE] = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE,
        [SOFTGPU_MEMORY_PINNED] = CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
        [SOFTGPU_MEMORY_DEVICE] = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
        [SOFTGPU_MEMORY_MANAGED] = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED,
        [SOFTGPU_MEMORY_STATIC] = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC,
    };

    return m < sizeof(kinds) ? kinds[m] : CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
}

static bool on_host(const struct softgpu_trace_side *s)
{
    return s->memory == SOFTGPU_MEMORY_PAGEABLE || s->memory == SOFTGPU_MEMORY_PINNED;
}

static uint8_t copy_kind(const struct softgpu_trace_work *w)
{
    if (on_host(&w->copy.src))
        return on_host(&w->copy.dst) ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOH
                                     : CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    return on_host(&w->copy.dst) ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                 : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
}

static void put_peer_copy(const struct softgpu_trace_work *w)
{
    CUpti_ActivityMemcpyPtoP4 r;

    memset(&r, 0, sizeof(r));
    r.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
    r.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    r.srcKind = memory_kind(w->copy.src.memory);
    r.dstKind = memory_kind(w->copy.dst.memory);
    r.flags = w->tag.want & ASYNC ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
    r.bytes = w->copy.bytes;
    r.start = w->start;
    r.end = w->end;
    r.deviceId = w->device;
    r.contextId = w->context;
    r.streamId = (uint32_t)w->stream;
    r.srcDeviceId = w->copy.src.device;
    r.srcContextId = w->copy.src.context;
    r.dstDeviceId = w->copy.dst.device;
    r.dstContextId = w->copy.dst.context;
    r.correlationId = w->tag.correlation;
    r.graphNodeId = w->node;
    r.graphId = (uint32_t)w->graph;
    r.channelID = CUPTI_INVALID_CHANNEL_ID;
    SG_ACT_PUT(&r);
}

static void put_local_copy(const struct softgpu_trace_work *w)
{
    CUpti_ActivityMemcpy6 r;

    memset(&r, 0, sizeof(r));
    r.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    r.copyKind = copy_kind(w);
    r.srcKind = memory_kind(w->copy.src.memory);
    r.dstKind = memory_kind(w->copy.dst.memory);
    r.flags = w->tag.want & ASYNC ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
    r.bytes = w->copy.bytes;
    r.start = w->start;
    r.end = w->end;
    r.deviceId = w->device;
    r.contextId = w->context;
    r.streamId = (uint32_t)w->stream;
    r.correlationId = w->tag.correlation;
    r.runtimeCorrelationId = w->tag.want & BY_RUNTIME ? w->tag.correlation : 0;
    r.graphNodeId = w->node;
    r.graphId = (uint32_t)w->graph;
    r.channelID = CUPTI_INVALID_CHANNEL_ID;
    r.copyCount = 1;
    SG_ACT_PUT(&r);
}

static void put_copy(const struct softgpu_trace_work *w)
{
    bool peer = !on_host(&w->copy.src) && !on_host(&w->copy.dst) &&
                w->copy.src.device != w->copy.dst.device;

    if (peer && w->tag.want & SG_ACT_BIT(CUPTI_ACTIVITY_KIND_MEMCPY2))
        put_peer_copy(w);
    else if (!peer && w->tag.want & SG_ACT_BIT(CUPTI_ACTIVITY_KIND_MEMCPY))
        put_local_copy(w);
}

static void put_fill(const struct softgpu_trace_work *w)
{
    CUpti_ActivityMemset4 r;

    memset(&r, 0, sizeof(r));
    r.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    r.value = w->fill.value;
    r.bytes = w->fill.bytes;
    r.start = w->start;
    r.end = w->end;
    r.deviceId = w->device;
    r.contextId = w->context;
    r.streamId = (uint32_t)w->stream;
    r.correlationId = w->tag.correlation;
    r.flags = w->tag.want & ASYNC ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : 0;
    r.memoryKind = memory_kind(w->fill.dst.memory);
    r.graphNodeId = w->node;
    r.graphId = (uint32_t)w->graph;
    r.channelID = CUPTI_INVALID_CHANNEL_ID;
    SG_ACT_PUT(&r);
}

static void put_event(const struct softgpu_trace_work *w)
{
    CUpti_ActivityCudaEvent2 r = {.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT,
                                  .correlationId = w->tag.correlation,
                                  .contextId = w->context,
                                  .streamId = (uint32_t)w->stream,
                                  .eventId = (uint32_t)w->event.id,
                                  .deviceId = w->device,
                                  .deviceTimestamp = w->end,
                                  .cudaEventSyncId = w->event.record};

    SG_ACT_PUT(&r);
}

static void put_graph(const struct softgpu_trace_work *w)
{
    CUpti_ActivityGraphTrace2 r = {.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
                                   .correlationId = w->tag.correlation,
                                   .start = w->start,
                                   .end = w->end,
                                   .deviceId = w->device,
                                   .graphId = (uint32_t)w->graph,
                                   .contextId = w->context,
                                   .streamId = (uint32_t)w->stream,
                                   .endDeviceId = w->device,
                                   .endContextId = w->context};

    SG_ACT_PUT(&r);
}

static void done(void *arg, const struct softgpu_trace_work *w)
{
    (void)arg;
    switch (w->kind) {
    case SOFTGPU_TRACE_KERNEL:
        put_kernel(w);
        break;
    case SOFTGPU_TRACE_COPY:
        put_copy(w);
        break;
    case SOFTGPU_TRACE_FILL:
        put_fill(w);
        break;
    case SOFTGPU_TRACE_EVENT:
        put_event(w);
        break;
    case SOFTGPU_TRACE_GRAPH:
        put_graph(w);
        break;
    default:
        break;
    }
}

const struct softgpu_trace_hooks sg_act_trace = {submit, now, done, NULL};
