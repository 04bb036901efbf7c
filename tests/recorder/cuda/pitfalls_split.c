/*
 * pitfalls: streams use one allocation at once, each a part of it, and then one of them all of it:
 * what a recorder takes a kernel to write must be all of it again, and in each run from the same
 * launch on.
 */
#include "pitfalls.h"

#include <pthread.h>
#include <stddef.h>

#define BYTES 4096u
#define HALF (BYTES / 2)

static CUdeviceptr p;
static CUstream mine;

static void launch(CUdeviceptr at, unsigned bytes, CUstream s, unsigned times)
{
    unsigned v = 7, n = bytes / 4;
    void *params[] = {&at, &v, &n};

    for (unsigned i = 0; i < times; i++)
        OK(cu.cuLaunchKernel(pitfalls_fill(), n / 64, 1, 1, 64, 1, 1, 0, s, params, NULL));
}

/* Each has its half. */
static CUstream apart(void)
{
    CUstream theirs;

    OK(cu.cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 3; i++) {
        launch(p, HALF, mine, 1);
        launch(p + HALF, HALF, theirs, 1);
    }
    return theirs;
}

static void together(unsigned launches)
{
    launch(p, BYTES, mine, launches);
}

void pitfalls_split(void)
{
    CUstream theirs;
    CUresult r;
    CUevent e;

    OK(cu.cuMemAlloc(&p, BYTES));
    OK(cu.cuStreamCreate(&mine, CU_STREAM_NON_BLOCKING));
    OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    theirs = apart(); /* ordered by an event */
    OK(cu.cuEventRecord(e, theirs));
    OK(cu.cuStreamWaitEvent(mine, e, 0));
    together(40);
    theirs = apart(); /* a stream that is gone, and the device waited for */
    OK(cu.cuStreamDestroy(theirs));
    OK(cu.synchronize());
    together(60);
    theirs = apart(); /* nobody waits */
    together(80);
    do
        r = cu.cuStreamQuery(theirs); /* that it is done is found out, sooner or later */
    while (r == CUDA_ERROR_NOT_READY);
    OK(r);
    together(80);
    OK(cu.cuStreamSynchronize(theirs));
    together(80);
    OK(cu.cuStreamSynchronize(mine));
}

static void *in_thread(void *context)
{
    OK(cu.cuCtxSetCurrent(context));
    pitfalls_split();
    return NULL;
}

/* Not by the main thread. */
void pitfalls_split_thread(void)
{
    CUcontext context;
    pthread_t t;

    OK(cu.cuCtxGetCurrent(&context));
    IS(pthread_create(&t, NULL, in_thread, context), 0);
    IS(pthread_join(t, NULL), 0);
}
