/* Does a command line start a Python that keeps our part out? */
#include <string.h>

#include "collector/collector_internal.h"
#include "deterministic/preload/isolated.h"

static bool is_python(const char *word)
{
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;

    return strncmp(name, "python", 6) == 0 && !name[6 + strspn(name + 6, "0123456789.tdw")];
}

char tb_isolated(char *const *argv)
{
    while (*argv && !is_python(*argv))
        argv++;
    return *argv ? tb_preload_isolated(argv + 1) : 0;
}
