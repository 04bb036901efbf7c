/*
 * Threads and how they are told apart: a thread's number follows from who made it and how many that
 * one had made before, so it does not depend on which thread runs first.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

/** struct start - what a new thread begins with; pooled, or in a page of its own */
struct start {
    uint32_t used; /* 1: in the pool; 2: mapped */
    uint32_t n;
    uint64_t thread, maker;
    void *(*run)(void *);
    void *arg;
};

/* Taken by makers of threads, given back by the threads. */
static struct start pool[128];

static struct start *take(void)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(pool); i++) {
        uint32_t none = 0;
        if (__atomic_compare_exchange_n(&pool[i].used, &none, 1, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return &pool[i];
    }
    struct start *s =
        tb_sys_map(sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s)
        s->used = 2;
    return s;
}

static void give_back(struct start *s)
{
    if (s->used == 2)
        tb_sys_unmap(s, sizeof(*s));
    else
        __atomic_store_n(&s->used, 0, __ATOMIC_RELEASE);
}

static void *begin(void *arg)
{
    struct start s = *(struct start *)arg;

    give_back(arg);
    tb_pins_tls.thread = s.thread;
    tb_pins_tls.maker = s.maker;
    tb_pins_tls.maker_n = s.n;
    return s.run(s.arg);
}

void tb_pins_know(struct tb_pins_proc *p)
{
    if (tb_pins_tls.thread)
        return;
    if (tb_sys3(SYS_gettid, 0, 0, 0) == (long)p->pid) {
        tb_pins_tls.thread = TB_PRELOAD_MAIN;
        return;
    }
    tb_pins_tls.maker_n = __atomic_add_fetch(&p->threads, 1, __ATOMIC_RELAXED);
    tb_pins_tls.thread = tb_preload_mix(p->id, 0x6F72646572ull + tb_pins_tls.maker_n);
    tb_pins_tls.marks = TB_PRELOAD_BY_ORDER;
}

void tb_pins_thread(struct tb_pins_proc *p)
{
    struct tb_preload_record *r;
    uint64_t offset;

    tb_pins_know(p);
    if (tb_pins_tls.told)
        return;
    tb_pins_tls.told = true;
    if (tb_pins_tls.thread == TB_PRELOAD_MAIN)
        return;
    r = tb_pins_log_room(p, 0, &offset);
    if (!r)
        return;
    r->kind = TB_PRELOAD_THREAD;
    r->marks = (uint16_t)tb_pins_tls.marks;
    r->thread = tb_pins_tls.thread;
    r->asked = tb_pins_tls.maker;
    r->served = tb_pins_tls.maker_n;
    tb_pins_log_whole(r, offset);
}

TB_EXPORT int pthread_create(pthread_t *restrict out, const pthread_attr_t *restrict attr,
                             void *(*run)(void *), void *restrict arg)
{
    struct tb_pins_proc *p = tb_pins_self();
    struct start *s = NULL;

    if (p) {
        tb_pins_know(p);
        s = take();
    }
    if (!s)
        return TB_NEXT(pthread_create)(out, attr, run, arg);
    s->n = ++tb_pins_tls.threads;
    s->maker = tb_pins_tls.thread;
    s->thread = tb_preload_mix(s->maker ^ 0x746872656164ull, s->n);
    s->run = run;
    s->arg = arg;
    int error = TB_NEXT(pthread_create)(out, attr, begin, s);
    if (error) {
        tb_pins_tls.threads--;
        give_back(s);
    }
    return error;
}
