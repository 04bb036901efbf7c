/* Resolves the names of several modules against each other and gives variables their places. */
#include "softgpu/exec/exec_internal.h"

#include <stdlib.h>

enum name_kind { NAME_VAR, NAME_FUNC };

struct sg_name {
    const char *name;
    enum name_kind kind;
    uint32_t index; /* in image->vars or image->funcs */
    enum sg_ptx_linkage linkage;
};

struct sg_names {
    struct sg_name *slot;
    uint32_t cap, used; /* cap: power of two */
};

static uint64_t hash_text(const char *s)
{
    uint64_t h = 14695981039346656037u;

    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 1099511628211u;
    return h ^ (h >> 29);
}

static struct sg_name *find_slot(const struct sg_names *n, const char *name)
{
    uint32_t i = (uint32_t)hash_text(name) & (n->cap - 1);

    while (n->slot[i].name != NULL && strcmp(n->slot[i].name, name) != 0)
        i = (i + 1) & (n->cap - 1);
    return &n->slot[i];
}

static bool is_definition(enum sg_ptx_linkage l)
{
    return l == SG_LINK_VISIBLE || l == SG_LINK_WEAK || l == SG_LINK_COMMON;
}

/* The first strong definition counts, else the first weak one; two strong ones are an error. */
static enum tb_status define(struct sg_image *image, const char *name, enum name_kind kind,
                             uint32_t index, enum sg_ptx_linkage linkage, struct tb_error *err)
{
    struct sg_name *s = find_slot(image->names, name);

    if (s->name == NULL || (s->linkage != SG_LINK_VISIBLE && linkage == SG_LINK_VISIBLE)) {
        *s = (struct sg_name){name, kind, index, linkage};
        return TB_OK;
    }
    if (s->linkage == SG_LINK_VISIBLE && linkage == SG_LINK_VISIBLE)
        return tb_fail(err, TB_ERR_EXISTS, "%s: '%s' is defined twice", image->path, name);
    return TB_OK;
}

static enum tb_status define_all(struct sg_image *image, struct tb_error *err)
{
    enum tb_status st = TB_OK;

    for (size_t k = 0; k < image->nmods && st == TB_OK; k++) {
        const struct sg_ptx_module *m = image->mods[k];
        for (uint32_t i = 0; i < m->nvars && st == TB_OK; i++)
            if (is_definition(m->vars[i].linkage) && m->vars[i].space != SG_SPACE_SHARED)
                st = define(image, m->vars[i].name, NAME_VAR, image->mod_var_base[k] + i,
                            m->vars[i].linkage, err);
    }
    for (uint32_t i = 0; i < image->nfuncs && st == TB_OK; i++)
        if (image->funcs[i].ptx->is_entry || is_definition(image->funcs[i].ptx->linkage))
            st = define(image, image->funcs[i].ptx->name, NAME_FUNC, i,
                        image->funcs[i].ptx->linkage, err);
    return st;
}

static uint64_t align_up(uint64_t v, uint64_t align)
{
    return (v + align - 1) & ~(align - 1);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void add_var(struct sg_image *image, const struct sg_ptx_module *m,
                    const struct sg_ptx_var *v)
{
    struct sg_var *x = &image->vars[image->nvars++];

    x->ptx = v;
    x->module = m;
    x->owner = v->linkage != SG_LINK_EXTERN;
    x->dynamic = v->space == SG_SPACE_SHARED && v->size == 0;
    x->device_space = v->space == SG_SPACE_GLOBAL || v->space == SG_SPACE_CONST;
    if (x->dynamic && v->align > image->dynamic_align)
        image->dynamic_align = v->align;
}

static void add_module(struct sg_image *image, size_t k)
{
    const struct sg_ptx_module *m = image->mods[k];

    image->mod_var_base[k] = image->nvars;
    for (uint32_t i = 0; i < m->nvars; i++)
        add_var(image, m, &m->vars[i]);
    for (uint32_t i = 0; i < m->nfuncs; i++) {
        const struct sg_ptx_func *p = m->funcs[i];
        if (!p->has_body)
            continue;
        struct sg_func *f = &image->funcs[image->nfuncs++];
        f->ptx = p;
        f->image = image;
        f->var_base = image->nvars;
        for (uint32_t j = 0; j < p->nvars; j++)
            add_var(image, m, &p->vars[j]);
    }
}

static enum tb_status make_tables(struct sg_image *image, struct tb_error *err)
{
    size_t nvars = 0, nfuncs = 0, names = 16;

    image->nvars = image->nfuncs = 0;
    for (size_t k = 0; k < image->nmods; k++) {
        const struct sg_ptx_module *m = image->mods[k];
        nvars += m->nvars;
        nfuncs += m->nfuncs;
        for (uint32_t i = 0; i < m->nfuncs; i++)
            nvars += m->funcs[i]->nvars;
    }
    while (names < 2 * (nvars + nfuncs) + 2)
        names *= 2;
    image->vars = calloc(nvars + 1, sizeof(*image->vars));
    image->funcs = calloc(nfuncs + 1, sizeof(*image->funcs));
    image->mod_var_base = calloc(image->nmods + 1, sizeof(uint32_t));
    image->names = calloc(1, sizeof(*image->names));
    if (image->names != NULL)
        image->names->slot = calloc(names, sizeof(struct sg_name));
    if (image->vars == NULL || image->funcs == NULL || image->mod_var_base == NULL ||
        image->names == NULL || image->names->slot == NULL) {
        (void)tb_fail(err, TB_ERR_NOMEM, "%s: no memory", image->path);
        return TB_ERR_NOMEM;
    }
    image->names->cap = (uint32_t)names;
    image->dynamic_align = 16;
    for (size_t k = 0; k < image->nmods; k++)
        add_module(image, k);
    return TB_OK;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool in_region(const struct sg_var *v)
{
    return v->device_space && v->owner && !v->ptx->managed;
}

/* .global and .const variables lie in one region; big ones have their own granules, so that an
 * access far outside them is noticed. */
static enum tb_status place_global(struct sg_image *image, struct tb_error *err)
{
    uint64_t at = 0;
    enum tb_status st = TB_OK;

    for (uint32_t i = 0; i < image->nvars; i++) {
        struct sg_var *v = &image->vars[i];
        if (!in_region(v))
            continue;
        bool big = v->ptx->size >= 4096;
        at = align_up(at, big && v->ptx->align < SG_MEM_GRANULE ? SG_MEM_GRANULE : v->ptx->align);
        v->addr = at;
        at += v->ptx->size + image->env.gap;
        if (big)
            at = align_up(at, SG_MEM_GRANULE);
        if (v->ptx->space == SG_SPACE_CONST)
            image->const_bytes += v->ptx->size;
        if (at > UINT64_C(1) << 40)
            return tb_fail(err, TB_ERR_LIMIT, "%s: variables of more than 1 TiB", image->path);
    }
    if (at != 0)
        st = image->env.alloc_var(image->env.arg, at, SG_MEM_GRANULE, false, &image->region, err);
    for (uint32_t i = 0; i < image->nvars && st == TB_OK; i++) {
        struct sg_var *v = &image->vars[i];
        if (in_region(v))
            v->addr += image->region;
        else if (v->device_space && v->owner)
            st = image->env.alloc_var(image->env.arg, v->ptx->size ? v->ptx->size : 1,
                                      v->ptx->align, true, &v->addr, err);
    }
    return st;
}

/* Shared variables outside entries have one offset in the whole image. */
static void place_shared(struct sg_image *image)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < image->nvars; i++) {
        struct sg_var *v = &image->vars[i];
        if (v->ptx->space != SG_SPACE_SHARED || v->dynamic)
            continue;
        bool own = false;
        for (uint32_t k = 0; k < image->nfuncs && !own; k++)
            own = image->funcs[k].ptx->is_entry && i >= image->funcs[k].var_base &&
                  i < image->funcs[k].var_base + image->funcs[k].ptx->nvars;
        if (own)
            continue; /* place_kernel() */
        at = align_up(at, v->ptx->align);
        v->addr = at;
        at += v->ptx->size;
    }
    image->shared_end = at > UINT32_MAX ? UINT32_MAX : (uint32_t)at;
}

/* Variables of .local and .param space of one activation: parameters first. */
static void place_formals(const struct sg_ptx_var *vars, uint32_t n, struct sg_callee_var *out,
                          uint64_t *at)
{
    for (uint32_t i = 0; i < n; i++) {
        *at = align_up(*at, vars[i].align ? vars[i].align : 1);
        out[i] = (struct sg_callee_var){(uint32_t)*at, (uint32_t)vars[i].size};
        *at += vars[i].size;
    }
}

static enum tb_status place_local(struct sg_image *image, struct sg_func *f, struct tb_error *err)
{
    uint64_t at = 0;
    const struct sg_ptx_func *p = f->ptx;

    f->params = calloc((size_t)p->nparams + 1, sizeof(*f->params));
    f->rets = calloc((size_t)p->nrets + 1, sizeof(*f->rets));
    if (f->params == NULL || f->rets == NULL)
        return tb_fail(err, TB_ERR_NOMEM, "%s: no memory", image->path);
    if (!p->is_entry) {
        place_formals(p->params, p->nparams, f->params, &at);
        place_formals(p->rets, p->nrets, f->rets, &at);
    }
    for (uint32_t i = 0; i < p->nvars; i++) {
        struct sg_var *v = &image->vars[f->var_base + i];
        if (v->ptx->space != SG_SPACE_LOCAL && v->ptx->space != SG_SPACE_PARAM)
            continue;
        at = align_up(at, v->ptx->align ? v->ptx->align : 1);
        v->addr = at;
        at += v->ptx->size;
    }
    if (at > 512u << 10)
        return tb_fail(err, TB_ERR_UNSUPPORTED,
                       "%s: '%s' wants %llu bytes of local memory a thread, 512 KiB are the most",
                       image->path, p->name, (unsigned long long)at);
    f->local_bytes = (uint32_t)align_up(at, 16);
    return TB_OK;
}

/* ---- resolving ------------------------------------------------------------------------------- */

const struct sg_var *sg_link_var_named(const struct sg_image *image, const char *name)
{
    const struct sg_name *s = find_slot(image->names, name);

    return s->name != NULL && s->kind == NAME_VAR ? &image->vars[s->index] : NULL;
}

const struct sg_var *sg_link_var(const struct sg_image *image, const struct sg_ptx_module *mod,
                                 const struct sg_ptx_var *v)
{
    size_t k = 0;

    while (k < image->nmods && image->mods[k] != mod)
        k++;
    if (k == image->nmods || !sg_var_in(v, mod->vars, mod->nvars))
        return NULL;
    const struct sg_var *x = &image->vars[image->mod_var_base[k] + (v - mod->vars)];
    if (x->dynamic || v->linkage == SG_LINK_STATIC || v->space == SG_SPACE_SHARED)
        return x;
    return sg_link_var_named(image, v->name);
}

struct sg_func *sg_link_func(const struct sg_image *image, const struct sg_ptx_func *f)
{
    if (f->has_body && f->linkage == SG_LINK_STATIC && !f->is_entry)
        for (uint32_t i = 0; i < image->nfuncs; i++)
            if (image->funcs[i].ptx == f)
                return &image->funcs[i];
    const struct sg_name *s = find_slot(image->names, f->name);
    if (s->name != NULL && s->kind == NAME_FUNC)
        return &image->funcs[s->index];
    /* a declaration of a static function in the same module */
    for (uint32_t i = 0; i < image->nfuncs; i++)
        if (image->funcs[i].ptx->module == f->module &&
            strcmp(image->funcs[i].ptx->name, f->name) == 0)
            return &image->funcs[i];
    return NULL;
}

/* Address that @symbol has for an initialiser of a module. */
static bool symbol_addr(const struct sg_image *image, const struct sg_ptx_module *m,
                        const char *symbol, uint64_t *addr)
{
    for (uint32_t i = 0; i < m->nvars; i++)
        if (strcmp(m->vars[i].name, symbol) == 0) {
            const struct sg_var *v = sg_link_var(image, m, &m->vars[i]);
            if (v == NULL)
                return false;
            *addr = v->addr;
            return true;
        }
    for (uint32_t i = 0; i < m->nfuncs; i++)
        if (strcmp(m->funcs[i]->name, symbol) == 0) {
            struct sg_func *f = sg_link_func(image, m->funcs[i]);
            *addr = (uint64_t)(uintptr_t)f;
            return f != NULL;
        }
    return false;
}

static enum tb_status initialise(struct sg_image *image, const struct sg_var *v,
                                 struct tb_error *err)
{
    uint8_t *at = (uint8_t *)(uintptr_t)v->addr;

    if (v->ptx->init != NULL)
        memcpy(at, v->ptx->init, v->ptx->size);
    for (uint32_t i = 0; i < v->ptx->nrelocs; i++) {
        const struct sg_ptx_reloc *r = &v->ptx->relocs[i];
        uint64_t addr;
        if (!symbol_addr(image, v->module, r->symbol, &addr))
            return tb_fail(err, TB_ERR_NOTFOUND, "%s: undefined symbol '%s' in '%s', line %u",
                           image->path, r->symbol, v->ptx->name, v->ptx->line);
        addr = (addr + (uint64_t)r->addend) >> (8 * r->shift);
        if (r->offset + r->size > v->ptx->size || r->size > sizeof(addr))
            return tb_fail(err, TB_ERR_FORMAT, "%s: initialiser of '%s' is too long", image->path,
                           v->ptx->name);
        memcpy(at + r->offset, &addr, r->size);
    }
    return TB_OK;
}

enum tb_status sg_link_image(struct sg_image *image, struct tb_error *err)
{
    enum tb_status st = make_tables(image, err);

    if (st == TB_OK)
        st = define_all(image, err);
    if (st == TB_OK)
        st = place_global(image, err);
    if (st == TB_OK)
        place_shared(image);
    for (uint32_t i = 0; i < image->nfuncs && st == TB_OK; i++)
        st = place_local(image, &image->funcs[i], err);
    for (uint32_t i = 0; i < image->nvars && st == TB_OK; i++)
        if (image->vars[i].device_space && image->vars[i].owner)
            st = initialise(image, &image->vars[i], err);
    return st;
}

void sg_link_release(struct sg_image *image)
{
    for (uint32_t i = 0; i < image->nfuncs; i++) {
        free(image->funcs[i].params);
        free(image->funcs[i].rets);
        free(image->funcs[i].live_in);
        free(image->funcs[i].slot);
        free(image->funcs[i].callees);
    }
    for (uint32_t i = 0; i < image->nvars; i++) {
        const struct sg_var *v = &image->vars[i];
        if (v->device_space && v->owner && v->ptx->managed && v->addr != 0)
            image->env.free_var(image->env.arg, v->addr);
    }
    if (image->region != 0)
        image->env.free_var(image->env.arg, image->region);
    if (image->names != NULL)
        free(image->names->slot);
    free(image->names);
    free(image->funcs);
    free(image->vars);
    free(image->mod_var_base);
}
