/* symbol.h - the name that an event gives a kernel, out of the name its code has. */
#ifndef TB_RECORDER_CUDA_SYMBOL_H
#define TB_RECORDER_CUDA_SYMBOL_H

#include <stddef.h>

/**
 * tb_cu_short_name - "ns::kernel" of "_ZN2ns6kernelIfEEvPT_": no template arguments, no parameters
 * @symbol: mangled as by C++ (Itanium ABI) or by Numba, or anything else, which stays as it is
 * @out:    ends with 0; cut if longer than @size. What separates parts of event names is replaced
 *
 * What Numba writes for a function inside of a function ("f::_3clocals_3e::g") is "f::<locals>::g".
 */
void tb_cu_short_name(const char *symbol, char *out, size_t size);

#endif
