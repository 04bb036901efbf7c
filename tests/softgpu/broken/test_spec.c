/* Specifications: what is taken, what is refused and with which words, and no text crashes. */
#include "tests/softgpu/broken/broken_test.h"

static struct sg_specs specs;

static enum tb_status parse(const char *text, struct tb_error *err)
{
    return sg_specs_parse(text, 2, 4, &specs, err);
}

static const char *const good[] = {
    "device=1 sm=3 unit=fma bit=13 rate=1e-6 when=|x|>4 seed=42",
    "unit=int",
    "unit=f64 model=stuck1 bit=62",
    "unit=sfu model=ulp kernel=*softmax*",
    "unit=tensor lanes=4g rate=0.25",
    "unit=tensor lanes=4g7 launch=5..",
    "unit=ldst at=address bit=40 warp=0-3",
    "op=fma.rn.f32 lanes=0,3,8-11 launch=1..9,12",
    "op=*.f32 lanes=0xff00 bit=exponent",
    "unit=fma when=x<=0.5 model=previous",
    "unit=fma when=exponent>=-3 bit=mantissa",
    "unit=fma when=x!=-1e3 bit=sign model=random",
    "unit=fma rate=1e-4 ageing=2/1000 after=10",
    "unit=fma rate=1e-4 ageing=1.5/hour after=2.5s",
    "unit=fma rate=1e-4 ageing=3/60s",
    "mem=0x7f0000000040 bit=3 model=stuck0",
    "mem=alloc#2+64 bit=0,7 after=3",
    "mem=alloc#1 bit=5",
    "l2line=77 bit=1023 rate=0.5",
    "unit=copy dir=d2h rate=1e-3 bit=0-31 model=random",
    "  unit=int\t;; \n op=add ;",
    "",
};

static void test_spec__takes_every_word(void **state)
{
    struct tb_error err = {0};

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(good); i++)
        if (parse(good[i], &err) != TB_OK)
            fail_msg("'%s': %s", good[i], err.text);
    assert_int_equal(parse(good[0], &err), TB_OK);
    assert_int_equal(specs.n, 1);
    assert_int_equal(specs.s[0].unit, SG_UNIT_FMA);
    assert_int_equal(specs.s[0].device.r[0].from, 1);
    assert_int_equal(specs.s[0].bit.r[0].to, 13);
    assert_int_equal(specs.s[0].seed, 42);
    assert_int_equal(specs.s[0].when.what, SG_WHEN_ABS);
    assert_int_equal(specs.s[0].when.is, SG_GT);
    assert_float_equal(specs.s[0].rate, 1e-6, 0);
    assert_int_equal(parse(good[5], &err), TB_OK);
    assert_int_equal(specs.s[0].lanes, 0xf0000000u);
    assert_int_equal(specs.s[0].group, 4);
    assert_true(specs.s[0].launch.r[0].to == UINT64_MAX);
    assert_int_equal(parse(good[7], &err), TB_OK);
    assert_int_equal(specs.s[0].lanes, 0xf09);
    assert_int_equal(parse(good[16], &err), TB_OK);
    assert_int_equal(specs.s[0].alloc, 2);
    assert_int_equal(specs.s[0].addr, 64);
    assert_int_equal(parse(good[20], &err), TB_OK);
    assert_int_equal(specs.n, 2);
}

static void test_spec__names_the_word_that_is_wrong(void **state)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"unit=fpu", "unit=fpu is not one of int, fma, f64, sfu, tensor, ldst, copy"},
        {"unti=fma", "no word 'unti'; the words are device, sm, unit, op, mem"},
        {"unit", "unit= is not one of int"},
        {"device=2 unit=int", "device=2 is not a device from 0 to 1 (there are 2: --devices)"},
        {"sm=7 unit=int", "sm=7 is not a multiprocessor from 0 to 3 (4 are simulated: --sms)"},
        {"unit=int rate=0", "rate=0 is not a chance"},
        {"unit=int rate=1.5", "rate=1.5 is not a chance"},
        {"unit=int rate=nan", "rate=nan is not a chance"},
        {"unit=int bit=64", "bit=0 to 63"},
        {"unit=int bit=3-1", "bit=3-1 is not a bit"},
        {"unit=int bit=3,", "bit=3, is not a bit"},
        {"unit=int lanes=32", "lanes=32 is not lanes"},
        {"unit=int lanes=5g", "lanes=5g is not lanes"},
        {"unit=int lanes=4g8", "lanes=4g8 is not lanes"},
        {"unit=int when=y>4", "when=y>4 is not x, |x| or exponent"},
        {"unit=int when=x>", "when=x> is not x, |x| or exponent"},
        {"unit=int model=melt", "model=melt is not one of flip, stuck0"},
        {"unit=int unit=fma", "unit=fma is not given once"},
        {"unit=int launch=0", "launch=0 is not the number of a launch"},
        {"op=fam.rn", "op=fam.rn is not an instruction of PTX"},
        {"rate=1e-3", "nothing is broken by it: it needs unit=, op=, mem= or l2line="},
        {"unit=int mem=4096 bit=1", "one specification breaks one thing"},
        {"mem=4096", "it needs bit="},
        {"mem=4096 bit=8", "bit=0 to 7"},
        {"mem=alloc#0 bit=1", "mem=alloc#0 is not an address"},
        {"mem=4096 bit=1 lanes=3", "lanes= has no meaning there; words that have: device, mem"},
        {"unit=copy sm=1", "sm= has no meaning there"},
        {"unit=fma at=address", "at=address needs unit=ldst"},
        {"unit=copy dir=up", "dir=up is not one of h2d, d2h, d2d"},
        {"unit=int dir=h2d", "dir= has no meaning there"},
        {"l2line=32768 bit=1", "l2line=32768 is not a line of the cache"},
        {"unit=int ageing=2/", "ageing=2/ is not a factor"},
        {"unit=int after=-1", "after=-1 is not a number of launches"},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(bad); i++) {
        struct tb_error err = {0};
        if (parse(bad[i].text, &err) != TB_ERR_ARG)
            fail_msg("'%s' was taken", bad[i].text);
        if (strstr(err.text, bad[i].want) == NULL)
            fail_msg("'%s': '%s' does not say '%s'", bad[i].text, err.text, bad[i].want);
    }
}

static void test_spec__there_is_an_end_to_their_number_and_length(void **state)
{
    char text[1024] = "", word[300];
    struct tb_error err = {0};

    (void)state;
    for (int i = 0; i < SG_BROKEN_MAX_SPECS; i++)
        strcat(text, "unit=int;");
    assert_int_equal(parse(text, &err), TB_OK);
    assert_int_equal(specs.n, SG_BROKEN_MAX_SPECS);
    strcat(text, "unit=int");
    assert_int_equal(parse(text, &err), TB_ERR_ARG);
    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    assert_int_equal(parse(word, &err), TB_ERR_ARG);
    word[200] = '\0';
    assert_int_equal(parse(word, &err), TB_ERR_ARG);
}

/* Bytes of good texts changed, cut, doubled: read, or refused with a text. */
static void test_spec__mutations_never_crash(void **state)
{
    static const char bytes[] = "0123456789abcxeg=|<>!.,-+#;* \t\n%[]?\x80\xff";
    uint64_t rng = 1;
    unsigned taken = 0;

    (void)state;
    for (unsigned i = 0; i < 6000; i++) {
        char text[512];
        struct tb_error err = {0};
        size_t n;

        snprintf(text, sizeof(text), "%s;%s", good[sg_draw(&rng) % TB_ARRAY_LEN(good)],
                 good[sg_draw(&rng) % TB_ARRAY_LEN(good)]);
        n = strlen(text);
        for (uint64_t k = sg_draw(&rng) % 4; k != 0 && n > 1; k--) {
            size_t at = sg_draw(&rng) % n;
            if (sg_draw(&rng) % 8 == 0)
                text[at] = '\0';
            else if (sg_draw(&rng) % 4 == 0)
                memmove(text + at, text + at + 1, n - at);
            else
                text[at] = bytes[sg_draw(&rng) % (sizeof(bytes) - 1)];
            n = strlen(text);
        }
        if (parse(text, &err) == TB_OK)
            taken++;
        else
            assert_true(err.text[0] != '\0');
    }
    assert_true(taken > 500 && taken < 5900);
}

static void test_spec__a_log_that_is_none_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"", "line 1: nothing is there"},
        {"hello\n", "line 1: not a log of faults"},
        {"{\"softgpu_faults\":2,\"seed\":0,\"in_order\":0,\"sms\":4}\n", "line 1: of a version"},
        {"{\"softgpu_faults\":1,\"seed\":7,\"in_order\":0,\"sms\":4}\n",
         "line 1: made with another"},
        {"{\"softgpu_faults\":1,\"seed\":0,\"in_order\":0,\"sms\":4}\n{}\n", "line 2: neither"},
        {"{\"softgpu_faults\":1,\"seed\":0,\"in_order\":0,\"sms\":4}\n"
         "{\"kind\":\"fault\",\"what\":\"smoke\"}\n",
         "line 2: no 'what' that is known"},
        {"{\"softgpu_faults\":1,\"seed\":0,\"in_order\":0,\"sms\":4}\n"
         "{\"kind\":\"fault\",\"what\":\"result\",\"place\":\"step\",\"spec\":0,\"device\":9}\n",
         "line 2: no number 'device' up to 7"},
        {"{\"softgpu_faults\":1,\"seed\":0,\"in_order\":0,\"sms\":4}\n"
         "{\"kind\":\"launch\",\"faults\":3,\"logged\":2}\n",
         "line 2: a launch with more faults than were logged"},
    };
    struct sg_broken_options opt = broken_options(NULL);

    (void)state;
    opt.log = NULL;
    opt.replay = log_path;
    for (size_t i = 0; i < TB_ARRAY_LEN(bad); i++) {
        struct sg_broken *b = NULL;
        struct tb_error err = {0};
        FILE *f = fopen(log_path, "w");
        assert_non_null(f);
        fputs(bad[i].text, f);
        fclose(f);
        assert_int_equal(sg_broken_new(&opt, &b, &err), TB_ERR_FORMAT);
        assert_null(b);
        if (strstr(err.text, bad[i].want) == NULL)
            fail_msg("'%s' does not say '%s'", err.text, bad[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec__takes_every_word),
        cmocka_unit_test(test_spec__names_the_word_that_is_wrong),
        cmocka_unit_test(test_spec__there_is_an_end_to_their_number_and_length),
        cmocka_unit_test(test_spec__mutations_never_crash),
        cmocka_unit_test(test_spec__a_log_that_is_none_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, broken_setup, broken_teardown);
}
