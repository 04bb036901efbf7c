/*
 * Which differences are news and which follow from others.
 *
 * An event is a root if its inputs are equal and its outputs are not. Inputs are what it read (by
 * fingerprint where reads were hashed, else by who last wrote the bytes), its other arguments and
 * the state of the generator it drew from. Who wrote what is kept as a number of the event (its
 * lineage), with the event's mate in the other run and the root that it follows from.
 */
#include "diff/blame_internal.h"

#include <string.h>

struct outputs {
    uint32_t differ, of;
    uint32_t torn;     /* of those that differ: may hold what another stream wrote meanwhile */
    uint32_t first;    /* access */
    uint32_t unhashed; /* in one run only, or in another way: not comparable */
    uint32_t kept;     /* root behind all that differs: it lay there before */
    uint32_t below;    /* root of what lay below an output that neither run has hashed */
    uint32_t unproven; /* in one run only; the other believed that nothing was written */
    uint32_t cut;      /* of other extents */
    uint32_t none;     /* of no fingerprint in either run */
    bool host, failed;
};

bool blame_is_cut(const struct acc *p, const struct acc *q)
{
    return (p->flags & q->flags & ACC_HASHED) && ((p->flags | q->flags) & ACC_SHARED) &&
           p->hi - p->lo != q->hi - q->lo;
}

/* A fingerprint of some of the leaves says nothing about one of all of them, or of others */
bool blame_comparable(const struct blame *b, const struct acc *p, const struct acc *q)
{
    bool sampled = p->kind == TB_FP_SAMPLED;

    return (p->flags & q->flags & ACC_HASHED) && sampled == (q->kind == TB_FP_SAMPLED) &&
           !(sampled && b->other_leaves) && !blame_is_cut(p, q);
}

/* One run saw that @p was written, the other did not look */
static bool is_unproven(const struct acc *p, const struct acc *q)
{
    return (p->flags & ACC_HASHED) && (q->flags & (ACC_LEFT | ACC_HASHED)) == ACC_LEFT;
}

static struct outputs compare_outputs(const struct blame *b, const struct ev *x, const struct ev *y)
{
    struct outputs o = {.failed = (x->flags ^ y->flags) & TB_EVF_FAILED};

    for (uint32_t i = 0; i < x->n; i++) {
        char mode = x->site->access[i].mode;
        if (mode != 'w' && mode != 'h')
            continue;
        if (x->acc[i].flags & y->acc[i].flags & ACC_LEFT)
            continue; /* what lies there is another's output */
        o.of++;
        if (is_unproven(&x->acc[i], &y->acc[i]) || is_unproven(&y->acc[i], &x->acc[i])) {
            o.unproven++;
            continue;
        }
        if (blame_is_cut(&x->acc[i], &y->acc[i])) {
            o.cut++;
            continue;
        }
        if (!blame_comparable(b, &x->acc[i], &y->acc[i])) {
            o.unhashed += (x->acc[i].flags | y->acc[i].flags) & ACC_HASHED;
            o.none += !((x->acc[i].flags | y->acc[i].flags) & ACC_HASHED);
            continue;
        }
        if (tb_fp_equal(x->acc[i].fp, y->acc[i].fp))
            continue;
        if (o.differ++ == 0)
            o.first = i;
        o.torn += ((x->acc[i].flags | y->acc[i].flags) & ACC_TORN) != 0;
        o.host = o.host || mode == 'h';
    }
    return o;
}

/* Outputs that may hold what lay there before, where that differs already: the event is not to
 * blame for them. If it is for others, the first of those counts. */
static void look_at_kept(struct blame *b, const struct ev *x, const struct ev *y, struct outputs *o)
{
    uint32_t root = 0, clean = UINT32_MAX;

    for (uint32_t i = 0; i < x->n && !o->below; i++)
        if (x->site->access[i].mode == 'w' &&
            !((x->acc[i].flags | y->acc[i].flags) & (ACC_HASHED | ACC_LEFT)))
            o->below = blame_kept(b, x, y, i);

    for (uint32_t i = 0; o->differ && i < x->n; i++) {
        if (x->site->access[i].mode != 'w' || !blame_comparable(b, &x->acc[i], &y->acc[i]) ||
            (x->acc[i].flags & y->acc[i].flags & ACC_LEFT) ||
            tb_fp_equal(x->acc[i].fp, y->acc[i].fp))
            continue;
        uint32_t r = blame_kept(b, x, y, i);
        if (!r && clean == UINT32_MAX)
            clean = i;
        root = !root || (r && r < root) ? r : root;
    }
    if (clean == UINT32_MAX)
        o->kept = root;
    else
        o->first = clean;
}

/* Nothing differs of which it is sure that it does */
static bool only_torn(const struct outputs *o)
{
    return o->differ && o->torn == o->differ && !o->failed;
}

static void note_host(struct blame *b, const struct ev *x, const struct ev *y, uint32_t root)
{
    struct tb_diff_host *h = &b->res.host;

    if (!b->host)
        b->host = root;
    for (uint32_t i = 0; i < x->n && !h->known; i++) {
        if (x->site->access[i].mode != 'h' || tb_fp_equal(x->acc[i].fp, y->acc[i].fp))
            continue;
        h->known = true;
        blame_set_place(&h->a, x);
        h->step = x->step;
        h->dtype = (enum tb_dtype)x->site->access[i].dtype;
        memcpy(&h->a_f, &x->acc[i].fp.a, sizeof(double));
        memcpy(&h->b_f, &y->acc[i].fp.a, sizeof(double));
        memcpy(&h->a_i, &x->acc[i].fp.a, sizeof(int64_t));
        memcpy(&h->b_i, &y->acc[i].fp.a, sizeof(int64_t));
    }
}

/* The last write of what access @i read left no fingerprint, or one of other extents */
static bool note_guess(struct blame *b, struct root *r, const struct ev *x, uint32_t i)
{
    for (uint32_t j = 0; j < x->acc[i].pieces; j++) {
        const struct range *p = x->pieces + x->acc[i].piece + j;
        if (!p->guess && !(p->writer && gentab_get(&b->cut, p->writer)))
            continue;
        r->guessed = true;
        r->r.writer_a = (struct tb_diff_place){.known = p->writer, .id = p->writer};
        (void)snprintf(r->input, sizeof(r->input), "%s", x->site->access[i].argument);
        return true;
    }
    return false;
}

/* What differs may be bytes that this launch, and all before it, left alone */
static void note_stale(struct root *r, const struct ev *x)
{
    uint32_t i = r->r.tensor.access;

    if (r->guessed || r->shared || !r->r.tensor.known || r->r.tensor.mode != 'w' ||
        !x->acc[i].pieces || !(x->acc[i].flags & ACC_UNKNOWN))
        return;
    r->stale = true;
    (void)snprintf(r->input, sizeof(r->input), "%s", x->site->access[i].argument);
}

/* Why the first read that is not hashed may hold other bytes than we think */
static void note_reads(struct blame *b, struct root *r, const struct ev *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->site->access[i].mode != 'r' || (x->acc[i].flags & ACC_HASHED))
            continue;
        r->reads_unhashed = true;
        if (r->guessed || r->shared || note_guess(b, r, x, i))
            continue;
        if (host_may_write(x, i)) {
            r->shared = true;
            (void)snprintf(r->input, sizeof(r->input), "%s", x->site->access[i].argument);
            continue;
        }
        if ((x->acc[i].flags & ACC_FRESH) && !r->fresh_input) {
            r->fresh_input = true;
            (void)snprintf(r->input, sizeof(r->input), "%s", x->site->access[i].argument);
        }
    }
    note_stale(r, x);
}

/* The place of a root, and what it wrote otherwise */
static void fill_outputs(struct root *r, const struct ev *x, const struct ev *y,
                         const struct outputs *o)
{
    blame_fill_root(r, x, y);
    r->r.differ = o->differ;
    r->r.of = o->of;
    if (o->differ)
        blame_fill_tensor(&r->r.tensor, x, y, o->first);
}

/* The event itself is the root; @cause says of what kind */
static enum tb_status make_root(struct blame *b, enum tb_diff_cause cause, uint64_t group,
                                const struct ev *x, const struct ev *y, const struct outputs *o,
                                uint32_t *number)
{
    bool own =
        cause == TB_CAUSE_UNEXPLAINED || (cause == TB_CAUSE_HOST_VALUE && blame_is_shared(x));
    bool fresh, torn = own && only_torn(o);

    *number = blame_root_for(b, cause, torn ? mix64(group, TORN) : group, &fresh);
    if (!*number)
        return TB_ERR_NOMEM;
    if (!torn)
        blame_sure(b, *number);
    if (!fresh)
        return TB_OK;
    struct root *r = &b->res.roots[*number - 1];
    r->r.torn = torn;
    r->r.of_node = is_device(x->kind) && site_torn(x->site);
    fill_outputs(r, x, y, o);
    note_reads(b, r, x);
    return TB_OK;
}

/* Something ran inside of @x and differs already: @x is not to blame. Root's number, 0: nothing */
static uint32_t inner_root(struct blame *b, const struct ev *x, const struct ev *y)
{
    const struct thread_state *s = blame_thread(b, 0, x->thread),
                              *t = blame_thread(b, 1, y->thread);

    if (s && s->bad_root && s->bad_seq >= x->open && s->bad_seq < x->seq)
        return s->bad_root;
    if (t && t->bad_root && t->bad_seq >= y->open && t->bad_seq < y->seq)
        return t->bad_root;
    return 0;
}

/* The other algorithm gave equal results before: here is where it matters */
static void first_effect(const struct blame *b, struct root *r, const struct ev *x,
                         const struct ev *y)
{
    struct outputs o = compare_outputs(b, x, y);

    if (!o.differ || x->site != r->site_a)
        return;
    fill_outputs(r, x, y, &o);
}

/* Other operators ran inside the same one: it chose another algorithm */
static void other_algorithm(struct blame *b, uint32_t n, const struct ev *x, const struct ev *y)
{
    struct root *r = n && n <= ROOTS ? &b->res.roots[n - 1] : NULL;

    if (r && r->r.cause == TB_CAUSE_ALGORITHM && r->r.differ == 0)
        first_effect(b, r, x, y);
    if (!r || r->r.cause != TB_CAUSE_CONTROL_FLOW)
        return;
    if (!blame_is_inside(&r->r.a, x) && !blame_is_inside(&r->r.b, y))
        return;
    const struct tb_site *inner = r->site_a ? r->site_a : r->site_b;
    (void)snprintf(r->inner, sizeof(r->inner), "%s", inner->name);
    r->inner_device = is_device(r->kind);
    r->r.cause = TB_CAUSE_ALGORITHM;
    struct outputs o = compare_outputs(b, x, y);
    fill_outputs(r, x, y, &o);
}

static enum tb_status set_line(struct blame *b, const struct ev *x, const struct ev *y,
                               uint32_t root)
{
    struct gentab_slot *s = gentab_put(&b->line[0], x->id);
    struct gentab_slot *t = gentab_put(&b->line[1], y->id);

    if (!s || !t)
        return TB_ERR_NOMEM;
    s->value = y->id;
    t->value = x->id;
    s->aux = t->aux = root;
    return TB_OK;
}

/* Differing inputs that have no root yet: find out why they are the first */
static enum tb_status first_cause(struct blame *b, const struct ev *x, const struct ev *y,
                                  const struct inputs *in, const struct outputs *o, uint32_t *root,
                                  bool *self)
{
    enum tb_status st = TB_OK;

    *self = false;
    if (in->tainted && in->before) {
        st = make_root(b, TB_CAUSE_INPUT_DATA, mix64(TB_CAUSE_INPUT_DATA, 11), x, y, o, root);
        if (*root && *root <= ROOTS)
            b->res.roots[*root - 1].fresh_input = true;
    } else if (in->tainted) {
        if (b->res.root_count) {
            *root = 1;
            return TB_OK;
        }
        st = make_root(b, TB_CAUSE_UNEXPLAINED, blame_place_key(TB_CAUSE_UNEXPLAINED, x), x, y, o,
                       root);
        if (*root && *root <= ROOTS)
            b->res.roots[*root - 1].weak = true;
    } else if (b->host) {
        *root = b->host; /* a number that differs steers the program */
        return TB_OK;
    } else if (in->crossed) {
        st = make_root(b, TB_CAUSE_ORDER, TB_CAUSE_ORDER, x, y, o, root);
        struct root *r = *root && *root <= ROOTS ? &b->res.roots[*root - 1] : NULL;
        if (r && r->r.count == 1) {
            r->r.writer_a = (struct tb_diff_place){.known = in->writer[0], .id = in->writer[0]};
            r->r.writer_b = (struct tb_diff_place){.known = in->writer[1], .id = in->writer[1]};
            (void)snprintf(r->input, sizeof(r->input), "%s", x->site->access[in->cross].argument);
        }
    } else {
        st = make_root(b, TB_CAUSE_HOST_VALUE,
                       mix64(TB_CAUSE_HOST_VALUE, hash_text(x->site->name, strlen(x->site->name))),
                       x, y, o, root);
    }
    *self = true;
    return st;
}

/* Bytes of the host that differ: they follow from what it got before, or blame ends here */
static enum tb_status host_data(struct blame *b, const struct ev *x, const struct ev *y,
                                const struct outputs *o, uint32_t *root, bool *self)
{
    *root = b->host;
    if (*root)
        return TB_OK;
    *self = true;
    return make_root(b, TB_CAUSE_INPUT_DATA, blame_place_key(TB_CAUSE_INPUT_DATA, x), x, y, o,
                     root);
}

/* What a copy brings to the host is its output, which is known by the read alone */
static bool brought(const struct ev *x, const struct inputs *in, const struct outputs *o)
{
    return in->hashed_differs && !o->of && is_to_host(x);
}

static bool adds_by_atomics(const struct ev *e)
{
    return e->kind == TB_EV_LAUNCH && site_says(e->site, "atomics", "1");
}

/*
 * Is what went before nothing but a fingerprint that may be torn, and has the event a reason of its
 * own to differ? The fingerprint may have been torn by just that: it explains nothing.
 */
static bool own_reason(const struct blame *b, const struct ev *x, const struct ev *y,
                       const struct outputs *o, uint32_t root)
{
    bool other = (x->args != y->args || x->key != y->key) && (!only_torn(o) || blame_is_shared(x));

    return root && root <= ROOTS && b->res.roots[root - 1].r.torn &&
           (other || adds_by_atomics(x)) && (o->differ || o->failed);
}

static enum tb_status judge(struct blame *b, const struct ev *x, const struct ev *y,
                            struct inputs *in, const struct outputs *o, uint32_t *root, bool *self)
{
    bool out = o->differ || o->failed || brought(x, in, o);
    bool args = x->args != y->args;

    *root = 0;
    *self = in->self;
    if (in->tainted && own_reason(b, x, y, o, in->root))
        in->tainted = false;
    if (in->tainted && in->root) {
        *root = in->root;
        return TB_OK;
    }
    if (!out)
        return TB_OK;
    *root = inner_root(b, x, y);
    if (*root)
        return TB_OK;
    if (o->kept && !own_reason(b, x, y, o, o->kept)) {
        *root = o->kept;
        return TB_OK;
    }
    if (in->host) {
        enum tb_status st = blame_host_wrote(b, x, y, in);
        *root = in->root;
        return st;
    }
    if (is_from_host(x) && !in->tainted && !in->crossed)
        return host_data(b, x, y, o, root, self);
    if (in->unknown && b->state) { /* it read what was left by steps that were not recorded */
        *root = b->state;
        return TB_OK;
    }
    enum tb_status st = blame_charged(b, x, only_torn(o), root);
    if (st != TB_OK || *root)
        return st;
    if (args && blame_is_shared(x)) /* whose bytes it read depends on extents */
        in->tainted = in->crossed = false;
    bool parts = only_torn(o) && blame_is_shared(x) && !args; /* so it does here */
    if ((in->tainted || in->crossed || args) && !parts)
        return first_cause(b, x, y, in, o, root, self);
    *self = true;
    enum tb_diff_cause cause = x->kind == TB_EV_COLL ? TB_CAUSE_COLLECTIVE : TB_CAUSE_UNEXPLAINED;
    return make_root(b, cause, blame_place_key(cause, x), x, y, o, root);
}

static enum tb_status remember_pair(struct blame *b, const struct ev *x, const struct ev *y,
                                    const struct inputs *in, const struct outputs *o, uint32_t root,
                                    bool self)
{
    bool out = o->differ || o->failed;
    bool sure = (out && !only_torn(o)) || in->read_differs ||
                (x->kind == TB_EV_STATE && !site_torn(x->site));
    enum tb_status st = TB_OK;

    if (root && !self && root <= ROOTS && (out || x->kind == TB_EV_STATE))
        b->res.roots[root - 1].r.infected++;
    if (root && !self && sure)
        blame_sure(b, root);
    if (root && self && root <= ROOTS)
        b->res.roots[root - 1].differs = out;
    if (root && out) {
        blame_mark_bad(b, 0, x, root);
        blame_mark_bad(b, 1, y, root);
        blame_suspect(b, x, root);
    }
    if (o->cut || ((o->unhashed || o->none) && blame_is_shared(x)))
        st = blame_charge(b, x, y);
    if (o->host && root)
        note_host(b, x, y, root);
    if (root && !b->host && (out || in->tainted) && is_to_host(x))
        b->host = root; /* what the host gives to a device from now on may follow from it */
    if (st == TB_OK && root && (out || in->hashed_differs))
        st = set_line(b, x, y, root);
    else if (st == TB_OK && !root && o->below)
        st = set_line(b, x, y, o->below);
    if (st == TB_OK && x->kind == TB_EV_COLL)
        st = blame_coll_note(b, x, in->tainted, root, self);
    return st;
}

static void count_pair(struct blame *b, const struct ev *x, const struct ev *y,
                       const struct inputs *in, const struct outputs *o, uint32_t root, bool self)
{
    bool out = o->differ || o->failed;

    b->res.compared++;
    b->res.unhashed += o->unhashed;
    b->res.unproven += o->unproven;
    b->res.cut += o->cut;
    if (!out && !root)
        b->res.equal++;
    else if (x->kind == TB_EV_STATE)
        b->res.states_infected += !self;
    else if (!out && o->of && (in->tainted || in->crossed))
        b->res.healed++;
    else if (!self)
        b->res.infected++;
    if (out || root || x->args == y->args || x->kind == TB_EV_SYNC)
        return;
    b->res.args_only += !o->cut;
    b->doubts.lost = b->doubts.lost || o->cut; /* nothing says that it made the same of them */
}

static void end_burst(struct blame *b, const struct ev *x, const struct ev *y)
{
    struct thread_state *s = blame_thread(b, 0, x->thread);

    if (s && !x->moved) {
        s->burst = 0;
        s->partner = y->thread;
    }
    struct thread_state *t = blame_thread(b, 1, y->thread);
    if (t && !x->moved)
        t->partner = x->thread;
}

static enum tb_status equal_pair(struct blame *b, const struct ev *x, const struct ev *y)
{
    struct inputs in = {0};
    enum tb_status st = TB_OK;

    b->res.compared++;
    b->res.equal++;
    b->res.moved += x->moved;
    st = blame_doubts(b, x, y, true);
    other_algorithm(b, inner_root(b, x, y), x, y);
    for (uint32_t i = 0; st == TB_OK && i < x->n; i++)
        if (x->site->access[i].mode == 'g')
            st = blame_generator(b, x, y, i, &in);
    if (st == TB_OK && x->kind == TB_EV_COLL)
        st = blame_coll_inputs(b, x, &in);
    if (st == TB_OK && x->kind == TB_EV_COLL)
        st = blame_coll_note(b, x, false, 0, false);
    return st == TB_OK ? blame_learn(b, x, y) : st;
}

enum tb_status blame_pair(struct blame *b, const struct ev *x)
{
    const struct ev *y = x->mate;
    struct inputs in = {0};
    uint32_t root = 0;
    bool self = false;

    end_burst(b, x, y);
    b->ops = is_work(x->kind) || (b->ops && x->kind != TB_EV_STEP);
    if (x->n != y->n)
        return blame_uneven(b, x, y);
    if (x->content == y->content)
        return equal_pair(b, x, y);
    enum tb_status st = blame_inputs(b, x, y, &in);
    if (st == TB_OK && x->kind == TB_EV_COLL)
        st = blame_coll_inputs(b, x, &in);
    if (st == TB_OK)
        st = blame_doubts(b, x, y, false);
    struct outputs o = compare_outputs(b, x, y);
    if (is_device(x->kind))
        look_at_kept(b, x, y, &o);
    uint32_t inner = inner_root(b, x, y);
    if (st == TB_OK)
        st = judge(b, x, y, &in, &o, &root, &self);
    if (st == TB_OK)
        st = remember_pair(b, x, y, &in, &o, root, self);
    if (st != TB_OK)
        return st;
    other_algorithm(b, inner, x, y);
    count_pair(b, x, y, &in, &o, root, self);
    return in.crossed ? TB_OK : blame_learn(b, x, y);
}
