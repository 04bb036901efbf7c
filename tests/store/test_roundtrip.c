/* What is written is what is read, and what two runs have in common gives equal digests. */
#include "make.h"

static struct tb_trace *open_ok(const char *path)
{
    struct tb_trace *t;

    assert_ok(tb_trace_open(&t, path, &make_error));
    return t;
}

static void write_model(const struct model *m, const char *path, uint64_t variant,
                        struct written *w)
{
    struct tb_store *s;
    char text[24];

    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)variant);
    assert_ok(tb_store_meta(s, "test.variant", text, &make_error));
    model_write(m, s, variant, w);
    assert_ok(tb_store_close(s, &make_error));
}

static void test_roundtrip__random_models_come_back_equal(void **state)
{
    static const struct {
        uint32_t processes, threads, events, sites, big;
    } shape[] = {{1, 1, 0, 2, 0},     {1, 1, 1, 2, 1},      {1, 1, 5000, 40, 300},
                 {1, 3, 4000, 30, 5}, {3, 7, 3000, 50, 40}, {2, 2, 1025, 3, 33}};
    const char *folder = make_folder();
    uint64_t seed = make_seed(1);

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(shape); i++) {
        struct model *m = model_new(seed + i, shape[i].processes, shape[i].threads, shape[i].events,
                                    shape[i].sites, shape[i].big);
        const char *path = make_path(folder, "a.twinbit");
        struct written w;
        write_model(m, path, i, &w);
        assert_false(make_exists(make_path(folder, "a.twinbit-wal")));
        assert_false(make_exists(make_path(folder, "a.twinbit-shm")));
        struct tb_trace *t = open_ok(path);
        assert_true(tb_trace_info(t)->complete);
        assert_null(tb_trace_info(t)->warning);
        assert_int_equal(tb_trace_info(t)->events, w.n);
        model_compare(m, &w, t);
        assert_ok(tb_trace_verify(t, &make_error));
        tb_trace_close(t);
        written_free(&w);
        model_free(m);
        assert_int_equal(remove(path), 0);
    }
    make_clean(folder);
}

static void test_roundtrip__largest_event_is_kept(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");
    struct model *m = model_new(make_seed(3), 1, 1, 3, 2, TB_STORE_MAX_ACCESSES);
    struct written w;

    (void)state;
    for (uint32_t i = 0; i < m->events[0]; i++) { /* all three on the big site */
        struct made_event *e = &m->event[0][i];
        e->site = 1;
        e->accesses = m->site_accesses[1];
        free(e->access);
        e->access = calloc(e->accesses, sizeof(*e->access));
        for (uint32_t k = 0; k < e->accesses; k++)
            e->access[k].alloc = k * 3 + i;
    }
    write_model(m, path, 0, &w);
    struct tb_trace *t = open_ok(path);
    model_compare(m, &w, t);
    assert_ok(tb_trace_verify(t, &make_error));
    tb_trace_close(t);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

/* Segments of every thread, by role. */
static void compare_segments(struct tb_trace *a, struct tb_trace *b, bool equal)
{
    size_t na, nb, n;
    const struct tb_trace_thread *ta = tb_trace_threads(a, &na), *tb = tb_trace_threads(b, &n);
    bool differ = false;

    assert_int_equal(na, n);
    for (size_t i = 0; i < na; i++) {
        struct tb_trace_segment *sa, *sb;
        assert_string_equal(ta[i].role, tb[i].role);
        assert_ok(tb_trace_segments(a, ta[i].id, &sa, &na, &make_error));
        assert_ok(tb_trace_segments(b, tb[i].id, &sb, &nb, &make_error));
        assert_int_equal(na, nb);
        for (size_t k = 0; k < na; k++) {
            assert_int_equal(sa[k].count, sb[k].count);
            assert_int_equal(sa[k].step, sb[k].step);
            differ = differ || memcmp(sa[k].digest, sb[k].digest, 16) != 0;
        }
        free(sa);
        free(sb);
        na = n;
    }
    assert_int_equal(differ, !equal);
}

static void test_digest__depends_on_no_address_pid_time_or_interleaving(void **state)
{
    const char *folder = make_folder();
    struct model *m = model_new(make_seed(11), 2, 4, 3000, 30, 20);
    struct written wa, wb;

    (void)state;
    write_model(m, make_path(folder, "a"), 1, &wa);
    write_model(m, make_path(folder, "b"), 2, &wb);
    struct tb_trace *a = open_ok(make_path(folder, "a")), *b = open_ok(make_path(folder, "b"));
    model_compare(m, &wa, a);
    model_compare(m, &wb, b);
    compare_segments(a, b, true);
    tb_trace_close(a);
    tb_trace_close(b);
    written_free(&wa);
    written_free(&wb);
    model_free(m);
    make_clean(folder);
}

/* Change one thing of one event; the digests must differ, or must not. */
static void change_in(struct model *m, int what, bool equal)
{
    const char *folder = make_folder();
    struct written wa, wb;
    bool changed = false;

    write_model(m, make_path(folder, "a"), 0, &wa);
    for (uint32_t i = 100; i < m->events[0] && !changed; i++) {
        struct made_event *e = &m->event[0][i];
        char mode = e->accesses ? m->site_mode[e->site][0] : 0;
        changed = true;
        if (what == 0)
            e->args ^= 1;
        else if (what == 1)
            e->kind = e->kind % 5 + 1;
        else if (what == 2)
            e->flags ^= TB_EVF_FAILED;
        else if (what == 3)
            e->flags ^= TB_EVF_READS_HASHED;
        else if (what == 4)
            e->range = (e->range + 1) % m->ranges;
        else if (mode != what || !e->access[0].fp_kind)
            changed = false;
        else
            e->access[0].fp[15] ^= 0x80;
    }
    assert_true(changed);
    write_model(m, make_path(folder, "b"), 0, &wb);
    struct tb_trace *a = open_ok(make_path(folder, "a")), *b = open_ok(make_path(folder, "b"));
    compare_segments(a, b, equal);
    tb_trace_close(a);
    tb_trace_close(b);
    written_free(&wa);
    written_free(&wb);
    model_free(m);
    make_clean(folder);
}

static void change_one(int what, bool equal)
{
    change_in(model_new(make_seed(12), 1, 1, 400, 30, 20), what, equal);
}

/* The same for a read, where all events are of one kind. */
static void change_read(uint8_t kind, uint16_t flags, bool equal)
{
    struct model *m = model_new(make_seed(12), 1, 1, 400, 30, 20);

    for (uint32_t i = 0; i < m->events[0]; i++) {
        m->event[0][i].kind = kind;
        m->event[0][i].flags = flags;
    }
    change_in(m, 'r', equal);
}

static void test_digest__depends_on_all_that_diff_compares(void **state)
{
    (void)state;
    change_one(0, false);
    change_one(1, false);
    change_one(2, false);
    change_one('w', false);
    change_one('h', false);
    change_one('s', false);
    change_one('g', false);
}

static void test_digest__leaves_out_how_it_was_recorded(void **state)
{
    (void)state;
    change_one(3, true);
    change_one(4, true);
    change_one('r', true);
}

/* What wrote the bytes of a device may not have been seen: there a hashed read counts, whether all
 * reads of its event were hashed or this one. */
static void test_digest__has_the_hashed_reads_of_a_gpu_alone(void **state)
{
    (void)state;
    for (unsigned kind = TB_EV_OP; kind <= (unsigned)TB_EV_SYNC; kind++) {
        bool gpu = kind >= TB_EV_LAUNCH && kind <= TB_EV_GRAPH;
        change_read((uint8_t)kind, TB_EVF_READS_HASHED, !gpu);
        change_read((uint8_t)kind, 0, !gpu);
    }
}

static void test_segment__starts_at_each_step_and_after_1024_events(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a");
    struct model *m = model_new(5, 1, 1, 5000, 10, 2);
    struct tb_trace_segment *s;
    struct written w;
    size_t n;

    (void)state;
    for (uint32_t i = 0; i < 5000; i++)
        m->event[0][i].step = i < 2500 ? 7 : 8; /* 1024 + 1024 + 452 | 1024 + 1024 + 452 */
    write_model(m, path, 0, &w);
    struct tb_trace *t = open_ok(path);
    assert_ok(tb_trace_segments(t, 1, &s, &n, &make_error));
    assert_int_equal(n, 6);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s[i].count, i % 3 < 2 ? 1024 : 452);
        assert_int_equal(s[i].step, i < 3 ? 7 : 8);
        assert_int_equal(s[i].last - s[i].first + 1, s[i].count);
        assert_true(s[i].detail);
        assert_int_equal(s[i].seq_first, w.e[s[i].first - 1].seq);
    }
    free(s);
    tb_trace_close(t);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roundtrip__random_models_come_back_equal),
        cmocka_unit_test(test_roundtrip__largest_event_is_kept),
        cmocka_unit_test(test_digest__depends_on_no_address_pid_time_or_interleaving),
        cmocka_unit_test(test_digest__depends_on_all_that_diff_compares),
        cmocka_unit_test(test_digest__leaves_out_how_it_was_recorded),
        cmocka_unit_test(test_digest__has_the_hashed_reads_of_a_gpu_alone),
        cmocka_unit_test(test_segment__starts_at_each_step_and_after_1024_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
