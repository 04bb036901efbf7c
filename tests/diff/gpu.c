#include "tests/diff/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"
#include "store/store.h"

#define STREAM_LINE "q ? cuda [] - stream\n"

static uint64_t mix64(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 32;
}

struct out {
    struct tb_store *s;
    uint32_t process, thread;
    uint16_t flags;
    uint64_t seq, step, value[10]; /* value: what each allocation holds */
};

static struct tb_error err;

static void ok(enum tb_status st)
{
    if (st != TB_OK)
        fail_msg("%s", err.text);
}

static struct tb_store_access at(uint64_t alloc, uint64_t value, uint8_t kind)
{
    struct tb_store_access a = {.alloc = alloc, .fp_kind = kind};

    if (kind != TB_FP_NONE)
        memcpy(a.fp, &value, 8);
    return a;
}

/* An event in stream 2; open is its own number unless something ran inside. */
static uint64_t put(struct out *o, uint8_t kind, const char *text, struct tb_store_access *a,
                    uint32_t n, uint64_t open)
{
    struct tb_store_event e = {.thread = o->thread,
                               .kind = kind,
                               .flags = o->flags,
                               .seq = o->seq,
                               .open = open,
                               .step = o->step};
    uint64_t id = 0;

    ok(tb_store_intern_site(o->s, text, strlen(text), &e.site, &err));
    ok(tb_store_event(o->s, &e, a, n, &id, &err));
    o->seq++;
    return id;
}

static void wait_some(struct out *o, unsigned n)
{
    struct tb_store_access a = at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE);

    while (n--)
        put(o, TB_EV_SYNC, "cuda\ncuStreamSynchronize\n" STREAM_LINE, &a, 1, o->seq);
}

/* Host to device: allocation 1, which gemm reads. */
static void copy_in(struct out *o, uint64_t value)
{
    struct tb_store_access a[2] = {at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE),
                                   at(1, value, TB_FP_BYTES)};

    o->value[1] = value;
    put(o, TB_EV_COPY, "cuda\ncuMemcpyHtoD\tkind=htod\n" STREAM_LINE "w u8 cuda:0 [64] - dst\n", a,
        2, o->seq);
}

static void fill(struct out *o, const struct gpu *g)
{
    struct tb_store_access a[2] = {at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE),
                                   at(2, o->value[2], g->fill_unhashed ? TB_FP_NONE : TB_FP_BYTES)};

    put(o, TB_EV_SET, "cuda\ncuMemsetD8\n" STREAM_LINE "w u8 cuda:0 [64] - dst\n", a, 2, o->seq);
}

/* What gemm might have written, as far as it was learnt. */
static struct tb_store_access left(const struct out *o, const struct gpu *g)
{
    uint64_t value = o->value[2] + (g->learnt == FOUND_OTHER);

    if (g->learnt >= WRITTEN)
        return at(2, value, TB_FP_BYTES);
    return at(2, g->learnt == BELIEVED ? 0 : value, TB_FP_UNCHANGED);
}

static void gemm(struct out *o, const struct gpu *g, bool faulty)
{
    char text[512];
    float c[16];
    uint8_t kind = g->no_fp ? TB_FP_NONE : g->sampled ? TB_FP_SAMPLED : TB_FP_BYTES;

    o->value[3] = mix64(mix64(o->value[1], o->value[2]), faulty && g->launch);
    if (g->kernels)
        return;
    (void)snprintf(text, sizeof(text),
                   "cuda\ngemm\tgrid=%s\tblock=64,1,1\tshared=1024\tsymbol=%s\t"
                   "image=%s\n" STREAM_LINE "r f32 cuda:0 [16] - a\nr u8 cuda:0 [64] - b\n"
                   "w f32 cuda:0 [16] - c\n%s",
                   faulty && g->grid ? g->grid : "2,1,1",
                   g->symbol ? g->symbol : "_Z4gemmIfEvPKT_PS0_i", g->image ? g->image : "aaaa1111",
                   g->learnt ? "w u8 cuda:0 [64] - b\n" : "");
    struct tb_store_access a[5] = {at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE), at(1, 0, TB_FP_NONE),
                                   at(2, 0, TB_FP_NONE), at(3, o->value[3], kind), left(o, g)};
    uint64_t id = put(o, TB_EV_LAUNCH, text, a, 4 + (g->learnt != CODE_KNOWN), o->seq);
    for (int i = 0; i < 16; i++)
        c[i] = (float)i + (faulty && g->launch && i == 5 ? 0.5f : 0);
    if (g->snapshot)
        ok(tb_store_snapshot(o->s, id, 3, c, sizeof(c), &err));
}

/* A graph: what its first kernel writes, its second one reads. Reads are hashed before it begins.
 */
static void graph(struct out *o, bool other)
{
    struct tb_store_access a[3] = {at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE)};

    a[2] = at(6, o->value[6], TB_FP_BYTES);
    o->value[6] = mix64(o->step + 1, other);
    a[1] = at(6, o->value[6], TB_FP_BYTES);
    put(o, TB_EV_GRAPH,
        "cuda\ngraph\n" STREAM_LINE "w f32 cuda:0 [16] - x\nr f32 cuda:0 [16] - x\n", a, 3, o->seq);
}

static void sum(struct out *o, bool other)
{
    struct tb_store_access a[3] = {at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE), at(3, 0, TB_FP_NONE)};

    o->value[4] = mix64(o->value[3], other);
    a[2] = at(4, o->value[4], TB_FP_BYTES);
    put(o, TB_EV_LAUNCH,
        "cuda\nsum\tgrid=1,1,1\tblock=32,1,1\tatomics=1\n" STREAM_LINE
        "r f32 cuda:0 [16] - x\nw f32 cuda:0 [1] - y\n",
        a, 3, o->seq);
}

/* Managed memory: a kernel writes it in step 0, then the host may, and no call says so. */
static void managed(struct out *o, const struct gpu *g, bool faulty)
{
    uint64_t table = 55 + (faulty && g->table && o->step == 1);
    struct tb_store_access a[3] = {at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE), at(6, 55, TB_FP_BYTES)};

    if (o->step == 0)
        put(o, TB_EV_LAUNCH, "cuda\nprepare\n" STREAM_LINE "w f32 shared:0 [4] - table\n", a, 2,
            o->seq);
    a[1] = at(6, table, g->hashed ? TB_FP_BYTES : TB_FP_NONE);
    a[2] = at(7, mix64(table, 1), TB_FP_BYTES);
    put(o, TB_EV_LAUNCH,
        "cuda\nlookup\n" STREAM_LINE "r f32 shared:0 [4] - table\nw f32 cuda:0 [4] - found\n", a, 3,
        o->seq);
}

/* Three launches that write a part each of one buffer, whose fingerprint has all parts. */
static void parts(struct out *o, const struct gpu *g)
{
    struct tb_store_access a[4] = {at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE), at(2, 0, TB_FP_NONE)};

    for (unsigned k = 0; k < 3; k++) {
        o->value[8] = mix64(o->value[8], k + (g->part && o->step == 1 && k == 1 ? 100 : 0));
        a[2] = at(8, o->value[8], TB_FP_BYTES);
        put(o, TB_EV_LAUNCH,
            "cuda\npart\n" STREAM_LINE "r u8 cuda:0 [64] - x\nw f32 cuda:0 [3] - parts\n", a, 3,
            o->seq);
    }
    a[2] = at(8, o->value[8] = mix64(o->value[8], 9), TB_FP_BYTES);
    a[3] = at(9, 1 + (g->other && o->step == 2), TB_FP_BYTES);
    put(o, TB_EV_LAUNCH,
        "cuda\npair\n" STREAM_LINE "r u8 cuda:0 [64] - x\nw f32 cuda:0 [3] - parts\n"
        "w f32 cuda:0 [3] - other\n",
        a, 4, o->seq);
}

static void copy_out(struct out *o, const struct gpu *g)
{
    struct tb_store_access a[2] = {at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE), at(4, 0, TB_FP_NONE)};

    put(o, TB_EV_COPY, "cuda\ncuMemcpyDtoH\tkind=dtoh\n" STREAM_LINE "r u8 cuda:0 [4] - src\n", a,
        2, o->seq);
    if (!g->back)
        return;
    a[1] = at(4, mix64(o->value[4], g->back == 2 && o->step == 1), TB_FP_BYTES);
    if (g->back == 3 && o->step == 1)
        a[1] = at(3, o->value[3], TB_FP_BYTES);
    o->flags = TB_EVF_READS_HASHED;
    put(o, TB_EV_COPY, "cuda\ncuMemcpyDtoH\tkind=dtoh\n" STREAM_LINE "r u8 cuda:0 [2] - src\n", a,
        2, o->seq);
    o->flags = 0;
}

/* A program without steps: a launch adds to a number, and what it leads to is looked up. */
static void count(struct out *o, const struct gpu *g)
{
    struct tb_store_access a[3] = {at(TB_ALLOC_STREAM + 2, 0, TB_FP_NONE)};

    for (unsigned i = 0; i < g->count; i++) {
        o->value[3] = mix64(o->value[3], 1 + (g->wrong && i >= g->wrong));
        o->value[4] = mix64(o->value[3], 2);
        if (i >= g->skip && i < g->skip_to)
            continue;
        a[1] = at(3, 0, TB_FP_NONE);
        a[2] = at(3, o->value[3], TB_FP_BYTES);
        put(o, TB_EV_LAUNCH,
            "cuda\ninc\tgrid=1,1,1\n" STREAM_LINE "r f32 cuda:0 [1] - x\nw f32 cuda:0 [1] - x\n", a,
            3, o->seq);
        a[2] = at(4, o->value[4], TB_FP_BYTES);
        put(o, TB_EV_LAUNCH,
            "cuda\nlook\tgrid=1,1,1\n" STREAM_LINE "r f32 cuda:0 [1] - x\nw f32 cuda:0 [1] - y\n",
            a, 3, o->seq);
        copy_out(o, g);
    }
}

/* An operator whose work is one kernel, the one or the other. */
static void operator_of(struct out *o, const struct gpu *g)
{
    uint64_t open = o->seq;
    struct tb_store_access inner[2] = {at(4, 0, TB_FP_NONE),
                                       at(5, mix64(o->value[4], g->choose), TB_FP_BYTES)};
    struct tb_store_access outer[2] = {at(4, 0, TB_FP_NONE), inner[1]};
    const char *text =
        g->choose ? "cuda\nsplit_k\tgrid=8,1,1\nr f32 cuda:0 [1] - x\nw f32 cuda:0 [1] - y\n"
                  : "cuda\nplain\tgrid=1,1,1\nr f32 cuda:0 [1] - x\nw f32 cuda:0 [1] - y\n";

    if (!g->level_op)
        put(o, TB_EV_LAUNCH, text, inner, 2, o->seq);
    put(o, TB_EV_OP, "torch\naten::addmm\nr f32 cuda:0 [1] - self\nw f32 cuda:0 [1] - out\n", outer,
        2, open);
}

static void step(struct out *o, const struct gpu *g)
{
    bool faulty = !g->in_step_1 || o->step == 1;

    copy_in(o, 100 + o->step + (faulty && g->batch) + (g->twice ? o->value[4] : 0));
    wait_some(o, g->waits);
    o->value[2] = 7;
    fill(o, g);
    gemm(o, g, faulty);
    if (g->graph)
        graph(o, faulty && g->graph == 2);
    wait_some(o, g->waits);
    sum(o, faulty && g->atomics);
    managed(o, g, faulty);
    parts(o, g);
    copy_out(o, g);
    operator_of(o, g);
    put(o, TB_EV_STEP, "torch\nstep\n", NULL, 0, o->seq);
    o->step++;
}

static void write_trace(const struct gpu *g, const char *path)
{
    struct tb_store_process p = {
        .rank = -1, .worker = -1, .argv = "./train", .identity = "train#0"};
    struct out o = {0};

    ok(tb_store_create(&o.s, path, &(struct tb_store_options){.force = true}, &err));
    ok(tb_store_meta(o.s, "argv", "./train", &err));
    ok(tb_store_meta(o.s, "cuda.launch_bytes", g->budget ? "4096" : "8192", &err));
    ok(tb_store_meta(o.s, "level", g->level_op ? "op" : "kernel", &err));
    ok(tb_store_add_process(o.s, &p, &o.process, &err));
    ok(tb_store_add_thread(o.s, o.process, 0, "main", &o.thread, &err));
    if (g->no_launch)
        copy_in(&o, 100);
    for (int i = 0; i < 4 && !g->count && !g->no_launch; i++)
        step(&o, g);
    count(&o, g);
    if (g->late)
        ok(tb_store_coverage(o.s, o.process, o.thread, 0, 1, "fingerprint", "gemm",
                             "never arrived: the process ended before its device wrote it", 1,
                             &err));
    if (g->learnt == SURPRISE)
        ok(tb_store_coverage(o.s, o.process, o.thread, 0, 1, "learnt", "gemm",
                             "a write that was not learnt: b", 1, &err));
    if (g->learnt == BELIEVED)
        ok(tb_store_coverage(o.s, o.process, 0, 0, 0, "learnt", "writes",
                             "were not looked for where earlier launches left the bytes alone", 4,
                             &err));
    if (g->sampled)
        ok(tb_store_coverage(o.s, o.process, 0, 0, 0, "sampled", "fingerprints",
                             "of large buffers cover some of their bytes only", 4, &err));
    if (g->pause)
        ok(tb_store_coverage(o.s, o.process, 0, 0, 1, "paused", g->pause, "", 1, &err));
    if (g->kernels)
        ok(tb_store_meta(o.s, "cuda.kernels", g->kernels, &err));
    if (g->left_out)
        ok(tb_store_coverage(o.s, o.process, 0, 0, 0, g->left_out, "gemm", "left out", 4, &err));
    if (g->lost)
        ok(tb_store_lost(o.s, o.process, 0, g->lost, "ring full", &err));
    if (g->ended)
        ok(tb_store_meta(o.s, "exit_status", g->ended, &err));
    if (g->cut) {
        ok(tb_store_flush(o.s, &err));
        _exit(0); /* of the child: nothing is closed */
    }
    ok(tb_store_close(o.s, &err));
}

void gpu_write(const struct gpu *g, const char *path)
{
    int status = 0;

    if (!g->cut) {
        write_trace(g, path);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        write_trace(g, path);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
