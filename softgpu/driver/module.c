/* Modules: PTX that became an image in a context. */
#include "softgpu/driver/module.h"

#include "softgpu/driver/core.h"
#include "softgpu/driver/hooks.h"
#include "softgpu/driver/stream.h"
#include "softgpu/driver/strict.h"

#include <stdlib.h>
#include <string.h>

/* Bytes behind each variable in strict mode: who runs over its end meets no other. */
#define VARIABLE_GAP 64u

CUresult sg_module_refused(CUresult r, const char *name, const struct sg_jit *jit,
                           const struct tb_error *err)
{
    if (r == CUDA_SUCCESS) {
        sg_jit_report(jit, NULL);
        return r;
    }
    sg_log(1, "cannot load '%s': %s", name, err->text[0] ? err->text : "no memory");
    sg_jit_report(jit, err->text);
    return r;
}

static enum tb_status alloc_var(void *arg, size_t size, size_t align, bool managed, uint64_t *addr,
                                struct tb_error *err)
{
    struct CUmod_st *m = arg;
    CUresult r;

    if (managed && m->lib)
        r = sg_library_managed(m->lib, m->ctx, m->nmanaged++, size, align, addr);
    else
        r = sg_alloc_new(m->ctx, size, align, managed ? SG_ALLOC_MANAGED : SG_ALLOC_MODULE, addr);
    if (r != CUDA_SUCCESS)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for a variable of %zu bytes", size);
    return TB_OK;
}

static void free_var(void *arg, uint64_t addr)
{
    struct CUmod_st *m = arg;

    if (!m->lib || !sg_library_owns(m->lib, addr))
        sg_alloc_free(addr);
}

static CUresult make_functions(struct CUmod_st *m)
{
    size_t n = sg_image_kernel_count(m->image);

    m->funcs = calloc(n ? n : 1, sizeof(*m->funcs));
    if (!m->funcs)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (; m->nfuncs < n; m->nfuncs++) {
        struct CUfunc_st *f = &m->funcs[m->nfuncs];

        sg_function_init(f, m, sg_image_kernel_at(m->image, m->nfuncs));
        if (!sg_handle_add(f, SG_MAGIC_FUNC))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return sg_handle_add(m, SG_MAGIC_MODULE) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult make_image(struct CUmod_st *m, const struct sg_code *code, const char *name,
                           struct tb_error *err)
{
    struct sg_image_env env = {.mem = sg_driver.mem,
                               .arch = m->ctx->dev->arch,
                               .max_regs = code->max_regs,
                               .alloc_var = alloc_var,
                               .free_var = free_var,
                               .gap = sg_strict() ? VARIABLE_GAP : 0,
                               .arg = m};
    struct sg_ptx_module **mods = calloc(code->n ? code->n : 1, sizeof(*mods));
    CUresult r = mods ? sg_code_parse(code, name, env.arch, mods, err) : CUDA_ERROR_OUT_OF_MEMORY;

    if (r == CUDA_SUCCESS)
        r = sg_code_result(sg_image_new(mods, code->n, name, &env, &m->image, err));
    free(mods);
    if (r == CUDA_SUCCESS && sg_strict())
        sg_strict_image(m->image);
    return r;
}

/* Tools hash it and keep it by its kernels: the PTX, or several as one image. */
static CUresult keep_text(struct CUmod_st *m, const struct sg_code *code)
{
    if (code->n != 1)
        return sg_code_pack(code, &m->text, &m->text_size);
    m->text_size = code->texts[0].len;
    m->text = malloc(m->text_size + 1);
    if (!m->text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(m->text, code->texts[0].text, m->text_size + 1);
    return CUDA_SUCCESS;
}

void sg_module_tell(enum sg_notice_kind kind, const struct CUmod_st *m)
{
    SG_TELL_LATER(.kind = kind, .ctx = m->ctx, .module = {m->tool_id, m->text, m->text_size});
}

CUresult sg_module_new(struct CUctx_st *ctx, const struct sg_code *code, const char *name,
                       struct CUlib_st *lib, struct CUmod_st **out, struct tb_error *err)
{
    struct CUmod_st *m = calloc(1, sizeof(*m));
    CUresult r;

    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->magic = SG_MAGIC_MODULE;
    m->ctx = sg_context_root(ctx);
    m->lib = lib;
    r = make_image(m, code, name, err);
    if (r == CUDA_SUCCESS)
        r = make_functions(m);
    if (r == CUDA_SUCCESS)
        r = keep_text(m, code);
    if (r != CUDA_SUCCESS) {
        sg_module_free(m);
        return r;
    }
    pthread_mutex_lock(&sg_driver.lock);
    m->next_in_ctx = m->ctx->modules;
    m->ctx->modules = m;
    m->tool_id = ++sg_driver.modules;
    pthread_mutex_unlock(&sg_driver.lock);
    sg_module_tell(SG_NOTICE_MODULE_LOADED, m);
    *out = m;
    return CUDA_SUCCESS;
}

void sg_module_free(struct CUmod_st *m)
{
    pthread_mutex_lock(&sg_driver.lock);
    for (struct CUmod_st **p = &m->ctx->modules; *p; p = &(*p)->next_in_ctx) {
        if (*p == m) {
            *p = m->next_in_ctx;
            break;
        }
    }
    pthread_mutex_unlock(&sg_driver.lock);
    sg_handle_remove(m);
    for (size_t i = 0; i < m->nfuncs; i++) {
        sg_handle_remove(&m->funcs[i]);
        free(m->funcs[i].legacy);
    }
    sg_image_free(m->image);
    free(m->text);
    free(m->funcs);
    free(m);
}

void sg_modules_destroy_ctx(struct CUctx_st *ctx)
{
    while (ctx->modules) {
        struct CUmod_st *m = ctx->modules;

        if (m->lib)
            sg_library_forget(m);
        sg_module_free(m);
    }
}

/* Everything that loads ends here. */
static CUresult load(CUmodule *out, const void *image, size_t size, const char *name,
                     const struct sg_jit *jit)
{
    struct tb_error err = {0};
    struct sg_code code;
    struct CUctx_st *ctx;
    struct CUmod_st *m = NULL;
    CUresult r = sg_current(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    if ((r = sg_capture_forbids()) != CUDA_SUCCESS)
        return r;
    r = sg_code_read(image, size, ctx->dev->arch, &code, &err);
    if (r == CUDA_SUCCESS) {
        if (jit->max_regs)
            code.max_regs = jit->max_regs;
        r = sg_module_new(ctx, &code, name, NULL, &m, &err);
        sg_code_clear(&code);
    }
    if (r == CUDA_SUCCESS)
        *out = m;
    return sg_module_refused(r, name, jit, &err);
}

CUresult sg_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int n,
                               CUjit_option *options, void **values)
{
    struct sg_jit jit;
    CUresult r = sg_jit_read(n, options, values, &jit);

    return r != CUDA_SUCCESS ? r : load(out, image, SG_CODE_UNKNOWN_SIZE, "image", &jit);
}

CUresult sg_cuModuleLoadData(CUmodule *out, const void *image)
{
    return sg_cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

CUresult sg_cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return sg_cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

CUresult sg_cuModuleLoad(CUmodule *out, const char *path)
{
    struct sg_jit jit = {0};
    struct CUctx_st *ctx;
    CUresult r = sg_current(&ctx);
    char *data;
    size_t size;

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_file_read(path, &data, &size);
    if (r == CUDA_SUCCESS) {
        r = load(out, data, size, path, &jit);
        free(data);
    }
    return r;
}

/* A module handle in the current context. */
static CUresult module_of(CUmodule m)
{
    struct CUctx_st *ctx;
    CUresult r = sg_current(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    return sg_handle_is(m, SG_MAGIC_MODULE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sg_cuModuleUnload(CUmodule m)
{
    CUresult r = module_of(m);

    if (r != CUDA_SUCCESS)
        return r;
    if (m->lib)
        return CUDA_ERROR_NOT_PERMITTED;
    r = sg_capture_forbids();
    if (r != CUDA_SUCCESS)
        return r;
    sg_module_tell(SG_NOTICE_MODULE_UNLOAD, m);
    sg_notice_flush();
    r = sg_engine_drain_ctx(m->ctx);
    sg_module_free(m);
    return r;
}

struct CUfunc_st *sg_module_function(struct CUmod_st *m, const char *name)
{
    const struct sg_kernel *k = sg_image_kernel(m->image, name);

    for (size_t i = 0; k && i < m->nfuncs; i++)
        if (m->funcs[i].kernel == k)
            return &m->funcs[i];
    return NULL;
}

CUresult sg_cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    CUresult r = module_of(m);
    struct CUfunc_st *f;

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !name || !*name)
        return CUDA_ERROR_INVALID_VALUE;
    f = sg_module_function(m, name);
    if (!f)
        return CUDA_ERROR_NOT_FOUND;
    *out = f;
    return CUDA_SUCCESS;
}

CUresult sg_cuModuleGetFunctionCount(unsigned int *count, CUmodule m)
{
    CUresult r = sg_needs(count, module_of(m));

    if (r == CUDA_SUCCESS)
        *count = (unsigned)m->nfuncs;
    return r;
}

CUresult sg_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int n, CUmodule m)
{
    CUresult r = module_of(m);

    if (r != CUDA_SUCCESS)
        return r;
    if (!functions)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && i < m->nfuncs; i++)
        functions[i] = &m->funcs[i];
    return CUDA_SUCCESS;
}

CUresult sg_module_var(const struct CUmod_st *m, const char *name, CUdeviceptr *addr, size_t *bytes)
{
    uint64_t at;
    size_t size;

    if ((!addr && !bytes) || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_image_var(m->image, name, &at, &size) != TB_OK)
        return CUDA_ERROR_NOT_FOUND;
    if (addr)
        *addr = at;
    if (bytes)
        *bytes = size;
    return CUDA_SUCCESS;
}

CUresult sg_cuModuleGetGlobal_v2(CUdeviceptr *addr, size_t *bytes, CUmodule m, const char *name)
{
    CUresult r = module_of(m);

    return r != CUDA_SUCCESS ? r : sg_module_var(m, name, addr, bytes);
}

CUresult sg_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    const char *text = getenv("CUDA_MODULE_LOADING");
    CUresult r = sg_needs(mode, sg_ready());

    if (r == CUDA_SUCCESS)
        *mode =
            text && strcmp(text, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return r;
}
