/* Who calls: module and offset of a return address, asked for once a place. */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "deterministic/preload/pins_internal.h"

struct place {
    const char *name;
    uintptr_t pc, base;
};

static int each_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    struct place *place = arg;
    uintptr_t at = place->pc - o->dlpi_addr;

    (void)size;
    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_LOAD && at >= o->dlpi_phdr[i].p_vaddr &&
            at - o->dlpi_phdr[i].p_vaddr < o->dlpi_phdr[i].p_memsz) {
            place->name = o->dlpi_name;
            place->base = o->dlpi_addr;
            return 1;
        }
    return 0;
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

/* Takes no lock. dladdr() would wait for a dlopen() whose constructors run. */
static bool find_fast(struct place *place)
{
    struct dl_find_object o;

    if (!_dl_find_object || _dl_find_object((void *)place->pc, &o) != 0 || !o.dlfo_link_map)
        return false;
    place->name = o.dlfo_link_map->l_name;
    place->base = o.dlfo_link_map->l_addr;
    return true;
}
#else
static bool find_fast(struct place *place)
{
    (void)place;
    return false;
}
#endif

static struct place find(const void *pc)
{
    struct place place = {NULL, (uintptr_t)pc, 0};

    if (!find_fast(&place))
        (void)dl_iterate_phdr(each_object, &place);
    const char *slash = place.name ? strrchr(place.name, '/') : NULL;
    if (!place.name)
        place.name = "?"; /* code made at run time */
    else if (!place.name[0])
        place.name = tb_pins.program;
    else if (slash)
        place.name = slash + 1;
    return place;
}

static uint32_t judge(const char *name)
{
    if (strncmp(name, "libtwinbit", 10) == 0)
        return TB_SITE_OURS;
    for (const char *real = tb_pins.config->real; *real; real += strlen(real) + 1)
        if (strncmp(name, real, strlen(real)) == 0)
            return TB_SITE_REAL;
    return 0;
}

static void tell(struct tb_pins_proc *p, struct tb_pins_site *s, const struct place *place)
{
    size_t full = strlen(place->name), length = full < 255 ? full : 255;
    struct tb_preload_record *r;
    uint64_t offset;

    r = tb_pins_log_room(p, (uint32_t)length + 1, &offset);
    if (!r)
        return;
    s->number = __atomic_add_fetch(&p->sites, 1, __ATOMIC_RELAXED);
    r->kind = TB_PRELOAD_SITE;
    r->marks = s->flags & TB_SITE_REAL ? TB_PRELOAD_EXEMPT : 0;
    r->site = s->number;
    r->asked = place->pc - place->base;
    r->caller = s->caller;
    r->payload = (uint32_t)length + 1;
    memcpy(r + 1, place->name, length);
    ((char *)(r + 1))[length] = 0;
    tb_pins_log_whole(r, offset);
    s->calls = &r->served;
}

static struct tb_pins_site look(const void *pc, const struct place *place)
{
    struct tb_pins_site s = {.pc = (uintptr_t)pc};

    s.flags = judge(place->name) | TB_SITE_READY;
    s.caller = tb_preload_hash(place->pc - place->base, place->name, strlen(place->name));
    return s;
}

/* Fills the free row @at for @pc; false: another thread was faster. */
static bool claim(struct tb_pins_proc *p, struct tb_pins_site *at, const void *pc)
{
    uintptr_t none = 0;

    if (!__atomic_compare_exchange_n(&at->pc, &none, (uintptr_t)pc, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return none == (uintptr_t)pc;
    struct place place = find(pc);
    struct tb_pins_site s = look(pc, &place);
    if (!(s.flags & TB_SITE_OURS))
        tell(p, &s, &place);
    at->number = s.number;
    at->calls = s.calls;
    at->caller = s.caller;
    __atomic_store_n(&at->flags, s.flags, __ATOMIC_RELEASE);
    return true;
}

struct tb_pins_site tb_pins_site(struct tb_pins_proc *p, const void *pc)
{
    uint32_t from = (uint32_t)(((uintptr_t)pc * 0x9E3779B97F4A7C15ull) >> 52);

    for (uint32_t i = 0; i < 64; i++) {
        struct tb_pins_site *at = &p->site[(from + i) % TB_PINS_SITES];
        uintptr_t there = __atomic_load_n(&at->pc, __ATOMIC_ACQUIRE);
        if (there == 0 && !claim(p, at, pc))
            continue;
        if (there != 0 && there != (uintptr_t)pc)
            continue;
        if (__atomic_load_n(&at->flags, __ATOMIC_ACQUIRE) & TB_SITE_READY) {
            struct tb_pins_site s = *at;
            s.count = s.calls ? __atomic_add_fetch(s.calls, 1, __ATOMIC_RELAXED) : 0;
            return s;
        }
        break; /* it is being filled: by another thread, or under this handler of a signal */
    }
    struct place place = find(pc);
    return look(pc, &place);
}
