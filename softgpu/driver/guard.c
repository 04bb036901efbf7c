#include "softgpu/driver/guard.h"

#include "softgpu/driver/lend.h"
#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/strict.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE UINT64_C(4096)
#define PENDING_MAX 1024 /* more are not guarded */

struct sg_guard {
    uint64_t addr, size; /* whole pages */
    int prot;            /* what the host may still do */
    struct sg_end who;   /* the copy */
    struct CUctx_st *ctx;
    bool told;
    struct sg_guard *next;
};

/* The one state of this file; under @lock, which is held for moments, by the handler too: nobody
 * touches guarded memory while he holds it. */
static struct {
    pthread_mutex_t lock;
    struct sg_guard *all;
    unsigned n, lifted;
    struct sigaction before; /* whose turn it is for what is none of ours */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool handling;

/* ---- pages ----------------------------------------------------------------------------------- */

static void protect(const struct sg_guard *g, int prot)
{
    if (mprotect((void *)(uintptr_t)g->addr, g->size, prot) != 0)
        sg_log(2, "strict: cannot guard %llu bytes of host memory", (unsigned long long)g->size);
}

static bool meets(const struct sg_guard *a, const struct sg_guard *b)
{
    return a->addr < b->addr + b->size && b->addr < a->addr + a->size;
}

/* Gives the pages of @g back, but for what others guard too; the strictest come last. */
static void open_pages(const struct sg_guard *g)
{
    protect(g, PROT_READ | PROT_WRITE);
    for (int pass = 0; pass < 2; pass++)
        for (const struct sg_guard *o = state.all; o && !state.lifted; o = o->next)
            if (o != g && !o->told && meets(o, g) && (o->prot == PROT_NONE) == pass)
                protect(o, o->prot);
}

/* ---- the signal ------------------------------------------------------------------------------ */

static void tell(const struct sg_guard *g, uint64_t addr, bool write, uintptr_t site)
{
    struct sg_finding f = {.rule = SG_RULE_HOST_TOUCH, .address = addr, .other = g->who};
    char text[256];

    f.at.by = (struct sg_by){.call = "host code", .site = site};
    f.at.access = write ? "write" : "read";
    f.other.access = g->prot == PROT_NONE ? "write" : "read";
    sg_book_near(addr, &f.near);
    sg_strict_site_text(site, text, sizeof(text));
    snprintf(f.text, sizeof(f.text),
             "the host %s %#llx at %s, which '%s' (call %llu, stream %llu) is still to %s",
             write ? "writes" : "reads", (unsigned long long)addr, *text ? text : "?",
             g->who.by.call ? g->who.by.call : "a copy", (unsigned long long)g->who.by.number,
             (unsigned long long)g->who.stream, f.other.access);
    sg_report(&f);
}

static bool stops(const struct sg_guard *g, uint64_t addr, bool write)
{
    return addr - g->addr < g->size && (g->prot == PROT_NONE || write);
}

/* Opens what guards the address; false: nothing does. */
static bool touched(uint64_t addr, bool write, uintptr_t site)
{
    const struct sg_item *item = sg_tls()->strict.item;
    bool device = item && item->work && item->work->w.kind != SG_WORK_HOST, ours = false;

    pthread_mutex_lock(&state.lock);
    for (struct sg_guard *g = state.all; g; g = g->next) {
        struct sg_guard copy = *g;
        int none = 0;

        if (!stops(g, addr, write))
            continue;
        ours = true;
        if (g->told) /* another thread was first */
            continue;
        g->told = true;
        open_pages(g);
        if (device) /* a race of two works: order.h sees it */
            continue;
        if (sg_driver.opt.strict == SG_STRICT_FAIL)
            atomic_compare_exchange_strong(&sg_context_root(g->ctx)->sticky, &none,
                                           (int)CUDA_ERROR_ILLEGAL_STATE);
        pthread_mutex_unlock(&state.lock);
        tell(&copy, addr, write, site);
        pthread_mutex_lock(&state.lock);
        break; /* the list may be another one; what guards it too stops the thread again */
    }
    pthread_mutex_unlock(&state.lock);
    return ours;
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
    struct sigaction before = state.before;

    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(sig, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(sig);
    } else {
        before.sa_handler = SIG_DFL;
        sigaction(sig, &before, NULL); /* the instruction is tried again, and ends the process */
    }
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    const ucontext_t *u = context;
    uint64_t addr = (uintptr_t)info->si_addr;
    bool write = u->uc_mcontext.gregs[REG_ERR] & 2;
    struct sigaction plain = {.sa_handler = SIG_DFL};

    if (handling) { /* a handler that was here before us came back to us */
        sigaction(sig, &plain, NULL);
        return;
    }
    handling = true;
    if (info->si_code <= 0 ||
        (!sg_lent_touched(addr, write, (uintptr_t)u->uc_mcontext.gregs[REG_RIP]) &&
         !touched(addr, write, (uintptr_t)u->uc_mcontext.gregs[REG_RIP])))
        pass_on(sig, info, context);
    handling = false;
}

/* Ours is the first; a program may have set its own since. */
static bool listen(void)
{
    struct sigaction now, ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER};

    if (sigaction(SIGSEGV, NULL, &now) != 0)
        return false;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
        return true;
    state.before = now;
    sigemptyset(&ours.sa_mask);
    return sigaction(SIGSEGV, &ours, NULL) == 0;
}

bool sg_guard_listen(void)
{
    bool ok;

    pthread_mutex_lock(&state.lock);
    ok = listen();
    pthread_mutex_unlock(&state.lock);
    return ok;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* The whole pages of one end, if it is memory of the host without gaps. */
static bool pages_of(uint64_t addr, const struct sg_copy_work *c, uint64_t pitch, uint64_t slice,
                     struct sg_guard *g)
{
    uint64_t n = c->width * c->height * c->depth, first = (addr + PAGE - 1) & ~(PAGE - 1);
    uint64_t last = (addr + n) & ~(PAGE - 1);
    struct sg_rec rec;

    if ((c->height > 1 && pitch != c->width) || (c->depth > 1 && slice != c->width * c->height) ||
        first >= last || !sg_rec_holds(addr, n, &rec) || !rec.host)
        return false;
    g->addr = first;
    g->size = last - first;
    return true;
}

static bool make(const struct sg_copy_work *c, struct sg_guard *g)
{
    g->prot = PROT_NONE;
    if (pages_of(c->dst, c, c->dst_pitch, c->dst_slice, g))
        return true;
    g->prot = PROT_READ;
    return !c->staged && pages_of(c->src, c, c->src_pitch, c->src_slice, g);
}

void sg_guard_item(struct sg_item *i)
{
    struct sg_guard g = {.ctx = i->ctx}, *kept;

    if (!i->work || i->work->w.kind != SG_WORK_COPY || state.n >= PENDING_MAX ||
        !make(&i->work->w.copy, &g))
        return;
    g.who.by = i->work->w.by;
    g.who.stream = i->stream->id;
    kept = malloc(sizeof(*kept));
    if (!kept)
        return;
    pthread_mutex_lock(&state.lock);
    if (listen()) {
        *kept = g;
        kept->next = state.all;
        state.all = kept;
        state.n++;
        i->guard = kept;
        if (!state.lifted)
            open_pages(&(struct sg_guard){.addr = g.addr, .size = g.size});
    } else {
        free(kept);
    }
    pthread_mutex_unlock(&state.lock);
}

void sg_guard_release(struct sg_item *i)
{
    struct sg_guard *g = i->guard, **at = &state.all;

    if (!g)
        return;
    i->guard = NULL;
    pthread_mutex_lock(&state.lock);
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    state.n--;
    open_pages(g);
    pthread_mutex_unlock(&state.lock);
    free(g);
}

void sg_guard_lift(void)
{
    pthread_mutex_lock(&state.lock);
    if (state.lifted++ == 0)
        for (const struct sg_guard *g = state.all; g; g = g->next)
            protect(g, PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&state.lock);
}

void sg_guard_restore(void)
{
    pthread_mutex_lock(&state.lock);
    if (--state.lifted == 0)
        for (int pass = 0; pass < 2; pass++)
            for (const struct sg_guard *g = state.all; g; g = g->next)
                if (!g->told && (g->prot == PROT_NONE) == pass)
                    protect(g, g->prot);
    pthread_mutex_unlock(&state.lock);
}
