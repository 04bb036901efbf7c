/*
 * A library with instructions that nobody can answer, and with their bytes where they are none: in
 * other instructions, in data, in a table between functions. See test_code.c.
 */
#define BEGIN(name) "\n.globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n"
#define END(name) "\nret\n.cfi_endproc\n.size " #name ", . - " #name "\n"

/* rdtsc, rdtscp; the bytes of each as a number, before and behind, and across two instructions */
__asm__(".text" BEGIN(code_clock) "movl $0x310f310f, %eax\n"
                                  "rdtsc\n"
                                  "movl $0x00f9010f, %ecx\n"
                                  "rdtscp\n"
                                  "addl $0x0f, %eax\n"
                                  "xorl %eax, %eax\n" END(code_clock));

/* All widths and registers; cmpxchg8b and rdpid look like them */
__asm__(BEGIN(code_random) "rdrand %eax\n"
                           "rdrand %r15\n"
                           "rdseed %cx\n"
                           "lock cmpxchg8b (%rdi)\n"
                           ".byte 0xf3, 0x0f, 0xc7, 0xf8\n" END(code_random));

/* Longer than what is read at once, each number a candidate */
__asm__(BEGIN(code_long) ".rept 130000\nmovabsq $0x310f310f310f310f, %rax\n.endr\n"
                         "rdtsc\n" END(code_long));

/* In no table for unwinding */
__asm__(".globl code_bare\n.type code_bare, @function\ncode_bare:\n"
        "movl $0xf0c70f90, %eax\n"
        "rdtsc\n"
        "ret\n"
        ".size code_bare, . - code_bare\n");

const unsigned char code_data[] = {0x0F, 0x31, 0x90, 0x0F, 0x01, 0xF9, 0x0F, 0xC7, 0xF0};
