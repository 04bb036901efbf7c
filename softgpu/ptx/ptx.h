/*
 * softgpu/ptx - reads PTX text into modules, functions and instructions whose names are resolved.
 *
 * Start at sg_ptx_parse(). The result is a tree of plain structs that exec/ decodes; nothing here
 * knows what an instruction does, only how it is written: opcode, modifiers in the order of the
 * text, operands. Unknown opcodes and modifiers are errors that name line and construct.
 * Everything of a module lives in one arena that sg_ptx_free() releases.
 *
 * Source: PTX ISA 9.0 (CUDA 13.0).
 */
#ifndef SG_PTX_PTX_H
#define SG_PTX_PTX_H

#include "common/common.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opcodes: SG_OP_<name>, in the text as <name> with '_' for '.', e.g. SG_OP_BAR for bar.sync (the
 * "sync" is a modifier). Only the first word is the opcode: cp.async is SG_OP_CP with modifier
 * async; mma.sync is SG_OP_MMA with modifier sync; the two exceptions do not exist. */
enum sg_ptx_op {
    SG_OP_NONE = 0,
#define SG_PTX_OP(id, text) SG_OP_##id,
#include "softgpu/ptx/ops.def"
#undef SG_PTX_OP
    SG_OP_COUNT
};

/* Modifiers: what stands behind a dot, types included: SG_M_S32, SG_M_GLOBAL, SG_M_LO ... A "::"
 * belongs to the word: SG_M_L1__EVICT_FIRST for ".L1::evict_first". */
enum sg_ptx_mod {
    SG_M_NONE = 0,
#define SG_PTX_MOD(id, text) SG_M_##id,
#include "softgpu/ptx/mods.def"
#undef SG_PTX_MOD
    SG_M_COUNT
};

const char *sg_ptx_op_name(enum sg_ptx_op op);
const char *sg_ptx_mod_name(enum sg_ptx_mod mod); /* without the dot */

/* Bytes of one element of a type modifier (.b8 .. .b128, .f16x2 is 4), 0 for .pred and non-types */
unsigned sg_ptx_type_size(enum sg_ptx_mod type);

enum sg_ptx_space {
    SG_SPACE_GENERIC = 0,
    SG_SPACE_GLOBAL,
    SG_SPACE_CONST,
    SG_SPACE_SHARED,
    SG_SPACE_LOCAL,
    SG_SPACE_PARAM,
};

enum sg_ptx_linkage {
    SG_LINK_STATIC = 0, /* no directive: seen in its module only */
    SG_LINK_VISIBLE,
    SG_LINK_EXTERN, /* defined elsewhere; for .shared: dynamic shared memory */
    SG_LINK_WEAK,
    SG_LINK_COMMON,
};

/* An address inside an initialiser: the bytes at @offset are to hold address(@symbol) + @addend. */
struct sg_ptx_reloc {
    uint64_t offset;    /* in bytes from the start of the variable */
    const char *symbol; /* a variable or function of the module, maybe extern */
    int64_t addend;
    uint8_t size;  /* bytes to store: 1, 4 or 8 */
    uint8_t shift; /* for mask(): which byte of the address, 0 otherwise */
    bool generic;  /* generic(symbol): the generic address of it */
};

/* A variable of a state space: of a module, of a function, or a parameter. */
struct sg_ptx_var {
    const char *name;
    enum sg_ptx_space space;
    enum sg_ptx_linkage linkage;
    enum sg_ptx_mod type; /* of one element, vectors included: .v4 .f32 has elem_size 16 */
    uint32_t elem_size;
    uint32_t align;      /* power of two, at least elem_size's unless .align said so */
    uint64_t size;       /* bytes; 0: unsized, `.extern .shared .b8 x[]` */
    uint64_t offset;     /* parameters: in the parameter block, as cuFuncGetParamInfo reports it */
    const uint8_t *init; /* @size bytes, NULL: zeros */
    const struct sg_ptx_reloc *relocs;
    uint32_t nrelocs;
    uint32_t index; /* in its table: module vars, function vars, params or rets */
    uint32_t line;
    bool managed;     /* .attribute(.managed) */
    bool in_register; /* `.func (.reg .b32 r)`: the parameter is the register @reg */
    uint32_t reg;
};

struct sg_ptx_reg {
    const char *name;     /* "%r7" */
    enum sg_ptx_mod type; /* SG_M_PRED, SG_M_B32, SG_M_F64 ... */
    uint8_t vec;          /* 1; 2 or 4 for `.reg .v4 .f32` (operand .x .y select) */
};

enum sg_ptx_opnd_kind {
    SG_OPND_NONE = 0,
    SG_OPND_REG,   /* @reg; @neg: `!%p1` or `-%r1` */
    SG_OPND_IMM,   /* integer: @imm, sign-extended to 64 bits */
    SG_OPND_FIMM,  /* floating: @imm holds the bits of an f64; 0f literals too (see @is_f32) */
    SG_OPND_SREG,  /* special register @sreg */
    SG_OPND_VAR,   /* address of @var, plus @imm */
    SG_OPND_FUNC,  /* @func: target of a call, or its address */
    SG_OPND_LABEL, /* @target: index of the instruction behind the label, may be ninsns */
    SG_OPND_ADDR,  /* [base + @imm]: @sub[0] is REG, VAR or IMM (absolute address) */
    SG_OPND_VEC,   /* {a, b, ...}: @n in @sub; also the lists of a call: (a, b) */
    SG_OPND_PAIR,  /* d|p: @sub[0], @sub[1] */
    SG_OPND_SINK,  /* _ */
    SG_OPND_TABLE, /* @table: label of .branchtargets, or .calltargets/.callprototype */
};

/* Special registers; vectors have their component in sg_ptx_opnd.comp. */
enum sg_ptx_sreg {
    SG_SREG_NONE = 0,
#define SG_PTX_SREG(id, text) SG_SREG_##id,
#include "softgpu/ptx/sregs.def"
#undef SG_PTX_SREG
    SG_SREG_COUNT
};
const char *sg_ptx_sreg_name(enum sg_ptx_sreg sreg); /* "%tid" */

struct sg_ptx_func;
struct sg_ptx_table;

struct sg_ptx_opnd {
    uint8_t kind; /* enum sg_ptx_opnd_kind */
    bool neg;     /* `!` before a predicate or '-' before a register */
    bool is_f32;  /* FIMM written as 0f...: @f32 has its exact bits */
    uint8_t comp; /* REG and SREG: 0..3 for .x .y .z .w (0 if none written); see @has_comp */
    bool has_comp;
    uint8_t half; /* REG of packed video operands: .b0..b3 = 1..4, .h0 .h1 = 5, 6; else 0 */
    uint32_t n;   /* VEC: members */
    union {
        uint32_t reg;    /* index in sg_ptx_func.regs */
        uint32_t target; /* index in sg_ptx_func.insns */
        enum sg_ptx_sreg sreg;
        const struct sg_ptx_var *var;
        const struct sg_ptx_func *func;
        const struct sg_ptx_table *table;
    };
    union {
        int64_t imm;
        double f64;
    };
    uint32_t f32;
    const struct sg_ptx_opnd *sub;
};

#define SG_PTX_MAX_MODS 20
#define SG_PTX_MAX_OPNDS 12

struct sg_ptx_insn {
    uint16_t op; /* enum sg_ptx_op */
    uint8_t nmods, nopnds;
    bool guarded, guard_neg;        /* @%p / @!%p */
    uint32_t guard;                 /* register index */
    uint32_t line;                  /* of the PTX text, from 1 */
    uint32_t file, src_line;        /* of .loc, 0: unknown */
    uint16_t mods[SG_PTX_MAX_MODS]; /* enum sg_ptx_mod, in the order of the text */
    const struct sg_ptx_opnd *opnds;
};

/* `call` has its operands normalised: opnds[0] VEC of return operands (n may be 0), opnds[1] the
 * callee (FUNC or REG), opnds[2] VEC of arguments, opnds[3] TABLE if the call is indirect. */

enum sg_ptx_table_kind { SG_TABLE_BRANCH, SG_TABLE_CALLEES, SG_TABLE_PROTOTYPE };

struct sg_ptx_table {
    enum sg_ptx_table_kind kind;
    const char *name;
    uint32_t n;
    const uint32_t *targets;                  /* BRANCH: instruction indices */
    const struct sg_ptx_func *const *callees; /* CALLEES */
    const struct sg_ptx_var *params, *rets;   /* PROTOTYPE: shapes only */
    uint32_t nparams, nrets;
};

struct sg_ptx_func {
    const char *name;
    const struct sg_ptx_module *module;
    bool is_entry, has_body, noreturn;
    enum sg_ptx_linkage linkage;
    uint32_t line;
    const struct sg_ptx_var *params, *rets; /* offsets laid out as the ABI does */
    uint32_t nparams, nrets;
    uint64_t param_bytes;          /* of the whole parameter block */
    const struct sg_ptx_var *vars; /* .local .shared .param .const .global declared inside */
    uint32_t nvars;
    const struct sg_ptx_reg *regs;
    uint32_t nregs;
    const struct sg_ptx_insn *insns;
    uint32_t ninsns;
    uint32_t maxntid[3], reqntid[3], maxnreg, minnctapersm, maxnctapersm; /* 0: not given */
    uint32_t reqnctapercluster[3], maxclusterrank;
    bool explicitcluster;
};

struct sg_ptx_module {
    uint32_t version;      /* 90 for .version 9.0 */
    uint32_t arch;         /* 80 for .target sm_80 */
    char arch_suffix;      /* 'a' or 'f', 0: none */
    uint32_t address_size; /* 32 or 64 */
    const struct sg_ptx_var *vars;
    uint32_t nvars;
    const struct sg_ptx_func *const *funcs; /* declarations without body too */
    uint32_t nfuncs;
    const char *const *files; /* .file table by number, NULL entries where undefined */
    uint32_t nfiles;
    struct sg_ptx_arena *arena;
};

/**
 * sg_ptx_parse - read one PTX module
 * @text: PTX, @n bytes (a NUL ends it earlier); borrowed during the call only
 * @name: for messages: "<name>:<line>: ..."; NULL: "ptx"
 * @out:  the module, freed with sg_ptx_free(); untouched on failure
 *
 * Registers, labels, variables, parameters and functions are resolved, scopes included; kernel
 * and function parameters have their offsets. Recursion depth and sizes are bounded: any input
 * ends with a module or an error.
 * Returns: TB_OK; TB_ERR_FORMAT with line and construct; TB_ERR_UNSUPPORTED for legal constructs
 * that are refused (textures, surfaces); TB_ERR_LIMIT; TB_ERR_NOMEM.
 * Threads: any.
 */
TB_MUST_CHECK enum tb_status sg_ptx_parse(const char *text, size_t n, const char *name,
                                          struct sg_ptx_module **out, struct tb_error *err);
/** sg_ptx_parse_all - the same for who reads and does not execute: textures and surfaces are
 * variables of 8 bytes */
TB_MUST_CHECK enum tb_status sg_ptx_parse_all(const char *text, size_t n, const char *name,
                                              struct sg_ptx_module **out, struct tb_error *err);
void sg_ptx_free(struct sg_ptx_module *m); /* NULL is legal */

/* Convenience of decoders: does @insn have modifier @mod? */
static inline bool sg_ptx_has(const struct sg_ptx_insn *insn, enum sg_ptx_mod mod)
{
    for (unsigned i = 0; i < insn->nmods; i++)
        if (insn->mods[i] == mod)
            return true;
    return false;
}

#endif
