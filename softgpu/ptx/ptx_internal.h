/*
 * softgpu/ptx, private - the parser's state and what its files share.
 *
 * text -> lexer.c -> module.c (directives) -> func.c (headers, bodies) -> decl.c, init.c
 * (variables), insn.c, operand.c, table.c; symbols.c has names and scopes, expr.c constants,
 * lookup.c the words of PTX, arena.c the memory. One token of look-ahead. Functions that return
 * bool answer false after sg_px_fail(); the first failure is the one reported.
 */
#ifndef SG_PTX_PTX_INTERNAL_H
#define SG_PTX_PTX_INTERNAL_H

#include "common/common.h"
#include "softgpu/ptx/ptx.h"

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bounds that keep any input finite; all are far above what compilers emit. */
#define SG_PX_MAX_TEXT (UINT32_C(1) << 30)
#define SG_PX_MAX_DEPTH 200 /* nested scopes */
#define SG_PX_MAX_EXPR 400  /* nested steps of a constant expression, three a parenthesis */
#define SG_PX_MAX_LIST 4    /* nested braces of an operand */
#define SG_PX_MAX_DIMS 16   /* dimensions of an array */
#define SG_PX_MAX_MEMBERS 1024
#define SG_PX_MAX_VARS (1u << 20)
#define SG_PX_MAX_VAR_BYTES (UINT64_C(1) << 48)
#define SG_PX_MAX_INIT_BYTES (UINT64_C(1) << 28) /* of a module */
#define SG_PX_MAX_FILES 65536
#define SG_PX_DIGITS 10 /* of a register number */

/* FNV-1a, computed by the lexer as it reads a name */
#define SG_PX_HASH_SEED UINT32_C(2166136261)
#define SG_PX_HASH_STEP(h, c) (((h) ^ (unsigned char)(c)) * UINT32_C(16777619))
#define SG_PX_HASH_SLOT(h, size) (((h) ^ ((h) >> 15)) & ((size)-1))

struct sg_ptx_arena;

struct sg_ptx_arena *sg_px_arena_new(void);
void sg_px_arena_free(struct sg_ptx_arena *a);
/* zeroed, 16-byte aligned; NULL without memory */
void *sg_px_arena_get(struct sg_ptx_arena *a, size_t size);

/* A growing array; @size is of one element. */
struct sg_px_vec {
    void *data;
    size_t n, cap;
};

/* room for @more further elements; false without memory */
bool sg_px_vec_room(struct sg_px_vec *v, size_t more, size_t size);
void sg_px_vec_release(struct sg_px_vec *v);

/* Kinds of tokens; single characters stand for themselves. */
enum {
    SG_TOK_EOF = 256,
    SG_TOK_IDENT,
    SG_TOK_DOT, /* .word, @s behind the dot */
    SG_TOK_INT,
    SG_TOK_FLOAT,
    SG_TOK_F32,
    SG_TOK_STRING, /* @s inside the quotes */
    SG_TOK_SHL,
    SG_TOK_SHR,
    SG_TOK_LE,
    SG_TOK_GE,
    SG_TOK_EQ,
    SG_TOK_NE,
    SG_TOK_ANDAND,
    SG_TOK_OROR,
};

struct sg_px_tok {
    int kind;
    const char *s;
    uint32_t len, line;
    uint32_t hash; /* IDENT */
    bool is_unsigned;
    union {
        uint64_t u;
        double f;
    };
    uint32_t f32;
};

enum sg_px_symkind {
    SG_SYM_REG,
    SG_SYM_RANGE,
    SG_SYM_VAR,
    SG_SYM_PARAM, /* of the function: at its final place already */
    SG_SYM_FUNC,
    SG_SYM_LABEL,
    SG_SYM_TABLE,
    SG_SYM_SREG,
    SG_SYM_WARP_SZ,
};

/* A variable of a module or function until it gets its place in the table. */
struct sg_px_var {
    struct sg_ptx_var var;
    bool of_module;
};

struct sg_px_name;

struct sg_px_sym {
    uint8_t kind, comp;
    uint8_t vec; /* RANGE */
    bool has_comp;
    uint16_t type; /* RANGE */
    uint32_t depth;
    struct sg_px_name *name;
    struct sg_px_sym *below;    /* what this one hides */
    struct sg_px_sym *in_scope; /* next of the same scope */
    uint32_t value;             /* REG: index; RANGE: count; LABEL: instruction; SREG */
    union {
        struct sg_px_var *var;
        const struct sg_ptx_var *param;
        struct sg_ptx_func *func;
        struct sg_ptx_table *table;
    };
};

struct sg_px_name {
    const char *text;
    uint32_t len, hash;
    struct sg_px_sym *sym;   /* innermost */
    struct sg_px_sym *range; /* innermost `name<n>` */
};

/* A label that may be defined further down. */
struct sg_px_pending {
    struct sg_px_name *name;
    struct sg_ptx_opnd *opnd; /* or */
    uint32_t *target;
    uint32_t line;
};

struct sg_px_scope {
    struct sg_px_sym *syms;
    uint32_t range_depth; /* of the innermost scope that has ranges, this one or one around it */
    size_t pending_start;
};

/* Symbol of an initialiser, to be looked up when the module is complete. */
struct sg_px_wanted {
    struct sg_px_name *name;
    uint32_t line;
};

struct sg_px {
    struct sg_px_tok tok; /* the current token */
    const char *cur;      /* text behind it */
    uint32_t line;        /* of @cur */
    uint32_t expr_depth, list_depth;
    char *text, *end; /* own copy, NUL-terminated */
    locale_t locale;  /* "C": the program's may write numbers otherwise */
    const char *name;
    struct tb_error *err;
    enum tb_status status;
    struct sg_ptx_arena *arena;
    struct sg_ptx_module *mod;

    struct sg_px_vec names; /* struct sg_px_name *: hash table, power of two; n: names in it */
    struct sg_px_scope scopes[SG_PX_MAX_DEPTH + 1];
    uint32_t depth;

    struct sg_px_vec mvars, funcs, files, aliases; /* of the module */
    struct sg_px_vec wanted, mfixups;
    struct sg_px_vec fvars, regs, insns, pending, fixups; /* of the function */
    struct sg_px_vec stack, bytes, relocs;                /* of the construct */
    struct sg_ptx_func *func;
    uint32_t loc_file, loc_line;
    uint64_t init_bytes;
    bool uses_vars; /* the instruction has VAR operands */
    bool opaque;    /* textures and the like are taken */

    uint16_t ops[512], mods[2048];
};

/* lookup.c */
void sg_px_lookup_init(struct sg_px *p);
enum sg_ptx_op sg_px_find_op(const struct sg_px *p, const struct sg_px_tok *t);
enum sg_ptx_mod sg_px_find_mod(const struct sg_px *p, const struct sg_px_tok *t);
uint32_t sg_px_hash(const char *s, size_t n);
bool sg_px_is_opaque(enum sg_ptx_mod type); /* textures, samplers, surfaces */

/* lexer.c */
void sg_px_next(struct sg_px *p);
char sg_px_peek(struct sg_px *p);              /* first character of the token after this one */
const char *sg_px_skip_block(struct sg_px *p); /* raw text up to '}'; NULL if there is none */
bool sg_px_fail(struct sg_px *p, enum tb_status status, uint32_t line, const char *fmt, ...)
    TB_PRINTF(4, 5);
bool sg_px_nomem(struct sg_px *p);
bool sg_px_unexpected(struct sg_px *p, const char *wanted);

static inline bool sg_px_is(const struct sg_px *p, int kind)
{
    return p->tok.kind == kind;
}

static inline bool sg_px_word(const struct sg_px *p, int kind, const char *word)
{
    size_t n = strlen(word);

    return p->tok.kind == kind && p->tok.len == n && memcmp(p->tok.s, word, n) == 0;
}

bool sg_px_accept(struct sg_px *p, int kind);
bool sg_px_expect(struct sg_px *p, int kind, const char *what);
bool sg_px_u32(struct sg_px *p, const char *what, uint32_t *out); /* a plain number */
int sg_px_cut(const struct sg_px_tok *t); /* length of a token for a message */

/* Allocations that report their failure. */
void *sg_px_get(struct sg_px *p, size_t size);
bool sg_px_room(struct sg_px *p, struct sg_px_vec *v, size_t more, size_t size);
/* copy @n elements of @size to the arena; *out stays NULL for none */
bool sg_px_keep(struct sg_px *p, const void *data, size_t n, size_t size, void *out);
const char *sg_px_text(struct sg_px *p, const char *s, size_t n);

/* symbols.c */
struct sg_px_name *sg_px_intern(struct sg_px *p, const char *s, uint32_t n, uint32_t hash);
struct sg_px_name *sg_px_intern_tok(struct sg_px *p);
struct sg_px_sym *sg_px_declare(struct sg_px *p, struct sg_px_name *name, enum sg_px_symkind kind,
                                uint32_t depth, uint32_t line);
bool sg_px_lookup(struct sg_px *p, struct sg_px_name *name, struct sg_px_sym **out);
bool sg_px_declare_sregs(struct sg_px *p);
bool sg_px_scope_enter(struct sg_px *p, uint32_t line);
bool sg_px_scope_leave(struct sg_px *p); /* resolves labels */
bool sg_px_add_reg(struct sg_px *p, struct sg_px_name *name, enum sg_ptx_mod type, uint8_t vec,
                   uint32_t *index);
bool sg_px_want_label(struct sg_px *p, struct sg_px_name *name, struct sg_ptx_opnd *opnd,
                      uint32_t *target, uint32_t line);

/* expr.c */
enum sg_px_valkind { SG_VAL_S64, SG_VAL_U64, SG_VAL_F64 };

struct sg_px_val {
    enum sg_px_valkind kind;
    bool is_f32; /* F64 written as 0f..., @f32 has the bits */
    uint32_t f32;
    union {
        int64_t i;
        uint64_t u;
        double f;
    };
};

bool sg_px_const(struct sg_px *p, struct sg_px_val *out); /* a whole constant expression */
/* [+|- term]... behind an address, added to *sum */
bool sg_px_offset(struct sg_px *p, int64_t *sum);
bool sg_px_starts_const(const struct sg_px *p);

/* decl.c */
struct sg_px_decl {
    enum sg_ptx_linkage linkage;
    enum sg_ptx_space space;
    enum sg_ptx_mod type;
    uint8_t vec; /* 1, 2, 4, 8 */
    uint32_t align;
    bool managed, is_reg;
};

bool sg_px_space(const struct sg_px *p, enum sg_ptx_space *out); /* of the current .word */
bool sg_px_linkage(const struct sg_px *p, enum sg_ptx_linkage *out);
bool sg_px_regs(struct sg_px *p);                              /* at .reg */
bool sg_px_vars(struct sg_px *p, enum sg_ptx_linkage linkage); /* at the state space */
/* "( ... )" of a function or prototype, laid out; names are declared if @declare */
bool sg_px_params(struct sg_px *p, bool declare, const struct sg_ptx_var **out, uint32_t *n,
                  uint64_t *bytes);
bool sg_px_attribute(struct sg_px *p, bool *managed);
bool sg_px_place_vars(struct sg_px *p, struct sg_px_vec *vars, const struct sg_ptx_var **out,
                      uint32_t *n);

/* init.c */
/* at the value; @dims: counts, dims[0] 0 if it is to be found out */
bool sg_px_init(struct sg_px *p, struct sg_ptx_var *v, const struct sg_px_decl *d, uint64_t *dims,
                uint32_t ndims);

/* operand.c */
bool sg_px_operand(struct sg_px *p, struct sg_ptx_opnd *out, bool index_is_address);
bool sg_px_list(struct sg_px *p, int close, struct sg_ptx_opnd *out); /* behind '{' or '(' */
bool sg_px_label_operand(struct sg_px *p, struct sg_ptx_opnd *out);

/* insn.c */
bool sg_px_insn(struct sg_px *p); /* at the guard or opcode */

/* table.c */
bool sg_px_table(struct sg_px *p, struct sg_px_name *name); /* at .branchtargets and others */
bool sg_px_is_table(const struct sg_px *p);

/* func.c */
bool sg_px_function(struct sg_px *p, enum sg_ptx_linkage linkage); /* at .entry or .func */
bool sg_px_header_options(struct sg_px *p, struct sg_ptx_func *f); /* .noreturn and the like */
bool sg_px_loc(struct sg_px *p);
bool sg_px_pragma(struct sg_px *p);

#endif
