/*
 * The front end on CUPTI: what the driver loads when CUDA_INJECTION64_PATH names this library.
 *
 * CUPTI is opened, never linked: the one of the job if it has one, for its activity records and our
 * callbacks must come from the same. It has one slot for a subscriber; if somebody holds it the job
 * goes on without us. NVIDIA's manual allows few calls of CUDA inside a callback: `legal` of a call
 * is what `twinbit run --enqueue` says.
 */
#include "cuda_calls.h"

#include "recorder/cuda/attach.h"
#include "recorder/cuda/cupti_internal.h"
#include "recorder/cuda/names.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int InitializeInjection(void);

#if __has_include(<cupti_callbacks.h>)

#include <cupti_callbacks.h>
#include <cupti_result.h>

#define UNKNOWN_IDS 512u /* looked at beyond those that our headers have */
#define NAME_BYTES 64

/* Written by the one thread in which the driver starts, before callbacks are enabled. */
static struct {
    const struct tb_rec_api *api;
    void *driver; /* handle of the library that called us */
    twinbit_shim_symbol_fn behind_shim;
    bool legal;
} cupti;

/* This thread is in the cuInit that loaded us, whose end will come without its beginning. */
static _Thread_local bool half_init __attribute__((tls_model("initial-exec")));

struct functions {
    __typeof__(&cuptiSubscribe) subscribe;
    CUptiResult (*subscribe_v2)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *, void *);
    __typeof__(&cuptiEnableCallback) enable;
    __typeof__(&cuptiGetCallbackName) name;
    __typeof__(&cuptiGetResultString) text;
};

/* ---------------------------------------------------------------- the driver's functions */

/* The library that called InitializeInjection() is the driver, however it was found. */
static void *caller_library(const void *caller)
{
    Dl_info it, of_init;
    void *handle = NULL;

    if (dladdr(caller, &it) && it.dli_fname)
        handle = dlopen(it.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *init = handle ? dlsym(handle, "cuInit") : NULL;
    if (init && dladdr(init, &of_init) && of_init.dli_fbase == it.dli_fbase)
        return handle;
    (void)dlerror();
    return NULL;
}

static void find_driver(const void *caller)
{
    cupti.driver = caller_library(caller);
    if (!cupti.driver)
        cupti.driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (cupti.driver)
        *(void **)&cupti.behind_shim = dlsym(cupti.driver, "twinbit_shim_symbol");
    (void)dlerror();
}

static void *symbol(const char *name)
{
    int saved = errno;
    void *f = NULL;

    if (cupti.behind_shim)
        f = cupti.behind_shim(name);
    else if (cupti.driver)
        f = dlsym(cupti.driver, name);
    if (!f)
        (void)dlerror();
    errno = saved;
    return f;
}

static const struct tb_cuda_front front = {.name = "cupti", .symbol = symbol};

/* ---------------------------------------------------------------- callbacks */

static void on_enter(struct tb_cuda_call *call, const CUpti_CallbackData *data)
{
    *call->user = 0;
    if (call->id >= TB_CUDA_ID_END) {
        tb_cuda_unknown(call->id, data->functionName);
        return;
    }
    if (call->id == TB_CUDA_cuInit)
        half_init = false;
    tb_cuda_enter(call);
}

static bool is_half(const struct tb_cuda_call *call)
{
    if (__builtin_expect(call->id != TB_CUDA_cuInit, 1) || !half_init)
        return false;
    half_init = false;
    return true;
}

static void CUPTIAPI on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                             const void *cbdata)
{
    const CUpti_CallbackData *data = cbdata;

    (void)unused;
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API || tb_cuda_own)
        return;
    struct tb_cuda_call call = {.id = id,
                                .legal = cupti.legal,
                                .params = data->functionParams,
                                .user = data->correlationData};
    if (data->callbackSite == CUPTI_API_ENTER) {
        on_enter(&call, data);
        return;
    }
    if (id >= TB_CUDA_ID_END || is_half(&call))
        return;
    call.result = data->functionReturnValue ? *(const int *)data->functionReturnValue : 0;
    tb_cuda_exit(&call);
}

/* ---------------------------------------------------------------- subscribing */

static void say(const char *kind, const char *subject, const char *text)
{
    struct tb_rec_thread *t = cupti.api->self();

    cupti.api->log(text);
    if (t)
        cupti.api->cover(t, 1, TB_REC_NO_SEQ, kind, subject, text, 1);
}

static void join(char *out, size_t size, const char *const *parts)
{
    size_t used = 0;

    for (; *parts; parts++)
        for (const char *p = *parts; *p && used + 1 < size; p++)
            out[used++] = *p;
    out[used] = 0;
}

static void say_taken(const char *who)
{
    char text[256];

    join(text, sizeof(text),
         (const char *const[]){"CUPTI's only slot is held by ", who[0] ? who : "another tool",
                               ": going on without recording CUDA; --tap shim needs no slot",
                               NULL});
    say("cuda-tap", "cupti", text);
}

static void say_failed(const struct functions *f, CUptiResult r)
{
    const char *why = "unknown error";
    char text[256];

    if (f->text)
        (void)f->text(r, &why);
    join(text, sizeof(text),
         (const char *const[]){"CUPTI refuses a subscriber (", why,
                               "): going on without recording CUDA; try --tap shim", NULL});
    say("cuda-tap", "cupti", text);
}

#ifdef CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN
static CUptiResult subscribe(const struct functions *f, CUpti_SubscriberHandle *s, char *who)
{
    CUpti_SubscriberParams p = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                .subscriberName = "twinbit",
                                .oldSubscriberName = who,
                                .oldSubscriberSize = NAME_BYTES};

    return f->subscribe_v2 ? f->subscribe_v2(s, on_call, NULL, &p) : f->subscribe(s, on_call, NULL);
}
#else
static CUptiResult subscribe(const struct functions *f, CUpti_SubscriberHandle *s, char *who)
{
    (void)who;
    return f->subscribe(s, on_call, NULL);
}
#endif

/* An older CUPTI knows fewer ids than our headers: then there are no such functions either. */
static void enable_known(const struct functions *f, CUpti_SubscriberHandle s)
{
    for (size_t i = 0; i < tb_cuda_names_count; i++)
        if (tb_cuda_names[i].hooked && tb_cuda_names[i].id < TB_CUDA_ID_END)
            (void)f->enable(1, s, CUPTI_CB_DOMAIN_DRIVER_API, tb_cuda_names[i].id);
}

static bool may_change_memory(const char *name)
{
    static const char *const words[] = {"Launch", "Memcpy", "Memset", "Graph", "Batch", "Mem"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

static void enable_unknown(const struct functions *f, CUpti_SubscriberHandle s)
{
    for (uint32_t id = TB_CUDA_ID_END; f->name && id < TB_CUDA_ID_END + UNKNOWN_IDS; id++) {
        const char *name = NULL;

        if (f->name(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) != CUPTI_SUCCESS)
            break;
        if (name && may_change_memory(name))
            (void)f->enable(1, s, CUPTI_CB_DOMAIN_DRIVER_API, id);
    }
}

static bool load_functions(struct functions *f)
{
    void *handle = tb_cupti_open(symbol("cuDriverGetVersion"));
    const struct {
        const char *name;
        void *to;
    } all[] = {{"cuptiSubscribe", &f->subscribe},
               {"cuptiEnableCallback", &f->enable},
               {"cuptiSubscribe_v2", &f->subscribe_v2},
               {"cuptiGetCallbackName", &f->name},
               {"cuptiGetResultString", &f->text}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        *(void **)all[i].to = handle ? dlsym(handle, all[i].name) : NULL;
    (void)dlerror();
    return f->subscribe && f->enable;
}

/* The engine hears of the cuInit that is under way, as from the shim. */
static void tell_init(void)
{
    struct tb_cuInit_params params = {.Flags = 0};
    uint64_t user = 0;
    struct tb_cuda_call call = {
        .id = TB_CUDA_cuInit, .legal = cupti.legal, .params = &params, .user = &user};

    half_init = true;
    tb_cuda_enter(&call);
    tb_cuda_exit(&call);
}

/* Who comes later is refused by CUPTI and cannot be seen: the trace says why a profile is empty. */
static void note_slot(void)
{
    struct tb_rec_thread *t = cupti.api->self();

    if (t)
        cupti.api->meta(t, "cuda.slot",
                        "twinbit holds CUPTI's only slot: a profiler of this job that wants it is "
                        "refused; --tap shim leaves it to them");
}

static void start(void)
{
    struct functions f = {.subscribe = NULL};
    CUpti_SubscriberHandle subscriber = NULL;
    char who[NAME_BYTES] = "";

    if (!load_functions(&f)) {
        say("cuda-tap", "cupti",
            "no libcupti was found: going on without recording CUDA; put its folder into "
            "LD_LIBRARY_PATH, or use --tap shim");
        return;
    }
    CUptiResult r = subscribe(&f, &subscriber, who);
    who[sizeof(who) - 1] = 0;
    if (r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
        say_taken(who);
        return;
    }
    if (r != CUPTI_SUCCESS) {
        say_failed(&f, r);
        return;
    }
    if (!tb_cuda_start(&front, cupti.api))
        return; /* the slot stays ours: giving it back may end CUPTI for others */
    enable_known(&f, subscriber);
    enable_unknown(&f, subscriber);
    note_slot();
    tell_init();
}

#else /* no headers of CUPTI */

static struct {
    const struct tb_rec_api *api;
    bool legal;
} cupti;

static void find_driver(const void *caller)
{
    (void)caller;
}

static void start(void)
{
    cupti.api->log("this twinbit was built without CUPTI's headers: going on without recording "
                   "CUDA; use --tap shim");
}

#endif

/* Called by the driver inside the first cuInit; 1: all is well. A second driver in the process, or
 * another tap: nothing to do. */
EXPORT int InitializeInjection(void)
{
    static atomic_flag once = ATOMIC_FLAG_INIT;
    const void *caller = __builtin_return_address(0);
    int saved = errno;

    if (atomic_flag_test_and_set(&once))
        return 1;
    cupti.api = tb_cuda_runtime();
    if (cupti.api && cupti.api->config->cuda_tap == TB_CUDA_TAP_CUPTI) {
        cupti.legal = !(cupti.api->config->flags & TB_CFG_DEFER);
        find_driver(caller);
        start();
    }
    errno = saved;
    return 1;
}
