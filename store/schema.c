#include "store/store_internal.h"

/*
 * The tables; FORMAT.md says what each column means. Names that Nsight Systems' exports use for the
 * same thing are used here too (StringIds, nameId, globalPid, start in ns since the capture began).
 * rowCheck is tb_check() of the columns before it.
 */
const char tb_schema_tables[] =
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT, rowCheck INTEGER) WITHOUT ROWID;"
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT, rowCheck INTEGER);"
    "CREATE TABLE texts(id INTEGER PRIMARY KEY, name TEXT, part INTEGER, totalBytes INTEGER,"
    " data BLOB, rowCheck INTEGER, UNIQUE(name, part));"
    "CREATE TABLE processes(id INTEGER PRIMARY KEY, globalPid INTEGER, pid INTEGER, parentId "
    "INTEGER,"
    " ordinal INTEGER, rank INTEGER, restart INTEGER, worker INTEGER, name TEXT, identity TEXT,"
    " rowCheck INTEGER);"
    "CREATE TABLE threads(id INTEGER PRIMARY KEY, processId INTEGER, ordinal INTEGER, nameId "
    "INTEGER,"
    " eventCount INTEGER, rowCheck INTEGER);"
    "CREATE TABLE sites(id INTEGER PRIMARY KEY, tapId INTEGER, nameId INTEGER, accessCount INTEGER,"
    " hash BLOB, text TEXT, rowCheck INTEGER);"
    "CREATE TABLE siteAccesses(siteId INTEGER, accessIndex INTEGER, mode TEXT, dtype TEXT,"
    " deviceId INTEGER, shape TEXT, strides TEXT, nameId INTEGER, elements INTEGER, bytes INTEGER,"
    " fpKind INTEGER, PRIMARY KEY(siteId, accessIndex)) WITHOUT ROWID;"
    "CREATE TABLE ranges(id INTEGER PRIMARY KEY, phaseId INTEGER, moduleId INTEGER, userId INTEGER,"
    " rowCheck INTEGER);"
    "CREATE TABLE events(id INTEGER PRIMARY KEY, threadId INTEGER, kind INTEGER, flags INTEGER,"
    " siteId INTEGER, rangeId INTEGER, seqOffset INTEGER, span INTEGER, step INTEGER, args INTEGER,"
    " start INTEGER);"
    "CREATE TABLE accesses(id INTEGER PRIMARY KEY, alloc INTEGER, offset INTEGER, fp BLOB);"
    "CREATE TABLE segments(id INTEGER PRIMARY KEY, threadId INTEGER, step INTEGER, firstId INTEGER,"
    " lastId INTEGER, eventCount INTEGER, seqFirst INTEGER, digest BLOB, coverage BLOB,"
    " eventCheck INTEGER, detail INTEGER, rowCheck INTEGER);"
    "CREATE INDEX segmentsOfThread ON segments(threadId, firstId);"
    "CREATE TABLE coverage(id INTEGER PRIMARY KEY, processId INTEGER, threadId INTEGER,"
    " eventId INTEGER, severity INTEGER, kind TEXT, subject TEXT, detail TEXT, count INTEGER,"
    " rowCheck INTEGER, UNIQUE(processId, threadId, eventId, severity, kind, subject, detail));"
    "CREATE TABLE lost(id INTEGER PRIMARY KEY, processId INTEGER, threadId INTEGER, count INTEGER,"
    " why TEXT, rowCheck INTEGER);"
    "CREATE TABLE maps(id INTEGER PRIMARY KEY, bytes INTEGER, sums BLOB, rowCheck INTEGER);"
    "CREATE TABLE snapshots(id INTEGER PRIMARY KEY, accessId INTEGER, part INTEGER,"
    " totalBytes INTEGER, data BLOB, rowCheck INTEGER, UNIQUE(accessId, part));"
    "CREATE TABLE stacks(id INTEGER PRIMARY KEY, textId INTEGER, rowCheck INTEGER);";
