/*
 * A program that is Python. Our part in it is a sitecustomize that PYTHONPATH leads to, and
 * launchers set that anew, or take it out: it is put back before the interpreter reads it. Options
 * by which it is not read are written down.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "deterministic/preload/isolated.h"
#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/reach.h"
#include "deterministic/preload/sys.h"

#define HOOK "/python/hook"
#define VARIABLE "PYTHONPATH="
#define PLAN "TWINBIT_PIN_PLAN" /* recorder/wire.h */
#define WORDS 64                /* options of a command line are among its first */

extern char **environ;

static bool is_python(void)
{
    bool yes = dlsym(RTLD_DEFAULT, "Py_BytesMain") || dlsym(RTLD_DEFAULT, "Py_Main");

    (void)dlerror();
    return yes;
}

/* The words that fit into @text; their number */
static int words_of(char *text, size_t size, char **words)
{
    int fd = (int)tb_sys_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0), n = 0;
    long got = fd >= 0 ? tb_sys3(SYS_read, fd, (long)text, (long)size - 1) : 0;

    if (fd >= 0)
        tb_sys_close(fd);
    got = got > 0 ? got : 0;
    text[got] = 0;
    for (long at = 0; at < got && n < WORDS - 1; at += (long)strlen(text + at) + 1)
        words[n++] = text + at;
    words[n] = NULL;
    return n;
}

/* "python -I" */
static void write_down(const char *program, char letter)
{
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    char text[64];
    size_t n = strlen(name) < sizeof(text) - 4 ? strlen(name) : sizeof(text) - 4;

    memcpy(text, name, n);
    memcpy(text + n, " -", 2);
    text[n + 2] = letter;
    text[n + 3] = 0;
    tb_pins_log_text(TB_PRELOAD_UNREACHED, TB_PRELOAD_MAIN, TB_REACH_ISOLATED, text);
}

static bool begins_with(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == ':');
}

/* For as long as the program runs */
static void *keep(size_t bytes)
{
    uint64_t all = (bytes + 4095) & ~UINT64_C(4095);

    return tb_sys_map(all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* No thread runs yet. A job's own setenv() copies an environment that is not its own. */
static void put(char *entry)
{
    size_t n = 0, name = strlen(VARIABLE);

    for (; environ[n]; n++)
        if (strncmp(environ[n], VARIABLE, name) == 0) {
            environ[n] = entry;
            return;
        }
    char **all = keep((n + 2) * sizeof(*all));
    if (!all)
        return;
    memcpy(all, environ, n * sizeof(*all));
    all[n] = entry;
    environ = all;
}

/* The folder beside this library */
static bool hook_of(char *path, size_t size)
{
    Dl_info it;

    if (!dladdr((void *)hook_of, &it) || !it.dli_fname)
        return false;
    const char *slash = strrchr(it.dli_fname, '/');
    size_t n = slash ? (size_t)(slash - it.dli_fname) : 0;
    if (!n || n + sizeof(HOOK) > size)
        return false;
    memcpy(path, it.dli_fname, n);
    memcpy(path + n, HOOK, sizeof(HOOK));
    return true;
}

/* Its end */
static char *add(char *to, const char *text)
{
    size_t n = strlen(text);

    memcpy(to, text, n + 1);
    return to + n;
}

static void lead_to_us(void)
{
    const char *before = getenv("PYTHONPATH");
    char path[TB_PRELOAD_PATH];

    if (!hook_of(path, sizeof(path)) || (before && begins_with(before, path)))
        return;
    size_t rest = before ? strlen(before) : 0;
    char *entry = keep(strlen(VARIABLE) + strlen(path) + 1 + rest + 1);
    if (!entry)
        return;
    char *end = add(add(entry, VARIABLE), path);
    if (rest)
        (void)add(add(end, ":"), before);
    put(entry);
}

void tb_pins_python(void)
{
    char text[4096], *words[WORDS];
    char letter;

    if (!getenv(PLAN) || !is_python())
        return;
    letter = words_of(text, sizeof(text), words) ? tb_preload_isolated(words + 1) : 0;
    if (letter)
        write_down(words[0], letter);
    else
        lead_to_us();
}
