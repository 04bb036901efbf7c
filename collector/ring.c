#include "collector/collector_internal.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How far the producer's knowledge of the tail may lag behind. */
#define TELL_BYTES (16u * 1024u)
#define FIFO_KEEP (4u << 20) /* an empty fifo may keep so much */

static bool good_head(const struct tb_wire_ring *page, size_t bytes)
{
    uint64_t size = page->size;

    return page->magic == TB_WIRE_MAGIC && page->version == TB_WIRE_VERSION && size >= 65536 &&
           (size & (size - 1)) == 0 && size <= bytes - TB_WIRE_RING_PAGE;
}

struct tb_ring *tb_ring_new(void *map, size_t bytes, uint32_t thread)
{
    struct tb_ring *r = calloc(1, sizeof(*r));

    if (!r || bytes <= TB_WIRE_RING_PAGE || !good_head(map, bytes)) {
        free(r);
        return NULL;
    }
    r->page = map;
    r->map_bytes = bytes;
    r->size = r->page->size;
    r->thread = thread;
    return r;
}

void tb_ring_free(struct tb_ring *r)
{
    if (!r)
        return;
    (void)munmap(r->page, r->map_bytes);
    free(r->fifo);
    free(r->site);
    free(r->range);
    free(r->text.text);
    free(r->access);
    free(r->map);
    free(r);
}

static const uint8_t *ring_data(const struct tb_ring *r, uint64_t pos)
{
    return (const uint8_t *)r->page + TB_WIRE_RING_PAGE + (pos & (r->size - 1));
}

/* Bytes of the record at @tail if it is whole and within what was published, else 0 and broken. */
static uint32_t check_record(struct tb_ring *r)
{
    const struct tb_wire_rec *rec = (const void *)ring_data(r, r->tail);
    uint32_t bytes = __atomic_load_n(&rec->bytes, __ATOMIC_RELAXED);
    uint64_t to_end = r->size - (r->tail & (r->size - 1));

    if (bytes >= TB_WIRE_ALIGN && bytes % TB_WIRE_ALIGN == 0 && bytes <= r->head - r->tail &&
        bytes <= to_end)
        return bytes;
    r->broken = true;
    return 0;
}

/* Take over the producer's head; false: nothing new, or nonsense. */
static bool look(struct tb_ring *r)
{
    uint64_t head = r->frozen ? r->head : __atomic_load_n(&r->page->head, __ATOMIC_ACQUIRE);

    if (head - r->tail > r->size || head % TB_WIRE_ALIGN)
        r->broken = true;
    else
        r->head = head;
    return !r->broken && r->head != r->tail;
}

const struct tb_wire_rec *tb_ring_peek(struct tb_ring *r)
{
    const struct tb_wire_rec *rec;

    if (r->broken)
        return NULL;
    if (r->fifo_start < r->fifo_end) {
        rec = (const void *)(r->fifo + r->fifo_start);
        r->current = rec->bytes;
        return rec;
    }
    for (;;) {
        r->current = 0;
        if (r->tail == r->head && !look(r))
            return NULL;
        rec = (const void *)ring_data(r, r->tail);
        r->current = check_record(r);
        if (!r->current)
            return NULL;
        if (rec->kind != TB_REC_PAD)
            return rec;
        r->tail += r->current;
    }
}

/* A long wait is over: its memory goes back. */
static void fifo_emptied(struct tb_ring *r)
{
    r->fifo_start = r->fifo_end = 0;
    if (r->fifo_size <= FIFO_KEEP)
        return;
    free(r->fifo);
    r->fifo = NULL;
    r->fifo_size = 0;
}

void tb_ring_pop(struct tb_ring *r)
{
    if (r->fifo_start < r->fifo_end) {
        r->fifo_start += r->current;
        if (r->fifo_start == r->fifo_end)
            fifo_emptied(r);
    } else {
        r->tail += r->current;
        if (r->tail - r->told >= TELL_BYTES)
            tb_ring_tell(r);
    }
    r->current = 0;
    r->checked = 0;
    r->has_front = false;
}

void tb_ring_tell(struct tb_ring *r)
{
    if (r->broken) /* nobody shall wait for room in it */
        r->tail = __atomic_load_n(&r->page->head, __ATOMIC_ACQUIRE);
    if (r->told == r->tail)
        return;
    r->told = r->tail;
    __atomic_store_n(&r->page->tail, r->tail, __ATOMIC_RELEASE);
    __atomic_add_fetch(&r->page->progress, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&r->page->waiting, __ATOMIC_SEQ_CST))
        (void)syscall(SYS_futex, &r->page->progress, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool fifo_room(struct tb_ring *r, size_t bytes)
{
    if (r->fifo_end + bytes <= r->fifo_size)
        return true;
    /* Seldom: what comes in little by little is not moved each time. */
    if (r->fifo_start && r->fifo_start >= r->fifo_size / 2) {
        memmove(r->fifo, r->fifo + r->fifo_start, r->fifo_end - r->fifo_start);
        r->fifo_end -= r->fifo_start;
        r->fifo_start = 0;
    }
    size_t size = r->fifo_size ? r->fifo_size : 256ul * 1024;
    while (size < r->fifo_end + bytes)
        size *= 2;
    uint8_t *p = size == r->fifo_size ? r->fifo : realloc(r->fifo, size);
    if (!p)
        return false;
    r->fifo = p;
    r->fifo_size = size;
    return true;
}

size_t tb_ring_spill(struct tb_ring *r)
{
    size_t moved = 0;

    while (!r->broken && (r->tail != r->head || look(r))) {
        const struct tb_wire_rec *rec = (const void *)ring_data(r, r->tail);
        uint32_t bytes = check_record(r);
        if (!bytes || !fifo_room(r, bytes))
            break;
        if (rec->kind != TB_REC_PAD) {
            memcpy(r->fifo + r->fifo_end, rec, bytes);
            ((struct tb_wire_rec *)(void *)(r->fifo + r->fifo_end))->bytes = bytes;
            r->fifo_end += bytes;
            moved += bytes;
        }
        r->tail += bytes;
        if (r->tail - r->told >= TELL_BYTES)
            tb_ring_tell(r);
    }
    tb_ring_tell(r);
    return moved;
}

void tb_ring_freeze(struct tb_ring *r)
{
    if (!r->broken)
        (void)look(r);
    r->frozen = true;
}

uint64_t tb_ring_pending(struct tb_ring *r)
{
    if (!r->broken)
        (void)look(r);
    return r->broken ? 0 : r->head - r->tail;
}

bool tb_ring_is_urgent(struct tb_ring *r)
{
    uint64_t bytes = tb_ring_pending(r);

    return bytes >= TB_WIRE_BELL_BYTES ||
           (bytes && __atomic_load_n(&r->page->waiting, __ATOMIC_RELAXED));
}
