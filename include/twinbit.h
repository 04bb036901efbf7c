/*
 * twinbit.h - marks for twinbit in a program of your own: steps, ranges, tensors, pause.
 *
 * A header alone: nothing to link. Without twinbit each call is a load and a branch. Under
 * `twinbit run` the marks appear in event names and reports. C99 and C++11, Linux; any thread.
 *
 *     for (int step = 0; step < n; step++) {
 *         twinbit_range_push("forward");
 *         ...
 *         twinbit_range_pop();
 *         twinbit_step();
 *     }
 */
#ifndef TWINBIT_H
#define TWINBIT_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** struct twinbit_marks - what the library in the process offers; later versions only add */
struct twinbit_marks {
    uint32_t size;
    void (*range_push)(const char *name);
    void (*range_pop)(void);
    void (*step)(void);
    void (*tensor)(const void *data, size_t bytes, const char *dtype, const char *name);
    void (*pause)(int on);
};

static inline const struct twinbit_marks *twinbit_marks_find(void)
{
    static const struct twinbit_marks *found;
    static int looked;

    if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
        void *symbol = dlsym(RTLD_DEFAULT, "twinbit_marks");
        const struct twinbit_marks *marks = NULL;
        if (symbol) {
            const struct twinbit_marks *(*get)(void);
            __builtin_memcpy(&get, &symbol, sizeof(get));
            marks = get();
        }
        __atomic_store_n(&found, marks, __ATOMIC_RELAXED);
        __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&found, __ATOMIC_RELAXED);
}

/** twinbit_range_push - what this thread does from here on is called @name (copied, 63 bytes) */
static inline void twinbit_range_push(const char *name)
{
    const struct twinbit_marks *m = twinbit_marks_find();

    if (m)
        m->range_push(name);
}

static inline void twinbit_range_pop(void)
{
    const struct twinbit_marks *m = twinbit_marks_find();

    if (m)
        m->range_pop();
}

/** twinbit_step - a training step has ended; at level boundary named device memory is hashed here
 */
static inline void twinbit_step(void)
{
    const struct twinbit_marks *m = twinbit_marks_find();

    if (m)
        m->step();
}

/**
 * twinbit_tensor - @bytes of device memory at @data hold elements of one type and have a name
 * @dtype: "f32", "f16", "bf16", "f64", "i32", "i64", "u8", ... ; copied, as @name is
 * Holds until that memory is freed or named anew.
 */
static inline void twinbit_tensor(const void *data, size_t bytes, const char *dtype,
                                  const char *name)
{
    const struct twinbit_marks *m = twinbit_marks_find();

    if (m)
        m->tensor(data, bytes, dtype, name);
}

/** twinbit_pause - @on: record nothing of this process; 0: go on. What was left out is told */
static inline void twinbit_pause(int on)
{
    const struct twinbit_marks *m = twinbit_marks_find();

    if (m)
        m->pause(on);
}

#ifdef __cplusplus
}
#endif

#endif
