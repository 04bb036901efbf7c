/*
 * A SQLite file system that can only read: files are opened O_RDONLY, locks are granted without
 * asking, nothing is created or deleted, and a -wal that is missing reads as an empty one. With
 * locking_mode=EXCLUSIVE SQLite keeps its wal-index in memory, so a killed recording can be read
 * with its -wal without a byte written anywhere.
 */
#ifndef TB_STORE_ROVFS_H
#define TB_STORE_ROVFS_H

#include <sqlite3.h>

struct tb_rovfs {
    sqlite3_vfs vfs;
    char name[40];
};

/** tb_rovfs_register - make @v known to SQLite under @v->name; @v must not move until the release
 */
int tb_rovfs_register(struct tb_rovfs *v);
void tb_rovfs_release(struct tb_rovfs *v);

#endif
