/*
 * softgpu/log - what the libraries of a device tell the user: lines on standard error, and files,
 * of findings of a strict device and faults of a broken one. One file a process, an object a line,
 * the first of which says what it is. Who starts the processes calls sg_log_file_prepare(); each
 * process, sg_log_file_open().
 */
#ifndef SG_LOG_LOG_H
#define SG_LOG_LOG_H

#include "common/common.h"

#include <stdarg.h>
#include <stdbool.h>

/** sg_log_line - one line on standard error, "softgpu: " before it, with one write(2); errno is
 * kept Threads: any. Longer texts are cut. */
void sg_log_line(const char *fmt, va_list ap) TB_PRINTF(1, 0);

/** sg_log_first - is this the first call with @name? Of the library that it is linked into.
 * @name: kept; a literal. Threads: any. */
bool sg_log_first(const char *name);

/**
 * sg_log_file_prepare - make way for a new file @name: remove what an earlier run left there
 * @head: what such a file begins with; anything else that is there is somebody's and is refused
 * @what: for messages: "report"
 *
 * Only regular files are removed; a device, a pipe or a link to such stays and is written to. With
 * %p in @name nothing is removed, since nobody knows the processes yet.
 * Returns: TB_OK; TB_ERR_ARG if it is no such file or its folder cannot be written.
 */
TB_MUST_CHECK enum tb_status sg_log_file_prepare(const char *name, const char *head,
                                                 const char *what, struct tb_error *err);

/**
 * sg_log_file_open - open it for appending; the descriptor is the caller's
 * @name: %p in it is the process. Without it a process that finds the file there, which belongs to
 *        another process of the job, writes @name.PID.
 *
 * Returns: a descriptor, or -1 with errno; the name that was tried last is in @path.
 */
int sg_log_file_open(const char *name, char *path, size_t size);

#endif
