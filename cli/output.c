#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tb_cli_flush(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    tb_log("cannot write standard output: %s", strerror(errno));
    return TB_EXIT_ERROR;
}

bool tb_cli_colour(void)
{
    const char *no = getenv("NO_COLOR");
    return !(no && *no) && isatty(STDOUT_FILENO);
}

/* Bytes of the well-formed UTF-8 sequence at @s; 0 if it is none */
static size_t utf8_length(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;

    if (s[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

static void put_escaped(FILE *out, unsigned char c)
{
    switch (c) {
    case '"':
        fputs("\\\"", out);
        break;
    case '\\':
        fputs("\\\\", out);
        break;
    case '\n':
        fputs("\\n", out);
        break;
    case '\t':
        fputs("\\t", out);
        break;
    default:
        if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
}

void tb_json_string(FILE *out, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;

    fputc('"', out);
    while (*p) {
        size_t n = utf8_length(p);
        if (n == 0)
            fputs("\\ufffd", out);
        else if (n == 1)
            put_escaped(out, *p);
        else
            fwrite(p, 1, n, out);
        p += n ? n : 1;
    }
    fputc('"', out);
}

const char *tb_cli_bytes(uint64_t n, char *buf, size_t size)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)n / 1024;
    size_t u = 0;

    if (n < 1024) {
        (void)snprintf(buf, size, "%llu B", (unsigned long long)n);
        return buf;
    }
    for (; v >= 1024 && u + 1 < TB_ARRAY_LEN(units); u++)
        v /= 1024;
    (void)snprintf(buf, size, "%.1f %s", v, units[u]);
    return buf;
}
