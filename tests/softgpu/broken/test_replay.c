/* Seeded faults in whole kernels: what they do to the output is what their log, injected again,
 * does; and the log is right about which of them are masked. */
#include "tests/softgpu/broken/broken_test.h"

#define ARENA 16384u
#define LAUNCHES 500u /* with faults */
#define FROM 2048u    /* outputs lie behind the inputs */

/* On arena p: a 16x16 product, sums of blocks, a softmax of each block, a product of halves. */
#define HEAD(name)                                                                                 \
    ".visible .entry " name "(.param .u64 p)\n{\n.reg .pred %p<9>; .reg .b32 %r<60>; "             \
    ".reg .b64 %rd<20>; .reg .f32 %f<40>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"        \
    "mov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r3, %r2, 64, %r1;\nmul.wide.u32 %rd2, %r3, 4;\n"          \
    "add.u64 %rd3, %rd1, %rd2;\n"

static const char kernels[] = PTX_HEAD HEAD(
    "matmul") "shr.u32 %r4, %r3, 4;\nand.b32 %r5, %r3, 15;\nmul.wide.u32 %rd4, %r4, 64;\n"
              "add.u64 %rd4, %rd1, %rd4;\nmul.wide.u32 %rd5, %r5, 4;\n"
              "add.u64 %rd5, %rd1, %rd5;\nmov.f32 %f3, 0f00000000;\nmov.u32 %r6, 0;\n"
              "LOOP: ld.global.f32 %f1, [%rd4];\nld.global.f32 %f2, [%rd5+1024];\n"
              "fma.rn.f32 %f3, %f1, %f2, %f3;\nadd.u64 %rd4, %rd4, 4;\n"
              "add.u64 %rd5, %rd5, 64;\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p1, %r6, 16;\n"
              "@%p1 bra LOOP;\nst.global.f32 [%rd3+2048], %f3;\nret;\n}\n" HEAD(
                  "reduce") ".shared .align 4 .b8 part[8];\nld.global.f32 %f1, [%rd3];\n"
                            "mov.u32 %r6, 16;\n"
                            "LOOP: mov.b32 %r7, %f1;\nshfl.sync.down.b32 %r8, %r7, %r6, 31, -1;\n"
                            "mov.b32 %f2, %r8;\nadd.f32 %f1, %f1, %f2;\nshr.u32 %r6, %r6, 1;\n"
                            "setp.ne.u32 %p1, %r6, 0;\n@%p1 bra LOOP;\nand.b32 %r9, %r1, 31;\n"
                            "shr.u32 %r10, %r1, 5;\nshl.b32 %r10, %r10, 2;\nmov.u32 %r11, part;\n"
                            "add.u32 %r11, %r11, %r10;\nsetp.eq.u32 %p2, %r9, 0;\n"
                            "@%p2 st.shared.f32 [%r11], %f1;\nbar.sync 0;\nsetp.ne.u32 %p3, %r1, "
                            "0;\n"
                            "@%p3 bra DONE;\nld.shared.f32 %f3, [part];\nld.shared.f32 %f4, "
                            "[part+4];\n"
                            "add.f32 %f5, %f3, %f4;\nst.global.f32 [%rd3+4096], %f5;\n"
                            "atom.global.add.f32 %f6, [%rd1+2048], %f5;\nDONE: ret;\n}\n" HEAD(
                                "softmax") ".shared .align 4 .b8 row[256];\nld.global.f32 %f1, "
                                           "[%rd3];\n"
                                           "shl.b32 %r4, %r1, 2;\nmov.u32 %r5, row;\nadd.u32 %r6, "
                                           "%r5, %r4;\n"
                                           "st.shared.f32 [%r6], %f1;\nbar.sync 0;\nmov.f32 %f2, "
                                           "0fff800000;\n"
                                           "mov.u32 %r7, 0;\n"
                                           "MAX: add.u32 %r8, %r5, %r7;\nld.shared.f32 %f3, "
                                           "[%r8];\n"
                                           "max.f32 %f2, %f2, %f3;\nadd.u32 %r7, %r7, 4;\n"
                                           "setp.lt.u32 %p1, %r7, 256;\n@%p1 bra MAX;\nmov.f32 "
                                           "%f4, 0f00000000;\n"
                                           "mov.u32 %r7, 0;\n"
                                           "SUM: add.u32 %r8, %r5, %r7;\nld.shared.f32 %f3, "
                                           "[%r8];\n"
                                           "sub.f32 %f5, %f3, %f2;\nex2.approx.f32 %f6, "
                                           "%f5;\nadd.f32 %f4, %f4, %f6;\n"
                                           "add.u32 %r7, %r7, 4;\nsetp.lt.u32 %p1, %r7, 256;\n@%p1 "
                                           "bra SUM;\n"
                                           "sub.f32 %f7, %f1, %f2;\nex2.approx.f32 %f8, %f7;\n"
                                           "div.rn.f32 %f9, %f8, %f4;\nst.global.f32 [%rd3+6144], "
                                           "%f9;\nret;\n}\n" HEAD(
                                               "mma") "ld.global.f32 %f1, [%rd3];\nld.global.f32 "
                                                      "%f2, [%rd3+1024];\n"
                                                      "cvt.rn.f16x2.f32 %r4, %f1, %f2;\nadd.f32 "
                                                      "%f3, %f1, %f1;\n"
                                                      "cvt.rn.f16x2.f32 %r5, %f3, %f1;\nmov.f32 "
                                                      "%f4, 0f00000000;\n"
                                                      "mma.sync.aligned.m16n8k16.row.col.f32.f16."
                                                      "f16.f32 {%f10,%f11,%f12,%f13}, "
                                                      "{%r4,%r5,%r4,%r5}, {%r5,%r4}, "
                                                      "{%f4,%f4,%f1,%f4};\n"
                                                      "mma.sync.aligned.m16n8k16.row.col.f32.f16."
                                                      "f16.f32 {%f14,%f15,%f16,%f17}, "
                                                      "{%r5,%r5,%r4,%r4}, {%r4,%r4}, "
                                                      "{%f10,%f11,%f12,%f13};\n"
                                                      "mul.wide.u32 %rd6, %r3, 16;\nadd.u64 %rd7, "
                                                      "%rd1, %rd6;\n"
                                                      "st.global.v4.f32 [%rd7+8192], "
                                                      "{%f14,%f15,%f16,%f17};\nret;\n}\n";

static const char *const names[] = {"matmul", "reduce", "softmax", "mma"};

static const char *const specs[] = {
    "unit=int rate=0.0004 bit=random",
    "unit=int op=mad rate=0.004 bit=2",
    "unit=fma rate=0.001 bit=random",
    "unit=fma rate=0.002 bit=exponent",
    "unit=fma rate=0.003 bit=mantissa when=|x|>1",
    "unit=fma sm=2 bit=11 lanes=5",
    "unit=fma rate=0.01 model=ulp",
    "unit=fma op=max rate=0.01 model=random",
    "unit=fma rate=0.002 model=previous",
    "unit=sfu rate=0.002 bit=random",
    "unit=sfu lanes=4g2 model=stuck1 bit=3",
    "unit=tensor rate=0.01 bit=random",
    "unit=tensor lanes=4g rate=0.02 bit=0-7 model=random",
    "unit=ldst op=ld.global rate=0.001 bit=random",
    "unit=ldst op=st rate=0.004 bit=random",
    "unit=ldst op=st rate=0.01 model=previous",
    "unit=ldst op=ld.shared rate=0.0005 bit=0",
    "unit=ldst op=shfl rate=0.002 bit=random",
    "unit=ldst op=ld at=address bit=2-3 rate=0.0005",
    "unit=ldst op=st at=address bit=random rate=0.002",
    "op=setp rate=0.001",
    "op=atom bit=random",
    "unit=fma rate=0.0005; unit=int rate=0.0001; unit=ldst op=st rate=0.0005 model=stuck0 bit=20",
};

static uint32_t *arena;
static struct sg_image *image;
static struct sg_machine *one;

static void fill(void)
{
    float *f = (float *)(void *)arena;
    uint64_t rng = 5;

    memset(arena, 0, ARENA);
    for (unsigned i = 0; i < FROM / 4; i++)
        f[i] = (float)(int)(sg_draw(&rng) % 4001 - 2000) / 500.0F;
}

static enum sg_fault_kind run(struct sg_broken *b, unsigned kernel, struct sg_machine *m,
                              uint32_t *out)
{
    struct broken_run r = {
        .kernel = names[kernel], .blocks = 4, .threads = 64, .limit = 1 << 18, .machine = m};
    enum sg_fault_kind kind;

    fill();
    kind = run_broken(b, image, r, arena);
    memcpy(out, arena, ARENA);
    return kind;
}

struct tally {
    unsigned faulty, masked, wrong, ended;
    uint64_t faults;
};

/* One seed: with the specification, then with the log. A launch that ends early stops wherever its
 * blocks are, and a store to a wrong address may meet what another block reads or writes: the order
 * of blocks counts then, and one worker has one. */
static void one_seed(unsigned i, uint32_t *const clean[4], struct tally *t)
{
    static uint32_t first[ARENA / 4], second[ARENA / 4];
    char spec[512], name[128];
    unsigned kernel = i % 4;
    struct sg_broken_options opt;
    struct sg_broken *b;
    enum sg_fault_kind kind;
    uint64_t faults;
    bool differs, masked, races;
    size_t n = 0;

    for (const char *at = specs[i / 4 % TB_ARRAY_LEN(specs)]; *at; at++) /* each with the seed */
        n += *at == ';' ? (size_t)snprintf(spec + n, sizeof(spec) - n, " seed=%u;", i)
                        : (size_t)snprintf(spec + n, sizeof(spec) - n, "%c", *at);
    snprintf(spec + n, sizeof(spec) - n, " seed=%u", i);
    b = broken(spec);
    kind = run(b, kernel, one, first);
    faults = sg_broken_count(b);
    sg_broken_free(b);
    differs = memcmp(first, clean[kernel], ARENA) != 0 || kind != SG_FAULT_NONE;
    if (faults == 0) {
        assert_false(differs);
        return;
    }
    assert_int_equal(log_lines("\"kind\":\"launch\""), 1);
    assert_null(strstr(last_line, "unknown"));
    masked = strstr(last_line, "\"masked\":true") != NULL;
    if (masked == differs)
        fail_msg("'%s' on %s: %s", spec, names[kernel], last_line);
    t->faulty++;
    t->faults += faults;
    t->masked += masked;
    t->wrong += differs && kind == SG_FAULT_NONE;
    t->ended += kind != SG_FAULT_NONE;
    snprintf(name, sizeof(name), "%s.first", log_path);
    assert_int_equal(rename(log_path, name), 0);
    opt = broken_options(NULL);
    opt.replay = name;
    b = broken_with(&opt);
    races = kind != SG_FAULT_NONE || strstr(spec, "address") != NULL;
    assert_int_equal(run(b, kernel, races ? one : NULL, second), kind);
    if (memcmp(first, second, ARENA) != 0 || sg_broken_count(b) != faults)
        fail_msg("'%s' on %s: its log does something else", spec, names[kernel]);
    assert_int_equal(log_lines("\"diverged\""), 0);
    sg_broken_free(b);
    unlink(name);
}

static void test_replay__seeded_faults_do_what_their_log_does(void **state)
{
    unsigned i = 0;
    uint32_t *clean[4];
    struct tally t = {0};
    struct tb_error err = {0};

    (void)state;
    arena = device_bytes(ARENA);
    image = load_ptx(kernels);
    assert_int_equal(
        sg_machine_new(&(struct sg_machine_options){.workers = 1}, test_mem, &one, &err), TB_OK);
    for (unsigned k = 0; k < 4; k++) {
        clean[k] = malloc(ARENA);
        assert_non_null(clean[k]);
        assert_int_equal(run(NULL, k, one, clean[k]), SG_FAULT_NONE);
        for (unsigned other = 0; other < k; other++)
            assert_true(memcmp(clean[k], clean[other], ARENA) != 0);
    }
    for (; t.faulty < LAUNCHES && i < 4 * LAUNCHES; i++)
        one_seed(i, clean, &t);
    print_message(
        "%u seeds: %u with faults (%llu of them): %u masked, %u wrong, %u ended by them\n", i,
        t.faulty, (unsigned long long)t.faults, t.masked, t.wrong, t.ended);
    assert_int_equal(t.faulty, LAUNCHES);
    assert_true(t.masked > LAUNCHES / 20 && t.wrong > LAUNCHES / 2 && t.ended > 0);
    for (unsigned k = 0; k < 4; k++)
        free(clean[k]);
    sg_machine_free(one);
    sg_image_free(image);
    device_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay__seeded_faults_do_what_their_log_does),
    };
    return cmocka_run_group_tests(tests, broken_setup, broken_teardown);
}
