/* Changes PTX so that much of it can still be loaded: opcodes, modifiers and operands change places
 * with others, lines are repeated, moved and dropped. */
#include "tests/softgpu/exec/fuzz_exec.h"

#include "softgpu/ptx/ptx.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct text {
    char *s;
    size_t n, max;
    uint64_t rng;
};

static uint32_t draw(struct text *t, uint32_t below)
{
    t->rng = t->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(((t->rng >> 32) * below) >> 32);
}

/* @len bytes at @at become the @m bytes of @with. */
static void replace(struct text *t, size_t at, size_t len, const char *with, size_t m)
{
    if (t->n - len + m > t->max)
        return;
    memmove(t->s + at + m, t->s + at + len, t->n - at - len);
    memcpy(t->s + at, with, m);
    t->n = t->n - len + m;
}

static void line_at(const struct text *t, size_t at, size_t *from, size_t *len)
{
    size_t a = at, b = at;

    while (a > 0 && t->s[a - 1] != '\n')
        a--;
    while (b < t->n && t->s[b] != '\n')
        b++;
    *from = a;
    *len = (b < t->n ? b + 1 : b) - a;
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == ':';
}

/* The word at or behind @at that follows @lead ('.', '%' or a blank); false: none. */
static bool word_behind(const struct text *t, size_t at, const char *lead, size_t *from,
                        size_t *len)
{
    for (; at + 1 < t->n; at++)
        if (strchr(lead, t->s[at]) != NULL && t->s[at] != 0 && in_word(t->s[at + 1])) {
            size_t k = at + 1;
            while (k < t->n && in_word(t->s[k]))
                k++;
            *from = at + 1;
            *len = k - at - 1;
            return true;
        }
    return false;
}

static void change_word(struct text *t, size_t at)
{
    const char *name;
    size_t from, len;

    if (!word_behind(t, at, ".", &from, &len))
        return;
    if (draw(t, 3) == 0) { /* a modifier that stands elsewhere in the text */
        size_t other, m;
        char copy[64];
        if (!word_behind(t, draw(t, (uint32_t)t->n), ".", &other, &m) || m > sizeof(copy))
            return;
        memcpy(copy, t->s + other, m);
        replace(t, from, len, copy, m);
        return;
    }
    /* types and common modifiers come first in the list */
    name = sg_ptx_mod_name((enum sg_ptx_mod)(1 + draw(t, draw(t, 4) ? 110 : SG_M_COUNT - 1)));
    switch (draw(t, 3)) {
    case 0: /* one more */
        replace(t, from, 0, ".", 1);
        replace(t, from, 0, name, strlen(name));
        break;
    case 1: /* one less, its dot too */
        replace(t, from - 1, len + 1, "", 0);
        break;
    default:
        replace(t, from, len, name, strlen(name));
    }
}

static void change_opcode(struct text *t, size_t at)
{
    const char *name = sg_ptx_op_name((enum sg_ptx_op)(1 + draw(t, SG_OP_COUNT - 1)));
    size_t from, len, k;

    line_at(t, at, &from, &len);
    for (k = 0; k < len && in_word(t->s[from + k]); k++)
        ;
    if (k > 0)
        replace(t, from, k, name, strlen(name));
}

static void change_operand(struct text *t, size_t at)
{
    static const char *const values[] = {
        "0",          "1",          "-1",          "31",     "32",         "255",
        "0x7fffffff", "0x80000000", "-2147483648", "_",      "0f7FC00001", "0d7FF0000000000001",
        "4096",       "16",         "8",           "%tid.x", "%laneid"};
    size_t from, len, other, m;
    char copy[64];

    if (!word_behind(t, at, "%", &from, &len))
        return;
    if (draw(t, 4) == 0) {
        const char *v = values[draw(t, sizeof(values) / sizeof(values[0]))];
        replace(t, from - 1, len + 1, v, strlen(v));
        return;
    }
    if (!word_behind(t, draw(t, (uint32_t)t->n), "%", &other, &m) || m > sizeof(copy))
        return;
    memcpy(copy, t->s + other, m);
    replace(t, from, len, copy, m);
}

static void change_number(struct text *t, size_t at)
{
    char digits[16];
    size_t k = at;

    while (k < t->n && !isdigit((unsigned char)t->s[k]))
        k++;
    if (k == t->n)
        return;
    int n = snprintf(digits, sizeof(digits), "%u", draw(t, draw(t, 2) ? 40 : 100000));
    replace(t, k, 1, digits, (size_t)n);
}

static void change_line(struct text *t, size_t at)
{
    char copy[512];
    size_t from, len, to, ignored;

    line_at(t, at, &from, &len);
    if (len == 0 || len > sizeof(copy))
        return;
    memcpy(copy, t->s + from, len);
    line_at(t, draw(t, (uint32_t)t->n), &to, &ignored);
    switch (draw(t, 4)) {
    case 0:
        replace(t, from, len, "", 0);
        break;
    case 1:
        replace(t, from, 0, "@%p1 ", 5);
        break;
    default: /* once more, elsewhere */
        replace(t, to, 0, copy, len);
        break;
    }
}

size_t mutate_ptx(uint8_t *data, size_t n, size_t max, uint64_t seed)
{
    struct text t = {(char *)data, n, max, seed * UINT64_C(0x9E3779B97F4A7C15) + 1};
    static void (*const ways[])(struct text *, size_t) = {
        change_word,    change_word,   change_opcode, change_operand,
        change_operand, change_number, change_line,   change_line};

    for (uint32_t k = 1 + draw(&t, 4); k > 0; k--) {
        size_t at = t.n > 0 ? draw(&t, (uint32_t)t.n) : 0;
        if (t.n < 8)
            break;
        ways[draw(&t, sizeof(ways) / sizeof(ways[0]))](&t, at);
    }
    return t.n;
}
