/*
 * What the tests of store/ share: a folder of their own, a seeded generator, and a model of a
 * recording that can be written in several ways and compared with what is read back.
 */
#ifndef TB_TESTS_STORE_MAKE_H
#define TB_TESTS_STORE_MAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"
#include "store/store.h"

/** make_folder - a new folder, its path valid until the next call; make_clean - remove all below it
 */
const char *make_folder(void);
void make_clean(const char *folder);
/** make_path - "<folder>/<name>", one of four buffers in turn */
const char *make_path(const char *folder, const char *name);
void *make_read_file(const char *path, size_t *n);
void make_write_file(const char *path, const void *data, size_t n);
bool make_exists(const char *path);

uint64_t make_rand(uint64_t *state);
/** make_seed - TB_TEST_SEED, else @fallback; printed by the test that fails */
uint64_t make_seed(uint64_t fallback);

/* @call is given &make_error and must succeed. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        enum tb_status st_ = (call);                                                               \
        if (st_ != TB_OK)                                                                          \
            fail_msg("%s: %s", tb_status_name(st_), make_error.text);                              \
    } while (0)
extern struct tb_error make_error; /* pass &make_error to what assert_ok() calls */

/** struct made_event - an event of the model; site, range and thread are indices, not ids */
struct made_event {
    uint32_t thread, site, range, accesses;
    uint8_t kind;
    uint16_t flags;
    uint64_t step, args;
    struct tb_store_access *access;
};
struct model {
    uint32_t processes, threads, sites, ranges;
    char **site, **range; /* texts */
    uint32_t *site_accesses;
    char (*site_mode)[8];      /* modes of the first accesses */
    uint32_t *thread_process;  /* by thread */
    struct made_event **event; /* [thread][i] */
    uint32_t *events;          /* by thread */
};
/** model_new - @events in each of @threads; @big: the largest number of accesses of a site */
struct model *model_new(uint64_t seed, uint32_t processes, uint32_t threads, uint32_t events,
                        uint32_t sites, uint32_t big);
void model_free(struct model *m);

/** struct written - what a writer was given, in order, with the ids it gave back */
struct written {
    size_t n;
    uint64_t *id;
    struct tb_store_event *e;
    const struct made_event **from;
    uint32_t *process;
};
/**
 * model_write - write @m to @s; @variant chooses interleaving, pids, seq, times, allocations,
 * flushes Fills @w (freed by written_free()); asserts that each call succeeds. Does not close @s.
 */
void model_write(const struct model *m, struct tb_store *s, uint64_t variant, struct written *w);
void written_free(struct written *w);
/** model_compare - assert that the trace holds exactly what was written, by process and by thread
 */
void model_compare(const struct model *m, const struct written *w, struct tb_trace *t);
struct tb_store_access model_access(const struct tb_store_access *from, uint64_t variant);

#endif
