/*
 * What callbacks.c and callbacks_scenarios.c share: functions that are looked up in the libraries
 * under test, and the scenarios.
 */
#ifndef SG_TESTS_CONFORMANCE_CALLBACKS_H
#define SG_TESTS_CONFORMANCE_CALLBACKS_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cb_library { CB_DRIVER, CB_RUNTIME, CB_CUPTI, CB_LIBRARIES };
void *cb_symbol(enum cb_library library, const char *name);

#define CB_NAME_(name) #name
#define CB_NAME(name) CB_NAME_(name)
/* CU(cuMemAlloc)(&p, 16): macros of the headers turn the name into cuMemAlloc_v2 first */
#define CU(fn) ((__typeof__(&fn))cb_symbol(CB_DRIVER, CB_NAME(fn)))
#define RT(fn) ((__typeof__(&fn))cb_symbol(CB_RUNTIME, CB_NAME(fn)))
#define CUPTI(fn) ((__typeof__(&fn))cb_symbol(CB_CUPTI, CB_NAME(fn)))

/* What the scenarios run in; made by the first of them, which is told of too. */
struct stage {
    CUdevice dev;
    CUcontext ctx; /* the primary one */
    CUstream stream;
    CUmodule module;
    CUfunction nothing, store; /* no parameters; a pointer */
    CUdeviceptr mem;           /* 4 KiB */
};

struct scenario {
    const char *name;
    const char *domains; /* of "driver runtime resource sync nvtx" */
    /* without callbacks: before and after; may be NULL */
    void (*before)(struct stage *s), (*after)(struct stage *s);
    void (*run)(struct stage *s);
};
extern const struct scenario cb_scenarios[];
extern const size_t cb_nscenarios;

/** cb_ok - a call of a scenario that must succeed: says so and exits if it did not */
void cb_ok(int result, const char *call);
#define OK(call) cb_ok((int)(call), #call)

extern const char cb_ptx[];

#endif
