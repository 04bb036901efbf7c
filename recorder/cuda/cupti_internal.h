/* Private to the front end on CUPTI. */
#ifndef TB_RECORDER_CUDA_CUPTI_INTERNAL_H
#define TB_RECORDER_CUDA_CUPTI_INTERNAL_H

/**
 * tb_cupti_open - a handle of the process's CUPTI, never closed; NULL: none was found
 * One that is loaded already, else the one beside its CUDA runtime, else by name (LD_LIBRARY_PATH),
 * else in the toolkit's folders. The driver's major version goes first: a later CUPTI refuses it.
 * @driver_version: cuDriverGetVersion, may be NULL
 */
void *tb_cupti_open(void *driver_version);

#endif
