/*
 * shim_internal.h - private to the shim, a libcuda.so.1 in front of the real one.
 *
 * The exported functions are generated (gen_cuda.py): those that are only forwarded are jumps in
 * shim_stubs.S, the hooked ones C functions in shim_exports.c. Both reach the real driver through
 * tb_shim_real[], which real.c fills at the first call. start.c opens the engine, proc.c is
 * cuGetProcAddress.
 *
 * Rules of recorder.h hold here, too; and nothing waits for another thread without a limit: calls
 * of CUDA are made inside the dynamic linker's lock.
 */
#ifndef TB_RECORDER_CUDA_SHIM_INTERNAL_H
#define TB_RECORDER_CUDA_SHIM_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/cuda/attach.h"

#define TB_SHIM_EXPORT __attribute__((visibility("default")))

/** struct tb_shim_name - an exported function; own: ours, NULL if it is only a jump */
struct tb_shim_name {
    const char *name;
    void *own;
};
extern const struct tb_shim_name tb_shim_names[]; /* by name */
extern const unsigned tb_shim_count;

/* Same order. Written by real.c with the same values by whoever comes; 0: not looked up yet. */
extern void *tb_shim_real[] __attribute__((visibility("hidden")));

/** struct tb_shim_proc - a version of a function, as cuGetProcAddress knows them */
struct tb_shim_proc {
    const char *base;
    int version;    /* of CUDA that brought it: 3020 */
    unsigned index; /* into tb_shim_names */
    bool per_thread;
};
extern const struct tb_shim_proc tb_shim_procs[];
extern const unsigned tb_shim_procs_count;

/**
 * tb_shim_resolve - look all functions up; address of function @index
 * Never NULL: a function that returns an error stands for one that the real driver lacks.
 */
void *tb_shim_resolve(unsigned index);
static inline void *tb_shim_function(unsigned index)
{
    void *f = __atomic_load_n(&tb_shim_real[index], __ATOMIC_RELAXED);

    return __builtin_expect(f != NULL, 1) ? f : tb_shim_resolve(index);
}
/** tb_shim_find - index of an exported name, -1: none of ours */
int tb_shim_find(const char *name);
/** tb_shim_symbol - the real driver's function of that name, NULL: it has none */
void *tb_shim_symbol(const char *name);
/** tb_shim_learn - the driver has function @index at @address, though it does not export it */
void tb_shim_learn(unsigned index, void *address);
/** tb_shim_by_address - index of the function that the real driver has at @address, -1 */
int tb_shim_by_address(const void *address);

enum { TB_SHIM_NEW = 0, TB_SHIM_STARTING, TB_SHIM_OFF, TB_SHIM_SEE, TB_SHIM_LEGAL };
extern uint32_t tb_shim_state __attribute__((visibility("hidden"))); /* futex word; start.c */

/** tb_shim_is_off - nobody records in this process: forward and nothing else */
static inline bool tb_shim_is_off(void)
{
    return __atomic_load_n(&tb_shim_state, __ATOMIC_RELAXED) == TB_SHIM_OFF;
}

/** tb_shim_enter - the call begins; true: the engine was told and wants to hear of its end */
bool tb_shim_enter(struct tb_cuda_call *call);
/** tb_shim_exit - it has ended; @told as enter said */
void tb_shim_exit(struct tb_cuda_call *call, bool told);
/** tb_shim_unknown - the job was given a function that we have no name for */
void tb_shim_unknown(const char *name);

#endif
