#include "deterministic/preload/isolated.h"

#include <stdbool.h>
#include <string.h>

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

char tb_preload_isolated(char *const *options)
{
    bool skip = false, end = false;
    char found = 0;

    for (; *options && !found && !end; options++) {
        if (skip)
            skip = false;
        else if ((*options)[0] != '-' || !(*options)[1] || strcmp(*options, "--") == 0)
            end = true;
        else if ((*options)[1] == '-')
            skip = strcmp(*options, "--check-hash-based-pycs") == 0;
        else
            found = letter_of(*options, &skip, &end);
    }
    return found;
}
