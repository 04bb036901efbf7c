/*
 * CUDA's public headers with every version of every function under the name that is exported:
 * what is called is always spelt out (cuMemAlloc_v2), and per-thread forms are declared too.
 */
#ifndef SG_RUNTIME_CUDA_API_H
#define SG_RUNTIME_CUDA_API_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>
#include <cuda_runtime_api.h>

#endif
