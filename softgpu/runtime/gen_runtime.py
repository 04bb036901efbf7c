#!/usr/bin/env python3
"""Generates the exports of libcudart.so.12/.13 from the installed public headers of CUDA.

usage: gen_runtime.py --cc CC --include FOLDER... --out FOLDER

Reads cuda_runtime_api.h (and cuda.h, cupti_runtime_cbid.h if it is there) and writes
  api_gen.h     a prototype of sg_<name>() for every function, struct sg_<name>_params
  exports.c     one exported function a name, _ptsz/_ptds forms included
  simple.c      sg_<name>() of functions that are one call of the driver: table SIMPLE
  names_gen.c   value -> name of cudaError_t
  runtime.map   the version node, with every name

Names of implementations are those of CUDA 13. CUDA 12's headers declare some functions twice,
plain and _v2/_v3: the latest form has 13's parameters and gets the plain implementation name, the
older one sg_<name>_v12.
"""
import argparse
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "driver"))
from gen_driver import parse_params, preprocess, read  # noqa: E402  the same headers, read the same way

NOTICE = "/* Written by gen_runtime.py from the installed CUDA headers; do not edit. */\n"

# What nvcc's host code calls (crt/host_runtime.h, crt/device_functions.h) and cuda_profiler_api.h,
# which is no part of the header wheels.
ALSO = """
void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
void __cudaUnregisterFatBinary(void **fatCubinHandle);
void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress, const char *deviceName, int ext,
    size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
    const char *deviceName, int ext, size_t size, int constant, int global);
char __cudaInitModule(void **fatCubinHandle);
void __cudaRegisterTexture(void **fatCubinHandle, const struct textureReference *hostVar,
    const void **deviceAddress, const char *deviceName, int dim, int norm, int ext);
void __cudaRegisterSurface(void **fatCubinHandle, const struct surfaceReference *hostVar,
    const void **deviceAddress, const char *deviceName, int dim, int ext);
void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun, const char *deviceName,
    int thread_limit, uint3 *tid, uint3 *bid, dim3 *bDim, dim3 *gDim, int *wSize);
unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
    cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
    size_t sharedMem, cudaStream_t stream);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
"""

# CUDA 12: functions whose plain (or _v2) name has other parameters than 13's
OLD_IN_12 = {
    "cudaGraphAddDependencies", "cudaGraphAddNode", "cudaGraphGetEdges", "cudaGraphNodeGetDependencies",
    "cudaGraphNodeGetDependentNodes", "cudaGraphRemoveDependencies", "cudaMemAdvise", "cudaMemPrefetchAsync",
    "cudaMemcpy3DBatchAsync", "cudaMemcpyBatchAsync", "cudaStreamGetCaptureInfo",
    "cudaStreamUpdateCaptureDependencies", "cudaSignalExternalSemaphoresAsync", "cudaWaitExternalSemaphoresAsync",
}
KEPT_IN_12 = "cudaStreamGetCaptureInfo_v2" # between the plain form and _v3

# Their result is no new error.
NOT_RECORDED = {"cudaGetLastError", "cudaPeekAtLastError"}

# name -> a call of the driver. $1.. are the parameters, a cudaStream_t among them already with the
# per-thread default stream in the place of NULL; CUDA 13's and the driver's structures of the same
# content are of the same layout (layout.c checks). "!": needs no context, only the driver.
SIMPLE = {
    # device
    "cudaDeviceSynchronize": "cuCtxSynchronize()",
    "cudaDeviceSetLimit": "cuCtxSetLimit((CUlimit)$1, $2)",
    "cudaDeviceGetLimit": "cuCtxGetLimit($1, (CUlimit)$2)",
    "cudaDeviceGetCacheConfig": "cuCtxGetCacheConfig((CUfunc_cache *)$1)",
    "cudaDeviceSetCacheConfig": "cuCtxSetCacheConfig((CUfunc_cache)$1)",
    "cudaDeviceGetSharedMemConfig": "cuCtxGetSharedMemConfig((CUsharedconfig *)$1)",
    "cudaDeviceSetSharedMemConfig": "cuCtxSetSharedMemConfig((CUsharedconfig)$1)",
    "cudaDeviceGetStreamPriorityRange": "cuCtxGetStreamPriorityRange($1, $2)",
    "cudaDeviceGetByPCIBusId": "!cuDeviceGetByPCIBusId($1, $2)",
    "cudaDeviceGetPCIBusId": "!cuDeviceGetPCIBusId($1, $2, $3)",
    "cudaDeviceGetAttribute": "!cuDeviceGetAttribute($1, (CUdevice_attribute)$2, $3)",
    "cudaDeviceGetDefaultMemPool": "!cuDeviceGetDefaultMemPool($1, $2)",
    "cudaDeviceSetMemPool": "!cuDeviceSetMemPool($1, $2)",
    "cudaDeviceGetMemPool": "!cuDeviceGetMemPool($1, $2)",
    "cudaDeviceGetP2PAttribute": "!cuDeviceGetP2PAttribute($1, (CUdevice_P2PAttribute)$2, $3, $4)",
    "cudaDeviceCanAccessPeer": "!cuDeviceCanAccessPeer($1, $2, $3)",
    "cudaDeviceGraphMemTrim": "!cuDeviceGraphMemTrim($1)",
    "cudaDeviceGetGraphMemAttribute": "!cuDeviceGetGraphMemAttribute($1, (CUgraphMem_attribute)$2, $3)",
    "cudaDeviceSetGraphMemAttribute": "!cuDeviceSetGraphMemAttribute($1, (CUgraphMem_attribute)$2, $3)",
    "cudaCtxResetPersistingL2Cache": "cuCtxResetPersistingL2Cache()",
    "cudaThreadSynchronize": "cuCtxSynchronize()",
    "cudaThreadSetLimit": "cuCtxSetLimit((CUlimit)$1, $2)",
    "cudaThreadGetLimit": "cuCtxGetLimit($1, (CUlimit)$2)",
    "cudaThreadGetCacheConfig": "cuCtxGetCacheConfig((CUfunc_cache *)$1)",
    "cudaThreadSetCacheConfig": "cuCtxSetCacheConfig((CUfunc_cache)$1)",
    # streams and events
    "cudaStreamCreate": "cuStreamCreate($1, CU_STREAM_DEFAULT)",
    "cudaStreamCreateWithFlags": "cuStreamCreate($1, $2)",
    "cudaStreamCreateWithPriority": "cuStreamCreateWithPriority($1, $2, $3)",
    "cudaStreamGetPriority": "cuStreamGetPriority($1, $2)",
    "cudaStreamGetFlags": "cuStreamGetFlags($1, $2)",
    "cudaStreamGetId": "cuStreamGetId($1, $2)",
    "cudaStreamGetDevice": "cuStreamGetDevice($1, $2)",
    "cudaStreamCopyAttributes": "cuStreamCopyAttributes($1, $2)",
    "cudaStreamGetAttribute": "cuStreamGetAttribute($1, (CUstreamAttrID)$2, (CUstreamAttrValue *)$3)",
    "cudaStreamSetAttribute": "cuStreamSetAttribute($1, (CUstreamAttrID)$2, (const CUstreamAttrValue *)$3)",
    "cudaStreamDestroy": "cuStreamDestroy_v2($1)",
    "cudaStreamWaitEvent": "cuStreamWaitEvent($1, $2, $3)",
    "cudaStreamSynchronize": "cuStreamSynchronize($1)",
    "cudaStreamQuery": "cuStreamQuery($1)",
    "cudaStreamAttachMemAsync": "cuStreamAttachMemAsync($1, (CUdeviceptr)$2, $3, $4)",
    "cudaStreamBeginCapture": "cuStreamBeginCapture_v2($1, (CUstreamCaptureMode)$2)",
    "cudaStreamBeginCaptureToGraph":
        "cuStreamBeginCaptureToGraph($1, $2, $3, (const CUgraphEdgeData *)$4, $5, (CUstreamCaptureMode)$6)",
    "cudaThreadExchangeStreamCaptureMode": "!cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)$1)",
    "cudaStreamEndCapture": "cuStreamEndCapture($1, $2)",
    "cudaStreamIsCapturing": "cuStreamIsCapturing($1, (CUstreamCaptureStatus *)$2)",
    "cudaStreamGetCaptureInfo": "cuStreamGetCaptureInfo_v3($1, (CUstreamCaptureStatus *)$2, "
                                "(cuuint64_t *)$3, $4, $5, (const CUgraphEdgeData **)$6, $7)",
    "cudaStreamUpdateCaptureDependencies":
        "cuStreamUpdateCaptureDependencies_v2($1, $2, (const CUgraphEdgeData *)$3, $4, $5)",
    "cudaLaunchHostFunc": "cuLaunchHostFunc($1, $2, $3)",
    "cudaEventCreate": "cuEventCreate($1, CU_EVENT_DEFAULT)",
    "cudaEventCreateWithFlags": "cuEventCreate($1, $2)",
    "cudaEventRecord": "cuEventRecord($1, $2)",
    "cudaEventRecordWithFlags": "cuEventRecordWithFlags($1, $2, $3)",
    "cudaEventQuery": "cuEventQuery($1)",
    "cudaEventSynchronize": "cuEventSynchronize($1)",
    "cudaEventDestroy": "cuEventDestroy_v2($1)",
    "cudaEventElapsedTime": "cuEventElapsedTime_v2($1, $2, $3)",
    # memory
    "cudaMallocManaged": "cuMemAllocManaged((CUdeviceptr *)$1, $2, $3)",
    "cudaHostRegister": "cuMemHostRegister_v2($1, $2, $3)",
    "cudaHostUnregister": "cuMemHostUnregister($1)",
    "cudaHostGetDevicePointer": "cuMemHostGetDevicePointer_v2((CUdeviceptr *)$1, $2, $3)",
    "cudaHostGetFlags": "cuMemHostGetFlags($1, $2)",
    "cudaMemGetInfo": "cuMemGetInfo_v2($1, $2)",
    "cudaMemAdvise": "cuMemAdvise_v2((CUdeviceptr)$1, $2, (CUmem_advise)$3, SG_RT_LOCATION($4))",
    "cudaMemPrefetchAsync": "cuMemPrefetchAsync_v2((CUdeviceptr)$1, $2, SG_RT_LOCATION($3), $4, $5)",
    "cudaMemPrefetchBatchAsync":
        "cuMemPrefetchBatchAsync((CUdeviceptr *)$1, $2, $3, (CUmemLocation *)$4, $5, $6, $7, $8)",
    "cudaMemDiscardBatchAsync": "cuMemDiscardBatchAsync((CUdeviceptr *)$1, $2, $3, $4, $5)",
    "cudaMemDiscardAndPrefetchBatchAsync":
        "cuMemDiscardAndPrefetchBatchAsync((CUdeviceptr *)$1, $2, $3, (CUmemLocation *)$4, $5, $6, $7, $8)",
    "cudaMemRangeGetAttribute":
        "cuMemRangeGetAttribute($1, $2, (CUmem_range_attribute)$3, (CUdeviceptr)$4, $5)",
    "cudaMemRangeGetAttributes":
        "cuMemRangeGetAttributes($1, $2, (CUmem_range_attribute *)$3, $4, (CUdeviceptr)$5, $6)",
    "cudaMallocAsync": "cuMemAllocAsync((CUdeviceptr *)$1, $2, $3)",
    "cudaFreeAsync": "cuMemFreeAsync((CUdeviceptr)$1, $2)",
    "cudaMallocFromPoolAsync": "cuMemAllocFromPoolAsync((CUdeviceptr *)$1, $2, $3, $4)",
    "cudaMemPoolTrimTo": "!cuMemPoolTrimTo($1, $2)",
    "cudaMemPoolSetAttribute": "!cuMemPoolSetAttribute($1, (CUmemPool_attribute)$2, $3)",
    "cudaMemPoolGetAttribute": "!cuMemPoolGetAttribute($1, (CUmemPool_attribute)$2, $3)",
    "cudaMemPoolSetAccess": "!cuMemPoolSetAccess($1, (const CUmemAccessDesc *)$2, $3)",
    "cudaMemPoolGetAccess": "!cuMemPoolGetAccess((CUmemAccess_flags *)$1, $2, (CUmemLocation *)$3)",
    "cudaMemPoolCreate": "cuMemPoolCreate($1, (const CUmemPoolProps *)$2)",
    "cudaMemPoolDestroy": "cuMemPoolDestroy($1)",
    "cudaMemGetDefaultMemPool": "cuMemGetDefaultMemPool($1, (CUmemLocation *)$2, (CUmemAllocationType)$3)",
    "cudaMemGetMemPool": "cuMemGetMemPool($1, (CUmemLocation *)$2, (CUmemAllocationType)$3)",
    "cudaMemSetMemPool": "cuMemSetMemPool((CUmemLocation *)$1, (CUmemAllocationType)$2, $3)",
    "cudaMemset": "SG_RT_PT(cuMemsetD8_v2)((CUdeviceptr)$1, (unsigned char)$2, $3)",
    "cudaMemsetAsync": "cuMemsetD8Async((CUdeviceptr)$1, (unsigned char)$2, $3, $4)",
    "cudaMemset2D": "SG_RT_PT(cuMemsetD2D8_v2)((CUdeviceptr)$1, $2, (unsigned char)$3, $4, $5)",
    "cudaMemset2DAsync": "cuMemsetD2D8Async((CUdeviceptr)$1, $2, (unsigned char)$3, $4, $5, $6)",
    "cudaMemcpyBatchAsync":
        "cuMemcpyBatchAsync_v2((CUdeviceptr *)(uintptr_t)$1, (CUdeviceptr *)(uintptr_t)$2, "
        "(size_t *)(uintptr_t)$3, $4, (CUmemcpyAttributes *)(void *)$5, $6, $7, $8)",
    "cudaMemcpy3DBatchAsync":
        "cuMemcpy3DBatchAsync_v2($1, (CUDA_MEMCPY3D_BATCH_OP *)(void *)$2, $3, $4)",
    "cudaMemcpyBatchAsync_v12":
        "cuMemcpyBatchAsync((CUdeviceptr *)$1, (CUdeviceptr *)$2, $3, $4, "
        "(CUmemcpyAttributes *)(void *)$5, $6, $7, $8, $9)",
    "cudaMemcpy3DBatchAsync_v12":
        "cuMemcpy3DBatchAsync($1, (CUDA_MEMCPY3D_BATCH_OP *)(void *)$2, $3, $4, $5)",
    # graphs
    "cudaGraphCreate": "cuGraphCreate($1, $2)",
    "cudaGraphDestroy": "cuGraphDestroy($1)",
    "cudaGraphClone": "cuGraphClone($1, $2)",
    "cudaGraphNodeFindInClone": "cuGraphNodeFindInClone($1, $2, $3)",
    "cudaGraphNodeGetType": "cuGraphNodeGetType($1, (CUgraphNodeType *)$2)",
    "cudaGraphGetNodes": "cuGraphGetNodes($1, $2, $3)",
    "cudaGraphGetRootNodes": "cuGraphGetRootNodes($1, $2, $3)",
    "cudaGraphGetEdges": "cuGraphGetEdges_v2($1, $2, $3, (CUgraphEdgeData *)$4, $5)",
    "cudaGraphNodeGetDependencies": "cuGraphNodeGetDependencies_v2($1, $2, (CUgraphEdgeData *)$3, $4)",
    "cudaGraphNodeGetDependentNodes": "cuGraphNodeGetDependentNodes_v2($1, $2, (CUgraphEdgeData *)$3, $4)",
    "cudaGraphAddDependencies": "cuGraphAddDependencies_v2($1, $2, $3, (const CUgraphEdgeData *)$4, $5)",
    "cudaGraphRemoveDependencies": "cuGraphRemoveDependencies_v2($1, $2, $3, (const CUgraphEdgeData *)$4, $5)",
    "cudaGraphDestroyNode": "cuGraphDestroyNode($1)",
    "cudaGraphAddMemsetNode":
        "cuGraphAddMemsetNode($1, $2, $3, $4, (const CUDA_MEMSET_NODE_PARAMS *)$5, sg_rt_current())",
    "cudaGraphMemsetNodeGetParams": "cuGraphMemsetNodeGetParams($1, (CUDA_MEMSET_NODE_PARAMS *)$2)",
    "cudaGraphMemsetNodeSetParams": "cuGraphMemsetNodeSetParams($1, (const CUDA_MEMSET_NODE_PARAMS *)$2)",
    "cudaGraphExecMemsetNodeSetParams":
        "cuGraphExecMemsetNodeSetParams($1, $2, (const CUDA_MEMSET_NODE_PARAMS *)$3, sg_rt_current())",
    "cudaGraphAddHostNode": "cuGraphAddHostNode($1, $2, $3, $4, (const CUDA_HOST_NODE_PARAMS *)$5)",
    "cudaGraphHostNodeGetParams": "cuGraphHostNodeGetParams($1, (CUDA_HOST_NODE_PARAMS *)$2)",
    "cudaGraphHostNodeSetParams": "cuGraphHostNodeSetParams($1, (const CUDA_HOST_NODE_PARAMS *)$2)",
    "cudaGraphExecHostNodeSetParams": "cuGraphExecHostNodeSetParams($1, $2, (const CUDA_HOST_NODE_PARAMS *)$3)",
    "cudaGraphAddChildGraphNode": "cuGraphAddChildGraphNode($1, $2, $3, $4, $5)",
    "cudaGraphChildGraphNodeGetGraph": "cuGraphChildGraphNodeGetGraph($1, $2)",
    "cudaGraphExecChildGraphNodeSetParams": "cuGraphExecChildGraphNodeSetParams($1, $2, $3)",
    "cudaGraphAddEmptyNode": "cuGraphAddEmptyNode($1, $2, $3, $4)",
    "cudaGraphAddEventRecordNode": "cuGraphAddEventRecordNode($1, $2, $3, $4, $5)",
    "cudaGraphEventRecordNodeGetEvent": "cuGraphEventRecordNodeGetEvent($1, $2)",
    "cudaGraphEventRecordNodeSetEvent": "cuGraphEventRecordNodeSetEvent($1, $2)",
    "cudaGraphExecEventRecordNodeSetEvent": "cuGraphExecEventRecordNodeSetEvent($1, $2, $3)",
    "cudaGraphAddEventWaitNode": "cuGraphAddEventWaitNode($1, $2, $3, $4, $5)",
    "cudaGraphEventWaitNodeGetEvent": "cuGraphEventWaitNodeGetEvent($1, $2)",
    "cudaGraphEventWaitNodeSetEvent": "cuGraphEventWaitNodeSetEvent($1, $2)",
    "cudaGraphExecEventWaitNodeSetEvent": "cuGraphExecEventWaitNodeSetEvent($1, $2, $3)",
    "cudaGraphAddMemAllocNode": "cuGraphAddMemAllocNode($1, $2, $3, $4, (CUDA_MEM_ALLOC_NODE_PARAMS *)$5)",
    "cudaGraphMemAllocNodeGetParams": "cuGraphMemAllocNodeGetParams($1, (CUDA_MEM_ALLOC_NODE_PARAMS *)$2)",
    "cudaGraphAddMemFreeNode": "cuGraphAddMemFreeNode($1, $2, $3, $4, (CUdeviceptr)$5)",
    "cudaGraphMemFreeNodeGetParams": "cuGraphMemFreeNodeGetParams($1, (CUdeviceptr *)$2)",
    "cudaGraphKernelNodeCopyAttributes": "cuGraphKernelNodeCopyAttributes($1, $2)",
    "cudaGraphKernelNodeGetAttribute":
        "cuGraphKernelNodeGetAttribute($1, (CUkernelNodeAttrID)$2, (CUkernelNodeAttrValue *)$3)",
    "cudaGraphKernelNodeSetAttribute":
        "cuGraphKernelNodeSetAttribute($1, (CUkernelNodeAttrID)$2, (const CUkernelNodeAttrValue *)$3)",
    "cudaGraphInstantiate": "cuGraphInstantiateWithFlags($1, $2, $3)",
    "cudaGraphInstantiateWithFlags": "cuGraphInstantiateWithFlags($1, $2, $3)",
    "cudaGraphInstantiateWithParams":
        "SG_RT_PTSZ(cuGraphInstantiateWithParams)($1, $2, (CUDA_GRAPH_INSTANTIATE_PARAMS *)$3)",
    "cudaGraphExecGetFlags": "cuGraphExecGetFlags($1, (cuuint64_t *)$2)",
    "cudaGraphExecUpdate": "cuGraphExecUpdate_v2($1, $2, (CUgraphExecUpdateResultInfo *)$3)",
    "cudaGraphNodeSetEnabled": "cuGraphNodeSetEnabled($1, $2, $3)",
    "cudaGraphNodeGetEnabled": "cuGraphNodeGetEnabled($1, $2, $3)",
    "cudaGraphUpload": "cuGraphUpload($1, $2)",
    "cudaGraphLaunch": "cuGraphLaunch($1, $2)",
    "cudaGraphExecDestroy": "cuGraphExecDestroy($1)",
    "cudaGraphDebugDotPrint": "cuGraphDebugDotPrint($1, $2, $3)",
    "cudaUserObjectCreate": "cuUserObjectCreate($1, $2, $3, $4, $5)",
    "cudaUserObjectRetain": "cuUserObjectRetain($1, $2)",
    "cudaUserObjectRelease": "cuUserObjectRelease($1, $2)",
    "cudaGraphRetainUserObject": "cuGraphRetainUserObject($1, $2, $3, $4)",
    "cudaGraphReleaseUserObject": "cuGraphReleaseUserObject($1, $2, $3)",
    "cudaGraphConditionalHandleCreate":
        "cuGraphConditionalHandleCreate((CUgraphConditionalHandle *)$1, $2, sg_rt_current(), $3, $4)",
    # libraries
    "cudaLibraryLoadData":
        "cuLibraryLoadData($1, $2, (CUjit_option *)$3, $4, $5, (CUlibraryOption *)$6, $7, $8)",
    "cudaLibraryLoadFromFile":
        "cuLibraryLoadFromFile($1, $2, (CUjit_option *)$3, $4, $5, (CUlibraryOption *)$6, $7, $8)",
    "cudaLibraryUnload": "cuLibraryUnload($1)",
    "cudaLibraryGetKernel": "cuLibraryGetKernel($1, $2, $3)",
    "cudaLibraryGetGlobal": "cuLibraryGetGlobal((CUdeviceptr *)$1, $2, $3, $4)",
    "cudaLibraryGetManaged": "cuLibraryGetManaged((CUdeviceptr *)$1, $2, $3, $4)",
    "cudaLibraryGetUnifiedFunction": "cuLibraryGetUnifiedFunction($1, $2, $3)",
    "cudaLibraryGetKernelCount": "cuLibraryGetKernelCount($1, $2)",
    "cudaLibraryEnumerateKernels": "cuLibraryEnumerateKernels($1, $2, $3)",
    # since CUDA 13.1
    "cudaLaunchHostFunc_v2": "cuLaunchHostFunc_v2($1, $2, $3, $4)",
    "cudaGraphGetId": "cuGraphGetId($1, $2)",
    "cudaGraphExecGetId": "cuGraphExecGetId($1, $2)",
    "cudaGraphNodeGetContainingGraph": "cuGraphNodeGetContainingGraph($1, $2)",
    "cudaGraphNodeGetLocalId": "cuGraphNodeGetLocalId($1, $2)",
    "cudaGraphNodeGetToolsId": "cuGraphNodeGetToolsId($1, $2)",
    "cudaMemcpyWithAttributesAsync": "cuMemcpyWithAttributesAsync((CUdeviceptr)$1, (CUdeviceptr)$2, $3, "
                                     "(CUmemcpyAttributes *)(void *)$4, $5)",
    "cudaMemcpy3DWithAttributesAsync":
        "cuMemcpy3DWithAttributesAsync((CUDA_MEMCPY3D_BATCH_OP *)(void *)$1, $2, $3)",
    # CUDA 12's older forms
    "cudaGraphGetEdges_v12": "cuGraphGetEdges_v2($1, $2, $3, NULL, $4)",
    "cudaGraphNodeGetDependencies_v12": "cuGraphNodeGetDependencies_v2($1, $2, NULL, $3)",
    "cudaGraphNodeGetDependentNodes_v12": "cuGraphNodeGetDependentNodes_v2($1, $2, NULL, $3)",
    "cudaGraphAddDependencies_v12": "cuGraphAddDependencies_v2($1, $2, $3, NULL, $4)",
    "cudaGraphRemoveDependencies_v12": "cuGraphRemoveDependencies_v2($1, $2, $3, NULL, $4)",
    "cudaStreamUpdateCaptureDependencies_v12": "cuStreamUpdateCaptureDependencies_v2($1, $2, NULL, $3, $4)",
    "cudaStreamGetCaptureInfo_v12": "cuStreamGetCaptureInfo_v3($1, (CUstreamCaptureStatus *)$2, "
                                    "(cuuint64_t *)$3, NULL, NULL, NULL, NULL)",
    "cudaStreamGetCaptureInfo_v2": "cuStreamGetCaptureInfo_v3($1, (CUstreamCaptureStatus *)$2, "
                                   "(cuuint64_t *)$3, $4, $5, NULL, $6)",
    "cudaMemAdvise_v12": "cuMemAdvise_v2((CUdeviceptr)$1, $2, (CUmem_advise)$3, sg_rt_location($4))",
    "cudaMemPrefetchAsync_v12": "cuMemPrefetchAsync_v2((CUdeviceptr)$1, $2, sg_rt_location($3), 0, $4)",
    # the rest
    "cudaLogsRegisterCallback": "!cuLogsRegisterCallback((CUlogsCallback)(void *)$1, $2, $3)",
    "cudaLogsUnregisterCallback": "!cuLogsUnregisterCallback($1)",
    "cudaLogsCurrent": "!cuLogsCurrent($1, $2)",
    "cudaLogsDumpToFile": "!cuLogsDumpToFile($1, $2, $3)",
    "cudaLogsDumpToMemory": "!cuLogsDumpToMemory($1, $2, $3, $4)",
}


class Function:
    def __init__(self, result, name, params, old):
        self.result, self.name, self.params = result, name, params
        self.per_thread = name.endswith(("_ptsz", "_ptds"))
        self.plain = name[:-5] if self.per_thread else name
        self.impl = implementation_name(self.plain, old)
        self.id = 0

    def declaration(self, name):
        return f"{self.result}{name}({', '.join(d for d, _ in self.params) or 'void'})"

    def fields(self):
        return "".join(f" {d};" for d, _ in self.params) or " int unused;"


def implementation_name(plain, old):
    base = re.sub(r"_v\d$", "", plain)
    if not old:
        return plain
    if plain in OLD_IN_12:
        return base + "_v12"
    return plain if plain == KEPT_IN_12 else base


def declared_functions(text, old):
    """name -> Function of every declaration, in the order of their names"""
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", text)
    pattern = (r"(?:^|[;}])\s*(?:extern\s+)?((?:const\s+|struct\s+)?\w+\s*(?:\*\s*)*)\b"
               r"((?:cuda|__cuda)[A-Z]\w*)\s*\(([^;{}()]*)\)\s*(?=;)")
    found = {}
    for result, name, params in re.findall(pattern, " ".join(text.split())):
        if result.split()[0] not in ("typedef", "return"):
            result = " ".join(result.split())
            result += "" if result.endswith("*") else " "
            found.setdefault(name, Function(result, name, parse_params(params), old))
    return dict(sorted(found.items()))


def driver_names(text):
    return set(re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", text))


def error_names(text):
    body = re.search(r"enum\s+cudaError\s*\{(.*?)\}", text, re.S)[1]
    return sorted((int(v), n) for n, v in re.findall(r"\b(cudaError\w*|cudaSuccess)\s*=\s*(\d+)", body))


def assign_ids(functions, text):
    """Callback ids of CUPTI, the latest of a name, where its header is there; own numbers elsewhere."""
    ids = {}
    for name, version, value in re.findall(r"CUPTI_RUNTIME_TRACE_CBID_(\w+?)_v(\d+)\s*=\s*(\d+)", text):
        ids[name] = max(ids.get(name, (0, 0)), (int(version), int(value)))
    for i, name in enumerate(functions):
        functions[name].id = ids.get(name, (0, 0x10000 + i))[1]


def write_api(out, functions):
    out.write(NOTICE + "#ifndef SG_RUNTIME_API_GEN_H\n#define SG_RUNTIME_API_GEN_H\n"
              '#include "softgpu/runtime/cuda_api.h"\n\n#ifndef SG_RT_API\n#define SG_RT_API\n#endif\n'
              "#pragma GCC visibility push(hidden)\n")
    done = set()
    for f in functions.values():
        out.write(f"struct sg_{f.name}_params {{{f.fields()} }};\n")
        if f.impl not in done:
            out.write(f"SG_RT_API {f.declaration('sg_' + f.impl)};\n")
            done.add(f.impl)
    out.write("#pragma GCC visibility pop\n#endif\n")


def write_exports(out, functions):
    out.write(NOTICE + "#define SG_RT_API __attribute__((weak))\n"
              '#include "softgpu/runtime/api_gen.h"\n#include "softgpu/runtime/hooks.h"\n'
              '#include "softgpu/runtime/runtime.h"\n')
    for name in functions:
        out.write(f"#undef {name}\n")
    for f in functions.values():
        names = ", ".join(n for _, n in f.params)
        head = f"\nSG_RT_EXPORT {f.declaration(f.name)};\n{f.declaration(f.name)}\n{{\n"
        if f.result != "cudaError_t ":
            call = f"sg_{f.impl}({names})"
            out.write(head + f"    {'' if f.result == 'void ' else 'return '}{call};\n}}\n")
            continue
        record = "SG_RT_PLAIN" if f.name in NOT_RECORDED else "SG_RT_CALL"
        if f.per_thread:
            record = "SG_RT_PER_THREAD"
        body = f'{record}({f.impl}, "{f.name}", ({names}))'
        out.write(head +
                  f"    if (SG_RT_HOOKED) {{\n"
                  f"        struct sg_{f.name}_params params_ = {{{names or '0'}}};\n"
                  f'        struct sg_call call_ = {{.id = {f.id}, .name = "{f.name}", .params = &params_, .params_size = sizeof(params_)}};\n'
                  f"        sg_rt_hook_enter(&call_);\n        call_.result = (int){body};\n"
                  f"        return sg_rt_hook_exit(&call_);\n    }}\n    return {body};\n}}\n")


def write_simple(out, functions, driver):
    out.write(NOTICE + '#include "softgpu/runtime/api_gen.h"\n#include "softgpu/runtime/runtime.h"\n'
              "#include <stdint.h>\n")
    done = set()
    for f in functions.values():
        template = SIMPLE.get(f.impl)
        if not template or f.impl in done or not driver_has(driver, template):
            continue
        done.add(f.impl)
        enter = "sg_rt_init" if template[0] == "!" else "sg_rt_enter"
        call = template.lstrip("!")
        for i in range(len(f.params), 0, -1):
            declaration, name = f.params[i - 1]
            stream = re.fullmatch(r"cudaStream_t\s+\w+", declaration)
            call = call.replace(f"${i}", f"sg_rt_stream({name})" if stream else name)
        out.write(f"\n{f.declaration('sg_' + f.impl)}\n{{\n    cudaError_t err = {enter}();\n\n"
                  f"    return err != cudaSuccess ? err : sg_rt_error({call});\n}}\n")


def driver_has(driver, template):
    return all(n in driver for n in re.findall(r"\b(cu[A-Z]\w*)\s*\(", template))


def write_names(out, errors):
    out.write(NOTICE + '#include "softgpu/runtime/runtime.h"\n\nconst char *sg_rt_error_name(int value)\n{\n'
              "    switch (value) {\n")
    seen = set()
    for value, name in errors:
        if value not in seen:
            out.write(f'    case {value}:\n        return "{name}";\n')
            seen.add(value)
    out.write("    default:\n        return NULL;\n    }\n}\n")


def write_map(out, functions, major):
    out.write(f"libcudart.so.{major} {{\nglobal:\n    softgpu_rt_set_hooks;\n")
    for name in functions:
        out.write(f"    {name};\n")
    out.write("local:\n    *;\n};\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True)
    parser.add_argument("--include", required=True, nargs="+")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    text = preprocess(args.cc, args.include,
                      ["#include <cuda.h>", "#include <cuda_runtime_api.h>", "softgpu_version CUDART_VERSION"])
    version = int(re.search(r"softgpu_version\s+(\d+)", text)[1])
    functions = declared_functions(text + ";" + ALSO, version < 13000)
    assign_ids(functions, read(args.include, "cupti_runtime_cbid.h"))
    os.makedirs(args.out, exist_ok=True)

    def write(name, function, *rest):
        with open(os.path.join(args.out, name), "w", encoding="utf-8") as out:
            function(out, *rest)

    write("api_gen.h", write_api, functions)
    write("exports.c", write_exports, functions)
    write("simple.c", write_simple, functions, driver_names(text))
    write("names_gen.c", write_names, error_names(text))
    write("runtime.map", write_map, functions, version // 1000)


if __name__ == "__main__":
    main()
