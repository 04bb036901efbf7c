/*
 * cuLink*: PTX that the driver links, and gives back as machine code. What that does is known from
 * the PTX where it is all there is of it, as of a kernel of numba's. Where several parts are linked
 * it is not: what one of them says of a kernel holds without the functions of the others.
 */
#include "recorder/cuda/engine.h"

/* struct tb_cu_link - what was added so far */
struct tb_cu_link {
    struct tb_cu_link *next_free;
    const struct tb_wire_kernels *info; /* of the first part */
    uint32_t parts;
};

static struct tb_cu_link *new_link(void)
{
    struct tb_cu_link *l = tb_cu.free_links;

    if (l)
        tb_cu.free_links = l->next_free;
    else
        l = tb_cu_small(sizeof(*l));
    if (l)
        *l = (struct tb_cu_link){.parts = 0};
    return l;
}

/* @data NULL: not looked into */
static void add(uint64_t handle, CUjitInputType type, const void *data, size_t n)
{
    bool text = type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_FATBINARY;
    const struct tb_wire_kernels *info = NULL;
    size_t bytes = 0;

    tb_cu_lock();
    struct tb_cu_link *l = tb_cu_map_get(&tb_cu.links, handle);
    if (!l && (l = new_link()) != NULL && !tb_cu_map_put(&tb_cu.links, handle, l))
        l = NULL;
    bool first = l && l->parts++ == 0;
    tb_cu_unlock();
    if (!first || !text || !data)
        return;
    info = tb_cu.api->image(data, n, &bytes);
    tb_cu_lock();
    l->info = info;
    tb_cu_unlock();
}

static void complete(uint64_t handle, const void *image)
{
    tb_cu_lock();
    const struct tb_cu_link *l = tb_cu_map_get(&tb_cu.links, handle);
    const struct tb_wire_kernels *info = l && l->parts == 1 ? l->info : NULL;
    tb_cu_unlock();
    if (info && info->kernels)
        tb_cu_code_linked(image, info);
}

static void destroyed(uint64_t handle)
{
    tb_cu_lock();
    struct tb_cu_link *l = tb_cu_map_take(&tb_cu.links, handle);
    if (l) {
        l->next_free = tb_cu.free_links;
        tb_cu.free_links = l;
    }
    tb_cu_unlock();
}

void tb_cu_link_enter(struct tb_cuda_call *c)
{
    PARAMS(cuLinkDestroy);

    if (c->id == TB_CUDA_cuLinkDestroy)
        destroyed(HANDLE(p->state));
}

void tb_cu_link_exit(struct tb_cuda_call *c)
{
    if (c->result != CUDA_SUCCESS)
        return;
    switch (c->id) {
    case TB_CUDA_cuLinkAddData:
    case TB_CUDA_cuLinkAddData_v2: {
        PARAMS(cuLinkAddData_v2);
        add(HANDLE(p->state), p->type, p->data, p->size);
        break;
    }
    case TB_CUDA_cuLinkAddFile:
    case TB_CUDA_cuLinkAddFile_v2: {
        PARAMS(cuLinkAddFile_v2);
        add(HANDLE(p->state), p->type, NULL, 0);
        break;
    }
    case TB_CUDA_cuLinkComplete: {
        PARAMS(cuLinkComplete);
        if (p->cubinOut)
            complete(HANDLE(p->state), *p->cubinOut);
        break;
    }
    }
}
