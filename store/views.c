#include "store/store_internal.h"

/*
 * Views for the plain sqlite3 shell; docs/sql.md shows ten questions. They use nothing but SQL that
 * SQLite 3.25 knows, and no function of ours. v_events stays a join (fast for any filter); v_names
 * adds what needs a window over a step: the number k and the event's name.
 */
const char tb_schema_views[] =
    "CREATE VIEW v_meta AS SELECT name, value FROM meta;"

    "CREATE VIEW v_kinds(kind, kindName) AS VALUES "
    "(1,'op'),(2,'step'),(3,'state'),(4,'collective'),"
    "(5,'host'),(6,'launch'),(7,'copy'),(8,'set'),(9,'graph'),(10,'sync');"

    "CREATE VIEW v_fpKinds(fpKind, fpKindName) AS VALUES (0,'none'),(1,'bytes'),(2,'row-major'),"
    "(3,'scalar'),(4,'state'),(5,'sampled'),(6,'unchanged');"

    "CREATE VIEW v_threads AS SELECT t.id AS threadId, t.processId, p.globalPid, p.pid, p.rank,"
    " p.worker, p.identity AS process, t.ordinal, r.value AS role,"
    " (SELECT total(s.eventCount) FROM segments s WHERE s.threadId = t.id) AS events"
    " FROM threads t LEFT JOIN processes p ON p.id = t.processId"
    " LEFT JOIN StringIds r ON r.id = t.nameId;"

    "CREATE VIEW v_sites AS SELECT s.id AS siteId, tap.value AS tap, name.value AS operator,"
    " s.accessCount, lower(hex(s.hash)) AS hash, s.text,"
    /* line 2 behind its first tab */
    " CASE WHEN instr(line2, char(9)) THEN substr(line2, instr(line2, char(9)) + 1) END AS detail"
    " FROM (SELECT *, substr(rest, 1, instr(rest, char(10)) - 1) AS line2 FROM"
    " (SELECT *, substr(text, instr(text, char(10)) + 1) AS rest FROM sites)) s"
    " LEFT JOIN StringIds tap ON tap.id = s.tapId LEFT JOIN StringIds name ON name.id = s.nameId;"

    "CREATE VIEW v_ranges AS SELECT r.id AS rangeId, phase.value AS phase, module.value AS module,"
    " user.value AS user FROM ranges r LEFT JOIN StringIds phase ON phase.id = r.phaseId"
    " LEFT JOIN StringIds module ON module.id = r.moduleId"
    " LEFT JOIN StringIds user ON user.id = r.userId;"

    "CREATE VIEW v_events AS SELECT e.id AS eventId, t.processId, p.globalPid, p.rank,"
    " e.threadId, role.value AS role, e.step, k.kindName AS kind, phase.value AS phase,"
    " module.value AS module, user.value AS user, op.value AS operator, e.siteId, e.rangeId,"
    " e.start, e.id + e.seqOffset AS seq, e.id + e.seqOffset - e.span AS open, e.args,"
    " e.flags & 1 AS readsHashed, (e.flags >> 1) & 1 AS backward, (e.flags >> 2) & 1 AS partial,"
    " (e.flags >> 3) & 1 AS failed"
    " FROM events e LEFT JOIN threads t ON t.id = e.threadId"
    " LEFT JOIN processes p ON p.id = t.processId"
    " LEFT JOIN StringIds role ON role.id = t.nameId"
    " LEFT JOIN v_kinds k ON k.kind = e.kind"
    " LEFT JOIN ranges r ON r.id = e.rangeId"
    " LEFT JOIN StringIds phase ON phase.id = r.phaseId"
    " LEFT JOIN StringIds module ON module.id = r.moduleId"
    " LEFT JOIN StringIds user ON user.id = r.userId"
    " LEFT JOIN sites s ON s.id = e.siteId LEFT JOIN StringIds op ON op.id = s.nameId;"

    "CREATE VIEW v_names AS SELECT eventId, processId, threadId, rank, role, step, phase, module,"
    " operator, k, role || '/' || step || '/' || pass || ':' || coalesce(module, '') || '/' ||"
    " operator || '#' || k AS name FROM (SELECT *, row_number() OVER"
    " (PARTITION BY threadId, step, pass, module, operator ORDER BY eventId) - 1 AS k FROM"
    " (SELECT *, CASE coalesce(phase, '') WHEN '' THEN 'forward' ELSE phase END AS pass"
    " FROM v_events));"

    /* Two conditions that say the same, so that the join is a look-up from either side. */
    "CREATE VIEW v_accesses AS SELECT a.id AS accessId, e.id AS eventId,"
    " a.id & 65535 AS accessIndex, sa.mode, argument.value AS argument, sa.dtype,"
    " device.value AS device, sa.shape, sa.strides, sa.elements, sa.bytes, a.alloc,"
    " CASE WHEN a.alloc < 1 << 40 THEN a.offset & (1 << 43) - 1 ELSE a.offset END AS offset,"
    " lower(hex(substr(a.fp, 1, 16))) AS fp,"
    " CASE WHEN a.fp IS NULL THEN 0 WHEN length(a.fp) = 16 THEN sa.fpKind"
    " ELSE unicode(substr(a.fp, 17)) END AS fpKind,"
    " e.threadId, e.step, op.value AS operator, e.siteId, e.rangeId"
    " FROM events e JOIN accesses a ON a.id BETWEEN e.id << 16 AND (e.id << 16 | 65535)"
    " AND e.id = a.id >> 16"
    " JOIN siteAccesses sa ON sa.siteId = e.siteId AND sa.accessIndex = a.id & 65535"
    " LEFT JOIN StringIds argument ON argument.id = sa.nameId"
    " LEFT JOIN StringIds device ON device.id = sa.deviceId"
    " LEFT JOIN sites s ON s.id = e.siteId LEFT JOIN StringIds op ON op.id = s.nameId;"

    "CREATE VIEW v_writes AS SELECT * FROM v_accesses WHERE mode = 'w';"
    "CREATE VIEW v_reads AS SELECT * FROM v_accesses WHERE mode = 'r';"
    "CREATE VIEW v_rng AS SELECT * FROM v_accesses WHERE mode = 'g';"
    "CREATE VIEW v_scalars AS SELECT * FROM v_accesses WHERE mode = 'h';"

    "CREATE VIEW v_state AS SELECT accessId, eventId, step, threadId, operator AS kind,"
    " argument AS name, dtype, shape, elements, bytes, fp, fpKind FROM v_accesses"
    " WHERE mode = 's';"

    "CREATE VIEW v_tensors AS SELECT t.processId, a.alloc, count(*) AS accesses,"
    " sum(sa.mode = 'w') AS writes, sum(sa.mode = 'r') AS reads, min(e.id) AS firstEventId,"
    " max(e.id) AS lastEventId, max(sa.bytes) AS bytes FROM accesses a"
    " JOIN events e ON e.id = a.id >> 16 JOIN threads t ON t.id = e.threadId"
    " JOIN siteAccesses sa ON sa.siteId = e.siteId AND sa.accessIndex = a.id & 65535"
    " WHERE a.alloc > 0 AND a.alloc < 1099511627776 GROUP BY t.processId, a.alloc;"

    "CREATE VIEW v_steps AS SELECT t.processId, p.rank, s.threadId, role.value AS role, s.step,"
    " s.firstId, s.lastId, s.events, s.segments, s.digests, s.detail, e.start FROM"
    " (SELECT threadId, step, min(firstId) AS firstId, max(lastId) AS lastId, sum(eventCount) AS"
    " events, count(*) AS segments, group_concat(lower(hex(digest)), ' ') AS digests,"
    " min(detail) AS detail FROM (SELECT * FROM segments ORDER BY id) GROUP BY threadId, step) s"
    " JOIN threads t ON t.id = s.threadId LEFT JOIN processes p ON p.id = t.processId"
    " LEFT JOIN StringIds role ON role.id = t.nameId LEFT JOIN events e ON e.id = s.firstId;"

    "CREATE VIEW v_coverage AS SELECT c.processId, p.rank, c.threadId, c.eventId,"
    " CASE c.severity WHEN 0 THEN 'information' WHEN 1 THEN 'not covered' ELSE 'unseen' END AS"
    " severity, c.kind, c.subject, c.detail, c.count, e.step, op.value AS operator FROM coverage c"
    " LEFT JOIN processes p ON p.id = c.processId LEFT JOIN events e ON e.id = c.eventId"
    " LEFT JOIN sites s ON s.id = e.siteId LEFT JOIN StringIds op ON op.id = s.nameId;"

    "CREATE VIEW v_lost AS SELECT l.processId, p.rank, l.threadId, l.count, l.why FROM lost l"
    " LEFT JOIN processes p ON p.id = l.processId;"

    "CREATE VIEW v_stacks AS SELECT k.id AS eventId, v.value AS stack FROM stacks k"
    " LEFT JOIN StringIds v ON v.id = k.textId;";
