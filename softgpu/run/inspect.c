/* Programs are ELF files: which runtime they were linked to, and what device code is in them. */
#include "softgpu/driver/code.h"
#include "softgpu/driver/options.h"
#include "softgpu/run/run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct image {
    const unsigned char *p;
    size_t size;
};

static enum tb_status map_file(const char *path, struct image *out, struct tb_error *err)
{
    enum tb_status st = TB_OK;
    struct stat s;
    void *p;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return tb_fail_sys(err, errno == ENOENT ? TB_ERR_NOTFOUND : TB_ERR_IO, errno,
                           "cannot open '%s'", path);
    *out = (struct image){0};
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0) {
        p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            st = tb_fail_sys(err, TB_ERR_IO, errno, "cannot read '%s'", path);
        else
            *out = (struct image){p, (size_t)s.st_size};
    }
    close(fd);
    return st;
}

static void unmap(struct image *im)
{
    if (im->p)
        munmap((void *)(uintptr_t)im->p, im->size);
}

/* A range of the file, or NULL if it is not wholly in it. */
static const void *at(const struct image *im, uint64_t offset, uint64_t n)
{
    return offset <= im->size && n <= im->size - offset ? im->p + offset : NULL;
}

static bool is_elf(const struct image *im)
{
    return im->size >= sizeof(Elf64_Ehdr) && memcmp(im->p, ELFMAG, SELFMAG) == 0 &&
           im->p[EI_CLASS] == ELFCLASS64 && im->p[EI_DATA] == ELFDATA2LSB;
}

/* Copies of headers: nothing says that they are aligned in the file. */
static bool section(const struct image *im, unsigned i, Elf64_Shdr *out)
{
    Elf64_Ehdr e = {0};
    const void *p;

    memcpy(&e, im->p, sizeof(e));
    if (i >= e.e_shnum || e.e_shentsize < sizeof(*out))
        return false;
    p = at(im, e.e_shoff + (uint64_t)i * e.e_shentsize, sizeof(*out));
    if (p)
        memcpy(out, p, sizeof(*out));
    return p != NULL;
}

/* A string of a string section, "" if there is none. */
static const char *string_in(const struct image *im, const Elf64_Shdr *table, uint64_t offset)
{
    const char *p = offset < table->sh_size ? at(im, table->sh_offset, table->sh_size) : NULL;

    if (!p || !memchr(p + offset, 0, table->sh_size - offset))
        return "";
    return p + offset;
}

static bool section_named(const struct image *im, const char *name, Elf64_Shdr *out)
{
    Elf64_Ehdr e = {0};
    Elf64_Shdr names = {0};

    memcpy(&e, im->p, sizeof(e));
    if (!section(im, e.e_shstrndx, &names))
        return false;
    for (unsigned i = 0; section(im, i, out); i++)
        if (out->sh_type != SHT_NOBITS && strcmp(string_in(im, &names, out->sh_name), name) == 0)
            return true;
    return false;
}

/* The runtime among the needed libraries. */
static void find_cudart(const struct image *im, char *out, size_t size)
{
    Elf64_Shdr dynamic = {0}, strings = {0};
    const unsigned char *p;

    if (!section_named(im, ".dynamic", &dynamic) || !section(im, dynamic.sh_link, &strings))
        return;
    p = at(im, dynamic.sh_offset, dynamic.sh_size);
    for (uint64_t i = 0; p && i + sizeof(Elf64_Dyn) <= dynamic.sh_size; i += sizeof(Elf64_Dyn)) {
        const char *name;
        Elf64_Dyn d;

        memcpy(&d, p + i, sizeof(d));
        if (d.d_tag != DT_NEEDED)
            continue;
        name = string_in(im, &strings, d.d_un.d_val);
        if (strncmp(name, "libcudart.so", 12) == 0)
            snprintf(out, size, "%s", name);
    }
}

/* ---- fat binaries ---- */

/* They lie one behind the other in these sections, aligned to 8 bytes. */
static void each_fatbin(const struct image *im, sg_fatbin_fn *fn, void *arg)
{
    static const char *const sections[] = {".nv_fatbin", "__nv_relfatbin"};

    for (size_t k = 0; k < TB_ARRAY_LEN(sections); k++) {
        const unsigned char *p;
        uint64_t offset = 0, size;
        uint32_t magic;
        Elf64_Shdr s;

        if (!section_named(im, sections[k], &s) || !(p = at(im, s.sh_offset, s.sh_size)))
            continue;
        while (offset + 16 <= s.sh_size) {
            memcpy(&magic, p + offset, sizeof(magic));
            memcpy(&size, p + offset + 8, sizeof(size));
            if (magic != SG_FATBIN_MAGIC) {
                offset += 8;
                continue;
            }
            if (size > s.sh_size - offset - 16)
                break;
            fn(arg, p + offset, (size_t)size + 16, k == 1);
            offset += (size + 16 + 7) & ~UINT64_C(7);
        }
    }
}

enum tb_status sg_program_fatbins(const char *path, sg_fatbin_fn *fn, void *arg,
                                  struct tb_error *err)
{
    struct image im = {0};
    enum tb_status st = map_file(path, &im, err);

    if (st != TB_OK)
        return st;
    if (is_elf(&im))
        each_fatbin(&im, fn, arg);
    unmap(&im);
    return TB_OK;
}

struct count {
    struct sg_program *program;
    unsigned entries;
    bool ptx;
};

static void keep_least(uint32_t *least, uint32_t arch)
{
    if (!*least || arch < *least)
        *least = arch;
}

static bool count_entry(void *arg, const struct sg_fatbin_entry *e)
{
    struct count *c = arg;

    c->entries++;
    if (e->kind == SG_FATBIN_PTX) {
        c->ptx = true;
        keep_least(&c->program->least_ptx, e->arch);
    } else if (e->kind == SG_FATBIN_ELF) {
        keep_least(&c->program->least_machine, e->arch);
    }
    return true;
}

static void count_fatbin(void *arg, const void *fatbin, size_t size, bool relocatable)
{
    struct count c = {.program = arg};

    (void)relocatable;
    if (sg_fatbin_each(fatbin, size, count_entry, &c, NULL) != TB_OK || !c.entries)
        return;
    c.program->fatbins++;
    c.program->fatbins_with_ptx += c.ptx;
}

enum tb_status sg_program_inspect(const char *path, struct sg_program *out, struct tb_error *err)
{
    struct sg_program p = {0};
    struct image im = {0};
    enum tb_status st = map_file(path, &im, err);

    if (st != TB_OK)
        return st;
    p.elf = is_elf(&im);
    if (p.elf) {
        Elf64_Shdr s;

        p.device_code = section_named(&im, ".nvFatBinSegment", &s);
        find_cudart(&im, p.cudart, sizeof(p.cudart));
        each_fatbin(&im, count_fatbin, &p);
    }
    unmap(&im);
    *out = p;
    return TB_OK;
}

enum tb_status sg_program_refuse(const struct sg_program *p, const char *path, const char *libdir,
                                 uint32_t arch, struct tb_error *err)
{
    char lib[SG_RUN_PATH + 80];

    if (p->device_code && !p->cudart[0])
        return tb_fail(err, TB_ERR_UNSUPPORTED,
                       "'%s' has NVIDIA's runtime inside, which refuses any driver but its own: "
                       "link it with 'nvcc -cudart shared' (NVCC_APPEND_FLAGS=\"-cudart shared\" "
                       "does it in a foreign build)",
                       path);
    snprintf(lib, sizeof(lib), "%s/%s", libdir, p->cudart);
    if (p->cudart[0] && access(lib, R_OK) != 0)
        return tb_fail(err, TB_ERR_UNSUPPORTED,
                       "'%s' needs '%s', and there is no such library in '%s': it was built with "
                       "another major version of CUDA than softgpu",
                       path, p->cudart, libdir);
    if (p->fatbins && !p->fatbins_with_ptx) {
        uint32_t for_arch = p->least_machine && p->least_machine < arch ? p->least_machine : arch;

        return tb_fail(err, TB_ERR_UNSUPPORTED,
                       "'%s' is built for sm_%u machine code only; add PTX with -gencode "
                       "arch=compute_%u,code=compute_%u",
                       path, p->least_machine, for_arch, for_arch);
    }
    if (p->fatbins && p->least_ptx > arch) {
        char advice[48] = "";

        if (sg_arch_from(p->least_ptx))
            snprintf(advice, sizeof(advice), "run it with --arch sm_%u, or ",
                     sg_arch_from(p->least_ptx));
        return tb_fail(err, TB_ERR_UNSUPPORTED,
                       "'%s' is built for sm_%u and newer, the device is sm_%u: %sadd PTX with "
                       "-gencode arch=compute_%u,code=compute_%u",
                       path, p->least_ptx, arch, advice, arch, arch);
    }
    return TB_OK;
}
