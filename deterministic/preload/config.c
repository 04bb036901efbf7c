#include "deterministic/preload/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deterministic/preload/log.h"

static enum tb_status check(const struct tb_preload_config *c, struct tb_error *err)
{
    if (c->entropy >= TB_PRELOAD_MODES || c->listing >= TB_PRELOAD_MODES ||
        c->tempnames >= TB_PRELOAD_MODES || c->seeds >= TB_PRELOAD_MODES)
        return tb_fail(err, TB_ERR_ARG, "no such mode of the preloaded library");
    if (c->time > TB_PRELOAD_LOG)
        return tb_fail(err, TB_ERR_ARG, "cannot pin the time of day: it is only written down");
    if (c->folder[0] != '/' || !memchr(c->folder, 0, sizeof(c->folder) - 32))
        return tb_fail(err, TB_ERR_ARG, "cannot log to '%.64s': not an absolute path, or too long",
                       c->folder);
    bool replay = c->entropy == TB_PRELOAD_REPLAY || c->listing == TB_PRELOAD_REPLAY ||
                  c->tempnames == TB_PRELOAD_REPLAY || c->seeds == TB_PRELOAD_REPLAY;
    if (replay && (c->replay[0] != '/' || !memchr(c->replay, 0, sizeof(c->replay) - 32)))
        return tb_fail(err, TB_ERR_ARG, "cannot replay '%.64s': not an absolute path, or too long",
                       c->replay);
    return TB_OK;
}

static void fill(struct tb_preload_config *c)
{
    c->magic = TB_PRELOAD_MAGIC;
    c->version = TB_PRELOAD_VERSION;
    c->size = sizeof(*c);
    if (c->value_limit == 0)
        c->value_limit = 16384;
    if (c->value_limit > TB_PRELOAD_RECORD_MAX - 4096)
        c->value_limit = TB_PRELOAD_RECORD_MAX - 4096;
    if (c->log_limit == 0)
        c->log_limit = 256u << 20;
    if (!c->real[0])
        memcpy(c->real, TB_PRELOAD_REAL_CALLERS, sizeof(TB_PRELOAD_REAL_CALLERS));
    c->real[sizeof(c->real) - 1] = c->real[sizeof(c->real) - 2] = 0;
}

/* Room is taken at once: a process that maps the table must not meet a full disk in it. */
static enum tb_status make_table(const char *folder, struct tb_error *err)
{
    static const struct tb_preload_shared head = {.magic = TB_PRELOAD_MAGIC,
                                                  .version = TB_PRELOAD_VERSION,
                                                  .size = sizeof(struct tb_preload_shared)};
    enum tb_status status = TB_ERR_IO;
    char path[TB_PRELOAD_PATH + 32];
    int why;

    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot make '%s'", folder);
    (void)snprintf(path, sizeof(path), "%s/processes", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return tb_fail(err, TB_ERR_EXISTS, "'%s' holds the logs of another run: take an empty one",
                       folder);
    if (fd < 0)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot make '%s'", path);
    why = posix_fallocate(fd, 0, sizeof(struct tb_preload_shared));
    if (why == 0)
        why = pwrite(fd, &head, offsetof(struct tb_preload_shared, process), 0) < 0 ? errno : 0;
    if (why == 0)
        status = TB_OK;
    else
        (void)tb_fail_sys(err, TB_ERR_IO, why, "cannot fill '%s'", path);
    (void)close(fd);
    return status;
}

static enum tb_status write_whole(const char *path, const struct tb_preload_config *c,
                                  struct tb_error *err)
{
    char temporary[TB_PRELOAD_PATH * 2];
    int why = 0;

    if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary))
        return tb_fail(err, TB_ERR_ARG, "cannot write '%.64s...': its name is too long", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot make '%s'", temporary);
    ssize_t n = write(fd, c, sizeof(*c));
    if (n != (ssize_t)sizeof(*c))
        why = n < 0 ? errno : ENOSPC;
    if (close(fd) != 0 && why == 0)
        why = errno;
    if (why == 0 && rename(temporary, path) != 0)
        why = errno;
    if (why == 0)
        return TB_OK;
    (void)unlink(temporary);
    return tb_fail_sys(err, TB_ERR_IO, why, "cannot write '%s'", path);
}

enum tb_status tb_preload_config_write(const char *path, struct tb_preload_config *c,
                                       struct tb_error *err)
{
    enum tb_status status;

    if (!path || path[0] != '/')
        return tb_fail(err, TB_ERR_ARG, "cannot write '%s': not an absolute path",
                       path ? path : "");
    status = check(c, err);
    if (status != TB_OK)
        return status;
    fill(c);
    status = make_table(c->folder, err);
    return status == TB_OK ? write_whole(path, c, err) : status;
}
