/* write_reports DIR: JSON reports of all kinds into DIR, for check_schema.py */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "diff/diff.h"
#include "tests/diff/gpu.h"
#include "tests/diff/job.h"

static const char *folder;

static void compare(const char *pa, const char *pb, const char *name)
{
    char path[4096];
    struct tb_diff_report *r = NULL;
    struct tb_error err = {0};

    if (tb_diff_run(&r, pa, pb, NULL, &err) != TB_OK)
        fail_msg("%s", err.text);
    (void)snprintf(path, sizeof(path), "%s/%s.json", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    tb_diff_json(r, f);
    assert_int_equal(fclose(f), 0);
    tb_diff_free(r);
}

static void write_report(const struct job *a, const struct job *b, const char *name)
{
    const char *pa = job_scratch("a.twinbit"), *pb = job_scratch("b.twinbit");

    job_write(a, pa);
    job_write(b, pb);
    compare(pa, pb, name);
}

static void gpu_reports(void)
{
    struct gpu a = {.snapshot = true, .waits = 1};
    const struct gpu b[] = {
        {.snapshot = true, .launch = true},
        {.launch = true, .image = "bbbb2222", .grid = "4,1,1", .symbol = "_Z4gemmIiEvPKT_PS0_i"},
        {.batch = true, .waits = 2},
        {.no_fp = true, .late = true},
    };
    const char *pa = job_scratch("a.twinbit"), *pb = job_scratch("b.twinbit");
    char name[16];

    for (size_t i = 0; i < TB_ARRAY_LEN(b); i++) {
        gpu_write(&a, pa);
        gpu_write(&b[i], pb);
        (void)snprintf(name, sizeof(name), "gpu%zu", i);
        compare(pa, pb, name);
    }
}

static void all(void **state)
{
    (void)state;
    static const char *const names[] = {
        [JOB_NONE] = "none",
        [JOB_OUTPUT] = "output",
        [JOB_UNSEEN] = "unseen",
        [JOB_BATCH] = "batch",
        [JOB_ARGS] = "args",
        [JOB_RNG] = "rng",
        [JOB_EXTRA] = "extra",
        [JOB_EXTRA_OFF] = "extra-off",
        [JOB_MISSING] = "missing",
        [JOB_ORDER] = "order",
        [JOB_INSIDE] = "inside",
        [JOB_REDUCE] = "reduce",
        [JOB_INSIDE_ALWAYS] = "always",
        [JOB_ITEM] = "item",
    };
    struct job a = job_defaults(), b = job_defaults();

    a.rank = b.rank = 0;
    a.inputs = b.inputs = a.snapshot = b.snapshot = true;
    b.cover = "aten::\"odd\"\\name";
    b.variable = "WORDS=\xff\xfe and \"quotes\"";
    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++) {
        b.fault = (enum job_fault)i;
        b.at = i % 4;
        write_report(&a, &b, names[i]);
    }
    b.lost = 5;
    b.cut = true;
    write_report(&a, &b, "cut");
    gpu_reports();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all)};

    if (argc != 2) {
        fputs("usage: write_reports DIR\n", stderr);
        return 2;
    }
    folder = argv[1];
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    job_clean();
    return failed;
}
