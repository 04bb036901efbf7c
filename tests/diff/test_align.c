/* align: sequences with insertions, deletions, bursts, repeats and moved events */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diff/diff_internal.h"

static uint64_t rng_state;

static uint64_t rnd(uint64_t n)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (rng_state >> 11) % n;
}

struct seq {
    struct ev **e;
    size_t n, cap;
};

static struct ev *add(struct seq *s, uint64_t key, uint64_t content)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->e = realloc(s->e, s->cap * sizeof(*s->e));
        assert_non_null(s->e);
    }
    struct ev *e = calloc(1, sizeof(*e));
    assert_non_null(e);
    e->id = s->n + 1;
    e->key = e->alike = key;
    e->content = content;
    e->thread = 1;
    s->e[s->n++] = e;
    return e;
}

static void drop(struct seq *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->e[i]);
    free(s->e);
    *s = (struct seq){0};
}

/* From a text: each letter is a site, all contents are different; upper case: the same content in
 * both */
static void parse(struct seq *s, const char *text, uint64_t salt)
{
    for (; *text; text++)
        add(s, (uint64_t)(*text | 32), *text & 32 ? salt + 1000 * s->n : (uint64_t)*text);
}

static void check_mates(const struct seq *a, const struct seq *b)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->e[i]->mate) {
            assert_ptr_equal(a->e[i]->mate->mate, a->e[i]);
            assert_int_equal(a->e[i]->mate->key, a->e[i]->key);
        }
    for (size_t i = 0; i < b->n; i++)
        if (b->e[i]->mate)
            assert_ptr_equal(b->e[i]->mate->mate, b->e[i]);
}

static void check_order(const struct seq *a)
{
    uint64_t last = 0;

    for (size_t i = 0; i < a->n; i++)
        if (a->e[i]->mate) {
            assert_true(a->e[i]->mate->id > last);
            last = a->e[i]->mate->id;
        }
}

/* @want: for each of A the index in B, or '-' */
static void check_case(const char *ta, const char *tb, const char *want)
{
    struct seq a = {0}, b = {0};

    parse(&a, ta, 1u << 20);
    parse(&b, tb, 2u << 20);
    assert_int_equal(align(a.e, a.n, b.e, b.n, 0), TB_OK);
    check_mates(&a, &b);
    check_order(&a);
    for (size_t i = 0; i < a.n; i++) {
        struct ev *m = a.e[i]->mate;
        char got = m ? (char)('0' + (char)(m->id - 1)) : '-';
        if (got != want[i])
            print_error("%s / %s: %zu is %c, not %c\n", ta, tb, i, got, want[i]);
        assert_int_equal(got, want[i]);
    }
    drop(&a);
    drop(&b);
}

static void test_align__small_cases(void **state)
{
    (void)state;
    check_case("", "", "");
    check_case("abc", "abc", "012");
    check_case("abc", "axbc", "023");
    check_case("axbc", "abc", "0-12");
    check_case("abcde", "abxyzcde", "01567");
    check_case("abc", "def", "---");
    check_case("aaaa", "aaaa", "0123");
    check_case("aAaa", "aaAa", "0123"); /* equal sites: paired by position */
    check_case("xAyy", "Axy", "-0-2");
    check_case("abab", "ab", "01--");
}

static void test_align__content_wins_over_position(void **state)
{
    (void)state;
    check_case("AaBa", "aAaBa", "1234"); /* an inserted one of the same site before */
    check_case("XYZ", "xXYZ", "123");
    check_case("PxQ", "PxxxQ", "014");
    check_case("xxxQxx", "xxQxx", "01-234");
}

static void test_align__bursts_are_insertions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct seq a = {0}, b = {0};
        rng_state = seed * 104729;
        size_t n = 50 + rnd(400), at = rnd(n), burst = 1 + rnd(300);
        bool infected = rnd(2);
        size_t *truth = calloc(n, sizeof(*truth));
        assert_non_null(truth);
        for (size_t i = 0; i < n; i++) { /* layers: few sites, each many times */
            uint64_t key = 1 + i % 7 + 10 * (i / 21);
            for (size_t k = 0; i == at && k < burst; k++)
                add(&b, 5000 + k % 5, 1u << 30 | k);
            add(&a, key, i + 1);
            add(&b, key, infected && i >= at ? 7000000 + i : i + 1);
            truth[i] = b.n;
        }
        assert_int_equal(align(a.e, a.n, b.e, b.n, 0), TB_OK);
        check_mates(&a, &b);
        for (size_t i = 0; i < n; i++) {
            assert_non_null(a.e[i]->mate);
            assert_int_equal(a.e[i]->mate->id, truth[i]);
        }
        drop(&a);
        drop(&b);
        free(truth);
    }
}

/* Random edits; what is equal in content and was not edited is nearly always found again */
static void test_align__random_edits(void **state)
{
    size_t kept = 0, found = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct seq a = {0}, b = {0};
        size_t truth[3000] = {0};
        rng_state = seed * 15485863;
        for (size_t i = 0; i < 3000; i++) {
            uint64_t key = 1 + rnd(40), content = mix64(seed, i);
            uint64_t what = rnd(100);
            add(&a, key, content);
            if (what < 3)
                continue; /* deleted in B */
            for (; what >= 97 && rnd(4);)
                add(&b, 1 + rnd(40), mix64(content, rnd(1000)));
            add(&b, key, what < 30 ? mix64(content, 5) : content);
            truth[i] = b.n;
        }
        assert_int_equal(align(a.e, a.n, b.e, b.n, 0), TB_OK);
        check_mates(&a, &b);
        check_order(&a);
        for (size_t i = 0; i < a.n; i++) {
            kept += truth[i] != 0;
            found += truth[i] && a.e[i]->mate && a.e[i]->mate->id == truth[i];
        }
        drop(&a);
        drop(&b);
    }
    print_message("found %zu of %zu\n", found, kept);
    assert_true(found * 1000 >= kept * 995);
}

/* No anchors at all, longer than any block: the band still gets through, in bounded memory */
static void test_align__long_without_anchors(void **state)
{
    struct seq a = {0}, b = {0};
    size_t paired = 0;

    (void)state;
    rng_state = 99;
    for (size_t i = 0; i < 20000; i++) {
        uint64_t key = 1 + rnd(30);
        add(&a, key, 1 + 2 * i);
        if (rnd(50) == 0)
            add(&b, 1 + rnd(30), 1u << 30 | i);
        if (rnd(50))
            add(&b, key, 2 + 2 * i);
    }
    assert_int_equal(align(a.e, a.n, b.e, b.n, 0), TB_OK);
    check_mates(&a, &b);
    check_order(&a);
    for (size_t i = 0; i < a.n; i++)
        paired += a.e[i]->mate != NULL;
    print_message("paired %zu of %zu and %zu\n", paired, a.n, b.n);
    assert_true(paired > 19000);
    drop(&a);
    drop(&b);
}

static void test_align__free_lead_pairs_from_behind(void **state)
{
    struct seq a = {0}, b = {0};

    (void)state;
    parse(&a, "pqrABC", 1u << 20);
    parse(&b, "pxxpqrABC", 2u << 20);
    assert_int_equal(align(a.e, a.n, b.e, b.n, ALIGN_FREE_LEAD), TB_OK);
    for (size_t i = 0; i < a.n; i++)
        assert_int_equal(a.e[i]->mate->id, i + 4);
    for (size_t j = 0; j < 3; j++)
        assert_null(b.e[j]->mate);
    drop(&a);
    drop(&b);
}

static void test_align_moved__permuted_events_find_each_other(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct seq a = {0}, b = {0};
        size_t perm[24];
        uint64_t moved = 0;
        rng_state = seed * 32452843;
        for (size_t i = 0; i < 24; i++)
            perm[i] = i;
        for (size_t i = 23; i > 0; i--) {
            size_t j = rnd(i + 1), t = perm[i];
            perm[i] = perm[j];
            perm[j] = t;
        }
        for (size_t i = 0; i < 24; i++) {
            add(&a, 1 + i % 3, 100 + i);
            add(&b, 1 + perm[i] % 3, 100 + perm[i]);
        }
        assert_int_equal(align(a.e, a.n, b.e, b.n, 0), TB_OK);
        assert_int_equal(align_moved(a.e, a.n, b.e, b.n, &moved), TB_OK);
        check_mates(&a, &b);
        for (size_t i = 0; i < 24; i++) {
            assert_non_null(a.e[i]->mate);
            assert_int_equal(a.e[i]->mate->content, a.e[i]->content);
        }
        drop(&a);
        drop(&b);
    }
}

static void test_align_moved__leaves_what_differs_in_place(void **state)
{
    struct seq a = {0}, b = {0};
    uint64_t moved = 0;

    (void)state;
    parse(&a, "AbcD", 1u << 20);
    parse(&b, "AbcD", 2u << 20);
    assert_int_equal(align(a.e, a.n, b.e, b.n, 0), TB_OK);
    assert_int_equal(align_moved(a.e, a.n, b.e, b.n, &moved), TB_OK);
    assert_int_equal(moved, 0);
    for (size_t i = 0; i < 4; i++)
        assert_ptr_equal(a.e[i]->mate, b.e[i]);
    drop(&a);
    drop(&b);
}

/* Launches of the same kernels from other code: no site of one run is in the other. */
static void test_align__likeness_pairs_what_has_other_sites(void **state)
{
    struct seq a = {0}, b = {0};

    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        add(&a, 1 + i % 5, 1 + i)->alike = 500 + i % 5;
        if (i % 50 == 20) /* one more in B, of a kind that A has elsewhere */
            add(&b, 11 + (i + 3) % 5, 2000 + i)->alike = 500 + (i + 3) % 5;
        add(&b, 11 + i % 5, 1000 + i)->alike = 500 + i % 5;
    }
    assert_int_equal(align(a.e, a.n, b.e, b.n, 0), TB_OK);
    for (size_t i = 0; i < a.n; i++) {
        assert_non_null(a.e[i]->mate);
        assert_int_equal(a.e[i]->mate->alike, a.e[i]->alike);
    }
    check_order(&a);
    drop(&a);
    drop(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_align__small_cases),
        cmocka_unit_test(test_align__content_wins_over_position),
        cmocka_unit_test(test_align__bursts_are_insertions),
        cmocka_unit_test(test_align__random_edits),
        cmocka_unit_test(test_align__long_without_anchors),
        cmocka_unit_test(test_align__likeness_pairs_what_has_other_sites),
        cmocka_unit_test(test_align__free_lead_pairs_from_behind),
        cmocka_unit_test(test_align_moved__permuted_events_find_each_other),
        cmocka_unit_test(test_align_moved__leaves_what_differs_in_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
