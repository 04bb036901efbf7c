/*
 * Machine code, an ELF file: has it variables? They are symbols of sections for them: .nv.global
 * and .nv.global.init (__device__), .nv.constant3 (__constant__). Where there are no symbols the
 * sections alone count.
 */
#include "kernelinfo/kernelinfo_internal.h"

#include <elf.h>
#include <string.h>

struct file {
    const char *data;
    size_t n;
    Elf64_Ehdr head;
};

static bool section(const struct file *f, uint32_t i, Elf64_Shdr *out)
{
    uint64_t at = f->head.e_shoff + (uint64_t)i * sizeof(*out);

    if (i >= f->head.e_shnum || f->head.e_shoff > f->n || at > f->n || f->n - at < sizeof(*out))
        return false;
    memcpy(out, f->data + at, sizeof(*out));
    return out->sh_type == SHT_NOBITS ||
           (out->sh_offset <= f->n && out->sh_size <= f->n - out->sh_offset);
}

static bool open_file(struct file *f, const void *elf, size_t n)
{
    *f = (struct file){.data = elf, .n = n};
    if (n < sizeof(f->head))
        return false;
    memcpy(&f->head, elf, sizeof(f->head));
    return memcmp(f->head.e_ident, ELFMAG, SELFMAG) == 0 &&
           f->head.e_ident[EI_CLASS] == ELFCLASS64 && f->head.e_shentsize == sizeof(Elf64_Shdr);
}

/* Does the text at @offset of section @strings begin with @start, whole up to its end or a dot? */
static bool begins(const struct file *f, const Elf64_Shdr *strings, uint32_t offset,
                   const char *start)
{
    size_t n = strlen(start);
    const char *text = f->data + strings->sh_offset + offset;

    return offset < strings->sh_size && strings->sh_size - offset > n &&
           memcmp(text, start, n) == 0 && (text[n] == 0 || text[n] == '.');
}

/* Is section @i one of variables? */
static bool is_for_variables(const struct file *f, const Elf64_Shdr *names, uint32_t i)
{
    Elf64_Shdr s;

    return section(f, i, &s) && s.sh_size && names->sh_type == SHT_STRTAB &&
           (begins(f, names, s.sh_name, ".nv.global") ||
            begins(f, names, s.sh_name, ".nv.constant3"));
}

/* What compilers make for themselves has such names: see ki_is_internal(). */
static bool is_internal(const struct file *f, const Elf64_Shdr *strings, uint32_t offset)
{
    struct sg_ptx_var v = {.space = SG_SPACE_CONST, .linkage = SG_LINK_STATIC};

    if (strings->sh_type != SHT_STRTAB || offset >= strings->sh_size)
        return false;
    v.name = f->data + strings->sh_offset + offset;
    return memchr(v.name, 0, strings->sh_size - offset) && ki_is_internal(&v);
}

static uint32_t of_symbols(const struct file *f, const Elf64_Shdr *names, const Elf64_Shdr *table)
{
    Elf64_Shdr strings;
    Elf64_Sym sym;
    uint32_t n = 0;

    if (!section(f, table->sh_link, &strings))
        return 1;
    for (uint64_t at = 0; at + sizeof(sym) <= table->sh_size; at += sizeof(sym)) {
        memcpy(&sym, f->data + table->sh_offset + at, sizeof(sym));
        n += ELF64_ST_TYPE(sym.st_info) == STT_OBJECT && is_for_variables(f, names, sym.st_shndx) &&
             !(ELF64_ST_BIND(sym.st_info) == STB_LOCAL && is_internal(f, &strings, sym.st_name));
    }
    return n;
}

uint32_t ki_machine_variables(const void *elf, size_t n)
{
    bool symbols = false;
    uint32_t found = 0, sections = 0;
    struct file f;
    Elf64_Shdr names, s;

    if (!open_file(&f, elf, n) || !section(&f, f.head.e_shstrndx, &names))
        return 1;
    for (uint32_t i = 1; i < f.head.e_shnum; i++) {
        if (!section(&f, i, &s))
            return 1;
        sections += is_for_variables(&f, &names, i);
        if (s.sh_type != SHT_SYMTAB)
            continue;
        symbols = true;
        found += of_symbols(&f, &names, &s);
    }
    return symbols ? found : sections;
}
