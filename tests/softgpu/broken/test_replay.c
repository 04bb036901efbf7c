/* Seeded faults in whole kernels: what they do to the output is what their log, injected again,
 * does; and the log is right about which of them are masked. */
#include "tests/softgpu/broken/broken_test.h"

#define ARENA 16384u
#define BLOCKS 4u
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
static struct sg_machine *one, *many; /* of one worker, and of one a block */

static void fill(void)
{
    float *f = (float *)(void *)arena;
    uint64_t rng = 5;

    memset(arena, 0, ARENA);
    for (unsigned i = 0; i < FROM / 4; i++)
        f[i] = (float)(int)(sg_draw(&rng) % 4001 - 2000) / 500.0F;
}

static enum sg_fault_kind run(struct sg_broken *b, unsigned kernel, struct sg_machine *m,
                              const struct sg_watcher *watcher, uint32_t *out)
{
    struct broken_run r = {.kernel = names[kernel],
                           .blocks = BLOCKS,
                           .threads = 64,
                           .limit = 1 << 18,
                           .machine = m,
                           .watcher = watcher};
    enum sg_fault_kind kind;

    fill();
    kind = run_broken(b, image, r, arena);
    memcpy(out, arena, ARENA);
    return kind;
}

/* ---- do blocks meet? ------------------------------------------------------------------------- */

/* Blocks that touched each word of the arena, a bit each. */
struct touched {
    uint8_t any[ARENA / 4], wrote[ARENA / 4];
    bool outside;
};

static bool on_touch(void *arg, const struct sg_step *step, const struct sg_access *a)
{
    struct touched *t = arg;
    uint64_t from = a->addr - (uint64_t)(uintptr_t)arena;
    uint8_t bit = (uint8_t)(1u << step->warp->block->linear);

    if (a->space != SG_SPACE_GLOBAL)
        return true;
    if (from >= ARENA || a->n > ARENA - from) {
        t->outside = true;
        return true;
    }
    for (uint64_t word = from / 4; word <= (from + a->n - 1) / 4; word++) {
        t->any[word] |= bit;
        t->wrote[word] |= a->write ? bit : 0;
    }
    return true;
}

/* A wrong integer can become an address or the end of a loop: a block may then read or write what
 * another one writes, and the order of blocks counts. Where none does in one order, none does in
 * any. */
static bool blocks_meet(const struct touched *t)
{
    for (unsigned i = 0; i < ARENA / 4; i++)
        if (t->wrote[i] != 0 && (t->any[i] & (t->any[i] - 1)) != 0)
            return true;
    return t->outside;
}

/* ---- the other order of blocks --------------------------------------------------------------- */

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned ended;
};

/* The last block runs first. Each has a worker, so that all can wait here at once. */
static void wait_for_turn(void *arg, struct sg_block *block)
{
    struct queue *q = arg;

    pthread_mutex_lock(&q->lock);
    while (q->ended < BLOCKS - 1 - block->linear && !atomic_load(&block->run->all->failed))
        pthread_cond_wait(&q->moved, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

static void end_turn(void *arg, struct sg_block *block)
{
    struct queue *q = arg;

    (void)block;
    pthread_mutex_lock(&q->lock);
    q->ended++;
    pthread_cond_broadcast(&q->moved);
    pthread_mutex_unlock(&q->lock);
}

static enum sg_fault_kind run_backwards(struct sg_broken *b, unsigned kernel, uint32_t *out)
{
    struct queue q = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
    struct sg_watcher w = {.block_start = wait_for_turn, .block_end = end_turn, .arg = &q};

    return run(b, kernel, many, &w, out);
}

/* ---- seeds ----------------------------------------------------------------------------------- */

struct tally {
    unsigned faulty, masked, wrong, ended, backwards;
    uint64_t faults;
};

enum order { BY_INDEX, BACKWARDS, AS_THEY_COME };

struct outcome { /* of a seed's first run */
    const char *spec, *log;
    unsigned kernel;
    enum sg_fault_kind kind;
    uint64_t faults;
    uint32_t memory[ARENA / 4];
};

static void replay(const struct outcome *o, enum order order)
{
    static uint32_t memory[ARENA / 4];
    struct sg_broken_options opt = broken_options(NULL);
    enum sg_fault_kind kind;
    struct sg_broken *b;

    opt.replay = o->log;
    b = broken_with(&opt);
    kind = order == BACKWARDS ? run_backwards(b, o->kernel, memory)
                              : run(b, o->kernel, order == BY_INDEX ? one : many, NULL, memory);
    if (kind != o->kind || memcmp(o->memory, memory, ARENA) != 0 || sg_broken_count(b) != o->faults)
        fail_msg("'%s' on %s: its log does something else, order %u", o->spec, names[o->kernel],
                 order);
    assert_int_equal(log_lines("\"diverged\""), 0);
    sg_broken_free(b);
}

/* What one worker did, who has one order of blocks, and others in any order, unless it counts: a
 * launch that ends early stops wherever its blocks are, and blocks that meet see what was before
 * them. */
static void replay_all(const struct outcome *o, const struct touched *touched, struct tally *t)
{
    bool resident = sg_kernel_info(sg_image_kernel(image, names[o->kernel]))->communicates;

    replay(o, BY_INDEX);
    if (o->kind != SG_FAULT_NONE || blocks_meet(touched))
        return;
    if (!resident) { /* these are one worker's in any case */
        replay(o, BACKWARDS);
        t->backwards++;
    }
    replay(o, AS_THEY_COME);
}

static void write_spec(unsigned seed, char *out, size_t size)
{
    size_t n = 0;

    for (const char *at = specs[seed / 4 % TB_ARRAY_LEN(specs)]; *at; at++) /* each with the seed */
        n += *at == ';' ? (size_t)snprintf(out + n, size - n, " seed=%u;", seed)
                        : (size_t)snprintf(out + n, size - n, "%c", *at);
    snprintf(out + n, size - n, " seed=%u", seed);
}

/* One seed: with the specification, then with the log. */
static void one_seed(unsigned i, uint32_t *const clean[4], struct tally *t)
{
    char spec[512], name[128];
    struct outcome o = {.spec = spec, .log = name, .kernel = i % 4};
    struct touched touched = {0};
    struct sg_watcher watcher = {.access = on_touch, .arg = &touched};
    struct sg_broken *b;
    bool differs, masked;

    write_spec(i, spec, sizeof(spec));
    b = broken(spec);
    o.kind = run(b, o.kernel, one, &watcher, o.memory);
    o.faults = sg_broken_count(b);
    sg_broken_free(b);
    differs = memcmp(o.memory, clean[o.kernel], ARENA) != 0 || o.kind != SG_FAULT_NONE;
    if (o.faults == 0) {
        assert_false(differs);
        return;
    }
    assert_int_equal(log_lines("\"kind\":\"launch\""), 1);
    assert_null(strstr(last_line, "unknown"));
    masked = strstr(last_line, "\"masked\":true") != NULL;
    if (masked == differs)
        fail_msg("'%s' on %s: %s", spec, names[o.kernel], last_line);
    t->faulty++;
    t->faults += o.faults;
    t->masked += masked;
    t->wrong += differs && o.kind == SG_FAULT_NONE;
    t->ended += o.kind != SG_FAULT_NONE;
    snprintf(name, sizeof(name), "%s.first", log_path);
    assert_int_equal(rename(log_path, name), 0);
    replay_all(&o, &touched, t);
    unlink(name);
}

static struct sg_machine *machine_of(unsigned workers)
{
    struct sg_machine_options opt = {.workers = workers};
    struct sg_machine *m = NULL;
    struct tb_error err = {0};

    if (sg_machine_new(&opt, test_mem, &m, &err) != TB_OK)
        fail_msg("%s", err.text);
    return m;
}

static void test_replay__seeded_faults_do_what_their_log_does(void **state)
{
    unsigned i = 0;
    uint32_t *clean[4];
    struct tally t = {0};

    (void)state;
    arena = device_bytes(ARENA);
    image = load_ptx(kernels);
    one = machine_of(1);
    many = machine_of(BLOCKS);
    for (unsigned k = 0; k < 4; k++) {
        clean[k] = malloc(ARENA);
        assert_non_null(clean[k]);
        assert_int_equal(run(NULL, k, one, NULL, clean[k]), SG_FAULT_NONE);
        for (unsigned other = 0; other < k; other++)
            assert_true(memcmp(clean[k], clean[other], ARENA) != 0);
    }
    for (; t.faulty < LAUNCHES && i < 4 * LAUNCHES; i++)
        one_seed(i, clean, &t);
    print_message(
        "%u seeds: %u with faults (%llu of them): %u masked, %u wrong, %u ended by them, %u "
        "backwards too\n",
        i, t.faulty, (unsigned long long)t.faults, t.masked, t.wrong, t.ended, t.backwards);
    assert_int_equal(t.faulty, LAUNCHES);
    assert_true(t.masked > LAUNCHES / 20 && t.wrong > LAUNCHES / 2 && t.ended > 0);
    assert_true(t.backwards > LAUNCHES / 2);
    for (unsigned k = 0; k < 4; k++)
        free(clean[k]);
    sg_machine_free(many);
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
