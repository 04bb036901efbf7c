/*
 * draws.h - what the processes of a job drew from the system: counted from their logs, and said as
 * rows of pins. Between draws.c, which keeps the logs, draws_rows.c and draws_cublas.c; start at
 * tb_draws_count().
 */
#ifndef TB_COLLECTOR_DRAWS_H
#define TB_COLLECTOR_DRAWS_H

#include <stdbool.h>
#include <stdint.h>

#include "deterministic/preload/config.h"
#include "deterministic/preload/log.h"
#include "store/store.h"

struct tb_pins;

/** struct tb_draws_cublas - of cuBLAS, as libtwinbit_cublas.so wrote it down */
struct tb_draws_cublas {
    uint64_t handles, others; /* made; of these, without NOT_ALLOWED */
    uint64_t allowed;         /* calls that asked for ALLOWED and got it */
    char asker[160];          /* the first that asked, whether it got it or not */
    uint64_t products, changes, hash;
    uint64_t put_back, refused, unknown; /* of a replay */
    char first[160];                     /* who asked for the first of these */
    bool full;
};

/** struct tb_draws_counts - of one process; zero-initialise */
struct tb_draws_counts {
    uint64_t draws, real, exempt, devices, listings, names, readers, unknown, others, folders;
    char first[160];        /* what a replay did not find: the first */
    char first_folder[120]; /* who asked for the first listing of other names */
    uint64_t seeds, changed;
    char seed[360];  /* the first that was changed */
    uint64_t parted; /* orders that a replay could not repeat */
    char first_parted[400];
    struct tb_draws_order {
        uint64_t decisions, put_back, hash, again, pools;
        int64_t seed, epoch; /* of a sampler's last pass */
    } order[TB_PRELOAD_DECISIONS_END - TB_PRELOAD_STREAM];
    struct tb_draws_cublas cublas;
};

/** tb_draws_count - one event of its log */
void tb_draws_count(struct tb_draws_counts *c, const struct tb_preload_event *e);

/** tb_draws_say - rows of @pins for the process of the log that begins with @f; @sorts:
 * data.completion_order=@sort */
void tb_draws_say(struct tb_pins *pins, const struct tb_preload_file *f,
                  const struct tb_draws_counts *c, bool sorts);

/* draws_cublas.c: one event, false: it is none of cuBLAS; the rows of a process; @c added to what
 * all have; a line if a replay was asked what is not as recorded */
bool tb_draws_count_cublas(struct tb_draws_cublas *c, const struct tb_preload_event *e);
void tb_draws_say_cublas(struct tb_pins *pins, const struct tb_preload_file *f,
                         const struct tb_draws_cublas *c);
void tb_draws_add_cublas(struct tb_draws_cublas *all, const struct tb_draws_cublas *c);
void tb_draws_report_cublas(const struct tb_draws_cublas *c,
                            void (*line)(void *arg, const char *text), void *arg);

/** struct tb_draws_lost - draws_lost.c: what could not be written down; zero-initialise */
struct tb_draws_lost {
    uint64_t processes;
    char program[40]; /* the first */
    bool gone;        /* the job has deleted the folder of the logs */
};

/** tb_draws_table - the table that all processes of @folder share, NULL: it cannot be mapped */
const struct tb_preload_shared *tb_draws_table(const char *folder);
void tb_draws_table_free(const struct tb_preload_shared *table);
void tb_draws_lost_read(struct tb_draws_lost *l, const struct tb_preload_shared *table,
                        const char *folder);
/** tb_draws_lost_store - rows of coverage, tb_draws_lost_rows() of them */
enum tb_status tb_draws_lost_store(const struct tb_draws_lost *l, struct tb_store *store,
                                   struct tb_error *err) TB_MUST_CHECK;
uint64_t tb_draws_lost_rows(const struct tb_draws_lost *l);
void tb_draws_lost_report(const struct tb_draws_lost *l, void (*line)(void *arg, const char *text),
                          void *arg);

#endif
