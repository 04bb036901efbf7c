#include "common/common.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

void tb_log(const char *fmt, ...)
{
    int saved = errno;
    char line[1200] = "twinbit: ";
    size_t used = sizeof("twinbit: ") - 1;
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(line + used, sizeof(line) - used - 1, fmt, ap);
    va_end(ap);
    if (n > 0)
        used += (size_t)n < sizeof(line) - used - 1 ? (size_t)n : sizeof(line) - used - 2;
    line[used] = 0;
    (void)tb_plain(line, true);
    line[used++] = '\n';
    ssize_t done = write(STDERR_FILENO, line, used);
    (void)done;
    errno = saved;
}
