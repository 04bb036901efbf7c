/*
 * What nvcc's host code registers before main(): fat binaries, and the host addresses of kernels
 * and variables in them. Registration only remembers (PyTorch registers 24,000 kernels at import):
 * a fat binary is handed to the driver when something of it is first used.
 */
#include "softgpu/runtime/runtime.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "softgpu/runtime/api_gen.h"

#define SYMBOLS_A_CHUNK 64

enum symbol_kind { SYMBOL_KERNEL, SYMBOL_VARIABLE, SYMBOL_MANAGED };

/* An entry of the table: @key is a host address, a kernel handle, or a symbol's own address. */
struct node {
    const void *key;
    struct sg_rt_symbol *symbol;
    struct node *next;
};

struct sg_rt_symbol {
    struct node by_host, by_kernel, by_self;
    const char *name; /* in the registering library */
    struct fatbin *fatbin;
    enum symbol_kind kind;
    CUkernel kernel;    /* NULL: not asked for yet */
    cudaError_t failed; /* why there is no kernel */
};

struct chunk {
    struct chunk *next;
    unsigned used;
    struct sg_rt_symbol symbols[SYMBOLS_A_CHUNK];
};

struct fatbin {
    const void *wrapper; /* __fatBinC_Wrapper_t, in the registering library */
    enum { NOT_LOADED, LOADING, LOADED } state;
    pthread_t loader; /* while it is LOADING */
    CUlibrary library;
    bool tried;
    CUresult result;
    struct chunk *chunks;
    bool has_managed;
    bool managed_set;
    unsigned managed_resets; /* sg_rt_resets() when managed variables got their addresses */
};

/* Under @lock, which is never held across calls of the driver: a tool that is told of those may
 * call us, or wait for a thread that does. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t loaded; /* some fat binary is no longer LOADING */
    struct node **buckets;
    size_t nbuckets, count;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .loaded = PTHREAD_COND_INITIALIZER};

/* ---- the table ------------------------------------------------------------------------------- */

static size_t bucket_of(const void *key, size_t nbuckets)
{
    return ((uintptr_t)key >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (nbuckets - 1);
}

static bool table_grow(void)
{
    size_t n = table.nbuckets == 0 ? 1024 : table.nbuckets * 2;
    struct node **buckets = calloc(n, sizeof(struct node *));

    if (buckets == NULL)
        return table.nbuckets != 0;
    for (size_t i = 0; i < table.nbuckets; i++) {
        for (struct node *node = table.buckets[i], *next; node != NULL; node = next) {
            struct node **to = &buckets[bucket_of(node->key, n)];

            next = node->next;
            node->next = *to;
            *to = node;
        }
    }
    free(table.buckets);
    table.buckets = buckets;
    table.nbuckets = n;
    return true;
}

static struct sg_rt_symbol *table_find(const void *key)
{
    if (table.nbuckets == 0)
        return NULL;
    for (struct node *n = table.buckets[bucket_of(key, table.nbuckets)]; n != NULL; n = n->next)
        if (n->key == key)
            return n->symbol;
    return NULL;
}

/* The first registration of a key stays the one that is found. */
static void table_add(struct node *node, const void *key, struct sg_rt_symbol *symbol)
{
    if (node->symbol != NULL || table_find(key) != NULL)
        return;
    if (table.count >= table.nbuckets && !table_grow())
        return;
    node->key = key;
    node->symbol = symbol;
    node->next = table.buckets[bucket_of(key, table.nbuckets)];
    table.buckets[bucket_of(key, table.nbuckets)] = node;
    table.count++;
}

static void table_remove(struct node *node)
{
    if (node->symbol == NULL)
        return;
    for (struct node **at = &table.buckets[bucket_of(node->key, table.nbuckets)]; *at != NULL;
         at = &(*at)->next) {
        if (*at == node) {
            *at = node->next;
            table.count--;
            break;
        }
    }
    node->symbol = NULL;
}

/* ---- registration ---------------------------------------------------------------------------- */

void **sg___cudaRegisterFatBinary(void *fatCubin)
{
    struct fatbin *f = calloc(1, sizeof(*f));

    if (f != NULL)
        f->wrapper = fatCubin;
    return (void **)f;
}

void sg___cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
    (void)fatCubinHandle;
}

void sg___cudaUnregisterFatBinary(void **fatCubinHandle)
{
    struct fatbin *f = (struct fatbin *)fatCubinHandle;

    if (f == NULL)
        return;
    pthread_mutex_lock(&table.lock);
    for (struct chunk *c = f->chunks, *next; c != NULL; c = next) {
        next = c->next;
        for (unsigned i = 0; i < c->used; i++) {
            table_remove(&c->symbols[i].by_host);
            table_remove(&c->symbols[i].by_kernel);
            table_remove(&c->symbols[i].by_self);
        }
        free(c);
    }
    pthread_mutex_unlock(&table.lock);
    if (f->library != NULL)
        (void)cuLibraryUnload(f->library); /* the driver may be gone already: the process ends */
    free(f);
}

static void add_symbol(void **handle, const void *host, const char *name, enum symbol_kind kind)
{
    struct fatbin *f = (struct fatbin *)handle;
    struct sg_rt_symbol *s;

    if (f == NULL)
        return;
    pthread_mutex_lock(&table.lock);
    if (f->chunks == NULL || f->chunks->used == SYMBOLS_A_CHUNK) {
        struct chunk *c = calloc(1, sizeof(*c));

        if (c != NULL) {
            c->next = f->chunks;
            f->chunks = c;
        }
    }
    if (f->chunks != NULL && f->chunks->used < SYMBOLS_A_CHUNK) {
        s = &f->chunks->symbols[f->chunks->used++];
        s->name = name;
        s->fatbin = f;
        s->kind = kind;
        f->has_managed |= kind == SYMBOL_MANAGED;
        table_add(&s->by_host, host, s);
    }
    pthread_mutex_unlock(&table.lock);
}

void sg___cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                               const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
                               dim3 *bDim, dim3 *gDim, int *wSize)
{
    (void)deviceFun, (void)thread_limit, (void)tid, (void)bid, (void)bDim, (void)gDim, (void)wSize;
    add_symbol(fatCubinHandle, hostFun, deviceName, SYMBOL_KERNEL);
}

void sg___cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                          const char *deviceName, int ext, size_t size, int constant, int global)
{
    (void)deviceAddress, (void)ext, (void)size, (void)constant, (void)global;
    add_symbol(fatCubinHandle, hostVar, deviceName, SYMBOL_VARIABLE);
}

void sg___cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress,
                                 char *deviceAddress, const char *deviceName, int ext, size_t size,
                                 int constant, int global)
{
    (void)deviceAddress, (void)ext, (void)size, (void)constant, (void)global;
    add_symbol(fatCubinHandle, hostVarPtrAddress, deviceName, SYMBOL_MANAGED);
}

/* Texture and surface references went with CUDA 12; code that still has them is refused when its
 * module is loaded. */
void sg___cudaRegisterTexture(void **fatCubinHandle, const struct textureReference *hostVar,
                              const void **deviceAddress, const char *deviceName, int dim, int norm,
                              int ext)
{
    (void)fatCubinHandle, (void)hostVar, (void)deviceAddress, (void)deviceName, (void)dim,
        (void)norm, (void)ext;
}

void sg___cudaRegisterSurface(void **fatCubinHandle, const struct surfaceReference *hostVar,
                              const void **deviceAddress, const char *deviceName, int dim, int ext)
{
    (void)fatCubinHandle, (void)hostVar, (void)deviceAddress, (void)deviceName, (void)dim,
        (void)ext;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Host code reads a managed variable through a pointer that nvcc made for it. While it is LOADING,
 * without the lock. */
static CUresult set_managed(struct fatbin *f)
{
    CUresult r = CUDA_SUCCESS;

    for (struct chunk *c = f->chunks; c != NULL; c = c->next) {
        for (unsigned i = 0; i < c->used && r == CUDA_SUCCESS; i++) {
            struct sg_rt_symbol *s = &c->symbols[i];
            CUdeviceptr addr;
            size_t size;

            if (s->kind != SYMBOL_MANAGED || s->by_host.symbol == NULL)
                continue;
            r = cuLibraryGetManaged(&addr, &size, f->library, s->name);
            if (r == CUDA_SUCCESS)
                *(CUdeviceptr *)(uintptr_t)s->by_host.key = addr;
        }
    }
    f->managed_set = r == CUDA_SUCCESS;
    f->managed_resets = sg_rt_resets();
    return r;
}

static bool is_current(const struct fatbin *f)
{
    return f->state == LOADED && (f->result != CUDA_SUCCESS || !f->has_managed ||
                                  (f->managed_set && f->managed_resets == sg_rt_resets()));
}

/* With a context. Under the lock, which it releases: one thread loads, the others wait. A tool
 * that is called in the middle of it, on the same thread, would wait for itself. */
static cudaError_t load(struct fatbin *f)
{
    CUresult r = CUDA_SUCCESS;

    while (f->state == LOADING) {
        if (pthread_equal(f->loader, pthread_self()))
            return cudaErrorNotPermitted;
        pthread_cond_wait(&table.loaded, &table.lock);
    }
    if (is_current(f))
        return sg_rt_error(f->result);
    f->state = LOADING;
    f->loader = pthread_self();
    pthread_mutex_unlock(&table.lock);
    if (!f->tried)
        f->result = cuLibraryLoadData(&f->library, f->wrapper, NULL, NULL, 0, NULL, NULL, 0);
    f->tried = true;
    if (f->result == CUDA_SUCCESS && f->has_managed)
        r = set_managed(f);
    pthread_mutex_lock(&table.lock);
    f->state = LOADED;
    pthread_cond_broadcast(&table.loaded);
    return sg_rt_error(f->result != CUDA_SUCCESS ? f->result : r);
}

/* Is this thread inside the loading of it? */
static bool loads_it(const struct fatbin *f)
{
    return f->state == LOADING && pthread_equal(f->loader, pthread_self());
}

char sg___cudaInitModule(void **fatCubinHandle)
{
    struct fatbin *f = (struct fatbin *)fatCubinHandle;
    cudaError_t err;

    if (f == NULL || sg_rt_enter() != cudaSuccess)
        return 0;
    pthread_mutex_lock(&table.lock);
    err = load(f);
    pthread_mutex_unlock(&table.lock);
    return err == cudaSuccess;
}

static void explain(const struct sg_rt_symbol *s, cudaError_t err)
{
    if (err == cudaErrorNoKernelImageForDevice)
        sg_rt_log(
            1,
            "kernel '%s' cannot run: it is there as machine code only, without PTX; compile it "
            "with -gencode arch=compute_80,code=compute_80; if it is PyTorch's own, torch.compile "
            "replaces it, or 'softgpu run --eager' (twinbit.eager) runs such operators on the CPU",
            s->name);
    else
        sg_rt_log(1, "kernel '%s' cannot run: %s", s->name, sg_cudaGetErrorName(err));
}

/* The kernel of a symbol whose fat binary is loaded. Under the lock, which it releases; others may
 * find the same one meanwhile. */
static cudaError_t get_kernel(struct sg_rt_symbol *s)
{
    CUkernel kernel = NULL;
    cudaError_t err;

    pthread_mutex_unlock(&table.lock);
    err = sg_rt_error(cuLibraryGetKernel(&kernel, s->fatbin->library, s->name));
    pthread_mutex_lock(&table.lock);
    if (err == cudaSuccess && s->kernel == NULL) {
        s->kernel = kernel;
        table_add(&s->by_kernel, kernel, s);
    }
    return err == cudaErrorSymbolNotFound ? cudaErrorInvalidDeviceFunction : err;
}

/* Under the lock, with a context. */
static cudaError_t resolve(struct sg_rt_symbol *s)
{
    cudaError_t err;

    if (s->kind != SYMBOL_KERNEL)
        return cudaErrorInvalidDeviceFunction;
    if (s->kernel != NULL && !(s->fatbin->has_managed))
        return cudaSuccess;
    if (s->failed != cudaSuccess)
        return s->failed;
    if (loads_it(s->fatbin))
        return cudaErrorNotPermitted; /* now; it does not stay so */
    err = load(s->fatbin);
    if (err == cudaSuccess && s->kernel == NULL)
        err = get_kernel(s);
    if (err != cudaSuccess && s->failed == cudaSuccess)
        explain(s, err);
    s->failed = err;
    return err;
}

/* ---- from host addresses --------------------------------------------------------------------- */

static cudaError_t find_kernel(const void *func, bool want_handle, CUkernel *kernel)
{
    cudaError_t err = sg_rt_enter();
    struct sg_rt_symbol *s;

    if (err != cudaSuccess)
        return err;
    if (func == NULL)
        return cudaErrorInvalidDeviceFunction;
    pthread_mutex_lock(&table.lock);
    s = table_find(func);
    if (s != NULL) {
        err = resolve(s);
        if (err == cudaSuccess) {
            *kernel = s->kernel;
        } else if (want_handle) {
            table_add(&s->by_self, s, s);
            *kernel = (CUkernel)s;
        }
    } else {
        *kernel = (CUkernel)(uintptr_t)func; /* a cudaKernel_t, or nothing that we know */
    }
    pthread_mutex_unlock(&table.lock);
    return err;
}

cudaError_t sg_rt_function(const void *func, CUkernel *kernel)
{
    return find_kernel(func, false, kernel);
}

cudaError_t sg_rt_handle(const void *func, CUkernel *kernel)
{
    return find_kernel(func, true, kernel);
}

cudaError_t sg_rt_function_here(const void *func, CUfunction *function)
{
    CUkernel kernel = NULL;
    cudaError_t err = sg_rt_function(func, &kernel);

    if (err != cudaSuccess)
        return err;
    err = sg_rt_error(cuKernelGetFunction(function, kernel));
    return err == cudaErrorInvalidResourceHandle ? cudaErrorInvalidDeviceFunction : err;
}

void *sg_rt_host_of(CUkernel kernel)
{
    struct sg_rt_symbol *s;

    pthread_mutex_lock(&table.lock);
    s = table_find(kernel);
    pthread_mutex_unlock(&table.lock);
    return s != NULL ? (void *)(uintptr_t)s->by_host.key : (void *)kernel;
}

const char *sg_rt_symbol_name(const void *func)
{
    const char *name = NULL;
    struct sg_rt_symbol *s;

    pthread_mutex_lock(&table.lock);
    s = table_find(func);
    if (s != NULL && s->kind == SYMBOL_KERNEL)
        name = s->name;
    pthread_mutex_unlock(&table.lock);
    return name;
}

cudaError_t sg_rt_variable(const void *symbol, CUdeviceptr *addr, size_t *size)
{
    cudaError_t err = sg_rt_enter();
    struct sg_rt_symbol *s;
    CUresult r;

    if (err != cudaSuccess)
        return err;
    pthread_mutex_lock(&table.lock);
    s = table_find(symbol);
    if (s == NULL || s->kind == SYMBOL_KERNEL)
        err = cudaErrorInvalidSymbol;
    else
        err = load(s->fatbin);
    pthread_mutex_unlock(&table.lock);
    if (err == cudaSuccess) {
        r = s->kind == SYMBOL_MANAGED ? cuLibraryGetManaged(addr, size, s->fatbin->library, s->name)
                                      : cuLibraryGetGlobal(addr, size, s->fatbin->library, s->name);
        err = r == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : sg_rt_error(r);
    }
    return err;
}
