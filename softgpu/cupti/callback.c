/* The callback API: one subscriber, what it wants, and how it is told. */
#include "softgpu/cupti/cupti_internal.h"

#include "softgpu/cupti/api_gen.h"
#include "softgpu/cupti/names.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define IDS_MAX 1024 /* of a domain */
#define NAME_PREFIX "CUPTI for "
#ifdef CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN
#define NAME_BYTES CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN
#else /* no cuptiSubscribe_v2 in these headers */
#define NAME_BYTES 64
#endif
#define UNSUBSCRIBE_WAIT_MS 100

/* The only kind of subscriber there is. `taken` says who writes the rest: the one that subscribed.
 */
struct CUpti_Subscriber_st {
    atomic_bool taken; /* from cuptiSubscribe until cuptiUnsubscribe has returned */
    atomic_bool ready; /* callbacks may be called */
    atomic_uint calls; /* of the callback, that are under way */
    CUpti_CallbackFunc callback;
    void *userdata;
    char name[NAME_BYTES];
    _Atomic(CUpti_SubscriberHandle) handle; /* of handles[] */
    atomic_uint wanted; /* enabled ids of the domains that the driver tells about */
    atomic_uchar enabled[CUPTI_CB_DOMAIN_SIZE][IDS_MAX];
};
static struct CUpti_Subscriber_st subscriber;

/* Handles are only compared: each subscription has the address of another byte, so that one of a
 * former subscription is told from today's. */
static char handles[1024];
static atomic_uint subscriptions;

static __thread unsigned my_calls; /* of `calls` */

/* One more than the last valid id of a domain. */
static uint32_t domain_size(CUpti_CallbackDomain domain)
{
    switch (domain) {
    case CUPTI_CB_DOMAIN_DRIVER_API:
        return CUPTI_DRIVER_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RUNTIME_API:
        return CUPTI_RUNTIME_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RESOURCE:
        return CUPTI_CBID_RESOURCE_SIZE;
    case CUPTI_CB_DOMAIN_SYNCHRONIZE:
        return CUPTI_CBID_SYNCHRONIZE_SIZE;
    case CUPTI_CB_DOMAIN_NVTX:
        return CUPTI_CBID_NVTX_SIZE;
    case CUPTI_CB_DOMAIN_STATE:
        return CUPTI_CBID_STATE_SIZE;
    default:
        return 0;
    }
}
_Static_assert((int)CUPTI_DRIVER_TRACE_CBID_SIZE <= IDS_MAX, "driver ids");
_Static_assert((int)CUPTI_RUNTIME_TRACE_CBID_SIZE <= IDS_MAX, "runtime ids");

/* ---- telling --------------------------------------------------------------------------------- */

bool sg_cupti_wants(CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
    return cbid < IDS_MAX &&
           atomic_load_explicit(&subscriber.enabled[domain][cbid], memory_order_relaxed) &&
           atomic_load_explicit(&subscriber.ready, memory_order_relaxed);
}

/* What a strict device lends in the place of the data: a copy, with the parameters of a call and
 * its result behind it. NULL: the data themselves are given. */
static void *lend(const struct softgpu_tools *tools, CUpti_CallbackDomain domain, const void *data,
                  size_t params)
{
    static const size_t sizes[] = {
        [CUPTI_CB_DOMAIN_DRIVER_API] = sizeof(CUpti_CallbackData),
        [CUPTI_CB_DOMAIN_RUNTIME_API] = sizeof(CUpti_CallbackData),
        [CUPTI_CB_DOMAIN_RESOURCE] = sizeof(CUpti_ResourceData),
        [CUPTI_CB_DOMAIN_SYNCHRONIZE] = sizeof(CUpti_SynchronizeData),
        [CUPTI_CB_DOMAIN_NVTX] = sizeof(CUpti_NvtxData),
    };
    size_t n = (size_t)domain < sizeof(sizes) / sizeof(sizes[0]) ? sizes[domain] : 0;
    char *copy = tools && n && data ? tools->lend(n + 16 + params, "a CUPTI callback") : NULL;
    CUpti_CallbackData *call = (CUpti_CallbackData *)copy;

    if (!copy)
        return NULL;
    memcpy(copy, data, n);
    if (!params)
        return copy;
    memcpy(copy + n + 16, call->functionParams, params);
    call->functionParams = copy + n + 16;
    if (call->functionReturnValue) {
        memcpy(copy + n, call->functionReturnValue, sizeof(int));
        call->functionReturnValue = copy + n;
    }
    return copy;
}

/* CUDA calls that a callback makes are calls like others: with numbers of their own, and told. */
static void deliver(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data,
                    size_t params)
{
    const struct softgpu_tools *tools = sg_cupti_tools();
    struct softgpu_thread none = {0}, *t = tools ? tools->thread() : &none, before = *t;
    void *lent;

    if (!sg_cupti_wants(domain, cbid))
        return;
    atomic_fetch_add(&subscriber.calls, 1);
    my_calls++;
    t->correlation = t->in_runtime = 0;
    t->in_callback++;
    lent = lend(tools, domain, data, params);
    if (atomic_load(&subscriber.ready)) /* it may have gone meanwhile */
        subscriber.callback(subscriber.userdata, domain, cbid, lent ? lent : data);
    if (lent)
        tools->take_back(lent);
    *t = before;
    my_calls--;
    atomic_fetch_sub(&subscriber.calls, 1);
}

void sg_cupti_deliver(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
    deliver(domain, cbid, data, 0);
}

static void deliver_call(CUpti_ApiCallbackSite site, struct sg_call *call, bool runtime)
{
    CUpti_CallbackDomain domain =
        runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
    CUpti_CallbackData data = {.callbackSite = site,
                               .functionName = call->name,
                               .functionParams = call->params,
                               .correlationData = &call->user,
                               .correlationId = call->correlation};

    if (!sg_cupti_wants(domain, call->id))
        return;
    if (site == CUPTI_API_EXIT)
        data.functionReturnValue = &call->result;
    data.symbolName = sg_cupti_launch_name(call, runtime);
    data.context = sg_cupti_tools()->current(&data.contextUid);
    deliver(domain, call->id, &data, call->params_size);
}

static void on_enter(struct sg_call *call, bool runtime)
{
    deliver_call(CUPTI_API_ENTER, call, runtime);
}

static void on_exit_of(struct sg_call *call, bool runtime)
{
    deliver_call(CUPTI_API_EXIT, call, runtime);
}

static const uint32_t resource_ids[] = {
    [SG_NOTICE_INIT] = CUPTI_CBID_RESOURCE_CU_INIT_FINISHED,
    [SG_NOTICE_CONTEXT_CREATED] = CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
    [SG_NOTICE_CONTEXT_DESTROY] = CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
    [SG_NOTICE_STREAM_CREATED] = CUPTI_CBID_RESOURCE_STREAM_CREATED,
    [SG_NOTICE_STREAM_DESTROY] = CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING,
    [SG_NOTICE_STREAM_ATTRIBUTE] = CUPTI_CBID_RESOURCE_STREAM_ATTRIBUTE_CHANGED,
    [SG_NOTICE_MODULE_LOADED] = CUPTI_CBID_RESOURCE_MODULE_LOADED,
    [SG_NOTICE_MODULE_UNLOAD] = CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
    [SG_NOTICE_GRAPH_CREATED] = CUPTI_CBID_RESOURCE_GRAPH_CREATED,
    [SG_NOTICE_GRAPH_DESTROY] = CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING,
    [SG_NOTICE_GRAPH_CLONED] = CUPTI_CBID_RESOURCE_GRAPH_CLONED,
    [SG_NOTICE_NODE_CREATE] = CUPTI_CBID_RESOURCE_GRAPHNODE_CREATE_STARTING,
    [SG_NOTICE_NODE_CREATED] = CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
    [SG_NOTICE_NODE_DESTROY] = CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING,
    [SG_NOTICE_NODE_CLONED] = CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
    /* by number: CUDA 12's headers lack the last two */
    [SG_NOTICE_NODE_UPDATED] = 22,
    [SG_NOTICE_NODE_SET_PARAMS] = 23,
    [SG_NOTICE_EDGE_CREATED] = CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED,
    [SG_NOTICE_EDGE_DESTROY] = CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING,
    [SG_NOTICE_EXEC_CREATE] = CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING,
    [SG_NOTICE_EXEC_CREATED] = CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED,
    [SG_NOTICE_EXEC_DESTROY] = CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING,
};

/* The data of modules, graphs and attributes hang behind resourceDescriptor. */
static void deliver_resource(const struct sg_notice *n)
{
    CUpti_ResourceData data = {.context = n->ctx, .resourceHandle = {.stream = n->stream}};
    CUpti_ModuleResourceData module = {n->module.id, n->module.size, n->module.data};
    CUpti_StreamAttrData attribute = {n->stream, n->attribute, n->value};
    CUpti_GraphData of_graph = {.graph = n->graph,
                                .originalGraph = n->original_graph,
                                .node = n->node,
                                .originalNode = n->original_node,
                                .nodeType = n->type,
                                .dependency = n->dependency,
                                .graphExec = n->exec};

    if (n->kind == SG_NOTICE_INIT) { /* seen by others on a GPU: there are no data */
        sg_cupti_deliver(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, NULL);
        return;
    }
    if (n->kind == SG_NOTICE_MODULE_LOADED || n->kind == SG_NOTICE_MODULE_UNLOAD)
        data.resourceDescriptor = &module;
    else if (n->kind == SG_NOTICE_STREAM_ATTRIBUTE)
        data.resourceDescriptor = &attribute;
    else if (n->kind >= SG_NOTICE_GRAPH_CREATED && n->kind <= SG_NOTICE_EXEC_DESTROY)
        data.resourceDescriptor = &of_graph;
    if (resource_ids[n->kind] < domain_size(CUPTI_CB_DOMAIN_RESOURCE))
        sg_cupti_deliver(CUPTI_CB_DOMAIN_RESOURCE, resource_ids[n->kind], &data);
}

static void on_notice(const struct sg_notice *n)
{
    CUpti_SynchronizeData sync = {n->ctx, n->stream};

    if (n->kind == SG_NOTICE_STREAM_SYNCHRONIZED)
        sg_cupti_deliver(CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED,
                         &sync);
    else if (n->kind == SG_NOTICE_CONTEXT_SYNCHRONIZED)
        sg_cupti_deliver(CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED,
                         &sync);
    else
        deliver_resource(n);
}

static bool is_driver_told(CUpti_CallbackDomain domain)
{
    return domain != CUPTI_CB_DOMAIN_NVTX && domain != CUPTI_CB_DOMAIN_STATE;
}

static void set_one(CUpti_CallbackDomain domain, uint32_t id, bool on)
{
    bool before = atomic_exchange(&subscriber.enabled[domain][id], on);

    if (before != on && is_driver_told(domain))
        atomic_fetch_add(&subscriber.wanted, on ? 1 : -1u);
}

static void set_domain(CUpti_CallbackDomain domain, bool on)
{
    for (uint32_t id = 1; id < domain_size(domain); id++)
        set_one(domain, id, on);
}

/* ---- subscribing ----------------------------------------------------------------------------- */

static void set_name(const char *name)
{
    snprintf(subscriber.name, sizeof(subscriber.name), NAME_PREFIX "%s", name ? name : "");
    if (!name)
        snprintf(subscriber.name, sizeof(subscriber.name), "CUPTI");
}

static CUptiResult subscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback,
                             void *userdata, const char *name)
{
    CUptiResult r;
    bool free_slot = false;

    if (!out)
        return CUPTI_ERROR_INVALID_PARAMETER;
    r = sg_cupti_attach();
    if (r != CUPTI_SUCCESS)
        return r;
    if (!atomic_compare_exchange_strong(&subscriber.taken, &free_slot, true))
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    for (int d = CUPTI_CB_DOMAIN_INVALID + 1; d < CUPTI_CB_DOMAIN_SIZE; d++)
        set_domain((CUpti_CallbackDomain)d, false);
    subscriber.callback = callback;
    subscriber.userdata = userdata;
    set_name(name);
    atomic_store(&subscriber.ready, callback != NULL);
    *out = (CUpti_SubscriberHandle)(void *)&handles[atomic_fetch_add(&subscriptions, 1) %
                                                    sizeof(handles)];
    atomic_store(&subscriber.handle, *out);
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiSubscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback,
                              void *userdata)
{
    return subscribe(out, callback, userdata, NULL);
}

#ifdef CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN
/* Fields are there if the caller's structure reaches so far. */
#define HAS(p, field)                                                                              \
    ((p) && (p)->structSize >= offsetof(CUpti_SubscriberParams, field) + sizeof((p)->field))

CUptiResult sg_cuptiSubscribe_v2(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback,
                                 void *userdata, CUpti_SubscriberParams *p)
{
    CUptiResult r;

    if (p && !HAS(p, subscriberName))
        return CUPTI_ERROR_INVALID_PARAMETER;
    r = subscribe(out, callback, userdata, p ? p->subscriberName : NULL);
    if (r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED && HAS(p, oldSubscriberSize) &&
        p->oldSubscriberName && p->oldSubscriberSize)
        snprintf(p->oldSubscriberName, p->oldSubscriberSize, "%s", subscriber.name);
    return r;
}
#endif

static bool is_subscriber(CUpti_SubscriberHandle s)
{
    return s && s == atomic_load(&subscriber.handle) && atomic_load(&subscriber.taken);
}

/* Others may be inside the callback; what they have begun they end, unless it takes so long that
 * they may be waiting for the caller. */
static void wait_for_callbacks(void)
{
    const struct timespec ms = {.tv_nsec = 1000000};

    for (int i = 0; i < UNSUBSCRIBE_WAIT_MS; i++) {
        if (atomic_load(&subscriber.calls) <= my_calls)
            return;
        nanosleep(&ms, NULL);
    }
    sg_cupti_log(2, "a callback is still running after its subscriber has gone");
}

CUptiResult sg_cuptiUnsubscribe(CUpti_SubscriberHandle s)
{
    if (!is_subscriber(s))
        return CUPTI_ERROR_INVALID_PARAMETER;
    atomic_store(&subscriber.ready, false);
    sg_cupti_listen(SG_CUPTI_CALLBACKS, NULL);
    wait_for_callbacks();
    atomic_store(&subscriber.taken, false);
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiFinalize(void)
{
    if (atomic_load(&subscriber.taken))
        (void)sg_cuptiUnsubscribe(atomic_load(&subscriber.handle));
    if (sg_cupti_activity_finalize)
        sg_cupti_activity_finalize();
    return CUPTI_SUCCESS;
}

/* ---- what it wants --------------------------------------------------------------------------- */

static void update_listening(void)
{
    static const struct sg_cupti_listener listener = {
        .enter = on_enter, .exit = on_exit_of, .notice = on_notice};

    sg_cupti_listen(SG_CUPTI_CALLBACKS, atomic_load(&subscriber.wanted) ? &listener : NULL);
}

static bool is_id(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    return id > 0 && id < domain_size(domain);
}

CUptiResult sg_cuptiGetCallbackState(uint32_t *enable, CUpti_SubscriberHandle s,
                                     CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    if (!enable || !is_subscriber(s) || !is_id(domain, id))
        return CUPTI_ERROR_INVALID_PARAMETER;
    *enable = atomic_load(&subscriber.enabled[domain][id]);
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle s,
                                   CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    if (!is_subscriber(s) || !is_id(domain, id))
        return CUPTI_ERROR_INVALID_PARAMETER;
    set_one(domain, id, enable != 0);
    update_listening();
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle s,
                                 CUpti_CallbackDomain domain)
{
    if (!is_subscriber(s) || !domain_size(domain))
        return CUPTI_ERROR_INVALID_PARAMETER;
    set_domain(domain, enable != 0);
    update_listening();
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle s)
{
    if (!is_subscriber(s))
        return CUPTI_ERROR_INVALID_PARAMETER;
    for (int d = CUPTI_CB_DOMAIN_INVALID + 1; d < CUPTI_CB_DOMAIN_SIZE; d++)
        set_domain((CUpti_CallbackDomain)d, enable != 0);
    update_listening();
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiSupportedDomains(size_t *count, CUpti_DomainTable *table)
{
    static CUpti_CallbackDomain domains[] = {
        CUPTI_CB_DOMAIN_DRIVER_API,  CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_RESOURCE,
        CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CB_DOMAIN_NVTX,        CUPTI_CB_DOMAIN_STATE};

    if (!count || !table)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *count = sizeof(domains) / sizeof(domains[0]);
    *table = domains;
    return CUPTI_SUCCESS;
}
