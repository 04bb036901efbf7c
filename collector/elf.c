/* Two facts of a shared library, read from the file: its build-id and which std::string it uses. */
#include "collector/collector_internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    const uint8_t *data;
    size_t n;
};

/* [at, at + len) of the file, or NULL */
static const void *span(const struct file *f, uint64_t at, uint64_t len)
{
    return at <= f->n && len <= f->n - at ? f->data + at : NULL;
}

static const Elf64_Phdr *headers(const struct file *f, uint16_t *count)
{
    const Elf64_Ehdr *e = span(f, 0, sizeof(*e));

    if (!e || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 || e->e_ident[EI_CLASS] != ELFCLASS64 ||
        e->e_phentsize != sizeof(Elf64_Phdr))
        return NULL;
    *count = e->e_phnum;
    return span(f, e->e_phoff, (uint64_t)e->e_phnum * sizeof(Elf64_Phdr));
}

static void read_note(const struct file *f, const Elf64_Phdr *p, struct tb_elf_facts *out)
{
    uint64_t at = p->p_offset, end = p->p_offset + p->p_filesz;

    while (at + sizeof(Elf64_Nhdr) <= end) {
        const Elf64_Nhdr *n = span(f, at, sizeof(*n));
        if (!n)
            return;
        uint64_t name = at + sizeof(*n), desc = name + ((n->n_namesz + 3u) & ~3u);
        const uint8_t *id = span(f, desc, n->n_descsz);
        const char *owner = span(f, name, n->n_namesz);
        if (id && owner && n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 &&
            memcmp(owner, "GNU", 4) == 0) {
            for (uint32_t i = 0; i < n->n_descsz && i < 32; i++)
                (void)snprintf(out->build_id + 2 * i, 3, "%02x", id[i]);
            return;
        }
        at = desc + ((n->n_descsz + 3u) & ~3u);
    }
}

static uint64_t file_offset(const Elf64_Phdr *p, uint16_t count, uint64_t address)
{
    for (uint16_t i = 0; i < count; i++)
        if (p[i].p_type == PT_LOAD && address >= p[i].p_vaddr &&
            address - p[i].p_vaddr < p[i].p_filesz)
            return address - p[i].p_vaddr + p[i].p_offset;
    return UINT64_MAX;
}

/*
 * Wheels of torch built for the old std::string have __cxx11 names as well: the toolset's own
 * library, linked into them, brings them. What c10::Device::str() is called tells the two apart.
 */
static bool new_strings(const char *text, size_t size)
{
    static const char old[] = "_ZNK3c106Device3strEv";

    return memmem(text, size, "__cxx11", 7) && !memmem(text, size, old, sizeof(old));
}

static void read_strings(const struct file *f, const Elf64_Phdr *p, uint16_t count,
                         const Elf64_Phdr *dynamic, struct tb_elf_facts *out)
{
    uint64_t table = 0, size = 0;
    const Elf64_Dyn *d = span(f, dynamic->p_offset, dynamic->p_filesz);

    for (uint64_t i = 0; d && i < dynamic->p_filesz / sizeof(*d); i++) {
        if (d[i].d_tag == DT_STRTAB)
            table = d[i].d_un.d_ptr;
        else if (d[i].d_tag == DT_STRSZ)
            size = d[i].d_un.d_val;
    }
    const char *text = span(f, file_offset(p, count, table), size);
    out->cxx11_abi = text && new_strings(text, size);
}

enum tb_status tb_elf_read(const char *path, struct tb_elf_facts *out, struct tb_error *err)
{
    enum tb_status result = TB_OK;
    struct file f = {NULL, 0};
    struct tb_elf_facts facts = {0};
    uint16_t count = 0;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0) {
        result = tb_fail_sys(err, TB_ERR_IO, errno, "cannot open '%s'", path);
        goto out;
    }
    f.n = (size_t)st.st_size;
    f.data = f.n ? mmap(NULL, f.n, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    const Elf64_Phdr *p = f.data == MAP_FAILED ? NULL : headers(&f, &count);
    if (!p) {
        result = tb_fail(err, TB_ERR_FORMAT, "'%s' is not a 64-bit ELF file", path);
        goto out;
    }
    for (uint16_t i = 0; i < count; i++) {
        if (p[i].p_type == PT_NOTE && !facts.build_id[0])
            read_note(&f, &p[i], &facts);
        else if (p[i].p_type == PT_DYNAMIC)
            read_strings(&f, p, count, &p[i], &facts);
    }
    *out = facts;
out:
    if (f.data && f.data != MAP_FAILED)
        (void)munmap((void *)(uintptr_t)f.data, f.n);
    if (fd >= 0)
        (void)close(fd);
    return result;
}
