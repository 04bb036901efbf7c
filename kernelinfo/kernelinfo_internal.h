/*
 * kernelinfo, private.
 *
 * image.c finds the PTX; unit.c numbers what a module declares; flow.c follows values through all
 * functions of one kernel until nothing changes (rules.c: registers, memory.c and
 * object.c: loads and stores, call.c: calls), then asks each access where its address comes from
 * (access.c); output.c writes the result. machine.c counts the variables of machine code. sets.c
 * has the sets of origins, dtype.c the types of what is loaded and stored.
 */
#ifndef TB_KERNELINFO_INTERNAL_H
#define TB_KERNELINFO_INTERNAL_H

#include "common/common.h"
#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"
#include "softgpu/ptx/ptx.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---------------------------------------------------------------- sets.c */

/*
 * Where a value may come from. An origin is a kind, an index and whether it is strong: only a
 * strong one can be what an address points with; a weak one was scaled, or is a part of a value
 * that has not been put together again.
 */
enum ki_kind {
    KI_WORD = 1,     /* a word of the kernel's parameters of the size of an address: index */
    KI_PIECE,        /* a smaller word; strong once it was put together with others */
    KI_LOADED,       /* loaded from memory */
    KI_LOADED_PIECE, /* the same, less than an address */
    KI_CONST,        /* a large constant */
    KI_GLOBAL,       /* address of a variable: its number in the unit */
    KI_PARAM,        /* address of a parameter of the kernel: its number */
    KI_OBJECT,       /* address of local or shared memory, or of a function's parameter */
    KI_HEAP,         /* memory that no parameter names: what malloc returned, barriers of a grid */
    KI_UNKNOWN,      /* anything */
};
#define KI_STRONG (1u << 27)
#define KI_DOWN (1u << 26) /* was shifted right: scaling may bring it back */
#define KI_ATOM(kind, index) ((uint32_t)(kind) << 28 | (uint32_t)(index))
#define KI_KIND(atom) ((atom) >> 28)
#define KI_INDEX(atom) ((atom) & (KI_DOWN - 1))

/* What an instruction makes of the origins of its operand. */
enum ki_map {
    KI_MAP_SCALE,   /* times something: no address any more, until it is shifted back */
    KI_MAP_SHIFT,   /* shifted left by an unknown amount: pieces are numbers */
    KI_MAP_BACK,    /* shifted right: may be what it was before it was scaled */
    KI_MAP_JOIN,    /* put together in 64 bits: all pieces may be parts of an address */
    KI_MAP_JOIN_32, /* in 32 bits: pieces of 1 and 2 bytes */
    KI_MAP_COUNT
};

#define TB_KI_MOST_WORDS 65536u /* of a kernel */

struct ki_set {
    uint32_t at, n;
};

/* Sets of atoms, each kept once: 0 is the empty one. */
struct ki_sets {
    uint32_t *atoms;
    size_t natoms, atoms_cap;
    struct ki_set *set;
    uint32_t n, cap;
    uint32_t *index; /* hash table of ids + 1 */
    uint32_t index_cap;
    struct ki_memo {
        uint64_t key;
        uint32_t value;
    } * memo;
    uint32_t memo_n, memo_cap;
    uint64_t *pieces; /* bit i: word i is a piece of 4 bytes */
    bool failed;      /* no memory, or too many sets */
};

bool ki_sets_init(struct ki_sets *s);
void ki_sets_clear(struct ki_sets *s); /* empty again; keeps its memory */
void ki_sets_release(struct ki_sets *s);
uint32_t ki_one(struct ki_sets *s, uint32_t atom);
uint32_t ki_union(struct ki_sets *s, uint32_t a, uint32_t b);
uint32_t ki_map(struct ki_sets *s, enum ki_map map, uint32_t a);

/* ---------------------------------------------------------------- dtype.c */

#define KI_DT_MIXED 255u /* several types, or one that is not known */

/* What is known of a value. */
struct ki_val {
    uint32_t set;
    uint8_t displaced; /* 0: nothing yet, 1: by @off from the object's start, 2: not known */
    uint8_t dt;        /* enum tb_dtype, 0: nothing yet (a constant fits all), or KI_DT_MIXED */
    int64_t off;
};

uint8_t ki_dt_merge(uint8_t a, uint8_t b);
uint8_t ki_dt_of(unsigned mod); /* of a type modifier; KI_DT_MIXED for .b32 and the like */
bool ki_dt_is_float(uint8_t dt);
/* what an access of elements of type @mod moves, if the value is of type @value */
uint8_t ki_dt_access(unsigned mod, uint8_t value);
/* the k-th type modifier, from 0; SG_M_NONE */
unsigned ki_type(const struct sg_ptx_insn *in, unsigned k);
unsigned ki_last_type(const struct sg_ptx_insn *in);
/* what the uses of each register of @f say of its type: @out has room for f->nregs */
void ki_dt_uses(const struct sg_ptx_func *f, uint8_t *out);

/* ---------------------------------------------------------------- unit.c */

/* Numbers of what has addresses: two objects that every kernel has, then variables of the module,
 * then those of its functions, parameters and results included. */
enum { KI_OBJECT_SHARED = 0, KI_OBJECT_LOCAL = 1, KI_FIRST_VAR = 2 };

struct ki_unit {
    const struct sg_ptx_module *m;
    struct ki_func {
        const struct sg_ptx_func *f;
        uint32_t first_var;
        bool taken;    /* its address is taken */
        uint8_t *uses; /* ki_dt_uses(), made when it is needed */
    } * funcs;
    uint32_t nfuncs, nnumbers;
    const struct sg_ptx_var **vars; /* by number; NULL for the first two */
    uint32_t *index;                /* hash table of funcs + 1 by address */
    uint32_t index_cap;
    bool taken, open; /* some address is taken; functions are defined elsewhere */
    uint8_t *aimed;   /* by number: its address stands in the initial value of a variable */
    uint32_t named;   /* module variables that no compiler made for itself */
};

bool ki_unit_init(struct ki_unit *u, const struct sg_ptx_module *m);
void ki_unit_release(struct ki_unit *u);
uint32_t ki_unit_func(const struct ki_unit *u, const struct sg_ptx_func *f);
uint32_t ki_unit_var(const struct ki_unit *u, uint32_t func, const struct sg_ptx_var *v);
/* what a function without body is known to do */
enum ki_extern { KI_EXTERN_UNKNOWN, KI_EXTERN_NOTHING, KI_EXTERN_HEAP, KI_EXTERN_MATH };
enum ki_extern ki_extern_of(const char *name);
/* Is it data that a compiler made for itself? Nobody can write it: nobody else has its name. */
bool ki_is_internal(const struct sg_ptx_var *v);

/* ---------------------------------------------------------------- flow.c */

struct ki_word {
    uint32_t offset;
    uint8_t bytes, flags, write, read; /* write, read: as ki_val.dt */
    bool made;                         /* of pieces: the kernel never loads it as one */
    bool part;                         /* of such a word */
};

struct ki_object {
    struct ki_val *cells; /* one for 8 bytes */
    uint32_t n;
    struct ki_val any, all; /* stored somewhere in it; stored at all */
    bool escaped;
};

struct ki_frame {
    struct ki_val *regs; /* NULL: not reached */
    uint64_t seen;       /* version of the objects when it was last at rest */
    bool rest;
};

/* Of an image, all its kernels together. */
struct ki_limits {
    uint64_t insns;    /* to look at */
    const int *cancel; /* NULL, or not 0 once nobody wants the result */
};

/* One kernel being analysed. */
struct ki_flow {
    struct ki_unit *u;
    uint32_t entry;
    struct ki_sets sets;
    struct ki_frame *frames;
    struct ki_object *objects;
    uint32_t *reached, nreached;
    uint64_t version; /* of the objects */
    bool changed;     /* registers of the function at hand */
    bool report;      /* nothing changes any more: accesses are written down */
    bool failed;      /* no memory */
    bool gave_up;
    bool escapes; /* some object is known elsewhere */
    struct ki_limits *limits;
    struct ki_word *words;
    uint32_t nwords, words_cap;
    uint32_t flags;
    uint8_t *used;   /* by number of the variable: KI_READ, KI_WRITE */
    uint8_t *valued; /* by set: its words were marked VALUE */
    uint32_t valued_cap;
};

/* The instruction at hand. */
struct ki_at {
    struct ki_flow *k;
    uint32_t func;
    const struct sg_ptx_func *f;
    struct ki_val *regs;
    const struct sg_ptx_insn *in;
};

bool ki_flow_init(struct ki_flow *k, struct ki_unit *u, struct ki_limits *limits);
bool ki_cancelled(const struct ki_limits *limits);
/* analyse kernel @entry; false: no memory */
bool ki_flow_run(struct ki_flow *k, uint32_t entry);
void ki_flow_release(struct ki_flow *k);

bool ki_reach(struct ki_flow *k, uint32_t func);
bool ki_merge(struct ki_flow *k, struct ki_val *to, struct ki_val v); /* true: it changed */
struct ki_val ki_join(struct ki_flow *k, struct ki_val a, struct ki_val b);
struct ki_val ki_mapped(struct ki_flow *k, enum ki_map map, struct ki_val v);
void ki_value_used(struct ki_flow *k, uint32_t set);                  /* words in it are numbers */
uint32_t ki_word(struct ki_flow *k, uint32_t offset, uint32_t bytes); /* its number */
bool ki_is_entry_param(const struct ki_at *at, const struct sg_ptx_var *v);

/* operands */
struct ki_val ki_get(const struct ki_at *at, const struct sg_ptx_opnd *o);
void ki_put(const struct ki_at *at, const struct sg_ptx_opnd *o, struct ki_val v);
struct ki_val ki_address(const struct ki_at *at, const struct sg_ptx_opnd *o);
static inline struct ki_val ki_number(uint8_t dt)
{
    return (struct ki_val){.displaced = 2, .dt = dt};
}
struct ki_val ki_from(struct ki_flow *k, uint32_t atom); /* a value of that origin */

/* rules.c */
void ki_step(const struct ki_at *at);

/* memory.c */
bool ki_memory(const struct ki_at *at); /* false: not an instruction of memory */

/* object.c */
struct ki_val ki_load_object(struct ki_flow *k, uint32_t object, struct ki_val at, unsigned bytes);
void ki_store_object(struct ki_flow *k, uint32_t object, struct ki_val at, unsigned bytes,
                     struct ki_val v);
void ki_copy_object(struct ki_flow *k, uint32_t to, uint32_t from);
/* what has its address in @set becomes known elsewhere: objects may hold anything from now on,
 * variables may be read by whoever finds the address */
void ki_escape(struct ki_flow *k, uint32_t set);
void ki_escape_further(struct ki_flow *k); /* so do those whose address they hold */

/* call.c */
void ki_call(const struct ki_at *at);

/* access.c */
enum { KI_READ = TB_WORD_READ, KI_WRITE = TB_WORD_WRITE, KI_ATOMIC = TB_WORD_ATOMIC };
/* memory is accessed at an address of @set: written down if k->report */
void ki_access(struct ki_flow *k, uint32_t set, unsigned how, uint8_t dt);
void ki_untraced(struct ki_flow *k, unsigned how);

/* ---------------------------------------------------------------- output.c */

struct ki_kernel {
    char *name;
    uint32_t flags, param_bytes;
    struct ki_word *words;
    uint32_t nwords;
    struct ki_global {
        char *name;
        uint32_t flags; /* enum tb_wire_global_flags */
    } * globals;
    uint32_t nglobals;
};

struct ki_result {
    struct ki_kernel *kernels;
    uint32_t n, cap;
    uint32_t variables; /* of the text, or machine code, that has most of them */
};

/* add what @k found; a kernel of that name that is there already gets what both do */
bool ki_result_add(struct ki_result *r, const struct ki_flow *k);
enum tb_status ki_result_write(const struct ki_result *r, void **out, size_t *bytes,
                               struct tb_error *err);
void ki_result_release(struct ki_result *r);

/* ---------------------------------------------------------------- machine.c */

/* Module variables of machine code of @n bytes; 1, too, where that cannot be known. */
uint32_t ki_machine_variables(const void *elf, size_t n);

#endif
