/*
 * pins_internal - the parts of libtwinbit_pins.so, which answers for libc in a job.
 *
 * Start at tb_pins_begin() (draw.c): each interposed function asks it what is to be done with one
 * call, then serves it or passes it on, and writes it down with tb_pins_note(). State:
 *
 *   struct tb_pins_image   of the program that runs here; set once, copied by fork
 *   struct tb_pins_proc    of the process: in memory that the kernel wipes in a forked child, so a
 *                          child never goes on in its parent's streams or log, however it was made
 *   struct tb_pins_tls     of the thread: its number, and how much it drew, forked, started
 *
 * Nothing here allocates from malloc, prints, ends the job or changes errno; no lock is held across
 * a call into libc.
 */
#ifndef TB_DETERMINISTIC_PRELOAD_PINS_INTERNAL_H
#define TB_DETERMINISTIC_PRELOAD_PINS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deterministic/preload/config.h"
#include "deterministic/preload/log.h"

#define TB_EXPORT __attribute__((visibility("default"), used))
#define TB_HERE __builtin_return_address(0)
#define tb_likely(x) __builtin_expect(!!(x), 1)
#define tb_unlikely(x) __builtin_expect(!!(x), 0)

/* What runs behind an interposed function: the next one of that name, libc's as a rule. */
/* clang-format off */
#define TB_NEXT_NAMES(X)                                                                           \
    X(getrandom)                                                                                   \
    X(getentropy)                                                                                  \
    X(arc4random) X(arc4random_buf) X(arc4random_uniform) X(syscall) X(open) X(open64) X(openat)   \
        X(openat64) X(__open_2) X(__open64_2) X(__openat_2) X(__openat64_2) X(read) X(pread)       \
            X(pread64) X(readv) X(preadv) X(preadv64) X(__read_chk) X(__pread_chk)                 \
                X(__pread64_chk) X(dup) X(dup2) X(dup3) X(fcntl) X(fcntl64) X(fopen) X(fopen64)    \
                    X(fdopen) X(fileno) X(fileno_unlocked) X(pthread_create) X(execve) X(execv)    \
                        X(execvp) X(execvpe) X(fexecve) X(execveat) X(posix_spawn) X(posix_spawnp) \
                            X(time) X(gettimeofday) X(clock_gettime) X(readdir) X(readdir64)       \
                                X(readdir_r) X(readdir64_r) X(closedir) X(rewinddir) X(seekdir)    \
                                    X(telldir) X(scandir) X(scandir64) X(scandirat) X(scandirat64) \
                                        X(glob) X(glob64) X(mkstemp) X(mkstemp64) X(mkostemp)      \
                                            X(mkostemp64) X(mkstemps) X(mkstemps64) X(mkostemps)   \
                                                X(mkostemps64) X(mkdtemp) X(mktemp) X(tmpnam)      \
                                                    X(tmpnam_r) X(tempnam) X(srand) X(srandom)           \
                                                        X(srand48) X(srandom_r) X(srand48_r)       \
    X(initstate) X(initstate_r) X(seed48) X(seed48_r) X(lcong48) X(lcong48_r) X(rand_r)            \
    X(erand48) X(nrand48) X(jrand48) X(timespec_get) X(getpid) X(dlclose) X(_exit) X(_Exit)
/* clang-format on */

#define TB_NEXT_ENUM(name) TB_NEXT_##name,
enum tb_pins_next { TB_NEXT_NAMES(TB_NEXT_ENUM) TB_NEXT_COUNT };

/** tb_pins_next - address of what comes next by that name; NULL: this libc does not have it */
void *tb_pins_next(enum tb_pins_next which);
void tb_pins_find_all(void);

#define TB_NEXT(name) ((__typeof__(&name))tb_pins_next(TB_NEXT_##name))

enum tb_pins_class { TB_ENTROPY, TB_LISTING, TB_TEMPNAME, TB_EXEMPT, TB_SEED, TB_CLASSES };

enum tb_pins_site_flags { TB_SITE_READY = 1, TB_SITE_REAL = 2, TB_SITE_OURS = 4 };

/** struct tb_pins_site - a place that calls, found by its return address */
struct tb_pins_site {
    uintptr_t pc; /* 0: free */
    uint32_t number, flags;
    uint64_t *calls; /* in its SITE record, or NULL */
    uint64_t caller; /* hash of module and offset */
    uint64_t count;  /* in a copy: which call of this site it is, from 1; 0: not known */
};

#define TB_PINS_SITES 4096u
#define TB_PINS_PIECES 20u

enum tb_pins_state { TB_FRESH = 0, TB_NAMED, TB_SETTING_UP, TB_ON };

/** struct tb_pins_proc - all zero in a child that was forked a moment ago */
struct tb_pins_proc {
    uint32_t state; /* enum tb_pins_state */
    uint32_t pid, marks, claims;
    uint64_t id, parent;
    uint32_t threads; /* that are told by order only */
    uint32_t sites;   /* numbers given */
    uint32_t log_off; /* it cannot be written any more */
    struct tb_preload_file *log;
    char *piece[TB_PINS_PIECES];
    char path[TB_PRELOAD_PATH + 32];
    const char *replay; /* the log that is repeated, mapped; NULL: none */
    uint64_t replay_size;
    struct tb_pins_site site[TB_PINS_SITES];
};

/** struct tb_pins_image - written by who opens it, before `opened`; then constant */
struct tb_pins_image {
    uint32_t opened; /* 0 not yet, 1 being opened, 2 open, 3 off */
    bool named;      /* it has had an identity: whoever finds a fresh proc was forked */
    bool wiped; /* the kernel wipes proc in a forked child; else a clone(2) goes on in its parent's
                 * streams and log, and only fork() is seen */
    const struct tb_preload_config *config;
    struct tb_preload_shared *shared; /* NULL: it cannot be had */
    struct tb_pins_proc *proc;
    uint64_t last_id;          /* of the process that was named last; a child reads its parent's */
    uint32_t files_of;         /* files.c: pid whose log has its program; 0: files are not told */
    uintptr_t program_at;      /* an address in the program */
    uint64_t opened_libraries; /* the loader's count when they were told last; changed atomically */
    char program[64];
};

#define TB_PINS_CLOCKS 4u

/** struct tb_pins_readings - of the time of day and the pid, by one thread (seeds.h) */
struct tb_pins_readings {
    uint64_t clock[TB_PINS_CLOCKS]; /* the last ones, nanoseconds since 1970 */
    uint32_t n;                     /* readings of the clock */
    uint32_t pid_at;                /* how many there were when the pid was asked for, and 1 */
};

struct tb_pins_tls {
    uint64_t thread; /* 0: not known yet */
    uint64_t maker;
    uint32_t maker_n, marks;
    uint32_t threads, forks, vforks, spawns; /* made by this thread, to now */
    uint32_t seq[TB_CLASSES];
    uint64_t cursor[TB_CLASSES]; /* in the log that is repeated */
    bool told;                   /* its THREAD record is written */
    bool busy;                   /* it is setting up: what it calls is passed on */
    struct tb_pins_readings readings;
};

extern struct tb_pins_image tb_pins;
extern _Thread_local struct tb_pins_tls tb_pins_tls __attribute__((tls_model("initial-exec")));

/* process.c, thread.c */

struct tb_pins_proc *tb_pins_set_up(void);

/** tb_pins_self - the process, set up; NULL: nothing is to be done, or not now */
static inline struct tb_pins_proc *tb_pins_self(void)
{
    struct tb_pins_proc *p = __atomic_load_n(&tb_pins.proc, __ATOMIC_ACQUIRE);

    if (tb_likely(p && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == TB_ON))
        return p;
    return tb_pins_set_up();
}

/** tb_pins_know - gives the calling thread its number, tb_pins_thread() writes it down as well */
void tb_pins_know(struct tb_pins_proc *p);
void tb_pins_thread(struct tb_pins_proc *p);

/** tb_pins_become_child - this thread is the only one of a process that was forked */
void tb_pins_become_child(struct tb_pins_proc *p, uint64_t id, uint32_t marks);

/* identity.c */

enum tb_pins_how { TB_BY_FORK = 1, TB_BY_VFORK, TB_BY_SPAWN, TB_BY_EXEC, TB_BY_CLONE };

/** tb_pins_child_id - of the @n-th child that @thread of process @parent makes in this way */
uint64_t tb_pins_child_id(uint64_t parent, uint64_t thread, enum tb_pins_how how, uint64_t n);

/** tb_pins_name_image - identity of an image that has just started, into @p */
void tb_pins_name_image(struct tb_pins_proc *p);

/** tb_pins_count - the next number of @key in the shared table; all of the job draw from it */
uint64_t tb_pins_count(uint64_t key);

/** tb_pins_row - row of @pid; NULL: none */
struct tb_preload_process *tb_pins_row(uint32_t pid);

/** tb_pins_register - a row for @pid; @now: 0 if no image of it has run yet */
void tb_pins_register(uint32_t pid, uint32_t parent, uint64_t id, uint64_t now);

/** tb_pins_ranks - hash of the variables that tell ranks apart */
uint64_t tb_pins_ranks(void);

/* log_write.c */

void tb_pins_log_create(struct tb_pins_proc *p);

/** tb_pins_log_room - room for a record; NULL: there is none, which was counted */
struct tb_preload_record *tb_pins_log_room(struct tb_pins_proc *p, uint32_t payload,
                                           uint64_t *offset);

/** tb_pins_python - python.c: when the program starts */
void tb_pins_python(void);
/** tb_pins_log_text - a whole record of this process: @kind, @asked, and @text with its NUL behind
 * it; a child of fork() gets a log of its own for it */
void tb_pins_log_text(uint16_t kind, uint64_t thread, uint64_t asked, const char *text);

/** tb_pins_log_whole - makes it valid; everything but `head` is filled in */
void tb_pins_log_whole(struct tb_preload_record *r, uint64_t offset);

/* files.c */

/** tb_pins_tell_files - which files hold the code of an image that has just started */
void tb_pins_tell_files(struct tb_pins_proc *p);

/** tb_pins_tell_end - what was opened since, and that the list is whole: the process ends, or
 * executes another program */
void tb_pins_tell_end(void);

/* site.c */

/** tb_pins_site - who calls; by value, as another thread may be filling the table */
struct tb_pins_site tb_pins_site(struct tb_pins_proc *p, const void *pc);

/* draw.c */

/** struct tb_pins_call - one call of an interposed function */
struct tb_pins_call {
    struct tb_pins_proc *p;
    uint16_t kind, marks;
    uint32_t site, mode; /* enum tb_preload_mode */
    enum tb_pins_class class;
    uint32_t n;
    uint64_t caller;
};

/** tb_pins_begin - false: pass the call on, and do not write it down */
bool tb_pins_begin(struct tb_pins_call *c, uint16_t kind, enum tb_pins_class class, const void *pc);

/** tb_pins_real - is the call to be passed on, and written down? */
static inline bool tb_pins_real(const struct tb_pins_call *c)
{
    return c->mode == TB_PRELOAD_LOG || (c->marks & TB_PRELOAD_EXEMPT);
}

/** tb_pins_fill - @n bytes of this call's stream, from its byte @from on (a multiple of 8) */
void tb_pins_fill(const struct tb_pins_call *c, void *bytes, size_t n, uint64_t from);

/** tb_pins_serve - answers the call with @n bytes, by the mode, and writes it down */
void tb_pins_serve(struct tb_pins_call *c, void *bytes, size_t n);

/** tb_pins_note - writes down what was given; @bytes may be NULL, and @hash is then stored */
void tb_pins_note(struct tb_pins_call *c, uint64_t asked, uint64_t served, const void *bytes,
                  size_t n, uint64_t hash);

/** tb_pins_note_real - what the system answered: @result < 0 is a failure */
void tb_pins_note_real(struct tb_pins_call *c, uint64_t asked, int64_t result, const void *bytes);

/** tb_pins_recorded - this call in the log that is repeated; NULL: it is not there */
const struct tb_preload_record *tb_pins_recorded(struct tb_pins_call *c);

#endif
