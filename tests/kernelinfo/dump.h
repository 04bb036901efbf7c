/* The result of tb_kernelinfo() as lines of text, for tests: see ki_dump(). */
#ifndef TEST_KERNELINFO_DUMP_H
#define TEST_KERNELINFO_DUMP_H

#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"

#include <stdio.h>

static inline const struct tb_wire_kernel *ki_kernels(const struct tb_wire_kernels *t)
{
    return (const struct tb_wire_kernel *)(t + 1);
}

static inline const struct tb_wire_word *ki_words(const struct tb_wire_kernels *t)
{
    return (const struct tb_wire_word *)(ki_kernels(t) + t->kernels);
}

static inline const struct tb_wire_global *ki_globals(const struct tb_wire_kernels *t)
{
    return (const struct tb_wire_global *)(ki_words(t) + t->words);
}

static inline const char *ki_text(const struct tb_wire_kernels *t)
{
    return (const char *)(ki_globals(t) + t->globals);
}

static inline size_t ki_dump_word(char *to, size_t n, const struct tb_wire_word *w)
{
    return (size_t)snprintf(
        to, n, " %u:%u%s%s%s%s%s%s%s%s", w->offset, w->bytes,
        w->flags || w->read || w->write ? "=" : "", w->flags & TB_WORD_READ ? "r" : "",
        w->flags & TB_WORD_WRITE ? "w" : "", w->flags & TB_WORD_ATOMIC ? "a" : "",
        w->flags & TB_WORD_VALUE ? "v" : "", w->read || w->write ? "/" : "",
        w->read ? tb_dtype_name((enum tb_dtype)w->read) : "",
        w->write && w->write != w->read ? tb_dtype_name((enum tb_dtype)w->write) : "");
}

/* "name 0:8=rw/f32 8:4=v +g INDIRECT_WRITE": words offset:bytes=flags/types, variables (- read,
 * + written, m managed, f fixed), flags */
static inline void ki_dump(const struct tb_wire_kernels *t, uint32_t kernel, char *to, size_t n)
{
    static const char *const flags[] = {
        "INDIRECT_WRITE", "INDIRECT_READ", "UNTRACED_WRITE", "UNTRACED_READ", "FLOAT_ATOMIC",
        "CLOCK",          "HEAP"};
    const struct tb_wire_kernel *k = &ki_kernels(t)[kernel];
    size_t at = (size_t)snprintf(to, n, "%s", ki_text(t) + k->text);

    for (uint32_t i = 0; i < k->words && at < n; i++)
        at += ki_dump_word(to + at, n - at, &ki_words(t)[k->first_word + i]);
    for (uint32_t i = 0; i < k->globals && at < n; i++) {
        const struct tb_wire_global *g = &ki_globals(t)[k->first_global + i];

        at += (size_t)snprintf(to + at, n - at, " %s%s%s%s%s", g->flags & TB_GLOBAL_READ ? "-" : "",
                               g->flags & TB_GLOBAL_WRITE ? "+" : "",
                               g->flags & TB_GLOBAL_MANAGED ? "m" : "",
                               g->flags & TB_GLOBAL_FIXED ? "f" : "", ki_text(t) + g->text);
    }
    for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]) && at < n; i++)
        if (k->flags >> i & 1)
            at += (size_t)snprintf(to + at, n - at, " %s", flags[i]);
}

#endif
