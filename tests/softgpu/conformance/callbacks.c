/*
 * What CUPTI's callbacks deliver: the list in callbacks.txt against a libcupti, softgpu's or
 * NVIDIA's.
 *
 * usage: callbacks [-d LIBCUDA] [-r LIBCUDART] [-c LIBCUPTI] [-p] LIST [SCENARIO...]
 *
 * The calls of each scenario are made while a subscriber writes a line for each callback; the lines
 * must match the list's. -p prints the lines in the list's form instead. Exits 0, 1 or 77 (no
 * library or no device).
 *
 * A line is a domain, a name, "enter" or "exit" for API calls, and the fields that are set, as
 * field=value. In the list a value $x stands for one value, the same in all of the scenario; * for
 * any; and a line of "..." for any number of callbacks, none included.
 */
#include "callbacks.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 400
#define LINE_MAX_BYTES 240
#define FIELDS_MAX 16
#define NAMES_MAX 64

/* The one state: set in main(), and by the subscriber while a scenario runs. */
static void *libraries[CB_LIBRARIES];
static struct {
    char lines[LINES_MAX][LINE_MAX_BYTES];
    size_t n;
} recorded;

void *cb_symbol(enum cb_library library, const char *name)
{
    void *p = dlsym(libraries[library], name);

    if (!p) {
        fprintf(stderr, "callbacks: the library has no '%s'\n", name);
        exit(1);
    }
    return p;
}

void cb_ok(int result, const char *call)
{
    if (result == 0)
        return;
    fprintf(stderr, "callbacks: %s failed: %d\n", call, result);
    exit(1);
}

/* ---- recording ------------------------------------------------------------------------------- */

static char *line; /* under way */

static void add(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *fmt, ...)
{
    size_t n = strlen(line);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line + n, LINE_MAX_BYTES - n, fmt, ap);
    va_end(ap);
}

static void add_pointer(const char *field, const void *p)
{
    if (p)
        add(" %s=%p", field, p);
}

static void add_call(CUpti_CallbackDomain domain, uint32_t id, const CUpti_CallbackData *d)
{
    bool is_exit = d->callbackSite == CUPTI_API_EXIT;
    const char *name = "?";

    CUPTI(cuptiGetCallbackName)(domain, id, &name);
    add("%s %s %s corr=%u", domain == CUPTI_CB_DOMAIN_DRIVER_API ? "driver" : "runtime", name,
        is_exit ? "exit" : "enter", d->correlationId);
    add_pointer("ctx", d->context);
    if (d->contextUid)
        add(" uid=%u", d->contextUid);
    if (d->symbolName)
        add(" symbol=%s", d->symbolName);
    if (!d->functionName || strncmp(name, d->functionName, strlen(d->functionName)) != 0)
        add(" name=%s", d->functionName ? d->functionName : "-");
    if (!d->functionParams)
        add(" params=-");
    if (!is_exit)
        *d->correlationData = d->correlationId + UINT64_C(1000);
    else if (*d->correlationData != d->correlationId + UINT64_C(1000))
        add(" data=lost");
    if (is_exit)
        add(" result=%d", *(const int *)d->functionReturnValue);
}

static const char *const resources[] = {
    [1] = "context-created",
    [2] = "context-destroy-starting",
    [3] = "stream-created",
    [4] = "stream-destroy-starting",
    [5] = "init-finished",
    [6] = "module-loaded",
    [7] = "module-unload-starting",
    [8] = "module-profiled",
    [9] = "graph-created",
    [10] = "graph-destroy-starting",
    [11] = "graph-cloned",
    [12] = "node-create-starting",
    [13] = "node-created",
    [14] = "node-destroy-starting",
    [15] = "dependency-created",
    [16] = "dependency-destroy-starting",
    [17] = "exec-create-starting",
    [18] = "exec-created",
    [19] = "exec-destroy-starting",
    [20] = "node-cloned",
    [21] = "stream-attribute-changed",
    [22] = "node-updated",
    [23] = "node-set-params",
};

static void add_graph(uint32_t id, const CUpti_GraphData *g)
{
    add_pointer("graph", g->graph);
    add_pointer("original-graph", g->originalGraph);
    add_pointer("node", g->node);
    add_pointer("original-node", g->originalNode);
    if (g->node || id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATE_STARTING)
        add(" type=%d", (int)g->nodeType);
    add_pointer("dependency", g->dependency);
    add_pointer("exec", g->graphExec);
}

static void add_resource(uint32_t id, const CUpti_ResourceData *d)
{
    add("resource %s", id < sizeof(resources) / sizeof(resources[0]) ? resources[id] : "?");
    if (!d) {
        add(" data=-");
        return;
    }
    add_pointer("ctx", d->context);
    add_pointer("stream", d->resourceHandle.stream);
    if (id >= 6 && id <= 8) {
        const CUpti_ModuleResourceData *m = d->resourceDescriptor;

        add(" module=%u size=%zu", m->moduleId, m->cubinSize);
        add_pointer("cubin", m->pCubin);
    } else if (id == 21) {
        const CUpti_StreamAttrData *a = d->resourceDescriptor;

        add_pointer("attribute-stream", a->stream);
        add(" attribute=%d", (int)a->attr);
        add_pointer("value", a->value);
    } else if (id >= 9) {
        add_graph(id, d->resourceDescriptor);
    }
}

static void record(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                   const void *data)
{
    (void)userdata;
    if (recorded.n == LINES_MAX)
        return;
    line = recorded.lines[recorded.n++];
    line[0] = '\0';
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
        add_call(domain, id, data);
    } else if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
        add_resource(id, data);
    } else if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE) {
        const CUpti_SynchronizeData *d = data;

        add("sync %s", id == CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED ? "stream" : "context");
        add_pointer("ctx", d->context);
        add_pointer("stream", d->stream);
    } else if (domain == CUPTI_CB_DOMAIN_NVTX) {
        const CUpti_NvtxData *d = data;

        add("nvtx %s", d->functionName);
        if (!d->functionParams)
            add(" params=-");
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* What a $name of the list stands for. */
struct binding {
    char name[24], value[40];
};

struct bindings {
    struct binding all[NAMES_MAX];
    size_t n;
};

/* Splits at blanks, in place. */
static size_t split(char *text, char *fields[FIELDS_MAX])
{
    size_t n = 0;
    char *save = NULL;

    for (char *f = strtok_r(text, " ", &save); f && n < FIELDS_MAX; f = strtok_r(NULL, " ", &save))
        fields[n++] = f;
    return n;
}

/* Names of one kind ($n1, $n2; or numbers) stand for different values. */
static bool same_kind(const char *a, const char *b)
{
    return isdigit((unsigned char)a[1]) ? isdigit((unsigned char)b[1]) : a[1] == b[1];
}

static bool bind(struct bindings *b, const char *name, const char *value)
{
    for (size_t i = 0; i < b->n; i++) {
        bool same = strcmp(b->all[i].value, value) == 0;

        if (strcmp(b->all[i].name, name) == 0)
            return same;
        if (same && same_kind(b->all[i].name, name))
            return false;
    }
    if (b->n == NAMES_MAX)
        return false;
    snprintf(b->all[b->n].name, sizeof(b->all[0].name), "%s", name);
    snprintf(b->all[b->n++].value, sizeof(b->all[0].value), "%s", value);
    return true;
}

static bool same_field(struct bindings *b, const char *want, const char *got)
{
    const char *value = strchr(want, '='), *has = strchr(got, '=');

    if (!value || !has)
        return strcmp(want, got) == 0;
    if (value - want != has - got || strncmp(want, got, (size_t)(value - want)) != 0)
        return false;
    if (value[1] == '*')
        return true;
    return value[1] == '$' ? bind(b, value + 1, has + 1) : strcmp(value, has) == 0;
}

static bool same_line(struct bindings *b, const char *want, const char *got)
{
    char w[LINE_MAX_BYTES], g[LINE_MAX_BYTES], *wants[FIELDS_MAX], *gots[FIELDS_MAX];
    size_t n;

    snprintf(w, sizeof(w), "%s", want);
    snprintf(g, sizeof(g), "%s", got);
    n = split(w, wants);
    if (n != split(g, gots))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!same_field(b, wants[i], gots[i]))
            return false;
    return true;
}

struct expected {
    char lines[LINES_MAX][LINE_MAX_BYTES];
    size_t n;
};

/* Do the lines from @i on match what was recorded from @k on? @far: how far it went. */
static bool match(const struct expected *e, size_t i, size_t k, struct bindings b, size_t far[2])
{
    if (i + k >= far[0] + far[1]) {
        far[0] = i;
        far[1] = k;
    }
    if (i == e->n)
        return k == recorded.n;
    if (strcmp(e->lines[i], "...") == 0)
        return match(e, i + 1, k, b, far) || (k < recorded.n && match(e, i, k + 1, b, far));
    return k < recorded.n && same_line(&b, e->lines[i], recorded.lines[k]) &&
           match(e, i + 1, k + 1, b, far);
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Without the comment and blanks around; false at the end. */
static bool next_line(FILE *f, char out[LINE_MAX_BYTES])
{
    char *begin, *end;

    if (!fgets(out, LINE_MAX_BYTES, f))
        return false;
    end = strchr(out, '#');
    if (end)
        *end = '\0';
    begin = out + strspn(out, " \t");
    memmove(out, begin, strlen(begin) + 1);
    for (end = out + strlen(out); end > out && isspace((unsigned char)end[-1]);)
        *--end = '\0';
    return true;
}

/* The lines of a scenario; false if the list has none of that name. */
static bool read_scenario(const char *path, const char *name, struct expected *e)
{
    FILE *f = fopen(path, "r");
    char text[LINE_MAX_BYTES];
    bool inside = false, found = false;

    if (!f) {
        fprintf(stderr, "callbacks: cannot open '%s'\n", path);
        exit(1);
    }
    e->n = 0;
    while (next_line(f, text)) {
        if (strncmp(text, "scenario ", 9) == 0) {
            inside = strcmp(text + 9, name) == 0;
            found |= inside;
        } else if (inside && text[0] && e->n < LINES_MAX) {
            memcpy(e->lines[e->n++], text, sizeof(text));
        }
    }
    fclose(f);
    return found;
}

/* ---- running --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    CUpti_CallbackDomain domain;
} domains[] = {{"driver", CUPTI_CB_DOMAIN_DRIVER_API},
               {"runtime", CUPTI_CB_DOMAIN_RUNTIME_API},
               {"resource", CUPTI_CB_DOMAIN_RESOURCE},
               {"sync", CUPTI_CB_DOMAIN_SYNCHRONIZE},
               {"nvtx", CUPTI_CB_DOMAIN_NVTX}};

static void enable(CUpti_SubscriberHandle s, const char *which, bool on)
{
    for (size_t i = 0; i < sizeof(domains) / sizeof(domains[0]); i++)
        if (strstr(which, domains[i].name))
            OK(CUPTI(cuptiEnableDomain)(on, s, domains[i].domain));
}

static void run(const struct scenario *c, CUpti_SubscriberHandle subscriber, struct stage *stage)
{
    recorded.n = 0;
    if (c->before)
        c->before(stage);
    enable(subscriber, c->domains, true);
    c->run(stage);
    enable(subscriber, c->domains, false);
    if (c->after)
        c->after(stage);
}

static bool compare(const struct scenario *c, const char *list)
{
    static struct expected e;
    size_t far[2] = {0, 0};

    if (!read_scenario(list, c->name, &e)) {
        printf("%s: not in the list\n", c->name);
        return false;
    }
    if (match(&e, 0, 0, (struct bindings){.n = 0}, far))
        return true;
    printf("%s: expected, after %zu lines: %s\n%s: got: %s\n", c->name, far[0],
           far[0] < e.n ? e.lines[far[0]] : "the end", c->name,
           far[1] < recorded.n ? recorded.lines[far[1]] : "the end");
    for (size_t i = 0; i < recorded.n; i++)
        printf("    %s\n", recorded.lines[i]);
    return false;
}

static void print(const struct scenario *c)
{
    printf("\nscenario %s\n", c->name);
    for (size_t i = 0; i < recorded.n; i++)
        printf("%s\n", recorded.lines[i]);
}

static bool wanted(const char *name, char **argv)
{
    bool any = *argv == NULL;

    for (; *argv; argv++)
        any |= strcmp(*argv, name) == 0;
    return any;
}

static void open_library(enum cb_library which, const char *path)
{
    libraries[which] = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (libraries[which])
        return;
    printf("skipped: %s\n", dlerror());
    exit(77);
}

static int usage(void)
{
    fprintf(stderr, "usage: callbacks [-d LIBCUDA] [-r LIBCUDART] [-c LIBCUPTI] [-p] LIST "
                    "[SCENARIO...]\n");
    return 2;
}

/* The first scenario makes the stage, so it always runs; libcupti is where NVTX finds it too. */
int main(int argc, char **argv)
{
    const char *paths[CB_LIBRARIES] = {"libcuda.so.1", "libcudart.so." CB_MAJOR,
                                       "libcupti.so." CB_MAJOR};
    CUpti_SubscriberHandle subscriber;
    struct stage stage = {0};
    bool only_print = false;
    int failed = 0, ran = 0, n = 0;

    for (argv++; *argv && **argv == '-'; argv++) {
        if (strcmp(*argv, "-p") == 0)
            only_print = true;
        else if (strchr("drc", (*argv)[1]) && argv[1])
            paths[strchr("drc", (*argv)[1]) - "drc"] = argv[1], argv++;
        else
            return usage();
    }
    if (argc < 2 || !*argv)
        return usage();
    for (int i = 0; i < CB_LIBRARIES; i++)
        open_library((enum cb_library)i, paths[i]);
    setenv("NVTX_INJECTION64_PATH", paths[CB_CUPTI], 1);
    if (CUPTI(cuptiSubscribe)(&subscriber, record, NULL) != CUPTI_SUCCESS) {
        printf("skipped: no driver, or another subscriber\n");
        return 77;
    }
    for (size_t i = 0; i < cb_nscenarios; i++) {
        const struct scenario *c = &cb_scenarios[i];

        run(c, subscriber, &stage);
        if (i == 0 && (CU(cuDeviceGetCount)(&n) != CUDA_SUCCESS || n == 0)) {
            printf("skipped: no device\n");
            return 77;
        }
        if (!wanted(c->name, argv + 1))
            continue;
        ran++;
        if (only_print)
            print(c);
        else
            failed += !compare(c, argv[0]);
    }
    OK(CUPTI(cuptiUnsubscribe)(subscriber));
    printf("%d scenarios, %d not as in the list\n", ran, failed);
    return failed || !ran;
}
