/* pitfalls with several threads: launches at once, and a capture while the recorder begins. */
#include "pitfalls.h"

#include <pthread.h>
#include <stddef.h>

#define THREADS 8
#define LAUNCHES 50

static void launch(CUdeviceptr p, unsigned v, CUstream s)
{
    unsigned n = 64;
    void *params[] = {&p, &v, &n};

    OK(cu.cuLaunchKernel(pitfalls_fill(), 1, 1, 1, 64, 1, 1, 0, s, params, NULL));
}

static void check(CUdeviceptr p, unsigned v)
{
    unsigned got[64];

    OK(cu.cuMemcpyDtoH(got, p, sizeof(got)));
    for (int i = 0; i < 64; i++)
        IS(got[i], v);
}

static void *many(void *context)
{
    CUdeviceptr p;
    CUstream s;

    OK(cu.cuCtxSetCurrent(context));
    OK(cu.cuMemAlloc(&p, 256));
    OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 1; i <= LAUNCHES; i++)
        launch(p, i, s);
    OK(cu.cuStreamSynchronize(s));
    check(p, LAUNCHES);
    return NULL;
}

/* Each in a stream and memory of its own, from the first launch of the process on. */
void pitfalls_threads(void)
{
    pthread_t thread[THREADS];
    CUcontext context;

    pitfalls_begin();
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    for (int i = 0; i < THREADS; i++)
        IS(pthread_create(&thread[i], NULL, many, context), 0);
    for (int i = 0; i < THREADS; i++)
        IS(pthread_join(thread[i], NULL), 0);
}

/* @arg: context, memory, stream */
static void *first_launch(void *arg)
{
    const CUdeviceptr *p = arg;

    OK(cu.cuCtxSetCurrent((CUcontext)p[0]));
    launch(p[1], 5, (CUstream)p[2]);
    return NULL;
}

/* The recorder prepares the context at the first launch there is: while another thread captures in
 * global mode, which forbids much. */
void pitfalls_capture(void)
{
    CUdeviceptr arg[3], q;
    CUcontext context;
    CUgraphExec exec;
    CUstream s, other;
    CUgraph graph;
    pthread_t thread;

    pitfalls_begin();
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuMemAlloc(&arg[1], 256));
    OK(cu.cuMemAlloc(&q, 256));
    OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    arg[0] = (CUdeviceptr)context;
    arg[2] = (CUdeviceptr)other;
    OK(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch(q, 4, s);
    IS(pthread_create(&thread, NULL, first_launch, arg), 0);
    IS(pthread_join(thread, NULL), 0);
    launch(q, 7, s);
    OK(cu.cuStreamEndCapture(s, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, s));
    OK(cu.cuStreamSynchronize(s));
    OK(cu.cuStreamSynchronize(other));
    check(q, 7);
    check(arg[1], 5);
}

/* ---------------------------------------------------------------- halves */

/* Two streams, each with its half of one allocation; nothing orders them, and nothing need. */
void pitfalls_halves(void)
{
    CUstream stream[2];
    CUdeviceptr p;

    OK(cu.cuMemAlloc(&p, 512));
    for (unsigned i = 0; i < 2; i++)
        OK(cu.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    for (unsigned v = 1; v <= 6; v++)
        for (unsigned i = 0; i < 2; i++)
            launch(p + i * 256, v, stream[i]);
    for (unsigned i = 0; i < 2; i++)
        OK(cu.cuStreamSynchronize(stream[i]));
    check(p, 6);
    check(p + 256, 6);
}
