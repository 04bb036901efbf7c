/* The tests call the newest form of each function. With headers of CUDA 12 the plain names mean
 * older forms: here they do not. Include after cuda.h. */
#ifndef TEST_SOFTGPU_DRIVER_NEWEST_H
#define TEST_SOFTGPU_DRIVER_NEWEST_H

#include <cuda.h>

#if CUDA_VERSION < 13000
#undef cuCtxCreate
#define cuCtxCreate cuCtxCreate_v4
#undef cuGraphAddDependencies
#define cuGraphAddDependencies cuGraphAddDependencies_v2
#undef cuGraphAddNode
#define cuGraphAddNode cuGraphAddNode_v2
#undef cuGraphGetEdges
#define cuGraphGetEdges cuGraphGetEdges_v2
#undef cuGraphNodeGetDependencies
#define cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2
#undef cuGraphNodeGetDependentNodes
#define cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2
#undef cuGraphRemoveDependencies
#define cuGraphRemoveDependencies cuGraphRemoveDependencies_v2
#undef cuMemAdvise
#define cuMemAdvise cuMemAdvise_v2
#undef cuMemPrefetchAsync
#define cuMemPrefetchAsync cuMemPrefetchAsync_v2
#undef cuStreamGetCaptureInfo
#define cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v3
#undef cuStreamUpdateCaptureDependencies
#define cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2
#endif

#endif
