/*
 * Names and scopes. Every name is interned once; it knows its innermost symbol, so a look-up is one
 * hash look-up. `.reg .b32 %r<100>` is one symbol: its members become registers when first used.
 */
#include "softgpu/ptx/ptx_internal.h"

#include <stdlib.h>

#define FIRST_NAMES 1024

static bool grow(struct sg_px *p)
{
    struct sg_px_name **old = p->names.data, **table;
    size_t cap = p->names.cap ? p->names.cap * 2 : FIRST_NAMES;

    table = calloc(cap, sizeof(*table));
    if (!table)
        return sg_px_nomem(p);
    for (size_t i = 0; i < p->names.cap; i++) {
        size_t at;

        if (!old[i])
            continue;
        at = SG_PX_HASH_SLOT(old[i]->hash, cap);
        while (table[at])
            at = (at + 1) & (cap - 1);
        table[at] = old[i];
    }
    free(old);
    p->names.data = table;
    p->names.cap = cap;
    return true;
}

static inline bool same(const struct sg_px_name *name, const char *s, uint32_t n, uint32_t hash)
{
    if (name->hash != hash || name->len != n)
        return false;
    for (uint32_t i = 0; i < n; i++) /* short and nearly always equal */
        if (name->text[i] != s[i])
            return false;
    return true;
}

static struct sg_px_name **slot_of(const struct sg_px *p, const char *s, uint32_t n, uint32_t hash)
{
    struct sg_px_name **table = p->names.data;
    size_t at = SG_PX_HASH_SLOT(hash, p->names.cap);

    while (table[at] && !same(table[at], s, n, hash))
        at = (at + 1) & (p->names.cap - 1);
    return &table[at];
}

struct sg_px_name *sg_px_intern(struct sg_px *p, const char *s, uint32_t n, uint32_t hash)
{
    struct sg_px_name **slot, *name;

    if (p->names.n * 2 >= p->names.cap && !grow(p))
        return NULL;
    slot = slot_of(p, s, n, hash);
    name = *slot;
    if (name)
        return name;
    name = sg_px_get(p, sizeof(*name) + n + 1);
    if (!name)
        return NULL;
    memcpy(name + 1, s, n);
    name->text = (const char *)(name + 1);
    name->len = n;
    name->hash = hash;
    *slot = name;
    p->names.n++;
    return name;
}

struct sg_px_name *sg_px_intern_tok(struct sg_px *p)
{
    if (p->tok.kind != SG_TOK_IDENT) {
        sg_px_unexpected(p, "a name");
        return NULL;
    }
    return sg_px_intern(p, p->tok.s, p->tok.len, p->tok.hash);
}

/* Puts a symbol of @depth where it belongs among those of its name. */
static struct sg_px_sym *insert(struct sg_px *p, struct sg_px_name *name, enum sg_px_symkind kind,
                                uint32_t depth)
{
    struct sg_px_sym *sym = sg_px_get(p, sizeof(*sym));
    struct sg_px_sym **at = kind == SG_SYM_RANGE ? &name->range : &name->sym;

    if (!sym)
        return NULL;
    while (*at && (*at)->depth > depth)
        at = &(*at)->below;
    sym->below = *at;
    *at = sym;
    sym->kind = (uint8_t)kind;
    sym->name = name;
    sym->depth = depth;
    sym->in_scope = p->scopes[depth].syms;
    p->scopes[depth].syms = sym;
    return sym;
}

struct sg_px_sym *sg_px_declare(struct sg_px *p, struct sg_px_name *name, enum sg_px_symkind kind,
                                uint32_t depth, uint32_t line)
{
    struct sg_px_sym *top = kind == SG_SYM_RANGE ? name->range : name->sym;

    if (top && top->depth == depth && top->kind != SG_SYM_SREG && top->kind != SG_SYM_WARP_SZ) {
        sg_px_fail(p, TB_ERR_FORMAT, line, "'%.100s' is declared twice", name->text);
        return NULL;
    }
    if (kind == SG_SYM_RANGE)
        p->scopes[depth].range_depth = depth;
    return insert(p, name, kind, depth);
}

bool sg_px_add_reg(struct sg_px *p, struct sg_px_name *name, enum sg_ptx_mod type, uint8_t vec,
                   uint32_t *index)
{
    struct sg_ptx_reg *r;

    if (!sg_px_room(p, &p->regs, 1, sizeof(*r)))
        return false;
    r = (struct sg_ptx_reg *)p->regs.data + p->regs.n;
    r->name = name->text;
    r->type = type;
    r->vec = vec;
    *index = (uint32_t)p->regs.n++;
    return true;
}

/* "%r12" may be a member of the ranges %r1<> and %r<>: the innermost such, if it is deeper than
 * @depth. */
static struct sg_px_sym *find_range(const struct sg_px *p, const struct sg_px_name *name,
                                    uint32_t depth)
{
    struct sg_px_sym *best = NULL, *sym;
    uint64_t number = 0, unit = 1;

    for (uint32_t at = name->len; at > 1 && name->len - at < SG_PX_DIGITS; unit *= 10) {
        const struct sg_px_name *prefix;
        char c = name->text[at - 1];

        if (c < '0' || c > '9')
            break;
        at--;
        number += (uint64_t)(c - '0') * unit;
        if (c == '0' && at + 1 != name->len)
            continue; /* no number starts here */
        prefix = *slot_of(p, name->text, at, sg_px_hash(name->text, at));
        for (sym = prefix ? prefix->range : NULL; sym && sym->depth > depth; sym = sym->below)
            if (number < sym->value) {
                depth = sym->depth;
                best = sym;
            }
    }
    return best;
}

static struct sg_px_sym *declare_sreg(struct sg_px *p, struct sg_px_name *name, uint32_t sreg)
{
    struct sg_px_sym *sym = insert(p, name, sreg ? SG_SYM_SREG : SG_SYM_WARP_SZ, 0);

    if (sym)
        sym->value = sreg;
    return sym;
}

/* Special registers that come in numbers; their names stop where the number begins. */
static const struct {
    uint32_t sreg, count;
    const char *suffix;
} numbered[] = {
    {SG_SREG_ENVREG, 32, ""},
    {SG_SREG_PM, 8, ""},
    {SG_SREG_PM64, 8, "_64"},
    {SG_SREG_RESERVED_SMEM_OFFSET, 2, ""},
};

/* "%envreg12" is number 12 of @i? */
static bool number_of(size_t i, const char *text, uint32_t *number)
{
    const char *base = sg_ptx_sreg_name(numbered[i].sreg), *s;
    size_t n = strlen(base) - strlen(numbered[i].suffix);

    if (strncmp(text, base, n) != 0)
        return false;
    *number = 0;
    for (s = text + n; *s >= '0' && *s <= '9' && *number < numbered[i].count; s++)
        *number = *number * 10 + (uint32_t)(*s - '0');
    return s > text + n && *number < numbered[i].count && (text[n] != '0' || s == text + n + 1) &&
           strcmp(s, numbered[i].suffix) == 0;
}

/* *out stays NULL if @name is none of them */
static bool numbered_sreg(struct sg_px *p, struct sg_px_name *name, struct sg_px_sym **out)
{
    uint32_t number;

    for (size_t i = 0; name->text[0] == '%' && i < TB_ARRAY_LEN(numbered); i++) {
        if (!number_of(i, name->text, &number))
            continue;
        *out = declare_sreg(p, name, numbered[i].sreg);
        if (!*out)
            return false;
        (*out)->comp = (uint8_t)number;
        (*out)->has_comp = true;
        break;
    }
    return true;
}

/* The innermost symbol of @name, or NULL; a member of a range becomes a register. */
bool sg_px_lookup(struct sg_px *p, struct sg_px_name *name, struct sg_px_sym **out)
{
    struct sg_px_sym *sym = name->sym, *range = NULL;
    uint32_t depth = sym ? sym->depth : 0, index;

    *out = sym;
    if (depth < p->scopes[p->depth].range_depth)
        range = find_range(p, name, depth);
    if (!range)
        return sym || numbered_sreg(p, name, out);
    if (!sg_px_add_reg(p, name, range->type, range->vec, &index))
        return false;
    sym = insert(p, name, SG_SYM_REG, range->depth);
    if (!sym)
        return false;
    sym->value = index;
    *out = sym;
    return true;
}

static bool is_numbered(uint32_t sreg)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(numbered); i++)
        if (numbered[i].sreg == sreg)
            return true;
    return false;
}

bool sg_px_declare_sregs(struct sg_px *p)
{
    for (uint32_t i = 0; i < SG_SREG_COUNT; i++) {
        const char *text = i ? sg_ptx_sreg_name(i) : "WARP_SZ";
        uint32_t n = (uint32_t)strlen(text);
        struct sg_px_name *name;

        if (is_numbered(i))
            continue;
        name = sg_px_intern(p, text, n, sg_px_hash(text, n));
        if (!name || !declare_sreg(p, name, i))
            return false;
    }
    return true;
}

bool sg_px_scope_enter(struct sg_px *p, uint32_t line)
{
    if (p->depth == SG_PX_MAX_DEPTH)
        return sg_px_fail(p, TB_ERR_LIMIT, line, "more than %d nested scopes", SG_PX_MAX_DEPTH);
    p->depth++;
    p->scopes[p->depth].syms = NULL;
    p->scopes[p->depth].range_depth = p->scopes[p->depth - 1].range_depth;
    p->scopes[p->depth].pending_start = p->pending.n;
    return true;
}

bool sg_px_want_label(struct sg_px *p, struct sg_px_name *name, struct sg_ptx_opnd *opnd,
                      uint32_t *target, uint32_t line)
{
    struct sg_px_pending *w;

    if (!sg_px_room(p, &p->pending, 1, sizeof(*w)))
        return false;
    w = (struct sg_px_pending *)p->pending.data + p->pending.n++;
    w->name = name;
    w->opnd = opnd;
    w->target = target;
    w->line = line;
    return true;
}

/* Gives a use of a label its meaning; false if no symbol of this scope is it. */
static bool resolve(struct sg_px *p, const struct sg_px_pending *w)
{
    const struct sg_px_sym *sym = w->name->sym;

    if (!sym || sym->depth != p->depth)
        return false;
    if (sym->kind == SG_SYM_LABEL) {
        if (w->target)
            *w->target = sym->value;
        else
            w->opnd->target = sym->value;
        return true;
    }
    if (sym->kind == SG_SYM_TABLE && w->opnd) {
        w->opnd->kind = SG_OPND_TABLE;
        w->opnd->table = sym->table;
        return true;
    }
    return false;
}

bool sg_px_scope_leave(struct sg_px *p)
{
    struct sg_px_scope *scope = &p->scopes[p->depth];
    struct sg_px_pending *w = p->pending.data;
    size_t keep = scope->pending_start;

    for (size_t i = scope->pending_start; i < p->pending.n; i++)
        if (!resolve(p, &w[i]))
            w[keep++] = w[i];
    p->pending.n = keep;
    for (struct sg_px_sym *s = scope->syms; s; s = s->in_scope) {
        if (s->kind == SG_SYM_RANGE)
            s->name->range = s->below;
        else
            s->name->sym = s->below;
    }
    p->depth--;
    if (p->depth == 0 && keep > 0)
        return sg_px_fail(p, TB_ERR_FORMAT, w[0].line, "label '%.100s' is not defined",
                          w[0].name->text);
    return true;
}
