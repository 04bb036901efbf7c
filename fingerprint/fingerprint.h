/*
 * fingerprint - the 128-bit fingerprint of tensor bytes, on the host; FORMAT.md defines the value.
 *
 * Start at tb_fp_host(). A fingerprint is the sum of one contribution a 4 KiB leaf, so parts can be
 * added, leaves replaced, and the work split over threads in any way. No state, no allocation in
 * any function here; link libc only (the injected library does).
 */
#ifndef TB_FINGERPRINT_FINGERPRINT_H
#define TB_FINGERPRINT_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/common.h"

#define TB_FP_LEAF 4096u  /* bytes a leaf */
#define TB_FP_MAP_MAX 16u /* parts of a coarse map, at most */
#define TB_FP_MAX_DIMS 64 /* torch's own limit */

/* What a stored fingerprint is a fingerprint of. Values are stored in traces: never reuse one. */
enum tb_fp_kind {
    TB_FP_NONE = 0,     /* no fingerprint */
    TB_FP_BYTES = 1,    /* version 1 over the bytes as they lie in memory (contiguous, row-major) */
    TB_FP_ROWMAJOR = 2, /* version 1 over the elements of a strided view in row-major order */
    TB_FP_SCALAR = 3, /* not a hash: a scalar's 16 bytes (value as f64 or i64 first, zeros after) */
    TB_FP_STATE = 4,  /* version 1 over a canonical encoding of a state (RNG) */
    /* the sum over some of the leaves, chosen by their index (FORMAT.md section 13), plus L(n) */
    TB_FP_SAMPLED = 5,
    /* a write that may have been, and left the bytes as they were: hashed before and after it (then
     * of kind BYTES), or believed since earlier launches left them alone (then zeros) */
    TB_FP_UNCHANGED = 6,
};

/** struct tb_fp - a fingerprint or a body; stored as 16 bytes, a then b, little-endian */
struct tb_fp {
    uint64_t a;
    uint64_t b;
};

/** struct tb_fp_leaf - XXH3-128 of one leaf's bytes: low64 and high64 as libxxhash names them */
struct tb_fp_leaf {
    uint64_t lo;
    uint64_t hi;
};

/** struct tb_fp_layout - strided view: element (i0,i1,..) begins at base + elem * sum(i * stride)
 */
struct tb_fp_layout {
    uint32_t elem;          /* bytes an element, 1..16 */
    int32_t ndim;           /* 0..TB_FP_MAX_DIMS; 0 is one element */
    const int64_t *sizes;   /* @ndim, >= 0 */
    const int64_t *strides; /* @ndim, in elements, any sign */
};

/**
 * struct tb_fp_pool - somebody's thread pool, lent for one call
 * @run:     call @body(@arg, begin, end) over disjoint ranges that cover [0, n), return when all
 *           are done
 * @threads: how many it has; 0 or 1: @run is never called
 * @min:     below this many bytes the calling thread works alone
 */
struct tb_fp_pool {
    void (*run)(void *ctx, void (*body)(void *arg, size_t begin, size_t end), void *arg, size_t n);
    void *ctx;
    unsigned threads;
    size_t min;
};

/**
 * tb_fp_init - choose the widest XXH3 this machine and its libxxhash offer (libxxhash is dlopened)
 *
 * Calling it is optional (the value never depends on it, only the speed). Whole leaves go through
 * an AVX2 kernel of our own where the CPU has it. Threads: one, before others. Keeps errno.
 */
void tb_fp_init(void);
/** tb_fp_impl - "avx2, libxxhash-dispatch 0.8.1", "builtin", ...; static */
const char *tb_fp_impl(void);

/** tb_fp_leaf_hash - XXH3-128, seed 0, of @n bytes, 0 <= n <= TB_FP_LEAF */
struct tb_fp_leaf tb_fp_leaf_hash(const void *src, size_t n);
/** tb_fp_mix - the contribution of leaf digest @d at logical index @index (FORMAT.md) */
struct tb_fp tb_fp_mix(struct tb_fp_leaf d, uint64_t index);
/** tb_fp_length - L(n), what a fingerprint has beyond its body; injective */
struct tb_fp tb_fp_length(uint64_t n);

static inline struct tb_fp tb_fp_add(struct tb_fp x, struct tb_fp y)
{
    return (struct tb_fp){x.a + y.a, x.b + y.b};
}
static inline struct tb_fp tb_fp_sub(struct tb_fp x, struct tb_fp y)
{
    return (struct tb_fp){x.a - y.a, x.b - y.b};
}
static inline bool tb_fp_equal(struct tb_fp x, struct tb_fp y)
{
    return x.a == y.a && x.b == y.b;
}
/** tb_fp_store / tb_fp_load - the 16 stored bytes */
void tb_fp_store(uint8_t out[16], struct tb_fp fp);
struct tb_fp tb_fp_load(const uint8_t in[16]);

/**
 * tb_fp_body - sum of the contributions of @n bytes whose first leaf has index @base
 * tb_fp_host - fingerprint of @n bytes: body at @base plus L(n)
 * @src: HOST memory, any alignment; NULL is legal when n is 0
 */
struct tb_fp tb_fp_body(const void *src, size_t n, uint64_t base);
struct tb_fp tb_fp_host(const void *src, size_t n, uint64_t base);
/** tb_fp_host_pool - tb_fp_host() with a lent thread pool; @pool may be NULL */
struct tb_fp tb_fp_host_pool(const void *src, size_t n, uint64_t base,
                             const struct tb_fp_pool *pool);

/**
 * tb_fp_sampled - fingerprint of one leaf in @rate, chosen by their index: kind TB_FP_SAMPLED
 * @rate: 0 or 1: all leaves, the value of tb_fp_host() at base 0 (kind TB_FP_BYTES)
 */
struct tb_fp tb_fp_sampled(const void *src, size_t n, uint32_t rate);

/** tb_fp_leaf_count - leaves of n bytes: 0 for 0, else ceil(n / TB_FP_LEAF) */
static inline size_t tb_fp_leaf_count(size_t n)
{
    return n / TB_FP_LEAF + (n % TB_FP_LEAF != 0);
}
/** tb_fp_leaves - write all leaf digests of @n bytes to @out[tb_fp_leaf_count(n)] */
void tb_fp_leaves(const void *src, size_t n, struct tb_fp_leaf *out);
/** tb_fp_of_leaves - body of @count leaf digests, the first at index @base */
struct tb_fp tb_fp_of_leaves(const struct tb_fp_leaf *leaves, size_t count, uint64_t base);
/** tb_fp_update - @fp (or body) after the leaf at @index went from @before to @after */
struct tb_fp tb_fp_update(struct tb_fp fp, uint64_t index, struct tb_fp_leaf before,
                          struct tb_fp_leaf after);
/**
 * tb_fp_map - coarse map: bodies over at most TB_FP_MAP_MAX equal runs of leaves (the last may be
 * shorter); their sum plus L(n) is the fingerprint. Returns how many were written to @out; none
 * for n = 0.
 */
unsigned tb_fp_map(const void *src, size_t n, struct tb_fp out[TB_FP_MAP_MAX]);
/** tb_fp_map_leaves - leaves in each part of the map of @n bytes, the last part aside */
static inline size_t tb_fp_map_leaves(size_t n)
{
    size_t leaves = tb_fp_leaf_count(n);
    return leaves / TB_FP_MAP_MAX + (leaves % TB_FP_MAP_MAX != 0);
}

/** struct tb_fp_stream - streaming: init, update any number of times with any sizes, final */
struct tb_fp_stream {
    struct tb_fp body;
    uint64_t base;
    uint64_t n;      /* bytes so far */
    uint32_t filled; /* bytes waiting in buf */
    uint8_t buf[TB_FP_LEAF];
};
void tb_fp_stream_init(struct tb_fp_stream *s, uint64_t base);
void tb_fp_stream_update(struct tb_fp_stream *s, const void *src, size_t n);
struct tb_fp tb_fp_stream_final(const struct tb_fp_stream *s);

/**
 * tb_fp_layout_contiguous - true if row-major order is memory order (sizes of 1 do not count)
 * tb_fp_layout_bytes - bytes of all elements in row-major order; dimensions of stride 0 count once
 */
bool tb_fp_layout_contiguous(const struct tb_fp_layout *l);
uint64_t tb_fp_layout_bytes(const struct tb_fp_layout *l);
/**
 * tb_fp_strided - fingerprint of the elements of a strided view in row-major order, no copy of the
 * whole (a leaf at a time; eight for transposed matrices, at most 48 KiB of stack); dimensions of
 * stride 0 and size > 1 are hashed once. For a contiguous layout the value equals tb_fp_host() of
 * its bytes.
 * @pool: may be NULL
 */
struct tb_fp tb_fp_strided(const void *base, const struct tb_fp_layout *l,
                           const struct tb_fp_pool *pool);

/*
 * Element types, by torch's names; complex ones are of f16, f32, f64; the f8 types are torch's
 * float8_e4m3fn and float8_e5m2. Values are stored in traces: never reuse one.
 */
enum tb_dtype {
    TB_DT_UNKNOWN = 0,
    TB_DT_U8 = 1,
    TB_DT_I8 = 2,
    TB_DT_I16 = 3,
    TB_DT_I32 = 4,
    TB_DT_I64 = 5,
    TB_DT_F16 = 6,
    TB_DT_F32 = 7,
    TB_DT_F64 = 8,
    TB_DT_BF16 = 9,
    TB_DT_BOOL = 10,
    TB_DT_C32 = 11,
    TB_DT_C64 = 12,
    TB_DT_C128 = 13,
    TB_DT_F8E4M3 = 14,
    TB_DT_F8E5M2 = 15,
    TB_DT_U16 = 16,
    TB_DT_U32 = 17,
    TB_DT_U64 = 18,
    TB_DT_COUNT
};
/** tb_dtype_name - "f32", "bf16", ...: the short name in site texts; "?" if unknown */
const char *tb_dtype_name(enum tb_dtype dt);
enum tb_dtype tb_dtype_from_name(const char *name, size_t len);
/** tb_dtype_size - bytes an element; 0 if unknown */
unsigned tb_dtype_size(enum tb_dtype dt);
/** tb_dtype_to_double - one element as f64 (complex: the real part; i64/u64 rounded) */
double tb_dtype_to_double(enum tb_dtype dt, const void *elem);

/**
 * struct tb_summary - numeric summary of a buffer; complex numbers count as two elements each.
 * min, max, absmax and mean are over the finite elements (0 if there is none).
 */
struct tb_summary {
    uint64_t count, nan, inf, zero, subnormal;
    double min, max, absmax, mean;
};
/** tb_summarize - one pass over @count elements of @dt, contiguous, any alignment */
enum tb_status tb_summarize(const void *src, enum tb_dtype dt, size_t count,
                            struct tb_summary *out) TB_MUST_CHECK;

#endif
