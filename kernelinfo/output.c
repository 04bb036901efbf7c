/* The result: kernels by name, and the bytes of recorder/wire.h. */
#include "kernelinfo/kernelinfo_internal.h"

#include <stdlib.h>
#include <string.h>

static struct ki_kernel *kernel_named(struct ki_result *r, const char *name)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (strcmp(r->kernels[i].name, name) == 0)
            return &r->kernels[i];
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 16;
        struct ki_kernel *kernels = realloc(r->kernels, cap * sizeof(*kernels));

        if (!kernels)
            return NULL;
        r->kernels = kernels;
        r->cap = cap;
    }
    r->kernels[r->n] = (struct ki_kernel){.name = strdup(name)};
    return r->kernels[r->n].name ? &r->kernels[r->n++] : NULL;
}

static struct ki_word *word_at(struct ki_kernel *to, uint32_t offset, uint8_t bytes)
{
    struct ki_word *words;

    for (uint32_t i = 0; i < to->nwords; i++)
        if (to->words[i].offset == offset && to->words[i].bytes == bytes)
            return &to->words[i];
    words = realloc(to->words, (to->nwords + 1) * sizeof(*words));
    if (!words)
        return NULL;
    to->words = words;
    words[to->nwords] = (struct ki_word){.offset = offset, .bytes = bytes};
    return &words[to->nwords++];
}

static bool add_word(struct ki_kernel *to, const struct ki_word *w)
{
    struct ki_word *have;

    if (w->part && !(w->flags & TB_WORD_VALUE))
        return true; /* the word that it is part of is there */
    if (w->offset > UINT16_MAX) {
        to->flags |= TB_KERNEL_UNTRACED_READ | TB_KERNEL_UNTRACED_WRITE;
        return true;
    }
    have = word_at(to, w->offset, w->bytes);
    if (!have)
        return false;
    have->flags |= w->flags;
    if (!(w->flags & (TB_WORD_READ | TB_WORD_WRITE)))
        have->flags |= TB_WORD_VALUE;
    have->write = ki_dt_merge(have->write, w->write);
    have->read = ki_dt_merge(have->read, w->read);
    return true;
}

static bool add_global(struct ki_kernel *to, const struct sg_ptx_var *v, unsigned how)
{
    uint32_t flags = (how & KI_READ ? TB_GLOBAL_READ : 0) | (how & KI_WRITE ? TB_GLOBAL_WRITE : 0) |
                     (v->managed ? TB_GLOBAL_MANAGED : 0) |
                     (ki_is_internal(v) ? TB_GLOBAL_FIXED : 0);
    struct ki_global *globals;

    for (uint32_t i = 0; i < to->nglobals; i++)
        if (strcmp(to->globals[i].name, v->name) == 0) {
            to->globals[i].flags |= flags;
            return true;
        }
    globals = realloc(to->globals, (to->nglobals + 1) * sizeof(*globals));
    if (!globals)
        return false;
    to->globals = globals;
    globals[to->nglobals] = (struct ki_global){strdup(v->name), flags};
    return globals[to->nglobals].name && ++to->nglobals;
}

bool ki_result_add(struct ki_result *r, const struct ki_flow *k)
{
    const struct sg_ptx_func *f = k->u->funcs[k->entry].f;
    struct ki_kernel *to = kernel_named(r, f->name);

    if (!to)
        return false;
    to->flags |= k->flags;
    if (to->param_bytes < f->param_bytes)
        to->param_bytes = (uint32_t)f->param_bytes;
    for (uint32_t i = 0; i < k->nwords; i++)
        if (!add_word(to, &k->words[i]))
            return false;
    for (uint32_t i = KI_FIRST_VAR; i < k->u->nnumbers; i++)
        if (k->used[i] && !add_global(to, k->u->vars[i], k->used[i]))
            return false;
    return true;
}

void ki_result_release(struct ki_result *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        for (uint32_t g = 0; g < r->kernels[i].nglobals; g++)
            free(r->kernels[i].globals[g].name);
        free(r->kernels[i].globals);
        free(r->kernels[i].words);
        free(r->kernels[i].name);
    }
    free(r->kernels);
    *r = (struct ki_result){0};
}

/* ---------------------------------------------------------------- bytes */

static int by_offset(const void *a, const void *b)
{
    const struct ki_word *x = a, *y = b;

    return x->offset != y->offset ? (x->offset > y->offset ? 1 : -1)
                                  : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

struct writer {
    struct tb_wire_kernel *kernel;
    struct tb_wire_word *word;
    struct tb_wire_global *global;
    char *text;
    uint32_t words, globals, text_bytes;
};

static uint32_t put_text(struct writer *w, const char *text)
{
    uint32_t at = w->text_bytes;
    size_t n = strlen(text) + 1;

    memcpy(w->text + at, text, n);
    w->text_bytes += (uint32_t)n;
    return at;
}

static uint8_t plain(uint8_t dt)
{
    return dt == KI_DT_MIXED ? TB_DT_UNKNOWN : dt;
}

static void put_kernel(struct writer *w, const struct ki_kernel *k)
{
    *w->kernel++ = (struct tb_wire_kernel){
        .name = tb_fp_leaf_hash(k->name, strlen(k->name)).lo,
        .text = put_text(w, k->name),
        .flags = k->flags,
        .param_bytes = k->param_bytes,
        .first_word = w->words,
        .words = k->nwords,
        .first_global = w->globals,
        .globals = k->nglobals,
    };
    if (k->nwords)
        qsort(k->words, k->nwords, sizeof(*k->words), by_offset);
    for (uint32_t i = 0; i < k->nwords; i++)
        w->word[w->words++] = (struct tb_wire_word){
            .offset = (uint16_t)k->words[i].offset,
            .bytes = k->words[i].bytes,
            .flags = k->words[i].flags,
            .write = plain(k->words[i].write),
            .read = plain(k->words[i].read),
        };
    for (uint32_t i = 0; i < k->nglobals; i++)
        w->global[w->globals++] = (struct tb_wire_global){.text = put_text(w, k->globals[i].name),
                                                          .flags = k->globals[i].flags};
}

static size_t add_sizes(const struct ki_result *r, struct tb_wire_kernels *h)
{
    size_t words = 0, globals = 0, text = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        words += r->kernels[i].nwords;
        globals += r->kernels[i].nglobals;
        text += strlen(r->kernels[i].name) + 1;
        for (uint32_t g = 0; g < r->kernels[i].nglobals; g++)
            text += strlen(r->kernels[i].globals[g].name) + 1;
    }
    *h = (struct tb_wire_kernels){
        .magic = TB_WIRE_MAGIC,
        .version = TB_WIRE_VERSION,
        .kernels = r->n,
        .words = (uint32_t)words,
        .globals = (uint32_t)globals,
        .text_bytes = (uint32_t)text,
        .variables = r->variables,
    };
    return sizeof(*h) + r->n * sizeof(struct tb_wire_kernel) + words * sizeof(struct tb_wire_word) +
           globals * sizeof(struct tb_wire_global) + text;
}

enum tb_status ki_result_write(const struct ki_result *r, void **out, size_t *bytes,
                               struct tb_error *err)
{
    struct tb_wire_kernels h;
    size_t n = add_sizes(r, &h);
    struct writer w = {0};
    char *p;

    if (n > UINT32_MAX)
        return tb_fail(err, TB_ERR_LIMIT, "too many kernels for one table");
    p = calloc(1, n);
    if (!p)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for a table of %u kernels", r->n);
    memcpy(p, &h, sizeof(h));
    w.kernel = (struct tb_wire_kernel *)(p + sizeof(h));
    w.word = (struct tb_wire_word *)(w.kernel + h.kernels);
    w.global = (struct tb_wire_global *)(w.word + h.words);
    w.text = (char *)(w.global + h.globals);
    for (uint32_t i = 0; i < r->n; i++)
        put_kernel(&w, &r->kernels[i]);
    *out = p;
    *bytes = n;
    return TB_OK;
}
