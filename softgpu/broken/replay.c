/* Reads a log, to inject what it holds. Lines are those of log.c: keys in any order, values as they
 * are written there. */
#include "softgpu/broken/broken_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct line {
    const char *text, *path;
    unsigned number;
    struct tb_error *err;
    bool bad;
};

static const char *find(const struct line *l, const char *key)
{
    char pattern[32];
    const char *at;

    snprintf(pattern, sizeof(pattern), "\"%s\":", key);
    at = strstr(l->text, pattern);
    return at ? at + strlen(pattern) : NULL;
}

static bool is(const struct line *l, const char *key, const char *value)
{
    const char *at = find(l, key);
    size_t n = strlen(value);

    return at && at[0] == '"' && strncmp(at + 1, value, n) == 0 && at[n + 1] == '"';
}

static void refuse(struct line *l, const char *what)
{
    if (!l->bad)
        tb_fail(l->err, TB_ERR_FORMAT, "cannot replay '%s': line %u: %s", l->path, l->number, what);
    l->bad = true;
}

static uint64_t number(struct line *l, const char *key, uint64_t most)
{
    const char *at = find(l, key);
    char *end;
    uint64_t v;
    char text[80];

    if (at && *at == '"')
        at++;
    errno = 0;
    v = at && *at >= '0' && *at <= '9' ? strtoull(at, &end, 0) : UINT64_MAX;
    if (!at || *at < '0' || *at > '9' || errno != 0 || v > most) {
        snprintf(text, sizeof(text), "no number '%s' up to %" PRIu64, key, most);
        refuse(l, text);
        return 0;
    }
    return v;
}

static unsigned word(struct line *l, const char *key, const char *const *names, unsigned n)
{
    char text[48];

    for (unsigned i = 0; i < n; i++)
        if (is(l, key, names[i]))
            return i;
    snprintf(text, sizeof(text), "no '%s' that is known", key);
    refuse(l, text);
    return 0;
}

static struct sg_injected read_fault(struct line *l)
{
    static const char *const whats[] = {"result", "address", "store", "cell", "l2", "copy"};
    static const char *const places[] = {"launch", "step", "copy"};
    struct sg_injected f = {0};

    f.what = (uint8_t)word(l, "what", whats, TB_ARRAY_LEN(whats));
    f.place = (uint8_t)word(l, "place", places, TB_ARRAY_LEN(places));
    f.spec = (uint8_t)number(l, "spec", SG_BROKEN_MAX_SPECS - 1);
    f.device = (uint32_t)number(l, "device", SG_MEM_MAX_DEVICES - 1);
    f.number = number(l, f.place == SG_PLACE_COPY ? "copy" : "launch", UINT64_MAX);
    f.bits = (uint8_t)number(l, "bits", 64);
    f.before = number(l, "before", UINT64_MAX);
    f.after = number(l, "after", UINT64_MAX);
    if (f.place == SG_PLACE_STEP) {
        f.block = number(l, "index", UINT64_MAX);
        f.warp = (uint32_t)number(l, "warp", SG_WARP - 1);
        f.lane = (uint8_t)number(l, "lane", SG_WARP - 1);
        f.serial = number(l, "serial", UINT64_MAX);
        f.elem = (uint8_t)number(l, "elem", 127);
    } else if (f.what == SG_WHAT_CELL) {
        f.late = number(l, "late", 1);
    }
    if (f.what == SG_WHAT_CELL || f.place == SG_PLACE_COPY)
        f.at = number(l, "at", UINT64_MAX >> 1);
    return f;
}

static void check_head(struct line *l, const struct sg_broken_options *opt)
{
    if (!find(l, "softgpu_faults")) {
        refuse(l, "not a log of faults of softgpu");
        return;
    }
    if (number(l, "softgpu_faults", UINT64_MAX) != 1)
        refuse(l, "of a version that is not known");
    if (number(l, "seed", UINT64_MAX) != opt->seed ||
        number(l, "in_order", 1) != (uint64_t)opt->in_order ||
        number(l, "sms", UINT64_MAX) != opt->sms)
        refuse(l, "made with another seed, order or number of multiprocessors: the program would "
                  "not meet its faults again");
}

static bool add(struct sg_replay *r, size_t *cap, const struct sg_injected *f)
{
    if (r->n == *cap) {
        size_t n = *cap ? *cap * 2 : 64;
        struct sg_injected *p = realloc(r->f, n * sizeof(*p));
        if (p == NULL)
            return false;
        r->f = p;
        *cap = n;
    }
    r->f[r->n++] = *f;
    return true;
}

static void read_line(struct line *l, const struct sg_broken_options *opt, struct sg_replay *out,
                      size_t *cap)
{
    if (l->number == 1) {
        check_head(l, opt);
    } else if (is(l, "kind", "fault")) {
        struct sg_injected f = read_fault(l);
        if (!l->bad && !add(out, cap, &f))
            refuse(l, "no memory");
    } else if (!is(l, "kind", "launch")) {
        refuse(l, "neither a fault nor a launch");
    } else if (number(l, "faults", UINT64_MAX) != number(l, "logged", UINT64_MAX)) {
        refuse(l, "a launch with more faults than were logged");
    }
}

int sg_injected_order(const void *a, const void *b)
{
    const struct sg_injected *x = a, *y = b;

#define BY(member)                                                                                 \
    if (x->member != y->member)                                                                    \
    return x->member < y->member ? -1 : 1
    BY(place);
    BY(device);
    BY(number);
    BY(block);
    BY(warp);
    BY(serial);
    BY(late);
    BY(lane);
    BY(spec);
    BY(what);
    BY(elem);
    BY(at);
#undef BY
    return 0;
}

enum tb_status sg_replay_read(const struct sg_broken_options *opt, struct sg_replay *out,
                              struct tb_error *err)
{
    FILE *f = fopen(opt->replay, "re");
    struct line l = {.path = opt->replay, .err = err};
    char *text = NULL;
    size_t size = 0, cap = 0;

    if (f == NULL)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot read the log of faults '%s'",
                           opt->replay);
    while (!l.bad && getline(&text, &size, f) > 0) {
        l.number++;
        l.text = text;
        read_line(&l, opt, out, &cap);
    }
    if (l.number == 0) {
        l.number = 1;
        refuse(&l, "nothing is there");
    }
    free(text);
    fclose(f);
    if (l.bad)
        return TB_ERR_FORMAT;
    if (out->n != 0)
        qsort(out->f, out->n, sizeof(*out->f), sg_injected_order);
    return TB_OK;
}

enum tb_status sg_broken_check_replay(const struct sg_broken_options *opt, struct tb_error *err)
{
    struct sg_replay r = {0};
    enum tb_status st = sg_replay_read(opt, &r, err);

    free(r.f);
    return st;
}

/* Where @f lies before or behind the place of @key. */
static int beside(const struct sg_injected *f, const struct sg_injected *key)
{
#define BY(member)                                                                                 \
    if (f->member != key->member)                                                                  \
    return f->member < key->member ? -1 : 1
    BY(place);
    BY(device);
    BY(number);
    if (key->place == SG_PLACE_STEP) {
        BY(block);
        BY(warp);
        BY(serial);
    }
#undef BY
    return 0;
}

const struct sg_injected *sg_replay_find(const struct sg_replay *r, const struct sg_injected *key,
                                         size_t *n)
{
    size_t low = 0, high = r->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (beside(&r->f[mid], key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (*n = 0; low + *n < r->n && beside(&r->f[low + *n], key) == 0;)
        (*n)++;
    return *n ? &r->f[low] : NULL;
}
