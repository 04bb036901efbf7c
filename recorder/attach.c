#include "recorder/recorder_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_MS 10000u
#define TAP_MS 300000u

typedef int (*tap_init_fn)(const struct tb_rec_api *api);

/* The C library's; pthread_atfork() is a wrapper in its static part. Weak: absent in other
 * libraries. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *dso) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void before_fork(void)
{
    tb_tls.fork_ordinal = __atomic_add_fetch(&tb_rt.forks, 1, __ATOMIC_RELAXED);
}

/* Where the kernel did not wipe the page. Nothing else may be done here. */
static void in_child(void)
{
    __atomic_store_n(&tb_rt.page->state, TB_RT_FORKED, __ATOMIC_RELEASE);
}

static bool make_page(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);

    tb_rt.page = tb_rt_pool(size);
    if (!tb_rt.page)
        return false;
    (void)madvise(tb_rt.page, size, MADV_WIPEONFORK);
    tb_rt.page->state = TB_RT_ATTACHING;
    return true;
}

static bool read_socket(void)
{
    const char *path = getenv(TB_WIRE_ENV);

    if (!path || path[0] != '/')
        return false;
    tb_rt.socket.sun_family = AF_UNIX;
    size_t n = tb_rt_copy(tb_rt.socket.sun_path, sizeof(tb_rt.socket.sun_path), path);
    return path[n] == 0;
}

static void map_bell(int fd)
{
    if (fd < 0)
        return;
    void *p = mmap(NULL, TB_WIRE_RING_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    tb_rt.bell = p == MAP_FAILED ? NULL : p;
}

static bool good_config(const struct tb_wire_config *c)
{
    uint64_t n = c->ring_bytes;

    return n >= 65536 && (n & (n - 1)) == 0 && n <= (1u << 30) && c->level != TB_LEVEL_OFF;
}

/* HELLO. The first time the reply's config is kept; a forked child keeps its parent's. */
static bool hello(bool first, uint32_t fork_ordinal)
{
    struct tb_wire_msg *msg = tb_rt_message(TB_MSG_HELLO);
    struct tb_wire_reply *reply = tb_rt_pool(sizeof(*reply));
    bool ok = false;
    int bell = -1;

    if (!msg || !reply)
        goto out;
    msg->parent_nonce = tb_rt.parent_nonce;
    msg->fork_ordinal = fork_ordinal;
    enum tb_rt_conn result = tb_rt_call(msg, -1, reply, &bell, HELLO_MS);
    if (result == TB_CONN_FAIL || result == TB_CONN_TIMEOUT)
        tb_rt_note(result == TB_CONN_FAIL
                       ? "it could not connect to twinbit: no descriptor is left "
                         "(RLIMIT_NOFILE), or sockets are forbidden"
                       : "twinbit did not answer it in time");
    if (result != TB_CONN_OK || reply->status != TB_REPLY_OK)
        goto out;
    if (first && good_config(&reply->config)) {
        tb_rt.config = reply->config;
        map_bell(bell);
        bell = -1;
    }
    ok = good_config(&tb_rt.config);
out:
    if (bell >= 0)
        (void)close(bell);
    if (reply)
        tb_rt_unmap(reply, sizeof(*reply));
    tb_rt_message_done(msg);
    return ok;
}

static void set_state(uint32_t state)
{
    __atomic_store_n(&tb_rt.page->state, state, __ATOMIC_RELEASE);
    tb_rt_futex_wake(&tb_rt.page->state, false);
}

static bool start(void)
{
    if (!make_page())
        return false;
    tb_rt.nonce = tb_rt_random();
    if (!hello(true, 0) || pthread_key_create(&tb_rt.key, tb_rt_thread_end) != 0) {
        set_state(TB_RT_OFF);
        return false;
    }
    if (__register_atfork)
        (void)__register_atfork(before_fork, NULL, in_child, &__dso_handle);
    tb_rt.generation = 1;
    tb_rt_api_init(&tb_rt.api);
    tb_rt_pins();
    set_state(TB_RT_ON);
    return true;
}

/* Path of the tap into @path; false: there is none, and the reason is known. */
static bool ask_tap(const char *libtorch, char *path, size_t size)
{
    struct tb_wire_msg *msg = tb_rt_message(TB_MSG_TAP);
    struct tb_wire_reply *reply = tb_rt_pool(sizeof(*reply));
    bool ok = false;

    if (msg && reply) {
        (void)tb_rt_copy(msg->text, sizeof(msg->text), libtorch);
        enum tb_rt_conn result = tb_rt_call(msg, -1, reply, NULL, TAP_MS);
        ok = result == TB_CONN_OK && reply->status == TB_REPLY_OK;
        reply->text[sizeof(reply->text) - 1] = 0;
        if (ok)
            (void)tb_rt_copy(path, size, reply->text);
        else
            tb_rt_stop(result == TB_CONN_OK ? "no tap" : "no answer to the request for a tap");
    }
    if (reply)
        tb_rt_unmap(reply, sizeof(*reply));
    tb_rt_message_done(msg);
    return ok;
}

static bool load_tap(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    tap_init_fn init = NULL;

    if (!handle) {
        const char *why = dlerror();
        tb_rt_log(why ? why : "the tap could not be loaded");
        tb_rt_stop("the tap could not be loaded");
        return false;
    }
    *(void **)&init = tb_rt_real_dlsym(handle, "twinbit_tap_init");
    if (!init || init(&tb_rt.api) != 0) {
        tb_rt_stop("the tap refused to start");
        return false;
    }
    return true;
}

/*
 * Which of two libraries comes first is chance, so opening has a lock of its own. A child that was
 * forked by another thread meanwhile finds it taken for good: it gives up.
 */
bool tb_rt_open(void)
{
    enum { CLOSED, OPENING, OPEN, REFUSED };
    static uint32_t opened;
    uint32_t seen = CLOSED;
    int saved = errno;

    if (__atomic_load_n(&opened, __ATOMIC_ACQUIRE) == OPEN)
        return true;
    if (__atomic_compare_exchange_n(&opened, &seen, OPENING, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_ACQUIRE)) {
        bool ok = read_socket() && start();
        if (ok)
            tb_fp_init();
        __atomic_store_n(&opened, ok ? OPEN : REFUSED, __ATOMIC_RELEASE);
        tb_rt_futex_wake(&opened, false);
    }
    for (unsigned i = 0;
         i < 2 * HELLO_MS / 100 && (seen = __atomic_load_n(&opened, __ATOMIC_ACQUIRE)) == OPENING;
         i++)
        tb_rt_futex_wait(&opened, OPENING, 100, false);
    errno = saved;
    return __atomic_load_n(&opened, __ATOMIC_ACQUIRE) == OPEN;
}

void tb_rt_attach(const char *libtorch)
{
    char tap[1024];

    if (!tb_rt_open())
        return;
    if (!ask_tap(libtorch, tap, sizeof(tap)) || !load_tap(tap))
        return;
    if (tb_rt.config.glue[0] && !(tb_rt.config.flags & TB_CFG_NO_PYTHON))
        tb_rt_glue(tap);
}

/* What the child inherited of its parent's lists is the parent's: begin with empty ones. */
static void forget_parent(void)
{
    uint32_t *locks[] = {&tb_rt.page->setup_lock, &tb_rt.page->shared_lock, &tb_rt.page->logs,
                         &tb_rt.page->paused};

    for (size_t i = 0; i < TB_ARRAY_LEN(locks); i++)
        __atomic_store_n(locks[i], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tb_rt.page->seq, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tb_rt.page->stall_since, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tb_rt.page->step, 0, __ATOMIC_RELAXED);
    tb_rt.rings = tb_rt.free_rings = tb_rt.shared_ring = NULL;
    tb_rt.free_threads = NULL;
    tb_rt.slab_left = 0;
    tb_rt.ring_bytes = 0;
    tb_rt.next_thread = 0;
    tb_rt.parent_nonce = tb_rt.nonce;
    tb_rt.nonce = tb_rt_random();
    __atomic_store_n(&tb_rt.forks, 0, __ATOMIC_RELAXED);
}

void tb_rt_attach_child(void)
{
    uint32_t forked = TB_RT_FORKED;

    if (!__atomic_compare_exchange_n(&tb_rt.page->state, &forked, TB_RT_ATTACHING, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        tb_rt_futex_wait(&tb_rt.page->state, TB_RT_ATTACHING, 50, false);
        return;
    }
    forget_parent();
    if (!hello(false, tb_tls.fork_ordinal)) {
        set_state(TB_RT_OFF);
        return;
    }
    __atomic_add_fetch(&tb_rt.generation, 1, __ATOMIC_RELEASE);
    set_state(TB_RT_ON);
}

static void tell_stop(const char *why)
{
    struct tb_wire_msg *msg = tb_rt_message(TB_MSG_LOG);

    if (msg) {
        msg->flags = TB_MSGF_STOPPED;
        (void)tb_rt_copy(msg->text, sizeof(msg->text), why);
        enum tb_rt_conn result = tb_rt_call(msg, -1, NULL, NULL, 500);
        if (result == TB_CONN_FAIL || result == TB_CONN_TIMEOUT)
            tb_rt_note(why);
    }
    tb_rt_message_done(msg);
}

void tb_rt_stop(const char *why)
{
    uint32_t on = TB_RT_ON;
    int saved = errno;

    if (!__atomic_compare_exchange_n(&tb_rt.page->state, &on, TB_RT_OFF, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    struct tb_rt_ring *r = __atomic_load_n(&tb_rt.rings, __ATOMIC_ACQUIRE);
    if (r) {
        (void)tb_rt_copy(r->page->stop_why, sizeof(r->page->stop_why), why);
        __atomic_fetch_or(&r->page->flags, TB_RING_STOPPED, __ATOMIC_RELEASE);
        tb_rt_ring_bell();
    } else {
        tell_stop(why);
    }
    errno = saved;
}
