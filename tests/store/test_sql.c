/* The views in the plain sqlite3 library, as the shell has them; and the queries of docs/sql.md. */
#include "make.h"

#include <sqlite3.h>
#include <unistd.h>

#define MM                                                                                         \
    "torch\naten::addmm\nr f32 cpu [4] - bias\nr f32 cpu [4,4] [1,4] mat1\nw f32 cpu [4,4] - "     \
    "out\n"
#define DROP                                                                                       \
    "torch\naten::native_dropout\nr f32 cpu [4] - input\ng u8 cpu [] - generator\nw f32 cpu [4] "  \
    "- out\n"
#define STATE "torch\nparameters\ns f32 cpu [4] - h.0.weight\ns f32 cpu [4] - h.1.weight\n"
#define STEP "torch\nstep\n"

struct job {
    struct tb_store *s;
    uint32_t thread;
    uint64_t seq, last;
};

static void event(struct job *j, const char *site, const char *range, uint8_t kind, uint64_t step,
                  const struct tb_store_access *a, uint32_t n)
{
    struct tb_store_event e = {.thread = j->thread,
                               .kind = kind,
                               .step = step,
                               .seq = j->seq,
                               .open = j->seq,
                               .time_ns = 1000000 * j->seq};

    j->seq++;
    assert_ok(tb_store_intern_site(j->s, site, strlen(site), &e.site, &make_error));
    assert_ok(tb_store_intern_range(j->s, range, strlen(range), &e.range, &make_error));
    assert_ok(tb_store_event(j->s, &e, a, n, &j->last, &make_error));
}

static struct tb_store_access written(uint64_t alloc, uint8_t mark, uint8_t kind)
{
    struct tb_store_access a = {.alloc = alloc, .fp_kind = kind};

    memset(a.fp, mark, 16);
    return a;
}

/* Three steps; @twist changes what step 2 computes. */
static void make_job(const char *path, uint8_t twist)
{
    struct tb_store_process p = {
        .rank = 0, .worker = -1, .pid = 77, .argv = "python train.py", .identity = "train.py"};
    struct job j = {0};
    uint32_t process;

    assert_ok(tb_store_create(&j.s, path, NULL, &make_error));
    assert_ok(tb_store_meta(j.s, "argv", "python train.py", &make_error));
    assert_ok(tb_store_add_process(j.s, &p, &process, &make_error));
    assert_ok(tb_store_add_thread(j.s, process, 0, "main", &j.thread, &make_error));
    for (uint64_t step = 0; step < 3; step++) {
        uint8_t mark = (uint8_t)(16 * (step + 1) + (step == 2 ? twist : 0));
        struct tb_store_access drop[] = {
            {.alloc = 1}, written(TB_ALLOC_RNG, 7, TB_FP_STATE), written(2, 8, TB_FP_BYTES)};
        struct tb_store_access mm[] = {{.alloc = 3}, {.alloc = 2}, written(4, mark, TB_FP_BYTES)};
        struct tb_store_access back[] = {
            {.alloc = 3}, {.alloc = 4}, written(5, mark, TB_FP_ROWMAJOR)};
        struct tb_store_access state[] = {written(6, 9, TB_FP_BYTES),
                                          written(7, mark, TB_FP_BYTES)};
        event(&j, DROP, "forward\ttransformer.h.1.attn\t", TB_EV_OP, step, drop, 3);
        event(&j, MM, "forward\ttransformer.h.1.attn\t", TB_EV_OP, step, mm, 3);
        event(&j, MM, "backward\ttransformer.h.1.attn\t", TB_EV_OP, step, back, 3);
        event(&j, MM, "backward\ttransformer.h.1.attn\t", TB_EV_OP, step, back, 3);
        event(&j, STATE, "\t\t", TB_EV_STATE, step, state, 2);
        event(&j, STEP, "\t\t", TB_EV_STEP, step, NULL, 0);
    }
    assert_ok(tb_store_coverage(j.s, process, j.thread, j.last, 1, "sparse", "aten::mm",
                                "no layout", 3, &make_error));
    assert_ok(tb_store_lost(j.s, process, 0, 4, "ring full", &make_error));
    assert_ok(tb_store_stack(j.s, j.last, "train.py:3 main\n", 16, &make_error));
    assert_ok(tb_store_close(j.s, &make_error));
}

static sqlite3 *open_plain(const char *path)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return db;
}

/* All rows of all statements in @sql, columns joined by '|', rows by '\n'. */
static char *query(sqlite3 *db, const char *sql)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);

    while (*sql) {
        sqlite3_stmt *st = NULL;
        if (sqlite3_prepare_v2(db, sql, -1, &st, &sql) != SQLITE_OK)
            fail_msg("%s", sqlite3_errmsg(db));
        while (st && sqlite3_step(st) == SQLITE_ROW) {
            for (int i = 0; i < sqlite3_column_count(st); i++) {
                const char *v = (const char *)sqlite3_column_text(st, i);
                (void)fprintf(f, "%s%s", i ? "|" : "", v ? v : "");
            }
            (void)fputc('\n', f);
        }
        if (sqlite3_finalize(st) != SQLITE_OK)
            fail_msg("%s", sqlite3_errmsg(db));
    }
    (void)fclose(f);
    return out;
}

static void expect(sqlite3 *db, const char *sql, const char *want)
{
    char *got = query(db, sql);

    assert_string_equal(got, want);
    free(got);
}

static void test_views__say_what_was_recorded(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");

    (void)state;
    make_job(path, 0);
    sqlite3 *db = open_plain(path);
    expect(db, "SELECT name FROM v_names WHERE step=1 ORDER BY eventId",
           "main/1/forward:transformer.h.1.attn/aten::native_dropout#0\n"
           "main/1/forward:transformer.h.1.attn/aten::addmm#0\n"
           "main/1/backward:transformer.h.1.attn/aten::addmm#0\n"
           "main/1/backward:transformer.h.1.attn/aten::addmm#1\n"
           "main/1/forward:/parameters#0\n"
           "main/1/forward:/step#0\n");
    expect(db,
           "SELECT eventId, rank, role, step, kind, phase, module, operator, seq, open FROM"
           " v_events WHERE eventId=3",
           "3|0|main|0|op|backward|transformer.h.1.attn|aten::addmm|2|2\n");
    expect(
        db,
        "SELECT accessIndex, mode, argument, dtype, shape, strides, bytes, alloc, fp, fpKind FROM"
        " v_accesses WHERE eventId=3",
        "0|r|bias|f32|[4]||16|3||0\n"
        "1|r|mat1|f32|[4,4]|[1,4]|64|4||0\n"
        "2|w|out|f32|[4,4]||64|5|10101010101010101010101010101010|2\n");
    expect(db, "SELECT count(*), sum(fpKind) FROM v_rng", "3|12\n");
    expect(db, "SELECT step, name, substr(fp, 1, 4) FROM v_state WHERE step=2",
           "2|h.0.weight|0909\n2|h.1.weight|3030\n");
    expect(db, "SELECT step, events, segments, length(digests) FROM v_steps",
           "0|6|1|32\n1|6|1|32\n2|6|1|32\n");
    expect(db,
           "SELECT alloc, accesses, writes, reads, firstEventId, lastEventId FROM v_tensors"
           " WHERE alloc=4",
           "4|9|3|6|2|16\n");
    expect(db, "SELECT severity, kind, subject, detail, count, step, operator FROM v_coverage",
           "not covered|sparse|aten::mm|no layout|3|2|step\n");
    expect(db, "SELECT rank, count, why FROM v_lost", "0|4|ring full\n");
    expect(db, "SELECT eventId, stack FROM v_stacks", "18|train.py:3 main\n\n");
    expect(db, "SELECT role, events, process, globalPid / 0x1000000 % 0x1000000 FROM v_threads",
           "main|18.0|train.py|77\n");
    expect(db, "SELECT value FROM v_meta WHERE name='state'", "complete\n");
    expect(db, "SELECT count(*) FROM v_sites WHERE operator='aten::addmm'", "1\n");
    expect(db, "SELECT phase, module FROM v_ranges WHERE rangeId=2",
           "backward|transformer.h.1.attn\n");
    expect(db, "PRAGMA application_id", "1415004756\n");
    expect(db, "PRAGMA user_version", "2\n");
    expect(db, "PRAGMA integrity_check", "ok\n");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    make_clean(folder);
}

/* The text between ```sql and ``` from *@p on, malloc'ed; NULL: no more. */
static char *next_query(const char **p)
{
    const char *begin = strstr(*p, "```sql\n");
    const char *end = begin ? strstr(begin + 7, "```") : NULL;

    if (!end)
        return NULL;
    *p = end + 3;
    return strndup(begin + 7, (size_t)(end - begin - 7));
}

static void test_docs__the_ten_queries_answer(void **state)
{
    const char *folder = make_folder(), *source = getenv("TB_SOURCE_DIR");
    char doc[512], *text, *sql;
    unsigned n = 0;
    size_t size;

    (void)state;
    (void)snprintf(doc, sizeof(doc), "%s/docs/sql.md", source ? source : "../..");
    text = make_read_file(doc, &size);
    text[size] = '\0';
    make_job(make_path(folder, "a.twinbit"), 0);
    make_job(make_path(folder, "b.twinbit"), 1);
    assert_int_equal(chdir(folder), 0);
    for (const char *p = text; (sql = next_query(&p)); n++) {
        sqlite3 *db = open_plain("a.twinbit"); /* each stands alone */
        char *rows = query(db, sql);
        if (!*rows)
            fail_msg("no row from: %s", sql);
        if (strstr(sql, "firstDifferentStep"))
            assert_string_equal(rows, "0|main|2\n");
        if (strstr(sql, "suspect"))
            assert_string_equal(rows, "mat1|13|aten::native_dropout|2|out|"
                                      "08080808080808080808080808080808\n");
        free(rows);
        free(sql);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
    assert_int_equal(n, 10);
    free(text);
    assert_int_equal(chdir("/"), 0);
    make_clean(folder);
}

/* Launches, copies, orders, sampled and missing fingerprints; an operator alone needs no feature.
 */
static void test_views__show_work_of_a_gpu(void **state)
{
    static const char *const text[] = {
        "torch\naten::add\nw f32 cuda:0 [4] - out\n",
        "cuda\nfill\tgrid=2,1,1\tblock=64,1,1\tsymbol=_Z4fillPf\n"
        "q ? cuda:0 [] - stream\nw f32 cuda:0 [4] - out\nw f32 cuda:0 [4] - more\n"};
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");
    struct tb_store_process p = {.identity = "0", .rank = -1, .worker = -1};
    struct tb_store_access a[3] = {{.alloc = TB_ALLOC_STREAM + 1},
                                   {.alloc = 1, .fp_kind = TB_FP_SAMPLED, .fp = {1}},
                                   {.alloc = 2}};
    struct tb_store *s;
    struct tb_trace *t;
    uint32_t id, thread, site[2];

    (void)state;
    for (unsigned device = 0; device < 2; device++) {
        struct tb_store_options so = {.force = true};
        assert_ok(tb_store_create(&s, path, &so, &make_error));
        assert_ok(tb_store_add_process(s, &p, &id, &make_error));
        assert_ok(tb_store_add_thread(s, id, 0, "main", &thread, &make_error));
        for (unsigned i = 0; i <= device; i++)
            assert_ok(tb_store_intern_site(s, text[i], strlen(text[i]), &site[i], &make_error));
        struct tb_store_event e = {.thread = thread, .kind = TB_EV_OP, .site = site[0]};
        assert_ok(tb_store_event(s, &e, a + 2, 1, NULL, &make_error));
        if (device) {
            e = (struct tb_store_event){
                .thread = thread, .kind = TB_EV_LAUNCH, .site = site[1], .seq = 1, .open = 1};
            assert_ok(tb_store_event(s, &e, a, 3, NULL, &make_error));
            assert_string_equal(tb_store_site(s, site[1])->name, "fill");
            assert_null(tb_store_site(s, 3));
        }
        assert_ok(tb_store_close(s, &make_error));
        sqlite3 *db = open_plain(path);
        expect(db, "SELECT value FROM v_meta WHERE name='features'", device ? "1\n" : "0\n");
        if (device) {
            expect(db, "SELECT kind, operator FROM v_events", "op|aten::add\nlaunch|fill\n");
            expect(db, "SELECT operator, detail FROM v_sites WHERE tap='cuda'",
                   "fill|grid=2,1,1\tblock=64,1,1\tsymbol=_Z4fillPf\n");
            expect(db, "SELECT detail IS NULL FROM v_sites WHERE tap='torch'", "1\n");
            expect(db,
                   "SELECT mode, argument, fpKindName FROM v_accesses JOIN v_fpKinds"
                   " USING (fpKind) WHERE eventId=2 ORDER BY accessIndex",
                   "q|stream|none\nw|out|sampled\nw|more|none\n");
        }
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_ok(tb_trace_open(&t, path, &make_error));
        assert_ok(tb_trace_verify(t, &make_error));
        tb_trace_close(t);
    }
    make_clean(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views__say_what_was_recorded),
        cmocka_unit_test(test_views__show_work_of_a_gpu),
        cmocka_unit_test(test_docs__the_ten_queries_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
