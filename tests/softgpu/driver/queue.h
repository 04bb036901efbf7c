/* What the tests of streams, capture and graphs share: a context, kernels that leave their mark in
 * memory that the host reads, and what makes them wait or fail. */
#ifndef TEST_SOFTGPU_QUEUE_H
#define TEST_SOFTGPU_QUEUE_H

#include <cuda.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/softgpu/driver/newest.h"

#define LOG_MAX 255

/* A kernel that waits for memory reads it while others write: that is what is tested. */
#ifdef __SANITIZE_THREAD__
#define SKIP_IF_RACES_ARE_ERRORS() skip()
#else
#define SKIP_IF_RACES_ARE_ERRORS() (void)0
#endif

struct queue {
    CUcontext ctx;
    CUmodule module;
    CUfunction mark, add, trap, wait;
    uint32_t *log; /* pinned: number of marks, then the marks */
};

static const char queue_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    /* log[++log[0]] = id */
    ".visible .entry mark(.param .u64 log, .param .u32 id)\n{\n"
    " .reg .u64 %a<4>;\n .reg .u32 %r<4>;\n"
    " ld.param.u64 %a0, [log];\n ld.param.u32 %r0, [id];\n"
    " ld.global.u32 %r1, [%a0];\n add.u32 %r1, %r1, 1;\n st.global.u32 [%a0], %r1;\n"
    " mul.wide.u32 %a1, %r1, 4;\n add.u64 %a1, %a0, %a1;\n st.global.u32 [%a1], %r0;\n"
    " ret;\n}\n"
    /* *p += n */
    ".visible .entry add(.param .u64 p, .param .u32 n)\n{\n"
    " .reg .u64 %a<2>;\n .reg .u32 %r<3>;\n"
    " ld.param.u64 %a0, [p];\n ld.param.u32 %r0, [n];\n"
    " ld.global.u32 %r1, [%a0];\n add.u32 %r1, %r1, %r0;\n st.global.u32 [%a0], %r1;\n"
    " ret;\n}\n"
    /* wait until *p is not 0 */
    ".visible .entry wait(.param .u64 p)\n{\n"
    " .reg .u64 %a<1>;\n .reg .u32 %r<1>;\n .reg .pred %p<1>;\n ld.param.u64 %a0, [p];\n"
    "AGAIN:\n ld.volatile.global.u32 %r0, [%a0];\n setp.eq.u32 %p0, %r0, 0;\n"
    " @%p0 bra AGAIN;\n ret;\n}\n"
    ".visible .entry stop()\n{\n trap;\n ret;\n}\n";

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)
#define FAILS(call, error) assert_int_equal(call, error)

static inline void queue_open(struct queue *q)
{
    memset(q, 0, sizeof(*q));
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&q->ctx, 0));
    OK(cuCtxSetCurrent(q->ctx));
    OK(cuModuleLoadData(&q->module, queue_ptx));
    OK(cuModuleGetFunction(&q->mark, q->module, "mark"));
    OK(cuModuleGetFunction(&q->add, q->module, "add"));
    OK(cuModuleGetFunction(&q->trap, q->module, "stop"));
    OK(cuModuleGetFunction(&q->wait, q->module, "wait"));
    OK(cuMemHostAlloc((void **)&q->log, (LOG_MAX + 1) * sizeof(uint32_t), 0));
    memset(q->log, 0, (LOG_MAX + 1) * sizeof(uint32_t));
}

/* The context may be dead: nothing is checked. */
static inline void queue_close(void)
{
    cuDevicePrimaryCtxReset(0);
    cuCtxSetCurrent(NULL);
    cuDevicePrimaryCtxRelease(0);
}

static inline int queue_setup(void **state)
{
    static struct queue q;

    queue_open(&q);
    *state = &q;
    return 0;
}

static inline int queue_teardown(void **state)
{
    (void)state;
    queue_close();
    return 0;
}

static inline CUresult queue_mark(const struct queue *q, CUstream s, uint32_t id)
{
    CUdeviceptr log = (CUdeviceptr)(uintptr_t)q->log;
    void *params[] = {&log, &id};

    return cuLaunchKernel(q->mark, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);
}

static inline CUresult queue_trap(const struct queue *q, CUstream s)
{
    return cuLaunchKernel(q->trap, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL);
}

/* A kernel that ends when the word at @p is not 0. */
static inline CUresult queue_wait(const struct queue *q, CUstream s, CUdeviceptr p)
{
    return cuLaunchKernel(q->wait, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&p}, NULL);
}

static inline uint32_t queue_count(const struct queue *q)
{
    return __atomic_load_n(&q->log[0], __ATOMIC_ACQUIRE);
}

static inline void queue_forget(const struct queue *q)
{
    __atomic_store_n(&q->log[0], 0, __ATOMIC_RELEASE);
}

/* Where the first mark @id stands, from 1; 0: nowhere. */
static inline uint32_t queue_at(const struct queue *q, uint32_t id)
{
    for (uint32_t i = 1; i <= queue_count(q); i++)
        if (q->log[i] == id)
            return i;
    return 0;
}

static inline void assert_marks(const struct queue *q, const uint32_t *ids, uint32_t n)
{
    assert_int_equal(queue_count(q), n);
    assert_memory_equal(&q->log[1], ids, n * sizeof(*ids));
}
#define ASSERT_MARKS(q, ...)                                                                       \
    assert_marks(q, (const uint32_t[]){__VA_ARGS__},                                               \
                 sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static inline CUstream queue_stream(unsigned flags)
{
    CUstream s = NULL;

    OK(cuStreamCreate(&s, flags));
    return s;
}

static inline CUevent queue_event(void)
{
    CUevent e = NULL;

    OK(cuEventCreate(&e, CU_EVENT_DEFAULT));
    return e;
}

static inline void queue_sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static inline uint64_t queue_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Work runs by itself once the host has made no call for 0.2 s, also if only because the machine
 * has not let it run. False: since @begin, which is now, half of that has passed, so that it may
 * have been so, and what ran says nothing. */
static inline bool queue_was_prompt(uint64_t *begin)
{
    uint64_t now = queue_now_ms();
    bool prompt = now - *begin < 100;

    *begin = now;
    return prompt;
}

#endif
