/* Words for commands that the user may paste into a shell. */
#include "common/common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "_@%+=:,./-";

char *tb_shell_word(const char *text, char *out, size_t size)
{
    size_t at = 0;

    if (text[0] && !text[strspn(text, plain)]) {
        (void)snprintf(out, size, "%s", text);
        return out;
    }
    if (size < 3) {
        if (size)
            out[0] = 0;
        return out;
    }
    out[at++] = '\'';
    for (; *text; text++) {
        const char *c = *text == '\'' ? "'\\''" : (const char[]){*text, 0};
        size_t n = strlen(c);
        if (at + n + 2 > size) /* the quote at the end must fit, too */
            break;
        memcpy(out + at, c, n);
        at += n;
    }
    out[at++] = '\'';
    out[at] = 0;
    return out;
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
