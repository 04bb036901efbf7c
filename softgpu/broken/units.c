/* What an instruction is: the unit that computes it, and how its operands are read. */
#include "softgpu/broken/broken_internal.h"
#include "softgpu/num/num_inline.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

/* ---- units ----------------------------------------------------------------------------------- */

enum class { INTEGER = 1, FLOAT = 2, DOUBLE = 4, ALL = 7 };

/* The first row that fits. Where hardware has more and finer units, the name that a reader expects
 * wins: integer multiplication is int, though it shares the pipe of fma. */
static const struct {
    enum sg_ptx_op op;
    unsigned classes;
    enum sg_unit unit;
} table[] = {
    {SG_OP_ADD, INTEGER, SG_UNIT_INT},    {SG_OP_ADD, FLOAT, SG_UNIT_FMA},
    {SG_OP_ADD, DOUBLE, SG_UNIT_F64},     {SG_OP_SUB, INTEGER, SG_UNIT_INT},
    {SG_OP_SUB, FLOAT, SG_UNIT_FMA},      {SG_OP_SUB, DOUBLE, SG_UNIT_F64},
    {SG_OP_MUL, INTEGER, SG_UNIT_INT},    {SG_OP_MUL, FLOAT, SG_UNIT_FMA},
    {SG_OP_MUL, DOUBLE, SG_UNIT_F64},     {SG_OP_MAD, INTEGER, SG_UNIT_INT},
    {SG_OP_MAD, FLOAT, SG_UNIT_FMA},      {SG_OP_MAD, DOUBLE, SG_UNIT_F64},
    {SG_OP_FMA, FLOAT, SG_UNIT_FMA},      {SG_OP_FMA, DOUBLE, SG_UNIT_F64},
    {SG_OP_MIN, INTEGER, SG_UNIT_INT},    {SG_OP_MIN, FLOAT, SG_UNIT_FMA},
    {SG_OP_MIN, DOUBLE, SG_UNIT_F64},     {SG_OP_MAX, INTEGER, SG_UNIT_INT},
    {SG_OP_MAX, FLOAT, SG_UNIT_FMA},      {SG_OP_MAX, DOUBLE, SG_UNIT_F64},
    {SG_OP_ABS, INTEGER, SG_UNIT_INT},    {SG_OP_ABS, FLOAT, SG_UNIT_FMA},
    {SG_OP_ABS, DOUBLE, SG_UNIT_F64},     {SG_OP_NEG, INTEGER, SG_UNIT_INT},
    {SG_OP_NEG, FLOAT, SG_UNIT_FMA},      {SG_OP_NEG, DOUBLE, SG_UNIT_F64},
    {SG_OP_SETP, INTEGER, SG_UNIT_INT},   {SG_OP_SETP, FLOAT, SG_UNIT_FMA},
    {SG_OP_SETP, DOUBLE, SG_UNIT_F64},    {SG_OP_SET, INTEGER, SG_UNIT_INT},
    {SG_OP_SET, FLOAT, SG_UNIT_FMA},      {SG_OP_SET, DOUBLE, SG_UNIT_F64},
    {SG_OP_COPYSIGN, FLOAT, SG_UNIT_FMA}, {SG_OP_COPYSIGN, DOUBLE, SG_UNIT_F64},
    {SG_OP_TESTP, FLOAT, SG_UNIT_FMA},    {SG_OP_TESTP, DOUBLE, SG_UNIT_F64},
    {SG_OP_DIV, INTEGER, SG_UNIT_INT},    {SG_OP_DIV, FLOAT, SG_UNIT_SFU},
    {SG_OP_DIV, DOUBLE, SG_UNIT_F64},     {SG_OP_SQRT, FLOAT, SG_UNIT_SFU},
    {SG_OP_SQRT, DOUBLE, SG_UNIT_F64},    {SG_OP_RCP, ALL, SG_UNIT_SFU},
    {SG_OP_RSQRT, ALL, SG_UNIT_SFU},      {SG_OP_SIN, ALL, SG_UNIT_SFU},
    {SG_OP_COS, ALL, SG_UNIT_SFU},        {SG_OP_LG2, ALL, SG_UNIT_SFU},
    {SG_OP_EX2, ALL, SG_UNIT_SFU},        {SG_OP_TANH, ALL, SG_UNIT_SFU},
    {SG_OP_CVT, INTEGER, SG_UNIT_INT},    {SG_OP_CVT, FLOAT, SG_UNIT_SFU},
    {SG_OP_CVT, DOUBLE, SG_UNIT_F64},     {SG_OP_MMA, ALL, SG_UNIT_TENSOR},
    {SG_OP_LD, ALL, SG_UNIT_LDST},        {SG_OP_LDU, ALL, SG_UNIT_LDST},
    {SG_OP_ST, ALL, SG_UNIT_LDST},        {SG_OP_ATOM, ALL, SG_UNIT_LDST},
    {SG_OP_RED, ALL, SG_UNIT_LDST},       {SG_OP_LDMATRIX, ALL, SG_UNIT_LDST},
    {SG_OP_SHFL, ALL, SG_UNIT_LDST},      {SG_OP_ADDC, ALL, SG_UNIT_INT},
    {SG_OP_SUBC, ALL, SG_UNIT_INT},       {SG_OP_MADC, ALL, SG_UNIT_INT},
    {SG_OP_MUL24, ALL, SG_UNIT_INT},      {SG_OP_MAD24, ALL, SG_UNIT_INT},
    {SG_OP_REM, ALL, SG_UNIT_INT},        {SG_OP_SAD, ALL, SG_UNIT_INT},
    {SG_OP_AND, ALL, SG_UNIT_INT},        {SG_OP_OR, ALL, SG_UNIT_INT},
    {SG_OP_XOR, ALL, SG_UNIT_INT},        {SG_OP_NOT, ALL, SG_UNIT_INT},
    {SG_OP_CNOT, ALL, SG_UNIT_INT},       {SG_OP_LOP3, ALL, SG_UNIT_INT},
    {SG_OP_SHF, ALL, SG_UNIT_INT},        {SG_OP_SHL, ALL, SG_UNIT_INT},
    {SG_OP_SHR, ALL, SG_UNIT_INT},        {SG_OP_BFE, ALL, SG_UNIT_INT},
    {SG_OP_BFI, ALL, SG_UNIT_INT},        {SG_OP_BFIND, ALL, SG_UNIT_INT},
    {SG_OP_BMSK, ALL, SG_UNIT_INT},       {SG_OP_BREV, ALL, SG_UNIT_INT},
    {SG_OP_CLZ, ALL, SG_UNIT_INT},        {SG_OP_POPC, ALL, SG_UNIT_INT},
    {SG_OP_FNS, ALL, SG_UNIT_INT},        {SG_OP_SZEXT, ALL, SG_UNIT_INT},
    {SG_OP_PRMT, ALL, SG_UNIT_INT},       {SG_OP_SELP, ALL, SG_UNIT_INT},
    {SG_OP_SLCT, ALL, SG_UNIT_INT},       {SG_OP_DP2A, ALL, SG_UNIT_INT},
    {SG_OP_DP4A, ALL, SG_UNIT_INT},       {SG_OP_VOTE, ALL, SG_UNIT_INT},
    {SG_OP_MATCH, ALL, SG_UNIT_INT},      {SG_OP_REDUX, ALL, SG_UNIT_INT},
    {SG_OP_VABSDIFF, ALL, SG_UNIT_INT},   {SG_OP_VABSDIFF2, ALL, SG_UNIT_INT},
    {SG_OP_VABSDIFF4, ALL, SG_UNIT_INT},  {SG_OP_VADD, ALL, SG_UNIT_INT},
    {SG_OP_VADD2, ALL, SG_UNIT_INT},      {SG_OP_VADD4, ALL, SG_UNIT_INT},
    {SG_OP_VAVRG2, ALL, SG_UNIT_INT},     {SG_OP_VAVRG4, ALL, SG_UNIT_INT},
    {SG_OP_VMAD, ALL, SG_UNIT_INT},       {SG_OP_VMAX, ALL, SG_UNIT_INT},
    {SG_OP_VMAX2, ALL, SG_UNIT_INT},      {SG_OP_VMAX4, ALL, SG_UNIT_INT},
    {SG_OP_VMIN, ALL, SG_UNIT_INT},       {SG_OP_VMIN2, ALL, SG_UNIT_INT},
    {SG_OP_VMIN4, ALL, SG_UNIT_INT},      {SG_OP_VSET, ALL, SG_UNIT_INT},
    {SG_OP_VSET2, ALL, SG_UNIT_INT},      {SG_OP_VSET4, ALL, SG_UNIT_INT},
    {SG_OP_VSHL, ALL, SG_UNIT_INT},       {SG_OP_VSHR, ALL, SG_UNIT_INT},
    {SG_OP_VSUB, ALL, SG_UNIT_INT},       {SG_OP_VSUB2, ALL, SG_UNIT_INT},
    {SG_OP_VSUB4, ALL, SG_UNIT_INT},
};

static bool is_type(unsigned mod)
{
    return mod >= SG_M_B8 && mod <= SG_M_PRED;
}

static enum class class_of_type(unsigned mod) {
    static const uint16_t floats[] = {SG_M_F16, SG_M_F16X2, SG_M_BF16, SG_M_BF16X2, SG_M_F32,
                                      SG_M_TF32, SG_M_E4M3, SG_M_E5M2, SG_M_E4M3X2, SG_M_E5M2X2,
                                      SG_M_F32X2};

    if (mod == SG_M_F64) return DOUBLE;
    for (size_t i = 0; i < TB_ARRAY_LEN(floats); i++) if (mod == floats[i]) return FLOAT;
    return INTEGER;
}

/* DOUBLE if any type is, else FLOAT if any is. */
static enum class class_of(const struct sg_ptx_insn *i) {
    unsigned all = INTEGER;

    for (unsigned k = 0; k < i->nmods; k++) if (is_type(i->mods[k])) all |=
    class_of_type(i->mods[k]);
    return all & DOUBLE  ? DOUBLE
           : all & FLOAT ? FLOAT
                         : INTEGER;
}

enum sg_unit sg_unit_of(const struct sg_ptx_insn *i)
{
    enum class c = class_of(i);

    if (i->op == SG_OP_WMMA)
        return sg_ptx_has(i, SG_M_MMA) ? SG_UNIT_TENSOR : SG_UNIT_LDST;
    for (size_t k = 0; k < TB_ARRAY_LEN(table); k++)
        if (table[k].op == i->op && (table[k].classes & c))
            return table[k].unit;
    return SG_UNIT_NONE;
}

/* ---- names ----------------------------------------------------------------------------------- */

void sg_insn_text(const struct sg_ptx_insn *i, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s", sg_ptx_op_name((enum sg_ptx_op)i->op));

    for (unsigned k = 0; k < i->nmods && n < size; k++)
        n += (size_t)snprintf(out + n, size - n, ".%s",
                              sg_ptx_mod_name((enum sg_ptx_mod)i->mods[k]));
}

bool sg_op_matches(const char *pattern, const struct sg_ptx_insn *i)
{
    char text[256];
    size_t n = strlen(pattern);

    sg_insn_text(i, text, sizeof(text));
    if (strpbrk(pattern, "*?["))
        return fnmatch(pattern, text, 0) == 0;
    return strncmp(text, pattern, n) == 0 && (text[n] == '\0' || text[n] == '.');
}

/* ---- operands -------------------------------------------------------------------------------- */

static unsigned types_of(const struct sg_ptx_insn *i, enum sg_ptx_mod t[SG_PTX_MAX_MODS])
{
    unsigned n = 0;

    for (unsigned k = 0; k < i->nmods; k++)
        if (is_type(i->mods[k]))
            t[n++] = (enum sg_ptx_mod)i->mods[k];
    return n;
}

/* Types of d, a, b, c of a matrix product. */
static enum sg_ptx_mod type_of_matrix(const enum sg_ptx_mod *t, unsigned n, unsigned k)
{
    if (n >= 4)
        return t[k < 4 ? k : 3];
    return k == 0 ? t[0] : k == 3 ? t[n - 1] : SG_M_F16; /* wmma names d and c only */
}

static bool is_matrix(const struct sg_ptx_insn *i)
{
    return i->op == SG_OP_MMA || (i->op == SG_OP_WMMA && sg_ptx_has(i, SG_M_MMA));
}

static struct sg_shape type_from(enum sg_ptx_mod mod)
{
    struct sg_shape t = {.mod = mod, .width = sg_ptx_type_size(mod) * 8, .parts = 1};

    switch (mod) {
    case SG_M_F64:
        t.exponent = 11, t.mantissa = 52;
        break;
    case SG_M_F32:
    case SG_M_TF32:
        t.width = 32, t.exponent = 8, t.mantissa = 23;
        break;
    case SG_M_F16:
    case SG_M_F16X2:
        t.exponent = 5, t.mantissa = 10;
        break;
    case SG_M_BF16:
    case SG_M_BF16X2:
        t.exponent = 8, t.mantissa = 7;
        break;
    case SG_M_S8:
    case SG_M_S16:
    case SG_M_S32:
    case SG_M_S64:
        t.as = SG_AS_SIGNED;
        break;
    default:
        break;
    }
    if (t.exponent)
        t.as = SG_AS_FLOAT;
    if (mod == SG_M_F16X2 || mod == SG_M_BF16X2)
        t.parts = 2;
    return t;
}

struct sg_shape sg_type_of_operand(const struct sg_ptx_insn *i, unsigned k, unsigned reg_bits)
{
    enum sg_ptx_mod types[SG_PTX_MAX_MODS];
    unsigned n = types_of(i, types);
    struct sg_shape t;

    if (reg_bits == 1 || n == 0)
        return (struct sg_shape){.mod = SG_M_NONE, .width = reg_bits, .parts = 1};
    t = type_from(is_matrix(i) ? type_of_matrix(types, n, k) : types[k == 0 ? 0 : n - 1]);
    if (k == 0 && sg_ptx_has(i, SG_M_WIDE))
        t.width *= 2;
    if (is_matrix(i)) {
        if (t.as == SG_AS_FLOAT && t.width == 16)
            t.parts = 2;
        if (t.parts == 2 || t.width < 32)
            t.width = reg_bits;
    }
    if (t.width == 0 || t.width > reg_bits || i->op == SG_OP_LDMATRIX || i->op == SG_OP_WMMA)
        t.width = reg_bits;
    return t;
}

const struct sg_ptx_opnd *sg_result(const struct sg_ptx_insn *i)
{
    const struct sg_ptx_opnd *o = i->opnds;

    switch (i->op) {
    case SG_OP_CALL:
    case SG_OP_ST:
    case SG_OP_RED:
    case SG_OP_BAR:
    case SG_OP_BARRIER: /* its result comes when it opens */
    case SG_OP_BRX:
    case SG_OP_NANOSLEEP:
    case SG_OP_SETMAXNREG:
    case SG_OP_STACKRESTORE:
        return NULL;
    default:
        break;
    }
    if (i->nopnds == 0 || (i->op == SG_OP_WMMA && sg_ptx_has(i, SG_M_STORE)))
        return NULL;
    return o->kind == SG_OPND_REG || o->kind == SG_OPND_VEC || o->kind == SG_OPND_PAIR ? o : NULL;
}

const struct sg_ptx_opnd *sg_address(const struct sg_ptx_insn *i)
{
    for (unsigned k = 0; k < i->nopnds; k++)
        if (i->opnds[k].kind == SG_OPND_ADDR && i->opnds[k].sub[0].kind == SG_OPND_REG)
            return &i->opnds[k].sub[0];
    return NULL;
}

/* ---- conditions ------------------------------------------------------------------------------ */

static bool value_of(const struct sg_shape *t, uint64_t bits, double *out)
{
    switch (t->mod) {
    case SG_M_F64:
        *out = sg_f64_val(bits);
        return true;
    case SG_M_F32:
    case SG_M_TF32:
        *out = (double)sg_f32_val((uint32_t)bits);
        return true;
    case SG_M_F16:
    case SG_M_F16X2:
        *out = sg_f16_val((uint16_t)bits);
        return true;
    case SG_M_BF16:
    case SG_M_BF16X2:
        *out = sg_bf16_val((uint16_t)bits);
        return true;
    default:
        break;
    }
    if (t->width == 1 || class_of_type(t->mod) != INTEGER) /* formats of 8 bits */
        return false;
    bits &= sg_bit_mask(t->width);
    if (t->as == SG_AS_SIGNED && bits >> (t->width - 1))
        *out = -(double)(sg_bit_mask(t->width) - bits + 1);
    else
        *out = (double)bits;
    return true;
}

static bool compare(const struct sg_when *w, double x)
{
    switch (w->is) {
    case SG_LT:
        return x < w->than;
    case SG_LE:
        return x <= w->than;
    case SG_GT:
        return x > w->than;
    case SG_GE:
        return x >= w->than;
    case SG_EQ:
        return !(x < w->than || x > w->than) && !isnan(x);
    default:
        return x < w->than || x > w->than || isnan(x);
    }
}

static bool holds(const struct sg_when *w, double x)
{
    if (w->what == SG_WHEN_ABS)
        return compare(w, fabs(x));
    if (w->what != SG_WHEN_EXPONENT)
        return compare(w, x);
    return isfinite(x) && (x < 0 || x > 0) && compare(w, (double)ilogb(x));
}

bool sg_when_holds(const struct sg_when *w, const struct sg_shape *t, uint64_t value)
{
    double x;

    for (unsigned p = 0; p < t->parts; p++)
        if (value_of(t, value >> (p * 16), &x) && holds(w, x))
            return true;
    return false;
}
