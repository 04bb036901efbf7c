/* The device runtime's functions for cooperative grids (cuda_device_runtime_api.h). Programs that
 * use CUDA's own header need none of them: it reads %envreg and counts by itself. Compilers that
 * link libcudadevrt instead, such as numba's, call these by name. They are PTX like the program's,
 * so that whatever the engine does with calls and barriers holds for them too. */
#include "softgpu/exec/exec_internal.h"

/* The handle of a grid is the address of its workspace (run.c), 0 unless all its blocks run at a
 * time; at 8 lie the arrivals so far. Errors: 0 cudaSuccess, 1 cudaErrorInvalidValue. */
#define INVALID_UNLESS_HANDLE                                                                      \
    " ld.param.u64 %h, [handle];\n"                                                                \
    " mov.u32 %e, 1;\n"                                                                            \
    " setp.eq.u64 %p, %h, 0;\n"                                                                    \
    " @%p bra done;\n"
#define SYNCHRONIZE(name)                                                                          \
    ".weak .func (.param .b32 error) " name "(.param .b64 handle, .param .b32 flags)\n"            \
    "{\n .reg .pred %p;\n .reg .b32 %e, %x, %y;\n .reg .b64 %h, %n, %m, "                          \
    "%round;\n" INVALID_UNLESS_HANDLE " barrier.sync 0;\n"                                         \
    " mov.u32 %x, %tid.x;\n mov.u32 %y, %tid.y;\n or.b32 %x, %x, %y;\n"                            \
    " mov.u32 %y, %tid.z;\n or.b32 %x, %x, %y;\n setp.ne.u32 %p, %x, 0;\n"                         \
    " @%p bra together;\n"                                                                         \
    " mov.u32 %x, %nctaid.x;\n mov.u32 %y, %nctaid.y;\n mul.wide.u32 %n, %x, %y;\n"                \
    " mov.u32 %x, %nctaid.z;\n cvt.u64.u32 %m, %x;\n mul.lo.u64 %n, %n, %m;\n"                     \
    " fence.acq_rel.gpu;\n"                                                                        \
    " atom.global.add.acq_rel.gpu.u64 %m, [%h+8], 1;\n"                                            \
    " div.u64 %round, %m, %n;\n add.u64 %round, %round, 1;\n mul.lo.u64 %round, %round, %n;\n"     \
    "again:\n"                                                                                     \
    " ld.global.acquire.gpu.u64 %m, [%h+8];\n setp.lt.u64 %p, %m, %round;\n @%p bra again;\n"      \
    "together:\n"                                                                                  \
    " barrier.sync 0;\n"                                                                           \
    " mov.u32 %e, 0;\n"                                                                            \
    "done:\n"                                                                                      \
    " st.param.b32 [error], %e;\n ret;\n}\n"
/* Both results may go unasked: their pointer is NULL then. */
#define STORE_UNLESS_NULL(pointer, value)                                                          \
    " ld.param.u64 %h, [" pointer "];\n setp.ne.u64 %p, %h, 0;\n @%p st.u32 [%h], " value ";\n"
#define BLOCK_SIZE                                                                                 \
    " mov.u32 %n, %ntid.x;\n mov.u32 %x, %ntid.y;\n mul.lo.u32 %n, %n, %x;\n"                      \
    " mov.u32 %x, %ntid.z;\n mul.lo.u32 %n, %n, %x;\n"

static const char text[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".weak .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)\n"
    "{\n .reg .pred %p;\n .reg .b32 %scope, %lo, %hi;\n .reg .b64 %h;\n"
    " ld.param.u32 %scope, [scope];\n"
    " mov.u32 %hi, %envreg1;\n mov.u32 %lo, %envreg2;\n mov.b64 %h, {%lo, %hi};\n"
    " setp.ne.u32 %p, %scope, 1;\n @%p mov.u64 %h, 0;\n" /* only cudaCGScopeGrid */
    " st.param.b64 [handle], %h;\n ret;\n}\n" SYNCHRONIZE("cudaCGSynchronize") SYNCHRONIZE(
        "cudaCGSynchronizeGrid") ".weak .func (.param .b32 error) cudaCGGetSize(.param "
                                 ".b64 threads, .param .b64 grids,"
                                 " .param .b64 handle)\n"
                                 "{\n .reg .pred %p;\n .reg .b32 %e, %n, %x;\n .reg .b64 "
                                 "%h;\n" INVALID_UNLESS_HANDLE BLOCK_SIZE
                                 " mov.u32 %x, %nctaid.x;\n mul.lo.u32 %n, %n, %x;\n "
                                 "mov.u32 %x, %nctaid.y;\n"
                                 " mul.lo.u32 %n, %n, %x;\n mov.u32 %x, %nctaid.z;\n "
                                 "mul.lo.u32 %n, %n, %x;\n" STORE_UNLESS_NULL(
                                     "threads",
                                     "%"
                                     "n") " mov.u32 %n, 1;\n" STORE_UNLESS_NULL("grids",
                                                                                "%n") " mov.u32 "
                                                                                      "%e, 0;\n"
                                                                                      "done:\n "
                                                                                      "st.param."
                                                                                      "b32 "
                                                                                      "[error], "
                                                                                      "%e;\n "
                                                                                      "ret;\n}\n"
                                                                                      ".weak .func "
                                                                                      "(.param "
                                                                                      ".b32 error) "
                                                                                      "cudaCGGetRan"
                                                                                      "k(.param "
                                                                                      ".b64 "
                                                                                      "thread, "
                                                                                      ".param .b64 "
                                                                                      "grid,"
                                                                                      " .param "
                                                                                      ".b64 "
                                                                                      "handle)\n"
                                                                                      "{\n .reg "
                                                                                      ".pred %p;\n "
                                                                                      ".reg .b32 "
                                                                                      "%e, %n, %x, "
                                                                                      "%y, "
                                                                                      "%rank;\n "
                                                                                      ".reg .b64 "
                                                                                      "%h;"
                                                                                      "\n" INVALID_UNLESS_HANDLE
                                                                                          BLOCK_SIZE
                                                                                      " mov.u32 "
                                                                                      "%rank, "
                                                                                      "%ctaid.z;\n "
                                                                                      "mov.u32 %x, "
                                                                                      "%nctaid.y;"
                                                                                      "\n mov.u32 "
                                                                                      "%y, "
                                                                                      "%ctaid.y;\n"
                                                                                      " mad.lo.u32 "
                                                                                      "%rank, "
                                                                                      "%rank, %x, "
                                                                                      "%y;\n "
                                                                                      "mov.u32 "
                                                                                      "%x, "
                                                                                      "%nctaid.x;"
                                                                                      "\n mov.u32 "
                                                                                      "%y, "
                                                                                      "%ctaid.x;\n"
                                                                                      " mad.lo.u32 "
                                                                                      "%rank, "
                                                                                      "%rank, %x, "
                                                                                      "%y;\n "
                                                                                      "mul.lo.u32 "
                                                                                      "%rank, "
                                                                                      "%rank, %n;\n"
                                                                                      " mov.u32 "
                                                                                      "%n, "
                                                                                      "%tid.z;\n "
                                                                                      "mov.u32 %x, "
                                                                                      "%ntid.y;\n "
                                                                                      "mov.u32 %y, "
                                                                                      "%tid.y;\n"
                                                                                      " mad.lo.u32 "
                                                                                      "%n, %n, %x, "
                                                                                      "%y;\n "
                                                                                      "mov.u32 %x, "
                                                                                      "%ntid.x;\n "
                                                                                      "mov.u32 %y, "
                                                                                      "%tid.x;\n"
                                                                                      " mad.lo.u32 "
                                                                                      "%n, %n, %x, "
                                                                                      "%y;\n "
                                                                                      "add.u32 "
                                                                                      "%rank, "
                                                                                      "%rank, "
                                                                                      "%n;"
                                                                                      "\n" STORE_UNLESS_NULL(
                                                                                          "thread",
                                                                                          "%rank") " mov.u32 %n, "
                                                                                                   "0;\n" STORE_UNLESS_NULL(
                                                                                                       "grid",
                                                                                                       "%n") " mo"
                                                                                                             "v."
                                                                                                             "u32"
                                                                                                             " %"
                                                                                                             "e, "
                                                                                                             "0;"
                                                                                                             "\n"
                                                                                                             "don"
                                                                                                             "e:"
                                                                                                             "\n "
                                                                                                             "st."
                                                                                                             "par"
                                                                                                             "am."
                                                                                                             "b32"
                                                                                                             " ["
                                                                                                             "err"
                                                                                                             "or]"
                                                                                                             ", "
                                                                                                             "%e;"
                                                                                                             "\n "
                                                                                                             "ret"
                                                                                                             ";\n"
                                                                                                             "}"
                                                                                                             "\n";

static bool wants(const struct sg_ptx_module *m)
{
    for (uint32_t i = 0; i < m->nfuncs; i++)
        if (!m->funcs[i]->has_body && strncmp(m->funcs[i]->name, "cudaCG", 6) == 0)
            return true;
    return false;
}

enum tb_status sg_devicelib_add(struct sg_image *image, struct tb_error *err)
{
    size_t k = 0;

    while (k < image->nmods && !wants(image->mods[k]))
        k++;
    if (k == image->nmods)
        return TB_OK;
    enum tb_status st =
        sg_ptx_parse(text, sizeof(text) - 1, "device runtime", &image->mods[image->nmods], err);
    if (st == TB_OK)
        image->nmods++;
    return st;
}
