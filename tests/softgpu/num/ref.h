/*
 * What the tests of softgpu/num share: seeded inputs that are hard for floating point, and MPFR as
 * the correctly rounded reference of every small format.
 */
#ifndef SG_TEST_NUM_REF_H
#define SG_TEST_NUM_REF_H

#include "softgpu/num/num.h"

#include <stdint.h>
#define MPFR_USE_INTMAX_T
#include <mpfr.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* How many inputs: 10^6 where @divisor is 1; sanitizers are slow and take 1/20. The environment's
 * SG_NUM_INPUTS replaces the 10^6. Printed once by ref_start(). */
uint64_t ref_count(unsigned divisor);
int ref_start(void **state);

struct ref_rng {
    uint64_t s;
};
uint64_t ref_next(struct ref_rng *r);

/* format parameters of a float type, independent of the code under test */
struct ref_format {
    enum sg_type type;
    int mant, emax; /* the largest number is below 2^emax */
    uint64_t nan;
    const char *name;
};
extern const struct ref_format ref_f16, ref_bf16, ref_f32, ref_f64, ref_tf32, ref_e4m3, ref_e5m2;
const struct ref_format *ref_format_of(enum sg_type t);

/* bits of the format: uniform, special, few mantissa bits, long runs of ones, edge exponents */
uint64_t ref_input(struct ref_rng *r, const struct ref_format *f);
/* an operand that makes a tie, a cancellation or a far sticky bit with @a likely */
uint64_t ref_partner(struct ref_rng *r, const struct ref_format *f, uint64_t a);
uint64_t ref_int_input(struct ref_rng *r);

double ref_value(const struct ref_format *f, uint64_t bits); /* exact */
bool ref_is_nan(const struct ref_format *f, uint64_t bits);
bool ref_is_subnormal(const struct ref_format *f, uint64_t bits);
uint64_t ref_flush(const struct ref_format *f, uint64_t bits);
uint64_t ref_one(const struct ref_format *f);
/* flags as the ISA words them, on a result */
uint64_t ref_apply(const struct ref_format *f, uint64_t bits, unsigned flags);

/* Precision and exponents of the format for what MPFR computes next. */
void ref_enter(const struct ref_format *f);
mpfr_rnd_t ref_rnd(enum sg_rnd rnd);
/* the bits of @x, computed after ref_enter() with ternary value @t */
uint64_t ref_bits(const struct ref_format *f, mpfr_t x, int t, enum sg_rnd rnd);

#endif
