#include "cli/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diff/diff.h"

/* Counts of one step and the one before it: threads lag behind each other by less than a step. */
struct slot {
    uint64_t hash; /* of the name without its number; 0: free */
    uint64_t step, count;
};

struct tb_cli_names {
    struct tb_trace *trace;
    const struct tb_trace_thread *threads;
    size_t thread_count;
    struct tb_event_name name; /* rank and process stay */
    char text[TB_EVENT_NAME_TEXT];
    struct slot *slots;
    size_t capacity, used;
    uint64_t step; /* the highest seen */
};

#define FIRST_CAPACITY 1024u

const char *tb_cli_range_field(const char *range, unsigned n, char *out, size_t size)
{
    for (; n > 0 && *range; n--) {
        range += strcspn(range, "\t");
        range += *range == '\t';
    }
    (void)snprintf(out, size, "%.*s", (int)strcspn(range, "\t"), range);
    return out;
}

struct tb_cli_names *tb_cli_names_new(struct tb_trace *t, const struct tb_trace_process *process)
{
    struct tb_cli_names *n = calloc(1, sizeof(*n));

    if (!n)
        return NULL;
    n->trace = t;
    n->threads = tb_trace_threads(t, &n->thread_count);
    n->capacity = FIRST_CAPACITY;
    n->slots = calloc(n->capacity, sizeof(*n->slots));
    if (!n->slots) {
        free(n);
        return NULL;
    }
    n->name.rank = process->rank < 0 ? 0 : process->rank;
    tb_process_label(process, n->name.process, sizeof(n->name.process));
    return n;
}

void tb_cli_names_free(struct tb_cli_names *n)
{
    if (!n)
        return;
    free(n->slots);
    free(n);
}

static const char *role_of(const struct tb_cli_names *n, uint32_t thread)
{
    for (size_t i = 0; i < n->thread_count; i++)
        if (n->threads[i].id == thread)
            return n->threads[i].role;
    return "?";
}

static uint64_t hash_of(const char *s)
{
    uint64_t h =
        0xCBF29CE484222325u; /* FNV-1a: a name that collides would get a wrong number, no more */

    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001B3u;
    return h ? h : 1;
}

static struct slot *find(struct slot *slots, size_t capacity, uint64_t hash)
{
    size_t i = (size_t)hash & (capacity - 1);

    while (slots[i].hash && slots[i].hash != hash)
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

/* Into a table of @capacity, without the steps that are over */
static enum tb_status rebuild(struct tb_cli_names *n, size_t capacity, struct tb_error *err)
{
    struct slot *slots = calloc(capacity, sizeof(*slots));
    size_t used = 0;

    if (!slots)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the names of a step");
    for (size_t i = 0; i < n->capacity; i++) {
        const struct slot *s = &n->slots[i];
        if (s->hash && s->step + 1 >= n->step) {
            *find(slots, capacity, s->hash) = *s;
            used++;
        }
    }
    free(n->slots);
    n->slots = slots;
    n->capacity = capacity;
    n->used = used;
    return TB_OK;
}

static enum tb_status count(struct tb_cli_names *n, uint64_t step, uint64_t *k,
                            struct tb_error *err)
{
    uint64_t hash = hash_of(n->text);
    enum tb_status st = TB_OK;

    if (step > n->step) {
        n->step = step;
        st = rebuild(n, n->capacity, err);
    }
    if (st == TB_OK && 4 * (n->used + 1) > 3 * n->capacity)
        st = rebuild(n, 2 * n->capacity, err);
    if (st != TB_OK)
        return st;
    struct slot *s = find(n->slots, n->capacity, hash);
    if (!s->hash) {
        *s = (struct slot){.hash = hash, .step = step};
        n->used++;
    }
    *k = s->count++;
    return TB_OK;
}

enum tb_status tb_cli_names_next(struct tb_cli_names *n, const struct tb_trace_event *e,
                                 const char **text, struct tb_error *err)
{
    struct tb_event_name *name = &n->name;

    name->step = e->e.step;
    name->k = 0;
    (void)snprintf(name->role, sizeof(name->role), "%s", role_of(n, e->e.thread));
    (void)snprintf(name->op, sizeof(name->op), "%s", e->site->name);
    tb_event_name_module(tb_trace_range(n->trace, e->e.range), name->module, sizeof(name->module));
    tb_event_name_format(name, n->text, sizeof(n->text));
    enum tb_status st = count(n, e->e.step, &name->k, err);
    if (st == TB_OK)
        *text = tb_event_name_format(name, n->text, sizeof(n->text));
    return st;
}
