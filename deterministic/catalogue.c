#include "deterministic/catalogue.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deterministic/catalogue_internal.h"

const struct tb_pin *tb_pins(size_t *count)
{
    *count = tb_pins_table_count;
    return tb_pins_table;
}

const struct tb_pin *tb_pin_find(const char *id)
{
    for (size_t i = 0; i < tb_pins_table_count; i++)
        if (strcmp(tb_pins_table[i].id, id) == 0)
            return &tb_pins_table[i];
    return NULL;
}

/* ---------------------------------------------------------------- values */

const char *tb_pin_value(const struct tb_pin *pin, enum tb_pin_profile profile)
{
    return (unsigned)profile < TB_PIN_PROFILES ? pin->value[profile] : NULL;
}

bool tb_pin_changes(const char *value)
{
    return value && strcmp(value, "@read") != 0 && strcmp(value, "@log") != 0 &&
           strcmp(value, "@keep") != 0;
}

const char *tb_pin_alone(const struct tb_pin *pin)
{
    if (pin->single)
        return pin->single;
    for (size_t p = 0; p < TB_PIN_PROFILES; p++)
        if (tb_pin_changes(pin->value[p]))
            return pin->value[p];
    return NULL;
}

bool tb_pin_is_cache(const struct tb_pin *pin)
{
    const char *value = tb_pin_alone(pin);

    return value && strcmp(value, "@cache") == 0;
}

const struct tb_pin_text *tb_pin_word(const char *value, const char **argument)
{
    if (value[0] != '@')
        return NULL;
    size_t len = strcspn(value + 1, " ");
    const char *rest = value + 1 + len;
    for (size_t i = 0; i < tb_pin_words_table_count; i++) {
        const struct tb_pin_text *w = &tb_pin_words_table[i];
        if (strlen(w->name) != len || memcmp(w->name, value + 1, len) != 0)
            continue;
        if (argument)
            *argument = rest + (*rest == ' ');
        return w;
    }
    return NULL;
}

static const char *said_by(const struct tb_pin *a, const struct tb_pin *b)
{
    for (const struct tb_pin_conflict *c = a->conflicts; c->other; c++)
        if (!c->job && strcmp(c->other, b->id) == 0)
            return c->why;
    return NULL;
}

const char *tb_pin_conflicting(const struct tb_pin *a, const struct tb_pin *b)
{
    const char *why = said_by(a, b);
    return why ? why : said_by(b, a);
}

/* ---------------------------------------------------------------- forms */

static const char *after(const char *form, const char *kind)
{
    size_t n = strlen(kind);

    return strncmp(form, kind, n) == 0 ? form + n : NULL;
}

/* "A..B" */
static void bounds(const char *text, unsigned long long *low, unsigned long long *high)
{
    char *end;

    *low = strtoull(text, &end, 10);
    *high = strtoull(end + strspn(end, "."), NULL, 10);
}

/* Decimal digits, within the bounds, up to a comma or the end; NULL: not so */
static const char *number_in(const char *value, const char *range)
{
    unsigned long long low, high;
    char *end;

    bounds(range, &low, &high);
    errno = 0;
    unsigned long long x = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || errno || x < low || x > high)
        return NULL;
    return end;
}

static bool numbers_in(const char *value, const char *range)
{
    while ((value = number_in(value, range)) != NULL && *value == ',')
        value++;
    return value && !*value;
}

static bool among(const char *words, const char *value)
{
    size_t n = strlen(value), len;

    for (; *words; words += len + (words[len] == ' ')) {
        len = strcspn(words, " ");
        if (len == n && strncmp(words, value, n) == 0)
            return true;
    }
    return false;
}

/* "0-3,8": numbers and ranges that do not run backwards, below what an affinity can name */
static bool cpus_in(const char *value)
{
    const char range[] = "0..1023";

    for (;; value++) {
        unsigned long from = strtoul(value, NULL, 10);
        value = number_in(value, range);
        if (value && *value == '-') {
            unsigned long to = strtoul(value + 1, NULL, 10);
            value = number_in(value + 1, range);
            if (to < from)
                return false;
        }
        if (!value || *value != ',')
            return value && !*value;
    }
}

bool tb_pin_fits(const struct tb_pin *pin, const char *value)
{
    const char *form = pin->form ? pin->form : "", *rest;

    if (!*value)
        return false;
    if ((rest = after(form, "number ")) != NULL) {
        const char *end = number_in(value, rest);
        return end && !*end;
    }
    if ((rest = after(form, "numbers ")) != NULL)
        return numbers_in(value, rest);
    if ((rest = after(form, "one ")) != NULL)
        return among(rest, value);
    if (strcmp(form, "octal") == 0)
        return strlen(value) == 3 && strspn(value, "01234567") == 3;
    if (strcmp(form, "cpus") == 0)
        return cpus_in(value);
    return true;
}

/* "one of 0, 1"; of one word, that */
static void join(const char *words, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%s", strchr(words, ' ') ? "one of " : "");

    for (; *words && used + 2 < size; words++) {
        if (*words == ' ')
            out[used++] = ',';
        out[used++] = *words;
    }
    out[used] = 0;
}

void tb_pin_form_text(const struct tb_pin *pin, char *out, size_t size)
{
    const char *form = pin->form ? pin->form : "", *rest;
    unsigned long long low, high;

    if ((rest = after(form, "number ")) != NULL || (rest = after(form, "numbers ")) != NULL) {
        bounds(rest, &low, &high);
        (void)snprintf(out, size, "a number from %llu to %llu", low, high);
    } else if ((rest = after(form, "one ")) != NULL) {
        join(rest, out, size);
    } else if (strcmp(form, "octal") == 0) {
        (void)snprintf(out, size, "three octal digits, such as 022");
    } else if (strcmp(form, "cpus") == 0) {
        (void)snprintf(out, size, "a list of CPUs, such as 0-3,8");
    } else {
        (void)snprintf(out, size, "a text");
    }
}

/* ---------------------------------------------------------------- what was meant */

#define NEAR_TEXT 63 /* of what was typed, no more is compared */
#define FAR 1000u

/* How many letters must be put in, taken out or replaced, whatever their case */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[NEAR_TEXT + 2];
    size_t len = strnlen(b, NEAR_TEXT);

    for (size_t j = 0; j <= len; j++)
        row[j] = (unsigned)j;
    for (size_t i = 0; a[i]; i++) {
        unsigned corner = row[0]++;
        for (size_t j = 0; j < len; j++) {
            bool same = tolower((unsigned char)a[i]) == tolower((unsigned char)b[j]);
            unsigned best = corner + !same;
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j + 1] + 1 < best)
                best = row[j + 1] + 1;
            corner = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[len];
}

/* 0: as good as typed; FAR: not meant. A part of three letters is worth as much as three typing
 * mistakes, what a pin sets as much as its id. */
static unsigned how_far(const struct tb_pin *pin, const char *text)
{
    size_t len = strlen(text);
    unsigned allowed = len < 6 ? 1 : len < 12 ? 2 : 3;
    const char *what = strchr(pin->id, '.') + 1;
    unsigned best = distance(pin->id, text);
    unsigned part = distance(what, text);

    if (part < best)
        best = part;
    if (best <= allowed)
        return best;
    if (len >= 3 && (strcasestr(pin->id, text) || strcasestr(pin->sets, text)))
        return 3;
    return strlen(what) >= 4 && strcasestr(text, what) ? 4 : FAR;
}

size_t tb_pin_near(const char *text, const struct tb_pin **out, size_t max)
{
    size_t count = 0;

    if (strlen(text) > NEAR_TEXT)
        return 0;
    for (unsigned far = 0; far < 5; far++) /* all that how_far() gives but FAR */
        for (size_t i = 0; i < tb_pins_table_count && count < max; i++)
            if (how_far(&tb_pins_table[i], text) == far)
                out[count++] = &tb_pins_table[i];
    return count;
}

/* ---------------------------------------------------------------- names */

bool tb_pin_profile_find(const char *name, enum tb_pin_profile *out)
{
    for (size_t i = 0; i < tb_pin_profiles_count; i++)
        if (strcmp(tb_pin_profiles[i].name, name) == 0) {
            *out = (enum tb_pin_profile)i;
            return true;
        }
    return false;
}

const struct tb_pin_text *tb_pin_groups(size_t *count)
{
    *count = tb_pin_groups_table_count;
    return tb_pin_groups_table;
}

const struct tb_pin_text *tb_pin_words(size_t *count)
{
    *count = tb_pin_words_table_count;
    return tb_pin_words_table;
}

const struct tb_pin_text *tb_pin_profile_text(enum tb_pin_profile profile)
{
    return (size_t)profile < tb_pin_profiles_count ? &tb_pin_profiles[profile] : NULL;
}

const struct tb_pin_text *tb_pin_mechanism_text(enum tb_pin_mechanism mechanism)
{
    return (size_t)mechanism < tb_pin_mechanisms_count ? &tb_pin_mechanisms[mechanism] : NULL;
}

const struct tb_pin_text *tb_pin_reader_text(enum tb_pin_reader reader)
{
    return (size_t)reader < tb_pin_readers_count ? &tb_pin_readers[reader] : NULL;
}

const char *tb_pin_cost_name(enum tb_pin_cost cost)
{
    static const char *const names[] = {"none", "small", "large", "varies", "unknown"};
    return (size_t)cost < TB_ARRAY_LEN(names) ? names[cost] : "?";
}

const char *tb_pin_confirmed_name(enum tb_pin_confirmed confirmed)
{
    static const char *const names[] = {"yes", "doc", "no"};
    return (size_t)confirmed < TB_ARRAY_LEN(names) ? names[confirmed] : "?";
}
