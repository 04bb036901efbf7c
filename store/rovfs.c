#include "store/rovfs.h"

#include <stdio.h>
#include <string.h>

struct file {
    sqlite3_file base;
    sqlite3_file *real; /* NULL: a file that is not there, read as empty */
};

static sqlite3_file *real_of(sqlite3_file *f)
{
    return ((struct file *)f)->real;
}

static int io_close(sqlite3_file *f)
{
    sqlite3_file *real = real_of(f);

    return real && real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int io_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
    sqlite3_file *real = real_of(f);

    if (real)
        return real->pMethods->xRead(real, out, n, at);
    memset(out, 0, (size_t)n);
    return SQLITE_IOERR_SHORT_READ;
}

static int io_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    (void)f, (void)data, (void)n, (void)at;
    return SQLITE_READONLY;
}

static int io_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    (void)f, (void)size;
    return SQLITE_READONLY;
}

static int io_sync(sqlite3_file *f, int flags)
{
    (void)f, (void)flags;
    return SQLITE_OK;
}

static int io_size(sqlite3_file *f, sqlite3_int64 *size)
{
    sqlite3_file *real = real_of(f);

    *size = 0;
    return real ? real->pMethods->xFileSize(real, size) : SQLITE_OK;
}

static int io_lock(sqlite3_file *f, int level)
{
    (void)f, (void)level;
    return SQLITE_OK;
}

static int io_reserved(sqlite3_file *f, int *out)
{
    (void)f;
    *out = 0;
    return SQLITE_OK;
}

static int io_control(sqlite3_file *f, int op, void *arg)
{
    (void)f, (void)op, (void)arg;
    return SQLITE_NOTFOUND;
}

static int io_sector(sqlite3_file *f)
{
    (void)f;
    return 4096;
}

static int io_traits(sqlite3_file *f)
{
    (void)f;
    return 0;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = io_close,
    .xRead = io_read,
    .xWrite = io_write,
    .xTruncate = io_truncate,
    .xSync = io_sync,
    .xFileSize = io_size,
    .xLock = io_lock,
    .xUnlock = io_lock,
    .xCheckReservedLock = io_reserved,
    .xFileControl = io_control,
    .xSectorSize = io_sector,
    .xDeviceCharacteristics = io_traits,
};

static sqlite3_vfs *base_of(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *out, int flags,
                    int *out_flags)
{
    struct file *f = (struct file *)out;
    sqlite3_vfs *base = base_of(vfs);
    int rc;

    *f = (struct file){.real = (sqlite3_file *)(f + 1)};
    if (!name) /* SQLite's own temporary files are not ours to forbid */
        return base->xOpen(base, name, out, flags, out_flags);
    flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_DELETEONCLOSE)) |
            SQLITE_OPEN_READONLY;
    rc = base->xOpen(base, name, f->real, flags, out_flags);
    if (rc != SQLITE_OK && (flags & SQLITE_OPEN_WAL)) {
        f->real = NULL;
        rc = SQLITE_OK;
    }
    if (out_flags)
        *out_flags = flags;
    if (rc == SQLITE_OK)
        f->base.pMethods = &methods;
    return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs, (void)name, (void)sync;
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    sqlite3_vfs *base = base_of(vfs);

    return base->xAccess(base, name, flags, out);
}

static int vfs_path(sqlite3_vfs *vfs, const char *name, int n, char *out)
{
    sqlite3_vfs *base = base_of(vfs);

    return base->xFullPathname(base, name, n, out);
}

static int vfs_random(sqlite3_vfs *vfs, int n, char *out)
{
    sqlite3_vfs *base = base_of(vfs);

    return base->xRandomness(base, n, out);
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    sqlite3_vfs *base = base_of(vfs);

    return base->xSleep(base, us);
}

static int vfs_time(sqlite3_vfs *vfs, double *out)
{
    sqlite3_vfs *base = base_of(vfs);

    return base->xCurrentTime(base, out);
}

static int vfs_last_error(sqlite3_vfs *vfs, int n, char *out)
{
    sqlite3_vfs *base = base_of(vfs);

    return base->xGetLastError ? base->xGetLastError(base, n, out) : 0;
}

int tb_rovfs_register(struct tb_rovfs *v)
{
    sqlite3_vfs *base = sqlite3_vfs_find(NULL);

    if (!base)
        return SQLITE_ERROR;
    (void)snprintf(v->name, sizeof(v->name), "twinbit-read-%p", (void *)v);
    v->vfs = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = (int)sizeof(struct file) + base->szOsFile,
        .mxPathname = base->mxPathname,
        .zName = v->name,
        .pAppData = base,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_path,
        .xRandomness = vfs_random,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_time,
        .xGetLastError = vfs_last_error,
    };
    return sqlite3_vfs_register(&v->vfs, 0);
}

void tb_rovfs_release(struct tb_rovfs *v)
{
    if (v->vfs.zName)
        (void)sqlite3_vfs_unregister(&v->vfs);
    v->vfs.zName = NULL;
}
