/*
 * For tests of the callback API: a subscriber that writes down what it is told, and a device.
 */
#ifndef SG_TESTS_CUPTI_SUBSCRIBER_H
#define SG_TESTS_CUPTI_SUBSCRIBER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>
#include <cupti.h>

#include "tests/softgpu/driver/newest.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)
#define FINE(call) assert_int_equal(call, CUPTI_SUCCESS)
#define BAD(call) assert_int_equal(call, CUPTI_ERROR_INVALID_PARAMETER)

#define SEEN_MAX 256

struct seen {
    CUpti_CallbackDomain domain;
    CUpti_CallbackId id;
    CUpti_CallbackData call; /* of the API domains */
    CUpti_GraphData graph;
    CUpti_ModuleResourceData module;
    CUpti_StreamAttrData attribute;
    CUcontext ctx;
    CUstream stream;
    int result;         /* at exit */
    uint32_t object_id; /* what could be asked about the object inside the callback */
    char text[32];
};

static struct {
    CUpti_SubscriberHandle handle;
    struct seen all[SEEN_MAX];
    unsigned n;
    void (*also)(const struct seen *); /* inside the callback */
    CUcontext ctx;
    CUmodule module;
    CUfunction nothing;
} box;

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry nothing() { ret; }\n";

static inline void note_resource(struct seen *s, const CUpti_ResourceData *d)
{
    if (!d)
        return;
    s->ctx = d->context;
    s->stream = d->resourceHandle.stream;
    if (s->id == CUPTI_CBID_RESOURCE_MODULE_LOADED ||
        s->id == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING) {
        s->module = *(const CUpti_ModuleResourceData *)d->resourceDescriptor;
        snprintf(s->text, sizeof(s->text), "%s", s->module.pCubin);
    } else if (s->id == CUPTI_CBID_RESOURCE_STREAM_ATTRIBUTE_CHANGED) {
        s->attribute = *(const CUpti_StreamAttrData *)d->resourceDescriptor;
        s->object_id = (uint32_t)s->attribute.value->priority;
    } else if (s->id == CUPTI_CBID_RESOURCE_STREAM_CREATED ||
               s->id == CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING) {
        FINE(cuptiGetStreamIdEx(d->context, s->stream, 0, &s->object_id));
    } else if (d->resourceDescriptor) {
        s->graph = *(const CUpti_GraphData *)d->resourceDescriptor;
        if (s->graph.graph)
            FINE(cuptiGetGraphId(s->graph.graph, &s->object_id));
    }
}

static inline void on_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                               const void *data)
{
    struct seen *s = &box.all[box.n];

    assert_ptr_equal(userdata, &box);
    if (box.n == SEEN_MAX)
        return;
    memset(s, 0, sizeof(*s));
    box.n++;
    s->domain = domain;
    s->id = id;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
        s->call = *(const CUpti_CallbackData *)data;
        if (s->call.callbackSite == CUPTI_API_EXIT)
            s->result = *(const int *)s->call.functionReturnValue;
    } else if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
        note_resource(s, data);
    } else if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE) {
        s->ctx = ((const CUpti_SynchronizeData *)data)->context;
        s->stream = ((const CUpti_SynchronizeData *)data)->stream;
    }
    if (box.also)
        box.also(s);
}

/* The @k-th notice of a resource; NULL: there are not so many. */
static inline const struct seen *resource(CUpti_CallbackIdResource id, unsigned k)
{
    for (unsigned i = 0; i < box.n; i++)
        if (box.all[i].domain == CUPTI_CB_DOMAIN_RESOURCE && box.all[i].id == (uint32_t)id && !k--)
            return &box.all[i];
    return NULL;
}

static inline int set_up(void **state)
{
    (void)state;
    memset(&box, 0, sizeof(box));
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&box.ctx, 0));
    OK(cuCtxSetCurrent(box.ctx));
    OK(cuModuleLoadData(&box.module, ptx));
    OK(cuModuleGetFunction(&box.nothing, box.module, "nothing"));
    FINE(cuptiSubscribe(&box.handle, on_callback, &box));
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    FINE(cuptiFinalize());
    OK(cuModuleUnload(box.module));
    OK(cuDevicePrimaryCtxRelease(0));
    return 0;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

#endif
