/*
 * Nodes of a graph that nothing orders and that use one allocation: a hash of what one may write
 * must not read what the other writes meanwhile.
 *
 * Where their pointers lead to different places, extents are cut at them. Where that does not part
 * them the hash waits for both, if that leaves the job's own nodes in the order they had. What is
 * left may be torn, and its events say so.
 */
#include <string.h>

#include "recorder/cuda/graph.h"

#define ROUNDS 4u
#define TOGETHER 1024u /* uses that overlap and are looked at one by one */

/* A node reads or writes a part of an allocation. */
struct use {
    uint64_t ordinal, pointer, from, to;
    struct tb_cu_node *node;
    bool write, hashed, cuttable;
    bool met;        /* its hash reads what a node writes that no path orders with it */
    bool settled;    /* extents are cut at its pointer */
    uint32_t before; /* in its chain, plus 1; 0: none */
};

/* All uses; keys: in the order in which they are looked at. */
struct uses {
    struct tb_cu_exec *exec;
    struct use *use;
    struct tb_cu_key *key, *spare;
    uint32_t *last; /* by chain: the last use so far, plus 1 */
    uint32_t n, room, key_room, spare_room, last_room;
    uint32_t open; /* of those that were passed in a group: not settled */
    bool cutting;  /* not yet done with it */
    bool free;     /* hashes may move */
    bool new_cuts, failed;
};

/* ---------------------------------------------------------------- sorting */

static bool is_less(const struct tb_cu_key *x, const struct tb_cu_key *y)
{
    return x->a < y->a || (x->a == y->a && x->b < y->b);
}

static void merge(const struct tb_cu_key *from, struct tb_cu_key *to, uint32_t lo, uint32_t mid,
                  uint32_t hi)
{
    uint32_t i = lo, k = mid;

    for (uint32_t at = lo; at < hi; at++)
        to[at] = i < mid && (k >= hi || !is_less(&from[k], &from[i])) ? from[i++] : from[k++];
}

/* Stable; @spare has the same room. */
static void sort(struct tb_cu_key *key, struct tb_cu_key *spare, uint32_t n)
{
    struct tb_cu_key *from = key, *to = spare, *was;

    for (uint32_t run = 1; run < n; run *= 2) {
        for (uint32_t lo = 0; lo < n; lo += 2 * run) {
            uint32_t mid = n - lo < run ? n : lo + run, hi = n - mid < run ? n : mid + run;
            merge(from, to, lo, mid, hi);
        }
        was = from;
        from = to;
        to = was;
    }
    if (from != key)
        memcpy(key, from, n * sizeof(*key));
}

/* ---------------------------------------------------------------- cuts */

void tb_cu_cut(const struct tb_cu_cuts *c, uint64_t ordinal, uint64_t pointer, uint64_t *from,
               uint64_t *bytes)
{
    struct tb_cu_key wanted = {ordinal, pointer, 0};
    uint64_t end = *from + *bytes;
    uint32_t lo = 0, hi = c->n;

    if (pointer == TB_CU_BEFORE_IT) { /* a cut where it begins is behind it, too */
        wanted = (struct tb_cu_key){*from ? ordinal : ordinal - 1, *from - 1, 0};
        pointer = *from;
    }
    while (lo < hi) { /* the first behind it */
        uint32_t mid = lo + (hi - lo) / 2;
        if (is_less(&wanted, &c->at[mid]))
            hi = mid;
        else
            lo = mid + 1;
    }
    bool behind = lo < c->n && c->at[lo].a == ordinal, at = lo && c->at[lo - 1].a == ordinal;
    if (!behind && !at)
        return; /* nobody meets anybody there */
    *from = pointer;
    *bytes = (behind && c->at[lo].b < end ? c->at[lo].b : end) - pointer;
}

static void add_cut(struct uses *u, struct use *a)
{
    struct tb_cu_cuts *c = &u->exec->cuts;

    if (a->settled)
        return;
    if (!tb_cu_graph_room((void **)&c->at, &c->room, c->n, c->n + 1, sizeof(*c->at))) {
        u->failed = true;
        return;
    }
    c->at[c->n++] = (struct tb_cu_key){a->ordinal, a->pointer, 0};
    a->node->cut = true;
    a->settled = true;
}

/* The cuts of the last round among those before it, each once. */
static bool sort_cuts(struct uses *u)
{
    struct tb_cu_cuts *c = &u->exec->cuts;
    uint32_t n = 0;

    if (!tb_cu_graph_room((void **)&u->spare, &u->spare_room, 0, c->n, sizeof(*u->spare)))
        return false;
    sort(c->at, u->spare, c->n);
    for (uint32_t i = 0; i < c->n; i++)
        if (!n || is_less(&c->at[n - 1], &c->at[i]))
            c->at[n++] = c->at[i];
    c->n = n;
    return true;
}

void tb_cu_graph_part_drop(struct tb_cu_exec *x)
{
    if (x->cuts.at)
        tb_cu.api->unpool(x->cuts.at, x->cuts.room * sizeof(*x->cuts.at));
    x->cuts = (struct tb_cu_cuts){.at = NULL};
}

/* ---------------------------------------------------------------- uses */

static void add_use(struct uses *u, struct tb_cu_node *n, const struct tb_cu_access *a)
{
    bool hashed = (a->flags & (TB_CU_HASH | TB_CU_BEFORE)) && !(n->kernel && n->kernel->filtered);

    if ((a->mode != 'w' && !hashed) || !a->bytes)
        return;
    if (!tb_cu_graph_room((void **)&u->use, &u->room, u->n, u->n + 1, sizeof(*u->use))) {
        u->failed = true;
        return;
    }
    u->use[u->n++] = (struct use){.ordinal = a->ordinal,
                                  .pointer = a->by_pointer ? a->pointer : a->offset,
                                  .from = a->offset,
                                  .to = a->offset + a->bytes,
                                  .node = n,
                                  .write = a->mode == 'w',
                                  .hashed = hashed,
                                  .cuttable = a->by_pointer};
}

static bool collect(struct uses *u, struct tb_cu_work *w)
{
    u->n = 0;
    for (struct tb_cu_node *n = u->exec->first; n; n = n->next) {
        if (!tb_cu_node_works(n) || n->disabled)
            continue;
        tb_cu_graph_look(w, u->exec, n);
        for (uint32_t i = 0; i < w->n; i++)
            add_use(u, n, &w->access[i]);
    }
    return !u->failed &&
           tb_cu_graph_room((void **)&u->key, &u->key_room, 0, u->n, sizeof(*u->key)) &&
           tb_cu_graph_room((void **)&u->spare, &u->spare_room, 0, u->n, sizeof(*u->spare));
}

/* Keys in groups of uses that overlap each other, as neighbours at least: a is the group, b the
 * place in the list. */
static void group(struct uses *u)
{
    uint64_t groups = 0, ordinal = 0, end = 0;

    for (uint32_t i = 0; i < u->n; i++)
        u->key[i] = (struct tb_cu_key){u->use[i].ordinal, u->use[i].from, i};
    sort(u->key, u->spare, u->n);
    for (uint32_t i = 0; i < u->n; i++) {
        const struct use *a = &u->use[u->key[i].i];
        if (a->ordinal != ordinal || a->from >= end)
            groups++;
        end = a->ordinal != ordinal || a->to > end ? a->to : end;
        ordinal = a->ordinal;
        u->key[i].a = groups;
        u->key[i].b = a->node->index;
    }
    sort(u->key, u->spare, u->n);
}

/* ---------------------------------------------------------------- who meets whom */

static bool overlap(const struct use *a, const struct use *b)
{
    return a->from < b->to && b->from < a->to;
}

/* Does the hash of @a read what @b writes? */
static bool disturbs(const struct use *b, const struct use *a)
{
    return a->hashed && b->write && overlap(a, b);
}

/* Cut extents at both pointers, if they are to different places and an extent is a pointer's. */
static void cut_apart(struct uses *u, struct use *a, struct use *b)
{
    if (a->pointer == b->pointer || !(a->cuttable || b->cuttable) || (a->settled && b->settled))
        return;
    u->new_cuts = u->new_cuts || !a->node->cut || !b->node->cut ||
                  (a->cuttable && a->from < b->pointer && b->pointer < a->to) ||
                  (b->cuttable && b->from < a->pointer && a->pointer < b->to) ||
                  a->pointer == TB_CU_BEFORE_IT || b->pointer == TB_CU_BEFORE_IT;
    u->open -= !b->settled; /* @a is not counted yet */
    add_cut(u, a);
    add_cut(u, b);
}

/* Nothing orders them. */
static void meet(struct uses *u, struct use *a, struct use *b)
{
    if (!disturbs(a, b) && !disturbs(b, a))
        return;
    a->met = a->met || disturbs(b, a);
    b->met = b->met || disturbs(a, b);
    if (u->cutting)
        cut_apart(u, a, b);
}

/* Of cuts there are none to come from @a and those before it. */
static bool enough(const struct uses *u, const struct use *a)
{
    return u->cutting && !u->open && a->settled;
}

/* Uses before @a in one chain, the latest first, up to those that are before it in the graph. */
static void meet_chain(struct uses *u, struct use *a, uint32_t chain)
{
    for (uint32_t at = u->last[chain]; at && !enough(u, a); at = u->use[at - 1].before) {
        struct use *b = &u->use[at - 1];
        if (tb_cu_graph_before(u->exec, b->node->index, a->node->index))
            return;
        if (b->node != a->node)
            meet(u, a, b);
    }
}

/* The uses with keys from @from to @end; @chains: scratch, those that have some. */
static void meet_all(struct uses *u, uint32_t from, uint32_t end, uint32_t *chains)
{
    uint32_t n = 0;

    u->open = 0;
    for (uint32_t i = from; i < end; i++) {
        struct use *a = &u->use[u->key[i].i];
        uint32_t chain = tb_cu_graph_chain(u->exec, a->node->index);
        for (uint32_t k = 0; k < n; k++)
            meet_chain(u, a, chains[k]);
        if (!u->last[chain])
            chains[n++] = chain;
        a->before = u->last[chain];
        u->last[chain] = u->key[i].i + 1;
        u->open += !a->settled;
    }
    for (uint32_t k = 0; k < n; k++)
        u->last[chains[k]] = 0;
}

/* Their order is not known: neighbours are cut apart, and whoever is left with others has met. */
static void meet_blindly(struct uses *u, uint32_t from, uint32_t end)
{
    const struct tb_cu_node *first = u->use[u->key[from].i].node;

    u->open = UINT32_MAX;
    for (uint32_t i = from + 1; i < end; i++) {
        struct use *a = &u->use[u->key[i].i], *b = &u->use[u->key[i - 1].i];
        if (a->node != b->node)
            meet(u, a, b);
    }
    for (uint32_t i = from; i < end && u->use[u->key[end - 1].i].node != first; i++)
        u->use[u->key[i].i].met = u->use[u->key[i].i].hashed;
}

static uint32_t end_of_group(const struct uses *u, uint32_t from)
{
    uint32_t end = from;

    while (end < u->n && u->key[end].a == u->key[from].a)
        end++;
    return end;
}

static void find_meetings(struct uses *u, bool cutting)
{
    bool known = u->exec->order.state == TB_CU_ORDER_KNOWN;

    u->cutting = cutting;
    u->new_cuts = false;
    for (uint32_t from = 0, end; from < u->n; from = end) {
        end = end_of_group(u, from);
        if (known)
            meet_all(u, from, end, u->last + u->exec->order.width);
        else
            meet_blindly(u, from, end);
    }
}

/* ---------------------------------------------------------------- places for hashes */

static uint32_t parent_of(const struct uses *u, uint32_t node)
{
    return u->exec->order.parent[node];
}

/* @node, or what of the nodes of child graph @graph it is inside of; TB_CU_NO_NODE: none */
static uint32_t lift(const struct uses *u, uint32_t node, uint32_t graph)
{
    while (node != TB_CU_NO_NODE && parent_of(u, node) != graph)
        node = parent_of(u, node);
    return node;
}

static bool is_behind(const struct uses *u, const struct tb_cu_graph_place *p, uint32_t node)
{
    for (uint32_t i = 0; i < p->behind; i++)
        if (p->node[i] == lift(u, node, parent_of(u, p->node[i])) ||
            tb_cu_graph_before(u->exec, node, p->node[i]))
            return true;
    return false;
}

static bool is_before(const struct uses *u, const struct tb_cu_graph_place *p, uint32_t node)
{
    for (uint32_t i = p->behind; i < p->n; i++)
        if (p->node[i] == lift(u, node, parent_of(u, p->node[i])) ||
            tb_cu_graph_before(u->exec, p->node[i], node))
            return true;
    return false;
}

static void give_up(const struct uses *u, struct tb_cu_node *n)
{
    n->after.moved = n->after.moved && !u->free;
    n->after.torn = true;
}

/* Its hash is to be looked at for another place. */
static void begin_place(struct uses *u, struct tb_cu_node *n)
{
    struct tb_cu_graph_hash *h = &n->after;

    if (h->moved || h->torn)
        return;
    if (!h->place) {
        tb_cu_lock();
        h->place = tb_cu_small(sizeof(*h->place));
        tb_cu_unlock();
    }
    if (!h->place || u->exec->order.state != TB_CU_ORDER_KNOWN) {
        give_up(u, n);
        return;
    }
    h->moved = true;
    h->place->node[0] = n->index;
    h->place->behind = h->place->n = 1;
}

static void put(const struct uses *u, struct tb_cu_node *n, uint32_t other)
{
    struct tb_cu_graph_place *p = n->after.place;

    if (p->n < TB_CU_PLACE)
        p->node[p->n++] = other;
    else
        give_up(u, n);
}

/* It must wait for what writes its bytes and no path orders with it. */
static void look_behind(const struct uses *u, const struct use *a, const struct use *b)
{
    uint32_t mine = a->node->index, other = b->node->index;
    struct tb_cu_graph_place *p = a->node->after.place;

    if (tb_cu_graph_before(u->exec, mine, other) || tb_cu_graph_before(u->exec, other, mine))
        return;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->node[i] == other)
            return;
    put(u, a->node, other);
    p->behind = p->n;
}

/* It must be over before others write there. */
static void look_ahead(const struct uses *u, const struct use *a, const struct use *b)
{
    if (tb_cu_graph_before(u->exec, a->node->index, b->node->index) &&
        !is_before(u, a->node->after.place, b->node->index))
        put(u, a->node, b->node->index);
}

/* @what of each hash that may move, and each other node that writes its bytes. */
static void each_pair(struct uses *u,
                      void (*what)(const struct uses *u, const struct use *a, const struct use *b))
{
    for (uint32_t from = 0, end; from < u->n; from = end) {
        end = end_of_group(u, from);
        for (uint32_t i = from; i < end; i++) {
            const struct use *a = &u->use[u->key[i].i];
            if (a->write && a->hashed && a->node->after.moved && end - from > TOGETHER)
                give_up(u, a->node);
            for (uint32_t k = from; k < end && end - from <= TOGETHER; k++) {
                if (!a->write || !a->hashed || !a->node->after.moved)
                    break;
                const struct use *b = &u->use[u->key[k].i];
                if (b->node != a->node && disturbs(b, a))
                    what(u, a, b);
            }
        }
    }
}

/* The innermost graph that all of @p's nodes are in, or inside of child graphs of. */
static void find_graph(const struct uses *u, struct tb_cu_graph_place *p)
{
    p->graph = parent_of(u, p->node[0]);
    for (uint32_t i = 1; i < p->n; i++)
        while (p->graph != TB_CU_NO_NODE && lift(u, p->node[i], p->graph) == TB_CU_NO_NODE)
            p->graph = parent_of(u, p->graph);
}

static bool is_among(const uint32_t *node, uint32_t n, uint32_t wanted)
{
    uint32_t i = 0;

    while (i < n && node[i] != wanted)
        i++;
    return i < n;
}

/* Of that graph's own nodes, each once; false: an edge would order nodes anew. */
static bool end_place(const struct uses *u, struct tb_cu_graph_place *p)
{
    uint32_t n = 0, behind = 0;

    find_graph(u, p);
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t at = lift(u, p->node[i], p->graph);
        if (i == p->behind)
            behind = n;
        if (is_among(p->node, behind, at))
            return false; /* it is inside what the hash waits for */
        if (!is_among(p->node, n, at))
            p->node[n++] = at;
    }
    p->behind = p->behind == p->n ? n : behind;
    p->n = n;
    for (uint32_t i = 0; i < p->behind; i++)
        for (uint32_t k = p->behind; k < n; k++)
            if (!tb_cu_graph_before(u->exec, p->node[i], p->node[k]))
                return false;
    return true;
}

/* Hashes that others disturb go where nobody does; where there is no such place they are torn. */
static void find_places(struct uses *u)
{
    for (uint32_t i = 0; i < u->n; i++)
        if (u->use[i].met && u->use[i].write)
            begin_place(u, u->use[i].node);
    each_pair(u, look_behind);
    each_pair(u, look_ahead);
    for (struct tb_cu_node *n = u->exec->first; n; n = n->next)
        if (n->after.moved && !end_place(u, n->after.place))
            give_up(u, n);
}

/* A hash that was moved before, and what writes its bytes by now. */
static void look_around(const struct uses *u, const struct use *a, const struct use *b)
{
    const struct tb_cu_graph_place *p = a->node->after.place;

    if (!is_behind(u, p, b->node->index) && !is_before(u, p, b->node->index))
        a->node->after.torn = true;
}

static void say_torn(struct uses *u)
{
    for (uint32_t i = 0; i < u->n; i++) {
        const struct use *a = &u->use[i];
        if (a->met && !a->write)
            a->node->before.torn = true;
        else if (a->met && !u->free && !a->node->after.moved)
            a->node->after.torn = true;
    }
}

/* ---------------------------------------------------------------- all of it */

static void forget(struct tb_cu_exec *x, bool free, bool torn)
{
    x->cuts.n = 0;
    for (struct tb_cu_node *n = x->first; n; n = n->next) {
        n->cut = false;
        n->before.torn = n->after.torn = torn;
        n->after.moved = n->after.moved && !free;
    }
}

static bool find(struct uses *u, struct tb_cu_work *w)
{
    uint32_t width = u->exec->order.width;
    bool more = true;

    if (!tb_cu_graph_room((void **)&u->last, &u->last_room, 0, 2 * width + 1, sizeof(*u->last)))
        return false;
    for (uint32_t round = 0; more; round++) {
        if (!collect(u, w))
            return false;
        group(u);
        if (round == ROUNDS)
            break;
        find_meetings(u, true);
        more = u->new_cuts;
        if (u->failed || !sort_cuts(u))
            return false;
    }
    for (uint32_t i = 0; i < u->n; i++)
        u->use[i].met = false;
    find_meetings(u, false);
    return true;
}

static void release(struct uses *u)
{
    if (u->use)
        tb_cu.api->unpool(u->use, u->room * sizeof(*u->use));
    if (u->key)
        tb_cu.api->unpool(u->key, u->key_room * sizeof(*u->key));
    if (u->spare)
        tb_cu.api->unpool(u->spare, u->spare_room * sizeof(*u->spare));
    if (u->last)
        tb_cu.api->unpool(u->last, u->last_room * sizeof(*u->last));
}

void tb_cu_graph_part(struct tb_cu_exec *x, struct tb_cu_work *w, bool free)
{
    struct uses u = {.exec = x, .free = free};

    forget(x, free, false);
    if (!tb_cu_graph_branches(x))
        return;
    if (!find(&u, w)) {
        forget(x, free, true);
    } else {
        say_torn(&u);
        if (free)
            find_places(&u);
        else
            each_pair(&u, look_around);
    }
    release(&u);
}
