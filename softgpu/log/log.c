#include "softgpu/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH 4096

/* Can a file be made beside @name? */
static enum tb_status check_folder(const char *name, const char *what, struct tb_error *err)
{
    char folder[PATH];
    const char *slash = strrchr(name, '/');

    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - name) + 1 : 1,
             slash ? name : ".");
    if (access(folder, W_OK | X_OK) != 0)
        return tb_fail(err, TB_ERR_ARG, "cannot write the %s '%s': %s", what, name,
                       strerror(errno));
    return TB_OK;
}

/* Empty, or of the kind that begins with @head. */
static bool is_ours(const char *name, const char *head)
{
    char begin[64];
    size_t n = strlen(head);
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : read(fd, begin, sizeof(begin));

    if (fd >= 0)
        close(fd);
    return got == 0 || (got >= (ssize_t)n && memcmp(begin, head, n) == 0);
}

enum tb_status sg_log_file_prepare(const char *name, const char *head, const char *what,
                                   struct tb_error *err)
{
    struct stat s;

    if (strlen(name) + 24 > PATH)
        return tb_fail(err, TB_ERR_ARG, "the name of the %s is too long", what);
    if (strstr(name, "%p") || stat(name, &s) != 0)
        return check_folder(name, what, err);
    if (S_ISDIR(s.st_mode))
        return tb_fail(err, TB_ERR_ARG, "cannot write the %s '%s': it is a folder", what, name);
    if (!S_ISREG(s.st_mode))
        return TB_OK;
    if (!is_ours(name, head))
        return tb_fail(err, TB_ERR_ARG,
                       "'%s' is there and is no %s of an earlier run: name another file", name,
                       what);
    if (unlink(name) != 0)
        return tb_fail_sys(err, TB_ERR_ARG, errno, "cannot remove the old %s '%s'", what, name);
    return TB_OK;
}

static bool file_name(const char *given, bool again, char *out, size_t size)
{
    const char *at = strstr(given, "%p");
    int n;

    if (at)
        n = snprintf(out, size, "%.*s%ld%s", (int)(at - given), given, (long)getpid(), at + 2);
    else if (again)
        n = snprintf(out, size, "%s.%ld", given, (long)getpid());
    else
        n = snprintf(out, size, "%s", given);
    if (n >= 0 && (size_t)n < size)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

int sg_log_file_open(const char *name, char *path, size_t size)
{
    const int flags = O_WRONLY | O_APPEND | O_CLOEXEC;
    struct stat s;
    int fd;

    if (!file_name(name, false, path, size))
        return -1;
    fd = open(path, flags | O_CREAT | O_EXCL, 0666);
    if (fd >= 0 || errno != EEXIST)
        return fd;
    if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) /* a terminal, a pipe: all write to it */
        return open(path, flags);
    if (!file_name(name, true, path, size))
        return -1;
    return open(path, flags | O_CREAT | O_TRUNC, 0666); /* of a process of that number, long ago */
}
