/* Words for commands that the user may paste into a shell. */
#include "common/common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "_@%+=:,./-";

/* Control characters would reach the terminal: newlines and tabs do no harm in quotes */
static bool needs_escapes(const char *text)
{
    for (; *text; text++)
        if (tb_control(text) && *text != '\n' && *text != '\t')
            return true;
    return false;
}

/* One character inside of '...' or, if @escapes, of $'...' */
static size_t quoted(const char *c, bool escapes, char out[8])
{
    unsigned char u = (unsigned char)*c;

    if (escapes && (u < ' ' || u >= 0x7f || u == '\\' || u == '\''))
        return (size_t)snprintf(out, 8, "\\%03o", u);
    return (size_t)snprintf(out, 8, u == '\'' ? "'\\''" : "%c", u);
}

char *tb_shell_word(const char *text, char *out, size_t size)
{
    bool escapes = needs_escapes(text);
    size_t at = 0;
    char c[8];

    if (text[0] && !text[strspn(text, plain)]) {
        (void)snprintf(out, size, "%s", text);
        return out;
    }
    if (size < 3u + escapes) {
        if (size)
            out[0] = 0;
        return out;
    }
    if (escapes)
        out[at++] = '$';
    out[at++] = '\'';
    for (; *text; text++) {
        size_t n = quoted(text, escapes, c);
        if (at + n + 2 > size) /* the quote at the end must fit, too */
            break;
        memcpy(out + at, c, n);
        at += n;
    }
    out[at++] = '\'';
    out[at] = 0;
    return out;
}

/* The character behind a backslash in $'...', as quoted() writes it; others stay as they are */
static const char *unescape(const char *s, char *c)
{
    unsigned v = 0;
    int n = 0;

    for (; n < 3 && s[n] >= '0' && s[n] <= '7'; n++)
        v = v * 8 + (unsigned)(s[n] - '0');
    *c = n ? (char)v : *s;
    return s + (n ? n : *s != 0);
}

const char *tb_shell_next(const char *line, char *word, size_t size)
{
    const char *s = line + strspn(line, " ");
    bool escapes = false;
    char quote = 0;
    size_t n = 0;

    if (!*s)
        return NULL;
    while (*s && (quote || *s != ' ')) {
        char c = *s++;
        if (c == quote) {
            quote = 0;
            continue;
        }
        if (!quote && (c == '\'' || c == '"' || (c == '$' && *s == '\''))) {
            escapes = c == '$';
            quote = escapes ? *s++ : c;
            continue;
        }
        if (c == '\\' && (!quote || escapes))
            s = unescape(s, &c);
        if (n + 1 < size)
            word[n++] = c;
    }
    word[n] = 0;
    return s;
}

bool tb_shell_again(const char *line, char *out, size_t size)
{
    char word[4200];
    size_t at = 0;

    for (const char *s = line; (s = tb_shell_next(s, word, sizeof(word)));) {
        if (strlen(word) + 1 == sizeof(word) || at + 4 * strlen(word) + 6 > size)
            return false;
        if (at)
            out[at++] = ' ';
        at += strlen(tb_shell_word(word, out + at, size - at));
    }
    out[at] = 0;
    return true;
}

char *tb_shell_file(const char *path, char *out, size_t size)
{
    char name[4200];

    (void)snprintf(name, sizeof(name), "%s%s", path[0] == '-' ? "./" : "", path);
    return tb_shell_word(name, out, size);
}

char *tb_program(const char *name, char *out, size_t size)
{
    const char *slash = strrchr(program_invocation_name, '/');
    const char *own = slash ? slash + 1 : program_invocation_name;
    char path[1024];

    /* a test that is not twinbit, too, prints commands */
    if (!slash || strcmp(own, "twinbit") != 0)
        return tb_shell_word(name, out, size);
    (void)snprintf(path, sizeof(path), "%.*s%s", (int)(own - program_invocation_name),
                   program_invocation_name, name);
    return tb_shell_word(path, out, size);
}
