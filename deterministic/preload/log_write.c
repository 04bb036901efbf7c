/* The log of this process; its format stands in log.h. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

#define NOT_THERE (-95) /* EOPNOTSUPP */
#define IS_THERE (-17)  /* EEXIST */

static uint64_t piece_start(unsigned k)
{
    return (uint64_t)TB_PRELOAD_LOG_PIECE * ((1ull << k) - 1);
}

static unsigned piece_of(uint64_t offset)
{
    return 63u - (unsigned)__builtin_clzll(offset / TB_PRELOAD_LOG_PIECE + 1);
}

/* A file beyond the limit would end the job with SIGXFSZ. */
static bool fits_limit(uint64_t bytes)
{
    uint64_t limit[2] = {0, 0};

    return tb_sys6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)limit, 0, 0) == 0 && bytes <= limit[0];
}

/* Takes the room on the disk, so that no store into it can meet a full one. */
static bool take_room(int fd, uint64_t from, uint64_t bytes)
{
    static const char zeros[4096];
    long r = tb_sys6(SYS_fallocate, fd, 0, (long)from, (long)bytes, 0, 0);

    for (uint64_t i = 0; r == NOT_THERE && i < bytes; i += sizeof(zeros))
        if (tb_sys6(SYS_pwrite64, fd, (long)zeros, sizeof(zeros), (long)(from + i), 0, 0) !=
            (long)sizeof(zeros))
            return false;
    return r == 0 || r == NOT_THERE;
}

/* A mapping begins at a border of pages, whose size is at most this. */
#define PAGE 65536u

static char *map_piece(int fd, unsigned k)
{
    uint64_t from = piece_start(k), bytes = (uint64_t)TB_PRELOAD_LOG_PIECE << k;
    uint64_t before = from % PAGE;
    int flags = MAP_SHARED | (bytes <= (1u << 20) ? MAP_POPULATE : 0);
    char *p;

    if (!fits_limit(from + bytes) || !take_room(fd, from, bytes))
        return NULL;
    p = tb_sys_map(before + bytes, PROT_READ | PROT_WRITE, flags, fd, from - before);
    if (!p)
        return NULL;
    if (tb_pins.wiped)
        (void)tb_sys3(SYS_madvise, (long)p, (long)(before + bytes), MADV_DONTFORK);
    return p + before;
}

static void unmap_piece(char *p, unsigned k)
{
    uint64_t before = piece_start(k) % PAGE;

    tb_sys_unmap(p - before, before + ((uint64_t)TB_PRELOAD_LOG_PIECE << k));
}

/* Its descriptor is open for a moment only: jobs close all that they find. */
static char *piece(struct tb_pins_proc *p, unsigned k)
{
    char *here = __atomic_load_n(&p->piece[k], __ATOMIC_ACQUIRE), *none = NULL;

    if (tb_likely(here != NULL) || p->log_off)
        return here;
    long fd = tb_sys_open(p->path, O_RDWR | O_CLOEXEC, 0);
    if (fd >= 0) {
        here = map_piece((int)fd, k);
        tb_sys_close((int)fd);
    }
    if (!here) {
        __atomic_store_n(&p->log_off, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    if (!__atomic_compare_exchange_n(&p->piece[k], &none, here, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        unmap_piece(here, k);
        here = none;
    }
    return here;
}

/* Where a record of @size bytes may begin, at @end or behind it */
static uint64_t place(uint64_t end, uint32_t size)
{
    for (;;) {
        uint64_t border = piece_start(piece_of(end) + 1);
        if (end + size <= border)
            return end;
        end = border;
    }
}

struct tb_preload_record *tb_pins_log_room(struct tb_pins_proc *p, uint32_t payload,
                                           uint64_t *offset)
{
    struct tb_preload_file *log = p->log;
    uint32_t size = tb_preload_size(payload);
    uint64_t end, at;
    char *bytes;

    if (!log)
        return NULL;
    end = __atomic_load_n(&log->end, __ATOMIC_RELAXED);
    do {
        at = place(end, size);
        if (at + size > tb_pins.config->log_limit || piece_of(at) >= TB_PINS_PIECES)
            goto dropped;
    } while (!__atomic_compare_exchange_n(&log->end, &end, at + size, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    bytes = piece(p, piece_of(at));
    if (bytes) {
        *offset = at;
        return (void *)(bytes + (at - piece_start(piece_of(at))));
    }
dropped:
    __atomic_add_fetch(&log->dropped, 1, __ATOMIC_RELAXED);
    return NULL;
}

void tb_pins_log_whole(struct tb_preload_record *r, uint64_t offset)
{
    uint64_t head = tb_preload_head(r, offset, tb_preload_size(r->payload));

    __atomic_store_n(&r->head, head, __ATOMIC_RELEASE);
}

void tb_pins_log_text(uint16_t kind, uint64_t thread, uint64_t asked, const char *text)
{
    struct tb_pins_proc *p = tb_pins_self();
    size_t n = strlen(text) + 1;
    uint64_t offset;
    struct tb_preload_record *r = p ? tb_pins_log_room(p, (uint32_t)n, &offset) : NULL;

    if (!r)
        return;
    r->kind = kind;
    r->thread = thread;
    r->asked = asked;
    r->payload = (uint32_t)n;
    memcpy(r + 1, text, n);
    tb_pins_log_whole(r, offset);
}

/* What the process was called with; it may be long, and what does not fit is left out. */
static void tell_start(struct tb_pins_proc *p)
{
    static const char path[] = "/proc/self/cmdline";
    struct tb_preload_record *r;
    char words[2048];
    uint64_t offset;

    long fd = tb_sys_open(path, O_RDONLY | O_CLOEXEC, 0);
    long n = fd < 0 ? 0 : tb_sys3(SYS_read, fd, (long)words, sizeof(words));
    if (fd >= 0)
        tb_sys_close((int)fd);
    n = n < 0 ? 0 : n;
    r = tb_pins_log_room(p, (uint32_t)n, &offset);
    if (!r)
        return;
    r->kind = TB_PRELOAD_START;
    r->marks = (uint16_t)p->marks;
    r->payload = (uint32_t)n;
    r->asked = r->served = (uint64_t)n;
    memcpy(r + 1, words, (size_t)n);
    tb_pins_log_whole(r, offset);
}

static void fill_head(struct tb_pins_proc *p, struct tb_preload_file *f)
{
    const struct tb_preload_config *c = tb_pins.config;

    f->version = f->min_version = TB_PRELOAD_LOG_VERSION;
    f->size = sizeof(*f);
    f->pid = p->pid;
    f->id = p->id;
    f->parent = p->parent;
    f->seed = c->seed;
    f->end = sizeof(*f);
    f->entropy = c->entropy;
    f->time = c->time;
    f->listing = c->listing;
    f->tempnames = c->tempnames;
    f->seeds = c->seeds;
    f->marks = p->marks;
    f->claims = p->claims;
    memcpy(f->program, tb_pins.program, sizeof(f->program));
    __atomic_store_n(&f->magic, TB_PRELOAD_LOG_MAGIC, __ATOMIC_RELEASE);
}

/* FOLDER/0123456789abcdef[-N].pins */
static void make_path(struct tb_pins_proc *p, unsigned claim)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = strlen(tb_pins.config->folder);
    char *out = p->path + n;

    memcpy(p->path, tb_pins.config->folder, n);
    *out++ = '/';
    for (int i = 60; i >= 0; i -= 4)
        *out++ = digits[(p->id >> i) & 15];
    if (claim > 0) {
        *out++ = '-';
        *out++ = (char)('0' + claim);
    }
    memcpy(out, ".pins", 6);
}

/* In the table, which all share: a replay cannot repeat what this process draws. */
static void tell_unlogged(void)
{
    struct tb_preload_shared *s = tb_pins.shared;
    size_t n = strnlen(tb_pins.program, sizeof(s->unlogged_program));

    if (s && __atomic_fetch_add(&s->unlogged, 1, __ATOMIC_RELAXED) == 0)
        memcpy(s->unlogged_program, tb_pins.program, n);
}

void tb_pins_log_create(struct tb_pins_proc *p)
{
    long fd = IS_THERE;

    for (unsigned i = 0; fd == IS_THERE && i < 10; i++) {
        p->claims = i;
        make_path(p, i);
        fd = tb_sys_open(p->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    if (fd < 0) {
        tell_unlogged();
        return;
    }
    p->piece[0] = map_piece((int)fd, 0);
    tb_sys_close((int)fd);
    if (!p->piece[0])
        return;
    fill_head(p, (void *)p->piece[0]);
    p->log = (void *)p->piece[0];
    tell_start(p);
}
