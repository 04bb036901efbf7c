/* What the analysis must find in small kernels, each with a way to miss it. */
#include "kernelinfo/kernelinfo.h"
#include "tests/kernelinfo/dump.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD ".version 8.7\n.target sm_90a\n.address_size 64\n"
/* Kernel "k" with pointers p and q and a number n */
#define KERNEL(body)                                                                               \
    ".visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)\n{\n"                          \
    ".reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %d<16>;\n"    \
    ".reg .f64 %e<4>;\n" body "\nret;\n}\n"
#define LOAD "ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q]; ld.param.u32 %r1, [n];\n"

static bool is(const char *ptx, const char *wanted)
{
    struct tb_error err = {0};
    struct tb_wire_kernels *t = NULL;
    char line[4096];
    bool same;
    size_t n = 0;

    if (tb_kernelinfo(ptx, strlen(ptx), (void **)&t, &n, &err) != TB_OK)
        fail_msg("%s\n%s", err.text, ptx);
    assert_int_equal(t->magic, TB_WIRE_MAGIC);
    assert_true(t->kernels >= 1);
    ki_dump(t, t->kernels - 1, line, sizeof(line));
    same = strcmp(line, wanted) == 0;
    if (!same)
        print_error("  found  %s\n  wanted %s\n%s\n", line, wanted, ptx);
    free(t);
    return same;
}

struct rule {
    const char *what, *ptx, *wanted;
};

static void all(const struct rule *r, size_t n)
{
    unsigned bad = 0;

    for (size_t i = 0; i < n; i++) {
        print_message("%s\n", r[i].what);
        bad += !is(r[i].ptx, r[i].wanted);
    }
    assert_int_equal(bad, 0);
}
#define ALL(rules) all(rules, TB_ARRAY_LEN(rules))

static void test_rules__words_that_reach_an_address(void **state)
{
    static const struct rule rules[] = {
        {"a plain store", HEAD KERNEL(LOAD "st.global.f32 [%d1], 0f3F800000;"),
         "k 0:8=w/f32 8:8=v 16:4=v"},
        {"a plain copy", HEAD KERNEL(LOAD "ld.global.f32 %f1, [%d2+4]; st.global.f32 [%d1], %f1;"),
         "k 0:8=w/f32 8:8=r/f32 16:4=v"},
        {"an index is no base",
         HEAD KERNEL(LOAD "mul.wide.s32 %d3, %r1, 4; add.s64 %d4, %d1, %d3;"
                          "st.global.u8 [%d4], %r1;"),
         "k 0:8=w/u8 8:8=v 16:4=v"},
        {"a select writes through both",
         HEAD KERNEL(LOAD "setp.gt.s32 %p1, %r1, 7; selp.b64 %d3, %d1, %d2, %p1;"
                          "st.global.u32 [%d3], %r1;"),
         "k 0:8=w/u32 8:8=w/u32 16:4=v"},
        {"order of the text does not matter",
         HEAD KERNEL("bra L2; L1: st.global.u32 [%d3], 1; ret; L2: ld.param.u64 %d4, [q];"
                     "mov.b64 %d3, %d4; bra L1;"),
         "k 8:8=w/u32"},
        {"a pointer that moves through the difference of two",
         HEAD KERNEL(LOAD "sub.s64 %d3, %d2, %d1; add.s64 %d4, %d1, %d3; st.global.u32 [%d4], 1;"),
         "k 0:8=w/u32 8:8=w/u32 16:4=v"},
        {"a pointer with its low bits cut off, in two ways",
         HEAD KERNEL(LOAD "and.b64 %d3, %d1, -16; shr.u64 %d4, %d2, 4; shl.b64 %d5, %d4, 4;"
                          "st.global.u32 [%d3], 1; st.global.u32 [%d5], 1;"),
         "k 0:8=w/u32 8:8=wv/u32 16:4=v"},
        {"a sign extended from bit 57",
         HEAD KERNEL(LOAD "shl.b64 %d4, %d2, 7; shr.s64 %d5, %d4, 7; st.global.u32 [%d5], 1;"),
         "k 0:8=v 8:8=wv/u32 16:4=v"},
        {"a scaled number of 64 bits is no base",
         HEAD KERNEL(LOAD "shl.b64 %d3, %d2, 3; add.s64 %d4, %d1, %d3; st.global.u32 [%d4], 1;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
        {"multiply and add keeps what is added",
         HEAD KERNEL(LOAD "mad.lo.s64 %d4, %d2, 12, %d1; st.global.u32 [%d4], 1;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
        {"shuffled between threads",
         HEAD KERNEL(LOAD "mov.b64 {%r2, %r3}, %d1; shfl.sync.idx.b32 %r4, %r2, 0, 31, -1;"
                          "shfl.sync.idx.b32 %r5|%p1, %r3, 0, 31, -1; mov.b64 %d3, {%r4, %r5};"
                          "st.global.u32 [%d3], 1;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
        {"asked for NULL only",
         HEAD KERNEL("ld.param.u64 %d1, [p]; setp.eq.s64 %p1, %d1, 0;"
                     "@%p1 bra L; st.global.u32 [%d1], 1; L:"),
         "k 0:8=w/u32"},
        {"bounds are numbers",
         HEAD KERNEL("ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q];"
                     "setp.lt.u64 %p1, %d1, %d2; @%p1 bra L;"
                     "st.global.u32 [%d1], 1; L:"),
         "k 0:8=wv/u32 8:8=v"},
        {"a constant is no parameter", HEAD KERNEL("st.global.u32 [4096], 1;"), "k UNTRACED_WRITE"},
        {"a large constant plus a parameter",
         HEAD KERNEL(LOAD "add.s64 %d3, %d2, 0x7f0012340000; ld.global.u32 %r2, [%d3];"),
         "k 0:8=v 8:8=r/u32 16:4=v UNTRACED_READ"},
        {"a multiplier of a division is no address",
         HEAD KERNEL(LOAD "mul.hi.u64 %d3, %d2, 0x1999999999999a; add.s64 %d4, %d1, %d3;"
                          "st.global.u32 [%d4], 1;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
        {"an index that comes from nowhere",
         HEAD KERNEL("ld.param.u32 %r1, [n];"
                     "cvt.u64.u32 %d1, %r1;"
                     "st.global.u32 [%d1], 1;"),
         "k 16:4=v UNTRACED_WRITE"},
    };

    (void)state;
    ALL(rules);
}

static void test_rules__pointers_in_parts(void **state)
{
    static const struct rule rules[] = {
        {"two halves, packed",
         HEAD KERNEL("ld.param.v2.u32 {%r1, %r2}, [p]; mov.b64 %d1, {%r1, %r2};"
                     "st.global.u32 [%d1], 1;"),
         "k 0:8=w/u32"},
        {"two halves, shifted and put together",
         HEAD KERNEL("ld.param.u32 %r1, [p]; ld.param.u32 %r2, [p+4]; cvt.u64.u32 %d1, %r1;"
                     "cvt.u64.u32 %d2, %r2; shl.b64 %d2, %d2, 32; or.b64 %d3, %d1, %d2;"
                     "st.global.u32 [%d3+8], 1;"),
         "k 0:8=w/u32"},
        {"two halves and an index",
         HEAD KERNEL("ld.param.u32 %r1, [p]; ld.param.u32 %r2, [p+4]; mov.b64 %d1, {%r1, %r2};"
                     "ld.param.u32 %r3, [n]; cvt.s64.s32 %d2, %r3; add.s64 %d3, %d1, %d2;"
                     "st.global.u8 [%d3], %r3;"),
         "k 0:8=w/u8 16:4=v"},
        {"bytes of a packed struct",
         HEAD ".visible .entry k(.param .align 1 .b8 s[9])\n{\n.reg .b64 %d<20>;\n"
              "ld.param.u8 %d1, [s+1]; ld.param.u8 %d2, [s+2]; ld.param.u8 %d3, [s+3];"
              "ld.param.u8 %d4, [s+4]; ld.param.u8 %d5, [s+5]; ld.param.u8 %d6, [s+6];"
              "ld.param.u8 %d7, [s+7]; ld.param.u8 %d8, [s+8];"
              "shl.b64 %d2, %d2, 8; shl.b64 %d3, %d3, 16; shl.b64 %d4, %d4, 24;"
              "shl.b64 %d5, %d5, 32; shl.b64 %d6, %d6, 40; shl.b64 %d7, %d7, 48;"
              "shl.b64 %d8, %d8, 56; or.b64 %d9, %d1, %d2; or.b64 %d9, %d9, %d3;"
              "or.b64 %d9, %d9, %d4; or.b64 %d9, %d9, %d5; or.b64 %d9, %d9, %d6;"
              "or.b64 %d9, %d9, %d7; or.b64 %d9, %d9, %d8; st.global.u32 [%d9], 1;\nret;\n}\n",
         "k 1:8=w/u32"},
        {"half a pointer is not enough",
         HEAD KERNEL("ld.param.u32 %r2, [p+4]; mov.b32 %r1, 64; mov.b64 %d1, {%r1, %r2};"
                     "st.global.u32 [%d1], 1;"),
         "k 4:4=v UNTRACED_WRITE"},
        {"through local memory, in other parts",
         HEAD KERNEL(".local .align 8 .b8 a[16]; ld.param.u32 %r1, [p]; ld.param.u32 %r2, [p+4];"
                     "mov.u64 %d1, a; cvta.local.u64 %d2, %d1; st.local.u32 [%d1+8], %r1;"
                     "st.u32 [%d2+12], %r2; ld.local.u64 %d3, [%d1+8]; st.global.u32 [%d3], 1;"),
         "k 0:8=w/u32"},
        {"a pointer taken apart and put together",
         HEAD KERNEL(LOAD "shr.u64 %d3, %d1, 32; cvt.u32.u64 %r3, %d3; cvt.u32.u64 %r4, %d1;"
                          "mov.b64 %d4, {%r4, %r3}; st.global.u32 [%d4], 1;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
    };

    (void)state;
    ALL(rules);
}

static void test_rules__memory_of_the_thread(void **state)
{
    static const struct rule rules[] = {
        {"cells are told apart",
         HEAD KERNEL(LOAD ".local .align 8 .b8 a[16]; mov.u64 %d3, a; st.local.u64 [%d3], %d1;"
                          "add.u64 %d4, %d3, 8; st.local.u64 [%d4], %d2;"
                          "ld.local.u64 %d5, [a+8]; st.global.u32 [%d5], 1;"),
         "k 0:8=v 8:8=w/u32 16:4=v"},
        {"unless the offset is not known",
         HEAD KERNEL(LOAD ".local .align 8 .b8 a[16]; mov.u64 %d3, a; st.local.u64 [%d3], %d1;"
                          "st.local.u64 [%d3+8], %d2; mul.wide.u32 %d4, %r1, 8;"
                          "add.s64 %d5, %d3, %d4; ld.local.u64 %d6, [%d5];"
                          "st.global.u32 [%d6], 1;"),
         "k 0:8=w/u32 8:8=w/u32 16:4=v"},
        {"or a loop moves it",
         HEAD KERNEL(LOAD ".local .align 8 .b8 a[16]; mov.u64 %d3, a; st.local.u64 [%d3+8], %d2;"
                          "L: ld.local.u64 %d6, [%d3]; st.global.u32 [%d6], 1;"
                          "add.s64 %d3, %d3, 8; setp.ne.s32 %p1, %r1, 0; @%p1 bra L;"),
         "k 0:8=v 8:8=w/u32 16:4=v"},
        {"a store to any place is seen by a load from one",
         HEAD KERNEL(LOAD ".local .align 8 .b8 a[16]; mov.u64 %d3, a; mul.wide.u32 %d4, %r1, 8;"
                          "add.s64 %d5, %d3, %d4; st.local.u64 [%d5], %d1;"
                          "ld.local.u64 %d6, [a]; st.global.u32 [%d6], 1;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
        {"through shared memory, by another thread",
         HEAD ".shared .align 8 .b8 s[64];\n" KERNEL(
             LOAD "st.shared.u64 [s+8], %d1; bar.sync 0; mov.u32 %r2, s;"
                  "ld.shared.u64 %d3, [%r2]; st.global.u32 [%d3], 1;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
        {"a generic store into shared memory is none of global memory",
         HEAD ".shared .align 8 .b8 s[64];\n" KERNEL(
             LOAD "cvt.u64.u32 %d3, %r1; mov.u64 %d4, s; cvta.shared.u64 %d5, %d4;"
                  "add.s64 %d6, %d5, %d3; st.u32 [%d6], %r1; ld.u32 %r2, [%d6];"
                  "st.global.u32 [%d1], %r2;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
        {"an address made from one that has no name",
         HEAD KERNEL(LOAD "cvta.shared.u64 %d5, 64; st.u64 [%d5], %d1; ld.shared.u64 %d6, [0];"
                          "st.global.u32 [%d6], 1;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
        {"a local variable known elsewhere may hold anything",
         HEAD KERNEL(LOAD ".local .align 8 .b8 a[8]; mov.u64 %d3, a; cvta.local.u64 %d4, %d3;"
                          "st.global.u64 [%d1], %d4; ld.local.u64 %d5, [%d3];"
                          "st.global.u32 [%d5], 1;"),
         "k 0:8=w/u64 8:8=v 16:4=v UNTRACED_WRITE"},
        {"and what it points to, too",
         HEAD KERNEL(LOAD ".local .align 8 .b8 a[8]; .local .align 8 .b8 b[8]; mov.u64 %d3, a;"
                          "cvta.local.u64 %d4, %d3; st.global.u64 [%d1], %d4; mov.u64 %d6, b;"
                          "cvta.local.u64 %d7, %d6; st.local.u64 [a], %d7;"
                          "ld.local.u64 %d5, [b]; st.global.u32 [%d5], 1;"),
         "k 0:8=w/u64 8:8=v 16:4=v UNTRACED_WRITE"},
    };

    (void)state;
    ALL(rules);
}

static void test_rules__parameters(void **state)
{
    static const struct rule rules[] = {
        {"an array of pointers, indexed",
         HEAD ".visible .entry k(.param .align 8 .b8 s[24], .param .u32 n)\n{\n"
              ".reg .b64 %d<9>; .reg .b32 %r<4>;\nmov.b64 %d1, s; cvta.param.u64 %d2, %d1;"
              "ld.param.u32 %r1, [n]; mul.wide.u32 %d3, %r1, 8; add.s64 %d4, %d2, %d3;"
              "ld.u64 %d5, [%d4]; st.global.u32 [%d5], 1;\nret;\n}\n",
         "k 0:8=w/u32 8:8=w/u32 16:8=w/u32 24:4=v"},
        {"a field of a struct whose address is taken",
         HEAD ".visible .entry k(.param .align 8 .b8 s[24])\n{\n.reg .b64 %d<9>;\n"
              "mov.b64 %d1, s; add.s64 %d2, %d1, 16; ld.param.u64 %d3, [%d2];"
              "st.global.u32 [%d3], 1;\nret;\n}\n",
         "k 16:8=w/u32"},
        {"copied to local memory as a whole",
         HEAD ".visible .entry k(.param .align 16 .b8 s[16], .param .u32 n)\n{\n"
              ".reg .b64 %d<9>; .reg .b32 %r<4>; .local .align 16 .b8 a[16];\n"
              "ld.param.v2.u64 {%d1, %d2}, [s]; st.local.v2.u64 [a], {%d1, %d2};"
              "ld.param.u32 %r1, [n]; mul.wide.u32 %d3, %r1, 8; mov.u64 %d4, a;"
              "add.s64 %d5, %d4, %d3; ld.local.u64 %d6, [%d5]; ld.global.f32 %r2, [%d6];"
              "\nret;\n}\n",
         "k 0:8=r/f32 8:8=r/f32 16:4=v"},
        {"of 128 bits",
         HEAD ".visible .entry k(.param .align 16 .b8 s[16])\n{\n.reg .b128 %q;"
              ".reg .b64 %d<4>;\nld.param.b128 %q, [s]; mov.b128 {%d1, %d2}, %q;"
              "st.global.u32 [%d2], 1;\nret;\n}\n",
         "k 0:8=w/u32 8:8=w/u32"},
    };

    (void)state;
    ALL(rules);
}

static void test_rules__calls(void **state)
{
    static const struct rule rules[] = {
        {"an argument is written through",
         HEAD ".func f(.param .b64 a)\n{\n.reg .b64 %d<3>;\nld.param.u64 %d1, [a];"
              "st.global.f32 [%d1], 0f00000000;\nret;\n}\n" KERNEL(
                  LOAD "{ .param .b64 x; st.param.b64 [x], %d2; call.uni f, (x); }"),
         "k 0:8=v 8:8=w/f32 16:4=v"},
        {"a result is written through, and parameters are registers",
         HEAD ".func (.reg .b64 r) f(.reg .b64 a, .reg .b64 b)\n{\nmov.b64 r, b;\nret;\n}\n" KERNEL(
             LOAD "call.uni (%d3), f, (%d1, %d2); st.global.u32 [%d3], 1;"),
         "k 0:8=v 8:8=w/u32 16:4=v"},
        {"a struct by value",
         HEAD ".func f(.param .align 8 .b8 a[16])\n{\n.reg .b64 %d<3>;\nld.param.u64 %d1, [a+8];"
              "st.u32 [%d1], 1;\nret;\n}\n" KERNEL(
                  LOAD "{ .param .align 8 .b8 x[16]; st.param.b64 [x], %d1;"
                       "st.param.b64 [x+8], %d2; call.uni f, (x); }"),
         "k 0:8=v 8:8=w/u32 16:4=v"},
        {"a function writes to the caller's local variable",
         HEAD ".func f(.param .b64 to, .param .b64 v)\n{\n.reg .b64 %d<3>;\n"
              "ld.param.u64 %d1, [to]; ld.param.u64 %d2, [v]; st.u64 [%d1], %d2;\nret;\n}\n" KERNEL(
                  LOAD ".local .align 8 .b8 a[8]; mov.u64 %d3, a; cvta.local.u64 %d4, %d3;"
                       "{ .param .b64 x; .param .b64 y; st.param.b64 [x], %d4;"
                       "st.param.b64 [y], %d1; call.uni f, (x, y); }"
                       "ld.local.u64 %d5, [a]; st.global.u32 [%d5], 1;"),
         "k 0:8=w/u32 8:8=v 16:4=v"},
        {"a function that calls itself",
         HEAD ".func f(.param .b64 a, .param .b64 b)\n{\n.reg .b64 %d<3>; .reg .pred %p;\n"
              "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; setp.eq.s64 %p, %d1, %d2;"
              "@%p bra E; st.u32 [%d1], 1; { .param .b64 x; .param .b64 y;"
              "st.param.b64 [x], %d2; st.param.b64 [y], %d1; call.uni f, (x, y); }\n"
              "E: ret;\n}\n" KERNEL(LOAD "{ .param .b64 x; .param .b64 y; st.param.b64 [x], %d1;"
                                         "st.param.b64 [y], %d2; call.uni f, (x, y); }"),
         "k 0:8=wv/u32 8:8=wv/u32 16:4=v"},
        {"through a table of functions",
         HEAD ".func f(.param .b64 a)\n{\n.reg .b64 %d<3>;\nld.param.u64 %d1, [a];"
              "st.global.u32 [%d1], 1;\nret;\n}\n.global .u64 t[1] = {f};\n" KERNEL(
                  LOAD "ld.global.u64 %d3, [t]; { .param .b64 x; st.param.b64 [x], %d1;"
                       "proto: .callprototype _ (.param .b64 _); call %d3, (x), proto; }"),
         "k 0:8=w/u32 8:8=v 16:4=v -t"},
        {"to nobody knows where",
         HEAD KERNEL(LOAD "{ .param .b64 x; st.param.b64 [x], %d1;"
                          "proto: .callprototype _ (.param .b64 _); call %d2, (x), proto; }"),
         "k 0:8=rwv 8:8=v 16:4=v UNTRACED_WRITE UNTRACED_READ"},
        {"to what is defined elsewhere, with a pointer in a local variable",
         HEAD ".extern .func f(.param .b64 a);\n" KERNEL(
             LOAD ".local .align 8 .b8 a[8]; st.local.u64 [a], %d2; mov.u64 %d3, a;"
                  "cvta.local.u64 %d4, %d3; { .param .b64 x; st.param.b64 [x], %d4;"
                  "call.uni f, (x); } ld.local.u64 %d5, [a]; st.global.u32 [%d5], 1;"),
         "k 0:8=v 8:8=w/u32 16:4=v UNTRACED_WRITE UNTRACED_READ"},
        {"printf",
         HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n" KERNEL(
             LOAD "{ .param .b64 x; .param .b64 y; .param .b32 z; st.param.b64 [x], %d1;"
                  "st.param.b64 [y], 0; call.uni (z), vprintf, (x, y); }"),
         "k 0:8=v 8:8=v 16:4=v HEAP"},
        {"malloc",
         HEAD ".extern .func (.param .b64 r) malloc(.param .b64 a);\n" KERNEL(
             LOAD "{ .param .b64 x; .param .b64 z; st.param.b64 [x], 16;"
                  "call.uni (z), malloc, (x); ld.param.b64 %d3, [z]; } st.u32 [%d3], 1;"),
         "k 0:8=v 8:8=v 16:4=v HEAP"},
    };

    (void)state;
    ALL(rules);
}

static void test_rules__loaded_addresses(void **state)
{
    static const struct rule rules[] = {
        {"a list of pointers", HEAD KERNEL(LOAD "ld.global.u64 %d3, [%d1]; st.u32 [%d3], 1;"),
         "k 0:8=r/u64 8:8=v 16:4=v INDIRECT_WRITE"},
        {"loaded in halves",
         HEAD KERNEL(LOAD "ld.global.v2.b32 {%r2, %r3}, [%d1]; mov.b64 %d3, {%r2, %r3};"
                          "ld.global.u32 %r4, [%d3];"),
         "k 0:8=r 8:8=v 16:4=v INDIRECT_READ"},
        {"an index that was loaded is none",
         HEAD KERNEL(LOAD "ld.global.u32 %r2, [%d2]; mul.wide.s32 %d3, %r2, 4;"
                          "add.s64 %d4, %d1, %d3; st.global.u32 [%d4], 1;"),
         "k 0:8=w/u32 8:8=r/u32 16:4=v"},
        {"nor one of 64 bits",
         HEAD KERNEL(LOAD "ld.global.u64 %d5, [%d2]; shl.b64 %d3, %d5, 2;"
                          "add.s64 %d4, %d1, %d3; st.global.u32 [%d4], 1;"),
         "k 0:8=w/u32 8:8=r/u64 16:4=v"},
        {"from constant memory",
         HEAD ".const .u64 c;\n" KERNEL(LOAD "ld.const.u64 %d3, [c]; st.global.u32 [%d3], 1;"),
         "k 0:8=v 8:8=v 16:4=v -c INDIRECT_WRITE"},
        {"a variable that holds a pointer",
         HEAD ".global .u64 g;\n" KERNEL(LOAD "ld.global.u64 %d3, [g]; st.global.u32 [%d3], 1;"),
         "k 0:8=v 8:8=v 16:4=v -g INDIRECT_WRITE"},
        {"a pointer that was exchanged",
         HEAD KERNEL(LOAD "atom.global.exch.b64 %d3, [%d1], %d2; st.global.u32 [%d3], 1;"),
         "k 0:8=rwa/u64 8:8=v 16:4=v INDIRECT_WRITE"},
        {"by an asynchronous copy to shared memory",
         HEAD ".shared .align 16 .b8 s[16];\n" KERNEL(
             LOAD "cp.async.ca.shared.global [s], [%d1], 8; cp.async.wait_all;"
                  "ld.shared.u64 %d3, [s]; st.global.u32 [%d3], 1;"),
         "k 0:8=r 8:8=v 16:4=v INDIRECT_WRITE"},
    };

    (void)state;
    ALL(rules);
}

static void test_rules__variables_that_are_read(void **state)
{
    static const struct rule rules[] = {
        {"constant memory, and a parameter beside it",
         HEAD ".const .f32 c[4];\n" KERNEL("ld.param.u64 %d1, [p]; ld.const.f32 %f1, [c+8];"
                                           "st.global.f32 [%d1], %f1;"),
         "k 0:8=w/f32 -c"},
        {"constant memory at an index",
         HEAD ".const .f32 c[4];\n" KERNEL("ld.param.u32 %r1, [n]; mul.wide.u32 %d1, %r1, 4;"
                                           "mov.u64 %d2, c; add.u64 %d3, %d2, %d1;"
                                           "ld.const.f32 %f1, [%d3];"),
         "k 16:4=v -c"},
        {"a generic address of constant memory",
         HEAD ".const .f32 c[4];\n" KERNEL("mov.u64 %d1, c; cvta.const.u64 %d2, %d1;"
                                           "ld.f32 %f1, [%d2];"),
         "k -c"},
        {"parameters are no variables",
         HEAD ".const .f32 c[4];\n" KERNEL("mov.b64 %d1, p; cvta.param.u64 %d2, %d1;"
                                           "ld.u64 %d3, [%d2]; ld.param.u32 %r1, [n];"),
         "k 0:8=v 16:4=v"},
        {"by a function that is called, not by one that is not",
         HEAD
         ".global .u32 g; .global .u32 h;\n"
         ".func f()\n{\n.reg .b32 %r;\nld.global.u32 %r, [g];\nret;\n}\n"
         ".func e()\n{\n.reg .b32 %r;\nld.global.u32 %r, [h];\nret;\n}\n" KERNEL("call.uni f, ();"),
         "k -g"},
        {"one of two",
         HEAD ".global .u32 g; .global .u32 h;\n" KERNEL(
             "mov.u64 %d1, g; mov.u64 %d2, h; selp.b64 %d3, %d1, %d2, %p1;"
             "ld.global.u32 %r1, [%d3];"),
         "k -g -h"},
        {"its address is stored: whoever finds it there may read it",
         HEAD ".global .u32 g;\n" KERNEL("ld.param.u64 %d1, [p]; mov.u64 %d2, g;"
                                         "st.global.u64 [%d1], %d2;"),
         "k 0:8=w/u64 -g"},
        {"its address stays in a local variable",
         HEAD ".global .u32 g;\n" KERNEL(".local .u64 a; mov.u64 %d2, g; st.local.u64 [a], %d2;"),
         "k"},
        {"its address, in a local variable whose address is stored",
         HEAD ".global .u32 g;\n" KERNEL(
             ".local .align 8 .b8 a[8]; ld.param.u64 %d1, [p]; mov.u64 %d2, g;"
             "st.local.u64 [a], %d2; mov.u64 %d3, a; cvta.local.u64 %d4, %d3;"
             "st.global.u64 [%d1], %d4;"),
         "k 0:8=w/u64 -g"},
        {"through a pointer that stands in an initial value",
         HEAD ".global .u32 g; .global .u32 h; .global .u64 t = g;\n" KERNEL(
             "ld.global.u64 %d1, [t]; ld.global.u32 %r1, [%d1];"),
         "k -g -t INDIRECT_READ"},
        {"written through such a pointer",
         HEAD ".global .u32 g; .global .u64 t = g;\n" KERNEL(
             "ld.param.u64 %d1, [p]; ld.global.u64 %d2, [%d1]; st.global.u32 [%d2], 1;"),
         "k 0:8=r/u64 +g INDIRECT_WRITE"},
        {"managed memory",
         HEAD ".global .attribute(.managed) .u32 g;\n" KERNEL("ld.global.u32 %r1, [g];"), "k -mg"},
        {"texts and tables of the compiler's own are nobody else's",
         HEAD ".global .align 1 .b8 $str[2] = {120, 0};\n"
              ".global .align 4 .b8 __cudart_i2opi_f[4] = {65, 144, 67, 60};\n"
              ".visible .global .align 1 .b8 __unnamed_1[1] = {7};\n" KERNEL(
                  "ld.global.u8 %r1, [$str]; ld.global.u32 %r2, [__cudart_i2opi_f];"
                  "ld.global.u8 %r3, [__unnamed_1];"),
         "k -f$str -f__cudart_i2opi_f -__unnamed_1"},
        {"arguments of a function that is not known",
         HEAD ".global .u32 g; .extern .func f(.param .b64 a);\n" KERNEL(
             "{ .param .b64 x; mov.u64 %d1, g; st.param.b64 [x], %d1; call.uni f, (x); }"),
         "k -+g UNTRACED_WRITE UNTRACED_READ"},
    };

    (void)state;
    ALL(rules);
}

static void test_rules__instructions(void **state)
{
    static const struct rule rules[] = {
        {"variables",
         HEAD ".global .u32 g; .global .u32 h;\n" KERNEL(
             "st.global.u32 [g], 1; ld.global.u32 %r1, [h];"),
         "k +g -h"},
        {"a variable's generic address",
         HEAD ".global .u32 g;\n" KERNEL("mov.u64 %d1, g; cvta.global.u64 %d2, %d1;"
                                         "red.add.u32 [%d2+4], 1;"),
         "k -+g"},
        {"one of a function",
         HEAD KERNEL(".global .u32 mine; mov.u64 %d1, mine; st.global.u32 [%d1], 1;"), "k +mine"},
        {"a float is added",
         HEAD KERNEL("ld.param.u64 %d1, [p]; red.global.add.f32 [%d1], 0f3F800000;"),
         "k 0:8=rwa/f32 FLOAT_ATOMIC"},
        {"in shared memory", HEAD ".shared .f32 s;\n" KERNEL("atom.shared.add.f32 %f1, [s], %f2;"),
         "k FLOAT_ATOMIC"},
        {"two halves",
         HEAD KERNEL("ld.param.u64 %d1, [p];"
                     "atom.global.add.noftz.f16x2 %r1, [%d1], %r2;"),
         "k 0:8=rwa/f16 FLOAT_ATOMIC"},
        {"the largest float: no order",
         HEAD KERNEL("ld.param.u64 %d1, [p];"
                     "red.global.max.u32 [%d1], %r2;"),
         "k 0:8=rwa/u32"},
        {"compare and swap",
         HEAD KERNEL("ld.param.u64 %d1, [p];"
                     "atom.global.cas.b32 %r1, [%d1], %r2, %r3;"),
         "k 0:8=rwa"},
        {"clocks", HEAD KERNEL("mov.u64 %d1, %clock64;"), "k CLOCK"},
        {"timers", HEAD KERNEL("mov.u64 %d1, %globaltimer;"), "k CLOCK"},
        {"prefetch and discard",
         HEAD KERNEL(LOAD "prefetch.global.L1 [%d1]; discard.global.L2 [%d2], 128;"),
         "k 0:8=r 8:8=w 16:4=v"},
        {"bulk copies",
         HEAD ".shared .align 16 .b8 s[64]; .shared .b64 m;\n" KERNEL(
             LOAD "cp.async.bulk.global.shared::cta.bulk_group [%d1], [s], 64;"
                  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d2], "
                  "64, [m];"),
         "k 0:8=w 8:8=r 16:4=v"},
        {"bulk reductions",
         HEAD ".shared .align 16 .b8 s[64];\n" KERNEL(
             LOAD "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d1], [s], 64;"),
         "k 0:8=rwa/f32 8:8=v 16:4=v FLOAT_ATOMIC"},
        {"tensors out",
         HEAD ".shared .align 128 .b8 s[64];\n"
              ".visible .entry k(.param .align 64 .b8 map[128])\n{\n.reg .b64 %d<3>;"
              ".reg .b32 %r<3>;\nmov.b64 %d1, map; cvta.param.u64 %d2, %d1;"
              "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d2, {%r1, %r2}], [s];"
              "\nret;\n}\n",
         "k UNTRACED_WRITE"},
        {"tensors in",
         HEAD ".shared .align 128 .b8 s[64]; .shared .b64 m;\n" KERNEL(
             "ld.param.u64 %d1, [p];"
             "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [s], "
             "[%d1, {%r1}], [m];"),
         "k 0:8=v UNTRACED_READ"},
        {"textures and surfaces",
         HEAD KERNEL(LOAD "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d1, {%r1}];"
                          "sust.b.1d.b32.trap [%d2, {%r1}], {%r2};"),
         "k 0:8=v 8:8=v 16:4=v UNTRACED_WRITE UNTRACED_READ"},
        {"textures that are variables",
         HEAD ".global .texref t; .global .samplerref s; .global .surfref u;\n"
              ".visible .entry k(.param .texref a, .param .u64 p)\n{\n.reg .f32 %f<5>;"
              ".reg .b32 %r<3>; .reg .b64 %d1;\nld.param.u64 %d1, [p];"
              "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, {%f1, %f2}];"
              "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [a, s, {%r1}];"
              "sust.b.1d.b32.trap [u, {%r1}], {%r2};"
              "st.global.f32 [%d1], %f1;\nret;\n}\n",
         "k 8:8=w/f32 UNTRACED_WRITE UNTRACED_READ"},
        {"tensor memory",
         HEAD ".shared .align 8 .b8 s[16];\n" KERNEL(
             "ld.param.u64 %d1, [p]; mov.u32 %r1, s;"
             "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;"
             "ld.shared.b32 %r2, [%r1];"
             "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2]; tcgen05.wait::ld.sync.aligned;"
             "st.global.b32 [%d1], %r3;"),
         "k 0:8=w"},
        {"matrices",
         HEAD KERNEL(LOAD "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r2, %r3, %r4, %r5, "
                          "%r6, %r7, %r8, %r9}, [%d1], %r1;"
                          "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d2], {%f1, %f2, "
                          "%f3, %f4, %f5, %f6, %f7, %f1}, %r1;"),
         "k 0:8=r/f16 8:8=w/f32 16:4=v"},
        {"wgmma leaves floats",
         HEAD KERNEL(LOAD "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, "
                          "%f4}, %d3, %d4, %p1, 1, 1, 0, 0;"
                          "st.global.b32 [%d1], %f1;"),
         "k 0:8=w/f32 8:8=v 16:4=v"},
    };

    (void)state;
    ALL(rules);
}

static void test_rules__types(void **state)
{
    static const struct rule rules[] = {
        {"bits of a float that was calculated",
         HEAD KERNEL("ld.param.u64 %d1, [p]; add.f32 %f1, %f2, %f3; mov.b32 %r1, %f1;"
                     "st.global.b32 [%d1], %r1;"),
         "k 0:8=w/f32"},
        {"bits that are loaded, and used as floats",
         HEAD KERNEL(LOAD "ld.global.b32 %r2, [%d1]; mul.f32 %r3, %r2, %r2;"
                          "st.global.v2.b32 [%d2], {%r3, %r3};"),
         "k 0:8=r/f32 8:8=w/f32 16:4=v"},
        {"pairs of bf16",
         HEAD KERNEL("ld.param.u64 %d1, [p]; cvt.rn.bf16x2.f32 %r1, %f1, %f2;"
                     "st.global.v4.b32 [%d1], {%r1, %r1, %r1, %r1};"),
         "k 0:8=w/bf16"},
        {"halves that are packed",
         HEAD KERNEL("ld.param.u64 %d1, [p]; cvt.rn.f16.f32 %h1, %f1; mov.b32 %r1, {%h1, %h1};"
                     "st.global.u32 [%d1], %r1;"),
         "k 0:8=w/f16"},
        {"halves as nvcc stores them",
         HEAD KERNEL(LOAD "ld.global.u16 %h2, [%d2]; cvt.f32.f16 %f2, %h2;"
                          "cvt.rn.f16.f32 %h1, %f2; st.global.u16 [%d1], %h1;"),
         "k 0:8=w/f16 8:8=r/f16 16:4=v"},
        {"zero is of any type",
         HEAD KERNEL("ld.param.u64 %d1, [p]; cvt.rn.bf16.f32 %h1, %f1; selp.b16 %h2, %h1, 0, %p1;"
                     "st.global.b16 [%d1], %h2;"),
         "k 0:8=w/bf16"},
        {"two types are none",
         HEAD KERNEL("ld.param.u64 %d1, [p]; st.global.f32 [%d1], %f1; st.global.u8 [%d1], %r1;"),
         "k 0:8=w"},
        {"a copy of bits", HEAD KERNEL(LOAD "ld.global.b32 %r2, [%d1]; st.global.b32 [%d2], %r2;"),
         "k 0:8=r 8:8=w 16:4=v"},
        {"results of a matrix product",
         HEAD KERNEL("ld.param.u64 %d1, [p]; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, {%r9, %r10}, {%r1, %r2, %r3, "
                     "%r4}; st.global.b32 [%d1], %r2;"),
         "k 0:8=w/f32"},
    };

    (void)state;
    ALL(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules__words_that_reach_an_address),
        cmocka_unit_test(test_rules__pointers_in_parts),
        cmocka_unit_test(test_rules__memory_of_the_thread),
        cmocka_unit_test(test_rules__parameters),
        cmocka_unit_test(test_rules__calls),
        cmocka_unit_test(test_rules__loaded_addresses),
        cmocka_unit_test(test_rules__variables_that_are_read),
        cmocka_unit_test(test_rules__instructions),
        cmocka_unit_test(test_rules__types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
