#include "diff/diff.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a type's bits mean to us: floating types by sign, exponent and mantissa */
struct kind {
    uint8_t size;     /* bytes of one number; complex types hold two */
    uint8_t numbers;  /* 1, complex: 2 */
    uint8_t mantissa; /* bits; 0: not floating */
    uint8_t exponent;
    bool is_signed; /* integers */
    bool fn;        /* no infinities: only all ones is NaN (float8_e4m3fn) */
};

static const struct kind kinds[TB_DT_COUNT] = {
    [TB_DT_U8] = {1, 1, 0, 0, false, false},     [TB_DT_I8] = {1, 1, 0, 0, true, false},
    [TB_DT_I16] = {2, 1, 0, 0, true, false},     [TB_DT_I32] = {4, 1, 0, 0, true, false},
    [TB_DT_I64] = {8, 1, 0, 0, true, false},     [TB_DT_F16] = {2, 1, 10, 5, false, false},
    [TB_DT_F32] = {4, 1, 23, 8, false, false},   [TB_DT_F64] = {8, 1, 52, 11, false, false},
    [TB_DT_BF16] = {2, 1, 7, 8, false, false},   [TB_DT_BOOL] = {1, 1, 0, 0, false, false},
    [TB_DT_C32] = {2, 2, 10, 5, false, false},   [TB_DT_C64] = {4, 2, 23, 8, false, false},
    [TB_DT_C128] = {8, 2, 52, 11, false, false}, [TB_DT_F8E4M3] = {1, 1, 3, 4, false, true},
    [TB_DT_F8E5M2] = {1, 1, 2, 5, false, false}, [TB_DT_U16] = {2, 1, 0, 0, false, false},
    [TB_DT_U32] = {4, 1, 0, 0, false, false},    [TB_DT_U64] = {8, 1, 0, 0, false, false},
};

static uint64_t bits_of(const void *p, unsigned size)
{
    uint64_t v = 0;

    memcpy(&v, p, size); /* little-endian machines only, as the traces */
    return v;
}

static bool is_nan(const struct kind *k, uint64_t bits)
{
    uint64_t exp_mask = ((1ull << k->exponent) - 1) << k->mantissa;
    uint64_t man_mask = (1ull << k->mantissa) - 1;

    if (k->mantissa == 0)
        return false;
    if (k->fn)
        return (bits & (exp_mask | man_mask)) == (exp_mask | man_mask);
    return (bits & exp_mask) == exp_mask && (bits & man_mask) != 0;
}

/* Place of a floating number on the line of all numbers of its type; both zeros have the same */
static int64_t ordinal(const struct kind *k, uint64_t bits)
{
    unsigned width = 8u * k->size;
    uint64_t magnitude = bits & ((1ull << (width - 1)) - 1);

    return bits >> (width - 1) & 1 ? -(int64_t)magnitude : (int64_t)magnitude;
}

static uint64_t distance(const struct kind *k, uint64_t x, uint64_t y)
{
    if (k->mantissa) {
        int64_t i = ordinal(k, x), j = ordinal(k, y);
        return i > j ? (uint64_t)i - (uint64_t)j : (uint64_t)j - (uint64_t)i;
    }
    if (k->is_signed) {
        unsigned up = 64u - 8u * k->size;
        int64_t i = (int64_t)(x << up) >> up, j = (int64_t)(y << up) >> up;
        return i > j ? (uint64_t)i - (uint64_t)j : (uint64_t)j - (uint64_t)i;
    }
    return x > y ? x - y : y - x;
}

static unsigned bin_of(uint64_t ulp)
{
    unsigned bin = 0;

    while (ulp) {
        bin++;
        ulp >>= 1;
    }
    return bin;
}

/* One number of an element; returns its distance, UINT64_MAX with a NaN */
static uint64_t compare_number(const struct kind *k, const uint8_t *a, const uint8_t *b,
                               struct tb_elements *o)
{
    uint64_t x = bits_of(a, k->size), y = bits_of(b, k->size);
    bool nx = is_nan(k, x), ny = is_nan(k, y);

    o->nan_a += nx;
    o->nan_b += ny;
    if (x == y)
        return 0;
    o->bits_all += (unsigned)__builtin_popcountll(x ^ y);
    if (nx || ny) {
        o->nan_bits += nx && ny;
        return UINT64_MAX;
    }
    return distance(k, x, y);
}

static void note_first(struct tb_elements *o, uint64_t i, const uint8_t *a, const uint8_t *b,
                       uint64_t ulp)
{
    o->first = i;
    o->ulp = ulp;
    memcpy(o->a, a, o->size);
    memcpy(o->b, b, o->size);
    for (unsigned j = 0; j < o->size; j++) {
        o->mask[j] = a[j] ^ b[j];
        o->bits += (unsigned)__builtin_popcount(o->mask[j]);
    }
}

static void note_abs(struct tb_elements *o, const uint8_t *a, const uint8_t *b)
{
    double d = fabs(tb_dtype_to_double(o->dtype, a) - tb_dtype_to_double(o->dtype, b));

    if (isfinite(d) && d > o->max_abs)
        o->max_abs = d;
}

static void compare_element(const struct kind *k, uint64_t i, const uint8_t *a, const uint8_t *b,
                            struct tb_elements *o)
{
    uint64_t ulp = 0;

    for (unsigned p = 0; p < k->numbers; p++) {
        uint64_t u = compare_number(k, a + p * k->size, b + p * k->size, o);
        ulp = u > ulp ? u : ulp;
    }
    if (memcmp(a, b, o->size) == 0)
        return;
    if (o->differ++ == 0)
        note_first(o, i, a, b, ulp);
    if (ulp == UINT64_MAX) {
        o->histogram[TB_ULP_BINS - 1]++;
        return;
    }
    o->histogram[bin_of(ulp)]++;
    o->ulp_max = ulp > o->ulp_max ? ulp : o->ulp_max;
    note_abs(o, a, b);
}

static void set_index(struct tb_elements *o, const int64_t *sizes, int ndim)
{
    uint64_t rest = o->first;

    o->ndim = sizes ? ndim : 0;
    for (int d = o->ndim - 1; d >= 0; d--) {
        uint64_t n = sizes[d] > 0 ? (uint64_t)sizes[d] : 1;
        o->index[d] = (int64_t)(rest % n);
        rest /= n;
    }
}

enum tb_status tb_elements_compare(enum tb_dtype dt, const int64_t *sizes, int ndim, const void *a,
                                   const void *b, uint64_t n, struct tb_elements *out,
                                   struct tb_error *err)
{
    const uint8_t *x = a, *y = b;

    if ((int)dt <= 0 || dt >= TB_DT_COUNT || kinds[dt].size == 0)
        return tb_fail(err, TB_ERR_ARG, "cannot compare elements: type %d is not known", (int)dt);
    const struct kind *k = &kinds[dt];
    unsigned size = (unsigned)k->size * k->numbers;
    if (n % size != 0 || ndim < 0 || ndim > TB_FP_MAX_DIMS)
        return tb_fail(err, TB_ERR_ARG,
                       "cannot compare elements: %" PRIu64 " bytes of %u-byte elements", n, size);
    memset(out, 0, sizeof(*out));
    out->dtype = dt;
    out->size = size;
    out->count = n / size;
    out->ulp_known = true;
    for (uint64_t i = 0; i < out->count; i++)
        compare_element(k, i, x + i * size, y + i * size, out);
    if (out->differ)
        set_index(out, sizes, ndim);
    return TB_OK;
}

const char *tb_element_hex(enum tb_dtype dt, const void *elem, char *out, size_t size)
{
    const uint8_t *p = elem;
    unsigned n = (int)dt > 0 && dt < TB_DT_COUNT ? (unsigned)kinds[dt].size : 1;
    unsigned numbers = (int)dt > 0 && dt < TB_DT_COUNT ? kinds[dt].numbers : 1;
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < numbers && used + 2 * n + 4 < size; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s0x", i ? "," : "");
        for (unsigned j = n; j-- > 0;)
            used += (size_t)snprintf(out + used, size - used, "%02x", p[i * n + j]);
    }
    return out;
}

static int number_text(const struct kind *k, enum tb_dtype dt, const uint8_t *p, char *out,
                       size_t size)
{
    uint64_t bits = bits_of(p, k->size);

    if (k->mantissa == 0 && k->is_signed) {
        unsigned up = 64u - 8u * k->size;
        return snprintf(out, size, "%" PRId64, (int64_t)(bits << up) >> up);
    }
    if (k->mantissa == 0)
        return snprintf(out, size, "%" PRIu64, bits);
    return snprintf(out, size, "%.*g", k->mantissa > 23 ? 17 : 9, tb_dtype_to_double(dt, p));
}

static enum tb_dtype part_type(enum tb_dtype dt)
{
    return dt == TB_DT_C32    ? TB_DT_F16
           : dt == TB_DT_C64  ? TB_DT_F32
           : dt == TB_DT_C128 ? TB_DT_F64
                              : dt;
}

const char *tb_element_text(enum tb_dtype dt, const void *elem, char *out, size_t size)
{
    const uint8_t *p = elem;

    if ((int)dt <= 0 || dt >= TB_DT_COUNT || kinds[dt].size == 0) {
        (void)snprintf(out, size, "?");
        return out;
    }
    const struct kind *k = &kinds[dt];
    int n = number_text(k, part_type(dt), p, out, size);
    if (k->numbers == 2 && n > 0 && (size_t)n + 2 < size) {
        out[n++] = ',';
        (void)number_text(k, part_type(dt), p + k->size, out + n, size - (size_t)n);
    }
    return out;
}
