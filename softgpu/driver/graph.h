/*
 * Graphs: what graph*.c and capture.c share. A node holds its work as a shared, unchanging struct
 * sg_wref; setting parameters puts another one in its place. An executable graph is a private clone
 * of its graph, ordered, so updating it and launching it need no second set of types.
 *
 * All of it is under the engine's lock; parameters are turned into work before it is taken, because
 * that asks other files.
 */
#ifndef SG_DRIVER_GRAPH_H
#define SG_DRIVER_GRAPH_H

#include "softgpu/driver/stream.h"

struct sg_edge {
    CUgraphNode node;
    CUgraphEdgeData data;
};

struct CUgraphNode_st {
    uint32_t magic;
    bool disabled; /* in executable graphs */
    CUgraphNodeType type;
    uint64_t uid;    /* ascending in the process */
    uint64_t origin; /* uid of the node it was cloned from, 0: none */
    CUgraph graph;
    struct sg_wref *work; /* NULL: empty and child graph nodes */
    CUgraph child;        /* owned */
    struct sg_memnode *mem;
    struct sg_edge *deps; /* in the order they were added */
    size_t ndeps, deps_cap;
    CUgraphNode *users; /* the other ends of edges that begin here */
    size_t nusers, users_cap;
    void **param_ptrs;            /* what cuGraphKernelNodeGetParams() lends out */
    uint64_t mark;                /* scratch of walks */
    CUgraphNode pair;             /* scratch of updates */
    struct sg_item *first, *item; /* scratch of launches: a child graph has two */
};

struct sg_user_ref {
    struct CUuserObject_st *object;
    unsigned count;
};

struct CUgraph_st {
    uint32_t magic;
    uint64_t id;
    uint64_t origin;    /* id of the graph it was cloned from */
    bool owned;         /* by a node or an executable graph: not the user's to destroy */
    bool has_mem;       /* allocation or free nodes */
    unsigned captures;  /* sequences that capture into it */
    unsigned execs;     /* instantiations alive, counted for graphs with memory nodes */
    CUgraphNode *nodes; /* ascending uid */
    size_t n, cap;
    CUgraphNode *order; /* topological: executable graphs */
    struct sg_user_ref *refs;
    size_t nrefs;
};

struct CUgraphExec_st {
    uint32_t magic;
    unsigned refs; /* the handle, and launches under way */
    bool dead;
    uint64_t flags;
    CUgraph graph;  /* private clone */
    CUgraph source; /* the graph it was made from, if that still is the one with @source_id */
    uint64_t source_id;
    struct sg_item *last; /* of the latest launch */
};

/* Memory of an allocation node, kept by the nodes that know it, those of executable graphs too. Its
 * bytes are the memory half's (memory.h); here is what calls have said about it so far. */
struct sg_memnode {
    unsigned refs;
    uint64_t addr;
    uint64_t owner; /* id of the graph that allocates it */
    size_t size;
    struct sg_device *dev;
    bool live;                    /* a launch allocates it, nothing frees it yet */
    bool freed_here, freed_there; /* the owner has a free node for it, another graph has */
    struct sg_memnode *next;
};

/* ---- handles: without the lock; CUDA_ERROR_NOT_INITIALIZED, NOT_PERMITTED, INVALID_VALUE ---- */

CUresult sg_graph_check(CUgraph g);
CUresult sg_node_check(CUgraphNode node);
CUresult sg_node_check_type(CUgraphNode node, CUgraphNodeType type);

CUresult sg_graph_exec_check(CUgraphExec x);
/** sg_kernel_alive - is the function still loaded? Nodes outlive modules. */
bool sg_kernel_alive(const struct sg_kernel_work *k);

/* ---- graph.c: with the lock -------------------------------------- */

CUgraph sg_graph_new(void);
void sg_graph_free(CUgraph g); /* NULL is legal */
CUresult sg_graph_clone(CUgraph g, CUgraph *out);
bool sg_graph_has_mem(const struct CUgraph_st *g); /* in child graphs too */

/**
 * sg_node_new - add a node
 * @work: taken over in any case; NULL for empty and child graph nodes
 * @edges: NULL: plain dependencies
 * Returns: CUDA_ERROR_INVALID_VALUE for dependencies of another graph, twice the same, or edge
 * data that nodes of these types cannot have.
 */
CUresult sg_node_new(CUgraph g, CUgraphNodeType type, struct sg_wref *work, const CUgraphNode *deps,
                     const CUgraphEdgeData *edges, size_t n, CUgraphNode *out);
CUresult sg_edge_add(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData *data);
void sg_edge_remove(CUgraphNode from, CUgraphNode to);
/** sg_edge_tell - sg_notice_later() of an edge */
void sg_edge_tell(enum sg_notice_kind kind, CUgraphNode from, CUgraphNode to);
bool sg_edge_is_plain(const CUgraphEdgeData *data);
bool sg_edge_ok(CUgraphNode from, CUgraphNodeType to, const CUgraphEdgeData *data);
CUgraphNodeType sg_node_type_of(const struct sg_work *w);
void sg_node_destroy(CUgraphNode node); /* and its edges */
/** sg_node_set_work - another work of the same type; takes it over */
void sg_node_set_work(CUgraphNode node, struct sg_wref *work);
/** sg_graph_own - make @child the child graph of @node */
void sg_graph_own(CUgraphNode node, CUgraph child);
/** sg_graph_sort - fill @g->order, child graphs too; the node on a cycle in *@bad, or NULL */
CUresult sg_graph_sort(CUgraph g, CUgraphNode *bad);
/** sg_graph_find - the clone of node @uid in @g or its child graphs, NULL: none */
CUgraphNode sg_graph_find(CUgraph g, uint64_t uid);

/* ---- graph_params.c ---------------------------------------------- */

/** sg_node_params_make - a description as work, without the lock; EMPTY and GRAPH have none */
CUresult sg_node_params_make(const CUgraphNodeParams *p, struct sg_work *w);
/** sg_node_params_get - with the lock: what a node does; pointers are the node's */
CUresult sg_node_params_get(CUgraphNode node, CUgraphNodeParams *p);

/* ---- graph_update.c: with the lock ------------------------------- */

/** sg_work_may_become - what an executable graph lets a node's work change into */
CUgraphExecUpdateResult sg_work_may_become(const struct sg_work *old, const struct sg_work *to,
                                           uint64_t exec_flags);
/** sg_graph_update - give the nodes of @mine, of @x, the work of @theirs; all or nothing */
CUgraphExecUpdateResult sg_graph_update(CUgraphExec x, CUgraph mine, CUgraph theirs,
                                        CUgraphExecUpdateResultInfo *info);

/* ---- graph_mem.c: with the lock ---------------------------------- */

/** sg_memnode_attach - bind a new allocation or free node to its memory */
CUresult sg_memnode_attach(CUgraphNode node);
void sg_memnode_put(struct sg_memnode *m); /* NULL is legal */
/** sg_memnodes_check - may @g be launched? CUDA_ERROR_INVALID_VALUE while memory of an earlier
 * launch is there, unless @auto_free; then it is freed in @s */
CUresult sg_memnodes_check(CUgraph g, bool auto_free, struct CUstream_st *s);
/** sg_memnodes_launched - @g has been launched */
void sg_memnodes_launched(CUgraph g);

/* ---- graph_object.c: with the lock ------------------------------- */

CUresult sg_user_refs_copy(CUgraph from, CUgraph to);
void sg_user_refs_drop(CUgraph g);

#endif
