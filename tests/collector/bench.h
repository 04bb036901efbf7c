/*
 * bench - the collector's drain, or the merge of one process, in the test's own process: what comes
 * over the wire is written by hand (producer.h). Start at open_bench() or open_merge().
 */
#ifndef TB_TESTS_BENCH_H
#define TB_TESTS_BENCH_H

#include "tests/collector/harness.h"

#include "collector/collector_internal.h"
#include "tests/collector/producer.h"

#define NONCE 99u /* of the first process, the second has the next one */
#define SECOND 1000000000ull

/* A store, a drain and one or two processes; or, without the drain, a merge of one process. */
struct bench {
    struct tb_store *store;
    struct tb_drain *drain;
    struct tb_wire_bell bell;
    struct tb_col_process process[2];
    struct tb_sink sink;
    struct tb_merge *merge;
};

/** open_bench - with a drain and @processes */
void open_bench(struct bench *b, unsigned processes);
void post(struct bench *b, unsigned process, enum tb_drain_kind kind, void *map, size_t bytes,
          uint32_t thread);
void post_ring(struct bench *b, unsigned process, struct producer *p);
void post_slots(struct bench *b, unsigned process, struct device *d);
/** close_bench - the processes end; the trace is closed and opened for reading */
struct tb_trace *close_bench(struct bench *b, unsigned processes);

/** open_merge - without a drain: the test calls tb_merge_run() itself, and gives it the time */
void open_merge(struct bench *b);
void merge_ring(struct bench *b, struct producer *p);
void merge_slots(struct bench *b, struct device *d);
struct tb_trace *close_merge(struct bench *b);

/** assert_row - coverage rows of @kind with @text in subject or detail: their count and severity */
void assert_row(struct tb_trace *t, const char *kind, const char *text, uint64_t count,
                uint32_t severity);

#endif
