/*
 * The fuzz target of the analysis: any bytes give an error, or a table whose parts lie where its
 * head says. Replayed by tests/softgpu/ptx/replay_ptx.c.
 */
#include "kernelinfo/kernelinfo.h"
#include "tests/kernelinfo/dump.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static void check(const struct tb_wire_kernels *t, size_t bytes)
{
    MUST(bytes == sizeof(*t) + t->kernels * sizeof(struct tb_wire_kernel) +
                      t->words * sizeof(struct tb_wire_word) +
                      t->globals * sizeof(struct tb_wire_global) + t->text_bytes);
    for (uint32_t i = 0; i < t->kernels; i++) {
        const struct tb_wire_kernel *k = &ki_kernels(t)[i];

        MUST(k->first_word + k->words <= t->words && k->first_global + k->globals <= t->globals);
        MUST(k->text < t->text_bytes);
        for (uint32_t w = 0; w < k->words; w++) {
            const struct tb_wire_word *word = &ki_words(t)[k->first_word + w];

            MUST(word->bytes && word->offset + word->bytes <= k->param_bytes && word->flags);
            MUST(w == 0 || word[-1].offset <= word->offset);
        }
        for (uint32_t g = 0; g < k->globals; g++)
            MUST(ki_globals(t)[k->first_global + g].text < t->text_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct tb_error err = {0};
    void *table = NULL;
    size_t bytes = 0;

    if (tb_kernelinfo(data, n, &table, &bytes, &err) == TB_OK)
        check(table, bytes);
    else
        MUST(!table && err.text[0]);
    free(table);
    return 0;
}
