/* Device code in all its forms: fat binaries made here, those of nvcc where there is one, and cut
 * or damaged ones. Reads them as the driver does, without a device. */
#include "softgpu/driver/code.h"

#include <lz4.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

enum form { RAW, LZ4_BLOCK, ZSTD_FRAME };

struct builder {
    unsigned char *p;
    size_t n;
};

static void put(struct builder *b, size_t at, const void *value, size_t n)
{
    memcpy(b->p + at, value, n);
}

static void start(struct builder *b)
{
    const uint32_t magic = SG_FATBIN_MAGIC, versions = 1 | 16 << 16;

    b->p = calloc(1, 65536);
    assert_non_null(b->p);
    b->n = 16;
    put(b, 0, &magic, 4);
    put(b, 4, &versions, 4);
}

static void add(struct builder *b, uint16_t kind, uint32_t arch, const char *text, enum form form)
{
    char packed[4096];
    size_t plain = strlen(text), n = plain;
    const void *bytes = text;
    uint64_t flags = 0x11, padded, total;
    uint32_t header = 64, small = 0;

    if (form == LZ4_BLOCK) {
        n = (size_t)LZ4_compress_default(text, packed, (int)plain, sizeof(packed));
        flags |= 0x2000;
    } else if (form == ZSTD_FRAME) {
        n = ZSTD_compress(packed, sizeof(packed), text, plain, 3);
        flags |= 0x8000;
    }
    if (form != RAW) {
        bytes = packed;
        small = (uint32_t)n;
    }
    padded = (n + 7) & ~UINT64_C(7);
    put(b, b->n, &kind, 2);
    put(b, b->n + 4, &header, 4);
    put(b, b->n + 8, &padded, 8);
    put(b, b->n + 16, &small, 4);
    put(b, b->n + 28, &arch, 4);
    put(b, b->n + 40, &flags, 8);
    if (form != RAW)
        put(b, b->n + 56, &(uint64_t){plain}, 8);
    put(b, b->n + 64, bytes, n);
    b->n += 64 + padded;
    total = b->n - 16;
    put(b, 8, &total, 8);
}

static const char *ptx_for(unsigned arch)
{
    static char text[512];

    snprintf(text, sizeof(text),
             ".version 7.0\n.target sm_%u\n.address_size 64\n.visible .entry k%u()\n{\n ret;\n}\n"
             "// comment comment comment comment comment comment comment comment\n",
             arch, arch);
    return text;
}

static void test_fatbin__each_packing_gives_the_same_text(void **state)
{
    (void)state;
    for (int form = RAW; form <= ZSTD_FRAME; form++) {
        struct tb_error err = {0};
        struct builder b;
        struct sg_code code;

        start(&b);
        add(&b, 1, 80, ptx_for(80), (enum form)form);
        assert_int_equal(sg_code_read(b.p, SG_CODE_UNKNOWN_SIZE, 80, &code, &err), CUDA_SUCCESS);
        assert_int_equal(code.n, 1);
        assert_string_equal(code.texts[0].text, ptx_for(80));
        assert_int_equal(code.texts[0].len, strlen(ptx_for(80)));
        sg_code_clear(&code);
        free(b.p);
    }
}

static void test_fatbin__the_newest_ptx_that_runs_is_taken(void **state)
{
    static const struct {
        uint32_t device;
        unsigned want; /* 0: none */
    } cases[] = {{75, 75}, {80, 80}, {86, 80}, {89, 80}, {90, 90}, {70, 0}};
    struct builder b;

    (void)state;
    start(&b);
    add(&b, 2, 86, "machine code", RAW);
    add(&b, 1, 75, ptx_for(75), LZ4_BLOCK);
    add(&b, 1, 90, ptx_for(90), ZSTD_FRAME);
    add(&b, 64, 86, "something unknown", RAW);
    add(&b, 1, 80, ptx_for(80), RAW);
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        struct tb_error err = {0};
        struct sg_code code;
        CUresult r = sg_code_read(b.p, b.n, cases[i].device, &code, &err);

        if (cases[i].want) {
            assert_int_equal(r, CUDA_SUCCESS);
            assert_string_equal(code.texts[0].text, ptx_for(cases[i].want));
            sg_code_clear(&code);
        } else {
            assert_int_equal(r, CUDA_ERROR_NO_BINARY_FOR_GPU);
            assert_non_null(strstr(err.text, "built for sm_75 and newer"));
            assert_int_equal(code.n, 0);
        }
    }
    free(b.p);
}

static void test_fatbin__machine_code_alone_is_refused_with_advice(void **state)
{
    struct tb_error err = {0};
    struct builder b;
    struct sg_code code;

    (void)state;
    start(&b);
    add(&b, 2, 75, "machine code", RAW);
    assert_int_equal(sg_code_read(b.p, b.n, 80, &code, &err), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_string_equal(err.text, "built for sm_75 machine code only; add PTX with -gencode "
                                  "arch=compute_75,code=compute_75");
    free(b.p);
}

static void test_fatbin__the_wrapper_leads_to_it(void **state)
{
    struct builder a, b;
    struct {
        int magic, version;
        const void *data;
        void *list;
    } wrapper = {SG_FATBIN_WRAPPER, 1, NULL, NULL};
    struct tb_error err = {0};
    struct sg_code code;

    (void)state;
    start(&a);
    add(&a, 1, 75, ptx_for(75), RAW);
    start(&b);
    add(&b, 1, 80, ptx_for(80), ZSTD_FRAME);
    wrapper.data = a.p;
    assert_int_equal(sg_code_read(&wrapper, SG_CODE_UNKNOWN_SIZE, 80, &code, &err), CUDA_SUCCESS);
    assert_int_equal(code.n, 1);
    sg_code_clear(&code);
    /* relocatable code: a list that the driver links */
    const void *list[] = {a.p, b.p, NULL};
    wrapper.version = 2;
    wrapper.list = list;
    assert_int_equal(sg_code_read(&wrapper, SG_CODE_UNKNOWN_SIZE, 80, &code, &err), CUDA_SUCCESS);
    assert_int_equal(code.n, 2);
    assert_string_equal(code.texts[1].text, ptx_for(80));
    sg_code_clear(&code);
    free(a.p);
    free(b.p);
}

static void test_fatbin__cut_anywhere_it_is_refused(void **state)
{
    struct builder b;

    (void)state;
    start(&b);
    add(&b, 1, 75, ptx_for(75), LZ4_BLOCK);
    add(&b, 1, 80, ptx_for(80), ZSTD_FRAME);
    for (size_t n = 0; n < b.n; n++) {
        unsigned char *cut = malloc(n ? n : 1); /* so that a sanitizer sees a read beyond */
        struct tb_error err = {0};
        struct sg_code code;

        memcpy(cut, b.p, n);
        assert_int_equal(sg_code_read(cut, n, 80, &code, &err), CUDA_ERROR_INVALID_IMAGE);
        assert_true(err.text[0] != 0);
        free(cut);
    }
    free(b.p);
}

static void test_fatbin__damaged_bytes_never_crash(void **state)
{
    uint64_t x = 88172645463325252ull;
    unsigned good = 0;

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        struct tb_error err = {0};
        struct builder b;
        struct sg_code code;
        unsigned char *exact;

        start(&b);
        add(&b, 1, 75, ptx_for(75), (enum form)(round % 3));
        for (unsigned k = 0; k < 1 + round % 4; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            b.p[(x >> 8) % b.n] = (unsigned char)(round & 1 ? x : 1u << (x & 7));
        }
        exact = malloc(b.n);
        memcpy(exact, b.p, b.n);
        if (sg_code_read(exact, b.n, 80, &code, &err) == CUDA_SUCCESS) {
            good++;
            sg_code_clear(&code);
        }
        free(exact);
        free(b.p);
    }
    assert_in_range(good, 1, 19999); /* both ways were gone */
}

static void test_pack__texts_come_back_and_cut_ones_are_refused(void **state)
{
    struct tb_error err = {0};
    struct sg_code code = {0}, back;
    void *image;
    size_t size;

    (void)state;
    for (unsigned arch = 75; arch < 78; arch++)
        assert_int_equal(sg_code_add(&code, ptx_for(arch), strlen(ptx_for(arch))), CUDA_SUCCESS);
    assert_int_equal(sg_code_pack(&code, &image, &size), CUDA_SUCCESS);
    assert_int_equal(sg_code_read(image, SG_CODE_UNKNOWN_SIZE, 80, &back, &err), CUDA_SUCCESS);
    assert_int_equal(back.n, 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(back.texts[i].text, code.texts[i].text);
    sg_code_clear(&back);
    for (size_t n = 0; n < size; n++)
        assert_int_equal(sg_code_read(image, n, 80, &back, &err), CUDA_ERROR_INVALID_IMAGE);
    free(image);
    sg_code_clear(&code);
}

/* Files that the build made of one source with nvcc: SG_TEST_FATBINS is their folder. */
static void test_nvcc__all_its_compressions_are_read(void **state)
{
    static const char *const files[] = {"zstd", "lz4", "none", "size"};
    const char *folder = getenv("SG_TEST_FATBINS");

    (void)state;
    if (!folder || !*folder) {
        print_message("no nvcc made fat binaries for this test\n");
        skip();
    }
    for (size_t i = 0; i < TB_ARRAY_LEN(files); i++) {
        struct tb_error err = {0};
        struct sg_code code;
        char path[4200], *data = malloc(1 << 20);
        size_t n;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s.fatbin", folder, files[i]);
        f = fopen(path, "rb");
        assert_non_null(f);
        n = fread(data, 1, 1 << 20, f);
        fclose(f);
        if (sg_code_read(data, n, 80, &code, &err) != CUDA_SUCCESS)
            fail_msg("%s: %s", path, err.text);
        assert_int_equal(code.n, 1);
        assert_non_null(strstr(code.texts[0].text, ".target sm_80"));
        assert_non_null(strstr(code.texts[0].text, ".entry add_one"));
        sg_code_clear(&code);
        assert_int_equal(sg_code_read(data, n, 75, &code, &err), CUDA_SUCCESS);
        assert_non_null(strstr(code.texts[0].text, ".target sm_75"));
        sg_code_clear(&code);
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fatbin__each_packing_gives_the_same_text),
        cmocka_unit_test(test_fatbin__the_newest_ptx_that_runs_is_taken),
        cmocka_unit_test(test_fatbin__machine_code_alone_is_refused_with_advice),
        cmocka_unit_test(test_fatbin__the_wrapper_leads_to_it),
        cmocka_unit_test(test_fatbin__cut_anywhere_it_is_refused),
        cmocka_unit_test(test_fatbin__damaged_bytes_never_crash),
        cmocka_unit_test(test_pack__texts_come_back_and_cut_ones_are_refused),
        cmocka_unit_test(test_nvcc__all_its_compressions_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
