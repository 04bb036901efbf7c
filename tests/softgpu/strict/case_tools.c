/* What a tool must not do in a callback of CUPTI, and after it. */
#include "tests/softgpu/strict/case.h"

#include <cupti.h>

static struct {
    bool bad;
    CUdeviceptr p;
    const CUpti_CallbackData *data;
    const void *params;
    unsigned called;
} tool;

static void listen(CUpti_CallbackFunc callback, CUpti_driver_api_trace_cbid id, bool bad)
{
    CUpti_SubscriberHandle subscriber;

    tool.bad = bad;
    if (cuptiSubscribe(&subscriber, callback, NULL) != CUPTI_SUCCESS ||
        cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id) != CUPTI_SUCCESS)
        exit(3);
}

static void CUPTIAPI sets(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                          const void *data)
{
    const CUpti_CallbackData *call = data;

    (void)user;
    (void)domain;
    (void)id;
    tool.called++;
    if (tool.bad && call->callbackSite == CUPTI_API_EXIT)
        MAY(cuMemsetD8Async(tool.p, 0, 512, NULL));
}

static void work_in_callback(bool bad)
{
    OK(cuMemAlloc(&tool.p, 512));
    listen(sets, CUPTI_DRIVER_TRACE_CBID_cuCtxGetDevice, bad);
    OK(cuCtxGetDevice(&(CUdevice){0}));
    OK(cuCtxSynchronize());
    if (tool.called != 2)
        exit(4);
}

static void CUPTIAPI keeps(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                           const void *data)
{
    const CUpti_CallbackData *call = data;
    const cuMemAlloc_v2_params *p = call->functionParams;

    (void)user;
    (void)domain;
    (void)id;
    tool.called++;
    if (p->bytesize != 4321 || (call->callbackSite == CUPTI_API_EXIT &&
                                *(const CUresult *)call->functionReturnValue != CUDA_SUCCESS))
        exit(4);
    tool.data = call;
    tool.params = p;
}

static void keeps_data(bool bad)
{
    CUdeviceptr p;

    listen(keeps, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, bad);
    OK(cuMemAlloc(&p, 4321));
    if (tool.called != 2 || (bad && tool.data->callbackSite != CUPTI_API_EXIT))
        exit(4);
}

static void keeps_parameters(bool bad)
{
    CUdeviceptr p;

    listen(keeps, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, bad);
    OK(cuMemAlloc(&p, 4321));
    if (tool.called != 2 || (bad && ((const cuMemAlloc_v2_params *)tool.params)->bytesize != 4321))
        exit(4);
}

static const struct strict_case cases[] = {
    {"work_in_callback", "call-in-tool-callback", "-", work_in_callback},
    {"keeps_data", "stale-callback-data", "-", keeps_data},
    {"keeps_parameters", "stale-callback-data", "-", keeps_parameters},
};

int main(int argc, char **argv)
{
    return strict_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
