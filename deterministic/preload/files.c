/*
 * Which files hold the code that runs here: the program and its libraries. Written down when the
 * program starts, before a library is closed, and at its end, when an end mark says that the list
 * is whole. A forked child tells what its parent had not. Who looks into the files is the parent of
 * the job, when that has ended.
 *
 * The names come from /proc/self/maps and not from the loader's list: that takes no lock, so it can
 * be read in a child that was forked and at _exit(2), and a program that the loader was called for
 * by name has its name there, too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

#define TOLD 4096u  /* names; of more some are told twice */
#define TEXT 65536u /* bytes of the maps that are read at once */

/* Hashes of the names that were told here or in the parent; changed atomically */
static uint64_t told[TOLD];

struct walk {
    uintptr_t holds; /* 0: all files with code; else the one that is mapped at this address */
    void (*fn)(const char *path);
};

/* Of those that nearly every program has it is known what they hold. */
static bool is_known(const char *path)
{
    static const char *const names[] = {"libc.so", "libc-",    "ld-",      "libpthread",
                                        "libm.so", "libdl.so", "librt.so", "libtwinbit"};
    const char *slash = strrchr(path, '/');

    for (size_t i = 0; slash && i < TB_ARRAY_LEN(names); i++)
        if (strncmp(slash + 1, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* @what: 0 a library, 1 the program, 2 the end mark, whose name is "" */
static void tell(unsigned what, const char *path)
{
    tb_pins_log_text(TB_PRELOAD_FILE, TB_PRELOAD_MAIN, what, path);
}

/* ---------------------------------------------------------------- /proc/self/maps */

static uint64_t hex(const char **at)
{
    uint64_t x = 0;

    for (; (**at >= '0' && **at <= '9') || (**at >= 'a' && **at <= 'f'); (*at)++)
        x = x * 16 + (uint64_t)(**at <= '9' ? **at - '0' : **at - 'a' + 10);
    return x;
}

/* "7f12-7f34 r-xp 00001000 08:01 1234   /lib/libx.so"; it ends with NUL */
static void take_line(const struct walk *w, const char *line)
{
    const char *path = strchr(line, '/');
    uint64_t from = hex(&line);

    line += *line == '-';
    uint64_t to = hex(&line);
    if (!path || strlen(line) < 4)
        return;
    if (w->holds ? w->holds >= from && w->holds < to : line[3] == 'x')
        w->fn(path);
}

/* The whole lines of @text are taken; how many bytes are left at its begin */
static size_t take_lines(const struct walk *w, char *text, size_t n)
{
    char *line = text, *end;

    while ((end = memchr(line, '\n', n - (size_t)(line - text))) != NULL) {
        *end = 0;
        take_line(w, line);
        line = end + 1;
    }
    size_t left = n - (size_t)(line - text);
    memmove(text, line, left);
    return left < TEXT ? left : 0;
}

static void each_file(const struct walk *w)
{
    char *text = tb_sys_map(TEXT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long fd = text ? tb_sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0) : -1, n = 1;

    for (size_t have = 0; fd >= 0 && n > 0; have = n > 0 ? take_lines(w, text, have) : 0) {
        n = tb_sys3(SYS_read, fd, (long)(text + have), (long)(TEXT - have));
        have += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        tb_sys_close((int)fd);
    if (text)
        tb_sys_unmap(text, TEXT);
}

/* ---------------------------------------------------------------- what is told */

/* True: @path has not been told before, nor the file that was there before it was removed */
static bool is_new(const char *path)
{
    static const char gone[] = " (deleted)";
    size_t n = strlen(path), m = sizeof(gone) - 1;
    bool removed = n > m && memcmp(path + n - m, gone, m) == 0;
    uint64_t h = tb_preload_hash(0, path, removed ? n - m : n) | 1;

    for (uint64_t i = h; i < h + 32; i++) {
        uint64_t seen = 0, *slot = &told[i / 2 % TOLD];
        if (__atomic_compare_exchange_n(slot, &seen, h, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
        if (seen == h)
            return false;
    }
    return true;
}

static void take_program(const char *path)
{
    (void)is_new(path);
    tell(1, path);
}

static int first_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    (void)size;
    *(uintptr_t *)arg = (uintptr_t)o->dlpi_phdr;
    return 1;
}

/* What the loader was called for by name (ld.so PROGRAM) is not what /proc/self/exe is */
static void tell_program(void)
{
    char path[TB_PRELOAD_PATH];
    long n =
        tb_sys6(SYS_readlinkat, -100, (long)"/proc/self/exe", (long)path, sizeof(path) - 1, 0, 0);

    path[n > 0 ? n : 0] = 0;
    const char *slash = strrchr(path, '/');
    bool loader = slash && (strncmp(slash, "/ld-", 4) == 0 || strncmp(slash, "/ld.so", 6) == 0);
    if (loader && tb_pins.program_at)
        each_file(&(struct walk){.holds = tb_pins.program_at, .fn = take_program});
    else if (slash)
        take_program(path);
}

/* Of a forked child its program is told, too, before the first file that its parent had not */
static void take_library(const char *path)
{
    if (is_known(path) || !is_new(path))
        return;
    uint32_t pid = (uint32_t)tb_sys3(SYS_getpid, 0, 0, 0);
    if (__atomic_exchange_n(&tb_pins.files_of, pid, __ATOMIC_RELAXED) != pid)
        tell_program();
    tell(0, path);
}

void tb_pins_tell_files(struct tb_pins_proc *p)
{
    if (!(tb_pins.config->flags & TB_PRELOAD_FILES))
        return;
    (void)dl_iterate_phdr(first_object, &tb_pins.program_at);
    tb_pins.files_of = p->pid;
    tell_program();
    each_file(&(struct walk){.fn = take_library});
}

/* The process, if files are told and this is no child of vfork(), which is in its parent's memory
 */
static struct tb_pins_proc *telling(void)
{
    struct tb_pins_proc *p = __atomic_load_n(&tb_pins.proc, __ATOMIC_ACQUIRE);

    return p && tb_pins.files_of && tb_sys3(SYS_getpid, 0, 0, 0) == (long)p->pid ? p : NULL;
}

void tb_pins_tell_end(void)
{
    struct tb_pins_proc *p = telling();
    int saved = errno;

    if (!p)
        return;
    each_file(&(struct walk){.fn = take_library});
    if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == TB_ON)
        tell(2, "");
    errno = saved;
}

__attribute__((destructor)) static void at_end(void)
{
    tb_pins_tell_end();
}

/* ---------------------------------------------------------------- calls */

static int count_opened(struct dl_phdr_info *o, size_t size, void *arg)
{
    (void)size;
    *(unsigned long long *)arg = o->dlpi_adds;
    return 1;
}

/* A library may have run in between, and after this nobody knows that it was there */
TB_EXPORT int dlclose(void *library)
{
    unsigned long long opened = 0;
    int saved = errno;

    if (telling()) {
        (void)dl_iterate_phdr(count_opened, &opened);
        if (__atomic_exchange_n(&tb_pins.opened_libraries, opened, __ATOMIC_RELAXED) != opened)
            each_file(&(struct walk){.fn = take_library});
        errno = saved;
    }
    return TB_NEXT(dlclose)(library);
}

static _Noreturn void leave(void (*next)(int), int status)
{
    tb_pins_tell_end();
    if (next)
        next(status);
    for (;;)
        (void)tb_sys3(SYS_exit_group, status, 0, 0);
}

TB_EXPORT void _exit(int status)
{
    leave(TB_NEXT(_exit), status);
}

TB_EXPORT void _Exit(int status)
{
    leave(TB_NEXT(_Exit), status);
}
