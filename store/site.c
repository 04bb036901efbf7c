#include "store/store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A site lies in one block: struct tb_site_full, the accesses, all sizes and strides, the traits,
 * the text as it came (NUL-terminated) and a copy of it that is cut into strings.
 */
struct parser {
    struct tb_site_full *full;
    struct tb_site_access *access;
    int64_t *dim;
    uint8_t *trait;
    char *p, *end; /* the copy that is cut */
    uint32_t line;
    struct tb_error *err;
};

static enum tb_status bad(const struct parser *s, const char *what)
{
    return tb_fail(s->err, TB_ERR_FORMAT, "site text line %u: %s", s->line, what);
}

/* The next line, NUL-terminated, or NULL. */
static char *next_line(struct parser *s)
{
    char *line = s->p, *nl = line ? memchr(line, '\n', (size_t)(s->end - line)) : NULL;

    if (!nl)
        return NULL;
    *nl = '\0';
    s->p = nl + 1;
    s->line++;
    return line;
}

/* Cut the word at *@p off at the next blank. */
static char *next_word(char **p)
{
    char *word = *p, *blank = strchr(word, ' ');

    if (!blank || blank == word)
        return NULL;
    *blank = '\0';
    *p = blank + 1;
    return word;
}

/* "[1,2,3]" into @s->dim; -1 if it is anything else. */
static int dims(struct parser *s, const char *word)
{
    int n = 0;
    char *end;

    if (*word++ != '[')
        return -1;
    if (strcmp(word, "]") == 0)
        return 0;
    while (n < TB_FP_MAX_DIMS) {
        if (*word != '-' && (*word < '0' || *word > '9'))
            return -1;
        errno = 0;
        s->dim[n++] = strtoll(word, &end, 10);
        if (errno || end == word)
            return -1;
        if (strcmp(end, "]") == 0) {
            s->dim += n;
            return n;
        }
        if (*end != ',')
            return -1;
        word = end + 1;
    }
    return -1;
}

static bool mul(uint64_t *v, uint64_t by)
{
    return !__builtin_mul_overflow(*v, by, v) && *v <= INT64_MAX;
}

/* Elements, bytes and span of an access whose shape is known; false: numbers too large. */
static bool measure(struct tb_site_access *a)
{
    uint64_t elem = tb_dtype_size((enum tb_dtype)a->dtype), rows = 1;
    int64_t lo = 0, hi = 0, reach;

    a->elements = 1;
    for (int d = 0; d < a->ndim; d++) {
        bool once = a->strides && a->strides[d] == 0 && a->sizes[d] > 1;
        if (a->sizes[d] < 0 || !mul(&a->elements, (uint64_t)a->sizes[d]) ||
            (!once && !mul(&rows, (uint64_t)a->sizes[d])))
            return false;
        if (!a->strides || a->sizes[d] == 0)
            continue;
        if (__builtin_mul_overflow(a->sizes[d] - 1, a->strides[d], &reach) ||
            __builtin_add_overflow(reach < 0 ? lo : hi, reach, reach < 0 ? &lo : &hi))
            return false;
    }
    a->bytes = rows;
    if (!mul(&a->bytes, elem))
        return false;
    if (a->elements == 0 || !a->strides) {
        a->span_lo = 0;
        a->span_hi = (int64_t)a->bytes;
        return true;
    }
    return !__builtin_mul_overflow(lo, (int64_t)elem, &a->span_lo) &&
           !__builtin_add_overflow(hi, 1, &hi) &&
           !__builtin_mul_overflow(hi, (int64_t)elem, &a->span_hi);
}

static uint8_t trait(const struct tb_site_access *a)
{
    uint8_t kind = a->contiguous ? TB_FP_BYTES : TB_FP_ROWMAJOR;

    if (a->mode == 'h')
        kind = TB_FP_SCALAR;
    if (a->mode == 'g')
        kind = TB_FP_STATE;
    return strchr("whsg", a->mode) ? kind | TB_TRAIT_DIGEST : kind;
}

static enum tb_status parse_access(struct parser *s, char *line)
{
    struct tb_site_access *a = s->access;
    char *mode = line ? next_word(&line) : NULL, *dtype = mode ? next_word(&line) : NULL;
    char *device = dtype ? next_word(&line) : NULL, *shape = device ? next_word(&line) : NULL;
    char *strides = shape ? next_word(&line) : NULL;

    if (!strides)
        return bad(s, "fewer than six words");
    if (strlen(mode) != 1 || !strchr("rwghsxq", *mode))
        return bad(s, "no such mode");
    a->mode = *mode;
    a->dtype = (uint8_t)tb_dtype_from_name(dtype, strlen(dtype));
    if (a->dtype == TB_DT_UNKNOWN && strcmp(dtype, "?") != 0)
        return bad(s, "no such dtype");
    a->device = device;
    a->argument = line;
    a->sizes = s->dim;
    a->ndim = dims(s, shape);
    if (a->ndim < 0)
        return bad(s, "the shape is not a list of sizes");
    a->contiguous = strcmp(strides, "-") == 0;
    if (!a->contiguous) {
        a->strides = s->dim;
        if (dims(s, strides) != a->ndim)
            return bad(s, "the strides do not fit the shape");
    }
    if (!measure(a))
        return bad(s, "sizes out of range");
    *s->trait++ = trait(a);
    s->access++;
    return TB_OK;
}

static size_t count_char(const char *text, size_t n, char c)
{
    size_t k = 0;

    for (const char *p = text; (p = memchr(p, c, n - (size_t)(p - text))); p++)
        k++;
    return k;
}

/* One block with room for everything; fills @s. */
static enum tb_status lay_out(struct parser *s, const char *text, size_t n)
{
    size_t lines = count_char(text, n, '\n');
    size_t ndims = count_char(text, n, ',') + count_char(text, n, '[');
    size_t accesses = lines - 2; /* the caller has seen two lines */
    char *block = calloc(1, sizeof(*s->full) + accesses * (sizeof(*s->access) + 1) +
                                ndims * sizeof(int64_t) + 2 * (n + 1));

    if (!block)
        return tb_fail(s->err, TB_ERR_NOMEM, "cannot keep a site of %zu bytes: no memory", n);
    s->full = (struct tb_site_full *)block;
    s->access = (struct tb_site_access *)(block + sizeof(*s->full));
    s->dim = (int64_t *)(s->access + accesses);
    s->trait = (uint8_t *)(s->dim + ndims);
    s->full->site.access_count = (uint32_t)accesses;
    s->full->site.access = s->access;
    s->full->traits = s->trait;
    char *whole = (char *)s->trait + accesses;
    memcpy(whole, text, n);
    s->full->site.text = whole;
    s->p = whole + n + 1;
    s->end = s->p + n;
    memcpy(s->p, text, n);
    (void)tb_plain(s->p, true);
    return TB_OK;
}

/* What stands behind the first tab of line 2, cut off there; "" if there is none. */
static const char *cut_detail(char *name)
{
    char *tab = strchr(name, '\t');

    if (!tab)
        return "";
    *tab = '\0';
    return tab + 1;
}

const char *tb_site_value(const struct tb_site *site, const char *key, size_t *n)
{
    size_t len = strlen(key);

    for (const char *p = site->detail; *p;) {
        size_t word = strcspn(p, "\t");
        if (word > len && strncmp(p, key, len) == 0 && p[len] == '=') {
            *n = word - len - 1;
            return p + len + 1;
        }
        p += word + (p[word] == '\t');
    }
    return NULL;
}

enum tb_status tb_site_parse(const char *text, size_t n, struct tb_site_full **out,
                             struct tb_error *err)
{
    struct parser s = {.err = err};
    enum tb_status rc;

    if (n == 0 || memchr(text, '\0', n) || text[n - 1] != '\n' || count_char(text, n, '\n') < 2)
        return tb_fail(err, TB_ERR_FORMAT, "site text: fewer than two whole lines");
    if (count_char(text, n, '\n') - 2 > TB_STORE_MAX_ACCESSES)
        return tb_fail(err, TB_ERR_FORMAT, "site text: more than %u accesses",
                       TB_STORE_MAX_ACCESSES);
    rc = lay_out(&s, text, n);
    if (rc || !s.full)
        return rc;
    s.full->site.tap = next_line(&s);
    s.full->site.name = next_line(&s);
    s.full->site.detail = cut_detail((char *)(uintptr_t)s.full->site.name);
    if (!*s.full->site.tap || !*s.full->site.name)
        rc = bad(&s, "tap or name is empty");
    for (uint32_t i = 0; rc == TB_OK && i < s.full->site.access_count; i++)
        rc = parse_access(&s, next_line(&s));
    if (rc) {
        free(s.full);
        return rc;
    }
    tb_hash128(text, n, s.full->site.hash);
    *out = s.full;
    return TB_OK;
}
