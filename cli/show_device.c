/* How views show what operators do not have: kinds of work of a GPU, streams, launch shapes. */
#include "cli/show.h"

#include <inttypes.h>
#include <string.h>

#include "diff/diff.h"
#include "recorder/wire.h"

const char *tb_show_kind(unsigned kind)
{
    static const char *const names[] = {"?",      "op",   "step", "state", "collective", "host",
                                        "launch", "copy", "set",  "graph", "sync"};

    return names[kind < TB_ARRAY_LEN(names) ? kind : 0];
}

const char *tb_show_alloc(const struct tb_store_access *a, char *out, size_t size)
{
    if (a->alloc >= TB_ALLOC_DEVICE)
        (void)snprintf(out, size, "device:%" PRIu64, (uint64_t)(a->alloc - TB_ALLOC_DEVICE));
    else if (a->alloc >= TB_ALLOC_EVENT)
        (void)snprintf(out, size, "event:%" PRIu64, (uint64_t)(a->alloc - TB_ALLOC_EVENT));
    else if (a->alloc >= TB_ALLOC_STREAM)
        (void)snprintf(out, size, "stream:%" PRIu64, (uint64_t)(a->alloc - TB_ALLOC_STREAM));
    else if (a->alloc >= TB_ALLOC_RNG)
        (void)snprintf(out, size, "rng:%" PRIu64, (uint64_t)(a->alloc - TB_ALLOC_RNG));
    else if (a->alloc == 0)
        (void)snprintf(out, size, "?");
    else
        (void)snprintf(out, size, "%" PRIu64 "+%" PRIu64, a->alloc, a->offset);
    return out;
}

const char *tb_show_kernel(const struct tb_site *site, char *out, size_t size)
{
    char symbol[1024];
    size_t n = 0;
    const char *v = tb_site_value(site, "symbol", &n);

    if (!v)
        return NULL;
    (void)snprintf(symbol, sizeof(symbol), "%.*s", (int)n, v);
    return tb_demangle(symbol, out, size);
}

static void put_value(const struct tb_site *site, const char *key)
{
    size_t n = 0;
    const char *v = tb_site_value(site, key, &n);

    if (v)
        printf(" %s %.*s", key, (int)n, v);
}

static bool is_device(const struct tb_trace_event *e)
{
    return e->e.kind >= TB_EV_LAUNCH && e->e.kind <= TB_EV_SYNC;
}

/* Of the first memory that it uses, else of its stream; NULL: neither says it */
static const char *device_of(const struct tb_trace_event *e, char *out, size_t size)
{
    const char *device = NULL;

    for (uint32_t i = 0; i < e->site->access_count; i++) {
        const struct tb_site_access *s = &e->site->access[i];
        uint64_t alloc = e->access[i].alloc;
        uint64_t number = e->access[i].offset >> TB_ORDER_DEVICE & TB_ORDER_DEVICE_MASK;
        if (s->mode != 'q' && strcmp(s->device, "cpu") != 0)
            return s->device;
        if (s->mode != 'q' || alloc < TB_ALLOC_STREAM || alloc >= TB_ALLOC_EVENT || !number)
            continue;
        (void)snprintf(out, size, "cuda:%u", (unsigned)number - 1);
        device = out;
    }
    return device;
}

void tb_show_launch(const struct tb_trace_event *e)
{
    static const char *const keys[] = {"grid", "block", "shared", "kind"};
    char text[48];

    if (!is_device(e))
        return;
    printf("  [%s", tb_show_kind(e->e.kind));
    for (size_t i = 0; i < TB_ARRAY_LEN(keys); i++)
        put_value(e->site, keys[i]);
    for (uint32_t i = 0; i < e->site->access_count; i++)
        if (e->site->access[i].mode == 'q')
            printf(" %s", tb_show_alloc(&e->access[i], text, sizeof(text)));
    const char *device = e->e.kind == TB_EV_SYNC ? NULL : device_of(e, text, sizeof(text));
    if (device)
        printf(" %s", device);
    putchar(']');
}

void tb_show_launch_json(const struct tb_trace_event *e)
{
    char kernel[1024];

    tb_show_field("detail", *e->site->detail ? e->site->detail : NULL, false);
    tb_show_field("kernel", tb_show_kernel(e->site, kernel, sizeof(kernel)), false);
    for (uint32_t i = 0; i < e->site->access_count; i++)
        if (e->site->access[i].mode == 'q' && e->access[i].alloc >= TB_ALLOC_STREAM &&
            e->access[i].alloc < TB_ALLOC_EVENT) {
            tb_show_number("stream", (int64_t)(e->access[i].alloc - TB_ALLOC_STREAM));
            return;
        }
    fputs(", \"stream\": null", stdout);
}

/* What a copy to the host reads of a device is what arrives there */
static bool leaves(const struct tb_trace_event *e, uint32_t i)
{
    const struct tb_site_access *s = e->site->access;

    for (uint32_t j = 0; j < e->site->access_count; j++)
        if (s[j].mode == 'w' && strcmp(s[j].device, "cpu") != 0)
            return false;
    return e->e.kind == TB_EV_COPY && s[i].mode == 'r' && strcmp(s[i].device, "cpu") != 0;
}

bool tb_show_is_result(const struct tb_trace_event *e, uint32_t i)
{
    return strchr("whs", e->site->access[i].mode) || leaves(e, i);
}

bool tb_show_lacks_fingerprint(const struct tb_trace_event *e)
{
    for (uint32_t i = 0; is_device(e) && i < e->site->access_count; i++)
        if ((e->site->access[i].mode == 'w' || leaves(e, i)) && e->access[i].fp_kind == TB_FP_NONE)
            return true;
    return false;
}
