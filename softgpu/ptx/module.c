/* sg_ptx_parse(): directives of a module, and what is settled when all of it was read. */
#include "softgpu/ptx/ptx_internal.h"

#include <stdlib.h>

struct alias {
    struct sg_px_name *name, *target;
    uint32_t line;
};

static bool version(struct sg_px *p)
{
    uint32_t major = 0, minor = 0;
    const char *s;

    sg_px_next(p);
    if (p->mod->version)
        return sg_px_fail(p, TB_ERR_FORMAT, p->tok.line, ".version is given twice");
    s = p->tok.s;
    if (!sg_px_is(p, SG_TOK_FLOAT) || p->tok.len > 5)
        return sg_px_unexpected(p, "a version such as 9.0");
    for (; *s >= '0' && *s <= '9'; s++)
        major = major * 10 + (uint32_t)(*s - '0');
    for (s++; s < p->cur && *s >= '0' && *s <= '9'; s++)
        minor = minor * 10 + (uint32_t)(*s - '0');
    p->mod->version = major * 10 + minor;
    if (p->mod->version == 0)
        return sg_px_unexpected(p, "a version such as 9.0");
    sg_px_next(p);
    return true;
}

/* "sm_90a" */
static bool architecture(struct sg_px *p)
{
    const char *s = p->tok.s + 3, *end = p->tok.s + p->tok.len;
    uint32_t arch = 0;

    for (; s < end && *s >= '0' && *s <= '9' && arch < 1000; s++)
        arch = arch * 10 + (uint32_t)(*s - '0');
    if (s < end && (*s == 'a' || *s == 'f'))
        p->mod->arch_suffix = *s++;
    if (s != end || arch == 0)
        return sg_px_unexpected(p, "a target such as sm_80");
    p->mod->arch = arch;
    return true;
}

static bool target(struct sg_px *p)
{
    static const char *const ignored[] = {"debug", "texmode_unified", "texmode_independent"};

    do {
        bool known = false;

        sg_px_next(p);
        for (size_t i = 0; i < TB_ARRAY_LEN(ignored); i++)
            known |= sg_px_word(p, SG_TOK_IDENT, ignored[i]);
        if (sg_px_word(p, SG_TOK_IDENT, "map_f64_to_f32"))
            return sg_px_fail(p, TB_ERR_UNSUPPORTED, p->tok.line,
                              "target option map_f64_to_f32 is not supported");
        if (!known && sg_px_is(p, SG_TOK_IDENT) && p->tok.len > 3 &&
            memcmp(p->tok.s, "sm_", 3) == 0) {
            if (!architecture(p))
                return false;
            known = true;
        }
        if (!known)
            return sg_px_unexpected(p, "a target such as sm_80");
        sg_px_next(p);
    } while (sg_px_is(p, ','));
    return p->mod->arch != 0 || sg_px_unexpected(p, "a target such as sm_80");
}

static bool address_size(struct sg_px *p)
{
    uint32_t n = 0, line = p->tok.line;

    sg_px_next(p);
    if (!sg_px_u32(p, "an address size", &n))
        return false;
    if (n != 32 && n != 64)
        return sg_px_fail(p, TB_ERR_FORMAT, line, "address size %u is not 32 or 64", n);
    p->mod->address_size = n;
    return true;
}

/* .file number "name" [, time stamp, size] */
static bool file(struct sg_px *p)
{
    uint32_t n = 0, line = p->tok.line;
    const char **names;

    sg_px_next(p);
    if (!sg_px_u32(p, "a file number", &n))
        return false;
    if (n >= SG_PX_MAX_FILES)
        return sg_px_fail(p, TB_ERR_LIMIT, line, "file number %u is too large", n);
    if (!sg_px_is(p, SG_TOK_STRING))
        return sg_px_unexpected(p, "a file name");
    if (n >= p->files.n) {
        if (!sg_px_room(p, &p->files, n + 1 - p->files.n, sizeof(*names)))
            return false;
        memset((const char **)p->files.data + p->files.n, 0, (n + 1 - p->files.n) * sizeof(*names));
        p->files.n = n + 1;
    }
    names = p->files.data;
    names[n] = sg_px_text(p, p->tok.s, p->tok.len);
    sg_px_next(p);
    while (sg_px_accept(p, ','))
        if (!sg_px_expect(p, SG_TOK_INT, "a number of .file"))
            return false;
    return true;
}

/* .section .debug_info { ... }: data of debuggers, not read */
static bool section(struct sg_px *p)
{
    uint32_t line = p->tok.line;

    sg_px_next(p);
    if (!sg_px_is(p, SG_TOK_DOT) && !sg_px_is(p, SG_TOK_IDENT))
        return sg_px_unexpected(p, "the name of a section");
    sg_px_next(p);
    if (!sg_px_is(p, '{'))
        return sg_px_unexpected(p, "'{' of a section");
    if (!sg_px_skip_block(p))
        return sg_px_fail(p, TB_ERR_FORMAT, line, ".section without end");
    sg_px_next(p);
    return true;
}

static bool alias(struct sg_px *p)
{
    struct alias a = {.line = p->tok.line};

    sg_px_next(p);
    a.name = sg_px_intern_tok(p);
    if (!a.name)
        return false;
    sg_px_next(p);
    if (!sg_px_expect(p, ',', "',' of .alias"))
        return false;
    a.target = sg_px_intern_tok(p);
    if (!a.target || !sg_px_room(p, &p->aliases, 1, sizeof(a)))
        return false;
    ((struct alias *)p->aliases.data)[p->aliases.n++] = a;
    sg_px_next(p);
    return sg_px_expect(p, ';', "';' of .alias");
}

static const struct {
    const char *word;
    bool (*parse)(struct sg_px *p);
} directives[] = {
    {"file", file},   {"loc", sg_px_loc},   {"section", section}, {"pragma", sg_px_pragma},
    {"alias", alias}, {"version", version}, {"target", target},   {"address_size", address_size},
};

static bool toplevel(struct sg_px *p)
{
    enum sg_ptx_linkage linkage = SG_LINK_STATIC;
    enum sg_ptx_space space;

    if (sg_px_accept(p, ';'))
        return true;
    for (size_t i = 0; i < TB_ARRAY_LEN(directives); i++)
        if (sg_px_word(p, SG_TOK_DOT, directives[i].word))
            return directives[i].parse(p);
    if (sg_px_linkage(p, &linkage))
        sg_px_next(p);
    if (sg_px_word(p, SG_TOK_DOT, "entry") || sg_px_word(p, SG_TOK_DOT, "func"))
        return sg_px_function(p, linkage);
    if (sg_px_space(p, &space))
        return sg_px_vars(p, linkage);
    return sg_px_unexpected(p, "a directive of a module");
}

static struct sg_px_sym *global_of(struct sg_px_name *name, enum sg_px_symkind kind)
{
    return name->sym && name->sym->kind == kind ? name->sym : NULL;
}

static bool check_wanted(struct sg_px *p)
{
    const struct sg_px_wanted *w = p->wanted.data;

    for (size_t i = 0; i < p->wanted.n; i++)
        if (!global_of(w[i].name, SG_SYM_VAR) && !global_of(w[i].name, SG_SYM_FUNC))
            return sg_px_fail(p, TB_ERR_FORMAT, w[i].line, "'%.100s' is not declared",
                              w[i].name->text);
    return true;
}

/* The alias becomes a function with the same body. */
static bool apply_alias(struct sg_px *p, const struct alias *a)
{
    struct sg_px_sym *name = global_of(a->name, SG_SYM_FUNC);
    struct sg_px_sym *aliased = global_of(a->target, SG_SYM_FUNC);
    struct sg_ptx_func *f, old;

    if (!name || !aliased || name->func->has_body || !aliased->func->has_body ||
        name->func->is_entry || aliased->func->is_entry)
        return sg_px_fail(p, TB_ERR_FORMAT, a->line,
                          ".alias '%.100s' is not of a declared function to a defined one",
                          a->name->text);
    f = aliased->func;
    for (uint32_t i = 0; i < f->nvars; i++)
        if (f->vars[i].space != SG_SPACE_LOCAL && f->vars[i].space != SG_SPACE_PARAM)
            return sg_px_fail(p, TB_ERR_UNSUPPORTED, a->line,
                              ".alias of '%.100s', which has variables of its own", f->name);
    if (f->nparams != name->func->nparams || f->nrets != name->func->nrets)
        return sg_px_fail(p, TB_ERR_FORMAT, a->line, ".alias '%.100s' has other parameters",
                          a->name->text);
    old = *name->func;
    *name->func = *f;
    name->func->name = old.name;
    name->func->linkage = old.linkage;
    name->func->line = old.line;
    return true;
}

static bool finish(struct sg_px *p)
{
    const struct alias *a = p->aliases.data;
    struct sg_ptx_opnd **o = p->mfixups.data;
    struct sg_ptx_module *m = p->mod;

    if (m->version == 0 || m->arch == 0)
        return sg_px_fail(p, TB_ERR_FORMAT, p->line, "no %s in the text",
                          m->version ? ".target" : ".version");
    for (size_t i = 0; i < p->aliases.n; i++)
        if (!apply_alias(p, &a[i]))
            return false;
    m->nfuncs = (uint32_t)p->funcs.n;
    m->nfiles = (uint32_t)p->files.n;
    if (!check_wanted(p) || !sg_px_place_vars(p, &p->mvars, &m->vars, &m->nvars) ||
        !sg_px_keep(p, p->funcs.data, p->funcs.n, sizeof(*m->funcs), &m->funcs) ||
        !sg_px_keep(p, p->files.data, p->files.n, sizeof(*m->files), &m->files))
        return false;
    for (size_t i = 0; i < p->mfixups.n; i++)
        o[i]->var = &m->vars[((const struct sg_px_var *)o[i]->var)->var.index];
    return true;
}

static bool module(struct sg_px *p)
{
    p->mod = sg_px_get(p, sizeof(*p->mod));
    if (!p->mod || !sg_px_declare_sregs(p))
        return false;
    p->mod->arena = p->arena;
    p->mod->address_size = 64;
    sg_px_next(p);
    if (p->status == TB_OK && !sg_px_word(p, SG_TOK_DOT, "version"))
        return sg_px_unexpected(p, ".version");
    while (!sg_px_is(p, SG_TOK_EOF))
        if (!toplevel(p))
            return false;
    return p->status == TB_OK && finish(p);
}

static void release(struct sg_px *p)
{
    struct sg_px_vec *vecs[] = {&p->names,  &p->mvars,   &p->funcs,  &p->files, &p->aliases,
                                &p->wanted, &p->mfixups, &p->fvars,  &p->regs,  &p->insns,
                                &p->stack,  &p->pending, &p->fixups, &p->bytes, &p->relocs};

    for (size_t i = 0; i < TB_ARRAY_LEN(vecs); i++)
        sg_px_vec_release(vecs[i]);
    if (p->locale)
        freelocale(p->locale);
    free(p->text);
    free(p);
}

static enum tb_status parse(const char *text, size_t n, const char *name, bool opaque,
                            struct sg_ptx_module **out, struct tb_error *err)
{
    struct sg_px *p = NULL;
    enum tb_status st;

    n = strnlen(text, n);
    name = name ? name : "ptx";
    if (n > SG_PX_MAX_TEXT)
        return tb_fail(err, TB_ERR_LIMIT, "%s: text of more than %u MiB", name,
                       (unsigned)(SG_PX_MAX_TEXT >> 20));
    p = calloc(1, sizeof(*p));
    if (!p || !(p->text = malloc(n + 4)) || !(p->arena = sg_px_arena_new()) ||
        !(p->locale = newlocale(LC_ALL_MASK, "C", NULL))) {
        st = tb_fail(err, TB_ERR_NOMEM, "%s: no memory for the module", name);
        goto out;
    }
    memcpy(p->text, text, n);
    memset(p->text + n, 0, 4); /* the lexer looks ahead */
    p->cur = p->text;
    p->end = p->text + n;
    p->line = 1;
    p->name = name;
    p->err = err;
    p->opaque = opaque;
    sg_px_lookup_init(p);
    if (module(p))
        *out = p->mod;
    st = p->status;
out:
    if (p) {
        if (st != TB_OK)
            sg_px_arena_free(p->arena);
        release(p);
    }
    return st;
}

enum tb_status sg_ptx_parse(const char *text, size_t n, const char *name,
                            struct sg_ptx_module **out, struct tb_error *err)
{
    return parse(text, n, name, false, out, err);
}

enum tb_status sg_ptx_parse_all(const char *text, size_t n, const char *name,
                                struct sg_ptx_module **out, struct tb_error *err)
{
    return parse(text, n, name, true, out, err);
}

void sg_ptx_free(struct sg_ptx_module *m)
{
    if (m)
        sg_px_arena_free(m->arena);
}
