/*
 * Private to collector/: two threads and what passes between them.
 *
 * run.c is the front: job, signals, socket (server.c), who the processes are (process.c, procfs.c),
 * who is not covered (watch.c). drain.c is the other thread: it owns the rings and the store;
 * ring.c reads one ring, merge.c puts the rings of a process in the order of their sequence
 * numbers and holds events back until their fingerprints are there (slots.c), emit.c writes what
 * they hold into the store, pending.c what belongs to an event that has not come yet. The front
 * posts commands; the drain posts nothing back but counters.
 */
#ifndef TB_COLLECTOR_INTERNAL_H
#define TB_COLLECTOR_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "collector/collector.h"
#include "common/common.h"
#include "deterministic/plan.h"
#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"
#include "store/store.h"

#define TB_COL_TEXT 4096
#define TB_COL_LOG_LINES 64

/* ---------------------------------------------------------------- processes (front) */

/*
 * struct tb_col_process - one image of a process that attached; made by the front at HELLO and
 * freed at the end. What the drain may read (`index`, `argv`, ...) does not change after it was
 * posted; `row`, `rank_said` and `worker_said` are the drain's until it has ended.
 */
struct tb_col_process {
    struct tb_col_process *next;
    uint64_t nonce, parent_nonce;
    uint32_t fork_ordinal, index; /* index: order of attach, from 1 */
    pid_t pid;
    uint64_t start; /* clock ticks since boot, of the process */
    int32_t rank, restart;
    struct tb_col_process *parent; /* nearest attached ancestor, NULL: none */
    char argv[TB_COL_TEXT], name[64];
    uint8_t auxv[512]; /* equal in a forked child, another after exec */
    size_t auxv_len;
    int pidfd;
    bool gone, drained, exec_image; /* front */
    /* the drain's */
    uint32_t row;
    int32_t rank_said, worker_said; /* by the job itself (META), -1 if not */
    /* by the front at close */
    uint32_t ordinal;
    int32_t worker;
    char identity[512];
};

/* ---------------------------------------------------------------- procfs.c */

/** tb_proc_environ - value of @name in the environment the process was started with; NULL: not set
 */
const char *tb_proc_environ(const char *environ_text, size_t n, const char *name);
enum {
    TB_MAPS_TORCH = 1 << 0,
    TB_MAPS_CUDA = 1 << 1, /* the driver itself */
    TB_MAPS_TWINBIT = 1 << 2,
    TB_MAPS_SHIM = 1 << 3, /* our libcuda.so.1 before it */
    TB_MAPS_PINS = 1 << 4, /* libtwinbit_pins.so */
    TB_MAPS_LOADER = 1 << 5,
    TB_MAPS_FILE = 1 << 6, /* any file at all: the list could be read */
};
/** tb_proc_maps - which of the libraries above are mapped; 0 if it cannot be read */
unsigned tb_proc_maps(pid_t pid);
/** tb_proc_children - calls @fn for each child */
void tb_proc_children(pid_t pid, void (*fn)(void *arg, pid_t child), void *arg);

/* ---------------------------------------------------------------- process.c */

/** tb_process_new - who attached: reads /proc at once, the process may end any moment */
struct tb_col_process *tb_process_new(pid_t pid, const struct tb_wire_msg *hello);
void tb_process_free(struct tb_col_process *p);
/** tb_process_name - rank, ordinals and identities, when all are known; never by pid or order of
 * attach */
void tb_process_name_all(struct tb_col_process *all);
/** tb_process_row - the row as it is known now */
void tb_process_row(const struct tb_col_process *p, struct tb_store_process *row);
/** tb_argv_join - arguments joined by spaces, quoted where needed; @text: NUL-separated */
void tb_argv_join(const char *text, size_t n, char *out, size_t size);

struct tb_pins;
struct tb_syscalls;

/** tb_pins_say - as tb_pins_message(), of a process that left something behind */
void tb_pins_say(struct tb_pins *p, pid_t pid, const char *program, const char *id,
                 enum tb_pin_state state, const char *value);

/* ---------------------------------------------------------------- unreached.c (front) */

struct tb_unreached_row {
    char program[512], why[100];
    uint64_t times;
    bool entropy; /* is pinned all the same (system.syscalls) */
    bool python;  /* a Python that keeps our part in it out; the rest is pinned */
};

/** struct tb_unreached - programs that ran without libtwinbit_pins.so; zero-initialise */
struct tb_unreached {
    struct tb_unreached_row row[128];
    uint32_t count;
    uint64_t more; /* for which there was no row */
};

void tb_unreached_add(struct tb_unreached *u, const char *program, const char *why, uint64_t times);
/** tb_unreached_merge - those of @seen whose program was not told of by who executed it */
void tb_unreached_merge(struct tb_unreached *u, const struct tb_unreached *seen);
/** tb_unreached_answered - entropy of some is pinned by @s, which may be NULL */
void tb_unreached_answered(struct tb_unreached *u, const struct tb_syscalls *s);
/** tb_unreached_store - as rows of coverage of kind "pins" */
enum tb_status tb_unreached_store(const struct tb_unreached *u, struct tb_store *store,
                                  struct tb_error *err) TB_MUST_CHECK;
/** tb_unreached_say - as rows of pins */
void tb_unreached_say(const struct tb_unreached *u, struct tb_pins *pins);
void tb_unreached_report(const struct tb_unreached *u, void (*line)(void *arg, const char *text),
                         void *arg);

/* ---------------------------------------------------------------- draws.c (front) */

struct tb_draws;

/** tb_draws_open - *@out stays NULL where nothing is to be answered or looked at; all that follow
 * take NULL. @folder: the run's own */
enum tb_status tb_draws_open(struct tb_draws **out, const struct tb_pin_plan *plan,
                             const char *replay, const char *folder,
                             struct tb_error *err) TB_MUST_CHECK;
bool tb_draws_environment(const struct tb_draws *d, char **env, size_t *count, const char *libdir);
/** tb_draws_store - logs into the trace, what they say of pins into @pins */
enum tb_status tb_draws_store(struct tb_draws *d, struct tb_store *store, struct tb_pins *pins,
                              const struct tb_syscalls *syscalls,
                              struct tb_error *err) TB_MUST_CHECK;
/** tb_draws_first - the job's first program is @path, with the environment @env */
void tb_draws_first(struct tb_draws *d, const char *path, char *const *env);
/** tb_draws_unseen - @program ran without the library, and who started it did not say so; before
 * tb_draws_store() */
void tb_draws_unseen(void *d, const char *program, const char *why);
/** tb_draws_rows - rows of coverage that tb_draws_store() wrote */
uint64_t tb_draws_rows(const struct tb_draws *d);
/** tb_draws_report - after tb_draws_store(): a line if a replay was asked what its log does not
 * have */
void tb_draws_report(const struct tb_draws *d, void (*line)(void *arg, const char *text),
                     void *arg);
/** tb_draws_free - and remove its files */
void tb_draws_free(struct tb_draws *d);

/* ---------------------------------------------------------------- caches.c (front) */

struct tb_caches;

/**
 * tb_caches_open - folders for the pins of @plan that are caches, which @pins puts into the job
 * @frozen: as in the options. @max_size: of the new trace; half of it may be a frozen folder.
 * Returns: TB_ERR_NOTFOUND, TB_ERR_FORMAT, TB_ERR_CORRUPT, TB_ERR_LIMIT of a trace that is to give
 * one.
 */
enum tb_status tb_caches_open(struct tb_caches **out, const struct tb_pin_plan *plan,
                              const char *frozen, uint64_t max_size, struct tb_pins *pins,
                              struct tb_error *err) TB_MUST_CHECK;
/** tb_caches_store - the folders into the trace, what became of the pins into @pins; @job: its
 * first process */
enum tb_status tb_caches_store(struct tb_caches *c, struct tb_store *store, struct tb_pins *pins,
                               pid_t job, struct tb_error *err) TB_MUST_CHECK;
/** tb_caches_report - after tb_caches_store(): a line for each folder */
void tb_caches_report(const struct tb_caches *c, void (*line)(void *arg, const char *text),
                      void *arg);
/** tb_caches_named - does the command line @argv name one of the folders? Nobody but a compiler
 * knows them: what it tries there is no part of the job */
bool tb_caches_named(const struct tb_caches *c, const char *argv);
/** tb_caches_free - and remove the folders */
void tb_caches_free(struct tb_caches *c);

/* ---------------------------------------------------------------- syscalls.c (front) */

struct tb_syscalls;

/** tb_syscalls_new - NULL: pin system.syscalls is not asked for; all that follow take NULL. Before
 * the job, and before we become a subreaper */
struct tb_syscalls *tb_syscalls_new(const struct tb_pin_plan *plan);
/** tb_syscalls_wanted - shall the child put the filter on (tb_syscalls_install(), syscalls.h)? */
bool tb_syscalls_wanted(const struct tb_syscalls *s);
/** tb_syscalls_keeper - pid of a child of ours that is not the job's; 0: none */
pid_t tb_syscalls_keeper(const struct tb_syscalls *s);
/** tb_syscalls_start - take the listener from @report and answer, in a thread of its own; the job
 * waits in exec for that */
void tb_syscalls_start(struct tb_syscalls *s, int report);
/** tb_syscalls_stop - what is asked from now on is answered by the kernel */
void tb_syscalls_stop(struct tb_syscalls *s);
/** tb_syscalls_say - after that: rows of pins */
void tb_syscalls_say(const struct tb_syscalls *s, struct tb_pins *pins);
/** tb_syscalls_answered - did it answer a program of this path? */
bool tb_syscalls_answered(const struct tb_syscalls *s, const char *program);
void tb_syscalls_free(struct tb_syscalls *s);

/* ---------------------------------------------------------------- stress.c */

struct tb_stress;

/** tb_stress_start - disturb the threads of @job and its children until tb_stress_stop(); NULL: no
 * memory. Threads of its own, with the signal mask of the caller */
struct tb_stress *tb_stress_start(pid_t job, uint64_t seed);
void tb_stress_stop(struct tb_stress *s);

/* ---------------------------------------------------------------- pins.c (front) */

/** tb_pins_new - @plan is borrowed; @folder: the run's own. NULL: no plan, or no memory; all that
 * follow take NULL */
struct tb_pins *tb_pins_new(const struct tb_pin_plan *plan, const char *folder);
void tb_pins_free(struct tb_pins *p);
/** tb_pins_give - what "@cache" of the pin @id stands for in this run: @value, in the variable
 * @name (NULL: the pin's own). Borrowed until tb_pins_free(); before tb_pins_environment() */
void tb_pins_give(struct tb_pins *p, const char *id, const char *name, const char *value);
/** tb_pins_is_jobs - has the job a value of its own, which wins? */
bool tb_pins_is_jobs(const struct tb_pins *p, const char *id);
/** tb_pins_room - entries that tb_pins_environment() may add */
size_t tb_pins_room(const struct tb_pins *p);
/** tb_pins_environment - put the variables in, and the way to the plan; false: no memory */
bool tb_pins_environment(struct tb_pins *p, char **env, size_t *count, const char *libdir);
/** struct tb_pins_began - what the job's process had when it was executed */
struct tb_pins_began {
    uint32_t fixed, umask; /* addresses are not randomised; file mode mask */
    cpu_set_t cpus;
};
/** tb_pins_in_child - between fork and exec: what a process hands on; then what it has */
void tb_pins_in_child(const struct tb_pins *p, struct tb_pins_began *out);
/** tb_pins_started - the job was executed as @pid with that */
void tb_pins_started(struct tb_pins *p, pid_t pid, const struct tb_pins_began *began);
/** tb_pins_message - TB_MSG_PIN of @pid; @index: of its struct tb_col_process, 0: it has none */
void tb_pins_message(struct tb_pins *p, pid_t pid, uint32_t index, const char *text);
/**
 * tb_pins_text - text "pins" of the trace (store/FORMAT.md), malloc'ed; NULL: no pins, no memory
 */
char *tb_pins_text(const struct tb_pins *p, const struct tb_col_process *all, size_t *n);
/** tb_pins_report - a line for each pin that is not as asked, and one for all; @argv: of the job */
void tb_pins_report(const struct tb_pins *p, char *const *argv,
                    void (*line)(void *arg, const char *text), void *arg);

/* ---------------------------------------------------------------- drain.c */

struct tb_drain;

enum tb_drain_kind {
    TB_DRAIN_PROCESS,  /* attached */
    TB_DRAIN_RING,     /* map, bytes: its ring; thread */
    TB_DRAIN_SLOTS,    /* map, bytes: a slot table; thread: its number */
    TB_DRAIN_SNAPSHOT, /* fd */
    TB_DRAIN_STOPPED,  /* text: recording stopped before there was a ring */
    TB_DRAIN_LOG,      /* text */
    TB_DRAIN_GONE,     /* the process has ended and all it sent was posted */
    TB_DRAIN_COVER,    /* cover_kind, text: subject, detail */
    TB_DRAIN_END,      /* no more will come; drain what is there and end */
};

struct tb_drain_cmd {
    enum tb_drain_kind kind;
    struct tb_col_process *process; /* may be NULL for COVER, LOG, END */
    void *map;
    size_t bytes;
    uint32_t thread;
    int fd;
    unsigned severity;
    const char *cover_kind;
    char *text, *detail; /* malloc'ed, freed by the drain */
    struct tb_drain_cmd *next;
};

struct tb_drain_counts {
    uint64_t events, accesses, steps, lost, coverage, bytes, snapshots;
    uint64_t unarrived; /* fingerprints that a device never wrote */
    bool disk_full;
    char stopped[128]; /* the first process that stopped recording, and why; "" if none did */
};

/** tb_drain_start - @bell is shared with the jobs; @store is the drain's until tb_drain_join() */
enum tb_status tb_drain_start(struct tb_drain **out, struct tb_store *store,
                              struct tb_wire_bell *bell, struct tb_error *err) TB_MUST_CHECK;
/** tb_drain_post - copies @cmd; takes its map, fd and texts. Any thread */
void tb_drain_post(struct tb_drain *d, const struct tb_drain_cmd *cmd);
/** tb_drain_counts - as of the last flush. Any thread */
void tb_drain_counts(struct tb_drain *d, struct tb_drain_counts *out);
/** tb_drain_idle - processes that were posted GONE and are drained to the end */
uint32_t tb_drain_finished(struct tb_drain *d);
/**
 * tb_drain_join - after END was posted: wait, free @d
 * @counts: the last ones, may be NULL. Returns: the first error of the store.
 */
enum tb_status tb_drain_join(struct tb_drain *d, struct tb_drain_counts *counts,
                             struct tb_error *err) TB_MUST_CHECK;

/* ---------------------------------------------------------------- ring.c */

struct tb_pending_map {
    struct tb_wire_map head;
    uint64_t sums[2 * 16];
};

/* One ring as the collector reads it. Bytes beyond `fifo` are read where they lie. */
struct tb_ring {
    struct tb_ring *next;
    struct tb_wire_ring *page;
    size_t map_bytes;
    uint64_t size, head, tail, told; /* told: the tail as the producer knows it */
    uint32_t current;                /* bytes of the record that peek gave, 0: none */
    uint8_t *fifo;                   /* records moved out while the merge waited */
    size_t fifo_start, fifo_end, fifo_size;
    bool broken, stop_seen, frozen;
    uint64_t lost_seen;
    uint32_t thread; /* ordinal whose records come now */
    bool has_front;  /* the next record is an event or a skip, with this number */
    uint64_t front;
    uint32_t *site, *range; /* local id -> the store's; 0: not defined */
    uint32_t site_size, range_size;
    struct {
        uint16_t kind;
        uint32_t id;
        uint64_t value;
        char *text;
        size_t len, size;
        bool open;
    } text;                        /* a text in several records */
    struct tb_wire_access *access; /* MORE: accesses of the event to come */
    uint32_t access_count, access_size;
    uint32_t checked;           /* of the front event, so many accesses need no more waiting */
    struct tb_pending_map *map; /* MAP: of the event to come */
    uint32_t map_count, map_size;
};

struct tb_ring *tb_ring_new(void *map, size_t bytes, uint32_t thread);
void tb_ring_free(struct tb_ring *r);
/** tb_ring_peek - the next record, whole, checked, not a PAD; NULL: none, or the ring is broken */
const struct tb_wire_rec *tb_ring_peek(struct tb_ring *r);
/** tb_ring_pop - done with the record that peek gave */
void tb_ring_pop(struct tb_ring *r);
/** tb_ring_tell - let the producer know how far we are, wake it if it waits */
void tb_ring_tell(struct tb_ring *r);
/** tb_ring_spill - move what lies in the ring into the fifo; returns bytes moved */
size_t tb_ring_spill(struct tb_ring *r);
/** tb_ring_freeze - what is written from now on is not looked at */
void tb_ring_freeze(struct tb_ring *r);
/** tb_ring_pending - bytes not yet read */
uint64_t tb_ring_pending(struct tb_ring *r);
/** tb_ring_is_urgent - so many bytes that the producer has rung, or it waits for room */
bool tb_ring_is_urgent(struct tb_ring *r);

/* ---------------------------------------------------------------- merge.c, emit.c (drain thread)
 */

#define TB_MERGE_WINDOW 16384u /* events of a process whose row ids are remembered */

/* Something that belongs to an event that has not come yet, or whose bytes have not. */
struct tb_merge_pending {
    struct tb_merge_pending *next;
    uint64_t seq;
    uint32_t thread; /* ordinal */
    unsigned severity;
    uint64_t count;
    char *text; /* COVER: kind \t subject \t detail */
    uint32_t access;
    void *data; /* SNAPSHOT */
    uint64_t bytes;
    int fd;             /* SNAPSHOT that is read once its ticket is stamped, else -1 */
    uint32_t table;     /* of the ticket */
    bool ticket_failed; /* it never was */
    uint64_t ticket;
    uint64_t event; /* row, once it was written */
};

struct tb_merge {
    struct tb_merge *next;
    struct tb_col_process *process;
    uint32_t row;
    struct tb_ring *rings, *last;
    uint64_t seq;     /* next to be written */
    uint64_t *id;     /* row ids of the last TB_MERGE_WINDOW events */
    uint32_t *thread; /* ordinal -> row, 0: not written yet */
    uint32_t thread_size, autograd, workers;
    struct tb_merge_pending *pending;
    struct tb_merge_pending *late; /* snapshots of events that were written, not yet stamped */
    uint32_t late_count;
    size_t spilled;                   /* bytes in fifos */
    size_t stall_limit, hold_limit;   /* of them, while a number is missing; a fingerprint */
    uint64_t stall_since, full_since; /* a number is missing; and nothing more is spilled */
    struct tb_slots *slots;
    uint32_t slot_tables;
    uint64_t table_waited, table_round; /* for a slot table that nobody sent yet; last look */
    struct tb_continuity *continuity;   /* NULL: nothing was to be checked yet */
    uint64_t sampled;                   /* fingerprints of some leaves only */
    uint64_t believed;                  /* accesses that were believed to leave bytes alone */
    uint64_t steps;
    bool held; /* the event that is due waits for a fingerprint */
    bool gone; /* nothing comes any more: no slot is waited for */
    bool cut;  /* because recording ended, not the process */
    bool finished, stop_told;
};

/* What the merge writes to; owned by the drain. */
struct tb_sink {
    struct tb_store *store;

    struct tb_error error; /* first of the store's; nothing is written after it */
    uint64_t snapshots;    /* that arrived */
    uint64_t unarrived;    /* as in tb_drain_counts */
    uint64_t steps;        /* of the process that had most */
    char stopped[128];     /* as in tb_drain_counts */
    bool dirty;            /* something was written since the last flush */
};

struct tb_merge *tb_merge_new(struct tb_sink *sink, struct tb_col_process *process);
void tb_merge_free(struct tb_merge *m);
/** tb_merge_release - unmap its rings and slot tables */
void tb_merge_release(struct tb_merge *m);
/** tb_merge_run - write what is in order, at most @budget events; returns how many */
uint32_t tb_merge_run(struct tb_merge *m, struct tb_sink *sink, uint32_t budget, uint64_t now);
/** tb_merge_stops - look for rings that lost something or stopped */
void tb_merge_stops(struct tb_merge *m, struct tb_sink *sink);
/** tb_merge_finish - the process is gone: write all that is left, in order, gaps skipped; slots
 * that were not stamped never will be */
void tb_merge_finish(struct tb_merge *m, struct tb_sink *sink);
/** tb_merge_is_urgent - much waits in a ring, or its producer does */
bool tb_merge_is_urgent(struct tb_merge *m);

/** tb_emit_other - a record that is neither an event nor a skip */
void tb_emit_other(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r,
                   const struct tb_wire_rec *rec);
void tb_emit_event(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r,
                   const struct tb_wire_event *e);
/** tb_emit_accesses - those of event @e at the front of @r: @behind its record, or of its MORE
 * records and the rest; NULL: nonsense. Borrowed until the ring is popped or spilled */
const struct tb_wire_access *tb_emit_accesses(struct tb_ring *r, const struct tb_wire_event *e,
                                              const struct tb_wire_access *behind);
void tb_emit_lost(struct tb_merge *m, struct tb_sink *sink, uint64_t count, const char *why);
void tb_emit_cover(struct tb_sink *sink, uint32_t row, unsigned severity, const char *kind,
                   const char *subject, const char *detail);
/** tb_emit_row - row id of an event written lately; 0: too long ago, or never */
uint64_t tb_emit_row(const struct tb_merge *m, uint64_t seq);
/** tb_sink_ok - false after the first error; keeps it */
bool tb_sink_ok(struct tb_sink *sink, enum tb_status status, const struct tb_error *err);

/* ---------------------------------------------------------------- pending.c (drain thread) */

/** tb_pending_snapshot - takes @fd, a snapshot's memfd; waits for its event and for its bytes */
void tb_pending_snapshot(struct tb_merge *m, struct tb_sink *sink, int fd);
/** tb_pending_cover - a COVER record at the front of @r; waits for its event */
void tb_pending_cover(struct tb_merge *m, struct tb_sink *sink, const struct tb_ring *r,
                      const struct tb_wire_cover *c);
/** tb_pending_release - event @seq was written as row @event, 0 if it could not be */
void tb_pending_release(struct tb_merge *m, struct tb_sink *sink, uint64_t seq, uint64_t event);
/** tb_pending_late - write the snapshots whose bytes have come meanwhile */
void tb_pending_late(struct tb_merge *m, struct tb_sink *sink);
/** tb_pending_leftover - what waited for events or bytes that never came */
void tb_pending_leftover(struct tb_merge *m, struct tb_sink *sink);

/** tb_pending_explains - has the job said, in a row of kind "origin" for event @seq, that others
 * than recorded writers may change what it reads? All of it, or "allocation N" where the row names
 * it */
bool tb_pending_explains(const struct tb_merge *m, uint64_t seq, uint64_t alloc);

/* ---------------------------------------------------------------- continuity.c (drain thread) */

/** tb_continuity_new - @limit: extents kept, 0: as many as usual; NULL: no memory */
struct tb_continuity *tb_continuity_new(size_t limit);
void tb_continuity_free(struct tb_continuity *c);
/** tb_continuity_event - @e was written as row @row; check what it read, keep what it wrote. @wire,
 * @a: its accesses, as they came and as they were written */
void tb_continuity_event(struct tb_merge *m, struct tb_sink *sink, const struct tb_store_event *e,
                         const struct tb_wire_access *wire, const struct tb_store_access *a,
                         uint64_t row);
/** tb_continuity_finish - say what was not checked, and free it */
void tb_continuity_finish(struct tb_merge *m, struct tb_sink *sink);

/* ---------------------------------------------------------------- slots.c (drain thread) */

/* One slot table; without @map, one that was waited for in vain. */
struct tb_slots {
    struct tb_slots *next;
    void *map;
    size_t map_bytes;
    struct tb_wire_slot *slot;
    uint32_t table, count;
    uint64_t *taken;  /* of each slot, as it was told to the job */
    uint64_t highest; /* ticket taken */
};

enum tb_slot_state {
    TB_SLOT_WAIT,     /* not stamped yet */
    TB_SLOT_THERE,    /* it has its fingerprint */
    TB_SLOT_LOST,     /* written over before it was read */
    TB_SLOT_BAD,      /* no such table or ticket, or it was taken before */
    TB_SLOT_NO_TABLE, /* a table with that number may still come */
};

/** tb_slots_new - takes @map; NULL, and @map stays the caller's: it is no slot table */
struct tb_slots *tb_slots_new(void *map, size_t bytes, uint32_t table, uint64_t nonce);
void tb_slots_free(struct tb_slots *s);
/** tb_slots_add - takes @s; false: too many, or that number is in use */
bool tb_slots_add(struct tb_merge *m, struct tb_slots *s);
enum tb_slot_state tb_slots_look(const struct tb_merge *m, uint64_t table, uint64_t ticket);
/** tb_slots_take - the fingerprint if it is THERE; THERE and LOST give the slot back to the job */
enum tb_slot_state tb_slots_take(struct tb_merge *m, uint64_t table, uint64_t ticket,
                                 struct tb_fp *fp);
/** tb_slots_passed - stamped, whether taken meanwhile or not */
bool tb_slots_passed(const struct tb_merge *m, uint64_t table, uint64_t ticket);
/** tb_slots_hold - must the front event of @r, with these accesses, wait for a slot? */
bool tb_slots_hold(struct tb_merge *m, struct tb_ring *r, const struct tb_wire_access *a,
                   uint32_t n, uint64_t now);

/* ---------------------------------------------------------------- server.c */

struct tb_server;
struct tb_col; /* run.c's state */

/* What the server asks of the front. */
struct tb_server_hooks {
    void *arg;
    void (*hello)(void *arg, pid_t pid, const struct tb_wire_msg *msg);
    void (*message)(void *arg, pid_t pid, const struct tb_wire_msg *msg, int fd); /* takes fd */
    void (*no_tap)(void *arg, const char *why);
    bool quiet; /* say nothing of what takes long */
};

enum tb_status tb_server_open(struct tb_server **out, const struct tb_wire_config *config,
                              const char *libdir, int bell_fd, const struct tb_server_hooks *hooks,
                              struct tb_error *err) TB_MUST_CHECK;
const char *tb_server_path(const struct tb_server *s);
/** tb_server_folder - the 0700 folder the socket is in */
const char *tb_server_folder(const struct tb_server *s);
/** tb_server_fds - descriptors to wait for; returns how many */
struct pollfd;
size_t tb_server_fds(struct tb_server *s, struct pollfd *out, size_t max);
/** tb_server_helper - pid of the compiler that runs, 0 if none; read atomically */
const int *tb_server_helper(const struct tb_server *s);
/** tb_server_work - accept, read, answer; never blocks */
void tb_server_work(struct tb_server *s);
/** tb_server_close - also removes socket and folder */
void tb_server_close(struct tb_server *s);

/* ---------------------------------------------------------------- images.c */

struct tb_images;

enum tb_status tb_images_open(struct tb_images **out, struct tb_error *err) TB_MUST_CHECK;
/** tb_images_event - a descriptor that is readable once there are answers */
int tb_images_event(const struct tb_images *s);
/** tb_images_ready - were there new answers since the last call? */
bool tb_images_ready(struct tb_images *s);
/** tb_images_ask - what do the kernels of the image in @fd do? Takes @fd; returns a ticket, 0: no
 * memory */
uint64_t tb_images_ask(struct tb_images *s, int fd);
/** tb_images_answer - true once there is one: *@fd, to be closed, holds struct tb_wire_kernels, or
 * is -1 and @why says why */
bool tb_images_answer(struct tb_images *s, uint64_t ticket, int *fd, char *why, size_t n);
/** tb_images_close - ends the analysis that runs, drops what was asked; NULL is legal */
void tb_images_close(struct tb_images *s);

/* ---------------------------------------------------------------- watch.c */

struct tb_watch;

/** tb_watch_new - @helper: pid of a child of our own that others wait for, 0 if none; read
 * atomically */
struct tb_watch *tb_watch_new(const int *helper);
void tb_watch_free(struct tb_watch *w);
/** tb_watch_poll - look at all descendants; reap orphans, but not @job */
void tb_watch_poll(struct tb_watch *w, pid_t job);
/** tb_watch_living - descendants that live now and have libtorch or libcuda; a forked one may still
 * attach */
uint32_t tb_watch_living(struct tb_watch *w, pid_t job);

/** tb_watch_left - descendants that live now, whatever they have; @names: of the first few */
uint32_t tb_watch_left(struct tb_watch *w, pid_t job, char *names, size_t size);
/** tb_watch_parent - the parent @pid had when it was first seen, 0 if it was not */
pid_t tb_watch_parent(const struct tb_watch *w, pid_t pid);
/** tb_watch_leave_out - @pid is a child of our own */
void tb_watch_leave_out(struct tb_watch *w, pid_t pid);
/** tb_watch_pins - from now on look for programs without libtwinbit_pins.so, too */
void tb_watch_pins(struct tb_watch *w);
/** tb_watch_unreached - calls @fn for each that was seen twice at least, as it takes a moment until
 * the library is in */
void tb_watch_unreached(const struct tb_watch *w,
                        void (*fn)(void *arg, const char *program, const char *why), void *arg);
/** tb_watch_told - @pid has said itself that it is not covered; its command line, "" if not known
 */
const char *tb_watch_told(struct tb_watch *w, pid_t pid);
/** tb_watch_result - calls @fn for each process that was not covered; @cuda_tap: how CUDA was seen
 */
uint32_t tb_watch_result(const struct tb_watch *w, const struct tb_col_process *processes,
                         unsigned cuda_tap,
                         void (*fn)(void *arg, const char *argv, const char *why), void *arg);

/* ---------------------------------------------------------------- job.c */

struct tb_job {
    pid_t pid;
    int status; /* of waitpid */
    bool ended;
};

/* Signals of the front: all that it handles are blocked and read from @fd. */
struct tb_signals {
    int fd;
    sigset_t mask;                    /* the caller's, given back and given to the job */
    struct sigaction pipe, file_size; /* the same; ignored meanwhile */
    struct rlimit files; /* the same; as high as allowed meanwhile: a pidfd a process */
    bool term_sent, hup_sent, stop_asked;
    bool paused; /* SIGUSR2 turns it over */
};

/** tb_job_find - is there such a command, and where (@path)? 126 or 127 in *@exit_status if not */
enum tb_status tb_job_find(const char *file, char *path, size_t size, int *exit_status,
                           struct tb_error *err) TB_MUST_CHECK;
/** tb_job_start - fork and exec; @path: of tb_job_find(); the job's environment has the socket and
 * the library */
enum tb_status tb_job_start(struct tb_job *job, const struct tb_collector_options *o,
                            const struct tb_signals *signals, struct tb_pins *pins,
                            struct tb_draws *draws, struct tb_syscalls *syscalls, const char *path,
                            const char *socket, int *exit_status,
                            struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_signals_open(struct tb_signals *s, struct tb_error *err) TB_MUST_CHECK;
void tb_signals_close(struct tb_signals *s);
/** tb_signals_work - ignore, forward, follow stop and continue, take the job's status */
void tb_signals_work(struct tb_signals *s, struct tb_job *job);

/* ---------------------------------------------------------------- environment.c */

/** tb_environment_hook - the folder of our sitecustomize, first on PYTHONPATH; false: no memory */
bool tb_environment_hook(char **env, size_t *count, const char *libdir);
/** tb_job_environment - the job's environment: malloc'ed array and strings, NULL: no memory */
char **tb_job_environment(char *const *env, const struct tb_collector_options *o,
                          struct tb_pins *pins, const struct tb_draws *draws, const char *socket);
void tb_job_environment_free(char **env);

/** tb_environment_value - what follows "<name>=", NULL: not set */
const char *tb_environment_value(char *const *env, const char *name);
/**
 * tb_environment_set - put @first under @name into @env, which has room for one more
 * @separator: between @first and what was there, which stays behind (@first_wins) or before it; 0:
 * it goes
 */
bool tb_environment_set(char **env, size_t *count, const char *name, const char *first,
                        char separator, bool first_wins);

/* ---------------------------------------------------------------- cuda.c */

/**
 * tb_cuda_choose - make of w->cuda_tap what is possible for a job with the environment @env
 * Without a driver on this machine: none.
 * @say: a line for the user, or ""
 */
void tb_cuda_choose(struct tb_wire_config *w, char *const *env, const char *libdir, char *say,
                    size_t size);
/** tb_cuda_environment - add what brings the tap into the job; false: no memory */
bool tb_cuda_environment(char **env, size_t *count, const struct tb_collector_options *o);

/* ---------------------------------------------------------------- report.c */

/** tb_report_progress - one line, over and over; NULL: wipe it */
void tb_report_progress(const struct tb_drain_counts *c, double wall_s, double cpu_s);
/** tb_report_end - the closing paragraph, lines of the recorder's log before it */
void tb_report_end(const struct tb_collector_result *r, char *const *log, uint32_t log_count);

/* ---------------------------------------------------------------- provenance.c, environment.c */

/** tb_provenance_write - argv, environment, host, git, ... into the store, before the job begins */
void tb_provenance_write(struct tb_store *store, const struct tb_collector_options *o);
/** tb_environment_redact - @env as NAME=value lines, secrets replaced; malloc'ed, *@n bytes */
char *tb_environment_redact(char *const *env, size_t *n);

/* ---------------------------------------------------------------- elf.c, tap_build.c */

struct tb_elf_facts {
    char build_id[65]; /* hex, "" if none */
    bool cxx11_abi;    /* uses std::__cxx11 names */
};
enum tb_status tb_elf_read(const char *path, struct tb_elf_facts *out,
                           struct tb_error *err) TB_MUST_CHECK;

/* Between who builds a tap and who watches: the first two are read and written atomically. */
struct tb_tap_control {
    int cancel; /* 1: kill the compiler and fail */
    int pid;    /* of the compiler while it runs, else 0 */
    bool quiet; /* set before: no line on stderr that a build begins */
};
/* ---------------------------------------------------------------- command.c */

/** tb_command_is_running - may a child of this process be one that tb_command_run() waits for? Any
 * thread */
bool tb_command_is_running(void);
/**
 * tb_command_run - run @argv with stdin empty, stdout and stderr at @out; kill it after @limit_ms
 * Returns: its exit status; -1 if it could not be run, was killed or took too long.
 */
int tb_command_run(char *const *argv, int out, unsigned limit_ms, struct tb_tap_control *control);
/** tb_command_output - the same; what it wrote, at most @max bytes, malloc'ed and NUL-terminated */
char *tb_command_output(char *const *argv, unsigned limit_ms, size_t max, int *status, size_t *n);

/** tb_tap_build_controlled - as tb_tap_build(); @control may be NULL */
enum tb_status tb_tap_build_controlled(const char *libdir, const char *libtorch, char *path,
                                       size_t size, struct tb_tap_control *control,
                                       struct tb_error *err) TB_MUST_CHECK;

#endif
