/* What the runtime and Python call. */
#include "recorder/pytap/pytap_internal.h"

#include <stdlib.h>
#include <string.h>

struct tb_pt_global tb_pt = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct tb_pt_thread *self; /* made at a thread's first call; kept */

static struct tb_pt_thread *thread_state(void)
{
    if (!self) {
        self = calloc(1, sizeof(*self));
        if (self) {
            self->generation = UINT32_MAX;
            self->last_seq = -1;
        } else {
            tb_pt.api->stop("no memory for the Python tap");
        }
    }
    return self;
}

/* A fork in the middle of another thread's call: the child begins with a free lock. */
static void after_fork(void)
{
    (void)pthread_mutex_init(&tb_pt.lock, NULL);
}

TB_PT_EXPORT int twinbit_tap_init(const struct tb_rec_api *api);
TB_PT_EXPORT int twinbit_tap_init(const struct tb_rec_api *api)
{
    if (api->version != TB_REC_API_VERSION || api->size < sizeof(*api))
        return 1;
    tb_pt.api = api;
    tb_pt.inputs = (api->config->flags & TB_CFG_INPUTS) != 0;
    tb_pt.window = api->config->step_from != 0 || api->config->step_to != UINT64_MAX;
    tb_pt_snap_parse(api->config->snapshots);
    return pthread_atfork(NULL, NULL, after_fork) == 0 ? 0 : 1;
}

/* ---------------------------------------------------------------- operator calls */

uint32_t twinbit_op_wants(void)
{
    struct tb_pt_thread *t = thread_state();
    uint64_t step = __atomic_load_n(&tb_pt.step, __ATOMIC_RELAXED);
    const struct tb_wire_config *config = tb_pt.api->config;

    if (!t || t->suppressed || config->level < TB_LEVEL_OP || t->running == TB_PT_DEPTH)
        return 0;
    if (tb_pt.window && (step < config->step_from || step > config->step_to))
        return 0;
    if (!tb_pt.api->self())
        return 0;
    return TB_PT_RECORD | (tb_pt.inputs ? TB_PT_INPUTS : 0);
}

int twinbit_op_level(void)
{
    return tb_pt.api->config->level >= TB_LEVEL_OP;
}

void twinbit_op_seq(int64_t next_seq)
{
    struct tb_pt_thread *t = thread_state();

    if (!t || next_seq < 0)
        return;
    int64_t from = t->last_seq >= 0 && next_seq - t->last_seq < 64 ? t->last_seq : next_seq - 1;
    uint32_t module = tb_pt_module(t);
    for (int64_t s = from < 0 ? 0 : from; s < next_seq; s++) {
        __atomic_store_n(&tb_pt.seqs[s & (TB_PT_SEQS - 1)].seq, s, __ATOMIC_RELAXED);
        __atomic_store_n(&tb_pt.seqs[s & (TB_PT_SEQS - 1)].module, module, __ATOMIC_RELAXED);
    }
    t->last_seq = next_seq;
}

static uint32_t module_of_seq(int64_t seq)
{
    if (seq < 0 ||
        __atomic_load_n(&tb_pt.seqs[seq & (TB_PT_SEQS - 1)].seq, __ATOMIC_RELAXED) != seq)
        return 0;
    return __atomic_load_n(&tb_pt.seqs[seq & (TB_PT_SEQS - 1)].module, __ATOMIC_RELAXED);
}

/* Modules entered since the node began, as a recomputation does, count; those around backward() do
 * not. */
static void place(struct tb_pt_thread *t, const struct tb_pt_call *call)
{
    if (call->node != t->node) {
        t->node = call->node;
        t->node_name = call->node ? (uint32_t)call->node_name : 0;
        t->base = t->low;
        t->backward_module = call->node ? module_of_seq(call->node_seq) : 0;
    }
    t->low = t->depth;
    twinbit_op_seq(call->next_seq);
}

int twinbit_op_begin(const struct tb_pt_call *call, const int64_t *words, uint64_t n)
{
    struct tb_rec_thread *rt = tb_pt.api->self();
    struct tb_pt_thread *t = thread_state();

    if (!rt || !t || t->running == TB_PT_DEPTH)
        return 0;
    struct tb_pt_ctx *c = &t->ctx[t->running];
    tb_pt_ctx_begin(c, (uint32_t)call->op, (uint8_t)call->kind);
    place(t, call);
    if (!tb_pt_read_words(c, words, n)) {
        tb_pt.api->stop("the Python tap described an operator wrongly");
        return 0;
    }
    struct tb_fp_leaf h =
        tb_pt.api->xxh128((const void *)(uintptr_t)call->args, (size_t)call->args_size);
    c->args = h.lo ^ h.hi;
    tb_pt_resolve(c, rt, 0);
    tb_pt_snap_match(t, c);
    tb_pt_snap_take(c, rt, 0, 'r');
    t->running++;
    return 1;
}

void twinbit_op_end(const int64_t *words, uint64_t n, uint32_t flags)
{
    struct tb_pt_thread *t = thread_state();

    if (!t || t->running == 0)
        return;
    struct tb_pt_ctx *c = &t->ctx[--t->running];
    struct tb_rec_thread *rt = tb_pt.api->self();
    size_t reads = c->count;
    if (!rt || flags & TB_PT_SILENT)
        return;
    if (!tb_pt_read_words(c, words, n)) {
        tb_pt.api->stop("the Python tap described an operator wrongly");
        return;
    }
    c->partial = (flags & TB_PT_PARTIAL) != 0;
    tb_pt_resolve(c, rt, reads);
    tb_pt_snap_take(c, rt, reads, 'w');
    uint64_t seq = tb_pt_emit(t, c, rt, flags & TB_PT_FAILED ? TB_EVF_FAILED : 0);
    tb_pt_snap_send(c, rt, seq);
    if (seq != TB_REC_NO_SEQ)
        tb_pt_note_writes(c, reads, seq);
}

/* The context for an event that is no call, above those of running calls; NULL: none is free. */
static struct tb_pt_ctx *free_ctx(struct tb_pt_thread *t, const char *name, uint8_t kind)
{
    if (!t || t->running == TB_PT_DEPTH)
        return NULL;
    tb_pt_ctx_begin(&t->ctx[t->running], tb_pt_intern(name), kind);
    return &t->ctx[t->running];
}

void twinbit_op_empty(const int64_t *words, uint64_t n, int lifted)
{
    struct tb_pt_ctx *c = free_ctx(thread_state(), "", TB_EV_OP);

    if (!c || !tb_pt_read_words(c, words, n))
        return;
    (void)pthread_mutex_lock(&tb_pt.lock);
    for (size_t i = 0; i < c->count; i++) {
        struct tb_pt_alloc *al = tb_pt_alloc_find(&c->access[i]);
        if (al && al->writes == 0 && al->origin == (lifted ? TB_PT_EMPTY : TB_PT_UNKNOWN))
            al->origin = lifted ? TB_PT_UNKNOWN : TB_PT_EMPTY;
    }
    (void)pthread_mutex_unlock(&tb_pt.lock);
}

void twinbit_storage_drop(uint64_t storage)
{
    (void)pthread_mutex_lock(&tb_pt.lock);
    tb_pt_alloc_drop(storage);
    (void)pthread_mutex_unlock(&tb_pt.lock);
}

/* ---------------------------------------------------------------- the end of a step */

void twinbit_state_tensors(const int64_t *words, uint64_t n)
{
    struct tb_rec_thread *rt = tb_pt.api->self();
    struct tb_pt_thread *t = thread_state();
    struct tb_pt_ctx *c = rt ? free_ctx(t, "state", TB_EV_STATE) : NULL;

    if (!c || !tb_pt_read_words(c, words, n))
        return;
    tb_pt_resolve(c, rt, 0);
    (void)tb_pt_emit(t, c, rt, 0);
}

static void emit_state(uint32_t name, struct tb_fp fp)
{
    struct tb_rec_thread *rt = tb_pt.api->self();
    struct tb_pt_thread *t = thread_state();
    struct tb_pt_ctx *c = rt ? free_ctx(t, "state", TB_EV_STATE) : NULL;
    const int64_t words[TB_PT_WORDS] = {'s' | (int64_t)TB_PT_CONTIGUOUS << 32, name};

    if (!c || !tb_pt_read_words(c, words, TB_PT_WORDS))
        return;
    c->access[0].fp = fp;
    c->access[0].fp_kind = TB_FP_STATE;
    (void)tb_pt_emit(t, c, rt, 0);
}

void twinbit_state_rng(const void *state, uint64_t n)
{
    uint8_t kind;

    emit_state(tb_pt_intern("rng:cpu:default"), tb_pt_rng(state, n, &kind));
}

/* ---------------------------------------------------------------- as the C++ tap */

TB_PT_EXPORT uint32_t twinbit_intern(const char *s);
TB_PT_EXPORT uint32_t twinbit_intern(const char *s)
{
    return tb_pt_intern(s);
}

TB_PT_EXPORT void twinbit_module_push(uint32_t id);
TB_PT_EXPORT void twinbit_module_push(uint32_t id)
{
    struct tb_pt_thread *t = thread_state();

    if (t && t->depth++ < TB_PT_MODULES)
        t->modules[t->depth - 1] = id;
}

TB_PT_EXPORT void twinbit_module_pop(void);
TB_PT_EXPORT void twinbit_module_pop(void)
{
    struct tb_pt_thread *t = thread_state();

    if (t && t->depth && --t->depth < t->low)
        t->low = t->depth;
}

TB_PT_EXPORT void twinbit_optimizer(int inside);
TB_PT_EXPORT void twinbit_optimizer(int inside)
{
    struct tb_pt_thread *t = thread_state();

    if (t)
        t->optimizer = inside != 0;
}

TB_PT_EXPORT uint32_t twinbit_flags(void);
TB_PT_EXPORT uint32_t twinbit_flags(void)
{
    return tb_pt.api->config->flags;
}

TB_PT_EXPORT void twinbit_suppress(int delta);
TB_PT_EXPORT void twinbit_suppress(int delta)
{
    struct tb_pt_thread *t = thread_state();

    if (t)
        t->suppressed += delta;
}

TB_PT_EXPORT void twinbit_line(uint32_t id);
TB_PT_EXPORT void twinbit_line(uint32_t id)
{
    struct tb_pt_thread *t = thread_state();

    if (t)
        t->line = id;
}

TB_PT_EXPORT uint64_t twinbit_step_now(void);
TB_PT_EXPORT uint64_t twinbit_step_now(void)
{
    return __atomic_load_n(&tb_pt.step, __ATOMIC_RELAXED);
}

TB_PT_EXPORT void twinbit_step_set(uint64_t step);
TB_PT_EXPORT void twinbit_step_set(uint64_t step)
{
    __atomic_store_n(&tb_pt.step, step, __ATOMIC_RELAXED);
}

TB_PT_EXPORT int twinbit_active(void);
TB_PT_EXPORT int twinbit_active(void)
{
    return tb_pt.api->self() != NULL;
}

TB_PT_EXPORT void twinbit_cover(unsigned severity, const char *kind, const char *subject,
                                const char *detail);
TB_PT_EXPORT void twinbit_cover(unsigned severity, const char *kind, const char *subject,
                                const char *detail)
{
    struct tb_rec_thread *rt = tb_pt.api->self();

    if (rt)
        tb_pt.api->cover(rt, severity, TB_REC_NO_SEQ, kind, subject, detail, 1);
}

TB_PT_EXPORT void twinbit_meta(const char *key, const char *value);
TB_PT_EXPORT void twinbit_meta(const char *key, const char *value)
{
    struct tb_rec_thread *rt = tb_pt.api->self();

    if (rt)
        tb_pt.api->meta(rt, key, value);
}

/* Pointers to at::TensorImpl, which nothing here can read: twinbit_state_tensors() is asked
 * instead. */
TB_PT_EXPORT void twinbit_state(const uintptr_t *impls, const uint32_t *names, uint32_t n);
TB_PT_EXPORT void twinbit_state(const uintptr_t *impls, const uint32_t *names, uint32_t n)
{
    (void)impls;
    (void)names;
    if (n)
        twinbit_cover(1, "fallback", "state", "tensors given by address cannot be read");
}

TB_PT_EXPORT void twinbit_state_bytes(uint32_t name, const void *p, size_t n);
TB_PT_EXPORT void twinbit_state_bytes(uint32_t name, const void *p, size_t n)
{
    emit_state(name, tb_pt.api->fp_host_pool(p, n, 0, NULL));
}

TB_PT_EXPORT void twinbit_step_end(int64_t step);
TB_PT_EXPORT void twinbit_step_end(int64_t step)
{
    struct tb_rec_thread *rt = tb_pt.api->self();
    struct tb_pt_thread *t = thread_state();

    if (step >= 0)
        twinbit_step_set((uint64_t)step);
    struct tb_pt_ctx *c = rt ? free_ctx(t, "step", TB_EV_STEP) : NULL;
    if (c)
        (void)tb_pt_emit(t, c, rt, 0);
    __atomic_fetch_add(&tb_pt.step, 1, __ATOMIC_RELAXED);
    tb_pt_snap_new_step();
}
