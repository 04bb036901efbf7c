/*
 * Device code as programs hand it over: PTX text, fat binaries of nvcc, what cuLinkComplete
 * returned, machine code (which is refused with advice). The result is PTX texts for one device.
 * Start at sg_code_read().
 */
#ifndef SG_DRIVER_CODE_H
#define SG_DRIVER_CODE_H

#include "softgpu/driver/driver.h"
#include "softgpu/fatbin/fatbin.h"

#define SG_CODE_UNKNOWN_SIZE SIZE_MAX

struct sg_code_text {
    char *text; /* owned, with a NUL behind it */
    size_t len;
};

struct sg_code {
    struct sg_code_text *texts;
    size_t n;
    uint32_t max_regs; /* for a thread, as asked for when it was compiled; 0: any number */
};

/**
 * sg_code_read - find the PTX for @arch in @image
 * @size: bytes of @image, SG_CODE_UNKNOWN_SIZE: it says itself where it ends
 *
 * Returns: CUDA_SUCCESS; CUDA_ERROR_NO_BINARY_FOR_GPU if there is only machine code or newer PTX;
 * CUDA_ERROR_INVALID_IMAGE for what is none of these; CUDA_ERROR_OUT_OF_MEMORY; @err says why.
 */
CUresult sg_code_read(const void *image, size_t size, uint32_t arch, struct sg_code *out,
                      struct tb_error *err);
/** sg_code_add - append a copy of a text */
CUresult sg_code_add(struct sg_code *code, const char *text, size_t len);
void sg_code_clear(struct sg_code *code);

/** sg_code_pack - several texts as one image that sg_code_read() takes; freed with free() */
CUresult sg_code_pack(const struct sg_code *code, void **image, size_t *size);

/** sg_code_parse - read all texts; @mods has room for @code->n, freed with sg_ptx_free()
 *
 * Returns: CUDA_SUCCESS; CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
 * CUDA_ERROR_OUT_OF_MEMORY. */
CUresult sg_code_parse(const struct sg_code *code, const char *name, uint32_t arch,
                       struct sg_ptx_module **mods, struct tb_error *err);
/** sg_code_result - the CUresult of a parser's or the engine's status */
CUresult sg_code_result(enum tb_status status);

/** sg_file_read - a file as memory with a NUL behind it, freed with free();
 * CUDA_ERROR_FILE_NOT_FOUND */
CUresult sg_file_read(const char *path, char **data, size_t *size);

/* fatbin.c */
CUresult sg_fatbin_read(const void *image, size_t size, uint32_t arch, struct sg_code *out,
                        struct tb_error *err);

#endif
