/*
 * Which records CUPTI's activity API gives of what a program does, and what is in their fields: the
 * list activity.txt against a libcupti.so and libcuda.so.1, softgpu's or a GPU's.
 *
 * usage: conformance_activity [-d libcuda] [-c libcupti] [-v] LIST [SCENARIO...]
 *
 * A scenario of the list names the kinds that are enabled and, one a line, the records that come,
 * in the order of each kind, with the fields that are compared: FIELD=VALUE, or FIELD>0. A record
 * that is in no line is an error as well. Ids of calls are counted from 1 in the order in which the
 * calls began; contexts, streams and events have the names that the scenario gives them. Prints
 * what is not as expected; exits 0, 1 or 77 (no library, or no device).
 */
#include "world.h"

#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define RECORDS_MAX 256
#define TEXT_MAX 512
#define BUFFER_BYTES 65536

static void *driver, *tools; /* set once in main() */
static bool verbose;

void *cu_symbol(const char *name)
{
    void *p = dlsym(driver, name);

    if (!p)
        fprintf(stderr, "conformance_activity: libcuda has no '%s'\n", name);
    return p;
}

static void *cupti_symbol(const char *name)
{
    void *p = dlsym(tools, name);

    if (!p)
        fprintf(stderr, "conformance_activity: libcupti has no '%s'\n", name);
    return p;
}
#define CUPTI(fn) ((__typeof__(&fn))cupti_symbol(#fn))

/* ---- records as they come -----------------------------------------------------------------------
 */

struct text {
    CUpti_ActivityKind kind;
    uint32_t correlation;
    uint64_t start; /* of calls: their order */
    bool met;       /* a line of the list was for it */
    char fields[TEXT_MAX];
};
static struct text records[RECORDS_MAX]; /* of the scenario that runs */
static unsigned nrecords;

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *most)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *size = BUFFER_BYTES;
    *most = 0;
}

static const struct {
    const char *name;
    CUpti_ActivityKind kind;
} kinds[] = {
    {"DRIVER", CUPTI_ACTIVITY_KIND_DRIVER},
    {"CONCURRENT_KERNEL", CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL},
    {"KERNEL", CUPTI_ACTIVITY_KIND_KERNEL},
    {"MEMCPY", CUPTI_ACTIVITY_KIND_MEMCPY},
    {"MEMSET", CUPTI_ACTIVITY_KIND_MEMSET},
    {"EXTERNAL_CORRELATION", CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION},
    {"SYNCHRONIZATION", CUPTI_ACTIVITY_KIND_SYNCHRONIZATION},
    {"CUDA_EVENT", CUPTI_ACTIVITY_KIND_CUDA_EVENT},
    {"GRAPH_TRACE", CUPTI_ACTIVITY_KIND_GRAPH_TRACE},
};

static const char *kind_name(CUpti_ActivityKind kind)
{
    for (size_t i = 0; i < LEN(kinds); i++)
        if (kinds[i].kind == kind)
            return kinds[i].name;
    return "?";
}

/* What the scenario has made, by the ids that records have. */
static struct {
    uint32_t context, null_stream, stream, stream2, graph;
} ids;

static const char *stream_name(uint32_t id)
{
    return id == ids.null_stream                       ? "null"
           : id == ids.stream                          ? "a"
           : id == ids.stream2                         ? "b"
           : id == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? "none"
                                                       : "other";
}

static const char *context_name(uint32_t id)
{
    return id == ids.context ? "mine" : "other";
}

static const char *memory_name(unsigned kind)
{
    static const char *const names[] = {"UNKNOWN", "PAGEABLE", "PINNED",
                                        "DEVICE",  "ARRAY",    "MANAGED"};

    return kind < LEN(names) ? names[kind] : "?";
}

static const char *copy_name(unsigned kind)
{
    static const char *const names[] = {"UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA",
                                        "ATOD",    "DTOA", "DTOD", "HTOH", "PTOP"};

    return kind < LEN(names) ? names[kind] : "?";
}

static const char *times(uint64_t start, uint64_t end)
{
    return start && start <= end ? "ordered" : "bad";
}

static const char *graph_of(uint32_t graph, uint64_t node)
{
    return !graph && !node ? "none" : graph == ids.graph && node ? "node" : "bad";
}

#define SAY(...) snprintf(t->fields, sizeof(t->fields), __VA_ARGS__)

static void say_call(struct text *t, const CUpti_ActivityAPI *r)
{
    const char *name = "?";

    CUPTI(cuptiGetCallbackName)(CUPTI_CB_DOMAIN_DRIVER_API, r->cbid, &name);
    t->correlation = r->correlationId;
    t->start = r->start;
    SAY("cbid=%s result=%u times=%s", name, r->returnValue, times(r->start, r->end));
}

static void say_kernel(struct text *t, const CUpti_ActivityKernel9 *r)
{
    t->correlation = r->correlationId;
    SAY("name=%s grid=%d,%d,%d block=%d,%d,%d static=%d dynamic=%d registers=%u type=%u device=%u "
        "context=%s stream=%s graph=%s gridid=%lld times=%s queued=%llu",
        r->name, r->gridX, r->gridY, r->gridZ, r->blockX, r->blockY, r->blockZ,
        r->staticSharedMemory, r->dynamicSharedMemory, r->registersPerThread, r->launchType,
        r->deviceId, context_name(r->contextId), stream_name(r->streamId),
        graph_of(r->graphId, r->graphNodeId), (long long)r->gridId, times(r->start, r->end),
        (unsigned long long)r->queued);
}

static void say_copy(struct text *t, const CUpti_ActivityMemcpy6 *r)
{
    t->correlation = r->correlationId;
    SAY("copy=%s src=%s dst=%s flags=%u bytes=%llu device=%u context=%s stream=%s graph=%s "
        "times=%s",
        copy_name(r->copyKind), memory_name(r->srcKind), memory_name(r->dstKind), r->flags,
        (unsigned long long)r->bytes, r->deviceId, context_name(r->contextId),
        stream_name(r->streamId), graph_of(r->graphId, r->graphNodeId), times(r->start, r->end));
}

static void say_set(struct text *t, const CUpti_ActivityMemset4 *r)
{
    t->correlation = r->correlationId;
    SAY("value=%u bytes=%llu memory=%s flags=%u device=%u context=%s stream=%s graph=%s times=%s",
        r->value, (unsigned long long)r->bytes, memory_name(r->memoryKind), r->flags, r->deviceId,
        context_name(r->contextId), stream_name(r->streamId), graph_of(r->graphId, r->graphNodeId),
        times(r->start, r->end));
}

static void say_external(struct text *t, const CUpti_ActivityExternalCorrelation *r)
{
    t->correlation = r->correlationId;
    SAY("kind=%d external=%llu", (int)r->externalKind, (unsigned long long)r->externalId);
}

static void say_sync(struct text *t, const CUpti_ActivitySynchronization2 *r)
{
    t->correlation = r->correlationId;
    SAY("type=%d context=%s stream=%s event=%s result=%u times=%s", (int)r->type,
        context_name(r->contextId), stream_name(r->streamId),
        r->cudaEventId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? "none" : "some", r->returnValue,
        times(r->start, r->end));
}

static void say_event(struct text *t, const CUpti_ActivityCudaEvent2 *r)
{
    t->correlation = r->correlationId;
    SAY("context=%s stream=%s event=%u device=%u timestamp=%llu", context_name(r->contextId),
        stream_name(r->streamId), r->eventId, r->deviceId, (unsigned long long)r->deviceTimestamp);
}

static void say_graph(struct text *t, const CUpti_ActivityGraphTrace2 *r)
{
    t->correlation = r->correlationId;
    SAY("graph=%s device=%u context=%s stream=%s times=%s",
        r->graphId == ids.graph ? "mine" : "other", r->deviceId, context_name(r->contextId),
        stream_name(r->streamId), times(r->start, r->end));
}

static void keep(const CUpti_Activity *r)
{
    struct text *t = &records[nrecords];

    if (nrecords == RECORDS_MAX)
        return;
    *t = (struct text){.kind = r->kind};
    switch (r->kind) {
    case CUPTI_ACTIVITY_KIND_DRIVER:
        say_call(t, (const void *)r);
        break;
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        say_kernel(t, (const void *)r);
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        say_copy(t, (const void *)r);
        break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
        say_set(t, (const void *)r);
        break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        say_external(t, (const void *)r);
        break;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        say_sync(t, (const void *)r);
        break;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
        say_event(t, (const void *)r);
        break;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
        say_graph(t, (const void *)r);
        break;
    default:
        break;
    }
    nrecords++;
}

static void CUPTIAPI buffer_completed(CUcontext ctx, uint32_t stream, uint8_t *buffer, size_t size,
                                      size_t valid)
{
    CUpti_Activity *r = NULL;

    (void)ctx;
    (void)stream;
    (void)size;
    while (CUPTI(cuptiActivityGetNextRecord)(buffer, valid, &r) == CUPTI_SUCCESS)
        keep(r);
    free(buffer);
}

/* Which call, counted from 1, an id belongs to; 0: none that was recorded. */
static unsigned call_number(uint32_t correlation)
{
    const struct text *mine = NULL;
    unsigned n = 1;

    for (unsigned i = 0; i < nrecords && !mine; i++)
        if (records[i].kind == CUPTI_ACTIVITY_KIND_DRIVER && records[i].correlation == correlation)
            mine = &records[i];
    for (unsigned i = 0; mine && i < nrecords; i++)
        n += records[i].kind == CUPTI_ACTIVITY_KIND_DRIVER && records[i].start < mine->start;
    return mine ? n : 0;
}

static void number_calls(void)
{
    for (unsigned i = 0; i < nrecords; i++) {
        char id[32];

        snprintf(id, sizeof(id), " id=%u", call_number(records[i].correlation));
        strncat(records[i].fields, id, sizeof(records[i].fields) - strlen(records[i].fields) - 1);
    }
}

/* ---- scenarios ----------------------------------------------------------------------------------
 */

#define DO(call)                                                                                   \
    do {                                                                                           \
        CUresult do_ = (call);                                                                     \
        if (do_ != CUDA_SUCCESS)                                                                   \
            return do_;                                                                            \
    } while (0)

static CUresult do_launch(struct world *w)
{
    DO(CU(cuLaunchKernel)(w->nothing, 2, 3, 1, 32, 2, 1, 64, w->stream, NULL, NULL));
    return CU(cuStreamSynchronize)(w->stream);
}

static CUresult do_launch_null(struct world *w)
{
    DO(CU(cuLaunchKernel)(w->nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    return CU(cuCtxSynchronize)();
}

static CUresult do_copies_sync(struct world *w)
{
    DO(CU(cuMemcpyHtoD)(w->mem, w->bytes, 64));
    DO(CU(cuMemcpyDtoH)(w->bytes, w->mem, 32));
    DO(CU(cuMemcpyDtoD)(w->mem, w->mem + 4096, 16));
    return CU(cuCtxSynchronize)();
}

static CUresult do_copies_async(struct world *w)
{
    DO(CU(cuMemcpyHtoDAsync)(w->mem, w->pinned, 64, w->stream));
    DO(CU(cuMemcpyDtoDAsync)(w->mem, w->mem + 4096, 16, w->stream));
    DO(CU(cuMemcpyDtoHAsync)(w->pinned, w->mem, 32, w->stream));
    return CU(cuStreamSynchronize)(w->stream);
}

static CUresult do_copy_pageable_async(struct world *w)
{
    DO(CU(cuMemcpyHtoDAsync)(w->mem, w->bytes, 64, w->stream));
    return CU(cuStreamSynchronize)(w->stream);
}

static CUresult do_sets(struct world *w)
{
    DO(CU(cuMemsetD8)(w->mem, 7, 64));
    DO(CU(cuCtxSynchronize)());
    DO(CU(cuMemsetD32Async)(w->mem, 9, 16, w->stream));
    return CU(cuStreamSynchronize)(w->stream);
}

static CUresult do_graph_launch(struct world *w)
{
    DO(CU(cuGraphLaunch)(w->exec, w->stream));
    return CU(cuStreamSynchronize)(w->stream);
}

static CUresult do_external(struct world *w)
{
    CUresult r;

    CUPTI(cuptiActivityPushExternalCorrelationId)(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 70);
    CUPTI(cuptiActivityPushExternalCorrelationId)(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 71);
    CUPTI(cuptiActivityPushExternalCorrelationId)(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 90);
    r = CU(cuLaunchKernel)(w->nothing, 1, 1, 1, 1, 1, 1, 0, w->stream, NULL, NULL);
    CUPTI(cuptiActivityPopExternalCorrelationId)(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, NULL);
    CUPTI(cuptiActivityPopExternalCorrelationId)(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, NULL);
    CUPTI(cuptiActivityPopExternalCorrelationId)(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, NULL);
    DO(r);
    return CU(cuStreamSynchronize)(w->stream);
}

static CUresult do_synchronize(struct world *w)
{
    DO(CU(cuEventRecord)(w->event, w->stream));
    DO(CU(cuStreamWaitEvent)(w->stream2, w->event, 0));
    DO(CU(cuEventSynchronize)(w->event));
    DO(CU(cuStreamSynchronize)(w->stream2));
    return CU(cuCtxSynchronize)();
}

static CUresult do_failure(struct world *w)
{
    return CU(cuMemAlloc)(&w->p, 0) == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static const struct {
    const char *name;
    CUresult (*fn)(struct world *w);
} scenarios[] = {
    {"launch", do_launch},
    {"launch_null_stream", do_launch_null},
    {"copies_sync", do_copies_sync},
    {"copies_async", do_copies_async},
    {"copy_pageable_async", do_copy_pageable_async},
    {"sets", do_sets},
    {"graph_nodes", do_graph_launch},
    {"graph_whole", do_graph_launch},
    {"external", do_external},
    {"synchronize", do_synchronize},
    {"failure", do_failure},
};

#define NEED(call)                                                                                 \
    do {                                                                                           \
        CUresult need_ = (call);                                                                   \
        if (need_ != CUDA_SUCCESS) {                                                               \
            fprintf(stderr, "conformance_activity: %s: error %d\n", #call, (int)need_);            \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

/* A set, then a kernel. */
static bool make_graph(struct world *w)
{
    NEED(CU(cuStreamBeginCapture)(w->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    NEED(CU(cuMemsetD8Async)(w->mem, 3, 64, w->stream));
    NEED(CU(cuLaunchKernel)(w->nothing, 1, 1, 1, 32, 1, 1, 0, w->stream, NULL, NULL));
    NEED(CU(cuStreamEndCapture)(w->stream, &w->graph));
    NEED(CU(cuGraphInstantiateWithFlags)(&w->exec, w->graph, 0));
    return true;
}

static bool make_world(struct world *w)
{
    NEED(CU(cuDevicePrimaryCtxRetain)(&w->ctx, 0));
    NEED(CU(cuCtxSetCurrent)(w->ctx));
    NEED(CU(cuStreamCreate)(&w->stream, CU_STREAM_NON_BLOCKING));
    NEED(CU(cuStreamCreate)(&w->stream2, CU_STREAM_NON_BLOCKING));
    NEED(CU(cuEventCreate)(&w->event, CU_EVENT_DEFAULT));
    NEED(CU(cuMemAlloc)(&w->mem, MIB));
    NEED(CU(cuMemAllocHost)(&w->pinned, 4096));
    NEED(CU(cuModuleLoadData)(&w->module, ptx_good));
    NEED(CU(cuModuleGetFunction)(&w->nothing, w->module, "nothing"));
    if (!make_graph(w))
        return false;
    CUPTI(cuptiGetContextId)(w->ctx, &ids.context);
    CUPTI(cuptiGetStreamIdEx)(w->ctx, NULL, 0, &ids.null_stream);
    CUPTI(cuptiGetStreamIdEx)(w->ctx, w->stream, 0, &ids.stream);
    CUPTI(cuptiGetStreamIdEx)(w->ctx, w->stream2, 0, &ids.stream2);
    CUPTI(cuptiGetGraphExecId)(w->exec, &ids.graph);
    return true;
}

/* ---- the list -----------------------------------------------------------------------------------
 */

static unsigned npassed, nfailed;

static const char *field(const char *fields, const char *name, size_t len)
{
    for (const char *p = fields; (p = strstr(p, name)); p++)
        if ((p == fields || p[-1] == ' ') && p[len] == '=')
            return p + len + 1;
    return NULL;
}

/* Does the record have what one word of a line says? */
static bool agrees(const char *fields, const char *word)
{
    size_t len = strcspn(word, "=>"), n;
    char name[64];
    const char *value;

    if (len >= sizeof(name))
        return false;
    memcpy(name, word, len);
    name[len] = '\0';
    value = field(fields, name, len);
    if (!value || !word[len])
        return false;
    if (word[len] == '>')
        return atoll(value) > atoll(word + len + 1);
    n = strcspn(value, " ");
    return strlen(word + len + 1) == n && strncmp(value, word + len + 1, n) == 0;
}

/* The next record of the line's kind must be as the line says. @line is cut up. */
static void check_line(const char *scenario, char *line, int number)
{
    char *save = NULL, *kind = strtok_r(line, " \t\n", &save);
    struct text *t = NULL;

    for (unsigned i = 0; i < nrecords && !t; i++)
        if (!records[i].met && strcmp(kind_name(records[i].kind), kind) == 0)
            t = &records[i];
    if (!t) {
        printf("not ok  %s, line %d: no record of kind %s\n", scenario, number, kind);
        nfailed++;
        return;
    }
    t->met = true;
    for (char *word; (word = strtok_r(NULL, " \t\n", &save));) {
        bool ok = agrees(t->fields, word);

        npassed += ok;
        nfailed += !ok;
        if (!ok)
            printf("not ok  %s, line %d: %s; the record: %s %s\n", scenario, number, word, kind,
                   t->fields);
    }
}

static void check_rest(const char *scenario)
{
    for (unsigned i = 0; i < nrecords; i++) {
        if (verbose)
            printf("        %s: %s %s\n", scenario, kind_name(records[i].kind), records[i].fields);
        if (records[i].met)
            continue;
        printf("not ok  %s: not in the list: %s %s\n", scenario, kind_name(records[i].kind),
               records[i].fields);
        nfailed++;
    }
}

static void set_kinds(char *names, bool on)
{
    char *save = NULL;

    for (char *name = strtok_r(names, " \t\n", &save); name; name = strtok_r(NULL, " \t\n", &save))
        for (size_t i = 0; i < LEN(kinds); i++)
            if (strcmp(kinds[i].name, name) == 0) {
                CUptiResult r = on ? CUPTI(cuptiActivityEnable)(kinds[i].kind)
                                   : CUPTI(cuptiActivityDisable)(kinds[i].kind);

                nfailed += r != CUPTI_SUCCESS;
                if (r != CUPTI_SUCCESS)
                    printf("not ok  kind %s: CUPTI error %d\n", name, (int)r);
            }
}

/* Run what a scenario is called, with the kinds of its `enable` line. */
static void run(struct world *w, const char *name, const char *enabled)
{
    char names[TEXT_MAX];
    CUresult r = CUDA_ERROR_NOT_FOUND;

    nrecords = 0;
    snprintf(names, sizeof(names), "%s", enabled);
    set_kinds(names, true);
    for (size_t i = 0; i < LEN(scenarios); i++)
        if (strcmp(scenarios[i].name, name) == 0)
            r = scenarios[i].fn(w);
    snprintf(names, sizeof(names), "%s", enabled);
    set_kinds(names, false);
    CUPTI(cuptiActivityFlushAll)(0);
    number_calls();
    nfailed += r != CUDA_SUCCESS;
    if (r != CUDA_SUCCESS)
        printf("not ok  %s: error %d\n", name, (int)r);
}

static bool asked_for(const char *name, char *const *names)
{
    bool is = !*names;

    for (; *names && !is; names++)
        is = strcmp(*names, name) == 0;
    return is;
}

static void read_list(FILE *f, struct world *w, char *const *names)
{
    char line[TEXT_MAX], scenario[64] = "";
    bool on = false, ran = false;

    for (int number = 1; fgets(line, sizeof(line), f); number++) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (line[0] == '[') {
            if (ran)
                check_rest(scenario);
            ran = false;
            sscanf(line, "[%63[^]]", scenario);
            on = asked_for(scenario, names);
        } else if (on && strncmp(line, "enable ", 7) == 0) {
            run(w, scenario, line + 7);
            ran = true;
        } else if (on) {
            check_line(scenario, line, number);
        }
    }
    if (ran)
        check_rest(scenario);
}

static void *open_library(const char *name)
{
    void *lib = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

    if (!lib)
        printf("conformance_activity: skipped: %s\n", dlerror());
    return lib;
}

int main(int argc, char **argv)
{
    static struct world w;
    const char *cuda = "libcuda.so.1", *cupti = "libcupti.so", *list;
    FILE *f;
    int i = 1;

    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "-d") == 0 && i + 1 < argc)
            cuda = argv[++i];
        else if (strcmp(argv[i], "-c") == 0 && i + 1 < argc)
            cupti = argv[++i];
        else
            verbose = strcmp(argv[i], "-v") == 0;
    }
    list = i < argc ? argv[i] : NULL;
    f = list ? fopen(list, "r") : NULL;
    if (!f) {
        fprintf(stderr, "conformance_activity: cannot read the list '%s'\n", list ? list : "");
        return 1;
    }
    if (!(driver = open_library(cuda)) || !(tools = open_library(cupti)))
        return 77;
    if (CU(cuInit)(0) != CUDA_SUCCESS) {
        printf("conformance_activity: skipped: cuInit finds no device\n");
        return 77;
    }
    if (CUPTI(cuptiActivityRegisterCallbacks)(buffer_requested, buffer_completed) !=
            CUPTI_SUCCESS ||
        !make_world(&w))
        return 1;
    read_list(f, &w, &argv[i + 1]);
    fclose(f);
    printf("conformance_activity: %u fields as expected, %u not\n", npassed, nfailed);
    return nfailed || !npassed;
}
