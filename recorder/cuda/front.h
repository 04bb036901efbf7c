/*
 * front.h - between what sees the calls of the CUDA driver API (a front end) and the engine that
 * turns them into events.
 *
 * Two front ends: shim/ is a libcuda.so.1 that forwards, cupti.c a subscriber of CUPTI. Both hand
 * each call they know to tb_cuda_enter() and tb_cuda_exit(), with its CUPTI callback id and its
 * arguments in the struct that CUPTI has for them (generated: gen/recorder/cuda_calls.h), and the
 * engine cannot tell them apart but by struct tb_cuda_call.
 */
#ifndef TB_RECORDER_CUDA_FRONT_H
#define TB_RECORDER_CUDA_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/recorder.h"

/** struct tb_cuda_call - one call of the driver API; borrowed for enter and exit */
struct tb_cuda_call {
    uint32_t id; /* CUPTI_DRIVER_TRACE_CBID_...: TB_CUDA_<name> in gen/recorder/cuda_calls.h */
    bool legal;  /* CUDA may be called from here: not inside a callback of CUPTI */
    int result;  /* CUresult; on exit */
    const void *params; /* struct tb_<name>_params; what it points to is the job's */
    void *change;       /* @params, if arguments may still be changed at enter; else NULL */
    uint64_t *user;     /* 0 at enter, kept until exit */
};

/**
 * struct tb_cuda_front - what the engine needs of a front end; static
 * @symbol: the real driver's function of that exported name ("cuMemAlloc_v2",
 * "cuLaunchKernel_ptsz"), never one of ours; NULL: this driver does not have it
 */
struct tb_cuda_front {
    const char *name; /* "shim", "cupti" */
    void *(*symbol)(const char *name);
};

/**
 * tb_cuda_start - the front end is ready: called once, before the first call is handed over
 * @api: of the recorder; kept
 * Returns: false: recording is off, hand nothing over.
 * Threads: one. Calls no CUDA.
 */
bool tb_cuda_start(const struct tb_cuda_front *front, const struct tb_rec_api *api);

/**
 * tb_cuda_enter / tb_cuda_exit - a call begins, has ended; on the thread that makes it
 * Both return at once where the thread is inside the engine already (its own calls of CUDA).
 * Threads: any. No lock is held while CUDA is called. errno is kept.
 */
void tb_cuda_enter(struct tb_cuda_call *call);
void tb_cuda_exit(struct tb_cuda_call *call);

/**
 * tb_cuda_legal - CUDA may be called here, on this thread: work that had to wait is queued now
 * Called by whoever stands outside of any callback: the shim at the end of each call, the torch
 * tap.
 */
void tb_cuda_legal(void);

/** tb_cuda_own - this thread is in a launch of the engine's own: its calls need not be handed over
 */
extern _Thread_local bool tb_cuda_own;

/** tb_cuda_unknown - a call with an id that the front end has no params for: counted, reported */
void tb_cuda_unknown(uint32_t id, const char *name);

/** tb_cuda_range - NVTX or twinbit.h: @push text, or pop if NULL */
void tb_cuda_range(const char *push);

#endif
