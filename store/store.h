/*
 * store - the trace file: one SQLite database, FORMAT.md has its schema.
 *
 * Writers start at tb_store_create(), readers at tb_trace_open(). The writer takes what the
 * collector has merged (events of one process in seq order) and makes digests of segments; the
 * reader streams a thread's events in order with flat memory and recomputes the digests of what it
 * reads.
 */
#ifndef TB_STORE_STORE_H
#define TB_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/common.h"

#define TB_STORE_APPLICATION_ID 0x54574254 /* "TWBT" */
#define TB_STORE_VERSION 2                 /* user_version */
#define TB_STORE_SEGMENT_EVENTS 1024u
#define TB_STORE_ACCESS_SHIFT 16 /* access id = event id << 16 | index */
#define TB_STORE_MAX_ACCESSES 65536u
#define TB_STORE_PART (4u << 20) /* bytes of a stored part of what is large, before compression */

/* ---------------------------------------------------------------- what is stored */

/** struct tb_store_process - identity of a process; strings borrowed for the call */
struct tb_store_process {
    uint32_t parent;      /* id of the parent's row, 0 for the first */
    uint32_t ordinal;     /* n-th child of that parent with the same argv and rank, from 0 */
    int32_t rank;         /* RANK, -1 if none */
    int32_t restart;      /* TORCHELASTIC_RESTART_COUNT, 0 if none */
    int32_t worker;       /* DataLoader worker id, -1 if none */
    int32_t pid;          /* for the reader's eye only */
    const char *argv;     /* arguments, joined by spaces, quoted where needed */
    const char *identity; /* what matches it with a process of another run; unique in the trace */
};

/** struct tb_store_event - one event, ids of this store; see recorder/wire.h for the meanings */
struct tb_store_event {
    uint32_t thread;
    uint8_t kind;   /* enum tb_wire_event_kind */
    uint16_t flags; /* enum tb_wire_event_flags */
    uint32_t site, range;
    uint64_t seq, open, step, args;
    uint64_t time_ns;
};

/** struct tb_store_access - one access; mode, dtype, shape, name stand in the site */
struct tb_store_access {
    uint64_t alloc;  /* ordinal in the process, TB_ALLOC_RNG + n for RNG states, 0 unknown */
    uint64_t offset; /* bytes */
    uint32_t place;  /* of memory: where a kernel's pointer leads (wire.h), 0: to @offset */
    uint8_t fp_kind; /* enum tb_fp_kind */
    uint8_t fp[16];
};

/** tb_store_packed - offset and place as one number: of mode q an offset has all its bits */
uint64_t tb_store_packed(const struct tb_store_access *a);
/** tb_store_unpack - set them of @a, whose alloc is known */
void tb_store_unpack(struct tb_store_access *a, uint64_t packed);

/* One access line of a site, parsed. Pointers live as long as the handle they came from. */
struct tb_site_access {
    char mode;     /* r w g h s x q */
    uint8_t dtype; /* enum tb_dtype (fingerprint.h) */
    bool contiguous;
    int ndim;
    const int64_t *sizes, *strides; /* elements; strides NULL if contiguous */
    uint64_t elements;              /* product of sizes */
    uint64_t bytes;           /* of the elements in row-major order, stride-0 dimensions once */
    int64_t span_lo, span_hi; /* bytes touched: [offset + span_lo, offset + span_hi) */
    const char *device, *argument; /* NUL-terminated */
};
struct tb_site {
    uint32_t id;
    uint8_t hash[16]; /* XXH3-128 of the text */
    const char *tap, *name, *text;
    const char *detail; /* what stands behind the name: "key=value" with tabs between, or "" */
    uint32_t access_count;
    const struct tb_site_access *access;
};

/* ---------------------------------------------------------------- writer */

struct tb_store;

struct tb_store_options {
    bool force;        /* overwrite an existing file */
    bool aside;        /* ... which stays beside it, as PATH.replaced, until tb_store_began() */
    uint64_t max_size; /* bytes, 0: no limit; beyond it the oldest event detail is deleted, segments
                          stay */
    const char *local; /* folder to record in, the file is moved at close; NULL: choose (network fs
                          -> TMPDIR) */
};

/**
 * tb_store_create - create a trace
 * @path: must not exist unless options->force
 * Returns: TB_OK, handle in *@out; TB_ERR_EXISTS; TB_ERR_IO; TB_ERR_PERM is reported as TB_ERR_IO.
 * Threads: one thread per handle. A full disk during recording: the store remembers it, later calls
 * return TB_OK and count what was lost; tb_store_close() writes the footer if it can and returns
 * TB_ERR_IO.
 */
enum tb_status tb_store_create(struct tb_store **out, const char *path,
                               const struct tb_store_options *options,
                               struct tb_error *err) TB_MUST_CHECK;
/** tb_store_began - what was replaced (options.aside) is not needed any more */
void tb_store_began(struct tb_store *s);
/** tb_store_drop - take away what was created, put back what was replaced; frees @s, may be NULL */
void tb_store_drop(struct tb_store *s);
enum tb_status tb_store_meta(struct tb_store *s, const char *key, const char *value,
                             struct tb_error *err) TB_MUST_CHECK;
/** tb_store_text - a large text under a key, zstd-compressed (environment, sources) */
enum tb_status tb_store_text(struct tb_store *s, const char *key, const void *text, size_t n,
                             struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_store_add_process(struct tb_store *s, const struct tb_store_process *p,
                                    uint32_t *id, struct tb_error *err) TB_MUST_CHECK;
/** tb_store_set_process - identity known better at the end: replaces the row @id */
enum tb_status tb_store_set_process(struct tb_store *s, uint32_t id,
                                    const struct tb_store_process *p,
                                    struct tb_error *err) TB_MUST_CHECK;
/** tb_store_add_thread - @role: "main", "autograd#0", "thread#2": equal for the same thread of
 * another run */
enum tb_status tb_store_add_thread(struct tb_store *s, uint32_t process, uint32_t ordinal,
                                   const char *role, uint32_t *id,
                                   struct tb_error *err) TB_MUST_CHECK;
/** tb_store_intern_site - id of the site with this text (recorder/wire.h); TB_ERR_FORMAT if it does
 * not parse */
enum tb_status tb_store_intern_site(struct tb_store *s, const char *text, size_t n, uint32_t *id,
                                    struct tb_error *err) TB_MUST_CHECK;
/** tb_store_site - a site that was interned; NULL: no such id. Lives until tb_store_close() */
const struct tb_site *tb_store_site(const struct tb_store *s, uint32_t id);
/** tb_site_value - what @key has in the site's detail: *@n bytes, not NUL-terminated; NULL: nothing
 */
const char *tb_site_value(const struct tb_site *site, const char *key, size_t *n);
/** tb_store_intern_range - id of "phase\tmodule-path\tuser" */
enum tb_status tb_store_intern_range(struct tb_store *s, const char *text, size_t n, uint32_t *id,
                                     struct tb_error *err) TB_MUST_CHECK;
/**
 * tb_store_event - append an event with the site's number of accesses
 * Events of one process arrive in seq order. Closes and opens segments. *@id: its row id (may be
 * NULL).
 */
enum tb_status tb_store_event(struct tb_store *s, const struct tb_store_event *e,
                              const struct tb_store_access *a, uint32_t n, uint64_t *id,
                              struct tb_error *err) TB_MUST_CHECK;
/** tb_store_coverage - @thread and @event may be 0. severity as in wire.h; equal rows are counted
 * together */
enum tb_status tb_store_coverage(struct tb_store *s, uint32_t process, uint32_t thread,
                                 uint64_t event, unsigned severity, const char *kind,
                                 const char *subject, const char *detail, uint64_t count,
                                 struct tb_error *err) TB_MUST_CHECK;
/** tb_store_trimmed - events whose detail was deleted to stay within max_size */
uint64_t tb_store_trimmed(const struct tb_store *s);
/** tb_store_lost - @count records of @process were lost (@thread may be 0); any such row makes diff
 * say unknown */
enum tb_status tb_store_lost(struct tb_store *s, uint32_t process, uint32_t thread, uint64_t count,
                             const char *why, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_store_map(struct tb_store *s, uint64_t event, uint32_t access, uint64_t bytes,
                            const uint64_t *sums, uint32_t parts,
                            struct tb_error *err) TB_MUST_CHECK;
/** tb_store_snapshot - the bytes of an access, row-major; zstd */
enum tb_status tb_store_snapshot(struct tb_store *s, uint64_t event, uint32_t access,
                                 const void *data, uint64_t n, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_store_stack(struct tb_store *s, uint64_t event, const char *text, size_t n,
                              struct tb_error *err) TB_MUST_CHECK;

/** struct tb_store_file - a file that is kept with the trace, in a folder of files */
struct tb_store_file {
    const char *folder, *path; /* name of the folder; path in it, with '/' between */
    uint32_t mode;             /* permissions */
    uint64_t bytes;            /* of the whole file */
};
/**
 * tb_store_file - one part of it, zstd; parts 0, 1, ... follow each other
 * @n: TB_STORE_PART, less in the last part; an empty file has one part of 0 bytes
 */
enum tb_status tb_store_file(struct tb_store *s, const struct tb_store_file *file, uint64_t part,
                             const void *data, size_t n, struct tb_error *err) TB_MUST_CHECK;
/** tb_store_flush - end the batch: what was written survives any kill of this process */
enum tb_status tb_store_flush(struct tb_store *s, struct tb_error *err) TB_MUST_CHECK;
struct tb_store_stats {
    uint64_t events, accesses, segments, lost, coverage, bytes; /* bytes: size of the files now */
    bool disk_full;
};
void tb_store_stats(struct tb_store *s, struct tb_store_stats *out);
/** tb_store_close - close segments, write the footer, state "complete", one file; frees @s in any
 * case */
enum tb_status tb_store_close(struct tb_store *s, struct tb_error *err) TB_MUST_CHECK;

/* ---------------------------------------------------------------- reader */

struct tb_trace;
struct tb_cursor;

struct tb_trace_info {
    const char *path;
    bool complete;       /* false: recording did not end in order; what is there was recovered */
    const char *warning; /* one line if it was recovered or its -wal is missing, else NULL */
    uint64_t events, lost;
    uint32_t processes, threads;
};
struct tb_trace_process {
    uint32_t id, parent, ordinal;
    int32_t rank, restart, worker, pid;
    const char *argv, *identity;
};
struct tb_trace_thread {
    uint32_t id, process, ordinal;
    const char *role;
    uint64_t events;
};
struct tb_trace_segment {
    uint64_t id;
    uint32_t thread;
    uint64_t step;        /* of its first event */
    uint64_t first, last; /* event ids; other threads' events may lie between */
    uint64_t count;
    uint64_t seq_first; /* seq of its first event */
    uint8_t digest[16];
    uint8_t coverage[16]; /* digest of its coverage rows, zeros: none */
    bool detail;          /* false: events were deleted (max_size) */
};
struct tb_trace_event {
    uint64_t id;
    struct tb_store_event e;
    const struct tb_site *site;
    const struct tb_store_access
        *access; /* site->access_count; valid until the next call on the cursor */
};
struct tb_trace_coverage {
    uint32_t process, thread, severity;
    uint64_t event, count;
    const char *kind, *subject, *detail;
};

/**
 * tb_trace_open - open a trace for reading; never changes the file
 * Cut traces are recovered in memory or a temporary copy where SQLite can (info.warning says so).
 * Returns: TB_ERR_NOTFOUND, TB_ERR_IO (no permission), TB_ERR_FORMAT ("not a trace"),
 * TB_ERR_VERSION, TB_ERR_CORRUPT. Messages name the file and say what to do next. Threads: one per
 * handle. Strings and sites it gives out live until tb_trace_close().
 */
enum tb_status tb_trace_open(struct tb_trace **out, const char *path,
                             struct tb_error *err) TB_MUST_CHECK;
void tb_trace_close(struct tb_trace *t);
const struct tb_trace_info *tb_trace_info(const struct tb_trace *t);
/** tb_trace_meta - value of @key or NULL; tb_trace_text - decompressed text, *@n bytes, or NULL
 * (borrowed) */
const char *tb_trace_meta(struct tb_trace *t, const char *key);
const char *tb_trace_text(struct tb_trace *t, const char *key, size_t *n);
/** tb_trace_text_error - why the last tb_trace_text() gave NULL: TB_ERR_NOTFOUND, or damage, told
 * with its place; borrowed */
const struct tb_error *tb_trace_text_error(const struct tb_trace *t);
/** tb_trace_meta_at - i-th pair in key order; false past the end */
bool tb_trace_meta_at(struct tb_trace *t, size_t i, const char **key, const char **value);
const struct tb_trace_process *tb_trace_processes(struct tb_trace *t, size_t *n);
const struct tb_trace_thread *tb_trace_threads(struct tb_trace *t, size_t *n);
const struct tb_site *tb_trace_site(struct tb_trace *t, uint32_t id); /* NULL: no such id */
/** tb_trace_range - "phase\tmodule-path\tuser" of a range id; "" for 0 */
const char *tb_trace_range(struct tb_trace *t, uint32_t id);

/**
 * tb_trace_segments - all segments of a thread in order, into a malloc'ed array the caller frees
 * (56 bytes and a little each; 10^7 events are 10^4 segments)
 */
enum tb_status tb_trace_segments(struct tb_trace *t, uint32_t thread, struct tb_trace_segment **out,
                                 size_t *n, struct tb_error *err) TB_MUST_CHECK;
/**
 * tb_cursor_open - events of one thread with first <= id <= last, in order
 * tb_cursor_open_process - events of one process (all threads), in seq order; process 0: all events
 *
 * No event is given out before the whole segment it is in was read and its digest recomputed; else
 * TB_ERR_CORRUPT "trace corrupted at ...", and the cursor gives nothing more.
 */
enum tb_status tb_cursor_open(struct tb_cursor **out, struct tb_trace *t, uint32_t thread,
                              uint64_t first, uint64_t last, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_cursor_open_process(struct tb_cursor **out, struct tb_trace *t, uint32_t process,
                                      uint64_t first, uint64_t last,
                                      struct tb_error *err) TB_MUST_CHECK;
/** tb_cursor_next - *@e points into the cursor until the next call; *@e = NULL at the end */
enum tb_status tb_cursor_next(struct tb_cursor *c, const struct tb_trace_event **e,
                              struct tb_error *err) TB_MUST_CHECK;
void tb_cursor_close(struct tb_cursor *c);
/** tb_trace_coverage - calls @fn for each coverage row of @process (0: all) until it returns false
 */
enum tb_status tb_trace_coverage(struct tb_trace *t, uint32_t process,
                                 bool (*fn)(void *arg, const struct tb_trace_coverage *row),
                                 void *arg, struct tb_error *err) TB_MUST_CHECK;
/** tb_trace_lost - why and how many; false if nothing was lost */
bool tb_trace_lost(struct tb_trace *t, uint64_t *count, const char **why);
/** tb_trace_snapshot - bytes of an access, malloc'ed; TB_ERR_NOTFOUND if none was kept */
enum tb_status tb_trace_snapshot(struct tb_trace *t, uint64_t event, uint32_t access, void **data,
                                 uint64_t *n, struct tb_error *err) TB_MUST_CHECK;
/**
 * tb_trace_files - the parts of all files of @folder, by path; none if the trace has no such folder
 * @fn: gets the parts of a file one after the other, the last one ends it; what it returns, if not
 * TB_OK, ends the reading and is returned. Paths are as they stand in the file: whoever makes files
 * of them looks whether they lead elsewhere.
 */
enum tb_status tb_trace_files(struct tb_trace *t, const char *folder,
                              enum tb_status (*fn)(void *arg, const struct tb_store_file *file,
                                                   uint64_t part, const void *data, size_t n,
                                                   struct tb_error *err),
                              void *arg, struct tb_error *err) TB_MUST_CHECK;
/** tb_trace_map - coarse map of an access: 2 * *@parts numbers; TB_ERR_NOTFOUND if none */
enum tb_status tb_trace_map(struct tb_trace *t, uint64_t event, uint32_t access, uint64_t sums[32],
                            uint32_t *parts, struct tb_error *err) TB_MUST_CHECK;
/** tb_trace_stack - source lines of an event, or NULL */
const char *tb_trace_stack(struct tb_trace *t, uint64_t event);
/** tb_trace_verify - read all, check all digests; TB_ERR_CORRUPT names the first bad place */
enum tb_status tb_trace_verify(struct tb_trace *t, struct tb_error *err) TB_MUST_CHECK;

/* ---------------------------------------------------------------- what is before what */

#define TB_ORDER_STREAMS 96u /* whose order is followed; of a process with more nothing is said */

/** struct tb_clocks - of each stream, how far it is known to be done */
struct tb_clocks {
    uint64_t at[TB_ORDER_STREAMS];
};
/** struct tb_work_order - work of a GPU: that of stream s with clock c is before it if c <=
 * known->at[lane of s] */
struct tb_work_order {
    uint64_t stream, clock;        /* ordinal; its own time in that stream */
    uint32_t lane;                 /* index of the stream */
    const struct tb_clocks *known; /* valid until the next event */
    const struct tb_clocks *sure;  /* the same, but for what another thread had waited for since
                                    * this one's last event: the work may have been queued before */
};

struct tb_order;
/** tb_order_new - for the events of one process; NULL: no memory */
struct tb_order *tb_order_new(void);
void tb_order_free(struct tb_order *o);
/**
 * tb_order_event - the next event, in order of seq; true: it is work of a GPU, and *@w its place
 *
 * All before the first one counts as ordered with all behind it. What is not known for sure counts
 * as an order, too: works are unordered only if nothing that was recorded, or may have been missed,
 * stands between them.
 */
bool tb_order_event(struct tb_order *o, const struct tb_store_event *e, const struct tb_site *site,
                    const struct tb_store_access *a, struct tb_work_order *w);

#endif
