/*
 * Preloaded into a CUDA program on the software device: compares what kernels really read and write
 * with what tb_kernelinfo() says they may.
 *
 * A write must lie in an allocation that a word with TB_WORD_WRITE points to, in a variable if the
 * kernel writes any, or the kernel must have said that it cannot tell. Reads alike. What lies in no
 * allocation (the heap of kernels' malloc, the barrier of a grid) is the driver's own.
 *
 * At exit one line goes to the file named by KI_CROSS_OUT: kernels, of them fully known, launches,
 * writes, reads, unexplained ones. Each unexplained one is told on stderr, the first 20.
 */
#include "kernelinfo/kernelinfo.h"
#include "softgpu/driver/seam.h"
#include "tests/kernelinfo/dump.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANGES 512

struct range {
    uint64_t from, to;
    uint8_t how;
};

struct table {
    struct table *next;
    struct tb_wire_kernels *t;
};

/* Written below @lock: by the threads that load modules, and those that execute launches. */
static struct {
    pthread_mutex_t lock;
    const struct softgpu_tools *tools;
    struct table *tables; /* newest first */
    struct range ranges[MOST_RANGES];
    unsigned nranges;
    uint64_t launches, writes, reads, wrong, unknown;
    uint64_t seen[4096]; /* names of kernels launched */
    unsigned kernels, complete;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---------------------------------------------------------------- modules */

static void add_text(const char *text, size_t n)
{
    struct table *t = calloc(1, sizeof(*t));
    struct tb_error err = {0};
    size_t bytes;

    if (!t || tb_kernelinfo(text, n, (void **)&t->t, &bytes, &err) != TB_OK) {
        fprintf(stderr, "cross: a module is not understood: %s\n", err.text);
        the.wrong++;
        free(t);
        return;
    }
    t->next = the.tables;
    the.tables = t;
}

/* Several texts that were linked: see softgpu/driver/code.c. */
static void add_linked(const char *p, size_t n)
{
    uint64_t count, len;
    size_t at = sizeof(Elf64_Ehdr);

    memcpy(&count, p + at, sizeof(count));
    at += 2 * sizeof(count);
    for (uint64_t i = 0; i < count && at + 8 <= n; i++) {
        memcpy(&len, p + at, sizeof(len));
        add_text(p + at + 8, len);
        at += 8 + len + 1;
    }
}

static void notice(void *arg, const struct sg_notice *n)
{
    (void)arg;
    if (n->kind != SG_NOTICE_MODULE_LOADED)
        return;
    pthread_mutex_lock(&the.lock);
    if (n->module.size > 80 && memcmp((const char *)n->module.data + EI_PAD, "softgpu", 7) == 0)
        add_linked(n->module.data, n->module.size);
    else
        add_text(n->module.data, n->module.size);
    pthread_mutex_unlock(&the.lock);
}

/* ---------------------------------------------------------------- launches */

/* Of the kernel that runs; several modules may have one of that name: what any of them does. */
static struct {
    const char *name;
    uint64_t hash;
    uint32_t flags;
    bool found;
    uint32_t globals; /* enum tb_wire_global_flags of any */
} now;

static void count_kernel(void)
{
    const unsigned doubts = TB_KERNEL_INDIRECT_READ | TB_KERNEL_INDIRECT_WRITE |
                            TB_KERNEL_UNTRACED_READ | TB_KERNEL_UNTRACED_WRITE;

    for (unsigned i = 0; i < the.kernels; i++)
        if (the.seen[i] == now.hash)
            return;
    if (the.kernels == TB_ARRAY_LEN(the.seen))
        return;
    the.seen[the.kernels++] = now.hash;
    the.complete += !(now.flags & doubts);
}

static void add_word(const struct tb_wire_word *w, const char *params, size_t bytes)
{
    struct softgpu_allocation a;
    uint64_t value;

    if (w->bytes != 8 || w->offset + 8u > bytes || the.nranges == MOST_RANGES)
        return;
    memcpy(&value, params + w->offset, sizeof(value));
    if ((w->flags & (TB_WORD_READ | TB_WORD_WRITE)) && the.tools->allocation(value, &a))
        the.ranges[the.nranges++] = (struct range){a.address, a.address + a.size, w->flags};
}

static void add_kernel(const struct tb_wire_kernels *t, const struct tb_wire_kernel *k,
                       const char *params, size_t bytes)
{
    now.found = true;
    now.flags |= k->flags;
    for (uint32_t i = 0; i < k->globals; i++)
        now.globals |= ki_globals(t)[k->first_global + i].flags;
    for (uint32_t i = 0; i < k->words; i++)
        add_word(&ki_words(t)[k->first_word + i], params, bytes);
}

static void begin(void *arg, const char *kernel, const void *params, size_t bytes)
{
    (void)arg;
    pthread_mutex_lock(&the.lock);
    the.launches++;
    the.nranges = 0;
    memset(&now, 0, sizeof(now));
    now.name = kernel;
    now.hash = tb_fp_leaf_hash(kernel, strlen(kernel)).lo;
    for (const struct table *t = the.tables; t; t = t->next)
        for (uint32_t i = 0; i < t->t->kernels; i++)
            if (ki_kernels(t->t)[i].name == now.hash)
                add_kernel(t->t, &ki_kernels(t->t)[i], params, bytes);
    if (now.found) {
        count_kernel();
    } else {
        fprintf(stderr, "cross: kernel '%s' is in no module\n", kernel);
        the.wrong++;
    }
    pthread_mutex_unlock(&the.lock);
}

static bool in_words(uint64_t address, uint64_t n, unsigned how)
{
    for (unsigned i = 0; i < the.nranges; i++)
        if ((the.ranges[i].how & how) && address >= the.ranges[i].from &&
            address + n <= the.ranges[i].to)
            return true;
    return false;
}

static bool explained(uint64_t address, uint64_t n, bool write)
{
    unsigned doubt = write ? TB_KERNEL_INDIRECT_WRITE | TB_KERNEL_UNTRACED_WRITE
                           : TB_KERNEL_INDIRECT_READ | TB_KERNEL_UNTRACED_READ;
    struct softgpu_allocation a;

    if (!now.found || in_words(address, n, write ? TB_WORD_WRITE : TB_WORD_READ))
        return true;
    if (!the.tools->allocation(address, &a))
        return true;
    if (a.variable && !write && (now.flags & TB_KERNEL_HEAP))
        return true; /* printf's: its texts */
    if ((a.variable || a.managed) && (now.globals & (write ? TB_GLOBAL_WRITE : TB_GLOBAL_READ)))
        return true;
    if (!(now.flags & doubt))
        return false;
    the.unknown++;
    return true;
}

static void access_to(void *arg, uint64_t address, uint64_t n, bool write)
{
    static unsigned told;

    (void)arg;
    pthread_mutex_lock(&the.lock);
    the.writes += write;
    the.reads += !write;
    if (!explained(address, n, write)) {
        the.wrong++;
        if (told++ < 20)
            fprintf(stderr, "cross: %s of %#llx, kernel '%s', is not explained\n",
                    write ? "write" : "read", (unsigned long long)address, now.name);
    }
    pthread_mutex_unlock(&the.lock);
}

static void end(void *arg)
{
    (void)arg;
}

/* ---------------------------------------------------------------- start and end */

static void nothing(void *arg, struct sg_call *call)
{
    (void)arg;
    (void)call;
}

__attribute__((constructor)) static void start(void)
{
    static const struct softgpu_hooks hooks = {.enter = nothing, .exit = nothing, .notice = notice};
    static const struct softgpu_access_hooks accesses = {begin, access_to, end, NULL};
    void *cuda = getenv("KI_CROSS_OUT") ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) : NULL;
    CUresult (*get)(const void **, const CUuuid *) =
        cuda ? (CUresult(*)(const void **, const CUuuid *))dlsym(cuda, "cuGetExportTable") : NULL;

    the.tools = get ? softgpu_find_tools(get) : NULL;
    if (!the.tools)
        return;
    the.tools->set_hooks(&hooks);
    the.tools->set_accesses(&accesses);
}

__attribute__((destructor)) static void report(void)
{
    FILE *f = the.tools && the.launches ? fopen(getenv("KI_CROSS_OUT"), "a") : NULL;

    if (!f)
        return;
    fprintf(f, "%s %u %u %llu %llu %llu %llu %llu\n", program_invocation_short_name, the.kernels,
            the.complete, (unsigned long long)the.launches, (unsigned long long)the.writes,
            (unsigned long long)the.reads, (unsigned long long)the.unknown,
            (unsigned long long)the.wrong);
    fclose(f);
}
