/* Strict mode: calls of CUDA inside a callback of CUPTI, of every domain. */
#include "tests/softgpu/strict/case.h"

#include <cuda_runtime_api.h>
#include <cupti.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#endif

static bool calls; /* the callback makes one */

static void callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                     const void *data)
{
    static bool inside;

    (void)userdata, (void)domain, (void)id, (void)data;
    if (!calls || inside)
        return;
    inside = true;
    OK(cuCtxSynchronize());
    inside = false;
}

static CUpti_SubscriberHandle subscribe(CUpti_CallbackDomain domain, bool bad)
{
    CUpti_SubscriberHandle s = NULL;

    calls = bad;
    if (cuptiSubscribe(&s, callback, NULL) != CUPTI_SUCCESS ||
        cuptiEnableDomain(1, s, domain) != CUPTI_SUCCESS)
        exit(3);
    return s;
}

static void in_driver(bool bad)
{
    CUpti_SubscriberHandle s = subscribe(CUPTI_CB_DOMAIN_DRIVER_API, bad);
    int n;

    OK(cuDeviceGetCount(&n));
    cuptiUnsubscribe(s);
}

static void in_runtime(bool bad)
{
    CUpti_SubscriberHandle s = subscribe(CUPTI_CB_DOMAIN_RUNTIME_API, bad);
    int n;

    cudaGetDeviceCount(&n);
    cuptiUnsubscribe(s);
}

static void in_resource(bool bad)
{
    CUpti_SubscriberHandle s = subscribe(CUPTI_CB_DOMAIN_RESOURCE, bad);
    CUstream stream;

    OK(cuStreamCreate(&stream, 0));
    OK(cuStreamDestroy(stream));
    cuptiUnsubscribe(s);
}

#ifdef HAVE_NVTX
static void in_nvtx(bool bad)
{
    CUpti_SubscriberHandle s = subscribe(CUPTI_CB_DOMAIN_NVTX, bad);

    nvtxMarkA("here");
    cuptiUnsubscribe(s);
}
#endif

static const struct strict_case cases[] = {
    {"in_driver", "call-in-tool-callback", "-", in_driver},
    {"in_runtime", "call-in-tool-callback", "-", in_runtime},
    {"in_resource", "call-in-tool-callback", "-", in_resource},
#ifdef HAVE_NVTX
    {"in_nvtx", "call-in-tool-callback", "-", in_nvtx},
#endif
};

int main(int argc, char **argv)
{
    return strict_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
