/*
 * Order of a folder's entries. At the first entry that is asked for, the folder is read to its end,
 * and its entries are handed out from memory: in the byte order of their names, or as the log has
 * it. Positions of telldir() are then numbers of entries; rewinddir() reads anew.
 *
 * What libc lists by itself (ftw, nftw, fts) is not seen; scandir() and glob() are asked for a
 * sorted list.
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one code for both");

/** struct listing - a folder that was read; one mapping: this, the entries, the pointers to them */
struct listing {
    uint64_t bytes, used; /* of the mapping */
    uint64_t pointers;    /* offset of them, at the end */
    uint32_t count, at;   /* at: the next one; changed atomically */
    int error;            /* what ended it, 0: its end */
};

/** struct slot - DIR and its listing; changed atomically */
struct slot {
    DIR *dir; /* NULL: never used; GONE: was used */
    struct listing *listing;
};

#define SLOTS 1024u
#define GONE ((DIR *)1)

/* A child that was forked goes on with copies, as it does with its DIRs. */
static struct slot slots[SLOTS];

static struct slot *find(DIR *dir)
{
    uint32_t from = (uint32_t)(((uintptr_t)dir * 0x9E3779B97F4A7C15ull) >> 54);

    for (uint32_t i = 0; i < SLOTS; i++) {
        struct slot *s = &slots[(from + i) % SLOTS];
        DIR *there = __atomic_load_n(&s->dir, __ATOMIC_ACQUIRE);
        if (there == dir)
            return s;
        if (!there)
            return NULL;
    }
    return NULL;
}

static struct slot *add(DIR *dir)
{
    uint32_t from = (uint32_t)(((uintptr_t)dir * 0x9E3779B97F4A7C15ull) >> 54);

    for (uint32_t i = 0; i < SLOTS; i++) {
        struct slot *s = &slots[(from + i) % SLOTS];
        DIR *there = __atomic_load_n(&s->dir, __ATOMIC_ACQUIRE);
        if ((!there || there == GONE) &&
            __atomic_compare_exchange_n(&s->dir, &there, dir, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return s;
    }
    return NULL;
}

static void forget(DIR *dir)
{
    struct slot *s = find(dir);
    struct listing *l = s ? __atomic_exchange_n(&s->listing, NULL, __ATOMIC_ACQ_REL) : NULL;

    if (l)
        tb_sys_unmap(l, l->bytes);
    if (s)
        __atomic_store_n(&s->dir, GONE, __ATOMIC_RELEASE);
}

static struct dirent **entries(struct listing *l)
{
    return (struct dirent **)((char *)l + l->pointers);
}

/* Room for @more bytes behind what is there; it may move. NULL: none, and the old one is gone. */
static struct listing *grow(struct listing *l, uint64_t more)
{
    uint64_t bytes = l->bytes;

    while (bytes < l->used + more)
        bytes *= 2;
    if (bytes == l->bytes)
        return l;
    struct listing *grown = tb_sys_grow(l, l->bytes, bytes);
    if (!grown) {
        tb_sys_unmap(l, l->bytes);
        return NULL;
    }
    grown->bytes = bytes;
    return grown;
}

static struct listing *read_all(DIR *dir)
{
    const uint64_t first = 32768;
    struct listing *l =
        tb_sys_map(first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct dirent *e;
    int saved = errno;

    if (!l)
        return NULL;
    l->bytes = first;
    l->used = sizeof(*l);
    errno = 0;
    while (l && (e = TB_NEXT(readdir)(dir)) != NULL) {
        uint64_t size = (e->d_reclen + 7u) & ~7u;
        l = grow(l, size);
        if (!l)
            break;
        memcpy((char *)l + l->used, e, e->d_reclen);
        ((struct dirent *)((char *)l + l->used))->d_reclen = (unsigned short)size;
        l->used += size;
        l->count++;
    }
    if (l)
        l->error = errno;
    errno = saved;
    return l;
}

/* Where each entry lies, in the order they were read, in @table of the listing */
static struct listing *point(struct listing *l, uint64_t tables)
{
    uint64_t at = sizeof(*l);

    l = grow(l, tables * l->count * sizeof(struct dirent *));
    if (!l)
        return NULL;
    l->pointers = l->used;
    for (uint32_t i = 0; i < l->count; i++) {
        entries(l)[i] = (struct dirent *)((char *)l + at);
        at += entries(l)[i]->d_reclen;
    }
    return l;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp((*(struct dirent *const *)a)->d_name, (*(struct dirent *const *)b)->d_name);
}

static uint64_t hash_names(struct dirent *const *e, uint32_t count)
{
    uint64_t h = count;

    for (uint32_t i = 0; i < count; i++)
        h = tb_preload_hash(h, e[i]->d_name, strlen(e[i]->d_name));
    return h;
}

static bool is_of(const struct tb_preload_record *r, uint32_t count, uint64_t names)
{
    return r->kind == TB_PRELOAD_LISTING && r->asked == count && r->served == names &&
           r->payload == count * sizeof(uint32_t);
}

/* The same call of the log, else any listing of these names there: their order is the folder's. */
static const struct tb_preload_record *recorded(struct tb_pins_call *c, uint32_t count,
                                                uint64_t names)
{
    const struct tb_preload_record *r = tb_pins_recorded(c);
    uint64_t at = TB_PRELOAD_LOG_START;

    if (r && is_of(r, count, names))
        return r;
    while (c->p->replay && (r = tb_preload_next(c->p->replay, c->p->replay_size, &at)) != NULL)
        if (is_of(r, count, names))
            return r;
    return NULL;
}

/* The order of the log: @e is in byte order and is put into it. */
static bool as_recorded(struct tb_pins_call *c, struct dirent **e, struct dirent **spare,
                        uint32_t count, uint64_t names)
{
    const struct tb_preload_record *r = recorded(c, count, names);

    if (!r)
        return false;
    const uint32_t *order = (const void *)(r + 1);
    for (uint32_t i = 0; i < count; i++)
        if (order[i] >= count)
            return false;
    for (uint32_t i = 0; i < count; i++)
        spare[i] = e[order[i]];
    if (hash_names(spare, count) != r->hash)
        return false; /* the log is damaged: no entry may be lost or come twice */
    memcpy(e, spare, count * sizeof(*e));
    c->marks |= TB_PRELOAD_FROM_LOG | (r->caller != c->caller ? TB_PRELOAD_OTHER_CALLER : 0);
    return true;
}

/* Place of each entry of @e in byte order, from where arrange() left it; written over @out. */
static uint32_t *places(struct dirent *const *e, void *out, uint32_t count)
{
    uint32_t *order = out;

    for (uint32_t i = 0; i < count; i++)
        order[i] = (uint32_t)e[i]->d_off;
    return order;
}

static void arrange(struct tb_pins_call *c, struct listing *l)
{
    struct dirent **e = entries(l), **sorted = e + l->count, **spare = sorted + l->count;
    uint64_t size = l->count * sizeof(*e), order_bytes = l->count * sizeof(uint32_t);

    memcpy(sorted, e, size);
    qsort(sorted, l->count, sizeof(*sorted), by_bytes);
    uint64_t names = hash_names(sorted, l->count);
    for (uint32_t i = 0; i < l->count; i++)
        sorted[i]->d_off = i;
    if (c->mode != TB_PRELOAD_LOG)
        memcpy(e, sorted, size);
    if (c->mode == TB_PRELOAD_REPLAY && !as_recorded(c, e, spare, l->count, names))
        c->marks |= TB_PRELOAD_NOT_IN_LOG;
    if (c->mode == TB_PRELOAD_LOG)
        c->marks |= TB_PRELOAD_REAL;
    uint64_t hash = hash_names(e, l->count);
    uint32_t *order = places(e, sorted, l->count);
    bool fits = order_bytes <= TB_PRELOAD_RECORD_MAX - 4096;
    if (!fits)
        c->marks |= TB_PRELOAD_CUT;
    tb_pins_note(c, l->count, names, fits ? order : NULL, fits ? order_bytes : 0, hash);
    for (uint32_t i = 0; i < l->count; i++)
        e[i]->d_off = i + 1;
}

static struct listing *make(DIR *dir, struct tb_pins_call *c)
{
    struct listing *l = read_all(dir);

    if (l)
        l = point(l, 3);
    if (l)
        arrange(c, l);
    return l;
}

/* One slot for a DIR, whoever of several threads comes first; *@mine: it was made here */
static struct slot *claim(DIR *dir, bool *mine)
{
    static uint32_t
        taken; /* by a thread that looks and adds; a forked child may find it so for good */
    uint32_t nobody = 0;
    bool have = false;

    for (int i = 0; !have && i < 10000; i++, nobody = 0) {
        have = __atomic_compare_exchange_n(&taken, &nobody, 1, false, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED);
        if (!have)
            (void)tb_sys3(SYS_sched_yield, 0, 0, 0);
    }
    struct slot *s = find(dir);
    *mine = !s;
    if (!s)
        s = add(dir);
    if (have)
        __atomic_store_n(&taken, 0, __ATOMIC_RELEASE);
    return s;
}

/* Another thread reads this very DIR */
static struct listing *wait_for(const struct slot *s, const DIR *dir)
{
    struct listing *l = __atomic_load_n(&s->listing, __ATOMIC_ACQUIRE);

    for (int i = 0; !l && i < 1000000 && __atomic_load_n(&s->dir, __ATOMIC_ACQUIRE) == dir; i++) {
        (void)tb_sys3(SYS_sched_yield, 0, 0, 0);
        l = __atomic_load_n(&s->listing, __ATOMIC_ACQUIRE);
    }
    return l;
}

/* The listing of @dir, made if it is the first time; NULL: entries come as they are. */
static struct listing *listing(DIR *dir, const void *pc)
{
    struct slot *s = find(dir);
    struct tb_pins_call c;
    bool mine = false;

    if (!s && tb_pins_self() && tb_pins.config->listing != TB_PRELOAD_OFF)
        s = claim(dir, &mine);
    if (!s || !mine)
        return s ? wait_for(s, dir) : NULL;
    struct listing *l =
        tb_pins_begin(&c, TB_PRELOAD_LISTING, TB_LISTING, pc) ? make(dir, &c) : NULL;
    if (l)
        __atomic_store_n(&s->listing, l, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&s->dir, GONE, __ATOMIC_RELEASE);
    return l;
}

static struct dirent *take(struct listing *l)
{
    uint32_t at = __atomic_load_n(&l->at, __ATOMIC_RELAXED);

    while (at < l->count && !__atomic_compare_exchange_n(&l->at, &at, at + 1, true,
                                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    if (at < l->count)
        return entries(l)[at];
    if (l->error)
        errno = l->error;
    return NULL;
}

TB_EXPORT struct dirent *readdir(DIR *dir)
{
    struct listing *l = listing(dir, TB_HERE);

    return l ? take(l) : TB_NEXT(readdir)(dir);
}

TB_EXPORT struct dirent64 *readdir64(DIR *dir)
{
    struct listing *l = listing(dir, TB_HERE);

    return l ? (struct dirent64 *)take(l) : TB_NEXT(readdir64)(dir);
}

static int take_into(struct listing *l, void *entry, void **out)
{
    struct dirent *e = take(l);

    *out = NULL;
    if (!e)
        return l->error;
    if (strlen(e->d_name) > 255)
        return ENAMETOOLONG;
    memcpy(entry, e, offsetof(struct dirent, d_name) + strlen(e->d_name) + 1);
    *out = entry;
    return 0;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TB_EXPORT int readdir_r(DIR *restrict dir, struct dirent *restrict entry,
                        struct dirent **restrict out)
{
    struct listing *l = listing(dir, TB_HERE);

    return l ? take_into(l, entry, (void **)out) : TB_NEXT(readdir_r)(dir, entry, out);
}

TB_EXPORT int readdir64_r(DIR *restrict dir, struct dirent64 *restrict entry,
                          struct dirent64 **restrict out)
{
    struct listing *l = listing(dir, TB_HERE);

    return l ? take_into(l, entry, (void **)out) : TB_NEXT(readdir64_r)(dir, entry, out);
}
#pragma GCC diagnostic pop

TB_EXPORT int closedir(DIR *dir)
{
    DIR *volatile given =
        dir; /* libc's header says that it is never NULL; callers are not so sure */

    if (given)
        forget(dir);
    return TB_NEXT(closedir)(dir);
}

TB_EXPORT void rewinddir(DIR *dir)
{
    forget(dir);
    TB_NEXT(rewinddir)(dir);
}

TB_EXPORT long telldir(DIR *dir)
{
    struct slot *s = find(dir);
    struct listing *l = s ? __atomic_load_n(&s->listing, __ATOMIC_ACQUIRE) : NULL;

    return l ? (long)__atomic_load_n(&l->at, __ATOMIC_RELAXED) : TB_NEXT(telldir)(dir);
}

/* A position other than the begin may be one of before a rewinddir(): the folder is read for it. */
TB_EXPORT void seekdir(DIR *dir, long to)
{
    struct slot *s = find(dir);
    struct listing *l = s ? __atomic_load_n(&s->listing, __ATOMIC_ACQUIRE) : NULL;

    if (!l && to != 0)
        l = listing(dir, TB_HERE);
    if (!l) {
        TB_NEXT(seekdir)(dir, to);
        return;
    }
    uint32_t at = to < 0 ? 0 : to < (long)l->count ? (uint32_t)to : l->count;
    __atomic_store_n(&l->at, at, __ATOMIC_RELAXED);
}

/* ---------------------------------------------------------------- lists that libc makes */

static bool sorts(void)
{
    return tb_pins_self() && (tb_pins.config->listing == TB_PRELOAD_PIN ||
                              tb_pins.config->listing == TB_PRELOAD_REPLAY);
}

static int entry_by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int entry64_by_bytes(const struct dirent64 **a, const struct dirent64 **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

typedef int (*any_order)(const void *, const void *);

/* In byte order first, so that what the caller holds to be equal has an order, too. */
static int resort(int n, void *list, any_order order)
{
    if (n > 1 && order)
        qsort(list, (size_t)n, sizeof(void *), order);
    return n;
}

#define SCANDIR(name, entry, order_name)                                                           \
    TB_EXPORT int name(const char *restrict path, struct entry ***restrict list,                   \
                       int (*choose)(const struct entry *),                                        \
                       int (*order)(const struct entry **, const struct entry **))                 \
    {                                                                                              \
        if (!sorts())                                                                              \
            return TB_NEXT(name)(path, list, choose, order);                                       \
        int n = TB_NEXT(name)(path, list, choose, order_name);                                     \
        return n < 0 ? n : resort(n, *list, (any_order)(void (*)(void))order);                     \
    }                                                                                              \
    TB_EXPORT int name##at(int dir, const char *restrict path, struct entry ***restrict list,      \
                           int (*choose)(const struct entry *),                                    \
                           int (*order)(const struct entry **, const struct entry **))             \
    {                                                                                              \
        if (!sorts())                                                                              \
            return TB_NEXT(name##at)(dir, path, list, choose, order);                              \
        int n = TB_NEXT(name##at)(dir, path, list, choose, order_name);                            \
        return n < 0 ? n : resort(n, *list, (any_order)(void (*)(void))order);                     \
    }
#define scandir64at scandirat64
#define TB_NEXT_scandir64at TB_NEXT_scandirat64

SCANDIR(scandir, dirent, entry_by_bytes)
SCANDIR(scandir64, dirent64, entry64_by_bytes)

TB_EXPORT int glob(const char *restrict pattern, int flags, int (*error)(const char *, int),
                   glob_t *restrict out)
{
    return TB_NEXT(glob)(pattern, sorts() ? flags & ~GLOB_NOSORT : flags, error, out);
}

TB_EXPORT int glob64(const char *restrict pattern, int flags, int (*error)(const char *, int),
                     glob64_t *restrict out)
{
    return TB_NEXT(glob64)(pattern, sorts() ? flags & ~GLOB_NOSORT : flags, error, out);
}
