/* From an image to its PTX texts, and from these to the result. */
#include "kernelinfo/kernelinfo.h"

#include "kernelinfo/kernelinfo_internal.h"
#include "softgpu/fatbin/fatbin.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* Instructions looked at for one image, all rounds together: some ten seconds of one core. */
#define BUDGET UINT64_C(150000000)
#define MOST_TEXT ((size_t)1 << 30)

struct work {
    struct ki_result result;
    struct ki_limits limits;
    size_t text; /* bytes of PTX so far */
    unsigned texts, read, machine;
    enum tb_status status;  /* of what ends it: no memory, a broken fat binary */
    struct tb_error unread; /* the first text that cannot be read */
    struct tb_error *err;
};

static bool analyse(struct work *w, const struct sg_ptx_module *m)
{
    struct ki_unit u = {0};
    struct ki_flow k = {0};
    bool ok = ki_unit_init(&u, m) && ki_flow_init(&k, &u, &w->limits);

    if (ok && u.named > w->result.variables)
        w->result.variables = u.named;
    for (uint32_t i = 0; ok && i < u.nfuncs && !ki_cancelled(&w->limits); i++)
        if (u.funcs[i].f->is_entry && u.funcs[i].f->has_body)
            ok = ki_flow_run(&k, i) && ki_result_add(&w->result, &k);
    ki_flow_release(&k);
    ki_unit_release(&u);
    return ok;
}

static void read_text(struct work *w, const char *text, size_t n)
{
    struct tb_error why = {0};
    struct sg_ptx_module *m = NULL;
    enum tb_status st;

    w->texts++;
    w->text += n;
    if (w->text > MOST_TEXT) {
        w->status = tb_fail(w->err, TB_ERR_LIMIT, "more than 1 GiB of PTX");
        return;
    }
    st = sg_ptx_parse_all(text, n, "ptx", &m, &why);
    if (st == TB_OK) {
        w->read++;
        if (!analyse(w, m))
            w->status = tb_fail(w->err, TB_ERR_NOMEM, "no memory to analyse %zu bytes of PTX", n);
    } else if (st == TB_ERR_NOMEM) {
        w->status = tb_fail(w->err, st, "%s", why.text);
    } else if (w->unread.status == TB_OK) {
        w->unread = why;
    }
    sg_ptx_free(m);
}

static void read_machine(struct work *w, const void *elf, size_t n)
{
    uint32_t variables = ki_machine_variables(elf, n);

    w->machine++;
    if (variables > w->result.variables)
        w->result.variables = variables;
}

/* Unpacking takes time, and one that has variables says it all. */
static void read_machine_entry(struct work *w, const struct sg_fatbin_entry *e)
{
    void *elf = NULL;
    size_t n = 0;

    if (w->result.variables) {
        w->machine++;
        return;
    }
    if (sg_fatbin_data(e, &elf, &n, NULL) != TB_OK)
        n = 0; /* nothing is known of it */
    read_machine(w, elf, n);
    free(elf);
}

static bool read_entry(void *arg, const struct sg_fatbin_entry *e)
{
    struct work *w = arg;
    struct tb_error why = {0};
    char *text = NULL;
    size_t len = 0;

    if (e->kind == SG_FATBIN_ELF)
        read_machine_entry(w, e);
    if (e->kind != SG_FATBIN_PTX)
        return true;
    w->status = sg_fatbin_text(e, &text, &len, &why);
    if (w->status == TB_OK)
        read_text(w, text, len);
    else
        tb_fail(w->err, w->status, "%s", why.text);
    free(text);
    return w->status == TB_OK;
}

/* Bytes of the fat binary at @p, as its header says; 0: there is none. */
static size_t fatbin_size(const char *p, size_t n)
{
    uint32_t magic;
    uint64_t rest;

    if (n < 16)
        return 0;
    memcpy(&magic, p, sizeof(magic));
    memcpy(&rest, p + 8, sizeof(rest));
    return magic == SG_FATBIN_MAGIC && rest <= n - 16 ? 16 + (size_t)rest : 0;
}

/* Programs of several parts have several fat binaries, one behind the other here. */
static void read_fatbins(struct work *w, const char *p, size_t n)
{
    size_t size;

    do {
        enum tb_status st;

        size = fatbin_size(p, n);
        st = sg_fatbin_each(p, n, read_entry, w, w->err);
        if (st != TB_OK) {
            w->status = st;
            return;
        }
        p += size;
        n -= size;
    } while (size && w->status == TB_OK && fatbin_size(p, n));
    if (w->status == TB_OK && w->texts == 0 && !w->machine)
        w->status = tb_fail(w->err, TB_ERR_UNSUPPORTED, "neither PTX nor machine code");
}

/* A text starts with blanks, a comment or a directive. */
static bool is_text(const char *p, size_t n)
{
    size_t i = 0;

    while (i < n && (p[i] == ' ' || (p[i] >= '\t' && p[i] <= '\r')))
        i++;
    return i < n && (p[i] == '.' || p[i] == '/');
}

static void read_image(struct work *w, const void *image, size_t n)
{
    uint32_t magic = 0;

    if (n >= sizeof(magic))
        memcpy(&magic, image, sizeof(magic));
    if (magic == SG_FATBIN_MAGIC)
        read_fatbins(w, image, n);
    else if (n >= SELFMAG && memcmp(image, ELFMAG, SELFMAG) == 0)
        read_machine(w, image, n);
    else if (magic == SG_FATBIN_WRAPPER)
        w->status = tb_fail(w->err, TB_ERR_FORMAT, "the wrapper of a fat binary, not its data");
    else if (is_text(image, n))
        read_text(w, image, n);
    else
        w->status = tb_fail(w->err, TB_ERR_FORMAT, "neither PTX nor a fat binary");
}

/* What could not be read may be what runs: then nothing is known for certain. */
static void doubt(struct work *w)
{
    for (uint32_t i = 0; i < w->result.n; i++)
        w->result.kernels[i].flags |= TB_KERNEL_UNTRACED_READ | TB_KERNEL_UNTRACED_WRITE;
}

enum tb_status tb_kernelinfo_until(const void *image, size_t n, const int *cancel, void **out,
                                   size_t *out_bytes, struct tb_error *err)
{
    struct work w = {.limits = {BUDGET, cancel}, .err = err};
    enum tb_status st;

    read_image(&w, image, n);
    st = w.status;
    if (st == TB_OK && ki_cancelled(&w.limits))
        st = tb_fail(err, TB_ERR_BUSY, "the analysis was cancelled");
    if (st == TB_OK && w.unread.status != TB_OK) {
        (void)tb_fail(err, w.unread.status, "%s", w.unread.text);
        st = w.read ? TB_OK : w.unread.status;
        doubt(&w);
    }
    if (st == TB_OK)
        st = ki_result_write(&w.result, out, out_bytes, err);
    ki_result_release(&w.result);
    return st;
}

enum tb_status tb_kernelinfo(const void *image, size_t n, void **out, size_t *out_bytes,
                             struct tb_error *err)
{
    return tb_kernelinfo_until(image, n, NULL, out, out_bytes, err);
}
