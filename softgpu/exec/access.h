/* access - operands of memory instructions, shared by ld, st, atom and the asynchronous copies. */
#ifndef SG_EXEC_ACCESS_H
#define SG_EXEC_ACCESS_H

#include "softgpu/exec/ops.h"

/* What sg_insn.y of memory instructions holds, beside their own bits. */
enum {
    SG_Y_SIZE = 0x7,       /* log2 of the bytes of an element */
    SG_Y_VEC = 0x38,       /* log2 of the elements, shifted by 3 */
    SG_Y_SIGNED = 0x40,    /* ld: sign-extend */
    SG_Y_BASE64 = 0x80,    /* r[5] is a 64-bit register */
    SG_Y_BASE32 = 0x100,   /* r[5] is a 32-bit register */
    SG_Y_LOCALVAR = 0x200, /* add the activation's offset in local memory */
    SG_Y_DYNAMIC = 0x400,  /* add the start of dynamic shared memory */
    SG_Y_SPACE = 0xf0000,
};
#define SG_SPACE(in) ((enum sg_ptx_space)((in)->y >> 16 & 0xf))

/* Addresses of all lanes by r[5], imm and y; those of inactive lanes are not to be used. */
static inline void sg_addresses(struct sg_warp *w, const struct sg_insn *in, uint64_t a[SG_WARP])
{
    uint64_t off = in->imm;

    if (in->y & SG_Y_LOCALVAR)
        off += w->lp;
    if (in->y & SG_Y_DYNAMIC)
        off += w->block->run->kernel->info.static_shared;
    if (in->y & SG_Y_BASE64) {
        const uint64_t *b = sg_opnd(w, in->r[5]);
        SG_LANES a[l] = b[l] + off;
    } else if (in->y & SG_Y_BASE32) {
        const uint32_t *b = sg_opnd(w, in->r[5]);
        SG_LANES a[l] = b[l] + off;
    } else {
        SG_LANES a[l] = off;
    }
}

struct sg_address {
    int32_t base; /* for r[5] */
    uint64_t imm;
    uint32_t y; /* SG_Y_BASE*, LOCALVAR, DYNAMIC; the space is set by sg_address_store() */
    enum sg_ptx_space space;
    bool param; /* of the kernel: imm is the offset in the block */
};

/* Decode the address operand @o of an instruction of state space @space; false: refused. */
bool SG_ISA(sg_dec_address)(struct sg_dec *d, const struct sg_ptx_opnd *o, enum sg_ptx_space space,
                            struct sg_address *a);
enum sg_ptx_space SG_ISA(sg_space_of)(const struct sg_ptx_insn *p);

static inline void sg_address_store(struct sg_insn *in, const struct sg_address *a)
{
    in->r[5] = a->base;
    in->imm = a->imm;
    in->y = a->y | (uint32_t)a->space << 16;
}

#endif
