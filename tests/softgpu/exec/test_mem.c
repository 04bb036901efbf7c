/* Loads and stores: every type, vector, space and pattern of addresses; faults at the edges. */
#include "tests/softgpu/exec/exec_test.h"

#include <stdbool.h>

#define THREADS 48u /* one warp and a half */
#define SLOTS 64u
#define BYTES (SLOTS * 16u)
#define OLD UINT64_C(0x5aa5c33c5aa5c33c)

static const struct {
    const char *name;
    unsigned size;
    bool is_signed;
} types[] = {{"b8", 1, false},  {"u8", 1, false},  {"s8", 1, true},   {"b16", 2, false},
             {"u16", 2, false}, {"s16", 2, true},  {"b32", 4, false}, {"u32", 4, false},
             {"s32", 4, true},  {"b64", 8, false}, {"u64", 8, false}, {"s64", 8, true},
             {"f32", 4, false}, {"f64", 8, false}};

/* How an address is made of %rd3 (offset) and where the bytes lie. */
enum place { GLOBAL, SHARED, LOCAL, CONST, GENERIC_GLOBAL, GENERIC_SHARED, GENERIC_LOCAL, PLACES };
static const char *const spaces[PLACES] = {".global", ".shared", ".local", ".const", "", "", ""};

/* What the kernels read: a bytes, an index and a guard for each thread, results, bytes written. */
struct world {
    uint8_t *in;
    uint32_t *index, *guard;
    uint64_t *out;
    uint8_t *bytes;
};

static uint8_t byte_at(uint32_t i)
{
    return (uint8_t)(i * 151 + i / 7 + 0x80);
}

static struct world new_world(void)
{
    struct world w = {device_bytes(BYTES), device_bytes(4 * THREADS), device_bytes(4 * THREADS),
                      device_bytes(32 * THREADS), device_bytes(BYTES * THREADS)};

    for (uint32_t i = 0; i < BYTES; i++)
        w.in[i] = byte_at(i);
    return w;
}

static void free_world(struct world *w)
{
    device_free(w->in);
    device_free(w->index);
    device_free(w->guard);
    device_free(w->out);
    device_free(w->bytes);
}

/* %rd1: the world; %r1 thread; %p1 guard; %rd10 address of the access; %rd11 the base as an address
 * of its space, for copies. */
static void prologue(struct text *t, enum place place, unsigned bytes)
{
    t->n = 0;
    text_add(t,
             PTX_HEAD ".visible .entry k(.param .u64 p)\n{\n.reg .pred %%p<4>; .reg .b16 %%h<9>;"
                      ".reg .b32 %%r<20>; .reg .b64 %%rd<30>; .reg .b64 %%v<5>;\n"
                      ".shared .align 16 .b8 sh[%u]; .local .align 16 .b8 lo[%u];\n",
             BYTES, BYTES);
    if (place == CONST) {
        text_add(t, ".const .align 16 .b8 co[%u] = {", BYTES);
        for (uint32_t i = 0; i < BYTES; i++)
            text_add(t, "%s%u", i ? "," : "", byte_at(i));
        text_add(t, "};\n");
    }
    text_add(t,
             "ld.param.u64 %%rd1, [p];\nmov.u32 %%r1, %%tid.x;\nld.global.u64 %%rd2, [%%rd1];\n"
             "ld.global.u64 %%rd3, [%%rd1+8];\nmul.wide.u32 %%rd4, %%r1, 4;\nadd.u64 %%rd3, %%rd3, "
             "%%rd4;\nld.global.u32 %%r2, [%%rd3];\nld.global.u64 %%rd5, [%%rd1+16];\n"
             "add.u64 %%rd5, %%rd5, %%rd4;\nld.global.u32 %%r3, [%%rd5];\nsetp.ne.u32 %%p1, %%r3, "
             "0;\nld.global.u64 %%rd6, [%%rd1+24];\nmul.wide.u32 %%rd7, %%r1, 32;\n"
             "add.u64 %%rd6, %%rd6, %%rd7;\nld.global.u64 %%rd8, [%%rd1+32];\n"
             "mul.wide.u32 %%rd9, %%r2, %u;\n",
             bytes);
    switch (place) {
    case GLOBAL:
        text_add(t, "mov.u64 %%rd11, %%rd2;\n");
        break;
    case GENERIC_GLOBAL:
        text_add(t, "cvta.global.u64 %%rd11, %%rd2;\n");
        break;
    case CONST:
        text_add(t, "mov.u64 %%rd11, co;\n");
        break;
    case SHARED:
    case GENERIC_SHARED:
        text_add(t, "mov.u64 %%rd11, sh;\n");
        break;
    default:
        text_add(t, "mov.u64 %%rd11, lo;\n");
        break;
    }
}

/* The bytes of @from (a space's text and the register with its base) go to @to, 16 at a time. */
static void copy_loop(struct text *t, const char *from, const char *from_base, const char *to,
                      const char *to_base, const char *label)
{
    text_add(t,
             "mov.u32 %%r9, 0;\n%s:\ncvt.u64.u32 %%rd20, %%r9;\nadd.u64 %%rd21, %s, %%rd20;\n"
             "ld%s.v2.u64 {%%rd22, %%rd23}, [%%rd21];\nadd.u64 %%rd21, %s, %%rd20;\n"
             "st%s.v2.u64 [%%rd21], {%%rd22, %%rd23};\nadd.u32 %%r9, %%r9, 16;\n"
             "setp.lt.u32 %%p2, %%r9, %u;\n@%%p2 bra %s;\n",
             label, from_base, from, to_base, to, BYTES, label);
}

static bool is_shared(enum place place)
{
    return place == SHARED || place == GENERIC_SHARED;
}

static bool is_local(enum place place)
{
    return place == LOCAL || place == GENERIC_LOCAL;
}

static void fill(struct text *t, enum place place)
{
    if (is_shared(place)) /* all threads write the same */
        copy_loop(t, ".global", "%rd2", ".shared", "%rd11", "FILL");
    if (is_local(place))
        copy_loop(t, ".global", "%rd2", ".local", "%rd11", "FILL");
    text_add(t, "bar.sync 0;\nadd.u64 %%rd10, %%rd11, %%rd9;\n");
    if (place == GENERIC_SHARED)
        text_add(t, "cvta.shared.u64 %%rd10, %%rd10;\n");
    if (place == GENERIC_LOCAL)
        text_add(t, "cvta.local.u64 %%rd10, %%rd10;\n");
}

static void run(const struct text *t, const struct world *w)
{
    struct world *p = device_bytes(sizeof(*p));

    *p = *w;
    run_ptx(t->s, (struct test_run){.blocks = 1, .threads = THREADS}, p);
    device_free(p);
}

/* Patterns of addresses: consecutive, one for all, one that is none of these, backwards. */
static void pattern(struct world *w, int which, uint32_t slots)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        uint32_t at = which == 0 ? i : which == 1 ? 5 : which == 2 ? i * 7 + 3 : THREADS - 1 - i;
        w->index[i] = at % slots;
    }
}

static uint64_t bytes_at(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;

    memcpy(&v, p, n);
    return v;
}

static uint64_t extended(uint64_t v, unsigned size, bool is_signed, unsigned reg_bits)
{
    unsigned shift = 64 - 8 * size;

    if (is_signed && size < 8)
        v = (uint64_t)((int64_t)(v << shift) >> shift);
    return reg_bits == 64 ? v : v & ((UINT64_C(1) << reg_bits) - 1);
}

static const char *vector_text(unsigned n)
{
    return n == 1 ? "" : n == 2 ? ".v2" : ".v4";
}

/* { x0, x1 } of registers @name */
static void registers(struct text *t, const char *name, unsigned n)
{
    for (unsigned k = 0; k < n; k++)
        text_add(t, "%s%s%u%s",
                 n > 1 && k == 0 ? "{"
                 : k             ? ", "
                                 : "",
                 name, k, n > 1 && k == n - 1 ? "}" : "");
}

static void check_load(struct world *w, enum place place, unsigned type, unsigned n, unsigned bits,
                       bool guarded)
{
    static struct text t;
    unsigned size = types[type].size;
    const char *reg = bits == 64 ? "%v" : bits == 32 ? "%x" : "%y";

    prologue(&t, place, size * n);
    text_add(&t, ".reg .b32 %%x<5>; .reg .b16 %%y<5>;\n");
    fill(&t, place);
    for (unsigned k = 0; k < n; k++)
        text_add(&t, "mov.b%u %s%u, 0x%llx;\n", bits, reg, k,
                 (unsigned long long)extended(OLD, 8, false, bits));
    text_add(&t, "%sld%s%s.%s ", guarded ? "@%p1 " : "", spaces[place], vector_text(n),
             types[type].name);
    registers(&t, reg, n);
    text_add(&t, ", [%%rd10];\n");
    for (unsigned k = 0; k < n; k++)
        text_add(&t, "st.global.b%u [%%rd6+%u], %s%u;\n", bits, 8 * k, reg, k);
    text_add(&t, "ret;\n}\n");
    for (int which = 0; which < 4; which++) {
        pattern(w, which, BYTES / (size * n));
        memset(w->out, 0, 32 * THREADS);
        run(&t, w);
        for (uint32_t i = 0; i < THREADS; i++)
            for (unsigned k = 0; k < n; k++) {
                uint64_t v = bytes_at(w->in + w->index[i] * size * n + k * size, size);
                v = extended(v, size, types[type].is_signed, bits);
                if (guarded && !w->guard[i])
                    v = extended(OLD, 8, false, bits);
                if (w->out[4 * i + k] != v)
                    fail_msg("ld%s%s.%s into %u bits, pattern %d, thread %u: %llx, not %llx",
                             spaces[place], vector_text(n), types[type].name, bits, which, i,
                             (unsigned long long)w->out[4 * i + k], (unsigned long long)v);
            }
    }
}

static void check_store(struct world *w, enum place place, unsigned type, unsigned n, unsigned bits,
                        bool guarded)
{
    static struct text t;
    static uint8_t want[THREADS][BYTES];
    unsigned size = types[type].size;
    const char *reg = bits == 64 ? "%v" : bits == 32 ? "%x" : "%y";

    prologue(&t, place, size * n);
    text_add(&t, ".reg .b32 %%x<5>; .reg .b16 %%y<5>;\n");
    fill(&t, place);
    for (unsigned k = 0; k < n; k++) {
        text_add(&t, "mad.lo.u32 %%r10, %%r1, 0x01030507, %u;\n", 0x9abcdef1 + k * 0x11223344);
        text_add(&t,
                 "mov.b64 %%v%u, {%%r10, %%r10};\ncvt.u32.u64 %%x%u, %%v%u;\ncvt.u16.u64 %%y%u, "
                 "%%v%u;\n",
                 k, k, k, k, k);
    }
    text_add(&t, "%sst%s%s.%s [%%rd10], ", guarded ? "@%p1 " : "", spaces[place], vector_text(n),
             types[type].name);
    registers(&t, reg, n);
    text_add(&t, ";\nbar.sync 0;\nmul.wide.u32 %%rd12, %%r1, %u;\nadd.u64 %%rd12, %%rd8, %%rd12;\n",
             BYTES);
    copy_loop(&t,
              spaces[is_shared(place)  ? SHARED
                     : is_local(place) ? LOCAL
                                       : GLOBAL],
              "%rd11", ".global", "%rd12", "BACK");
    text_add(&t, "ret;\n}\n");
    for (int which = 0; which < 4; which += which == 0 ? 2 : 1) {
        pattern(w, which, BYTES / (size * n));
        for (uint32_t i = 0; i < BYTES; i++)
            w->in[i] = byte_at(i);
        run(&t, w);
        for (uint32_t i = 0; i < THREADS; i++)
            for (uint32_t b = 0; b < BYTES; b++)
                want[i][b] = byte_at(b);
        for (uint32_t i = 0; i < THREADS; i++)
            for (unsigned k = 0; k < n; k++) {
                uint32_t half = i * 0x01030507 + 0x9abcdef1 + k * 0x11223344;
                uint64_t v = half | (uint64_t)half << 32;
                for (uint32_t j = 0; j < THREADS && (!guarded || w->guard[i]); j++)
                    if (!is_local(place) || j == i)
                        memcpy(&want[j][w->index[i] * size * n + k * size], &v, size);
            }
        if (memcmp(w->bytes, want, sizeof(want)) != 0)
            fail_msg("st%s%s.%s from %u bits, pattern %d", spaces[place], vector_text(n),
                     types[type].name, bits, which);
    }
    for (uint32_t i = 0; i < BYTES; i++)
        w->in[i] = byte_at(i);
}

static void each_access(bool loads)
{
    struct world w = new_world();

    for (uint32_t i = 0; i < THREADS; i++)
        w.guard[i] = i * 0x9E3779B1u >> 31;
    for (int place = 0; place < PLACES; place++)
        for (unsigned type = 0; type < TB_ARRAY_LEN(types); type++)
            for (unsigned n = 1; n <= 4 && n * types[type].size <= 16; n *= 2)
                for (unsigned bits = 16; bits <= 64; bits *= 2) {
                    bool is_float = types[type].name[0] == 'f';
                    if (bits < 8 * types[type].size || (is_float && bits != 8 * types[type].size))
                        continue;
                    for (int guarded = 0; guarded < 2; guarded++)
                        if (loads)
                            check_load(&w, (enum place)place, type, n, bits, guarded);
                        else if (place != CONST)
                            check_store(&w, (enum place)place, type, n, bits, guarded);
                }
    free_world(&w);
}

static void test_loads__every_type_vector_space_and_pattern(void **state)
{
    (void)state;
    each_access(true);
}

static void test_stores__every_type_vector_space_and_pattern(void **state)
{
    (void)state;
    each_access(false);
}

static void test_faults__misaligned_in_every_space(void **state)
{
    (void)state;
    static const struct {
        const char *set, *space;
    } rows[] = {{"mov.u64 %rd2, %rd1;\n", ".global"},
                {"mov.u64 %rd2, %rd1;\n", ""},
                {"mov.u64 %rd2, sh;\n", ".shared"},
                {"mov.u64 %rd2, lo;\n", ".local"},
                {"mov.u64 %rd3, sh;\ncvta.shared.u64 %rd2, %rd3;\n", ""}};
    static const struct {
        const char *access;
        unsigned align;
    } accesses[] = {{"u16 %h1, [%rd2+%off]", 2},
                    {"b32 %r5, [%rd2+%off]", 4},
                    {"f64 %fd1, [%rd2+%off]", 8},
                    {"v2.u32 {%r5, %r6}, [%rd2+%off]", 8},
                    {"v4.f32 {%f1, %f2, %f3, %f4}, [%rd2+%off]", 16},
                    {"v4.u16 {%h1, %h2, %h3, %h4}, [%rd2+%off]", 8},
                    {"v2.b64 {%rd5, %rd6}, [%rd2+%off]", 16}};
    uint32_t *p = device_bytes(4096);
    for (size_t i = 0; i < TB_ARRAY_LEN(rows); i++)
        for (size_t k = 0; k < TB_ARRAY_LEN(accesses); k++)
            for (unsigned off = 0; off < 32; off++) {
                char text[4096], access[64];
                const char *at = strstr(accesses[k].access, "%off");
                snprintf(access, sizeof(access), "%.*s%u]", (int)(at - accesses[k].access),
                         accesses[k].access, off);
                snprintf(text, sizeof(text),
                         "%s%sld%s.%s;\nst.global.u32 [%%rd1], %%r5;\nret;\n}\n",
                         PTX_HEAD ".visible .entry k(.param .u64 p)\n{\n.reg .b16 %h<9>; .reg .b32 "
                                  "%r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<3>;\n"
                                  ".shared .align 16 .b8 sh[64]; .local .align 16 .b8 lo[64];\n"
                                  "ld.param.u64 %rd1, [p];\n",
                         rows[i].set, rows[i].space, access);
                assert_int_equal(fault_of(text, p, (struct test_run){.blocks = 1, .threads = 32}),
                                 off % accesses[k].align ? SG_FAULT_MISALIGNED : SG_FAULT_NONE);
            }
    device_free(p);
}

/* What lies before, at and behind the ends; %rd2 an address, the access at [%rd2 + offset]. */
static void test_faults__edges_of_every_space(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum sg_fault_kind kind;
    } cases[] = {
        {KERNEL("", "ld.global.u32 %r5, [%rd1+2044];\n"), SG_FAULT_NONE},
        {KERNEL("", "ld.global.u32 %r5, [%rd1+4096];\n"), SG_FAULT_ADDRESS},
        {KERNEL("", "ld.global.u32 %r5, [%rd1+-512];\n"), SG_FAULT_ADDRESS},
        {KERNEL("", "st.global.v4.u32 [%rd1+4080], {%r1, %r1, %r1, %r1};\n"), SG_FAULT_NONE},
        {KERNEL("", ".shared .align 16 .b8 s[48];\nld.shared.u32 %r5, [s+44];\n"), SG_FAULT_NONE},
        {KERNEL("", ".shared .align 16 .b8 s[48];\nld.shared.u32 %r5, [s+48];\n"),
         SG_FAULT_ADDRESS},
        {KERNEL("", ".shared .align 16 .b8 s[48];\nld.shared.u64 %rd5, [s+40];\n"), SG_FAULT_NONE},
        {KERNEL("", ".shared .align 16 .b8 s[48];\nmov.u32 %r5, 8;\nld.shared.u32 %r5, "
                    "[%r5+-8];\n"),
         SG_FAULT_NONE},
        {KERNEL("", ".shared .align 16 .b8 s[48];\nmov.u32 %r5, 4;\nld.shared.u32 %r5, "
                    "[%r5+-8];\n"),
         SG_FAULT_ADDRESS},
        {KERNEL("", ".local .align 16 .b8 l[48];\nst.local.u32 [l+44], %r1;\n"), SG_FAULT_NONE},
        {KERNEL("", ".local .align 16 .b8 l[48];\nst.local.u32 [l+48], %r1;\n"), SG_FAULT_ADDRESS},
        {KERNEL("", ".local .align 16 .b8 l[48];\nmov.u64 %rd5, l;\ncvta.local.u64 %rd5, "
                    "%rd5;\nld.u64 %rd6, [%rd5+48];\n"),
         SG_FAULT_ADDRESS},
        {KERNEL("", ".shared .align 16 .b8 s[48];\nmov.u64 %rd5, s;\ncvta.shared.u64 %rd5, "
                    "%rd5;\nst.u64 [%rd5+48], %rd6;\n"),
         SG_FAULT_ADDRESS},
        {KERNEL("", "setp.eq.u32 %p1, %r1, 99;\n@%p1 ld.global.u32 %r5, [%rd1+1048576];\n"),
         SG_FAULT_NONE},
    };
    uint32_t *p = device_bytes(4096);
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++)
        assert_int_equal(fault_of(cases[i].body, p, (struct test_run){.blocks = 2, .threads = 32}),
                         cases[i].kind);
    device_free(p);
}

static void test_shared__dynamic_lies_behind_static(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        ".extern .shared .align 16 .b8 dyn[];\n.extern .shared .align 8 .b64 dyn2[];\n",
        ".shared .align 4 .b8 s[20];\nmov.u32 %r5, dyn;\nmov.u32 %r6, dyn2;\nmov.u32 %r7, s;\n"
        "shl.b32 %r8, %r1, 2;\nadd.u32 %r9, %r5, %r8;\nst.shared.u32 [%r9], %r1;\nbar.sync 0;\n"
        "xor.b32 %r8, %r8, 124;\nadd.u32 %r9, %r6, %r8;\nld.shared.u32 %r10, [%r9];\n"
        "st.shared.u32 [s+16], %r1;\nld.shared.u32 %r11, [dyn+4];\nmad.lo.u32 %r10, %r11, 1000, "
        "%r10;\nsub.u32 %r12, %r5, %r6;\nmad.lo.u32 %r10, %r12, 100000, %r10;\n"
        "and.b32 %r12, %r5, 15;\nmad.lo.u32 %r10, %r12, 100000, %r10;\n"
        "mov.u32 %r13, %dynamic_smem_size;\nmad.lo.u32 %r10, %r13, 10000, %r10;\n"
        "st.global.u32 [%rd9], %r10;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 2, .threads = 32, .dynamic_shared = 128}, p);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(p[i], 128 * 10000 + 1000 + (31 - i % 32));
    assert_int_equal(
        fault_of(ptx, p, (struct test_run){.blocks = 1, .threads = 32, .dynamic_shared = 124}),
        SG_FAULT_ADDRESS);
    device_free(p);
}

/* What the system reserves lies apart: two halves, zero at first, not behind the end. */
static void test_shared__reserved_memory_is_nobody_elses(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        "", ".shared .align 4 .b8 s[1024];\nmov.u32 %r5, %reserved_smem_offset_1;\n"
            "mov.u32 %r6, %reserved_smem_offset_0;\nmov.u32 %r7, s;\nshl.b32 %r8, %r1, 2;\n"
            "add.u32 %r7, %r7, %r8;\nadd.u32 %r9, %r5, %r8;\nadd.u32 %r10, %r6, %r8;\n"
            "ld.shared.u32 %r11, [%r9];\nst.shared.u32 [%r7], 77;\nst.shared.u32 [%r9], %r1;\n"
            "st.shared.u32 [%r10], 5;\nld.shared.u32 %r12, [%r7];\nld.shared.u32 %r13, [%r9];\n"
            "mad.lo.u32 %r12, %r13, 1000, %r12;\nmad.lo.u32 %r12, %r11, 1000000, %r12;\n"
            "mov.u32 %r14, %reserved_smem_offset_end;\nmov.u32 %r15, %reserved_smem_offset_begin;\n"
            "sub.u32 %r14, %r14, %r15;\nmov.u32 %r15, %reserved_smem_offset_cap;\n"
            "sub.u32 %r14, %r14, %r15;\nadd.u32 %r12, %r12, %r14;\n"
            "mov.u32 %r15, %total_smem_size;\nmad.lo.u32 %r12, %r15, 100000, %r12;\n"
            "st.global.u32 [%rd9], %r12;\n");
    static const char beyond[] = KERNEL("", "mov.u32 %r5, %reserved_smem_offset_end;\n"
                                            "st.shared.u32 [%r5], 1;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 8, .threads = 128}, p);
    for (uint32_t i = 0; i < 1024; i++)
        assert_int_equal(p[i], 1024 * 100000 + i % 128 * 1000 + 77);
    assert_int_equal(fault_of(beyond, p, (struct test_run){.blocks = 1, .threads = 1}),
                     SG_FAULT_ADDRESS);
    device_free(p);
}

/* Shared and local memory hold zeros when a block starts, whatever ran before. */
static void test_memory__of_a_block_starts_with_zeros(void **state)
{
    (void)state;
    static const char dirty[] =
        KERNEL("", ".local .align 8 .b8 l[64];\n.shared .align 8 .b8 s[64];\n"
                   "st.local.u64 [l+56], %rd1;\nst.shared.u64 [s+56], %rd1;\n");
    static const char clean[] =
        KERNEL(".func (.param .b64 o) f() {\n.reg .b64 %rd<3>;\n.local .align 8 .b8 m[64];\n"
               "ld.local.u64 %rd1, [m+8];\nst.local.u64 [m+8], 77;\nst.param.b64 [o], %rd1;\n"
               "ret;\n}\n",
               ".local .align 8 .b8 l[64];\n.shared .align 8 .b8 s[64];\n"
               "ld.local.u64 %rd2, [l+56];\nld.shared.u64 %rd3, [s+56];\nor.b64 %rd2, %rd2, %rd3;\n"
               "{\n.param .b64 b;\ncall (b), f, ();\nld.param.b64 %rd4, [b];\n}\n"
               "or.b64 %rd2, %rd2, %rd4;\ncvt.u32.u64 %r5, %rd2;\nst.global.u32 [%rd9], %r5;\n"
               "st.local.u64 [l+56], %rd1;\n");
    uint32_t *p = device_bytes(1 << 14);
    run_ptx(dirty, (struct test_run){.blocks = 8, .threads = 64}, p);
    memset(p, 0xff, 1 << 14);
    run_ptx(clean, (struct test_run){.blocks = 16, .threads = 64}, p);
    for (uint32_t i = 0; i < 1024; i++)
        assert_int_equal(p[i], 0);
    device_free(p);
}

/* Parameters: scalars of every width, arrays by offset and by address, their generic address. */
static void test_parameters__by_name_offset_and_address(void **state)
{
    (void)state;
    static const char ptx[] = PTX_HEAD
        ".visible .entry k(.param .u64 p, .param .align 8 .b8 a[16], .param .u8 b, .param .s16 c)\n"
        "{\n.reg .b32 %r<9>; .reg .b64 %rd<9>;\nld.param.u64 %rd1, [p];\n"
        "ld.param.u32 %r1, [a+4];\nst.global.u32 [%rd1], %r1;\nld.param.v2.u32 {%r1, %r2}, [a+8];\n"
        "st.global.u32 [%rd1+4], %r2;\nld.param.s8 %r3, [b];\nst.global.u32 [%rd1+8], %r3;\n"
        "ld.param.s16 %rd2, [c];\nst.global.u64 [%rd1+16], %rd2;\nmov.u64 %rd3, a;\n"
        "ld.param.u16 %r4, [%rd3+2];\nst.global.u32 [%rd1+12], %r4;\ncvta.param.u64 %rd4, %rd3;\n"
        "ld.u64 %rd5, [%rd4+8];\nst.global.u64 [%rd1+24], %rd5;\nret;\n}\n";
    struct sg_image *image = load_ptx(ptx);
    uint64_t *p = device_bytes(4096);
    uint8_t params[32] = {0};
    struct sg_fault fault;
    struct tb_error err = {0};
    uint64_t address = (uint64_t)(uintptr_t)p;

    memcpy(params, &address, 8);
    for (uint8_t i = 8; i < 28; i++)
        params[i] = (uint8_t)(0xf0 - 3 * i);
    struct sg_launch l = {.kernel = sg_image_kernel(image, "k"),
                          .grid = {1, 1, 1},
                          .block = {1, 1, 1},
                          .cluster = {1, 1, 1},
                          .params = params,
                          .sms = 1};
    assert_int_equal(sg_exec_run(test_machine, &l, &fault, NULL, &err), TB_OK);
    const uint32_t *r = (const uint32_t *)p;
    assert_int_equal(r[0], bytes_at(params + 12, 4));
    assert_int_equal(r[1], bytes_at(params + 20, 4));
    assert_int_equal(r[2], (uint32_t)(int8_t)params[24]);
    assert_int_equal(r[3], bytes_at(params + 10, 2));
    assert_true(p[2] == (uint64_t)(int64_t)(int16_t)bytes_at(params + 26, 2));
    assert_true(p[3] == bytes_at(params + 16, 8));
    sg_image_free(image);
    device_free(p);
}

static void test_generic__addresses_tell_their_space(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        ".global .u32 g;\n",
        ".local .u32 l; .shared .u32 s;\nmov.u64 %rd2, g;\nmov.u64 %rd3, l;\nmov.u64 %rd4, s;\n"
        "cvta.global.u64 %rd12, %rd2;\ncvta.local.u64 %rd13, %rd3;\ncvta.shared.u64 %rd14, %rd4;\n"
        "isspacep.global %p1, %rd12;\nisspacep.local %p2, %rd13;\nisspacep.shared %p3, %rd14;\n"
        "isspacep.shared %p4, %rd12;\nisspacep.global %p5, %rd13;\nisspacep.local %p6, %rd14;\n"
        "isspacep.global %p7, %rd14;\nselp.u32 %r5, 1, 0, %p1;\nselp.u32 %r6, 2, 0, %p2;\n"
        "selp.u32 %r7, 4, 0, %p3;\nselp.u32 %r8, 8, 0, %p4;\nselp.u32 %r9, 16, 0, %p5;\n"
        "selp.u32 %r10, 32, 0, %p6;\nselp.u32 %r11, 64, 0, %p7;\nadd.u32 %r5, %r5, %r6;\n"
        "add.u32 %r5, %r5, %r7;\nadd.u32 %r5, %r5, %r8;\nadd.u32 %r5, %r5, %r9;\n"
        "add.u32 %r5, %r5, %r10;\nadd.u32 %r5, %r5, %r11;\ncvta.to.local.u64 %rd15, %rd13;\n"
        "cvta.to.shared.u64 %rd16, %rd14;\nsub.u64 %rd15, %rd15, %rd3;\nsub.u64 %rd16, %rd16, "
        "%rd4;\nor.b64 %rd15, %rd15, %rd16;\ncvt.u32.u64 %r12, %rd15;\nor.b32 %r5, %r5, %r12;\n"
        "st.global.u32 [%rd9], %r5;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 32}, p);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(p[i], 7);
    device_free(p);
}

static void test_variables__initial_values_and_addresses(void **state)
{
    (void)state;
    static const char ptx[] =
        KERNEL(".global .align 4 .b8 a[8] = {1, 2, 3, 4};\n.global .u64 q[2] = {a+4, b};\n"
               ".const .f32 b = 0f3FC00000;\n.global .s16 v[3] = {-1, 2};\n",
               "ld.global.u64 %rd2, [q];\nst.global.u32 [%rd2], 99;\nld.global.u32 %r5, [a+4];\n"
               "ld.global.u64 %rd3, [q+8];\nld.f32 %f1, [%rd3];\nld.const.f32 %f2, [b];\n"
               "add.f32 %f1, %f1, %f2;\ncvt.rzi.u32.f32 %r6, %f1;\nld.global.s16 %r7, [v];\n"
               "ld.global.u32 %r8, [a];\nadd.u32 %r5, %r5, %r6;\nadd.u32 %r5, %r5, %r7;\n"
               "add.u32 %r5, %r5, %r8;\nst.global.u32 [%rd9], %r5;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 1}, p);
    assert_int_equal(p[0], 99 + 3 - 1 + 0x04030201);
    device_free(p);
}

static void test_load__refuses_accesses_that_cannot_be(void **state)
{
    (void)state;
    static const char *const bad[] = {
        KERNEL("", "ld.param.u32 %r5, [p+8];\n"),
        KERNEL("", "ld.param.u32 %r5, [p+-4];\n"),
        KERNEL("", "ld.param.u64 %rd5, [p+4];\n"),
        KERNEL("", "st.param.u32 [p], %r1;\n"),
        KERNEL(".const .u32 c;\n", "st.const.u32 [c], %r1;\n"),
        KERNEL("", "ld.global.v2.u32 %r5, [%rd1];\n"),
        KERNEL("", "ld.global.v2.u32 {%r5, %r6, %r7, %r8}, [%rd1];\n"),
        KERNEL("", "ld.global.u64 %r5, [%rd1];\n"),
        KERNEL("", "ld.global.u32 %p1, [%rd1];\n"),
        KERNEL("", "ld.global.f16 %h1, [%rd1];\n"),
        KERNEL("", "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r5], %r6, "
                   "[%r7];\n"),
        KERNEL("", "ld.global.shared.u32 %r5, [%rd1];\n"),
        KERNEL(".global .u32 g;\n", "mov.u32 %r5, g;\n"),
        KERNEL("", "mov.u64 %rd5, %current_graph_exec;\n"),
        KERNEL("", "add.f32 %f1, -%f2, %f3;\n"),
        KERNEL("", "add.u32 %r5, %r1;\n"),
        KERNEL("", "add.sat.u32 %r5, %r1, %r1;\n"),
        KERNEL("", "mul.u32 %r5, %r1, %r1;\n"),
        KERNEL("", "fma.f32 %f1, %f1, %f1, %f1;\n"),
        KERNEL("", "fma.rn.relu.f32 %f1, %f1, %f1, %f1;\n"),
        KERNEL("", "min.xorsign.f32 %f1, %f1, %f1;\n"),
        KERNEL("", "setp.lo.s32 %p1, %r1, %r1;\n"),
        KERNEL("", "setp.lt.b32 %p1, %r1, %r1;\n"),
        KERNEL("", "atom.global.add.f16 %h1, [%rd1], %h2;\n"),
        KERNEL("", "red.global.add.bf16x2 [%rd1], %r5;\n"),
        KERNEL("", "red.global.add.noftz.f32 [%rd1], %f2;\n"),
        KERNEL("", "atom.global.min.f32 %f1, [%rd1], %f2;\n"),
        KERNEL("", "atom.global.inc.s32 %r5, [%rd1], %r6;\n"),
        KERNEL("", "atom.const.add.u32 %r5, [%rd1], %r6;\n"),
    };
    for (size_t i = 0; i < TB_ARRAY_LEN(bad); i++) {
        struct sg_image *image = NULL;
        struct tb_error err = {0};
        if (load_texts(&bad[i], 1, &image, &err) == TB_OK)
            fail_msg("was loaded: %s", strstr(bad[i], "%rd9, %rd1") + 18);
        assert_true(err.text[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loads__every_type_vector_space_and_pattern),
        cmocka_unit_test(test_stores__every_type_vector_space_and_pattern),
        cmocka_unit_test(test_faults__misaligned_in_every_space),
        cmocka_unit_test(test_faults__edges_of_every_space),
        cmocka_unit_test(test_shared__dynamic_lies_behind_static),
        cmocka_unit_test(test_shared__reserved_memory_is_nobody_elses),
        cmocka_unit_test(test_memory__of_a_block_starts_with_zeros),
        cmocka_unit_test(test_parameters__by_name_offset_and_address),
        cmocka_unit_test(test_generic__addresses_tell_their_space),
        cmocka_unit_test(test_variables__initial_values_and_addresses),
        cmocka_unit_test(test_load__refuses_accesses_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, exec_setup, exec_teardown);
}
