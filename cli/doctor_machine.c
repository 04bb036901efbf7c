/* Checks of the machine: kernel, memory, file system, hash. */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fingerprint/fingerprint.h"

void tb_doctor_kernel(struct tb_doctor *d, struct tb_doctor_check *c)
{
    struct utsname u;

    (void)d;
    if (uname(&u) != 0)
        tb_doctor_say(c, TB_DOCTOR_NOTE, "unknown");
    else
        tb_doctor_say(c, TB_DOCTOR_OK, "%s %s %s, %ld processors", u.sysname, u.release, u.machine,
                      sysconf(_SC_NPROCESSORS_ONLN));
}

void tb_doctor_memfd(struct tb_doctor *d, struct tb_doctor_check *c)
{
    int fd = memfd_create("twinbit-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    (void)d;
    if (fd >= 0 && posix_fallocate(fd, 0, 1 << 20) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        tb_doctor_say(c, TB_DOCTOR_OK, "rings are sealed memory files");
    else
        tb_doctor_say(c, TB_DOCTOR_NOTE, "not available (%s): rings will be files under TMPDIR",
                      strerror(errno));
    if (fd >= 0)
        close(fd);
}

void tb_doctor_pidfd(struct tb_doctor *d, struct tb_doctor_check *c)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    (void)d;
    if (fd >= 0)
        tb_doctor_say(c, TB_DOCTOR_OK, "the end of processes is seen at once");
    else
        tb_doctor_say(c, TB_DOCTOR_NOTE, "not available (%s): processes are polled",
                      strerror(errno));
    if (fd >= 0)
        close(fd);
}

void tb_doctor_shm(struct tb_doctor *d, struct tb_doctor_check *c)
{
    struct statvfs v;
    char size[32];

    (void)d;
    if (statvfs("/dev/shm", &v) != 0) {
        tb_doctor_say(c, TB_DOCTOR_NOTE,
                      "absent: twinbit does not need it, DataLoader workers of the job do");
        return;
    }
    tb_cli_bytes((uint64_t)v.f_bavail * v.f_frsize, size, sizeof(size));
    tb_doctor_say(c, TB_DOCTOR_OK, "%s free; twinbit uses none of it", size);
}

/* As linux/magic.h has them, and those that are not in it */
static const char *network_file_system(long type)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {
        {0x6969, "nfs"},        {0xFF534D42, "cifs"}, {0xFE534D42, "smb2"}, {0x517B, "smb"},
        {0x0BD00BD0, "lustre"}, {0x65735546, "fuse"}, {0x00C36400, "ceph"}, {0x47504653, "gpfs"},
        {0x19830326, "beegfs"}, {0x01021997, "9p"},
    };

    for (size_t i = 0; i < TB_ARRAY_LEN(known); i++)
        if (known[i].magic == ((unsigned long)type & 0xFFFFFFFFul))
            return known[i].name;
    return NULL;
}

/* True if a database in the current folder can be had in WAL mode; @why says why not */
static bool try_wal(char *why, size_t size)
{
    char path[64] = "twinbit-doctor-XXXXXX", side[80];
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    bool wal = false;
    int fd = mkstemp(path);

    if (fd < 0) {
        (void)snprintf(why, size, "no file can be made here: %s", strerror(errno));
        return false;
    }
    close(fd);
    if (sqlite3_open(path, &db) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "PRAGMA journal_mode=WAL", -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        wal = strcmp((const char *)sqlite3_column_text(st, 0), "wal") == 0;
    sqlite3_finalize(st);
    wal = wal && sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL) == SQLITE_OK;
    (void)snprintf(why, size, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    (void)unlink(path);
    (void)snprintf(side, sizeof(side), "%s-wal", path);
    (void)unlink(side);
    (void)snprintf(side, sizeof(side), "%s-shm", path);
    (void)unlink(side);
    return wal;
}

void tb_doctor_filesystem(struct tb_doctor *d, struct tb_doctor_check *c)
{
    struct statfs fs = {.f_type = 0};
    char why[128] = "", size[32];
    const char *network = NULL;

    (void)d;
    if (statfs(".", &fs) == 0)
        network = network_file_system((long)fs.f_type);
    tb_cli_bytes((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize, size, sizeof(size));
    if (network)
        tb_doctor_say(c, TB_DOCTOR_NOTE,
                      "%s, %s free: traces are recorded under TMPDIR and moved here", network,
                      size);
    else if (try_wal(why, sizeof(why)))
        tb_doctor_say(c, TB_DOCTOR_OK, "%s free; SQLite %s writes ahead here", size,
                      sqlite3_libversion());
    else
        tb_doctor_say(c, TB_DOCTOR_NOTE, "no trace can be recorded in this folder: %s", why);
}

void tb_doctor_hash(struct tb_doctor *d, struct tb_doctor_check *c)
{
    (void)d;
    tb_fp_init();
    tb_doctor_say(c, TB_DOCTOR_OK, "%s", tb_fp_impl());
    if (!strstr(tb_fp_impl(), "dispatch")) {
        c->state = TB_DOCTOR_NOTE;
        tb_doctor_mend(c, "apt-get install libxxhash0");
    }
}
