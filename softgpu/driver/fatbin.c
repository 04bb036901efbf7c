/*
 * Fat binaries: little-endian, a header of 16 bytes
 *     0  u32 magic 0xba55ed50   4  u16 version   6  u16 size of this header   8  u64 size of the
 * rest and entries, each a header and its payload: 0  u16 kind (1 PTX, 2 machine code)      4  u32
 * size of this header (64 or more) 8  u64 size of the payload with padding  16 u32 size of the
 * packed bytes in it 28 u32 architecture (80)                 40 u64 flags   56 u64 size when
 * unpacked Flags 0x2000: packed as an LZ4 block, 0x8000: as a zstd frame; else as it is. The
 * wrapper that programs hand over is in fatbinary_section.h. Learnt from open tools, and checked on
 * the output of nvcc 13.0 in tests/softgpu/driver/test_fatbin.c.
 */
#include "softgpu/driver/code.h"
#include "softgpu/driver/options.h"

#include <lz4.h>
#include <stdio.h>
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

static CUresult broken(struct tb_error *err, const char *what, size_t at)
{
    tb_fail(err, TB_ERR_FORMAT, "fat binary: %s at byte %zu", what, at);
    return CUDA_ERROR_INVALID_IMAGE;
}

CUresult sg_fatbin_each(const void *fatbin, size_t size,
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
    return CUDA_SUCCESS;
}

struct choice {
    uint32_t arch; /* of the device */
    bool found;
    struct sg_fatbin_entry best;
    uint32_t least_ptx, machine[16];
    unsigned nmachine;
};

static bool consider(void *arg, const struct sg_fatbin_entry *e)
{
    struct choice *c = arg;

    if (e->kind == SG_FATBIN_PTX) {
        if (e->arch <= c->arch && (!c->found || e->arch > c->best.arch)) {
            c->best = *e;
            c->found = true;
        }
        if (!c->least_ptx || e->arch < c->least_ptx)
            c->least_ptx = e->arch;
    } else if (e->kind == SG_FATBIN_ELF && c->nmachine < TB_ARRAY_LEN(c->machine)) {
        c->machine[c->nmachine++] = e->arch;
    }
    return true;
}

/* Why nothing fits, and what to type. */
static CUresult nothing_fits(const struct choice *c, struct tb_error *err)
{
    char list[160] = "";
    size_t n = 0;

    if (c->least_ptx) {
        if (sg_arch_from(c->least_ptx))
            snprintf(list, sizeof(list), ", or set SOFTGPU_ARCH=sm_%u", sg_arch_from(c->least_ptx));
        tb_fail(err, TB_ERR_UNSUPPORTED,
                "built for sm_%u and newer, the device is sm_%u: add PTX with -gencode "
                "arch=compute_%u,code=compute_%u%s",
                c->least_ptx, c->arch, c->arch, c->arch, list);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    for (unsigned i = 0; i < c->nmachine && n < sizeof(list); i++)
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%ssm_%u", i ? ", " : "", c->machine[i]);
    if (!c->nmachine) {
        tb_fail(err, TB_ERR_UNSUPPORTED, "holds neither PTX nor machine code");
    } else {
        uint32_t arch = c->machine[0] < c->arch ? c->machine[0] : c->arch;

        tb_fail(err, TB_ERR_UNSUPPORTED,
                "built for %s machine code only; add PTX with -gencode "
                "arch=compute_%u,code=compute_%u",
                list, arch, arch);
    }
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static CUresult unpack(const struct sg_fatbin_entry *e, struct sg_code *out, struct tb_error *err)
{
    size_t packed = e->packed_size ? e->packed_size : e->size, n = 0;
    bool lz4 = e->flags & FLAG_LZ4, ok = true;
    char *text;
    CUresult r;

    if (!lz4 && !(e->flags & FLAG_ZSTD))
        return sg_code_add(out, (const char *)e->payload,
                           strnlen((const char *)e->payload, e->size));
    if (e->plain_size == 0 || e->plain_size > MOST_PTX)
        return broken(err, "PTX of no or too many bytes", 56);
    text = malloc(e->plain_size);
    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (lz4) {
        int got =
            LZ4_decompress_safe((const char *)e->payload, text, (int)packed, (int)e->plain_size);
        ok = got >= 0;
        n = ok ? (size_t)got : 0;
    } else {
        n = ZSTD_decompress(text, e->plain_size, e->payload, packed);
        ok = !ZSTD_isError(n);
    }
    if (ok)
        r = sg_code_add(out, text, strnlen(text, n));
    else
        r = broken(err, lz4 ? "damaged LZ4" : "damaged zstd", 0);
    free(text);
    return r;
}

static CUresult read_one(const void *fatbin, size_t size, uint32_t arch, struct sg_code *out,
                         struct tb_error *err)
{
    struct choice c = {.arch = arch};
    CUresult r = sg_fatbin_each(fatbin, size, consider, &c, err);

    if (r != CUDA_SUCCESS)
        return r;
    return c.found ? unpack(&c.best, out, err) : nothing_fits(&c, err);
}

/* Relocatable code that the driver has to link (crt/link.stub): fat binaries up to a NULL. Those
 * without PTX are left out as long as others have some: the device runtime comes as machine code
 * only, and whoever needs something of it is refused by the name of what is missing. */
static CUresult read_linked(const void *const *list, uint32_t arch, struct sg_code *out,
                            struct tb_error *err)
{
    CUresult r = CUDA_SUCCESS, refused = CUDA_SUCCESS;

    for (; *list && r == CUDA_SUCCESS; list++) {
        r = read_one(*list, SG_CODE_UNKNOWN_SIZE, arch, out, err);
        if (r == CUDA_ERROR_NO_BINARY_FOR_GPU) {
            refused = r;
            r = CUDA_SUCCESS;
        }
    }
    return r == CUDA_SUCCESS && !out->n ? refused : r;
}

CUresult sg_fatbin_read(const void *image, size_t size, uint32_t arch, struct sg_code *out,
                        struct tb_error *err)
{
    struct wrapper { /* __fatBinC_Wrapper_t of fatbinary_section.h */
        int magic, version;
        const void *data;
        void *filename_or_fatbins;
    } w;

    if (size < sizeof(uint32_t) || u32(image) != SG_FATBIN_WRAPPER)
        return read_one(image, size, arch, out, err);
    if (size < sizeof(w))
        return broken(err, "a cut wrapper", 0);
    memcpy(&w, image, sizeof(w));
    if (w.version == 2 && w.filename_or_fatbins)
        return read_linked(w.filename_or_fatbins, arch, out, err);
    if (!w.data)
        return broken(err, "an empty wrapper", 8);
    return read_one(w.data, SG_CODE_UNKNOWN_SIZE, arch, out, err);
}
