/* Pointer attributes. Asked for 10^4 to 10^5 times a training step: no lock on the way. */
#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/strict.h"

#include <string.h>

union value {
    void *pointer;
    CUdeviceptr address;
    unsigned long long number;
    int integer;
};

struct query {
    CUdeviceptr ptr;
    struct sg_rec rec;
    bool known;
    struct CUctx_st *ctx; /* current one, or NULL */
};

typedef CUresult (*getter)(const struct query *q, union value *v);

static bool pooled(const struct sg_rec *r)
{
    return r->a.kind == SG_ALLOC_POOL;
}

static bool managed(const struct sg_rec *r)
{
    return r->a.kind == SG_ALLOC_MANAGED || (pooled(r) && sg_pool_managed(r->a.pool));
}

/* Memory of pools and of cuMemCreate belongs to a device, not to a context. */
static CUresult get_context(const struct query *q, union value *v)
{
    v->pointer = pooled(&q->rec) || q->rec.a.kind == SG_ALLOC_VMM ? NULL : q->rec.a.ctx;
    return CUDA_SUCCESS;
}

static CUresult get_memory_type(const struct query *q, union value *v)
{
    v->integer = q->rec.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
}

static CUresult get_device_pointer(const struct query *q, union value *v)
{
    if (!q->ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    v->address = q->ptr;
    return q->rec.read & q->ctx->dev->bit ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_host_pointer(const struct query *q, union value *v)
{
    v->address = q->ptr;
    return q->rec.host || managed(&q->rec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_sync_memops(const struct query *q, union value *v)
{
    v->integer = q->rec.sync_memops;
    return CUDA_SUCCESS;
}

static CUresult get_buffer_id(const struct query *q, union value *v)
{
    v->number = q->rec.a.id;
    return CUDA_SUCCESS;
}

static CUresult get_is_managed(const struct query *q, union value *v)
{
    v->integer = managed(&q->rec);
    return CUDA_SUCCESS;
}

static CUresult get_ordinal(const struct query *q, union value *v)
{
    const struct sg_rec *r = &q->rec;

    v->integer = r->a.dev ? r->a.dev->ordinal : CU_DEVICE_CPU;
    if (!r->a.dev && r->a.ctx && !pooled(r))
        v->integer = r->a.ctx->dev->ordinal;
    return CUDA_SUCCESS;
}

static CUresult get_no(const struct query *q, union value *v)
{
    (void)q;
    v->integer = 0;
    return CUDA_SUCCESS;
}

static CUresult get_start(const struct query *q, union value *v)
{
    uint64_t base = q->rec.a.addr;

    sg_vmm_range(q->ptr, &base, NULL);
    v->address = base;
    return CUDA_SUCCESS;
}

static CUresult get_size(const struct query *q, union value *v)
{
    uint64_t size = q->rec.a.size;

    sg_vmm_range(q->ptr, NULL, &size);
    v->number = size;
    return CUDA_SUCCESS;
}

static CUresult get_mapped(const struct query *q, union value *v)
{
    (void)q;
    v->integer = 1;
    return CUDA_SUCCESS;
}

static CUresult get_handle_types(const struct query *q, union value *v)
{
    v->number = q->rec.a.kind == SG_ALLOC_VMM ? q->rec.a.flags : 0;
    return CUDA_SUCCESS;
}

static CUresult get_access(const struct query *q, union value *v)
{
    uint8_t bit;

    if (!q->ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    bit = q->ctx->dev->bit;
    v->integer = (q->rec.read & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ : 0) |
                 (q->rec.write & bit ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0);
    return CUDA_SUCCESS;
}

static CUresult get_pool(const struct query *q, union value *v)
{
    v->pointer = q->rec.a.pool;
    return CUDA_SUCCESS;
}

static CUresult get_mapping_size(const struct query *q, union value *v)
{
    v->number = q->rec.a.size;
    return CUDA_SUCCESS;
}

static CUresult get_mapping_base(const struct query *q, union value *v)
{
    v->address = q->rec.a.addr;
    return CUDA_SUCCESS;
}

static CUresult get_block_id(const struct query *q, union value *v)
{
    v->number = q->rec.a.kind == SG_ALLOC_VMM ? q->rec.phys_id : q->rec.a.id;
    return CUDA_SUCCESS;
}

static const struct attribute {
    getter get;   /* NULL: not supported */
    uint8_t size; /* of what is written */
    int unknown;  /* for a pointer CUDA does not know, in the plural form */
} attributes[] = {
    [CU_POINTER_ATTRIBUTE_CONTEXT] = {get_context, 8, 0},
    [CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = {get_memory_type, 4, 0},
    [CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = {get_device_pointer, 8, 0},
    [CU_POINTER_ATTRIBUTE_HOST_POINTER] = {get_host_pointer, 8, 0},
    [CU_POINTER_ATTRIBUTE_P2P_TOKENS] = {NULL, 0, 0},
    [CU_POINTER_ATTRIBUTE_SYNC_MEMOPS] = {get_sync_memops, 4, 0},
    [CU_POINTER_ATTRIBUTE_BUFFER_ID] = {get_buffer_id, 8, 0},
    [CU_POINTER_ATTRIBUTE_IS_MANAGED] = {get_is_managed, 4, 0},
    [CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = {get_ordinal, 4, CU_DEVICE_INVALID},
    [CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = {get_no, 4, 0},
    [CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = {get_start, 8, 0},
    [CU_POINTER_ATTRIBUTE_RANGE_SIZE] = {get_size, 8, 0},
    [CU_POINTER_ATTRIBUTE_MAPPED] = {get_mapped, 4, 0},
    [CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] = {get_handle_types, 8, 0},
    [CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE] = {get_no, 4, 0},
    [CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = {get_access, 4, 0},
    [CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = {get_pool, 8, 0},
    [CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = {get_mapping_size, 8, 0},
    [CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = {get_mapping_base, 8, 0},
    [CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID] = {get_block_id, 8, 0},
#if CUDA_VERSION >= 12080
    [CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE] = {get_no, 4, 0},
#endif
};

static const struct attribute *attribute_of(CUpointer_attribute a)
{
    return (int)a > 0 && (size_t)a < TB_ARRAY_LEN(attributes) ? &attributes[a] : NULL;
}

static CUresult query_begin(struct query *q, CUdeviceptr ptr)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_ERROR_INVALID_CONTEXT) /* needed by two attributes only */
        r = CUDA_SUCCESS;
    q->ptr = ptr;
    q->ctx = ctx;
    if (sg_strict())
        sg_strict_stale(ptr, "the pointer asked about", true);
    q->known = r == CUDA_SUCCESS && sg_rec_find(ptr, &q->rec);
    return r;
}

static void write_value(void *data, const struct attribute *a, const union value *v)
{
    memcpy(data, v, a->size);
}

CUresult sg_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    const struct attribute *a = attribute_of(attribute);
    union value v = {0};
    struct query q;
    CUresult r = query_begin(&q, ptr);

    if (r != CUDA_SUCCESS)
        return r;
    if (!data || !a)
        return CUDA_ERROR_INVALID_VALUE;
    if (!a->get)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (q.known)
        r = a->get(&q, &v);
    else if (a->get == get_mapped && sg_vmm_range(ptr, NULL, NULL))
        r = CUDA_SUCCESS; /* reserved, nothing there */
    else
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        write_value(data, a, &v);
    return r;
}

CUresult sg_cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attrs, void **data,
                                   CUdeviceptr ptr)
{
    struct query q;
    CUresult r = query_begin(&q, ptr);

    if (r != CUDA_SUCCESS)
        return r;
    if (!n || !attrs || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        const struct attribute *a = attribute_of(attrs[i]);

        if (!a || !data[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (!a->get)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    for (unsigned i = 0; i < n; i++) {
        const struct attribute *a = attribute_of(attrs[i]);
        union value v = {0};

        if (!q.known || a->get(&q, &v) != CUDA_SUCCESS) {
            memset(&v, 0, sizeof(v));
            v.integer = q.known ? 0 : a->unknown;
        }
        write_value(data[i], a, &v);
    }
    return CUDA_SUCCESS;
}

CUresult sg_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct sg_rec rec;
    unsigned on = 0;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sg_rec_find(ptr, &rec))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&on, value, sizeof(on));
    sg_memory_lock();
    if (sg_rec_at(rec.a.addr, &rec)) {
        rec.sync_memops = on != 0;
        sg_rec_update(&rec);
    }
    sg_memory_unlock();
    return CUDA_SUCCESS;
}
