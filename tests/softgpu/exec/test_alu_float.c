/* Arithmetic on f32, f64, f16, bf16 and pairs, their comparisons and approximate functions. */
#include "tests/softgpu/exec/alu.h"
#include "tests/softgpu/num/ref.h"

#include <stdio.h>
#include <string.h>

typedef uint64_t u64;

/* ---- correctly rounded operations --------------------------------------------------------------
 */

/* x: enum sg_num_op, enum sg_type, enum sg_rnd, flags */
static u64 element(const struct alu *t, u64 a, u64 b, u64 c)
{
    return sg_num_arith((enum sg_num_op)t->x[0], (enum sg_type)t->x[1], a, b, c,
                        (enum sg_rnd)t->x[2], (unsigned)t->x[3]);
}

WANT(want_one, element(t, a, b, c))
WANT(want_halves,
     element(t, a & 0xffff, b & 0xffff, c & 0xffff) | element(t, a >> 16, b >> 16, c >> 16) << 16)
WANT(want_words, element(t, (uint32_t)a, (uint32_t)b, (uint32_t)c) |
                     element(t, a >> 32, b >> 32, c >> 32) << 32)

static const struct {
    const char *name;
    int op;
    unsigned sources;
} operations[] = {{"add", SG_NUM_ADD, 2},   {"sub", SG_NUM_SUB, 2}, {"mul", SG_NUM_MUL, 2},
                  {"fma", SG_NUM_FMA, 3},   {"mad", SG_NUM_FMA, 3}, {"div", SG_NUM_DIV, 2},
                  {"sqrt", SG_NUM_SQRT, 1}, {"rcp", SG_NUM_RCP, 1}};
static const char *const roundings[] = {".rn", ".rz", ".rm", ".rp", ""};

static void registers(struct alu *t, char reg, unsigned sources)
{
    for (unsigned k = 0; k < 5; k++)
        t->regs[k] = k <= sources ? reg : '.';
}

static void check_rounded(size_t i, int rnd, unsigned flags, bool f64)
{
    struct alu t = {
        .inputs = f64 ? ALU_F64 : ALU_F32,
        .want = want_one,
        .n = alu_exact(),
        .x = {operations[i].op, f64 ? SG_T_F64 : SG_T_F32, rnd == 4 ? 0 : rnd, (int)flags}};

    registers(&t, f64 ? 'l' : 'r', operations[i].sources);
    snprintf(t.text, sizeof(t.text), "%s%s%s%s.%s", operations[i].name, roundings[rnd],
             flags & SG_NUM_FTZ ? ".ftz" : "", flags & SG_NUM_SAT ? ".sat" : "",
             f64 ? "f64" : "f32");
    if (flags == 0 && rnd == 0)
        t.lits = operations[i].sources == 1 ? (f64 ? "d.." : "f..") : f64 ? "dd." : "ff.";
    alu_check(&t);
}

/* Does the instruction exist without a rounding modifier? */
static bool rounds_by_itself(size_t i)
{
    return operations[i].op == SG_NUM_ADD || operations[i].op == SG_NUM_SUB ||
           operations[i].op == SG_NUM_MUL;
}

static void test_f32__every_operation_rounding_and_flag(void **state)
{
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(operations); i++)
        for (int rnd = 0; rnd < 4 + rounds_by_itself(i); rnd++)
            for (unsigned flags = 0; flags < 4; flags++)
                if (!(flags & SG_NUM_SAT) || operations[i].sources == 3 || rounds_by_itself(i))
                    check_rounded(i, rnd, flags, false);
}

static void test_f64__every_operation_and_rounding(void **state)
{
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(operations); i++)
        for (int rnd = 0; rnd < 4 + rounds_by_itself(i); rnd++)
            check_rounded(i, rnd, 0, true);
}

static void check_half(size_t i, int type, unsigned flags, bool pair, const char *rn)
{
    bool f16 = type == SG_T_F16;
    struct alu t = {.inputs = pair  ? (f16 ? ALU_F16X2 : ALU_BF16X2)
                              : f16 ? ALU_F16
                                    : ALU_BF16,
                    .want = pair ? want_halves : want_one,
                    .n = alu_exact(),
                    .x = {operations[i].op, type, SG_RND_RN, (int)flags}};

    registers(&t, pair ? 'r' : 'h', operations[i].sources);
    snprintf(t.text, sizeof(t.text), "%s%s%s%s%s.%s%s", operations[i].name, rn,
             flags & SG_NUM_FTZ ? ".ftz" : "", flags & SG_NUM_SAT ? ".sat" : "",
             flags & SG_NUM_RELU ? ".relu" : "", f16 ? "f16" : "bf16", pair ? "x2" : "");
    alu_check(&t);
}

static void test_halves__every_operation_and_flag(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (int pair = 0; pair < 2; pair++) {
            bool fma = operations[i].op == SG_NUM_FMA;
            check_half(i, SG_T_BF16, 0, pair, ".rn");
            if (fma)
                check_half(i, SG_T_BF16, SG_NUM_RELU, pair, ".rn");
            else
                check_half(i, SG_T_BF16, 0, pair, "");
            for (unsigned flags = 0; flags < 4; flags++)
                check_half(i, SG_T_F16, flags, pair, fma || flags == 1 ? ".rn" : "");
            for (unsigned ftz = 0; fma && ftz < 2; ftz++)
                check_half(i, SG_T_F16, SG_NUM_RELU | (ftz ? SG_NUM_FTZ : 0), pair, ".rn");
        }
}

static void test_f32x2__as_two_f32(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (int rnd = 0; rnd < 4; rnd++) {
            struct alu t = {.inputs = ALU_PAIRS,
                            .want = want_words,
                            .n = alu_exact() / 10,
                            .x = {operations[i].op, SG_T_F32, rnd, rnd & 1 ? SG_NUM_FTZ : 0}};
            registers(&t, 'l', operations[i].sources);
            snprintf(t.text, sizeof(t.text), "%s%s%s.f32x2", operations[i].name, roundings[rnd],
                     rnd & 1 ? ".ftz" : "");
            alu_check(&t);
        }
}

/* ---- minimum, maximum, signs --------------------------------------------------------------------
 */

/* x: type, maximum, flags, 0 */
static u64 minmax(const struct alu *t, u64 a, u64 b)
{
    unsigned flags = (unsigned)t->x[2];
    bool max = t->x[1];

    switch (t->x[0]) {
    case SG_T_F32:
        return max ? sg_f32_max((uint32_t)a, (uint32_t)b, flags)
                   : sg_f32_min((uint32_t)a, (uint32_t)b, flags);
    case SG_T_F64:
        return max ? sg_f64_max(a, b, flags) : sg_f64_min(a, b, flags);
    case SG_T_F16:
        return max ? sg_f16_max((uint16_t)a, (uint16_t)b, flags)
                   : sg_f16_min((uint16_t)a, (uint16_t)b, flags);
    default:
        return max ? sg_bf16_max((uint16_t)a, (uint16_t)b, flags)
                   : sg_bf16_min((uint16_t)a, (uint16_t)b, flags);
    }
}

WANT(want_minmax, minmax(t, a, b))
WANT(want_minmax3, minmax(t, minmax(t, a, b), c))
WANT(want_minmax2, minmax(t, a & 0xffff, b & 0xffff) | minmax(t, a >> 16, b >> 16) << 16)

static const struct {
    const char *name;
    int type;
    char reg;
    enum alu_inputs inputs;
    bool ftz, pair;
} floats[] = {
    {"f32", SG_T_F32, 'r', ALU_F32, true, false},
    {"f64", SG_T_F64, 'l', ALU_F64, false, false},
    {"f16", SG_T_F16, 'h', ALU_F16, true, false},
    {"bf16", SG_T_BF16, 'h', ALU_BF16, false, false},
    {"f16x2", SG_T_F16, 'r', ALU_F16X2, true, true},
    {"bf16x2", SG_T_BF16, 'r', ALU_BF16X2, false, true},
};

static void check_minmax(size_t i, bool max, unsigned k)
{
    unsigned flags =
        (k & 1 ? SG_NUM_FTZ : 0) | (k & 2 ? SG_NUM_NAN : 0) | (k & 4 ? SG_NUM_XORSIGN : 0);
    struct alu t = {.inputs = floats[i].inputs,
                    .want = floats[i].pair ? want_minmax2 : want_minmax,
                    .x = {floats[i].type, max, (int)flags},
                    .n = 100000};

    registers(&t, floats[i].reg, 2);
    snprintf(t.text, sizeof(t.text), "%s%s%s%s.%s", max ? "max" : "min", k & 1 ? ".ftz" : "",
             k & 2 ? ".NaN" : "", k & 4 ? ".xorsign.abs" : "", floats[i].name);
    alu_check(&t);
    if (floats[i].type != SG_T_F32 || k & 4)
        return;
    t.want = want_minmax3;
    registers(&t, 'r', 3);
    alu_check(&t);
}

static void test_floats__minimum_and_maximum(void **state)
{
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(floats); i++)
        for (unsigned k = 0; k < 16; k++)
            if ((!(k & 1) || floats[i].ftz) && (!(k & 7) || floats[i].type != SG_T_F64))
                check_minmax(i, k & 8, k & 7);
}

static u64 flushed(const struct alu *t, u64 v)
{
    return t->x[1] ? ref_flush(ref_format_of((enum sg_type)t->x[0]), v) : v;
}

static u64 top_bit(const struct alu *t)
{
    return UINT64_C(1) << (t->x[0] == SG_T_F64 ? 63 : t->x[0] == SG_T_F32 ? 31 : 15);
}

WANT(want_neg, flushed(t, a) ^ top_bit(t))
WANT(want_abs, ref_is_nan(ref_format_of((enum sg_type)t->x[0]), a) && t->x[0] == SG_T_F64
                   ? a
                   : flushed(t, a) & ~top_bit(t))
WANT(want_neg2, (flushed(t, a & 0xffff) | flushed(t, a >> 16) << 16) ^ 0x80008000)
WANT(want_abs2, (flushed(t, a & 0xffff) | flushed(t, a >> 16) << 16) & 0x7fff7fff)
WANT(want_copysign, (a & top_bit(t)) | (b & ~top_bit(t)))

static void test_floats__signs(void **state)
{
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(floats); i++)
        for (int ftz = 0; ftz <= floats[i].ftz; ftz++) {
            struct alu t = {.inputs = floats[i].inputs, .x = {floats[i].type, ftz}};
            registers(&t, floats[i].reg, 1);
            t.want = floats[i].pair ? want_neg2 : want_neg;
            snprintf(t.text, sizeof(t.text), "neg%s.%s", ftz ? ".ftz" : "", floats[i].name);
            alu_check(&t);
            t.want = floats[i].pair ? want_abs2 : want_abs;
            snprintf(t.text, sizeof(t.text), "abs%s.%s", ftz ? ".ftz" : "", floats[i].name);
            alu_check(&t);
            if (ftz || floats[i].reg == 'h' || floats[i].pair)
                continue;
            t.want = want_copysign;
            registers(&t, floats[i].reg, 2);
            snprintf(t.text, sizeof(t.text), "copysign.%s", floats[i].name);
            alu_check(&t);
        }
}

/* ---- predicates
 * ----------------------------------------------------------------------------------- */

static const char *const orders[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                     "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

/* x: type, ftz, comparison, third: 0 none, 1 and, 2 or, 3 xor, + 4: negated */
static bool compare(const struct alu *t, u64 a, u64 b)
{
    const struct ref_format *f = ref_format_of((enum sg_type)t->x[0]);
    bool nan = ref_is_nan(f, a) || ref_is_nan(f, b);
    double x = nan ? 0 : ref_value(f, flushed(t, a)), y = nan ? 0 : ref_value(f, flushed(t, b));
    int op = t->x[2];

    if (op >= 12)
        return nan == (op == 13);
    if (nan)
        return op >= 6;
    switch (op % 6) {
    case 0:
        return x == y;
    case 1:
        return x != y;
    case 2:
        return x < y;
    case 3:
        return x <= y;
    case 4:
        return x > y;
    default:
        return x >= y;
    }
}

static bool with_third(const struct alu *t, bool r, u64 c)
{
    bool q = (c & 1) != (u64)(t->x[3] >> 2 & 1);

    switch (t->x[3] & 3) {
    case 1:
        return r && q;
    case 2:
        return r || q;
    case 3:
        return r != q;
    default:
        return r;
    }
}

static u64 want_setp(const struct alu *t, u64 a, u64 b, u64 c, u64 *e)
{
    bool r = compare(t, a, b);

    *e = with_third(t, !r, c);
    return with_third(t, r, c);
}

static u64 want_setp_pair(const struct alu *t, u64 a, u64 b, u64 c, u64 *e)
{
    *e = with_third(t, compare(t, a >> 16, b >> 16), c);
    return with_third(t, compare(t, a & 0xffff, b & 0xffff), c);
}

/* ptr: the value for true, of one element */
static u64 truth(const struct alu *t, u64 a, u64 b, u64 c)
{
    return with_third(t, compare(t, a, b), c) ? *(const uint32_t *)t->ptr : 0;
}

WANT(want_set, truth(t, a, b, c))
WANT(want_set_pair, (truth(t, a & 0xffff, b & 0xffff, c) & 0xffff) |
                        (truth(t, a >> 16, b >> 16, c) & 0xffff) << 16)

static const char *third_text(int third, const char **end)
{
    static const char *const ends[] = {"", ".and", ".or", ".xor"};

    *end = ends[third & 3];
    return (third & 3) == 0 ? "" : third & 4 ? ", !C" : ", C";
}

static void check_setp(size_t i, int op, int ftz, int third)
{
    struct alu t = {.inputs = floats[i].inputs,
                    .want = floats[i].pair ? want_setp_pair : want_setp,
                    .x = {floats[i].type, ftz, op, third}};
    const char *end, *c = third_text(third, &end);

    snprintf(t.regs, sizeof(t.regs), "p%c%c%cp", floats[i].reg, floats[i].reg, third ? 'p' : '.');
    snprintf(t.text, sizeof(t.text), "setp.%s%s%s.%s D|E, A, B%s", orders[op], end,
             ftz ? ".ftz" : "", floats[i].name, c);
    alu_check(&t);
}

static void check_set(size_t i, int op, int ftz, int third)
{
    static const uint32_t minus_one = UINT32_MAX, one = 0x3f800000, one16 = 0x3c00, oneb = 0x3f80;
    static const struct {
        const char *name;
        const uint32_t *value;
        char reg;
    } scalar[] = {{"u32", &minus_one, 'r'}, {"s32", &minus_one, 'r'}, {"f32", &one, 'r'},
                  {"u16", &minus_one, 'h'}, {"s16", &minus_one, 'h'}, {"f16", &one16, 'h'},
                  {"bf16", &oneb, 'h'}},
      packed[] = {{"u32", &minus_one, 'r'},
                  {"s32", &minus_one, 'r'},
                  {"f16x2", &one16, 'r'},
                  {"bf16x2", &oneb, 'r'}};
    const char *end, *c = third_text(third, &end);

    for (size_t k = 0; k < (floats[i].pair ? 4 : floats[i].reg == 'h' ? 7 : 3); k++) {
        struct alu t = {.inputs = floats[i].inputs,
                        .want = floats[i].pair ? want_set_pair : want_set,
                        .x = {floats[i].type, ftz, op, third},
                        .n = 2000};
        const char *name = floats[i].pair ? packed[k].name : scalar[k].name;
        t.ptr = floats[i].pair ? packed[k].value : scalar[k].value;
        if (floats[i].pair && k >= 2 && strcmp(name, floats[i].name) != 0)
            continue;
        snprintf(t.regs, sizeof(t.regs), "%c%c%c%c.", floats[i].pair ? 'r' : scalar[k].reg,
                 floats[i].reg, floats[i].reg, third ? 'p' : '.');
        snprintf(t.text, sizeof(t.text), "set.%s%s%s.%s.%s D, A, B%s", orders[op], end,
                 ftz ? ".ftz" : "", name, floats[i].name, c);
        alu_check(&t);
    }
}

static void test_floats__comparisons(void **state)
{
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(floats); i++)
        for (int op = 0; op < 14; op++)
            for (int ftz = 0; ftz <= floats[i].ftz; ftz++)
                for (int third = 0; third < 8; third++) {
                    if (third == 4)
                        continue;
                    check_setp(i, op, ftz, third);
                    if (third % 3 == 0)
                        check_set(i, op, ftz, third);
                }
}

static const char *const tests_of[] = {"finite",     "infinite", "number",
                                       "notanumber", "normal",   "subnormal"};

/* x: type, 0, which */
static u64 testp(const struct alu *t, u64 a)
{
    const struct ref_format *f = ref_format_of((enum sg_type)t->x[0]);
    u64 mag = a & ~top_bit(t), inf = f == &ref_f64 ? UINT64_C(0x7ff) << 52 : 0x7f800000;
    bool sub = ref_is_subnormal(f, a);

    switch (t->x[2]) {
    case 0:
        return mag < inf;
    case 1:
        return mag == inf;
    case 2:
        return mag <= inf;
    case 3:
        return mag > inf;
    case 4:
        return mag < inf && !sub;
    default:
        return sub;
    }
}

WANT(want_testp, testp(t, a))
WANT(want_slct, !ref_is_nan(&ref_f32, c) && ref_value(&ref_f32, flushed(t, c)) >= 0 ? a : b)

static void test_floats__classes_and_selection(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int k = 0; k < 6; k++) {
            struct alu t = {
                .inputs = floats[i].inputs, .want = want_testp, .x = {floats[i].type, 0, k}};
            snprintf(t.regs, sizeof(t.regs), "p%c...", floats[i].reg);
            snprintf(t.text, sizeof(t.text), "testp.%s.%s", tests_of[k], floats[i].name);
            alu_check(&t);
        }
    for (int k = 0; k < 4; k++) {
        struct alu t = {
            .inputs = k & 2 ? ALU_PAIRS : ALU_F32, .want = want_slct, .x = {SG_T_F32, k & 1}};
        snprintf(t.regs, sizeof(t.regs), k & 2 ? "lllr." : "rrrr.");
        snprintf(t.text, sizeof(t.text), "slct%s.%s.f32", k & 1 ? ".ftz" : "",
                 k & 2 ? "f64" : "b32");
        alu_check(&t);
    }
}

/* ---- approximate functions: softgpu/num measures their errors
 * --------------------------------------- */

#define F32(name, call)                                                                            \
    static u64 want_##name(const struct alu *t, u64 a64, u64 b64, u64 c, u64 *e)                   \
    {                                                                                              \
        uint32_t a = (uint32_t)a64, b = (uint32_t)b64;                                             \
        unsigned flags = (unsigned)t->x[0];                                                        \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        (void)e;                                                                                   \
        (void)flags;                                                                               \
        return call;                                                                               \
    }
F32(ex2, sg_f32_ex2_approx(a, flags))
F32(lg2, sg_f32_lg2_approx(a, flags))
F32(sin, sg_f32_sin_approx(a, flags))
F32(cos, sg_f32_cos_approx(a, flags))
F32(tanh, sg_f32_tanh_approx(a))
F32(rcp, sg_f32_rcp_approx(a, flags))
F32(sqrt, sg_f32_sqrt_approx(a, flags))
F32(rsqrt, sg_f32_rsqrt_approx(a, flags))
F32(div, sg_f32_div_approx(a, b, flags))
F32(div_full, sg_f32_div_full(a, b, flags))
F32(ex2_f16, sg_f16_ex2_approx((uint16_t)a))
F32(ex2_f16x2, SG_X2_1(sg_f16_ex2_approx, a))
F32(ex2_bf16, sg_bf16_ex2_approx_ftz((uint16_t)a))
F32(ex2_bf16x2, SG_X2_1(sg_bf16_ex2_approx_ftz, a))
F32(tanh_f16, sg_f16_tanh_approx((uint16_t)a))
F32(tanh_f16x2, SG_X2_1(sg_f16_tanh_approx, a))
F32(tanh_bf16, sg_bf16_tanh_approx((uint16_t)a))
F32(tanh_bf16x2, SG_X2_1(sg_bf16_tanh_approx, a))
WANT(want_rcp64, sg_f64_rcp_approx_ftz(a))
WANT(want_rsqrt64, t->x[0] ? sg_f64_rsqrt_approx_ftz(a) : sg_f64_rsqrt_approx(a))

static const struct alu approximate[] = {
    {"ex2.approx.f32", "rr...", ALU_F32, want_ex2, .x = {0}, .lits = "f.."},
    {"ex2.approx.ftz.f32", "rr...", ALU_F32, want_ex2, .x = {SG_NUM_FTZ}},
    {"lg2.approx.f32", "rr...", ALU_F32, want_lg2, .x = {0}},
    {"lg2.approx.ftz.f32", "rr...", ALU_F32, want_lg2, .x = {SG_NUM_FTZ}},
    {"sin.approx.f32", "rr...", ALU_F32, want_sin, .x = {0}},
    {"sin.approx.ftz.f32", "rr...", ALU_F32, want_sin, .x = {SG_NUM_FTZ}},
    {"cos.approx.f32", "rr...", ALU_F32, want_cos, .x = {0}},
    {"cos.approx.ftz.f32", "rr...", ALU_F32, want_cos, .x = {SG_NUM_FTZ}},
    {"tanh.approx.f32", "rr...", ALU_F32, want_tanh, .x = {0}},
    {"rcp.approx.f32", "rr...", ALU_F32, want_rcp, .x = {0}},
    {"rcp.approx.ftz.f32", "rr...", ALU_F32, want_rcp, .x = {SG_NUM_FTZ}},
    {"sqrt.approx.f32", "rr...", ALU_F32, want_sqrt, .x = {0}},
    {"sqrt.approx.ftz.f32", "rr...", ALU_F32, want_sqrt, .x = {SG_NUM_FTZ}},
    {"rsqrt.approx.f32", "rr...", ALU_F32, want_rsqrt, .x = {0}},
    {"rsqrt.approx.ftz.f32", "rr...", ALU_F32, want_rsqrt, .x = {SG_NUM_FTZ}},
    {"div.approx.f32", "rrr..", ALU_F32, want_div, .x = {0}, .lits = ".f."},
    {"div.approx.ftz.f32", "rrr..", ALU_F32, want_div, .x = {SG_NUM_FTZ}},
    {"div.full.f32", "rrr..", ALU_F32, want_div_full, .x = {0}},
    {"div.full.ftz.f32", "rrr..", ALU_F32, want_div_full, .x = {SG_NUM_FTZ}},
    {"rcp.approx.ftz.f64", "ll...", ALU_F64, want_rcp64, .x = {0}},
    {"rsqrt.approx.f64", "ll...", ALU_F64, want_rsqrt64, .x = {0}},
    {"rsqrt.approx.ftz.f64", "ll...", ALU_F64, want_rsqrt64, .x = {1}},
    {"ex2.approx.f16", "hh...", ALU_F16, want_ex2_f16, .x = {0}},
    {"ex2.approx.f16x2", "rr...", ALU_F16X2, want_ex2_f16x2, .x = {0}},
    {"ex2.approx.ftz.bf16", "hh...", ALU_BF16, want_ex2_bf16, .x = {0}},
    {"ex2.approx.ftz.bf16x2", "rr...", ALU_BF16X2, want_ex2_bf16x2, .x = {0}},
    {"tanh.approx.f16", "hh...", ALU_F16, want_tanh_f16, .x = {0}},
    {"tanh.approx.f16x2", "rr...", ALU_F16X2, want_tanh_f16x2, .x = {0}},
    {"tanh.approx.bf16", "hh...", ALU_BF16, want_tanh_bf16, .x = {0}},
    {"tanh.approx.bf16x2", "rr...", ALU_BF16X2, want_tanh_bf16x2, .x = {0}},
};

static void test_approximations__as_in_the_arithmetic_library(void **state)
{
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(approximate); i++)
        alu_check(&approximate[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32__every_operation_rounding_and_flag),
        cmocka_unit_test(test_f64__every_operation_and_rounding),
        cmocka_unit_test(test_halves__every_operation_and_flag),
        cmocka_unit_test(test_f32x2__as_two_f32),
        cmocka_unit_test(test_floats__minimum_and_maximum),
        cmocka_unit_test(test_floats__signs),
        cmocka_unit_test(test_floats__comparisons),
        cmocka_unit_test(test_floats__classes_and_selection),
        cmocka_unit_test(test_approximations__as_in_the_arithmetic_library),
    };
    return cmocka_run_group_tests(tests, alu_setup, alu_teardown);
}
