/* A tool that is loaded by CUDA_INJECTION64_PATH, into a program that knows nothing of it. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>
#include <cupti.h>

static const unsigned *injected(void)
{
    void *lib = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
    union {
        void *symbol;
        const unsigned *(*function)(void);
    } seen = {lib ? dlsym(lib, "injection_seen") : NULL};

    assert_non_null(seen.symbol);
    return seen.function();
}

/* The runtime starts the driver, which loads the tool in the middle of a call. */
static void test_inject__a_tool_subscribes_while_cuda_starts(void **state)
{
    CUpti_SubscriberHandle s;
    void *p;

    (void)state;
    assert_null(dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD));
    assert_int_equal(cudaMalloc(&p, 16), cudaSuccess);
    assert_int_equal(injected()[0], 0); /* it began before anybody listened: no half of it */
    assert_int_equal(injected()[1], 2);
    assert_int_equal(injected()[2], 1);
    assert_int_equal(cudaFree(p), cudaSuccess);
    assert_int_equal(cuptiSubscribe(&s, NULL, NULL),
                     CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inject__a_tool_subscribes_while_cuda_starts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
