/*
 * What NCCL did in this process: of each communicator its calls, of each function what was chosen.
 * One lock for all, taken for each collective; what is new is said under it, which happens a few
 * times in a job.
 */
#include "recorder/nccl/nccl_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/recorder.h"

/* This library's one state: written by the threads that call NCCL, under its lock; emptied in a
 * child that was forked. */
static struct {
    pthread_mutex_t lock;
    pid_t pid; /* of the process that it is of, 0: nothing yet */
    bool on;   /* something is to be read */
    bool forks;
    struct nccl_process process;
} whole = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---------------------------------------------------------------- what was chosen */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001B3u;
    return mix(h, 0);
}

static void copy(char *out, size_t size, const char *text)
{
    size_t n = strnlen(text, size - 1);

    memcpy(out, text, n);
    out[n] = 0;
}

static bool add_word(struct nccl_words *w, const char *word)
{
    char cut[sizeof(w->word[0])];

    copy(cut, sizeof(cut), word);
    for (unsigned i = 0; i < w->count; i++)
        if (strcmp(w->word[i], cut) == 0)
            return false;
    if (w->count == NCCL_WORDS)
        return false;
    memcpy(w->word[w->count++], cut, sizeof(cut));
    return true;
}

static bool widen(unsigned range[2], unsigned n)
{
    bool first = range[1] == 0;
    bool wider = first || n < range[0] || n > range[1];

    range[0] = first || n < range[0] ? n : range[0];
    range[1] = n > range[1] ? n : range[1];
    return wider && n != 0;
}

/* The entry of that function; NULL: there is no room */
static struct nccl_func *func_of(struct nccl_func all[NCCL_FUNCS], const char *name, bool *first)
{
    *first = false;
    for (int i = 0; i < NCCL_FUNCS; i++) {
        if (!all[i].name[0]) {
            copy(all[i].name, sizeof(all[i].name), name);
            *first = true;
            return &all[i];
        }
        if (strncmp(all[i].name, name, sizeof(all[i].name) - 1) == 0)
            return &all[i];
    }
    return NULL;
}

/* Is there something in it that was not seen before? */
static bool learn(struct nccl_func *f, const struct nccl_call *call)
{
    bool news = add_word(&f->algo, call->algo);

    news |= add_word(&f->proto, call->proto);
    news |= widen(f->channels, call->channels);
    news |= widen(f->warps, call->warps);
    return news;
}

/* ---------------------------------------------------------------- the same size again */

/* Its entry, new ones with the call's choice in it; NULL: there is no room */
static struct nccl_size *size_of(struct nccl_comm *c, const struct nccl_call *call, bool *first)
{
    uint64_t key = mix_text(mix_text(mix(0, call->count), call->func), call->datatype) | 1;
    unsigned i = (unsigned)(key >> 32) % NCCL_SIZES;

    while (c->size[i].key && c->size[i].key != key)
        i = (i + 1) % NCCL_SIZES;
    *first = !c->size[i].key;
    if (*first && c->sizes == NCCL_SIZES * 3 / 4)
        return NULL;
    c->sizes += *first;
    c->size[i].key = key;
    return &c->size[i];
}

static void keep(struct nccl_size *s, const struct nccl_call *call)
{
    copy(s->algo, sizeof(s->algo), call->algo);
    copy(s->proto, sizeof(s->proto), call->proto);
    s->channels = call->channels;
    s->warps = call->warps;
}

/* @before: what it was. True: something else now */
static bool differs(struct nccl_comm *c, const struct nccl_call *call, struct nccl_size *before)
{
    bool first;
    struct nccl_size *s = size_of(c, call, &first);

    if (!s)
        return false;
    bool other = !first && (strncmp(s->algo, call->algo, sizeof(s->algo) - 1) != 0 ||
                            strncmp(s->proto, call->proto, sizeof(s->proto) - 1) != 0 ||
                            s->channels != call->channels || s->warps != call->warps);
    *before = *s;
    if (first || other)
        keep(s, call);
    return other;
}

static void count(uint64_t *calls, uint64_t *order, uint64_t what)
{
    (*calls)++;
    *order = mix(*order, what);
}

static void note(struct nccl_process *p, struct nccl_comm *c, const struct nccl_call *call)
{
    struct nccl_size before;
    bool first, any;
    struct nccl_func *all = func_of(p->func, call->func, &any);
    struct nccl_func *own = func_of(c->func, call->func, &first);
    uint64_t h = mix_text(mix_text(call->count, call->func), call->datatype);

    h = mix_text(mix_text(mix(h, (uint64_t)call->root), call->algo), call->proto);
    h = mix(mix(h, call->seq), call->channels << 8 | call->warps);
    count(&c->calls, &c->order, h);
    count(&p->calls, &p->order, mix_text(h, c->who));
    bool news = all && learn(all, call);
    if (all)
        all->ran++;
    bool changed = differs(c, call, &before);
    if (first)
        nccl_say_first(p, c, call);
    if (changed && own)
        nccl_say_change(p, c, own, call, &before);
    if (news)
        nccl_say_all(p);
    nccl_send(p);
}

/* ---------------------------------------------------------------- the process */

/* A child has the parent's memory and none of its threads: NCCL has to begin anew in it. */
static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    whole.lock = fresh;
    whole.pid = 0;
    whole.on = false;
    memset(&whole.process, 0, sizeof(whole.process));
}

static const void *runtime(void)
{
    const struct tb_rec_api *(*get)(void) = NULL;

    *(void **)&get = dlsym(RTLD_DEFAULT, "twinbit_runtime");
    return get ? get() : NULL;
}

/* Under the lock, at each communicator: only the first one asks */
static bool wanted(void)
{
    struct nccl_process *p = &whole.process;

    if (whole.pid)
        return whole.on;
    whole.pid = (pid_t)syscall(SYS_getpid);
    if (!getenv(TB_WIRE_ENV) || !nccl_requests_read(p->request))
        return false;
    if (!whole.forks && pthread_atfork(NULL, NULL, in_child) != 0)
        return false;
    whole.forks = true;
    p->msg = (struct tb_wire_msg){.magic = TB_WIRE_MAGIC,
                                  .version = TB_WIRE_VERSION,
                                  .size = sizeof(p->msg),
                                  .kind = TB_MSG_PIN,
                                  .pid = whole.pid};
    p->runtime = runtime();
    whole.on = true;
    return true;
}

struct nccl_comm *nccl_comm_new(const char *name, int nodes, int ranks, int rank)
{
    struct nccl_process *p = &whole.process;
    struct nccl_comm *c = NULL;

    (void)pthread_mutex_lock(&whole.lock);
    if (wanted())
        c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    c = c == MAP_FAILED ? NULL : c;
    if (c) {
        (void)snprintf(c->who, sizeof(c->who), "communicator %u (rank %d of %d)", ++p->made, rank,
                       ranks);
        c->next = p->comms;
        p->comms = c;
        nccl_say_ranks(p, c, name, nodes, ranks, rank);
        nccl_send(p);
    }
    (void)pthread_mutex_unlock(&whole.lock);
    return c;
}

void nccl_comm_call(struct nccl_comm *c, const struct nccl_call *call)
{
    (void)pthread_mutex_lock(&whole.lock);
    if (whole.on)
        note(&whole.process, c, call);
    (void)pthread_mutex_unlock(&whole.lock);
}

void nccl_comm_asked(const char *func)
{
    bool first;

    (void)pthread_mutex_lock(&whole.lock);
    struct nccl_func *f = whole.on ? func_of(whole.process.func, func, &first) : NULL;
    if (f)
        f->asked++;
    (void)pthread_mutex_unlock(&whole.lock);
}

void nccl_comm_end(struct nccl_comm *c)
{
    struct nccl_process *p = &whole.process;
    struct nccl_comm **at = &p->comms;

    (void)pthread_mutex_lock(&whole.lock);
    while (*at && *at != c)
        at = &(*at)->next;
    if (*at) { /* else it is the parent's */
        *at = c->next;
        nccl_say_order(p, c);
        nccl_send(p);
        (void)munmap(c, sizeof(*c));
    }
    (void)pthread_mutex_unlock(&whole.lock);
}

/* Few jobs destroy their communicators. Threads may be in NCCL still: nobody is waited for. */
__attribute__((destructor)) static void at_exit(void)
{
    struct nccl_process *p = &whole.process;
    int saved = errno;

    if (!whole.on || pthread_mutex_trylock(&whole.lock) != 0)
        return;
    for (const struct nccl_comm *c = p->comms; c; c = c->next)
        nccl_say_order(p, c);
    nccl_say_order(p, NULL);
    nccl_say_untold(p);
    nccl_send(p);
    (void)pthread_mutex_unlock(&whole.lock);
    errno = saved;
}
