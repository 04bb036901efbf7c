#include "recorder/recorder_internal.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* How often a thread that waits for room looks whether the collector is still there. */
#define PROBE_MS 50u

static struct tb_wire_ring *map_ring(int fd, uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes, MADV_DONTFORK); /* a child must not find its parent's rings */
    (void)madvise(p, bytes, MADV_DONTDUMP);
    return p;
}

static enum tb_rt_conn announce(uint32_t thread, int fd)
{
    struct tb_wire_msg *msg = tb_rt_message(TB_MSG_RING);
    enum tb_rt_conn result = TB_CONN_FAIL;

    if (msg) {
        msg->thread = thread;
        if (pthread_getname_np(pthread_self(), msg->text, 16) != 0)
            msg->text[0] = 0;
        result = tb_rt_call(msg, fd, NULL, NULL, tb_rt.config.wait_ms);
    }
    tb_rt_message_done(msg);
    return result;
}

static const char *fill_ring(struct tb_rt_ring *r, uint32_t thread, uint64_t size, int fd)
{
    uint64_t bytes = size + TB_WIRE_RING_PAGE;
    enum tb_rt_conn sent;

    r->page = map_ring(fd, bytes);
    if (!r->page)
        return "a ring could not be mapped";
    r->page->magic = TB_WIRE_MAGIC;
    r->page->version = TB_WIRE_VERSION;
    r->page->size = size;
    r->page->nonce = tb_rt.nonce;
    r->page->thread = thread;
    r->data = (uint8_t *)r->page + TB_WIRE_RING_PAGE;
    r->size = size;
    r->thread = thread;
    sent = announce(thread, fd);
    if (sent == TB_CONN_OK)
        return NULL;
    tb_rt_unmap(r->page, bytes);
    r->page = NULL;
    return sent == TB_CONN_GONE ? "the collector is gone" : "a ring could not be handed over";
}

struct tb_rt_ring *tb_rt_ring_new(uint32_t thread)
{
    uint64_t size = tb_rt.config.ring_bytes;
    struct tb_rt_ring *r = tb_rt_small(sizeof(*r));
    const char *why = "no memory for a ring";
    int fd = -1;

    if (!r)
        goto out;
    fd = tb_rt_memfd("twinbit-ring", size + TB_WIRE_RING_PAGE, &why);
    if (fd < 0)
        goto out;
    why = fill_ring(r, thread, size, fd);
out:
    if (fd >= 0)
        (void)close(fd);
    if (why) {
        tb_rt_stop(why);
        return NULL;
    }
    r->number = ++tb_rt.ring_numbers;
    r->next = tb_rt.rings;
    tb_rt.rings = r;
    tb_rt.ring_bytes += size;
    return r;
}

void tb_rt_ring_bell(void)
{
    struct tb_wire_bell *bell = tb_rt.bell;

    if (!bell || !__atomic_load_n(&bell->sleeping, __ATOMIC_SEQ_CST))
        return;
    __atomic_fetch_add(&bell->word, 1, __ATOMIC_SEQ_CST);
    tb_rt_futex_wake(&bell->word, true);
}

void tb_rt_publish(struct tb_rt_ring *r, uint64_t bytes)
{
    uint64_t head = r->head + bytes;

    __atomic_store_n(&r->page->head, head, __ATOMIC_RELEASE);
    if (tb_unlikely((head ^ r->head) & ~(uint64_t)(TB_WIRE_BELL_BYTES - 1)))
        tb_rt_ring_bell();
    r->head = head;
}

static bool has_room(struct tb_rt_ring *r, uint64_t bytes)
{
    uint64_t tail = __atomic_load_n(&r->page->tail, __ATOMIC_ACQUIRE);

    if (tail != r->tail) { /* the collector lives: waiting begins anew */
        r->tail = tail;
        __atomic_store_n(&tb_rt.page->stall_since, 0, __ATOMIC_RELAXED);
    }
    return r->head - tail + bytes <= r->size;
}

/* One sleep for room; returns why recording must end, or NULL. */
static const char *sleep_for_room(struct tb_rt_ring *r, uint64_t bytes)
{
    uint64_t zero = 0, now = tb_rt_now();
    uint32_t seen = __atomic_load_n(&r->page->progress, __ATOMIC_ACQUIRE);

    (void)__atomic_compare_exchange_n(&tb_rt.page->stall_since, &zero, now ? now : 1, false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    __atomic_store_n(&r->page->waiting, 1, __ATOMIC_SEQ_CST);
    if (!has_room(r, bytes)) {
        tb_rt_ring_bell();
        tb_rt_futex_wait(&r->page->progress, seen, PROBE_MS, true);
    }
    __atomic_store_n(&r->page->waiting, 0, __ATOMIC_SEQ_CST);
    if (has_room(r, bytes))
        return NULL;
    uint64_t since = __atomic_load_n(&tb_rt.page->stall_since, __ATOMIC_RELAXED);
    if (since && tb_rt_now() - since >= (uint64_t)tb_rt.config.wait_ms * 1000000u)
        return "ring full, no progress";
    if (tb_rt_now() - now >= (PROBE_MS - 10) * 1000000u && !tb_rt_alive())
        return "the collector is gone";
    return NULL;
}

static bool wait_for_room(struct tb_rt_ring *r, uint64_t bytes)
{
    int saved = errno;
    const char *why = NULL;

    while (!has_room(r, bytes) && !why && tb_rt_state() == TB_RT_ON) {
        if (tb_rt.config.flags & TB_CFG_DROP)
            break;
        why = sleep_for_room(r, bytes);
    }
    if (why)
        tb_rt_stop(why);
    bool ok = tb_rt_state() == TB_RT_ON && has_room(r, bytes);
    if (!ok)
        __atomic_fetch_add(&r->page->lost, 1, __ATOMIC_RELAXED);
    errno = saved;
    return ok;
}

static void pad_to_end(struct tb_rt_ring *r, uint64_t bytes)
{
    struct tb_wire_rec *pad = (struct tb_wire_rec *)(void *)(r->data + (r->head & (r->size - 1)));

    *pad = (struct tb_wire_rec){.kind = TB_REC_PAD, .bytes = (uint32_t)bytes};
    tb_rt_publish(r, bytes);
}

uint8_t *tb_rt_reserve(struct tb_rt_ring *r, uint64_t bytes)
{
    uint64_t at = r->head & (r->size - 1);
    uint64_t to_end = r->size - at;

    if (tb_unlikely(to_end < bytes)) {
        if (r->head - r->tail + to_end > r->size && !wait_for_room(r, to_end))
            return NULL;
        pad_to_end(r, to_end);
        at = 0;
    }
    if (tb_unlikely(r->head - r->tail + bytes > r->size) && !wait_for_room(r, bytes))
        return NULL;
    return r->data + at;
}
