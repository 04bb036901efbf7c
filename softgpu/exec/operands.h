/* operands - what an instruction reads and writes, and where control goes after it. */
#ifndef SG_EXEC_OPERANDS_H
#define SG_EXEC_OPERANDS_H

#include "softgpu/ptx/ptx.h"

typedef void (*sg_operand_fn)(void *arg, uint32_t reg, bool written);
typedef void (*sg_target_fn)(void *arg, uint32_t target);

/* calls @fn for each register of the instruction, reads first; a guard is a read */
void sg_operands_visit(const struct sg_ptx_insn *in, sg_operand_fn fn, void *arg);
bool sg_operands_writes_first(const struct sg_ptx_insn *in);
bool sg_operands_falls_through(const struct sg_ptx_insn *in);
/* calls @fn for each branch target: an instruction's index, maybe one behind the last */
void sg_operands_targets(const struct sg_ptx_insn *in, sg_target_fn fn, void *arg);

#endif
