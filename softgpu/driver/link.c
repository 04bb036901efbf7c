/* cuLink*: several PTX inputs become one image. Nothing is compiled: the texts are kept, and linked
 * when the image is loaded; cuLinkComplete links them once to report what does not fit. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/stream.h"

#include <stdlib.h>
#include <string.h>

struct CUlinkState_st {
    uint32_t magic;
    struct CUctx_st *ctx;
    struct sg_code code;
    struct sg_jit jit; /* points into the program's arrays, as documented */
    void *image;
    size_t size;
};

CUresult sg_cuLinkCreate_v2(unsigned int n, CUjit_option *options, void **values, CUlinkState *out)
{
    struct CUctx_st *ctx;
    struct CUlinkState_st *link;
    struct sg_jit jit;
    CUresult r = sg_current(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if ((r = sg_jit_read(n, options, values, &jit)) != CUDA_SUCCESS)
        return r;
    link = calloc(1, sizeof(*link));
    if (!link || !sg_handle_add(link, SG_MAGIC_LINK)) {
        free(link);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    link->magic = SG_MAGIC_LINK;
    link->ctx = ctx;
    link->jit = jit;
    link->code.max_regs = jit.max_regs;
    *out = link;
    return CUDA_SUCCESS;
}

CUresult sg_cuLinkCreate(unsigned int n, CUjit_option *options, void **values, CUlinkState *out)
{
    return sg_cuLinkCreate_v2(n, options, values, out);
}

static CUresult link_of(CUlinkState link)
{
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS)
        return r;
    return sg_handle_is(link, SG_MAGIC_LINK) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Archives and objects hold device code only as machine code or relocatable fat binaries of the
 * host's linker. The one that programs pass is cudadevrt, for launches from kernels: those have no
 * meaning here, and PTX that needs them is refused by name when it is linked. */
static bool is_archive(const void *data, size_t size)
{
    return size >= 8 && memcmp(data, "!<arch>\n", 8) == 0;
}

static CUresult add(struct CUlinkState_st *link, CUjitInputType type, const void *data, size_t size,
                    const char *name)
{
    struct tb_error err = {0};
    struct sg_ptx_module **mods;
    struct sg_code code;
    CUresult r;

    if (type == CU_JIT_INPUT_LIBRARY && is_archive(data, size)) {
        sg_log(2, "link: '%s' is taken as empty", name);
        return CUDA_SUCCESS;
    }
    if (type == CU_JIT_INPUT_NVVM)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = sg_code_read(data, size, link->ctx->dev->arch, &code, &err);
    if (r == CUDA_SUCCESS) {
        mods = calloc(code.n + 1, sizeof(*mods));
        r = mods ? sg_code_parse(&code, name, link->ctx->dev->arch, mods, &err)
                 : CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; i < code.n && r == CUDA_SUCCESS; i++) {
            sg_ptx_free(mods[i]);
            mods[i] = NULL;
        }
        free(mods);
        for (size_t i = 0; i < code.n && r == CUDA_SUCCESS; i++)
            r = sg_code_add(&link->code, code.texts[i].text, code.texts[i].len);
        sg_code_clear(&code);
    }
    return r == CUDA_SUCCESS ? r : sg_module_refused(r, name, &link->jit, &err);
}

CUresult sg_cuLinkAddData_v2(CUlinkState link, CUjitInputType type, void *data, size_t size,
                             const char *name, unsigned int n, CUjit_option *options, void **values)
{
    struct sg_jit ignored;
    CUresult r = link_of(link);

    if (r != CUDA_SUCCESS)
        return r;
    if (!data || !size || (int)type < 0 || type >= CU_JIT_NUM_INPUT_TYPES || link->image)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_jit_read(n, options, values, &ignored);
    return r != CUDA_SUCCESS ? r : add(link, type, data, size, name && *name ? name : "link input");
}

CUresult sg_cuLinkAddData(CUlinkState link, CUjitInputType type, void *data, size_t size,
                          const char *name, unsigned int n, CUjit_option *options, void **values)
{
    return sg_cuLinkAddData_v2(link, type, data, size, name, n, options, values);
}

CUresult sg_cuLinkAddFile_v2(CUlinkState link, CUjitInputType type, const char *path,
                             unsigned int n, CUjit_option *options, void **values)
{
    CUresult r = link_of(link);
    char *data;
    size_t size;

    if (r != CUDA_SUCCESS)
        return r;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_file_read(path, &data, &size);
    if (r != CUDA_SUCCESS)
        return r;
    r = sg_cuLinkAddData_v2(link, type, data, size, path, n, options, values);
    free(data);
    return r;
}

CUresult sg_cuLinkAddFile(CUlinkState link, CUjitInputType type, const char *path, unsigned int n,
                          CUjit_option *options, void **values)
{
    return sg_cuLinkAddFile_v2(link, type, path, n, options, values);
}

CUresult sg_cuLinkComplete(CUlinkState link, void **image, size_t *size)
{
    struct tb_error err = {0};
    struct CUmod_st *m;
    CUresult r = link_of(link);

    if (r != CUDA_SUCCESS)
        return r;
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    if (!link->image) {
        r = sg_context_check(link->ctx);
        if (r == CUDA_SUCCESS)
            r = sg_module_new(link->ctx, &link->code, "linked image", NULL, &m, &err);
        if (r == CUDA_SUCCESS) {
            sg_module_free(m);
            r = sg_code_pack(&link->code, &link->image, &link->size);
        }
        sg_module_refused(r, "linked image", &link->jit, &err);
        if (r != CUDA_SUCCESS)
            return r;
    }
    *image = link->image;
    if (size)
        *size = link->size;
    return CUDA_SUCCESS;
}

CUresult sg_cuLinkDestroy(CUlinkState link)
{
    CUresult r = link_of(link);

    if (r != CUDA_SUCCESS)
        return r;
    sg_handle_remove(link);
    sg_code_clear(&link->code);
    free(link->image);
    free(link);
    return CUDA_SUCCESS;
}
