/*
 * abi.h - what of cuBLAS and cuBLASLt the library in the job speaks: types as they lie in memory,
 * numbers of attributes, the functions that it answers for. Written from NVIDIA's documentation of
 * both libraries; tests/deterministic/test_cublas_abi.c compares it with the headers of the toolkit
 * where there is one. Handles and descriptors are pointers that only cuBLAS looks behind.
 */
#ifndef TB_DETERMINISTIC_CUBLAS_ABI_H
#define TB_DETERMINISTIC_CUBLAS_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum tb_cublas_status { TB_CUBLAS_SUCCESS = 0, TB_CUBLAS_NOT_INITIALIZED = 1 };

enum tb_cublas_atomics_mode { TB_CUBLAS_NOT_ALLOWED = 0, TB_CUBLAS_ALLOWED = 1 };

#define TB_CUBLASLT_ALGO 8u /* words of an algorithm, whose form is cuBLASLt's own */

/** struct tb_cublaslt_result - one answer of the heuristic */
struct tb_cublaslt_result {
    uint64_t algo[TB_CUBLASLT_ALGO];
    size_t workspace; /* bytes that it needs */
    int state;        /* the rest is valid if this is TB_CUBLAS_SUCCESS */
    float waves;
    int reserved[4];
};

static_assert(sizeof(struct tb_cublaslt_result) == 96, "as cublasLt.h has it");

#define TB_CUBLASLT_PREF_MAX_WORKSPACE 1 /* uint64_t */

/* cublasCreate_v2(), cublasSetAtomicsMode(), cublasGetAtomicsMode() */
typedef int tb_cublas_create(void **handle);
typedef int tb_cublas_set_mode(void *handle, int mode);
typedef int tb_cublas_get_mode(void *handle, int *mode);

/* cublasLtMatmulAlgoGetHeuristic(), cublasLtMatmulAlgoCheck(), cublasLtGetVersion() */
typedef int tb_cublaslt_heuristic(void *lt, void *operation, void *a, void *b, void *c, void *d,
                                  void *preference, int asked, struct tb_cublaslt_result *results,
                                  int *given);
typedef int tb_cublaslt_check(void *lt, void *operation, void *a, void *b, void *c, void *d,
                              const uint64_t *algo, struct tb_cublaslt_result *result);
typedef size_t tb_cublaslt_version(void);

/* cublasLtMatmulDescGetAttribute() and its like for layouts and preferences */
typedef int tb_cublaslt_attribute(void *descriptor, int attribute, void *value, size_t bytes,
                                  size_t *written);

#endif
