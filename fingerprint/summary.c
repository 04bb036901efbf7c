/* The numeric summary of a buffer, in one pass, a loop for each way an element is stored. */
#include <string.h>

#include "fingerprint/fingerprint.h"
#include "fingerprint/fp_convert.h"

/* Running figures; the sum goes by index, so the mean is the same for a given buffer everywhere. */
struct tally {
    uint64_t nan, inf, zero, subnormal, finite;
    double min, max;
    long double wide; /* f64 only: a sum of finite doubles may leave double's range */
    double sum;
};

static inline void add_finite(struct tally *t, double x)
{
    t->min = x < t->min ? x : t->min;
    t->max = x > t->max ? x : t->max;
    t->zero += x == 0;
    t->finite++;
}

/*
 * One loop over @count elements of @type: BITS is the element's bits without the sign, TOP the
 * first pattern that is not finite, NANS the first that is NaN, NORMAL the first that is normal.
 */
#define FLOAT_LOOP(name, type, MASK, TOP, NANS, NORMAL, VALUE)                                     \
    static void name(const uint8_t *p, size_t count, struct tally *t)                              \
    {                                                                                              \
        for (size_t k = 0; k < count; k++) {                                                       \
            type u;                                                                                \
            memcpy(&u, p + k * sizeof u, sizeof u);                                                \
            type bits = u & (MASK);                                                                \
            if (__builtin_expect(bits >= (TOP), 0)) {                                              \
                t->nan += bits >= (NANS);                                                          \
                t->inf += bits < (NANS);                                                           \
                continue;                                                                          \
            }                                                                                      \
            double x = VALUE;                                                                      \
            t->subnormal += bits != 0 && bits < (NORMAL);                                          \
            add_finite(t, x);                                                                      \
            t->sum += x;                                                                           \
        }                                                                                          \
    }

FLOAT_LOOP(sum_f32, uint32_t, 0x7FFFFFFFu, 0x7F800000u, 0x7F800001u, 0x00800000u,
           (double)fp_from_bits32(u))
FLOAT_LOOP(sum_f16, uint16_t, 0x7FFFu, 0x7C00u, 0x7C01u, 0x0400u, fp_f16(u))
FLOAT_LOOP(sum_bf16, uint16_t, 0x7FFFu, 0x7F80u, 0x7F81u, 0x0080u, fp_bf16(u))
FLOAT_LOOP(sum_f8e4m3, uint8_t, 0x7Fu, 0x7Fu, 0x7Fu, 0x08u, fp_f8e4m3(u))
FLOAT_LOOP(sum_f8e5m2, uint8_t, 0x7Fu, 0x7Cu, 0x7Du, 0x04u, fp_f8e5m2(u))

static void sum_f64(const uint8_t *p, size_t count, struct tally *t)
{
    for (size_t k = 0; k < count; k++) {
        uint64_t u;

        memcpy(&u, p + k * sizeof u, sizeof u);
        uint64_t bits = u & INT64_MAX;

        if (bits >= 0x7FF0000000000000u) {
            t->nan += bits > 0x7FF0000000000000u;
            t->inf += bits == 0x7FF0000000000000u;
            continue;
        }
        t->subnormal += bits != 0 && bits < 0x0010000000000000u;
        add_finite(t, fp_from_bits64(u));
        t->wide += (long double)fp_from_bits64(u);
    }
}

#define INT_LOOP(name, type, VALUE)                                                                \
    static void name(const uint8_t *p, size_t count, struct tally *t)                              \
    {                                                                                              \
        for (size_t k = 0; k < count; k++) {                                                       \
            type u;                                                                                \
            memcpy(&u, p + k * sizeof u, sizeof u);                                                \
            double x = (double)(VALUE);                                                            \
            add_finite(t, x);                                                                      \
            t->sum += x;                                                                           \
        }                                                                                          \
    }

INT_LOOP(sum_u8, uint8_t, u)
INT_LOOP(sum_i8, int8_t, u)
INT_LOOP(sum_i16, int16_t, u)
INT_LOOP(sum_i32, int32_t, u)
INT_LOOP(sum_i64, int64_t, u)
INT_LOOP(sum_u16, uint16_t, u)
INT_LOOP(sum_u32, uint32_t, u)
INT_LOOP(sum_u64, uint64_t, u)
INT_LOOP(sum_bool, uint8_t, u != 0)

static const struct {
    void (*run)(const uint8_t *p, size_t count, struct tally *t);
    unsigned parts; /* numbers an element */
} loops[TB_DT_COUNT] = {
    [TB_DT_U8] = {sum_u8, 1},         [TB_DT_I8] = {sum_i8, 1},
    [TB_DT_I16] = {sum_i16, 1},       [TB_DT_I32] = {sum_i32, 1},
    [TB_DT_I64] = {sum_i64, 1},       [TB_DT_F16] = {sum_f16, 1},
    [TB_DT_F32] = {sum_f32, 1},       [TB_DT_F64] = {sum_f64, 1},
    [TB_DT_BF16] = {sum_bf16, 1},     [TB_DT_BOOL] = {sum_bool, 1},
    [TB_DT_C32] = {sum_f16, 2},       [TB_DT_C64] = {sum_f32, 2},
    [TB_DT_C128] = {sum_f64, 2},      [TB_DT_F8E4M3] = {sum_f8e4m3, 1},
    [TB_DT_F8E5M2] = {sum_f8e5m2, 1}, [TB_DT_U16] = {sum_u16, 1},
    [TB_DT_U32] = {sum_u32, 1},       [TB_DT_U64] = {sum_u64, 1},
};

enum tb_status tb_summarize(const void *src, enum tb_dtype dt, size_t count, struct tb_summary *out)
{
    struct tally t = {.min = INFINITY, .max = -INFINITY};

    if ((unsigned)dt >= TB_DT_COUNT || !loops[dt].run || (!src && count > 0))
        return TB_ERR_ARG;
    count *= loops[dt].parts;
    loops[dt].run(src, count, &t);
    *out = (struct tb_summary){
        .count = count, .nan = t.nan, .inf = t.inf, .zero = t.zero, .subnormal = t.subnormal};
    if (t.finite > 0) {
        out->min = t.min;
        out->max = t.max;
        out->absmax = -t.min > t.max ? -t.min : t.max;
        out->mean = (double)((t.wide + (long double)t.sum) / (long double)t.finite);
    }
    return TB_OK;
}
