/* plan: profiles, single pins, what they need and conflict with, seeds, files, bad words */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "deterministic/plan.h"

static struct tb_pin_plan *plan_of(const char *const *words, uint64_t seed)
{
    struct tb_pin_plan *p = tb_pin_plan_new();
    struct tb_error err = {0};

    assert_non_null(p);
    for (; *words; words++)
        if (tb_pin_plan_add(p, *words, &err) != TB_OK)
            fail_msg("'%s': %s", *words, err.text);
    if (tb_pin_plan_finish(p, seed, &err) != TB_OK)
        fail_msg("%s", err.text);
    return p;
}

#define PLAN(...) plan_of((const char *const[]){__VA_ARGS__, NULL}, 0)

static void assert_asked(const struct tb_pin_plan *p, const char *id, enum tb_pin_request request,
                         const char *value)
{
    const struct tb_pin_choice *c = tb_pin_choice_of(p, id);

    assert_non_null(c);
    if (c->request != request)
        fail_msg("%s: request %d, expected %d", id, (int)c->request, (int)request);
    if (value)
        assert_string_equal(c->value, value);
}

static void assert_refused(const char *word, enum tb_status status, const char *text)
{
    struct tb_pin_plan *p = tb_pin_plan_new();
    struct tb_error err = {0};
    enum tb_status st = tb_pin_plan_add(p, word, &err);

    if (st == TB_OK)
        st = tb_pin_plan_finish(p, 0, &err);
    assert_int_equal(st, status);
    if (!strstr(err.text, text))
        fail_msg("'%s': '%s' lacks '%s'", word, err.text, text);
    tb_pin_plan_free(p);
}

static void test_plan__profiles_begin_anew(void **state)
{
    (void)state;
    struct tb_pin_plan *p = PLAN("nccl.algo", "observe");
    assert_asked(p, "nccl.algo", TB_PIN_READ, NULL);
    assert_false(tb_pin_plan_needs(p, TB_PIN_ENV));
    tb_pin_plan_free(p);

    p = PLAN("strict");
    assert_asked(p, "nccl.algo", TB_PIN_SET, "Ring");
    assert_asked(p, "cpu.omp_threads", TB_PIN_KEEP, NULL);
    assert_asked(p, "cuda.launch_blocking", TB_PIN_LEAVE, NULL);
    assert_string_equal(tb_pin_choice_of(p, "nccl.algo")->source, "strict");
    assert_true(tb_pin_plan_needs(p, TB_PIN_TORCH));
    assert_int_equal(p->notes, 0);
    tb_pin_plan_free(p);
}

/* Every pin of every profile is something that can be asked for, and nothing is set that is not
 * built */
static void test_plan__each_profile_and_pin_can_be_had(void **state)
{
    (void)state;
    for (int profile = 0; profile < TB_PIN_PROFILES; profile++) {
        const char *name = tb_pin_profile_text((enum tb_pin_profile)profile)->name;
        struct tb_pin_plan *p = PLAN(name);
        for (size_t i = 0; i < p->count; i++) {
            const struct tb_pin_choice *c = &p->choice[i];
            assert_true(c->request != TB_PIN_SET || !c->pin->missing);
            if (profile == TB_PIN_OBSERVE)
                assert_true(c->request != TB_PIN_SET && c->request != TB_PIN_UNBUILT);
        }
        tb_pin_plan_free(p);
    }
    size_t count;
    const struct tb_pin *pins = tb_pins(&count);
    for (size_t i = 0; i < count; i++) {
        if (!tb_pin_alone(&pins[i]))
            continue;
        struct tb_pin_plan *p = PLAN("observe", pins[i].id);
        assert_asked(p, pins[i].id,
                     pins[i].missing                          ? TB_PIN_UNBUILT
                     : tb_pin_changes(tb_pin_alone(&pins[i])) ? TB_PIN_SET
                                                              : TB_PIN_READ,
                     NULL);
        tb_pin_plan_free(p);
    }
}

/* A value that its library would not take is refused before the job, and the line says what it
 * takes */
static void test_plan__values_have_the_form_of_their_pin(void **state)
{
    static const struct {
        const char *word, *text;
    } wrong[] = {
        {"cpu.omp_threads=banana",
         "'banana' is no value of pin 'cpu.omp_threads', which takes a number from 1 to"},
        {"cpu.omp_threads=0", "a number from 1 to 65536"},
        {"cpu.omp_threads=4x", "a number from 1"},
        {"cpu.omp_threads=", "a number from 1"},
        {"cpu.torch_threads=99999999999999999999999", "a number from 1"},
        {"python.hashseed=random", "a number from 0 to 4294967295"},
        {"python.hashseed=-4", "a number from 0"},
        {"torch.seed=4294967296", "a number from 0 to 4294967295"},
        {"torch.seed= +4", "a number from 0"},
        {"system.malloc_fill=300", "a number from 1 to 255"},
        {"system.malloc_fill=0", "a number from 1 to 255"},
        {"torch.fill=yes", "one of True, False"},
        {"cpu.torch_capability=avx", "one of default, avx2, avx512"},
        {"cpu.mkl_dynamic=", "one of FALSE, TRUE"},
        {"system.umask=0222", "three octal digits"},
        {"system.umask=08x", "three octal digits"},
        {"cpu.affinity=all", "a list of CPUs"},
        {"cpu.affinity=3-1", "a list of CPUs"},
        {"cpu.affinity=2-", "a list of CPUs"},
        {"cpu.affinity=9999", "a list of CPUs"},
        {"torch.sdpa=foo", "which takes @keep"},
        {"system.aslr=off", "which takes on"},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(wrong); i++)
        assert_refused(wrong[i].word, TB_ERR_ARG, wrong[i].text);
    struct tb_pin_plan *p =
        PLAN("cpu.omp_threads=8,torch.seed=0,cpu.mkl_dynamic=true,cpu.affinity=0-3",
             "nccl.algo=^Tree", "system.malloc_fill=255,torch.seed=4294967295");
    assert_asked(p, "cpu.omp_threads", TB_PIN_SET, "8");
    assert_asked(p, "nccl.algo", TB_PIN_SET, "^Tree");
    assert_asked(p, "torch.seed", TB_PIN_SET, "4294967295");
    tb_pin_plan_free(p);
    const struct tb_pin *threads = tb_pin_find("cpu.omp_threads"); /* of a file: nested ones */
    assert_true(tb_pin_fits(threads, "4,2,1"));
    assert_false(tb_pin_fits(threads, "4,,1"));
    assert_false(tb_pin_fits(threads, "4,"));
    assert_false(tb_pin_fits(tb_pin_find("cpu.torch_threads"), "4,2"));
}

static void test_plan__single_pins_come_and_go(void **state)
{
    (void)state;
    struct tb_pin_plan *p = PLAN("strict, !nccl.algo ,cpu.omp_threads=4", "system.timezone = UTC");
    assert_asked(p, "nccl.algo", TB_PIN_LEAVE, NULL);
    assert_asked(p, "cpu.omp_threads", TB_PIN_SET, "4");
    assert_asked(p, "system.timezone", TB_PIN_SET, "UTC");
    assert_asked(p, "nccl.proto", TB_PIN_SET, "Simple");
    tb_pin_plan_free(p);
}

static void test_plan__what_is_needed_comes_along(void **state)
{
    (void)state;
    struct tb_pin_plan *p = PLAN("observe", "torch.fill");
    assert_asked(p, "torch.deterministic", TB_PIN_SET, "True");
    assert_int_equal(p->notes, 1);
    assert_non_null(strstr(p->note[0], "torch.deterministic is added"));
    tb_pin_plan_free(p);

    p = PLAN("strict", "entropy=all"); /* not needed, but to be known */
    assert_true(p->all_entropy);
    assert_int_equal(p->notes, 1);
    assert_non_null(strstr(p->note[0], "can be guessed"));
    tb_pin_plan_free(p);

    p = PLAN("strict", "!torch.deterministic");
    assert_asked(p, "torch.fill", TB_PIN_LEAVE, NULL);
    assert_int_equal(p->notes, 1);
    assert_non_null(strstr(p->note[0], "torch.fill is left out"));
    tb_pin_plan_free(p);
}

static void test_plan__of_a_conflict_the_named_one_stays(void **state)
{
    (void)state;
    struct tb_pin_plan *p = PLAN("strict", "torch.warn_only");
    assert_asked(p, "torch.warn_only", TB_PIN_SET, "True");
    assert_asked(p, "torch.deterministic", TB_PIN_LEAVE, NULL);
    tb_pin_plan_free(p);
    assert_refused("torch.warn_only,torch.deterministic", TB_ERR_ARG, "conflict");
}

static void test_plan__seeds_follow_from_the_runs(void **state)
{
    (void)state;
    struct tb_pin_plan *a = PLAN("basic"), *b = plan_of((const char *const[]){"basic", NULL}, 1);
    const char *torch_a = tb_pin_choice_of(a, "torch.seed")->value;

    assert_string_not_equal(torch_a, tb_pin_choice_of(a, "python.random")->value);
    assert_string_not_equal(torch_a, tb_pin_choice_of(b, "torch.seed")->value);
    assert_true(strspn(torch_a, "0123456789") == strlen(torch_a));
    assert_int_equal(strtoull(torch_a, NULL, 10), tb_pin_seed(0, "torch.seed"));
    assert_string_equal(tb_pin_choice_of(a, "data.sampler")->value, "@seed"); /* it follows */
    tb_pin_plan_free(a);
    tb_pin_plan_free(b);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void test_plan__a_teams_file_has_an_item_a_line(void **state)
{
    char path[] = "./test-plan-XXXXXX.pins", both[64];
    int fd = mkstemps(path, 5);

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    write_file(path,
               "# ours\n\n  strict # all of it\r\n!nccl.proto\nnccl.algo = allreduce:tree,ring\n");
    (void)snprintf(both, sizeof(both), "%s,!cuda.cublas_workspace", path);
    struct tb_pin_plan *p = PLAN(both);
    assert_asked(p, "nccl.algo", TB_PIN_SET, "allreduce:tree,ring");
    assert_asked(p, "nccl.proto", TB_PIN_LEAVE, NULL);
    assert_asked(p, "cuda.cublas_workspace", TB_PIN_LEAVE, NULL);
    assert_non_null(strstr(tb_pin_choice_of(p, "nccl.algo")->source, ".pins:5"));
    tb_pin_plan_free(p);

    write_file(path, "strict\ntorch.sed\n");
    assert_refused(path, TB_ERR_ARG,
                   ".pins:2: there is no pin 'torch.sed': was 'torch.seed' meant?");
    (void)unlink(path);
    assert_refused(path, TB_ERR_NOTFOUND, "cannot read the file of pins");
    assert_refused("./", TB_ERR_IO, "it is no regular file");
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody ever writes into it */
    assert_refused(path, TB_ERR_IO, "it is no regular file; write the pins into one");
    (void)unlink(path);
    assert_refused("/dev/zero", TB_ERR_IO, "it is no regular file");
}

static void test_plan__bad_words_are_refused(void **state)
{
    (void)state;
    assert_refused("", TB_ERR_ARG, "nothing is named");
    assert_refused(" , ", TB_ERR_ARG, "nothing is named");
    assert_refused("strickt", TB_ERR_ARG, "no pin or profile 'strickt'");
    assert_refused("!strict", TB_ERR_ARG, "'strict'");
    assert_refused("=5", TB_ERR_ARG, "neither a profile");
    assert_refused("torch.seed 5", TB_ERR_ARG, "neither a profile");
    assert_refused("torch.seed=", TB_ERR_ARG, "is no value");
    assert_refused("torch.seed=abc", TB_ERR_ARG, "is no value");
    assert_refused("torch.seed=4294967296", TB_ERR_ARG, "is no value");
    assert_refused("torch.seed=@sort", TB_ERR_ARG, "cannot be '@sort'");
    assert_refused("torch.seed=@nothing", TB_ERR_ARG, "no word of values");
    assert_refused("torch.deterministic=yes", TB_ERR_ARG, "is no value");
    assert_refused("system.umask=999", TB_ERR_ARG, "is no value");
    assert_refused("system.timezone=a\tb", TB_ERR_ARG, "is no value");
    assert_refused("nccl.ranks", TB_ERR_ARG, "can be seen, not held");
    assert_refused("cpu.omp_threads", TB_ERR_ARG, "give one, cpu.omp_threads=VALUE");
}

static void test_plan__is_written_for_the_job(void **state)
{
    struct tb_pin_plan *p = PLAN("strict");
    bool *jobs = calloc(p->count, sizeof(*jobs));
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    (void)state;
    assert_non_null(jobs);
    assert_non_null(f);
    jobs[tb_pin_choice_of(p, "system.timezone") - p->choice] = true;
    tb_pin_plan_write(p, jobs, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(strncmp(text, "twinbit-pins 1 0 0\n", 19), 0);
    assert_non_null(strstr(text, "\nnccl.algo\tenv\tset\tNCCL_ALGO\tRing\n"));
    assert_non_null(strstr(text, "\nsystem.timezone\tenv\tjob\tTZ\tUTC0\n"));
    assert_non_null(
        strstr(text, "\ncompile.xla\tenv\tadd\tXLA_FLAGS\t--xla_gpu_deterministic_ops=true\n"));
    assert_non_null(strstr(text, "\ncpu.omp_threads\tenv\tkeep\tOMP_NUM_THREADS\t\n"));
    size_t lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, p->count + 1);
    free(text);
    free(jobs);
    tb_pin_plan_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan__profiles_begin_anew),
        cmocka_unit_test(test_plan__each_profile_and_pin_can_be_had),
        cmocka_unit_test(test_plan__values_have_the_form_of_their_pin),
        cmocka_unit_test(test_plan__single_pins_come_and_go),
        cmocka_unit_test(test_plan__what_is_needed_comes_along),
        cmocka_unit_test(test_plan__of_a_conflict_the_named_one_stays),
        cmocka_unit_test(test_plan__seeds_follow_from_the_runs),
        cmocka_unit_test(test_plan__a_teams_file_has_an_item_a_line),
        cmocka_unit_test(test_plan__bad_words_are_refused),
        cmocka_unit_test(test_plan__is_written_for_the_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
