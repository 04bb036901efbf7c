/*
 * Which documented error each misuse returns: the lists (*.def) against a libcuda.so.1, softgpu's
 * or a GPU's.
 *
 * usage: conformance [-l LIBRARY] [-v] [LIST...]     the names of the lists; all by default
 *
 * A line of a list is a call and what it returns. After it the context must be alive still: what is
 * refused is not fatal. uninit.def is run before cuInit. For each line of faults.def a process of
 * its own runs a kernel that does what it must not; from then on all calls of after.def return the
 * same error. Prints what is not as expected; exits 0, 1 or 77 (no library or no device).
 */
#include "world.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void *library; /* set once in main() */

static CUresult missing(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

void *cu_symbol(const char *name)
{
    void *p = dlsym(library, name);

    if (!p)
        fprintf(stderr, "conformance: the library has no '%s'\n", name);
    return p ? p : (void *)missing;
}

/* ---- the lists --------------------------------------------------------------------------------
 */

struct row {
    const char *name;
    CUresult want;
    const char *why;
    conformance_fn fn;
};

/* first the calls as functions, then the rows that name them */
#define CASE(name, want, why, ...)                                                                 \
    static CUresult case_##name(struct world *w)                                                   \
    {                                                                                              \
        (void)w;                                                                                   \
        return (__VA_ARGS__);                                                                      \
    }
#include "after.def"
#include "capture.def"
#include "context.def"
#include "device.def"
#include "event.def"
#include "faults.def"
#include "graph.def"
#include "launch.def"
#include "memory.def"
#include "module.def"
#include "stream.def"
#include "uninit.def"
#include "vmm.def"
#undef CASE

#define CASE(name, want, why, ...) {#name, CUDA_##want, why, case_##name},
static const struct row rows_after[] = {
#include "after.def"
};
static const struct row rows_capture[] = {
#include "capture.def"
};
static const struct row rows_context[] = {
#include "context.def"
};
static const struct row rows_device[] = {
#include "device.def"
};
static const struct row rows_event[] = {
#include "event.def"
};
static const struct row rows_faults[] = {
#include "faults.def"
};
static const struct row rows_graph[] = {
#include "graph.def"
};
static const struct row rows_launch[] = {
#include "launch.def"
};
static const struct row rows_memory[] = {
#include "memory.def"
};
static const struct row rows_module[] = {
#include "module.def"
};
static const struct row rows_stream[] = {
#include "stream.def"
};
static const struct row rows_uninit[] = {
#include "uninit.def"
};
static const struct row rows_vmm[] = {
#include "vmm.def"
};
#undef CASE

static const struct list {
    const char *name;
    const struct row *rows;
    size_t n;
} lists[] = {
    {"memory", rows_memory, LEN(rows_memory)},    {"vmm", rows_vmm, LEN(rows_vmm)},
    {"device", rows_device, LEN(rows_device)},    {"context", rows_context, LEN(rows_context)},
    {"module", rows_module, LEN(rows_module)},    {"launch", rows_launch, LEN(rows_launch)},
    {"stream", rows_stream, LEN(rows_stream)},    {"event", rows_event, LEN(rows_event)},
    {"capture", rows_capture, LEN(rows_capture)}, {"graph", rows_graph, LEN(rows_graph)},
};

/* ---- telling ----------------------------------------------------------------------------------
 */

struct tally {
    bool verbose;
    unsigned good, bad;
};

static const char *name_of(CUresult r)
{
    const char *name = NULL;

    return CU(cuGetErrorName)(r, &name) == CUDA_SUCCESS && name ? name : "no known result";
}

static void tell(struct tally *t, const char *list, const struct row *row, CUresult got,
                 CUresult want)
{
    bool ok = got == want;

    if (ok)
        t->good++;
    else
        t->bad++;
    if (ok && t->verbose)
        printf("ok      %s %s: %s\n", list, row->name, name_of(got));
    if (!ok)
        printf("not ok  %s %s: %s (%d), expected %s (%d): %s\n", list, row->name, name_of(got), got,
               name_of(want), want, row->why);
}

/* ---- the world --------------------------------------------------------------------------------
 */

#define NEED(call)                                                                                 \
    do {                                                                                           \
        CUresult need_ = (call);                                                                   \
        if (need_ != CUDA_SUCCESS) {                                                               \
            fprintf(stderr, "conformance: %s: %s\n", #call, name_of(need_));                       \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static bool make_streams(struct world *w)
{
    NEED(CU(cuStreamCreate)(&w->stream, CU_STREAM_NON_BLOCKING));
    NEED(CU(cuStreamCreate)(&w->stream2, CU_STREAM_NON_BLOCKING));
    NEED(CU(cuStreamCreate)(&w->blocking, CU_STREAM_DEFAULT));
    NEED(CU(cuEventCreate)(&w->event, CU_EVENT_DEFAULT));
    NEED(CU(cuEventCreate)(&w->untimed, CU_EVENT_DISABLE_TIMING));
    NEED(CU(cuEventCreate)(&w->fresh, CU_EVENT_DEFAULT));
    NEED(CU(cuEventRecord)(w->event, w->stream));
    NEED(CU(cuEventRecord)(w->untimed, w->stream));
    sem_init(&w->gate, 0, 0);
    return true;
}

static bool make_code(struct world *w, const char *ptx)
{
    NEED(CU(cuModuleLoadData)(&w->module, ptx));
    NEED(CU(cuModuleGetFunction)(&w->nothing, w->module, "nothing"));
    if (ptx != ptx_good)
        return true;
    NEED(CU(cuModuleGetFunction)(&w->store, w->module, "store"));
    NEED(CU(cuModuleGetFunction)(&w->bounded, w->module, "bounded"));
    NEED(CU(cuLibraryLoadData)(&w->library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    return true;
}

static bool make_memory(struct world *w)
{
    NEED(CU(cuMemAlloc)(&w->mem, MIB));
    NEED(CU(cuMemAllocManaged)(&w->managed, 65536, CU_MEM_ATTACH_GLOBAL));
    NEED(CU(cuMemAllocHost)(&w->pinned, 4096));
    w->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    w->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    NEED(CU(cuMemGetAllocationGranularity)(&w->grain, &w->prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return true;
}

static bool make_graphs(struct world *w)
{
    NEED(CU(cuGraphCreate)(&w->graph, 0));
    NEED(CU(cuGraphCreate)(&w->graph2, 0));
    NEED(CU(cuGraphAddEmptyNode)(&w->node, w->graph, NULL, 0));
    NEED(CU(cuGraphAddEmptyNode)(&w->node2, w->graph, &w->node, 1));
    NEED(CU(cuGraphAddEmptyNode)(&w->far, w->graph2, NULL, 0));
    NEED(CU(cuGraphInstantiate)(&w->exec, w->graph, 0));
    return true;
}

static bool make_context(struct world *w)
{
    int n = 0;

    NEED(CU(cuDeviceGet)(&w->dev, 0));
    NEED(CU(cuDevicePrimaryCtxRetain)(&w->ctx, w->dev));
    NEED(CU(cuDeviceGetCount)(&n));
    if (n > 1)
        NEED(CU(cuDevicePrimaryCtxRetain)(&w->ctx2, 1));
    NEED(CU(cuCtxSetCurrent)(w->ctx));
    return true;
}

static bool make_world(struct world *w)
{
    return make_context(w) && make_streams(w) && make_code(w, ptx_good) && make_memory(w) &&
           make_graphs(w);
}

/* ---- running ----------------------------------------------------------------------------------
 */

static void run_list(struct tally *t, const struct list *l, struct world *w)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct row *row = &l->rows[i];

        tell(t, l->name, row, row->fn(w), row->want);
        if (CU(cuCtxSynchronize)() != CUDA_SUCCESS) {
            printf("not ok  %s %s: was fatal for the context\n", l->name, row->name);
            t->bad++;
            exit(1);
        }
    }
}

/* In a child: the fault, what waiting for it says, and what everything says from then on. */
static unsigned run_fault(struct tally *t, const struct row *fault)
{
    struct world w = {0};
    unsigned bad = t->bad;

    if (CU(cuInit)(0) != CUDA_SUCCESS || !make_context(&w) || !make_streams(&w) ||
        !make_code(&w, ptx_faults) || !make_memory(&w))
        return 1;
    tell(t, "faults", fault, fault->fn(&w), CUDA_SUCCESS);
    tell(t, "faults", fault, CU(cuStreamSynchronize)(w.stream), fault->want);
    for (size_t i = 0; i < LEN(rows_after); i++) {
        char list[64];

        snprintf(list, sizeof(list), "after %s:", fault->name);
        tell(t, list, &rows_after[i], rows_after[i].fn(&w), fault->want);
    }
    return t->bad - bad;
}

static void run_faults(struct tally *t)
{
    for (size_t i = 0; i < LEN(rows_faults); i++) {
        int status = 0;
        pid_t child;

        fflush(stdout);
        child = fork();
        if (child == 0) {
            unsigned bad = run_fault(t, &rows_faults[i]);

            fflush(stdout);
            _exit(bad ? 1 : 0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            t->bad++;
        else
            t->good += (unsigned)LEN(rows_after) + 2;
    }
}

static bool wanted(int argc, char **argv, const char *name)
{
    for (int i = optind; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return optind == argc;
}

static int run_all(struct tally *t, int argc, char **argv)
{
    struct world w = {0};
    const struct list uninit = {"uninit", rows_uninit, LEN(rows_uninit)};
    int n = 0;
    CUresult r;

    if (wanted(argc, argv, "faults")) /* first: a process that has called cuInit must not fork */
        run_faults(t);
    for (size_t i = 0; i < uninit.n && wanted(argc, argv, "uninit"); i++)
        tell(t, uninit.name, &uninit.rows[i], uninit.rows[i].fn(&w), uninit.rows[i].want);
    r = CU(cuInit)(0);
    if (r == CUDA_ERROR_NO_DEVICE || (r == CUDA_SUCCESS && !CU(cuDeviceGetCount)(&n) && !n)) {
        fprintf(stderr, "conformance: skipped: no device\n");
        return 77;
    }
    if (r != CUDA_SUCCESS || !make_world(&w))
        return 1;
    for (size_t i = 0; i < LEN(lists); i++)
        if (wanted(argc, argv, lists[i].name))
            run_list(t, &lists[i], &w);
    printf("%u as expected, %u not\n", t->good, t->bad);
    return t->bad || !t->good ? 1 : 0;
}

int main(int argc, char **argv)
{
    const char *path = "libcuda.so.1";
    struct tally t = {0};
    int c;

    while ((c = getopt(argc, argv, "l:v")) != -1) {
        if (c == 'l')
            path = optarg;
        else if (c == 'v')
            t.verbose = true;
        else
            return 2;
    }
    library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "conformance: skipped: %s\n", dlerror());
        return 77;
    }
    return run_all(&t, argc, argv);
}
