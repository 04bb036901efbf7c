/*
 * A SQLite file system, default while it is registered, that fails or kills at a chosen change to a
 * file: write, truncate, delete, and opening for writing count as one change each.
 */
#ifndef TB_TESTS_STORE_FAULT_H
#define TB_TESTS_STORE_FAULT_H

#include <stdbool.h>
#include <sqlite3.h>

enum fault_mode {
    FAULT_OFF,
    FAULT_ONCE,    /* change number `at` fails */
    FAULT_FOREVER, /* and all after it */
    FAULT_KILL,    /* the process is killed in the middle of it */
};
struct fault {
    enum fault_mode mode;
    unsigned at, seen;
    int code; /* SQLITE_FULL, SQLITE_IOERR_WRITE */
};
extern struct fault fault;

void fault_register(void);
void fault_release(void);

#endif
