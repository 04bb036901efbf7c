/* The functions behind ours. Found early, so that no call looks for one in a bad moment. */
#include <dlfcn.h>

#include "deterministic/preload/pins_internal.h"

/* Written by anybody, with the same values. */
static void *found[TB_NEXT_COUNT];

#define TB_NEXT_TEXT(name) #name,
static const char *const names[] = {TB_NEXT_NAMES(TB_NEXT_TEXT)};

void *tb_pins_next(enum tb_pins_next which)
{
    void *p = __atomic_load_n(&found[which], __ATOMIC_RELAXED);

    if (tb_unlikely(!p)) {
        p = dlsym(RTLD_NEXT, names[which]);
        __atomic_store_n(&found[which], p, __ATOMIC_RELAXED);
    }
    return p;
}

void tb_pins_find_all(void)
{
    for (int i = 0; i < TB_NEXT_COUNT; i++)
        (void)tb_pins_next((enum tb_pins_next)i);
}
