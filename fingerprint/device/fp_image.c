/* The kernels' code, put into the object by the assembler: no file is looked for at run time. */
#include "fingerprint/device/fp_device.h"

/* @name and @name_end; a NUL behind, as cuModuleLoadData() wants it of a text */
#define EMBED(name, file)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".balign 64\n"                                                                         \
            ".hidden " #name "\n"                                                                  \
            ".hidden " #name "_end\n"                                                              \
            ".globl " #name "\n"                                                                   \
            ".globl " #name "_end\n" #name ":\n"                                                   \
            ".incbin \"" file "\"\n" #name "_end:\n"                                               \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const unsigned char name[], name##_end[]

EMBED(tb_fpd_image_bytes, TB_FPD_IMAGE_FILE);
EMBED(tb_fpd_ptx_bytes, TB_FPD_PTX_FILE);

const void *tb_fpd_image(size_t *bytes)
{
    *bytes = (size_t)(tb_fpd_image_bytes_end - tb_fpd_image_bytes);
    return tb_fpd_image_bytes;
}

const char *tb_fpd_ptx(size_t *bytes)
{
    *bytes = (size_t)(tb_fpd_ptx_bytes_end - tb_fpd_ptx_bytes);
    return (const char *)tb_fpd_ptx_bytes;
}
