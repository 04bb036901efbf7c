#include "recorder/cuda/symbol.h"

#include <stdbool.h>
#include <string.h>

/* One <source-name> of the Itanium ABI at @p: its length in *@n; NULL: none. */
static const char *source_name(const char *p, size_t *n)
{
    size_t len = 0;

    while (*p >= '0' && *p <= '9' && len < 4096)
        len = len * 10 + (size_t)(*p++ - '0');
    *n = len;
    return len && strnlen(p, len) == len ? p : NULL;
}

static size_t append(char *out, size_t at, size_t size, const char *text, size_t n)
{
    if (at && at + 2 < size) {
        out[at++] = ':';
        out[at++] = ':';
    }
    if (n > size - 1 - at)
        n = size - 1 - at;
    memcpy(out + at, text, n);
    return at + n;
}

/* Parts of @symbol, with "::" between; 0: it is not mangled. */
static size_t parts(const char *symbol, char *out, size_t size)
{
    const char *p = symbol + 2, *name;
    size_t n, at = 0;

    if (strncmp(symbol, "_Z", 2) != 0)
        return 0;
    bool nested = *p == 'N';
    p += nested;
    while (nested && (*p == 'K' || *p == 'V'))
        p++;
    do {
        p += *p == 'L';
        if (strncmp(p, "St", 2) == 0)
            p += 2;
        name = source_name(p, &n);
        if (!name)
            break;
        if (strncmp(name, "_GLOBAL__N_", 11) != 0)
            at = append(out, at, size, name, n);
        p = name + n;
    } while (nested);
    return at;
}

/* "_3clocals_3e" to "<locals>", in place: Numba writes what is no letter as "_" and two hex digits.
 */
static void undo_brackets(char *text)
{
    char *to = text;

    while (*text) {
        size_t n =
            strncmp(text, "_3c", 3) == 0 ? strspn(text + 3, "abcdefghijklmnopqrstuvwxyz") : 0;

        if (n && strncmp(text + 3 + n, "_3e", 3) == 0) {
            *to++ = '<';
            memmove(to, text + 3, n);
            to += n;
            *to++ = '>';
            text += n + 6;
        } else {
            *to++ = *text++;
        }
    }
    *to = 0;
}

void tb_cu_short_name(const char *symbol, char *out, size_t size)
{
    size_t at = parts(symbol, out, size);

    if (at) {
        out[at] = 0;
        undo_brackets(out);
    } else {
        at = append(out, 0, size, symbol, strlen(symbol));
        out[at] = 0;
    }
    for (char *c = out; *c; c++)
        if (*c == '/' || *c == '#' || *c == '\t' || *c == '\n')
            *c = '_';
}
