/*
 * A job in NCCL's place: loads the profiler plugin that NCCL_PROFILER_PLUGIN names, as NCCL does,
 * and calls it as NCCL does. No collective runs.
 *
 *   nccl_job VERSION WHAT...     VERSION 4, 5 or 6: the newest that this NCCL knows
 *
 *   +NAME:RANK:RANKS:HOSTS       a communicator is made; the first has number 1
 *   N:FUNC:COUNT:ALGO:PROTO:CHANNELS:WARPS   communicator N launches a collective; ALGO CE: by copy
 *                                engines, version 6 alone
 *   N?FUNC:COUNT                 it is called, and NCCL does not tell what ran: symmetric kernels
 *   -N                           communicator N is destroyed
 *   threads:T:CALLS              T threads, each with a communicator of its own, all-reduce
 *   fork                         what follows happens in a child; the parent waits for it
 *   libcuda                      a context of the first device is current from here on
 *
 * Prints a line for each communicator: the events that the plugin asks for. Layouts are declared
 * here once more, whole, and not taken from what is tested.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COLL = 2, GROUP_API = 256, COLL_API = 512, CE_COLL = 4096, MAX_COMMS = 64 };

struct coll4 {
    uint64_t seq;
    const char *func;
    void const *send;
    void *recv;
    size_t count;
    int root;
    const char *datatype;
    uint8_t channels;
    uint8_t warps;
    const char *algo;
    const char *proto;
};

struct event4 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct coll4 coll;
        struct {
            int64_t id;
            void *data;
        } net;
    } u;
};

struct event6 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *func;
            size_t count;
            const char *datatype;
            int root;
            void *stream;
            bool captured;
        } api;
        struct {
            struct coll4 coll;
            void *group;
        } coll;
        struct {
            uint64_t seq;
            const char *func;
            void const *send;
            void *recv;
            size_t count;
            int root;
            const char *datatype;
            const char *strategy;
            bool intra;
            uint32_t size, batches, number;
            void *stream;
        } ce;
    } u;
};

typedef int init4(void **, int *, const char *, uint64_t, int, int, int, void (*)(void));
typedef int init5(void **, uint64_t, int *, const char *, int, int, int, void (*)(void));

struct profiler {
    const char *name;
    union {
        init4 *four;
        init5 *five;
    } init;
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*state)(void *, int, void *);
    int (*finalize)(void *);
};

struct comm {
    void *context;
    int rank, mask;
    uint64_t seq;
};

static const struct profiler *plugin; /* set once, before any thread */
static int version;

static void fail(const char *what)
{
    fprintf(stderr, "nccl_job: %s\n", what);
    exit(9);
}

static void load(void)
{
    const char *path = getenv("NCCL_PROFILER_PLUGIN");
    char name[32];
    void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!lib) {
        printf("no plugin\n");
        return;
    }
    for (int v = version; v >= 4 && !plugin; v--) {
        snprintf(name, sizeof(name), "ncclProfiler_v%d", v);
        plugin = dlsym(lib, name);
        version = v;
    }
    if (!plugin)
        fail("the plugin has no version that is known");
}

static void ignored_log(void)
{
}

static void make(struct comm *c, const char *name, int nodes, int ranks, int rank)
{
    uint64_t id = (uint64_t)getpid() << 20 | (uint64_t)rank; /* chance, as NCCL's is */
    int rc;

    *c = (struct comm){.rank = rank};
    if (!plugin)
        return;
    if (version == 4)
        rc = plugin->init.four(&c->context, &c->mask, name, id, nodes, ranks, rank, ignored_log);
    else
        rc = plugin->init.five(&c->context, id, &c->mask, name, nodes, ranks, rank, ignored_log);
    if (rc != 0)
        fail("init failed");
    printf("version %d events %d\n", version, c->mask);
}

/* What comes with a collective: an API event, which the plugin declines */
static void api_event(struct comm *c, int type, const char *func, size_t count)
{
    struct event6 e = {.type = (uint64_t)type, .rank = c->rank};
    void *handle = &e;

    e.u.api.func = func;
    e.u.api.count = count;
    if (plugin->start(c->context, &handle, &e) != 0 || handle)
        fail("an event was not declined");
}

static void launch(struct comm *c, const char *func, size_t count, const char *algo,
                   const char *proto, unsigned channels, unsigned warps)
{
    struct coll4 coll = {c->seq++,          func,           NULL, NULL, count, 0, "ncclFloat32",
                         (uint8_t)channels, (uint8_t)warps, algo, proto};
    bool ce = strcmp(algo, "CE") == 0;
    struct event4 four = {.type = COLL, .rank = c->rank, .u.coll = coll};
    struct event6 six = {.type = ce ? CE_COLL : COLL, .rank = c->rank, .u.coll.coll = coll};
    void *handle = &four;

    if (!plugin || !(c->mask & (ce ? CE_COLL : COLL)))
        return;
    memset((char *)&four + 1, 0xee, 7); /* NCCL does not fill that */
    if (version > 4) {
        api_event(c, GROUP_API, func, count);
        api_event(c, COLL_API, func, count);
    }
    errno = 77;
    if (plugin->start(c->context, &handle, version == 4 ? (void *)&four : (void *)&six) != 0)
        fail("an event failed");
    if (errno != 77)
        fail("errno was changed");
    if (handle)
        fail("an event has a handle");
}

static void destroy(struct comm *c)
{
    if (plugin && c->context && plugin->finalize(c->context) != 0)
        fail("finalize failed");
    c->context = NULL;
    c->mask = 0;
}

/* ---------------------------------------------------------------- threads */

struct work {
    struct comm comm;
    int calls;
};

static void *many(void *arg)
{
    struct work *w = arg;

    for (int i = 0; i < w->calls; i++)
        launch(&w->comm, i % 2 ? "AllReduce" : "AllGather", 1u << (i % 20), "RING", "SIMPLE", 8,
               17);
    destroy(&w->comm);
    return NULL;
}

static void threads(int n, int calls)
{
    pthread_t thread[MAX_COMMS];
    struct work work[MAX_COMMS];

    if (n > MAX_COMMS)
        fail("too many threads");
    for (int i = 0; i < n; i++) {
        make(&work[i].comm, "", 1, n, i);
        work[i].calls = calls;
    }
    for (int i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, many, &work[i]) != 0)
            fail("no thread");
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

/* ---------------------------------------------------------------- what is asked for */

static void in_child(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        return;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        fail("no child");
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 9);
}

static void context(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = NULL, (*retain)(void **, int) = NULL, (*set)(void *) = NULL;
    void *made;

    if (!lib)
        fail("no libcuda.so.1");
    *(void **)&init = dlsym(lib, "cuInit");
    *(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(lib, "cuCtxSetCurrent");
    if (!init || !retain || !set || init(0) != 0 || retain(&made, 0) != 0 || set(made) != 0)
        fail("no context");
}

static void untold(struct comm *comms, int made, const char *arg)
{
    char func[24];
    unsigned which;
    size_t count;

    if (sscanf(arg, "%u?%23[^:]:%zu", &which, func, &count) != 3 || which < 1 || (int)which > made)
        fail(arg);
    if (plugin && version > 4 && comms[which - 1].mask)
        api_event(&comms[which - 1], COLL_API, func, count);
}

static void collective(struct comm *comms, int made, const char *arg)
{
    char func[24], algo[24], proto[24];
    unsigned which, channels, warps;
    size_t count;

    if (sscanf(arg, "%u:%23[^:]:%zu:%23[^:]:%23[^:]:%u:%u", &which, func, &count, algo, proto,
               &channels, &warps) != 7 ||
        which < 1 || (int)which > made)
        fail(arg);
    launch(&comms[which - 1], func, count, algo, proto, channels, warps);
}

int main(int argc, char **argv)
{
    static struct comm comms[MAX_COMMS];
    int made = 0, rank, ranks, nodes, n, calls;
    char name[40];

    if (argc < 2)
        fail("usage: nccl_job VERSION WHAT...");
    version = atoi(argv[1]);
    load();
    for (int i = 2; i < argc && made < MAX_COMMS; i++) {
        if (sscanf(argv[i], "+%39[^:]:%d:%d:%d", name, &rank, &ranks, &nodes) == 4)
            make(&comms[made++], name, nodes, ranks, rank);
        else if (sscanf(argv[i], "threads:%d:%d", &n, &calls) == 2)
            threads(n, calls);
        else if (argv[i][0] == '-')
            destroy(&comms[atoi(argv[i] + 1) - 1]);
        else if (strcmp(argv[i], "fork") == 0)
            in_child();
        else if (strcmp(argv[i], "libcuda") == 0)
            context();
        else if (strchr(argv[i], '?'))
            untold(comms, made, argv[i]);
        else
            collective(comms, made, argv[i]);
    }
    return 0;
}
