/* What can be asked of a stream, and its attributes. */
#include "softgpu/driver/hooks.h"
#include "softgpu/driver/stream.h"

#include "softgpu/driver/api_gen.h"

#include <string.h>

CUresult sg_cuStreamGetPriority(CUstream given, int *priority)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r == CUDA_SUCCESS && !priority)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *priority = s->priority;
    return r;
}

CUresult sg_cuStreamGetFlags(CUstream given, unsigned *flags)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r == CUDA_SUCCESS && !flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *flags = s->flags;
    return r;
}

CUresult sg_cuStreamGetId(CUstream given, unsigned long long *id)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r == CUDA_SUCCESS && !id)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *id = s->id;
    return r;
}

CUresult sg_cuStreamGetCtx(CUstream given, CUcontext *ctx)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r == CUDA_SUCCESS && !ctx)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ctx = s->ctx;
    return r;
}

CUresult sg_cuStreamGetCtx_v2(CUstream given, CUcontext *ctx, CUgreenCtx *green)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (!ctx || !green)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->ctx->green && given == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    *green = s->ctx->green;
    *ctx = s->ctx->green ? s->ctx->dev->primary : s->ctx;
    return CUDA_SUCCESS;
}

CUresult sg_cuStreamGetDevice(CUstream given, CUdevice *device)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r == CUDA_SUCCESS && !device)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *device = s->ctx->dev->ordinal;
    return r;
}

/* ---- attributes: fields of a stream that are copied as they are ---- */

#define FIELD(f) offsetof(struct CUstream_st, f), sizeof(((struct CUstream_st *)0)->f)
static const struct {
    CUstreamAttrID id;
    size_t offset, size;
} attributes[] = {
    {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, FIELD(access_window)},
    {CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, FIELD(sync_policy)},
    {CU_LAUNCH_ATTRIBUTE_PRIORITY, FIELD(priority)},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, FIELD(domain_map)},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, FIELD(domain)},
};

/* The field in a stream; every member of the value begins at its start. NULL: no such attribute. */
static void *field_of(struct CUstream_st *s, CUstreamAttrID id, size_t *size)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(attributes); i++)
        if (attributes[i].id == id) {
            *size = attributes[i].size;
            return (char *)s + attributes[i].offset;
        }
    return NULL;
}

static bool acceptable(CUstreamAttrID id, const CUstreamAttrValue *v)
{
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return v->accessPolicyWindow.hitRatio >= 0 && v->accessPolicyWindow.hitRatio <= 1 &&
               v->accessPolicyWindow.missProp != CU_ACCESS_PROPERTY_PERSISTING;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        return v->syncPolicy >= CU_SYNC_POLICY_AUTO &&
               v->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        return v->priority >= SG_PRIORITY_GREATEST && v->priority <= SG_PRIORITY_LEAST;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return v->memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT ||
               v->memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    default:
        return true;
    }
}

/* A stream's attribute and a value's bytes, one way or the other. */
static CUresult attribute(CUstream given, CUstreamAttrID id, CUstreamAttrValue *get,
                          const CUstreamAttrValue *set)
{
    struct CUstream_st *s;
    size_t size = 0;
    void *field;
    CUresult r = sg_stream_of(given, &s);

    if (r != CUDA_SUCCESS)
        return r;
    field = field_of(s, id, &size);
    if (!field || (!get && !set) || (set && !acceptable(id, set)))
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    if (get) {
        memset(get, 0, sizeof(*get));
        memcpy(get, field, size);
    } else if (set) {
        memcpy(field, set, size);
    }
    sg_engine_unlock();
    if (set)
        SG_TELL(.kind = SG_NOTICE_STREAM_ATTRIBUTE, .ctx = s->ctx, .stream = given, .attribute = id,
                .value = set);
    return CUDA_SUCCESS;
}

CUresult sg_cuStreamGetAttribute(CUstream given, CUstreamAttrID id, CUstreamAttrValue *value)
{
    return attribute(given, id, value, NULL);
}

CUresult sg_cuStreamSetAttribute(CUstream given, CUstreamAttrID id, const CUstreamAttrValue *value)
{
    return attribute(given, id, NULL, value);
}

CUresult sg_cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    struct CUstream_st *d, *s;
    size_t size = 0;
    CUresult r = sg_stream_of(dst, &d);

    if (r == CUDA_SUCCESS)
        r = sg_stream_of(src, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (d->ctx != s->ctx)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    for (size_t i = 0; i < TB_ARRAY_LEN(attributes) && d != s; i++) {
        void *field = field_of(d, attributes[i].id, &size);

        memcpy(field, field_of(s, attributes[i].id, &size), size);
    }
    sg_engine_unlock();
    return CUDA_SUCCESS;
}
