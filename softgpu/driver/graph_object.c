/* User objects: reference counts of the user's own, which graphs can hold too. */
#include "softgpu/driver/graph.h"

#include <limits.h>
#include <stdlib.h>

#define MAGIC_OBJECT 0x53475553u

struct CUuserObject_st {
    uint32_t magic;
    uint64_t refs;
    CUhostFn destroy;
    void *arg;
};

/* ---- with the lock ----------------------------------------------- */

static CUresult drop(struct CUuserObject_st *o, uint64_t count)
{
    if (count > o->refs)
        return CUDA_ERROR_INVALID_VALUE;
    o->refs -= count;
    if (o->refs)
        return CUDA_SUCCESS;
    sg_handle_remove(o);
    /* without memory for the job the user's memory is lost, not the caller's call */
    if (!sg_engine_push_job(sg_driver.engine, NULL, o->destroy, o->arg))
        sg_log(1, "no memory to call a user object's destructor");
    free(o);
    return CUDA_SUCCESS;
}

static struct sg_user_ref *ref_of(CUgraph g, const struct CUuserObject_st *o)
{
    for (size_t i = 0; i < g->nrefs; i++)
        if (g->refs[i].object == o)
            return &g->refs[i];
    return NULL;
}

static CUresult hold(CUgraph g, struct CUuserObject_st *o, unsigned count)
{
    struct sg_user_ref *r = ref_of(g, o);

    if (!r) {
        r = realloc(g->refs, (g->nrefs + 1) * sizeof(*r));
        if (!r)
            return CUDA_ERROR_OUT_OF_MEMORY;
        g->refs = r;
        r = &g->refs[g->nrefs++];
        *r = (struct sg_user_ref){o, 0};
    }
    r->count += count;
    return CUDA_SUCCESS;
}

CUresult sg_user_refs_copy(CUgraph from, CUgraph to)
{
    CUresult r = CUDA_SUCCESS;

    for (size_t i = 0; i < from->nrefs && r == CUDA_SUCCESS; i++) {
        r = hold(to, from->refs[i].object, from->refs[i].count);
        if (r == CUDA_SUCCESS)
            from->refs[i].object->refs += from->refs[i].count;
    }
    return r;
}

void sg_user_refs_drop(CUgraph g)
{
    for (size_t i = 0; i < g->nrefs; i++)
        drop(g->refs[i].object, g->refs[i].count);
    free(g->refs);
    g->refs = NULL;
    g->nrefs = 0;
}

/* ---- the calls --------------------------------------------------- */

static CUresult check(CUuserObject o, unsigned count)
{
    CUresult r = sg_enter();

    if (r == CUDA_SUCCESS && (!sg_handle_is(o, MAGIC_OBJECT) || !count || count > INT_MAX))
        r = CUDA_ERROR_INVALID_VALUE;
    return r;
}

CUresult sg_cuUserObjectCreate(CUuserObject *out, void *ptr, CUhostFn destroy, unsigned count,
                               unsigned flags)
{
    struct CUuserObject_st *o;
    CUresult r = sg_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !destroy || !count || count > INT_MAX || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    o = malloc(sizeof(*o));
    if (!o || !sg_handle_add(o, MAGIC_OBJECT)) {
        free(o);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *o = (struct CUuserObject_st){MAGIC_OBJECT, count, destroy, ptr};
    *out = o;
    return CUDA_SUCCESS;
}

CUresult sg_cuUserObjectRetain(CUuserObject object, unsigned count)
{
    CUresult r = check(object, count);

    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    object->refs += count;
    sg_engine_unlock();
    return CUDA_SUCCESS;
}

CUresult sg_cuUserObjectRelease(CUuserObject object, unsigned count)
{
    CUresult r = check(object, count);

    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    r = drop(object, count);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                    unsigned flags)
{
    CUresult r = sg_graph_check(graph);

    if (r == CUDA_SUCCESS)
        r = check(object, count);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    r = hold(graph, object, count);
    if (r == CUDA_SUCCESS && !(flags & CU_GRAPH_USER_OBJECT_MOVE))
        object->refs += count;
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count)
{
    struct sg_user_ref *ref;
    CUresult r = sg_graph_check(graph);

    if (r == CUDA_SUCCESS)
        r = check(object, count);
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    ref = ref_of(graph, object);
    if (!ref || ref->count < count) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        ref->count -= count;
        if (!ref->count)
            *ref = graph->refs[--graph->nrefs];
        r = drop(object, count);
    }
    sg_engine_unlock();
    return r;
}
