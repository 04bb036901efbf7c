/*
 * Caches of compilers and what else is chosen once and kept in a folder: the job gets a folder of
 * its own, empty or with what an earlier trace has of it, and what it holds at the end goes into
 * the trace. The front's.
 */
#include "collector/collector_internal.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/frozen.h"
#include "deterministic/plan.h"

#define MAX_CACHES 8
#define NAMES_TOLD 4            /* of files that are not in the frozen cache, in a line */
#define NAMES_KEPT 1000u        /* ... and in the trace */
#define PREFIX "twinbit-cache-" /* of the folders' names; six letters or digits follow */

/* struct cache - of one pin */
struct cache {
    const char *id;
    char folder[1024]; /* "": not made */
    char value[1100];  /* of the variable: the folder, or a file in it */
    bool frozen;       /* it began with what a trace has */
    bool lacking;      /* a replay, but that run has not kept it */
    bool kept;         /* it is in the new trace */
    struct tb_frozen before, after;
    uint64_t news; /* files that are not as frozen */
    char names[500];
};

struct tb_caches {
    struct cache cache[MAX_CACHES];
    size_t count;
    uint64_t most; /* bytes of a folder */
};

/* A pin whose word is a file, which is written by one variable and read by another */
static const struct {
    const char *id, *file, *written_by;
} files[] = {{"nccl.topology", "topology.xml", "NCCL_TOPO_DUMP_FILE"}};

/* ---------------------------------------------------------------- folders */

static bool is_ours(const char *path, const char *tmp)
{
    size_t n = strlen(tmp);
    char place[TB_COL_TEXT];

    if (strncmp(path, tmp, n) != 0)
        return false;
    if (tb_leftover_place(tmp, place, sizeof(place)) && strncmp(path, place, strlen(place)) == 0)
        n = strlen(place); /* older traces have it in TMPDIR itself */
    return path[n] == '/' && strncmp(path + n + 1, PREFIX, strlen(PREFIX)) == 0 &&
           strlen(path + n + 1) == strlen(PREFIX) + 6 &&
           strspn(path + n + 1 + strlen(PREFIX),
                  "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == 6;
}

/* @was: the folder that the trace had, or "". The same one again if it is free, for some files name
 * it. */
static enum tb_status make_folder(struct cache *c, const char *was, struct tb_error *err)
{
    const char *env = getenv("TMPDIR");
    const char *const places[] = {env && env[0] == '/' ? env : "/tmp", "/tmp"};
    char name[] = PREFIX;

    name[sizeof(PREFIX) - 2] = 0; /* without the '-' */
    for (size_t i = 0; i < TB_ARRAY_LEN(places) && !c->folder[0]; i++) {
        char *tmp = realpath(places[i], NULL);
        if (tmp && tb_leftover_make(tmp, name, c->folder, sizeof(c->folder) - 100) &&
            is_ours(was, tmp) && strlen(was) < sizeof(c->folder) && mkdir(was, 0700) == 0) {
            (void)rmdir(c->folder);
            (void)snprintf(c->folder, sizeof(c->folder), "%s", was);
        }
        free(tmp);
    }
    return c->folder[0] ? TB_OK
                        : tb_fail_sys(err, TB_ERR_IO, errno,
                                      "cannot make a folder for pin '%s' in '%.200s' or /tmp: set "
                                      "TMPDIR to a folder that can be written, or leave the pin "
                                      "out with --pin '!%s'",
                                      c->id, places[0], c->id);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    (void)remove(path);
    return 0;
}

/* Who still lives may write while we remove */
static void remove_folder(const char *folder)
{
    for (int i = 0; folder[0] && i < 20 && access(folder, F_OK) == 0; i++) {
        if (i)
            (void)usleep(5000);
        (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    }
}

void tb_caches_free(struct tb_caches *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        remove_folder(c->cache[i].folder);
        if (c->cache[i].folder[0])
            tb_leftover_left(c->cache[i].folder);
        tb_frozen_release(&c->cache[i].before);
        tb_frozen_release(&c->cache[i].after);
    }
    free(c);
}

/* ---------------------------------------------------------------- before the job */

/* What the trace says of the folder it has as @id; false: it has none. *@count: files */
static bool find_frozen(struct tb_trace *t, const char *id, char *was, size_t size, uint64_t *count)
{
    size_t n = 0, len = strlen(id);
    const char *list = tb_trace_text(t, TB_CACHES_LIST, &n);

    for (const char *line = list; line && *line;) {
        const char *end = strchrnul(line, '\n');
        if (strncmp(line, id, len) == 0 && line[len] == '\t') {
            const char *folder = line + len + 1;
            size_t k = strcspn(folder, "\t\n");
            if (folder[k] != '\t' || k >= size)
                return false;
            memcpy(was, folder, k);
            was[k] = 0;
            *count = strtoull(folder + k + 1, NULL, 10);
            return true;
        }
        line = *end ? end + 1 : end;
    }
    return false;
}

enum tb_status tb_caches_need(struct tb_trace *t, const char *id, struct tb_error *err)
{
    char was[1024];
    uint64_t count = 0;

    if (find_frozen(t, id, was, sizeof(was), &count))
        return TB_OK;
    return tb_fail(err, TB_ERR_NOTFOUND,
                   "'%.200s' holds no frozen cache of '%s': record it with 'twinbit run --pin %s'",
                   tb_trace_info(t)->path, id, id);
}

static enum tb_status unpack(struct cache *c, struct tb_trace *t, const char *was, uint64_t count,
                             struct tb_error *err)
{
    enum tb_status st = tb_frozen_unpack(&c->before, t, c->id, was, c->folder, err);

    if (st == TB_OK && c->before.count != count)
        return tb_fail(
            err, TB_ERR_CORRUPT,
            "trace corrupted at the frozen cache '%s' in '%.200s': %zu of %llu files are "
            "there",
            c->id, tb_trace_info(t)->path, c->before.count, (unsigned long long)count);
    c->frozen = st == TB_OK && count > 0;
    return st;
}

/* @trace: NULL, the folder begins empty */
static enum tb_status fill(struct cache *c, const char *trace, bool named, struct tb_error *err)
{
    struct tb_trace *t = NULL;
    char was[1024] = "";
    uint64_t count = 0;
    enum tb_status st = trace ? tb_trace_open(&t, trace, err) : TB_OK;
    bool there = st == TB_OK && t && find_frozen(t, c->id, was, sizeof(was), &count);

    if (st == TB_OK && named)
        st = tb_caches_need(t, c->id, err);
    if (st == TB_OK)
        st = make_folder(c, was, err);
    if (st == TB_OK && there)
        st = unpack(c, t, was, count, err);
    c->lacking = trace && !there;
    tb_trace_close(t);
    return st;
}

static void give(struct cache *c, struct tb_pins *pins)
{
    const char *name = NULL, *file = NULL;
    char folder[sizeof(c->folder)];

    for (size_t i = 0; i < TB_ARRAY_LEN(files); i++)
        if (strcmp(files[i].id, c->id) == 0) {
            file = files[i].file;
            name = c->frozen ? NULL : files[i].written_by;
        }
    memcpy(folder, c->folder, sizeof(folder));
    (void)snprintf(c->value, sizeof(c->value), "%s%s%s", folder, file ? "/" : "", file ? file : "");
    tb_pins_give(pins, c->id, name, c->value);
}

enum tb_status tb_caches_open(struct tb_caches **out, const struct tb_pin_plan *plan,
                              const char *frozen, uint64_t max_size, struct tb_pins *pins,
                              struct tb_error *err)
{
    struct tb_caches *all = plan && pins ? calloc(1, sizeof(*all)) : NULL;
    enum tb_status st = TB_OK;

    if (!all)
        return plan ? tb_fail(err, TB_ERR_NOMEM, "no memory for the collector") : TB_OK;
    all->most = max_size ? max_size / 2 : UINT64_MAX;
    for (size_t i = 0; st == TB_OK && i < plan->count && all->count < MAX_CACHES; i++) {
        const struct tb_pin_choice *c = &plan->choice[i];
        if (!tb_pin_sets_cache(c))
            continue;
        const char *named = frozen ? NULL : tb_pin_cache_from(c);
        struct cache *cache = &all->cache[all->count++];
        cache->id = c->pin->id;
        st = fill(cache, named ? named : frozen, named != NULL, err);
        if (st == TB_OK)
            give(cache, pins);
    }
    if (st == TB_OK)
        *out = all;
    else
        tb_caches_free(all);
    return st;
}

/* ---------------------------------------------------------------- behind the job */

bool tb_caches_named(const struct tb_caches *all, const char *argv)
{
    for (size_t i = 0; all && i < all->count; i++)
        if (strstr(argv, all->cache[i].folder))
            return true;
    return false;
}

/* Locks and marks are empty; what tells compilers apart from each other is not */
static bool is_news(const struct cache *c, const struct tb_frozen_file *file)
{
    const struct tb_frozen_file *before = tb_frozen_find(&c->before, file->path);

    return file->bytes > 0 &&
           (!before || before->bytes != file->bytes || !tb_fp_equal(before->fp, file->fp));
}

static enum tb_status find_news(struct cache *c, struct tb_store *store, struct tb_error *err)
{
    enum tb_status st = TB_OK;
    size_t used = 0;

    for (size_t i = 0; st == TB_OK && c->frozen && i < c->after.count; i++) {
        const struct tb_frozen_file *file = &c->after.file[i];
        if (!is_news(c, file))
            continue;
        bool changed = tb_frozen_find(&c->before, file->path) != NULL;
        if (c->news++ < NAMES_TOLD && used < sizeof(c->names))
            used += (size_t)snprintf(c->names + used, sizeof(c->names) - used, "%s%s%s",
                                     used ? ", " : "", file->path, changed ? " (changed)" : "");
        if (c->news <= NAMES_KEPT)
            st = tb_store_coverage(store, 0, 0, 0, 0, "cache", file->path,
                                   changed ? "changed, not as in the frozen cache"
                                           : "not in the frozen cache",
                                   1, err);
    }
    (void)tb_plain(c->names, true);
    return st;
}

static uint64_t real_files(const struct tb_frozen *f)
{
    uint64_t n = 0;

    for (size_t i = 0; i < f->count; i++)
        n += f->file[i].bytes > 0;
    return n;
}

static void say(struct cache *c, struct tb_pins *pins, pid_t job)
{
    unsigned long long n = real_files(&c->after);
    char text[160];

    if (c->after.count == 0 && !c->frozen)
        return;
    if (!c->kept)
        (void)snprintf(text, sizeof(text), "%llu files, too much to be frozen", n);
    else if (c->news)
        (void)snprintf(text, sizeof(text), "%llu files, %llu not in the frozen cache, first %.80s",
                       n, (unsigned long long)c->news, c->names);
    else
        (void)snprintf(text, sizeof(text),
                       c->frozen ? "%llu files, all in the frozen cache" : "%llu files, frozen", n);
    tb_pins_say(pins, job, "", c->id, !c->kept || c->news ? TB_PIN_WAS_MISSED : TB_PIN_WAS_HELD,
                text);
}

static enum tb_status store_one(struct cache *c, uint64_t most, struct tb_store *store, FILE *list,
                                struct tb_error *err)
{
    enum tb_status st = tb_frozen_look(&c->after, c->folder, err);

    c->kept = tb_frozen_fits(&c->after, most);
    if (st == TB_OK)
        st = tb_frozen_keep(&c->after, c->folder, c->kept ? store : NULL, c->id, err);
    if (st == TB_OK)
        st = find_news(c, store, err);
    if (st == TB_OK && c->kept)
        (void)fprintf(list, "%s\t%s\t%zu\n", c->id, c->folder, c->after.count);
    return st;
}

enum tb_status tb_caches_store(struct tb_caches *all, struct tb_store *store, struct tb_pins *pins,
                               pid_t job, struct tb_error *err)
{
    char *text = NULL;
    size_t n = 0;
    enum tb_status st = TB_OK;
    FILE *list = all && all->count ? open_memstream(&text, &n) : NULL;

    if (!list)
        return TB_OK;
    for (size_t i = 0; st == TB_OK && i < all->count; i++) {
        struct cache *c = &all->cache[i];
        if (tb_pins_is_jobs(pins, c->id)) /* it had another folder */
            continue;
        st = store_one(c, all->most, store, list, err);
        say(c, pins, job);
    }
    if (fclose(list) == 0 && st == TB_OK)
        st = tb_store_text(store, TB_CACHES_LIST, text, n, err);
    free(text);
    return st;
}

/* ---------------------------------------------------------------- what the user sees */

static void size_of(uint64_t bytes, char out[32])
{
    if (bytes >= 1u << 20)
        (void)snprintf(out, 32, "%.1f MiB", (double)bytes / (1 << 20));
    else
        (void)snprintf(out, 32, "%.1f KiB", (double)bytes / 1024);
}

static void tell(const struct cache *c, char *out, size_t size)
{
    unsigned long long n = real_files(&c->after);
    char bytes[32];

    size_of(c->after.bytes, bytes);
    if (!c->kept)
        (void)snprintf(out, size,
                       "pin %s: its folder holds %s in %llu files, more than a trace takes (%llu "
                       "MiB, half of --max-size, %u files): it is not frozen, and a replay chooses "
                       "anew",
                       c->id, bytes, n, TB_FROZEN_BYTES >> 20, TB_FROZEN_FILES);
    else if (c->lacking)
        (void)snprintf(out, size,
                       "pin %s: the trace that is replayed has no frozen cache of it: chosen anew",
                       c->id);
    else if (c->news)
        (void)snprintf(out, size, "pin %s: %llu file%s not in the frozen cache: %s%s", c->id,
                       (unsigned long long)c->news, c->news == 1 ? " is" : "s are", c->names,
                       c->news > NAMES_TOLD ? ", ... ('twinbit show TRACE coverage' has them)"
                                            : "");
    else if (c->frozen)
        (void)snprintf(out, size, "pin %s: nothing was made that is not in the frozen cache",
                       c->id);
    else
        (void)snprintf(out, size, "pin %s: %llu file%s frozen (%s)", c->id, n,
                       n == 1 ? " is" : "s are", bytes);
}

void tb_caches_report(const struct tb_caches *all, void (*line)(void *arg, const char *text),
                      void *arg)
{
    char text[900];

    for (size_t i = 0; all && i < all->count; i++) {
        const struct cache *c = &all->cache[i];
        if (c->after.count == 0 && !c->frozen)
            continue;
        tell(c, text, sizeof(text));
        line(arg, text);
        if (c->after.special) {
            (void)snprintf(text, sizeof(text), "pin %s: %llu links and special files are left out",
                           c->id, (unsigned long long)c->after.special);
            line(arg, text);
        }
    }
}
