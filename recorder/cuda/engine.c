/* What the recorder knows of the device until it hashes there: which calls were made, and how many
 * of them changed memory unseen. */
#include <string.h>

#include "recorder/cuda/front.h"
#include "recorder/cuda/names.h"

/* Written by tb_cuda_start(), before any call is handed over. */
static const struct tb_rec_api *recorder;

static const struct tb_rec_api *api(void)
{
    return __atomic_load_n(&recorder, __ATOMIC_ACQUIRE);
}

bool tb_cuda_start(const struct tb_cuda_front *front, const struct tb_rec_api *to)
{
    struct tb_rec_thread *t = to->self();

    __atomic_store_n(&recorder, to, __ATOMIC_RELEASE);
    if (t)
        to->meta(t, "cuda.tap", front->name);
    return t != NULL;
}

void tb_cuda_enter(struct tb_cuda_call *call)
{
    *call->user = 1;
}

void tb_cuda_exit(struct tb_cuda_call *call)
{
    const char *name = tb_cuda_id_name(call->id);
    struct tb_rec_thread *t = *call->user && name ? api()->self() : NULL;

    if (t)
        api()->cover(t, strncmp(name, "cuLaunch", 8) == 0, TB_REC_NO_SEQ, "cuda-call", name,
                     "seen, not hashed", 1);
}

void tb_cuda_legal(void)
{
}

void tb_cuda_unknown(uint32_t id, const char *name)
{
    struct tb_rec_thread *t = api() ? api()->self() : NULL;

    (void)id;
    if (t)
        api()->cover(t, 1, TB_REC_NO_SEQ, "cuda-unknown", name ? name : "?",
                     "a function that this twinbit does not know", 1);
}

void tb_cuda_range(const char *push)
{
    if (api())
        api()->user_range(push);
}
