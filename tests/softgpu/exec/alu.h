/*
 * alu - runs one instruction, given as text, on many inputs and compares every bit of its results
 * with a function of C. Inputs in bulk go through full warps; some more go through guards,
 * branches, literals, and destinations that are sources.
 */
#ifndef TESTS_SOFTGPU_ALU_H
#define TESTS_SOFTGPU_ALU_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "softgpu/num/num.h"

#include <stdbool.h>

/* Kinds of inputs; a and b are likely to make ties, cancellations and edges together. */
enum alu_inputs {
    ALU_F32,
    ALU_F64,
    ALU_F16,
    ALU_BF16,
    ALU_F16X2,
    ALU_BF16X2,
    ALU_INT,   /* 64 bits; those of narrow registers are cut off */
    ALU_SHIFT, /* a an integer, b and c small numbers mostly */
    ALU_PAIRS, /* two f32: a and b are two registers' worth */
    ALU_ALL16, /* a: every 16 bits in turn; what is above them is random */
    ALU_INPUTS
};

struct alu {
    /* One or more statements. D is the destination, E a second one, A, B, C the sources; registers
     * t0..t3 of 32 bits, u0..u3 of 64, h0..h3 of 16 and predicates q0..q3 are free. A text without
     * a blank is an opcode with operands D, A, B, C, as many as @regs has. */
    char text[200];
    /* Registers of D, A, B, C, E: h 16 bits, r 32, l 64, p a predicate, . none */
    char regs[6];
    enum alu_inputs inputs;
    uint64_t (*want)(const struct alu *t, uint64_t a, uint64_t b, uint64_t c, uint64_t *e);
    int x[4]; /* for @want */
    const void *ptr;
    uint32_t n;       /* inputs in bulk; 0: 20,000 */
    const char *lits; /* literals for A, B, C: i integer, f f32, d f64, . none; NULL: none */
};

/* A reference: @expr of a, b, c; t->x[] are its parameters. */
#define WANT(name, expr)                                                                           \
    static uint64_t name(const struct alu *t, uint64_t a, uint64_t b, uint64_t c, uint64_t *e)     \
    {                                                                                              \
        (void)t;                                                                                   \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        (void)e;                                                                                   \
        return (uint64_t)(expr);                                                                   \
    }

int alu_setup(void **state);
int alu_teardown(void **state); /* says how many instructions were checked */
/* How many inputs the exact operations take: 10^6, less under sanitizers. */
uint32_t alu_exact(void);
void alu_check(const struct alu *t);
/* true: it can be loaded; *@why has the message if not */
bool alu_loads(const struct alu *t, const char **why);

/* Number of instructions checked so far. */
unsigned alu_count(void);

#endif
