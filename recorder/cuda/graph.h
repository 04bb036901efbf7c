/*
 * graph.h - private to recorder/cuda/: executable graphs, and what the files about them ask of each
 * other.
 *
 * graph.c has the calls and the event of a launch as a whole; graph_list.c lists a graph's nodes,
 * and graph_nodes.c finds out what they do; graph_clone.c lets the job instantiate a clone with
 * hashes; graph_hash.c keeps these hashes what they should be and writes the events of nodes;
 * graph_order.c knows which node is before which, and graph_branch.c what follows from that for
 * the hashes. Start at struct tb_cu_exec.
 */
#ifndef TB_RECORDER_CUDA_GRAPH_H
#define TB_RECORDER_CUDA_GRAPH_H

#include "recorder/cuda/engine.h"

#define TB_CU_GRAPH_DEPTH 8u /* of child graphs in child graphs */

/** struct tb_cu_graph_job - what a hash behind a node of a graph is of */
struct tb_cu_graph_job {
    uint64_t ordinal, address, bytes;
    uint64_t rate;
};

#define TB_CU_PLACE 64u
#define TB_CU_NO_NODE UINT32_MAX

/** struct tb_cu_graph_place - where a hash is that waits for more than its own node */
struct tb_cu_graph_place {
    uint32_t graph;     /* index of the child graph it is in, TB_CU_NO_NODE: the graph itself */
    uint32_t behind, n; /* it is behind the first `behind` of these nodes, before the others */
    uint32_t node[TB_CU_PLACE];
};

/** struct tb_cu_graph_hash - a node of ours before or behind one of the job's */
struct tb_cu_graph_hash {
    uint64_t node;                   /* in the clone, 0: nothing is hashed there */
    struct tb_cu_graph_place *place; /* kept when it is not in use */
    bool moved;                      /* it is where `place` says, not right behind its node */
    bool torn;                       /* a node that nothing orders with it writes what it reads */
    bool exact;                      /* of what leaves for the host: under run --poison, too */
    struct tb_cu_graph_job *job;
    uint32_t job_room;         /* what there is memory for */
    uint32_t jobs, room, slot; /* slot: of its first ticket, from the exec's */
};

/** struct tb_cu_node - a node; behind one that is a child graph come that graph's nodes */
struct tb_cu_node {
    struct tb_cu_node *next;
    uint32_t index;                        /* in the list */
    bool cut;                              /* its extents end where others' pointers begin */
    uint64_t handle;                       /* CUgraphNode in the graph the exec was made from */
    uint64_t twin;                         /* in the clone with hashes, 0: there is none */
    struct tb_cu_graph_hash before, after; /* of what it reads (TB_CFG_INPUTS), and writes */
    uint32_t grid[3], block_dim[3], shared;
    bool disabled;
    bool left_out;  /* of the launch under way: by --kernel or --sample */
    bool freed;     /* memory that the graph itself frees again */
    bool stale;     /* what it does is not known */
    bool gaps;      /* of a copy: not all of the bytes from the first to the last are read */
    bool ours;      /* a hash: the job has captured the launch of a graph that has some */
    uint8_t type;   /* CUgraphNodeType */
    uint8_t depth;  /* 0: of the graph itself, 1: of a child graph of it */
    uint64_t shape; /* hash of what it depends on, as places in its graph */
    struct tb_cu_kernel *kernel;
    uint32_t param_bytes;
    uint8_t *block; /* param_bytes of arguments */
    uint32_t block_room;
    uint64_t dst, src; /* copies, sets, memory; bytes from the first to behind the last */
    uint64_t dst_bytes, src_bytes;
    uint64_t value; /* hash of what a set sets */
    int device;     /* of memory that is allocated */
};

/** struct tb_cu_base - a word of the hash module, and the last launch that used it */
struct tb_cu_base {
    struct tb_cu_base *next;
    uint32_t index;
    struct tb_cu_use use;
};

/** struct tb_cu_graph_edges - by index, in the order of `to`; not those into child graphs */
struct tb_cu_graph_edges {
    struct tb_cu_graph_edge {
        uint32_t from, to;
    } * edge;
    uint32_t n, room;
};

/** struct tb_cu_graph_order - what is before what; graph_order.c */
struct tb_cu_graph_order {
    enum {
        TB_CU_ORDER_NEW,
        TB_CU_ORDER_CHAIN, /* nodes are all in a row */
        TB_CU_ORDER_KNOWN,
        TB_CU_ORDER_UNKNOWN /* too many branches */
    } state;
    uint32_t points, width, stride;
    struct tb_cu_graph_point {
        uint32_t chain, at; /* at: from 1 */
    } * point;              /* of nodes; then of the ends of child graphs */
    uint32_t *end, *parent; /* of nodes: point of its end, index of its child graph */
    uint32_t *length;       /* of chains */
    uint32_t *clock;        /* a row a point: how much of each chain is before it, itself too */
    size_t bytes, point_bytes;
};

/** struct tb_cu_cuts - offsets in allocations, sorted; where extents of nodes end */
struct tb_cu_cuts {
    struct tb_cu_key {
        uint64_t a, b; /* ordinal and offset */
        uint32_t i;
    } * at;
    uint32_t n, room;
};

/** struct tb_cu_exec - an executable graph */
struct tb_cu_exec {
    struct tb_cu_exec *next_free;
    uint64_t handle;
    bool partial;                             /* some nodes could not be looked into */
    bool conditional;                         /* some nodes run never, once or more often */
    bool memory;                              /* it allocates or frees memory */
    bool signals;                             /* it records or waits for events of streams */
    struct tb_cu_node *first, **last, *found; /* found: by the last search */
    uint32_t nodes;
    struct tb_cu_graph_edges edges;
    struct tb_cu_graph_order order;
    struct tb_cu_cuts cuts;
    /* where nodes are hashed one by one */
    CUgraph clone; /* NULL: the graph is hashed as a whole */
    struct tb_cu_ctx *ctx;
    struct tb_cu_base *base;
    bool changed;    /* a node does something else since hashes were last brought up to date */
    uint64_t seen;   /* changes of memory until then */
    uint32_t slots;  /* tickets a launch */
    uint64_t ticket; /* the first of the launch under way */
    bool drawn;      /* the launch under way has tickets */
    const char *why; /* it has none */
    bool lost;       /* hashes are not of what they should be, from an update on */
};

/* What calls that name an executable graph and a node begin with. */
struct tb_cu_exec_and_node {
    CUgraphExec exec;
    CUgraphNode node;
};

/* ---------------------------------------------------------------- graph.c */

/** tb_cu_exec_of - the executable graph with this handle, NULL: not known. Without the lock */
struct tb_cu_exec *tb_cu_exec_of(CUgraphExec handle);
/** tb_cu_exec_new - without nodes; NULL: no memory. tb_cu_exec_drop gives back, its clone not */
struct tb_cu_exec *tb_cu_exec_new(void);
void tb_cu_exec_drop(struct tb_cu_exec *x);
/** tb_cu_exec_register - @x is what the driver calls @handle */
void tb_cu_exec_register(struct tb_cu_exec *x, uint64_t handle);

/** tb_cu_mark_graph - it was launched (mark.c); NULL: its making was not seen */
void tb_cu_mark_graph(const struct tb_cu_exec *x, CUstream stream, bool per_thread);

/* ---------------------------------------------------------------- graph_list.c */

/** tb_cu_nodes_collect - what @graph does, into @x, which has no nodes; calls CUDA if that may be.
 * A node comes behind those that it waits for */
void tb_cu_nodes_collect(struct tb_cu_exec *x, CUgraph graph);

/* ---------------------------------------------------------------- graph_nodes.c */

/** tb_cu_node_add - an empty one behind the others of @x; NULL: no memory */
struct tb_cu_node *tb_cu_node_add(struct tb_cu_exec *x, uint64_t handle, uint8_t type,
                                  unsigned depth);
/** tb_cu_node_look - ask CUDA what @n does, which is @handle */
void tb_cu_node_look(struct tb_cu_exec *x, struct tb_cu_node *n, CUgraphNode handle);
void tb_cu_nodes_clear(struct tb_cu_exec *x);
/** tb_cu_nodes_known - is there none of which it is not known what it does? */
bool tb_cu_nodes_known(const struct tb_cu_exec *x);
/** tb_cu_node_of - the node that the job calls @handle; NULL: none */
struct tb_cu_node *tb_cu_node_of(struct tb_cu_exec *x, uint64_t handle);
/** tb_cu_node_end - the first node behind @n and what is in it; NULL: the end */
struct tb_cu_node *tb_cu_node_end(const struct tb_cu_node *n);
/** tb_cu_nodes_pair - are the nodes from @a to before @end, and those from @b on, @down deeper in
 * their graph, the same but for parameters? */
bool tb_cu_nodes_pair(const struct tb_cu_node *a, const struct tb_cu_node *end,
                      const struct tb_cu_node *b, int down);
/** tb_cu_node_equal - do nodes that pair do the same? */
bool tb_cu_node_equal(const struct tb_cu_node *a, const struct tb_cu_node *b);
/** tb_cu_node_adopt - @n does from now on what @from does, which gets the old parameters */
void tb_cu_node_adopt(struct tb_cu_node *n, struct tb_cu_node *from);
/** tb_cu_node_set - after a call that changes a node of an executable graph */
void tb_cu_node_set(struct tb_cu_exec *x, const struct tb_cuda_call *c);
/** tb_cu_node_works - is it a kernel, a copy or a set? */
bool tb_cu_node_works(const struct tb_cu_node *n);
/** tb_cu_node_accesses - what it reads and writes; under the lock */
void tb_cu_node_accesses(struct tb_cu_work *w, const struct tb_cu_node *n);

/* ---------------------------------------------------------------- graph_order.c */

/** tb_cu_graph_edge - node @to comes behind @from; in the order of @to */
void tb_cu_graph_edge(struct tb_cu_exec *x, uint32_t from, uint32_t to);
/** tb_cu_graph_branches - are there nodes that nothing orders, or so many that it is not known? */
bool tb_cu_graph_branches(struct tb_cu_exec *x);
/** tb_cu_graph_before - does node @a end before @b begins? tb_cu_graph_chain - @a is in that chain;
 * both only in state TB_CU_ORDER_KNOWN */
bool tb_cu_graph_before(const struct tb_cu_exec *x, uint32_t a, uint32_t b);
uint32_t tb_cu_graph_chain(const struct tb_cu_exec *x, uint32_t a);
void tb_cu_graph_order_drop(struct tb_cu_exec *x);
/** tb_cu_graph_room - @*p, with @used items of @size, gets room for @need; false: no memory */
bool tb_cu_graph_room(void **p, uint32_t *room, uint32_t used, uint32_t need, size_t size);

/* ---------------------------------------------------------------- graph_branch.c */

/** tb_cu_graph_part - of nodes that nothing orders: cut their extents, find a place for hashes
 * that may have one (@free), say which may be torn. @w: scratch */
void tb_cu_graph_part(struct tb_cu_exec *x, struct tb_cu_work *w, bool free);
void tb_cu_graph_part_drop(struct tb_cu_exec *x);

/* ---------------------------------------------------------------- graph_clone.c */

/* around the calls; the second of a pair is true if there was a clone */
void tb_cu_graph_instantiating(struct tb_cuda_call *c);
bool tb_cu_graph_instantiated(struct tb_cuda_call *c);
void tb_cu_graph_updating(struct tb_cuda_call *c, struct tb_cu_exec *x);
bool tb_cu_graph_updated(struct tb_cuda_call *c);
void tb_cu_graph_node_enter(struct tb_cuda_call *c, struct tb_cu_exec *x);
/** tb_cu_graph_node_exit - true: it was a child graph, and its nodes have followed */
bool tb_cu_graph_node_exit(struct tb_cuda_call *c);

/* ---------------------------------------------------------------- graph_hash.c */

/** tb_cu_graph_add_hashes - of what @n reads and writes, around its twin in @graph; @like: where
 * the node that it is to update has some, NULL: as it needs them. @w: scratch */
bool tb_cu_graph_add_hashes(struct tb_cu_exec *x, CUgraph graph, struct tb_cu_node *n,
                            const struct tb_cu_node *like, struct tb_cu_work *w);
/** tb_cu_graph_add_moved - its hash, behind the first @behind of @node and before the others */
bool tb_cu_graph_add_moved(const struct tb_cu_exec *x, CUgraph graph, struct tb_cu_node *n,
                           const CUgraphNode *node, uint32_t behind, uint32_t count);
/** tb_cu_graph_look - the accesses of @n into @w, which is nobody's event */
void tb_cu_graph_look(struct tb_cu_work *w, const struct tb_cu_exec *x, const struct tb_cu_node *n);
/** tb_cu_graph_launching - before a launch: hashes are brought up to date, tickets drawn */
void tb_cu_graph_launching(struct tb_cu_exec *x, CUstream stream, bool per_thread);
/** tb_cu_graph_nodes_launched - behind it: an event for each node */
void tb_cu_graph_nodes_launched(struct tb_cu_exec *x, CUstream stream, bool per_thread, bool ok);

#endif
