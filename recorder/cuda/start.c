/* Start, and what every call passes: whose call it is, and which handler it is for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "recorder/cuda/engine.h"

struct tb_cu tb_cu;
_Thread_local struct tb_cu_tls tb_cu_tls;
_Thread_local bool tb_cuda_own;

bool tb_cuda_start(const struct tb_cuda_front *front, const struct tb_rec_api *api)
{
    static const char *const names[] = {
#define NAME(name) #name,
        TB_CU_DRIVER(NAME)
#undef NAME
    };
    void **slot = (void **)&tb_cu.driver;
    struct tb_rec_thread *t;

    if (!api || api->version != TB_REC_API_VERSION || api->size < sizeof(*api) || tb_cu.api)
        return false;
    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++)
        slot[i] = front->symbol(names[i]);
    tb_cu.front = front;
    tb_cu.config = api->config;
    tb_cu.at_enter = (api->config->flags & TB_CFG_INPUTS) || api->config->snapshots[0];
    tb_cu.windowed = api->config->step_from || api->config->step_to != UINT64_MAX;
    tb_cu.marks = api->config->level == TB_LEVEL_BOUNDARY ||
                  (tb_cu.windowed && api->config->level >= TB_LEVEL_OP);
    tb_cu.generation = api->generation();
    tb_cu.api = api;
    if ((t = api->self()) != NULL)
        api->meta(t, "cuda.tap", front->name);
    api->cuda_is(tb_cu_service());
    __atomic_store_n(&tb_cu.on, 1, __ATOMIC_RELEASE);
    return true;
}

void tb_cu_cover(unsigned severity, uint64_t seq, const char *kind, const char *subject,
                 const char *detail)
{
    struct tb_rec_thread *t = tb_cu.api->self();

    if (t)
        tb_cu.api->cover(t, severity, seq, kind, subject, detail, 1);
}

tb_cold static bool in_window(void)
{
    static bool told;
    uint64_t step = tb_cu.api->step();

    if (step >= tb_cu.config->step_from && step <= tb_cu.config->step_to)
        return true;
    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        tb_cu_cover(1, TB_REC_NO_SEQ, "window", "steps",
                    "work of a GPU outside of --steps is left out");
    return false;
}

bool tb_cu_recording(void)
{
    uint32_t level = tb_cu.config->level;

    if (level < TB_LEVEL_OP || (level == TB_LEVEL_OP && tb_cu_tls.op_depth))
        return false;
    return (tb_likely(!tb_cu.windowed) || in_window()) && !tb_cu.api->paused();
}

/* ---------------------------------------------------------------- calls to handlers */

enum kind { NOBODY, LAUNCH, COPY, MEMORY, MODULE, LINK, STREAM, GRAPH, CONTEXT };

static const uint8_t kinds[] = {
#define CALL(kind, name) [TB_CUDA_##name] = kind,
#include "recorder/cuda/calls.def"
#undef CALL
};

static void (*const enters[])(struct tb_cuda_call *) = {
    [LAUNCH] = tb_cu_launch_enter,   [COPY] = tb_cu_copy_enter,     [MEMORY] = tb_cu_memory_enter,
    [MODULE] = tb_cu_module_enter,   [STREAM] = tb_cu_stream_enter, [GRAPH] = tb_cu_graph_enter,
    [CONTEXT] = tb_cu_context_enter, [LINK] = tb_cu_link_enter,
};

static void (*const exits[])(struct tb_cuda_call *) = {
    [LAUNCH] = tb_cu_launch_exit,   [COPY] = tb_cu_copy_exit,     [MEMORY] = tb_cu_memory_exit,
    [MODULE] = tb_cu_module_exit,   [STREAM] = tb_cu_stream_exit, [GRAPH] = tb_cu_graph_exit,
    [CONTEXT] = tb_cu_context_exit, [LINK] = tb_cu_link_exit,
};

static enum kind kind_of(uint32_t id)
{
    return id < TB_ARRAY_LEN(kinds) ? (enum kind)kinds[id] : NOBODY;
}

static inline bool is_on(void)
{
    return tb_likely(__atomic_load_n(&tb_cu.on, __ATOMIC_ACQUIRE));
}

/* A forked child: what its parent had of CUDA is not the child's. */
static inline bool is_ours(void)
{
    return is_on() && tb_likely(tb_cu.api->generation() == tb_cu.generation);
}

static bool may_call(const struct tb_cuda_call *call)
{
    return call->legal || !(tb_cu.config->flags & TB_CFG_DEFER);
}

/* Nothing is done before a launch. */
static inline bool is_late(enum kind kind)
{
    return kind == LAUNCH && !tb_cu_has_learners() && !tb_cu_has_shared() && !tb_cu_at_enter() &&
           !tb_cu_stresses();
}

void tb_cuda_enter(struct tb_cuda_call *call)
{
    enum kind kind = kind_of(call->id);

    if (kind == NOBODY || !is_on() || is_late(kind) || !is_ours() || !tb_cu.api->enter())
        return;
    int saved = errno;
    tb_cu_tls.may_call = may_call(call);
    enters[kind](call);
    tb_cu.api->leave();
    errno = saved;
}

void tb_cuda_exit(struct tb_cuda_call *call)
{
    enum kind kind = kind_of(call->id);
    int saved = errno;

    if (kind == NOBODY || !is_ours() || !tb_cu.api->enter())
        return;
    tb_cu_tls.may_call = may_call(call);
    if (tb_unlikely(call->result != CUDA_SUCCESS))
        tb_cu_fault(call);
    exits[kind](call);
    if (tb_cu_fills())
        tb_cu_fill_told();
    tb_cu.api->leave();
    errno = saved;
}

void tb_cuda_legal(void)
{
    struct tb_cu_work *w = tb_cu_tls.pending;
    bool asks = __atomic_load_n(&tb_cu.new_kernels, __ATOMIC_RELAXED) != NULL;

    if (tb_likely(!w && !asks && !tb_cu_tls.late.what) || !is_ours() || !tb_cu.api->enter())
        return;
    struct tb_cu_late late = tb_cu_tls.late;
    int saved = errno;
    tb_cu_tls.may_call = true;
    tb_cu_tls.pending = NULL;
    tb_cu_tls.late.what = NULL;
    if (late.what)
        late.what(late.a, late.b);
    if (w && tb_cu_capturing(w->stream, w->per_thread))
        tb_cu_work_drop(w); /* it joined a capture in a way that no call told */
    else if (w)
        tb_cu_work_end(w);
    if (asks)
        tb_cu_kernels_ask();
    if (tb_cu_fills())
        tb_cu_fill_told();
    tb_cu.api->leave();
    errno = saved;
}

void tb_cu_late(void (*what)(uint64_t a, uint64_t b), uint64_t a, uint64_t b)
{
    if (tb_cu_tls.may_call) {
        what(a, b);
        return;
    }
    if (tb_cu_tls.late.what)
        tb_cu_cover(
            1, TB_REC_NO_SEQ, "cuda", "call",
            "no place was reached where CUDA may be called: what the call made is not known");
    tb_cu_tls.late = (struct tb_cu_late){what, a, b};
}

void tb_cuda_unknown(uint32_t id, const char *name)
{
    char text[128];
    bool first = false;

    if (!is_ours() || !tb_cu.api->enter())
        return;
    uint64_t key = tb_cu_mix_text(id + 1, name ? name : "");
    tb_cu_lock();
    if (!tb_cu_map_get(&tb_cu.unknown, key))
        first = tb_cu_map_put(&tb_cu.unknown, key, &tb_cu);
    tb_cu_unlock();
    (void)snprintf(text, sizeof(text), "call %u of a newer driver than this twinbit knows", id);
    if (first)
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", name ? name : "?", text);
    tb_cu.api->leave();
}

void tb_cuda_range(const char *push)
{
    if (is_ours())
        tb_cu.api->user_range(push);
}
