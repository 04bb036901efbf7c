/* What the host does for the kernels of fp_device.cu: deal work to warps, bring views into a form.
 */
#include "fingerprint/device/fp_device.h"
#include "fingerprint/fp_internal.h"

#define WARPS (TB_FPD_THREADS / 32)
#define LEAF_BLOCK WARPS       /* leaves of a block, a warp each: soonest done */
#define QUAD_BLOCK (4 * WARPS) /* four leaves a warp: least work */
#define SOON 1u                /* leaves a multiprocessor that are dealt a warp each */
#define WAVES 4u               /* blocks a multiprocessor, at most: twice what fits */

int tb_fpd_is_sampled(uint64_t index, uint32_t rate)
{
    return rate <= 1 || fp_sample(index / rate, rate) == index;
}

/* Leaves that the kernel looks at. */
static uint64_t taken(uint64_t bytes, uint32_t rate)
{
    uint64_t leaves = bytes / TB_FP_LEAF + (bytes % TB_FP_LEAF != 0);

    return rate <= 1 ? leaves : leaves / rate + (leaves % rate != 0);
}

/* Leaves a block for so many leaves in all. */
static uint64_t share(uint64_t leaves, uint32_t sms)
{
    uint64_t most = (uint64_t)(sms ? sms : 1) * WAVES;
    uint64_t each = leaves / most + 1;

    if (leaves <= (uint64_t)sms * SOON)
        return LEAF_BLOCK;
    return (each + QUAD_BLOCK - 1) / QUAD_BLOCK * QUAD_BLOCK;
}

uint32_t tb_fpd_plan(struct tb_fpd_batch *b, uint32_t sms)
{
    uint64_t leaves = 0, each;
    uint32_t warp = 0;

    if (b->jobs == 1 && b->job[0].bytes <= TB_FPD_ALONE) { /* most launches are of this kind */
        b->job[0].first_block = 0;
        return 1;
    }
    for (uint32_t k = 0; k < b->jobs; k++)
        if (b->job[k].bytes > TB_FPD_ALONE)
            leaves += taken(b->job[k].bytes, b->job[k].rate);
    each = share(leaves, sms);
    for (uint32_t k = 0; k < b->jobs; k++) {
        struct tb_fpd_job *j = &b->job[k];

        if (j->bytes <= TB_FPD_ALONE) {
            j->first_block = warp++;
            continue;
        }
        warp = (warp + WARPS - 1) / WARPS * WARPS;
        j->first_block = warp;
        warp += (uint32_t)((taken(j->bytes, j->rate) + each - 1) / each) * WARPS;
    }
    return (warp + WARPS - 1) / WARPS;
}

static void drop(struct tb_fpd_strided *b, uint32_t d)
{
    b->ndim--;
    for (; d < b->ndim; d++) {
        b->size[d] = b->size[d + 1];
        b->stride[d] = b->stride[d + 1];
    }
}

/* A dimension of size 1 in front: the kernel wants two at least. */
static void add_outer(struct tb_fpd_strided *b)
{
    b->size[1] = b->ndim ? b->size[0] : 1;
    b->stride[1] = b->ndim ? b->stride[0] : 0;
    b->size[0] = 1;
    b->stride[0] = 0;
    b->ndim++;
}

/* One dimension for two whose elements lie as one's would. */
static void merge(struct tb_fpd_strided *b)
{
    for (uint32_t d = b->ndim; d-- > 0;)
        if (b->size[d] == 1 || b->stride[d] == 0)
            drop(b, d);
    for (uint32_t d = b->ndim; d-- > 1;) {
        if (b->stride[d - 1] != b->stride[d] * b->size[d])
            continue;
        b->size[d] *= b->size[d - 1];
        drop(b, d - 1);
    }
}

/* Elements of twice the size, if those of the innermost dimension lie in pairs. */
static int widen(struct tb_fpd_strided *b)
{
    uint32_t last = b->ndim - 1;

    if (b->ndim == 0 || b->elem > 8 || b->stride[last] != 1 || b->size[last] % 2 != 0)
        return 0;
    for (uint32_t d = 0; d < last; d++)
        if (b->stride[d] % 2 != 0)
            return 0;
    for (uint32_t d = 0; d < last; d++)
        b->stride[d] /= 2;
    b->size[last] /= 2;
    b->elem *= 2;
    if (b->size[last] == 1)
        drop(b, last);
    return 1;
}

static int is_view(const struct tb_fpd_strided *b)
{
    if (b->elem == 0 || b->elem > 16 || b->ndim > TB_FPD_STRIDED_DIMS)
        return 0;
    for (uint32_t d = 0; d < b->ndim; d++)
        if (b->size[d] < 0)
            return 0;
    return 1;
}

uint32_t tb_fpd_plan_strided(struct tb_fpd_strided *b, uint32_t sms)
{
    uint64_t low, leaves, each;

    if (!is_view(b))
        return 0;
    b->bytes = b->elem;
    for (uint32_t d = 0; d < b->ndim; d++)
        if (b->size[d] == 0 || b->stride[d] != 0)
            b->bytes *= (uint64_t)b->size[d];
    if (b->bytes == 0)
        b->ndim = 0;
    merge(b);
    while (widen(b))
        ;
    low = b->src | b->elem | 16;
    b->width = (uint32_t)(low & (0 - low));
    for (uint32_t d = 0; d < b->ndim; d++)
        b->stride[d] *= b->elem;
    while (b->ndim < 2)
        add_outer(b);
    leaves = taken(b->bytes, 1);
    each = share(leaves, sms);
    return leaves ? (uint32_t)((leaves + each - 1) / each) : 1;
}
