/* fuzz_exec - what the fuzzer of the engine and the replay of its corpus share. */
#ifndef TESTS_SOFTGPU_FUZZ_EXEC_H
#define TESTS_SOFTGPU_FUZZ_EXEC_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Changes a few words or lines of PTX in place; at most @max bytes. The same seed, the same text.
 */
size_t mutate_ptx(uint8_t *data, size_t n, size_t max, uint64_t seed);

#endif
