/*
 * The integer floating-point engine behind the correctly rounded functions and the conversions:
 * unpack, compute exactly or with a sticky bit, round once.
 */
#ifndef SG_NUM_SOFT_INTERNAL_H
#define SG_NUM_SOFT_INTERNAL_H

#include "softgpu/num/num.h"

/* A binary format: sign, @ebits, @mant bits; TF32 is kept 13 bits further up. */
struct sg_format {
    uint8_t mant, ebits, shift;
    bool has_inf; /* without: the exponent of all ones holds numbers, all ones is the NaN */
    uint64_t nan; /* canonical */
};

const struct sg_format *sg_format_of(enum sg_type t);

enum sg_class { SG_CLASS_ZERO, SG_CLASS_FINITE, SG_CLASS_INF, SG_CLASS_NAN };

/* FINITE: sig * 2^exp, bit 63 of @sig is set */
struct sg_unpacked {
    uint64_t sig;
    int exp;
    bool neg;
    uint8_t cls;
};

struct sg_unpacked sg_unpack(enum sg_type t, uint64_t bits);

/* +-0, +-infinity, the largest finite number */
uint64_t sg_pack_zero(enum sg_type t, bool neg);
uint64_t sg_pack_inf(enum sg_type t, bool neg);
uint64_t sg_pack_max(enum sg_type t, bool neg);

/* sig >> drop, rounded; the lowest bit of @sig may stand for what is below it ("sticky") */
uint64_t sg_round_shift(uint64_t sig, int drop, bool neg, enum sg_rnd rnd);

/* sig * 2^exp, @sig not 0 and maybe sticky, rounded to the format */
uint64_t sg_round_pack(enum sg_type t, bool neg, uint64_t sig, int exp, enum sg_rnd rnd,
                       bool satfinite);

/* is it a subnormal of its type? */
bool sg_is_subnormal(enum sg_type t, uint64_t bits);

/* FTZ, SAT and RELU on a result; NaN of f64 keeps its payload unless RELU */
uint64_t sg_finish(enum sg_type t, uint64_t bits, unsigned flags);

#endif
