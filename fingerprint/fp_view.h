/*
 * fp_view.h - a strided view in its simplest form, and a cursor over its row-major bytes; private.
 */
#ifndef TB_FINGERPRINT_FP_VIEW_H
#define TB_FINGERPRINT_FP_VIEW_H

#include "fingerprint/fp_internal.h"

/*
 * A layout in its simplest form: units of contiguous bytes, and dimensions (outer first) that say
 * where the next unit lies. Sizes are > 1; no dimension of stride 0 is left.
 */
struct fp_view {
    const uint8_t *base;
    size_t unit;
    uint64_t bytes; /* of all units */
    int ndim;
    uint64_t size[TB_FP_MAX_DIMS];
    int64_t step[TB_FP_MAX_DIMS]; /* bytes */
};

/* A place in the row-major byte order of a view. */
struct fp_cursor {
    const struct fp_view *v;
    const uint8_t *p; /* the unit */
    size_t off;       /* in the unit */
    uint64_t index[TB_FP_MAX_DIMS];
};

/* @l is not empty */
void fp_view_init(struct fp_view *v, const void *base, const struct tb_fp_layout *l);
void fp_seek(struct fp_cursor *c, const struct fp_view *v, uint64_t byte);
/* @k steps of dimension @dim on; @k is at most what is left of it */
void fp_advance(struct fp_cursor *c, int dim, uint64_t k);
/* The next @want bytes. */
void fp_gather(struct fp_cursor *c, uint8_t *dst, size_t want);

/**
 * fp_transposed_part - body of leaves [first, last) of a view whose two inner dimensions are a
 * transposed matrix: the next row begins one unit further on
 * fp_is_transposed - whether it is one that pays
 *
 * Rows are gathered several at a time, so that each cache line is read once or twice, not once an
 * element. Stack: 40 KiB.
 */
bool fp_is_transposed(const struct fp_view *v);
struct tb_fp fp_transposed_part(const void *view, size_t first, size_t last);

#endif
