/* Video instructions: scalar and SIMD arithmetic on parts of registers. */
#include "softgpu/exec/ops.h"

bool SG_ISA(sg_decode_video)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    (void)p;
    return sg_dec_refuse(d, "not supported");
}
