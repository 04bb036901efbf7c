#include "store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* File systems on which shared memory or locks cannot be trusted (magic numbers: statfs(2)). */
static const uint32_t network_fs[] = {
    0x6969,     /* NFS */
    0x517b,     /* SMB */
    0xff534d42, /* CIFS */
    0xfe534d42, /* SMB2 */
    0x0bd00bd0, /* Lustre */
    0x47504653, /* GPFS */
    0x19830326, /* BeeGFS */
    0x00c36400, /* Ceph */
    0x01021997, /* 9P */
    0x5346414f, /* AFS */
    0x65735546, /* FUSE */
    0x7461636f, /* OCFS2 */
    0x20030528, /* OrangeFS */
    0x6b414653, /* kAFS */
    0x73757245, /* Coda */
};

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

bool tb_place_network(const char *path)
{
    struct statfs fs;
    char *folder = folder_of(path);
    bool found = false;

    if (folder && statfs(folder, &fs) == 0)
        for (size_t i = 0; i < TB_ARRAY_LEN(network_fs); i++)
            found = found || (uint32_t)fs.f_type == network_fs[i];
    free(folder);
    return found;
}

bool tb_place_locked(int fd)
{
    /* SQLite holds a read lock on these bytes of a database as long as it has it open in WAL mode.
     */
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000000, .l_len = 512};

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int tb_place_ballast(const char *path, uint64_t bytes)
{
    char *folder = folder_of(path);
    int fd = folder ? open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;

    free(folder);
    if (fd >= 0 && fallocate(fd, 0, 0, (off_t)bytes) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Copy what is left of @in to @out; 0 or an errno. */
static int copy_fd(int in, int out)
{
    enum { CHUNK = 1 << 20 };
    char *buf = malloc(CHUNK);
    int rc = buf ? 0 : ENOMEM;

    while (rc == 0) {
        ssize_t n = read(in, buf, CHUNK);
        if (n == 0)
            break;
        if (n < 0)
            rc = errno == EINTR ? 0 : errno;
        for (ssize_t done = 0; rc == 0 && done < n;) {
            ssize_t k = write(out, buf + done, (size_t)(n - done));
            if (k < 0)
                rc = errno == EINTR ? 0 : errno;
            else
                done += k;
        }
    }
    free(buf);
    return rc;
}

enum tb_status tb_place_copy(const char *from, const char *to, bool exclusive, struct tb_error *err)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out = -1, sys;

    if (in < 0)
        return tb_fail_sys(err, errno == ENOENT ? TB_ERR_NOTFOUND : TB_ERR_IO, errno,
                           "cannot open '%s'", from);
    out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC | (exclusive ? O_EXCL : O_TRUNC), 0666);
    if (out < 0) {
        sys = errno;
        (void)close(in);
        return tb_fail_sys(err, sys == EEXIST ? TB_ERR_EXISTS : TB_ERR_IO, sys,
                           "cannot create '%s'", to);
    }
    sys = copy_fd(in, out);
    (void)close(in);
    if (close(out) != 0 && sys == 0)
        sys = errno;
    if (sys == 0)
        return TB_OK;
    (void)unlink(to);
    return tb_fail_sys(err, TB_ERR_IO, sys, "cannot copy '%s' to '%s'", from, to);
}

char *tb_place_join(const char *a, const char *b)
{
    char *out = NULL;

    return asprintf(&out, "%s%s", a, b) < 0 ? NULL : out;
}

char *tb_place_sqlite(const char *path)
{
    return tb_place_join(path[0] == '/' ? "" : "./", path);
}
