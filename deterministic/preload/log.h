/*
 * preload/log - what libtwinbit_pins.so writes down in a job, one file a process, and a reader.
 *
 * Start at tb_preload_logs_open(): it gives the processes of a folder, then the events of each.
 *
 * A log is FOLDER/<identity, 16 hexadecimal digits>.pins (identity: config.h), or with -1 to -9
 * behind the digits where two processes claimed one identity. Numbers are in the machine's byte
 * order. The process maps the file shared and only ever adds to it.
 *
 *   offset 0              struct tb_preload_file, 256 bytes
 *   offset 256 .. `end`   records at multiples of 16, each struct tb_preload_record and its
 *                         payload, padded with zeros to a multiple of 16
 *   beyond `end`          zeros: room that was taken in advance
 *
 * The file grows by pieces; piece k begins at 4096 * (2^k - 1) and is twice as long as the one
 * before. No record crosses the border of two pieces: what is left before it stays zero.
 *
 * A writer takes room by moving `end`, fills the record, and stores its first 8 bytes, `head`,
 * last: size in the low 32 bits, a check of (offset, size, kind, thread, n, site, payload) in the
 * high ones. So a record is whole exactly if its head is right, whatever killed the process and
 * whenever. A reader that finds no right head goes on 16 bytes further. A file cut anywhere is read
 * up to the cut; what is kept for a replay is the file up to `end`, under its name. Where the log
 * could not grow (limit, full disk) `dropped` counts records that are missing.
 *
 * Threads are known by 64 bits as well: the main thread is TB_PRELOAD_MAIN, the n-th thread that a
 * thread makes with pthread_create() is mix(that thread, n), which does not depend on who runs
 * first. A thread made otherwise is marked TB_PRELOAD_BY_ORDER: it is the n-th that drew.
 *
 * Decisions of the interpreter (which future was handed out next) stand in streams. A STREAM record
 * opens one; its key, made of the thread that opened it, what it is and the how-many-th of its
 * kind, is `asked` of all its records. Their `thread` is who wrote them, which may be another one.
 *
 * Values of callers that keep real entropy are never in a log.
 */
#ifndef TB_DETERMINISTIC_PRELOAD_LOG_H
#define TB_DETERMINISTIC_PRELOAD_LOG_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "common/common.h"

#define TB_PRELOAD_LOG_MAGIC 0x31474F4C50425455ull /* "UTBPLOG1" */
#define TB_PRELOAD_LOG_VERSION 1u
#define TB_PRELOAD_LOG_START 256u
#define TB_PRELOAD_LOG_ALIGN 16u
#define TB_PRELOAD_LOG_PIECE 4096u
#define TB_PRELOAD_MAIN 1u
#define TB_PRELOAD_RECORD_MAX (1u << 20) /* bytes of one record, payload included */

/** enum tb_preload_kind - what a record is; values are stored: never reuse one */
enum tb_preload_kind {
    TB_PRELOAD_START = 1,  /* the process; payload: its arguments, each ended by NUL */
    TB_PRELOAD_THREAD = 2, /* thread; asked: its maker's thread; served: it is the maker's n-th */
    TB_PRELOAD_SITE = 3,   /* a caller; site: its number, asked: offset in its module, served:
                            * calls by now (counted in place), payload: the module's name */
    TB_PRELOAD_UNREACHED =
        4,               /* a program is about to be executed in which the library will not
                          * be; asked: enum tb_preload_reach, payload: its path, ended by NUL */
    TB_PRELOAD_FILE = 5, /* holds code that runs here; asked: 1 for the program, 0 for a library, 2:
                          * that is all, the process ends; payload: its path, ended by NUL */
    TB_PRELOAD_GETRANDOM = 16,
    TB_PRELOAD_GETENTROPY = 17,
    TB_PRELOAD_SYSCALL = 18, /* syscall(SYS_getrandom) */
    TB_PRELOAD_ARC4RANDOM = 19,
    TB_PRELOAD_DEVICE = 20,        /* a read of /dev/urandom or /dev/random */
    TB_PRELOAD_RANDOM_DEVICE = 21, /* std::random_device of libstdc++, of any token */
    TB_PRELOAD_TIME = 32,          /* the first reading of the time of day by a caller */
    TB_PRELOAD_LISTING = 48, /* a folder; asked: entries; served: hash of their names in byte order;
                              * hash: of the names in the order handed out; payload: for each entry
                              * in that order its place in byte order, 32 bits each */
    TB_PRELOAD_TEMPNAME = 64, /* payload: the name that was made */
    TB_PRELOAD_SEED = 33, /* of a generator that the job seeds; asked: what the job had; served: its
                           * bits, 0: a double; payload: what it was given, 64 bits, and the line;
                           * or served: 1, asked: hash of a text or of several numbers as text,
                           * payload: struct tb_preload_seed_text and what it says */
    /* Decisions, `asked`: key of the stream, n: which one of it, `served`: microseconds since it
     * was opened, payload: the value; written by python/twinbit/_decisions.py, which knows its form
     */
    TB_PRELOAD_STREAM = 80,     /* opened; payload: what it is, shape, caller, each ended by NUL */
    TB_PRELOAD_PARTED = 81,     /* replay: not as recorded from here on; payload: what and where */
    TB_PRELOAD_COMPLETION = 88, /* what ended by itself was handed out, or a time-out was raised */
    TB_PRELOAD_ARRIVAL = 89,    /* a worker's batch came to its DataLoader */
    TB_PRELOAD_INDICES = 90,    /* a DataLoader asked its sampler for the next batch */
    TB_PRELOAD_PASS = 91,       /* a DistributedSampler was asked for all its indices */
    /* ... and by libtwinbit_cublas.so, whose form is in cublas/cublas.h */
    TB_PRELOAD_ATOMICS = 92,   /* a handle of cuBLAS was made, or may use atomics from here on */
    TB_PRELOAD_ALGORITHM = 93, /* the first algorithm that cuBLASLt named for a product */
    /* A thread of a pool took a task, payload: which thread, and as its how-manieth (from 1, 0: not
     * known), 32 bits each, `asked`: the task; a thread of one was made, payload: at which
     * submission, 32 bits; a pool of which neither is known: none */
    TB_PRELOAD_TASK = 94,
    TB_PRELOAD_DECISIONS_END = 96,
};

/** tb_preload_is_decision - is a record of this kind one of a stream? */
static inline bool tb_preload_is_decision(uint16_t kind)
{
    return kind >= TB_PRELOAD_STREAM && kind < TB_PRELOAD_DECISIONS_END;
}

/** enum tb_preload_mark - flags of a record */
enum tb_preload_mark {
    TB_PRELOAD_REAL = 1 << 0,         /* what the system gave; not from the seed */
    TB_PRELOAD_EXEMPT = 1 << 1,       /* for a caller that keeps real entropy: no value is here */
    TB_PRELOAD_FROM_LOG = 1 << 2,     /* repeated from the log of an earlier run */
    TB_PRELOAD_NOT_IN_LOG = 1 << 3,   /* replay: that log has no such call here; from the seed */
    TB_PRELOAD_OTHER_CALLER = 1 << 4, /* replay: it was another caller that got this value */
    TB_PRELOAD_CUT = 1 << 5,          /* too long: the payload is missing, the hash is there */
    TB_PRELOAD_BY_ORDER = 1 << 6,     /* told from its like by who came first only */
    TB_PRELOAD_FAILED = 1 << 7,       /* the call failed; ALGORITHM: the recorded one is refused */
    TB_PRELOAD_PUT_BACK = 1 << 8,     /* replay: by itself the job would have decided otherwise */
};

/** struct tb_preload_file - begin of a log */
struct tb_preload_file {
    uint64_t magic;
    uint32_t version, min_version; /* written by; a reader of at least */
    uint32_t size;                 /* where records begin: TB_PRELOAD_LOG_START */
    uint32_t pid;
    uint64_t id, parent; /* identity; parent: of the process that made it, 0: not known */
    uint64_t seed;
    uint64_t end;                               /* changed atomically */
    uint64_t dropped;                           /* changed atomically */
    uint32_t entropy, time, listing, tempnames; /* modes, as in the configuration */
    uint32_t marks;                             /* TB_PRELOAD_BY_ORDER: of its identity */
    uint32_t claims;                            /* processes before it with this identity */
    char program[64];                           /* base name of the executable */
    uint32_t seeds;                             /* mode, as in the configuration */
    uint8_t reserved[100];
};

static_assert(sizeof(struct tb_preload_file) == TB_PRELOAD_LOG_START, "file format");

/** struct tb_preload_record - a record; its payload follows */
struct tb_preload_record {
    uint64_t head;
    uint16_t kind, marks;
    uint32_t site; /* number of the caller's SITE record, which comes before; 0: none */
    uint64_t thread;
    uint32_t n; /* which one of its thread, of its class (entropy, listing, temporary name, seed),
                 * from 0; EXEMPT ones are counted apart */
    uint32_t payload; /* bytes */
    uint64_t asked;   /* bytes asked for */
    uint64_t served;  /* bytes given */
    uint64_t hash;    /* of what was given, tb_preload_hash(); 0 for EXEMPT */
    uint64_t caller;  /* hash of module and offset of the caller, 0: not known */
};

static_assert(sizeof(struct tb_preload_record) == 64, "file format");

/** struct tb_preload_seed_text - payload of a SEED whose `served` is 1; behind it what was given,
 * the begin of what was asked for (no NUL in either count), and the line */
struct tb_preload_seed_text {
    uint32_t given, asked; /* bytes */
};

/** tb_preload_mix64 - a bijection of 64 bits in which each output bit depends on all of the input
 */
static inline uint64_t tb_preload_mix64(uint64_t x)
{
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDull;
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53ull;
    return x ^ (x >> 33);
}

static inline uint64_t tb_preload_mix(uint64_t a, uint64_t b)
{
    return tb_preload_mix64(tb_preload_mix64(a + 0x9E3779B97F4A7C15ull) + b);
}

/** tb_preload_hash - of @n bytes, going on from @h; guards against accidents only */
uint64_t tb_preload_hash(uint64_t h, const void *bytes, size_t n);

/** tb_preload_head - what `head` of the record @r at @offset of its file must be */
static inline uint64_t tb_preload_head(const struct tb_preload_record *r, uint64_t offset,
                                       uint32_t size)
{
    uint64_t h = tb_preload_mix(offset ^ 0x70696E73u, ((uint64_t)size << 32) ^ r->kind);

    h = tb_preload_mix(h ^ r->thread, ((uint64_t)r->n << 32) ^ r->site);
    h = tb_preload_mix(h, r->payload);
    return (h & 0xFFFFFFFF00000000ull) | size;
}

static inline uint32_t tb_preload_size(size_t payload)
{
    size_t size = sizeof(struct tb_preload_record) + payload;

    return (uint32_t)((size + TB_PRELOAD_LOG_ALIGN - 1) & ~(size_t)(TB_PRELOAD_LOG_ALIGN - 1));
}

/**
 * tb_preload_next - the next whole record of a log in memory
 * @bytes, @n: the file, or what there is of it
 * @at:        offset to look from, TB_PRELOAD_LOG_START at first; moved behind the record
 *
 * Returns NULL at the end. Reads nothing outside of @n bytes, whatever they hold. Threads: any.
 */
const struct tb_preload_record *tb_preload_next(const void *bytes, uint64_t n, uint64_t *at);

/** tb_preload_file_good - are these @n bytes the begin of a log that this program reads? */
bool tb_preload_file_good(const void *bytes, uint64_t n);

/* ---------------------------------------------------------------- reading a folder */

/** struct tb_preload_event - a record with what it refers to; borrowed until the log is closed */
struct tb_preload_event {
    const struct tb_preload_record *record;
    const void *payload;
    const char *module; /* of the caller, "" if it is not known */
    uint64_t offset;    /* of the caller in its module: where the call returns to */
    uint64_t maker;     /* its thread's maker, 0: the main thread, or not known */
    uint32_t maker_n;   /* it is its maker's n-th, from 1 */
};

struct tb_preload_logs;
struct tb_preload_log;

/**
 * tb_preload_logs_open - the logs of a folder, ordered by the names of their files
 *
 * Returns: TB_OK, also for a folder without logs; TB_ERR_IO; TB_ERR_NOMEM. Free with
 * tb_preload_logs_close(). Threads: one a handle.
 */
TB_MUST_CHECK enum tb_status tb_preload_logs_open(const char *folder, struct tb_preload_logs **out,
                                                  struct tb_error *err);

size_t tb_preload_logs_count(const struct tb_preload_logs *logs);

/** tb_preload_logs_name - file name of log @i, without its folder */
const char *tb_preload_logs_name(const struct tb_preload_logs *logs, size_t i);

void tb_preload_logs_close(struct tb_preload_logs *logs);

/**
 * tb_preload_log_open - one log; it may still be written to: what was whole when it was opened
 *
 * Returns: TB_OK; TB_ERR_IO; TB_ERR_FORMAT, TB_ERR_VERSION: not a log of this kind; TB_ERR_NOMEM.
 */
TB_MUST_CHECK enum tb_status tb_preload_log_open(const char *path, struct tb_preload_log **out,
                                                 struct tb_error *err);

/** tb_preload_log_at - log @i of a folder, as tb_preload_log_open() */
TB_MUST_CHECK enum tb_status tb_preload_log_at(const struct tb_preload_logs *logs, size_t i,
                                               struct tb_preload_log **out, struct tb_error *err);

/** tb_preload_log_file - its head; borrowed until it is closed */
const struct tb_preload_file *tb_preload_log_file(const struct tb_preload_log *log);

/** tb_preload_log_next - the next event into @e; false: there is none. SITE and THREAD are events
 * too */
bool tb_preload_log_next(struct tb_preload_log *log, struct tb_preload_event *e);

void tb_preload_log_close(struct tb_preload_log *log);

/** tb_preload_kind_name - "getrandom" and so on, static; "?" for a kind that is not known */
const char *tb_preload_kind_name(uint16_t kind);

#endif
