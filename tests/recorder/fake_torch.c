/* Stands in for libtorch_cpu.so: an operator that calls whoever registered. */
#include "tests/recorder/fake_torch.h"

static void (*observer)(uint64_t tag, int kind);

void fake_torch_observe(void (*fn)(uint64_t tag, int kind))
{
    __atomic_store_n(&observer, fn, __ATOMIC_RELEASE);
}

void fake_torch_op(uint64_t tag, int kind)
{
    void (*fn)(uint64_t, int) = __atomic_load_n(&observer, __ATOMIC_ACQUIRE);

    if (fn)
        fn(tag, kind);
}
