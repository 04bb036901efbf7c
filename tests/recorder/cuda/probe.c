/*
 * What a program finds as its driver: opens LIBRARY, prints what a few functions return.
 *
 * usage: probe LIBRARY [NAME...]   NAME: a function without arguments
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int call(void *lib, const char *name)
{
    int (*f)(uintptr_t) = NULL;

    *(void **)&f = dlsym(lib, name);
    return f ? f(0) : -1;
}

int main(int argc, char **argv)
{
    void *lib = dlopen(argv[1], RTLD_NOW);
    Dl_info where;

    if (!lib) {
        printf("%s\n", dlerror());
        return 1;
    }
    printf("cuInit %d\n", call(lib, "cuInit"));
    for (int i = 2; i < argc; i++)
        printf("%s %d\n", argv[i], call(lib, argv[i]));
    if (!dladdr(dlsym(lib, "cuInit"), &where))
        return 1;
    printf("in %s\n", where.dli_fname);
    return 0;
}
