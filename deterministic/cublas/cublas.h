/*
 * cublas.h - what libtwinbit_cublas.so is told by the parent of a job, and what it writes down.
 *
 * The parent preloads it beside libtwinbit_pins.so and sets TWINBIT_CUBLAS to the words below, with
 * ',' between them. Its records stand in the log of libtwinbit_pins.so (preload/log.h, kinds
 * TB_PRELOAD_ATOMICS and TB_PRELOAD_ALGORITHM); their payloads are the structs here, with the
 * caller behind them as text, "libtorch_cuda.so+0x1234", not ended by NUL.
 */
#ifndef TB_DETERMINISTIC_CUBLAS_CUBLAS_H
#define TB_DETERMINISTIC_CUBLAS_CUBLAS_H

#include <assert.h>
#include <stdint.h>

#define TB_CUBLAS_ENV "TWINBIT_CUBLAS"
#define TB_CUBLAS_ATOMICS "atomics"       /* each handle gets NOT_ALLOWED */
#define TB_CUBLAS_FORCE "force"           /* and keeps it, whatever the job asks for */
#define TB_CUBLAS_HEURISTICS "heuristics" /* answers of cuBLASLt's are written down, repeated */

enum tb_cublas_event { TB_CUBLAS_CREATED, TB_CUBLAS_ASKED };

/** struct tb_cublas_atomics - a handle was made, or the job asked for ALLOWED */
struct tb_cublas_atomics {
    uint32_t event;
    uint32_t mode;   /* CREATED: what cuBLAS says the handle has; ASKED: what was passed on */
    uint32_t status; /* of cuBLAS */
    uint32_t reserved;
};

/**
 * struct tb_cublas_algorithm - the first algorithm that was named for a product
 *
 * Its stream is made of the thread and the product. Record n of a stream holds from question `ask`
 * on, until the next record. Without a payload: there was no room to tell more products apart.
 */
struct tb_cublas_algorithm {
    uint64_t algo[8];
    uint64_t workspace;
    uint64_t version; /* of cuBLASLt: an algorithm means nothing to another one */
    uint64_t ask;
};

static_assert(sizeof(struct tb_cublas_algorithm) == 88, "file format");

#endif
