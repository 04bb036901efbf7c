/*
 * kernelinfo - what the kernels of a module do with their parameters, found in its PTX: through
 * which words of the parameters they read and write memory, which module variables they use,
 * and where that cannot be known.
 *
 * Start at tb_kernelinfo(); the result is struct tb_wire_kernels of recorder/wire.h. How the
 * analysis works, and what it takes for granted, stands in flow.c and sets.c.
 */
#ifndef TB_KERNELINFO_KERNELINFO_H
#define TB_KERNELINFO_KERNELINFO_H

#include "common/common.h"

#include <stddef.h>

/**
 * tb_kernelinfo - analyse all kernels of an image
 * @image: @n bytes: PTX text, or fat binaries, one behind the other (not the wrapper of one);
 *          borrowed during the call only
 * @out:   struct tb_wire_kernels and what follows it, *@out_bytes bytes, freed with free()
 *
 * A fat binary may hold several PTX: which one a driver takes is not known here, so a kernel gets
 * what any of them does. Of those that cannot be read the first is named in @err even on success,
 * and all kernels are marked UNTRACED then.
 * Of machine code alone there are no kernels, but whether it has variables.
 * Returns: TB_OK; TB_ERR_UNSUPPORTED: a fat binary of neither; TB_ERR_FORMAT: neither, or PTX that
 * cannot be read, with its line; TB_ERR_LIMIT; TB_ERR_NOMEM.
 * Threads: any. Time: about a second for 10 MB of PTX; what needs much more is given up, kernel by
 * kernel, and marked UNTRACED.
 */
TB_MUST_CHECK enum tb_status tb_kernelinfo(const void *image, size_t n, void **out,
                                           size_t *out_bytes, struct tb_error *err);

/** tb_kernelinfo_until - the same; ends early with TB_ERR_BUSY once *@cancel (any thread) is not 0
 */
TB_MUST_CHECK enum tb_status tb_kernelinfo_until(const void *image, size_t n, const int *cancel,
                                                 void **out, size_t *out_bytes,
                                                 struct tb_error *err);

#endif
