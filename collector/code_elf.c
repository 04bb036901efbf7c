/* Tables of a program file: where its code is, where functions begin, what they are called. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/code.h"

#define TABLE_MOST (256u << 20) /* bytes of a table: more is taken for damage */

size_t tb_code_read(const struct tb_code_elf *e, uint64_t offset, void *out, size_t n)
{
    size_t used = 0;

    while (used < n && offset + used <= INT64_MAX) {
        ssize_t got = pread(e->fd, (char *)out + used, n - used, (off_t)(offset + used));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    return used;
}

static bool offset_of(const struct tb_code_elf *e, uint64_t address, uint64_t *out)
{
    for (unsigned i = 0; i < e->loads; i++)
        if (address >= e->load[i].address && address - e->load[i].address < e->load[i].size) {
            *out = address - e->load[i].address + e->load[i].offset;
            return true;
        }
    return false;
}

/* ---------------------------------------------------------------- headers */

static void *read_table(const struct tb_code_elf *e, uint64_t offset, uint64_t n)
{
    void *p = n && n <= TABLE_MOST ? malloc(n) : NULL;

    if (p && tb_code_read(e, offset, p, n) == n)
        return p;
    free(p);
    return NULL;
}

static void add_code(struct tb_code_elf *e, uint64_t address, uint64_t offset, uint64_t size)
{
    if (size && e->codes < TB_ARRAY_LEN(e->code))
        e->code[e->codes++] = (struct tb_code_range){address, offset, size};
}

static void take_symbols(struct tb_code_elf *e, const Elf64_Shdr *all, uint16_t count,
                         const Elf64_Shdr *s)
{
    if (s->sh_link >= count || e->tables == TB_ARRAY_LEN(e->symbols))
        return;
    e->symbols[e->tables++] = (struct tb_code_symbols){
        s->sh_offset, s->sh_size, all[s->sh_link].sh_offset, all[s->sh_link].sh_size};
}

/* Sections say more exactly than segments where code is. A file may have none. */
static void read_sections(struct tb_code_elf *e, const Elf64_Ehdr *h)
{
    Elf64_Shdr *s = h->e_shentsize == sizeof(*s)
                        ? read_table(e, h->e_shoff, (uint64_t)h->e_shnum * sizeof(*s))
                        : NULL;

    for (uint16_t i = 0; s && i < h->e_shnum; i++) {
        if (s[i].sh_type == SHT_PROGBITS && (s[i].sh_flags & SHF_EXECINSTR))
            add_code(e, s[i].sh_addr, s[i].sh_offset, s[i].sh_size);
        if (s[i].sh_type == SHT_SYMTAB || s[i].sh_type == SHT_DYNSYM)
            take_symbols(e, s, h->e_shnum, &s[i]);
    }
    free(s);
}

/* Only the form that linkers write: a sorted table of 32-bit offsets from its own address */
static void read_functions(struct tb_code_elf *e, const Elf64_Phdr *p)
{
    struct {
        uint8_t version, frame, count_form, table_form;
        int32_t where;
        uint32_t count;
    } head;

    if (tb_code_read(e, p->p_offset, &head, sizeof(head)) != sizeof(head) || head.version != 1 ||
        (head.frame & 0x0F) != 0x0B || head.count_form != 0x03 || head.table_form != 0x3B)
        return;
    e->function = read_table(e, p->p_offset + sizeof(head), (uint64_t)head.count * 8);
    e->functions = e->function ? head.count : 0;
    e->base = p->p_vaddr;
}

static bool read_segments(struct tb_code_elf *e, const Elf64_Ehdr *h)
{
    Elf64_Phdr *p = h->e_phentsize == sizeof(*p)
                        ? read_table(e, h->e_phoff, (uint64_t)h->e_phnum * sizeof(*p))
                        : NULL;
    bool sections = e->codes > 0;

    for (uint16_t i = 0; p && i < h->e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && e->loads < TB_ARRAY_LEN(e->load))
            e->load[e->loads++] =
                (struct tb_code_range){p[i].p_vaddr, p[i].p_offset, p[i].p_filesz};
        if (p[i].p_type == PT_LOAD && (p[i].p_flags & PF_X) && !sections)
            add_code(e, p[i].p_vaddr, p[i].p_offset, p[i].p_filesz);
        if (p[i].p_type == PT_GNU_EH_FRAME && !e->function)
            read_functions(e, &p[i]);
    }
    free(p);
    return e->loads > 0;
}

enum tb_status tb_code_open(const char *path, struct tb_code_elf *out, struct tb_error *err)
{
    struct stat st;
    Elf64_Ehdr h;

    *out = (struct tb_code_elf){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
    if (out->fd < 0 || fstat(out->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        enum tb_status status = tb_fail_sys(err, TB_ERR_IO, errno, "cannot open '%s'", path);
        tb_code_close(out);
        return status;
    }
    if (tb_code_read(out, 0, &h, sizeof(h)) == sizeof(h) &&
        memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 && h.e_ident[EI_CLASS] == ELFCLASS64 &&
        h.e_ident[EI_DATA] == ELFDATA2LSB) {
        out->machine = h.e_machine;
        read_sections(out, &h);
        if (read_segments(out, &h))
            return TB_OK;
    }
    tb_code_close(out);
    return tb_fail(err, TB_ERR_FORMAT, "'%s' is not a 64-bit ELF program or library", path);
}

void tb_code_close(struct tb_code_elf *e)
{
    if (e->fd >= 0)
        (void)close(e->fd);
    e->fd = -1;
    free(e->function);
    e->function = NULL;
}

/* ---------------------------------------------------------------- functions */

/* Its length as its entry has it; UINT64_MAX where that has another form than linkers write */
static uint64_t length_of(const struct tb_code_elf *e, uint64_t begin, uint64_t entry)
{
    struct {
        uint32_t size, info;
        int32_t begin;
        uint32_t length;
    } f;
    uint64_t offset;

    if (!offset_of(e, entry, &offset) || tb_code_read(e, offset, &f, sizeof(f)) != sizeof(f) ||
        entry + 8 + (uint64_t)(int64_t)f.begin != begin)
        return UINT64_MAX;
    return f.length;
}

bool tb_code_function(const struct tb_code_elf *e, uint64_t address, uint64_t *begin, uint64_t *end)
{
    uint32_t low = 0, high = e->functions;

    while (low < high) { /* the first that begins behind it */
        uint32_t mid = low + (high - low) / 2;
        if (e->base + (uint64_t)(int64_t)e->function[mid][0] <= address)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return false;
    *begin = e->base + (uint64_t)(int64_t)e->function[low - 1][0];
    uint64_t entry = e->base + (uint64_t)(int64_t)e->function[low - 1][1];
    uint64_t length = length_of(e, *begin, entry);
    *end = length < UINT64_MAX - *begin ? *begin + length
           : low < e->functions         ? e->base + (uint64_t)(int64_t)e->function[low][0]
                                        : UINT64_MAX;
    return address < *end;
}

void tb_code_each_symbol(const struct tb_code_elf *e,
                         void (*fn)(void *arg, uint64_t address, uint64_t size, unsigned table,
                                    uint32_t name),
                         void *arg)
{
    enum { STEP = 1024 };
    Elf64_Sym s[STEP];

    for (unsigned t = 0; t < e->tables; t++)
        for (uint64_t at = 0, n = 1; n && at < e->symbols[t].size; at += n) {
            uint64_t rest = e->symbols[t].size - at;
            n = tb_code_read(e, e->symbols[t].offset + at, s,
                             rest < sizeof(s) ? (size_t)rest : sizeof(s));
            n -= n % sizeof(*s);
            for (uint64_t i = 0; i < n / sizeof(*s); i++) {
                unsigned type = ELF64_ST_TYPE(s[i].st_info);
                if ((type == STT_FUNC || type == STT_GNU_IFUNC) && s[i].st_shndx != SHN_UNDEF)
                    fn(arg, s[i].st_value, s[i].st_size, t, s[i].st_name);
            }
        }
}

void tb_code_name(const struct tb_code_elf *e, unsigned table, uint32_t name, char *out,
                  size_t size)
{
    const struct tb_code_symbols *s = &e->symbols[table];
    uint64_t rest = name < s->names_size ? s->names_size - name : 0;
    size_t n = tb_code_read(e, s->names + name, out, rest < size - 1 ? (size_t)rest : size - 1);

    out[n] = 0;
}
