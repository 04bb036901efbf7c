/* Interned names, and the text of a site in the making. */
#include "recorder/pytap/pytap_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tb_pt_grow(void *array, size_t *capacity, size_t need, size_t element)
{
    size_t cap = *capacity ? *capacity : 32;
    void *old, *fresh;

    if (need <= *capacity)
        return true;
    while (cap < need)
        cap *= 2;
    memcpy(&old, array, sizeof(old));
    fresh = realloc(old, cap * element);
    if (!fresh) {
        tb_pt.api->stop("no memory for the Python tap");
        return false;
    }
    memcpy(array, &fresh, sizeof(fresh));
    *capacity = cap;
    return true;
}

static uint64_t hash(const char *s)
{
    uint64_t h = 0xcbf29ce484222325ull;

    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3ull;
    return h ^ h >> 32;
}

/* Twice as many slots as strings; slots hold id + 1. */
static bool grow(void)
{
    uint32_t cap = tb_pt.string_capacity ? tb_pt.string_capacity * 2 : 1024;
    const char **strings = realloc(tb_pt.strings, cap * sizeof(*strings));
    uint32_t *slots = calloc(2 * (size_t)cap, sizeof(*slots));

    if (strings)
        tb_pt.strings = strings;
    if (!strings || !slots) {
        free(slots);
        return false;
    }
    free(tb_pt.string_slots);
    tb_pt.string_slots = slots;
    tb_pt.string_capacity = cap;
    for (uint32_t i = 0; i < tb_pt.string_count; i++) {
        size_t at = hash(strings[i]) & (2 * cap - 1);
        while (slots[at])
            at = (at + 1) & (2 * cap - 1);
        slots[at] = i + 1;
    }
    return true;
}

static uint32_t add(const char *s)
{
    if (tb_pt.string_count == tb_pt.string_capacity && !grow())
        return 0;
    uint32_t mask = 2 * tb_pt.string_capacity - 1, at = (uint32_t)hash(s) & mask;
    for (; tb_pt.string_slots[at]; at = (at + 1) & mask)
        if (strcmp(tb_pt.strings[tb_pt.string_slots[at] - 1], s) == 0)
            return tb_pt.string_slots[at] - 1;
    char *copy = strdup(s);
    if (!copy)
        return 0;
    for (char *c = copy; *c; c++)
        if (*c == '\n')
            *c = ' ';
    tb_pt.strings[tb_pt.string_count] = copy;
    tb_pt.string_slots[at] = ++tb_pt.string_count;
    return tb_pt.string_count - 1;
}

uint32_t tb_pt_intern(const char *s)
{
    (void)pthread_mutex_lock(&tb_pt.lock);
    if (tb_pt.string_count == 0)
        (void)add(""); /* id 0 */
    uint32_t id = add(s);
    (void)pthread_mutex_unlock(&tb_pt.lock);
    return id;
}

const char *tb_pt_string(uint32_t id)
{
    (void)pthread_mutex_lock(&tb_pt.lock);
    const char *s = id < tb_pt.string_count ? tb_pt.strings[id] : "";
    (void)pthread_mutex_unlock(&tb_pt.lock);
    return s;
}

void tb_pt_put(struct tb_pt_thread *t, const char *s)
{
    size_t n = strlen(s);

    if (!tb_pt_grow(&t->text, &t->text_capacity, t->text_size + n, 1))
        return;
    memcpy(t->text + t->text_size, s, n);
    t->text_size += n;
}

void tb_pt_put_char(struct tb_pt_thread *t, char c)
{
    char s[2] = {c, 0};

    tb_pt_put(t, s);
}

void tb_pt_put_number(struct tb_pt_thread *t, int64_t v)
{
    char s[24];

    (void)snprintf(s, sizeof(s), "%lld", (long long)v);
    tb_pt_put(t, s);
}
