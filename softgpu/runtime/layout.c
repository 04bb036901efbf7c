/*
 * The runtime's structures that are handed to the driver as its own, by a cast: each pair must have
 * the same size, and the same offset where the first fields' sizes could hide a difference.
 */
#include "softgpu/runtime/cuda_api.h"

#include <stddef.h>

#define SAME_SIZE(a, b) _Static_assert(sizeof(a) == sizeof(b), "layouts of " #a " and " #b)
#define SAME_FIELD(a, x, b, y)                                                                     \
    _Static_assert(offsetof(a, x) == offsetof(b, y), "offsets of " #x " in " #a " and " #b)
#define SAME_VALUE(a, b) _Static_assert((int)(a) == (int)(b), #a " and " #b)

SAME_SIZE(struct cudaMemLocation, CUmemLocation);
SAME_SIZE(struct cudaMemAccessDesc, CUmemAccessDesc);
SAME_SIZE(struct cudaMemPoolProps, CUmemPoolProps);
SAME_FIELD(struct cudaMemPoolProps, maxSize, CUmemPoolProps, maxSize);
SAME_SIZE(struct cudaMemcpyAttributes, CUmemcpyAttributes);
SAME_FIELD(struct cudaMemcpyAttributes, flags, CUmemcpyAttributes, flags);
SAME_SIZE(struct cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP);
SAME_FIELD(struct cudaMemcpy3DBatchOp, extent, CUDA_MEMCPY3D_BATCH_OP, extent);
SAME_FIELD(struct cudaMemcpy3DBatchOp, flags, CUDA_MEMCPY3D_BATCH_OP, flags);
SAME_VALUE(cudaMemcpyOperandTypePointer, CU_MEMCPY_OPERAND_TYPE_POINTER);
SAME_VALUE(cudaMemcpySrcAccessOrderAny, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);

SAME_SIZE(cudaLaunchAttribute, CUlaunchAttribute);
SAME_FIELD(cudaLaunchAttribute, val, CUlaunchAttribute, value);
SAME_SIZE(cudaLaunchAttributeValue, CUlaunchAttributeValue);
SAME_FIELD(cudaLaunchAttributeValue, programmaticEvent.flags, CUlaunchAttributeValue,
           programmaticEvent.flags);
SAME_VALUE(cudaLaunchAttributeCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME_VALUE(cudaLaunchAttributeClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_VALUE(cudaLaunchAttributePriority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME_VALUE(cudaLaunchAttributeLaunchCompletionEvent, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);

SAME_SIZE(struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS);
SAME_FIELD(struct cudaMemsetParams, height, CUDA_MEMSET_NODE_PARAMS, height);
SAME_SIZE(struct cudaHostNodeParams, CUDA_HOST_NODE_PARAMS);
SAME_SIZE(struct cudaHostNodeParamsV2, CUDA_HOST_NODE_PARAMS_v2);
SAME_SIZE(struct cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_FIELD(struct cudaMemAllocNodeParams, dptr, CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
SAME_SIZE(struct cudaMemAllocNodeParamsV2, CUDA_MEM_ALLOC_NODE_PARAMS_v2);
SAME_SIZE(struct cudaMemFreeNodeParams, CUDA_MEM_FREE_NODE_PARAMS);
SAME_SIZE(struct cudaChildGraphNodeParams, CUDA_CHILD_GRAPH_NODE_PARAMS);
SAME_SIZE(struct cudaEventRecordNodeParams, CUDA_EVENT_RECORD_NODE_PARAMS);
SAME_SIZE(struct cudaEventWaitNodeParams, CUDA_EVENT_WAIT_NODE_PARAMS);
SAME_SIZE(cudaGraphEdgeData, CUgraphEdgeData);
SAME_SIZE(cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_FIELD(cudaGraphInstantiateParams, result_out, CUDA_GRAPH_INSTANTIATE_PARAMS, result_out);
SAME_SIZE(cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo);
SAME_FIELD(cudaGraphExecUpdateResultInfo, errorFromNode, CUgraphExecUpdateResultInfo,
           errorFromNode);
SAME_FIELD(struct cudaGraphNodeParams, reserved1, CUgraphNodeParams, reserved1);
SAME_VALUE(cudaGraphNodeTypeConditional, CU_GRAPH_NODE_TYPE_CONDITIONAL);
SAME_VALUE(cudaGraphNodeTypeMemFree, CU_GRAPH_NODE_TYPE_MEM_FREE);

SAME_VALUE(cudaLimitPersistingL2CacheSize, CU_LIMIT_PERSISTING_L2_CACHE_SIZE);
SAME_VALUE(cudaFuncAttributeMaxDynamicSharedMemorySize,
           CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(cudaFuncAttributePreferredSharedMemoryCarveout,
           CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME_VALUE(cudaFuncAttributeClusterSchedulingPolicyPreference,
           CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
SAME_VALUE(cudaMemPoolAttrUsedMemHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SAME_VALUE(cudaMemAdviseUnsetAccessedBy, CU_MEM_ADVISE_UNSET_ACCESSED_BY);
SAME_VALUE(cudaMemRangeAttributeLastPrefetchLocation,
           CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION);
SAME_VALUE(cudaHostAllocWriteCombined, CU_MEMHOSTALLOC_WRITECOMBINED);
SAME_VALUE(cudaHostRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY);
SAME_VALUE(cudaEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(cudaGraphInstantiateFlagUseNodePriority, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
SAME_VALUE(cudaStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(cudaStreamCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME_VALUE(cudaDriverEntryPointVersionNotSufficent, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME_VALUE(cudaEnablePerThreadDefaultStream, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
