/* cvt between all types with all modifiers: what softgpu/num takes is loaded and gives its bits,
 * all else is refused. Video instructions too. */
#include "tests/softgpu/exec/alu.h"
#include "tests/softgpu/num/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t u32;
typedef uint64_t u64;

static const struct {
    const char *name;
    uint8_t type;
    bool pair;
    const char *regs; /* registers that may hold it */
    enum alu_inputs inputs;
} types[] = {
    {"u8", SG_T_U8, false, "hrl", ALU_ALL16},     {"s8", SG_T_S8, false, "hrl", ALU_ALL16},
    {"u16", SG_T_U16, false, "hrl", ALU_ALL16},   {"s16", SG_T_S16, false, "hrl", ALU_ALL16},
    {"u32", SG_T_U32, false, "rl", ALU_INT},      {"s32", SG_T_S32, false, "rl", ALU_INT},
    {"u64", SG_T_U64, false, "l", ALU_INT},       {"s64", SG_T_S64, false, "l", ALU_INT},
    {"f16", SG_T_F16, false, "h", ALU_ALL16},     {"bf16", SG_T_BF16, false, "h", ALU_ALL16},
    {"f32", SG_T_F32, false, "r", ALU_F32},       {"f64", SG_T_F64, false, "l", ALU_F64},
    {"tf32", SG_T_TF32, false, "r", ALU_F32},     {"f16x2", SG_T_F16, true, "r", ALU_F16X2},
    {"bf16x2", SG_T_BF16, true, "r", ALU_BF16X2}, {"e4m3x2", SG_T_E4M3, true, "h", ALU_ALL16},
    {"e5m2x2", SG_T_E5M2, true, "h", ALU_ALL16},
};

static const struct {
    const char *text;
    uint8_t rnd, mode;
} roundings[] = {
    {"", SG_RND_RN, SG_CVT_PLAIN},        {".rn", SG_RND_RN, SG_CVT_FLOAT},
    {".rz", SG_RND_RZ, SG_CVT_FLOAT},     {".rm", SG_RND_RM, SG_CVT_FLOAT},
    {".rp", SG_RND_RP, SG_CVT_FLOAT},     {".rna", SG_RND_RNA, SG_CVT_FLOAT},
    {".rni", SG_RND_RN, SG_CVT_INTEGRAL}, {".rzi", SG_RND_RZ, SG_CVT_INTEGRAL},
    {".rmi", SG_RND_RM, SG_CVT_INTEGRAL}, {".rpi", SG_RND_RP, SG_CVT_INTEGRAL},
};

static u64 want_cvt(const struct alu *t, u64 a, u64 b, u64 c, u64 *e)
{
    (void)c;
    (void)e;
    return sg_cvt_run(t->ptr, a, t->regs[2] == '.' ? 0 : b);
}

static bool is_exact(unsigned dst, unsigned src)
{
    return sg_type_is_float((enum sg_type)types[dst].type) ||
           sg_type_is_float((enum sg_type)types[src].type);
}

/* Short sources are tried in full, others with less inputs where flags make variants. */
static uint32_t inputs_for(unsigned dst, unsigned src, unsigned flags)
{
    if (types[src].inputs == ALU_ALL16)
        return 65536;
    return !is_exact(dst, src) ? 5000 : flags != 0 ? alu_exact() / 20 : alu_exact();
}

/* All registers that can hold the two types. */
static void check_registers(struct alu *t, unsigned dst, unsigned src, unsigned flags)
{
    for (const char *d = types[dst].regs; *d; d++)
        for (const char *s = types[src].regs; *s; s++) {
            bool first = d == types[dst].regs && s == types[src].regs;
            t->regs[0] = *d;
            t->regs[1] = *s;
            t->n = first ? inputs_for(dst, src, flags) : 2000;
            alu_check(t);
        }
}

static void check_cvt(unsigned dst, unsigned src, unsigned rnd, unsigned flags, unsigned *refused)
{
    struct sg_cvt c = {.dst = types[dst].type,
                       .src = types[src].type,
                       .rnd = roundings[rnd].rnd,
                       .mode = roundings[rnd].mode,
                       .flags = (uint8_t)flags,
                       .pack = types[dst].pair,
                       .src_pair = types[src].pair};
    struct alu t = {.inputs = types[src].inputs, .want = want_cvt, .ptr = &c};
    bool two = types[dst].pair && types[src].type == SG_T_F32;
    struct tb_error err = {0};
    const char *why;

    snprintf(t.text, sizeof(t.text), "cvt%s%s%s%s%s.%s.%s", roundings[rnd].text,
             flags & SG_NUM_FTZ ? ".ftz" : "", flags & SG_NUM_SATFINITE ? ".satfinite" : "",
             flags & SG_NUM_RELU ? ".relu" : "", flags & SG_NUM_SAT ? ".sat" : "", types[dst].name,
             types[src].name);
    snprintf(t.regs, sizeof(t.regs), "%c%c%c..", types[dst].regs[0], types[src].regs[0],
             two ? types[src].regs[0] : '.');
    if (sg_cvt_init(&c, &err) == TB_OK) {
        check_registers(&t, dst, src, flags);
        return;
    }
    if (alu_loads(&t, &why))
        fail_msg("%s was loaded", t.text);
    if (strstr(why, "cvt") == NULL)
        fail_msg("%s: %s", t.text, why);
    ++*refused;
}

static void test_cvt__every_pair_of_types_rounding_and_flag(void **state)
{
    unsigned before = alu_count(), refused = 0;
    (void)state;
    for (unsigned dst = 0; dst < TB_ARRAY_LEN(types); dst++)
        for (unsigned src = 0; src < TB_ARRAY_LEN(types); src++)
            for (unsigned rnd = 0; rnd < TB_ARRAY_LEN(roundings); rnd++)
                for (unsigned f = 0; f < 16; f++)
                    check_cvt(dst, src, rnd,
                              (f & 1 ? SG_NUM_FTZ : 0u) | (f & 2 ? SG_NUM_SAT : 0u) |
                                  (f & 4 ? SG_NUM_RELU : 0u) | (f & 8 ? SG_NUM_SATFINITE : 0u),
                              &refused);
    printf("# %u conversions, %u refused\n", alu_count() - before, refused);
}

/* Two sources make a pair, one does not. */
static void test_cvt__operands_are_counted(void **state)
{
    static const struct alu wrong[] = {
        {.text = "cvt.rn.f16x2.f32 D, A", .regs = "rr..."},
        {.text = "cvt.rn.f16.f32 D, A, B", .regs = "hrr.."},
        {.text = "cvt.u32.u16 D, A, B", .regs = "rhh.."},
        {.text = "cvt.rn.satfinite.e4m3x2.f16x2 D, A, B", .regs = "hrr.."},
        {.text = "cvt.rn.f16x2.e5m2x2 D, A, B", .regs = "rhh.."},
        {.text = "cvt.pack.sat.u8.s32.b32 D, A, B", .regs = "rrr.."},
        {.text = "cvt.pack.sat.u16.s32 D, A, B, C", .regs = "rrrr."},
        {.text = "cvt.pack.u16.s32 D, A, B", .regs = "rrr.."},
        {.text = "cvt.pack.sat.u16.u32 D, A, B", .regs = "rrr.."},
    };
    const char *why;
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(wrong); i++)
        if (alu_loads(&wrong[i], &why))
            fail_msg("%s was loaded", wrong[i].text);
}

/* x: bits, signed */
static u64 want_pack(const struct alu *t, u64 a, u64 b, u64 c, u64 *e)
{
    int bits = t->x[0];
    int64_t max = (INT64_C(1) << (bits - t->x[1])) - 1, min = t->x[1] ? -max - 1 : 0;
    int64_t x = (int32_t)a, y = (int32_t)b;
    u64 mask = (UINT64_C(1) << bits) - 1;

    (void)e;
    x = x > max ? max : x < min ? min : x;
    y = y > max ? max : y < min ? min : y;
    u64 low = ((u64)x & mask) << bits | ((u64)y & mask);
    return bits == 16 ? low : low | c << (2 * bits);
}

static void test_cvt_pack__clamps_and_moves_up(void **state)
{
    static const struct alu table[] = {
        {"cvt.pack.sat.u16.s32", "rrr..", ALU_INT, want_pack, .x = {16, 0}, .lits = ".i."},
        {"cvt.pack.sat.s16.s32", "rrr..", ALU_INT, want_pack, .x = {16, 1}},
        {"cvt.pack.sat.u8.s32.b32", "rrrr.", ALU_INT, want_pack, .x = {8, 0}, .lits = "..i"},
        {"cvt.pack.sat.s8.s32.b32", "rrrr.", ALU_INT, want_pack, .x = {8, 1}},
        {"cvt.pack.sat.u4.s32.b32", "rrrr.", ALU_INT, want_pack, .x = {4, 0}},
        {"cvt.pack.sat.s4.s32.b32", "rrrr.", ALU_INT, want_pack, .x = {4, 1}},
    };
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(table); i++)
        alu_check(&table[i]);
}

/* ---- video instructions
 * --------------------------------------------------------------------------- */

static int64_t part(u64 v, int bits, int at, bool sign)
{
    v = v >> at & ((UINT64_C(1) << bits) - 1);
    return sign && v >> (bits - 1) ? (int64_t)v - (INT64_C(1) << bits) : (int64_t)v;
}

static int64_t clamp(int64_t v, int64_t min, int64_t max)
{
    return v < min ? min : v > max ? max : v;
}

#define SWHOLE(v) ((int64_t)(int32_t)(v))
#define UWHOLE(v) ((int64_t)(u32)(v))

/* four or two lanes: x[0] lanes; f of both parts */
#define LANES(name, sa, sb, expr)                                                                  \
    static u64 name(const struct alu *t, u64 a, u64 b, u64 c, u64 *e)                              \
    {                                                                                              \
        int lanes = t->x[0], bits = 32 / lanes;                                                    \
        int64_t smax = (INT64_C(1) << (bits - 1)) - 1, umax = (INT64_C(1) << bits) - 1;            \
        u64 d = 0, sum = c;                                                                        \
        for (int i = 0; i < lanes; i++) {                                                          \
            int64_t x = part(a, bits, bits * i, sa), y = part(b, bits, bits * i, sb);              \
            int64_t r = (expr);                                                                    \
            d |= ((u64)r & (u64)umax) << (bits * i);                                               \
            sum += (u64)r;                                                                         \
        }                                                                                          \
        (void)e;                                                                                   \
        (void)smax;                                                                                \
        return t->x[1] ? sum : d;                                                                  \
    }

WANT(want_vadd, SWHOLE(a) + UWHOLE(b))
WANT(want_vadd_sat, clamp(part(a, 8, 8, true) + part(b, 16, 16, false) * 1, INT32_MIN, INT32_MAX))
WANT(want_vsub_sat_u, clamp(UWHOLE(a) - SWHOLE(b), 0, UINT32_MAX))
WANT(want_vabsdiff_add, (u64)llabs(part(a, 16, 0, true) - part(b, 8, 24, true)) + c)
WANT(want_vmin_max, clamp(SWHOLE(a) < SWHOLE(b) ? SWHOLE(a) : SWHOLE(b), SWHOLE(c), INT32_MAX))
WANT(want_vmax_merge, (c & 0xffff00ff) | ((u64)(UWHOLE(a) > UWHOLE(b) ? a : b) & 255) << 8)
WANT(want_vshl, (u32)b > 31 ? (u64)0 : a << b)
WANT(want_vshr_wrap, SWHOLE(a) >> (b & 31))
WANT(want_vset, SWHOLE(a) < UWHOLE(b))
WANT(want_vset_add, (SWHOLE(a) >= SWHOLE(b)) + c)
WANT(want_vmad, part(a, 16, 0, false) * part(b, 8, 24, true) + SWHOLE(c))
LANES(want_vadd4, true, false, x + y)
LANES(want_vsub4_sat, true, true, clamp(x - y, -smax - 1, smax))
LANES(want_vabsdiff4, false, false, llabs(x - y))
LANES(want_vmin2, true, true, x < y ? x : y)
LANES(want_vmax4, false, false, x > y ? x : y)
LANES(want_vset2, false, false, x > y)

static void test_video__scalar_and_packed(void **state)
{
    static const struct alu table[] = {
        {"vadd.s32.s32.u32", "rrr..", ALU_INT, want_vadd, .x = {0}},
        {"vadd.s32.s32.u32.sat D, A.b1, B.h1", "rrr..", ALU_INT, want_vadd_sat, .x = {0}},
        {"vsub.u32.u32.s32.sat", "rrr..", ALU_INT, want_vsub_sat_u, .x = {0}},
        {"vabsdiff.u32.s32.s32.add D, A.h0, B.b3, C", "rrrr.", ALU_INT, want_vabsdiff_add,
         .x = {0}},
        {"vmin.s32.s32.s32.max D, A, B, C", "rrrr.", ALU_INT, want_vmin_max, .x = {0}},
        {"vmax.u32.u32.u32 D.b1, A, B, C", "rrrr.", ALU_INT, want_vmax_merge, .x = {0}},
        {"vshl.u32.u32.u32.clamp", "rrr..", ALU_SHIFT, want_vshl, .x = {0}},
        {"vshr.s32.s32.u32.wrap", "rrr..", ALU_SHIFT, want_vshr_wrap, .x = {0}},
        {"vset.s32.u32.lt", "rrr..", ALU_INT, want_vset, .x = {0}},
        {"vset.s32.s32.ge.add D, A, B, C", "rrrr.", ALU_INT, want_vset_add, .x = {0}},
        {"vmad.s32.u32.s32 D, A.h0, B.b3, C", "rrrr.", ALU_INT, want_vmad, .x = {0}},
        {"vadd4.u32.s32.u32", "rrrr.", ALU_INT, want_vadd4, .x = {4, 0}},
        {"vadd2.s32.s32.u32.add", "rrrr.", ALU_INT, want_vadd4, .x = {2, 1}},
        {"vsub4.s32.s32.s32.sat", "rrrr.", ALU_INT, want_vsub4_sat, .x = {4, 0}},
        {"vabsdiff4.u32.u32.u32", "rrrr.", ALU_INT, want_vabsdiff4, .x = {4, 0}},
        {"vabsdiff4.u32.u32.u32.add", "rrrr.", ALU_INT, want_vabsdiff4, .x = {4, 1}},
        {"vmin2.s32.s32.s32", "rrrr.", ALU_INT, want_vmin2, .x = {2, 0}},
        {"vmax4.u32.u32.u32", "rrrr.", ALU_INT, want_vmax4, .x = {4, 0}},
        {"vset2.u32.u32.gt", "rrrr.", ALU_INT, want_vset2, .x = {2, 0}},
    };
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(table); i++)
        alu_check(&table[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cvt__every_pair_of_types_rounding_and_flag),
        cmocka_unit_test(test_cvt__operands_are_counted),
        cmocka_unit_test(test_cvt_pack__clamps_and_moves_up),
        cmocka_unit_test(test_video__scalar_and_packed),
    };
    return cmocka_run_group_tests(tests, alu_setup, alu_teardown);
}
