/* Opens a library that only this library's own RUNPATH finds. */
#include <dlfcn.h>
#include <stddef.h>

int job_open_inner(void);
int job_open_inner(void)
{
    void *inner = dlopen("libjobinner.so", RTLD_NOW);
    int (*value)(void) = NULL;

    if (!inner)
        return -1;
    *(void **)&value = dlsym(inner, "job_inner_value");
    return value ? value() : -2;
}
