/*
 * preload/config - what tells the preloaded library libtwinbit_pins.so what to answer, and how
 * processes of one job know who they are.
 *
 * The parent of a job fills struct tb_preload_config, calls tb_preload_config_write(), and starts
 * the job with LD_PRELOAD=libtwinbit_pins.so and TWINBIT_PINS=PATH of that file. What the library
 * wrote down is read with log.h. Start at struct tb_preload_config.
 *
 * The file at PATH is the struct, as it lies in memory: numbers in the machine's byte order (both
 * ends run on one machine, from one build), text ended by NUL, nothing behind it. `magic`,
 * `version` and `size` must be those below, every text must end within its field; a file that is
 * shorter, or fails one of these, switches the library off: it passes every call on.
 *
 * Identity. A process is known by a number of 64 bits that is the same in two runs of a job that
 * starts its processes in the same order, whatever their pids, arguments and folders are:
 *
 *   fork()              child_id(process, thread, TB_BY_FORK, n), the n-th of that thread
 *   vfork(), execve()   the same with TB_BY_VFORK; known at the exec functions
 *   posix_spawn()       the same with TB_BY_SPAWN
 *   execve()            child_id(image before, 0, TB_BY_EXEC, 1)
 *   first of the job    mix(mix(0, RANKS), 0)
 *   other children      mix(mix(parent, RANKS), n), the n-th to start (system, popen, clone)
 *   of unknown parents  as other children, of the nearest forefather that is known, else of 0
 *
 * mix is tb_preload_mix() of log.h, child_id tb_pins_child_id() of identity.c; RANKS is a hash of
 * the variables RANK, LOCAL_RANK, SLURM_PROCID, PMI_RANK and OMPI_COMM_WORLD_RANK.
 *
 * An exec'd image finds its own row, or its parent's, by pid in the file FOLDER/processes, which
 * all processes map shared (struct tb_preload_shared). Arguments are left out on purpose: they hold
 * names of folders and numbers that differ between two runs.
 */
#ifndef TB_DETERMINISTIC_PRELOAD_CONFIG_H
#define TB_DETERMINISTIC_PRELOAD_CONFIG_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/common.h"

#define TB_PRELOAD_ENV "TWINBIT_PINS"
#define TB_PRELOAD_MAGIC 0x31534E4950425455ull /* "UTBPINS1" */
#define TB_PRELOAD_VERSION 2u
#define TB_PRELOAD_PATH 1024

/* Callers whose name begins so keep real entropy, and their values are never written down. */
#define TB_PRELOAD_REAL_CALLERS                                                                    \
    "libcrypto\0libssl\0libgnutls\0libnss\0libfreebl\0libsoftokn\0libsodium\0libgcrypt\0"

/** enum tb_preload_mode - what is done with one kind of calls */
enum tb_preload_mode {
    TB_PRELOAD_OFF = 0,    /* passed on, not seen */
    TB_PRELOAD_LOG = 1,    /* passed on; what came back is written down */
    TB_PRELOAD_PIN = 2,    /* answered from the seed, listings sorted; written down */
    TB_PRELOAD_REPLAY = 3, /* answered from the log of an earlier run; what that does not have is
                            * answered as by PIN, and marked (TB_PRELOAD_NOT_IN_LOG) */
    TB_PRELOAD_MODES
};

enum tb_preload_flags {
    TB_PRELOAD_ALL_CALLERS = 1 << 0, /* entropy=all: cryptographic libraries are answered too */
    TB_PRELOAD_NO_RANDOM_DEVICE = 1 << 1, /* std::random_device is passed on, what it draws from
                                           * libc is not (pin system.rdrand) */
    TB_PRELOAD_DECISIONS = 1 << 2, /* decisions of the interpreter are written down (decide.c) */
    TB_PRELOAD_FILES = 1 << 3,     /* so is which files hold the code of each process (files.c) */
};

/** struct tb_preload_config - the file; zero-initialise, set what is wanted */
struct tb_preload_config {
    uint64_t magic; /* set by tb_preload_config_write(), as are version and size */
    uint32_t version, size;
    uint64_t seed;
    uint32_t entropy;   /* enum tb_preload_mode: getrandom and its kin (pin system.entropy) */
    uint32_t time;      /* OFF or LOG: calls are counted, never changed (system.time) */
    uint32_t listing;   /* readdir and its kin (system.readdir) */
    uint32_t tempnames; /* mkstemp and its kin (system.tempnames) */
    uint32_t seeds;     /* of generators, taken from the clock or the pid (system.time_seeds) */
    uint32_t reserved;
    uint32_t flags;       /* enum tb_preload_flags */
    uint32_t value_limit; /* bytes of one answer that are written down; more: a hash; 0: 16384 */
    uint64_t log_limit;   /* bytes of one process's log; more is counted only; 0: 256 MiB */
    char folder[TB_PRELOAD_PATH]; /* absolute; where the logs go; made if it is not there */
    char replay[TB_PRELOAD_PATH]; /* absolute; the logs of the run to be repeated, or empty */
    char real[512]; /* names of callers that keep real entropy, each ended by NUL, the list by an
                     * empty one; all empty: TB_PRELOAD_REAL_CALLERS */
};

static_assert(sizeof(struct tb_preload_config) == 64 + 2 * TB_PRELOAD_PATH + 512, "file format");

/** struct tb_preload_process - a row of the shared table; all words are changed atomically */
struct tb_preload_process {
    uint32_t pid;    /* 0: free. Claimed first; a row whose process is dead is used again */
    uint32_t parent; /* pid of its parent when it was filled; a row that disagrees is stale */
    uint64_t id;     /* the identity that it was given by its parent */
    uint64_t now;    /* the identity of the image that runs in it, 0: not known yet */
    uint32_t spawns; /* posix_spawn() of it that have not told their child's pid yet */
    uint32_t reserved;
};

/** struct tb_preload_counter - how many children that are told by order only a process has */
struct tb_preload_counter {
    uint64_t key; /* 0: free */
    uint64_t count;
};

#define TB_PRELOAD_PROCESSES 8192u
#define TB_PRELOAD_COUNTERS 8192u

/** struct tb_preload_shared - the file FOLDER/processes */
struct tb_preload_shared {
    uint64_t magic;
    uint32_t version, size;
    uint64_t rows_lost; /* rows that found no room: children of these count as of the unknown */
    uint64_t unlogged;  /* processes without a log: another user's, or no room */
    char unlogged_program[32]; /* the first of them */
    struct tb_preload_process process[TB_PRELOAD_PROCESSES];
    struct tb_preload_counter counter[TB_PRELOAD_COUNTERS];
};

/**
 * tb_preload_config_write - make @path from @c, and the folder of the logs with its table
 * @path: replaced as a whole if it is there; mode 0600
 * @c:    magic, version and size are filled in; limits of 0 and an empty list become the defaults
 *
 * The folder must hold no log of another run: names would collide.
 * Returns: TB_OK; TB_ERR_ARG for a mode that a kind of calls cannot have, a path that is not
 * absolute or does not fit; TB_ERR_EXISTS if the folder has a table already; TB_ERR_IO.
 * Threads: any. Allocates: yes.
 */
TB_MUST_CHECK enum tb_status tb_preload_config_write(const char *path, struct tb_preload_config *c,
                                                     struct tb_error *err);

/** tb_preload_config_good - may these bytes be used? Threads: any. Allocates: no. */
bool tb_preload_config_good(const struct tb_preload_config *c);

#endif
