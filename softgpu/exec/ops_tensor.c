#include "softgpu/exec/access.h"

bool SG_ISA(sg_decode_tensor)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    (void)p;
    return sg_dec_refuse(d, "not supported");
}
