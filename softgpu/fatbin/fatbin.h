/*
 * softgpu/fatbin - reads the format of fat binaries: their entries, and the PTX in one of them.
 *
 * Which entry a device takes is the driver's business. Start at sg_fatbin_each(). The format stands
 * in fatbin.c.
 */
#ifndef SG_FATBIN_FATBIN_H
#define SG_FATBIN_FATBIN_H

#include "common/common.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_FATBIN_WRAPPER UINT32_C(0x466243b1) /* fatbinary_section.h */
#define SG_FATBIN_MAGIC UINT32_C(0xba55ed50)

enum { SG_FATBIN_PTX = 1, SG_FATBIN_ELF = 2 };

struct sg_fatbin_entry {
    unsigned kind; /* SG_FATBIN_PTX, SG_FATBIN_ELF or another */
    uint32_t arch;
    const unsigned char *payload;
    size_t size;       /* of the payload, as stored */
    size_t plain_size; /* unpacked; 0: it is stored as it is */
    size_t packed_size;
    uint64_t flags;
};

/**
 * sg_fatbin_each - the entries of one fat binary; stops when @fn returns false
 * @size: bytes of @fatbin, SIZE_MAX: it says itself where it ends
 *
 * Returns: TB_OK; TB_ERR_FORMAT with the byte.
 */
TB_MUST_CHECK enum tb_status sg_fatbin_each(const void *fatbin, size_t size,
                                            bool (*fn)(void *arg, const struct sg_fatbin_entry *e),
                                            void *arg, struct tb_error *err);

/**
 * sg_fatbin_text - the PTX of an entry of kind SG_FATBIN_PTX, unpacked
 * @text: with a NUL behind it, freed with free(); @len: without the NUL
 *
 * Returns: TB_OK; TB_ERR_FORMAT, TB_ERR_NOMEM.
 */
TB_MUST_CHECK enum tb_status sg_fatbin_text(const struct sg_fatbin_entry *e, char **text,
                                            size_t *len, struct tb_error *err);

/** sg_fatbin_data - any entry, unpacked; @data is freed with free(). Returns: the same */
TB_MUST_CHECK enum tb_status sg_fatbin_data(const struct sg_fatbin_entry *e, void **data, size_t *n,
                                            struct tb_error *err);

#endif
