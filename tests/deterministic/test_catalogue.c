/* catalogue: every row whole, ids unique, references exist, profiles; finding, values, near names
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "deterministic/catalogue.h"

static void assert_text(const char *id, const char *field, const char *text)
{
    if (!text || !*text || text[0] == ' ' || text[strlen(text) - 1] == ' ')
        fail_msg("pin '%s': '%s' is missing or has blanks at an end", id, field);
}

static void test_catalogue__every_row_is_whole(void **state)
{
    size_t count = 0;
    const struct tb_pin *pins = tb_pins(&count);

    (void)state;
    assert_true(count >= 45);
    for (const struct tb_pin *p = pins; p < pins + count; p++) {
        assert_text(p->id, "id", p->id);
        assert_text(p->id, "pins", p->pins);
        assert_text(p->id, "sets", p->sets);
        assert_text(p->id, "since", p->since);
        assert_text(p->id, "verify", p->verify);
        assert_text(p->id, "cost", p->cost_note);
        assert_text(p->id, "source", p->sources[0]);
        assert_true(strlen(p->pins) <= 100);
        assert_non_null(tb_pin_mechanism_text(p->mechanism));
        assert_non_null(tb_pin_reader_text(p->reader));
        assert_true(p->cost < TB_PIN_COSTS && p->confirmed < TB_PIN_CONFIRMED_COUNT);
        if (p->confirmed == TB_PIN_CONFIRMED_NO)
            assert_text(p->id, "doubt", p->doubt);
        for (const struct tb_pin_conflict *c = p->conflicts; c->other; c++)
            assert_text(p->id, "conflict", c->why);
    }
}

static void test_catalogue__ids_are_unique_and_grouped(void **state)
{
    size_t count = 0, groups = 0, group = 0;
    const struct tb_pin *pins = tb_pins(&count);
    const struct tb_pin_text *titles = tb_pin_groups(&groups);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(pins[i].id, pins[j].id);
        size_t len = strlen(pins[i].group);
        assert_memory_equal(pins[i].id, pins[i].group, len);
        assert_int_equal(pins[i].id[len], '.');
        while (group < groups && strcmp(titles[group].name, pins[i].group) != 0)
            group++; /* in the order of the groups, so each is one run of rows */
        assert_true(group < groups);
    }
}

static void test_catalogue__references_name_pins(void **state)
{
    size_t count = 0, conflicts = 0, needs = 0;
    const struct tb_pin *pins = tb_pins(&count);

    (void)state;
    for (const struct tb_pin *p = pins; p < pins + count; p++) {
        for (const struct tb_pin_conflict *c = p->conflicts; c->other; c++) {
            if (c->job)
                continue;
            const struct tb_pin *other = tb_pin_find(c->other);
            assert_non_null(other);
            assert_ptr_not_equal(other, p);
            conflicts++;
        }
        for (const char *const *n = p->needs; *n; n++, needs++)
            assert_non_null(tb_pin_find(*n));
    }
    assert_true(conflicts > 0 && needs > 0);
}

/* What a profile sets is there with what it needs, and nothing it conflicts with is set as well */
static void check_together(const struct tb_pin *pins, size_t count, enum tb_pin_profile profile)
{
    for (const struct tb_pin *p = pins; p < pins + count; p++) {
        if (!tb_pin_changes(tb_pin_value(p, profile)))
            continue;
        for (const char *const *n = p->needs; *n; n++)
            assert_non_null(tb_pin_value(tb_pin_find(*n), profile));
        for (const struct tb_pin *q = pins; q < p; q++)
            if (tb_pin_changes(tb_pin_value(q, profile)) && tb_pin_conflicting(p, q))
                fail_msg("'%s' and '%s' conflict", p->id, q->id);
    }
}

static void test_catalogue__profiles_hold_together(void **state)
{
    size_t count = 0, held[TB_PIN_PROFILES] = {0};
    const struct tb_pin *pins = tb_pins(&count);

    (void)state;
    for (const struct tb_pin *p = pins; p < pins + count; p++) {
        for (int f = 0; f < TB_PIN_PROFILES; f++)
            held[f] += tb_pin_changes(tb_pin_value(p, (enum tb_pin_profile)f));
        const char *basic = tb_pin_value(p, TB_PIN_BASIC);
        if (basic) {
            assert_int_equal(p->cost, TB_PIN_COST_NONE);
            assert_non_null(tb_pin_value(p, TB_PIN_STRICT));
        }
        if (tb_pin_value(p, TB_PIN_STRICT))
            assert_non_null(tb_pin_value(p, TB_PIN_PORTABLE));
        assert_non_null(tb_pin_value(p, TB_PIN_OBSERVE));
    }
    assert_int_equal(held[TB_PIN_OBSERVE], 0);
    assert_true(0 < held[TB_PIN_BASIC] && held[TB_PIN_BASIC] < held[TB_PIN_STRICT]);
    assert_true(held[TB_PIN_STRICT] < held[TB_PIN_PORTABLE]);
    for (int f = 0; f < TB_PIN_PROFILES; f++)
        check_together(pins, count, (enum tb_pin_profile)f);
}

static void test_catalogue__values_are_literals_or_words(void **state)
{
    size_t count = 0;
    const struct tb_pin *pins = tb_pins(&count);
    const char *argument = NULL;

    (void)state;
    for (const struct tb_pin *p = pins; p < pins + count; p++)
        for (int f = 0; f < TB_PIN_PROFILES; f++) {
            const char *value = tb_pin_value(p, (enum tb_pin_profile)f);
            if (value && value[0] == '@')
                assert_non_null(tb_pin_word(value, &argument));
        }
    assert_null(tb_pin_word("4", NULL));
    assert_null(tb_pin_word("@nothing", NULL));
    assert_null(tb_pin_word("@seeds", NULL));
    assert_string_equal(tb_pin_word("@seed", &argument)->name, "seed");
    assert_string_equal(argument, "");
    assert_string_equal(tb_pin_word("@add --flag=1 x", &argument)->name, "add");
    assert_string_equal(argument, "--flag=1 x");
}

static void test_catalogue__the_pins_that_were_asked_for_are_there(void **state)
{
    static const char *const wanted[][3] = {
        /* id, basic, strict; "-": left alone */
        {"python.hashseed", "0", "0"},          {"torch.seed", "@seed", "@seed"},
        {"torch.deterministic", "-", "True"},   {"cuda.cublas_workspace", "-", ":4096:8"},
        {"cpu.torch_capability", "-", "@keep"}, {"nccl.algo", "-", "Ring"},
        {"system.timezone", "UTC0", "UTC0"},    {"cuda.launch_blocking", "-", "-"},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(wanted); i++) {
        const struct tb_pin *p = tb_pin_find(wanted[i][0]);
        assert_non_null(p);
        for (int f = 1; f < 3; f++) {
            const char *value = tb_pin_value(p, (enum tb_pin_profile)f);
            assert_string_equal(value ? value : "-", wanted[i][f]);
        }
    }
    assert_string_equal(tb_pin_alone(tb_pin_find("cuda.launch_blocking")), "1");
    assert_string_equal(tb_pin_alone(tb_pin_find("cpu.torch_capability")), "avx2");
    assert_null(tb_pin_alone(tb_pin_find("nccl.ranks")));
    assert_null(tb_pin_value(tb_pin_find("torch.seed"), TB_PIN_PROFILES));
}

static void test_catalogue__conflicts_hold_both_ways(void **state)
{
    const struct tb_pin *matmul = tb_pin_find("torch.tf32_matmul");
    const struct tb_pin *over = tb_pin_find("cuda.tf32_override");

    (void)state;
    assert_non_null(tb_pin_conflicting(matmul, over));
    assert_non_null(tb_pin_conflicting(over, matmul));
    assert_null(tb_pin_conflicting(matmul, tb_pin_find("torch.seed")));
    assert_null(tb_pin_conflicting(matmul, matmul));
}

static void assert_nearest(const char *text, const char *id)
{
    const struct tb_pin *out[4];
    size_t n = tb_pin_near(text, out, TB_ARRAY_LEN(out));

    if (!id) {
        assert_int_equal(n, 0);
        return;
    }
    if (n == 0 || strcmp(out[0]->id, id) != 0)
        fail_msg("'%s': '%s' comes first, expected '%s'", text, n ? out[0]->id : "nothing", id);
}

static void test_catalogue__near_names_are_found(void **state)
{
    const struct tb_pin *out[2];

    (void)state;
    assert_nearest("python.hashsed", "python.hashseed");
    assert_nearest("hashseed", "python.hashseed");
    assert_nearest("PYTHONHASHSEED", "python.hashseed");
    assert_nearest("Torch.Deterministic", "torch.deterministic");
    assert_nearest("cublas.workspace", "cuda.cublas_workspace");
    assert_nearest("MKL_CBWR", "cpu.mkl_cbwr");
    assert_nearest("timezone.system", "system.timezone");
    assert_nearest("zzzzzz", NULL);
    assert_nearest("", NULL);
    assert_nearest("a-name-that-is-longer-than-any-identifier-of-a-pin-could-be-at-all", NULL);
    assert_int_equal(tb_pin_near("nccl", out, 2), 2);
    assert_int_equal(tb_pin_near("nccl", out, 0), 0);
    assert_null(tb_pin_find("python"));
    assert_null(tb_pin_find(""));
}

static void test_catalogue__names_and_values_agree(void **state)
{
    enum tb_pin_profile profile = TB_PIN_PROFILES;

    (void)state;
    for (int f = 0; f < TB_PIN_PROFILES; f++) {
        assert_true(
            tb_pin_profile_find(tb_pin_profile_text((enum tb_pin_profile)f)->name, &profile));
        assert_int_equal(profile, f);
    }
    assert_false(tb_pin_profile_find("Strict", &profile));
    for (int m = 0; m < TB_PIN_MECHANISMS; m++)
        assert_text("mechanism", "text", tb_pin_mechanism_text((enum tb_pin_mechanism)m)->text);
    for (int r = 0; r < TB_PIN_READERS; r++)
        assert_text("reader", "text", tb_pin_reader_text((enum tb_pin_reader)r)->text);
    assert_string_equal(tb_pin_mechanism_text(TB_PIN_ENV)->name, "env");
    assert_string_equal(tb_pin_reader_text(TB_PIN_READER_NCCL)->name, "nccl");
    assert_string_equal(tb_pin_cost_name(TB_PIN_COST_UNKNOWN), "unknown");
    assert_string_equal(tb_pin_confirmed_name(TB_PIN_CONFIRMED_NO), "no");
    assert_null(tb_pin_profile_text(TB_PIN_PROFILES));
    assert_null(tb_pin_mechanism_text(TB_PIN_MECHANISMS));
    assert_null(tb_pin_reader_text(TB_PIN_READERS));
    assert_string_equal(tb_pin_cost_name(TB_PIN_COSTS), "?");
    assert_string_equal(tb_pin_confirmed_name(TB_PIN_CONFIRMED_COUNT), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_catalogue__every_row_is_whole),
        cmocka_unit_test(test_catalogue__ids_are_unique_and_grouped),
        cmocka_unit_test(test_catalogue__references_name_pins),
        cmocka_unit_test(test_catalogue__profiles_hold_together),
        cmocka_unit_test(test_catalogue__values_are_literals_or_words),
        cmocka_unit_test(test_catalogue__the_pins_that_were_asked_for_are_there),
        cmocka_unit_test(test_catalogue__conflicts_hold_both_ways),
        cmocka_unit_test(test_catalogue__near_names_are_found),
        cmocka_unit_test(test_catalogue__names_and_values_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
