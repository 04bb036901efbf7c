/* Instructions in files: what counts, what is only bytes, damaged files. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "collector/code.h"
#include "collector/instructions.h"

#define TEST(name) cmocka_unit_test(test_code__##name)
#define MOST ((uint64_t)1 << 32)

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* ---------------------------------------------------------------- aarch64 */

static size_t all_arm(const uint32_t *words, size_t n, size_t count[TB_CODE_KINDS])
{
    uint8_t bytes[256 + TB_CODE_AHEAD] = {0};
    size_t found = 0;

    memset(count, 0, TB_CODE_KINDS * sizeof(*count));
    for (size_t i = 0; i < 4 * n; i++)
        bytes[i] = (uint8_t)(words[i / 4] >> (8 * (i % 4)));
    for (size_t i = 0; (i = tb_code_arm.next(bytes, 4 * n, i)) < 4 * n; i++) {
        enum tb_code_kind kind = TB_CODE_KINDS;
        size_t at = 0;
        assert_true(tb_code_arm.decode(bytes, 4 * n, true, &at, i, &kind));
        assert_int_equal(at, i + 4);
        count[kind]++;
        found++;
    }
    return found;
}

static void test_code__aarch64_registers_by_their_names(void **state)
{
    static const uint32_t words[] = {
        0xD53B2400, /* mrs x0, RNDR */
        0xD53B243E, /* mrs x30, RNDRRS */
        0xD53BE041, /* mrs x1, CNTVCT_EL0 */
        0xD53BE0DF, /* mrs xzr, CNTVCTSS_EL0 */
        0xD53BE000, /* mrs x0, CNTFRQ_EL0 */
        0xD51BE040, /* msr, not mrs */
        0xD53B4200, /* mrs x0, NZCV */
        0xD503201F, /* nop */
    };
    static const uint32_t astride[] = {0x24000000, 0x0000D53B};
    size_t count[TB_CODE_KINDS];

    (void)state;
    assert_int_equal(all_arm(words, TB_ARRAY_LEN(words), count), 4);
    assert_int_equal(count[TB_CODE_RANDOM], 2);
    assert_int_equal(count[TB_CODE_CLOCK], 2);
    assert_int_equal(all_arm(astride, 2, count), 0);
}

/* ---------------------------------------------------------------- no file to look into */

static void test_code__what_cannot_be_looked_into_says_why(void **state)
{
    Elf64_Ehdr h = {.e_ident = {0x7F, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB}};
    struct tb_code_found f;
    struct tb_error err;

    (void)state;
    assert_int_equal(tb_code_look("./absent", MOST, &f, &err), TB_ERR_IO);
    assert_non_null(strstr(err.text, "cannot open './absent'"));
    assert_int_equal(tb_code_look("/", MOST, &f, &err), TB_ERR_IO);
    write_file("code-bad", "#!/bin/sh\n", 10);
    assert_int_equal(tb_code_look("code-bad", MOST, &f, &err), TB_ERR_FORMAT);
    write_file("code-bad", &h, sizeof(h));
    assert_int_equal(tb_code_look("code-bad", MOST, &f, &err), TB_ERR_FORMAT);
    assert_int_equal(unlink("code-bad"), 0);
    assert_int_equal(tb_code_look("/proc/self/exe", 1, &f, &err), TB_ERR_LIMIT);
}

#ifdef TEST_CODE
/* ---------------------------------------------------------------- x86-64 */

static char *read_job(size_t *n)
{
    FILE *f = fopen(TEST_CODE, "rb");
    char *bytes;

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    bytes = malloc(*n);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    (void)fclose(f);
    return bytes;
}

static void expect_all(const char *path, struct tb_code_found *f)
{
    struct tb_error err;

    if (tb_code_look(path, MOST, f, &err) != TB_OK)
        fail_msg("%s", err.text);
    assert_int_equal(f->count[TB_CODE_CLOCK], 4);
    assert_int_equal(f->count[TB_CODE_RANDOM], 3);
    assert_true(f->bytes > 1300000 && !f->cut);
}

static void test_code__instructions_count_and_their_bytes_elsewhere_do_not(void **state)
{
    struct tb_code_found f;

    (void)state;
    expect_all(TEST_CODE, &f);
    assert_string_equal(f.functions[TB_CODE_RANDOM], "code_random");
    assert_string_equal(f.functions[TB_CODE_CLOCK], "code_clock, code_long, code_bare");
}

/* Functions by the table for unwinding alone, and by nothing at all */
static void test_code__so_without_sections_and_without_tables(void **state)
{
    struct tb_code_found f;
    size_t n;
    char *bytes = read_job(&n);
    Elf64_Ehdr *h = (void *)bytes;
    Elf64_Phdr *p = (void *)(bytes + h->e_phoff);

    (void)state;
    h->e_shoff = h->e_shnum = 0;
    write_file("code-bare", bytes, n);
    expect_all("code-bare", &f);
    assert_string_equal(f.functions[TB_CODE_CLOCK], "");
    for (unsigned i = 0; i < h->e_phnum; i++)
        if (p[i].p_type == PT_GNU_EH_FRAME)
            p[i].p_type = PT_NULL;
    write_file("code-bare", bytes, n);
    expect_all("code-bare", &f);
    assert_int_equal(unlink("code-bare"), 0);
    free(bytes);
}

static uint32_t draw(uint64_t *x)
{
    *x = *x * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*x >> 33);
}

/* Its headers, or the tables behind its code, or its length: it ends, whatever is found */
static void test_code__damaged_files_end(void **state)
{
    struct tb_code_found f;
    struct tb_error err;
    uint64_t x = 1;
    size_t n;
    char *bytes = read_job(&n), *copy = malloc(n);

    (void)state;
    for (int i = 0; i < 48; i++) {
        size_t tail = n < 16384 ? n : 16384, size = i % 3 ? n : draw(&x) % n;
        memcpy(copy, bytes, n);
        for (int k = 0; k < 16; k++)
            copy[i % 2 ? draw(&x) % 1024 : n - 1 - draw(&x) % tail] = (char)draw(&x);
        write_file("code-damaged", copy, size);
        enum tb_status st = tb_code_look("code-damaged", MOST, &f, &err);
        assert_true(st == TB_OK || st == TB_ERR_FORMAT || st == TB_ERR_LIMIT);
    }
    assert_int_equal(unlink("code-damaged"), 0);
    free(bytes);
    free(copy);
}
#endif

/* ---------------------------------------------------------------- programs of a job */

static void test_code__files_are_looked_into_once_and_belong_to_their_programs(void **state)
{
    struct tb_pin_plan *plan = tb_pin_plan_new();
    struct tb_error err;

    (void)state;
    assert_int_equal(tb_pin_plan_add(plan, "strict", &err), TB_OK);
    assert_int_equal(tb_pin_plan_finish(plan, 0, &err), TB_OK);
    assert_null(tb_instructions_new(plan)); /* nobody asks */
    plan->decisions = true;
    struct tb_instructions *t = tb_instructions_new(plan);
    assert_non_null(t);
    tb_instructions_process(t);
    tb_instructions_add(t, "/a/lost.so", false); /* before any program */
    for (int i = 0; i < 300; i++) {
        char path[40];
        tb_instructions_process(t);
        (void)snprintf(path, sizeof(path), "/a/program%d", i % 290);
        tb_instructions_add(t, path, true);
        tb_instructions_add(t, "/x/lib/site-packages/numpy.libs/libblas.so", false);
        tb_instructions_add(t, "relative.so", false);
    }
    assert_int_equal(t->programs, TB_INSTRUCTIONS_PROGRAMS);
    assert_int_equal(t->more, 290 - TB_INSTRUCTIONS_PROGRAMS);
    tb_instructions_end(t);
    tb_instructions_end(t); /* an exec that failed, then its end */
    assert_true(t->processes == 301 && t->ended == 1);
    assert_int_equal(t->files, 292);
    assert_int_equal(t->file[0].kind, TB_FILE_OWN);
    assert_int_equal(t->file[0].in[0], 0);
    assert_int_equal(t->file[2].kind, TB_FILE_PACKAGE);
    for (int i = 0; i < 4; i++)
        assert_true(t->file[2].in[i] == UINT64_MAX);
    assert_int_equal(t->file[1].in[0], 1);
    tb_instructions_look(t);
    assert_true(t->looked == 0 && t->unread == 292 && t->late == 0);
    tb_instructions_free(t);
    tb_pin_plan_free(plan);
}

static void test_code__what_always_holds_some_is_left_out(void **state)
{
    static const struct {
        const char *path;
        int kind;
    } files[] = {{"/usr/bin/python3.11", TB_FILE_KNOWN},
                 {"/data/u/python3-job", TB_FILE_OWN},
                 {"/opt/c/lib/libstdc++.so.6", TB_FILE_KNOWN},
                 {"/x/site-packages/cryptography.libs/libcrypto.so.3", TB_FILE_KNOWN},
                 {"/x/lib/python3.11/lib-dynload/_random.so", TB_FILE_SYSTEM},
                 {"/usr/lib/python3/dist-packages/a/b.so", TB_FILE_PACKAGE},
                 {"/usr/lib/x86_64-linux-gnu/libprotobuf.so", TB_FILE_SYSTEM},
                 {"/data/u/libmodel.so", TB_FILE_OWN}};
    struct tb_pin_plan *plan = tb_pin_plan_new();
    struct tb_error err;

    (void)state;
    assert_int_equal(tb_pin_plan_add(plan, "basic", &err), TB_OK);
    assert_int_equal(tb_pin_plan_finish(plan, 0, &err), TB_OK);
    plan->decisions = true;
    struct tb_instructions *t = tb_instructions_new(plan);
    assert_non_null(t);
    for (size_t i = 0; i < TB_ARRAY_LEN(files); i++) {
        tb_instructions_add(t, files[i].path, i == 0);
        if ((int)t->file[i].kind != files[i].kind)
            fail_msg("'%s' is of kind %d", files[i].path, (int)t->file[i].kind);
    }
    tb_instructions_free(t);
    tb_pin_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(aarch64_registers_by_their_names),
        TEST(what_cannot_be_looked_into_says_why),
#ifdef TEST_CODE
        TEST(instructions_count_and_their_bytes_elsewhere_do_not),
        TEST(so_without_sections_and_without_tables),
        TEST(damaged_files_end),
#endif
        TEST(files_are_looked_into_once_and_belong_to_their_programs),
        TEST(what_always_holds_some_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
