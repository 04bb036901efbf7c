#include "common/common.h"

#include <stdio.h>
#include <string.h>

static void fill(struct tb_error *err, enum tb_status status, int sys, const char *fmt, va_list ap)
    TB_PRINTF(4, 0);

static void fill(struct tb_error *err, enum tb_status status, int sys, const char *fmt, va_list ap)
{
    char text[TB_ERROR_TEXT]; /* arguments may point into err->text */

    (void)vsnprintf(text, sizeof(text), fmt, ap);
    err->status = status;
    err->sys = sys;
    memcpy(err->text, text, sizeof(text));
}

enum tb_status tb_fail(struct tb_error *err, enum tb_status status, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        fill(err, status, 0, fmt, ap);
        va_end(ap);
    }
    return status;
}

enum tb_status tb_fail_sys(struct tb_error *err, enum tb_status status, int sys, const char *fmt,
                           ...)
{
    if (err) {
        va_list ap;
        char reason[96];
        va_start(ap, fmt);
        fill(err, status, sys, fmt, ap);
        va_end(ap);
        size_t used = strlen(err->text);
        (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s",
                       strerror_r(sys, reason, sizeof(reason)));
    }
    return status;
}

const char *tb_status_name(enum tb_status status)
{
    static const char *const names[] = {
        "TB_OK",          "TB_ERR_ARG",         "TB_ERR_NOMEM",    "TB_ERR_IO",     "TB_ERR_FORMAT",
        "TB_ERR_VERSION", "TB_ERR_CORRUPT",     "TB_ERR_NOTFOUND", "TB_ERR_EXISTS", "TB_ERR_LIMIT",
        "TB_ERR_SYS",     "TB_ERR_UNSUPPORTED", "TB_ERR_BUSY",     "TB_ERR_CUDA",
    };
    int i = -(int)status;

    return i >= 0 && i < (int)TB_ARRAY_LEN(names) ? names[i] : "TB_ERR_UNKNOWN";
}
