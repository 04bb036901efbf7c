/*
 * pytap.h - the Python tap: what python/twinbit/_pytap.py tells this library about operator calls.
 *
 * Where the C++ tap (recorder/torch) cannot be compiled, a TorchDispatchMode sees the operators and
 * describes them here; this library makes the same events of them. It needs libc alone. Beside what
 * is below it exports all functions of the C++ tap that python/twinbit/_glue.py calls.
 *
 * ---- Words
 * -------------------------------------------------------------------------------------------- A
 * list of accesses is an array of int64_t, one access after another: 0  mode | dtype << 8 | bytes
 * an element << 16 | dimensions << 24 | enum tb_pt_access_flags << 32 1  interned name of the
 * argument | interned name of the device << 32 (0: cpu) 2  address of element (0, 0, ...)      mode
 * h: the value's first 8 bytes; g: address of the state 3  identity of the storage, 0: none    mode
 * h: its other 8 bytes 4  address of the storage 5  bytes of the storage                mode g:
 * bytes of the state 6  bytes from the storage to element (0, 0, ...) 7  sizes; then strides, in
 * elements, unless TB_PT_CONTIGUOUS Modes are those of a site text (recorder/wire.h). Lists that do
 * not add up are refused as a whole. All pointers are borrowed for the call. Threads: any; begin
 * and end of a call on the same one.
 */
#ifndef TB_RECORDER_PYTAP_PYTAP_H
#define TB_RECORDER_PYTAP_PYTAP_H

#include <stddef.h>
#include <stdint.h>

#include "recorder/recorder.h"

#define TB_PT_EXPORT __attribute__((visibility("default")))
#define TB_PT_WORDS 7 /* before the sizes */

enum tb_pt_access_flags {
    TB_PT_CONTIGUOUS = 1 << 0,
    TB_PT_CONJ = 1 << 1,
    TB_PT_NEG = 1 << 2,
    TB_PT_FOREIGN = 1 << 3, /* memory that torch did not allocate */
};

/** struct tb_pt_call - where a call happens; filled by Python as eight int64_t */
struct tb_pt_call {
    int64_t op;   /* interned name */
    int64_t kind; /* TB_EV_OP or TB_EV_COLL */
    int64_t node; /* the autograd node that runs it, any number but 0; 0: not in a backward pass */
    int64_t node_name; /* interned */
    int64_t node_seq;  /* its sequence number, < 0: it has none */
    int64_t next_seq;  /* the sequence number that the next forward node gets, < 0: unknown */
    int64_t args;      /* address of a text of all arguments that are not tensors */
    int64_t args_size;
};
static_assert(sizeof(struct tb_pt_call) == 64, "pytap: tb_pt_call");

enum tb_pt_wants {
    TB_PT_RECORD = 1 << 0,
    TB_PT_INPUTS = 1 << 1,
};

enum tb_pt_end_flags {
    TB_PT_FAILED = 1 << 0,
    TB_PT_SILENT = 1 << 1,  /* it only made views, or other operators do its work: no event */
    TB_PT_PARTIAL = 1 << 2, /* a tensor of it could not be looked into */
};

/** twinbit_op_wants - enum tb_pt_wants for a call on this thread now; 0: let it pass */
TB_PT_EXPORT uint32_t twinbit_op_wants(void);
/** twinbit_op_level - 1 if operators are to be seen at all in this process */
TB_PT_EXPORT int twinbit_op_level(void);
/**
 * twinbit_op_begin - a call begins: @words: what it reads
 * Returns: 1 and twinbit_op_end() must follow; 0: it is not recorded.
 */
TB_PT_EXPORT int twinbit_op_begin(const struct tb_pt_call *call, const int64_t *words, uint64_t n);
/** twinbit_op_end - the call that began last on this thread has ended; @words: what it wrote */
TB_PT_EXPORT void twinbit_op_end(const int64_t *words, uint64_t n, uint32_t flags);
/** twinbit_op_seq - forward nodes below @next_seq belong to the module that runs now */
TB_PT_EXPORT void twinbit_op_seq(int64_t next_seq);
/** twinbit_op_empty - @words: tensors whose bytes nobody wrote yet; @lifted: that the host filled
 */
TB_PT_EXPORT void twinbit_op_empty(const int64_t *words, uint64_t n, int lifted);
/** twinbit_storage_drop - the storage has died; its identity may be used again */
TB_PT_EXPORT void twinbit_storage_drop(uint64_t storage);
/** twinbit_state_tensors - named state at a step's end, as one event; modes s and x */
TB_PT_EXPORT void twinbit_state_tensors(const int64_t *words, uint64_t n);
/** twinbit_state_rng - the default CPU generator's get_state() at a step's end */
TB_PT_EXPORT void twinbit_state_rng(const void *state, uint64_t n);

#endif
