/*
 * Snapshots: the bytes of an access, copied by the device into a memfd that the collector reads
 * once a ticket behind the copy is stamped. Its pages are registered, so that the copy waits for
 * nothing; they stay so until the process ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder/cuda/engine.h"

#define PAGE 4096u

/* ---------------------------------------------------------------- which events are wanted */

/* "step/phase:module-path/operator#k" */
struct spec {
    uint64_t step, k;
    const char *range, *name;
    size_t range_bytes, name_bytes;
};

static bool parse(const char *line, size_t n, struct spec *s)
{
    const char *end = line + n, *slash = memchr(line, '/', n), *last = NULL, *hash = NULL;

    for (const char *p = line; p < end; p++) {
        last = *p == '/' ? p : last;
        hash = *p == '#' ? p : hash;
    }
    if (!slash || last <= slash || !hash || hash < last)
        return false;
    *s = (struct spec){.step = strtoull(line, NULL, 10),
                       .k = strtoull(hash + 1, NULL, 10),
                       .range = slash + 1,
                       .range_bytes = (size_t)(last - slash - 1),
                       .name = last + 1,
                       .name_bytes = (size_t)(hash - last - 1)};
    return true;
}

/* How many events that line @i names this thread has begun in this step. */
static uint64_t *count_of(uint32_t i)
{
    uint64_t step = tb_cu.api->step();

    if (tb_cu_tls.seen_step != step + 1) {
        memset(tb_cu_tls.seen, 0, TB_CU_SNAPSHOTS * sizeof(*tb_cu_tls.seen));
        tb_cu_tls.seen_step = step + 1;
    }
    return &tb_cu_tls.seen[i];
}

static bool same(const char *a, size_t n, const char *b)
{
    return strlen(b) == n && memcmp(a, b, n) == 0;
}

static bool make_counts(void)
{
    struct tb_cu_tls *tls = &tb_cu_tls;

    if (tls->seen)
        return true;
    tb_cu_lock();
    tls->seen = tb_cu_small(TB_CU_SNAPSHOTS * sizeof(*tls->seen));
    tb_cu_unlock();
    return tls->seen != NULL;
}

bool tb_cu_snapshot_due(const struct tb_cu_work *w)
{
    const char *p = tb_cu.config->snapshots;
    struct tb_rec_thread *t;
    struct spec s;
    bool due = false;

    if (tb_likely(!*p) || !(t = tb_cu.api->self()) || !make_counts())
        return false;
    for (uint32_t i = 0; *p && i < TB_CU_SNAPSHOTS; i++) {
        size_t n = strcspn(p, "\n");
        if (parse(p, n, &s) && s.step == tb_cu.api->step() && same(s.name, s.name_bytes, w->name) &&
            same(s.range, s.range_bytes, tb_cu.api->range_name(t)))
            due = (*count_of(i))++ == s.k || due;
        p += n + (p[n] == '\n');
    }
    return due;
}

/* ---------------------------------------------------------------- the copy */

/* One of them; kept to be given back at exit. */
struct tb_cu_snap {
    struct tb_cu_snap *next;
    struct tb_cu_ctx *ctx;
    uint8_t *page;
    CUdeviceptr bytes; /* behind the page, as the device sees it */
    uint64_t ticket;
    int fd;
};

static struct tb_cu_snap *snap_new(struct tb_cu_ctx *c, uint64_t bytes)
{
    size_t whole = PAGE + ((bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1));
    struct tb_cu_snap *s;

    tb_cu_lock();
    s = tb_cu_small(sizeof(*s));
    tb_cu_unlock();
    if (!s)
        return NULL;
    s->ctx = c;
    s->fd = tb_cu.api->memfd("twinbit-snapshot", whole);
    void *p =
        s->fd >= 0 ? mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0) : MAP_FAILED;
    s->page = p == MAP_FAILED ? NULL : p;
    if (s->page &&
        tb_cu.driver.cuMemHostRegister_v2(s->page + PAGE, whole - PAGE,
                                          CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS &&
        tb_cu.driver.cuMemHostGetDevicePointer_v2(&s->bytes, s->page + PAGE, 0) == CUDA_SUCCESS)
        return s;
    if (s->page)
        (void)munmap(s->page, whole);
    if (s->fd >= 0)
        (void)close(s->fd);
    return NULL;
}

static bool copy(const struct tb_cu_snap *s, CUstream stream, bool per_thread, uint64_t from,
                 uint64_t bytes)
{
    struct tb_fpd_copy c = {from, s->bytes, bytes};
    uint64_t blocks = bytes / (4 * TB_FPD_THREADS) + 1, most = 4ull * s->ctx->sms;
    unsigned grid = (unsigned)(blocks < most ? blocks : most);

    return tb_cu_launch(s->ctx->copy, grid, TB_FPD_THREADS, stream, per_thread, &c);
}

/* NULL: it could not be begun. */
static struct tb_cu_snap *take(struct tb_cu_ctx *c, CUstream stream, bool per_thread, uint64_t from,
                               uint64_t bytes)
{
    struct tb_cu_snap *s = snap_new(c, bytes);
    bool drawn;

    if (!s)
        return NULL;
    tb_cu_lock();
    drawn = tb_cu_draw(c, 1, &s->ticket);
    s->next = tb_cu.snaps;
    tb_cu.snaps = s;
    tb_cu_unlock();
    if (!drawn || !copy(s, stream, per_thread, from, bytes) ||
        /* of nothing: the ticket is stamped when what is before it in the stream is done */
        !tb_cu_launch_job(c, stream, per_thread, c->scratch, 0, s->ticket))
        return NULL;
    *(struct tb_wire_snapshot *)(void *)s->page = (struct tb_wire_snapshot){
        .magic = TB_WIRE_MAGIC,
        .version = TB_WIRE_VERSION,
        .nonce = tb_cu.api->nonce(),
        .table = c->table,
        .bytes = bytes,
        .ticket = s->ticket,
    };
    return s;
}

/* The event's number is known now: it is the collector's. */
static void hand_over(struct tb_cu_snap *s, uint64_t seq, uint32_t access)
{
    struct tb_wire_snapshot *head = (struct tb_wire_snapshot *)(void *)s->page;

    head->seq = seq;
    head->access = access;
    (void)tb_cu.api->snapshot_fd(s->fd);
    (void)close(s->fd);
    s->fd = -1;
}

void tb_cu_snapshot_take(struct tb_cu_work *w, uint8_t mode)
{
    for (uint32_t i = 0; w->ctx && i < w->n && w->snaps < TB_CU_WORK_SNAPS; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (a->mode != mode || !a->bytes || !tb_cu_may_look(w->ctx, a->alloc))
            continue;
        if (a->flags & TB_CU_ROWS) {
            w->missing = "a copy with gaps between its rows: its bytes are not kept";
            continue;
        }
        struct tb_cu_snap *s =
            take(w->ctx, w->stream, w->per_thread, a->alloc->base + a->offset, a->bytes);
        if (!s) {
            w->missing = "a snapshot could not be copied from the device";
            return;
        }
        w->snap_access[w->snaps] = i;
        w->snap[w->snaps++] = s;
    }
}

void tb_cu_snapshot_send(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->snaps; i++)
        hand_over(w->snap[i], w->seq, w->snap_access[i]);
    w->snaps = 0;
}

/* Only of what the device has written; under no lock, at exit. */
void tb_cu_snapshots_release(const struct tb_cu_ctx *c)
{
    for (struct tb_cu_snap *s = tb_cu.snaps; s; s = s->next)
        if (s->ctx == c && s->page && tb_cu.driver.cuMemHostUnregister)
            (void)tb_cu.driver.cuMemHostUnregister(s->page + PAGE);
}

/* ---------------------------------------------------------------- for other taps */

bool tb_cu_snapshot(struct tb_rec_thread *t, int device, void *stream, const struct tb_rec_view *v,
                    uint64_t seq, uint32_t access)
{
    bool entered = tb_cu.api->enter(), may = tb_cu_tls.may_call;
    struct tb_cu_snap *s = NULL;

    tb_cu_tls.may_call = true;
    struct tb_cu_ctx *c = tb_cu_ctx();
    if (c && c->device == device && !v->sizes && v->bytes && !tb_cu_capturing(stream, false))
        s = take(c, stream, false, v->address, v->bytes);
    if (s)
        hand_over(s, seq, access);
    else
        tb_cu.api->cover(t, 1, seq, "snapshot", "device memory",
                         v->sizes ? "only contiguous tensors are copied from the device"
                                  : "could not be copied from the device",
                         1);
    tb_cu_tls.may_call = may;
    if (entered)
        tb_cu.api->leave();
    return s != NULL;
}
