#include "deterministic/preload/reach.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "common/common.h"
#include "deterministic/preload/config.h"
#include "deterministic/preload/sys.h"

#define LIBRARY "libtwinbit_pins.so"
#define HEAD 512u
#define SCRIPTS 4 /* an interpreter that is a script, and so on: the kernel follows no more */

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

struct program {
    int fd;
    long n; /* bytes of head */
    union {
        char text[HEAD];
        Elf64_Ehdr elf;
    } head;
};

/* Where the descriptor leads to */
static void name_of(int fd, char *out, size_t size)
{
    char link[32] = "/proc/self/fd/";
    size_t n = 14, at = n;
    int x = fd;

    do
        at++;
    while ((x /= 10) > 0);
    link[at] = 0;
    for (x = fd; at > n; x /= 10)
        link[--at] = (char)('0' + x % 10);
    long got = tb_sys6(SYS_readlinkat, AT_FDCWD, (long)link, (long)out, (long)size - 1, 0, 0);
    out[got > 0 ? got : 0] = 0;
}

static bool open_it(struct program *p, int dir, const char *path)
{
    struct stat st = {0};

    p->fd = (int)tb_sys6(SYS_openat, dir, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                         0, 0, 0);
    if (p->fd < 0)
        return false;
    p->n = -1;
    if (tb_sys3(SYS_fstat, p->fd, (long)&st, 0) == 0 && S_ISREG(st.st_mode) &&
        (st.st_mode & 0111) != 0)
        p->n = tb_sys3(SYS_read, p->fd, (long)p->head.text, HEAD);
    if (p->n > 0)
        return true;
    tb_sys_close(p->fd);
    return false;
}

/* "#!/usr/bin/env python": the interpreter alone */
static bool interpreter(const struct program *p, char *out, size_t size)
{
    const char *text = p->head.text;
    size_t from = 2, to;

    if (p->n < 4 || text[0] != '#' || text[1] != '!')
        return false;
    while (from < (size_t)p->n && (text[from] == ' ' || text[from] == '\t'))
        from++;
    for (to = from; to < (size_t)p->n && !strchr(" \t\r\n", text[to]);)
        to++;
    if (to == from || to - from >= size)
        return false;
    memcpy(out, text + from, to - from);
    out[to - from] = 0;
    return true;
}

static bool is_loader(const char *program)
{
    const char *slash = strrchr(program, '/');

    return slash && (strncmp(slash, "/ld-linux", 9) == 0 || strncmp(slash, "/ld-musl", 8) == 0 ||
                     strncmp(slash, "/ld-2.", 6) == 0 || strcmp(slash, "/libc.so") == 0);
}

/* Does it name a loader? One whose table is not where it is looked for is taken for dynamic. */
static bool is_static(const struct program *p)
{
    const Elf64_Ehdr *e = &p->head.elf;
    Elf64_Phdr h = {0};

    for (unsigned i = 0; i < e->e_phnum; i++) {
        uint64_t at = e->e_phoff + (uint64_t)i * e->e_phentsize;
        if (tb_sys6(SYS_pread64, p->fd, (long)&h, sizeof(h), (long)at, 0, 0) != (long)sizeof(h))
            return false;
        if (h.p_type == PT_INTERP)
            return false;
    }
    return e->e_phnum > 0;
}

/* The loader is told not to trust its environment. Root gains nothing by such a bit of root's. */
static bool is_privileged(int fd)
{
    struct stat st = {0};
    char value[64];

    if (tb_sys3(SYS_fstat, fd, (long)&st, 0) != 0)
        return false;
    if ((st.st_mode & S_ISUID) && st.st_uid != (uid_t)tb_sys3(SYS_geteuid, 0, 0, 0))
        return true;
    if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
        st.st_gid != (gid_t)tb_sys3(SYS_getegid, 0, 0, 0))
        return true;
    return tb_sys3(SYS_geteuid, 0, 0, 0) != 0 &&
           tb_sys6(SYS_fgetxattr, fd, (long)"security.capability", (long)value, sizeof(value), 0,
                   0) > 0;
}

static const char *value_of(char *const *envp, const char *name)
{
    size_t n = strlen(name);

    for (; envp && *envp; envp++)
        if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
            return *envp + n + 1;
    return NULL;
}

/* As the user that this thread is now, who stays the same over an exec; what may be kept of root's
 * rights does not. */
static enum tb_preload_reach by_user(const char *path)
{
    long user = tb_sys3(SYS_geteuid, 0, 0, 0);
    struct stat st = {0};
    long r = tb_sys6(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0, 0, 0);

    if (r == -ENOENT)
        return TB_REACH_GONE;
    return r == -EACCES || (r == 0 && user != 0 && user != (long)st.st_uid) ? TB_REACH_USER
                                                                            : TB_REACH_YES;
}

static enum tb_preload_reach judge(const struct program *p, const char *name, char *const *envp)
{
    const Elf64_Ehdr *e = &p->head.elf;

    if (p->n < (long)sizeof(*e) || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0)
        return TB_REACH_NO_PROGRAM;
    if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_machine != MACHINE)
        return TB_REACH_MACHINE;
    if (is_privileged(p->fd))
        return TB_REACH_PRIVILEGED;
    if (!is_loader(name) && is_static(p))
        return TB_REACH_STATIC;
    const char *libraries = value_of(envp, "LD_PRELOAD"), *path = value_of(envp, TB_PRELOAD_ENV);
    if (!libraries || !strstr(libraries, LIBRARY) || !path || path[0] != '/')
        return TB_REACH_ENVIRONMENT;
    return by_user(path);
}

enum tb_preload_reach tb_preload_reach(int dir, const char *path, char *const *envp, char *program,
                                       size_t size)
{
    enum tb_preload_reach reach = TB_REACH_NO_PROGRAM;
    struct program p;
    char next[HEAD];

    program[0] = 0;
    for (int i = 0; path && i <= SCRIPTS; i++, dir = AT_FDCWD, path = next) {
        if (!open_it(&p, dir, path))
            break;
        name_of(p.fd, program, size);
        bool script = interpreter(&p, next, sizeof(next));
        if (!script)
            reach = judge(&p, program, envp);
        tb_sys_close(p.fd);
        if (!script)
            break;
    }
    return reach;
}

const char *tb_preload_reach_text(enum tb_preload_reach reach)
{
    static const char *const texts[] = {
        [TB_REACH_YES] = "reached",
        [TB_REACH_NO_PROGRAM] = "not known",
        [TB_REACH_STATIC] = "statically linked",
        [TB_REACH_PRIVILEGED] = "set-user-id, set-group-id or with capabilities",
        [TB_REACH_MACHINE] = "for another kind of CPU",
        [TB_REACH_ENVIRONMENT] = "LD_PRELOAD or TWINBIT_PINS is not in its environment",
        [TB_REACH_USER] = "its user cannot read what 'twinbit run' has in TMPDIR",
        [TB_REACH_GONE] = "the job deleted what 'twinbit run' has in TMPDIR",
        [TB_REACH_ISOLATED] = "it does not read PYTHONPATH (-I, -E), or loads no site (-S)",
    };
    return (size_t)reach < TB_ARRAY_LEN(texts) && texts[reach] ? texts[reach] : "?";
}
