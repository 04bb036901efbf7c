/*
 * Private to recorder/: the state of the injected library and what its files ask of each other.
 *
 * hook.c notices libtorch, attach.c talks to the collector and loads the tap, thread.c gives a
 * thread its recorder, ring.c writes records and waits for room, record.c is the tap's interface,
 * conn.c the socket, sys.c memory, locks and descriptors, glue.c starts the Python side, shared.c
 * is what taps and twinbit.h share. Nothing happens before hook.c has seen libtorch or another
 * library has called twinbit_runtime().
 */
#ifndef TB_RECORDER_INTERNAL_H
#define TB_RECORDER_INTERNAL_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "recorder/recorder.h"
#include "recorder/wire.h"

#define tb_likely(x) __builtin_expect(!!(x), 1)
#define tb_unlikely(x) __builtin_expect(!!(x), 0)

/* ---------------------------------------------------------------- state */

/* Values of tb_rt_page.state. 0 because the kernel zeroes the page in a forked child. */
enum tb_rt_state {
    TB_RT_FORKED = 0, /* a forked child that has not attached yet */
    TB_RT_ATTACHING = 1,
    TB_RT_ON = 2,
    TB_RT_OFF = 3, /* for good */
};

/*
 * struct tb_rt_page - what must not survive a fork: a page with MADV_WIPEONFORK, so a child finds
 * its locks open, its counter at 0 and its state FORKED even if it was made by a bare clone().
 */
struct tb_rt_page {
    uint32_t state;       /* enum tb_rt_state; futex word */
    uint32_t setup_lock;  /* rings, threads */
    uint32_t shared_lock; /* the shared ring */
    uint32_t logs;        /* lines sent */
    uint32_t paused;      /* by twinbit.h */
    uint64_t step;        /* as the tap that knows said, or counted by twinbit.h */
    uint64_t stall_since; /* CLOCK_MONOTONIC ns since which no ring was drained though one waits; 0:
                             none */
    alignas(64) uint64_t seq;
};

/* Open addressing, key 0 is kept as 1. Used by the ring's owner only. */
struct tb_rt_table {
    struct tb_rt_slot {
        uint64_t key;
        uint64_t id; /* 0: empty */
    } * slot;
    uint32_t capacity, count;
};

struct tb_rt_ring {
    struct tb_wire_ring *page;
    uint8_t *data;
    uint64_t size, head, tail; /* head: ours; tail: as last seen */
    struct tb_rt_table sites, ranges;
    uint32_t number; /* in the process, from 1 */
    uint32_t thread; /* ordinal whose records are written now */
    bool shared;     /* several threads, under page->shared_lock */
    struct tb_rt_ring *next, *next_free;
};

#define TB_RT_RANGES 16
#define TB_RT_RANGE_TEXT 64
#define TB_RT_RANGE_PATH 192 /* of ranges in an event's name, about */

struct tb_rec_thread {
    struct tb_rt_ring *ring;
    uint32_t generation, ordinal;
    uint64_t reserved_seq; /* drawn by map() for the event that follows */
    bool has_seq;
    uint32_t range; /* what range_is() said, 0: nothing */
    const char *range_name;
    uint32_t range_known; /* local id of the ranges below, 0: not asked for since they changed */
    uint32_t range_depth; /* of user_range(); deeper ones than TB_RT_RANGES are only counted */
    char range_text[TB_RT_RANGES][TB_RT_RANGE_TEXT];
    char range_shown[TB_RT_RANGE_PATH + 2 * TB_RT_RANGE_TEXT]; /* range_name_now() */
    struct tb_rt_table counts;                                 /* of count() */
    struct tb_rec_thread *next_free;
};

/*
 * The library's only state. `page`, `config`, `socket`, `bell`, `key` and `api` are written once,
 * by the thread that attaches, before page->state is ON; the lists under page->setup_lock; `nonce`,
 * `parent_nonce` and `generation` by the one thread that attaches a forked child.
 */
struct tb_rt {
    struct tb_rt_page *page;
    struct tb_wire_config config;
    struct sockaddr_un socket;
    struct tb_wire_bell *bell;
    uint64_t nonce, parent_nonce;
    uint32_t generation, forks;
    uint32_t next_thread;
    uint32_t ring_numbers;
    uint64_t ring_bytes; /* of all rings so far */
    struct tb_rt_ring *rings, *free_rings, *shared_ring;
    struct tb_rec_thread *free_threads;
    uint8_t *slab; /* small structs are cut from it */
    size_t slab_left;
    unsigned key;                   /* pthread_key_t */
    const struct tb_rec_cuda *cuda; /* written once, by who brings it */
    uint64_t allocs; /* numbers drawn; atomic. What a fork's child inherits keeps its number */
    struct tb_rec_api api;
};
extern struct tb_rt tb_rt;

/* Written by its own thread only. */
struct tb_rt_tls {
    struct tb_rec_thread *thread;
    uint32_t busy;  /* inside this library: a signal handler that comes back sees nothing */
    uint32_t guard; /* taken by enter() */
    uint32_t fork_ordinal;
};
extern _Thread_local struct tb_rt_tls tb_tls __attribute__((tls_model("initial-exec")));

static inline uint32_t tb_rt_state(void)
{
    return __atomic_load_n(&tb_rt.page->state, __ATOMIC_ACQUIRE);
}

static inline bool tb_rt_current(const struct tb_rec_thread *t)
{
    return tb_likely(tb_rt_state() == TB_RT_ON && t->generation == tb_rt.generation);
}

/* ---------------------------------------------------------------- sys.c */

/** tb_rt_pool - zeroed pages for the life of the process, or NULL; tb_rt_unmap gives back */
void *tb_rt_pool(size_t bytes);
void tb_rt_unmap(void *p, size_t bytes);
/** tb_rt_small - a small zeroed struct for the life of the process; caller holds setup_lock */
void *tb_rt_small(size_t bytes);
void tb_rt_lock(uint32_t *word);
void tb_rt_unlock(uint32_t *word);
/** tb_rt_futex_wait - until *@word changes from @value or @ms have passed; @shared: between
 * processes */
void tb_rt_futex_wait(uint32_t *word, uint32_t value, unsigned ms, bool shared);
void tb_rt_futex_wake(uint32_t *word, bool shared);
uint64_t tb_rt_now(void); /* CLOCK_MONOTONIC, ns */
uint64_t tb_rt_random(void);
/**
 * tb_rt_memfd - a descriptor of @bytes allocated bytes: a memfd, else an unlinked file under
 * TMPDIR; -1 Never beyond RLIMIT_FSIZE, which would bring SIGXFSZ upon the job.
 */
int tb_rt_memfd(const char *name, uint64_t bytes, const char **why);
/** tb_rt_copy - bounded copy with a NUL at the end; returns the length */
size_t tb_rt_copy(char *dst, size_t size, const char *src);

/* ---------------------------------------------------------------- conn.c */

enum tb_rt_conn { TB_CONN_OK, TB_CONN_GONE, TB_CONN_TIMEOUT, TB_CONN_FAIL };

/**
 * tb_rt_call - one message to the collector, with @fd if it is >= 0
 * @reply: waited for, at most @ms; NULL: sent and forgotten. @reply_fd: a descriptor that came
 * along, or -1.
 */
enum tb_rt_conn tb_rt_call(struct tb_wire_msg *msg, int fd, struct tb_wire_reply *reply,
                           int *reply_fd, unsigned ms);
/** tb_rt_message - a zeroed message with its head filled in (from the pool, give back with _done),
 * or NULL */
struct tb_wire_msg *tb_rt_message(unsigned kind);
void tb_rt_message_done(struct tb_wire_msg *msg);
/** tb_rt_alive - false if the collector is gone for sure */
bool tb_rt_alive(void);
void tb_rt_log(const char *text);
/** tb_rt_note - tell the collector without a descriptor: a link beside its socket, with a text for
 * target. For what cannot be said in another way */
void tb_rt_note(const char *why);

/* ---------------------------------------------------------------- attach.c, glue.c, hook.c */

/** tb_rt_open - attach unless that was done or tried before; true: there is a recorder. Any thread
 */
bool tb_rt_open(void);
/** tb_rt_attach - libtorch is in the process: attach, load the tap for it */
void tb_rt_attach(const char *libtorch);
/** tb_rt_attach_child - a forked child's own attach; one thread at a time, others wait for it */
void tb_rt_attach_child(void);
/** tb_rt_stop - recording is over in this process; the reason reaches the collector if that is
 * possible */
void tb_rt_stop(const char *why);
/** tb_rt_glue - load the Python side if there is an interpreter and this thread holds the GIL */
void tb_rt_glue(const char *tap);
/** tb_rt_real_dlsym - the next dlsym after ours */
void *tb_rt_real_dlsym(void *handle, const char *name);
/** tb_rt_symbol_by_hand - from the first other object that has it and a DT_HASH; NULL (symbols.c)
 */
void *tb_rt_symbol_by_hand(const char *name);

/* ---------------------------------------------------------------- pins.c */

/** tb_rt_pins - tell the collector what became of pins that libc alone can read back */
void tb_rt_pins(void);

/* ---------------------------------------------------------------- thread.c */

struct tb_rec_thread *tb_rt_self(void);
void tb_rt_thread_end(void *thread);

/* ---------------------------------------------------------------- ring.c */

/** tb_rt_ring_new - map a ring and tell the collector; NULL: recording is off. Caller holds
 * setup_lock */
struct tb_rt_ring *tb_rt_ring_new(uint32_t thread);
/** tb_rt_reserve - @bytes (a multiple of 64) of contiguous room at the head, or NULL: lost
 * (counted) */
uint8_t *tb_rt_reserve(struct tb_rt_ring *r, uint64_t bytes);
/** tb_rt_publish - what was reserved is written */
void tb_rt_publish(struct tb_rt_ring *r, uint64_t bytes);
void tb_rt_ring_bell(void);

/* ---------------------------------------------------------------- table.c */

uint32_t tb_rt_table_find(const struct tb_rt_table *t, uint64_t key);
/** tb_rt_table_add - false: no memory. The key must not be there */
bool tb_rt_table_add(struct tb_rt_table *t, uint64_t key, uint32_t id);
/** tb_rt_table_next - in a table of counts: how often @key was asked for before; 0: or no memory */
uint32_t tb_rt_table_next(struct tb_rt_table *t, uint64_t key);
/** tb_rt_table_clear - nothing is in it, and its room stays */
void tb_rt_table_clear(struct tb_rt_table *t);

/* ---------------------------------------------------------------- record.c, shared.c */

void tb_rt_api_init(struct tb_rec_api *api);
/** tb_rt_shared_init - the part of it by which taps tell each other something (shared.c) */
void tb_rt_shared_init(struct tb_rec_api *api);
/** tb_rt_image_init - asking what the kernels of a module do (image.c) */
void tb_rt_image_init(struct tb_rec_api *api);

#endif
