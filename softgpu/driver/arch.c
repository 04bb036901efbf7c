#include "softgpu/driver/core.h"

/* CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; partitions:
 * cuda.h, "Green Contexts". */
static const struct sg_arch archs[] = {
    {75, 1024, 16, 65536, 65536, 0, 32, 2, 2, 1, 1},
    {80, 2048, 32, 167936, 166912, 1024, 2, 4, 2, 1, 1},
    {86, 1536, 16, 102400, 101376, 1024, 64, 4, 2, 1, 1},
    {89, 1536, 24, 102400, 101376, 1024, 64, 4, 2, 1, 1},
    {90, 2048, 32, 233472, 232448, 1024, 2, 8, 8, 8, 16},
};

const struct sg_arch *sg_arch_find(uint32_t arch)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(archs); i++)
        if (archs[i].arch == arch)
            return &archs[i];
    return NULL;
}

uint32_t sg_arch_from(uint32_t arch)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(archs); i++)
        if (archs[i].arch >= arch)
            return archs[i].arch;
    return 0;
}

const struct sg_arch *sg_arch_of(const struct sg_device *dev)
{
    return sg_arch_find(dev->arch);
}
