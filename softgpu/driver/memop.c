/* Memory operations of streams: wait until memory holds a value, write one; single or in a batch.
 * All become batches, so there is one form to execute and one to put into a graph. */
#include "softgpu/driver/stream.h"
#include "softgpu/driver/strict.h"

#include "softgpu/driver/api_gen.h"

#include <stdlib.h>
#include <string.h>

#define MAX_OPS 256

static bool is_64(const CUstreamBatchMemOpParams *op)
{
    return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
           op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static bool is_wait(const CUstreamBatchMemOpParams *op)
{
    return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
           op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static bool has_address(const CUstreamBatchMemOpParams *op)
{
    return is_wait(op) || op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
           op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static bool reachable(const CUstreamBatchMemOpParams *op, const struct CUctx_st *ctx)
{
    /* wait and write have the same layout */
    uint64_t a = op->waitValue.address;
    uint32_t n = is_64(op) ? 8 : 4;

    return a % n == 0 && sg_mem_ok(sg_driver.mem, a, n, ctx->dev->bit, !is_wait(op));
}

static CUresult check(const CUstreamBatchMemOpParams *op, const struct CUctx_st *ctx)
{
    switch ((int)op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        if (op->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (op->waitValue.flags > CU_STREAM_WAIT_VALUE_NOR)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        if (op->writeValue.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_STREAM_MEM_OP_BARRIER:
        return op->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return reachable(op, ctx) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_memop_check(const CUstreamBatchMemOpParams *ops, unsigned n, unsigned flags,
                        const struct CUctx_st *ctx)
{
    CUresult r = !ops || !n || n >= MAX_OPS || flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

    for (unsigned i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = check(&ops[i], ctx);
    return r;
}

/* ---- executing --------------------------------------------------- */

static uint64_t load(const CUstreamBatchMemOpParams *op)
{
    uintptr_t a = (uintptr_t)op->waitValue.address;

    if (is_64(op))
        return __atomic_load_n((const uint64_t *)a, __ATOMIC_ACQUIRE);
    return __atomic_load_n((const uint32_t *)a, __ATOMIC_ACQUIRE);
}

static bool holds(const CUstreamBatchMemOpParams *op)
{
    bool wide = is_64(op);
    uint64_t have = load(op), want = wide ? op->waitValue.value64 : op->waitValue.value;
    uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;

    switch (op->waitValue.flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return have == want;
    case CU_STREAM_WAIT_VALUE_AND:
        return (have & want) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(have | want) & mask) != 0;
    default: /* cyclic >= */
        return wide ? (int64_t)(have - want) >= 0 : (int32_t)(uint32_t)(have - want) >= 0;
    }
}

static void store(const CUstreamBatchMemOpParams *op)
{
    uintptr_t a = (uintptr_t)op->writeValue.address;

    if (is_64(op))
        __atomic_store_n((uint64_t *)a, op->writeValue.value64, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)a, op->writeValue.value, __ATOMIC_RELEASE);
    if (sg_strict())
        sg_strict_written(a, is_64(op) ? 8 : 4);
}

bool sg_memop_advance(struct sg_item *i)
{
    const struct sg_work *w = &i->work->w;

    for (; i->batch_pos < w->batch.n; i->batch_pos++) {
        const CUstreamBatchMemOpParams *op = &w->batch.ops[i->batch_pos];

        if (!has_address(op))
            continue;
        if (!reachable(op, i->ctx)) {
            i->result = CUDA_ERROR_INVALID_VALUE; /* freed since it was submitted */
            return true;
        }
        if (!is_wait(op))
            store(op);
        else if (!holds(op))
            return false;
    }
    i->result = CUDA_SUCCESS;
    return true;
}

/* ---- the calls --------------------------------------------------- */

static CUresult submit_ops(CUstream stream, const CUstreamBatchMemOpParams *ops, unsigned n,
                           unsigned flags)
{
    struct sg_work w = {.kind = SG_WORK_BATCH_MEM_OP};
    struct CUstream_st *s;
    CUresult r = sg_stream_of(stream, &s);

    if (r == CUDA_SUCCESS)
        r = sg_memop_check(ops, n, flags, s->ctx);
    if (r != CUDA_SUCCESS)
        return r;
    w.batch.ops = malloc(n * sizeof(*ops));
    if (!w.batch.ops)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(w.batch.ops, ops, n * sizeof(*ops));
    w.batch.n = n;
    return sg_submit(stream, &w);
}

static CUresult one_op(CUstream stream, CUstreamBatchMemOpType op, CUdeviceptr addr, uint64_t value,
                       unsigned flags)
{
    CUstreamBatchMemOpParams p;

    memset(&p, 0, sizeof(p));
    p.waitValue.operation = op; /* wait and write have the same layout */
    p.waitValue.address = addr;
    p.waitValue.value64 = value;
    p.waitValue.flags = flags;
    return submit_ops(stream, &p, 1, 0);
}

/* Both ABI versions mean the same. */
#define SG_VALUE_CALLS(name, type, op)                                                             \
    CUresult sg_##name(CUstream stream, CUdeviceptr addr, type value, unsigned flags)              \
    {                                                                                              \
        return one_op(stream, op, addr, value, flags);                                             \
    }                                                                                              \
    CUresult sg_##name##_v2(CUstream stream, CUdeviceptr addr, type value, unsigned flags)         \
    {                                                                                              \
        return one_op(stream, op, addr, value, flags);                                             \
    }

SG_VALUE_CALLS(cuStreamWaitValue32, cuuint32_t, CU_STREAM_MEM_OP_WAIT_VALUE_32)
SG_VALUE_CALLS(cuStreamWaitValue64, cuuint64_t, CU_STREAM_MEM_OP_WAIT_VALUE_64)
SG_VALUE_CALLS(cuStreamWriteValue32, cuuint32_t, CU_STREAM_MEM_OP_WRITE_VALUE_32)
SG_VALUE_CALLS(cuStreamWriteValue64, cuuint64_t, CU_STREAM_MEM_OP_WRITE_VALUE_64)

CUresult sg_cuStreamBatchMemOp(CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops,
                               unsigned flags)
{
    return submit_ops(stream, ops, n, flags);
}

CUresult sg_cuStreamBatchMemOp_v2(CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops,
                                  unsigned flags)
{
    return submit_ops(stream, ops, n, flags);
}
