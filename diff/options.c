/* What a run was told that its like must be told, too: for the next command. */
#include <string.h>

#include "diff/diff_internal.h"

/* Words of ours and their values, quoted anew: a trace may come from anywhere */
static bool pins(const char *line, char *out, size_t size)
{
    char word[512], value[512], quoted[2100];
    size_t at = 0;

    for (const char *s = line; (s = tb_shell_next(s, word, sizeof(word)));) {
        bool flag = strcmp(word, "--force-pins") == 0;
        if (!flag && strcmp(word, "--pin") != 0 && strcmp(word, "--pin-seed") != 0)
            return false;
        quoted[0] = 0;
        if (!flag && !(s = tb_shell_next(s, value, sizeof(value))))
            return false;
        int n = snprintf(out + at, size - at, "%s%s%s ", word, flag ? "" : " ",
                         flag ? "" : tb_shell_word(value, quoted, sizeof(quoted)));
        if (n < 0 || (size_t)n >= size - at)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* How work of a GPU was seen: with the other tap it might not be */
static size_t tap(struct tb_trace *t, char *out, size_t size)
{
    const char *which = tb_trace_meta(t, "cuda.tap"), *when = tb_trace_meta(t, "cuda.enqueue");

    if (!which || strcmp(which, "cupti") != 0)
        return 0;
    bool deferred = when && strcmp(when, "deferred") == 0;
    return (size_t)snprintf(out, size, "--tap cupti %s", deferred ? "--enqueue deferred " : "");
}

void run_options(struct tb_trace *t, char *out, size_t size)
{
    const char *device = tb_trace_meta(t, "device"), *asked = tb_trace_meta(t, "pins.asked");
    size_t n = 0;

    out[0] = 0;
    if (device && !device[strspn(device, "abcdefghijklmnopqrstuvwxyz")])
        n = (size_t)snprintf(out, size, "--device %.16s ", device);
    n += tap(t, out + n, size - n);
    if (asked && !pins(asked, out + n, size - n))
        out[n] = 0;
}

/* ---------------------------------------------------------------- pins as they were seen */

bool next_pin(const char *text, size_t n, size_t *at, struct pin_seen *out)
{
    while (*at < n) {
        const char *line = text + *at, *end = memchr(line, '\n', n - *at);
        const char *field[5] = {line};
        size_t i = 1;
        end = end ? end : text + n;
        *at = (size_t)(end - text) + 1;
        for (; i < 5 && (field[i] = memchr(field[i - 1], '\t', (size_t)(end - field[i - 1]))); i++)
            field[i]++;
        if (i < 5 || field[4] == field[3] + 1 || line == text) /* nothing seen; the head */
            continue;
        *out = (struct pin_seen){line, field[3], (size_t)(field[1] - 1 - line),
                                 (size_t)(field[4] - 1 - field[3])};
        return true;
    }
    return false;
}
