#include "tests/collector/producer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void *shared(const char *name, size_t bytes, int *fd)
{
    *fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0)
        exit(81);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (p == MAP_FAILED)
        exit(82);
    return p;
}

void producer_open(struct producer *p, uint64_t nonce, uint32_t thread, uint64_t size)
{
    *p = (struct producer){.bytes = size + TB_WIRE_RING_PAGE};
    p->page = shared("ring", p->bytes, &p->fd);
    p->page->magic = TB_WIRE_MAGIC;
    p->page->version = TB_WIRE_VERSION;
    p->page->size = size;
    p->page->nonce = nonce;
    p->page->thread = thread;
}

void producer_close(struct producer *p)
{
    (void)close(p->fd);
}

bool producer_room(const struct producer *p, uint64_t bytes)
{
    uint64_t tail = __atomic_load_n(&p->page->tail, __ATOMIC_ACQUIRE);

    return p->page->head + bytes - tail <= p->page->size;
}

static void wait_room(const struct producer *p, uint64_t bytes)
{
    for (int i = 0; !producer_room(p, bytes); i++) {
        if (i == 600000) {
            fprintf(stderr, "producer: no room for 60 s\n");
            exit(83);
        }
        usleep(100);
    }
}

static uint8_t *at_head(const struct producer *p)
{
    return (uint8_t *)p->page + TB_WIRE_RING_PAGE + (p->page->head & (p->page->size - 1));
}

static void publish(struct producer *p, uint64_t bytes)
{
    __atomic_store_n(&p->page->head, p->page->head + bytes, __ATOMIC_RELEASE);
}

void producer_put(struct producer *p, const void *rec, size_t n, const void *body, size_t m)
{
    uint64_t bytes = (n + m + TB_WIRE_ALIGN - 1) & ~(uint64_t)(TB_WIRE_ALIGN - 1);
    uint64_t to_end = p->page->size - (p->page->head & (p->page->size - 1));

    if (bytes > to_end) {
        struct tb_wire_rec pad = {.kind = TB_REC_PAD, .bytes = (uint32_t)to_end};
        wait_room(p, to_end);
        memcpy(at_head(p), &pad, sizeof(pad));
        publish(p, to_end);
    }
    wait_room(p, bytes);
    uint8_t *out = at_head(p);
    memset(out, 0, bytes);
    memcpy(out, rec, n);
    if (m)
        memcpy(out + n, body, m);
    uint32_t size = (uint32_t)bytes;
    memcpy(out + offsetof(struct tb_wire_rec, bytes), &size, sizeof(size));
    publish(p, bytes);
}

uint32_t producer_site(struct producer *p, const char *text)
{
    struct tb_wire_def def = {
        .rec.kind = TB_REC_SITE, .id = ++p->sites, .len = (uint32_t)strlen(text)};

    producer_put(p, &def, sizeof(def), text, def.len);
    return def.id;
}

void producer_event(struct producer *p, struct tb_wire_event e, const struct tb_wire_access *a,
                    uint32_t n)
{
    e.rec.kind = TB_REC_EVENT;
    e.accesses = n;
    producer_put(p, &e, sizeof(e), a, n * sizeof(*a));
}

void producer_cover(struct producer *p, uint64_t seq, unsigned severity, const char *text)
{
    struct tb_wire_cover c = {.rec.kind = TB_REC_COVER,
                              .len = (uint32_t)strlen(text),
                              .severity = severity,
                              .seq = seq,
                              .count = 1};

    producer_put(p, &c, sizeof(c), text, c.len);
}

void device_open(struct device *d, uint64_t nonce, uint32_t table, uint32_t count)
{
    *d = (struct device){.bytes = TB_WIRE_RING_PAGE + count * sizeof(struct tb_wire_slot),
                         .mask = count - 1};
    d->page = shared("slots", d->bytes, &d->fd);
    *d->page = (struct tb_wire_slots){.magic = TB_WIRE_MAGIC,
                                      .version = TB_WIRE_VERSION,
                                      .nonce = nonce,
                                      .table = table,
                                      .count = count};
    d->slot = (void *)((uint8_t *)d->page + TB_WIRE_RING_PAGE);
}

void device_close(struct device *d)
{
    (void)close(d->fd);
}

void device_stamp(struct device *d, uint64_t ticket, uint64_t a, uint64_t b)
{
    struct tb_wire_slot *s = &d->slot[ticket & d->mask];

    __atomic_store_n(&s->b, b, __ATOMIC_RELAXED);
    __atomic_store_n(&s->a, a, __ATOMIC_RELAXED);
    __atomic_store_n(&s->stamp, ticket + 1, __ATOMIC_RELEASE);
}

void device_wait(const struct device *d, uint64_t ticket)
{
    uint64_t before = ticket > d->mask ? ticket - d->mask : 0; /* taken of the one before it */

    for (int i = 0; __atomic_load_n(&d->slot[ticket & d->mask].taken, __ATOMIC_ACQUIRE) != before;
         i++) {
        if (i == 600000) {
            fprintf(stderr, "producer: a slot was not taken for 60 s\n");
            exit(84);
        }
        usleep(100);
    }
}

int snapshot_memfd(const struct tb_wire_snapshot *head, uint8_t **bytes)
{
    int fd;
    uint8_t *p = shared("snapshot", TB_WIRE_RING_PAGE + head->bytes, &fd);

    memcpy(p, head, sizeof(*head));
    *bytes = p + TB_WIRE_RING_PAGE;
    return fd;
}
