#include "deterministic/preload/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct tb_preload_logs {
    char *folder;
    char **names;
    size_t count;
};

/* Names of sites and makers of threads, as they are met on the way. */
struct place {
    const char *module;
    uint64_t offset;
};

struct maker {
    uint64_t thread, maker;
    uint32_t n;
};

struct tb_preload_log {
    void *bytes;
    size_t size;
    uint64_t end, at;
    struct place *places; /* by number */
    size_t places_count;
    struct maker *makers;
    size_t makers_count;
};

static bool is_log(const char *name)
{
    size_t n = strlen(name);

    return n > 5 && strcmp(name + n - 5, ".pins") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_name(struct tb_preload_logs *logs, const char *name)
{
    char **grown = realloc(logs->names, (logs->count + 1) * sizeof(*grown));

    if (!grown)
        return false;
    logs->names = grown;
    logs->names[logs->count] = strdup(name);
    return logs->names[logs->count] && ++logs->count;
}

enum tb_status tb_preload_logs_open(const char *folder, struct tb_preload_logs **out,
                                    struct tb_error *err)
{
    struct tb_preload_logs *logs = calloc(1, sizeof(*logs));
    enum tb_status status = TB_ERR_NOMEM;
    DIR *dir = opendir(folder);
    struct dirent *e;

    if (!dir) {
        status = tb_fail_sys(err, TB_ERR_IO, errno, "cannot read folder '%s'", folder);
        goto out;
    }
    if (!logs || !(logs->folder = strdup(folder)))
        goto out;
    while ((e = readdir(dir)) != NULL)
        if (is_log(e->d_name) && !add_name(logs, e->d_name))
            goto out;
    if (logs->count > 1)
        qsort(logs->names, logs->count, sizeof(*logs->names), by_name);
    *out = logs;
    logs = NULL;
    status = TB_OK;
out:
    if (status == TB_ERR_NOMEM)
        (void)tb_fail(err, status, "no memory for the list of '%s'", folder);
    if (dir)
        (void)closedir(dir);
    tb_preload_logs_close(logs);
    return status;
}

size_t tb_preload_logs_count(const struct tb_preload_logs *logs)
{
    return logs->count;
}

const char *tb_preload_logs_name(const struct tb_preload_logs *logs, size_t i)
{
    return logs->names[i];
}

void tb_preload_logs_close(struct tb_preload_logs *logs)
{
    for (size_t i = 0; logs && i < logs->count; i++)
        free(logs->names[i]);
    if (logs) {
        free(logs->names);
        free(logs->folder);
    }
    free(logs);
}

/* Read into memory, not mapped: a file that is cut meanwhile must not end the reader. */
static enum tb_status read_all(const char *path, struct tb_preload_log *log, struct tb_error *err)
{
    enum tb_status status = TB_ERR_IO;
    struct stat st;
    ssize_t got = 0;

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)tb_fail_sys(err, status, errno, "cannot open '%s'", path);
        goto out;
    }
    log->bytes = calloc(1, (size_t)st.st_size + 16);
    if (!log->bytes) {
        status = tb_fail(err, TB_ERR_NOMEM, "no memory for '%s'", path);
        goto out;
    }
    while (log->size < (size_t)st.st_size &&
           (got = read(fd, (char *)log->bytes + log->size, (size_t)st.st_size - log->size)) > 0)
        log->size += (size_t)got;
    if (got < 0)
        (void)tb_fail_sys(err, status, errno, "cannot read '%s'", path);
    else
        status = TB_OK;
out:
    if (fd >= 0)
        (void)close(fd);
    return status;
}

enum tb_status tb_preload_log_open(const char *path, struct tb_preload_log **out,
                                   struct tb_error *err)
{
    struct tb_preload_log *log = calloc(1, sizeof(*log));
    enum tb_status status = TB_ERR_NOMEM;

    if (!log)
        return tb_fail(err, status, "no memory for '%s'", path);
    status = read_all(path, log, err);
    if (status != TB_OK)
        goto out;
    const struct tb_preload_file *f = log->bytes;
    status = TB_ERR_FORMAT;
    if (log->size < sizeof(*f) || f->magic != TB_PRELOAD_LOG_MAGIC) {
        (void)tb_fail(err, status, "cannot open '%s': not a log of pins", path);
        goto out;
    }
    if (!tb_preload_file_good(log->bytes, log->size)) {
        status =
            tb_fail(err, TB_ERR_VERSION, "cannot open '%s': its version is %u", path, f->version);
        goto out;
    }
    log->at = f->size;
    log->end = f->end < log->size ? f->end : log->size;
    *out = log;
    return TB_OK;
out:
    tb_preload_log_close(log);
    return status;
}

enum tb_status tb_preload_log_at(const struct tb_preload_logs *logs, size_t i,
                                 struct tb_preload_log **out, struct tb_error *err)
{
    char path[4096];

    if (i >= logs->count ||
        snprintf(path, sizeof(path), "%s/%s", logs->folder, logs->names[i]) >= (int)sizeof(path))
        return tb_fail(err, TB_ERR_ARG, "no log %zu in '%s'", i, logs->folder);
    return tb_preload_log_open(path, out, err);
}

const struct tb_preload_file *tb_preload_log_file(const struct tb_preload_log *log)
{
    return log->bytes;
}

/* A record that cannot be kept for want of memory leaves its events without a name. */
static void learn(struct tb_preload_log *log, const struct tb_preload_record *r)
{
    if (r->kind == TB_PRELOAD_SITE && r->site > 0 && r->site <= (1u << 20) && r->payload > 0 &&
        ((const char *)(r + 1))[r->payload - 1] == 0) {
        size_t need = (size_t)r->site + 1;
        struct place *grown = log->places;
        if (need > log->places_count) {
            grown = realloc(log->places, need * sizeof(*grown));
            if (!grown)
                return;
            memset(grown + log->places_count, 0, (need - log->places_count) * sizeof(*grown));
            log->places = grown;
            log->places_count = need;
        }
        grown[r->site] = (struct place){(const char *)(r + 1), r->asked};
    }
    if (r->kind == TB_PRELOAD_THREAD) {
        struct maker *grown = realloc(log->makers, (log->makers_count + 1) * sizeof(*grown));
        if (!grown)
            return;
        log->makers = grown;
        grown[log->makers_count++] = (struct maker){r->thread, r->asked, (uint32_t)r->served};
    }
}

bool tb_preload_log_next(struct tb_preload_log *log, struct tb_preload_event *e)
{
    const struct tb_preload_record *r = tb_preload_next(log->bytes, log->end, &log->at);

    if (!r)
        return false;
    learn(log, r);
    *e = (struct tb_preload_event){.record = r, .payload = r + 1, .module = ""};
    if (r->site < log->places_count && log->places[r->site].module) {
        e->module = log->places[r->site].module;
        e->offset = log->places[r->site].offset;
    }
    for (size_t i = 0; i < log->makers_count; i++)
        if (log->makers[i].thread == r->thread) {
            e->maker = log->makers[i].maker;
            e->maker_n = log->makers[i].n;
        }
    return true;
}

void tb_preload_log_close(struct tb_preload_log *log)
{
    if (log) {
        free(log->bytes);
        free(log->places);
        free(log->makers);
    }
    free(log);
}

const char *tb_preload_kind_name(uint16_t kind)
{
    static const struct {
        uint16_t kind;
        const char *name;
    } names[] = {
        {TB_PRELOAD_START, "start"},
        {TB_PRELOAD_THREAD, "thread"},
        {TB_PRELOAD_SITE, "site"},
        {TB_PRELOAD_UNREACHED, "unreached"},
        {TB_PRELOAD_FILE, "file"},
        {TB_PRELOAD_GETRANDOM, "getrandom"},
        {TB_PRELOAD_GETENTROPY, "getentropy"},
        {TB_PRELOAD_SYSCALL, "syscall(SYS_getrandom)"},
        {TB_PRELOAD_ARC4RANDOM, "arc4random"},
        {TB_PRELOAD_DEVICE, "/dev/urandom"},
        {TB_PRELOAD_RANDOM_DEVICE, "std::random_device"},
        {TB_PRELOAD_TIME, "time"},
        {TB_PRELOAD_LISTING, "listing"},
        {TB_PRELOAD_TEMPNAME, "temporary name"},
        {TB_PRELOAD_SEED, "seed"},
        {TB_PRELOAD_STREAM, "stream"},
        {TB_PRELOAD_PARTED, "parted"},
        {TB_PRELOAD_COMPLETION, "completion"},
        {TB_PRELOAD_ARRIVAL, "arrival"},
        {TB_PRELOAD_INDICES, "indices"},
        {TB_PRELOAD_PASS, "pass of a sampler"},
        {TB_PRELOAD_TASK, "task of a pool"},
        {TB_PRELOAD_ATOMICS, "handle of cuBLAS"},
        {TB_PRELOAD_ALGORITHM, "algorithm of cuBLASLt"},
    };

    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++)
        if (names[i].kind == kind)
            return names[i].name;
    return "?";
}
