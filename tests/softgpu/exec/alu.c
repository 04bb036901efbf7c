#include "tests/softgpu/exec/alu.h"

#include "tests/softgpu/exec/exec_test.h"
#include "tests/softgpu/num/ref.h"

#include <ctype.h>

#define VARIANTS 4096u /* inputs of the kernel of variants */
#define SLOTS 11u      /* results of it for each input */
#define OLD UINT64_C(0x5a5aa5a5c3c33c3c)

/* Inputs and results, made when they are needed, kept for all instructions. */
static struct {
    uint64_t *in[ALU_INPUTS][3]; /* device memory */
    uint64_t *out, *second;
    uint32_t most;
    unsigned checked;
    struct tb_error err;
} bench;

uint32_t alu_exact(void)
{
    return (uint32_t)ref_count(1);
}

unsigned alu_count(void)
{
    return bench.checked;
}

int alu_setup(void **state)
{
    int r = exec_setup(state);

    bench.most = alu_exact() > 65536 ? alu_exact() : 65536;
    if (bench.most < VARIANTS * SLOTS)
        bench.most = VARIANTS * SLOTS;
    bench.out = r == 0 ? device_bytes((size_t)bench.most * 8) : NULL;
    bench.second = r == 0 ? device_bytes((size_t)bench.most * 8) : NULL;
    return r;
}

int alu_teardown(void **state)
{
    printf("# %u instructions\n", bench.checked);
    return exec_teardown(state);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static uint64_t two(struct ref_rng *r, const struct ref_format *f, uint64_t with, bool partner)
{
    uint64_t lo = partner ? ref_partner(r, f, with & 0xffff) : ref_input(r, f);
    uint64_t hi = partner ? ref_partner(r, f, with >> 16 & 0xffff) : ref_input(r, f);

    return lo | hi << 16;
}

static uint64_t small(struct ref_rng *r)
{
    uint64_t v = ref_next(r);

    return v % 8 == 0 ? ref_int_input(r) : (v >> 8) % 70;
}

static void make(struct ref_rng *r, enum alu_inputs kind, uint32_t i, uint64_t v[3])
{
    const struct ref_format *f = kind == ALU_F32    ? &ref_f32
                                 : kind == ALU_F64  ? &ref_f64
                                 : kind == ALU_F16  ? &ref_f16
                                 : kind == ALU_BF16 ? &ref_bf16
                                                    : NULL;

    switch (kind) {
    case ALU_F16X2:
    case ALU_BF16X2:
        f = kind == ALU_F16X2 ? &ref_f16 : &ref_bf16;
        v[0] = two(r, f, 0, false);
        v[1] = two(r, f, v[0], true);
        v[2] = two(r, f, v[1], true);
        return;
    case ALU_PAIRS:
        v[0] = ref_input(r, &ref_f32) | ref_input(r, &ref_f32) << 32;
        v[1] = ref_input(r, &ref_f32) | ref_input(r, &ref_f32) << 32;
        v[2] = ref_input(r, &ref_f32) | ref_input(r, &ref_f32) << 32;
        return;
    case ALU_ALL16:
        v[0] = (ref_next(r) & ~UINT64_C(0xffff)) | (i & 0xffff);
        v[1] = ref_next(r);
        v[2] = ref_next(r);
        return;
    case ALU_SHIFT:
        v[0] = ref_int_input(r);
        v[1] = small(r);
        v[2] = small(r);
        return;
    case ALU_INT:
        v[0] = ref_int_input(r);
        v[1] = ref_next(r) % 8 == 0 ? v[0] + ref_next(r) % 3 - 1 : ref_int_input(r);
        v[2] = ref_int_input(r);
        return;
    default:
        v[0] = ref_input(r, f);
        v[1] = ref_partner(r, f, v[0]);
        v[2] = ref_partner(r, f, v[1]);
        return;
    }
}

static void inputs_of(enum alu_inputs kind)
{
    struct ref_rng r = {1000 + (uint64_t)kind};

    if (bench.in[kind][0] != NULL)
        return;
    for (int k = 0; k < 3; k++)
        bench.in[kind][k] = device_bytes((size_t)bench.most * 8);
    for (uint32_t i = 0; i < bench.most; i++) {
        uint64_t v[3];
        make(&r, kind, i, v);
        for (int k = 0; k < 3; k++)
            bench.in[kind][k][i] = v[k];
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static unsigned bits_of(char reg)
{
    return reg == 'h' ? 16 : reg == 'r' ? 32 : reg == 'l' ? 64 : 1;
}

/* The statements of @c with names for D, A, B, C, E, each behind @guard. */
static void statement(struct text *t, const struct alu *c, const char *guard,
                      const char *const names[5])
{
    static const char letters[] = "DABCE";
    char text[256];
    const char *s = text;
    bool start = true;

    if (strchr(c->text, ' ') == NULL)
        snprintf(text, sizeof(text), "%s D%s%s%s", c->text, c->regs[1] != '.' ? ", A" : "",
                 c->regs[2] != '.' ? ", B" : "", c->regs[3] != '.' ? ", C" : "");
    else
        snprintf(text, sizeof(text), "%s", c->text);
    for (; *s; s++) {
        bool alone = !(s > text && isalnum((unsigned char)s[-1])) && !isalnum((unsigned char)s[1]);
        const char *at = alone && *s != 0 ? strchr(letters, *s) : NULL;
        if (start && *s == ' ')
            continue;
        if (start)
            text_add(t, "%s", guard);
        start = *s == ';';
        if (at != NULL)
            text_add(t, "%s", names[at - letters]);
        else
            text_add(t, "%c", *s);
    }
    text_add(t, ";\n");
}

static void head(struct text *t, const struct alu *c)
{
    text_add(
        t, ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param "
           ".u64 b, .param .u64 c, .param .u64 o, .param .u64 s, .param .u32 n)\n{\n"
           ".reg .b64 %%p<9>; .reg .b64 %%i<5>; .reg .b32 %%n<9>; .reg .pred %%q<9>;\n"
           ".reg .b32 t<4>; .reg .b64 u<4>; .reg .b16 h<4>; .reg .pred q<4>;\n"
           "ld.param.u64 %%p0, [a];\nld.param.u64 %%p1, [b];\nld.param.u64 %%p2, [c];\n"
           "ld.param.u64 %%p3, [o];\nld.param.u64 %%p4, [s];\nld.param.u32 %%n0, [n];\n"
           "mov.u32 %%n1, %%tid.x;\nmov.u32 %%n2, %%ctaid.x;\nmov.u32 %%n3, %%ntid.x;\n"
           "mad.lo.u32 %%n1, %%n2, %%n3, %%n1;\nsetp.ge.u32 %%q0, %%n1, %%n0;\n@%%q0 exit;\n"
           "mul.wide.u32 %%i0, %%n1, 8;\n");
    for (int k = 0; k < 3; k++) {
        char reg = c->regs[1 + k];
        text_add(t, "add.u64 %%p5, %%p%d, %%i0;\n", k);
        if (reg == 'p')
            text_add(t,
                     ".reg .pred %%%c;\nld.global.u32 %%n4, [%%p5];\nand.b32 %%n4, %%n4, 1;\n"
                     "setp.ne.u32 %%%c, %%n4, 0;\n",
                     "abc"[k], "abc"[k]);
        else if (reg != '.')
            text_add(t, ".reg .b%u %%%c;\nld.global.b%u %%%c, [%%p5];\n", bits_of(reg), "abc"[k],
                     bits_of(reg), "abc"[k]);
    }
}

static void declare(struct text *t, const char *name, char reg)
{
    if (reg == 'p')
        text_add(t, ".reg .pred %s;\n", name);
    else if (reg != '.')
        text_add(t, ".reg .b%u %s;\n", bits_of(reg), name);
}

/* Stores @name at [@base + index * 8 + off]. */
static void store(struct text *t, const char *name, char reg, const char *base, unsigned off)
{
    text_add(t, "add.u64 %%p6, %s, %%i0;\n", base);
    if (reg == 'p')
        text_add(t, "selp.u32 %%n5, 1, 0, %s;\nst.global.u32 [%%p6+%u], %%n5;\n", name, off);
    else
        text_add(t, "st.global.b%u [%%p6+%u], %s;\n", bits_of(reg), off, name);
}

static void set_old(struct text *t, const char *name, char reg)
{
    if (reg == 'p')
        text_add(t, "setp.ne.u32 %s, 1, 0;\n", name);
    else
        text_add(
            t, "mov.b%u %s, 0x%llx;\n", bits_of(reg), name,
            (unsigned long long)(OLD & (bits_of(reg) == 64 ? ~UINT64_C(0)
                                                           : (UINT64_C(1) << bits_of(reg)) - 1)));
}

static void bulk_text(struct text *t, const struct alu *c)
{
    static const char *const names[5] = {"%d", "%a", "%b", "%c", "%e"};

    head(t, c);
    declare(t, "%d", c->regs[0]);
    declare(t, "%e", c->regs[4]);
    statement(t, c, "", names);
    store(t, "%d", c->regs[0], "%p3", 0);
    if (c->regs[4] != '.')
        store(t, "%e", c->regs[4], "%p4", 0);
    text_add(t, "ret;\n}\n");
}

/* Slots of the kernel of variants. */
enum {
    PLAIN,
    GUARD,     /* where the bit of the index is set */
    GUARD_NOT, /* where it is not */
    BRANCH,    /* jumped over where it is set */
    INTO_A,    /* the destination is the source */
    INTO_B,
    INTO_C,
    SECOND, /* E of PLAIN */
    SECOND_GUARD,
    INACTIVE_A, /* A after INTO_A under a guard: D = A for some lanes */
    UNUSED
};

static void into_source(struct text *t, const struct alu *c, unsigned k, const char *guard,
                        unsigned slot)
{
    char name[16];
    const char *names[5] = {name, "%a", "%b", "%c", "%ei"};

    if (c->regs[0] != c->regs[1 + k] || c->regs[0] == '.')
        return;
    snprintf(name, sizeof(name), "%%x%u", slot);
    declare(t, name, c->regs[0]);
    if (c->regs[0] == 'p')
        text_add(t, "mov.pred %s, %%%c;\n", name, "abc"[k]);
    else
        text_add(t, "mov.b%u %s, %%%c;\n", bits_of(c->regs[0]), name, "abc"[k]);
    names[1 + k] = name;
    statement(t, c, guard, names);
    store(t, name, c->regs[0], "%p3", 8 * VARIANTS * slot);
}

static void variants_text(struct text *t, const struct alu *c)
{
    static const char *const plain[5] = {"%d0", "%a", "%b", "%c", "%e0"};
    static const char *const guard[5] = {"%d1", "%a", "%b", "%c", "%e1"};
    static const char *const guard_not[5] = {"%d2", "%a", "%b", "%c", "%ei"};
    static const char *const branch[5] = {"%d3", "%a", "%b", "%c", "%ei"};
    static const char *const decl[] = {"%d0", "%d1", "%d2", "%d3"};

    head(t, c);
    for (int i = 0; i < 4; i++) {
        declare(t, decl[i], c->regs[0]);
        set_old(t, decl[i], c->regs[0]);
    }
    if (c->regs[4] != '.') {
        declare(t, "%e0", c->regs[4]);
        declare(t, "%e1", c->regs[4]);
        declare(t, "%ei", c->regs[4]);
        set_old(t, "%e1", c->regs[4]);
    }
    text_add(t, "mul.lo.u32 %%n6, %%n1, 0x9E3779B1;\nshr.u32 %%n6, %%n6, 31;\n"
                "setp.ne.u32 %%q1, %%n6, 0;\n");
    statement(t, c, "", plain);
    statement(t, c, "@%q1 ", guard);
    statement(t, c, "@!%q1 ", guard_not);
    text_add(t, "@%%q1 bra OVER;\n");
    statement(t, c, "", branch);
    text_add(t, "OVER:\n");
    for (unsigned i = 0; i < 4; i++)
        store(t, decl[i], c->regs[0], "%p3", 8 * VARIANTS * i);
    if (c->regs[4] != '.') {
        store(t, "%e0", c->regs[4], "%p3", 8 * VARIANTS * SECOND);
        store(t, "%e1", c->regs[4], "%p3", 8 * VARIANTS * SECOND_GUARD);
    }
    for (unsigned k = 0; k < 3; k++)
        into_source(t, c, k, "", INTO_A + k);
    into_source(t, c, 0, "@%q1 ", INACTIVE_A);
    text_add(t, "ret;\n}\n");
}

/* ---- running --------------------------------------------------------------------------------- */

static struct sg_image *load(const struct text *t, enum tb_status *st)
{
    const struct sg_image_env env = {
        .mem = test_mem, .arch = 90, .alloc_var = alloc_test_var, .free_var = free_test_var};
    struct sg_ptx_module *m = NULL;
    struct sg_image *image = NULL;

    memset(&bench.err, 0, sizeof(bench.err));
    *st = sg_ptx_parse(t->s, t->n, "alu", &m, &bench.err);
    if (*st == TB_OK)
        *st = sg_image_new(&m, 1, "alu", &env, &image, &bench.err);
    return image;
}

static void run(const struct text *t, const struct alu *c, uint32_t n, uint32_t block)
{
    enum tb_status st;
    struct sg_image *image = load(t, &st);
    struct {
        const void *a, *b, *c, *o, *s;
        uint32_t n;
    } params = {bench.in[c->inputs][0], bench.in[c->inputs][1],
                bench.in[c->inputs][2], bench.out,
                bench.second,           n};
    struct sg_fault fault = {.kind = SG_FAULT_NONE};

    if (st != TB_OK)
        fail_msg("%s: %s", c->text, bench.err.text);
    struct sg_launch l = {.kernel = sg_image_kernel(image, "k"),
                          .grid = {(n + block - 1) / block, 1, 1},
                          .block = {block, 1, 1},
                          .cluster = {1, 1, 1},
                          .params = &params,
                          .sms = 4};
    if (sg_exec_run(test_machine, &l, &fault, NULL, &bench.err) != TB_OK)
        fail_msg("%s: %s", c->text, bench.err.text);
    sg_image_free(image);
}

bool alu_loads(const struct alu *c, const char **why)
{
    static struct text t;
    enum tb_status st;

    t.n = 0;
    bulk_text(&t, c);
    sg_image_free(load(&t, &st));
    *why = bench.err.text;
    return st == TB_OK;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static uint64_t cut(uint64_t v, char reg)
{
    unsigned bits = bits_of(reg);

    return reg == '.' || bits == 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}

static uint64_t source(const struct alu *c, unsigned k, uint32_t i)
{
    return cut(bench.in[c->inputs][k][i], c->regs[1 + k]);
}

static uint64_t want(const struct alu *c, const uint64_t v[3], uint64_t *e)
{
    *e = 0;
    uint64_t d = cut(c->want(c, v[0], v[1], v[2], e), c->regs[0]);
    *e = cut(*e, c->regs[4]);
    return d;
}

static void differ(const struct alu *c, const char *how, uint32_t i, const uint64_t v[3],
                   uint64_t got, uint64_t wanted)
{
    fail_msg("%s (%s) of input %u: %llx %llx %llx: %llx, not %llx", c->text, how, i,
             (unsigned long long)v[0], (unsigned long long)v[1], (unsigned long long)v[2],
             (unsigned long long)got, (unsigned long long)wanted);
}

static void check_bulk(const struct alu *c)
{
    static struct text t;
    uint32_t n = c->n ? c->n : 20000;

    t.n = 0;
    bulk_text(&t, c);
    memset(bench.out, 0, (size_t)n * 8);
    memset(bench.second, 0, (size_t)n * 8);
    run(&t, c, n, 256);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v[3] = {source(c, 0, i), source(c, 1, i), source(c, 2, i)}, e;
        uint64_t d = want(c, v, &e);
        if (d != bench.out[i])
            differ(c, "bulk", i, v, bench.out[i], d);
        if (c->regs[4] != '.' && e != bench.second[i])
            differ(c, "second result", i, v, bench.second[i], e);
    }
}

static const char *const slot_names[SLOTS] = {
    "plain",  "guarded", "guarded not",     "branch",          "into a", "into b",
    "into c", "second",  "second, guarded", "into a, guarded", "unused"};

static void check_slot(const struct alu *c, unsigned slot, uint32_t i, const uint64_t v[3],
                       uint64_t wanted)
{
    uint64_t got = bench.out[VARIANTS * slot + i];

    if (got != wanted)
        differ(c, slot_names[slot], i, v, got, wanted);
}

static void check_variants(const struct alu *c)
{
    static struct text t;
    uint64_t old = cut(c->regs[0] == 'p' ? 1 : OLD, c->regs[0]);
    uint64_t old_e = cut(c->regs[4] == 'p' ? 1 : OLD, c->regs[4]);

    t.n = 0;
    variants_text(&t, c);
    memset(bench.out, 0, (size_t)8 * VARIANTS * SLOTS);
    run(&t, c, VARIANTS, 80);
    for (uint32_t i = 0; i < VARIANTS; i++) {
        uint64_t v[3] = {source(c, 0, i), source(c, 1, i), source(c, 2, i)}, e;
        uint64_t d = want(c, v, &e);
        bool on = i * 0x9E3779B1u >> 31;
        check_slot(c, PLAIN, i, v, d);
        check_slot(c, GUARD, i, v, on ? d : old);
        check_slot(c, GUARD_NOT, i, v, on ? old : d);
        check_slot(c, BRANCH, i, v, on ? old : d);
        for (unsigned k = 0; k < 3; k++)
            if (c->regs[0] == c->regs[1 + k])
                check_slot(c, INTO_A + k, i, v, d);
        if (c->regs[0] == c->regs[1])
            check_slot(c, INACTIVE_A, i, v, on ? d : v[0]);
        if (c->regs[4] != '.') {
            check_slot(c, SECOND, i, v, e);
            check_slot(c, SECOND_GUARD, i, v, on ? e : old_e);
        }
    }
}

/* ---- literals -------------------------------------------------------------------------------- */

static void literal(char *s, size_t n, char kind, char reg, uint64_t v)
{
    if (kind == 'f')
        snprintf(s, n, "0f%08X", (unsigned)v);
    else if (kind == 'd')
        snprintf(s, n, "0d%016llX", (unsigned long long)v);
    else if (reg == 'h')
        snprintf(s, n, "%d", (int)(int16_t)v);
    else if (v & 1)
        snprintf(s, n, "0x%llx", (unsigned long long)v);
    else
        snprintf(s, n, "%lld", reg == 'l' ? (long long)v : (long long)(int32_t)v);
}

static void check_literals(const struct alu *c)
{
    static struct text t;
    const uint32_t n = 512;

    for (unsigned k = 0; k < 3; k++)
        for (uint32_t pick = 7; c->lits[k] != '.' && pick < 7 + 5 * 97; pick += 97) {
            char lit[32];
            const char *names[5] = {"%d", "%a", "%b", "%c", "%e"};
            uint64_t value = source(c, k, pick);
            literal(lit, sizeof(lit), c->lits[k], c->regs[1 + k], value);
            names[1 + k] = lit;
            t.n = 0;
            head(&t, c);
            declare(&t, "%d", c->regs[0]);
            declare(&t, "%e", c->regs[4]);
            statement(&t, c, "", names);
            store(&t, "%d", c->regs[0], "%p3", 0);
            text_add(&t, "ret;\n}\n");
            memset(bench.out, 0, (size_t)n * 8);
            run(&t, c, n, 256);
            for (uint32_t i = 0; i < n; i++) {
                uint64_t v[3] = {source(c, 0, i), source(c, 1, i), source(c, 2, i)}, e;
                v[k] = value;
                uint64_t d = want(c, v, &e);
                if (d != bench.out[i])
                    differ(c, lit, i, v, bench.out[i], d);
            }
        }
}

void alu_check(const struct alu *c)
{
    inputs_of(c->inputs);
    check_bulk(c);
    check_variants(c);
    if (c->lits != NULL)
        check_literals(c);
    bench.checked++;
}
