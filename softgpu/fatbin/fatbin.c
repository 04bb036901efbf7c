/*
 * Fat binaries: little-endian, a header of 16 bytes
 *
 *     0  u32 magic 0xba55ed50   4  u16 version   6  u16 size of this header
 *     8  u64 size of the rest
 *
 * and entries, each a header and its payload:
 *
 *     0  u16 kind (1 PTX, 2 machine code)      4  u32 size of this header (64 or more)
 *     8  u64 size of the payload with padding  16 u32 size of the packed bytes in it
 *     28 u32 architecture (80)                 40 u64 flags
 *     56 u64 size when unpacked
 *
 * Flags 0x2000: packed as an LZ4 block, 0x8000: as a zstd frame; else as it is. Learnt from open
 * tools, and checked on the output of nvcc 13.0 in tests/softgpu/driver/test_fatbin.c.
 */
#include "softgpu/fatbin/fatbin.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { HEADER_BYTES = 16, ENTRY_BYTES = 64 };
enum { FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000 };
#define MOST_PTX ((size_t)1 << 30)

static uint32_t u32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint64_t u64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static enum tb_status broken(struct tb_error *err, const char *what, size_t at)
{
    return tb_fail(err, TB_ERR_FORMAT, "fat binary: %s at byte %zu", what, at);
}

enum tb_status sg_fatbin_each(const void *fatbin, size_t size,
                              bool (*fn)(void *arg, const struct sg_fatbin_entry *e), void *arg,
                              struct tb_error *err)
{
    const unsigned char *p = fatbin;
    size_t at, end;

    if (size < HEADER_BYTES || u32(p) != SG_FATBIN_MAGIC)
        return broken(err, "no header", 0);
    at = u32(p + 4) >> 16;
    if (at < HEADER_BYTES || u64(p + 8) > size - HEADER_BYTES || at > size - u64(p + 8))
        return broken(err, "a size beyond its end", 8);
    end = at + u64(p + 8);
    while (at < end) {
        const unsigned char *e = p + at;
        struct sg_fatbin_entry entry;
        size_t header;

        if (end - at < ENTRY_BYTES)
            return broken(err, "half an entry", at);
        header = u32(e + 4);
        entry = (struct sg_fatbin_entry){.kind = u32(e) & 0xffff,
                                         .arch = u32(e + 28),
                                         .payload = e + header,
                                         .size = u64(e + 8),
                                         .packed_size = u32(e + 16),
                                         .plain_size = u64(e + 56),
                                         .flags = u64(e + 40)};
        if (header < ENTRY_BYTES || header > end - at || entry.size > end - at - header)
            return broken(err, "an entry beyond its end", at);
        if (entry.packed_size > entry.size)
            return broken(err, "packed bytes beyond their entry", at);
        at += header + entry.size;
        if (!fn(arg, &entry))
            break;
    }
    return TB_OK;
}

static bool decompress(const struct sg_fatbin_entry *e, char *text, size_t *n)
{
    size_t packed = e->packed_size ? e->packed_size : e->size;
    int got;

    if (!(e->flags & FLAG_LZ4)) {
        *n = ZSTD_decompress(text, e->plain_size, e->payload, packed);
        return !ZSTD_isError(*n);
    }
    if (packed > LZ4_MAX_INPUT_SIZE)
        return false;
    got = LZ4_decompress_safe((const char *)e->payload, text, (int)packed, (int)e->plain_size);
    *n = got < 0 ? 0 : (size_t)got;
    return got >= 0;
}

enum tb_status sg_fatbin_data(const struct sg_fatbin_entry *e, void **data, size_t *n,
                              struct tb_error *err)
{
    bool packed = e->flags & (FLAG_LZ4 | FLAG_ZSTD);
    size_t bytes = packed ? e->plain_size : e->size;
    char *plain;

    if (packed && (bytes == 0 || bytes > MOST_PTX))
        return broken(err, "PTX of no or too many bytes", 56);
    plain = malloc(bytes + 1);
    if (!plain)
        return tb_fail(err, TB_ERR_NOMEM, "fat binary: no memory for %zu bytes of PTX", bytes);
    if (!packed)
        memcpy(plain, e->payload, bytes);
    else if (!decompress(e, plain, &bytes)) {
        free(plain);
        return broken(err, e->flags & FLAG_LZ4 ? "damaged LZ4" : "damaged zstd", 0);
    }
    plain[bytes] = 0;
    *data = plain;
    *n = bytes;
    return TB_OK;
}

enum tb_status sg_fatbin_text(const struct sg_fatbin_entry *e, char **text, size_t *len,
                              struct tb_error *err)
{
    void *data = NULL;
    size_t n = 0;
    enum tb_status st = sg_fatbin_data(e, &data, &n, err);

    if (!data)
        return st;
    *text = data;
    *len = strnlen(data, n); /* padding may follow */
    return TB_OK;
}
