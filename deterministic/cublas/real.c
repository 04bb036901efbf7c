/* Where the real functions are, and who calls. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "deterministic/cublas/cublas_internal.h"

#define PLACES 256u
#define PROBES 32u
#define LONGEST 1024u

/** struct place - who calls from where; filled once, by the thread that claimed it */
struct place {
    uintptr_t pc; /* 0: free */
    uint32_t ready;
    struct tb_cublas_real real;
};

static struct place places[PLACES];

/* ---------------------------------------------------------------- objects */

struct object {
    uintptr_t pc;       /* looked for, or 0 */
    const char *prefix; /* of the file's name, or NULL */
    uintptr_t base;
    bool found;
    char name[LONGEST];
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool is_in(const struct dl_phdr_info *o, uintptr_t pc)
{
    uintptr_t at = pc - o->dlpi_addr;

    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_LOAD && at >= o->dlpi_phdr[i].p_vaddr &&
            at - o->dlpi_phdr[i].p_vaddr < o->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

static int each_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    struct object *wanted = arg;
    const char *name = base_name(o->dlpi_name);

    (void)size;
    if (wanted->prefix ? strncmp(name, wanted->prefix, strlen(wanted->prefix)) != 0
                       : !is_in(o, wanted->pc))
        return 0;
    size_t n = strnlen(o->dlpi_name, sizeof(wanted->name) - 1);
    memcpy(wanted->name, o->dlpi_name, n);
    wanted->name[n] = 0;
    wanted->base = o->dlpi_addr;
    wanted->found = true;
    return 1;
}

size_t tb_cublas_place(const void *pc, char *out, size_t size)
{
    struct object o = {.pc = (uintptr_t)pc};

    (void)dl_iterate_phdr(each_object, &o);
    const char *name = !o.found ? "?" : o.name[0] ? base_name(o.name) : "the program";
    int n = snprintf(out, size, "%.120s+0x%llx", name, (unsigned long long)(o.pc - o.base));
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

/* ---------------------------------------------------------------- functions */

/* A library that is loaded, whoever sees it. It stays: its functions are kept here. */
static void *loaded(const char *prefix, const char *name)
{
    struct object o = {.prefix = prefix};

    (void)dl_iterate_phdr(each_object, &o);
    void *library = o.found ? dlopen(o.name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return library ? dlsym(library, name) : NULL;
}

static void *find(void *caller, const char *prefix, const char *name)
{
    void *f = caller ? dlsym(caller, name) : NULL;

    f = f ? f : dlsym(RTLD_NEXT, name);
    return f ? f : loaded(prefix, name);
}

static void fill(const void *pc, struct tb_cublas_real *out)
{
    static const char blas[] = "libcublas.so", lt[] = "libcublasLt.so";
    struct object o = {.pc = (uintptr_t)pc};

    (void)dl_iterate_phdr(each_object, &o);
    void *caller = o.name[0] ? dlopen(o.name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    out->create = (tb_cublas_create *)find(caller, blas, "cublasCreate_v2");
    out->set_mode = (tb_cublas_set_mode *)find(caller, blas, "cublasSetAtomicsMode");
    out->get_mode = (tb_cublas_get_mode *)find(caller, blas, "cublasGetAtomicsMode");
    out->heuristic = (tb_cublaslt_heuristic *)find(caller, lt, "cublasLtMatmulAlgoGetHeuristic");
    out->check = (tb_cublaslt_check *)find(caller, lt, "cublasLtMatmulAlgoCheck");
    out->operation = (tb_cublaslt_attribute *)find(caller, lt, "cublasLtMatmulDescGetAttribute");
    out->layout = (tb_cublaslt_attribute *)find(caller, lt, "cublasLtMatrixLayoutGetAttribute");
    out->preference =
        (tb_cublaslt_attribute *)find(caller, lt, "cublasLtMatmulPreferenceGetAttribute");
    out->version = (tb_cublaslt_version *)find(caller, lt, "cublasLtGetVersion");
    if (caller)
        (void)dlclose(caller);
}

/* The row of @pc, claimed if it is new; NULL: there is no room, or another thread is at it */
static struct place *claim(uintptr_t pc, bool *fresh)
{
    uint64_t from = tb_preload_mix64(pc);

    for (uint32_t i = 0; i < PROBES; i++) {
        struct place *p = &places[(from + i) % PLACES];
        uintptr_t there = 0;
        *fresh = __atomic_compare_exchange_n(&p->pc, &there, pc, false, __ATOMIC_ACQ_REL,
                                             __ATOMIC_ACQUIRE);
        if (*fresh || (there == pc && __atomic_load_n(&p->ready, __ATOMIC_ACQUIRE)))
            return p;
        if (there == pc)
            return NULL;
    }
    return NULL;
}

void tb_cublas_real(const void *pc, struct tb_cublas_real *out)
{
    bool fresh = false;
    struct place *p = claim((uintptr_t)pc, &fresh);

    if (p && !fresh) {
        *out = p->real;
        return;
    }
    fill(pc, out);
    if (!p)
        return;
    p->real = *out;
    __atomic_store_n(&p->ready, 1, __ATOMIC_RELEASE);
}
