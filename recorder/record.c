#include "recorder/recorder_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MORE_ACCESSES (TB_WIRE_CHUNK / sizeof(struct tb_wire_access))
#define COVER_TEXT 1024u

static uint64_t round64(uint64_t n)
{
    return (n + TB_WIRE_ALIGN - 1) & ~(uint64_t)(TB_WIRE_ALIGN - 1);
}

/* ---------------------------------------------------------------- begin and end of a call */

static bool switch_thread(struct tb_rt_ring *r, uint32_t thread)
{
    struct tb_wire_def *d = (struct tb_wire_def *)(void *)tb_rt_reserve(r, TB_WIRE_ALIGN);

    if (!d)
        return false;
    memset(d, 0, TB_WIRE_ALIGN);
    d->rec = (struct tb_wire_rec){.kind = TB_REC_THREAD, .bytes = TB_WIRE_ALIGN};
    d->id = thread;
    tb_rt_publish(r, TB_WIRE_ALIGN);
    r->thread = thread;
    return true;
}

static void end(struct tb_rec_thread *t)
{
    if (tb_unlikely(t->ring->shared))
        tb_rt_unlock(&tb_rt.page->shared_lock);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    tb_tls.busy = 0;
}

/* False: off, another process's recorder, or a signal handler inside one of these functions. */
static bool begin(struct tb_rec_thread *t)
{
    if (tb_unlikely(tb_tls.busy || !t || !tb_rt_current(t)))
        return false;
    tb_tls.busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (tb_unlikely(t->ring->shared))
        tb_rt_lock(&tb_rt.page->shared_lock);
    if (tb_likely(t->ring->thread == t->ordinal) || switch_thread(t->ring, t->ordinal))
        return true;
    end(t);
    return false;
}

/* ---------------------------------------------------------------- texts */

struct piece {
    const char *text;
    size_t n;
};

static void copy_pieces(uint8_t *dst, const struct piece *piece, size_t from, size_t n)
{
    for (; n; piece++) {
        if (from >= piece->n) {
            from -= piece->n;
            continue;
        }
        size_t part = piece->n - from < n ? piece->n - from : n;
        memcpy(dst, piece->text + from, part);
        dst += part;
        n -= part;
        from = 0;
    }
}

/* The pieces' text in as many records as it needs. */
static bool put_text(struct tb_rt_ring *r, unsigned kind, uint32_t id, uint64_t value,
                     const struct piece *piece, size_t total)
{
    size_t done = 0;

    do {
        size_t len = total - done < TB_WIRE_CHUNK ? total - done : TB_WIRE_CHUNK;
        uint64_t bytes = round64(sizeof(struct tb_wire_def) + len);
        uint8_t *p = tb_rt_reserve(r, bytes);
        if (!p)
            return false;
        *(struct tb_wire_def *)(void *)p = (struct tb_wire_def){
            .rec = {.kind = (uint16_t)kind, .bytes = (uint32_t)bytes},
            .id = id,
            .len = (uint32_t)len,
            .value = value,
            .more = total - done - len,
        };
        copy_pieces(p + sizeof(struct tb_wire_def), piece, done, len);
        tb_rt_publish(r, bytes);
        done += len;
    } while (done < total);
    return true;
}

static uint32_t find(struct tb_rec_thread *t, bool site, uint64_t key)
{
    uint32_t id = 0;

    if (begin(t)) {
        id = tb_rt_table_find(site ? &t->ring->sites : &t->ring->ranges, key);
        end(t);
    }
    return id;
}

static uint32_t define(struct tb_rec_thread *t, bool site, uint64_t key, const char *text, size_t n)
{
    struct piece piece = {text, n};
    uint32_t id = 0;

    if (!begin(t))
        return 0;
    struct tb_rt_table *table = site ? &t->ring->sites : &t->ring->ranges;
    id = tb_rt_table_find(table, key);
    if (id)
        goto out;
    if (!put_text(t->ring, site ? TB_REC_SITE : TB_REC_RANGE, table->count + 1, 0, &piece, n))
        goto out;
    if (tb_rt_table_add(table, key, table->count + 1))
        id = table->count;
    else
        tb_rt_stop("no memory for a table of sites");
out:
    end(t);
    return id;
}

static uint32_t site_find(struct tb_rec_thread *t, uint64_t key)
{
    return find(t, true, key);
}

static uint32_t site_define(struct tb_rec_thread *t, uint64_t key, const char *text, size_t n)
{
    return define(t, true, key, text, n);
}

static uint32_t range_find(struct tb_rec_thread *t, uint64_t key)
{
    return find(t, false, key);
}

static uint32_t range_define(struct tb_rec_thread *t, uint64_t key, const char *text, size_t n)
{
    return define(t, false, key, text, n);
}

static void stack(struct tb_rec_thread *t, uint64_t seq, const char *text, size_t n)
{
    struct piece piece = {text, n};

    if (begin(t)) {
        (void)put_text(t->ring, TB_REC_STACK, 0, seq, &piece, n);
        end(t);
    }
}

static void meta(struct tb_rec_thread *t, const char *key, const char *value)
{
    struct piece piece[] = {{key, strlen(key)}, {"\t", 1}, {value, strlen(value)}};

    if (begin(t)) {
        (void)put_text(t->ring, TB_REC_META, 0, 0, piece, piece[0].n + 1 + piece[2].n);
        end(t);
    }
}

static size_t clip(const char *text, size_t limit)
{
    return text ? strnlen(text, limit) : 0;
}

static void cover(struct tb_rec_thread *t, unsigned severity, uint64_t seq, const char *kind,
                  const char *subject, const char *detail, uint64_t count)
{
    struct piece piece[] = {{kind, clip(kind, 64)},
                            {"\t", 1},
                            {subject, clip(subject, COVER_TEXT)},
                            {"\t", 1},
                            {detail, clip(detail, COVER_TEXT)}};
    size_t len = piece[0].n + piece[2].n + piece[4].n + 2;
    uint64_t bytes = round64(sizeof(struct tb_wire_cover) + len);

    if (!begin(t))
        return;
    uint8_t *p = tb_rt_reserve(t->ring, bytes);
    if (p) {
        *(struct tb_wire_cover *)(void *)p = (struct tb_wire_cover){
            .rec = {.kind = TB_REC_COVER, .bytes = (uint32_t)bytes},
            .len = (uint32_t)len,
            .severity = severity,
            .seq = seq,
            .count = count,
        };
        copy_pieces(p + sizeof(struct tb_wire_cover), piece, 0, len);
        tb_rt_publish(t->ring, bytes);
    }
    end(t);
}

/* ---------------------------------------------------------------- events */

static uint64_t draw_seq(struct tb_rec_thread *t)
{
    if (tb_unlikely(t->has_seq)) {
        t->has_seq = false;
        return t->reserved_seq;
    }
    return __atomic_fetch_add(&tb_rt.page->seq, 1, __ATOMIC_RELAXED);
}

/* A number was drawn for a coarse map and its event is lost: say so, or the collector waits for it.
 */
static void skip_seq(struct tb_rec_thread *t)
{
    struct piece none = {"", 0};

    if (t->has_seq && put_text(t->ring, TB_REC_SKIP, 0, t->reserved_seq, &none, 0))
        t->has_seq = false;
}

static bool put_more(struct tb_rt_ring *r, uint32_t from, const struct tb_wire_access *access,
                     uint32_t n)
{
    uint32_t len = n * (uint32_t)sizeof(*access);
    uint64_t bytes = round64(sizeof(struct tb_wire_def) + len);
    uint8_t *p = tb_rt_reserve(r, bytes);

    if (!p)
        return false;
    *(struct tb_wire_def *)(void *)p = (struct tb_wire_def){
        .rec = {.kind = TB_REC_MORE, .bytes = (uint32_t)bytes},
        .id = from,
        .len = len,
    };
    memcpy(p + sizeof(struct tb_wire_def), access, len);
    tb_rt_publish(r, bytes);
    return true;
}

static void write_event(struct tb_rec_thread *t, struct tb_wire_event *head,
                        const struct tb_wire_access *access, uint8_t *p, uint64_t bytes, uint32_t n)
{
    head->rec = (struct tb_wire_rec){.kind = TB_REC_EVENT, .bytes = (uint32_t)bytes};
    head->seq = draw_seq(t);
    if (!head->time_ns)
        head->time_ns = tb_rt_now();
    memcpy(p, head, sizeof(*head));
    if (n & 1)
        memset(p + bytes - sizeof(*access), 0, sizeof(*access));
    if (n)
        memcpy(p + sizeof(*head), access, n * sizeof(*access));
    t->ring->page->last_seq = head->seq;
    tb_rt_publish(t->ring, bytes);
}

static uint64_t event(struct tb_rec_thread *t, struct tb_wire_event *head,
                      const struct tb_wire_access *access)
{
    uint32_t n = head->accesses, done = 0;
    uint64_t seq = TB_REC_NO_SEQ;
    uint8_t *p = NULL;

    if (!begin(t))
        return seq;
    if (tb_unlikely(!head->site))
        goto out;
    for (; n - done > MORE_ACCESSES; done += MORE_ACCESSES)
        if (!put_more(t->ring, done, access + done, MORE_ACCESSES))
            goto out;
    uint64_t bytes = round64(sizeof(*head) + (n - done) * sizeof(*access));
    p = tb_rt_reserve(t->ring, bytes);
    if (tb_likely(p)) {
        write_event(t, head, access + done, p, bytes, n - done);
        seq = head->seq;
    }
out:
    if (tb_unlikely(t->has_seq))
        skip_seq(t);
    end(t);
    return seq;
}

static void map(struct tb_rec_thread *t, uint32_t access, uint64_t bytes, const struct tb_fp *sums,
                uint32_t parts)
{
    uint64_t size = round64(sizeof(struct tb_wire_map) + parts * sizeof(*sums));

    if (parts > TB_FP_MAP_MAX || !begin(t))
        return;
    uint8_t *p = tb_rt_reserve(t->ring, size);
    if (p) {
        if (!t->has_seq)
            t->reserved_seq = draw_seq(t);
        t->has_seq = true;
        *(struct tb_wire_map *)(void *)p = (struct tb_wire_map){
            .rec = {.kind = TB_REC_MAP, .bytes = (uint32_t)size},
            .seq = t->reserved_seq,
            .access = access,
            .parts = parts,
            .bytes = bytes,
        };
        memcpy(p + sizeof(struct tb_wire_map), sums, parts * sizeof(*sums));
        tb_rt_publish(t->ring, size);
    }
    end(t);
}

/* ---------------------------------------------------------------- snapshots */

struct snapshot {
    struct tb_wire_snapshot *page;
    uint64_t bytes;
    ino_t ino;
    dev_t dev;
    int fd;
};

/* The number may have been closed and given out again since: is it still ours? */
static bool still_ours(const struct snapshot *s)
{
    struct stat st;

    return fstat(s->fd, &st) == 0 && st.st_ino == s->ino && st.st_dev == s->dev;
}

static void snapshot_done(struct snapshot *s)
{
    if (s->page)
        tb_rt_unmap(s->page, s->bytes);
    if (s->fd >= 0 && still_ours(s))
        (void)close(s->fd);
    tb_rt_unmap(s, sizeof(*s));
}

static bool snapshot_map(struct snapshot *s, uint64_t bytes)
{
    const char *why;
    struct stat st;

    s->bytes = bytes + TB_WIRE_RING_PAGE;
    s->fd = tb_rt_memfd("twinbit-snapshot", s->bytes, &why);
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        return false;
    s->ino = st.st_ino;
    s->dev = st.st_dev;
    void *p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    s->page = p == MAP_FAILED ? NULL : p;
    return s->page != NULL;
}

static void *snapshot_open(struct tb_rec_thread *t, uint64_t bytes, void **handle)
{
    int saved = errno;
    void *room = NULL;

    if (tb_tls.busy || !tb_rt_current(t))
        return NULL;
    tb_tls.busy = 1;
    struct snapshot *s = tb_rt_pool(sizeof(*s));
    if (s && snapshot_map(s, bytes)) {
        room = (uint8_t *)s->page + TB_WIRE_RING_PAGE;
        *handle = s;
    } else if (s) {
        snapshot_done(s);
    }
    tb_tls.busy = 0;
    errno = saved;
    return room;
}

static void snapshot_send(struct tb_rec_thread *t, void *handle, uint64_t seq, uint32_t access)
{
    struct snapshot *s = handle;
    int saved = errno;
    struct tb_wire_msg *msg = NULL;

    tb_tls.busy = 1;
    *s->page = (struct tb_wire_snapshot){.magic = TB_WIRE_MAGIC,
                                         .version = TB_WIRE_VERSION,
                                         .nonce = tb_rt.nonce,
                                         .seq = seq,
                                         .access = access,
                                         .bytes = s->bytes - TB_WIRE_RING_PAGE};
    if (tb_rt_current(t) && still_ours(s) && (msg = tb_rt_message(TB_MSG_SNAPSHOT)))
        (void)tb_rt_call(msg, s->fd, NULL, NULL, tb_rt.config.wait_ms);
    tb_rt_message_done(msg);
    snapshot_done(s);
    tb_tls.busy = 0;
    errno = saved;
}

/* ---------------------------------------------------------------- the rest of the interface */

static uint32_t ring(struct tb_rec_thread *t)
{
    return t->ring->number;
}

static uint32_t generation(void)
{
    return __atomic_load_n(&tb_rt.generation, __ATOMIC_ACQUIRE);
}

static uint32_t count(struct tb_rec_thread *t, uint64_t key)
{
    return tb_rt_table_next(&t->counts, key);
}

static bool enter(void)
{
    if (tb_tls.guard || tb_tls.busy)
        return false;
    tb_tls.guard = 1;
    return true;
}

static void leave(void)
{
    tb_tls.guard = 0;
}

static uint64_t seq_now(void)
{
    return __atomic_load_n(&tb_rt.page->seq, __ATOMIC_RELAXED);
}

static void log_line(const char *text)
{
    if (tb_rt_state() == TB_RT_ON)
        tb_rt_log(text);
}

void tb_rt_api_init(struct tb_rec_api *api)
{
    *api = (struct tb_rec_api){
        .version = TB_REC_API_VERSION,
        .size = sizeof(*api),
        .config = &tb_rt.config,
        .self = tb_rt_self,
        .ring = ring,
        .generation = generation,
        .count = count,
        .enter = enter,
        .leave = leave,
        .seq = seq_now,
        .site_find = site_find,
        .site_define = site_define,
        .range_find = range_find,
        .range_define = range_define,
        .event = event,
        .map = map,
        .stack = stack,
        .cover = cover,
        .meta = meta,
        .snapshot_open = snapshot_open,
        .snapshot_send = snapshot_send,
        .log = log_line,
        .stop = tb_rt_stop,
        .pool = tb_rt_pool,
        .fp_host_pool = tb_fp_host_pool,
        .fp_strided = tb_fp_strided,
        .fp_map = tb_fp_map,
        .xxh128 = tb_fp_leaf_hash,
    };
    tb_rt_shared_init(api);
    tb_rt_image_init(api);
}
