/* Initial values of variables: bytes, and addresses that are known only when the module is loaded.
 */
#include "softgpu/ptx/ptx_internal.h"

struct init {
    struct sg_px *p;
    enum sg_ptx_mod type;
    uint32_t size;                       /* of a scalar, in bytes */
    uint64_t total;                      /* scalars, UINT64_MAX: as many as there are */
    uint64_t stride[SG_PX_MAX_DIMS + 2]; /* scalars below a brace of this depth */
    uint32_t ndims;
    uint64_t seen; /* scalars, those left out included */
};

/* The @size bytes of scalar @i, all before it are there as zeros; NULL on failure */
static uint8_t *room_for(struct init *in, uint64_t i, uint32_t line)
{
    struct sg_px *p = in->p;
    uint64_t end;

    if (i >= in->total) {
        sg_px_fail(p, TB_ERR_FORMAT, line, "more initial values than elements");
        return NULL;
    }
    end = (i + 1) * in->size;
    if (end > SG_PX_MAX_INIT_BYTES) {
        sg_px_fail(p, TB_ERR_LIMIT, line, "initial values of more than %u MiB",
                   (unsigned)(SG_PX_MAX_INIT_BYTES >> 20));
        return NULL;
    }
    if (end > p->bytes.n) {
        if (!sg_px_room(p, &p->bytes, end - p->bytes.n, 1))
            return NULL;
        memset((uint8_t *)p->bytes.data + p->bytes.n, 0, end - p->bytes.n);
        p->bytes.n = end;
    }
    return (uint8_t *)p->bytes.data + end - in->size;
}

static bool is_float_type(enum sg_ptx_mod type)
{
    return type == SG_M_F32 || type == SG_M_F64;
}

static bool bits_of(struct init *in, const struct sg_px_val *v, uint32_t line, uint64_t *bits)
{
    double f = v->kind == SG_VAL_F64 ? v->f : v->kind == SG_VAL_U64 ? (double)v->u : (double)v->i;
    float narrow = (float)f;
    uint32_t bits32;

    if (v->kind != SG_VAL_F64 && !is_float_type(in->type)) {
        *bits = v->u;
        return true;
    }
    if (!is_float_type(in->type) && in->type != SG_M_B32 && in->type != SG_M_B64)
        return sg_px_fail(in->p, TB_ERR_FORMAT, line, "floating-point initial value of type .%s",
                          sg_ptx_mod_name(in->type));
    if (in->size == 8) {
        memcpy(bits, &f, sizeof(f));
        return true;
    }
    memcpy(&bits32, &narrow, sizeof(bits32));
    *bits = v->kind == SG_VAL_F64 && v->is_f32 ? v->f32 : bits32;
    return true;
}

static bool store_value(struct init *in, uint64_t i, const struct sg_px_val *v, uint32_t line)
{
    uint8_t *at = room_for(in, i, line);
    uint64_t bits = 0;

    if (!at || !bits_of(in, v, line, &bits))
        return false;
    for (uint32_t k = 0; k < in->size; k++) {
        if (k < 8)
            at[k] = (uint8_t)(bits >> (8 * k));
        else
            at[k] = v->kind == SG_VAL_S64 && v->i < 0 ? 0xff : 0;
    }
    return true;
}

static bool symbol_known(struct sg_px *p, struct sg_px_name *name, uint32_t line)
{
    struct sg_px_wanted *w;

    if (name->sym && name->sym->depth > 0)
        return sg_px_fail(p, TB_ERR_UNSUPPORTED, line,
                          "address of '%.100s', which is local, as initial value", name->text);
    if (!sg_px_room(p, &p->wanted, 1, sizeof(*w)))
        return false;
    w = (struct sg_px_wanted *)p->wanted.data + p->wanted.n++;
    w->name = name;
    w->line = line;
    return true;
}

/* symbol, symbol + 4, generic(symbol) - 4; what is masked has its size and shift set already */
static bool address(struct init *in, uint64_t i, struct sg_ptx_reloc *r)
{
    struct sg_px *p = in->p;
    uint32_t line = p->tok.line;
    struct sg_px_name *name;

    if (sg_px_word(p, SG_TOK_IDENT, "generic") && sg_px_peek(p) == '(') {
        sg_px_next(p);
        sg_px_next(p);
        r->generic = true;
    }
    name = sg_px_intern_tok(p);
    if (!name || !symbol_known(p, name, line))
        return false;
    sg_px_next(p);
    if ((r->generic && !sg_px_expect(p, ')', "')' of generic")) || !sg_px_offset(p, &r->addend))
        return false;
    if (r->size == 0 && in->size != 4 && in->size != 8)
        return sg_px_fail(p, TB_ERR_FORMAT, line, "address of '%.100s' does not fit type .%s",
                          name->text, sg_ptx_mod_name(in->type));
    if (!room_for(in, i, line) || !sg_px_room(p, &p->relocs, 1, sizeof(*r)))
        return false;
    r->symbol = name->text;
    r->offset = i * in->size;
    r->size = r->size ? r->size : (uint8_t)in->size;
    ((struct sg_ptx_reloc *)p->relocs.data)[p->relocs.n++] = *r;
    return true;
}

/* 0xFF00(symbol): one byte of an address; at the mask */
static bool masked(struct init *in, uint64_t i)
{
    struct sg_px *p = in->p;
    struct sg_ptx_reloc r = {.size = 1};
    uint64_t mask = p->tok.u;

    r.shift = mask ? (uint8_t)((unsigned)__builtin_ctzll(mask) / 8) : 0;
    if (mask == 0 || mask >> (8 * r.shift) != 0xff)
        return sg_px_fail(p, TB_ERR_FORMAT, p->tok.line, "mask '%.*s' is not of one byte",
                          sg_px_cut(&p->tok), p->tok.s);
    sg_px_next(p);
    sg_px_next(p);
    return address(in, i, &r) && sg_px_expect(p, ')', "')' of a mask");
}

static bool scalar(struct init *in, uint64_t i)
{
    struct sg_px *p = in->p;
    struct sg_ptx_reloc r = {0};
    uint32_t line = p->tok.line;
    struct sg_px_val v = {0};

    if (sg_px_is(p, SG_TOK_INT) && sg_px_peek(p) == '(')
        return masked(in, i);
    if (sg_px_is(p, SG_TOK_IDENT) && !sg_px_word(p, SG_TOK_IDENT, "WARP_SZ"))
        return address(in, i, &r);
    return sg_px_const(p, &v) && store_value(in, i, &v, line);
}

/* A brace of @depth that starts at scalar @at; behind the brace */
static bool list(struct init *in, uint32_t depth, uint64_t at)
{
    struct sg_px *p = in->p;
    uint64_t start = at, end = in->stride[depth];

    while (!sg_px_is(p, '}')) {
        uint32_t line = p->tok.line;

        if (end != UINT64_MAX && at - start >= end)
            return sg_px_fail(p, TB_ERR_FORMAT, line, "more initial values than elements");
        if (sg_px_accept(p, '{')) {
            if (depth + 1 >= in->ndims)
                return sg_px_fail(p, TB_ERR_FORMAT, line, "braces deeper than the dimensions");
            if (!list(in, depth + 1, at))
                return false;
            at += in->stride[depth + 1];
        } else {
            if (!scalar(in, at))
                return false;
            at++;
        }
        if (at > SG_PX_MAX_INIT_BYTES)
            return sg_px_fail(p, TB_ERR_LIMIT, line, "too many initial values");
        if (!sg_px_is(p, '}') && !sg_px_expect(p, ',', "',' or '}' of initial values"))
            return false;
    }
    if (at > in->seen)
        in->seen = at;
    sg_px_next(p);
    return true;
}

static bool keep_bytes(struct sg_px *p, struct sg_ptx_var *v, uint32_t line)
{
    uint8_t *init;

    if (v->size > SG_PX_MAX_INIT_BYTES - p->init_bytes)
        return sg_px_fail(p, TB_ERR_LIMIT, line, "initial values of more than %u MiB",
                          (unsigned)(SG_PX_MAX_INIT_BYTES >> 20));
    p->init_bytes += v->size;
    if (v->size == 0)
        return true;
    init = sg_px_get(p, v->size);
    if (!init)
        return false;
    if (p->bytes.n > 0)
        memcpy(init, p->bytes.data, p->bytes.n);
    v->init = init;
    v->nrelocs = (uint32_t)p->relocs.n;
    return sg_px_keep(p, p->relocs.data, p->relocs.n, sizeof(struct sg_ptx_reloc), &v->relocs);
}

bool sg_px_init(struct sg_px *p, struct sg_ptx_var *v, const struct sg_px_decl *d, uint64_t *dims,
                uint32_t ndims)
{
    struct init in = {.p = p, .type = d->type, .size = sg_ptx_type_size(d->type), .ndims = ndims};
    uint32_t line = p->tok.line;
    bool unsized = ndims > 0 && dims[0] == 0;
    uint64_t below = 1;

    if (d->vec > 1) /* the components are one more dimension */
        dims[in.ndims++] = d->vec;
    for (uint32_t i = in.ndims; i-- > 0;) {
        below *= dims[i];
        in.stride[i] = below;
    }
    if (in.ndims == 0)
        in.stride[0] = 1;
    if (unsized)
        in.stride[0] = UINT64_MAX;
    in.total = in.stride[0];
    p->bytes.n = p->relocs.n = 0;
    in.ndims = in.ndims ? in.ndims : 1; /* a scalar may stand in braces */
    if (sg_px_accept(p, '{') ? !list(&in, 0, 0) : !scalar(&in, 0))
        return false;
    if (unsized) {
        uint64_t per = in.ndims > 1 ? in.stride[1] : 1;
        uint64_t n = per ? (in.seen + per - 1) / per : 0;

        v->size = n * per * in.size;
        if (v->size < p->bytes.n)
            return sg_px_fail(p, TB_ERR_FORMAT, line, "dimension of an array is 0");
    }
    return keep_bytes(p, v, line);
}
