#include "make.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

struct tb_error make_error;

/* ---------------------------------------------------------------- files */

const char *make_folder(void)
{
    static char path[256];
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(path, sizeof(path), "%s/tb-store-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(path))
        abort();
    return path;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f)
{
    (void)st, (void)flag, (void)f;
    return remove(path);
}

void make_clean(const char *folder)
{
    (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *make_path(const char *folder, const char *name)
{
    static char path[4][512];
    static unsigned next;
    char *p = path[next++ % 4];

    (void)snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    return p;
}

void *make_read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *data;

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    data = malloc(*n + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *n, f), *n);
    (void)fclose(f);
    return data;
}

void make_write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

bool make_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* ---------------------------------------------------------------- chance */

uint64_t make_rand(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

uint64_t make_seed(uint64_t fallback)
{
    const char *text = getenv("TB_TEST_SEED");

    return text ? strtoull(text, NULL, 0) : fallback;
}

/* ---------------------------------------------------------------- model */

static void add_access_line(FILE *f, uint64_t *r, char mode, uint32_t i)
{
    static const char *const dtype[] = {"f32", "bf16", "i64", "bool", "f8e4m3", "?"};
    unsigned ndim = make_rand(r) % 4;

    (void)fprintf(f, "%c %s %s [", mode, dtype[make_rand(r) % TB_ARRAY_LEN(dtype)],
                  make_rand(r) % 2 ? "cpu" : "cuda:0");
    for (unsigned d = 0; d < ndim; d++)
        (void)fprintf(f, "%s%d", d ? "," : "", (int)(make_rand(r) % 5));
    if (make_rand(r) % 3 == 0 && ndim > 0) {
        (void)fprintf(f, "] [");
        for (unsigned d = 0; d < ndim; d++)
            (void)fprintf(f, "%s%d", d ? "," : "", (int)(make_rand(r) % 7) - 2);
        (void)fprintf(f, "]");
    } else {
        (void)fprintf(f, "] -");
    }
    (void)fprintf(f, " arg.%u%s\n", i, make_rand(r) % 4 ? "" : " with blanks");
}

static void make_site(struct model *m, uint32_t i, uint64_t *r, uint32_t big)
{
    static const char modes[] = "rwghsxrwrr";
    uint32_t n = (uint32_t)(make_rand(r) % 5);
    size_t size;

    if (i == 0)
        n = 0;
    if (i == 1)
        n = big;
    FILE *f = open_memstream(&m->site[i], &size);
    (void)fprintf(f, "torch\naten::op%u\n", i);
    for (uint32_t k = 0; k < n; k++) {
        char mode = modes[make_rand(r) % (sizeof(modes) - 1)];
        if (k < 8)
            m->site_mode[i][k] = mode;
        add_access_line(f, r, mode, k);
    }
    (void)fclose(f);
    m->site_accesses[i] = n;
}

static void make_event(const struct model *m, struct made_event *e, uint32_t thread, uint32_t i,
                       uint64_t *r)
{
    *e = (struct made_event){
        .thread = thread,
        .site = (uint32_t)(make_rand(r) % m->sites),
        .range = (uint32_t)(make_rand(r) % (m->ranges + 1)),
        .kind = (uint8_t)(1 + make_rand(r) % 5),
        .flags = (uint16_t)(make_rand(r) % 16),
        .step = i / 700 + (i > 1500 ? 1000000 : 0),
        .args = make_rand(r) % 3 ? make_rand(r) : 0,
    };
    if (e->site == 1 && make_rand(r) % 64) /* the big one is rare */
        e->site = 0;
    e->accesses = m->site_accesses[e->site];
    e->access = calloc(e->accesses + 1, sizeof(*e->access));
    for (uint32_t k = 0; k < e->accesses; k++) {
        struct tb_store_access *a = &e->access[k];
        a->alloc = make_rand(r) % 8 ? make_rand(r) % 1000 : TB_ALLOC_RNG + 1;
        a->offset = make_rand(r) % 4 ? 0 : make_rand(r);
        if (a->alloc < TB_ALLOC_RNG) {
            a->offset %= 1ull << (TB_PLACE_SHIFT - 1);
            uint32_t x = (uint32_t)a->alloc * 2654435761u >> 8; /* no draw: tests know the model */
            a->place = x % 4 ? 0 : x / 4 % (TB_PLACE_NOWHERE + 1);
        }
        a->fp_kind = (uint8_t)(make_rand(r) % 5);
        for (int b = 0; a->fp_kind && b < 16; b++)
            a->fp[b] = (uint8_t)make_rand(r);
    }
}

struct model *model_new(uint64_t seed, uint32_t processes, uint32_t threads, uint32_t events,
                        uint32_t sites, uint32_t big)
{
    struct model *m = calloc(1, sizeof(*m));
    uint64_t r = seed;

    *m = (struct model){.processes = processes, .threads = threads, .sites = sites, .ranges = 7};
    m->site = calloc(sites, sizeof(char *));
    m->range = calloc(m->ranges, sizeof(char *));
    m->site_accesses = calloc(sites, sizeof(*m->site_accesses));
    m->site_mode = calloc(sites, sizeof(*m->site_mode));
    m->thread_process = calloc(threads, sizeof(*m->thread_process));
    m->event = calloc(threads, sizeof(struct made_event *));
    m->events = calloc(threads, sizeof(*m->events));
    for (uint32_t i = 0; i < sites; i++)
        make_site(m, i, &r, big);
    for (uint32_t i = 0; i < m->ranges; i++)
        (void)!asprintf(&m->range[i], "%s\tlayer.%u%s\t%s", i % 2 ? "forward" : "backward", i,
                        i == 3 ? ".attn" : "", i == 4 ? "mine\tnested" : "");
    for (uint32_t t = 0; t < threads; t++) {
        m->thread_process[t] = t % processes;
        m->events[t] = t == 0 ? events : (uint32_t)(make_rand(&r) % (events + 1));
        m->event[t] = calloc(m->events[t] + 1, sizeof(struct made_event));
        for (uint32_t i = 0; i < m->events[t]; i++)
            make_event(m, &m->event[t][i], t, i, &r);
    }
    return m;
}

void model_free(struct model *m)
{
    for (uint32_t i = 0; i < m->sites; i++)
        free(m->site[i]);
    for (uint32_t i = 0; i < m->ranges; i++)
        free(m->range[i]);
    for (uint32_t t = 0; t < m->threads; t++) {
        for (uint32_t i = 0; i < m->events[t]; i++)
            free(m->event[t][i].access);
        free(m->event[t]);
    }
    free(m->site);
    free(m->range);
    free(m->site_accesses);
    free(m->site_mode);
    free(m->thread_process);
    free(m->event);
    free(m->events);
    free(m);
}

/* ---------------------------------------------------------------- write */

struct tb_store_access model_access(const struct tb_store_access *from, uint64_t variant)
{
    struct tb_store_access a = *from;

    a.alloc += variant * 17;
    a.offset += variant * 64;
    return a;
}

/* Ids of the writer by index of the model. */
struct ids {
    uint32_t *process, *thread, *site, *range;
};

static void declare(const struct model *m, struct tb_store *s, uint64_t variant, struct ids *ids)
{
    char text[64];

    for (uint32_t i = 0; i < m->processes; i++) {
        (void)snprintf(text, sizeof(text), "identity %u", i);
        struct tb_store_process p = {.parent = i ? ids->process[0] : 0,
                                     .ordinal = i,
                                     .rank = i ? (int32_t)i : -1,
                                     .worker = -1,
                                     .pid = (int32_t)(1000 + i + variant * 100),
                                     .argv = "python 'a b.py'",
                                     .identity = text};
        assert_ok(tb_store_add_process(s, &p, &ids->process[i], &make_error));
    }
    for (uint32_t i = 0; i < m->threads; i++) {
        (void)snprintf(text, sizeof(text), "thread#%u", i);
        assert_ok(tb_store_add_thread(s, ids->process[m->thread_process[i]], i, text,
                                      &ids->thread[i], &make_error));
    }
}

static void write_one(const struct model *m, struct tb_store *s, uint64_t variant,
                      const struct made_event *from, struct ids *ids, uint64_t *seq, uint64_t *r,
                      struct written *w)
{
    struct tb_store_access *a = calloc(from->accesses + 1, sizeof(*a));
    uint32_t process = m->thread_process[from->thread];
    const char *site = m->site[from->site];

    for (uint32_t i = 0; i < from->accesses; i++)
        a[i] = model_access(&from->access[i], variant);
    assert_ok(tb_store_intern_site(s, site, strlen(site), &ids->site[from->site], &make_error));
    if (from->range)
        assert_ok(tb_store_intern_range(s, m->range[from->range - 1],
                                        strlen(m->range[from->range - 1]), &ids->range[from->range],
                                        &make_error));
    seq[process] += 1 + (make_rand(r) % 10 == 0);
    uint64_t span = make_rand(r) % 10 == 0 ? make_rand(r) % (seq[process] + 1) : 0;
    struct tb_store_event e = {.thread = ids->thread[from->thread],
                               .kind = from->kind,
                               .flags = from->flags,
                               .site = ids->site[from->site],
                               .range = ids->range[from->range],
                               .seq = seq[process],
                               .open = seq[process] - span,
                               .step = from->step,
                               .args = from->args,
                               .time_ns = make_rand(r) >> 20};
    uint64_t id;
    assert_ok(tb_store_event(s, &e, a, from->accesses, &id, &make_error));
    free(a);
    w->id[w->n] = id;
    w->e[w->n] = e;
    w->from[w->n] = from;
    w->process[w->n++] = ids->process[process];
}

void model_write(const struct model *m, struct tb_store *s, uint64_t variant, struct written *w)
{
    struct ids ids = {calloc(m->processes, 4), calloc(m->threads, 4), calloc(m->sites, 4),
                      calloc(m->ranges + 1, 4)};
    uint64_t *seq = calloc(m->processes, 8), r = variant * 77 + 5;
    uint32_t *next = calloc(m->threads, 4);
    size_t total = 0;

    for (uint32_t t = 0; t < m->threads; t++)
        total += m->events[t];
    *w = (struct written){.id = calloc(total + 1, 8),
                          .e = calloc(total + 1, sizeof(*w->e)),
                          .from = calloc(total + 1, sizeof(void *)),
                          .process = calloc(total + 1, 4)};
    declare(m, s, variant, &ids);
    while (w->n < total) {
        uint32_t t = (uint32_t)(make_rand(&r) % m->threads);
        if (next[t] == m->events[t])
            continue;
        uint32_t run = 1 + (uint32_t)(make_rand(&r) % (variant % 2 ? 3 : 40));
        for (; run > 0 && next[t] < m->events[t]; run--)
            write_one(m, s, variant, &m->event[t][next[t]++], &ids, seq, &r, w);
        if (make_rand(&r) % 500 == 0)
            assert_ok(tb_store_flush(s, &make_error));
    }
    free(next);
    free(seq);
    free(ids.process);
    free(ids.thread);
    free(ids.site);
    free(ids.range);
}

void written_free(struct written *w)
{
    free(w->id);
    free(w->e);
    free(w->from);
    free(w->process);
    *w = (struct written){0};
}

/* ---------------------------------------------------------------- compare */

static void compare_event(const struct written *w, size_t i, const struct tb_trace_event *x,
                          const struct model *m, struct tb_trace *t, uint64_t variant)
{
    const struct made_event *from = w->from[i];

    assert_int_equal(x->id, w->id[i]);
    const struct tb_store_event *e = &w->e[i];
    assert_int_equal(x->e.thread, e->thread);
    assert_int_equal(x->e.kind, e->kind);
    assert_int_equal(x->e.flags, e->flags);
    assert_int_equal(x->e.range, e->range);
    assert_int_equal(x->e.seq, e->seq);
    assert_int_equal(x->e.open, e->open);
    assert_int_equal(x->e.step, e->step);
    assert_int_equal(x->e.args, e->args);
    assert_int_equal(x->e.time_ns, e->time_ns);
    assert_string_equal(x->site->text, m->site[from->site]);
    assert_int_equal(x->site->access_count, from->accesses);
    for (uint32_t k = 0; k < from->accesses; k++) {
        struct tb_store_access a = model_access(&from->access[k], variant);
        assert_int_equal(x->access[k].alloc, a.alloc);
        assert_int_equal(x->access[k].offset, a.offset);
        assert_int_equal(x->access[k].place, a.place);
        assert_int_equal(x->access[k].fp_kind, a.fp_kind);
        assert_memory_equal(x->access[k].fp, a.fp, 16);
    }
    const char *range = tb_trace_range(t, x->e.range);
    assert_string_equal(range, from->range ? m->range[from->range - 1] : "");
}

/* The variant is what turns the model's first allocation into the stored one. */
static uint64_t variant_of(struct tb_trace *t)
{
    const char *v = tb_trace_meta(t, "test.variant");

    return v ? strtoull(v, NULL, 10) : 0;
}

void model_compare(const struct model *m, const struct written *w, struct tb_trace *t)
{
    const struct tb_trace_event *x;
    struct tb_cursor *c;
    size_t n, i;
    const struct tb_trace_process *p = tb_trace_processes(t, &n);
    const struct tb_trace_thread *th;

    assert_int_equal(n, m->processes);
    for (size_t k = 0; k < n; k++) {
        assert_ok(tb_cursor_open_process(&c, t, p[k].id, 0, UINT64_MAX, &make_error));
        for (i = 0; i < w->n; i++) {
            if (w->process[i] != p[k].id)
                continue;
            assert_ok(tb_cursor_next(c, &x, &make_error));
            assert_non_null(x);
            compare_event(w, i, x, m, t, variant_of(t));
        }
        assert_ok(tb_cursor_next(c, &x, &make_error));
        assert_null(x);
        tb_cursor_close(c);
    }
    th = tb_trace_threads(t, &n);
    assert_int_equal(n, m->threads);
    for (size_t k = 0; k < n; k++) {
        uint64_t lo = w->n ? w->id[w->n / 4] : 0, hi = w->n ? w->id[w->n / 2] : 0;
        assert_ok(tb_cursor_open(&c, t, th[k].id, lo, hi, &make_error));
        for (i = 0; i < w->n; i++) {
            if (w->e[i].thread != th[k].id || w->id[i] < lo || w->id[i] > hi)
                continue;
            assert_ok(tb_cursor_next(c, &x, &make_error));
            assert_non_null(x);
            compare_event(w, i, x, m, t, variant_of(t));
        }
        assert_ok(tb_cursor_next(c, &x, &make_error));
        assert_null(x);
        tb_cursor_close(c);
    }
}
