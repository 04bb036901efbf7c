/* Accesses: read from Python's words, hashed, keyed, and put into words as lines of a site. */
#include "recorder/pytap/pytap_internal.h"

#include <string.h>

/* tb_dtype_name() of fingerprint.h; a tap links nothing of twinbit */
static const char *const dtype_names[TB_DT_COUNT] = {
    "?",    "u8",  "i8",  "i16",  "i32",    "i64",    "f16", "f32", "f64", "bf16",
    "bool", "c32", "c64", "c128", "f8e4m3", "f8e5m2", "u16", "u32", "u64"};

static uint64_t bytes_of(const struct tb_pt_access *a, const int64_t *sizes)
{
    uint64_t n = a->elem;

    for (int d = 0; d < a->ndim; d++)
        n *= (uint64_t)sizes[d];
    return n;
}

static struct tb_pt_access unpack(const int64_t *w)
{
    return (struct tb_pt_access){
        .mode = (char)(w[0] & 0xff),
        .dtype = (uint8_t)(w[0] >> 8 & 0xff),
        .elem = (uint8_t)(w[0] >> 16 & 0xff),
        .ndim = (uint8_t)(w[0] >> 24 & 0xff),
        .flags = (uint32_t)(w[0] >> 32),
        .arg = (uint32_t)w[1],
        .device = (uint32_t)((uint64_t)w[1] >> 32),
        .ptr = (const char *)(uintptr_t)w[2],
        .storage = (uint64_t)w[3],
        .storage_ptr = (uint64_t)w[4],
        .storage_bytes = (uint64_t)w[5],
        .offset = w[6],
    };
}

/* What stands for bytes that are not a tensor's: a number, a generator's state. */
static void special(struct tb_pt_access *a)
{
    if (a->mode == 'h') {
        a->fp = (struct tb_fp){(uint64_t)(uintptr_t)a->ptr, a->storage};
        a->fp_kind = TB_FP_SCALAR;
    } else if (a->mode == 'g') {
        a->alloc = TB_ALLOC_RNG + (uint64_t)a->offset; /* the generator's number */
        if (a->ptr)
            a->fp = tb_pt_rng(a->ptr, a->storage_bytes, &a->fp_kind);
    } else if (a->mode != 'x') {
        return;
    }
    a->offset = 0;
    a->storage = 0;
    a->ptr = NULL;
}

bool tb_pt_read_words(struct tb_pt_ctx *c, const int64_t *words, uint64_t n)
{
    size_t count = c->count, dim_count = c->dim_count;

    for (uint64_t at = 0; at < n;) {
        if (n - at < TB_PT_WORDS)
            goto bad;
        struct tb_pt_access a = unpack(words + at);
        size_t dims = a.flags & TB_PT_CONTIGUOUS ? a.ndim : 2u * a.ndim;
        at += TB_PT_WORDS;
        if (n - at < dims || a.ndim > TB_FP_MAX_DIMS || a.dtype >= TB_DT_COUNT || a.elem > 16 ||
            !tb_pt_grow(&c->access, &c->capacity, c->count + 1, sizeof(*c->access)) ||
            !tb_pt_grow(&c->dims, &c->dim_capacity, c->dim_count + dims, sizeof(*c->dims)))
            goto bad;
        a.dims = c->dim_count;
        if (dims)
            memcpy(c->dims + c->dim_count, words + at, dims * sizeof(*c->dims));
        a.bytes = bytes_of(&a, words + at);
        at += dims;
        c->dim_count += dims;
        special(&a);
        c->access[c->count++] = a;
    }
    return true;
bad:
    c->count = count;
    c->dim_count = dim_count;
    return false;
}

void tb_pt_hash(const struct tb_pt_ctx *c, struct tb_pt_access *a)
{
    if (a->flags & TB_PT_CONTIGUOUS) {
        a->fp = tb_pt.api->fp_host_pool(a->ptr, a->bytes, 0, NULL);
        a->fp_kind = TB_FP_BYTES;
        return;
    }
    struct tb_fp_layout l = {a->elem, a->ndim, c->dims + a->dims, c->dims + a->dims + a->ndim};
    a->fp = tb_pt.api->fp_strided(a->ptr, &l, NULL);
    a->fp_kind = TB_FP_ROWMAJOR;
}

static size_t dims_of(const struct tb_pt_access *a)
{
    return a->flags & TB_PT_CONTIGUOUS ? a->ndim : 2u * a->ndim;
}

uint64_t tb_pt_extent_key(const struct tb_pt_ctx *c, const struct tb_pt_access *a)
{
    uint64_t h = tb_pt_key(tb_pt_key(0x3e, (uint64_t)a->offset), a->bytes);

    for (size_t i = 0; !(a->flags & TB_PT_CONTIGUOUS) && i < dims_of(a); i++)
        h = tb_pt_key(h, (uint64_t)c->dims[a->dims + i]);
    return h;
}

uint64_t tb_pt_site_key(const struct tb_pt_ctx *c)
{
    uint64_t h = tb_pt_key(0x57a7e, (uint64_t)c->op << 8 | c->kind);

    for (size_t i = 0; i < c->count; i++) {
        const struct tb_pt_access *a = &c->access[i];
        h = tb_pt_key(h, (uint8_t)a->mode | (uint64_t)a->dtype << 8 | (uint64_t)a->ndim << 16 |
                             (uint64_t)a->flags << 32);
        h = tb_pt_key(h, a->arg | (uint64_t)a->device << 32);
        for (size_t d = 0; d < dims_of(a); d++)
            h = tb_pt_key(h, (uint64_t)c->dims[a->dims + d]);
    }
    return h;
}

static void put_dims(struct tb_pt_thread *t, const int64_t *v, int n)
{
    tb_pt_put_char(t, '[');
    for (int i = 0; i < n; i++) {
        if (i)
            tb_pt_put_char(t, ',');
        tb_pt_put_number(t, v[i]);
    }
    tb_pt_put_char(t, ']');
}

static void put_line(struct tb_pt_thread *t, const struct tb_pt_ctx *c,
                     const struct tb_pt_access *a)
{
    const int64_t *dims = c->dims + a->dims;

    tb_pt_put_char(t, a->mode);
    tb_pt_put_char(t, ' ');
    tb_pt_put(t, dtype_names[a->mode == 'g' ? TB_DT_UNKNOWN : a->dtype]);
    tb_pt_put_char(t, ' ');
    tb_pt_put(t, a->device ? tb_pt_string(a->device) : "cpu");
    tb_pt_put_char(t, ' ');
    put_dims(t, dims, a->ndim);
    tb_pt_put_char(t, ' ');
    if (a->flags & TB_PT_CONTIGUOUS)
        tb_pt_put_char(t, '-');
    else
        put_dims(t, dims + a->ndim, a->ndim);
    tb_pt_put_char(t, ' ');
    tb_pt_put(t, tb_pt_string(a->arg));
    if (a->flags & TB_PT_CONJ)
        tb_pt_put(t, "~conj");
    if (a->flags & TB_PT_NEG)
        tb_pt_put(t, "~neg");
    tb_pt_put_char(t, '\n');
}

void tb_pt_site_text(struct tb_pt_thread *t, const struct tb_pt_ctx *c)
{
    t->text_size = 0;
    tb_pt_put(t, "torch\n");
    tb_pt_put(t, tb_pt_string(c->op));
    tb_pt_put_char(t, '\n');
    for (size_t i = 0; i < c->count; i++)
        put_line(t, c, &c->access[i]);
}

/* ---------------------------------------------------------------- random numbers */

#define MERSENNE 624

/* What torch.Generator.get_state() gives for the CPU: at::CPUGeneratorImpl's stored form. */
struct cpu_state {
    uint64_t seed;
    int32_t left, seeded;
    uint64_t next, state[MERSENNE];
    double normal_x, normal_y, normal_rho;
    int32_t normal_is_valid, pad0;
    float next_float;
    uint8_t next_float_valid, pad1[3];
};
static_assert(sizeof(struct cpu_state) == 5056, "pytap: cpu_state");

/* The same canonical encoding as the C++ tap's: no padding, absent samples as zeros with a flag. */
struct tb_fp tb_pt_rng(const void *state, uint64_t n, uint8_t *kind)
{
    uint32_t words[MERSENNE + 16] = {0}, *w = words + MERSENNE;
    struct cpu_state s;

    *kind = TB_FP_STATE;
    if (n != sizeof(s))
        return tb_pt.api->fp_host_pool(state, n, 0, NULL);
    memcpy(&s, state, sizeof(s));
    for (size_t i = 0; i < MERSENNE; i++)
        words[i] = (uint32_t)s.state[i];
    w[0] = (uint32_t)s.seed;
    w[1] = (uint32_t)(s.seed >> 32);
    w[2] = (uint32_t)s.left;
    w[3] = (uint32_t)s.seeded;
    w[4] = (uint32_t)s.next;
    w[5] = s.next_float_valid != 0;
    if (w[5])
        memcpy(&w[6], &s.next_float, 4);
    w[7] = s.normal_is_valid != 0;
    if (w[7])
        memcpy(&w[8], &s.normal_x, 8);
    return tb_pt.api->fp_host_pool(words, sizeof(words), 0, NULL);
}
