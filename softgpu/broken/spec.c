/* Specifications: words "name=value" between blanks, several specifications between ';'. One table
 * says which words there are, for what they are good and who reads their value. */
#include "softgpu/broken/broken_internal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORD 160 /* bytes of the longest word, with its end */

struct reader {
    struct sg_spec *s;
    const char *name, *value;
    uint32_t devices, sms;
    struct tb_error *err;
};

static bool refuse(const struct reader *r, const char *want)
{
    tb_fail(r->err, TB_ERR_ARG, "bad fault '%s': %s=%s is not %s", r->s->text, r->name, r->value,
            want);
    return false;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool take_number(const char **at, uint64_t *out)
{
    char *end;

    if (!isdigit((unsigned char)**at))
        return false;
    errno = 0;
    *out = strtoull(*at, &end, 0);
    *at = end;
    return errno == 0;
}

static bool take_real(const char **at, double *out)
{
    char *end;

    if (!isdigit((unsigned char)**at) && !strchr("+-.", **at))
        return false;
    *out = strtod(*at, &end);
    if (end == *at || !isfinite(*out))
        return false;
    *at = end;
    return true;
}

/* "3", "0,2,5", "0-3,8", "7..9", "7.." */
static bool take_ranges(const char *at, uint64_t most, struct sg_ranges *out)
{
    out->n = 0;
    do {
        uint64_t from, to;

        if (out->n == SG_RANGES || !take_number(&at, &from))
            return false;
        to = from;
        if (*at == '-' && (at++, !take_number(&at, &to)))
            return false;
        if (strncmp(at, "..", 2) == 0) {
            at += 2;
            to = most;
            if (*at && *at != ',' && !take_number(&at, &to))
                return false;
        }
        if (from > to || to > most)
            return false;
        out->r[out->n].from = from;
        out->r[out->n++].to = to;
    } while (*at++ == ',');
    return at[-1] == '\0';
}

static int which(const char *value, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(value, names[i]) == 0)
            return i;
    return -1;
}

static bool is_number(const struct reader *r, uint64_t *out)
{
    const char *at = r->value;

    return take_number(&at, out) && *at == '\0';
}

/* ---- one function a word --------------------------------------------------------------------- */

static bool read_device(struct reader *r)
{
    char want[80];

    if (take_ranges(r->value, r->devices - 1, &r->s->device))
        return true;
    snprintf(want, sizeof(want), "a device from 0 to %u (there are %u: --devices)", r->devices - 1,
             r->devices);
    return refuse(r, want);
}

static bool read_sm(struct reader *r)
{
    char want[80];

    if (take_ranges(r->value, r->sms - 1, &r->s->sm))
        return true;
    snprintf(want, sizeof(want), "a multiprocessor from 0 to %u (%u are simulated: --sms)",
             r->sms - 1, r->sms);
    return refuse(r, want);
}

static const char *const units[] = {"none",   "int",  "fma",  "f64", "sfu",
                                    "tensor", "ldst", "copy", NULL};

const char *sg_unit_name(enum sg_unit u)
{
    return units[u];
}

static bool read_unit(struct reader *r)
{
    int u = which(r->value, units);

    if (u <= 0)
        return refuse(r, "one of int, fma, f64, sfu, tensor, ldst, copy");
    r->s->unit = (enum sg_unit)u;
    return true;
}

static bool copy_text(struct reader *r, char *out, size_t size)
{
    char want[48];

    snprintf(want, sizeof(want), "a name or pattern of 1 to %zu bytes", size - 1);
    if (!*r->value || strlen(r->value) >= size)
        return refuse(r, want);
    memcpy(out, r->value, strlen(r->value) + 1);
    return true;
}

static bool read_kernel(struct reader *r)
{
    return copy_text(r, r->s->kernel, sizeof(r->s->kernel));
}

static bool known_op(const char *pattern)
{
    size_t n = strcspn(pattern, ".");

    if (strpbrk(pattern, "*?["))
        return true;
    for (unsigned op = SG_OP_NONE + 1; op < SG_OP_COUNT; op++) {
        const char *name = sg_ptx_op_name((enum sg_ptx_op)op);

        if (strlen(name) == n && memcmp(name, pattern, n) == 0)
            return true;
    }
    return false;
}

static bool read_op(struct reader *r)
{
    if (!copy_text(r, r->s->op, sizeof(r->s->op)))
        return false;
    return known_op(r->s->op) ||
           refuse(r, "an instruction of PTX or how one begins, such as fma.rn.f32 (or *.f32)");
}

static bool read_launch(struct reader *r)
{
    return (take_ranges(r->value, UINT64_MAX, &r->s->launch) && r->s->launch.r[0].from != 0) ||
           refuse(r, "the number of a launch, from 1, or several: 3, 2..9, 5..");
}

static bool read_warp(struct reader *r)
{
    return take_ranges(r->value, SG_WARP - 1, &r->s->warp) ||
           refuse(r, "a warp of a block, from 0 to 31, or several: 2, 0-3");
}

/* "4g": together; "4g2": only that group; else lanes or, with 0x, a mask */
static bool read_lanes(struct reader *r)
{
    static const char want[] =
        "lanes from 0 to 31 (0,3,8-11), a mask (0xff00), groups that are hit "
        "together (4g) or one of these (4g2)";
    const char *at = r->value;
    struct sg_ranges lanes;
    uint64_t n, g;

    if (strncmp(at, "0x", 2) == 0) {
        if (!is_number(r, &n) || n == 0 || n > SG_FULL_MASK)
            return refuse(r, want);
        r->s->lanes = (uint32_t)n;
        return true;
    }
    if (take_number(&at, &n) && *at == 'g') {
        at++;
        if (n == 0 || n > SG_WARP || SG_WARP % n != 0)
            return refuse(r, want);
        r->s->group = (unsigned)n;
        if (*at == '\0')
            return true;
        if (!take_number(&at, &g) || *at || g >= SG_WARP / n)
            return refuse(r, want);
        r->s->lanes = (uint32_t)(sg_bit_mask((unsigned)n) << (g * n));
        return true;
    }
    if (!take_ranges(r->value, SG_WARP - 1, &lanes))
        return refuse(r, want);
    r->s->lanes = 0;
    for (uint32_t l = 0; l < SG_WARP; l++)
        r->s->lanes |= (uint32_t)sg_in_ranges(&lanes, l) << l;
    return true;
}

static bool read_when(struct reader *r)
{
    static const struct {
        const char *text;
        int is;
    } signs[] = {{"<=", SG_LE}, {">=", SG_GE}, {"==", SG_EQ}, {"!=", SG_NE},
                 {"<", SG_LT},  {">", SG_GT},  {"=", SG_EQ}};
    static const char *const what[] = {"", "x", "|x|", "exponent", NULL};
    const char *at = r->value;
    char left[16];
    size_t n = strcspn(at, "<>=!");
    struct sg_when *w = &r->s->when;

    snprintf(left, sizeof(left), "%.*s", (int)n, at);
    at += n;
    for (size_t i = 0; i < TB_ARRAY_LEN(signs); i++) {
        const char *number = at + strlen(signs[i].text);

        if (strncmp(at, signs[i].text, strlen(signs[i].text)) != 0)
            continue;
        w->is = signs[i].is;
        w->what = which(left, what) > 0 ? (unsigned)which(left, what) : SG_WHEN_ALWAYS;
        if (w->what != SG_WHEN_ALWAYS && take_real(&number, &w->than) && *number == '\0')
            return true;
        break;
    }
    w->what = SG_WHEN_ALWAYS;
    return refuse(r, "x, |x| or exponent, one of < <= > >= == !=, and a number: |x|>4");
}

static bool read_bit(struct reader *r)
{
    static const char *const fields[] = {"random", "", "sign", "exponent", "mantissa", NULL};
    int f = which(r->value, fields);

    if (f >= 0 && f != SG_BITS_LIST) {
        r->s->bits = (enum sg_bits)f;
        return true;
    }
    r->s->bits = SG_BITS_LIST;
    return take_ranges(r->value, SG_LINE_BYTES * 8 - 1, &r->s->bit) ||
           refuse(r, "a bit from 0, several that are hit together (3,17 or 8-15), random, sign, "
                     "exponent or mantissa");
}

static bool read_model(struct reader *r)
{
    static const char *const models[] = {"flip", "stuck0", "stuck1", "previous",
                                         "ulp",  "random", NULL};
    int m = which(r->value, models);

    if (m < 0)
        return refuse(r, "one of flip, stuck0, stuck1, previous, ulp, random");
    r->s->model = (enum sg_model)m;
    return true;
}

static bool read_at(struct reader *r)
{
    r->s->address = strcmp(r->value, "address") == 0;
    return r->s->address || strcmp(r->value, "data") == 0 || refuse(r, "data or address");
}

static bool read_rate(struct reader *r)
{
    const char *at = r->value;

    return (take_real(&at, &r->s->rate) && *at == '\0' && r->s->rate > 0 && r->s->rate <= 1) ||
           refuse(r, "a chance above 0 and up to 1, such as 1e-6");
}

/* A time or a number of launches: "100", "5s", "launch", "hour" */
static bool take_period(const char *at, double *n, bool *seconds)
{
    static const struct {
        const char *name;
        double n;
        bool seconds;
    } names[] = {{"launch", 1, false},
                 {"second", 1, true},
                 {"minute", 60, true},
                 {"hour", 3600, true},
                 {"day", 86400, true}};

    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++)
        if (strcmp(at, names[i].name) == 0) {
            *n = names[i].n;
            *seconds = names[i].seconds;
            return true;
        }
    if (!take_real(&at, n) || *n < 0)
        return false;
    *seconds = *at == 's';
    return at[*seconds] == '\0';
}

static bool read_ageing(struct reader *r)
{
    const char *at = r->value;

    return (take_real(&at, &r->s->ageing.factor) && r->s->ageing.factor > 0 && *at == '/' &&
            take_period(at + 1, &r->s->ageing.period, &r->s->ageing.seconds) &&
            r->s->ageing.period > 0) ||
           refuse(r, "a factor and what it takes: 2/1000 (launches), 2/60s, 2/hour");
}

static bool read_after(struct reader *r)
{
    return take_period(r->value, &r->s->after.n, &r->s->after.seconds) ||
           refuse(r, "a number of launches (100) or seconds (5s)");
}

static bool read_seed(struct reader *r)
{
    return is_number(r, &r->s->seed) || refuse(r, "a number");
}

static bool read_mem(struct reader *r)
{
    static const char want[] = "an address (0x7f0000000040) or the number of an allocation and an "
                               "offset (alloc#2+64)";
    const char *at = r->value;

    r->s->kind = SG_SPEC_CELL;
    if (strncmp(at, "alloc#", 6) != 0)
        return (take_number(&at, &r->s->addr) && *at == '\0' && r->s->addr != 0) || refuse(r, want);
    at += 6;
    if (!take_number(&at, &r->s->alloc) || r->s->alloc == 0)
        return refuse(r, want);
    if (*at == '+' && (at++, !take_number(&at, &r->s->addr)))
        return refuse(r, want);
    return *at == '\0' || refuse(r, want);
}

static bool read_line(struct reader *r)
{
    r->s->kind = SG_SPEC_LINE;
    return (is_number(r, &r->s->line) && r->s->line < SG_LINES) ||
           refuse(r, "a line of the cache, from 0 to 32767");
}

static bool read_way(struct reader *r)
{
    static const char *const ways[] = {"h2d", "d2h", "d2d", NULL};
    int w = which(r->value, ways);

    if (w < 0)
        return refuse(r, "one of h2d, d2h, d2d");
    r->s->ways = 1u << w;
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ANY_KIND (SG_SPEC_OP | SG_SPEC_CELL | SG_SPEC_LINE | SG_SPEC_COPY)
#define DRAWN (SG_SPEC_OP | SG_SPEC_LINE | SG_SPEC_COPY)

static const struct word {
    const char *name;
    bool (*read)(struct reader *r);
    unsigned kinds; /* what it is good for */
} words[] = {
    {"device", read_device, ANY_KIND},
    {"sm", read_sm, SG_SPEC_OP},
    {"unit", read_unit, SG_SPEC_OP | SG_SPEC_COPY},
    {"op", read_op, SG_SPEC_OP},
    {"mem", read_mem, SG_SPEC_CELL},
    {"l2line", read_line, SG_SPEC_LINE},
    {"kernel", read_kernel, SG_SPEC_OP},
    {"launch", read_launch, SG_SPEC_OP | SG_SPEC_LINE},
    {"lanes", read_lanes, SG_SPEC_OP},
    {"warp", read_warp, SG_SPEC_OP},
    {"when", read_when, SG_SPEC_OP},
    {"at", read_at, SG_SPEC_OP},
    {"dir", read_way, SG_SPEC_COPY},
    {"bit", read_bit, ANY_KIND},
    {"model", read_model, ANY_KIND},
    {"rate", read_rate, DRAWN},
    {"ageing", read_ageing, DRAWN},
    {"after", read_after, ANY_KIND},
    {"seed", read_seed, ANY_KIND},
};

static void list_words(char *out, size_t size, unsigned kinds)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < TB_ARRAY_LEN(words); i++)
        if ((words[i].kinds & kinds) != 0 && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", words[i].name);
}

static bool read_word(struct reader *r, const char *text, size_t n)
{
    char name[WORD], all[256];
    size_t k;

    if (n >= sizeof(name)) {
        tb_fail(r->err, TB_ERR_ARG, "bad fault '%s': a word of %zu bytes", r->s->text, n);
        return false;
    }
    memcpy(name, text, n);
    name[n] = '\0';
    k = strcspn(name, "=");
    r->value = name[k] ? name + k + 1 : "";
    name[k] = '\0';
    r->name = name;
    for (size_t i = 0; i < TB_ARRAY_LEN(words); i++) {
        if (strcmp(words[i].name, name) != 0)
            continue;
        if (r->s->given >> i & 1)
            return refuse(r, "given once");
        r->s->given |= 1u << i;
        return words[i].read(r);
    }
    list_words(all, sizeof(all), ANY_KIND);
    tb_fail(r->err, TB_ERR_ARG, "bad fault '%s': no word '%s'; the words are %s, each with =VALUE",
            r->s->text, name, all);
    return false;
}

static bool given(const struct sg_spec *s, const char *name)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(words); i++)
        if (strcmp(words[i].name, name) == 0)
            return s->given >> i & 1;
    return false;
}

/* ---- what goes together ---------------------------------------------------------------------- */

static const char *contradiction(const struct sg_spec *s)
{
    if (s->kind == 0)
        return "nothing is broken by it: it needs unit=, op=, mem= or l2line=";
    if (given(s, "mem") + given(s, "l2line") + (given(s, "unit") || given(s, "op")) > 1)
        return "one specification breaks one thing: a unit, a memory cell or a line of the cache";
    if (s->address && s->unit != SG_UNIT_LDST)
        return "at=address needs unit=ldst";
    if (s->address && s->when.what != SG_WHEN_ALWAYS)
        return "when= looks at data: not with at=address";
    if (s->kind == SG_SPEC_CELL && s->model > SG_MODEL_STUCK1)
        return "a memory cell is model=flip, stuck0 or stuck1";
    if (s->kind == SG_SPEC_LINE && s->model > SG_MODEL_STUCK1)
        return "a line of the cache is model=flip, stuck0 or stuck1";
    if (s->kind == SG_SPEC_COPY && s->model == SG_MODEL_PREVIOUS)
        return "a copy has no previous value";
    if (s->kind != SG_SPEC_OP && s->bits > SG_BITS_LIST)
        return "bit= is a number there: memory has no sign, exponent or mantissa";
    if ((s->kind == SG_SPEC_CELL || s->kind == SG_SPEC_LINE) && s->bits != SG_BITS_LIST)
        return "it needs bit=";
    if (s->kind == SG_SPEC_CELL && s->bit.r[s->bit.n - 1].to > 7)
        return "a memory cell is bit=0 to 7 of its byte";
    if (s->kind == SG_SPEC_COPY && s->bits == SG_BITS_LIST && s->bit.r[s->bit.n - 1].to > 31)
        return "a copy has bit=0 to 31 of a word of 4 bytes";
    if (s->kind == SG_SPEC_OP && s->bits == SG_BITS_LIST && s->bit.r[s->bit.n - 1].to > 63)
        return "a result has bit=0 to 63";
    return NULL;
}

static bool finish(struct sg_spec *s, struct tb_error *err)
{
    const char *why;
    char all[256];

    if (s->kind == 0 && (s->unit != SG_UNIT_NONE || s->op[0]))
        s->kind = s->unit == SG_UNIT_COPY ? SG_SPEC_COPY : SG_SPEC_OP;
    why = contradiction(s);
    if (why) {
        tb_fail(err, TB_ERR_ARG, "bad fault '%s': %s", s->text, why);
        return false;
    }
    for (size_t i = 0; i < TB_ARRAY_LEN(words); i++)
        if ((s->given >> i & 1) && !(words[i].kinds & s->kind)) {
            list_words(all, sizeof(all), s->kind);
            tb_fail(err, TB_ERR_ARG,
                    "bad fault '%s': %s= has no meaning there; words that have: %s", s->text,
                    words[i].name, all);
            return false;
        }
    return true;
}

/* A specification of @n bytes. */
static bool read_spec(struct reader *r, const char *text, size_t n)
{
    struct sg_spec *s = r->s;

    *s = (struct sg_spec){.lanes = SG_FULL_MASK, .group = 1, .rate = 1, .ways = 7};
    while (n != 0 && isspace((unsigned char)text[n - 1]))
        n--;
    if (n >= sizeof(s->text)) {
        tb_fail(r->err, TB_ERR_ARG, "bad fault: a specification of %zu bytes is too long", n);
        return false;
    }
    memcpy(s->text, text, n);
    s->text[n] = '\0';
    for (const char *at = s->text; *at;) {
        size_t k = strcspn(at, " \t\r\n\f\v");

        if (k != 0 && !read_word(r, at, k))
            return false;
        at += k;
        at += strspn(at, " \t\r\n\f\v");
    }
    return finish(s, r->err);
}

enum tb_status sg_specs_parse(const char *text, uint32_t devices, uint32_t sms,
                              struct sg_specs *out, struct tb_error *err)
{
    const char *all = text;

    out->n = 0;
    while (text && *text) {
        size_t blank = strspn(text, " \t\r\n\f\v;"), n = strcspn(text + blank, ";");
        struct reader r = {.devices = devices, .sms = sms, .err = err};

        text += blank;
        if (n == 0)
            break;
        if (out->n == SG_BROKEN_MAX_SPECS)
            return tb_fail(err, TB_ERR_ARG, "bad fault: more than %d specifications",
                           SG_BROKEN_MAX_SPECS);
        r.s = &out->s[out->n++];
        if (!read_spec(&r, text, n))
            return TB_ERR_ARG;
        text += n;
    }
    if (all && *all && out->n == 0)
        return tb_fail(err, TB_ERR_ARG, "bad fault '%s': nothing is specified", all);
    return TB_OK;
}

bool sg_in_ranges(const struct sg_ranges *r, uint64_t x)
{
    for (unsigned i = 0; i < r->n; i++)
        if (x >= r->r[i].from && x <= r->r[i].to)
            return true;
    return r->n == 0;
}

enum tb_status sg_broken_check(const char *text, uint32_t devices, uint32_t sms,
                               struct tb_error *err)
{
    struct sg_specs *specs = malloc(sizeof(*specs));
    enum tb_status st;

    if (specs == NULL)
        return tb_fail(err, TB_ERR_NOMEM, "cannot read faults: no memory");
    st = sg_specs_parse(text, devices, sms, specs, err);
    free(specs);
    return st;
}
