#include "collector/collector_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REDACTED "<redacted>"

/* ---------------------------------------------------------------- what is stored */

static bool contains(const char *name, size_t n, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i + len <= n; i++) {
        size_t k = 0;
        while (k < len && toupper((unsigned char)name[i + k]) == word[k])
            k++;
        if (k == len)
            return true;
    }
    return false;
}

static bool secret_name(const char *name, size_t n)
{
    static const char *const words[] = {"KEY",        "TOKEN",  "SECRET",  "PASSW",
                                        "PASSPHRASE", "PASSWD", "_PWD",    "CREDENTIAL",
                                        "AUTH",       "COOKIE", "PRIVATE", "_PAT"};

    for (size_t i = 0; i < TB_ARRAY_LEN(words); i++)
        if (contains(name, n, words[i]))
            return true;
    return false;
}

/* "https://user:word@host": what stands between "://" and "@" of the same host part. */
static const char *user_part(const char *value, size_t *len)
{
    const char *start = strstr(value, "://");

    if (!start)
        return NULL;
    start += 3;
    *len = strcspn(start, "/?# \t");
    for (size_t i = *len; i-- > 0;)
        if (start[i] == '@') {
            *len = i;
            return start;
        }
    return NULL;
}

static void put_variable(FILE *f, const char *entry)
{
    const char *equals = strchr(entry, '=');
    const char *value = equals ? equals + 1 : "";
    const char *user;
    size_t len = 0;

    if (!equals)
        return;
    (void)fwrite(entry, 1, (size_t)(value - entry), f);
    if (*value && secret_name(entry, (size_t)(equals - entry))) {
        (void)fputs(REDACTED "\n", f);
        return;
    }
    while ((user = user_part(value, &len)) != NULL) {
        (void)fwrite(value, 1, (size_t)(user - value), f);
        (void)fputs(REDACTED, f);
        value = user + len;
    }
    for (; *value; value++) /* one line a variable */
        (void)(*value == '\n' ? fputs("\\n", f) : fputc(*value, f));
    (void)fputc('\n', f);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char *tb_environment_redact(char *const *env, size_t *n)
{
    size_t count = 0;
    char *text = NULL;

    while (env[count])
        count++;
    char **sorted = calloc(count + 1, sizeof(char *));
    FILE *f = sorted ? open_memstream(&text, n) : NULL;
    if (f) {
        memcpy(sorted, env, count * sizeof(char *));
        qsort(sorted, count, sizeof(char *), by_text);
        for (size_t i = 0; i < count; i++)
            put_variable(f, sorted[i]);
        if (fclose(f) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(sorted);
    return text;
}

/* ---------------------------------------------------------------- what the job gets */

static bool is_named(const char *entry, const char *name)
{
    size_t n = strlen(name);

    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

const char *tb_environment_value(char *const *env, const char *name)
{
    for (; *env; env++)
        if (is_named(*env, name))
            return *env + strlen(name) + 1;
    return NULL;
}

bool tb_environment_set(char **env, size_t *count, const char *name, const char *first,
                        char separator, bool first_wins)
{
    const char *before = tb_environment_value(env, name);
    char *entry = NULL;
    size_t i = 0;

    if (!before || !before[0])
        (void)!asprintf(&entry, "%s=%s", name, first);
    else if (separator)
        (void)!asprintf(&entry, "%s=%s%c%s", name, first_wins ? first : before, separator,
                        first_wins ? before : first);
    else
        (void)!asprintf(&entry, "%s=%s", name, first);
    if (!entry)
        return false;
    while (i < *count && !is_named(env[i], name))
        i++;
    if (i == *count)
        (*count)++;
    else
        free(env[i]);
    env[i] = entry;
    return true;
}

bool tb_environment_hook(char **env, size_t *count, const char *libdir)
{
    char hook[TB_COL_TEXT];
    const char *before = tb_environment_value(env, "PYTHONPATH");

    (void)snprintf(hook, sizeof(hook), "%s/python/hook", libdir);
    if (before && strncmp(before, hook, strlen(hook)) == 0)
        return true; /* another of our reasons */
    return tb_environment_set(env, count, "PYTHONPATH", hook, ':', true);
}

static bool set_attach(char **env, size_t *count, const struct tb_collector_options *o)
{
    char path[TB_COL_TEXT];

    if (o->attach && strcmp(o->attach, "none") == 0)
        return true;
    if (o->attach && strcmp(o->attach, "python") == 0) {
        return tb_environment_set(env, count, "TWINBIT_ATTACH", "python", 0, true) &&
               tb_environment_hook(env, count, o->libdir);
    }
    (void)snprintf(path, sizeof(path), "%s/libtwinbit.so", o->libdir);
    /* A sanitizer's runtime in the job or a child of it refuses to run behind a preloaded library.
     */
    return tb_environment_set(env, count, "LD_PRELOAD", path, ':', true) &&
           tb_environment_set(env, count, "ASAN_OPTIONS", "verify_asan_link_order=0", ':', false);
}

/* glibc fills fresh memory with the complement of that, but not the small blocks that it keeps for
 * each thread: then it keeps none */
static bool set_poison(char **env, size_t *count, uint32_t poison, const char *libdir)
{
    char value[16];

    if (!poison)
        return true;
    (void)snprintf(value, sizeof(value), "%u", ~TB_POISON_BYTE(poison) & 0xffu);
    return tb_environment_set(env, count, "MALLOC_PERTURB_", value, 0, true) &&
           tb_environment_set(env, count, "GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", ':',
                              false) &&
           tb_environment_set(env, count, "TWINBIT_POISON", "1", 0, true) &&
           tb_environment_hook(env, count, libdir);
}

char **tb_job_environment(char *const *env, const struct tb_collector_options *o,
                          struct tb_pins *pins, const struct tb_draws *draws, const char *socket)
{
    enum { NEW_ENTRIES = 32 };
    size_t count = 0, n = 0;

    while (env[count])
        count++;
    char **copy = calloc(count + NEW_ENTRIES + tb_pins_room(pins) + 1, sizeof(char *));
    bool ok = copy != NULL;
    for (; ok && n < count; n++)
        ok = (copy[n] = strdup(env[n])) != NULL;
    ok = ok && tb_environment_set(copy, &n, TB_WIRE_ENV, socket, 0, true) &&
         set_attach(copy, &n, o) && tb_cuda_environment(copy, &n, o) &&
         set_poison(copy, &n, o->config.poison, o->libdir) &&
         tb_pins_environment(pins, copy, &n, o->libdir) &&
         tb_draws_environment(draws, copy, &n, o->libdir);
    if (!ok) {
        tb_job_environment_free(copy);
        return NULL;
    }
    return copy;
}

void tb_job_environment_free(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}
