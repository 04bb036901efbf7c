/*
 * Symbols that this library exports to be found: dlsym and __libc_start_main (and what shared.c
 * offers).
 *
 * CPython asks dlsym for "PyInit_<module>" after each dlopen of an extension has returned, with the
 * GIL held: the moment at which libtorch is whole and nothing of it has run. A C++ program that
 * links libtorch has it complete when __libc_start_main is called: all constructors of shared
 * objects have run. dlopen itself is left alone: a wrapper would change whose RUNPATH is searched.
 * For the same reason dlsym is a tail jump: RTLD_NEXT and RTLD_DEFAULT mean what they mean to the
 * caller.
 */
#include "recorder/recorder_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

/* Weak: absent in other C libraries, whose programs must run all the same. */
extern __typeof__(dlvsym) dlvsym __attribute__((weak));

typedef void *(*dlsym_fn)(void *handle, const char *name);
typedef int (*start_fn)(int (*main)(int, char **, char **), int argc, char **argv,
                        void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                        void *stack);

#define EXPORT __attribute__((visibility("default")))

enum phase { WATCHING = 0, ATTACHING, DONE };

/* Written here only: `phase` by who attaches, the rest by anybody with the same values. */
static struct {
    uint32_t phase;
    bool started;    /* all constructors of the program's libraries have run */
    bool torch_seen; /* but the moment was not good yet */
    unsigned long long adds;
    dlsym_fn next;
} hook;

static dlsym_fn find_real(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.27"};
    dlsym_fn real = __atomic_load_n(&hook.next, __ATOMIC_ACQUIRE);

    for (size_t i = 0; !real && dlvsym && i < TB_ARRAY_LEN(versions); i++)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (!real) {
        *(void **)&real = tb_rt_symbol_by_hand("dlsym");
        __atomic_store_n(&hook.next, real, __ATOMIC_RELEASE);
    }
    if (real && !hook.next) { /* another preloaded library may have one of its own: it comes next */
        dlsym_fn next;
        *(void **)&next = real(RTLD_NEXT, "dlsym");
        (void)dlerror();
        real = next ? next : real;
        __atomic_store_n(&hook.next, real, __ATOMIC_RELEASE);
    }
    return real;
}

void *tb_rt_real_dlsym(void *handle, const char *name)
{
    dlsym_fn real = find_real();
    void *p = real ? real(handle, name) : NULL;

    if (!p)
        (void)dlerror();
    return p;
}

struct look {
    const void *caller;
    unsigned long long adds;
    int index, torch, owner; /* positions in load order, from 1; 0: not seen */
    char path[1024];
};

static bool contains(const struct dl_phdr_info *o, const void *address)
{
    uintptr_t at = (uintptr_t)address - o->dlpi_addr;

    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_LOAD && at >= o->dlpi_phdr[i].p_vaddr &&
            at - o->dlpi_phdr[i].p_vaddr < o->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

static int first_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    (void)size;
    ((struct look *)arg)->adds = o->dlpi_adds;
    return 1;
}

static int each_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    struct look *look = arg;
    const char *name = o->dlpi_name ? strrchr(o->dlpi_name, '/') : NULL;

    (void)size;
    look->index++;
    if (!look->torch && name && strncmp(name + 1, "libtorch_cpu.so", 15) == 0) {
        look->torch = look->index;
        (void)tb_rt_copy(look->path, sizeof(look->path), o->dlpi_name);
    }
    if (!look->owner && contains(o, look->caller))
        look->owner = look->index;
    return 0;
}

/* Is libtorch here, and is nobody in the middle of its constructors? */
static bool good_moment(struct look *look, bool certain)
{
    (void)dl_iterate_phdr(first_object, look);
    if (look->adds == __atomic_load_n(&hook.adds, __ATOMIC_RELAXED) && !hook.torch_seen)
        return false;
    (void)dl_iterate_phdr(each_object, look);
    __atomic_store_n(&hook.adds, look->adds, __ATOMIC_RELAXED);
    if (!look->torch)
        return false;
    __atomic_store_n(&hook.torch_seen, true, __ATOMIC_RELAXED);
    return certain || (look->owner && look->owner < look->torch);
}

static void notice(const void *caller, bool certain)
{
    struct look look = {.caller = caller};
    uint32_t watching = WATCHING;
    int saved = errno, cancel;

    if (!good_moment(&look, certain))
        goto out;
    (void)tb_rt_real_dlsym(RTLD_DEFAULT, "dlsym"); /* waits for a dlopen in another thread to end */
    if (!__atomic_compare_exchange_n(&hook.phase, &watching, ATTACHING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        goto out;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    tb_rt_attach(look.path);
    (void)pthread_setcancelstate(cancel, &cancel);
    __atomic_store_n(&hook.phase, DONE, __ATOMIC_RELEASE);
out:
    errno = saved;
}

/*
 * By hand: a sanitizer's runtime asks for its originals before its own strncmp works. For the same
 * reason nothing is looked at before the program has started.
 */
static bool is_pyinit(const char *name)
{
    return name[0] == 'P' && name[1] == 'y' && name[2] == 'I' && name[3] == 'n' && name[4] == 'i' &&
           name[5] == 't';
}

/* Called by the exported dlsym with its return address; gives the function to jump to. */
dlsym_fn tb_rt_on_dlsym(void *handle, const char *name, const void *caller);
__attribute__((used)) dlsym_fn tb_rt_on_dlsym(void *handle, const char *name, const void *caller)
{
    (void)handle;
    dlsym_fn real = find_real();

    if (tb_unlikely(__atomic_load_n(&hook.phase, __ATOMIC_ACQUIRE) == WATCHING) && real && name) {
        bool certain = is_pyinit(name);
        if (certain || hook.started)
            notice(caller, certain);
    }
    return real;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    movq 16(%rsp), %rdx\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call tb_rt_on_dlsym\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    jmp *%rax\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    hint #34\n" /* bti c */
        "    stp x29, x30, [sp, #-32]!\n"
        "    .cfi_def_cfa_offset 32\n"
        "    .cfi_offset x29, -32\n"
        "    .cfi_offset x30, -24\n"
        "    stp x0, x1, [sp, #16]\n"
        "    mov x2, x30\n"
        "    mov x29, sp\n"
        "    bl tb_rt_on_dlsym\n"
        "    mov x16, x0\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        "    .cfi_restore x29\n"
        "    .cfi_restore x30\n"
        "    .cfi_def_cfa_offset 0\n"
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#else
#error "recorder/hook.c: dlsym is written for x86-64 and aarch64"
#endif

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack);
EXPORT int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                             void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                             void *stack)
{
    start_fn real = NULL;

    *(void **)&real = tb_rt_real_dlsym(RTLD_NEXT, "__libc_start_main");
    if (!real)
        *(void **)&real = tb_rt_symbol_by_hand("__libc_start_main");
    hook.started = true;
    notice(NULL, true);
    return real(main, argc, argv, init, fini, rtld_fini, stack);
}
