/* The library that CUDA_INJECTION64_PATH names in test_inject.c: a tool that subscribes at once. */
#include <cupti.h>

int InitializeInjection(void);
const unsigned *injection_seen(void);

/* calls of cuInit, of cuMemAlloc_v2; notices that the driver has started, without data */
static unsigned seen[3];

static void callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                     const void *data)
{
    (void)userdata;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id == CUPTI_DRIVER_TRACE_CBID_cuInit)
        seen[0]++;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id == CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2)
        seen[1]++;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE && id == CUPTI_CBID_RESOURCE_CU_INIT_FINISHED)
        seen[2] += data == NULL;
}

__attribute__((visibility("default"))) const unsigned *injection_seen(void)
{
    return seen;
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
    CUpti_SubscriberHandle s;

    return cuptiSubscribe(&s, callback, NULL) == CUPTI_SUCCESS &&
           cuptiEnableAllDomains(1, s) == CUPTI_SUCCESS;
}
