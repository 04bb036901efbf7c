/* NVTX's calls, as NVTX's own headers make them when NVTX_INJECTION64_PATH names libcupti. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <cupti.h>
#include <generated_nvtx_meta.h>

static struct {
    CUpti_CallbackId id;
    char name[40], text[40];
    long result;
} last;
static unsigned told;

static void callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                     const void *data)
{
    const CUpti_NvtxData *d = data;

    (void)userdata;
    assert_int_equal(domain, CUPTI_CB_DOMAIN_NVTX);
    told++;
    memset(&last, 0, sizeof(last));
    last.id = id;
    snprintf(last.name, sizeof(last.name), "%s", d->functionName);
    if (id == CUPTI_CBID_NVTX_nvtxRangePushA)
        snprintf(last.text, sizeof(last.text), "%s",
                 ((const nvtxRangePushA_params *)d->functionParams)->message);
    if (id == CUPTI_CBID_NVTX_nvtxDomainRangePushEx)
        snprintf(last.text, sizeof(last.text), "%s",
                 ((const nvtxDomainRangePushEx_params *)d->functionParams)
                     ->core.eventAttrib->message.ascii);
    if (id == CUPTI_CBID_NVTX_nvtxRangePushA || id == CUPTI_CBID_NVTX_nvtxRangePop)
        last.result = *(const int *)d->functionReturnValue;
}

static void test_nvtx__ranges_are_told_with_their_depth(void **state)
{
    (void)state;
    assert_int_equal(nvtxRangePushA("outer"), 0);
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxRangePushA);
    assert_string_equal(last.name, "nvtxRangePushA");
    assert_string_equal(last.text, "outer");
    assert_int_equal(nvtxRangePushA("inner"), 1);
    assert_int_equal(last.result, 1);
    assert_int_equal(nvtxRangePop(), 1);
    assert_int_equal(nvtxRangePop(), 0);
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxRangePop);
    assert_true(nvtxRangePop() < 0);
    assert_int_equal(told, 5);
}

static void test_nvtx__domains_have_depths_of_their_own(void **state)
{
    nvtxDomainHandle_t d = nvtxDomainCreateA("ours");
    nvtxEventAttributes_t e = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_ASCII,
                               .message.ascii = "step"};

    (void)state;
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxDomainCreateA);
    assert_non_null(d);
    assert_int_equal(nvtxRangePushA("default"), 0);
    assert_int_equal(nvtxDomainRangePushEx(d, &e), 0);
    assert_string_equal(last.text, "step");
    assert_int_equal(nvtxDomainRangePushEx(d, &e), 1);
    assert_int_equal(nvtxDomainRangePop(d), 1);
    assert_int_equal(nvtxDomainRangePop(d), 0);
    assert_int_equal(nvtxRangePop(), 0);
    nvtxDomainDestroy(d);
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxDomainDestroy);
}

/* One call of each kind that returns something, and of each module. */
static void test_nvtx__every_module_is_told(void **state)
{
    nvtxRangeId_t a = nvtxRangeStartA("a"), b = nvtxRangeStartA("b");
    nvtxDomainHandle_t d = nvtxDomainCreateA("d");
    nvtxSyncUserAttributes_t attributes = {0};
    nvtxSyncUser_t sync;

    (void)state;
    assert_true(a != b);
    nvtxRangeEnd(a);
    nvtxRangeEnd(b);
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxRangeEnd);
    nvtxMarkA("here");
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxMarkA);
    nvtxNameOsThreadA(1, "me");
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxNameOsThreadA);
    nvtxNameCuStreamA(NULL, "null");
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxNameCuStreamA);
    nvtxNameCudaDeviceA(0, "first");
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxNameCudaDeviceA);
    assert_non_null(nvtxDomainRegisterStringA(d, "text"));
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxDomainRegisterStringA);
    nvtxDomainNameCategoryA(d, 3, "loads");
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxDomainNameCategoryA);
    sync = nvtxDomainSyncUserCreate(d, &attributes);
    assert_non_null(sync);
    nvtxDomainSyncUserAcquireStart(sync);
    assert_int_equal(last.id, CUPTI_CBID_NVTX_nvtxDomainSyncUserAcquireStart);
    nvtxDomainSyncUserDestroy(sync);
}

static CUpti_SubscriberHandle subscriber;

static int set_up(void **state)
{
    (void)state;
    told = 0;
    return cuptiSubscribe(&subscriber, callback, NULL) == CUPTI_SUCCESS &&
                   cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_NVTX) == CUPTI_SUCCESS
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return cuptiUnsubscribe(subscriber) == CUPTI_SUCCESS ? 0 : -1;
}

static void test_nvtx__costs_nothing_without_a_subscriber(void **state)
{
    (void)state;
    told = 0;
    assert_int_equal(nvtxRangePushA("quiet"), 0);
    assert_int_equal(nvtxRangePop(), 0);
    assert_int_equal(told, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nvtx__ranges_are_told_with_their_depth),
        TEST(test_nvtx__domains_have_depths_of_their_own),
        TEST(test_nvtx__every_module_is_told),
        cmocka_unit_test(test_nvtx__costs_nothing_without_a_subscriber),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    printf("skipped: no NVTX headers (nvtx3/) beside CUDA's\n");
    return 77;
}
#endif
