#include "fault.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

struct fault fault; /* of the test that runs; tests are single-threaded */

struct file {
    sqlite3_file base;
    sqlite3_io_methods methods; /* version 2: shared memory, no memory-mapped reads */
    sqlite3_file *real;
};
static sqlite3_vfs vfs;
static sqlite3_vfs *base;

/* True if this change must fail; does not return if it must kill. */
static bool hit(sqlite3_file *real, const void *data, int n, sqlite3_int64 at)
{
    unsigned number = ++fault.seen;

    if (fault.mode == FAULT_OFF || number < fault.at)
        return false;
    if (fault.mode == FAULT_KILL) {
        if (real && n > 1)
            (void)real->pMethods->xWrite(real, data, n / 2, at);
        (void)kill(getpid(), SIGKILL);
    }
    return fault.mode == FAULT_FOREVER || number == fault.at;
}

#define REAL(f) (((struct file *)(f))->real)

static int io_close(sqlite3_file *f)
{
    return REAL(f)->pMethods->xClose(REAL(f));
}
static int io_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
    return REAL(f)->pMethods->xRead(REAL(f), out, n, at);
}
static int io_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    return hit(REAL(f), data, n, at) ? fault.code : REAL(f)->pMethods->xWrite(REAL(f), data, n, at);
}
static int io_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    return hit(NULL, NULL, 0, 0) ? fault.code : REAL(f)->pMethods->xTruncate(REAL(f), size);
}
static int io_sync(sqlite3_file *f, int flags)
{
    return REAL(f)->pMethods->xSync(REAL(f), flags);
}
static int io_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return REAL(f)->pMethods->xFileSize(REAL(f), size);
}
static int io_lock(sqlite3_file *f, int level)
{
    return REAL(f)->pMethods->xLock(REAL(f), level);
}
static int io_unlock(sqlite3_file *f, int level)
{
    return REAL(f)->pMethods->xUnlock(REAL(f), level);
}
static int io_reserved(sqlite3_file *f, int *out)
{
    return REAL(f)->pMethods->xCheckReservedLock(REAL(f), out);
}
static int io_control(sqlite3_file *f, int op, void *arg)
{
    return REAL(f)->pMethods->xFileControl(REAL(f), op, arg);
}
static int io_sector(sqlite3_file *f)
{
    return REAL(f)->pMethods->xSectorSize(REAL(f));
}
static int io_traits(sqlite3_file *f)
{
    return REAL(f)->pMethods->xDeviceCharacteristics(REAL(f));
}
static int io_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
    return REAL(f)->pMethods->xShmMap(REAL(f), page, size, extend, out);
}
static int io_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return REAL(f)->pMethods->xShmLock(REAL(f), at, n, flags);
}
static void io_shm_barrier(sqlite3_file *f)
{
    REAL(f)->pMethods->xShmBarrier(REAL(f));
}
static int io_shm_unmap(sqlite3_file *f, int del)
{
    return REAL(f)->pMethods->xShmUnmap(REAL(f), del);
}

static const sqlite3_io_methods methods = {
    2,           io_close,       io_read,      io_write,   io_truncate, io_sync,   io_size,
    io_lock,     io_unlock,      io_reserved,  io_control, io_sector,   io_traits, io_shm_map,
    io_shm_lock, io_shm_barrier, io_shm_unmap, NULL,       NULL,
};

static int on_open(sqlite3_vfs *v, const char *name, sqlite3_file *out, int flags, int *out_flags)
{
    struct file *f = (struct file *)out;
    int rc;

    (void)v;
    memset(f, 0, sizeof(*f));
    f->real = (sqlite3_file *)(f + 1);
    if ((flags & SQLITE_OPEN_CREATE) && hit(NULL, NULL, 0, 0))
        return SQLITE_CANTOPEN;
    rc = base->xOpen(base, name, f->real, flags, out_flags);
    f->methods = methods;
    if (rc == SQLITE_OK)
        f->base.pMethods = &f->methods;
    return rc;
}

static int on_delete(sqlite3_vfs *v, const char *name, int sync)
{
    (void)v;
    return hit(NULL, NULL, 0, 0) ? SQLITE_IOERR_DELETE : base->xDelete(base, name, sync);
}

void fault_register(void)
{
    base = sqlite3_vfs_find(NULL);
    vfs = *base;
    vfs.zName = "fault";
    vfs.pNext = NULL;
    vfs.szOsFile = (int)sizeof(struct file) + base->szOsFile;
    vfs.xOpen = on_open;
    vfs.xDelete = on_delete;
    (void)sqlite3_vfs_register(&vfs, 1);
}

void fault_release(void)
{
    (void)sqlite3_vfs_unregister(&vfs);
    (void)sqlite3_vfs_register(base, 1);
}
