/* What the tests of cuda_gpt share: numbers on host and device, and how far apart they may be. */
#ifndef TESTS_CUDA_GPT_GPT_TEST_H
#define TESTS_CUDA_GPT_GPT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "examples/cuda_gpt/reference.h"

/* ends the process with 77 if there is no device, as on a machine without a GPU */
static inline void need_device(void)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);

    if (e == cudaSuccess && n > 0)
        return;
    printf("skipped: no CUDA device: %s\n", cudaGetErrorString(e));
    exit(77);
}

/* @n numbers in -1..1 that a float holds exactly; the caller frees them */
static inline double *numbers(size_t n, uint64_t seed)
{
    double *v = malloc((n + 1) * sizeof(*v));

    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        v[i] = (double)(gpt_random(&seed) >> 41) * 0x1p-22 - 1;
    return v;
}

/* device memory with these numbers as floats, or, for NULL, NaN in every place */
static inline float *on_device(const double *v, size_t n)
{
    float *host = malloc((n + 1) * sizeof(*host)), *p = NULL;

    assert_non_null(host);
    memset(host, 0xff, (n + 1) * sizeof(*host));
    for (size_t i = 0; i < n && v; i++)
        host[i] = (float)v[i];
    assert_int_equal(cudaMalloc((void **)&p, (n + 1) * sizeof(*p)), cudaSuccess);
    assert_int_equal(cudaMemcpy(p, host, (n + 1) * sizeof(*p), cudaMemcpyHostToDevice),
                     cudaSuccess);
    free(host);
    return p;
}

static inline int *integers_on_device(const int *v, size_t n)
{
    int *p = NULL;

    assert_int_equal(cudaMalloc((void **)&p, n * sizeof(*p)), cudaSuccess);
    assert_int_equal(cudaMemcpy(p, v, n * sizeof(*p), cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

/* @at, @n floats of device memory, are @want to @tolerance of the greatest of them; frees @at */
static inline void expect_near(const char *what, float *at, const double *want, size_t n,
                               double tolerance)
{
    float *got = malloc(n * sizeof(*got));
    double most = 0;

    assert_non_null(got);
    assert_int_equal(cudaMemcpy(got, at, n * sizeof(*got), cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < n; i++)
        most = want[i] > most ? want[i] : -want[i] > most ? -want[i] : most;
    for (size_t i = 0; i < n; i++) {
        double off = (double)got[i] - want[i];
        if (!((off < 0 ? -off : off) <= tolerance * most))
            fail_msg("%s[%zu of %zu]: %.9g instead of %.9g, the greatest is %.3g", what, i, n,
                     (double)got[i], want[i], most);
    }
    free(got);
    assert_int_equal(cudaFree(at), cudaSuccess);
}

#endif
