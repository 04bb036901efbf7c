/*
 * std::random_device of a shared libstdc++. Without a name it reads rdrand or rdseed, which nobody
 * can answer, so the function that gives its values is answered as a whole. Its object is not
 * looked at: what it is made of differs between versions. C++ exceptions may pass through here.
 */
#include <dlfcn.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

/* std::random_device::_M_getval(); an older name of it, _M_getval_pretr1(), jumps to this one */
unsigned _ZNSt13random_device9_M_getvalEv(void *device);

typedef unsigned (*getval_fn)(void *device);

/* libstdc++ may have been loaded by dlopen(), where RTLD_NEXT does not look */
static getval_fn next_getval(void)
{
    static getval_fn found; /* written by anybody, with the same value */
    getval_fn f = __atomic_load_n(&found, __ATOMIC_RELAXED);

    if (f)
        return f;
    *(void **)&f = dlsym(RTLD_NEXT, "_ZNSt13random_device9_M_getvalEv");
    if (!f) {
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        *(void **)&f = library ? dlsym(library, "_ZNSt13random_device9_M_getvalEv") : NULL;
    }
    if (f == _ZNSt13random_device9_M_getvalEv)
        f = NULL;
    __atomic_store_n(&found, f, __ATOMIC_RELAXED);
    return f;
}

/* A copy of the library under another name: its numbers come from the same place */
static unsigned from_kernel(void)
{
    unsigned x = 0;

    (void)tb_sys3(SYS_getrandom, (long)&x, sizeof(x), 0);
    return x;
}

static unsigned real(void *device)
{
    getval_fn next = next_getval();

    return next ? next(device) : from_kernel();
}

/* What it draws from libc, by a name such as "/dev/urandom", is written down there already. */
static unsigned log_real(void *device, const void *pc)
{
    uint32_t before = tb_pins_tls.seq[TB_ENTROPY];
    unsigned x = real(device);
    struct tb_pins_call c;

    if (tb_pins_tls.seq[TB_ENTROPY] == before &&
        tb_pins_begin(&c, TB_PRELOAD_RANDOM_DEVICE, TB_ENTROPY, pc))
        tb_pins_note_real(&c, sizeof(x), sizeof(x), &x);
    return x;
}

TB_EXPORT unsigned _ZNSt13random_device9_M_getvalEv(void *device)
{
    struct tb_pins_call c;
    unsigned x = 0;

    if (!tb_pins_self() || (tb_pins.config->flags & TB_PRELOAD_NO_RANDOM_DEVICE))
        return real(device);
    if (tb_pins.config->entropy == TB_PRELOAD_LOG)
        return log_real(device, TB_HERE);
    if (!tb_pins_begin(&c, TB_PRELOAD_RANDOM_DEVICE, TB_ENTROPY, TB_HERE))
        return real(device);
    if (tb_pins_real(&c)) {
        x = real(device);
        tb_pins_note_real(&c, sizeof(x), sizeof(x), NULL);
        return x;
    }
    tb_pins_serve(&c, &x, sizeof(x));
    return x;
}
