/* The table of the seam (seam.h). Private tables of NVIDIA's driver: we have none. NVRTC, nvJitLink
 * and others ask for some and go on without; NVIDIA's libraries of kernels need them, and whoever
 * called such a library should be told. */
#include "softgpu/driver/core.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The file of the first caller outside this library; NULL if it is not known. */
static const char *calling_library(void)
{
    void *frames[16];
    int n = backtrace(frames, TB_ARRAY_LEN(frames));
    Dl_info own, caller;

    if (!dladdr((void *)(uintptr_t)calling_library, &own))
        return NULL;
    for (int i = 0; i < n; i++)
        if (dladdr(frames[i], &caller) && caller.dli_fbase != own.dli_fbase && caller.dli_fname)
            return base_name(caller.dli_fname);
    return NULL;
}

static bool needs_them(const char *library)
{
    static const char *const names[] = {"libcublas",   "libcudnn",    "libcufft",    "libcurand",
                                        "libcusparse", "libcusolver", "libcutensor", "libnccl"};

    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++)
        if (strncmp(library, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

CUresult sg_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    static const CUuuid seam = {SOFTGPU_TABLE};
    static atomic_bool told;
    const char *library;

    if (!ppExportTable || !pExportTableId)
        return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(pExportTableId, &seam, sizeof(seam)) == 0) {
        *ppExportTable = softgpu_tools();
        return CUDA_SUCCESS;
    }
    if (sg_driver.opt.log < 1 || atomic_load(&told))
        return CUDA_ERROR_NOT_SUPPORTED;
    library = calling_library();
    if (library && needs_them(library) && !atomic_exchange(&told, true))
        sg_log(1,
               "'%s' cannot run: it needs private parts of NVIDIA's driver; if PyTorch called it, "
               "torch.compile replaces it (max_autotune_gemm_backends=\"TRITON\"), or 'softgpu run "
               "--eager' (twinbit.eager) runs such operators on the CPU",
               library);
    return CUDA_ERROR_NOT_SUPPORTED;
}
