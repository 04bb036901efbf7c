/*
 * NVTX: the library is what NVTX_INJECTION64_PATH may name. NVTX's headers look for
 * InitializeInjectionNvtx2() in it and hand out tables of function pointers, into which ours are
 * put. Each call is told once, before it returns.
 */
#include "softgpu/cupti/cupti_internal.h"

#if __has_include(<nvtx3/nvToolsExt.h>) && __has_include(<generated_nvtx_meta.h>)

#include <generated_nvtx_meta.h>

#include <stdatomic.h>
#include <stdint.h>

/* Parameters that generated_nvtx_meta.h has no structure for: the arguments in their order. */
struct name_category {
    nvtxDomainHandle_t domain;
    uint32_t category;
    const void *name;
};

struct resource_create {
    nvtxDomainHandle_t domain;
    nvtxResourceAttributes_t *attribs;
};

struct resource_destroy {
    nvtxResourceHandle_t resource;
};

static void tell(CUpti_CallbackId id, const char *name, const void *params, const void *result)
{
    CUpti_NvtxData data = {
        .functionName = name, .functionParams = params, .functionReturnValue = result};

    if (sg_cupti_wants(CUPTI_CB_DOMAIN_NVTX, id))
        sg_cupti_deliver(CUPTI_CB_DOMAIN_NVTX, id, &data);
}

/* ---- handles and depths ---------------------------------------------------------------------- */

#define DOMAINS_MAX 64 /* whose depths are counted; 0 is the default one */

/* Handles are numbers: nothing is behind them, so a program may use one after its end. */
static atomic_uint next_domain = 1;
static atomic_uint_least64_t next_handle = 1, next_range = 1;
static __thread int depths[DOMAINS_MAX];

static void *new_handle(void)
{
    return (void *)(uintptr_t)atomic_fetch_add(&next_handle, 1);
}

static int *depth_of(nvtxDomainHandle_t domain)
{
    uintptr_t index = (uintptr_t)domain;

    return index < DOMAINS_MAX ? &depths[index] : NULL;
}

/* The depth of the range that begins, from 0. */
static int push(nvtxDomainHandle_t domain)
{
    int *depth = depth_of(domain);

    return depth ? (*depth)++ : NVTX_NO_PUSH_POP_TRACKING;
}

/* The depth of the range that ends; a negative number: there is none. */
static int pop(nvtxDomainHandle_t domain)
{
    int *depth = depth_of(domain);

    if (!depth)
        return NVTX_NO_PUSH_POP_TRACKING;
    return *depth ? --*depth : -1;
}

static nvtxRangeId_t new_range(void)
{
    return atomic_fetch_add(&next_range, 1);
}

/* ---- the functions --------------------------------------------------------------------------- */

#define TELL(name, result, ...)                                                                    \
    tell(CUPTI_CBID_NVTX_##name, #name, &(name##_params){__VA_ARGS__}, result)
#define TELL_AS(name, T, result, ...) tell(CUPTI_CBID_NVTX_##name, #name, &(T){__VA_ARGS__}, result)

/* one parameter, or two, and no result */
#define VOID_1(name, A)                                                                            \
    static void NVTX_API on_##name(A a)                                                            \
    {                                                                                              \
        TELL(name, NULL, a);                                                                       \
    }
#define VOID_2(name, A, B)                                                                         \
    static void NVTX_API on_##name(A a, B b)                                                       \
    {                                                                                              \
        TELL(name, NULL, a, b);                                                                    \
    }
#define RANGE_START(name, A)                                                                       \
    static nvtxRangeId_t NVTX_API on_##name(A a)                                                   \
    {                                                                                              \
        nvtxRangeId_t id = new_range();                                                            \
                                                                                                   \
        TELL(name, &id, a);                                                                        \
        return id;                                                                                 \
    }
#define RANGE_PUSH(name, A)                                                                        \
    static int NVTX_API on_##name(A a)                                                             \
    {                                                                                              \
        int depth = push(NULL);                                                                    \
                                                                                                   \
        TELL(name, &depth, a);                                                                     \
        return depth;                                                                              \
    }

VOID_1(nvtxMarkEx, const nvtxEventAttributes_t *)
VOID_1(nvtxMarkA, const char *)
VOID_1(nvtxMarkW, const wchar_t *)
RANGE_START(nvtxRangeStartEx, const nvtxEventAttributes_t *)
RANGE_START(nvtxRangeStartA, const char *)
RANGE_START(nvtxRangeStartW, const wchar_t *)
VOID_1(nvtxRangeEnd, nvtxRangeId_t)
RANGE_PUSH(nvtxRangePushEx, const nvtxEventAttributes_t *)
RANGE_PUSH(nvtxRangePushA, const char *)
RANGE_PUSH(nvtxRangePushW, const wchar_t *)
VOID_2(nvtxNameCategoryA, uint32_t, const char *)
VOID_2(nvtxNameCategoryW, uint32_t, const wchar_t *)
VOID_2(nvtxNameOsThreadA, uint32_t, const char *)
VOID_2(nvtxNameOsThreadW, uint32_t, const wchar_t *)
VOID_2(nvtxNameCuDeviceA, CUdevice, const char *)
VOID_2(nvtxNameCuDeviceW, CUdevice, const wchar_t *)
VOID_2(nvtxNameCuContextA, CUcontext, const char *)
VOID_2(nvtxNameCuContextW, CUcontext, const wchar_t *)
VOID_2(nvtxNameCuStreamA, CUstream, const char *)
VOID_2(nvtxNameCuStreamW, CUstream, const wchar_t *)
VOID_2(nvtxNameCuEventA, CUevent, const char *)
VOID_2(nvtxNameCuEventW, CUevent, const wchar_t *)
VOID_2(nvtxNameCudaDeviceA, int, const char *)
VOID_2(nvtxNameCudaDeviceW, int, const wchar_t *)
VOID_2(nvtxNameCudaStreamA, cudaStream_t, const char *)
VOID_2(nvtxNameCudaStreamW, cudaStream_t, const wchar_t *)
VOID_2(nvtxNameCudaEventA, cudaEvent_t, const char *)
VOID_2(nvtxNameCudaEventW, cudaEvent_t, const wchar_t *)
VOID_1(nvtxDomainDestroy, nvtxDomainHandle_t)

static int NVTX_API on_nvtxRangePop(void)
{
    int depth = pop(NULL);

    TELL(nvtxRangePop, &depth, NULL);
    return depth;
}

static void NVTX_API on_nvtxDomainMarkEx(nvtxDomainHandle_t d, const nvtxEventAttributes_t *e)
{
    TELL(nvtxDomainMarkEx, NULL, d, {e});
}

static nvtxRangeId_t NVTX_API on_nvtxDomainRangeStartEx(nvtxDomainHandle_t d,
                                                        const nvtxEventAttributes_t *e)
{
    nvtxRangeId_t id = new_range();

    TELL(nvtxDomainRangeStartEx, &id, d, {e});
    return id;
}

static void NVTX_API on_nvtxDomainRangeEnd(nvtxDomainHandle_t d, nvtxRangeId_t id)
{
    TELL(nvtxDomainRangeEnd, NULL, d, {id});
}

static int NVTX_API on_nvtxDomainRangePushEx(nvtxDomainHandle_t d, const nvtxEventAttributes_t *e)
{
    int depth = push(d);

    TELL(nvtxDomainRangePushEx, &depth, d, {e});
    return depth;
}

static int NVTX_API on_nvtxDomainRangePop(nvtxDomainHandle_t d)
{
    int depth = pop(d);

    TELL(nvtxDomainRangePop, &depth, d);
    return depth;
}

static nvtxResourceHandle_t NVTX_API on_nvtxDomainResourceCreate(nvtxDomainHandle_t d,
                                                                 nvtxResourceAttributes_t *a)
{
    nvtxResourceHandle_t h = (nvtxResourceHandle_t)new_handle();

    TELL_AS(nvtxDomainResourceCreate, struct resource_create, &h, d, a);
    return h;
}

static void NVTX_API on_nvtxDomainResourceDestroy(nvtxResourceHandle_t h)
{
    TELL_AS(nvtxDomainResourceDestroy, struct resource_destroy, NULL, h);
}

static void NVTX_API on_nvtxDomainNameCategoryA(nvtxDomainHandle_t d, uint32_t c, const char *name)
{
    TELL_AS(nvtxDomainNameCategoryA, struct name_category, NULL, d, c, name);
}

static void NVTX_API on_nvtxDomainNameCategoryW(nvtxDomainHandle_t d, uint32_t c,
                                                const wchar_t *name)
{
    TELL_AS(nvtxDomainNameCategoryW, struct name_category, NULL, d, c, name);
}

static nvtxStringHandle_t NVTX_API on_nvtxDomainRegisterStringA(nvtxDomainHandle_t d, const char *s)
{
    nvtxStringHandle_t h = (nvtxStringHandle_t)new_handle();

    TELL(nvtxDomainRegisterStringA, &h, d, s);
    return h;
}

static nvtxStringHandle_t NVTX_API on_nvtxDomainRegisterStringW(nvtxDomainHandle_t d,
                                                                const wchar_t *s)
{
    nvtxStringHandle_t h = (nvtxStringHandle_t)new_handle();

    /* as the structure has it: a pointer to wide characters */
    TELL(nvtxDomainRegisterStringW, &h, d, (const char *)(const void *)s);
    return h;
}

static nvtxDomainHandle_t new_domain(void)
{
    return (nvtxDomainHandle_t)(uintptr_t)atomic_fetch_add(&next_domain, 1);
}

static nvtxDomainHandle_t NVTX_API on_nvtxDomainCreateA(const char *name)
{
    nvtxDomainHandle_t d = new_domain();

    TELL(nvtxDomainCreateA, &d, name);
    return d;
}

static nvtxDomainHandle_t NVTX_API on_nvtxDomainCreateW(const wchar_t *name)
{
    nvtxDomainHandle_t d = new_domain();

    TELL_AS(nvtxDomainCreateW, nvtxMarkW_params, &d, name);
    return d;
}

static nvtxSyncUser_t NVTX_API on_nvtxDomainSyncUserCreate(nvtxDomainHandle_t d,
                                                           const nvtxSyncUserAttributes_t *a)
{
    nvtxSyncUser_t h = (nvtxSyncUser_t)new_handle();

    TELL_AS(nvtxDomainSyncUserCreate, nvtxSyncUserCreate_params, &h, d, a);
    return h;
}

#define SYNC(name)                                                                                 \
    static void NVTX_API on_##name(nvtxSyncUser_t h)                                               \
    {                                                                                              \
        TELL_AS(name, nvtxSyncUserCommon_params, NULL, h);                                         \
    }
SYNC(nvtxDomainSyncUserAcquireStart)
SYNC(nvtxDomainSyncUserAcquireFailed)
SYNC(nvtxDomainSyncUserAcquireSuccess)
SYNC(nvtxDomainSyncUserReleasing)
SYNC(nvtxDomainSyncUserDestroy)

/* ---- injection ------------------------------------------------------------------------------- */

struct entry {
    NvtxCallbackModule module;
    unsigned id; /* in the module's table */
    NvtxFunctionPointer function;
};

#define ENTRY(MODULE, name)                                                                        \
    {                                                                                              \
        NVTX_CB_MODULE_##MODULE, NVTX_CBID_##MODULE##_##name, (NvtxFunctionPointer)on_nvtx##name   \
    }
static const struct entry entries[] = {
    ENTRY(CORE, MarkEx),
    ENTRY(CORE, MarkA),
    ENTRY(CORE, MarkW),
    ENTRY(CORE, RangeStartEx),
    ENTRY(CORE, RangeStartA),
    ENTRY(CORE, RangeStartW),
    ENTRY(CORE, RangeEnd),
    ENTRY(CORE, RangePushEx),
    ENTRY(CORE, RangePushA),
    ENTRY(CORE, RangePushW),
    ENTRY(CORE, RangePop),
    ENTRY(CORE, NameCategoryA),
    ENTRY(CORE, NameCategoryW),
    ENTRY(CORE, NameOsThreadA),
    ENTRY(CORE, NameOsThreadW),
    ENTRY(CORE2, DomainMarkEx),
    ENTRY(CORE2, DomainRangeStartEx),
    ENTRY(CORE2, DomainRangeEnd),
    ENTRY(CORE2, DomainRangePushEx),
    ENTRY(CORE2, DomainRangePop),
    ENTRY(CORE2, DomainResourceCreate),
    ENTRY(CORE2, DomainResourceDestroy),
    ENTRY(CORE2, DomainNameCategoryA),
    ENTRY(CORE2, DomainNameCategoryW),
    ENTRY(CORE2, DomainRegisterStringA),
    ENTRY(CORE2, DomainRegisterStringW),
    ENTRY(CORE2, DomainCreateA),
    ENTRY(CORE2, DomainCreateW),
    ENTRY(CORE2, DomainDestroy),
    ENTRY(CUDA, NameCuDeviceA),
    ENTRY(CUDA, NameCuDeviceW),
    ENTRY(CUDA, NameCuContextA),
    ENTRY(CUDA, NameCuContextW),
    ENTRY(CUDA, NameCuStreamA),
    ENTRY(CUDA, NameCuStreamW),
    ENTRY(CUDA, NameCuEventA),
    ENTRY(CUDA, NameCuEventW),
    ENTRY(CUDART, NameCudaDeviceA),
    ENTRY(CUDART, NameCudaDeviceW),
    ENTRY(CUDART, NameCudaStreamA),
    ENTRY(CUDART, NameCudaStreamW),
    ENTRY(CUDART, NameCudaEventA),
    ENTRY(CUDART, NameCudaEventW),
    ENTRY(SYNC, DomainSyncUserCreate),
    ENTRY(SYNC, DomainSyncUserDestroy),
    ENTRY(SYNC, DomainSyncUserAcquireStart),
    ENTRY(SYNC, DomainSyncUserAcquireFailed),
    ENTRY(SYNC, DomainSyncUserAcquireSuccess),
    ENTRY(SYNC, DomainSyncUserReleasing),
};

/* A table may be missing, shorter or have holes: the program's NVTX may be older. */
static void put(const NvtxExportTableCallbacks *callbacks, const struct entry *e)
{
    NvtxFunctionTable table = NULL;
    unsigned size = 0;

    if (callbacks->GetModuleFunctionTable(e->module, &table, &size) && table && e->id < size &&
        table[e->id])
        *table[e->id] = e->function;
}

static int inject(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table ? get_table(NVTX_ETID_CALLBACKS) : NULL;
    const NvtxExportTableVersionInfo *version = get_table ? get_table(NVTX_ETID_VERSIONINFO) : NULL;

    if (!callbacks || callbacks->struct_size < sizeof(*callbacks))
        return 0;
    if (version && version->struct_size >= sizeof(*version) && version->SetInjectionNvtxVersion)
        version->SetInjectionNvtxVersion(NVTX_VERSION);
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        put(callbacks, &entries[i]);
    return 1;
}

SG_CUPTI_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    return inject(get_table);
}

/* The name that NVTX 2 looks for. */
SG_CUPTI_EXPORT int InitializeInjectionNvtx(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx(NvtxGetExportTableFunc_t get_table)
{
    return inject(get_table);
}

#endif
