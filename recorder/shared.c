/* What taps of one process share (step, ranges, the CUDA recorder), and the marks of twinbit.h. */
#include "recorder/recorder_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "include/twinbit.h"

#define EXPORT __attribute__((visibility("default")))

/* ---------------------------------------------------------------- steps and ranges */

static uint64_t step(void)
{
    return __atomic_load_n(&tb_rt.page->step, __ATOMIC_RELAXED);
}

static void step_is(uint64_t now)
{
    __atomic_store_n(&tb_rt.page->step, now, __ATOMIC_RELAXED);
}

/* A name as a part of an event's name, where '/', '#' and ':' have a meaning. */
static size_t part(char *out, size_t size, const char *name)
{
    size_t n = tb_rt_copy(out, size, name);

    for (; *out; out++)
        if (*out == '/' || *out == '#' || *out == ':')
            *out = '_';
    return n;
}

/*
 * "outer\tmiddle.inner" with @between for the tab: the outermost range takes the place of the
 * phase, the others that of the module path, as far as it has room in the name of an event.
 */
static size_t shown(const struct tb_rec_thread *t, char *out, size_t size, const char *between)
{
    uint32_t depth = t->range_depth < TB_RT_RANGES ? t->range_depth : TB_RT_RANGES;
    size_t n = part(out, size, t->range_text[0][0] ? t->range_text[0] : "forward");

    n += tb_rt_copy(out + n, size - n, between);
    for (uint32_t i = 1; i < depth && n < TB_RT_RANGE_PATH; i++) {
        n += i > 1 ? tb_rt_copy(out + n, size - n, ".") : 0;
        n += part(out + n, size - n, t->range_text[i]);
    }
    return n;
}

/* "outer\tmiddle.inner\touter>middle>inner" */
static size_t range_name(const struct tb_rec_thread *t, char *out, size_t size)
{
    uint32_t depth = t->range_depth < TB_RT_RANGES ? t->range_depth : TB_RT_RANGES;
    size_t n = shown(t, out, size, "\t");

    n += tb_rt_copy(out + n, size - n, "\t");
    for (uint32_t i = 0; i < depth; i++) {
        n += i ? tb_rt_copy(out + n, size - n, ">") : 0;
        n += tb_rt_copy(out + n, size - n, t->range_text[i]);
    }
    return n;
}

static uint32_t range(struct tb_rec_thread *t)
{
    char text[(TB_RT_RANGES + 6) * (TB_RT_RANGE_TEXT + 1)];

    if (t->range)
        return t->range;
    if (!t->range_depth)
        return 0;
    if (!t->range_known) {
        size_t n = range_name(t, text, sizeof(text));
        uint64_t key = tb_fp_leaf_hash(text, n).lo;
        uint32_t id = tb_rt.api.range_find(t, key);
        t->range_known = id ? id : tb_rt.api.range_define(t, key, text, n);
    }
    return t->range_known;
}

static void range_is(struct tb_rec_thread *t, uint32_t id, const char *name)
{
    t->range = id;
    t->range_name = name;
}

static const char *range_name_now(struct tb_rec_thread *t)
{
    if (t->range)
        return t->range_name ? t->range_name : "forward:";
    if (!t->range_depth)
        return "forward:";
    (void)shown(t, t->range_shown, sizeof(t->range_shown), ":");
    return t->range_shown;
}

static void put_range(struct tb_rec_thread *t, const char *text)
{
    if (t->range_depth < TB_RT_RANGES) {
        char *to = t->range_text[t->range_depth];
        (void)tb_rt_copy(to, TB_RT_RANGE_TEXT, text);
        for (char *c = to; *c; c++)
            if (*c == '\n' || *c == '\t')
                *c = ' ';
        (void)tb_plain(to, false);
    }
    t->range_depth++;
}

static void user_range(const char *push)
{
    struct tb_rec_thread *t = tb_rt_self();

    if (!t)
        return;
    if (push)
        put_range(t, push);
    else if (t->range_depth)
        t->range_depth--;
    t->range_known = 0;
}

/* ---------------------------------------------------------------- others */

static const struct tb_rec_cuda *cuda(void)
{
    return __atomic_load_n(&tb_rt.cuda, __ATOMIC_ACQUIRE);
}

static void cuda_is(const struct tb_rec_cuda *engine)
{
    __atomic_store_n(&tb_rt.cuda, engine, __ATOMIC_RELEASE);
}

static uint64_t alloc_new(void)
{
    return __atomic_add_fetch(&tb_rt.allocs, 1, __ATOMIC_RELAXED);
}

static uint64_t nobody(void)
{
    return 0;
}

static uint64_t maker(void)
{
    static uint64_t (*thread)(void); /* found once, by whoever comes first */
    uint64_t (*found)(void) = __atomic_load_n(&thread, __ATOMIC_RELAXED);

    if (tb_unlikely(!found)) {
        *(void **)&found = tb_rt_real_dlsym(RTLD_DEFAULT, "twinbit_pins_thread");
        found = found ? found : nobody;
        __atomic_store_n(&thread, found, __ATOMIC_RELAXED);
    }
    return found();
}

static bool paused(void)
{
    return (tb_rt.bell && __atomic_load_n(&tb_rt.bell->paused, __ATOMIC_RELAXED)) ||
           __atomic_load_n(&tb_rt.page->paused, __ATOMIC_RELAXED);
}

static bool send_fd(unsigned kind, uint32_t number, int fd)
{
    struct tb_wire_msg *msg;
    int saved = errno;
    bool ok = false;

    if (tb_tls.busy || tb_rt_state() != TB_RT_ON)
        return false;
    tb_tls.busy = 1;
    msg = tb_rt_message(kind);
    if (msg) {
        msg->thread = number;
        ok = tb_rt_call(msg, fd, NULL, NULL, tb_rt.config.wait_ms) == TB_CONN_OK;
    }
    tb_rt_message_done(msg);
    tb_tls.busy = 0;
    errno = saved;
    return ok;
}

static bool slots(uint32_t table, int fd)
{
    return send_fd(TB_MSG_SLOTS, table, fd);
}

static bool snapshot_fd(int fd)
{
    return send_fd(TB_MSG_SNAPSHOT, 0, fd);
}

static int memfd(const char *name, uint64_t bytes)
{
    int saved = errno;
    const char *why;
    int fd = tb_rt_memfd(name, bytes, &why);

    errno = saved;
    return fd;
}

static uint64_t nonce(void)
{
    return tb_rt.nonce;
}

void tb_rt_shared_init(struct tb_rec_api *api)
{
    api->step = step;
    api->step_is = step_is;
    api->range = range;
    api->range_is = range_is;
    api->range_name = range_name_now;
    api->user_range = user_range;
    api->cuda = cuda;
    api->cuda_is = cuda_is;
    api->alloc_new = alloc_new;
    api->maker = maker;
    api->paused = paused;
    api->slots = slots;
    api->snapshot_fd = snapshot_fd;
    api->memfd = memfd;
    api->unpool = tb_rt_unmap;
    api->nonce = nonce;
}

EXPORT const struct tb_rec_api *twinbit_runtime(void)
{
    return tb_rt_open() ? &tb_rt.api : NULL;
}

/* ---------------------------------------------------------------- twinbit.h */

static void mark_push(const char *name)
{
    if (tb_rt_open())
        user_range(name ? name : "");
}

static void mark_pop(void)
{
    if (tb_rt_open())
        user_range(NULL);
}

static void mark_step(void)
{
    static const char site[] = "twinbit\nstep\n";
    const struct tb_rec_api *api = &tb_rt.api;
    struct tb_rec_thread *t = tb_rt_open() ? tb_rt_self() : NULL;
    struct tb_wire_event e = {.kind = TB_EV_STEP};
    const struct tb_rec_cuda *engine = t ? cuda() : NULL;

    if (!t)
        return;
    if (engine && engine->step_ends)
        engine->step_ends();
    e.step = step();
    e.open = api->seq();
    e.site = api->site_find(t, 1);
    if (!e.site)
        e.site = api->site_define(t, 1, site, sizeof(site) - 1);
    if (e.site)
        (void)api->event(t, &e, NULL);
    __atomic_fetch_add(&tb_rt.page->step, 1, __ATOMIC_RELAXED);
}

static void mark_tensor(const void *data, size_t bytes, const char *dtype, const char *name)
{
    const struct tb_rec_cuda *engine = tb_rt_open() ? cuda() : NULL;

    if (engine && engine->tensor)
        engine->tensor((uint64_t)(uintptr_t)data, bytes, dtype ? dtype : "?", name ? name : "");
}

static void mark_pause(int on)
{
    struct tb_rec_thread *t = tb_rt_open() ? tb_rt_self() : NULL;

    if (!t)
        return;
    __atomic_store_n(&tb_rt.page->paused, on != 0, __ATOMIC_RELAXED);
    if (on)
        tb_rt.api.cover(t, 1, TB_REC_NO_SEQ, "paused", "process", "by the program (twinbit_pause)",
                        1);
}

/* What twinbit.h looks for. */
EXPORT const struct twinbit_marks *twinbit_marks(void);
EXPORT const struct twinbit_marks *twinbit_marks(void)
{
    static const struct twinbit_marks marks = {
        .size = sizeof(marks),
        .range_push = mark_push,
        .range_pop = mark_pop,
        .step = mark_step,
        .tensor = mark_tensor,
        .pause = mark_pause,
    };

    return &marks;
}
