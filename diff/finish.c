/* What is told of each root: names, elements, stack, cause, what to run next. */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HUNTED 16u /* roots around which races are looked for */

/* Thread of an event of which only the row is known */
static enum tb_status find_thread(struct tb_trace *t, uint32_t process, struct tb_diff_place *p,
                                  struct tb_error *err)
{
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *e = NULL;
    enum tb_status st = tb_cursor_open_process(&c, t, process, p->id, p->id, err);

    if (st == TB_OK)
        st = tb_cursor_next(c, &e, err);
    if (st == TB_OK && e) {
        p->thread = e->e.thread;
        p->seq = e->e.seq;
    }
    tb_cursor_close(c);
    return st;
}

static enum tb_status name_place(const struct run *r, size_t process, struct tb_diff_place *p,
                                 struct tb_error *err)
{
    struct tb_trace *t = r->trace[r->proc[process].file];
    enum tb_status st = TB_OK;

    if (!p->known)
        return TB_OK;
    p->trace = r->proc[process].file;
    if (!p->thread)
        st = find_thread(t, r->proc[process].p->id, p, err);
    if (st != TB_OK || !p->thread)
        return st;
    st = tb_event_name_of(t, p->thread, p->id, &p->name, err);
    p->name_known = st == TB_OK;
    return st == TB_ERR_NOTFOUND ? TB_OK : st;
}

static enum tb_status name_root(struct report_builder *rb, struct root *r, struct tb_error *err)
{
    size_t pb = (size_t)rb->a->proc[r->process].mate;
    enum tb_status st = name_place(rb->a, r->process, &r->r.a, err);

    if (st == TB_OK)
        st = name_place(rb->b, pb, &r->r.b, err);
    if (st == TB_OK)
        st = name_place(rb->a, r->process, &r->r.writer_a, err);
    if (st == TB_OK)
        st = name_place(rb->b, pb, &r->r.writer_b, err);
    r->r.rank = rb->a->proc[r->process].p->rank;
    return st;
}

static enum tb_status snapshot(struct tb_trace *t, uint64_t event, uint32_t access, void **data,
                               uint64_t *n, struct tb_error *err)
{
    enum tb_status st = tb_trace_snapshot(t, event, access, data, n, err);

    return st == TB_ERR_NOTFOUND ? TB_OK : st;
}

/* Of what a kernel may write: bytes that have in each run what fresh memory has there were not
 * written, or are moved; that is no difference of its own (run --poison) */
static void unwritten_is_equal(const uint8_t fill[2], const uint8_t *a, uint8_t *b, uint64_t n,
                               uint64_t size)
{
    for (uint64_t i = 0; size && i + size <= n; i += size) {
        bool alike = true;
        for (uint64_t k = i; k < i + size && alike; k++)
            alike = a[k] == b[k] || (a[k] == fill[0] && b[k] == fill[1]);
        if (alike)
            memcpy(b + i, a + i, size);
    }
}

static enum tb_status compare_elements(struct report_builder *rb, struct root *r,
                                       struct tb_error *err)
{
    const struct tb_diff_tensor *t = &r->r.tensor;
    void *a = NULL, *b = NULL;
    uint64_t n = 0, m = 0;

    if (!t->known || !r->r.a.known || !r->r.b.known || !r->site_a)
        return TB_OK;
    const struct tb_site_access *s = &r->site_a->access[t->access];
    enum tb_status st = snapshot(rb->a->trace[r->r.a.trace], r->r.a.id, t->access, &a, &n, err);
    if (st == TB_OK)
        st = snapshot(rb->b->trace[r->r.b.trace], r->r.b.id, t->access, &b, &m, err);
    if (st == TB_OK && a && b && n == m) {
        struct tb_error ignored = {0};
        uint8_t fill[2];
        if (r->kind == TB_EV_LAUNCH && poisons(rb, fill))
            unwritten_is_equal(fill, a, b, n, tb_dtype_size(t->dtype));
        r->r.elements_known = tb_elements_compare(t->dtype, s->sizes, s->ndim, a, b, n,
                                                  &r->r.elements, &ignored) == TB_OK &&
                              r->r.elements.differ > 0;
    }
    free(a);
    free(b);
    return st;
}

static void add_stack(struct report_builder *rb, struct root *r)
{
    const char *text = NULL;

    if (r->r.a.known)
        text = tb_trace_stack(rb->a->trace[r->r.a.trace], r->r.a.id);
    if (!text && r->r.b.known)
        text = tb_trace_stack(rb->b->trace[r->r.b.trace], r->r.b.id);
    if (text)
        (void)snprintf(r->r.stack, sizeof(r->r.stack), "%s", text);
}

static void summarize(struct root *r)
{
    const struct tb_diff_place *p = r->r.a.name_known ? &r->r.a : &r->r.b;

    if (r->r.summary[0])
        return;
    const char *name = r->site_a ? r->site_a->name : "?";
    char k[24] = "";
    if (p->name_known)
        (void)snprintf(k, sizeof(k), "#%" PRIu64, p->name.k);
    (void)snprintf(r->r.summary, sizeof(r->r.summary), "step %" PRIu64 ", %.90s, %.80s%s%s%.40s",
                   r->r.step, p->name_known ? p->name.module : "?",
                   p->name_known ? p->name.op : name, k, r->r.tensor.known ? ", " : "",
                   r->r.tensor.known ? r->r.tensor.argument : "");
}

static enum tb_status finish_root(struct report_builder *rb, struct root *r, struct tb_error *err)
{
    enum tb_status st = name_root(rb, r, err);

    if (st == TB_OK)
        st = compare_elements(rb, r, err);
    if (st == TB_OK)
        st = compare_maps(rb, r, err);
    if (st != TB_OK)
        return st;
    add_stack(rb, r);
    fill_launch(r);
    classify_root(rb, r);
    say_left_out(rb, r);
    if (r->site_a && site_says(r->site_a, "several", "1"))
        evidence(r, "its fingerprint was taken behind other nodes of its graph that write there, "
                    "too, with nothing that orders them: any of them may be to blame");
    summarize(r);
    next_command(rb, r);
    return TB_OK;
}

/* Data that the host made and a generator of the host that differs belong together. */
static void add_host_generators(struct tb_diff_report *rep)
{
    for (size_t i = 0; i < rep->root_count; i++) {
        struct tb_diff_root *r = &rep->roots[i];
        for (size_t k = 0; r->cause == TB_CAUSE_INPUT_DATA && k < rep->root_count; k++) {
            const struct tb_diff_root *o = &rep->roots[k];
            if (o->tensor.mode != 's' || strncmp(o->tensor.argument, "rng:", 4) != 0 ||
                r->evidence_count == TB_DIFF_EVIDENCE)
                continue;
            (void)snprintf(r->evidence[r->evidence_count++], sizeof(r->evidence[0]),
                           "'%.40s' differs at the end of step %" PRIu64
                           ": random numbers of the host were seeded or drawn otherwise",
                           o->tensor.argument, o->step);
            break;
        }
    }
}

enum tb_status finish_roots(struct report_builder *rb, struct all_roots *all, unsigned max,
                            struct tb_error *err)
{
    struct tb_diff_report *rep = rb->rep;
    size_t n = all->n < max ? all->n : max;
    enum tb_status st = TB_OK;

    if (all->n == 0)
        return TB_OK;
    rep->roots = calloc(n, sizeof(*rep->roots));
    if (!rep->roots)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the report");
    for (size_t i = 0; st == TB_OK && i < n; i++) {
        all->r[i].hunted = i < HUNTED;
        st = finish_root(rb, &all->r[i], err);
        rep->roots[i] = all->r[i].r;
    }
    rep->root_count = n;
    rep->roots_more += all->n - n;
    add_host_generators(rep);
    return st;
}
