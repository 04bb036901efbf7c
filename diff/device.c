/* What is known of work of a GPU beyond what operators have: how it was launched, and which code.
 */
#include "diff/diff_internal.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

bool is_work(uint8_t kind)
{
    return kind == TB_EV_OP || is_device(kind);
}

bool is_device(uint8_t kind)
{
    return kind >= TB_EV_LAUNCH && kind <= TB_EV_SYNC;
}

static bool on_device(const struct tb_site_access *a)
{
    return a->device && strcmp(a->device, "cpu") != 0;
}

static bool has_access(const struct tb_site *s, char mode, bool device)
{
    for (uint32_t i = 0; i < s->access_count; i++)
        if (s->access[i].mode == mode && on_device(&s->access[i]) == device)
            return true;
    return false;
}

bool is_from_host(const struct ev *e)
{
    return e->kind == TB_EV_COPY && has_access(e->site, 'w', true) &&
           !has_access(e->site, 'r', true);
}

bool is_to_host(const struct ev *e)
{
    return e->kind == TB_EV_COPY && has_access(e->site, 'r', true) &&
           !has_access(e->site, 'w', true);
}

bool may_keep(uint8_t kind, const struct tb_site *s, uint32_t i)
{
    bool box = strstr(s->name, "2D") || strstr(s->name, "3D");

    return s->access[i].mode == 'w' && (kind == TB_EV_LAUNCH || kind == TB_EV_GRAPH ||
                                        ((kind == TB_EV_COPY || kind == TB_EV_SET) && box));
}

bool host_may_write(const struct ev *e, uint32_t i)
{
    return is_device(e->kind) && strncmp(e->site->access[i].device, "cuda", 4) != 0;
}

bool is_beside(const struct tb_site *s, uint32_t i)
{
    return s->access[i].mode == 'r' && strncmp(s->access[i].argument, "before ", 7) == 0;
}

static bool is_graph(const struct tb_site *s)
{
    return strcmp(s->tap, "cuda") == 0 && strcmp(s->name, "graph") == 0;
}

static uint64_t mix_text(uint64_t h, const char *s)
{
    return mix64(h, hash_text(s, strlen(s)));
}

/*
 * What a launch uses, but not how much of it: a pointer may be for all of an allocation in one run,
 * and in the other, where threads got there in another order, for a part. What further pointers to
 * the same bytes lead to is not listed; the first of those that are read, or written, always is.
 */
static uint64_t launch_alike(const struct tb_site *s)
{
    uint64_t k = mix_text(mix_text(1, s->tap), s->name);
    bool reads = false, writes = false;

    for (uint32_t i = 0; i < s->access_count; i++) {
        const struct tb_site_access *a = &s->access[i];
        if ((a->mode == 'r' && reads) || (a->mode == 'w' && writes))
            continue;
        reads = reads || a->mode == 'r';
        writes = writes || a->mode == 'w';
        k = mix_text(mix_text(mix64(k, (uint64_t)a->mode), a->device ? a->device : ""),
                     a->argument);
    }
    return k;
}

/* A graph that was hashed as a whole is one, too. */
static bool is_launch(const struct tb_site *s)
{
    size_t n;

    return s->detail && (tb_site_value(s, "grid", &n) || is_graph(s));
}

uint64_t site_key(const struct tb_site *s)
{
    uint64_t k;

    if (is_launch(s))
        return mix_text(launch_alike(s), s->detail);
    memcpy(&k, s->hash, sizeof(k));
    return k;
}

uint64_t site_alike(const struct tb_site *s)
{
    uint64_t k;

    if (is_launch(s))
        return launch_alike(s);
    memcpy(&k, s->hash, sizeof(k));
    if (!s->detail || !*s->detail)
        return k;
    const char *lines = strchr(s->text, '\t'); /* line 2 is the first that has one */
    lines = lines ? lines + strcspn(lines, "\n") : s->text;
    k = mix64(hash_text(s->tap, strlen(s->tap)), hash_text(s->name, strlen(s->name)));
    return mix64(k, hash_text(lines, strlen(lines)));
}

/* ---------------------------------------------------------------- names */

char *tb_demangle(const char *symbol, char *out, size_t size)
{
    typedef char *(*demangler)(const char *, char *, size_t *, int *);
    char *text = NULL;
    int status = -1;
    void *lib =
        strncmp(symbol, "_Z", 2) == 0 ? dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL) : NULL;
    demangler fn = NULL;

    if (lib)
        *(void **)&fn = dlsym(lib, "__cxa_demangle");
    if (fn)
        text = fn(symbol, NULL, NULL, &status);
    (void)snprintf(out, size, "%s", text && status == 0 ? text : symbol);
    free(text);
    if (lib)
        (void)dlclose(lib);
    return out;
}

/* ---------------------------------------------------------------- how it was launched */

static void value(const struct tb_site *s, const char *key, char *out, size_t size)
{
    size_t n = 0;
    const char *v = s && s->detail ? tb_site_value(s, key, &n) : NULL;

    if (n >= size)
        n = size - 1;
    if (v)
        memcpy(out, v, n);
    out[v ? n : 0] = '\0';
}

bool site_says(const struct tb_site *s, const char *key, const char *want)
{
    char text[64];

    value(s, key, text, sizeof(text));
    return strcmp(text, want) == 0;
}

bool site_torn(const struct tb_site *s)
{
    return s && site_says(s, "torn", "1");
}

bool site_launches(const struct tb_site *s)
{
    char grid[40];

    value(s, "grid", grid, sizeof(grid));
    return grid[0] || is_graph(s);
}

static void fill_side(struct tb_diff_shape *o, const struct tb_site *s)
{
    value(s, "grid", o->grid, sizeof(o->grid));
    value(s, "block", o->block, sizeof(o->block));
    value(s, "shared", o->shared, sizeof(o->shared));
    value(s, "image", o->image, sizeof(o->image));
}

void note_stream(struct root *r, const struct ev *e, int side)
{
    for (uint32_t i = 0; i < e->n; i++) {
        const struct tb_site_access *a = &e->site->access[i];
        uint64_t alloc = e->acc[i].alloc;
        if (a->mode != 'q' || alloc < TB_ALLOC_STREAM || alloc >= TB_ALLOC_EVENT)
            continue;
        r->r.launch.side[side].stream = alloc - TB_ALLOC_STREAM;
        r->r.launch.side[side].stream_known = true;
        r->device = (e->acc[i].offset >> TB_ORDER_DEVICE) & TB_ORDER_DEVICE_MASK;
        return;
    }
}

static void kernel_name(const struct tb_site *s, char *out, size_t size)
{
    char symbol[1024] = "";

    if (s)
        value(s, "symbol", symbol, sizeof(symbol));
    if (symbol[0])
        (void)tb_demangle(symbol, out, size);
}

void fill_launch(struct root *r)
{
    struct tb_diff_launch *l = &r->r.launch;
    const struct tb_site *s = r->site_a ? r->site_a : r->site_b;

    if (!s || !is_device(r->kind))
        return;
    l->known = true;
    kernel_name(s, l->kernel, sizeof(l->kernel));
    if (s == r->site_a)
        kernel_name(r->site_b, l->other, sizeof(l->other));
    if (strcmp(l->kernel, l->other) == 0)
        l->other[0] = 0;
    fill_side(&l->side[0], r->site_a);
    fill_side(&l->side[1], r->site_b);
    for (uint32_t i = 0; !l->device[0] && i < s->access_count; i++)
        if (on_device(&s->access[i]) && s->access[i].mode != 'q')
            (void)snprintf(l->device, sizeof(l->device), "%s", s->access[i].device);
    if (!l->device[0] && r->device)
        (void)snprintf(l->device, sizeof(l->device), "cuda:%d", r->device - 1);
}
