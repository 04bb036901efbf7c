/* The kernels' code, put into the object by the assembler: no file is looked for at run time. */
#include "fingerprint/device/fp_device.h"

/* The bytes of @file, a NUL behind, as cuModuleLoadData() wants it of a text; and their number. */
#define EMBED(name, file)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".balign 64\n"                                                                         \
            ".hidden " #name "\n"                                                                  \
            ".hidden " #name "_size\n"                                                             \
            ".globl " #name "\n"                                                                   \
            ".globl " #name "_size\n" #name ":\n"                                                  \
            ".incbin \"" file "\"\n"                                                               \
            "1: .byte 0\n"                                                                         \
            ".balign 8\n" #name "_size: .quad 1b - " #name "\n"                                    \
            ".popsection\n");                                                                      \
    extern const unsigned char name[];                                                             \
    extern const uint64_t name##_size

EMBED(tb_fpd_image_bytes, TB_FPD_IMAGE_FILE);
EMBED(tb_fpd_ptx_bytes, TB_FPD_PTX_FILE);

const void *tb_fpd_image(size_t *bytes)
{
    *bytes = tb_fpd_image_bytes_size;
    return tb_fpd_image_bytes;
}

const char *tb_fpd_ptx(size_t *bytes)
{
    *bytes = tb_fpd_ptx_bytes_size;
    return (const char *)tb_fpd_ptx_bytes;
}
