/* What the library in the job takes cuBLAS to be, against the headers of the toolkit, as it is
 * built */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "deterministic/cublas/abi.h"

#if defined(__has_include) && __has_include(<cublasLt.h>) && __has_include(<cublas_v2.h>)
#include <cublasLt.h>
#include <cublas_v2.h>

#define SAME(a, b) static_assert((int)(a) == (int)(b), #a)
/* clang-format off */
#define TAKES(function, ...) static_assert(__builtin_types_compatible_p(                           \
    __typeof__(&(function)), cublasStatus_t (*)(__VA_ARGS__)), #function)
/* clang-format on */

SAME(TB_CUBLAS_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(TB_CUBLAS_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED);
SAME(TB_CUBLAS_NOT_ALLOWED, CUBLAS_ATOMICS_NOT_ALLOWED);
SAME(TB_CUBLAS_ALLOWED, CUBLAS_ATOMICS_ALLOWED);
SAME(TB_CUBLASLT_PREF_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(sizeof(cublasStatus_t), sizeof(int));
SAME(sizeof(cublasAtomicsMode_t), sizeof(int));
SAME(sizeof(cublasLtMatmulPreferenceAttributes_t), sizeof(int));
SAME(sizeof(cublasLtMatmulAlgo_t), sizeof(uint64_t[TB_CUBLASLT_ALGO]));
SAME(sizeof(cublasLtMatmulHeuristicResult_t), sizeof(struct tb_cublaslt_result));
SAME(offsetof(cublasLtMatmulHeuristicResult_t, algo), offsetof(struct tb_cublaslt_result, algo));
SAME(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize),
     offsetof(struct tb_cublaslt_result, workspace));
SAME(offsetof(cublasLtMatmulHeuristicResult_t, state), offsetof(struct tb_cublaslt_result, state));
SAME(offsetof(cublasLtMatmulHeuristicResult_t, wavesCount),
     offsetof(struct tb_cublaslt_result, waves));

/* Each argument is a pointer, an int or an enum, in this order */
TAKES(cublasCreate_v2, cublasHandle_t *);
TAKES(cublasSetAtomicsMode, cublasHandle_t, cublasAtomicsMode_t);
TAKES(cublasGetAtomicsMode, cublasHandle_t, cublasAtomicsMode_t *);
TAKES(cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t, cublasLtMatmulDesc_t,
      cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
      cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *,
      int *);
TAKES(cublasLtMatmulAlgoCheck, cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
      cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
      const cublasLtMatmulAlgo_t *, cublasLtMatmulHeuristicResult_t *);
TAKES(cublasLtMatmulDescGetAttribute, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, void *,
      size_t, size_t *);
TAKES(cublasLtMatrixLayoutGetAttribute, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
      void *, size_t, size_t *);
TAKES(cublasLtMatmulPreferenceGetAttribute, cublasLtMatmulPreference_t,
      cublasLtMatmulPreferenceAttributes_t, void *, size_t, size_t *);

int main(void)
{
    printf("as the headers of cuBLAS %d.%d have it\n", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR);
    return 0;
}
#else
int main(void)
{
    fputs("skipped: no headers of cuBLAS\n", stderr);
    return 77;
}
#endif
