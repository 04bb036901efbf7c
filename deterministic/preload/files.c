/*
 * Which files hold the code that runs here: the program and its libraries. Written down when the
 * program starts, and at its end what was opened since; a forked child has those of its parent. Who
 * looks into them is the parent of the job, when that has ended.
 */
#include <errno.h>
#include <link.h>
#include <string.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

struct walk {
    struct tb_pins_proc *p;
    uint32_t at, from; /* the place in the loader's list; where to begin */
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

/* Where @path is relative to: the current folder, with a '/' at its end; its length */
static size_t folder_of(const char *path, char *out, size_t size)
{
    long n = path[0] == '/' ? 0 : tb_sys3(SYS_getcwd, (long)out, (long)size - 1, 0);

    if (n <= 1 || out[0] != '/')
        return 0;
    out[n - 1] = '/'; /* in place of NUL, which it counts */
    return (size_t)n;
}

static void tell(struct tb_pins_proc *p, bool program, const char *path)
{
    char folder[TB_PRELOAD_PATH] = "";

    while (path[0] == '.' && path[1] == '/')
        path += 2;
    size_t before = folder_of(path, folder, sizeof(folder)), n = strlen(path) + 1;
    uint64_t offset;
    struct tb_preload_record *r = tb_pins_log_room(p, (uint32_t)(before + n), &offset);

    if (!r)
        return;
    r->kind = TB_PRELOAD_FILE;
    r->thread = TB_PRELOAD_MAIN;
    r->asked = program;
    r->payload = (uint32_t)(before + n);
    memcpy(r + 1, folder, before);
    memcpy((char *)(r + 1) + before, path, n);
    tb_pins_log_whole(r, offset);
}

static void tell_program(struct tb_pins_proc *p)
{
    char path[TB_PRELOAD_PATH];
    long n =
        tb_sys6(SYS_readlinkat, -100, (long)"/proc/self/exe", (long)path, sizeof(path) - 1, 0, 0);

    path[n > 0 ? n : 0] = 0;
    if (path[0] == '/')
        tell(p, true, path);
}

static int each_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    struct walk *w = arg;

    (void)size;
    if (w->at++ < w->from)
        return 0;
    if (strchr(o->dlpi_name, '/') && !is_known(o->dlpi_name))
        tell(w->p, false, o->dlpi_name);
    return 0;
}

void tb_pins_tell_files(struct tb_pins_proc *p)
{
    struct walk w = {.p = p};

    if (!(tb_pins.config->flags & TB_PRELOAD_FILES))
        return;
    tell_program(p);
    (void)dl_iterate_phdr(each_object, &w);
    tb_pins.files = w.at;
    tb_pins.files_of = p->pid;
}

/* What was closed again moves those behind it up: then some are told twice, or missing. In a forked
 * child another thread of its parent may have held the loader's lock. */
__attribute__((destructor)) static void at_end(void)
{
    struct tb_pins_proc *p = __atomic_load_n(&tb_pins.proc, __ATOMIC_ACQUIRE);
    struct walk w = {.p = p, .from = tb_pins.files};
    int saved = errno;

    if (p && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == TB_ON && tb_pins.files &&
        tb_pins.files_of == p->pid && tb_sys3(SYS_getpid, 0, 0, 0) == (long)p->pid)
        (void)dl_iterate_phdr(each_object, &w);
    errno = saved;
}
