#include "softgpu/log/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void sg_log_line(const char *fmt, va_list ap)
{
    char line[1200] = "softgpu: ";
    size_t n = strlen(line);
    int saved = errno, len = vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);

    if (len < 0)
        return;
    n = (size_t)len < sizeof(line) - n - 1 ? n + (size_t)len : sizeof(line) - 2;
    line[n++] = '\n';
    while (write(STDERR_FILENO, line, n) < 0 && errno == EINTR)
        ;
    errno = saved;
}

/* Filled from the front by any thread, never emptied. */
static _Atomic(const char *) said[1024];

bool sg_log_first(const char *name)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(said); i++) {
        const char *there = NULL;

        if (atomic_compare_exchange_strong(&said[i], &there, name))
            return true;
        if (there == name || strcmp(there, name) == 0)
            return false;
    }
    return false; /* enough */
}
