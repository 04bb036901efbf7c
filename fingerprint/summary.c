/* The numeric summary of a buffer, in one pass, a loop for each way an element is stored. */
#include <string.h>

#include "fingerprint/fingerprint.h"
#include "fingerprint/fp_convert.h"

#define LANES 4 /* element k belongs to lane k % LANES: the lanes' chains overlap in the CPU */

/*
 * Running figures. A lane's sum goes by index and lanes are added in order, so the mean of a buffer
 * is the same everywhere. f64 is summed wide: finite doubles may add up to more than the largest.
 */
struct tally {
    uint64_t nan, inf, zero, subnormal;
    double min[LANES], max[LANES], sum[LANES];
    long double wide[LANES];
};

/* Loops over the elements of @type, lane by lane; ONE(u, lane) tells one of them. */
#define LOOP(name, type, ONE)                                                                      \
    static void name(const uint8_t *p, size_t count, struct tally *out)                            \
    {                                                                                              \
        struct tally t = *out;                                                                     \
        size_t k = 0;                                                                              \
        type u[LANES];                                                                             \
                                                                                                   \
        for (; k + LANES <= count; k += LANES) {                                                   \
            memcpy(u, p + k * sizeof(type), sizeof u);                                             \
            ONE(&t, u[0], 0);                                                                      \
            ONE(&t, u[1], 1);                                                                      \
            ONE(&t, u[2], 2);                                                                      \
            ONE(&t, u[3], 3);                                                                      \
        }                                                                                          \
        for (unsigned lane = 0; k < count; k++, lane++) {                                          \
            memcpy(u, p + k * sizeof(type), sizeof(type));                                         \
            ONE(&t, u[0], lane);                                                                   \
        }                                                                                          \
        *out = t;                                                                                  \
    }

static inline __attribute__((always_inline)) void add_number(struct tally *t, double x,
                                                             unsigned lane)
{
    t->min[lane] = x < t->min[lane] ? x : t->min[lane];
    t->max[lane] = x > t->max[lane] ? x : t->max[lane];
    t->zero += x == 0;
}

/* A float format: the patterns without the sign from which on a number is no longer finite, is NaN,
 * is normal. */
struct limits {
    uint64_t top, nans, normal;
};

/* Counts @bits (without the sign) and says whether they are a finite number. */
static inline __attribute__((always_inline)) bool add_class(struct tally *t, uint64_t bits,
                                                            struct limits l)
{
    t->subnormal += bits - 1 < l.normal - 1;
    if (__builtin_expect(bits < l.top, 1))
        return true;
    t->nan += bits >= l.nans;
    t->inf += bits < l.nans;
    return false;
}

#define ONE_FLOAT(t, u, lane, mask, value, ...)                                                    \
    do {                                                                                           \
        if (add_class(t, (u) & (mask), (struct limits){__VA_ARGS__})) {                            \
            double x_ = value(u);                                                                  \
            add_number(t, x_, lane);                                                               \
            (t)->sum[lane] += x_;                                                                  \
        }                                                                                          \
    } while (0)

static inline double f32_value(uint32_t u)
{
    return (double)fp_from_bits32(u);
}

#define ONE_F32(t, u, lane)                                                                        \
    ONE_FLOAT(t, u, lane, 0x7FFFFFFFu, f32_value, 0x7F800000, 0x7F800001, 0x00800000)
#define ONE_F16(t, u, lane) ONE_FLOAT(t, u, lane, 0x7FFFu, fp_f16, 0x7C00, 0x7C01, 0x0400)
#define ONE_BF16(t, u, lane) ONE_FLOAT(t, u, lane, 0x7FFFu, fp_bf16, 0x7F80, 0x7F81, 0x0080)
#define ONE_F8E4M3(t, u, lane) ONE_FLOAT(t, u, lane, 0x7Fu, fp_f8e4m3, 0x7F, 0x7F, 0x08)
#define ONE_F8E5M2(t, u, lane) ONE_FLOAT(t, u, lane, 0x7Fu, fp_f8e5m2, 0x7C, 0x7D, 0x04)

#define ONE_F64(t, u, lane)                                                                        \
    do {                                                                                           \
        const struct limits l_ = {0x7FF0000000000000, 0x7FF0000000000001, 0x0010000000000000};     \
        if (add_class(t, (u)&INT64_MAX, l_)) {                                                     \
            add_number(t, fp_from_bits64(u), lane);                                                \
            (t)->wide[lane] += (long double)fp_from_bits64(u);                                     \
        }                                                                                          \
    } while (0)

#define ONE_INT(t, u, lane)                                                                        \
    do {                                                                                           \
        add_number(t, (double)(u), lane);                                                          \
        (t)->sum[lane] += (double)(u);                                                             \
    } while (0)
#define ONE_BOOL(t, u, lane) ONE_INT(t, (u) != 0, lane)

LOOP(sum_f32, uint32_t, ONE_F32)
LOOP(sum_f16, uint16_t, ONE_F16)
LOOP(sum_bf16, uint16_t, ONE_BF16)
LOOP(sum_f8e4m3, uint8_t, ONE_F8E4M3)
LOOP(sum_f8e5m2, uint8_t, ONE_F8E5M2)
LOOP(sum_f64, uint64_t, ONE_F64)
LOOP(sum_u8, uint8_t, ONE_INT)
LOOP(sum_i8, int8_t, ONE_INT)
LOOP(sum_i16, int16_t, ONE_INT)
LOOP(sum_i32, int32_t, ONE_INT)
LOOP(sum_i64, int64_t, ONE_INT)
LOOP(sum_u16, uint16_t, ONE_INT)
LOOP(sum_u32, uint32_t, ONE_INT)
LOOP(sum_u64, uint64_t, ONE_INT)
LOOP(sum_bool, uint8_t, ONE_BOOL)

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

static void finish(const struct tally *t, uint64_t finite, struct tb_summary *out)
{
    long double sum = 0;

    out->min = INFINITY;
    out->max = -INFINITY;
    for (int k = 0; k < LANES; k++) {
        out->min = t->min[k] < out->min ? t->min[k] : out->min;
        out->max = t->max[k] > out->max ? t->max[k] : out->max;
        sum += t->wide[k] + (long double)t->sum[k];
    }
    out->absmax = -out->min > out->max ? -out->min : out->max;
    out->mean = (double)(sum / (long double)finite);
}

enum tb_status tb_summarize(const void *src, enum tb_dtype dt, size_t count, struct tb_summary *out)
{
    struct tally t = {.nan = 0};

    if ((unsigned)dt >= TB_DT_COUNT || !loops[dt].run || (!src && count > 0))
        return TB_ERR_ARG;
    for (int k = 0; k < LANES; k++) {
        t.min[k] = INFINITY;
        t.max[k] = -INFINITY;
    }
    count *= loops[dt].parts;
    loops[dt].run(src, count, &t);
    *out = (struct tb_summary){
        .count = count, .nan = t.nan, .inf = t.inf, .zero = t.zero, .subnormal = t.subnormal};
    if (count > t.nan + t.inf)
        finish(&t, count - t.nan - t.inf, out);
    return TB_OK;
}
