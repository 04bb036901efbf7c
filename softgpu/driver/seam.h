/*
 * The seam between the driver, the runtime and a stand-in for CUPTI: what each of them tells the
 * others of calls and of what becomes of objects. Nothing of the driver's inside is needed to
 * include it.
 *
 * A tool asks cuGetExportTable() for SOFTGPU_TABLE and gives hooks; the runtime calls
 * attach_runtime of it when it is loaded. As NVIDIA's own parts find each other, so this works
 * behind a libcuda that forwards, too. With no hooks, an exported function pays one branch.
 */
#ifndef SG_DRIVER_SEAM_H
#define SG_DRIVER_SEAM_H

#include <cuda.h> /* for its types: with or without all versions of the functions */

#include "softgpu/driver/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One call of an exported function of the driver or the runtime. */
struct sg_call {
    uint32_t id;      /* CUPTI's callback id where its headers were there, else >= SG_CALL_NO_ID */
    const char *name; /* static: "cuMemAlloc_v2", "cudaMemcpyAsync_ptsz" */
    void *params;     /* struct sg_<name>_params, laid out as CUPTI's <name>_params */
    size_t params_size;
    int result; /* CUresult or cudaError_t; on exit */
    /* kept from enter to exit: who was told of the call, and for whoever hooks */
    const void *hooks;
    uint32_t correlation, outer;
    uint64_t user, start;
};
#define SG_CALL_NO_ID 0x10000u

#define SOFTGPU_TABLE "softgpu/tools/1" /* 16 bytes: the id of the table struct softgpu_tools */

/* Of the calling thread; in the driver's thread-local storage. */
struct softgpu_thread {
    uint32_t correlation; /* of the call under way, 0: nobody listens; submitted work carries it */
    uint32_t in_runtime;  /* calls of the runtime under way */
    uint32_t in_callback; /* functions of a tool under way */
};

/* What happened to an object, or is about to. */
enum sg_notice_kind {
    SG_NOTICE_INIT,                 /* cuInit succeeded */
    SG_NOTICE_CONTEXT_CREATED,      /* ctx */
    SG_NOTICE_CONTEXT_DESTROY,      /* ctx: starts */
    SG_NOTICE_STREAM_CREATED,       /* ctx, stream */
    SG_NOTICE_STREAM_DESTROY,       /* ctx, stream: starts */
    SG_NOTICE_STREAM_ATTRIBUTE,     /* ctx, stream, attribute, value */
    SG_NOTICE_MODULE_LOADED,        /* ctx, module */
    SG_NOTICE_MODULE_UNLOAD,        /* ctx, module: starts */
    SG_NOTICE_GRAPH_CREATED,        /* graph */
    SG_NOTICE_GRAPH_DESTROY,        /* graph: starts */
    SG_NOTICE_GRAPH_CLONED,         /* graph, original graph */
    SG_NOTICE_NODE_CREATE,          /* graph, type: starts */
    SG_NOTICE_NODE_CREATED,         /* graph, node, type */
    SG_NOTICE_NODE_DESTROY,         /* graph, node, type: starts */
    SG_NOTICE_NODE_CLONED,          /* graph, node, type, original graph and node */
    SG_NOTICE_NODE_UPDATED,         /* exec, node in it, type, and the node it was updated from */
    SG_NOTICE_NODE_SET_PARAMS,      /* exec, node in it, type */
    SG_NOTICE_EDGE_CREATED,         /* graph, node, type, dependency: what follows the node */
    SG_NOTICE_EDGE_DESTROY,         /* the same: starts */
    SG_NOTICE_EXEC_CREATE,          /* graph: starts */
    SG_NOTICE_EXEC_CREATED,         /* graph, exec */
    SG_NOTICE_EXEC_DESTROY,         /* exec: starts */
    SG_NOTICE_STREAM_SYNCHRONIZED,  /* ctx, stream */
    SG_NOTICE_CONTEXT_SYNCHRONIZED, /* ctx */
};

struct sg_notice {
    enum sg_notice_kind kind;
    CUcontext ctx;
    CUstream stream;
    struct {
        uint32_t id;      /* unique in the process */
        const char *data; /* the image as it was given: PTX text */
        size_t size;
    } module;
    CUgraph graph, original_graph;
    CUgraphNode node, original_node, dependency;
    CUgraphNodeType type;
    CUgraphExec exec;
    CUstreamAttrID attribute;
    const CUstreamAttrValue *value;
};

/* Called around the functions that a library exports. With none of the driver's locks held; they
 * may call CUDA. */
struct softgpu_call_hooks {
    void (*enter)(void *arg, struct sg_call *call);
    void (*exit)(void *arg, struct sg_call *call);
    void *arg;
};

struct softgpu_hooks {
    void (*enter)(void *arg, struct sg_call *call);
    void (*exit)(void *arg, struct sg_call *call);
    void *arg;
    /* Objects; may be NULL. Starting ones are told while the object still lives. @n is borrowed. */
    void (*notice)(void *arg, const struct sg_notice *n);
    const struct softgpu_call_hooks *runtime; /* may be NULL */
};

/* What a runtime brings. */
struct softgpu_runtime {
    void (*set_hooks)(const struct softgpu_call_hooks *hooks);
    /* the name of the kernel of a __global__ function or cudaKernel_t; NULL: not known */
    const char *(*symbol)(const void *func);
};

/* What kernels do to global memory, access by access. access() is called by any of the threads that
 * execute the launch, the others by the one that started it; they must not call CUDA. */
struct softgpu_access_hooks {
    /* a launch starts: its kernel's mangled name and its parameters; borrowed */
    void (*begin)(void *arg, const char *kernel, const void *params, size_t bytes);
    void (*access)(void *arg, uint64_t address, uint64_t bytes, bool write);
    void (*end)(void *arg);
    void *arg;
};

/* An allocation, or the variable of a module; managed variables are seen as managed memory only. */
struct softgpu_allocation {
    uint64_t address, size;
    bool variable, managed;
};

struct softgpu_context_info {
    uint32_t id, parent; /* parent: of a green context */
    uint32_t device, null_stream;
    bool green;
    uint32_t sms; /* that it may use */
};

struct softgpu_stream_info {
    uint32_t id, context;
    int priority;
    unsigned flags; /* CUstream_flags */
    bool null;
};

/* What a tool may ask. Any thread; nothing here takes a lock that is held while work runs. Handles
 * that are none give false or NULL, they are never followed. */
struct softgpu_tools {
    size_t size; /* of this structure */
    void (*set_hooks)(const struct softgpu_hooks *hooks);
    struct softgpu_thread *(*thread)(void);
    /* the context current to the thread or NULL, and its unique id */
    CUcontext (*current)(uint32_t *uid);
    bool (*context)(CUcontext ctx, uint32_t *uid, int *device);
    bool (*device)(int ordinal);
    bool (*arch)(uint32_t arch); /* 80: can devices of that compute capability be simulated? */
    /* @ctx NULL: the current one, else a stream of another context is none */
    bool (*stream)(CUcontext ctx, CUstream stream, bool per_thread, uint32_t *id);
    bool (*graph)(CUgraph graph, uint32_t *id);
    bool (*exec)(CUgraphExec exec, uint32_t *id);
    bool (*node)(CUgraphNode node, uint64_t *id);
    /* the name of a kernel; a CUkernel is legal */
    const char *(*function)(CUfunction f);
    const char *(*runtime_symbol)(const void *func);
    bool (*context_info)(CUcontext ctx, struct softgpu_context_info *out);
    bool (*stream_info)(CUstream stream, struct softgpu_stream_info *out);
    /* all that are there; how many, of which the first @n are filled in */
    size_t (*contexts)(struct softgpu_context_info *out, size_t n);
    size_t (*streams)(struct softgpu_stream_info *out, size_t n);
    /* of a visible device; false: there is none of that number */
    bool (*attribute)(int device, CUdevice_attribute attribute, int *value);
    bool (*identity)(int device, const char **name, CUuuid *uuid, uint64_t *memory);
    /* report executed work (trace.h); NULL: no more. @hooks is borrowed for ever. */
    void (*set_trace)(const struct softgpu_trace_hooks *hooks);
    bool (*event)(CUevent event, struct softgpu_recorded *out);
    bool (*place)(CUstream stream, bool per_thread, struct softgpu_place *out);
    /* Strict mode: memory for what a function of the tool may read while it runs; @what names it in
     * a finding, static. NULL: not strict, or too much is lent: give it the data itself. */
    void *(*lend)(size_t size, const char *what);
    void (*take_back)(void *lent); /* a later use is a finding; NULL is legal */
    /* the runtime is there; @runtime is borrowed for ever */
    void (*attach_runtime)(const struct softgpu_runtime *runtime);
    /* report what kernels read and write, which makes them slow; NULL: no more. Borrowed for ever.
     * Atomics are writes; what a warp does as a whole in tensor instructions may be missing. */
    void (*set_accesses)(const struct softgpu_access_hooks *hooks);
    bool (*allocation)(uint64_t address, struct softgpu_allocation *out); /* that holds it */
};

/** softgpu_find_tools - of the driver behind @get_export_table, its cuGetExportTable; NULL: another
 * driver. Static. Any thread, before cuInit too. */
static inline const struct softgpu_tools *
softgpu_find_tools(CUresult (*get_export_table)(const void **table, const CUuuid *id))
{
    static const CUuuid id = {SOFTGPU_TABLE};
    const void *table = NULL;
    const struct softgpu_tools *tools =
        get_export_table(&table, &id) == CUDA_SUCCESS ? table : NULL;

    return tools && tools->size == sizeof(*tools) ? tools : NULL;
}

/* Inside the driver. */
/** softgpu_tools - static, of this library. Any thread, before cuInit too. */
const struct softgpu_tools *softgpu_tools(void);
/** softgpu_set_hooks - call @hooks around every exported function; NULL: no more. @hooks is
 * borrowed until then, and until calls under way have returned. Any thread. */
void softgpu_set_hooks(const struct softgpu_hooks *hooks);
void softgpu_attach_runtime(const struct softgpu_runtime *runtime);

#endif
