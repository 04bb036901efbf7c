#include "tests/diff/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/wire.h"
#include "store/store.h"

#define ELEMENTS 6 /* shape [2,3] of f32 */

enum buffer { WEIGHT, BIAS, BATCH, X, Y, Z, GELU, SUM, GRAD, MASK, JUNK, POOL0, POOL1, BUFFERS };

struct maker {
    const struct job *j;
    struct tb_store *store;
    struct tb_error err;
    uint32_t process, thread[4];
    uint64_t seq, step, random;
    uint64_t value[BUFFERS], alloc[BUFFERS], allocs;
    uint64_t generator;
    double loss;
    bool quiet; /* what happens is not recorded */
};

static void ok(struct maker *m, enum tb_status st)
{
    if (st != TB_OK)
        fail_msg("%s", m->err.text);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9u;
    return h ^ h >> 32;
}

static void contents(uint64_t value, float out[ELEMENTS])
{
    for (unsigned i = 0; i < ELEMENTS; i++)
        out[i] = (float)(mix(value, i) % 1000) / 8.0f;
}

/* ---------------------------------------------------------------- events */

struct call {
    const char *name, *range;
    unsigned thread;
    uint64_t args, open;
    char text[512];
    struct tb_store_access a[8];
    uint64_t held[8]; /* value behind each access, for snapshots */
    uint32_t n;
    uint64_t h; /* of what it read */
};

static struct call begin(struct maker *m, unsigned thread, const char *range, const char *name)
{
    struct call c = {.name = name, .range = range, .thread = thread, .open = m->seq};

    (void)snprintf(c.text, sizeof(c.text), "torch\n%s\n", name);
    for (const char *p = name; *p; p++)
        c.h = mix(c.h, (uint64_t)*p);
    return c;
}

static struct tb_store_access *line(struct call *c, char mode, const char *shape,
                                    const char *argument)
{
    size_t used = strlen(c->text);

    (void)snprintf(c->text + used, sizeof(c->text) - used, "%c f32 cpu %s - %s\n", mode, shape,
                   argument);
    return &c->a[c->n++];
}

static void fingerprint(struct tb_store_access *a, uint64_t value)
{
    a->fp_kind = TB_FP_BYTES;
    tb_fp_store(a->fp, tb_fp_host(&value, sizeof(value), 0));
}

static void reads(struct maker *m, struct call *c, enum buffer b, bool hashed, const char *argument)
{
    c->held[c->n] = m->value[b];
    struct tb_store_access *a = line(c, 'r', "[2,3]", argument);
    a->alloc = m->alloc[b];
    if (hashed || m->j->inputs)
        fingerprint(a, m->value[b]);
    c->h = mix(c->h, m->value[b]);
}

static void fresh(struct maker *m, enum buffer b)
{
    m->allocs += 1 + m->j->alloc_gap;
    m->alloc[b] = m->allocs;
}

/* The result goes into @b, in place or into new memory */
static void writes_shaped(struct maker *m, struct call *c, enum buffer b, bool in_place,
                          const char *shape)
{
    m->value[b] = mix(c->h, c->args);
    if (!in_place)
        fresh(m, b);
    c->held[c->n] = m->value[b];
    struct tb_store_access *a = line(c, 'w', shape, "out");
    a->alloc = m->alloc[b];
    fingerprint(a, m->value[b]);
}

static void writes(struct maker *m, struct call *c, enum buffer b, bool in_place)
{
    writes_shaped(m, c, b, in_place, "[2,3]");
}

static void rewrite(struct maker *m, struct call *c, enum buffer b, uint64_t with)
{
    m->value[b] = mix(m->value[b], with);
    c->held[c->n - 1] = m->value[b];
    fingerprint(&c->a[c->n - 1], m->value[b]);
}

static void keep_map(struct maker *m, const struct call *c, uint64_t id)
{
    uint64_t sums[32];

    for (uint64_t i = 0; i < 32; i++)
        sums[i] = i / 2 == 5 || i / 2 == 9 ? mix(c->held[c->n - 1], i) : i;
    ok(m, tb_store_map(m->store, id, c->n - 1, 64 * 512 * 4, sums, 16, &m->err));
}

static void keep(struct maker *m, const struct call *c, uint64_t id)
{
    float data[ELEMENTS];

    for (uint32_t i = 0; i < c->n; i++) {
        contents(c->held[i], data);
        ok(m, tb_store_snapshot(m->store, id, i, data, sizeof(data), &m->err));
    }
}

static uint64_t end(struct maker *m, struct call *c, unsigned kind)
{
    struct tb_store_event e = {.thread = m->thread[c->thread],
                               .kind = (uint8_t)kind,
                               .seq = m->seq,
                               .open = c->open,
                               .step = m->step,
                               .args = c->args,
                               .time_ns = m->seq};
    uint64_t id = 0;

    if (m->quiet || (m->j->boundary && kind == TB_EV_OP))
        return 0;
    ok(m, tb_store_intern_site(m->store, c->text, strlen(c->text), &e.site, &m->err));
    if (*c->range)
        ok(m, tb_store_intern_range(m->store, c->range, strlen(c->range), &e.range, &m->err));
    ok(m, tb_store_event(m->store, &e, c->a, c->n, &id, &m->err));
    m->seq++;
    return id;
}

/* ---------------------------------------------------------------- one step */

static bool now(const struct maker *m, enum job_fault fault)
{
    return m->j->fault == fault && m->j->at == m->step;
}

static void simple(struct maker *m, unsigned thread, const char *range, const char *name,
                   enum buffer from, enum buffer to)
{
    struct call c = begin(m, thread, range, name);

    reads(m, &c, from, false, "self");
    writes(m, &c, to, false);
    (void)end(m, &c, TB_EV_OP);
}

static void addmm(struct maker *m, enum buffer from, enum buffer to, bool second)
{
    struct call c = begin(m, 0, "forward\tmodel.fc\t", "aten::addmm");

    reads(m, &c, BIAS, false, "self");
    reads(m, &c, from, false, "mat1");
    reads(m, &c, WEIGHT, false, "mat2");
    writes_shaped(m, &c, to, false, second && m->j->map ? "[64,512]" : "[2,3]");
    if (second && now(m, JOB_OUTPUT))
        rewrite(m, &c, to, 77);
    uint64_t id = end(m, &c, TB_EV_OP);
    if (second && m->j->snapshot && id)
        keep(m, &c, id);
    if (second && m->j->map && id)
        keep_map(m, &c, id);
}

static void embed(struct maker *m)
{
    struct call c = begin(m, 0, "forward\tmodel.embed\t", "aten::embedding");

    fresh(m, BATCH);
    m->value[BATCH] = mix(11, m->step) + now(m, JOB_BATCH) + now(m, JOB_HOST_RNG);
    reads(m, &c, WEIGHT, false, "weight");
    reads(m, &c, BATCH, true, "indices");
    writes(m, &c, X, false);
    (void)end(m, &c, TB_EV_OP);
}

static void dropout(struct maker *m)
{
    struct call c = begin(m, 0, "forward\tmodel.drop\t", "aten::bernoulli_");

    if (now(m, JOB_RNG))
        m->generator = mix(m->generator, 99);
    struct tb_store_access *g = line(&c, 'g', "[]", "rng:cpu:default");
    g->alloc = TB_ALLOC_RNG;
    fingerprint(g, m->generator);
    g->fp_kind = TB_FP_STATE;
    c.h = mix(c.h, m->generator);
    m->generator = mix(m->generator, 1);
    writes(m, &c, MASK, false);
    (void)end(m, &c, TB_EV_OP);
}

static void scale(struct maker *m)
{
    struct call c = begin(m, 0, "forward\tmodel.drop\t", "aten::mul.Tensor");

    c.args = 5 + now(m, JOB_ARGS);
    if (m->j->fault == JOB_ITEM)
        c.args += (uint64_t)m->loss;
    reads(m, &c, Y, false, "self");
    reads(m, &c, MASK, false, "other");
    writes(m, &c, Y, true);
    (void)end(m, &c, TB_EV_OP);
}

static void stack(struct maker *m)
{
    struct call c = begin(m, 0, "forward\tmodel\t", "aten::stack");
    bool other = now(m, JOB_ORDER);

    reads(m, &c, other ? Z : X, false, "tensors.0");
    reads(m, &c, other ? X : Z, false, "tensors.1");
    writes(m, &c, Z, false);
    (void)end(m, &c, TB_EV_OP);
}

static void sum(struct maker *m)
{
    struct call c = begin(m, 0, "forward\tmodel\t", "aten::sum");

    reads(m, &c, Z, false, "self");
    if (now(m, JOB_INSIDE) || m->j->fault == JOB_INSIDE_ALWAYS)
        simple(m, 0, "forward\tmodel\t", "aten::view_copy", Z, JUNK);
    writes(m, &c, SUM, false);
    if (now(m, JOB_INSIDE) || now(m, JOB_INSIDE_ALWAYS))
        rewrite(m, &c, SUM, 3);
    (void)end(m, &c, TB_EV_OP);
}

static void item(struct maker *m)
{
    struct call c = begin(m, 0, "forward\t\t", "aten::_local_scalar_dense");

    reads(m, &c, SUM, false, "self");
    m->loss = (double)(m->value[SUM] % 100000);
    struct tb_store_access *a = line(&c, 'h', "[]", "out");
    a->fp_kind = TB_FP_SCALAR;
    memcpy(a->fp, &m->loss, sizeof(m->loss));
    (void)end(m, &c, TB_EV_OP);
}

static void reduce(struct maker *m)
{
    struct call c = begin(m, 0, "backward\t\t", "c10d::allreduce_");

    if (m->j->rank < 0)
        return;
    reads(m, &c, GRAD, false, "tensors");
    c.h = mix(c.h, m->j->peer_fault == (int64_t)m->step);
    if (m->j->split) { /* issued here, its end is seen later */
        uint64_t h = c.h;
        (void)end(m, &c, TB_EV_COLL);
        c = begin(m, 0, "backward\t\t", "c10d::allreduce_");
        c.h = h;
    }
    writes(m, &c, GRAD, true);
    if (now(m, JOB_REDUCE))
        rewrite(m, &c, GRAD, 4);
    (void)end(m, &c, TB_EV_COLL);
}

static void update(struct maker *m)
{
    struct call c = begin(m, 0, "optimizer\t\t", "aten::add_");

    reads(m, &c, WEIGHT, false, "self");
    reads(m, &c, GRAD, false, "other");
    writes(m, &c, WEIGHT, true);
    (void)end(m, &c, TB_EV_OP);
}

static void end_step(struct maker *m)
{
    struct call c = begin(m, 0, "", "state");
    struct tb_store_access *a = line(&c, 's', "[2,3]", "param:fc.weight");

    a->alloc = m->alloc[WEIGHT];
    fingerprint(a, m->value[WEIGHT]);
    (void)end(m, &c, TB_EV_STATE);
    c = begin(m, 0, "", "state");
    a = line(&c, 's', "[2,3]", "rng:python");
    fingerprint(a, mix(m->step, now(m, JOB_HOST_RNG)));
    (void)end(m, &c, TB_EV_STATE);
    c = begin(m, 0, "", "step");
    (void)end(m, &c, TB_EV_STEP);
}

/* Two threads at once: which event ends first is drawn */
static void both_threads(struct maker *m)
{
    m->random = mix(m->random, m->step + 1);
    if (m->random & 1)
        simple(m, 1, "backward\tmodel.fc\t", "aten::mm", Z, GRAD);
    sum(m);
    if (!(m->random & 1))
        simple(m, 1, "backward\tmodel.fc\t", "aten::mm", Z, GRAD);
}

/* What two threads of the job's own compute; which one of them was first numbers them */
static void pool(struct maker *m)
{
    bool swapped = m->j->pool == 2;

    for (int i = 0; m->j->pool && i < 2; i++) {
        bool second = (i == 1) != swapped;
        simple(m, 2 + (unsigned)i, "", second ? "aten::cos" : "aten::sin", X,
               second ? POOL1 : POOL0);
        if (second && now(m, JOB_POOL))
            simple(m, 2 + (unsigned)i, "", "aten::neg", POOL1, POOL1);
    }
}

static void do_step(struct maker *m)
{
    embed(m);
    pool(m);
    addmm(m, X, Y, false);
    if (now(m, JOB_UNSEEN))
        m->value[Y] = mix(m->value[Y], 5);
    dropout(m);
    scale(m);
    if (now(m, JOB_EXTRA))
        simple(m, 0, "forward\tmodel.fc\t", "aten::relu", Y, Y);
    if (now(m, JOB_EXTRA_OFF))
        simple(m, 0, "forward\tmodel.fc\t", "aten::isnan", Y, JUNK);
    addmm(m, Y, Z, true);
    if (!now(m, JOB_MISSING))
        simple(m, 0, "forward\tmodel.act\t", "aten::gelu", Z, Z);
    stack(m);
    both_threads(m);
    item(m);
    reduce(m);
    update(m);
    end_step(m);
    m->step++;
}

/* ---------------------------------------------------------------- the whole job */

static void about(struct maker *m)
{
    const struct job *j = m->j;
    char text[256];
    struct tb_store_process p = {.rank = j->rank,
                                 .worker = -1,
                                 .pid = (int32_t)getpid(),
                                 .argv = j->argv ? j->argv : "python train.py"};

    (void)snprintf(text, sizeof(text), "python#%d", j->rank);
    p.identity = text;
    ok(m, tb_store_meta(m->store, "argv", p.argv, &m->err));
    ok(m, tb_store_meta(m->store, "exit_status", "0", &m->err));
    if (j->key)
        ok(m, tb_store_meta(m->store, j->key, j->value, &m->err));
    ok(m, tb_store_add_process(m->store, &p, &m->process, &m->err));
    ok(m, tb_store_add_thread(m->store, m->process, 0, "main", &m->thread[0], &m->err));
    ok(m, tb_store_add_thread(m->store, m->process, 1, "autograd#0", &m->thread[1], &m->err));
    if (j->pool) {
        ok(m, tb_store_add_thread(m->store, m->process, 2, "thread#0", &m->thread[2], &m->err));
        ok(m, tb_store_add_thread(m->store, m->process, 3, "thread#1", &m->thread[3], &m->err));
    }
    (void)snprintf(text, sizeof(text), "HOME=/home/u\n%s%sPID_OF_SHELL=1\n",
                   j->variable ? j->variable : "", j->variable ? "\n" : "");
    ok(m, tb_store_text(m->store, "environment", text, strlen(text), &m->err));
}

static void run(struct maker *m)
{
    const struct job *j = m->j;

    for (int b = 0; b < BUFFERS; b++) {
        m->value[b] = 100 + (uint64_t)b;
        fresh(m, (enum buffer)b);
    }
    m->generator = 42;
    m->random = j->seed;
    about(m);
    while (m->step < j->steps) {
        m->quiet = m->step < j->first;
        do_step(m);
    }
    if (j->cover)
        ok(m, tb_store_coverage(m->store, m->process, 0, 0, 1, "not covered", j->cover, "", 1,
                                &m->err));
    if (j->lost)
        ok(m, tb_store_lost(m->store, m->process, 0, j->lost, "ring full", &m->err));
}

struct job job_defaults(void)
{
    return (struct job){.steps = 6, .rank = -1, .peer_fault = -1};
}

static void write_trace(const struct job *j, const char *path)
{
    struct maker m = {.j = j};
    struct tb_store_options o = {.force = true, .max_size = j->max_size};

    ok(&m, tb_store_create(&m.store, path, &o, &m.err));
    run(&m);
    if (j->cut) {
        ok(&m, tb_store_flush(m.store, &m.err));
        _exit(0); /* of the child: nothing is closed */
    }
    ok(&m, tb_store_close(m.store, &m.err));
}

void job_write(const struct job *j, const char *path)
{
    int status = 0;

    if (!j->cut) {
        write_trace(j, path);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        write_trace(j, path);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---------------------------------------------------------------- files */

static char folder[64]; /* made at first use, of this test program only */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

const char *job_scratch(const char *name)
{
    static char path[8][160];
    static unsigned at;

    if (!folder[0]) {
        (void)snprintf(folder, sizeof(folder), "/tmp/tb-diff-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    at = (at + 1) % 8;
    (void)snprintf(path[at], sizeof(path[at]), "%s/%.80s", folder, name);
    return path[at];
}

void job_clean(void)
{
    if (folder[0])
        (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    folder[0] = '\0';
}
