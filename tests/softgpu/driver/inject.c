/* The library that CUDA_INJECTION64_PATH names in test_init.c: counts its calls. */
#include <stdio.h>
#include <stdlib.h>

int InitializeInjection(void);

__attribute__((visibility("default"))) int InitializeInjection(void)
{
    const char *before = getenv("SG_TEST_INJECTED");
    char now[16];

    snprintf(now, sizeof(now), "%d", before ? atoi(before) + 1 : 1);
    setenv("SG_TEST_INJECTED", now, 1);
    return 1;
}
