/*
 * Finding a symbol without dlsym or dlvsym: in programs of another C library (musl), which this
 * library must let run although it never records there.
 */
#include "recorder/recorder_internal.h"

#include <link.h>
#include <string.h>

struct search {
    const char *name;
    void *found;
};

struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash; /* DT_HASH: its second word is the number of symbols */
};

/* glibc relocates the pointers in the dynamic section, musl does not. */
static const void *absolute(const struct dl_phdr_info *o, ElfW(Addr) address)
{
    return (const void *)(address < o->dlpi_addr ? o->dlpi_addr + address : address);
}

static struct tables read_tables(const struct dl_phdr_info *o)
{
    struct tables t = {0};

    for (int i = 0; i < o->dlpi_phnum; i++) {
        if (o->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *d = (const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
        for (; d->d_tag != DT_NULL; d++) {
            if (d->d_tag == DT_SYMTAB)
                t.symbols = absolute(o, d->d_un.d_ptr);
            else if (d->d_tag == DT_STRTAB)
                t.strings = absolute(o, d->d_un.d_ptr);
            else if (d->d_tag == DT_HASH)
                t.hash = absolute(o, d->d_un.d_ptr);
        }
    }
    return t;
}

static bool is_ours(const struct dl_phdr_info *o)
{
    uintptr_t at = (uintptr_t)&tb_rt - o->dlpi_addr;

    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_LOAD && at >= o->dlpi_phdr[i].p_vaddr &&
            at - o->dlpi_phdr[i].p_vaddr < o->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

static int look(struct dl_phdr_info *o, size_t size, void *arg)
{
    struct search *s = arg;
    struct tables t = {0};

    (void)size;
    if (!is_ours(o))
        t = read_tables(o);
    if (!t.symbols || !t.strings || !t.hash)
        return 0;
    for (uint32_t i = 0; i < t.hash[1]; i++) {
        const ElfW(Sym) *y = &t.symbols[i];
        if (y->st_shndx != SHN_UNDEF && strcmp(t.strings + y->st_name, s->name) == 0) {
            s->found = (void *)(o->dlpi_addr + y->st_value);
            return 1;
        }
    }
    return 0;
}

void *tb_rt_symbol_by_hand(const char *name)
{
    struct search s = {.name = name};

    (void)dl_iterate_phdr(look, &s);
    return s.found;
}
