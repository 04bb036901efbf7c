/* Site texts: what parses, what it says, and what is refused with the line it is in. */
#include "make.h"

#include "store/store_internal.h"

static void refused(const char *text, const char *words)
{
    struct tb_site_full *f = NULL;
    struct tb_error err = {0};

    assert_int_equal(tb_site_parse(text, strlen(text), &f, &err), TB_ERR_FORMAT);
    assert_null(f);
    if (!strstr(err.text, words))
        fail_msg("'%s' lacks '%s'", err.text, words);
}

static void test_site__refuses_what_is_malformed(void **state)
{
    (void)state;
    refused("", "two whole lines");
    refused("torch\n", "two whole lines");
    refused("torch\nname", "two whole lines");
    refused("\nname\n", "empty");
    refused("cuda\n\tgrid=1,1,1\n", "empty");
    refused("torch\n\n", "empty");
    refused("torch\nname\nr f32 cpu [2] -\n", "line 3: fewer than six words");
    refused("torch\nname\nr f32 cpu [2] - a\n\n", "line 4");
    refused("torch\nname\ny f32 cpu [2] - a\n", "no such mode");
    refused("torch\nname\nrw f32 cpu [2] - a\n", "no such mode");
    refused("torch\nname\nr f33 cpu [2] - a\n", "no such dtype");
    refused("torch\nname\nr f32 cpu 2 - a\n", "list of sizes");
    refused("torch\nname\nr f32 cpu [2 - a\n", "list of sizes");
    refused("torch\nname\nr f32 cpu [2,] - a\n", "list of sizes");
    refused("torch\nname\nr f32 cpu [x] - a\n", "list of sizes");
    refused("torch\nname\nr f32 cpu [2]] - a\n", "list of sizes");
    refused("torch\nname\nr f32 cpu [2] [1,2] a\n", "strides");
    refused("torch\nname\nr f32 cpu [-2] - a\n", "out of range");
    refused("torch\nname\nr f32 cpu [99999999999999999999] - a\n", "list of sizes");
    refused("torch\nname\nr f32 cpu [4611686018427387904,4] - a\n", "out of range");
    refused("torch\nname\nr f32 cpu [4] [9223372036854775807] a\n", "out of range");
}

static struct tb_site_full *parse(const char *text)
{
    struct tb_site_full *f = NULL;

    assert_ok(tb_site_parse(text, strlen(text), &f, &make_error));
    return f;
}

static void test_site__tells_layout_and_span(void **state)
{
    static const struct {
        const char *words;
        uint64_t elements, bytes;
        int64_t lo, hi;
    } cases[] = {
        {"f32 cpu [] -", 1, 4, 0, 4},
        {"f32 cpu [2,3] -", 6, 24, 0, 24},
        {"f64 cpu [2,0] -", 0, 0, 0, 0},
        {"f64 cpu [2,0] [7,1]", 0, 0, 0, 0},
        {"bf16 cpu [2,3] [1,2]", 6, 12, 0, 12},
        {"f32 cpu [2,3] [10,1]", 6, 24, 0, 52},
        {"f32 cpu [4,3] [0,1]", 12, 12, 0, 12}, /* broadcast: stored once */
        {"f32 cpu [1,3] [0,1]", 3, 12, 0, 12},
        {"u8 cpu [4] [-2]", 4, 4, -6, 1},
        {"? cpu [4] -", 4, 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "torch\naten::op\nr %s the name\n", cases[i].words);
        struct tb_site_full *f = parse(text);
        const struct tb_site_access *a = f->site.access;
        assert_int_equal(a->elements, cases[i].elements);
        assert_int_equal(a->bytes, cases[i].bytes);
        assert_int_equal(a->span_lo, cases[i].lo);
        assert_int_equal(a->span_hi, cases[i].hi);
        assert_string_equal(a->argument, "the name");
        assert_string_equal(a->device, "cpu");
        assert_string_equal(f->site.text, text);
        free(f);
    }
}

static void test_site__knows_the_kind_of_each_mode(void **state)
{
    struct tb_site_full *f =
        parse("torch\nop\nr f32 cpu [2] - a\nw f32 cpu [2] [3] b\ng u8 cpu [] - c\n"
              "h f64 cpu [] - d\ns f32 cuda:1 [2] - e f\nx ? meta [] - g\n"
              "q ? cuda:1 [] - stream\n");
    static const uint8_t want[] = {TB_FP_BYTES,
                                   TB_FP_ROWMAJOR | TB_TRAIT_DIGEST,
                                   TB_FP_STATE | TB_TRAIT_DIGEST,
                                   TB_FP_SCALAR | TB_TRAIT_DIGEST,
                                   TB_FP_BYTES | TB_TRAIT_DIGEST,
                                   TB_FP_BYTES,
                                   TB_FP_BYTES};

    (void)state;
    assert_int_equal(f->site.access_count, 7);
    assert_memory_equal(f->traits, want, sizeof(want));
    assert_string_equal(f->site.tap, "torch");
    assert_string_equal(f->site.name, "op");
    assert_string_equal(f->site.detail, "");
    assert_string_equal(f->site.access[4].argument, "e f");
    assert_string_equal(f->site.access[4].device, "cuda:1");
    assert_int_equal(f->site.access[1].strides[0], 3);
    assert_null(f->site.access[0].strides);
    free(f);
}

static void test_site__a_name_may_have_more_behind_it(void **state)
{
    struct tb_site_full *f = parse("cuda\nfill\tgrid=2,1,1\tblock=64,1,1\timage=\tatomics\n");
    size_t n = 99;
    const char *grid = tb_site_value(&f->site, "grid", &n);

    (void)state;
    assert_string_equal(f->site.name, "fill");
    assert_string_equal(f->site.detail, "grid=2,1,1\tblock=64,1,1\timage=\tatomics");
    assert_int_equal(n, 5);
    assert_memory_equal(grid, "2,1,1", n);
    assert_non_null(tb_site_value(&f->site, "image", &n));
    assert_int_equal(n, 0);
    assert_null(tb_site_value(&f->site, "atomics", &n)); /* no value */
    assert_null(tb_site_value(&f->site, "gri", &n));
    assert_null(tb_site_value(&f->site, "rid", &n));
    free(f);
}

static void test_site__any_text_is_parsed_or_refused(void **state)
{
    static const char seed[] =
        "torch\naten::op\nr f32 cpu [2,3] [10,1] a b\nw bf16 cuda:0 [] - out\n";
    uint64_t r = make_seed(61);
    unsigned parsed = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char text[sizeof(seed)];
        size_t n = make_rand(&r) % 8 ? sizeof(seed) - 1 : make_rand(&r) % sizeof(seed);
        struct tb_site_full *f;
        memcpy(text, seed, sizeof(seed));
        for (unsigned k = make_rand(&r) % 3; k > 0; k--)
            text[make_rand(&r) % (sizeof(seed) - 1)] = " \n[],-0129frwgx\t\0z"[make_rand(&r) % 18];
        if (tb_site_parse(text, n, &f, NULL) == TB_OK) {
            parsed++;
            free(f);
        }
    }
    assert_true(parsed > 1000 && parsed < 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_site__refuses_what_is_malformed),
        cmocka_unit_test(test_site__tells_layout_and_span),
        cmocka_unit_test(test_site__knows_the_kind_of_each_mode),
        cmocka_unit_test(test_site__a_name_may_have_more_behind_it),
        cmocka_unit_test(test_site__any_text_is_parsed_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
