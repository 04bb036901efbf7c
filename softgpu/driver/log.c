#include "softgpu/driver/driver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void sg_log(int level, const char *fmt, ...)
{
    char line[1200] = "softgpu: ";
    size_t n = strlen(line);
    int saved = errno, len;
    va_list ap;

    if (sg_driver.opt.log < level)
        return;
    va_start(ap, fmt);
    len = vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
    va_end(ap);
    if (len < 0)
        return;
    n = (size_t)len < sizeof(line) - n - 1 ? n + (size_t)len : sizeof(line) - 2;
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0) {
        /* nobody is there to read it */
    }
    errno = saved;
}
