/*
 * wire.h - the contract between the recorder in the job and the collector in `twinbit run`.
 *
 * Its parts: the handshake over a SOCK_SEQPACKET socket (struct tb_wire_msg and its replies), the
 * ring (a sealed memfd that the job maps and the collector drains), and the records in the ring.
 * Work of a GPU adds two more: slot tables, in which a device leaves fingerprints, and tables of
 * what kernels do, which the collector makes from their code.
 * All numbers are in the machine's byte order: both ends run on the same machine, from the same
 * build; `version` and `size` in every message catch an old library under a new collector.
 *
 * Socket. The path is in the environment variable TWINBIT_SOCKET. Every message is its own short
 * connection: connect, send one tb_wire_msg (with at most one descriptor, SCM_RIGHTS), receive one
 * tb_wire_reply (HELLO, TAP and IMAGE only; the others are sent and forgotten, so that no thread
 * waits for a collector that is stopped), close. No descriptor stays open in the job, so a job that
 * closes all descriptors harms nobody. A process that has none left to connect with leaves a
 * symbolic link beside the socket, TB_WIRE_NOTE and its pid, whose target is "program\twhy": that
 * needs none. A refused connection means: the collector is gone. The reply to HELLO brings a
 * descriptor, the bell (struct tb_wire_bell), which the job maps and closes.
 *
 * Ring.
 *
 *   offset 0     struct tb_wire_ring, one 4 KiB page; the producer's and the consumer's words lie
 *                on cache lines of their own
 *   offset 4096  data, tb_wire_ring.size bytes, a power of two, >= 64 KiB
 *
 * `head` counts bytes ever written, `tail` bytes ever consumed; both are multiples of 64. A record
 * lies at data[pos & (size - 1)]; it never wraps: a record that would cross the end is preceded by
 * a TB_REC_PAD record that fills the rest. The producer stores the record, then `head` (release).
 * The consumer loads `head` (acquire), reads, then stores `tail` (release). A ring has one producer
 * at a time (a thread, or several under the recorder's lock) and one consumer. What lies beyond
 * `head` is not valid: a producer killed in the middle of a record leaves nothing half-written to
 * be read. A ring outlives its thread: the next thread goes on in it after a TB_REC_THREAD record.
 *
 * Records. Every record starts with struct tb_wire_rec and is a multiple of 64 bytes long. Ids of
 * sites and ranges are local to the ring and are defined in it before their first use.
 */
#ifndef TB_RECORDER_WIRE_H
#define TB_RECORDER_WIRE_H

#include <assert.h>
#ifndef __cplusplus
#include <stdalign.h>
#endif
#include <stdint.h>

#define TB_WIRE_VERSION 4u        /* _pins.py has it, too */
#define TB_WIRE_MAGIC 0x31425754u /* "TWB1" */
#define TB_WIRE_ENV "TWINBIT_SOCKET"
#define TB_WIRE_PINS                                                                               \
    "TWINBIT_PIN_PLAN" /* path of what pins are asked for: deterministic/plan.h                    \
                        */
#define TB_WIRE_NOTE "unattached-"
#define TB_WIRE_RING_DATA (256u * 1024u)
#define TB_WIRE_RING_PAGE 4096u
#define TB_WIRE_ALIGN 64u

/* ------------------------------------------------------------------ socket */

enum tb_wire_msg_kind {
    TB_MSG_HELLO = 1, /* a process attaches; reply: config, process id */
    TB_MSG_RING = 2,  /* a new ring; descriptor: its memfd; thread in @thread, name in text */
    TB_MSG_TAP = 3, /* asks for the torch tap; text: libtorch_cpu path; reply: its path, <= 300 s */
    TB_MSG_SNAPSHOT = 4, /* descriptor: memfd with struct tb_wire_snapshot, then the bytes */
    TB_MSG_LOG = 5,      /* text: one line for the user and the trace's footer */
    TB_MSG_SLOTS = 6, /* descriptor: memfd with struct tb_wire_slots; thread: number of the table,
                       * from 1. Sent before the first event that refers to it */
    TB_MSG_IMAGE = 7, /* descriptor: memfd with code of a module, as the job gave it to the driver:
                       * a fat binary, PTX or a cubin; reply: descriptor of struct
                       * tb_wire_kernels, at most TB_WIRE_IMAGE_MS later, without kernels if there
                       * is no PTX in it; REFUSED: it cannot be read */
    TB_MSG_PIN = 8,   /* text: what became of pins, lines ID \t STATE \t STEP \t VALUE \t WHERE \n;
                       * STATE of enum tb_pin_state by its name, STEP "-" before the first, WHERE a
                       * line of the job's source or "". From any process, attached or not: nonce may
                       * be 0. Of pins of group nccl WHERE is a communicator, and each is a row */
};
#define TB_WIRE_IMAGE_MS 30000u

/** struct tb_wire_msg - what the job sends */
struct tb_wire_msg {
    uint32_t magic, version, size; /* size of this struct */
    uint32_t kind;                 /* enum tb_wire_msg_kind */
    uint64_t nonce; /* drawn at attach, names this process image; a fork or exec draws a new one */
    uint64_t parent_nonce; /* forked child: the nonce of the process it was forked from, else 0 */
    int32_t pid;           /* for messages only; the collector trusts SO_PEERCRED */
    uint32_t fork_ordinal; /* forked child: it is the parent's n-th fork, from 1; else 0 */
    uint32_t thread;       /* RING: ordinal of the thread in its process, 0 = main */
    uint32_t flags;        /* enum tb_wire_msg_flags */
    char text[3968];       /* NUL-terminated */
};
static_assert(sizeof(struct tb_wire_msg) == 4016, "wire: tb_wire_msg");

enum tb_wire_msg_flags {
    TB_MSGF_STOPPED = 1u << 0, /* LOG: recording stopped before there was a ring; text: why */
};

enum tb_wire_level {
    TB_LEVEL_OFF = 0,
    TB_LEVEL_BOUNDARY = 1,
    TB_LEVEL_OP = 2,     /* operators; work of a GPU outside of any operator */
    TB_LEVEL_KERNEL = 3, /* operators, and all work of a GPU */
};

/* How work of a GPU is seen. */
enum tb_wire_cuda_tap { TB_CUDA_TAP_NONE = 0, TB_CUDA_TAP_SHIM = 1, TB_CUDA_TAP_CUPTI = 2 };

enum tb_wire_config_flags {
    TB_CFG_INPUTS = 1u << 0,    /* hash what is read, check continuity */
    TB_CFG_DROP = 1u << 1,      /* ring full: drop at once instead of waiting (the user's choice) */
    TB_CFG_MAP = 1u << 2,       /* keep coarse maps */
    TB_CFG_STACK = 1u << 3,     /* Python source lines */
    TB_CFG_SUMMARY = 1u << 4,   /* numeric summaries */
    TB_CFG_NO_PYTHON = 1u << 5, /* do not load the Python glue */
    TB_CFG_DEFER = 1u << 6,     /* no CUDA call from inside a callback of CUPTI: wait for a place
                                 * where one is allowed */
    TB_CFG_LEARN = 1u << 7,     /* a test: learn what kernels write although their PTX tells it, and
                                 * say what it does not tell */
};

/** struct tb_wire_config - what `twinbit run` was told; part of the HELLO reply */
struct tb_wire_config {
    uint32_t level;          /* enum tb_wire_level */
    uint32_t flags;          /* enum tb_wire_config_flags */
    uint64_t step_from;      /* steps outside [from, to] are recorded at boundary level */
    uint64_t step_to;        /* inclusive; UINT64_MAX: no end */
    uint64_t ring_bytes;     /* data bytes of a ring */
    uint64_t ring_total;     /* bytes of all rings of a process, at most */
    uint32_t wait_ms;        /* ring full: wait at most so long in all without progress */
    uint32_t snapshot_count; /* entries of tb_wire_reply.text after the paths */
    uint32_t cuda_tap;       /* enum tb_wire_cuda_tap */
    uint32_t sample;         /* of 65536 launches of a kernel so many are hashed; 0: all */
    uint64_t seed;           /* of the choice */
    uint64_t launch_bytes;   /* hashed for one launch, at most; beyond it leaves are sampled */
    uint64_t stress;         /* disturb the order of streams, by this seed; 0: leave it */
    uint32_t poison;         /* fresh memory is filled with a byte, see TB_POISON; 0: it is not */
    uint32_t reserved;
    char kernels[512];    /* one pattern a line (* and ?), "!" before those to leave out; "": all */
    char glue[1024];      /* folder that holds the Python package `twinbit`, or "" */
    char snapshots[2048]; /* event names to snapshot, one a line: step/module-path/operator#k */
};
static_assert(sizeof(struct tb_wire_config) == 3672, "wire: tb_wire_config");

/* run --poison: fresh memory holds @byte; runs that are compared hold @first or @second. A hash of
 * what a kernel may write takes these two for one (fp_device.h) */
#define TB_POISON(byte, first, second)                                                             \
    (1u << 24 | (uint32_t)(second) << 16 | (uint32_t)(first) << 8 | (uint32_t)(byte))
#define TB_POISON_BYTE(poison) ((poison)&0xffu)
#define TB_POISON_FIRST(poison) ((poison) >> 8 & 0xffu)
#define TB_POISON_SECOND(poison) ((poison) >> 16 & 0xffu)

enum tb_wire_reply_status {
    TB_REPLY_OK = 0,
    TB_REPLY_REFUSED = 1, /* recording is off for this process; text says why */
};

/** struct tb_wire_reply - what the collector answers */
struct tb_wire_reply {
    uint32_t magic, version, size;
    uint32_t status;              /* enum tb_wire_reply_status */
    struct tb_wire_config config; /* HELLO only, else zeros */
    char text[1024];              /* TAP: path of the tap; REFUSED: the reason */
};
static_assert(sizeof(struct tb_wire_reply) == 4712, "wire: tb_wire_reply");

/**
 * struct tb_wire_bell - one page for all processes of a run: wakes a collector that sleeps
 * The collector sets `sleeping`, looks at the rings once more, and waits on `word` (futex, a time
 * limit). A producer looks at `sleeping` each time it has written TB_WIRE_BELL_BYTES, or when its
 * ring is full; if set, it bumps `word` and wakes. So a busy producer makes a system call only for
 * a collector that sleeps.
 * `paused` is set while the user wants nothing recorded (a signal to twinbit); taps look at it.
 */
struct tb_wire_bell {
    alignas(64) uint32_t word;
    alignas(64) uint32_t sleeping;
    uint32_t paused;
};
static_assert(sizeof(struct tb_wire_bell) == 128, "wire: tb_wire_bell");
#define TB_WIRE_BELL_BYTES (32u * 1024u)

/* ------------------------------------------------------------------ ring */

enum tb_wire_ring_flags {
    TB_RING_CLOSED = 1u << 0,  /* the thread ended or the process left in order; drain and forget */
    TB_RING_STOPPED = 1u << 1, /* the process stopped for good: `stop_why`, records lost */
};

/** struct tb_wire_ring - first page of a ring */
struct tb_wire_ring {
    uint32_t magic, version;
    uint64_t size;   /* data bytes */
    uint64_t nonce;  /* of the process */
    uint32_t thread; /* as in TB_MSG_RING */
    uint32_t reserved0;
    uint8_t pad0[32];
    /* written by the producer only */
    alignas(64) uint64_t head;
    uint64_t lost;     /* records not written: dropped, or after a stop */
    uint32_t flags;    /* enum tb_wire_ring_flags */
    uint32_t waiting;  /* futex word: 1 while the producer sleeps for room */
    uint64_t last_seq; /* seq of the last event written */
    char stop_why[32];
    /* written by the consumer only */
    alignas(64) uint64_t tail;
    uint32_t progress; /* futex word: bumped with every store of tail */
    uint32_t reserved1;
    uint8_t pad1[48];
};
static_assert(sizeof(struct tb_wire_ring) == 192, "wire: tb_wire_ring");

/* ------------------------------------------------------------------ records */

enum tb_wire_rec_kind {
    TB_REC_PAD = 1,   /* skip `bytes` */
    TB_REC_EVENT = 2, /* struct tb_wire_event, then its accesses */
    TB_REC_SITE = 3,  /* struct tb_wire_def, then the site text (below) */
    TB_REC_RANGE = 4, /* struct tb_wire_def, then "phase\tmodule-path\tuser ranges" */
    TB_REC_COVER = 5, /* struct tb_wire_cover, then "kind\tsubject\tdetail" */
    TB_REC_META = 6,  /* struct tb_wire_def, then "key\tvalue" */
    TB_REC_MAP = 7,   /* struct tb_wire_map: coarse map of one write of the event that follows */
    TB_REC_SKIP = 8,  /* struct tb_wire_def, id unused: sequence number `value` carries no event */
    TB_REC_STACK = 9, /* struct tb_wire_def, then "file:line function" lines of the event `value` */
    TB_REC_THREAD = 10, /* struct tb_wire_def, id: what follows in this ring is of thread `id` */
    TB_REC_MORE = 11, /* struct tb_wire_def, `len` bytes: accesses from index `id` on, of the event
                       * that follows; its record holds only the rest. Index 0 begins anew */
};

struct tb_wire_rec {
    uint16_t kind; /* enum tb_wire_rec_kind */
    uint16_t reserved;
    uint32_t bytes; /* of the whole record, a multiple of 64 */
};

/**
 * struct tb_wire_def - SITE, RANGE, META, SKIP, STACK: header, followed by `len` bytes of text
 * A text longer than TB_WIRE_CHUNK is cut: `more` bytes of it follow in records of the same kind
 * and id.
 */
struct tb_wire_def {
    struct tb_wire_rec rec;
    uint32_t id;    /* local to the ring, from 1 */
    uint32_t len;   /* bytes of text, no NUL */
    uint64_t value; /* SKIP, STACK: seq */
    uint64_t more;  /* bytes of this text still to come after this record */
};
#define TB_WIRE_CHUNK (16u * 1024u)
static_assert(sizeof(struct tb_wire_def) == 32, "wire: tb_wire_def");

enum tb_wire_event_kind {
    TB_EV_OP = 1,     /* an operator call */
    TB_EV_STEP = 2,   /* end of step `step` */
    TB_EV_STATE = 3,  /* fingerprints of named state (parameters, ...) at the end of a step */
    TB_EV_COLL = 4,   /* a collective */
    TB_EV_HOST = 5,   /* host mark: a file written, data read by the job, user's own */
    TB_EV_LAUNCH = 6, /* a kernel */
    TB_EV_COPY = 7,   /* a copy of device memory */
    TB_EV_SET = 8,    /* device memory set to a value */
    TB_EV_GRAPH = 9,  /* a launch of a CUDA graph as a whole */
    TB_EV_SYNC = 10,  /* an edge: event recorded or waited for, stream or device synchronised */
};

enum tb_wire_event_flags {
    TB_EVF_READS_HASHED =
        1u << 0, /* all reads carry fingerprints (--inputs); some may without it */
    TB_EVF_BACKWARD = 1u << 1,
    TB_EVF_PARTIAL = 1u << 2, /* something of it could not be seen: a COVER record says what */
    TB_EVF_FAILED = 1u << 3,  /* the operator threw; outputs were not hashed */
};

/**
 * struct tb_wire_event - one event; followed by `accesses` struct tb_wire_access
 *
 * `seq` is drawn from one counter of the process when the event ends, 0, 1, 2, ... without gaps
 * over all rings of the process (a drawn number that carries no event is a SKIP record): the
 * collector merges the rings by it. `open` is the counter's value when the event began: events of
 * the same thread with open <= seq' < seq ran inside this one. Writes take effect at `seq`, reads
 * were made at `open`.
 */
struct tb_wire_event {
    struct tb_wire_rec rec;
    uint8_t kind; /* enum tb_wire_event_kind */
    uint8_t reserved0;
    uint16_t flags;    /* enum tb_wire_event_flags */
    uint32_t accesses; /* how many follow; equals the site's number of access lines */
    uint64_t seq, open;
    uint32_t site;    /* local id */
    uint32_t range;   /* local id, 0: none */
    uint64_t step;    /* steps ended before, in this process, or what twinbit.step(n) said */
    uint64_t args;    /* hash of all arguments that are not tensors; 0: none */
    uint64_t time_ns; /* CLOCK_MONOTONIC at its begin */
};
static_assert(sizeof(struct tb_wire_event) == 64, "wire: tb_wire_event");

/**
 * struct tb_wire_access - one access, in the order of the site's access lines
 * `alloc` names the allocation (storage) by its ordinal in the process, from 1; 0 is not known. The
 * pseudo-buffers of RNG states have alloc = TB_ALLOC_RNG + index. `fp` is zero where kind is NONE.
 */
struct tb_wire_access {
    uint64_t alloc;  /* low 48 bits: ordinal; bits 48..55: enum tb_fp_kind of fp; above: flags */
    uint64_t offset; /* bytes from the start of the allocation to element (0, 0, ...) */
    uint64_t fp_a, fp_b;
};
static_assert(sizeof(struct tb_wire_access) == 32, "wire: tb_wire_access");
/* The fingerprint is not known yet: fp_a is a ticket of slot table fp_b. */
#define TB_ACCESS_PENDING (1ull << 56)
/*
 * PENDING, and hashed before the work, too: the low 32 bits of fp_b are the table, and the ticket
 * of the hash before it is fp_a - (fp_b >> 32). If both are equal the access gets kind UNCHANGED.
 */
#define TB_ACCESS_CHANGE (1ull << 57)
/* CHANGE, of bytes that were believed not to be written: if they changed, that is a surprise. */
#define TB_ACCESS_DOUBT (1ull << 58)
/* run --poison: of bytes of which the two of the option count as one, see TB_POISON. It may differ
 * from the fingerprint of the same bytes as they are. */
#define TB_ACCESS_ALIKE (1ull << 59)
#define TB_ALLOC_RNG (1ull << 40)
#define TB_ALLOC_STREAM (2ull << 40) /* mode q: + the stream's ordinal in its process */
#define TB_ALLOC_EVENT (3ull << 40)  /* mode q: + the CUDA event's */
#define TB_ALLOC_DEVICE (4ull << 40) /* mode q: + a device's number: the host waited for it */
#define TB_ALLOC_MASK ((1ull << 48) - 1)
/*
 * An extent that is all that a kernel's pointer may be for can begin before that pointer. Then the
 * upper bits of `offset` tell where the pointer leads, by tb_wire_place(); 0: to where the extent
 * begins. NOWHERE: no single pointer leads there.
 */
#define TB_PLACE_SHIFT 43u
#define TB_PLACE_NOWHERE 0xfffffu
static inline uint32_t tb_wire_place(uint64_t offset)
{
    return 1 + (uint32_t)((offset * 0x9e3779b97f4a7c15ull >> 32) % (TB_PLACE_NOWHERE - 1));
}
/* Detail of a coverage row: two streams used the memory, and nothing orders them */
#define TB_COVER_TORN "memory was used by streams at once: fingerprints of it may be torn"
/* The same of what a copy brings to the host: nobody sees it again */
#define TB_COVER_LEFT                                                                              \
    "another stream or node of a graph may write what it brings to the host: the fingerprint may " \
    "be torn"
/*
 * Mode q: what `offset` says. Its count, bits 8 to 31, goes up by one for each order that no event
 * tells of: a query that found work done. Bits 32 and up name the last: twice the ordinal of the
 * stream, plus one if it is a CUDA event's. By two or more: several, or what is not known; then the
 * host may have waited for all before. Digests leave offsets out, so programs may poll.
 *
 * Of a stream bits 4 to 7 are the number of its device plus one. 0: not known, or larger than 14:
 * such a stream counts as one of any device. Each device has a legacy stream of its own; the first
 * one that was used has ordinal 0, the others have TB_ORDER_LEGACY.
 */
#define TB_ORDER_FREE (1ull << 0)   /* the stream is not ordered with the legacy one */
#define TB_ORDER_WAITED (1ull << 1) /* the host went on when the work was done */
#define TB_ORDER_HOST (1ull << 2)   /* host functions were queued before: they may order anything */
#define TB_ORDER_LEGACY (1ull << 3) /* the stream is its device's legacy one */
#define TB_ORDER_DEVICE 4
#define TB_ORDER_DEVICE_MASK 15u
#define TB_ORDER_COUNT 8
#define TB_ORDER_COUNT_MASK 0xffffffu
#define TB_ORDER_LAST 32

/** struct tb_wire_map - bodies over `parts` equal runs of leaves of access `access` of `seq` */
struct tb_wire_map {
    struct tb_wire_rec rec;
    uint64_t seq;
    uint32_t access, parts; /* parts <= 16; 2 * parts uint64_t follow */
    uint64_t bytes;         /* of the buffer */
};

/** struct tb_wire_cover - what a tap could not see; then `len` bytes "kind\tsubject\tdetail" */
struct tb_wire_cover {
    struct tb_wire_rec rec;
    uint32_t len;
    uint32_t severity; /* 0: information; 1: not covered; 2: an unseen writer or a broken record */
    uint64_t seq;      /* event it belongs to (may not have been written yet); UINT64_MAX: none */
    uint64_t count;
};
static_assert(sizeof(struct tb_wire_cover) == 32, "wire: tb_wire_cover");

/** struct tb_wire_snapshot - head of a snapshot memfd; the bytes follow at 4096, row-major */
struct tb_wire_snapshot {
    uint32_t magic, version;
    uint64_t nonce, seq; /* event */
    uint32_t access;     /* index of the access */
    uint32_t table; /* the bytes are there once @ticket of this slot table is stamped; 0: now */
    uint64_t bytes, ticket;
};

/* ------------------------------------------------------------------ slots */

/*
 * struct tb_wire_slots - head of a slot table, one 4 KiB page; `count` struct tb_wire_slot follow
 *
 * A memfd that job, device and collector share: the device writes each fingerprint where the
 * collector finds it. So nobody in the job waits for it, and what was computed survives the job.
 * Tickets are drawn by the job, 0, 1, 2, ... for each table; a ticket's slot is ticket & (count -
 * 1). The device stores a and b, then (after a fence for the whole system) stamp = ticket + 1. The
 * collector reads them and stores taken = ticket + 1; only then is the slot used again. A ticket
 * that was drawn belongs to exactly one access of one event; a job that ends with some of them
 * never stamped loses just these.
 */
struct tb_wire_slots {
    uint32_t magic, version;
    uint64_t nonce; /* of the process */
    uint32_t table; /* as in TB_MSG_SLOTS */
    uint32_t count; /* a power of two */
    int32_t device; /* ordinal in the process, for messages */
    uint32_t flags; /* zero */
};

struct tb_wire_slot {
    uint64_t a, b;  /* written by the device; b, then a, then stamp */
    uint64_t stamp; /* ticket + 1 */
    uint64_t taken; /* written by the collector */
};
static_assert(sizeof(struct tb_wire_slot) == 32, "wire: tb_wire_slot");

/* ------------------------------------------------------------------ kernels */

/*
 * struct tb_wire_kernels - what the kernels of an image do with their parameters, from its PTX
 *
 * Followed by `kernels` struct tb_wire_kernel, `words` struct tb_wire_word, `globals` struct
 * tb_wire_global and `text_bytes` of NUL-terminated names. "May": a superset on all ways through
 * the code. Machine code without PTX has no kernels here.
 */
struct tb_wire_kernels {
    uint32_t magic, version;
    uint32_t kernels, words, globals, text_bytes;
    uint32_t variables; /* of the module, machine code included; 0: it has none */
    uint32_t reserved;
};
static_assert(sizeof(struct tb_wire_kernels) == 32, "wire: tb_wire_kernels");

enum tb_wire_kernel_flags {
    TB_KERNEL_INDIRECT_WRITE = 1u << 0, /* writes through a pointer that it loaded from memory */
    TB_KERNEL_INDIRECT_READ = 1u << 1,
    TB_KERNEL_UNTRACED_WRITE = 1u << 2, /* writes where the analysis could not follow */
    TB_KERNEL_UNTRACED_READ = 1u << 3,
    TB_KERNEL_FLOAT_ATOMIC = 1u << 4, /* adds floats by atomics: the order shows in the result */
    TB_KERNEL_CLOCK = 1u << 5,        /* reads a clock or timer */
    TB_KERNEL_HEAP = 1u << 6,         /* malloc or printf on the device */
};

struct tb_wire_kernel {
    uint64_t name;                  /* XXH3-64 (low half of the 128) of the mangled name */
    uint32_t text;                  /* offset of it in the text */
    uint32_t flags;                 /* enum tb_wire_kernel_flags */
    uint32_t param_bytes;           /* of all parameters as they lie, padding included */
    uint32_t first_word, words;     /* in order of their offset */
    uint32_t first_global, globals; /* module variables that it may read or write */
    uint32_t reserved;
};
static_assert(sizeof(struct tb_wire_kernel) == 40, "wire: tb_wire_kernel");

enum tb_wire_word_flags {
    TB_WORD_READ = 1u << 0,   /* memory is read at an address computed from it */
    TB_WORD_WRITE = 1u << 1,  /* written */
    TB_WORD_ATOMIC = 1u << 2, /* written by atomics or reductions (WRITE is set, too) */
    TB_WORD_VALUE = 1u << 3,  /* it is used as a number, too: a size, an index, a scalar */
};

/** struct tb_wire_word - bytes of the parameters that the kernel loads in one piece */
struct tb_wire_word {
    uint16_t offset; /* in the parameter block */
    uint8_t bytes;   /* 1, 2, 4, 8 */
    uint8_t flags;   /* enum tb_wire_word_flags */
    uint8_t write;   /* enum tb_dtype of what is stored there, TB_DT_UNKNOWN: several or unclear */
    uint8_t read;
    uint16_t reserved;
};
static_assert(sizeof(struct tb_wire_word) == 8, "wire: tb_wire_word");

enum tb_wire_global_flags {
    TB_GLOBAL_READ = 1u << 0, /* it is read, or its address goes where others may read through it */
    TB_GLOBAL_WRITE = 1u << 1,
    TB_GLOBAL_MANAGED = 1u << 2, /* the host may write it, too */
    TB_GLOBAL_FIXED = 1u << 3,   /* a compiler's own data: nobody can write it but this module */
};

/** struct tb_wire_global - a module variable that a kernel uses */
struct tb_wire_global {
    uint32_t text;  /* offset of its name in the text */
    uint32_t flags; /* enum tb_wire_global_flags */
};

/* What follows struct tb_wire_kernels, part by part */
static inline const struct tb_wire_kernel *tb_wire_kernel_list(const struct tb_wire_kernels *h)
{
    return (const struct tb_wire_kernel *)(const void *)(h + 1);
}

static inline const struct tb_wire_word *tb_wire_word_list(const struct tb_wire_kernels *h)
{
    return (const struct tb_wire_word *)(const void *)(tb_wire_kernel_list(h) + h->kernels);
}

static inline const struct tb_wire_global *tb_wire_global_list(const struct tb_wire_kernels *h)
{
    return (const struct tb_wire_global *)(const void *)(tb_wire_word_list(h) + h->words);
}

static inline const char *tb_wire_text(const struct tb_wire_kernels *h)
{
    return (const char *)(tb_wire_global_list(h) + h->globals);
}

/*
 * Site text: what identifies the same work in another run. Lines end in '\n':
 *   line 1: tap, e.g. "torch"
 *   line 2: name, e.g. "aten::addmm" or "aten::add.Tensor"; then, if there is more to it, a tab and
 *           "key=value" pairs with tabs between them: of a kernel grid, block, shared, symbol (the
 *           mangled name) and image (hash of the module)
 *   then one line an access: MODE ' ' DTYPE ' ' DEVICE ' ' SHAPE ' ' STRIDES ' ' ARGUMENT
 *
 *   MODE      r read, w write (in place: two lines, r then w), g an RNG state before the call
 *             (shape "[]"), h a value that left for the host (fp_kind SCALAR), s state at a step's
 *             end, x a tensor that could not be looked into (a COVER record says why), q an order:
 *             the stream it was queued in, the CUDA event it records or waits for, the device that
 *             the host waited for (shape "[]", no fingerprint; the offset is not one: TB_ORDER_FREE
 *             and so on)
 *   DTYPE     tb_dtype_name()
 *   DEVICE    cpu, cuda:0, ...; shared:0 is device memory that changes in ways no call tells:
 *             managed, or mapped twice
 *   SHAPE     "[128,384]"
 *   STRIDES   "-" if contiguous, else "[384,1]" in elements
 *   ARGUMENT  the schema's name, "name.3" in a list, "out", "out.1", or a state's name (to the end
 *             of the line, may hold spaces)
 *
 * A site's hash is XXH3-128 of its text.
 */

#endif
