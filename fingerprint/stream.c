/* Streaming: bytes arrive in pieces of any size. */
#include <string.h>

#include "fingerprint/fp_internal.h"

void tb_fp_stream_init(struct tb_fp_stream *s, uint64_t base)
{
    s->body = (struct tb_fp){0, 0};
    s->base = base;
    s->n = 0;
    s->filled = 0;
}

/* Index of the leaf that the waiting bytes belong to. */
static uint64_t next_index(const struct tb_fp_stream *s)
{
    return s->base + (s->n - s->filled) / TB_FP_LEAF;
}

/* Takes up to what is missing of the waiting leaf; returns how much that was. */
static size_t top_up(struct tb_fp_stream *s, const uint8_t *p, size_t n)
{
    size_t take = TB_FP_LEAF - s->filled < n ? TB_FP_LEAF - s->filled : n;

    memcpy(s->buf + s->filled, p, take);
    s->filled += (uint32_t)take;
    s->n += take;
    if (s->filled == TB_FP_LEAF) {
        s->body = tb_fp_add(s->body, fp_full_body(s->buf, 1, next_index(s)));
        s->filled = 0;
    }
    return take;
}

void tb_fp_stream_update(struct tb_fp_stream *s, const void *src, size_t n)
{
    const uint8_t *p = src;
    size_t take;

    if (n > 0 && s->filled > 0) {
        take = top_up(s, p, n);
        p += take;
        n -= take;
    }
    if (n >= TB_FP_LEAF) {
        take = n / TB_FP_LEAF * TB_FP_LEAF;
        s->body = tb_fp_add(s->body, fp_full_body(p, take / TB_FP_LEAF, next_index(s)));
        s->n += take;
        p += take;
        n -= take;
    }
    if (n > 0)
        top_up(s, p, n);
}

struct tb_fp tb_fp_stream_final(const struct tb_fp_stream *s)
{
    struct tb_fp rest = tb_fp_body(s->buf, s->filled, next_index(s));

    return tb_fp_add(tb_fp_add(s->body, rest), tb_fp_length(s->n));
}
