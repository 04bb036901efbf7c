/*
 * find.h - where the machine's libcuda.so.1 is, for the shim that stands in front of it, and for
 * `twinbit run` and `doctor`. Uses libc alone.
 */
#ifndef TB_RECORDER_CUDA_FIND_H
#define TB_RECORDER_CUDA_FIND_H

#include <stdbool.h>
#include <stddef.h>

#define TB_CUDA_REAL_ENV "TWINBIT_CUDA_REAL" /* path of the real driver, set by `twinbit run` */

/**
 * tb_cuda_drivers - show @take each libcuda.so.1 in the order of the dynamic linker, until it takes
 * one
 * First what TWINBIT_CUDA_REAL names, then LD_LIBRARY_PATH, /etc/ld.so.cache and the usual folders.
 * A shim of ours is left out: a folder that lies beside a libtwinbit_cuda.so.
 * @take: @path is borrowed for the call; true: this one
 *
 * Returns: whether one was taken. Opens nothing but the cache; errno is kept.
 */
bool tb_cuda_drivers(bool (*take)(void *arg, const char *path), void *arg);

/** tb_cuda_driver - the first of them into @path, @size bytes; false: there is none */
bool tb_cuda_driver(char *path, size_t size);

#endif
