/*
 * cublas_internal - the parts of libtwinbit_cublas.so, which answers for three functions of cuBLAS
 * in a job: atomics.c has two of them, heuristics.c the third. Each finds the real one behind it
 * (real.c), says what there is to say by libtwinbit_pins.so (say.c), and leaves errno as it was.
 */
#ifndef TB_DETERMINISTIC_CUBLAS_CUBLAS_INTERNAL_H
#define TB_DETERMINISTIC_CUBLAS_CUBLAS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deterministic/cublas/abi.h"
#include "deterministic/preload/log.h"

#define TB_EXPORT __attribute__((visibility("default"), used))
#define TB_HERE __builtin_return_address(0)

/* What is answered for */
TB_EXPORT int cublasCreate_v2(void **handle);
TB_EXPORT int cublasSetAtomicsMode(void *handle, int mode);
TB_EXPORT int cublasLtMatmulAlgoGetHeuristic(void *lt, void *operation, void *a, void *b, void *c,
                                             void *d, void *preference, int asked,
                                             struct tb_cublaslt_result *results, int *given);

/* real.c */

/** struct tb_cublas_real - cuBLAS as one caller means it; NULL: it has no such function */
struct tb_cublas_real {
    tb_cublas_create *create;
    tb_cublas_set_mode *set_mode;
    tb_cublas_get_mode *get_mode;
    tb_cublaslt_heuristic *heuristic;
    tb_cublaslt_check *check;
    tb_cublaslt_attribute *operation, *layout, *preference;
    tb_cublaslt_version *version;
};

/**
 * tb_cublas_real - the functions that @pc, where a call returns to, would have reached without us
 *
 * A process may hold two versions of cuBLAS, and a library that was opened with RTLD_LOCAL is in
 * nobody's sight: the caller's own dependencies are asked first, then what comes behind us, then
 * what is loaded. Asked once a place. Threads: any.
 */
void tb_cublas_real(const void *pc, struct tb_cublas_real *out);

/** tb_cublas_place - "library+0xoffset" of @pc into @out, ended by NUL; returns its length */
size_t tb_cublas_place(const void *pc, char *out, size_t size);

/* say.c */

/** struct tb_cublas_wanted - set when the library is loaded, then constant */
struct tb_cublas_wanted {
    bool atomics, force, heuristics, replay;
};

const struct tb_cublas_wanted *tb_cublas_wanted(void);

/** tb_cublas_say - a record with @value and @pc's place behind it; @what as in
 * twinbit_pins_decide() */
void tb_cublas_say(unsigned what, uint64_t stream, uint32_t n, const void *value, uint32_t bytes,
                   const void *pc);

/** tb_cublas_thread - number of the calling thread, the same in a replay */
uint64_t tb_cublas_thread(void);

/** tb_cublas_recorded - record @n of @stream in the run that is repeated; NULL: there is none */
const struct tb_preload_record *tb_cublas_recorded(unsigned kind, uint64_t stream, uint32_t n,
                                                   uint64_t *at);

/* problem.c */

/** struct tb_cublas_question - the arguments of cublasLtMatmulAlgoGetHeuristic() */
struct tb_cublas_question {
    void *lt, *operation, *layout[4], *preference;
    int asked;
    struct tb_cublaslt_result *results;
    int *given;
};

/** tb_cublas_problem - a number for what is asked, the same in each run; no pointer is in it */
uint64_t tb_cublas_problem(const struct tb_cublas_real *real, const struct tb_cublas_question *q);

#endif
