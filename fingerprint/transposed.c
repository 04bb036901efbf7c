/*
 * Views whose two inner dimensions are a transposed matrix: a unit's neighbour in memory is the one
 * below it in the same column. Gathered row by row, each row would visit every cache line of the
 * matrix again; so rows are gathered together, a block of columns after the other.
 *
 * Short rows: all rows of a window of eight leaves. Long rows: eight rows side by side, each with
 * the leaf it is filling; a leaf that holds parts of two rows is gathered by itself afterwards.
 */
#include <string.h>

#include "fingerprint/fp_view.h"

#define WINDOW (8 * TB_FP_LEAF)
#define SHORT_ROW (WINDOW / 4) /* bytes; longer rows go side by side */
#define ROWS 8                 /* side by side */
#define TILE 512               /* bytes of each row gathered at a time */
#define COLUMNS 16             /* of a block */

/* Bytes of a row of the inner matrix, and its number of rows. */
static size_t row_bytes(const struct fp_view *v)
{
    return (size_t)v->size[v->ndim - 1] * v->unit;
}

bool fp_is_transposed(const struct fp_view *v)
{
    size_t u = v->unit;

    return v->ndim >= 2 && v->step[v->ndim - 2] == (int64_t)u && u <= 16 && (u & (u - 1)) == 0 &&
           v->size[v->ndim - 1] >= 4 && v->bytes >= TB_FP_LEAF;
}

/* @rows x @columns units to @dst, rows @pitch bytes apart; columns lie @step bytes apart at @src.
 */
static inline __attribute__((always_inline)) void copy_block(uint8_t *dst, size_t pitch,
                                                             const uint8_t *src, int64_t step,
                                                             size_t rows, size_t columns,
                                                             size_t unit)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            memcpy(dst + r * pitch + c * unit, src + (int64_t)c * step + r * unit, unit);
}

static inline __attribute__((always_inline)) void copy_matrix(uint8_t *dst, size_t pitch,
                                                              const uint8_t *src, int64_t step,
                                                              size_t rows, size_t columns,
                                                              size_t unit)
{
    size_t c = 0;

    for (; c + COLUMNS <= columns; c += COLUMNS)
        copy_block(dst + c * unit, pitch, src + (int64_t)c * step, step, rows, COLUMNS, unit);
    copy_block(dst + c * unit, pitch, src + (int64_t)c * step, step, rows, columns - c, unit);
}

static void transpose(uint8_t *dst, size_t pitch, const uint8_t *src, int64_t step, size_t rows,
                      size_t columns, size_t unit)
{
    switch (unit) {
    case 1:
        copy_matrix(dst, pitch, src, step, rows, columns, 1);
        break;
    case 2:
        copy_matrix(dst, pitch, src, step, rows, columns, 2);
        break;
    case 4:
        copy_matrix(dst, pitch, src, step, rows, columns, 4);
        break;
    case 8:
        copy_matrix(dst, pitch, src, step, rows, columns, 8);
        break;
    default:
        copy_matrix(dst, pitch, src, step, rows, columns, 16);
    }
}

/* ---- short rows ---- */

/* Whole rows if the cursor stands at the begin of one, else the rest of the row, at most @want. */
static size_t take_rows(struct fp_cursor *c, uint8_t *dst, size_t want)
{
    const struct fp_view *v = c->v;
    int last = v->ndim - 1;
    size_t row = row_bytes(v);
    size_t here = row - (size_t)c->index[last] * v->unit - c->off;
    uint64_t rows = v->size[last - 1] - c->index[last - 1];

    if (rows > want / row)
        rows = want / row;
    if (here < row || rows < 2) {
        here = here < want ? here : want;
        fp_gather(c, dst, here);
        return here;
    }
    transpose(dst, row, c->p, v->step[last], (size_t)rows, (size_t)v->size[last], v->unit);
    fp_advance(c, last - 1, rows);
    return (size_t)rows * row;
}

static struct tb_fp short_rows(const struct fp_view *v, uint64_t pos, uint64_t end)
{
    uint8_t buf[WINDOW] __attribute__((aligned(64)));
    struct tb_fp sum = {0, 0};
    struct fp_cursor c;

    fp_seek(&c, v, pos);
    while (pos < end) {
        size_t n = end - pos < WINDOW ? (size_t)(end - pos) : WINDOW;

        for (size_t at = 0; at < n;)
            at += take_rows(&c, buf + at, n - at);
        sum = tb_fp_add(sum, tb_fp_body(buf, n, pos / TB_FP_LEAF));
        pos += n;
    }
    return sum;
}

/* ---- long rows ---- */

static struct tb_fp single_leaf(const struct fp_view *v, uint64_t pos, size_t n)
{
    uint8_t buf[TB_FP_LEAF];
    struct fp_cursor c;

    fp_seek(&c, v, pos);
    fp_gather(&c, buf, n);
    return tb_fp_body(buf, n, pos / TB_FP_LEAF);
}

/* A row on its way: @fill bytes of the leaf at @index are there; @whole: none of them is missing.
 */
struct lane {
    uint8_t buf[TB_FP_LEAF + TILE];
    size_t fill;
    uint64_t index;
    bool whole;
};

static void lane_init(struct lane *l, uint64_t byte)
{
    l->fill = (size_t)(byte % TB_FP_LEAF);
    l->index = byte / TB_FP_LEAF;
    l->whole = l->fill == 0;
}

/* @n bytes more, at most TILE; what they complete. */
static struct tb_fp lane_add(struct lane *l, const uint8_t *src, size_t n)
{
    struct tb_fp sum = {0, 0};

    memcpy(l->buf + l->fill, src, n);
    l->fill += n;
    if (l->fill < TB_FP_LEAF)
        return sum;
    if (l->whole)
        sum = fp_full_body(l->buf, 1, l->index);
    l->fill -= TB_FP_LEAF;
    memcpy(l->buf, l->buf + TB_FP_LEAF, l->fill);
    l->index++;
    l->whole = true;
    return sum;
}

/* The whole leaves inside each of @rows rows that begin at byte @begin. */
static struct tb_fp side_by_side(const struct fp_view *v, uint64_t begin, size_t rows)
{
    struct lane lane[ROWS];
    uint8_t tile[ROWS * TILE] __attribute__((aligned(64)));
    struct tb_fp sum = {0, 0};
    struct fp_cursor c;
    size_t columns = (size_t)v->size[v->ndim - 1];
    int64_t step = v->step[v->ndim - 1];
    size_t most = TILE / v->unit;

    for (size_t r = 0; r < rows; r++)
        lane_init(&lane[r], begin + r * row_bytes(v));
    fp_seek(&c, v, begin);
    for (size_t at = 0; at < columns; at += most) {
        size_t k = columns - at < most ? columns - at : most;

        transpose(tile, TILE, c.p + (int64_t)at * step, step, rows, k, v->unit);
        for (size_t r = 0; r < rows; r++)
            sum = tb_fp_add(sum, lane_add(&lane[r], tile + r * TILE, k * v->unit));
    }
    return sum;
}

/* Rows from @pos on that can go side by side and end at or before @end; @pos is a leaf's begin. */
static size_t group_rows(const struct fp_view *v, uint64_t pos, uint64_t end)
{
    uint64_t row = pos / row_bytes(v);
    uint64_t ended = end / row_bytes(v);
    uint64_t rows = v->size[v->ndim - 2] - row % v->size[v->ndim - 2];

    if (pos % row_bytes(v) >= TB_FP_LEAF)
        return 0; /* whole leaves of this row lie before @pos */
    if (ended < row + rows)
        rows = ended - row;
    return rows < ROWS ? (size_t)rows : ROWS;
}

/* All leaves from the first that begins in row @row to the last that ends in row @row + @rows - 1.
 */
static struct tb_fp group(const struct fp_view *v, uint64_t row, size_t rows)
{
    uint64_t begin = row * row_bytes(v);
    struct tb_fp sum = side_by_side(v, begin, rows);

    for (size_t r = 1; r < rows; r++) {
        uint64_t seam = begin + r * row_bytes(v);
        uint64_t leaf = seam / TB_FP_LEAF * TB_FP_LEAF;

        if (leaf != seam)
            sum = tb_fp_add(sum, single_leaf(v, leaf, TB_FP_LEAF));
    }
    return sum;
}

static struct tb_fp long_rows(const struct fp_view *v, uint64_t pos, uint64_t end)
{
    struct tb_fp sum = {0, 0};

    while (pos < end) {
        uint64_t row = pos / row_bytes(v);
        size_t rows = group_rows(v, pos, end);
        size_t n = end - pos < TB_FP_LEAF ? (size_t)(end - pos) : TB_FP_LEAF;

        if (rows >= 2) {
            sum = tb_fp_add(sum, group(v, row, rows));
            pos = (row + rows) * row_bytes(v) / TB_FP_LEAF * TB_FP_LEAF;
        } else {
            sum = tb_fp_add(sum, single_leaf(v, pos, n));
            pos += n;
        }
    }
    return sum;
}

struct tb_fp fp_transposed_part(const void *view, size_t first, size_t last)
{
    const struct fp_view *v = view;
    uint64_t pos = (uint64_t)first * TB_FP_LEAF;
    uint64_t end = last > v->bytes / TB_FP_LEAF ? v->bytes : (uint64_t)last * TB_FP_LEAF;

    return row_bytes(v) <= SHORT_ROW ? short_rows(v, pos, end) : long_rows(v, pos, end);
}
