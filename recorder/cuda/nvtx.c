/*
 * NVTX: what NVTX_INJECTION64_PATH names. NVTX's headers look for InitializeInjectionNvtx2() and
 * hand out tables of function pointers, into which ours are put.
 *
 * Pushed ranges of the default domain become ranges of events. Other domains belong to libraries
 * (NCCL, cuDNN) and have stacks of their own; started ranges do not nest: both are left out.
 */
#include "recorder/cuda/front.h"

#if __has_include(<nvtx3/nvToolsExt.h>)

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <stdatomic.h>
#include <string.h>
#include <wchar.h>

#define EXPORT __attribute__((visibility("default")))
#define NAME_BYTES 256
#define ARENA_BYTES (64u << 10)

/* Registered names stay for good: a handle is the address of a copy. Written where `used` says. */
static char arena[ARENA_BYTES];
static atomic_uint used;
static atomic_uint_least64_t handles = 1; /* of domains and ranges that nobody asks about */

static _Thread_local int depth __attribute__((tls_model("initial-exec")));

/* ---------------------------------------------------------------- texts */

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[n] | c);
    return n;
}

static const char *narrow(const wchar_t *text, char *out, size_t size)
{
    size_t n = 0;

    for (; text && *text && n + 5 < size; text++)
        n += put_utf8(out + n, (uint32_t)*text <= 0x10FFFF ? (uint32_t)*text : 0xFFFD);
    out[n] = 0;
    return out;
}

static nvtxStringHandle_t register_text(const char *text)
{
    static const char none[] = "(too many registered names)";
    size_t n = strlen(text) + 1;
    unsigned at = n <= NAME_BYTES ? atomic_fetch_add(&used, (unsigned)n) : ARENA_BYTES;

    if (at >= ARENA_BYTES || n > ARENA_BYTES - at)
        return (nvtxStringHandle_t)(uintptr_t)none;
    memcpy(arena + at, text, n);
    return (nvtxStringHandle_t)(void *)(arena + at);
}

static const char *message_of(const nvtxEventAttributes_t *e, char *out, size_t size)
{
    if (!e)
        return "";
    switch (e->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
        return e->message.ascii ? e->message.ascii : "";
    case NVTX_MESSAGE_TYPE_UNICODE:
        return narrow(e->message.unicode, out, size);
    case NVTX_MESSAGE_TYPE_REGISTERED:
        return e->message.registered ? (const char *)e->message.registered : "";
    default:
        return "";
    }
}

/* ---------------------------------------------------------------- ranges */

static int push(const char *text)
{
    tb_cuda_range(text);
    return depth++;
}

static int pop(void)
{
    if (depth == 0)
        return -1;
    tb_cuda_range(NULL);
    return --depth;
}

static int NVTX_API range_push_a(const char *text)
{
    return push(text ? text : "");
}

static int NVTX_API range_push_w(const wchar_t *text)
{
    char name[NAME_BYTES];

    return push(narrow(text, name, sizeof(name)));
}

static int NVTX_API range_push_ex(const nvtxEventAttributes_t *e)
{
    char name[NAME_BYTES];

    return push(message_of(e, name, sizeof(name)));
}

static int NVTX_API range_pop(void)
{
    return pop();
}

static int NVTX_API domain_push_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *e)
{
    return domain ? NVTX_NO_PUSH_POP_TRACKING : range_push_ex(e);
}

static int NVTX_API domain_pop(nvtxDomainHandle_t domain)
{
    return domain ? NVTX_NO_PUSH_POP_TRACKING : pop();
}

/* ---------------------------------------------------------------- what names them */

static nvtxStringHandle_t NVTX_API register_a(nvtxDomainHandle_t domain, const char *text)
{
    (void)domain;
    return register_text(text ? text : "");
}

static nvtxStringHandle_t NVTX_API register_w(nvtxDomainHandle_t domain, const wchar_t *text)
{
    char name[NAME_BYTES];

    (void)domain;
    return register_text(narrow(text, name, sizeof(name)));
}

/* A domain's handle must not be that of the default one, NULL. */
static nvtxDomainHandle_t NVTX_API domain_create_a(const char *name)
{
    (void)name;
    return (nvtxDomainHandle_t)(uintptr_t)atomic_fetch_add(&handles, 1);
}

static nvtxDomainHandle_t NVTX_API domain_create_w(const wchar_t *name)
{
    (void)name;
    return domain_create_a(NULL);
}

/* ---------------------------------------------------------------- injection */

#define ENTRY(MODULE, name, function)                                                              \
    {                                                                                              \
        NVTX_CB_MODULE_##MODULE, NVTX_CBID_##MODULE##_##name, (NvtxFunctionPointer)(function)      \
    }
static const struct entry {
    NvtxCallbackModule module;
    unsigned id; /* in the module's table */
    NvtxFunctionPointer function;
} entries[] = {
    ENTRY(CORE, RangePushA, range_push_a),
    ENTRY(CORE, RangePushW, range_push_w),
    ENTRY(CORE, RangePushEx, range_push_ex),
    ENTRY(CORE, RangePop, range_pop),
    ENTRY(CORE2, DomainRangePushEx, domain_push_ex),
    ENTRY(CORE2, DomainRangePop, domain_pop),
    ENTRY(CORE2, DomainRegisterStringA, register_a),
    ENTRY(CORE2, DomainRegisterStringW, register_w),
    ENTRY(CORE2, DomainCreateA, domain_create_a),
    ENTRY(CORE2, DomainCreateW, domain_create_w),
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

EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table ? get_table(NVTX_ETID_CALLBACKS) : NULL;

    if (!callbacks || callbacks->struct_size < sizeof(*callbacks))
        return 0;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        put(callbacks, &entries[i]);
    return 1;
}

#endif
