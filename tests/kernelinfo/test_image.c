/* The forms in which PTX comes, and what is refused. */
#include "kernelinfo/kernelinfo.h"
#include "tests/kernelinfo/dump.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <lz4.h>
#include <zstd.h>

#define HEAD ".version 8.0\n.target sm_80\n"
#define ENTRY(name, body)                                                                          \
    ".visible .entry " name "(.param .u64 p, .param .u64 q)\n{\n.reg .b64 %d<4>;\n"                \
    "ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q];\n" body "\nret;\n}\n"
#define WRITES_P ENTRY("k", "st.global.u32 [%d1], 1;")
#define WRITES_Q ENTRY("k", "st.global.f32 [%d2], 0f00000000;")

struct packer {
    char bytes[16384];
    size_t n;
};

enum form { PLAIN, LZ4, ZSTD };

static void put(struct packer *p, size_t at, const void *from, size_t n)
{
    memcpy(p->bytes + at, from, n);
}

static void start(struct packer *p)
{
    const uint32_t magic = 0xba55ed50, head = 16 << 16 | 1;

    memset(p, 0, sizeof(*p));
    put(p, 0, &magic, 4);
    put(p, 4, &head, 4);
    p->n = 16;
}

static void add_bytes(struct packer *p, uint16_t kind, uint32_t arch, enum form form,
                      const char *text, size_t bytes)
{
    const uint32_t header = 64;
    const uint64_t flags = form == LZ4 ? 0x2000 : form == ZSTD ? 0x8000 : 0, plain = bytes;
    size_t n = plain, at = p->n;
    uint64_t size, rest;
    uint32_t packed;

    if (form == LZ4)
        n = (size_t)LZ4_compress_default(text, p->bytes + at + 64, (int)plain, 4096);
    else if (form == ZSTD)
        n = ZSTD_compress(p->bytes + at + 64, 4096, text, plain, 3);
    else
        memcpy(p->bytes + at + 64, text, n);
    packed = form == PLAIN ? 0 : (uint32_t)n;
    size = (n + 7) / 8 * 8;
    put(p, at, &kind, 2);
    put(p, at + 4, &header, 4);
    put(p, at + 8, &size, 8);
    put(p, at + 16, &packed, 4);
    put(p, at + 28, &arch, 4);
    put(p, at + 40, &flags, 8);
    if (form != PLAIN)
        put(p, at + 56, &plain, 8);
    p->n += 64 + size;
    rest = p->n - 16;
    put(p, 8, &rest, 8);
}

static void add(struct packer *p, uint16_t kind, uint32_t arch, enum form form, const char *text)
{
    add_bytes(p, kind, arch, form, text, strlen(text) + (form == PLAIN));
}

static void must_be(const void *image, size_t n, const char *wanted, const char *error)
{
    struct tb_error err = {0};
    struct tb_wire_kernels *t = NULL;
    char line[4096];
    size_t bytes = 0;

    if (tb_kernelinfo(image, n, (void **)&t, &bytes, &err) != TB_OK)
        fail_msg("%s", err.text);
    assert_int_equal(t->kernels, 1);
    assert_int_equal(ki_kernels(t)->param_bytes, 16);
    assert_int_equal(ki_kernels(t)->name, tb_fp_leaf_hash("k", 1).lo);
    ki_dump(t, 0, line, sizeof(line));
    assert_string_equal(line, wanted);
    assert_string_equal(err.text, error);
    free(t);
}

static void must_fail(const void *image, size_t n, enum tb_status status, const char *text)
{
    struct tb_error err = {0};
    void *t = NULL;
    size_t bytes = 7;

    assert_int_equal(tb_kernelinfo(image, n, &t, &bytes, &err), status);
    assert_string_equal(err.text, text);
    assert_null(t);
    assert_int_equal(bytes, 7);
}

static void test_image__plain_and_packed(void **state)
{
    struct packer p;

    (void)state;
    must_be(HEAD WRITES_P, strlen(HEAD WRITES_P), "k 0:8=w/u32 8:8=v", "");
    must_be("\n// a comment\n" HEAD WRITES_P, sizeof("\n// a comment\n" HEAD WRITES_P),
            "k 0:8=w/u32 8:8=v", "");
    for (enum form form = PLAIN; form <= ZSTD; form++) {
        start(&p);
        add(&p, 1, 80, form, HEAD WRITES_P);
        must_be(p.bytes, p.n, "k 0:8=w/u32 8:8=v", "");
    }
}

/* Which one the driver takes is not known: a kernel may do what any of them does. */
static void test_image__several_ptx(void **state)
{
    struct packer p, two;

    (void)state;
    start(&p);
    add(&p, 1, 80, ZSTD, HEAD WRITES_P);
    add(&p, 2, 90, PLAIN, "machine code");
    add(&p, 1, 90, LZ4, HEAD WRITES_Q);
    must_be(p.bytes, p.n, "k 0:8=wv/u32 8:8=wv/f32", "");
    two = p;
    memcpy(two.bytes + two.n, p.bytes, p.n);
    must_be(two.bytes, 2 * p.n, "k 0:8=wv/u32 8:8=wv/f32", "");
}

static void test_image__one_that_cannot_be_read_leaves_doubt(void **state)
{
    struct packer p;

    (void)state;
    start(&p);
    add(&p, 1, 80, ZSTD, HEAD WRITES_P);
    add(&p, 1, 100, ZSTD, HEAD ENTRY("k", "newest.thing [%d2];"));
    must_be(p.bytes, p.n, "k 0:8=w/u32 8:8=v UNTRACED_WRITE UNTRACED_READ",
            "ptx:7: unknown instruction 'newest'");
}

static void test_image__refused(void **state)
{
    static const char ptx[] = HEAD ENTRY("k", "newest.thing [%d2];");
    struct packer p;

    (void)state;
    must_fail(ptx, strlen(ptx), TB_ERR_FORMAT, "ptx:7: unknown instruction 'newest'");
    must_fail("", 0, TB_ERR_FORMAT, "neither PTX nor a fat binary");
    must_fail("junk", 4, TB_ERR_FORMAT, "neither PTX nor a fat binary");
    start(&p);
    add(&p, 3, 90, PLAIN, "neither");
    must_fail(p.bytes, p.n, TB_ERR_UNSUPPORTED, "neither PTX nor machine code");
    must_fail(p.bytes, p.n - 1, TB_ERR_FORMAT, "fat binary: a size beyond its end at byte 8");
    start(&p);
    add(&p, 1, 80, ZSTD, HEAD WRITES_P);
    p.bytes[16 + 64 + 9] ^= 0x55;
    must_fail(p.bytes, p.n, TB_ERR_FORMAT, "fat binary: damaged zstd at byte 0");
}

/* ---------------------------------------------------------------- machine code */

/* An ELF file with one section of that name, and a symbol of data in it; NULL: no table of symbols.
 */
static size_t make_elf(char *to, const char *section, const char *symbol)
{
    static const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                                    .e_shoff = sizeof(head),
                                    .e_shentsize = sizeof(Elf64_Shdr),
                                    .e_shnum = 4,
                                    .e_shstrndx = 2};
    const size_t texts = sizeof(head) + 4 * sizeof(Elf64_Shdr), syms = texts + 128;
    const Elf64_Shdr sections[4] = {
        {.sh_type = SHT_NULL},
        {.sh_type = SHT_NOBITS, .sh_name = 1, .sh_size = 8, .sh_offset = 1 << 20},
        {.sh_type = SHT_STRTAB, .sh_offset = texts, .sh_size = 128},
        {.sh_type = symbol ? SHT_SYMTAB : SHT_NOTE,
         .sh_offset = syms,
         .sh_size = 2 * sizeof(Elf64_Sym),
         .sh_link = 2}};
    const Elf64_Sym sym = {
        .st_name = 64, .st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), .st_shndx = 1};

    memset(to, 0, syms + 2 * sizeof(sym));
    memcpy(to, &head, sizeof(head));
    memcpy(to + sizeof(head), sections, sizeof(sections));
    strcpy(to + texts + 1, section);
    strcpy(to + texts + 64, symbol ? symbol : "");
    memcpy(to + syms + sizeof(sym), &sym, sizeof(sym));
    return syms + 2 * sizeof(sym);
}

static void must_have(const void *image, size_t n, uint32_t kernels, uint32_t variables)
{
    struct tb_error err = {0};
    struct tb_wire_kernels *t = NULL;
    size_t bytes = 0;

    if (tb_kernelinfo(image, n, (void **)&t, &bytes, &err) != TB_OK)
        fail_msg("%s", err.text);
    assert_int_equal(t->kernels, kernels);
    assert_int_equal(t->variables, variables);
    free(t);
}

static void test_image__variables_of_machine_code(void **state)
{
    char elf[2048];
    size_t n;

    (void)state;
    must_have(elf, make_elf(elf, ".nv.global", "g"), 0, 1);
    must_have(elf, make_elf(elf, ".nv.global.init", "g"), 0, 1);
    must_have(elf, make_elf(elf, ".nv.constant3", "c"), 0, 1);
    must_have(elf, make_elf(elf, ".nv.constant0.k", "c"), 0, 0); /* parameters */
    must_have(elf, make_elf(elf, ".nv.shared.k", "s"), 0, 0);
    must_have(elf, make_elf(elf, ".nv.global.init", "$str$1"), 0, 0);
    must_have(elf, make_elf(elf, ".nv.global", NULL), 0, 1);
    must_have(elf, make_elf(elf, ".nv.constant0", NULL), 0, 0);
    n = make_elf(elf, ".nv.shared.k", "s");
    for (size_t cut = 4; cut < n; cut++) /* what cannot be read may have some */
        must_have(elf, cut, 0, 1);
}

static void test_image__variables_of_fat_binaries(void **state)
{
    struct packer p;
    char elf[2048];
    size_t n = make_elf(elf, ".nv.shared.k", "s");

    (void)state;
    for (enum form form = PLAIN; form <= ZSTD; form++) {
        start(&p);
        add_bytes(&p, 2, 90, form, elf, n);
        must_have(p.bytes, p.n, 0, 0);
        add(&p, 1, 80, form, HEAD WRITES_P);
        must_have(p.bytes, p.n, 1, 0);
        add(&p, 1, 90, form, HEAD ".global .u32 g; .const .u32 c; .shared .u32 s;" WRITES_P);
        must_have(p.bytes, p.n, 1, 2);
    }
    start(&p);
    add(&p, 2, 90, PLAIN, "machine code");
    must_have(p.bytes, p.n, 0, 1);
}

static void test_image__cancelled(void **state)
{
    static const char ptx[] = HEAD WRITES_P;
    struct tb_error err = {0};
    const int cancel = 1;
    void *t = NULL;
    size_t n;

    (void)state;
    assert_int_equal(tb_kernelinfo_until(ptx, strlen(ptx), &cancel, &t, &n, &err), TB_ERR_BUSY);
    assert_null(t);
}

/* Rounds over the instructions are bounded: this one needs as many as it has instructions. */
static void test_image__what_takes_too_long_is_given_up(void **state)
{
    enum { LINES = 2000 };
    char *text = malloc(64 * LINES), *at = text;
    struct tb_wire_kernels *t = NULL;
    struct tb_error err = {0};
    char line[4096];
    size_t n;

    (void)state;
    assert_non_null(text);
    at += sprintf(at,
                  HEAD ".visible .entry k(.param .u64 p, .param .u64 q)\n{\n"
                       ".reg .b64 %%d<%d>;\nld.param.u64 %%d0, [p];\n",
                  LINES + 1);
    for (int i = LINES; i > 0; i--)
        at += sprintf(at, "add.s64 %%d%d, %%d%d, 8;\n", i, i - 1);
    sprintf(at, "st.global.u32 [%%d%d], 1;\nret;\n}\n", LINES);
    assert_int_equal(tb_kernelinfo(text, strlen(text), (void **)&t, &n, &err), TB_OK);
    ki_dump(t, 0, line, sizeof(line));
    assert_string_equal(line, "k 0:8=rwv 8:8=rwv INDIRECT_WRITE INDIRECT_READ UNTRACED_WRITE "
                              "UNTRACED_READ");
    free(t);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image__plain_and_packed),
        cmocka_unit_test(test_image__several_ptx),
        cmocka_unit_test(test_image__one_that_cannot_be_read_leaves_doubt),
        cmocka_unit_test(test_image__refused),
        cmocka_unit_test(test_image__variables_of_machine_code),
        cmocka_unit_test(test_image__variables_of_fat_binaries),
        cmocka_unit_test(test_image__cancelled),
        cmocka_unit_test(test_image__what_takes_too_long_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
