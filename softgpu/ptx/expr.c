/* Constant expressions: C's operators on .s64, .u64 and .f64 (PTX ISA, "Constant Expressions"). */
#include "softgpu/ptx/ptx_internal.h"

static bool unary(struct sg_px *p, struct sg_px_val *v);

static bool deeper(struct sg_px *p)
{
    if (++p->expr_depth > SG_PX_MAX_EXPR)
        return sg_px_fail(p, TB_ERR_LIMIT, p->tok.line, "constant expression is nested too deep");
    return true;
}

static void set_int(struct sg_px_val *v, bool is_unsigned, uint64_t bits)
{
    v->kind = is_unsigned ? SG_VAL_U64 : SG_VAL_S64;
    v->is_f32 = false;
    v->u = bits;
}

static void set_float(struct sg_px_val *v, double f)
{
    v->kind = SG_VAL_F64;
    v->is_f32 = false;
    v->f = f;
}

static double as_float(const struct sg_px_val *v)
{
    if (v->kind == SG_VAL_F64)
        return v->f;
    return v->kind == SG_VAL_U64 ? (double)v->u : (double)v->i;
}

static bool truth(const struct sg_px_val *v)
{
    return v->kind == SG_VAL_F64 ? v->f != 0 : v->u != 0;
}

/* To an integer as a cast does; what does not fit saturates. */
static void to_int(struct sg_px_val *v, bool is_unsigned)
{
    double f = v->f;

    if (v->kind != SG_VAL_F64)
        set_int(v, is_unsigned, v->u);
    else if (is_unsigned)
        set_int(v, true, !(f > 0) ? 0 : f >= 0x1p64 ? UINT64_MAX : (uint64_t)f);
    else if (f != f)
        set_int(v, false, 0);
    else
        set_int(v, false,
                (uint64_t)(f >= 0x1p63    ? INT64_MAX
                           : f <= -0x1p63 ? INT64_MIN
                                          : (int64_t)f));
}

/* "(.s64) x"; at the type */
static bool cast(struct sg_px *p, struct sg_px_val *v)
{
    enum sg_ptx_mod type = sg_px_find_mod(p, &p->tok);

    if (type != SG_M_S64 && type != SG_M_U64 && type != SG_M_F64)
        return sg_px_unexpected(p, "a cast to .s64, .u64 or .f64");
    sg_px_next(p);
    if (!sg_px_expect(p, ')', "')' of a cast") || !unary(p, v))
        return false;
    if (type == SG_M_F64)
        set_float(v, as_float(v));
    else
        to_int(v, type == SG_M_U64);
    return true;
}

static bool primary(struct sg_px *p, struct sg_px_val *v)
{
    const struct sg_px_tok *t = &p->tok;

    switch (t->kind) {
    case SG_TOK_INT:
        set_int(v, t->is_unsigned || t->u > INT64_MAX, t->u);
        break;
    case SG_TOK_FLOAT:
        set_float(v, t->f);
        break;
    case SG_TOK_F32:
        set_float(v, t->f);
        v->is_f32 = true;
        v->f32 = t->f32;
        break;
    case '(':
        sg_px_next(p);
        if (sg_px_is(p, SG_TOK_DOT))
            return cast(p, v);
        return sg_px_const(p, v) && sg_px_expect(p, ')', "')'");
    default:
        if (!sg_px_word(p, SG_TOK_IDENT, "WARP_SZ"))
            return sg_px_unexpected(p, "a constant");
        set_int(v, false, 32);
    }
    sg_px_next(p);
    return true;
}

static void negate(struct sg_px_val *v)
{
    if (v->kind != SG_VAL_F64) {
        set_int(v, v->kind == SG_VAL_U64, 0 - v->u);
        return;
    }
    v->f = -v->f;
    v->f32 ^= UINT32_C(1) << 31;
}

static bool unary(struct sg_px *p, struct sg_px_val *v)
{
    int op = p->tok.kind;
    bool ok;

    if (!deeper(p))
        return false;
    if (op == '+' || op == '-' || op == '!' || op == '~') {
        sg_px_next(p);
        ok = unary(p, v);
        if (ok && op == '~' && v->kind == SG_VAL_F64)
            ok = sg_px_fail(p, TB_ERR_FORMAT, p->tok.line, "'~' of a floating-point constant");
        else if (ok && op == '-')
            negate(v);
        else if (ok && op == '~')
            set_int(v, v->kind == SG_VAL_U64, ~v->u);
        else if (ok && op == '!')
            set_int(v, false, !truth(v));
    } else {
        ok = primary(p, v);
    }
    p->expr_depth--;
    return ok;
}

static const struct {
    int token;
    uint8_t level; /* the higher, the tighter it binds */
    bool floats;
} binary[] = {
    {SG_TOK_OROR, 1, true}, {SG_TOK_ANDAND, 2, true}, {'|', 3, false},      {'^', 4, false},
    {'&', 5, false},        {SG_TOK_EQ, 6, true},     {SG_TOK_NE, 6, true}, {'<', 7, true},
    {'>', 7, true},         {SG_TOK_LE, 7, true},     {SG_TOK_GE, 7, true}, {SG_TOK_SHL, 8, false},
    {SG_TOK_SHR, 8, false}, {'+', 9, true},           {'-', 9, true},       {'*', 10, true},
    {'/', 10, true},        {'%', 10, false},
};

#define LEVEL_PRODUCT 10

static bool float_op(int op, double a, double b, struct sg_px_val *v)
{
    switch (op) {
    case '+':
        set_float(v, a + b);
        return true;
    case '-':
        set_float(v, a - b);
        return true;
    case '*':
        set_float(v, a * b);
        return true;
    case '/':
        set_float(v, a / b);
        return true;
    default:
        return false;
    }
}

static bool compare(int op, bool less, bool equal, bool greater, struct sg_px_val *v)
{
    bool r;

    switch (op) {
    case SG_TOK_EQ:
        r = equal;
        break;
    case SG_TOK_NE:
        r = !equal;
        break;
    case '<':
        r = less;
        break;
    case '>':
        r = greater;
        break;
    case SG_TOK_LE:
        r = less || equal;
        break;
    case SG_TOK_GE:
        r = greater || equal;
        break;
    default:
        return false;
    }
    set_int(v, false, r);
    return true;
}

static bool divide(struct sg_px *p, bool remainder, bool is_unsigned, uint64_t x, uint64_t y,
                   struct sg_px_val *v)
{
    int64_t a = (int64_t)x, b = (int64_t)y;

    if (y == 0)
        return sg_px_fail(p, TB_ERR_FORMAT, p->tok.line, "division by zero in a constant");
    if (is_unsigned)
        set_int(v, true, remainder ? x % y : x / y);
    else if (b == -1) /* INT64_MIN has no negative */
        set_int(v, false, remainder ? 0 : 0 - x);
    else
        set_int(v, false, (uint64_t)(remainder ? a % b : a / b));
    return true;
}

static uint64_t shift_right(uint64_t x, uint64_t n, bool is_unsigned)
{
    bool ones = !is_unsigned && (int64_t)x < 0;

    if (n > 63)
        return ones ? UINT64_MAX : 0;
    return x >> n | (ones && n ? UINT64_MAX << (64 - n) : 0);
}

static bool int_op(struct sg_px *p, int op, const struct sg_px_val *a, const struct sg_px_val *b,
                   struct sg_px_val *v)
{
    bool u = a->kind == SG_VAL_U64 || b->kind == SG_VAL_U64;
    uint64_t x = a->u, y = b->u;

    switch (op) {
    case '|':
        set_int(v, u, x | y);
        return true;
    case '^':
        set_int(v, u, x ^ y);
        return true;
    case '&':
        set_int(v, u, x & y);
        return true;
    case SG_TOK_SHL:
        set_int(v, a->kind == SG_VAL_U64, y > 63 ? 0 : x << y);
        return true;
    case SG_TOK_SHR:
        set_int(v, a->kind == SG_VAL_U64, shift_right(x, y, a->kind == SG_VAL_U64));
        return true;
    case '+':
        set_int(v, u, x + y);
        return true;
    case '-':
        set_int(v, u, x - y);
        return true;
    case '*':
        set_int(v, u, x * y);
        return true;
    case '/':
    case '%':
        return divide(p, op == '%', u, x, y, v);
    default:
        return u ? compare(op, x<y, x == y, x> y, v)
                 : compare(op, (int64_t)x<(int64_t)y, x == y, (int64_t)x>(int64_t) y, v);
    }
}

static bool apply(struct sg_px *p, size_t i, const struct sg_px_val *a, const struct sg_px_val *b,
                  struct sg_px_val *v)
{
    int op = binary[i].token;
    double x = as_float(a), y = as_float(b);

    if (op == SG_TOK_OROR || op == SG_TOK_ANDAND) {
        set_int(v, false, op == SG_TOK_OROR ? truth(a) || truth(b) : truth(a) && truth(b));
        return true;
    }
    if (a->kind != SG_VAL_F64 && b->kind != SG_VAL_F64)
        return int_op(p, op, a, b, v);
    if (!binary[i].floats)
        return sg_px_fail(p, TB_ERR_FORMAT, p->tok.line,
                          "operator of integers between floating-point constants");
    return float_op(op, x, y, v) || compare(op, x<y, x == y, x> y, v);
}

static bool level(struct sg_px *p, unsigned min, struct sg_px_val *v)
{
    struct sg_px_val a = {0}, b = {0};

    if (!deeper(p) || !unary(p, &a))
        return false;
    for (;;) {
        size_t i = 0;

        while (i < TB_ARRAY_LEN(binary) && binary[i].token != p->tok.kind)
            i++;
        if (i == TB_ARRAY_LEN(binary) || binary[i].level < min)
            break;
        sg_px_next(p);
        if (!level(p, binary[i].level + 1u, &b) || !apply(p, i, &a, &b, v))
            return false;
        a = *v;
    }
    *v = a;
    p->expr_depth--;
    return true;
}

bool sg_px_const(struct sg_px *p, struct sg_px_val *out)
{
    struct sg_px_val cond = {0}, yes = {0}, no = {0};

    if (!deeper(p) || !level(p, 0, &cond))
        return false;
    *out = cond;
    if (sg_px_accept(p, '?')) {
        if (!sg_px_const(p, &yes) || !sg_px_expect(p, ':', "':' of '?'") || !sg_px_const(p, &no))
            return false;
        *out = truth(&cond) ? yes : no;
    }
    p->expr_depth--;
    return true;
}

bool sg_px_offset(struct sg_px *p, int64_t *sum)
{
    struct sg_px_val v = {0};

    while (sg_px_is(p, '+') || sg_px_is(p, '-')) {
        bool minus = sg_px_is(p, '-');

        sg_px_next(p);
        if (!level(p, LEVEL_PRODUCT, &v))
            return false;
        if (v.kind == SG_VAL_F64)
            return sg_px_fail(p, TB_ERR_FORMAT, p->tok.line, "offset is not an integer");
        *sum = (int64_t)(minus ? (uint64_t)*sum - v.u : (uint64_t)*sum + v.u);
    }
    return true;
}

bool sg_px_starts_const(const struct sg_px *p)
{
    switch (p->tok.kind) {
    case SG_TOK_INT:
    case SG_TOK_FLOAT:
    case SG_TOK_F32:
    case '(':
    case '+':
    case '-':
    case '~':
    case '!':
        return true;
    default:
        return false;
    }
}
