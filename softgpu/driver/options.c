#include "softgpu/broken/broken.h"
#include "softgpu/driver/core.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_MEMORY (UINT64_C(8) << 30)
#define LEAST_MEMORY (UINT64_C(16) << 20)
#define MOST_MEMORY (UINT64_C(1) << 40)

static bool parse_number(const char *text, uint64_t *out, const char **end)
{
    char *stop;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *out = strtoull(text, &stop, 0);
    *end = stop;
    return errno == 0;
}

bool sg_parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    const char *end, *unit;
    uint64_t n;
    unsigned shift = 0;

    if (!parse_number(text, &n, &end))
        return false;
    if (*end && (unit = strchr(units, toupper((unsigned char)*end)))) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
        if (end[0] == 'i' && end[1] == 'B')
            end += 2;
        else if (end[0] == 'B')
            end++;
    }
    if (*end || n > UINT64_MAX >> shift)
        return false;
    *bytes = n << shift;
    return true;
}

static bool refuse(const char *name, const char *text, const char *want, struct tb_error *err)
{
    tb_fail(err, TB_ERR_ARG, "%s='%s' is not %s", name, text, want);
    return false;
}

/* A number from @min to @max; @out keeps its default where the variable is not set. */
static bool number(const char *name, uint64_t min, uint64_t max, uint64_t *out,
                   struct tb_error *err)
{
    const char *text = getenv(name), *end;
    uint64_t n;

    if (!text || !*text)
        return true;
    if (!parse_number(text, &n, &end) || *end || n < min || n > max) {
        tb_fail(err, TB_ERR_ARG, "%s='%s' is not a number from %" PRIu64 " to %" PRIu64, name, text,
                min, max);
        return false;
    }
    *out = n;
    return true;
}

static bool read_arch(uint32_t *arch, struct tb_error *err)
{
    const char *text = getenv("SOFTGPU_ARCH"), *digits = text;
    char *end;
    unsigned long n;

    if (!text || !*text)
        return true;
    if (strncmp(text, "sm_", 3) == 0)
        digits += 3;
    n = strtoul(digits, &end, 10);
    if (end == digits || *end || n > 999 || !sg_arch_find((uint32_t)n))
        return refuse("SOFTGPU_ARCH", text, "one of sm_75, sm_80, sm_86, sm_89, sm_90", err);
    *arch = (uint32_t)n;
    return true;
}

static bool read_memory(uint64_t *memory, struct tb_error *err)
{
    const char *text = getenv("SOFTGPU_MEMORY");
    uint64_t n;

    if (!text || !*text)
        return true;
    if (!sg_parse_size(text, &n) || n < LEAST_MEMORY || n > MOST_MEMORY)
        return refuse("SOFTGPU_MEMORY", text, "a size from 16M to 1T, such as 8G", err);
    *memory = n & ~UINT64_C(0xfffff);
    return true;
}

static bool read_order(bool *in_order, struct tb_error *err)
{
    const char *text = getenv("SOFTGPU_ORDER");

    *in_order = text && strcmp(text, "index") == 0;
    if (text && *text && !*in_order && strcmp(text, "seed") != 0)
        return refuse("SOFTGPU_ORDER", text, "'index' or 'seed'", err);
    return true;
}

static bool truthy(const char *name)
{
    const char *text = getenv(name);

    return text && *text && strcmp(text, "0") != 0;
}

/* Which of the engine's instruction sets executes: the tests compare them. */
static bool read_isa(struct tb_error *err)
{
    const char *text = getenv("SOFTGPU_ISA");

    if (text && *text && strcmp(text, "base") != 0 && strcmp(text, "native") != 0)
        return refuse("SOFTGPU_ISA", text, "'base' or 'native'", err);
    return true;
}

/* At most @n - 1 bytes; @out stays "" where there is none. @need: of use only if that is so. */
static bool read_text(bool need, const char *name, char *out, size_t n, struct tb_error *err)
{
    const char *text = getenv(name);

    if (!text || !*text)
        return true;
    if (strlen(text) >= n) { /* the text itself would fill the message */
        tb_fail(err, TB_ERR_ARG, "%s is longer than %zu bytes", name, n - 1);
        return false;
    }
    memcpy(out, text, strlen(text) + 1);
    if (!need)
        return refuse(name, text, "of use without SOFTGPU_STRICT=report or fail", err);
    return true;
}

static bool read_strict(struct sg_options *opt, struct tb_error *err)
{
    static const char *const modes[] = {"off", "report", "fail"};
    const char *text = getenv("SOFTGPU_STRICT");
    unsigned mode = 0;

    while (text && *text && mode < TB_ARRAY_LEN(modes) && strcmp(text, modes[mode]) != 0)
        mode++;
    if (mode == TB_ARRAY_LEN(modes))
        return refuse("SOFTGPU_STRICT", text, "one of off, report, fail", err);
    opt->strict = (enum sg_strict_mode)mode;
    opt->races = truthy("SOFTGPU_STRICT_RACES");
    if (opt->races && opt->strict == SG_STRICT_OFF)
        return refuse("SOFTGPU_STRICT_RACES", getenv("SOFTGPU_STRICT_RACES"),
                      "of use without SOFTGPU_STRICT=report or fail", err);
    return read_text(opt->strict != SG_STRICT_OFF, "SOFTGPU_REPORT", opt->report,
                     sizeof(opt->report), err) &&
           read_text(true, "SOFTGPU_TOOL_KERNELS", opt->tool_kernels, sizeof(opt->tool_kernels),
                     err);
}

bool sg_tool_kernel(const struct sg_options *opt, const char *name)
{
    const char *at = opt->tool_kernels;
    char pattern[sizeof(opt->tool_kernels)];

    while (*at) {
        size_t n = strcspn(at, ",");

        memcpy(pattern, at, n);
        pattern[n] = '\0';
        if (fnmatch(pattern, name, 0) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

static bool same_file(const char *a, const char *b)
{
    struct stat s, t;

    return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

/* Read here to refuse it before a program starts; the device is broken by broken.c, which reads the
 * log of a replay too. */
static bool read_faults(const struct sg_options *opt, struct tb_error *err)
{
    const char *text = getenv("SOFTGPU_FAULT"), *log = getenv("SOFTGPU_FAULT_LOG");
    const char *replay = getenv("SOFTGPU_FAULT_REPLAY");

    if (log && *log && !(text && *text) && !(replay && *replay))
        return refuse("SOFTGPU_FAULT_LOG", log,
                      "of use without SOFTGPU_FAULT (--fault) or SOFTGPU_FAULT_REPLAY", err);
    if (!replay || !*replay)
        return sg_broken_check(text, opt->devices, opt->sms, err) == TB_OK;
    if (text && *text)
        return refuse("SOFTGPU_FAULT_REPLAY", replay,
                      "of use with SOFTGPU_FAULT (--fault): a replay injects nothing else", err);
    if (log && *log && same_file(log, replay))
        return refuse("SOFTGPU_FAULT_LOG", log, "another file than the one that is replayed", err);
    return true;
}

enum tb_status sg_options_read(struct sg_options *opt, struct tb_error *err)
{
    const char *name = getenv("SOFTGPU_NAME");
    uint64_t log = 1, devices = 1, sms = 4, reported = 108, workers = 0, seed = 0;
    bool ok;

    memset(opt, 0, sizeof(*opt));
    opt->log = 1;
    opt->arch = 80;
    opt->memory = DEFAULT_MEMORY;
    ok = number("SOFTGPU_LOG", 0, 3, &log, err);
    opt->log = (int)log;
    if (!ok || !number("SOFTGPU_DEVICES", 1, SG_MAX_DEVICES, &devices, err) ||
        !number("SOFTGPU_SMS", 1, 1024, &sms, err) ||
        !number("SOFTGPU_SMS_REPORTED", 1, 1024, &reported, err) ||
        !number("SOFTGPU_WORKERS", 0, 1024, &workers, err) ||
        !number("SOFTGPU_SEED", 0, UINT64_MAX, &seed, err) || !read_arch(&opt->arch, err) ||
        !read_memory(&opt->memory, err) || !read_order(&opt->in_order, err) || !read_isa(err) ||
        !read_strict(opt, err))
        return TB_ERR_ARG;
    opt->devices = (unsigned)devices;
    opt->sms = (unsigned)sms;
    opt->sms_reported = (unsigned)reported;
    opt->workers = (unsigned)workers;
    opt->seed = seed;
    opt->launch_blocking = truthy("CUDA_LAUNCH_BLOCKING");
    if (name && *name)
        strncat(opt->name, name, sizeof(opt->name) - 1);
    return read_faults(opt, err) ? TB_OK : TB_ERR_ARG;
}
