/* Libraries: code that belongs to no context. A module is made in a context when one of its kernels
 * or variables is first used there; code that is refused is refused when the library is loaded. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/hooks.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/stream.h"

#include <stdlib.h>
#include <string.h>

struct managed {
    uint64_t addr;
    size_t size;
};

struct CUkern_st {
    uint32_t magic;
    struct CUlib_st *lib;
    char *name;
    struct sg_func_attrs attrs[SG_MAX_DEVICES]; /* cuKernelSetAttribute: what is in .set */
    int cache_config[SG_MAX_DEVICES];
};

struct CUlib_st {
    uint32_t magic;
    struct sg_code code;
    char *name;
    struct CUkern_st *kernels;
    size_t nkernels;
    struct CUmod_st *modules;
    struct managed *managed; /* one set for all contexts */
    size_t nmanaged;
};

/* Guards modules and managed variables of all libraries; taken before sg_driver.lock. */
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- modules of a library ---- */

CUresult sg_library_managed(struct CUlib_st *lib, struct CUctx_st *ctx, size_t i, size_t size,
                            size_t align, uint64_t *addr)
{
    struct managed *more;
    CUresult r;

    if (i < lib->nmanaged) {
        *addr = lib->managed[i].addr;
        return CUDA_SUCCESS;
    }
    more = realloc(lib->managed, (i + 1) * sizeof(*more));
    if (!more)
        return CUDA_ERROR_OUT_OF_MEMORY;
    lib->managed = more;
    r = sg_alloc_new(ctx, size, align, SG_ALLOC_MANAGED, addr);
    if (r == CUDA_SUCCESS)
        lib->managed[lib->nmanaged++] = (struct managed){*addr, size};
    return r;
}

bool sg_library_owns(struct CUlib_st *lib, uint64_t addr)
{
    for (size_t i = 0; i < lib->nmanaged; i++)
        if (lib->managed[i].addr == addr)
            return true;
    return false;
}

static void free_managed(struct CUlib_st *lib)
{
    for (size_t i = 0; i < lib->nmanaged; i++)
        sg_alloc_free(lib->managed[i].addr);
    free(lib->managed);
    lib->managed = NULL;
    lib->nmanaged = 0;
}

void sg_library_forget(struct CUmod_st *m)
{
    pthread_mutex_lock(&library_lock);
    for (struct CUmod_st **p = &m->lib->modules; *p; p = &(*p)->next_in_lib) {
        if (*p == m) {
            *p = m->next_in_lib;
            break;
        }
    }
    if (!m->lib->modules)
        free_managed(m->lib);
    pthread_mutex_unlock(&library_lock);
}

/* The contents of managed variables: a further instance's image writes initial values over them. */
static char *save_managed(const struct CUlib_st *lib)
{
    size_t n = 1;
    char *copy, *p;

    for (size_t i = 0; i < lib->nmanaged; i++)
        n += lib->managed[i].size;
    copy = p = malloc(n);
    for (size_t i = 0; copy && i < lib->nmanaged; i++) {
        memcpy(p, (void *)(uintptr_t)lib->managed[i].addr, lib->managed[i].size);
        p += lib->managed[i].size;
    }
    return copy;
}

static void restore_managed(const struct CUlib_st *lib, size_t n, const char *copy)
{
    for (size_t i = 0; i < n; i++) {
        memcpy((void *)(uintptr_t)lib->managed[i].addr, copy, lib->managed[i].size);
        copy += lib->managed[i].size;
    }
}

/* What cuKernelSetAttribute said before this module was there. */
static void apply_attributes(struct CUlib_st *lib, struct CUmod_st *m)
{
    int d = m->ctx->dev->ordinal;

    for (size_t i = 0; i < lib->nkernels; i++) {
        struct CUkern_st *k = &lib->kernels[i];
        struct CUfunc_st *f = sg_module_function(m, k->name);

        if (f && k->attrs[d].set) {
            sg_function_attrs_put(f, &k->attrs[d]);
            f->attrs_set = 0;
        }
        if (f)
            f->cache_config = k->cache_config[d];
    }
}

/* Under library_lock. */
static CUresult instance(struct CUlib_st *lib, struct CUctx_st *ctx, struct CUmod_st **out,
                         struct tb_error *err)
{
    struct CUctx_st *root = sg_context_root(ctx);
    size_t n = lib->nmanaged;
    struct CUmod_st *m;
    char *saved;
    CUresult r;

    for (m = lib->modules; m; m = m->next_in_lib) {
        if (m->ctx == root) {
            *out = m;
            return CUDA_SUCCESS;
        }
    }
    saved = save_managed(lib);
    if (!saved)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = sg_module_new(root, &lib->code, lib->name, lib, &m, err);
    restore_managed(lib, n, saved);
    free(saved);
    if (r != CUDA_SUCCESS) {
        if (!lib->modules)
            free_managed(lib);
        return r;
    }
    m->next_in_lib = lib->modules;
    lib->modules = m;
    apply_attributes(lib, m);
    *out = m;
    return CUDA_SUCCESS;
}

static CUresult instance_now(struct CUlib_st *lib, struct CUctx_st *ctx, struct CUmod_st **out)
{
    struct sg_jit jit = {0};
    struct tb_error err = {0};
    CUresult r;

    pthread_mutex_lock(&library_lock);
    r = instance(lib, ctx, out, &err);
    pthread_mutex_unlock(&library_lock);
    sg_notice_flush();
    return sg_module_refused(r, lib->name, &jit, &err);
}

CUresult sg_kernel_function(CUkernel kernel, struct CUctx_st *ctx, struct CUfunc_st **out)
{
    struct CUmod_st *m = NULL;
    CUresult r = instance_now(kernel->lib, ctx, &m);

    if (r != CUDA_SUCCESS)
        return r;
    *out = sg_module_function(m, kernel->name);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- load and unload ---- */

static CUresult add_kernel(struct CUlib_st *lib, const char *name)
{
    struct CUkern_st *k = &lib->kernels[lib->nkernels];

    k->magic = SG_MAGIC_KERNEL;
    k->lib = lib;
    k->name = strdup(name);
    if (!k->name || !sg_handle_add(k, SG_MAGIC_KERNEL))
        return CUDA_ERROR_OUT_OF_MEMORY;
    lib->nkernels++;
    return CUDA_SUCCESS;
}

/* The kernels, by reading the texts: there may be no context yet. */
static CUresult list_kernels(struct CUlib_st *lib, struct tb_error *err)
{
    struct sg_ptx_module **mods = calloc(lib->code.n + 1, sizeof(*mods));
    CUresult r = mods ? sg_code_parse(&lib->code, lib->name, sg_driver.devices[0].arch, mods, err)
                      : CUDA_ERROR_OUT_OF_MEMORY;
    size_t n = 0;

    if (r != CUDA_SUCCESS) {
        free(mods);
        return r;
    }
    for (size_t i = 0; i < lib->code.n; i++)
        n += mods[i]->nfuncs;
    lib->kernels = calloc(n + 1, sizeof(*lib->kernels));
    if (!lib->kernels)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < lib->code.n; i++) {
        for (uint32_t f = 0; f < mods[i]->nfuncs && r == CUDA_SUCCESS; f++)
            if (mods[i]->funcs[f]->is_entry && mods[i]->funcs[f]->has_body)
                r = add_kernel(lib, mods[i]->funcs[f]->name);
        sg_ptx_free(mods[i]);
    }
    free(mods);
    return r;
}

static void library_free(struct CUlib_st *lib)
{
    sg_handle_remove(lib);
    for (size_t i = 0; i < lib->nkernels; i++) {
        sg_handle_remove(&lib->kernels[i]);
        free(lib->kernels[i].name);
    }
    free_managed(lib);
    free(lib->kernels);
    free(lib->name);
    sg_code_clear(&lib->code);
    free(lib);
}

/* Takes over @code. */
static CUresult library_new(struct sg_code *code, const char *name, struct CUlib_st **out,
                            struct tb_error *err)
{
    struct sg_tls *tls = sg_tls();
    struct CUctx_st *ctx = tls->depth ? tls->stack[tls->depth - 1] : NULL;
    struct CUlib_st *lib = calloc(1, sizeof(*lib));
    struct CUmod_st *m;
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

    if (!lib) {
        sg_code_clear(code);
        return r;
    }
    lib->magic = SG_MAGIC_LIBRARY;
    lib->code = *code;
    lib->name = strdup(name);
    if (lib->name && sg_handle_add(lib, SG_MAGIC_LIBRARY))
        r = list_kernels(lib, err);
    if (r == CUDA_SUCCESS && ctx && ctx->active) {
        pthread_mutex_lock(&library_lock);
        r = instance(lib, ctx, &m, err);
        pthread_mutex_unlock(&library_lock);
        sg_notice_flush();
    }
    if (r != CUDA_SUCCESS) {
        library_free(lib);
        return r;
    }
    *out = lib;
    return CUDA_SUCCESS;
}

static CUresult check_options(unsigned n, const CUlibraryOption *options, bool file)
{
    if (n && !options)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++)
        if ((int)options[i] < 0 || options[i] >= CU_LIBRARY_NUM_OPTIONS ||
            (file && options[i] == CU_LIBRARY_BINARY_IS_PRESERVED))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult load(CUlibrary *out, const void *image, size_t size, const char *name,
                     const struct sg_jit *jit)
{
    struct tb_error err = {0};
    struct sg_code code;
    CUresult r;

    r = sg_code_read(image, size, sg_driver.devices[0].arch, &code, &err);
    if (r == CUDA_SUCCESS) {
        if (jit->max_regs)
            code.max_regs = jit->max_regs;
        r = library_new(&code, name, out, &err);
    }
    return sg_module_refused(r, name, jit, &err);
}

CUresult sg_cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit_options,
                              void **jit_values, unsigned int njit, CUlibraryOption *options,
                              void **values, unsigned int n)
{
    struct sg_jit jit;
    CUresult r = sg_ready();

    (void)values;
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !code)
        return CUDA_ERROR_INVALID_VALUE;
    if ((r = check_options(n, options, false)) != CUDA_SUCCESS ||
        (r = sg_jit_read(njit, jit_options, jit_values, &jit)) != CUDA_SUCCESS)
        return r;
    return load(out, code, SG_CODE_UNKNOWN_SIZE, "library", &jit);
}

CUresult sg_cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit_options,
                                  void **jit_values, unsigned int njit, CUlibraryOption *options,
                                  void **values, unsigned int n)
{
    struct sg_jit jit;
    CUresult r = sg_ready();
    char *data;
    size_t size;

    (void)values;
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    if ((r = check_options(n, options, true)) != CUDA_SUCCESS ||
        (r = sg_jit_read(njit, jit_options, jit_values, &jit)) != CUDA_SUCCESS ||
        (r = sg_file_read(path, &data, &size)) != CUDA_SUCCESS)
        return r;
    r = load(out, data, size, path, &jit);
    free(data);
    return r;
}

static CUresult library_of(CUlibrary lib)
{
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS)
        return r;
    return sg_handle_is(lib, SG_MAGIC_LIBRARY) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sg_cuLibraryUnload(CUlibrary lib)
{
    CUresult r = library_of(lib);
    struct CUmod_st *m, *next;

    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&library_lock);
    m = lib->modules;
    lib->modules = NULL;
    pthread_mutex_unlock(&library_lock);
    for (; m; m = next) {
        next = m->next_in_lib;
        sg_module_tell(SG_NOTICE_MODULE_UNLOAD, m);
        sg_notice_flush();
        sg_engine_drain_ctx(m->ctx);
        sg_module_free(m);
    }
    library_free(lib);
    return CUDA_SUCCESS;
}

/* ---- what is in a library ---- */

CUresult sg_cuLibraryGetKernel(CUkernel *out, CUlibrary lib, const char *name)
{
    CUresult r = library_of(lib);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < lib->nkernels; i++) {
        if (strcmp(lib->kernels[i].name, name) == 0) {
            *out = &lib->kernels[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult sg_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    CUresult r = sg_needs(count, library_of(lib));

    if (r == CUDA_SUCCESS)
        *count = (unsigned)lib->nkernels;
    return r;
}

CUresult sg_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int n, CUlibrary lib)
{
    CUresult r = library_of(lib);

    if (r != CUDA_SUCCESS)
        return r;
    if (!kernels)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && i < lib->nkernels; i++)
        kernels[i] = &lib->kernels[i];
    return CUDA_SUCCESS;
}

/* The library's module in the current context. */
static CUresult current_instance(CUlibrary lib, struct CUmod_st **out)
{
    struct CUctx_st *ctx;
    CUresult r = library_of(lib);

    if (r != CUDA_SUCCESS || (r = sg_current(&ctx)) != CUDA_SUCCESS)
        return r;
    return instance_now(lib, ctx, out);
}

CUresult sg_cuLibraryGetModule(CUmodule *out, CUlibrary lib)
{
    struct CUmod_st *m;
    CUresult r = sg_needs(out, current_instance(lib, &m));

    if (r == CUDA_SUCCESS)
        *out = m;
    return r;
}

CUresult sg_cuLibraryGetGlobal(CUdeviceptr *addr, size_t *bytes, CUlibrary lib, const char *name)
{
    struct CUmod_st *m;
    CUresult r = current_instance(lib, &m);

    return r != CUDA_SUCCESS ? r : sg_module_var(m, name, addr, bytes);
}

CUresult sg_cuLibraryGetManaged(CUdeviceptr *addr, size_t *bytes, CUlibrary lib, const char *name)
{
    CUresult r = library_of(lib);
    struct CUmod_st *m;
    CUdeviceptr at;

    if (r != CUDA_SUCCESS)
        return r;
    if ((!addr && !bytes) || !name)
        return CUDA_ERROR_INVALID_VALUE;
    m = lib->modules;
    if (!m && (r = current_instance(lib, &m)) != CUDA_SUCCESS)
        return r;
    if ((r = sg_module_var(m, name, &at, bytes)) != CUDA_SUCCESS)
        return r;
    if (!sg_library_owns(lib, at))
        return CUDA_ERROR_NOT_FOUND;
    if (addr)
        *addr = at;
    return CUDA_SUCCESS;
}

CUresult sg_cuLibraryGetUnifiedFunction(void **out, CUlibrary lib, const char *symbol)
{
    CUresult r = library_of(lib);

    if (r != CUDA_SUCCESS)
        return r;
    /* CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS is 0 */
    return out && symbol ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

/* ---- kernels ---- */

static CUresult kernel_of(CUkernel k)
{
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS)
        return r;
    return sg_handle_is(k, SG_MAGIC_KERNEL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* What the kernel needs: the same in each context, as all devices are of one architecture. */
static CUresult kernel_info(CUkernel k, const struct sg_kernel_info **info)
{
    struct CUmod_st *m = NULL;
    struct CUfunc_st *f;
    CUresult r = kernel_of(k);

    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&library_lock);
    m = k->lib->modules;
    pthread_mutex_unlock(&library_lock);
    if (!m && (r = current_instance(k->lib, &m)) != CUDA_SUCCESS)
        return r;
    f = sg_module_function(m, k->name);
    if (!f)
        return CUDA_ERROR_NOT_FOUND;
    *info = f->info;
    return CUDA_SUCCESS;
}

CUresult sg_cuKernelGetFunction(CUfunction *out, CUkernel k)
{
    struct CUctx_st *ctx;
    struct CUfunc_st *f;
    CUresult r = kernel_of(k);

    if (r != CUDA_SUCCESS || (r = sg_current(&ctx)) != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_kernel_function(k, ctx, &f);
    if (r == CUDA_SUCCESS)
        *out = f;
    return r;
}

CUresult sg_cuKernelGetLibrary(CUlibrary *out, CUkernel k)
{
    CUresult r = sg_needs(out, kernel_of(k));

    if (r == CUDA_SUCCESS)
        *out = k->lib;
    return r;
}

CUresult sg_cuKernelGetName(const char **name, CUkernel k)
{
    CUresult r;

    if (!name || !k)
        return CUDA_ERROR_INVALID_VALUE;
    r = kernel_of(k);
    if (r == CUDA_SUCCESS)
        *name = k->name;
    return r;
}

CUresult sg_cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset, size_t *size)
{
    const struct sg_kernel_info *info;
    CUresult r = kernel_info(k, &info);

    return r != CUDA_SUCCESS ? r : sg_func_param(info, index, offset, size);
}

#if CUDA_VERSION >= 13020
CUresult sg_cuKernelGetParamCount(CUkernel k, size_t *count)
{
    const struct sg_kernel_info *info;
    CUresult r = sg_needs(count, kernel_info(k, &info));

    if (r == CUDA_SUCCESS)
        *count = info->nparams;
    return r;
}
#endif

/* The attributes of a kernel on a device: defaults until somebody sets one. */
static CUresult kernel_attrs(CUkernel k, CUdevice device, struct sg_device **dev,
                             const struct sg_kernel_info **info, struct sg_func_attrs **attrs)
{
    CUresult r = kernel_of(k);

    if (r != CUDA_SUCCESS || (r = sg_device_at(device, dev)) != CUDA_SUCCESS ||
        (r = kernel_info(k, info)) != CUDA_SUCCESS)
        return r;
    *attrs = &k->attrs[device];
    if (!(*attrs)->set)
        sg_func_attrs_default(*attrs, *info);
    return CUDA_SUCCESS;
}

CUresult sg_cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel k,
                                 CUdevice device)
{
    const struct sg_kernel_info *info;
    struct sg_func_attrs *attrs;
    struct sg_device *dev;
    CUresult r = kernel_attrs(k, device, &dev, &info, &attrs);

    if (r != CUDA_SUCCESS)
        return r;
    return value ? sg_func_attr_get(attrs, info, dev, attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel k,
                                 CUdevice device)
{
    const struct sg_kernel_info *info;
    struct sg_func_attrs *attrs, before, after;
    struct sg_device *dev;
    CUresult r = kernel_attrs(k, device, &dev, &info, &attrs);

    if (r != CUDA_SUCCESS ||
        (r = sg_func_attr_set(attrs, info, dev, attribute, value)) != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&library_lock);
    for (struct CUmod_st *m = k->lib->modules; m; m = m->next_in_lib) {
        struct CUfunc_st *f = m->ctx->dev == dev ? sg_module_function(m, k->name) : NULL;

        if (!f)
            continue;
        sg_function_attrs_get(f, &before);
        after = before;
        /* what cuFuncSetAttribute set stays, whichever came first */
        if (!(before.set & 1u << attribute) &&
            sg_func_attr_set(&after, info, dev, attribute, value) == CUDA_SUCCESS) {
            after.set = before.set;
            sg_function_attrs_put(f, &after);
        }
    }
    pthread_mutex_unlock(&library_lock);
    return CUDA_SUCCESS;
}

CUresult sg_cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice device)
{
    struct sg_device *dev;
    CUresult r = kernel_of(k);

    if (r != CUDA_SUCCESS || (r = sg_device_at(device, &dev)) != CUDA_SUCCESS)
        return r;
    if (config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    k->cache_config[device] = (int)config;
    return CUDA_SUCCESS;
}
