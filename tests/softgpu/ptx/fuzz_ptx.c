/* libFuzzer's entry; replay_ptx.c feeds the same function without a fuzzer. */
#include "tests/softgpu/ptx/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (walk_input(data, n) == TB_ERR_NOMEM)
        abort(); /* whatever the input is, memory stays bounded by its size */
    return 0;
}
