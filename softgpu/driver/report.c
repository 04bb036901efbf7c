/*
 * The report of strict mode: one JSON object a line, written with one write(2) each.
 *
 *   {"softgpu_report":1,"pid":P,"mode":"report"}           first line
 *   {"finding":N,"rule":"...","severity":"...", ...}       the first of a kind, at once
 *   {"summary":true,"findings":N,"total":T,"rules":{...},"counts":[...]}   last line
 *
 * A process that dies leaves all but the last line; docs/softgpu.md has the fields. A file that
 * exists belongs to another process, or an earlier run: this one writes FILE.PID then.
 */
#include "softgpu/driver/strict.h"
#include "softgpu/log/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KINDS_MAX 65536 /* findings that are told apart; beyond they are only counted */
#define LINES_MAX 50    /* on stderr */

struct rule {
    const char *name;
    enum sg_severity severity;
    CUresult error; /* in "fail" mode */
    const char *advice;
};

static const struct rule rules[SG_RULE_COUNT] = {
    [SG_RULE_NONE] = {"none", SG_NOTE, CUDA_SUCCESS, ""},
    [SG_RULE_OUT_OF_BOUNDS] = {"out-of-bounds", SG_ERROR, CUDA_ERROR_ILLEGAL_ADDRESS,
                               "check the index against the allocation's size"},
    [SG_RULE_MISALIGNED] = {"misaligned", SG_ERROR, CUDA_ERROR_MISALIGNED_ADDRESS,
                            "an access of n bytes needs an address that n divides"},
    [SG_RULE_DEVICE_FAULT] = {"device-fault", SG_ERROR, CUDA_ERROR_LAUNCH_FAILED,
                              "the launch was stopped: see the text"},
    [SG_RULE_UNINITIALISED_READ] = {"uninitialised-read", SG_ERROR, CUDA_ERROR_LAUNCH_FAILED,
                                    "write the memory before it is read"},
    [SG_RULE_USE_AFTER_FREE] = {"use-after-free", SG_ERROR, CUDA_ERROR_INVALID_VALUE,
                                "free the memory after its last use"},
    [SG_RULE_DOUBLE_FREE] = {"double-free", SG_ERROR, CUDA_ERROR_INVALID_VALUE,
                             "free it once, and forget the pointer"},
    [SG_RULE_LEAK] = {"leak", SG_WARNING, CUDA_SUCCESS, "free it, or end its context"},
    [SG_RULE_LEAKED_HANDLE] = {"leaked-handle", SG_NOTE, CUDA_SUCCESS,
                               "destroy it, or end its context"},
    [SG_RULE_CALL_IN_HOST_FUNCTION] = {"call-in-host-function", SG_ERROR, CUDA_ERROR_NOT_PERMITTED,
                                       "let the host function signal a thread that makes the call"},
    [SG_RULE_CALL_IN_TOOL_CALLBACK] = {"call-in-tool-callback", SG_WARNING,
                                       CUDA_ERROR_NOT_PERMITTED,
                                       "note what is to be done and do it outside the callback"},
    [SG_RULE_CAPTURE_INVALIDATED] = {"capture-invalidated", SG_ERROR,
                                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                                     "make the call before or after the capture, or capture in "
                                     "relaxed mode"},
    [SG_RULE_HOST_TOUCH] = {"host-touch", SG_ERROR, CUDA_ERROR_ILLEGAL_STATE,
                            "wait for the work that uses the memory first"},
    [SG_RULE_STREAM_RACE] = {"stream-race", SG_ERROR, CUDA_ERROR_ILLEGAL_STATE,
                             "record an event behind the first and let the second's stream wait "
                             "for it"},
    [SG_RULE_SHARED_RACE] = {"shared-race", SG_ERROR, CUDA_ERROR_LAUNCH_FAILED,
                             "put a barrier between the accesses"},
    [SG_RULE_GLOBAL_RACE] = {"global-race", SG_ERROR, CUDA_ERROR_LAUNCH_FAILED,
                             "use atomics, or let one thread write"},
    [SG_RULE_STALE_CALLBACK_DATA] = {"stale-callback-data", SG_ERROR, CUDA_ERROR_ILLEGAL_STATE,
                                     "copy what is needed while the callback runs"},
};

static const char *const severities[] = {"note", "warning", "error"};

struct kind {
    uint64_t hash; /* 0: free place */
    uint64_t number, count;
};

/* The one state of this file; under @lock. Opened at cuInit, closed when the process ends. */
static struct {
    pthread_mutex_t lock;
    int fd;    /* -1: no file */
    pid_t pid; /* a forked child has no device and reports nothing */
    struct kind *kinds;
    size_t size; /* a power of two */
    uint64_t nkinds, total, rules[SG_RULE_COUNT];
    unsigned lines;
    bool open;
} report = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

const char *sg_rule_name(enum sg_rule rule)
{
    return rules[(unsigned)rule < SG_RULE_COUNT ? rule : SG_RULE_NONE].name;
}

/* ---- text ------------------------------------------------------------------------------------ */

struct text {
    char *s;
    size_t n, cap;
    bool failed;
};

static void put(struct text *t, const char *s, size_t n)
{
    if (t->n + n > t->cap) {
        size_t cap = (t->n + n) * 2 + 256;
        char *more = t->failed ? NULL : realloc(t->s, cap);

        if (!more) {
            t->failed = true;
            return;
        }
        t->s = more;
        t->cap = cap;
    }
    memcpy(t->s + t->n, s, n);
    t->n += n;
}

static void puts_fmt(struct text *t, const char *fmt, ...) TB_PRINTF(2, 3);
static void puts_fmt(struct text *t, const char *fmt, ...)
{
    char s[256];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(s, sizeof(s), fmt, ap);
    va_end(ap);
    put(t, s, n < 0 ? 0 : (size_t)n < sizeof(s) ? (size_t)n : sizeof(s) - 1);
}

static void put_string(struct text *t, const char *s)
{
    put(t, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            puts_fmt(t, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            puts_fmt(t, "\\u%04x", (unsigned)*s);
        else
            put(t, s, 1);
    }
    put(t, "\"", 1);
}

static void put_member(struct text *t, const char *key, const char *value)
{
    puts_fmt(t, ",\"%s\":", key);
    put_string(t, value);
}

static void put_by(struct text *t, const char *key, const struct sg_by *by)
{
    char site[256];

    if (!by->call)
        return;
    puts_fmt(t, ",\"%s\":{\"number\":%" PRIu64, key, by->number);
    put_member(t, "name", by->call);
    if (*sg_strict_site_text(by->site, site, sizeof(site)))
        put_member(t, "site", site);
    put(t, "}", 1);
}

/* Its name as in the source too, where the program has the C++ runtime that knows how. */
static void put_kernel(struct text *t, const char *name)
{
    union {
        void *symbol;
        char *(*demangle)(const char *name, char *out, size_t *n, int *status);
    } cxx = {dlsym(RTLD_DEFAULT, "__cxa_demangle")};
    char *plain;
    int status = 0;

    put_member(t, "kernel", name);
    if (!cxx.symbol || strncmp(name, "_Z", 2) != 0)
        return;
    plain = cxx.demangle(name, NULL, NULL, &status);
    if (plain && status == 0)
        put_member(t, "kernel_demangled", plain);
    free(plain);
}

static void put_end(struct text *t, const struct sg_end *e)
{
    put_by(t, "call", &e->by);
    if (e->kernel)
        put_kernel(t, e->kernel);
    if (e->line)
        puts_fmt(t, ",\"ptx_line\":%u", e->line);
    if (e->file)
        put_member(t, "file", e->file);
    if (e->file && e->src_line)
        puts_fmt(t, ",\"line\":%u", e->src_line);
    if (e->has_thread)
        puts_fmt(t, ",\"block\":[%u,%u,%u],\"thread\":[%u,%u,%u]", e->block[0], e->block[1],
                 e->block[2], e->thread[0], e->thread[1], e->thread[2]);
    if (e->stream)
        puts_fmt(t, ",\"stream\":%" PRIu64, e->stream);
    if (e->access)
        put_member(t, "access", e->access);
}

static void put_near(struct text *t, const struct sg_near *near)
{
    puts_fmt(
        t, ",\"allocation\":{\"address\":\"%#" PRIx64 "\",\"size\":%" PRIu64 ",\"offset\":%" PRId64,
        near->addr, near->size, near->offset);
    if (near->kind)
        put_member(t, "kind", near->kind);
    put_member(t, "state", near->freed ? "freed" : "alive");
    put_by(t, "allocated_by", &near->allocated);
    put_by(t, "freed_by", &near->released);
    put(t, "}", 1);
}

static bool end_is_known(const struct sg_end *e)
{
    return e->by.call || e->kernel || e->stream || e->has_thread;
}

static void put_finding(struct text *t, const struct sg_finding *f, uint64_t number,
                        enum sg_severity severity)
{
    puts_fmt(t, "{\"finding\":%" PRIu64, number);
    put_member(t, "rule", rules[f->rule].name);
    put_member(t, "severity", severities[severity]);
    put_member(t, "text", f->text);
    put_end(t, &f->at);
    if (f->address)
        puts_fmt(t, ",\"address\":\"%#" PRIx64 "\"", f->address);
    if (f->size)
        puts_fmt(t, ",\"size\":%" PRIu64, f->size);
    if (f->number)
        puts_fmt(t, ",\"things\":%" PRIu64, f->number);
    if (f->near.size)
        put_near(t, &f->near);
    if (end_is_known(&f->other)) {
        /* an object of its own: the first member has no comma before it */
        put(t, ",\"other\":{\"pair\":true", 21);
        put_end(t, &f->other);
        put(t, "}", 1);
    }
    put_member(t, "advice", rules[f->rule].advice);
    put(t, "}\n", 2);
}

/* One write a line, so that lines of several processes or threads never mix. */
static void flush(struct text *t)
{
    int saved = errno;
    size_t done = 0;

    while (!t->failed && report.fd >= 0 && done < t->n) {
        ssize_t n = write(report.fd, t->s + done, t->n - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            sg_log(1, "strict: cannot write the report: %s", strerror(errno));
            close(report.fd);
            report.fd = -1;
            break;
        }
        done += (size_t)n;
    }
    free(t->s);
    errno = saved;
}

/* ---- counting -------------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t h, const char *s)
{
    for (; s && *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    return h * 31;
}

static uint64_t hash_end(uint64_t h, const struct sg_end *e)
{
    h = hash_text(hash_text(h, e->by.call), e->kernel);
    return sg_hash64(h, e->by.site, e->line);
}

static uint64_t hash_of(const struct sg_finding *f)
{
    uint64_t h = sg_hash64(f->rule, f->lower ? 1 + f->severity : 0, 0);

    h = hash_end(hash_end(h, &f->at), &f->other);
    /* what a program never freed: by where it came from */
    h = sg_hash64(h, f->near.allocated.site, 0);
    h = hash_text(h, f->at.by.call || f->at.kernel ? NULL : f->text);
    return h ? h : 1;
}

static bool grow(void)
{
    size_t size = report.size ? report.size * 2 : 256;
    struct kind *kinds = calloc(size, sizeof(*kinds));

    if (!kinds)
        return false;
    for (size_t i = 0; i < report.size; i++) {
        size_t at = report.kinds[i].hash & (size - 1);

        if (!report.kinds[i].hash)
            continue;
        while (kinds[at].hash)
            at = (at + 1) & (size - 1);
        kinds[at] = report.kinds[i];
    }
    free(report.kinds);
    report.kinds = kinds;
    report.size = size;
    return true;
}

/* The kind of a hash, new ones with count 0; NULL: too many, or no memory. */
static struct kind *kind_of(uint64_t hash)
{
    size_t at;

    if ((report.nkinds + 1) * 2 > report.size && (report.nkinds >= KINDS_MAX || !grow()))
        return NULL;
    at = hash & (report.size - 1);
    while (report.kinds[at].hash && report.kinds[at].hash != hash)
        at = (at + 1) & (report.size - 1);
    if (!report.kinds[at].hash)
        report.kinds[at] = (struct kind){.hash = hash, .number = ++report.nkinds};
    return &report.kinds[at];
}

static void say(const struct sg_finding *f, enum sg_severity severity)
{
    if (f->told || report.lines > LINES_MAX)
        return;
    if (report.lines++ == LINES_MAX)
        sg_log(1, "strict: more findings are in the report only");
    else
        sg_log(1, "strict: %s: %s: %s", severities[severity], rules[f->rule].name, f->text);
}

CUresult sg_report(const struct sg_finding *f)
{
    const struct rule *rule = &rules[f->rule];
    enum sg_severity severity =
        f->lower || f->severity > rule->severity ? f->severity : rule->severity;
    CUresult error = CUDA_SUCCESS;
    struct text t = {0};
    struct kind *k;

    pthread_mutex_lock(&report.lock);
    if (report.open && report.pid == getpid()) {
        k = kind_of(hash_of(f));
        report.total++;
        report.rules[f->rule]++;
        if (k && k->count++ == 0) {
            put_finding(&t, f, k->number, severity);
            flush(&t);
            say(f, severity);
        }
        if (sg_driver.opt.strict == SG_STRICT_FAIL && severity == SG_ERROR)
            error = rule->error;
    }
    pthread_mutex_unlock(&report.lock);
    if (error != CUDA_SUCCESS)
        sg_strict_verdict(error);
    return error;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_file(const char *given)
{
    char name[4096];
    int fd = sg_log_file_open(given, name, sizeof(name));

    if (fd < 0)
        sg_log(1, "strict: cannot write '%s': %s", name, strerror(errno));
    return fd;
}

void sg_report_open(void)
{
    struct text t = {0};

    if (!sg_strict())
        return;
    pthread_mutex_lock(&report.lock);
    if (!report.open) {
        report.open = true;
        report.pid = getpid();
        if (sg_driver.opt.report[0])
            report.fd = open_file(sg_driver.opt.report);
        puts_fmt(&t, "{\"softgpu_report\":1,\"pid\":%ld,\"mode\":\"%s\"}\n", (long)report.pid,
                 sg_driver.opt.strict == SG_STRICT_FAIL ? "fail" : "report");
        flush(&t);
    }
    pthread_mutex_unlock(&report.lock);
}

static void put_counts(struct text *t)
{
    const char *comma = "";

    put(t, ",\"rules\":{", 10);
    for (unsigned i = 0; i < SG_RULE_COUNT; i++) {
        if (!report.rules[i])
            continue;
        puts_fmt(t, "%s\"%s\":%" PRIu64, comma, rules[i].name, report.rules[i]);
        comma = ",";
    }
    put(t, "},\"counts\":[", 12);
    comma = "";
    for (size_t i = 0; i < report.size; i++) {
        if (report.kinds[i].count < 2)
            continue;
        puts_fmt(t, "%s{\"finding\":%" PRIu64 ",\"count\":%" PRIu64 "}", comma,
                 report.kinds[i].number, report.kinds[i].count);
        comma = ",";
    }
    put(t, "]}\n", 3);
}

void sg_report_close(void)
{
    struct text t = {0};

    pthread_mutex_lock(&report.lock);
    if (report.open && report.pid == getpid()) {
        puts_fmt(&t, "{\"summary\":true,\"findings\":%" PRIu64 ",\"total\":%" PRIu64, report.nkinds,
                 report.total);
        put_counts(&t);
        flush(&t);
        if (report.total)
            sg_log(1, "strict: %" PRIu64 " findings of %" PRIu64 " kinds", report.total,
                   report.nkinds);
        report.open = false;
        if (report.fd >= 0)
            close(report.fd);
        report.fd = -1;
        free(report.kinds);
        report.kinds = NULL;
        report.size = 0;
    }
    pthread_mutex_unlock(&report.lock);
}
