/* Characters to tokens, and how failures are worded. */
#include "softgpu/ptx/ptx_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    C_START = 1, /* of a word */
    C_WORD = 2,
    C_DIGIT = 4,
    C_HEX = 8,
    C_SPACE = 16,
    C_SKIP = 32,   /* may begin what is skipped like space */
    C_DOUBLE = 64, /* may begin an operator of two characters */
};

static const uint8_t classes[256] = {
    [' '] = C_SPACE,
    ['\t'] = C_SPACE,
    ['\r'] = C_SPACE,
    ['\v'] = C_SPACE,
    ['\f'] = C_SPACE,
    ['\n'] = C_SPACE,
    ['0' ... '9'] = C_WORD | C_DIGIT | C_HEX,
    ['a' ... 'f'] = C_START | C_WORD | C_HEX,
    ['g' ... 'z'] = C_START | C_WORD,
    ['A' ... 'F'] = C_START | C_WORD | C_HEX,
    ['G' ... 'Z'] = C_START | C_WORD,
    ['_'] = C_START | C_WORD,
    ['$'] = C_START | C_WORD,
    ['%'] = C_START,
    ['/'] = C_SKIP,
    ['\\'] = C_SKIP,
    ['#'] = C_SKIP,
    ['@'] = C_SKIP,
    ['<'] = C_DOUBLE,
    ['>'] = C_DOUBLE,
    ['='] = C_DOUBLE,
    ['!'] = C_DOUBLE,
    ['&'] = C_DOUBLE,
    ['|'] = C_DOUBLE,
};

static inline bool is(char c, unsigned class)
{
    return (classes[(unsigned char)c] & class) != 0;
}

bool sg_px_fail(struct sg_px *p, enum tb_status status, uint32_t line, const char *fmt, ...)
{
    char text[TB_ERROR_TEXT];
    va_list ap;

    if (p->status == TB_OK) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        p->status = tb_fail(p->err, status, "%s:%u: %s", p->name, line, text);
    }
    p->tok.kind = SG_TOK_EOF;
    p->cur = p->end;
    return false;
}

bool sg_px_nomem(struct sg_px *p)
{
    return sg_px_fail(p, TB_ERR_NOMEM, p->tok.line, "no memory for the module");
}

int sg_px_cut(const struct sg_px_tok *t)
{
    return t->len > 100 ? 100 : (int)t->len;
}

bool sg_px_unexpected(struct sg_px *p, const char *wanted)
{
    const struct sg_px_tok *t = &p->tok;

    if (t->kind == SG_TOK_EOF)
        return sg_px_fail(p, TB_ERR_FORMAT, t->line, "expected %s, the text ends", wanted);
    return sg_px_fail(p, TB_ERR_FORMAT, t->line, "expected %s, found '%s%.*s'", wanted,
                      t->kind == SG_TOK_DOT ? "." : "", sg_px_cut(t), t->s);
}

bool sg_px_accept(struct sg_px *p, int kind)
{
    if (p->tok.kind != kind)
        return false;
    sg_px_next(p);
    return true;
}

bool sg_px_expect(struct sg_px *p, int kind, const char *what)
{
    return sg_px_accept(p, kind) || sg_px_unexpected(p, what);
}

bool sg_px_u32(struct sg_px *p, const char *what, uint32_t *out)
{
    if (p->tok.kind != SG_TOK_INT)
        return sg_px_unexpected(p, what);
    if (p->tok.u > UINT32_MAX)
        return sg_px_fail(p, TB_ERR_LIMIT, p->tok.line, "%s '%.*s' is too large", what,
                          sg_px_cut(&p->tok), p->tok.s);
    *out = (uint32_t)p->tok.u;
    sg_px_next(p);
    return true;
}

void *sg_px_get(struct sg_px *p, size_t size)
{
    void *mem = sg_px_arena_get(p->arena, size);

    if (!mem)
        sg_px_nomem(p);
    return mem;
}

bool sg_px_room(struct sg_px *p, struct sg_px_vec *v, size_t more, size_t size)
{
    return sg_px_vec_room(v, more, size) || sg_px_nomem(p);
}

bool sg_px_keep(struct sg_px *p, const void *data, size_t n, size_t size, void *out)
{
    void *mem;

    if (n == 0)
        return true;
    mem = sg_px_get(p, n * size);
    if (!mem)
        return false;
    memcpy(mem, data, n * size);
    memcpy(out, &mem, sizeof(mem));
    return true;
}

const char *sg_px_text(struct sg_px *p, const char *s, size_t n)
{
    char *mem = sg_px_get(p, n + 1);

    if (mem)
        memcpy(mem, s, n);
    return mem;
}

static void skip_line(struct sg_px *p)
{
    const char *nl = memchr(p->cur, '\n', (size_t)(p->end - p->cur));

    p->cur = nl ? nl : p->end;
}

static bool skip_comment(struct sg_px *p)
{
    uint32_t line = p->line;

    for (p->cur += 2; p->cur < p->end; p->cur++) {
        if (p->cur[0] == '*' && p->cur[1] == '/') {
            p->cur += 2;
            return true;
        }
        p->line += p->cur[0] == '\n';
    }
    return sg_px_fail(p, TB_ERR_FORMAT, line, "comment without end");
}

/* What is not a space and yet to be skipped; false at a token */
static bool skip_other(struct sg_px *p)
{
    const char *s = p->cur;

    if (s[0] == '/' && s[1] == '/') {
        skip_line(p);
        return true;
    }
    if (s[0] == '/' && s[1] == '*')
        return skip_comment(p);
    if (s[0] == '\\' && (s[1] == '\n' || (s[1] == '\r' && s[2] == '\n'))) {
        p->cur++;
        return true;
    }
    if ((s[0] == '#' && (s == p->text || s[-1] == '\n')) || (s[0] == '@' && s[1] == '@')) {
        skip_line(p); /* preprocessor lines, @@DWARF of old compilers */
        return true;
    }
    return false;
}

static inline void skip_space(struct sg_px *p)
{
    do {
        const char *s = p->cur;

        for (; is(*s, C_SPACE); s++)
            p->line += *s == '\n';
        p->cur = s;
    } while (is(*p->cur, C_SKIP) && skip_other(p));
}

char sg_px_peek(struct sg_px *p)
{
    skip_space(p);
    return *p->cur;
}

const char *sg_px_skip_block(struct sg_px *p)
{
    const char *end = memchr(p->cur, '}', (size_t)(p->end - p->cur));

    for (const char *s = p->cur; end && s < end; s++)
        p->line += *s == '\n';
    if (end)
        p->cur = end + 1;
    return end;
}

static void word(struct sg_px *p, const char *s)
{
    uint32_t h = SG_PX_HASH_SEED;
    const char *start = s;

    if (*s == '%')
        h = SG_PX_HASH_STEP(h, *s++);
    for (; is(*s, C_WORD); s++)
        h = SG_PX_HASH_STEP(h, *s);
    p->tok.kind = SG_TOK_IDENT;
    p->tok.s = start;
    p->tok.len = (uint32_t)(s - start);
    p->tok.hash = h;
    p->cur = s;
    if (p->tok.len == 1 && *start == '%') /* an operator, the rare case */
        p->tok.kind = '%';
}

/* .word, "::" belongs to it */
static void dot_word(struct sg_px *p, const char *s)
{
    const char *start = s;

    for (;;) {
        while (is(*s, C_WORD))
            s++;
        if (s[0] != ':' || s[1] != ':' || !is(s[2], C_WORD))
            break;
        s += 2;
    }
    p->tok.kind = SG_TOK_DOT;
    p->tok.s = start;
    p->tok.len = (uint32_t)(s - start);
    p->cur = s;
}

static unsigned digit_of(char c)
{
    return is(c, C_DIGIT) ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a') + 10;
}

static void bad_number(struct sg_px *p, const char *why)
{
    const char *s = p->tok.s;

    while (is(*s, C_WORD) || *s == '.')
        s++;
    p->tok.len = (uint32_t)(s - p->tok.s);
    sg_px_fail(p, TB_ERR_FORMAT, p->tok.line, "number '%.*s' %s", sg_px_cut(&p->tok), p->tok.s,
               why);
}

/* 0f and 0d: exactly @digits hexadecimal digits */
static bool float_bits(struct sg_px *p, const char *s, unsigned digits, uint64_t *bits)
{
    uint64_t v = 0;
    unsigned i;

    for (i = 0; i < digits && is(s[i], C_HEX); i++)
        v = v << 4 | digit_of(s[i]);
    if (i < digits || is(s[i], C_WORD)) {
        bad_number(p, digits == 8 ? "is not 0f and 8 hexadecimal digits"
                                  : "is not 0d and 16 hexadecimal digits");
        return false;
    }
    p->cur = s + digits;
    p->tok.len = digits + 2;
    *bits = v;
    return true;
}

static void float_literal(struct sg_px *p, const char *s)
{
    uint64_t bits;
    float f;

    if ((s[1] | 32) == 'd') {
        if (float_bits(p, s + 2, 16, &bits)) {
            p->tok.kind = SG_TOK_FLOAT;
            memcpy(&p->tok.f, &bits, sizeof(bits));
        }
    } else if (float_bits(p, s + 2, 8, &bits)) {
        p->tok.kind = SG_TOK_F32;
        p->tok.f32 = (uint32_t)bits;
        memcpy(&f, &p->tok.f32, sizeof(f));
        p->tok.f = (double)f;
    }
}

static void decimal_float(struct sg_px *p, const char *s)
{
    char *stop;

    /* The text is NUL-terminated, and only digits, '.', 'e' and a sign were seen: no "inf", no
     * hexadecimal. */
    p->tok.kind = SG_TOK_FLOAT;
    p->tok.f = strtod_l(s, &stop, p->locale);
    p->cur = stop;
    p->tok.len = (uint32_t)(stop - s);
    if (is(*stop, C_WORD) || *stop == '.')
        bad_number(p, "is malformed");
}

static bool is_decimal_float(const char *s)
{
    while (is(*s, C_DIGIT))
        s++;
    if (*s == '.')
        return true;
    if ((*s | 32) != 'e')
        return false;
    s++;
    if (*s == '+' || *s == '-')
        s++;
    return is(*s, C_DIGIT);
}

static void number(struct sg_px *p, const char *s)
{
    char second = (char)(s[1] | 32);
    unsigned base = 10;
    uint64_t v = 0;
    const char *digits;

    if (s[0] == '0' && (second == 'f' || second == 'd')) {
        float_literal(p, s);
        return;
    }
    if (s[0] == '0' && (second == 'x' || second == 'b')) {
        base = second == 'x' ? 16 : 2;
        s += 2;
    } else if (is_decimal_float(s)) {
        decimal_float(p, s);
        return;
    } else if (s[0] == '0') {
        base = 8;
    }
    for (digits = s; is(*s, base == 16 ? C_HEX : C_DIGIT); s++) {
        unsigned d = digit_of(*s);

        if (d >= base) {
            bad_number(p, "has a digit its base does not have");
            return;
        }
        if (__builtin_mul_overflow(v, (uint64_t)base, &v) || __builtin_add_overflow(v, d, &v)) {
            bad_number(p, "does not fit 64 bits");
            return;
        }
    }
    p->tok.kind = SG_TOK_INT;
    p->tok.u = v;
    p->tok.is_unsigned = *s == 'U';
    s += *s == 'U';
    p->cur = s;
    p->tok.len = (uint32_t)(s - p->tok.s);
    if (s == digits || is(*s, C_WORD))
        bad_number(p, "is malformed");
}

static void string(struct sg_px *p, const char *s)
{
    const char *start = s;

    for (; s < p->end && *s != '"' && *s != '\n'; s++)
        s += *s == '\\' && s[1] != '\n' && s + 1 < p->end;
    if (s >= p->end || *s != '"') {
        sg_px_fail(p, TB_ERR_FORMAT, p->tok.line, "string without end");
        return;
    }
    p->tok.kind = SG_TOK_STRING;
    p->tok.s = start;
    p->tok.len = (uint32_t)(s - start);
    p->cur = s + 1;
}

static const struct {
    char text[3];
    int kind;
} operators[] = {
    {"<<", SG_TOK_SHL}, {">>", SG_TOK_SHR}, {"<=", SG_TOK_LE},     {">=", SG_TOK_GE},
    {"==", SG_TOK_EQ},  {"!=", SG_TOK_NE},  {"&&", SG_TOK_ANDAND}, {"||", SG_TOK_OROR},
};

static void punctuation(struct sg_px *p, const char *s)
{
    p->tok.kind = (unsigned char)*s;
    p->tok.len = 1;
    for (size_t i = 0; is(*s, C_DOUBLE) && i < TB_ARRAY_LEN(operators); i++)
        if (s[0] == operators[i].text[0] && s[1] == operators[i].text[1]) {
            p->tok.kind = operators[i].kind;
            p->tok.len = 2;
        }
    p->cur = s + p->tok.len;
}

void sg_px_next(struct sg_px *p)
{
    const char *s;

    skip_space(p);
    if (p->status != TB_OK) {
        p->tok.kind = SG_TOK_EOF;
        return;
    }
    s = p->cur;
    p->tok.line = p->line;
    p->tok.s = s;
    if (is(*s, C_START)) {
        word(p, s);
    } else if (*s == '.' && is(s[1], C_DIGIT) && (s == p->text || !is(s[-1], C_WORD))) {
        decimal_float(p, s);
    } else if (*s == '.' && is(s[1], C_WORD)) {
        dot_word(p, s + 1);
    } else if (is(*s, C_DIGIT)) {
        number(p, s);
    } else if (*s == '"') {
        string(p, s + 1);
    } else if (s >= p->end) {
        p->tok.kind = SG_TOK_EOF;
        p->tok.len = 0;
    } else {
        punctuation(p, s);
    }
}
