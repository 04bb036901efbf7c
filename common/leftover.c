/*
 * Folders that a twinbit which was killed has left: each holds a file that says whose it is, and
 * the next twinbit of the same user takes those of dead ones away. In doubt a folder stays.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/common.h"

#define OWNER "owner"
#define ENVIRONMENT (1u << 20)

/* struct owner - a process, and the kernel and the namespace in which its number means it */
struct owner {
    pid_t pid;
    uint64_t start;
    char boot[48], space[48];
};

static bool here(struct owner *o)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    struct tb_proc_stat st = {0};

    *o = (struct owner){.pid = getpid()};
    bool ok = f && fscanf(f, "%47s", o->boot) == 1;
    if (f)
        (void)fclose(f);
    ssize_t n = readlink("/proc/self/ns/pid", o->space, sizeof(o->space) - 1);
    ok = ok && n > 0 && tb_proc_stat(o->pid, &st);
    o->start = st.start;
    return ok;
}

/* Ours, and nobody else may write there */
static bool is_private(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & 077);
}

bool tb_leftover_place(const char *base, char *out, size_t size)
{
    int n = snprintf(out, size, "%s/.twinbit-%u", base, (unsigned)geteuid());

    return n > 0 && (size_t)n < size;
}

bool tb_leftover_make(const char *base, const char *name, char *out, size_t size)
{
    char place[4200];
    bool made = false, fits = tb_leftover_place(base, place, sizeof(place));

    errno = ENAMETOOLONG;
    for (int i = 0; fits && i < 10 && !made; i++) {
        if (mkdir(place, 0700) != 0 && errno != EEXIST)
            break;
        int m = snprintf(out, size, "%s/%s-XXXXXX", is_private(place) ? place : base, name);
        errno = ENAMETOOLONG;
        made = m > 0 && (size_t)m < size && mkdtemp(out);
        if (!made && errno != ENOENT) /* another twinbit has just removed it: once more */
            break;
    }
    if (!made && size)
        out[0] = 0;
    return made;
}

void tb_leftover_left(const char *folder)
{
    char place[4200];
    int n = snprintf(place, sizeof(place), "%s", folder);
    char *slash = n > 0 && (size_t)n < sizeof(place) ? strrchr(place, '/') : NULL;

    if (slash)
        *slash = 0;
    slash = slash ? strrchr(place, '/') : NULL;
    if (slash && strncmp(slash, "/.twinbit-", 10) == 0)
        (void)rmdir(place);
}

void tb_leftover_own(const char *folder)
{
    struct owner me;
    char path[4200];

    if (!here(&me))
        return;
    (void)snprintf(path, sizeof(path), "%.4000s/" OWNER, folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    (void)dprintf(fd, "%d %" PRIu64 " %s %s\n", (int)me.pid, me.start, me.boot, me.space);
    (void)close(fd);
}

void tb_leftover_disown(const char *folder)
{
    char path[4200];

    (void)snprintf(path, sizeof(path), "%.4000s/" OWNER, folder);
    (void)unlink(path);
}

/* "twinbit-XXXXXX", "twinbit-bisect-pins-XXXXXX" */
static bool is_ours(const char *name)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t n = strlen(name);

    return strncmp(name, "twinbit-", 8) == 0 && n >= 14 && name[n - 7] == '-' &&
           strspn(name + n - 6, letters) == 6;
}

/* A folder and its file that only this user may write; false: it is none, or another's */
static bool read_owner(int place, const char *name, struct owner *o)
{
    char text[256];
    struct stat st;
    ssize_t n = -1;
    int folder = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (folder < 0)
        return false;
    bool mine = fstat(folder, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 077);
    int fd = mine ? openat(folder, OWNER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
        n = read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        (void)close(fd);
    (void)close(folder);
    if (n <= 0)
        return false;
    text[n] = 0;
    return sscanf(text, "%d %" SCNu64 " %47s %47s", &o->pid, &o->start, o->boot, o->space) == 4;
}

/* Of another machine, before its start, or of another namespace nobody can tell from here */
static bool is_dead(const struct owner *o, const struct owner *me)
{
    struct tb_proc_stat st = {0};

    if (strcmp(o->boot, me->boot) != 0 || strcmp(o->space, me->space) != 0 || o->pid <= 0)
        return false;
    return !tb_proc_stat(o->pid, &st) || st.start != o->start;
}

/* Does a process of the job live on, that knows the folder by its environment? */
static bool is_known(const char *path)
{
    char *text = malloc(ENVIRONMENT);
    DIR *d = text ? opendir("/proc") : NULL;
    bool known = !d;

    for (struct dirent *e; !known && d && (e = readdir(d));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        ssize_t n = pid > 0 ? tb_proc_read(pid, "environ", text, ENVIRONMENT) : -1;
        known = n > 0 && memmem(text, (size_t)n, path, strlen(path));
    }
    if (d)
        (void)closedir(d);
    free(text);
    return known;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void clear_one(int place, const char *base, const char *name, const struct owner *me)
{
    struct owner o;
    char path[4200];

    if (!is_ours(name) || !read_owner(place, name, &o) || !is_dead(&o, me))
        return;
    int n = snprintf(path, sizeof(path), "%s/%s", base, name);
    if (n > 0 && (size_t)n < sizeof(path) && !is_known(path))
        (void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void clear(const char *base, const struct owner *me)
{
    DIR *d = opendir(base);

    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        clear_one(dirfd(d), base, e->d_name, me);
    (void)closedir(d);
}

void tb_leftover_clear(const char *base)
{
    struct owner me;
    char place[4200];

    if (!base || base[0] != '/' || !here(&me))
        return;
    clear(base, &me);
    if (!tb_leftover_place(base, place, sizeof(place)) || !is_private(place))
        return;
    clear(place, &me);
    (void)rmdir(place);
}
