/* Numbers that are drawn, and what a fault makes of a value. */
#include "softgpu/broken/broken_internal.h"

uint64_t sg_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t sg_draw(uint64_t *rng)
{
    return *rng = sg_mix(*rng);
}

double sg_fraction(uint64_t x)
{
    return (double)(x >> 11) * 0x1p-53;
}

uint64_t sg_bit_mask(unsigned width)
{
    return width >= 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
}

/* Bits @from .. @from + @n - 1 of each part. */
static uint64_t field(const struct sg_shape *t, unsigned from, unsigned n)
{
    uint64_t one = sg_bit_mask(n) << from, all = 0;

    for (unsigned p = 0; p < t->parts; p++)
        all |= one << (p * (t->width / t->parts));
    return all;
}

uint64_t sg_candidates(const struct sg_spec *s, const struct sg_shape *t)
{
    unsigned part = t->width / t->parts;
    uint64_t mask = 0;

    switch (s->bits) {
    case SG_BITS_LIST:
        for (unsigned b = 0; b < t->width; b++)
            mask |= (uint64_t)sg_in_ranges(&s->bit, b) << b;
        return mask;
    case SG_BITS_SIGN:
        return t->as == SG_AS_BITS ? 0 : field(t, part - 1, 1);
    case SG_BITS_EXPONENT:
        return t->as == SG_AS_FLOAT ? field(t, t->mantissa, t->exponent) : 0;
    case SG_BITS_MANTISSA:
        return t->as == SG_AS_FLOAT ? field(t, 0, t->mantissa) : 0;
    default:
        return sg_bit_mask(t->width);
    }
}

static uint64_t pick_one(uint64_t mask, uint64_t *rng)
{
    unsigned n = (unsigned)__builtin_popcountll(mask);

    for (unsigned k = n ? (unsigned)(sg_draw(rng) % n) : 0; k != 0; k--)
        mask &= mask - 1;
    return mask & -mask;
}

/* The neighbour of one part in the order of its values; what is not finite stays. */
static uint64_t next_value(const struct sg_shape *t, uint64_t value, uint64_t *rng)
{
    unsigned part = t->width / t->parts;
    unsigned shift = (unsigned)(sg_draw(rng) % t->parts) * part;
    uint64_t mask = sg_bit_mask(part), v = value >> shift & mask, up = sg_draw(rng) & 1;

    if (part == 0)
        return value;
    if (t->as == SG_AS_FLOAT) {
        uint64_t sign = UINT64_C(1) << (part - 1), inf = sg_bit_mask(t->exponent) << t->mantissa;
        if ((v & ~sign) >= inf)
            return value;
        if ((v & ~sign) == 0)
            up = 1; /* away from zero */
    }
    v = (up ? v + 1 : v - 1) & mask;
    return (value & ~(mask << shift)) | v << shift;
}

uint64_t sg_damage(const struct sg_spec *s, const struct sg_shape *t, uint64_t value,
                   uint64_t before, uint64_t *rng)
{
    uint64_t can = sg_candidates(s, t), whole = sg_bit_mask(t->width), bits;

    if (s->model == SG_MODEL_ULP)
        return next_value(t, value, rng);
    if (s->model == SG_MODEL_PREVIOUS || s->model == SG_MODEL_RANDOM) {
        uint64_t from = s->model == SG_MODEL_PREVIOUS ? before : sg_draw(rng);
        return ((value & ~can) | (from & can)) & whole;
    }
    bits = s->bits == SG_BITS_LIST ? can : pick_one(can, rng);
    if (s->model == SG_MODEL_STUCK0)
        return value & ~bits;
    return s->model == SG_MODEL_STUCK1 ? value | bits : value ^ bits;
}
