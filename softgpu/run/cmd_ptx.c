#include "cli/cli.h"
#include "softgpu/driver/code.h"
#include "softgpu/exec/exec.h"
#include "softgpu/run/run.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ptx_options {
    const char *arch;
    bool quiet;
};

#define AT(member) offsetof(struct ptx_options, member)

static const struct tb_cli_option options[] = {
    {"--arch", NULL, TB_CLI_STRING, AT(arch), "ARCH", "of the device (sm_80)"},
    {"--quiet", NULL, TB_CLI_FLAG, AT(quiet), NULL, "only what is refused"},
};

static const struct tb_cli_command command = {
    .program = "softgpu",
    .name = "ptx",
    .synopsis = "[options] FILE...",
    .about = "Says whether softgpu can load a file: PTX text, a fat binary, or a program or "
             "library with\n"
             "device code in it. Lists its kernels, or the instruction that is refused.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes = "exit status: 0 all of it loads, 1 some is refused, 2 error, 3 there is no device "
             "code\n",
};

struct check {
    const char *path;
    uint32_t arch;
    bool quiet;
    struct sg_mem *mem;
    unsigned loaded, refused, part;
    struct sg_code linked; /* of the relocatable parts of a program */
    bool relocatable;
};

static enum tb_status alloc_var(void *arg, size_t size, size_t align, bool managed, uint64_t *addr,
                                struct tb_error *err)
{
    struct check *c = arg;
    enum tb_status st;

    (void)managed;
    if (align < SG_MEM_GRANULE)
        align = SG_MEM_GRANULE;
    size = (size + SG_MEM_GRANULE - 1) & ~(size_t)(SG_MEM_GRANULE - 1);
    st = sg_mem_reserve(c->mem, size ? size : SG_MEM_GRANULE, align, 0, addr, err);
    if (st == TB_OK && size)
        st = sg_mem_commit(c->mem, *addr, size, err);
    return st;
}

static void free_var(void *arg, uint64_t addr)
{
    struct check *c = arg;

    sg_mem_release(c->mem, addr);
}

static void list_kernels(const struct sg_image *image)
{
    for (size_t i = 0; i < sg_image_kernel_count(image); i++) {
        const struct sg_kernel_info *k = sg_kernel_info(sg_image_kernel_at(image, i));

        printf("  %s: %u parameters in %u bytes, %u bytes shared, %u bytes local\n", k->name,
               k->nparams, k->param_bytes, k->static_shared, k->local_bytes);
    }
}

/* One piece of device code that is loaded as a whole, if it could be read. */
static void check_part(struct check *c, const struct sg_code *code, CUresult r,
                       struct tb_error *err)
{
    struct sg_image_env env = {
        .mem = c->mem, .arch = c->arch, .alloc_var = alloc_var, .free_var = free_var, .arg = c};
    struct sg_ptx_module **mods = NULL;
    struct sg_image *image = NULL;

    c->part++;
    if (r == CUDA_SUCCESS) {
        mods = calloc(code->n + 1, sizeof(*mods));
        r = mods ? sg_code_parse(code, c->path, c->arch, mods, err) : CUDA_ERROR_OUT_OF_MEMORY;
        if (r == CUDA_SUCCESS)
            r = sg_code_result(sg_image_new(mods, code->n, c->path, &env, &image, err));
        free(mods);
    }
    if (r != CUDA_SUCCESS) {
        c->refused++;
        printf("%s: part %u is refused: %s\n", c->path, c->part,
               err->text[0] ? err->text : "no memory");
        return;
    }
    c->loaded++;
    if (!c->quiet) {
        printf("%s: part %u loads\n", c->path, c->part);
        list_kernels(image);
    }
    sg_image_free(image);
}

static void check_fatbin(void *arg, const void *fatbin, size_t size, bool relocatable)
{
    struct check *c = arg;
    struct tb_error err = {0};
    struct sg_code code;
    CUresult r;

    if (size <= 16) /* the linker leaves an empty one for relocatable code */
        return;
    r = sg_code_read(fatbin, size, c->arch, &code, &err);
    if (!relocatable) {
        check_part(c, &code, r, &err);
    } else {
        c->relocatable = true;
        for (size_t i = 0; i < code.n && r == CUDA_SUCCESS; i++)
            r = sg_code_add(&c->linked, code.texts[i].text, code.texts[i].len);
    }
    sg_code_clear(&code);
}

/* What the driver would link at the program's start; parts without PTX are left out there too. */
static void check_linked(struct check *c)
{
    struct tb_error err = {0};

    if (c->relocatable && !c->linked.n)
        tb_fail(&err, TB_ERR_UNSUPPORTED, "relocatable machine code only: add PTX with -gencode");
    if (c->relocatable)
        check_part(c, &c->linked, err.status ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS, &err);
    sg_code_clear(&c->linked);
    c->relocatable = false;
}

static enum tb_status check_file(struct check *c, struct tb_error *err)
{
    char *data = NULL;
    enum tb_status st = TB_OK;
    size_t n = 0;

    if (sg_file_read(c->path, &data, &n) != CUDA_SUCCESS)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot read '%s'", c->path);
    if (n >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0)
        st = sg_program_fatbins(c->path, check_fatbin, c, err);
    else
        check_fatbin(c, data, n, false);
    check_linked(c);
    free(data);
    return st;
}

int sg_cmd_ptx(int argc, char **argv)
{
    struct ptx_options opt = {.arch = "sm_80"};
    struct check c = {0};
    struct tb_error err = {0};
    struct tb_cli_rest rest;
    int status;

    if (!tb_cli_parse(&command, argc, argv, &opt, &rest, &status))
        return status;
    if (rest.count == 0)
        return tb_cli_usage(&command, "which file?");
    c.arch = (uint32_t)atoi(opt.arch + strspn(opt.arch, "sm_"));
    c.quiet = opt.quiet;
    if (c.arch < 50 || c.arch > 130)
        return tb_cli_usage(&command, "'%s' is no architecture such as sm_80", opt.arch);
    if (sg_mem_new(&c.mem, &err) != TB_OK)
        return tb_cli_error(command.name, &err);
    status = TB_EXIT_OK;
    for (int i = 0; i < rest.count && status != TB_EXIT_ERROR; i++) {
        c.path = rest.item[i];
        c.part = 0;
        if (check_file(&c, &err) != TB_OK)
            status = tb_cli_error(command.name, &err);
        else if (!c.part)
            printf("%s: no device code\n", c.path);
    }
    sg_mem_free(c.mem);
    if (status == TB_EXIT_OK)
        status = c.refused ? TB_EXIT_DIFFERS : c.loaded ? TB_EXIT_OK : TB_EXIT_UNKNOWN;
    return tb_cli_flush(status);
}
