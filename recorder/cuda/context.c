/* What a context needs before anything can be hashed in it: our kernels, a slot table. */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "recorder/cuda/engine.h"

#define PAGE 4096u
#define EXIT_PAUSES 1000u /* of half a millisecond, in all */
#define TABLE_BYTES (PAGE + TB_CU_SLOTS * sizeof(struct tb_wire_slot))

/* A call in the middle of another thread's global capture must not make that invalid. */
CUstreamCaptureMode tb_cu_relax(CUstreamCaptureMode mode)
{
    if (tb_cu.driver.cuThreadExchangeStreamCaptureMode)
        (void)tb_cu.driver.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

/* ---------------------------------------------------------------- preparing */

static bool load_kernels(struct tb_cu_ctx *c)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    size_t bytes;

    return d->cuModuleLoadData(&c->module, tb_fpd_image(&bytes)) == CUDA_SUCCESS &&
           d->cuModuleGetFunction(&c->few, c->module, "twinbit_fp_few") == CUDA_SUCCESS &&
           d->cuModuleGetFunction(&c->batch, c->module, "twinbit_fp_batch") == CUDA_SUCCESS &&
           d->cuModuleGetFunction(&c->alike, c->module, "twinbit_fp_alike") == CUDA_SUCCESS &&
           d->cuModuleGetFunction(&c->strided, c->module, "twinbit_fp_strided") == CUDA_SUCCESS &&
           d->cuModuleGetFunction(&c->set_base, c->module, "twinbit_fp_base") == CUDA_SUCCESS &&
           d->cuModuleGetFunction(&c->copy, c->module, "twinbit_fp_copy") == CUDA_SUCCESS &&
           d->cuModuleGetFunction(&c->fill, c->module, "twinbit_fp_fill") == CUDA_SUCCESS;
}

/* It is ordered with no stream of the program's; without it fresh memory is not filled. */
static void make_stream(struct tb_cu_ctx *c)
{
    const struct tb_cu_driver *d = &tb_cu.driver;

    if (tb_cu.config->poison && d->cuStreamCreate && d->cuStreamSynchronize &&
        d->cuStreamCreate(&c->own, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        c->own = NULL;
}

static bool hand_over(struct tb_cu_ctx *c, int fd)
{
    void *p = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return false;
    (void)madvise(p, TABLE_BYTES, MADV_DONTFORK);
    (void)madvise(p, TABLE_BYTES, MADV_DONTDUMP);
    c->page = p;
    c->slot = (struct tb_wire_slot *)(void *)((uint8_t *)p + PAGE);
    *c->page = (struct tb_wire_slots){.magic = TB_WIRE_MAGIC,
                                      .version = TB_WIRE_VERSION,
                                      .nonce = tb_cu.api->nonce(),
                                      .table = c->table,
                                      .count = TB_CU_SLOTS,
                                      .device = c->device};
    return tb_cu.api->slots(c->table, fd);
}

static bool make_table(struct tb_cu_ctx *c)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    int fd = tb_cu.api->memfd("twinbit-slots", TABLE_BYTES);
    bool ok = fd >= 0 && hand_over(c, fd);

    if (fd >= 0)
        (void)close(fd);
    return ok &&
           d->cuMemHostRegister_v2(c->slot, TABLE_BYTES - PAGE, CU_MEMHOSTREGISTER_DEVICEMAP) ==
               CUDA_SUCCESS &&
           d->cuMemHostGetDevicePointer_v2(&c->slots, c->slot, 0) == CUDA_SUCCESS;
}

/* The module's own: zeroed when it was loaded, so nothing has to be waited for. */
static bool find_scratch(struct tb_cu_ctx *c)
{
    size_t bytes = 0;

    if (tb_cu.driver.cuModuleGetGlobal_v2(&c->bases, &bytes, c->module, "twinbit_fp_bases") !=
        CUDA_SUCCESS)
        c->bases = 0;
    return tb_cu.driver.cuModuleGetGlobal_v2(&c->scratch, &bytes, c->module,
                                             "twinbit_fp_scratch") == CUDA_SUCCESS &&
           bytes >= (size_t)TB_CU_SLOTS * TB_FPD_SCRATCH;
}

static bool driver_is_complete(void)
{
    const struct tb_cu_driver *d = &tb_cu.driver;

    return d->cuModuleLoadData && d->cuModuleGetFunction && d->cuMemHostRegister_v2 &&
           d->cuMemHostGetDevicePointer_v2 && d->cuModuleGetGlobal_v2 && d->cuLaunchKernel &&
           d->cuCtxGetCurrent && d->cuCtxGetDevice;
}

/* Returns what failed, or NULL. */
static const char *prepare(struct tb_cu_ctx *c)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUdevice device;
    int sms = 0;

    if (!driver_is_complete())
        return "the driver lacks functions that hashing needs";
    if (d->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return "the device of a context could not be asked for";
    c->device = (int)device;
    if (d->cuDeviceGetAttribute)
        (void)d->cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    c->sms = sms > 0 ? (uint32_t)sms : 1;
    if (!load_kernels(c))
        return "the hash kernels could not be loaded";
    if (!find_scratch(c))
        return "the hash kernels have no scratch";
    if (!make_table(c))
        return "the table for fingerprints could not be made or registered";
    make_stream(c);
    tb_cu_delay_load(c);
    return NULL;
}

/* Gives back what prepare() has made; only while nothing of ours is queued. */
static void release(struct tb_cu_ctx *c)
{
    const struct tb_cu_driver *d = &tb_cu.driver;

    tb_cu_delay_unload(c);
    if (c->own && d->cuStreamDestroy_v2)
        (void)d->cuStreamDestroy_v2(c->own);
    if (c->slots && d->cuMemHostUnregister)
        (void)d->cuMemHostUnregister(c->slot);
    if (c->module && d->cuModuleUnload)
        (void)d->cuModuleUnload(c->module);
    c->scratch = c->slots = c->bases = 0;
    c->own = NULL;
    c->module = NULL;
}

/* Stamped by the device, or given back undrawn. */
static bool all_stamped(const struct tb_cu_ctx *c)
{
    uint64_t first = c->ticket > TB_CU_SLOTS ? c->ticket - TB_CU_SLOTS : 0;

    for (uint64_t t = first; t < c->ticket; t++) {
        const struct tb_wire_slot *s = &c->slot[t & (TB_CU_SLOTS - 1)];
        if (__atomic_load_n(&s->stamp, __ATOMIC_ACQUIRE) != t + 1 &&
            __atomic_load_n(&s->taken, __ATOMIC_ACQUIRE) != t + 1)
            return false;
    }
    return true;
}

/* What was queued last may still run, as the hashes of the last step do. Not after a fault: nothing
 * comes then. @left: pauses; a program may leave work behind that never ends. */
static bool stamped_soon(const struct tb_cu_ctx *c, uint32_t *left)
{
    const struct timespec pause = {0, 500000};
    int saved = errno;

    while (!all_stamped(c) && *left && !tb_cu.fault) {
        (*left)--;
        (void)nanosleep(&pause, NULL);
    }
    errno = saved;
    return all_stamped(c);
}

static void release_in(struct tb_cu_ctx *c, CUcontext now)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUcontext was;

    if (c->handle != now &&
        (!d->cuCtxPushCurrent_v2 || !d->cuCtxPopCurrent_v2 || d->cuCtxPushCurrent_v2(c->handle)))
        return;
    tb_cu_snapshots_release(c);
    tb_cu_graphs_release(c);
    release(c);
    if (c->handle != now)
        (void)d->cuCtxPopCurrent_v2(&was);
}

/*
 * The process ends: what a leak checker would count is given back, where that does not take long.
 * Handlers that were registered earlier run later and may still launch: that is prepared anew, and
 * given back by this handler, which is then registered once more.
 */
static void at_exit(void)
{
    const struct tb_rec_api *api = tb_cu.api;
    CUcontext now = NULL;
    uint32_t left = EXIT_PAUSES;

    if (!api->enter())
        return;
    if (!tb_cu.ended)
        tb_cu_learn_end();
    if (!tb_cu.ended && !tb_cu.chosen && tb_cu.config->kernels[0])
        tb_cu.api->log("no kernel matches --kernel: no launch was recorded");
    tb_cu.ended = true;
    __atomic_store_n(&tb_cu.on_exit, false, __ATOMIC_RELAXED);
    if (tb_cu.driver.cuCtxGetCurrent && tb_cu.driver.cuCtxGetCurrent(&now) == CUDA_SUCCESS && now)
        for (struct tb_cu_ctx *c = tb_cu.contexts; c; c = c->next)
            if (c->handle && c->state == TB_CU_CTX_READY && !tb_cu_graphs_hash(c) &&
                stamped_soon(c, &left)) {
                __atomic_store_n(&c->state, TB_CU_CTX_BROKEN, __ATOMIC_RELEASE);
                release_in(c, now);
                c->handle = NULL;
            }
    api->leave();
}

static void set_up(struct tb_cu_ctx *c)
{
    CUstreamCaptureMode before = tb_cu_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
    int saved = errno;
    const char *why = prepare(c);

    if (why) {
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", "context", why);
        tb_cu.api->log(why);
        release(c);
    }
    if (!__atomic_exchange_n(&tb_cu.on_exit, true, __ATOMIC_RELAXED))
        (void)atexit(at_exit);
    (void)tb_cu_relax(before);
    __atomic_store_n(&c->state, why ? TB_CU_CTX_BROKEN : TB_CU_CTX_READY, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &c->state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    errno = saved;
}

/* Another thread prepares it now; it waits for nothing of ours. */
static void wait_for(struct tb_cu_ctx *c)
{
    struct timespec limit = {0, 100000000};
    int saved = errno;

    while (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == TB_CU_CTX_SETTING_UP)
        (void)syscall(SYS_futex, &c->state, FUTEX_WAIT_PRIVATE, TB_CU_CTX_SETTING_UP, &limit, NULL,
                      0);
    errno = saved;
}

/* ---------------------------------------------------------------- finding */

static struct tb_cu_ctx *known(CUcontext handle)
{
    struct tb_cu_ctx *c = __atomic_load_n(&tb_cu.contexts, __ATOMIC_ACQUIRE);

    while (c && c->handle != handle)
        c = c->next;
    return c;
}

/* *@mine: this thread has added it and prepares it. */
static struct tb_cu_ctx *add(CUcontext handle, bool *mine)
{
    tb_cu_lock();
    struct tb_cu_ctx *c = known(handle);
    *mine = !c;
    if (!c && (c = tb_cu_small(sizeof(*c))) != NULL) {
        c->handle = handle;
        c->state = TB_CU_CTX_SETTING_UP;
        c->table = ++tb_cu.tables;
        c->next = tb_cu.contexts;
        __atomic_store_n(&tb_cu.contexts, c, __ATOMIC_RELEASE);
    }
    tb_cu_unlock();
    return c;
}

tb_cold static struct tb_cu_ctx *find_ctx(CUcontext now)
{
    struct tb_cu_ctx *c = known(now);
    bool mine = false;

    if (c) {
        tb_cu_tls.device = c->device;
        tb_cu_tls.context = now;
        tb_cu_tls.ctx = c;
    }
    if (tb_unlikely(!c)) {
        tb_cu_here();
        c = add(now, &mine);
    }
    if (tb_unlikely(mine && c))
        set_up(c);
    if (tb_unlikely(c && __atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == TB_CU_CTX_SETTING_UP))
        wait_for(c);
    return c && __atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == TB_CU_CTX_READY ? c : NULL;
}

struct tb_cu_ctx *tb_cu_ctx(void)
{
    const struct tb_cu_tls *tls = &tb_cu_tls;
    struct tb_cu_ctx *c = tls->ctx;
    CUcontext now = NULL;

    if (tb_unlikely(!tls->may_call || !tb_cu.driver.cuCtxGetCurrent ||
                    tb_cu.driver.cuCtxGetCurrent(&now) != CUDA_SUCCESS || !now))
        return NULL;
    if (tb_likely(c && c->handle == now && tls->context == now &&
                  __atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == TB_CU_CTX_READY))
        return c;
    return find_ctx(now);
}

struct tb_cu_ctx *tb_cu_ctx_ready(CUcontext handle)
{
    struct tb_cu_ctx *c = known(handle);

    return c && __atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == TB_CU_CTX_READY ? c : NULL;
}

static bool is_current(CUcontext context)
{
    CUcontext now = NULL;

    return tb_cu.driver.cuCtxGetCurrent && tb_cu.driver.cuCtxGetCurrent(&now) == CUDA_SUCCESS &&
           now == context;
}

/* A kernel of ours can only be launched where it was loaded, and that is where the stream is. */
void tb_cu_visit(CUcontext context, struct tb_cu_visit *v)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    const struct tb_cu_tls *tls = &tb_cu_tls;

    *v = (struct tb_cu_visit){.device = tls->device, .context = tls->context, .ctx = tls->ctx};
    v->pushed = context && tls->may_call && !is_current(context) && d->cuCtxPopCurrent_v2 &&
                d->cuCtxPushCurrent_v2 && d->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

void tb_cu_return(const struct tb_cu_visit *v)
{
    struct tb_cu_tls *tls = &tb_cu_tls;
    CUcontext was;

    if (tb_likely(!v->pushed))
        return;
    (void)tb_cu.driver.cuCtxPopCurrent_v2(&was);
    tls->device = v->device;
    tls->context = v->context;
    tls->ctx = v->ctx;
}

/* The context takes module, memory and registration with it. */
void tb_cu_ctx_forget(CUcontext handle)
{
    tb_cu_lock();
    for (struct tb_cu_ctx *c = tb_cu.contexts; c; c = c->next)
        if (c->handle == handle || !handle) {
            c->handle = NULL; /* a new context may get the same handle */
            c->state = TB_CU_CTX_BROKEN;
        }
    tb_cu_alloc_remove_of(handle, 0, -1);
    tb_cu_codes_forget(handle);
    tb_cu_kernels_forget();
    tb_cu_unlock();
}

void tb_cu_ctx_forget_device(int device)
{
    if (device >= 0 && device < 64 && tb_cu.primary[device]) {
        tb_cu_ctx_forget(tb_cu.primary[device]);
        tb_cu.primary[device] = NULL;
        return;
    }
    for (struct tb_cu_ctx *c = tb_cu.contexts; c; c = c->next)
        if (c->handle && c->device == device)
            tb_cu_ctx_forget(c->handle);
    tb_cu_lock();
    tb_cu_alloc_remove_of(NULL, 0, device);
    tb_cu_unlock();
}

int tb_cu_ctx_device(CUcontext handle)
{
    const struct tb_cu_ctx *c = known(handle);

    if (c)
        return c->device;
    for (int i = 0; i < 64; i++) /* nothing was hashed there yet */
        if (handle && tb_cu.primary[i] == handle)
            return i;
    return -1;
}

/* Has the device written it, and nobody read it yet? */
static inline bool is_left(const struct tb_wire_slot *s, uint64_t before)
{
    return __atomic_load_n(&s->stamp, __ATOMIC_ACQUIRE) == before + 1 &&
           __atomic_load_n(&s->taken, __ATOMIC_ACQUIRE) != before + 1;
}

/*
 * The device has written what the collector has not read yet: it will, so this waits as a full ring
 * does, 2 s at most. A slot that the device has not written is waited for by nobody.
 */
tb_cold static void await_slot(struct tb_cu_ctx *c, const struct tb_wire_slot *s, uint64_t before)
{
    const struct timespec pause = {0, 500000};
    int saved = errno;
    uint32_t left = __atomic_load_n(&c->gave_up, __ATOMIC_RELAXED) ? 0 : 2 * tb_cu.config->wait_ms;

    while (is_left(s, before)) {
        if (!left) { /* it is gone, or stopped: not again for each launch */
            __atomic_store_n(&c->gave_up, true, __ATOMIC_RELAXED);
            break;
        }
        left--;
        (void)nanosleep(&pause, NULL);
    }
    errno = saved;
}

void tb_cu_await_slots(struct tb_cu_ctx *c, uint32_t n)
{
    uint64_t last = __atomic_load_n(&c->ticket, __ATOMIC_RELAXED) + n;

    if (tb_likely(last <= TB_CU_SLOTS))
        return;
    uint64_t before = last - 1 - TB_CU_SLOTS;
    const struct tb_wire_slot *s = &c->slot[before & (TB_CU_SLOTS - 1)];
    if (tb_unlikely(is_left(s, before)))
        await_slot(c, s, before);
}

bool tb_cu_draw(struct tb_cu_ctx *c, uint32_t n, uint64_t *first)
{
    for (uint64_t t = c->ticket; t < c->ticket + n; t++) {
        const struct tb_wire_slot *s = &c->slot[t & (TB_CU_SLOTS - 1)];
        if (t >= TB_CU_SLOTS && __atomic_load_n(&s->taken, __ATOMIC_ACQUIRE) != t - TB_CU_SLOTS + 1)
            return false;
    }
    *first = c->ticket;
    c->ticket += n;
    return true;
}

void tb_cu_undraw(struct tb_cu_ctx *c, uint64_t ticket)
{
    __atomic_store_n(&c->slot[ticket & (TB_CU_SLOTS - 1)].taken, ticket + 1, __ATOMIC_RELEASE);
}

/* ---------------------------------------------------------------- launching */

bool tb_cu_launch(CUfunction f, uint32_t grid, uint32_t threads, CUstream stream, bool per_thread,
                  void *param)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    __typeof__(cuLaunchKernel) *fn =
        per_thread && d->cuLaunchKernel_ptsz ? d->cuLaunchKernel_ptsz : d->cuLaunchKernel;
    void *params[] = {param};

    tb_cuda_own = true;
    CUresult r = fn(f, grid, 1, 1, threads, 1, 1, 0, stream, params, NULL);
    tb_cuda_own = false;
    return r == CUDA_SUCCESS;
}

bool tb_cu_launch_exact(const struct tb_cu_ctx *c, CUstream stream, bool per_thread,
                        struct tb_fpd_batch *b)
{
    uint32_t grid = tb_fpd_plan(b, c->sms);

    return grid == 0 || tb_cu_launch(b->jobs <= TB_FPD_FEW ? c->few : c->batch, grid,
                                     TB_FPD_THREADS, stream, per_thread, b);
}

static bool launch_alike(const struct tb_cu_ctx *c, CUstream stream, bool per_thread,
                         const struct tb_fpd_batch *b)
{
    struct tb_fpd_alike a = {.batch = *b};
    uint32_t grid = tb_fpd_plan(&a.batch, c->sms);

    tb_cu_alike(&a, tb_cu.config->poison);
    return grid == 0 || tb_cu_launch(c->alike, grid, TB_FPD_THREADS, stream, per_thread, &a);
}

bool tb_cu_launch_batch(const struct tb_cu_ctx *c, CUstream stream, bool per_thread,
                        struct tb_fpd_batch *b)
{
    return tb_cu_fills() ? launch_alike(c, stream, per_thread, b)
                         : tb_cu_launch_exact(c, stream, per_thread, b);
}

bool tb_cu_launch_job(const struct tb_cu_ctx *c, CUstream stream, bool per_thread, uint64_t src,
                      uint64_t bytes, uint64_t ticket)
{
    struct tb_fpd_batch b;

    tb_cu_batch_begin(c, &b);
    b.job[b.jobs++] = (struct tb_fpd_job){.src = src, .bytes = bytes, .ticket = ticket};
    return tb_cu_launch_exact(c, stream, per_thread, &b);
}
