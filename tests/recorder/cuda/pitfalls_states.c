/* pitfalls of states: steps of twinbit.h at whose ends device memory is hashed, at level boundary.
 */
#include "pitfalls.h"

#include <stdlib.h>

#include "include/twinbit.h"

#define BYTES 4096u
#define STEPS 4u

static CUdeviceptr memory(size_t bytes)
{
    CUdeviceptr p;

    OK(cu.cuMemAlloc(&p, bytes));
    OK(cu.cuMemsetD8(p, 0, bytes));
    return p;
}

/* 64 x @blocks times @v at @p */
static void fill(CUdeviceptr p, unsigned v, unsigned blocks, CUstream s)
{
    unsigned n = 64 * blocks;
    void *params[] = {&p, &v, &n};

    OK(cu.cuLaunchKernel(pitfalls_fill(), blocks, 1, 1, 64, 1, 1, 0, s, params, NULL));
}

static unsigned planted(unsigned step)
{
    const char *value = getenv("PITFALL_VALUE");

    return step == 2 && value ? (unsigned)atoi(value) : step;
}

static void check(CUdeviceptr p, unsigned v)
{
    unsigned got[64];

    OK(cu.cuMemcpyDtoH(got, p, sizeof(got)));
    for (int i = 0; i < 64; i++)
        IS(got[i], v);
}

static void name(CUdeviceptr p, const char *as)
{
    twinbit_tensor((const void *)p, BYTES, "i32", as);
}

/* Three tensors, the last a part of memory; in step 2 "h.1" gets $PITFALL_VALUE. */
void pitfalls_states_named(void)
{
    CUdeviceptr a = memory(BYTES), b = memory(BYTES), c = memory(4 * BYTES),
                scratch = memory(BYTES);

    name(a, "h.0");
    name(b, "h.1");
    name(c + BYTES, "h.2");
    for (unsigned step = 0; step < STEPS; step++) {
        fill(a, step, 16, NULL);
        fill(b, planted(step), 16, NULL);
        OK(cu.cuMemcpyDtoD(c + BYTES, a, BYTES));
        fill(scratch, step, 16, NULL);
        twinbit_step();
    }
    check(c + BYTES, STEPS - 1);
}

/* The same without names; one buffer is written in every second step, one is freed in step 1. */
void pitfalls_states_unnamed(void)
{
    CUdeviceptr a = memory(BYTES), b = memory(BYTES), c = memory(BYTES);

    for (unsigned step = 0; step < STEPS; step++) {
        if (step % 2)
            fill(a, step, 16, NULL);
        fill(b, planted(step), 16, NULL);
        if (step == 1)
            OK(cu.cuMemFree(c));
        twinbit_step();
    }
    check(a, STEPS - 1);
}

/* Two streams, each with a tensor of its own; a third that both write in turn, ordered by events.
 */
void pitfalls_states_streams(void)
{
    CUdeviceptr p[3] = {memory(BYTES), memory(BYTES), memory(BYTES)};
    CUstream s[2];
    CUevent e;

    name(p[0], "left");
    name(p[1], "right");
    name(p[2], "both");
    OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++)
        OK(cu.cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamSynchronize(NULL));
    for (unsigned step = 0; step < STEPS; step++) {
        fill(p[2], 10 * step, 16, s[0]);
        OK(cu.cuEventRecord(e, s[0]));
        OK(cu.cuStreamWaitEvent(s[1], e, 0));
        fill(p[0], planted(step), 16, s[0]);
        fill(p[1], step, 16, s[1]);
        fill(p[2], step, 8, s[1]);
        twinbit_step();
        OK(cu.cuEventRecord(e, s[1]));
        OK(cu.cuStreamWaitEvent(s[0], e, 0));
    }
    for (int i = 0; i < 2; i++)
        OK(cu.cuStreamSynchronize(s[i]));
    check(p[2], STEPS - 1);
}

/* Two streams write halves of one tensor at once; each goes on in the next step at once. One of
 * them has a tensor of its own. */
void pitfalls_states_halves(void)
{
    CUdeviceptr p = memory(BYTES), own = memory(BYTES);
    CUstream s[2];

    name(p, "halves");
    name(own, "own");
    for (int i = 0; i < 2; i++)
        OK(cu.cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamSynchronize(NULL));
    for (unsigned step = 0; step < STEPS; step++) {
        for (int i = 0; i < 2; i++)
            fill(p + i * (BYTES / 2), step, 8, s[i]);
        fill(own, planted(step), 16, s[0]);
        twinbit_step();
    }
    for (int i = 0; i < 2; i++)
        OK(cu.cuStreamSynchronize(s[i]));
    check(p, STEPS - 1);
}

/* The next step's writer is another stream, which was ordered behind this step's work, and not
 * behind what is queued since: a hash it does not know of. */
void pitfalls_states_early(void)
{
    CUdeviceptr p = memory(BYTES);
    CUstream s[2];
    CUevent e;

    name(p, "passed on");
    OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++)
        OK(cu.cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamSynchronize(NULL));
    for (unsigned step = 0; step < STEPS; step++) {
        fill(p, step, 16, s[step % 2]);
        OK(cu.cuEventRecord(e, s[step % 2]));
        OK(cu.cuStreamWaitEvent(s[(step + 1) % 2], e, 0));
        twinbit_step();
    }
    OK(cu.cuStreamSynchronize(s[(STEPS - 1) % 2]));
    check(p, STEPS - 1);
}

/* A stream that is gone when the step ends, and a graph. */
void pitfalls_states_gone(void)
{
    CUdeviceptr p = memory(BYTES), q = memory(BYTES);
    CUgraph g;
    CUgraphExec exec;
    CUstream s;

    OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fill(q, 5, 16, s);
    OK(cu.cuStreamEndCapture(s, &g));
    OK(cu.cuGraphInstantiateWithFlags(&exec, g, 0));
    for (unsigned step = 0; step < STEPS; step++) {
        OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        fill(p, planted(step), 16, s);
        OK(cu.cuGraphLaunch(exec, s));
        OK(cu.cuStreamSynchronize(s));
        OK(cu.cuStreamDestroy(s));
        twinbit_step();
    }
    check(q, 5);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(g));
}

/* A tensor of 1 MiB, and one that the host may use when it has waited. */
void pitfalls_states_large(void)
{
    CUdeviceptr p = memory(1u << 20), q;

    OK(cu.cuMemAllocManaged(&q, BYTES, CU_MEM_ATTACH_GLOBAL));
    twinbit_tensor((const void *)p, 1u << 20, "i32", "large");
    name(q, "managed");
    for (unsigned step = 0; step < STEPS; step++) {
        fill(p, step, 16, NULL);
        fill(q, step, 16, NULL);
        OK(cu.cuStreamSynchronize(NULL));
        twinbit_step();
        *(volatile unsigned *)(uintptr_t)q = step;
    }
    check(p, STEPS - 1);
}

/* In step 1 the only name goes with its memory. */
void pitfalls_states_freed(void)
{
    CUdeviceptr p = memory(BYTES), q = memory(BYTES);

    name(p, "once");
    for (unsigned step = 0; step < STEPS; step++) {
        if (step == 0)
            fill(p, 7, 16, NULL);
        fill(q, step, 16, NULL);
        if (step == 1)
            OK(cu.cuMemFree(p));
        twinbit_step();
    }
    check(q, STEPS - 1);
}

/* The program ends with its last step: what it has queued, and the hashes, still run then. */
void pitfalls_states_last(void)
{
    CUdeviceptr p = memory(BYTES * 16);

    name(p, "h.0");
    OK(cu.synchronize());
    for (unsigned i = 0; i < 2; i++)
        fill(p, i, 256, NULL);
    twinbit_step();
}
