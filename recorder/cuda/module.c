/* Modules and libraries: their code, its hash, and what the collector knows of its kernels. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/cuda/engine.h"

#define MOST_MACHINE                                                                               \
    (UINT64_C(64) << 20) /* bytes of machine code that is only asked for variables */

/* Variables that the host writes, too: launches are looked at before they are queued from now on.
 */
static void note_managed(const struct tb_wire_kernels *h)
{
    const struct tb_wire_global *globals = tb_wire_global_list(h);

    for (uint32_t i = 0; i < h->globals; i++)
        if (globals[i].flags & TB_GLOBAL_MANAGED)
            __atomic_store_n(&tb_cu.shared, 1, __ATOMIC_RELAXED);
}

static struct tb_cu_image *find_image(uint64_t key)
{
    tb_cu_lock();
    struct tb_cu_image *i = tb_cu_map_get(&tb_cu.images, key);
    tb_cu_unlock();
    return i;
}

static struct tb_cu_image *add_image(const struct tb_rec_code *code,
                                     const struct tb_wire_kernels *info)
{
    if (info)
        note_managed(info);
    tb_cu_lock();
    struct tb_cu_image *i = tb_cu_small(sizeof(*i));
    if (i) {
        memcpy(i->hash, &code->hash, sizeof(i->hash));
        i->info = info;
        (void)tb_cu_map_put(&tb_cu.images, code->hash.lo | 1, i);
    }
    tb_cu_unlock();
    return i;
}

void tb_cu_code_linked(const void *image, const struct tb_wire_kernels *info)
{
    struct tb_rec_code code = tb_cu.api->code(image);

    if (code.pieces && !find_image(code.hash.lo | 1))
        (void)add_image(&code, info);
}

/* Each code once, however often it is loaded. Not under the lock: the collector is asked. */
static struct tb_cu_image *image_of(const void *image)
{
    struct tb_rec_code code = tb_cu.api->code(image);
    const struct tb_wire_kernels *info = NULL;
    struct tb_cu_image *i = code.pieces ? find_image(code.hash.lo | 1) : NULL;
    size_t bytes = 0;

    if (i || !code.pieces)
        return i;
    if (code.ptx || code.bytes <= MOST_MACHINE)
        info = tb_cu.api->image(image, SIZE_MAX, &bytes);
    if (!info && bytes == SIZE_MAX)
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", "module",
                    "what its kernels write was not found out from its code: there was no answer");
    return add_image(&code, info);
}

void tb_cu_code_add(uint64_t handle, const void *image, bool library)
{
    struct tb_cu_image *i = image ? image_of(image) : NULL;

    tb_cu_here();
    tb_cu_lock();
    struct tb_cu_code *c = tb_cu_small(sizeof(*c));
    if (c) {
        *c = (struct tb_cu_code){handle, i, tb_cu_tls.context, library};
        (void)tb_cu_map_put(&tb_cu.codes, handle, c);
    }
    tb_cu_unlock();
}

/* Handles are used again: what hung on this one is forgotten. */
static void drop(struct tb_cu_code *c)
{
    for (uint32_t i = 0; c && i < tb_cu.kernels.capacity; i++) {
        uint64_t key = tb_cu.kernels.slot[i].key;
        struct tb_cu_kernel *k = key ? tb_cu_map_get(&tb_cu.kernels, key) : NULL;
        if (!k || k->code != c)
            continue;
        k->ready = true; /* if it was new: there is nothing to ask any more */
        (void)tb_cu_map_take(&tb_cu.kernels, key);
        tb_cu_kernels_changed();
    }
    if (c)
        tb_cu_alloc_remove_of(NULL, c->handle, -1);
}

void tb_cu_code_remove(uint64_t handle)
{
    tb_cu_lock();
    drop(tb_cu_map_take(&tb_cu.codes, handle));
    tb_cu_unlock();
}

void tb_cu_codes_forget(CUcontext context)
{
    for (uint32_t i = 0; i < tb_cu.codes.capacity; i++) {
        uint64_t key = tb_cu.codes.slot[i].key;
        struct tb_cu_code *c = key ? tb_cu_map_get(&tb_cu.codes, key) : NULL;
        if (c && !c->library && (c->context == context || !context))
            drop(tb_cu_map_take(&tb_cu.codes, key));
    }
}

/* ---------------------------------------------------------------- calls */

static void add_file(uint64_t handle, const char *path, bool library)
{
    struct stat st;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    size_t bytes = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 0;
    /* a page more than the file: a text in it has an end */
    void *p =
        bytes ? mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
              : MAP_FAILED;

    if (p != MAP_FAILED && pread(fd, p, bytes, 0) == (ssize_t)bytes)
        tb_cu_code_add(handle, p, library);
    else
        tb_cu_code_add(handle, NULL, library);
    if (p != MAP_FAILED)
        (void)munmap(p, bytes + 4096);
    if (fd >= 0)
        (void)close(fd);
}

void tb_cu_module_enter(struct tb_cuda_call *c)
{
    if (c->id == TB_CUDA_cuModuleUnload) {
        PARAMS(cuModuleUnload);
        tb_cu_code_remove(HANDLE(p->hmod));
    } else if (c->id == TB_CUDA_cuLibraryUnload) {
        PARAMS(cuLibraryUnload);
        tb_cu_code_remove(HANDLE(p->library));
    }
}

static void loaded(struct tb_cuda_call *c)
{
    switch (c->id) {
    case TB_CUDA_cuModuleLoad: {
        PARAMS(cuModuleLoad);
        add_file(HANDLE(*p->module), p->fname, false);
        break;
    }
    case TB_CUDA_cuModuleLoadData: {
        PARAMS(cuModuleLoadData);
        tb_cu_code_add(HANDLE(*p->module), p->image, false);
        break;
    }
    case TB_CUDA_cuModuleLoadDataEx: {
        PARAMS(cuModuleLoadDataEx);
        tb_cu_code_add(HANDLE(*p->module), p->image, false);
        break;
    }
    case TB_CUDA_cuModuleLoadFatBinary: {
        PARAMS(cuModuleLoadFatBinary);
        tb_cu_code_add(HANDLE(*p->module), p->fatCubin, false);
        break;
    }
    case TB_CUDA_cuLibraryLoadData: {
        PARAMS(cuLibraryLoadData);
        tb_cu_code_add(HANDLE(*p->library), p->code, true);
        break;
    }
    case TB_CUDA_cuLibraryLoadFromFile: {
        PARAMS(cuLibraryLoadFromFile);
        add_file(HANDLE(*p->library), p->fileName, true);
        break;
    }
    }
}

/* A library's module and kernels of it have handles of their own for the same code. */
static void alias_code(uint64_t from, uint64_t to)
{
    tb_cu_lock();
    struct tb_cu_code *c = tb_cu_map_get(&tb_cu.codes, from);
    if (c)
        (void)tb_cu_map_put(&tb_cu.codes, to, c);
    tb_cu_unlock();
}

static void alias_kernel(uint64_t from, uint64_t to)
{
    tb_cu_lock();
    struct tb_cu_kernel *k = tb_cu_map_get(&tb_cu.kernels, from);
    if (k && tb_cu_map_get(&tb_cu.kernels, to) != k) {
        (void)tb_cu_map_put(&tb_cu.kernels, to, k);
        tb_cu_kernels_changed();
    }
    tb_cu_unlock();
}

/* The host asked for a variable's address: from here on it has its name, and not only once a kernel
 * that uses it is known. */
/* @flags: what the call itself says of it */
static void variable(uint64_t code, const char *name, uint32_t flags, CUdeviceptr address,
                     size_t bytes)
{
    tb_cu_here();
    tb_cu_lock();
    const struct tb_cu_code *c = tb_cu_map_get(&tb_cu.codes, code);
    flags |= tb_cu_global_flags(c, name);
    (void)tb_cu_variable(c ? c->handle : code, name, flags, address, bytes);
    tb_cu_unlock();
}

void tb_cu_module_exit(struct tb_cuda_call *c)
{
    if (c->result != CUDA_SUCCESS)
        return;
    switch (c->id) {
    case TB_CUDA_cuModuleGetFunction: {
        PARAMS(cuModuleGetFunction);
        tb_cu_kernel_add(HANDLE(*p->hfunc), HANDLE(p->hmod), p->name);
        break;
    }
    case TB_CUDA_cuLibraryGetKernel: {
        PARAMS(cuLibraryGetKernel);
        tb_cu_kernel_add(HANDLE(*p->pKernel), HANDLE(p->library), p->name);
        break;
    }
    case TB_CUDA_cuLibraryGetModule: {
        PARAMS(cuLibraryGetModule);
        alias_code(HANDLE(p->library), HANDLE(*p->pMod));
        break;
    }
    case TB_CUDA_cuKernelGetFunction: {
        PARAMS(cuKernelGetFunction);
        alias_kernel(HANDLE(p->kernel), HANDLE(*p->pFunc));
        break;
    }
    case TB_CUDA_cuModuleGetGlobal_v2: {
        PARAMS(cuModuleGetGlobal_v2);
        if (p->dptr && p->bytes)
            variable(HANDLE(p->hmod), p->name, 0, *p->dptr, *p->bytes);
        break;
    }
    case TB_CUDA_cuLibraryGetGlobal: {
        PARAMS(cuLibraryGetGlobal);
        if (p->dptr && p->bytes)
            variable(HANDLE(p->library), p->name, 0, *p->dptr, *p->bytes);
        break;
    }
    case TB_CUDA_cuLibraryGetManaged: { /* as a runtime does for what kernels get as an argument
                                           only */
        PARAMS(cuLibraryGetManaged);
        if (p->dptr && p->bytes) {
            __atomic_store_n(&tb_cu.shared, 1, __ATOMIC_RELAXED);
            variable(HANDLE(p->library), p->name, TB_GLOBAL_MANAGED, *p->dptr, *p->bytes);
        }
        break;
    }
    default:
        loaded(c);
    }
}
