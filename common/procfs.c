/* Processes as /proc has them. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/common.h"

ssize_t tb_proc_read(pid_t pid, const char *file, char *buf, size_t size)
{
    char path[64];
    size_t used = 0;
    ssize_t n = -1;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (used + 1 < size && (n = read(fd, buf + used, size - 1 - used)) > 0)
        used += (size_t)n;
    (void)close(fd);
    buf[used] = 0;
    return n < 0 && used == 0 ? -1 : (ssize_t)used;
}

bool tb_proc_stat(pid_t pid, struct tb_proc_stat *out)
{
    char buf[1024];
    int ppid = 0;
    unsigned long long start = 0;

    if (tb_proc_read(pid, "stat", buf, sizeof(buf)) <= 0)
        return false;
    const char *p = strrchr(buf, ')'); /* the name before it may hold anything */
    if (!p || sscanf(p + 1, " %c %d", &out->state, &ppid) != 2)
        return false;
    for (int field = 2; field < 22 && p; field++) /* p is before field 3 */
        p = strchr(p + 1, ' ');
    if (!p || sscanf(p, " %llu", &start) != 1)
        return false;
    out->ppid = ppid;
    out->start = start;
    return true;
}
