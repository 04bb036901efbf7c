/*
 * producer - the job's end of the wire by hand: a ring and slot tables written byte by byte, as
 * recorder/wire.h says, without the recorder. For tests in one process with the drain, and for
 * wire_job.c.
 */
#ifndef TB_TESTS_PRODUCER_H
#define TB_TESTS_PRODUCER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/wire.h"

struct producer {
    struct tb_wire_ring *page;
    size_t bytes;
    int fd;
    uint32_t sites;
};

struct device {
    struct tb_wire_slots *page;
    struct tb_wire_slot *slot;
    size_t bytes;
    int fd;
    uint32_t mask;
};

/** producer_open - a ring of @size data bytes; producer_close - closes fd, the mapping stays */
void producer_open(struct producer *p, uint64_t nonce, uint32_t thread, uint64_t size);
void producer_close(struct producer *p);
/** producer_room - is there room for @bytes at once? */
bool producer_room(const struct producer *p, uint64_t bytes);
/** producer_put - header @rec of @n bytes, then @m bytes of @body; waits for room; ends the program
 * if there is none for 60 s */
void producer_put(struct producer *p, const void *rec, size_t n, const void *body, size_t m);
/** producer_site - define it; its id */
uint32_t producer_site(struct producer *p, const char *text);
/** producer_event - fills rec and accesses of @e */
void producer_event(struct producer *p, struct tb_wire_event e, const struct tb_wire_access *a,
                    uint32_t n);
void producer_cover(struct producer *p, uint64_t seq, unsigned severity, const char *text);

/** device_open - slot table @table of @count slots */
void device_open(struct device *d, uint64_t nonce, uint32_t table, uint32_t count);
void device_close(struct device *d);
/** device_stamp - what the hash kernel leaves: a, b, then the stamp */
void device_stamp(struct device *d, uint64_t ticket, uint64_t a, uint64_t b);
/** device_wait - until the slot of @ticket may be used: the one before it was taken */
void device_wait(const struct device *d, uint64_t ticket);

/** snapshot_memfd - a memfd as TB_MSG_SNAPSHOT brings it; the bytes are zeros; mapped at *@bytes */
int snapshot_memfd(const struct tb_wire_snapshot *head, uint8_t **bytes);

#endif
