/* What report.py looks at the report of: a program that makes findings and ends in some way. */
#include "tests/softgpu/strict/case.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void free_twice(void)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 512));
    OK(cuMemFree(p));
    cuMemFree(p);
}

/* A child without the parent's device adds nothing to its report. */
static void fork_child(void)
{
    pid_t child = fork();

    if (child == 0) {
        cuMemFree(1);
        exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int n = strcmp(what, "many") == 0 ? 100 : 1;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&strict_ctx, 0));
    OK(cuCtxSetCurrent(strict_ctx));
    for (int i = 0; i < n; i++)
        free_twice();
    if (strcmp(what, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(what, "abort") == 0)
        abort();
    if (strcmp(what, "fork") == 0)
        fork_child();
    return 0;
}
