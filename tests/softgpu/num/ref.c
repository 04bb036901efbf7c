#include "ref.h"

#include <stdlib.h>
#include <string.h>

#if defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW 20
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 20
#endif
#ifndef SLOW
#define SLOW 1
#endif

const struct ref_format ref_f16 = {SG_T_F16, 10, 16, 0x7fff, "f16"};
const struct ref_format ref_bf16 = {SG_T_BF16, 7, 128, 0x7fff, "bf16"};
const struct ref_format ref_f32 = {SG_T_F32, 23, 128, 0x7fffffff, "f32"};
const struct ref_format ref_f64 = {SG_T_F64, 52, 1024, 0xfff8000000000000, "f64"};
const struct ref_format ref_tf32 = {SG_T_TF32, 10, 128, 0x7fffffff, "tf32"};
const struct ref_format ref_e4m3 = {SG_T_E4M3, 3, 9, 0x7f, "e4m3"};
const struct ref_format ref_e5m2 = {SG_T_E5M2, 2, 16, 0x7f, "e5m2"};

const struct ref_format *ref_format_of(enum sg_type t)
{
    const struct ref_format *all[] = {&ref_f16,  &ref_bf16, &ref_f32, &ref_f64,
                                      &ref_tf32, &ref_e4m3, &ref_e5m2};
    for (size_t i = 0; i < TB_ARRAY_LEN(all); i++)
        if (all[i]->type == t)
            return all[i];
    return NULL;
}

static uint64_t inputs(void)
{
    const char *s = getenv("SG_NUM_INPUTS");
    uint64_t n = s ? strtoull(s, NULL, 10) : 1000000 / SLOW;
    return n ? n : 1;
}

uint64_t ref_count(unsigned divisor)
{
    uint64_t n = inputs() / divisor;
    return n ? n : 1;
}

int ref_start(void **state)
{
    (void)state;
    printf("# %llu seeded inputs an operation\n", (unsigned long long)inputs());
    return 0;
}

uint64_t ref_next(struct ref_rng *r) /* splitmix64 */
{
    uint64_t z = r->s += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int exp_bits(const struct ref_format *f)
{
    return f->type == SG_T_E4M3 ? 4 : f->emax == 16 ? 5 : f->emax == 128 ? 8 : 11;
}

static int shift_of(const struct ref_format *f)
{
    return f->type == SG_T_TF32 ? 13 : 0;
}

static uint64_t low(int n)
{
    return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

static uint64_t mantissa(struct ref_rng *r, int n)
{
    uint64_t v = ref_next(r);
    switch (v >> 61) {
    case 0:
        return v & low(n); /* anything */
    case 1:
        return 0;
    case 2:
        return low(n);
    case 3:
        return UINT64_C(1) << (v % (unsigned)n);
    case 4:
        return (UINT64_C(1) << (v % (unsigned)n)) | (UINT64_C(1) << ((v >> 8) % (unsigned)n));
    case 5:
        return low(n) << (v % (unsigned)n) & low(n);
    case 6:
        return low((int)(v % (unsigned)n) + 1);
    default:
        return (v & low(n)) & ~low(n / 2); /* short: products are exact or ties */
    }
}

static uint64_t compose(const struct ref_format *f, bool neg, int e, uint64_t m)
{
    int top = (1 << exp_bits(f)) - 1;
    e = e < 0 ? 0 : e > top ? top : e;
    uint64_t bits = (uint64_t)e << f->mant | (m & low(f->mant));
    bits |= (uint64_t)neg << (f->mant + exp_bits(f));
    return bits << shift_of(f);
}

uint64_t ref_input(struct ref_rng *r, const struct ref_format *f)
{
    uint64_t v = ref_next(r);
    int top = (1 << exp_bits(f)) - 1, bias = top / 2, e;
    switch (v & 15) {
    case 0:
        e = 0;
        break;
    case 1:
        e = 1;
        break;
    case 2:
        e = top - 1;
        break;
    case 3:
        e = top;
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        e = bias - 2 + (int)(v >> 8 & 3);
        break;
    case 8:
        e = (int)(v >> 8 & 31);
        break;
    case 9:
        e = top - (int)(v >> 8 & 31);
        break;
    case 10: /* roots and products of the edges */
        e = bias / 2 + (int)(v >> 8 & 63) - 32;
        break;
    default:
        e = (int)((v >> 8) % (unsigned)(top + 1));
    }
    return compose(f, v >> 63, e, mantissa(r, f->mant));
}

uint64_t ref_partner(struct ref_rng *r, const struct ref_format *f, uint64_t a)
{
    uint64_t v = ref_next(r);
    a >>= shift_of(f);
    int e = (int)(a >> f->mant & low(exp_bits(f)));
    bool neg = a >> (f->mant + exp_bits(f)) & 1;
    switch (v & 7) {
    case 0: /* cancels */
        return compose(f, !neg, e, (a + (v >> 8 & 3) - 1) & low(f->mant));
    case 1: /* half a unit in the last place, more or less */
        return compose(f, v >> 63, e - f->mant - 3 + (int)(v >> 8 & 3), mantissa(r, f->mant));
    case 2: /* a sticky bit */
        return compose(f, v >> 63, e - f->mant - 2 - (int)(v >> 8 & 31), mantissa(r, f->mant));
    case 3:
        return compose(f, v >> 63, e + (int)(v >> 8 & 7) - 4, mantissa(r, f->mant));
    default:
        return ref_input(r, f);
    }
}

uint64_t ref_int_input(struct ref_rng *r)
{
    uint64_t v = ref_next(r), n = v & 63, m = ref_next(r);
    switch (v >> 61) {
    case 0:
        return m;
    case 1:
        return m >> n;
    case 2:
        return UINT64_C(1) << n;
    case 3:
        return (UINT64_C(1) << n) - 1;
    case 4:
        return 0 - (m >> n);
    case 5: /* near ties of 24 and 53 bits */
        return (m << 40 >> 1 | UINT64_C(1) << 63) >> n;
    case 6:
        return ((m | 1) << 10 | UINT64_C(1) << 63) >> n;
    default:
        return (UINT64_C(1) << n) + (m & 3) - 1;
    }
}

bool ref_is_nan(const struct ref_format *f, uint64_t bits)
{
    uint64_t mag = bits >> shift_of(f) & low(f->mant + exp_bits(f));
    uint64_t inf = low(exp_bits(f)) << f->mant;
    return f->type == SG_T_E4M3 ? mag == 0x7f : mag > inf;
}

bool ref_is_subnormal(const struct ref_format *f, uint64_t bits)
{
    uint64_t mag = bits >> shift_of(f) & low(f->mant + exp_bits(f));
    return mag != 0 && mag >> f->mant == 0;
}

uint64_t ref_flush(const struct ref_format *f, uint64_t bits)
{
    uint64_t sign = UINT64_C(1) << (f->mant + exp_bits(f) + shift_of(f));
    return ref_is_subnormal(f, bits) ? bits & sign : bits;
}

uint64_t ref_one(const struct ref_format *f)
{
    return compose(f, false, (1 << (exp_bits(f) - 1)) - 1, 0);
}

static double power2(int e) /* of normal doubles */
{
    uint64_t u = (uint64_t)(e + 1023) << 52;
    double r;
    memcpy(&r, &u, sizeof(r));
    return r;
}

double ref_value(const struct ref_format *f, uint64_t bits)
{
    bits >>= shift_of(f);
    int e = (int)(bits >> f->mant & low(exp_bits(f))), top = (int)low(exp_bits(f));
    int bias = top / 2;
    uint64_t m = bits & low(f->mant);
    double r;
    if (f->type == SG_T_F64) {
        memcpy(&r, &bits, sizeof(r));
        return r;
    }
    if (ref_is_nan(f, bits << shift_of(f)))
        return __builtin_nan("");
    if (e == top && f->type != SG_T_E4M3)
        r = __builtin_inf();
    else
        r = (double)(e ? m + (UINT64_C(1) << f->mant) : m) * power2((e ? e : 1) - bias - f->mant);
    return bits >> (f->mant + exp_bits(f)) & 1 ? -r : r;
}

uint64_t ref_apply(const struct ref_format *f, uint64_t bits, unsigned flags)
{
    double v = ref_value(f, bits);
    if (flags & SG_NUM_FTZ)
        bits = ref_flush(f, bits);
    if (flags & SG_NUM_SAT)
        bits = v > 0 ? (v > 1 ? ref_one(f) : bits) : 0;
    if (flags & SG_NUM_RELU)
        bits = ref_is_nan(f, bits) ? f->nan : v > 0 ? bits : 0;
    return bits;
}

void ref_enter(const struct ref_format *f)
{
    int bias = (1 << (exp_bits(f) - 1)) - 1;
    mpfr_set_emin(2 - bias - f->mant); /* the smallest number is 2^(1 - bias - mant) */
    mpfr_set_emax(f->emax);
}

mpfr_rnd_t ref_rnd(enum sg_rnd rnd)
{
    static const mpfr_rnd_t map[] = {MPFR_RNDN, MPFR_RNDZ, MPFR_RNDD, MPFR_RNDU};
    return map[rnd];
}

uint64_t ref_bits(const struct ref_format *f, mpfr_t x, int t, enum sg_rnd rnd)
{
    int bias = (1 << (exp_bits(f) - 1)) - 1, top = (1 << exp_bits(f)) - 1;
    mpfr_subnormalize(x, t, ref_rnd(rnd));
    if (mpfr_nan_p(x))
        return f->nan;
    bool neg = mpfr_signbit(x);
    if (mpfr_inf_p(x))
        return compose(f, neg, top, 0);
    if (mpfr_zero_p(x))
        return compose(f, neg, 0, 0);
    double d = mpfr_get_d(x, MPFR_RNDN); /* exact: no more than 53 bits */
    uint64_t u;
    memcpy(&u, &d, sizeof(u));
    if (f->type == SG_T_F64)
        return u;
    int e = (int)(u >> 52 & 0x7ff) - 1023 + bias;
    uint64_t m = (u & low(52)) | UINT64_C(1) << 52;
    m >>= 52 - f->mant;
    if (e < 1)
        return compose(f, neg, 0, m >> (1 - e));
    return compose(f, neg, e, m);
}
