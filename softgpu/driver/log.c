#include "softgpu/driver/driver.h"
#include "softgpu/log/log.h"

void sg_log(int level, const char *fmt, ...)
{
    va_list ap;

    if (sg_driver.opt.log < level)
        return;
    va_start(ap, fmt);
    sg_log_line(fmt, ap);
    va_end(ap);
}
