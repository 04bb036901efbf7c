/* Rows of pins from what was seen, and the way to the collector (wire.h, TB_MSG_PIN). */
#include "recorder/nccl/nccl_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "recorder/recorder.h"

#define VALUE 160u /* the collector keeps no more of it */

/* ---------------------------------------------------------------- the message */

static void post(const struct tb_wire_msg *msg)
{
    const char *path = getenv(TB_WIRE_ENV);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct timeval limit = {0, 500000};
    int cancel, fd = -1;

    if (!path || strlen(path) >= sizeof(to.sun_path))
        return;
    memcpy(to.sun_path, path, strlen(path) + 1);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
            (void)send(fd, msg, sizeof(*msg), MSG_NOSIGNAL);
        (void)close(fd);
    }
    (void)pthread_setcancelstate(cancel, &cancel);
}

void nccl_send(struct nccl_process *p)
{
    if (!p->used)
        return;
    post(&p->msg);
    memset(p->msg.text, 0, p->used);
    p->used = 0;
}

/* The step that runs, "-" before the first has ended: the recorder's word */
static void step_text(const struct nccl_process *p, char out[24])
{
    const struct tb_rec_api *api = p->runtime;
    uint64_t step = api ? api->step() : 0;

    (void)snprintf(out, 24, step ? "%" PRIu64 : "-", step);
}

static void say(struct nccl_process *p, enum nccl_pin pin, const char *state, const char *value,
                const char *where)
{
    char step[24];

    if (p->request[pin].asked == NCCL_ASKED_NOT)
        return;
    if (p->used + 600 > sizeof(p->msg.text))
        nccl_send(p);
    step_text(p, step);
    int n = snprintf(p->msg.text + p->used, sizeof(p->msg.text) - p->used,
                     "%s\t%s\t%s\t%.200s\t%.200s\n", nccl_pin_id(pin), state, step, value, where);
    p->used += n > 0 ? (size_t)n : 0;
}

/* snprintf() at the end of @out, which holds VALUE bytes */
__attribute__((format(printf, 2, 3))) static void add(char out[VALUE], const char *form, ...)
{
    size_t used = strlen(out);
    va_list args;

    va_start(args, form);
    (void)vsnprintf(out + used, VALUE - used, form, args);
    va_end(args);
}

/* ---------------------------------------------------------------- a communicator */

/* Of the device that is current in this thread: "GPU 0000:1b:00.0", or nothing */
static void add_gpu(char out[VALUE])
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*current)(int *) = NULL, (*bus_id)(char *, int, int) = NULL, device;
    char bus[64] = "";

    if (!cuda)
        return;
    *(void **)&current = dlsym(cuda, "cuCtxGetDevice");
    *(void **)&bus_id = dlsym(cuda, "cuDeviceGetPCIBusId");
    if (current && bus_id && current(&device) == 0 && bus_id(bus, sizeof(bus), device) == 0)
        add(out, ", GPU %.40s", bus);
    (void)dlclose(cuda);
}

void nccl_say_ranks(struct nccl_process *p, const struct nccl_comm *c, const char *name, int nodes,
                    int ranks, int rank)
{
    char value[VALUE] = "", where[VALUE] = "", host[48] = "";

    if (p->request[NCCL_PIN_RANKS].asked == NCCL_ASKED_NOT)
        return;
    (void)gethostname(host, sizeof(host) - 1);
    add(value, "rank %d of %d on %d host%s, host %s", rank, ranks, nodes, nodes == 1 ? "" : "s",
        host);
    add_gpu(value);
    add(where, "%.*s", (int)strcspn(c->who, "("), c->who);
    where[strlen(where) - 1] = 0; /* the blank before it */
    if (name && *name)
        add(where, " '%.40s'", name);
    for (char *s = where; *s; s++)
        if (*s == '\t' || *s == '\n')
            *s = ' ';
    say(p, NCCL_PIN_RANKS, "read", value, where);
}

void nccl_say_first(struct nccl_process *p, const struct nccl_comm *c, const struct nccl_call *call)
{
    char value[VALUE], where[VALUE];

    (void)snprintf(where, sizeof(where), "%s in %s", call->func, c->who);
    say(p, NCCL_PIN_ALGO, "read", call->algo, where);
    say(p, NCCL_PIN_PROTO, "read", call->proto, where);
    (void)snprintf(value, sizeof(value), "%u", call->channels);
    if (call->channels)
        say(p, NCCL_PIN_CHANNELS, "read", value, where);
}

static void say_other(struct nccl_process *p, const struct nccl_comm *c, struct nccl_func *f,
                      enum nccl_pin pin, const struct nccl_call *call, const char *now,
                      const char *before)
{
    char where[VALUE];

    if (f->told[pin] || strcmp(now, before) == 0)
        return;
    f->told[pin] = true;
    (void)snprintf(where, sizeof(where), "%s of %" PRIu64 " %s in %s, %s before", call->func,
                   call->count, call->datatype, c->who, before);
    say(p, pin, "changed", now, where);
}

void nccl_say_change(struct nccl_process *p, const struct nccl_comm *c, struct nccl_func *f,
                     const struct nccl_call *call, const struct nccl_size *before)
{
    char now[24], was[24];

    (void)snprintf(now, sizeof(now), "%.19s", call->algo);
    say_other(p, c, f, NCCL_PIN_ALGO, call, now, before->algo);
    (void)snprintf(now, sizeof(now), "%.11s", call->proto);
    say_other(p, c, f, NCCL_PIN_PROTO, call, now, before->proto);
    (void)snprintf(now, sizeof(now), "%u", call->channels);
    (void)snprintf(was, sizeof(was), "%u", before->channels);
    say_other(p, c, f, NCCL_PIN_CHANNELS, call, now, was);
    (void)snprintf(now, sizeof(now), "%u warps", call->warps);
    (void)snprintf(was, sizeof(was), "%u warps", before->warps);
    say_other(p, c, f, NCCL_PIN_THREADS, call, now, was);
}

/* ---------------------------------------------------------------- all of them */

/* The function behind @name in the order of the alphabet; NULL: it is the last */
static const struct nccl_func *next_func(const struct nccl_process *p, const char *name)
{
    const struct nccl_func *next = NULL;

    for (int i = 0; i < NCCL_FUNCS && p->func[i].name[0]; i++)
        if (strcmp(p->func[i].name, name) > 0 && (!next || strcmp(p->func[i].name, next->name) < 0))
            next = &p->func[i];
    return next;
}

static void add_words(char out[VALUE], const struct nccl_words *w)
{
    for (unsigned i = 0; i < w->count; i++)
        add(out, "%s%s", i ? "+" : "", w->word[i]);
}

static void add_range(char out[VALUE], const unsigned range[2], const char *unit)
{
    if (range[0] == range[1])
        add(out, "%u%s", range[0], unit);
    else
        add(out, "%u..%u%s", range[0], range[1], unit);
}

/* "AllGather RING, AllReduce RING+TREE" */
static void summary(const struct nccl_process *p, enum nccl_pin pin, char out[VALUE])
{
    out[0] = 0;
    for (const struct nccl_func *f = next_func(p, ""); f; f = next_func(p, f->name)) {
        bool numbers = pin == NCCL_PIN_CHANNELS || pin == NCCL_PIN_THREADS;
        if (!f->algo.count || (numbers && !f->channels[1]))
            continue;
        add(out, "%s%s ", out[0] ? ", " : "", f->name);
        if (pin == NCCL_PIN_CHANNELS)
            add_range(out, f->channels, "");
        else if (pin == NCCL_PIN_THREADS)
            add_range(out, f->warps, " warps");
        else
            add_words(out, pin == NCCL_PIN_PROTO ? &f->proto : &f->algo);
    }
}

/* Is all that was seen what the variable allows? What copy engines do has no algorithm. */
static bool allowed(const struct nccl_process *p, enum nccl_pin pin)
{
    for (int i = 0; i < NCCL_FUNCS && p->func[i].name[0]; i++) {
        const struct nccl_func *f = &p->func[i];
        const struct nccl_words *w = pin == NCCL_PIN_PROTO ? &f->proto : &f->algo;
        for (unsigned k = 0; k < w->count; k++)
            if (strcmp(w->word[k], "CE") != 0 &&
                !nccl_allows(p->request[pin].value, f->name, w->word[k]))
                return false;
    }
    return true;
}

static void say_chosen(struct nccl_process *p, enum nccl_pin pin)
{
    char value[VALUE];
    enum nccl_asked asked = p->request[pin].asked;
    bool numbers = pin == NCCL_PIN_CHANNELS || pin == NCCL_PIN_THREADS;

    if (asked == NCCL_ASKED_JOB || (asked == NCCL_ASKED_SET && numbers))
        return; /* the variable's row stays; rows of communicators tell the rest */
    summary(p, pin, value);
    if (value[0])
        say(p, pin,
            asked == NCCL_ASKED_READ                      ? "read"
            : asked == NCCL_ASKED_KEEP || allowed(p, pin) ? "held"
                                                          : "missed",
            value, "");
}

/* Sums in switches: which functions took an algorithm of that name */
static void say_used(struct nccl_process *p, enum nccl_pin pin, const char *prefix)
{
    enum nccl_asked asked = p->request[pin].asked;
    bool off = strcmp(p->request[pin].value, "0") == 0;
    char value[VALUE] = "";

    for (const struct nccl_func *f = next_func(p, ""); f; f = next_func(p, f->name))
        for (unsigned i = 0; i < f->algo.count; i++)
            if (strncmp(f->algo.word[i], prefix, strlen(prefix)) == 0)
                add(value, "%s%s %s", value[0] ? ", " : "", f->name, f->algo.word[i]);
    if (asked == NCCL_ASKED_READ || asked == NCCL_ASKED_KEEP)
        say(p, pin, "read", value[0] ? value : "not used", "");
    else if (asked == NCCL_ASKED_SET && off)
        say(p, pin, value[0] ? "missed" : "held", value[0] ? value : "not used", "");
}

void nccl_say_all(struct nccl_process *p)
{
    say_chosen(p, NCCL_PIN_ALGO);
    say_chosen(p, NCCL_PIN_PROTO);
    say_chosen(p, NCCL_PIN_CHANNELS);
    say_chosen(p, NCCL_PIN_THREADS);
    say_used(p, NCCL_PIN_NVLS, "NVLS");
    say_used(p, NCCL_PIN_COLLNET, "COLLNET");
}

void nccl_say_untold(struct nccl_process *p)
{
    bool set = p->request[NCCL_PIN_ALGO].asked == NCCL_ASKED_SET;
    char value[VALUE], where[VALUE];

    for (const struct nccl_func *f = next_func(p, ""); f; f = next_func(p, f->name)) {
        bool sums = strncmp(f->name, "AllReduce", 9) == 0 || strncmp(f->name, "Reduce", 6) == 0;
        if (!sums || f->asked <= f->ran)
            continue;
        (void)snprintf(value, sizeof(value),
                       "no algorithm, as of symmetric kernels, for %" PRIu64 " of %" PRIu64
                       " calls",
                       f->asked - f->ran, f->asked);
        (void)snprintf(where, sizeof(where), "%s in all communicators", f->name);
        say(p, NCCL_PIN_ALGO, set ? "missed" : "read", value, where);
    }
}

void nccl_say_order(struct nccl_process *p, const struct nccl_comm *c)
{
    uint64_t calls = c ? c->calls : p->calls;
    char value[VALUE];

    (void)snprintf(value, sizeof(value), "%" PRIu64 " collectives, order %016" PRIx64, calls,
                   c ? c->order : p->order);
    if (calls)
        say(p, NCCL_PIN_ORDER, "read", value, c ? c->who : "all communicators");
}
