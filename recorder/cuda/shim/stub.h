/*
 * stub.h - a function of libcuda.so.1 that is only forwarded: a jump to where tb_shim_real says, so
 * no signature need be known. At the first call that is nowhere yet: tb_shim_slow keeps all
 * arguments, asks tb_shim_resolve() and jumps there.
 */
#if defined(__x86_64__)

.macro TB_SHIM_STUB name, index
    .text
    .p2align 4
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    endbr64
    movq tb_shim_real+8*\index(%rip), %r11
    testq %r11, %r11
    je 1f
    jmp *%r11
1:  movl $\index, %r11d
    jmp tb_shim_slow
    .cfi_endproc
    .size \name, .-\name
.endm

    .text
    .p2align 4
    .type tb_shim_slow, @function
tb_shim_slow:
    .cfi_startproc
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    pushq %rax
    subq $136, %rsp
    movaps %xmm0, (%rsp)
    movaps %xmm1, 16(%rsp)
    movaps %xmm2, 32(%rsp)
    movaps %xmm3, 48(%rsp)
    movaps %xmm4, 64(%rsp)
    movaps %xmm5, 80(%rsp)
    movaps %xmm6, 96(%rsp)
    movaps %xmm7, 112(%rsp)
    movl %r11d, %edi
    call tb_shim_resolve
    movq %rax, %r11
    movaps (%rsp), %xmm0
    movaps 16(%rsp), %xmm1
    movaps 32(%rsp), %xmm2
    movaps 48(%rsp), %xmm3
    movaps 64(%rsp), %xmm4
    movaps 80(%rsp), %xmm5
    movaps 96(%rsp), %xmm6
    movaps 112(%rsp), %xmm7
    addq $136, %rsp
    popq %rax
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    popq %rbp
    .cfi_def_cfa %rsp, 8
    jmp *%r11
    .cfi_endproc
    .size tb_shim_slow, .-tb_shim_slow

#elif defined(__aarch64__)

.macro TB_SHIM_STUB name, index
    .text
    .p2align 4
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    hint #34
    adrp x16, tb_shim_real+8*\index
    ldr x16, [x16, #:lo12:tb_shim_real+8*\index]
    cbz x16, 1f
    br x16
1:  mov w17, #\index
    b tb_shim_slow
    .cfi_endproc
    .size \name, .-\name
.endm

    .text
    .p2align 4
    .type tb_shim_slow, @function
tb_shim_slow:
    .cfi_startproc
    stp x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset x29, -224
    .cfi_offset x30, -216
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov w0, w17
    bl tb_shim_resolve
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldp x29, x30, [sp], #224
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size tb_shim_slow, .-tb_shim_slow

#else
#error "recorder/cuda/shim/stub.h: jumps are written for x86-64 and aarch64"
#endif
