/*
 * The detector's own test: random programs (two threads, steps, views, in-place and nested
 * operators, random numbers) are run twice on a toy machine, with other allocation numbers and
 * another interleaving, and one fault planted at a random place. What the machine knows is compared
 * with what is found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diff/diff_internal.h"

#define SLOT 64    /* bytes */
#define SLOTS 4    /* a buffer */
#define BUFFERS 24 /* of each thread; the first half lives through all steps */
#define OPS 700
#define ACCESSES 8
#define NOTHING SIZE_MAX

static uint64_t rng_state;

static uint64_t rnd(uint64_t n)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (rng_state >> 11) % n;
}

/* ---------------------------------------------------------------- programs */

struct ref {
    uint32_t buffer; /* thread * BUFFERS + i */
    uint8_t slot;    /* first */
    uint8_t slots;   /* 1 or all */
};

struct op {
    uint8_t thread, name, module, reads, inplace, rng, kind, only_b;
    uint32_t step, args;
    uint32_t parent; /* index + 1 of the operator it runs in, 0: none; parents stand before */
    struct ref read[3], write;
    bool fresh; /* the buffer is allocated anew */
};

struct program {
    struct op op[OPS];
    size_t n;
    uint32_t steps;
};

static struct ref random_ref(unsigned thread, bool own)
{
    struct ref r = {.slots = rnd(3) ? SLOTS : 1};

    r.buffer = (uint32_t)(thread * BUFFERS + (own ? BUFFERS / 2 + rnd(BUFFERS / 2) : rnd(BUFFERS)));
    r.slot = r.slots == 1 ? (uint8_t)rnd(SLOTS) : 0;
    return r;
}

/* Half of the lower buffers is for the other thread: written in one step, read by it in the next */
static uint32_t lent(unsigned thread, bool first)
{
    return (uint32_t)(thread * BUFFERS + (first ? 0 : BUFFERS / 4) + rnd(BUFFERS / 4));
}

static struct op *add_op(struct program *p, unsigned thread, uint32_t step, uint32_t parent)
{
    struct op *o = &p->op[p->n++];

    *o = (struct op){.thread = (uint8_t)thread, .step = step, .parent = parent, .kind = TB_EV_OP};
    o->name = (uint8_t)rnd(6);
    o->module = (uint8_t)rnd(3);
    o->args = (uint32_t)rnd(2);
    o->reads = (uint8_t)rnd(4);
    for (unsigned i = 0; i < o->reads; i++) {
        o->read[i] = random_ref(thread, rnd(2));
        if (rnd(5) == 0)
            o->read[i].buffer = lent(!thread, step % 2 == 0);
    }
    o->rng = thread == 0 && rnd(8) == 0; /* one thread draws: the order is given */
    o->write = random_ref(thread, true);
    if (rnd(4) == 0)
        o->write.buffer = lent(thread, step % 2);
    o->fresh = o->write.slots == SLOTS && rnd(3) == 0;
    o->inplace = !o->fresh && rnd(4) == 0;
    return o;
}

static void make_program(struct program *p, uint64_t seed, unsigned size)
{
    rng_state = mix64(seed, 77) | 1;
    *p = (struct program){.steps = 1 + (uint32_t)rnd(5)};
    for (uint32_t s = 0; s < p->steps; s++)
        for (unsigned i = 0; i < size && p->n + 4 < OPS; i++) {
            unsigned thread = rnd(3) == 0;
            uint32_t parent = (uint32_t)p->n + 1;
            struct op *o = add_op(p, thread, s, 0);
            if (rnd(4))
                continue;
            for (uint64_t k = 1 + rnd(2); k > 0;
                 k--) { /* operators inside: some write its result first */
                struct op *inner = add_op(p, thread, s, parent);
                if (rnd(2)) {
                    inner->write = o->write;
                    inner->fresh = o->fresh;
                    o->fresh = false;
                }
            }
        }
}

/* ---------------------------------------------------------------- sites */

struct sites {
    struct tb_site *site[4096];
    uint64_t key[4096];
    size_t n;
};

static void set_access(struct tb_site_access *a, char mode, unsigned slots, const char *argument)
{
    static const int64_t sizes[2][1] = {{SLOT / 4}, {SLOTS * SLOT / 4}};

    *a = (struct tb_site_access){.mode = mode,
                                 .dtype = TB_DT_F32,
                                 .contiguous = true,
                                 .ndim = mode == 'g' ? 0 : 1,
                                 .sizes = sizes[slots == SLOTS],
                                 .elements = slots * SLOT / 4,
                                 .bytes = (uint64_t)slots * SLOT,
                                 .span_hi = (int64_t)slots * SLOT,
                                 .device = "cpu",
                                 .argument = argument};
}

static const struct tb_site *site_of(struct sites *s, const struct op *o)
{
    static const char *const names[] = {"aten::add",  "aten::mm",    "aten::sum",  "aten::gelu",
                                        "aten::mul_", "aten::copy_", "aten::extra"};
    static const char *const arguments[] = {"a", "b", "c"};
    uint64_t key = o->name | (uint64_t)o->reads << 8 | (uint64_t)o->inplace << 16 |
                   (uint64_t)o->rng << 17 | (uint64_t)o->write.slots << 24 |
                   (uint64_t)o->kind << 56;

    for (unsigned i = 0; i < o->reads && i < TB_ARRAY_LEN(o->read); i++)
        key |= (uint64_t)o->read[i].slots << (32 + 8 * i);
    for (size_t i = 0; i < s->n; i++)
        if (s->key[i] == key)
            return s->site[i];
    assert_true(s->n < TB_ARRAY_LEN(s->site));
    struct tb_site *site = calloc(1, sizeof(*site));
    struct tb_site_access *a = calloc(ACCESSES, sizeof(*a));
    assert_non_null(site);
    assert_non_null(a);
    uint64_t h = mix64(key, 5);
    memcpy(site->hash, &h, 8);
    site->id = (uint32_t)s->n + 1;
    site->name = o->kind == TB_EV_STEP ? "step" : names[o->name];
    site->access = a;
    if (o->kind == TB_EV_OP) {
        for (unsigned i = 0; i < o->reads; i++)
            set_access(&a[site->access_count++], 'r', o->read[i].slots, arguments[i]);
        if (o->inplace)
            set_access(&a[site->access_count++], 'r', o->write.slots, "self");
        if (o->rng)
            set_access(&a[site->access_count++], 'g', 0, "rng:cpu:default");
        set_access(&a[site->access_count++], 'w', o->write.slots, "out");
    }
    s->site[s->n] = site;
    s->key[s->n++] = key;
    return site;
}

static void free_sites(struct sites *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free((void *)(uintptr_t)s->site[i]->access);
        free(s->site[i]);
    }
    s->n = 0;
}

/* ---------------------------------------------------------------- the machine */

struct event {
    struct tb_trace_event e;
    struct tb_store_access access[ACCESSES];
    size_t op;
    uint64_t out; /* what it wrote */
};

struct machine {
    uint64_t value[2 * BUFFERS][SLOTS];
    uint64_t alloc[2 * BUFFERS];
    uint64_t next_alloc, seq, rng;
    uint64_t open[OPS], in[OPS]; /* of operators that have begun */
    struct tb_store_access read[OPS][ACCESSES];
    struct event *event;
    size_t n;
    uint64_t gap; /* other allocation numbers in the other run */
    bool hashed;
    /* the fault */
    size_t flip_op;         /* its result is wrong */
    size_t stray_after;     /* after this operator ended ... */
    struct ref stray;       /* ... these bytes change unseen */
    size_t args_op, rng_op; /* other arguments; somebody drew a number before it */
};

struct trace {
    struct event *event;
    size_t n, at;
};

static uint64_t read_value(const struct machine *m, const struct ref *r)
{
    uint64_t h = 17;

    for (unsigned i = 0; i < r->slots; i++)
        h = mix64(h, m->value[r->buffer][r->slot + i]);
    return h;
}

static void set_fp(struct tb_store_access *a, uint64_t v, uint8_t kind)
{
    uint64_t w = mix64(v, 3);

    a->fp_kind = kind;
    memcpy(a->fp, &v, 8);
    memcpy(a->fp + 8, &w, 8);
}

static void place(const struct machine *m, struct tb_store_access *a, const struct ref *r)
{
    a->alloc = m->alloc[r->buffer];
    a->offset = (uint64_t)r->slot * SLOT;
}

static void begin_op(struct machine *m, const struct program *p, size_t i)
{
    const struct op *o = &p->op[i];
    uint64_t h = mix64(mix64(o->name, o->args + (m->args_op == i ? 77u : 0u)), o->kind);
    unsigned k = 0;

    m->open[i] = m->seq;
    memset(m->read[i], 0, sizeof(m->read[i]));
    for (unsigned r = 0; r < o->reads + (o->inplace ? 1u : 0u); r++, k++) {
        const struct ref *ref = r < o->reads ? &o->read[r] : &o->write;
        uint64_t v = read_value(m, ref);
        h = mix64(h, v);
        place(m, &m->read[i][k], ref);
        if (m->hashed)
            set_fp(&m->read[i][k], v, TB_FP_BYTES);
    }
    if (o->rng) {
        if (m->rng_op == i)
            m->rng = mix64(m->rng, 999);
        m->read[i][k].alloc = TB_ALLOC_RNG;
        set_fp(&m->read[i][k], m->rng, TB_FP_STATE);
        h = mix64(h, m->rng);
        m->rng = mix64(m->rng, 1);
    }
    m->in[i] = h;
}

static void end_op(struct machine *m, const struct program *p, size_t i, struct sites *sites)
{
    const struct op *o = &p->op[i];
    struct event *e = &m->event[m->n++];
    uint64_t h = m->in[i];

    *e = (struct event){.op = i};
    e->e.site = site_of(sites, o);
    e->e.access = e->access;
    e->e.id = m->n;
    e->e.e = (struct tb_store_event){.thread = o->thread + 1u,
                                     .kind = o->kind,
                                     .site = e->e.site->id,
                                     .range = o->module,
                                     .seq = m->seq++,
                                     .open = m->open[i],
                                     .step = o->step,
                                     .args = o->args + (m->args_op == i ? 77u : 0u)};
    memcpy(e->access, m->read[i], sizeof(e->access));
    if (m->hashed)
        e->e.e.flags = TB_EVF_READS_HASHED;
    if (o->kind != TB_EV_OP)
        return;
    for (size_t k = i + 1; k < p->n && p->op[k].parent == i + 1; k++)
        h = mix64(h, read_value(m, &p->op[k].write)); /* what ran inside was for something */
    if (m->flip_op == i)
        h ^= 1u << 20;
    if (o->fresh)
        m->alloc[o->write.buffer] = m->next_alloc += 1 + m->gap;
    for (unsigned s = 0; s < o->write.slots; s++)
        m->value[o->write.buffer][o->write.slot + s] = mix64(h, s);
    struct tb_store_access *w = &e->access[e->e.site->access_count - 1];
    place(m, w, &o->write);
    set_fp(w, read_value(m, &o->write), TB_FP_BYTES);
    e->out = read_value(m, &o->write);
    if (m->stray_after == i)
        m->value[m->stray.buffer][m->stray.slot] ^= 1u << 7;
}

/* The operators of one thread and step in order, begins and ends nested; calls itself for what is
 * inside */
struct queue {
    uint32_t action[2 * OPS]; /* index * 2, + 1: end */
    size_t n, at;
};

static void schedule(struct queue *q, const struct program *p, unsigned thread, uint32_t step,
                     bool with_b_only)
{
    q->n = q->at = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (p->op[i].thread != thread || p->op[i].step != step || p->op[i].parent ||
            (p->op[i].only_b && !with_b_only))
            continue;
        q->action[q->n++] = (uint32_t)i * 2;
        for (size_t k = i + 1; k < p->n && p->op[k].parent == i + 1; k++) {
            q->action[q->n++] = (uint32_t)k * 2;
            q->action[q->n++] = (uint32_t)k * 2 + 1;
        }
        q->action[q->n++] = (uint32_t)i * 2 + 1;
    }
}

static void act(struct machine *m, const struct program *p, uint32_t action, struct sites *sites)
{
    if (action & 1)
        end_op(m, p, action / 2, sites);
    else
        begin_op(m, p, action / 2);
}

static void end_step(struct machine *m, uint32_t step, struct sites *sites)
{
    struct op mark = {.kind = TB_EV_STEP, .step = step};
    struct program one = {.n = 1};

    one.op[0] = mark;
    begin_op(m, &one, 0);
    end_op(m, &one, 0, sites);
    m->event[m->n - 1].op = NOTHING;
}

static void run_machine(struct machine *m, const struct program *p, uint64_t order,
                        bool with_b_only, struct sites *sites)
{
    struct queue *q = calloc(2, sizeof(*q));

    assert_non_null(q);
    m->event = calloc(2 * OPS, sizeof(*m->event));
    assert_non_null(m->event);
    m->n = 0;
    m->rng = 5;
    m->seq = 0;
    m->next_alloc = 1 + m->gap * 3;
    for (unsigned b = 0; b < 2 * BUFFERS; b++) {
        m->alloc[b] = m->next_alloc += 1 + m->gap;
        for (unsigned s = 0; s < SLOTS; s++)
            m->value[b][s] = mix64(b, s);
    }
    rng_state = mix64(order, 3) | 1;
    for (uint32_t step = 0; step < p->steps; step++) {
        schedule(&q[0], p, 0, step, with_b_only);
        schedule(&q[1], p, 1, step, with_b_only);
        while (q[0].at < q[0].n || q[1].at < q[1].n) {
            unsigned t = q[0].at == q[0].n || (q[1].at < q[1].n && rnd(2));
            act(m, p, q[t].action[q[t].at++], sites);
        }
        end_step(m, step, sites);
    }
    free(q);
}

/* ---------------------------------------------------------------- comparing */

static enum tb_status next_event(void *ctx, const struct tb_trace_event **e, struct tb_error *err)
{
    struct trace *t = ctx;

    (void)err;
    *e = t->at < t->n ? &t->event[t->at].e : NULL;
    t->at++;
    return TB_OK;
}

static const char *range_text(void *ctx, uint32_t id)
{
    static const char *const text[] = {"forward\tm.0\t", "backward\tm.1\tuser", ""};

    (void)ctx;
    return text[id];
}

static struct blame *compare_machines(const struct machine *a, const struct machine *b,
                                      size_t window)
{
    struct trace ta = {a->event, a->n, 0}, tb = {b->event, b->n, 0};
    struct ev_source sa = {next_event, range_text, &ta}, sb = {next_event, range_text, &tb};
    struct stream *x = stream_new(&sa), *y = stream_new(&sb);
    struct thread_pair pairs[2] = {{1, 1}, {2, 2}};
    struct span_options o = {.last = UINT64_MAX, .window = window};
    struct blame *blame = blame_new();
    struct tb_error err = {0};

    assert_non_null(x);
    assert_non_null(y);
    assert_non_null(blame);
    assert_int_equal(compare_streams(blame, x, y, pairs, 2, &o, &err), TB_OK);
    stream_free(x);
    stream_free(y);
    return blame;
}

/* One case: a program, two runs of it, and what the comparison says */
struct world {
    struct program p;
    struct machine a, b;
    struct sites sites;
};

static void new_machine(struct machine *m, uint64_t gap)
{
    memset(m, 0, sizeof(*m));
    m->gap = gap;
    m->flip_op = m->stray_after = m->args_op = m->rng_op = NOTHING;
}

static struct world *new_world(uint64_t seed, unsigned size)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    make_program(&w->p, seed, size);
    new_machine(&w->a, 0);
    new_machine(&w->b, 1 + seed % 5);
    return w;
}

static void run_world(struct world *w, uint64_t seed)
{
    run_machine(&w->a, &w->p, seed, false, &w->sites);
    run_machine(&w->b, &w->p, seed + 1000003, true, &w->sites);
}

static void free_world(struct world *w)
{
    free(w->a.event);
    free(w->b.event);
    free_sites(&w->sites);
    free(w);
}

static const struct event *event_of(const struct machine *m, size_t op)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->event[i].op == op)
            return &m->event[i];
    return NULL;
}

/* How many operators wrote something else in B */
static uint64_t really_differ(const struct world *w)
{
    uint64_t n = 0;

    for (size_t i = 0; i < w->p.n; i++) {
        const struct event *x = event_of(&w->a, i), *y = event_of(&w->b, i);
        n += x && y && x->out != y->out;
    }
    return n;
}

static const struct root *root_at(struct blame *b, const struct world *w, size_t op)
{
    struct blame_result *r = blame_result(b);
    const struct event *x = event_of(&w->a, op), *y = event_of(&w->b, op);

    for (size_t i = 0; i < r->root_count; i++)
        if ((!x || (r->roots[i].r.a.known && r->roots[i].r.a.id == x->e.id)) &&
            (!y || (r->roots[i].r.b.known && r->roots[i].r.b.id == y->e.id)))
            return &r->roots[i];
    return NULL;
}

static void fail_at(const char *what, uint64_t seed, struct blame *b)
{
    struct blame_result *r = blame_result(b);

    print_error("%s: seed %llu, %zu roots\n", what, (unsigned long long)seed, r->root_count);
    for (size_t i = 0; i < r->root_count; i++)
        print_error("  %s a %llu b %llu x%llu\n", tb_diff_cause_id(r->roots[i].r.cause),
                    (unsigned long long)r->roots[i].r.a.id, (unsigned long long)r->roots[i].r.b.id,
                    (unsigned long long)r->roots[i].r.count);
    fail();
}

static size_t random_op(const struct program *p)
{
    return (size_t)rnd(p->n);
}

#ifdef __SANITIZE_ADDRESS__
#define SEEDS 500 /* a sanitizer is slow, and looks for other things */
#else
#define SEEDS 2000
#endif

static void test_graph__equal_runs_have_no_root(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world *w = new_world(seed, 20 + (unsigned)(seed % 60));
        w->a.hashed = w->b.hashed = seed % 3 == 0;
        run_world(w, seed);
        struct blame *b = compare_machines(&w->a, &w->b, seed % 2 ? 0 : 16);
        struct blame_result *r = blame_result(b);
        if (r->root_count || r->infected || r->compared != w->a.n || r->equal != w->a.n)
            fail_at("false alarm", seed, b);
        assert_int_equal(r->only_a + r->only_b + r->healed, 0);
        blame_free(b);
        free_world(w);
    }
}

static void test_graph__planted_fault_is_the_only_root(void **state)
{
    uint64_t infected = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world *w = new_world(seed, 20 + (unsigned)(seed % 60));
        w->a.hashed = w->b.hashed = seed % 3 == 0;
        w->b.flip_op = random_op(&w->p);
        run_world(w, seed);
        struct blame *b = compare_machines(&w->a, &w->b, 0);
        struct blame_result *r = blame_result(b);
        if (r->root_count != 1 || !root_at(b, w, w->b.flip_op))
            fail_at("not the planted one", seed, b);
        assert_int_equal(r->roots[0].r.cause, TB_CAUSE_UNEXPLAINED);
        assert_int_equal(r->roots[0].r.count, 1);
        assert_int_equal(r->infected + 1, really_differ(w));
        assert_int_equal(r->roots[0].r.infected, r->infected);
        infected += r->infected;
        blame_free(b);
        free_world(w);
    }
    print_message("%u faults named, %llu infected events counted\n", SEEDS,
                  (unsigned long long)infected);
}

/* Windows far smaller than a step: it is cut where the alignment is certain, and nothing changes */
static void test_graph__small_windows_say_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
        struct world *w = new_world(seed, 120);
        w->b.flip_op = random_op(&w->p);
        run_world(w, seed);
        struct blame *b = compare_machines(&w->a, &w->b, 32 + seed % 64);
        struct blame_result *r = blame_result(b);
        if (r->root_count < 1 || !root_at(b, w, w->b.flip_op))
            fail_at("small windows", seed, b);
        blame_free(b);
        free_world(w);
    }
}

/* Two faults that do not meet are two roots; the second may hide behind the first */
static void test_graph__second_fault_is_found_or_infected(void **state)
{
    uint64_t both = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
        struct world *w = new_world(seed, 40);
        w->b.flip_op = random_op(&w->p);
        w->b.args_op = random_op(&w->p);
        if (w->b.args_op == w->b.flip_op) {
            free_world(w);
            continue;
        }
        run_world(w, seed);
        struct blame *b = compare_machines(&w->a, &w->b, 0);
        struct blame_result *r = blame_result(b);
        const struct root *x = root_at(b, w, w->b.flip_op), *y = root_at(b, w, w->b.args_op);
        if (r->root_count < 1 || r->root_count > 2 || (!x && !y))
            fail_at("two faults", seed, b);
        if (y)
            assert_int_equal(y->r.cause, TB_CAUSE_HOST_VALUE);
        both += r->root_count == 2;
        blame_free(b);
        free_world(w);
    }
    print_message("%llu times both were independent\n", (unsigned long long)both);
    assert_true(both > SEEDS / 20);
}

static void test_graph__other_numbers_drawn_are_rng(void **state)
{
    uint64_t seen = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
        struct world *w = new_world(seed, 40);
        size_t first = NOTHING;
        for (size_t k = random_op(&w->p); k < w->p.n && w->b.rng_op == NOTHING; k++)
            if (w->p.op[k].rng)
                w->b.rng_op = k;
        first = w->b.rng_op;
        run_world(w, seed);
        if (first == NOTHING) {
            free_world(w);
            continue;
        }
        struct blame *b = compare_machines(&w->a, &w->b, 0);
        struct blame_result *r = blame_result(b);
        if (r->root_count != 1 || !root_at(b, w, first))
            fail_at("rng", seed, b);
        assert_int_equal(r->roots[0].r.cause, TB_CAUSE_RNG);
        seen++;
        blame_free(b);
        free_world(w);
    }
    assert_true(seen > SEEDS / 4);
}

/* Bytes that change behind everybody's back: both ends, never the reader */
static void test_graph__stray_write_names_both_ends(void **state)
{
    uint64_t seen = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world *w = new_world(seed, 40);
        size_t victim = random_op(&w->p);
        bool whole = seed % 2; /* a read of parts has several writers, and one hash */
        w->a.hashed = w->b.hashed = true;
        for (size_t k = 0; whole && k < w->p.n; k++) {
            struct op *o = &w->p.op[k];
            for (unsigned r = 0; r < 3; r++)
                o->read[r] = (struct ref){.buffer = o->read[r].buffer, .slots = SLOTS};
            o->write = (struct ref){.buffer = o->write.buffer, .slots = SLOTS};
        }
        while (w->p.op[victim].parent || w->p.op[victim].kind != TB_EV_OP)
            victim = random_op(&w->p);
        w->b.stray_after = victim;
        w->b.stray = w->p.op[victim].write;
        run_world(w, seed);
        struct blame *b = compare_machines(&w->a, &w->b, 0);
        struct blame_result *r = blame_result(b);
        uint64_t differ = really_differ(w);
        for (size_t i = 0; i < r->root_count; i++) {
            if (!whole) /* bytes that nobody wrote may be among those of the one hash */
                continue;
            if (r->roots[i].r.cause != TB_CAUSE_UNSEEN_WRITER)
                fail_at("stray write, another cause", seed, b);
            if (r->roots[i].r.writer_a.id != event_of(&w->a, victim)->e.id ||
                r->roots[i].r.writer_b.id != event_of(&w->b, victim)->e.id)
                fail_at("the wrong writer", seed, b);
        }
        if (r->root_count > 1 || (differ && r->root_count == 0))
            fail_at("stray write", seed, b);
        if (r->root_count) /* all that differs follows: the reader is not to blame either */
            assert_int_equal(r->infected, differ);
        seen += r->root_count;
        blame_free(b);
        free_world(w);
    }
    print_message("%llu stray writes were read\n", (unsigned long long)seen);
    assert_true(seen > SEEDS / 3);
}

/* Operators that ran in one run only, and a fault besides */
static void test_graph__insertions_and_a_fault(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world *w = new_world(seed, 30 + (unsigned)(seed % 50));
        size_t at = random_op(&w->p), count = 0;
        for (size_t k = at; k < w->p.n && k < at + 1 + seed % 9; k++) {
            struct op *o = &w->p.op[k]; /* they read what is there and write what nobody reads */
            if (o->parent || (k + 1 < w->p.n && w->p.op[k + 1].parent) || o->thread)
                continue;
            o->only_b = 1;
            o->rng = 0;
            o->fresh = true;
            o->inplace = 0;
            o->write = (struct ref){.buffer = BUFFERS - 1, .slots = SLOTS};
            o->module = 2;
            o->name = 6;
            count++;
        }
        for (size_t k = 0; k < w->p.n; k++) {
            struct op *o = &w->p.op[k];
            for (unsigned r = 0; r < o->reads; r++)
                if (o->read[r].buffer == BUFFERS - 1)
                    o->read[r].buffer = 0;
            if (!o->only_b && o->write.buffer == BUFFERS - 1)
                o->write.buffer = BUFFERS - 2;
        }
        size_t victim = random_op(&w->p);
        bool fault = seed % 2 && !w->p.op[victim].only_b;
        w->b.flip_op = fault ? victim : NOTHING;
        run_world(w, seed);
        struct blame *b = compare_machines(&w->a, &w->b, 0);
        struct blame_result *r = blame_result(b);
        if (r->only_b != count || r->only_a != 0 || (fault && !root_at(b, w, victim)))
            fail_at("insertions", seed, b);
        for (size_t i = 0; i < r->root_count; i++)
            if (r->roots[i].r.cause != TB_CAUSE_CONTROL_FLOW && !(fault && i < r->root_count))
                fail_at("insertions: another cause", seed, b);
        assert_int_equal(r->infected + (fault ? 1u : 0u), really_differ(w));
        blame_free(b);
        free_world(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph__equal_runs_have_no_root),
        cmocka_unit_test(test_graph__planted_fault_is_the_only_root),
        cmocka_unit_test(test_graph__small_windows_say_the_same),
        cmocka_unit_test(test_graph__second_fault_is_found_or_infected),
        cmocka_unit_test(test_graph__other_numbers_drawn_are_rng),
        cmocka_unit_test(test_graph__stray_write_names_both_ends),
        cmocka_unit_test(test_graph__insertions_and_a_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
