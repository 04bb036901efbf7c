#include "softgpu/driver/code.h"

#include <assert.h>
#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* .version that is taken. Newer than what sg_ptx_parse() was written for (9.0): versions add, and
 * an instruction or modifier that is not known is refused with its line. */
#define NEWEST_PTX 99

/* What cuLinkComplete returns: an ELF file, as drivers give out, without sections; behind its head
 * u64 number of texts, u64 most registers of a thread (0: any), and each text as u64 length, text,
 * NUL; host byte order, for this process only. The mark is in the padding of e_ident, as the size
 * of an image may be unknown; no byte of it is 0, so that a comparison stops where a shorter text
 * ends. */
static const char packed_ident[] = "\177ELF\2\1\1\x33\7softgpu";
static_assert(sizeof(packed_ident) - 1 == EI_NIDENT, "e_ident as a whole");
#define PACKED_AT sizeof(Elf64_Ehdr)
#define MACHINE_CUDA 190 /* e_machine of a cubin */

CUresult sg_code_add(struct sg_code *code, const char *text, size_t len)
{
    struct sg_code_text *texts = realloc(code->texts, (code->n + 1) * sizeof(*texts));
    char *copy;

    if (!texts)
        return CUDA_ERROR_OUT_OF_MEMORY;
    code->texts = texts;
    copy = malloc(len + 1);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, text, len);
    copy[len] = 0;
    code->texts[code->n].text = copy;
    code->texts[code->n].len = len;
    code->n++;
    return CUDA_SUCCESS;
}

void sg_code_clear(struct sg_code *code)
{
    for (size_t i = 0; i < code->n; i++)
        free(code->texts[i].text);
    free(code->texts);
    *code = (struct sg_code){0};
}

/* Who reads a cubin without knowing its size looks where its section headers end. */
static void put_elf_head(char *to, size_t size)
{
    Elf64_Ehdr h = {.e_type = ET_EXEC,
                    .e_machine = MACHINE_CUDA,
                    .e_version = EV_CURRENT,
                    .e_shoff = size,
                    .e_ehsize = sizeof(h)};

    memcpy(h.e_ident, packed_ident, EI_NIDENT);
    memcpy(to, &h, sizeof(h));
}

static bool is_packed(const char *p, size_t size)
{
    return size >= PACKED_AT && strncmp(p, packed_ident, EI_NIDENT) == 0;
}

CUresult sg_code_pack(const struct sg_code *code, void **image, size_t *size)
{
    uint64_t head[2] = {code->n, code->max_regs};
    size_t n = PACKED_AT + sizeof(head);
    char *p;

    for (size_t i = 0; i < code->n; i++)
        n += sizeof(uint64_t) + code->texts[i].len + 1;
    *image = p = malloc(n);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *size = n;
    put_elf_head(p, n);
    p += PACKED_AT;
    memcpy(p, head, sizeof(head));
    p += sizeof(head);
    for (size_t i = 0; i < code->n; i++) {
        uint64_t len = code->texts[i].len;

        memcpy(p, &len, sizeof(len));
        memcpy(p + sizeof(len), code->texts[i].text, len + 1);
        p += sizeof(len) + len + 1;
    }
    return CUDA_SUCCESS;
}

static CUresult unpack(const char *p, size_t size, struct sg_code *out, struct tb_error *err)
{
    size_t at = PACKED_AT;
    CUresult r = CUDA_SUCCESS;
    uint64_t head[2], len;

    if (size - at < sizeof(head))
        goto cut;
    memcpy(head, p + at, sizeof(head));
    at += sizeof(head);
    out->max_regs = (uint32_t)head[1];
    for (uint64_t i = 0; i < head[0] && r == CUDA_SUCCESS; i++) {
        if (size - at < sizeof(len))
            goto cut;
        memcpy(&len, p + at, sizeof(len));
        at += sizeof(len);
        if (size - at <= len)
            goto cut;
        r = sg_code_add(out, p + at, len);
        at += len + 1;
    }
    return r;
cut:
    tb_fail(err, TB_ERR_FORMAT, "a linked image that ends early");
    return CUDA_ERROR_INVALID_IMAGE;
}

/* Whether this can be PTX: blanks and comments, then a directive. Stops at a NUL. */
static bool looks_like_ptx(const char *p, size_t size)
{
    size_t i = 0;

    while (i < size) {
        if (isspace((unsigned char)p[i])) {
            i++;
        } else if (i + 1 < size && p[i] == '/' && p[i + 1] == '/') {
            while (i < size && p[i] && p[i] != '\n')
                i++;
        } else if (i + 1 < size && p[i] == '/' && p[i + 1] == '*') {
            for (i += 2; i + 1 < size && p[i] && !(p[i] == '*' && p[i + 1] == '/');)
                i++;
            if (i + 1 >= size || !p[i])
                return false;
            i += 2;
        } else {
            return p[i] == '.';
        }
    }
    return false;
}

CUresult sg_code_read(const void *image, size_t size, uint32_t arch, struct sg_code *out,
                      struct tb_error *err)
{
    const char *p = image;
    CUresult r;
    uint32_t magic;

    *out = (struct sg_code){0};
    if (size < sizeof(magic)) {
        tb_fail(err, TB_ERR_FORMAT, "an image of %zu bytes", size);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    /* a text may end before four bytes are there */
    magic = p[0] && p[1] && p[2] ? 1 : 0;
    if (magic)
        memcpy(&magic, p, sizeof(magic));
    if (magic == SG_FATBIN_WRAPPER || magic == SG_FATBIN_MAGIC) {
        r = sg_fatbin_read(image, size, arch, out, err);
    } else if (magic && is_packed(p, size)) {
        r = unpack(p, size, out, err);
    } else if (magic && memcmp(p, ELFMAG, SELFMAG) == 0 && size < sizeof(Elf64_Ehdr)) {
        tb_fail(err, TB_ERR_FORMAT, "an ELF file of %zu bytes", size);
        r = CUDA_ERROR_INVALID_IMAGE;
    } else if (magic && memcmp(p, ELFMAG, SELFMAG) == 0) {
        tb_fail(
            err, TB_ERR_UNSUPPORTED,
            "machine code (a cubin), which cannot be executed: hand over PTX, or a fat binary "
            "with PTX (nvcc -gencode arch=compute_%u,code=compute_%u); if Triton or torch.compile "
            "made it, TRITON_PTXAS_PATH does not name softgpu-ptxas (`softgpu run` sets it), or "
            "the file was left in TRITON_CACHE_DIR by a run on a real GPU",
            arch, arch);
        r = CUDA_ERROR_NO_BINARY_FOR_GPU;
    } else if (looks_like_ptx(p, size)) {
        r = sg_code_add(out, p, size == SG_CODE_UNKNOWN_SIZE ? strlen(p) : strnlen(p, size));
    } else {
        tb_fail(err, TB_ERR_FORMAT, "neither PTX nor a fat binary");
        r = CUDA_ERROR_INVALID_IMAGE;
    }
    if (r != CUDA_SUCCESS)
        sg_code_clear(out);
    return r;
}

CUresult sg_code_result(enum tb_status status)
{
    switch (status) {
    case TB_OK:
        return CUDA_SUCCESS;
    case TB_ERR_NOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return CUDA_ERROR_INVALID_PTX;
    }
}

/* Code of one architecture's own features runs nowhere else; newer code does not run on older
 * devices. */
static CUresult check_target(const struct sg_ptx_module *m, uint32_t arch, struct tb_error *err)
{
    if (m->version > NEWEST_PTX) {
        tb_fail(err, TB_ERR_VERSION, "PTX .version %u.%u is newer than this driver knows",
                m->version / 10, m->version % 10);
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    if (m->arch <= arch && (m->arch == arch || m->arch_suffix != 'a'))
        return CUDA_SUCCESS;
    tb_fail(err, TB_ERR_UNSUPPORTED, "PTX for sm_%u%.1s does not run on the device, which is sm_%u",
            m->arch, m->arch_suffix ? &m->arch_suffix : "", arch);
    return CUDA_ERROR_INVALID_PTX;
}

CUresult sg_code_parse(const struct sg_code *code, const char *name, uint32_t arch,
                       struct sg_ptx_module **mods, struct tb_error *err)
{
    CUresult r = CUDA_SUCCESS;
    size_t i;

    for (i = 0; i < code->n && r == CUDA_SUCCESS; i++) {
        const struct sg_code_text *t = &code->texts[i];

        mods[i] = NULL;
        r = sg_code_result(sg_ptx_parse(t->text, t->len, name, &mods[i], err));
        if (r == CUDA_SUCCESS)
            r = check_target(mods[i], arch, err);
    }
    while (r != CUDA_SUCCESS && i > 0)
        sg_ptx_free(mods[--i]);
    return r;
}

CUresult sg_file_read(const char *path, char **data, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *p = NULL, *more;
    size_t n = 0, cap = 0;
    bool failed;

    if (!f)
        return errno == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_FILE_NOT_FOUND;
    do { /* pipes have no size */
        if (n + 1 >= cap) {
            cap = cap ? 2 * cap : 1 << 16;
            more = realloc(p, cap);
            if (!more) {
                free(p);
                fclose(f);
                return CUDA_ERROR_OUT_OF_MEMORY;
            }
            p = more;
        }
        n += fread(p + n, 1, cap - 1 - n, f);
    } while (!feof(f) && !ferror(f));
    failed = ferror(f);
    fclose(f);
    if (failed) { /* a directory, for one: errno says so */
        free(p);
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    p[n] = 0;
    *data = p;
    *size = n;
    return CUDA_SUCCESS;
}
