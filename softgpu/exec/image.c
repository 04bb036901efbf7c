#include "softgpu/exec/exec_internal.h"

#include <stdlib.h>

/* ---- things that belong to an image ---------------------------------------------------------- */

void *sg_image_own(struct sg_image *image, size_t bytes)
{
    if (image->nowned == image->cap_owned) {
        uint32_t cap = image->cap_owned ? image->cap_owned * 2 : 64;
        void **p = realloc((void *)image->owned, cap * sizeof(*p));
        if (p == NULL)
            return NULL;
        image->owned = p;
        image->cap_owned = cap;
    }
    void *p = calloc(1, bytes ? bytes : 1);
    if (p != NULL)
        image->owned[image->nowned++] = p;
    return p;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Functions that @from reaches by calls; those called through pointers may be any. */
static void reach(const struct sg_image *image, uint32_t from, uint8_t *seen, uint32_t *todo)
{
    uint32_t n = 0;

    memset(seen, 0, image->nfuncs);
    seen[from] = 1;
    todo[n++] = from;
    while (n != 0) {
        const struct sg_func *f = &image->funcs[todo[--n]];
        for (uint32_t i = 0; i < f->ncallees; i++)
            if (!seen[f->callees[i]]) {
                seen[f->callees[i]] = 1;
                todo[n++] = f->callees[i];
            }
        for (uint32_t i = 0; f->indirect && i < image->nfuncs; i++)
            if (!seen[i] && !image->funcs[i].ptx->is_entry) {
                seen[i] = 1;
                todo[n++] = i;
            }
    }
}

static uint32_t align_up(uint32_t v, uint32_t align)
{
    return (v + align - 1) & ~(align - 1);
}

static uint32_t max_threads(const struct sg_ptx_func *f)
{
    const uint32_t *d = f->reqntid[0] ? f->reqntid : f->maxntid;
    uint64_t n = (uint64_t)(d[0] ? d[0] : 1) * (d[1] ? d[1] : 1) * (d[2] ? d[2] : 1);

    if (d[0] == 0)
        return 1024;
    return n < 1024 ? (uint32_t)n : 1024;
}

/* A compiler for the device would spill what is over the limit. @most is that of the whole image,
 * and kernels with launch bounds ignore it (CUDA C++ Programming Guide, Launch Bounds). */
static void limit_regs(struct sg_kernel_info *info, const struct sg_ptx_func *f, uint32_t most)
{
    bool bounds = f->maxntid[0] || f->reqntid[0] || f->maxnreg || f->minnctapersm;

    if (f->maxnreg)
        most = f->maxnreg;
    else if (bounds)
        most = 0;
    if (most && info->regs > most)
        info->regs = most;
}

static void kernel_limits(struct sg_kernel *k, const uint8_t *seen)
{
    const struct sg_image *image = k->func->image;
    struct sg_kernel_info *info = &k->info;
    uint32_t units = 16;
    bool dynamic = false;

    info->static_shared = k->func->shared_end;
    for (uint32_t i = 0; i < image->nfuncs; i++) {
        const struct sg_func *f = &image->funcs[i];
        if (!seen[i])
            continue;
        info->communicates |= f->communicates;
        dynamic |= f->uses_dynamic;
        if (f->reg_units > units)
            units = f->reg_units;
        if (f != k->func)
            info->local_bytes += f->local_bytes;
    }
    info->local_bytes += k->func->local_bytes;
    if (dynamic)
        info->static_shared = align_up(info->static_shared, image->dynamic_align);
    info->regs = units > 255 ? 255 : units;
    limit_regs(info, k->func->ptx, image->env.max_regs);
}

static void fill_info(struct sg_kernel *k)
{
    const struct sg_ptx_func *f = k->func->ptx;
    struct sg_kernel_info *info = &k->info;

    info->name = f->name;
    info->params = f->params;
    info->nparams = f->nparams;
    info->param_bytes = (uint32_t)f->param_bytes;
    info->const_bytes = (uint32_t)k->func->image->const_bytes;
    info->max_threads = max_threads(f);
    memcpy(info->maxntid, f->maxntid, sizeof(info->maxntid));
    memcpy(info->reqntid, f->reqntid, sizeof(info->reqntid));
    memcpy(info->reqcluster, f->reqnctapercluster, sizeof(info->reqcluster));
    info->ptx_version = f->module->version;
    info->arch = f->module->arch;
}

static enum tb_status make_kernels(struct sg_image *image, struct tb_error *err)
{
    uint8_t *seen = calloc((size_t)image->nfuncs + 1, 1);
    uint32_t *todo = calloc((size_t)image->nfuncs + 1, sizeof(*todo));
    bool ok = seen != NULL && todo != NULL;

    for (uint32_t i = 0; i < image->nfuncs; i++)
        image->nkernels += image->funcs[i].ptx->is_entry;
    image->kernels = calloc((size_t)image->nkernels + 1, sizeof(*image->kernels));
    ok = ok && image->kernels != NULL;
    for (uint32_t i = 0, n = 0; ok && i < image->nfuncs; i++) {
        if (!image->funcs[i].ptx->is_entry)
            continue;
        struct sg_kernel *k = &image->kernels[n++];
        k->func = &image->funcs[i];
        fill_info(k);
        reach(image, i, seen, todo);
        kernel_limits(k, seen);
    }
    free(seen);
    free(todo);
    return ok ? TB_OK : tb_fail(err, TB_ERR_NOMEM, "%s: no memory", image->path);
}

/* An entry's own shared variables lie behind the image-wide ones it may reach: all of them, if
 * anything it names outside is shared at all. */
static void place_entry_shared(struct sg_image *image, struct sg_func *f)
{
    uint32_t at = 0;
    bool calls = false;

    for (uint32_t i = 0; i < f->ptx->ninsns && !calls; i++)
        calls = f->ptx->insns[i].op == SG_OP_CALL;
    for (uint32_t i = 0; i < f->ptx->module->nvars && !calls; i++)
        calls =
            f->ptx->module->vars[i].space == SG_SPACE_SHARED && f->ptx->module->vars[i].size != 0;
    if (calls)
        at = image->shared_end;
    for (uint32_t i = 0; i < f->ptx->nvars; i++) {
        struct sg_var *v = &image->vars[f->var_base + i];
        if (v->ptx->space != SG_SPACE_SHARED || v->dynamic)
            continue;
        at = align_up(at, v->ptx->align ? v->ptx->align : 1);
        v->addr = at;
        at += (uint32_t)v->ptx->size;
    }
    f->shared_end = at;
}

/* ---- image ----------------------------------------------------------------------------------- */

/* Constants were collected as slots of 256 bytes; sg_dec_const() keeps pool_end up to date. */
static enum tb_status decode_all(struct sg_image *image, struct tb_error *err)
{
    enum tb_status st = TB_OK;

    for (uint32_t i = 0; i < image->nfuncs; i++)
        if (image->funcs[i].ptx->is_entry)
            place_entry_shared(image, &image->funcs[i]);
    for (uint32_t i = 0; i < image->nfuncs && st == TB_OK; i++)
        st = sg_decode_func(image, &image->funcs[i], err);
    return st;
}

static enum tb_status check_modules(const struct sg_image *image, struct tb_error *err)
{
    for (size_t k = 0; k < image->nmods; k++) {
        const struct sg_ptx_module *m = image->mods[k];
        if (m->arch > image->env.arch)
            return tb_fail(err, TB_ERR_UNSUPPORTED,
                           "%s: PTX is for sm_%u, the device is sm_%u (SOFTGPU_ARCH=sm_%u)",
                           image->path, m->arch, image->env.arch, m->arch);
        if (m->address_size == 32)
            return tb_fail(err, TB_ERR_UNSUPPORTED, "%s: 32-bit addresses", image->path);
    }
    return TB_OK;
}

enum tb_status sg_image_new(struct sg_ptx_module **mods, size_t n, const char *path,
                            const struct sg_image_env *env, struct sg_image **out,
                            struct tb_error *err)
{
    struct sg_image *image = calloc(1, sizeof(*image));
    enum tb_status st = TB_OK;

    if (image != NULL)
        image->mods = calloc(n + 2, sizeof(*image->mods)); /* one may be added */
    if (image == NULL || image->mods == NULL) {
        for (size_t k = 0; k < n; k++)
            sg_ptx_free(mods[k]);
        free(image);
        return tb_fail(err, TB_ERR_NOMEM, "cannot load a module: no memory");
    }
    memcpy((void *)image->mods, (const void *)mods, n * sizeof(*mods));
    image->nmods = n;
    image->env = *env;
    image->path = strdup(path != NULL ? path : "ptx");
    if (image->path == NULL)
        st = tb_fail(err, TB_ERR_NOMEM, "cannot load a module: no memory");
    if (st == TB_OK)
        st = check_modules(image, err);
    if (st == TB_OK)
        st = sg_devicelib_add(image, err);
    if (st == TB_OK)
        st = sg_link_image(image, err);
    if (st == TB_OK)
        st = decode_all(image, err);
    if (st == TB_OK)
        st = make_kernels(image, err);
    if (st != TB_OK)
        sg_image_free(image);
    else
        *out = image;
    return st;
}

void sg_image_free(struct sg_image *image)
{
    if (image == NULL)
        return;
    sg_link_release(image);
    for (uint32_t i = 0; i < image->nowned; i++)
        free(image->owned[i]);
    free((void *)image->owned);
    for (size_t k = 0; k < image->nmods; k++)
        sg_ptx_free(image->mods[k]);
    free((void *)image->mods);
    free(image->kernels);
    free(image->code);
    free(image->ptx_of);
    free(image->pool);
    free(image->pool_hash);
    free(image->path);
    free(image);
}

size_t sg_image_kernel_count(const struct sg_image *image)
{
    return image->nkernels;
}

struct sg_kernel *sg_image_kernel_at(const struct sg_image *image, size_t i)
{
    return i < image->nkernels ? &image->kernels[i] : NULL;
}

struct sg_kernel *sg_image_kernel(const struct sg_image *image, const char *name)
{
    for (uint32_t i = 0; i < image->nkernels; i++)
        if (strcmp(image->kernels[i].info.name, name) == 0)
            return &image->kernels[i];
    return NULL;
}

enum tb_status sg_image_var(const struct sg_image *image, const char *name, uint64_t *addr,
                            size_t *size)
{
    const struct sg_var *v = sg_link_var_named(image, name);

    /* variables of one module that others do not see are found too, as the driver does */
    for (uint32_t i = 0; v == NULL && i < image->nvars; i++)
        if (image->vars[i].device_space && image->vars[i].owner &&
            strcmp(image->vars[i].ptx->name, name) == 0)
            v = &image->vars[i];
    if (v == NULL || !v->device_space)
        return TB_ERR_NOTFOUND;
    *addr = v->addr;
    *size = v->ptx->size;
    return TB_OK;
}

const struct sg_kernel_info *sg_kernel_info(const struct sg_kernel *k)
{
    return &k->info;
}
