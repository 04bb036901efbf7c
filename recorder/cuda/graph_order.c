/*
 * Which node of a graph ends before which other begins.
 *
 * Nodes are put into chains, each node behind the one before it in its chain; of each node it is
 * known how much of each chain is before it. So a graph needs as many words a node as there are
 * branches at once, and one without branches none. A child graph has a begin and an end, with its
 * nodes between them.
 */
#include <string.h>

#include "recorder/cuda/graph.h"

#define MOST ((size_t)128 << 20) /* bytes of one table */

/* ---------------------------------------------------------------- edges */

bool tb_cu_graph_room(void **p, uint32_t *room, uint32_t used, uint32_t need, size_t size)
{
    uint32_t bigger = *room ? *room : 256;

    if (need <= *room)
        return true;
    while (bigger < need)
        bigger *= 2;
    void *fresh = tb_cu.api->pool(bigger * size);
    if (!fresh)
        return false;
    if (used)
        memcpy(fresh, *p, used * size);
    if (*p)
        tb_cu.api->unpool(*p, *room * size);
    *p = fresh;
    *room = bigger;
    return true;
}

void tb_cu_graph_edge(struct tb_cu_exec *x, uint32_t from, uint32_t to)
{
    struct tb_cu_graph_edges *e = &x->edges;

    if (!tb_cu_graph_room((void **)&e->edge, &e->room, e->n, e->n + 1, sizeof(*e->edge)))
        x->partial = true;
    else
        e->edge[e->n++] = (struct tb_cu_graph_edge){from, to};
}

static void drop_clock(struct tb_cu_graph_order *o)
{
    if (o->clock)
        tb_cu.api->unpool(o->clock, o->bytes);
    o->clock = NULL;
}

void tb_cu_graph_order_drop(struct tb_cu_exec *x)
{
    struct tb_cu_graph_order *o = &x->order;

    if (x->edges.edge)
        tb_cu.api->unpool(x->edges.edge, x->edges.room * sizeof(*x->edges.edge));
    drop_clock(o);
    if (o->point)
        tb_cu.api->unpool(o->point, o->point_bytes);
    x->edges = (struct tb_cu_graph_edges){.edge = NULL};
    *o = (struct tb_cu_graph_order){.state = TB_CU_ORDER_NEW};
}

/* ---------------------------------------------------------------- chains */

static uint32_t *row(const struct tb_cu_graph_order *o, uint32_t point)
{
    return o->clock + (size_t)point * o->stride;
}

/* Rows of twice as many chains. */
static bool widen(struct tb_cu_graph_order *o)
{
    uint32_t stride = o->stride ? o->stride * 2 : 8;
    size_t bytes = (size_t)o->points * stride * sizeof(uint32_t);
    uint32_t *fresh = bytes <= MOST ? tb_cu.api->pool(bytes) : NULL;

    if (!fresh)
        return false;
    for (uint32_t i = 0; o->clock && i < o->points; i++)
        memcpy(fresh + (size_t)i * stride, row(o, i), o->width * sizeof(uint32_t));
    drop_clock(o);
    o->clock = fresh;
    o->stride = stride;
    o->bytes = bytes;
    return true;
}

static void join(const struct tb_cu_graph_order *o, uint32_t point, uint32_t before)
{
    uint32_t *into = row(o, point);
    const uint32_t *from = row(o, before);

    for (uint32_t i = 0; i < o->width; i++)
        into[i] = from[i] > into[i] ? from[i] : into[i];
}

/* A chain whose last node is before @point; else a new one. */
static bool enter_chain(struct tb_cu_graph_order *o, uint32_t point)
{
    uint32_t *mine = row(o, point), chain = 0;

    while (chain < o->width && mine[chain] != o->length[chain])
        chain++;
    if (chain == o->stride && !widen(o))
        return false;
    mine = row(o, point);
    o->width += chain == o->width;
    mine[chain] = ++o->length[chain];
    o->point[point] = (struct tb_cu_graph_point){chain, mine[chain]};
    return true;
}

/* The end of child graph @n, behind all that is in it. */
static bool end_child(struct tb_cu_graph_order *o, uint32_t n, uint32_t end)
{
    join(o, o->end[n], n);
    for (uint32_t i = n + 1; i < end; i++)
        join(o, o->end[n], o->end[i]);
    return enter_chain(o, o->end[n]);
}

/* ---------------------------------------------------------------- building */

static uint32_t count_children(const struct tb_cu_exec *x)
{
    uint32_t n = 0;

    for (const struct tb_cu_node *a = x->first; a; a = a->next)
        n += a->type == CU_GRAPH_NODE_TYPE_GRAPH;
    return n;
}

/* Memory for all but the clocks. */
static bool make_room(struct tb_cu_exec *x)
{
    struct tb_cu_graph_order *o = &x->order;

    o->points = x->nodes + count_children(x);
    o->point_bytes = (size_t)o->points * (sizeof(*o->point) + 3 * sizeof(uint32_t));
    o->point = tb_cu.api->pool(o->point_bytes);
    if (!o->point)
        return false;
    o->end = (uint32_t *)(o->point + o->points);
    o->parent = o->end + o->points;
    o->length = o->parent + o->points;
    return widen(o);
}

/*
 * Points in the order of the list would have ends of child graphs behind all nodes; so ends get
 * the rows behind those of nodes. A row is only read once it is whole.
 */
static bool add_points(struct tb_cu_exec *x)
{
    struct tb_cu_graph_order *o = &x->order;
    uint32_t inside[TB_CU_GRAPH_DEPTH + 2], depth = 0, ends = x->nodes, at = 0, edge = 0;

    for (const struct tb_cu_node *n = x->first; n; n = n->next, at++) {
        while (depth > n->depth)
            if (!end_child(o, inside[--depth], at))
                return false;
        o->parent[at] = n->depth ? inside[n->depth - 1] : TB_CU_NO_NODE;
        if (n->depth)
            join(o, at, inside[n->depth - 1]);
        for (; edge < x->edges.n && x->edges.edge[edge].to == at; edge++)
            join(o, at, o->end[x->edges.edge[edge].from]);
        if (!enter_chain(o, at))
            return false;
        bool child = n->type == CU_GRAPH_NODE_TYPE_GRAPH;
        o->end[at] = child ? ends++ : at;
        if (child)
            inside[depth++] = at;
    }
    while (depth)
        if (!end_child(o, inside[--depth], at))
            return false;
    return true;
}

/* Is each node behind the one before it, or the first in that? Then all are in a row. */
static bool is_chain(const struct tb_cu_exec *x)
{
    const struct tb_cu_node *last = NULL;
    uint32_t edge = 0, at = 0;

    for (const struct tb_cu_node *n = x->first; n; last = n, n = n->next, at++) {
        bool behind = !last || n->depth > last->depth;
        for (; edge < x->edges.n && x->edges.edge[edge].to == at; edge++)
            behind = behind || x->edges.edge[edge].from + 1 == at;
        if (!behind)
            return false;
    }
    return true;
}

bool tb_cu_graph_branches(struct tb_cu_exec *x)
{
    struct tb_cu_graph_order *o = &x->order;

    if (o->state == TB_CU_ORDER_NEW) {
        o->state = TB_CU_ORDER_CHAIN;
        if (!is_chain(x))
            o->state = make_room(x) && add_points(x) ? TB_CU_ORDER_KNOWN : TB_CU_ORDER_UNKNOWN;
        if (o->state == TB_CU_ORDER_KNOWN && o->width == 1)
            o->state = TB_CU_ORDER_CHAIN;
        if (o->state != TB_CU_ORDER_KNOWN)
            drop_clock(o);
    }
    return o->state != TB_CU_ORDER_CHAIN;
}

bool tb_cu_graph_before(const struct tb_cu_exec *x, uint32_t a, uint32_t b)
{
    const struct tb_cu_graph_order *o = &x->order;
    const struct tb_cu_graph_point *end = &o->point[o->end[a]];

    return a != b && row(o, b)[end->chain] >= end->at;
}

uint32_t tb_cu_graph_chain(const struct tb_cu_exec *x, uint32_t a)
{
    return x->order.point[a].chain;
}
