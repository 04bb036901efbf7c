/* blame, rule by rule, on events written down one by one */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "diff/diff_internal.h"

/* ---------------------------------------------------------------- events by hand */

#define EVENTS 64
#define MAX_ACCESSES 6

struct script {
    struct tb_trace_event e[EVENTS];
    struct tb_store_access access[EVENTS][MAX_ACCESSES];
    struct tb_site site[EVENTS];
    struct tb_site_access line[EVENTS][MAX_ACCESSES];
    size_t n, at;
};

/* An access: mode, allocation, offset, bytes, value (0: not hashed) */
struct a {
    char mode;
    uint64_t alloc, offset, bytes, value;
};

static const int64_t one_size[1] = {4};

static void set_line(struct tb_site_access *l, const struct a *a, uint32_t i)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

    *l = (struct tb_site_access){.mode = a->mode,
                                 .dtype = TB_DT_F32,
                                 .contiguous = true,
                                 .ndim = 1,
                                 .sizes = one_size,
                                 .bytes = a->bytes,
                                 .span_hi = (int64_t)a->bytes,
                                 .device = "cpu",
                                 .argument = a->mode == 'g' ? "rng:cpu:default" : names[i]};
}

/* Event on @thread with accesses up to mode 0; the site is made of the name and the lines */
static struct tb_trace_event *put(struct script *s, uint32_t thread, uint8_t kind, const char *name,
                                  const struct a *a)
{
    size_t k = s->n++;
    struct tb_trace_event *e = &s->e[k];
    struct tb_site *site = &s->site[k];
    uint64_t h = hash_text(name, strlen(name));

    assert_true(k < EVENTS);
    for (uint32_t i = 0; a && a[i].mode; i++) {
        struct tb_store_access *x = &s->access[k][i];
        set_line(&s->line[k][i], &a[i], i);
        h = mix64(mix64(h, (uint64_t)a[i].mode), a[i].bytes);
        x->alloc = a[i].alloc;
        x->offset = a[i].offset;
        x->fp_kind = a[i].value ? a[i].mode == 'h' ? TB_FP_SCALAR : TB_FP_BYTES : TB_FP_NONE;
        memcpy(x->fp, &a[i].value, 8);
        site->access_count++;
    }
    memcpy(site->hash, &h, 8);
    site->name = name;
    site->access = s->line[k];
    e->id = k + 1;
    e->e = (struct tb_store_event){.thread = thread, .kind = kind, .seq = k, .open = k};
    e->site = site;
    e->access = s->access[k];
    return e;
}

static struct tb_trace_event *op(struct script *s, const char *name, const struct a *a)
{
    return put(s, 1, TB_EV_OP, name, a);
}

#define OP(s, name, ...) op(s, name, (const struct a[]){__VA_ARGS__, {0}})

static enum tb_status next_event(void *ctx, const struct tb_trace_event **e, struct tb_error *err)
{
    struct script *s = ctx;

    (void)err;
    *e = s->at < s->n ? &s->e[s->at] : NULL;
    s->at++;
    return TB_OK;
}

static const char *no_range(void *ctx, uint32_t id)
{
    (void)ctx;
    (void)id;
    return "";
}

struct pair {
    struct script a, b;
    struct blame *blame;
    struct blame_result *r;
};

static struct pair *new_pair(void)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    return p;
}

static void compare_with(struct pair *p, const struct span_options *o)
{
    struct ev_source sa = {next_event, no_range, &p->a}, sb = {next_event, no_range, &p->b};
    struct stream *x = stream_new(&sa), *y = stream_new(&sb);
    struct thread_pair pairs[2] = {{1, 1}, {2, 2}};
    struct tb_error err = {0};

    p->blame = blame_new();
    assert_non_null(p->blame);
    assert_int_equal(compare_streams(p->blame, x, y, pairs, 2, o, &err), TB_OK);
    p->r = blame_result(p->blame);
    stream_free(x);
    stream_free(y);
}

static void compare(struct pair *p)
{
    struct span_options o = {.last = UINT64_MAX};

    compare_with(p, &o);
}

static void check_roots(const struct pair *p, size_t n, enum tb_diff_cause cause, uint64_t id)
{
    if (p->r->root_count != n)
        for (size_t i = 0; i < p->r->root_count; i++)
            print_error("root %s at %llu\n", tb_diff_cause_id(p->r->roots[i].r.cause),
                        (unsigned long long)p->r->roots[i].r.a.id);
    assert_int_equal(p->r->root_count, n);
    if (n == 0)
        return;
    assert_string_equal(tb_diff_cause_id(p->r->roots[0].r.cause), tb_diff_cause_id(cause));
    assert_int_equal(p->r->roots[0].r.a.id, id);
}

static void drop(struct pair *p)
{
    blame_free(p->blame);
    free(p);
}

/* ---------------------------------------------------------------- what follows from a root */

static void test_rules__clean_write_heals(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 16, side ? 11u : 10u});                      /* the root */
        OP(s, "use", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, side ? 21u : 20u});   /* infected */
        OP(s, "zero", {'w', 2, 0, 16, 30});                                    /* heals */
        OP(s, "after", {'r', 2, 0, 16, 0}, {'w', 3, 0, 16, side ? 41u : 40u}); /* news again */
    }
    compare(p);
    check_roots(p, 2, TB_CAUSE_UNEXPLAINED, 1);
    assert_int_equal(p->r->roots[1].r.a.id, 4);
    assert_int_equal(p->r->infected, 1);
    drop(p);
}

static void test_rules__part_of_a_buffer_heals_alone(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 32, side ? 11u : 10u});
        OP(s, "half", {'w', 1, 0, 16, 20});
        OP(s, "left", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, side ? 31u : 30u});   /* a new root */
        OP(s, "right", {'r', 1, 16, 16, 0}, {'w', 3, 0, 16, side ? 41u : 40u}); /* infected */
    }
    compare(p);
    check_roots(p, 2, TB_CAUSE_UNEXPLAINED, 1);
    assert_int_equal(p->r->roots[1].r.a.id, 3);
    assert_int_equal(p->r->infected, 1);
    drop(p);
}

static void test_rules__equal_result_of_infected_inputs_is_healed(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 16, side ? 11u : 10u});
        OP(s, "relu", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, 20});
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 1);
    assert_int_equal(p->r->infected, 0);
    assert_int_equal(p->r->healed, 1);
    drop(p);
}

static void test_rules__in_place_reads_what_was_there(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 16, 10});
        OP(s, "add_", {'r', 1, 0, 16, 0}, {'w', 1, 0, 16, side ? 21u : 20u}); /* the root */
        OP(s, "add_", {'r', 1, 0, 16, 0}, {'w', 1, 0, 16, side ? 31u : 30u}); /* infected */
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 2);
    assert_int_equal(p->r->infected, 1);
    drop(p);
}

/* ---------------------------------------------------------------- operators inside operators */

static void test_rules__outer_is_not_blamed_for_inner(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 16, 10});
        OP(s, "copy_", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, side ? 21u : 20u});
        OP(s, "addmm", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, side ? 31u : 30u})->e.open = 1;
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 2);
    assert_int_equal(p->r->infected, 1);
    drop(p);
}

static void test_rules__outer_is_blamed_if_inner_is_equal(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 16, 10});
        OP(s, "copy_", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, 20});
        OP(s, "addmm", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, side ? 31u : 30u})->e.open = 1;
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 3);
    drop(p);
}

/* What an outer operator read is what was there when it began, not what ran inside made of it */
static void test_rules__outer_reads_as_of_its_begin(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 16, side ? 11u : 10u}); /* the root */
        OP(s, "clear", {'w', 1, 0, 16, 20});              /* inside: heals the buffer */
        OP(s, "outer", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, side ? 31u : 30u})->e.open = 1;
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 1);
    assert_int_equal(p->r->infected, 1);
    drop(p);
}

static void test_rules__another_way_inside_is_another_algorithm(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 16, 10});
        if (side)
            OP(s, "reorder", {'r', 1, 0, 16, 0}, {'w', 9, 0, 16, 50});
        OP(s, "conv", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, side ? 31u : 30u})->e.open = 1;
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_ALGORITHM, 2);
    assert_string_equal(p->r->roots[0].inner, "reorder");
    assert_int_equal(p->r->roots[0].r.b.id, 3);
    drop(p);
}

/* ---------------------------------------------------------------- wiring */

/* Two buffers of one shape that nobody was seen to write, taken in another order later */
static void test_rules__other_buffer_is_order(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        uint64_t gap = side ? 100 : 0;
        OP(s, "see", {'r', 1 + gap, 0, 16, 0}, {'w', 5 + gap, 0, 16, 10});
        OP(s, "see2", {'r', 2 + gap, 0, 16, 0}, {'w', 6 + gap, 0, 16, 11});
        OP(s, "norm", {'r', (side ? 2 : 1) + gap, 0, 16, 0},
           {'w', 7 + gap, 0, 16, side ? 21u : 20u});
        OP(s, "norm", {'r', (side ? 1 : 2) + gap, 0, 16, 0},
           {'w', 8 + gap, 0, 16, side ? 23u : 22u});
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_ORDER, 3);
    drop(p);
}

static void test_rules__other_row_of_the_same_write_is_no_operator_fault(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 64, 10});
        OP(s, "use", {'r', 1, side ? 32 : 16, 16, 0}, {'w', 2, 0, 16, side ? 21u : 20u});
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_ORDER, 2);
    drop(p);
}

static void test_rules__permuted_sites_with_equal_results_are_no_root(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 64, 10});
        for (int i = 0; i < 2; i++) {
            bool first = (i == 0) != (side == 1);
            if (first)
                OP(s, "left", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, 20});
            else
                OP(s, "right", {'r', 1, 16, 16, 0}, {'w', 3, 0, 16, 21});
        }
        OP(s, "sum", {'r', 2, 0, 16, 0}, {'r', 3, 0, 16, 0}, {'w', 4, 0, 16, 30});
    }
    compare(p);
    check_roots(p, 0, TB_CAUSE_UNEXPLAINED, 0);
    assert_true(p->r->moved > 0);
    assert_int_equal(p->r->equal, 4);
    drop(p);
}

/* Two sums of the same into the same place: what one made in A the other made in B. They were not
 * taken in another order, their results differ. */
static void test_rules__results_that_swap_places_are_no_other_order(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 64, 10});
        for (unsigned i = 0; i < 2; i++) {
            OP(s, "zero", {'w', 2, 0, 4, 20});
            OP(s, "sum", {'r', 1, 0, 64, 0}, {'r', 2, 0, 4, 0},
               {'w', 2, 0, 4, 30 + (i ^ (unsigned)side)});
        }
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 3); /* seen twice */
    assert_int_equal(p->r->moved, 0);
    drop(p);
}

/* Others that got other things, and wrote the same bytes in another order: they end as something
 * else. */
static void test_rules__writes_of_the_same_bytes_do_not_change_places(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 64, 10});
        for (int i = 0; i < 2; i++)
            if ((i == 0) != (side == 1))
                OP(s, "set", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, 20});
            else
                OP(s, "set", {'r', 1, 16, 16, 0}, {'w', 2, 0, 16, 21});
    }
    compare(p);
    assert_true(p->r->root_count > 0);
    assert_int_equal(p->r->moved, 0);
    drop(p);
}

/* ---------------------------------------------------------------- numbers that leave */

static void test_rules__control_flow_after_a_number_that_differs_is_infected(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 16, side ? 11u : 10u});
        OP(s, "item", {'r', 1, 0, 16, 0}, {'h', 0, 0, 0, side ? 21u : 20u});
        if (side)
            OP(s, "clip", {'w', 3, 0, 16, 30});
        OP(s, "scale", {'w', 4, 0, 16, side ? 41u : 40u})->e.args = side ? 7 : 6;
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 1);
    assert_true(p->r->host.known);
    assert_int_equal(p->r->host.a.id, 2);
    assert_int_equal(p->r->only_b, 1);
    drop(p);
}

/* A shape that hangs on infected values: other sites from there on, and no news */
static void test_rules__shapes_made_of_infected_values_are_infected(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        uint64_t bytes = side ? 24 : 16;
        OP(s, "make", {'w', 1, 0, 16, side ? 11u : 10u});
        OP(s, "nonzero", {'r', 1, 0, 16, 0}, {'w', 2, 0, bytes, side ? 21u : 20u});
        OP(s, "same", {'w', 9, 0, 16, 90});
        OP(s, "zeros", {'w', 3, 0, bytes, 30});
        OP(s, "index", {'r', 2, 0, bytes, 0}, {'w', 4, 0, bytes, side ? 41u : 40u});
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 1);
    assert_int_equal(p->r->only_a, 3);
    assert_int_equal(p->r->only_b, 3);
    drop(p);
}

static void test_rules__other_arguments_with_equal_results_are_only_counted(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "make", {'w', 1, 0, 16, 10})->e.args = side ? 5 : 4;
    }
    compare(p);
    check_roots(p, 0, TB_CAUSE_UNEXPLAINED, 0);
    assert_int_equal(p->r->args_only, 1);
    drop(p);
}

/* ---------------------------------------------------------------- generators */

static void test_rules__generator_moved_on_by_an_inserted_operator_is_infected(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "first", {'g', TB_ALLOC_RNG, 0, 0, 70}, {'w', 1, 0, 16, 10});
        if (side)
            OP(s, "extra", {'g', TB_ALLOC_RNG, 0, 0, 71}, {'w', 2, 0, 16, 20});
        OP(s, "dropout", {'g', TB_ALLOC_RNG, 0, 0, side ? 72u : 71u},
           {'w', 3, 0, 16, side ? 31u : 30u});
    }
    compare(p);
    assert_int_equal(p->r->root_count, 1);
    assert_int_equal(p->r->roots[0].r.cause, TB_CAUSE_CONTROL_FLOW);
    assert_int_equal(p->r->infected, 1);
    drop(p);
}

static void test_rules__generators_are_told_apart(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        for (int i = 0; i < 3; i++)
            OP(s, "dropout", {'g', TB_ALLOC_RNG, 0, 0, (side ? 80u : 70u) + (unsigned)i},
               {'w', 1, 0, 16, (side ? 20u : 10u) + (unsigned)i});
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_RNG, 1); /* the later ones follow */
    assert_int_equal(p->r->infected, 2);
    drop(p);
}

/* ---------------------------------------------------------------- from outside */

static void test_rules__hashed_input_that_differs_is_input_data(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "embedding", {'r', 1, 0, 16, side ? 51u : 50u}, {'w', 2, 0, 16, side ? 21u : 20u});
        OP(s, "again", {'r', 1, 0, 16, side ? 51u : 50u}, {'w', 3, 0, 16, side ? 31u : 30u});
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_INPUT_DATA, 1);
    assert_int_equal(p->r->infected, 2); /* the readers are not to blame */
    drop(p);
}

static void test_rules__unhashed_input_is_a_doubt(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        OP(s, "embedding", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, side ? 21u : 20u});
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 1);
    assert_true(p->r->roots[0].fresh_input);
    assert_string_equal(p->r->roots[0].input, "a");
    drop(p);
}

static void test_rules__failed_in_one_run_only_is_a_root(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        struct tb_trace_event *e =
            OP(s, "linalg_inv", {'r', 1, 0, 16, 50}, {'w', 2, 0, 16, side ? 0 : 20u});
        e->e.flags = side ? TB_EVF_FAILED : 0;
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_UNEXPLAINED, 1);
    drop(p);
}

/* ---------------------------------------------------------------- steps */

static void step(struct script *s, uint64_t n)
{
    put(s, 1, TB_EV_STEP, "step", NULL)->e.step = n;
}

static void at_step(struct script *s, uint64_t n)
{
    s->e[s->n - 1].e.step = n;
}

/* A run that begins later loads what the other has computed: equal bytes are equal state */
static void resumed(struct pair *p, bool faithful)
{
    struct span_options o = {.overlap = 1, .last = UINT64_MAX, .lead = true};

    OP(&p->a, "train", {'w', 1, 0, 16, 10});
    step(&p->a, 0);
    OP(&p->b, "init", {'w', 7, 0, 16, 66});
    at_step(&p->b, 1);
    OP(&p->b, "load", {'w', 7, 0, 16, faithful ? 10u : 12u});
    at_step(&p->b, 1);
    OP(&p->a, "fwd", {'r', 1, 0, 16, 0}, {'w', 2, 0, 16, 20});
    at_step(&p->a, 1);
    OP(&p->b, "fwd", {'r', 7, 0, 16, 0}, {'w', 8, 0, 16, faithful ? 20u : 21u});
    at_step(&p->b, 1);
    step(&p->a, 1);
    step(&p->b, 1);
    compare_with(p, &o);
}

static void test_rules__resumed_run_is_equal_after_its_setup(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    resumed(p, true);
    check_roots(p, 0, TB_CAUSE_UNEXPLAINED, 0);
    assert_int_equal(p->r->setup, 2);
    assert_int_equal(p->r->only_b, 0);
    drop(p);
}

static void test_rules__wrong_checkpoint_is_input_data(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    resumed(p, false);
    check_roots(p, 1, TB_CAUSE_INPUT_DATA, 3);
    drop(p);
}

/* One run recorded the step in detail, the other its boundary only: what both have is compared */
static void test_rules__levels_meet_at_the_boundary(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    OP(&p->a, "x", {'w', 1, 0, 16, 10});
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        put(s, 1, TB_EV_STATE, "state", (const struct a[]){{'s', 1, 0, 16, 10}, {0}});
        step(s, 0);
    }
    compare(p);
    check_roots(p, 0, TB_CAUSE_UNEXPLAINED, 0);
    assert_int_equal(p->r->compared, 2);
    assert_int_equal(p->r->setup, 1);
    drop(p);
}

/* After a step whose operators one run did not record, what they left explains what differs */
static void test_rules__unrecorded_steps_explain_what_follows(void **state)
{
    struct pair *p = new_pair();

    (void)state;
    OP(&p->a, "x", {'w', 1, 0, 16, 10});
    for (int side = 0; side < 2; side++) {
        struct script *s = side ? &p->b : &p->a;
        put(s, 1, TB_EV_STATE, "state", (const struct a[]){{'s', 1, 0, 16, side ? 11u : 10u}, {0}});
        step(s, 0);
        OP(s, "use", {'r', 2, 0, 16, 0}, {'w', 3, 0, 16, side ? 31u : 30u});
        at_step(s, 1);
    }
    compare(p);
    check_roots(p, 1, TB_CAUSE_STATE, 2);
    assert_int_equal(p->r->infected, 1);
    drop(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules__clean_write_heals),
        cmocka_unit_test(test_rules__part_of_a_buffer_heals_alone),
        cmocka_unit_test(test_rules__equal_result_of_infected_inputs_is_healed),
        cmocka_unit_test(test_rules__in_place_reads_what_was_there),
        cmocka_unit_test(test_rules__outer_is_not_blamed_for_inner),
        cmocka_unit_test(test_rules__outer_is_blamed_if_inner_is_equal),
        cmocka_unit_test(test_rules__outer_reads_as_of_its_begin),
        cmocka_unit_test(test_rules__another_way_inside_is_another_algorithm),
        cmocka_unit_test(test_rules__other_buffer_is_order),
        cmocka_unit_test(test_rules__other_row_of_the_same_write_is_no_operator_fault),
        cmocka_unit_test(test_rules__permuted_sites_with_equal_results_are_no_root),
        cmocka_unit_test(test_rules__results_that_swap_places_are_no_other_order),
        cmocka_unit_test(test_rules__writes_of_the_same_bytes_do_not_change_places),
        cmocka_unit_test(test_rules__control_flow_after_a_number_that_differs_is_infected),
        cmocka_unit_test(test_rules__shapes_made_of_infected_values_are_infected),
        cmocka_unit_test(test_rules__other_arguments_with_equal_results_are_only_counted),
        cmocka_unit_test(test_rules__generator_moved_on_by_an_inserted_operator_is_infected),
        cmocka_unit_test(test_rules__generators_are_told_apart),
        cmocka_unit_test(test_rules__hashed_input_that_differs_is_input_data),
        cmocka_unit_test(test_rules__unhashed_input_is_a_doubt),
        cmocka_unit_test(test_rules__failed_in_one_run_only_is_a_root),
        cmocka_unit_test(test_rules__resumed_run_is_equal_after_its_setup),
        cmocka_unit_test(test_rules__wrong_checkpoint_is_input_data),
        cmocka_unit_test(test_rules__levels_meet_at_the_boundary),
        cmocka_unit_test(test_rules__unrecorded_steps_explain_what_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
