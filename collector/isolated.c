/* Python that was started so that it does not read PYTHONPATH, or without site: our part is not in.
 */
#include <stdio.h>
#include <string.h>

#include "collector/collector_internal.h"

static bool is_python(const char *word)
{
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;

    return strncmp(name, "python", 6) == 0 && !name[6 + strspn(name + 6, "0123456789.tdw")];
}

/* The letter of one word of options that keeps us out; *@skip: the next word is a value, *@end: no
 * more options */
static char letter_of(const char *word, bool *skip, bool *end)
{
    for (const char *c = word + 1; *c; c++) {
        if (strchr("IES", *c))
            return *c;
        if (strchr("cm", *c)) {
            *end = true;
            return 0;
        }
        if (strchr("WX", *c)) {
            *skip = !c[1];
            return 0;
        }
    }
    return 0;
}

char tb_isolated(char *const *argv)
{
    bool skip = false, end = false;
    char found = 0;

    while (*argv && !is_python(*argv))
        argv++;
    for (argv += *argv != NULL; *argv && !found && !end; argv++) {
        if (skip)
            skip = false;
        else if ((*argv)[0] != '-' || !(*argv)[1] || strcmp(*argv, "--") == 0)
            end = true;
        else if ((*argv)[1] == '-')
            skip = strcmp(*argv, "--check-hash-based-pycs") == 0;
        else
            found = letter_of(*argv, &skip, &end);
    }
    return found;
}

void tb_isolated_report(char *const *argv, void (*line)(void *arg, const char *text), void *arg)
{
    char letter = tb_isolated(argv), text[300];

    if (!letter)
        return;
    (void)snprintf(text, sizeof(text),
                   "pins: 'python -%c' keeps twinbit's part in Python out (%s): pins of Python and "
                   "torch are neither set nor seen; start the job without -%c%s",
                   letter,
                   letter == 'S' ? "it loads no sitecustomize" : "it does not read PYTHONPATH",
                   letter, letter == 'I' ? ", -s -P do the rest of it" : "");
    line(arg, text);
}
