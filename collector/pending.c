/*
 * What belongs to an event that has not been written yet: coverage rows, and snapshots, whose bytes
 * may come later still, when their slot is stamped.
 */
#include "collector/collector_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each has a descriptor. */
#define MAX_LATE 1024u

static uint32_t known_thread(const struct tb_merge *m, uint32_t ordinal)
{
    return ordinal < m->thread_size ? m->thread[ordinal] : 0;
}

static void write_cover(struct tb_merge *m, struct tb_sink *sink, const struct tb_merge_pending *p,
                        uint64_t event)
{
    struct tb_error err = {0};
    char *subject = strchr(p->text, '\t');
    char *detail = subject ? strchr(subject + 1, '\t') : NULL;

    if (!detail)
        return;
    *subject = *detail = 0;
    (void)tb_sink_ok(sink,
                     tb_store_coverage(sink->store, m->row, known_thread(m, p->thread), event,
                                       p->severity, p->text, subject + 1, detail + 1, p->count,
                                       &err),
                     &err);
}

/* ---------------------------------------------------------------- bytes of a snapshot */

/* Head of a snapshot's memfd; false if it is none. */
static bool read_head(int fd, struct tb_wire_snapshot *head)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_size >= TB_WIRE_RING_PAGE &&
           pread(fd, head, sizeof(*head), 0) == (ssize_t)sizeof(*head) &&
           head->magic == TB_WIRE_MAGIC && head->version == TB_WIRE_VERSION &&
           head->bytes <= (uint64_t)st.st_size - TB_WIRE_RING_PAGE;
}

static void close_fd(struct tb_merge_pending *p)
{
    if (p->fd >= 0)
        (void)close(p->fd);
    p->fd = -1;
}

static void read_bytes(struct tb_merge_pending *p)
{
    uint8_t *data = malloc(p->bytes ? p->bytes : 1);

    for (uint64_t done = 0; data && done < p->bytes;) {
        ssize_t n = pread(p->fd, data + done, p->bytes - done, (off_t)(TB_WIRE_RING_PAGE + done));
        if (n <= 0) {
            free(data);
            data = NULL;
            break;
        }
        done += (uint64_t)n;
    }
    p->data = data;
    close_fd(p);
}

static void write_snapshot(struct tb_merge *m, struct tb_sink *sink,
                           const struct tb_merge_pending *p, uint64_t event)
{
    struct tb_error err = {0};

    if (!event)
        tb_emit_cover(sink, m->row, 1, "snapshot", "event", "its event was not recorded");
    else if (!p->data)
        tb_emit_cover(sink, m->row, 1, "snapshot", "bytes",
                      p->ticket_failed ? "its bytes never arrived" : "it could not be read");
    else
        (void)tb_sink_ok(
            sink, tb_store_snapshot(sink->store, event, p->access, p->data, p->bytes, &err), &err);
}

/* ---------------------------------------------------------------- waiting */

static void free_pending(struct tb_merge_pending *p)
{
    close_fd(p);
    free(p->text);
    free(p->data);
    free(p);
}

/* Its event is written as row @event, and nothing more is waited for. Takes @p. */
static void write_pending(struct tb_merge *m, struct tb_sink *sink, struct tb_merge_pending *p,
                          uint64_t event)
{
    sink->dirty = true;
    if (sink->error.status == TB_OK && p->text)
        write_cover(m, sink, p, event);
    else if (sink->error.status == TB_OK)
        write_snapshot(m, sink, p, event);
    free_pending(p);
}

/* Have the bytes come? Then they are read, and the slot, if it was only for them, is given back:
 * the event is written, so its own tickets are taken. */
static bool bytes_are_there(struct tb_merge *m, struct tb_merge_pending *p)
{
    struct tb_fp unused;

    if (p->fd < 0)
        return true;
    if (!tb_slots_passed(m, p->table, p->ticket))
        return false;
    read_bytes(p);
    (void)tb_slots_take(m, p->table, p->ticket, &unused);
    return true;
}

/* Its event is written as row @event. Takes @p. */
static void write_or_late(struct tb_merge *m, struct tb_sink *sink, struct tb_merge_pending *p,
                          uint64_t event)
{
    if (bytes_are_there(m, p)) {
        write_pending(m, sink, p, event);
        return;
    }
    p->ticket_failed = m->finished || m->late_count >= MAX_LATE;
    if (p->ticket_failed) {
        write_pending(m, sink, p, event);
        return;
    }
    p->event = event;
    p->next = m->late;
    m->late = p;
    m->late_count++;
}

/* Now, or when event @p->seq is written. Takes @p. */
static void write_or_wait(struct tb_merge *m, struct tb_sink *sink, struct tb_merge_pending *p)
{
    if (p->seq != UINT64_MAX && p->seq >= m->seq && !m->finished) {
        p->next = m->pending;
        m->pending = p;
        return;
    }
    write_or_late(m, sink, p, p->seq == UINT64_MAX ? 0 : tb_emit_row(m, p->seq));
}

void tb_pending_release(struct tb_merge *m, struct tb_sink *sink, uint64_t seq, uint64_t event)
{
    for (struct tb_merge_pending **at = &m->pending; *at;) {
        struct tb_merge_pending *p = *at;
        if (p->seq != seq) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        write_or_late(m, sink, p, event);
    }
}

void tb_pending_late(struct tb_merge *m, struct tb_sink *sink)
{
    for (struct tb_merge_pending **at = &m->late; *at;) {
        struct tb_merge_pending *p = *at;
        if (!bytes_are_there(m, p)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        m->late_count--;
        write_pending(m, sink, p, p->event);
    }
}

void tb_pending_leftover(struct tb_merge *m, struct tb_sink *sink)
{
    struct tb_merge_pending *late;

    tb_pending_late(m, sink);
    late = m->late;
    m->late = NULL;
    while (late) {
        struct tb_merge_pending *p = late;
        late = p->next;
        write_or_late(m, sink, p, p->event);
    }
    while (m->pending) {
        struct tb_merge_pending *p = m->pending;
        m->pending = p->next;
        write_pending(m, sink, p, 0);
    }
}

void tb_pending_snapshot(struct tb_merge *m, struct tb_sink *sink, int fd)
{
    struct tb_wire_snapshot head = {0};
    struct tb_merge_pending *p = calloc(1, sizeof(*p));

    if (!p || !read_head(fd, &head)) {
        free(p);
        (void)close(fd);
        return;
    }
    sink->snapshots++;
    *p = (struct tb_merge_pending){.seq = head.seq,
                                   .access = head.access,
                                   .bytes = head.bytes,
                                   .fd = fd,
                                   .table = head.table,
                                   .ticket = head.ticket};
    if (p->table == 0)
        read_bytes(p);
    write_or_wait(m, sink, p);
}

bool tb_pending_explains(const struct tb_merge *m, uint64_t seq, uint64_t alloc)
{
    for (const struct tb_merge_pending *p = m->pending; p; p = p->next) {
        if (p->seq != seq || !p->text || p->severity != 0 || strncmp(p->text, "origin\t", 7) != 0)
            continue;
        const char *word = strstr(p->text, "allocation ");
        if (!word || strtoull(word + strlen("allocation "), NULL, 10) == alloc)
            return true;
    }
    return false;
}

void tb_pending_cover(struct tb_merge *m, struct tb_sink *sink, const struct tb_ring *r,
                      const struct tb_wire_cover *c)
{
    struct tb_merge_pending *p = calloc(1, sizeof(*p));
    uint32_t len = c->len;

    if (p && len <= r->current - sizeof(*c)) {
        *p = (struct tb_merge_pending){.seq = c->seq,
                                       .thread = r->thread,
                                       .severity = c->severity,
                                       .count = c->count,
                                       .fd = -1};
        p->text = strndup((const char *)(c + 1), len);
        if (p->text) {
            write_or_wait(m, sink, p);
            return;
        }
    }
    free(p);
}
