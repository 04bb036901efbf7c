/* pytap_internal.h - what the files of the Python tap share. Start at struct tb_pt_ctx. */
#ifndef TB_RECORDER_PYTAP_INTERNAL_H
#define TB_RECORDER_PYTAP_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "recorder/pytap/pytap.h"

struct tb_pt_access {
    char mode;
    uint8_t dtype, elem, ndim, fp_kind;
    uint32_t flags, arg, device;
    const char *ptr;
    uint64_t storage, storage_ptr, storage_bytes;
    uint64_t alloc, bytes; /* bytes of all elements */
    int64_t offset;
    size_t dims; /* where its sizes and strides start in the context's */
    struct tb_fp fp;
};

struct tb_pt_snap {
    void *handle;
    uint32_t access;
};
#define TB_PT_SNAPS 64

/* One running operator, or one event in the making; reused, so that its memory stays. */
struct tb_pt_ctx {
    uint32_t op;
    uint8_t kind;
    bool partial, inputs_hashed;
    uint64_t open, args, time_ns;
    struct tb_pt_access *access;
    size_t count, capacity;
    int64_t *dims;
    size_t dim_count, dim_capacity;
    int32_t snap_spec;
    uint32_t snap_count;
    struct tb_pt_snap snaps[TB_PT_SNAPS];
};

#define TB_PT_DEPTH 16 /* a dispatch mode is off while its handler runs: more than one is rare */
#define TB_PT_MODULES 1024

struct tb_pt_thread {
    uint32_t modules[TB_PT_MODULES]; /* ids of module paths, innermost last */
    uint32_t depth, low;             /* of modules; lowest since the last operator */
    uint32_t base;                   /* modules below it were entered before the backward node */
    uint32_t backward_module, node_name;
    int64_t node, last_seq;
    bool optimizer;
    int32_t suppressed;
    uint32_t line;
    uint64_t range_key;
    uint32_t range, generation;
    struct tb_pt_ctx ctx[TB_PT_DEPTH];
    uint32_t running;
    struct tb_wire_access *wire;
    size_t wire_capacity;
    char *text;
    size_t text_size, text_capacity;
};

enum tb_pt_origin { TB_PT_UNKNOWN = 0, TB_PT_EMPTY, TB_PT_EXTERNAL };

struct tb_pt_alloc {
    uint64_t key; /* the storage; 0: free slot, 1: deleted */
    uint64_t ptr, bytes, id;
    uint8_t origin;
    bool hashed;
    uint64_t writes, last_seq, last_key; /* of the last recorded write; TB_REC_NO_SEQ: none */
    uint32_t writer;
    struct tb_fp last_fp;
};

#define TB_PT_SEQS (1u << 16)
#define TB_PT_SNAP_SPECS 64

struct tb_pt_spec {
    uint64_t step, k, seen;
    char range[400], op[200];
};

/*
 * The tap's one state, in pytap.c. Written by twinbit_tap_init() before any thread records; after
 * that every field but the first three is read and written under its lock, or atomically.
 */
struct tb_pt_global {
    const struct tb_rec_api *api;
    bool inputs, window;
    uint64_t step;
    pthread_mutex_t lock; /* strings, allocations */
    const char **strings;
    uint32_t *string_slots;
    uint32_t string_count, string_capacity;
    struct tb_pt_alloc *allocs;
    size_t alloc_capacity, alloc_used;
    struct {
        int64_t seq;
        uint32_t module;
    } seqs[TB_PT_SEQS]; /* modules of forward nodes; later numbers overwrite */
    struct tb_pt_spec specs[TB_PT_SNAP_SPECS];
    uint32_t spec_count;
};
extern struct tb_pt_global tb_pt;

/* Exhausted memory ends the recording, never the job. */
bool tb_pt_grow(void *array, size_t *capacity, size_t need, size_t element);

static inline uint64_t tb_pt_key(uint64_t h, uint64_t v)
{
    h ^= v * 0x9e3779b97f4a7c15ull;
    return (h << 29 | h >> 35) * 0xbf58476d1ce4e5b9ull;
}

/* ---------------------------------------------------------------- strings.c */
uint32_t tb_pt_intern(const char *s);
const char *tb_pt_string(uint32_t id);
void tb_pt_put(struct tb_pt_thread *t, const char *s);
void tb_pt_put_char(struct tb_pt_thread *t, char c);
void tb_pt_put_number(struct tb_pt_thread *t, int64_t v);

/* ---------------------------------------------------------------- allocs.c; the caller holds
 * tb_pt.lock */
struct tb_pt_alloc *tb_pt_alloc_find(const struct tb_pt_access *a);
void tb_pt_alloc_drop(uint64_t key);

/* ---------------------------------------------------------------- access.c */
bool tb_pt_read_words(struct tb_pt_ctx *c, const int64_t *words, uint64_t n);
void tb_pt_hash(const struct tb_pt_ctx *c, struct tb_pt_access *a);
uint64_t tb_pt_extent_key(const struct tb_pt_ctx *c, const struct tb_pt_access *a);
uint64_t tb_pt_site_key(const struct tb_pt_ctx *c);
void tb_pt_site_text(struct tb_pt_thread *t, const struct tb_pt_ctx *c);
struct tb_fp tb_pt_rng(const void *state, uint64_t n, uint8_t *kind);

/* ---------------------------------------------------------------- event.c */
const char *tb_pt_phase(const struct tb_pt_thread *t);
uint32_t tb_pt_module(const struct tb_pt_thread *t);
void tb_pt_ctx_begin(struct tb_pt_ctx *c, uint32_t op, uint8_t kind);
void tb_pt_resolve(struct tb_pt_ctx *c, struct tb_rec_thread *rt, size_t from);
void tb_pt_note_writes(struct tb_pt_ctx *c, size_t from, uint64_t seq);
uint64_t tb_pt_emit(struct tb_pt_thread *t, struct tb_pt_ctx *c, struct tb_rec_thread *rt,
                    uint16_t flags);

/* ---------------------------------------------------------------- snapshot.c */
void tb_pt_snap_parse(const char *events);
void tb_pt_snap_match(const struct tb_pt_thread *t, struct tb_pt_ctx *c);
void tb_pt_snap_take(struct tb_pt_ctx *c, struct tb_rec_thread *rt, size_t from, char mode);
void tb_pt_snap_send(struct tb_pt_ctx *c, struct tb_rec_thread *rt, uint64_t seq);
void tb_pt_snap_new_step(void);

#endif
