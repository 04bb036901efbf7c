/*
 * fp_convert.h - small floating-point formats to double, by their bits; private to this folder.
 */
#ifndef TB_FINGERPRINT_FP_CONVERT_H
#define TB_FINGERPRINT_FP_CONVERT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* exponent field 0..2047 and top bits of the mantissa, put together as a double */
static inline double fp_from_bits64(uint64_t u)
{
    double d;

    memcpy(&d, &u, sizeof d);
    return d;
}

static inline float fp_from_bits32(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

/*
 * An IEEE-like format of sign, @e exponent bits and @m mantissa bits. Exact: double holds them all.
 * @has_inf false: e4m3fn, where only the all-ones pattern is NaN and there is no infinity.
 */
static inline double fp_small_float(uint32_t bits, int e, int m, int has_inf)
{
    uint32_t mant = bits & ((1u << m) - 1);
    uint32_t exp = bits >> m & ((1u << e) - 1);
    uint32_t top = (1u << e) - 1;
    int bias = (1 << (e - 1)) - 1;
    uint64_t sign = (uint64_t)(bits >> (e + m) & 1) << 63;

    if (exp == top && (has_inf || mant == (1u << m) - 1))
        return fp_from_bits64(sign | 0x7FFull << 52 | (uint64_t)mant << (52 - m));
    if (exp == 0) {
        double scale = fp_from_bits64((uint64_t)(1023 + 1 - bias - m) << 52);

        return fp_from_bits64(sign | 1023ull << 52) * (double)mant * scale;
    }
    return fp_from_bits64(sign | (uint64_t)((int)exp - bias + 1023) << 52 |
                          (uint64_t)mant << (52 - m));
}

static inline double fp_f16(uint32_t bits)
{
    return fp_small_float(bits, 5, 10, 1);
}

static inline double fp_bf16(uint32_t bits)
{
    return (double)fp_from_bits32(bits << 16);
}

static inline double fp_f8e4m3(uint32_t bits)
{
    return fp_small_float(bits, 4, 3, 0);
}

static inline double fp_f8e5m2(uint32_t bits)
{
    return fp_small_float(bits, 5, 2, 1);
}

#endif
