/* A library named libtorch_cpu.so with one operator, and what its tap does with it (fake_tap.c). */
#ifndef TB_TESTS_FAKE_TORCH_H
#define TB_TESTS_FAKE_TORCH_H

#include <stdint.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

/* What an operator is; the tap writes an event whose `args` is the tag. */
enum fake_kind {
    FAKE_ADD = 0,      /* 3 accesses: 2 reads, 1 hashed write */
    FAKE_STEP = 1,     /* end of a step */
    FAKE_WIDE = 2,     /* 5000 accesses: more than a ring of 64 KiB holds */
    FAKE_MAPPED = 3,   /* as ADD, with a coarse map */
    FAKE_SNAPSHOT = 4, /* as ADD, with a snapshot of its write */
    FAKE_COVER = 5,    /* a coverage row of its own event */
    FAKE_BACKWARD = 6, /* as ADD, in the backward pass */
    FAKE_STOP = 7,     /* the tap stops recording */
    FAKE_STACK = 8,    /* as ADD, with source lines */
    FAKE_META = 9,     /* a key of 20 KB of text */
    FAKE_HELD = 10,    /* as MAPPED, but the event never comes: the thread sleeps before it */
};

FAKE_EXPORT void fake_torch_observe(void (*fn)(uint64_t tag, int kind));
FAKE_EXPORT void fake_torch_op(uint64_t tag, int kind);

#endif
