#include "cli/cli.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum tb_status check_libdir(const char *dir, const char *origin, char *out, size_t size,
                                   struct tb_error *err)
{
    char lib[4200];

    if (snprintf(lib, sizeof(lib), "%s/libtwinbit.so", dir) >= (int)sizeof(lib))
        return tb_fail(err, TB_ERR_ARG, "path too long: '%.80s...'", dir);
    if (access(lib, R_OK) != 0)
        return tb_fail_sys(err, TB_ERR_NOTFOUND, errno, "cannot read '%s' (%s)", lib, origin);
    if (snprintf(out, size, "%s", dir) >= (int)size)
        return tb_fail(err, TB_ERR_ARG, "path too long: '%.80s...'", dir);
    return TB_OK;
}

/* The file a path leads to, links followed, so that it stays right when the job changes its folder
 */
static enum tb_status resolved(const char *dir, const char *origin, char *out, size_t size,
                               struct tb_error *err)
{
    char *real = realpath(dir, NULL);
    enum tb_status st =
        real ? check_libdir(real, origin, out, size, err)
             : tb_fail_sys(err, TB_ERR_NOTFOUND, errno, "cannot find '%s' (%s)", dir, origin);

    free(real);
    return st;
}

enum tb_status tb_cli_libdir(const char *given, char *out, size_t size, struct tb_error *err)
{
    const char *env = getenv("TWINBIT_LIBDIR");
    char exe[4096];

    if (given)
        return resolved(given, "--libdir", out, size, err);
    if (env && *env)
        return resolved(env, "TWINBIT_LIBDIR", out, size, err);
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - sizeof("/../lib/twinbit"));
    if (n <= 0)
        return tb_fail_sys(err, TB_ERR_SYS, errno, "cannot read '/proc/self/exe'");
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    strcpy(slash ? slash : exe, "/../lib/twinbit");
    return resolved(exe, "beside the program; --libdir or TWINBIT_LIBDIR say otherwise", out, size,
                    err);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool is_interpreter(const char *name)
{
    static const char *const names[] = {"sh",         "bash", "dash", "env",  "torchrun",
                                        "accelerate", "srun", "nice", "time", "timeout"};

    if (strncmp(name, "python", 6) == 0 || strncmp(name, "pypy", 4) == 0)
        return true;
    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_script(const char *arg)
{
    const char *dot = strrchr(base_name(arg), '.');
    return arg[0] != '-' && dot && (strcmp(dot, ".py") == 0 || strcmp(dot, ".sh") == 0) &&
           access(arg, F_OK) == 0;
}

void tb_cli_job_name(char *const *argv, char *out, size_t size)
{
    const char *name = base_name(argv[0]);

    if (is_interpreter(name)) {
        for (size_t i = 1; argv[i]; i++) {
            if (is_script(argv[i])) {
                name = base_name(argv[i]);
                break;
            }
        }
    }
    const char *dot = strrchr(name, '.');
    bool cut = dot && dot > name && (strcmp(dot, ".py") == 0 || strcmp(dot, ".sh") == 0);
    (void)snprintf(out, size, "%.*s", (int)(cut ? (size_t)(dot - name) : strlen(name)), name);
}

enum tb_status tb_cli_free_trace(const char *prefix, char *out, size_t size, struct tb_error *err)
{
    for (unsigned n = 1; n <= 9999; n++) {
        if (snprintf(out, size, "%s-%u.twinbit", prefix, n) >= (int)size)
            return tb_fail(err, TB_ERR_ARG, "path too long: '%.80s...'", prefix);
        if (access(out, F_OK) != 0)
            return TB_OK;
    }
    return tb_fail(err, TB_ERR_LIMIT, "'%s-1.twinbit' to '-9999' all exist: name one with -o",
                   prefix);
}

bool tb_cli_one_file(const char *a, const char *b)
{
    struct stat sa, sb;

    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

/* ---------------------------------------------------------------- scratch folders */

enum tb_status tb_cli_scratch_make(const char *name, char *out, size_t size, struct tb_error *err)
{
    const char *tmp = getenv("TMPDIR");
    const char *base = tmp && tmp[0] == '/' ? tmp : "/tmp";
    char whole[80];

    (void)snprintf(whole, sizeof(whole), "twinbit-%.60s", name);
    tb_leftover_clear(base);
    if (tb_leftover_make(base, whole, out, size)) {
        tb_leftover_own(out);
        return TB_OK;
    }
    return tb_fail_sys(err, TB_ERR_IO, errno,
                       "cannot make a folder in '%.200s': set TMPDIR to a folder that can be "
                       "written",
                       base);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void tb_cli_scratch_remove(const char *folder)
{
    if (folder[0])
        (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    if (folder[0])
        tb_leftover_left(folder);
}
