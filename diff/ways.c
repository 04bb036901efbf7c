/*
 * What two runs recorded in ways of their own: it is left out, for events of the one have no mates
 * among those of the other.
 *
 * CUDA graphs by two taps: the shim sees what each node does, CUPTI the graph as a whole. Kernels
 * whose code told in one run only what they write: in the other one the collector did not answer.
 * Launches that one run was told to leave out, by --kernel or --sample; states of steps that only
 * one run's --steps leaves out.
 */
#include "diff/diff_internal.h"

#include <string.h>

#define KERNELS (1u << 16) /* that are told apart */

/* Of a kernel, in each run: what it writes is known from its code, or it is not */
enum { KNOWN = 1, GUESSED = 2 };

static bool is_cuda(const struct tb_site *s)
{
    return strcmp(s->tap, "cuda") == 0;
}

static bool says(const struct tb_site *s, const char *key)
{
    size_t n = 0;

    return tb_site_value(s, key, &n) != NULL;
}

static bool is_of_graph(const struct tb_site *s)
{
    return is_cuda(s) && (says(s, "graph") || (strcmp(s->name, "graph") == 0 && !says(s, "grid")));
}

/* A kernel of one module; 0: @s is no launch, or its code is not known at all */
static uint64_t kernel_of(const struct tb_site *s)
{
    size_t n = 0, m = 0;
    const char *image = is_cuda(s) ? tb_site_value(s, "image", &n) : NULL;
    const char *symbol = image ? tb_site_value(s, "symbol", &m) : NULL;

    return symbol ? mix64(hash_text(image, n), hash_text(symbol, m)) | 1 : 0;
}

static bool is_unlike(uint64_t bits)
{
    uint64_t a = bits & 3, b = bits >> 2;

    return (a == KNOWN && b == GUESSED) || (a == GUESSED && b == KNOWN);
}

static bool is_other_way(struct ways *w, const struct tb_site *s)
{
    if (w->graphs && is_of_graph(s))
        return true;
    uint64_t kernel = w->codes ? kernel_of(s) : 0;
    const struct gentab_slot *k = kernel ? gentab_get(&w->kernel, kernel) : NULL;

    return k && is_unlike(k->value);
}

/* ---------------------------------------------------------------- what the user left out */

static uint64_t name_key(const char *kernel)
{
    return hash_text(kernel, strlen(kernel)) | 1;
}

bool ways_left_out(struct ways *w, int side, const char *kernel)
{
    w->filters = true;
    return gentab_put(&w->left[side], name_key(kernel)) != NULL;
}

/* May run @side lack the mate of @e for that? */
static bool is_left_out(struct ways *w, const struct ev *e, int side)
{
    if (e->kind == TB_EV_STATE)
        return w->windows; /* of a step outside of it: states of the device's memory */
    return w->filters && e->kind == TB_EV_LAUNCH &&
           gentab_get(&w->left[side], name_key(e->site->name));
}

void ways_part(struct ways *w, struct ev **e, size_t n)
{
    for (size_t i = 0; w->filters && i < n; i++) {
        struct ev *x = e[i], *y = x->mate;
        if (!y || x->kind != TB_EV_LAUNCH || x->content == y->content ||
            !(is_left_out(w, x, 0) || is_left_out(w, x, 1)))
            continue;
        x->setup = x->gap = y->setup = y->gap = 1;
        x->mate = y->mate = NULL;
    }
}

void ways_mark(struct ways *w, struct ev **e, size_t n, int side)
{
    for (size_t i = 0; i < n; i++) {
        if (e[i]->mate)
            continue;
        if (is_other_way(w, e[i]->site))
            e[i]->setup = 1;
        if (is_left_out(w, e[i], !side))
            e[i]->setup = e[i]->gap = 1;
    }
}

void ways_release(struct ways *w)
{
    gentab_release(&w->kernel);
    for (int side = 0; side < 2; side++)
        gentab_release(&w->left[side]);
}

/* ---------------------------------------------------------------- which they are */

typedef bool site_fn(struct report_builder *rb, int side, const struct tb_site *s);

static bool each_site(struct report_builder *rb, site_fn *fn)
{
    const struct tb_site *s;

    for (int side = 0; side < 2; side++) {
        const struct run *r = side ? rb->b : rb->a;
        for (size_t f = 0; f < r->files; f++)
            for (uint32_t id = 1; (s = tb_trace_site(r->trace[f], id)); id++)
                if (!fn(rb, side, s))
                    return false;
    }
    return true;
}

/* Did its tap see what the nodes of a graph do? */
static bool look_for_nodes(struct report_builder *rb, int side, const struct tb_site *s)
{
    rb->ways.nodes[side] = rb->ways.nodes[side] || (is_cuda(s) && says(s, "graph"));
    return true;
}

static void drop_option(char *options, const char *option)
{
    char *at = strstr(options, option);

    if (at)
        memmove(at, at + strlen(option), strlen(at + strlen(option)) + 1);
}

/* The next command records both by the shim, which one run had */
static void one_tap(struct report_builder *rb)
{
    for (int side = 0; side < 2; side++) {
        drop_option(rb->rep->run[side].options, "--tap cupti ");
        drop_option(rb->rep->run[side].options, "--enqueue deferred ");
    }
}

static void note_taps(struct report_builder *rb)
{
    const char *a = rb->a->files ? tb_trace_meta(rb->a->trace[0], "cuda.tap") : NULL;
    const char *b = rb->b->files ? tb_trace_meta(rb->b->trace[0], "cuda.tap") : NULL;

    if (!a || !b || strcmp(a, b) == 0)
        return;
    (void)each_site(rb, look_for_nodes);
    rb->ways.graphs = rb->ways.nodes[0] != rb->ways.nodes[1];
    if (!rb->ways.graphs)
        return;
    one_tap(rb);
    note_incomplete(
        rb,
        "run A was recorded with --tap %.20s, run B with --tap %.20s: the shim sees what each "
        "node of a CUDA graph writes, CUPTI the graph as a whole; record both with the same "
        "--tap",
        a, b);
}

static bool learn_kernel(struct report_builder *rb, int side, const struct tb_site *s)
{
    uint64_t kernel = kernel_of(s);
    struct gentab_slot *k = kernel ? gentab_put(&rb->ways.kernel, kernel) : NULL;

    if (k)
        k->value |= (uint64_t)(says(s, "writes") ? GUESSED : KNOWN) << 2 * side;
    return k || !kernel;
}

static bool note_kernel(struct report_builder *rb, int side, const struct tb_site *s)
{
    uint64_t kernel = kernel_of(s);
    const struct gentab_slot *k = kernel ? gentab_get(&rb->ways.kernel, kernel) : NULL;

    if (!k || !is_unlike(k->value))
        return true;
    char missing = says(s, "writes") == (side == 0) ? 'A' : 'B';
    rb->ways.codes = true;
    note_incomplete(
        rb,
        "what kernel %.100s writes was not found out from its code in run %c, as it was "
        "in the other: its launches are not compared; record run %c again",
        s->name, missing, missing);
    return false;
}

enum tb_status note_ways(struct report_builder *rb, struct tb_error *err)
{
    gentab_init(&rb->ways.kernel, KERNELS);
    for (int side = 0; side < 2; side++)
        gentab_init(&rb->ways.left[side], KERNELS);
    note_taps(rb);
    if (!each_site(rb, learn_kernel))
        return tb_fail(err, TB_ERR_NOMEM, "no memory for kernels");
    (void)each_site(rb, note_kernel);
    return TB_OK;
}
