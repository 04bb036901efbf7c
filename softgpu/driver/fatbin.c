/*
 * Which PTX of a fat binary the device takes. The format stands in softgpu/fatbin/fatbin.c; the
 * wrapper that programs hand over in fatbinary_section.h.
 */
#include "softgpu/driver/code.h"
#include "softgpu/driver/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUresult result_of(enum tb_status st)
{
    return st == TB_OK          ? CUDA_SUCCESS
           : st == TB_ERR_NOMEM ? CUDA_ERROR_OUT_OF_MEMORY
                                : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult broken(struct tb_error *err, const char *what, size_t at)
{
    return result_of(tb_fail(err, TB_ERR_FORMAT, "fat binary: %s at byte %zu", what, at));
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
    char *text = NULL;
    size_t len = 0;
    CUresult r = result_of(sg_fatbin_text(e, &text, &len, err));

    if (r == CUDA_SUCCESS)
        r = sg_code_add(out, text, len);
    free(text);
    return r;
}

static CUresult read_one(const void *fatbin, size_t size, uint32_t arch, struct sg_code *out,
                         struct tb_error *err)
{
    struct choice c = {.arch = arch};
    CUresult r = result_of(sg_fatbin_each(fatbin, size, consider, &c, err));

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
    uint32_t magic = 0;

    if (size >= sizeof(magic))
        memcpy(&magic, image, sizeof(magic));
    if (magic != SG_FATBIN_WRAPPER)
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
