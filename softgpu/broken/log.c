/* The log: a JSON object a line. What its lines hold is in README.md. */
#include "softgpu/broken/broken_internal.h"
#include "softgpu/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sg_log {
    FILE *f;
};

static const char *const whats[] = {"result", "address", "store", "cell", "l2", "copy"};
static const char *const places[] = {"launch", "step", "copy"};
static const char *const ways[] = {"h2d", "d2h", "d2d"};

static void text(FILE *f, const char *key, const char *value)
{
    fprintf(f, ",\"%s\":\"", key);
    for (; *value; value++)
        if (*value == '"' || *value == '\\')
            fprintf(f, "\\%c", *value);
        else if ((unsigned char)*value < 0x20)
            fprintf(f, "\\u%04x", (unsigned)*value);
        else
            fputc(*value, f);
    fputc('"', f);
}

static void number(FILE *f, const char *key, uint64_t value)
{
    fprintf(f, ",\"%s\":%" PRIu64, key, value);
}

static void hex(FILE *f, const char *key, uint64_t value)
{
    fprintf(f, ",\"%s\":\"0x%" PRIx64 "\"", key, value);
}

static void triple(FILE *f, const char *key, const uint32_t v[3])
{
    fprintf(f, ",\"%s\":[%u,%u,%u]", key, v[0], v[1], v[2]);
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum tb_status open_file(const char *name, FILE **out, struct tb_error *err)
{
    char path[4096];
    int fd = sg_log_file_open(name, path, sizeof(path));

    if (fd < 0)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot write the log of faults '%s'", path);
    *out = fdopen(fd, "a");
    if (*out == NULL) {
        close(fd);
        return tb_fail(err, TB_ERR_NOMEM, "cannot write the log of faults '%s'", path);
    }
    return TB_OK;
}

static void write_head(FILE *f, const struct sg_broken_options *opt, const struct sg_specs *specs)
{
    fprintf(f, "{\"softgpu_faults\":1");
    number(f, "pid", (uint64_t)getpid());
    number(f, "seed", opt->seed);
    number(f, "in_order", opt->in_order);
    number(f, "devices", opt->devices);
    number(f, "sms", opt->sms);
    fprintf(f, ",\"specs\":[");
    for (unsigned i = 0; i < specs->n; i++) {
        fprintf(f, "%s{\"spec\":%u", i ? "," : "", i);
        text(f, "text", specs->s[i].text);
        fputc('}', f);
    }
    fprintf(f, "]}\n");
    fflush(f);
}

enum tb_status sg_log_open(const struct sg_broken_options *opt, const struct sg_specs *specs,
                           struct sg_log **out, struct tb_error *err)
{
    struct sg_log *log = calloc(1, sizeof(*log));
    enum tb_status st;

    if (log == NULL)
        return tb_fail(err, TB_ERR_NOMEM, "cannot write a log of faults: no memory");
    st = open_file(opt->log, &log->f, err);
    if (st != TB_OK) {
        free(log);
        return st;
    }
    write_head(log->f, opt, specs);
    *out = log;
    return TB_OK;
}

void sg_log_close(struct sg_log *log)
{
    if (log == NULL)
        return;
    fclose(log->f);
    free(log);
}

void sg_log_flush(struct sg_log *log)
{
    fflush(log->f);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static const char *register_of(const struct sg_injected *f)
{
    const struct sg_ptx_opnd *o =
        f->what == SG_WHAT_ADDRESS ? sg_address(f->ptx) : sg_result(f->ptx);

    if (o != NULL && (o->kind == SG_OPND_VEC || o->kind == SG_OPND_PAIR))
        o = &o->sub[f->elem];
    return o != NULL && o->kind == SG_OPND_REG ? f->func->ptx->regs[o->reg].name : NULL;
}

static void write_step(FILE *f, const struct sg_injected *i)
{
    char op[256];
    const char *reg = register_of(i);

    triple(f, "block", i->block_id);
    number(f, "index", i->block);
    number(f, "sm", i->sm);
    number(f, "warp", i->warp);
    triple(f, "thread", i->thread);
    number(f, "lane", i->lane);
    number(f, "serial", i->serial);
    number(f, "line", i->line);
    text(f, "function", i->func->ptx->name);
    sg_insn_text(i->ptx, op, sizeof(op));
    text(f, "op", op);
    text(f, "unit", sg_unit_name(sg_unit_of(i->ptx)));
    if (reg != NULL)
        text(f, i->what == SG_WHAT_ADDRESS ? "src" : "dst", reg);
    number(f, "elem", i->elem);
}

void sg_log_fault(struct sg_log *log, const struct sg_injected *i, const char *kernel,
                  const struct sg_spec *spec, const char *masked)
{
    FILE *f = log->f;

    fprintf(f, "{\"kind\":\"fault\"");
    text(f, "what", whats[i->what]);
    text(f, "place", places[i->place]);
    number(f, "spec", i->spec);
    number(f, "device", i->device);
    number(f, i->place == SG_PLACE_COPY ? "copy" : "launch", i->number);
    if (kernel != NULL)
        text(f, "kernel", kernel);
    if (i->place == SG_PLACE_STEP)
        write_step(f, i);
    else if (i->what == SG_WHAT_CELL)
        number(f, "late", i->late);
    else
        text(f, "dir", ways[i->way]);
    if (spec != NULL && spec->kind == SG_SPEC_LINE)
        number(f, "l2line", spec->line);
    if (i->what == SG_WHAT_STORE || i->what == SG_WHAT_CELL || i->place == SG_PLACE_COPY)
        number(f, "at", i->at);
    number(f, "bits", i->bits);
    hex(f, "before", i->before);
    hex(f, "after", i->after);
    if (masked != NULL)
        fprintf(f, ",\"masked\":%s", masked);
    fprintf(f, "}\n");
}

void sg_log_launch(struct sg_log *log, const struct sg_launch_line *l)
{
    static const char *const masked[] = {"false", "true", "\"unknown\""};
    FILE *f = log->f;

    fprintf(f, "{\"kind\":\"launch\"");
    number(f, "device", l->launch->device);
    number(f, "launch", l->launch->grid_id);
    text(f, "kernel", sg_kernel_info(l->launch->kernel)->name);
    number(f, "faults", l->faults);
    number(f, "logged", l->logged);
    if (l->diverged != 0)
        number(f, "diverged", l->diverged);
    fprintf(f, ",\"masked\":%s", masked[l->masked]);
    if (l->why != NULL)
        text(f, "why", l->why);
    if (l->error != NULL)
        text(f, "error", l->error);
    fprintf(f, "}\n");
}
