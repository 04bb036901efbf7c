/* Kernels: names, parameters, and what of them the collector found out. */
#include <string.h>

#include "recorder/cuda/engine.h"
#include "recorder/cuda/symbol.h"

static bool matches(const char *pattern, size_t n, const char *text)
{
    for (; n; pattern++, n--, text++) {
        if (*pattern == '*') {
            for (; *text; text++)
                if (matches(pattern + 1, n - 1, text))
                    return true;
            return matches(pattern + 1, n - 1, text);
        }
        if (!*text || (*pattern != '?' && *pattern != *text))
            return false;
    }
    return !*text;
}

/* The last pattern that fits decides; with none but "!" ones, everything else is wanted. */
static bool wanted(const struct tb_cu_kernel *k)
{
    const char *p = tb_cu.config->kernels;
    bool want = !*p || *p == '!';

    while (*p) {
        size_t n = strcspn(p, "\n");
        bool not = *p == '!';
        if (matches(p + not, n - not, k->name) || matches(p + not, n - not, k->symbol))
            want = !not ;
        p += n + (p[n] == '\n');
    }
    return want;
}

/* ---------------------------------------------------------------- what is known of one */

static void find_info(struct tb_cu_kernel *k)
{
    const struct tb_wire_kernels *h = k->code && k->code->image ? k->code->image->info : NULL;
    uint64_t hash = tb_cu.api->xxh128(k->symbol, strlen(k->symbol)).lo;

    if (!h)
        return;
    const struct tb_wire_kernel *info = tb_wire_kernel_list(h);
    for (uint32_t i = 0; i < h->kernels; i++)
        if (info[i].name == hash) {
            k->info = &info[i];
            k->word = tb_wire_word_list(h) + info[i].first_word;
        }
}

/* At the next place where CUDA may be called. Under the lock. */
static void ask_later(struct tb_cu_kernel *k)
{
    if (k->waits)
        return;
    k->waits = true;
    k->next_new = tb_cu.new_kernels;
    tb_cu.new_kernels = k;
}

/* Under the lock. */
static struct tb_cu_kernel *add(uint64_t handle, struct tb_cu_code *code, const char *symbol)
{
    struct tb_cu_kernel *k = tb_cu_small(sizeof(*k));
    char name[200];

    if (!k)
        return NULL;
    tb_cu_short_name(symbol, name, sizeof(name));
    k->handle = handle;
    k->code = code;
    k->symbol = tb_cu_text(symbol);
    k->name = tb_cu_text(name);
    k->extra = "";
    k->site_hash = tb_cu_mix_text(7, symbol);
    if (code && code->image)
        for (size_t i = 0; i < 8; i++)
            k->site_hash = tb_cu_mix(k->site_hash, code->image->hash[i]);
    k->filtered = !wanted(k);
    tb_cu.chosen |= !k->filtered;
    find_info(k);
    k->learns = tb_cu_learns(k);
    if (k->learns)
        __atomic_store_n(&tb_cu.learners, 1, __ATOMIC_RELAXED);
    (void)tb_cu_map_put(&tb_cu.kernels, handle, k);
    tb_cu_kernels_changed();
    if (tb_cu.config->flags & TB_CFG_DEFER)
        ask_later(k);
    return k;
}

void tb_cu_kernel_add(uint64_t handle, uint64_t code, const char *name)
{
    tb_cu_lock();
    struct tb_cu_code *c = tb_cu_map_get(&tb_cu.codes, code);
    struct tb_cu_kernel *k = tb_cu_map_get(&tb_cu.kernels, handle);
    if (!k || k->code != c || strcmp(k->symbol, name) != 0)
        (void)add(handle, c, name);
    tb_cu_unlock();
}

/* Parameters as the driver tells them; from 12.4 on. Threads may ask at once: each for itself, and
 * what they find, which is the same, is taken over at once. */
static bool ask_params(struct tb_cu_kernel *k)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    struct tb_cu_param list[TB_CU_PARAMS];
    size_t offset, size;
    uint32_t n = 0, bytes = 0, words = 0;
    bool gaps = false;
    bool any = d->cuFuncGetParamInfo != NULL;

    while (any && n < TB_CU_PARAMS) {
        CUresult r = d->cuFuncGetParamInfo((CUfunction)(uintptr_t)k->handle, n, &offset, &size);
        if (r != CUDA_SUCCESS && d->cuKernelGetParamInfo)
            r = d->cuKernelGetParamInfo((CUkernel)(uintptr_t)k->handle, n, &offset, &size);
        if (r != CUDA_SUCCESS || offset + size > TB_CU_PARAM_BYTES)
            break;
        gaps = gaps || offset != bytes;
        words += words == n && size == 8 && offset == 8 * (size_t)n;
        list[n++] = (struct tb_cu_param){(uint16_t)offset, (uint16_t)size};
        bytes = (uint32_t)(offset + size);
    }
    tb_cu_lock();
    struct tb_cu_param *param = k->param || !n ? NULL : tb_cu_small(n * sizeof(*list));
    if (param) {
        memcpy(param, list, n * sizeof(*list));
        k->param = param;
        k->params = n;
        k->param_bytes = bytes;
        k->words = words;
        k->gaps = gaps;
    }
    bool known = !n || k->param;
    tb_cu_unlock();
    return any && known;
}

/* Behind a reset there is no context until the job makes one. */
static bool is_too_early(CUresult r)
{
    return (tb_cu.config->flags & TB_CFG_DEFER) &&
           (r == CUDA_ERROR_INVALID_CONTEXT || r == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

struct tb_cu_alloc *tb_cu_variable(uint64_t code, const char *name, uint32_t flags,
                                   CUdeviceptr address, size_t bytes)
{
    struct tb_cu_alloc *a = tb_cu_alloc_at(address);
    bool shared = flags & TB_GLOBAL_MANAGED;

    if (!a) {
        tb_cu_alloc_add(address, bytes, tb_cu_tls.device, TB_CU_GLOBAL);
        a = tb_cu_alloc_at(address);
        if (a)
            a->code = code;
    }
    if (a && ((!a->name && name) || (shared && !a->unstable))) {
        a->name = a->name || !name ? a->name : tb_cu_name(name);
        a->unstable = a->unstable || shared;
        tb_cu_alloc_changed(a);
    }
    return a;
}

uint32_t tb_cu_global_flags(const struct tb_cu_code *c, const char *name)
{
    const struct tb_wire_kernels *h = c && c->image ? c->image->info : NULL;
    uint32_t flags = 0;

    if (!h || !name)
        return 0;
    const struct tb_wire_global *globals = tb_wire_global_list(h);
    const char *text = tb_wire_text(h);
    for (uint32_t i = 0; i < h->globals; i++)
        if (strcmp(text + globals[i].text, name) == 0)
            flags |= globals[i].flags;
    return flags;
}

/* The module's context is current. */
static CUresult find_variable(const struct tb_cu_kernel *k, const char *name, CUdeviceptr *address,
                              size_t *bytes)
{
    const struct tb_cu_driver *d = &tb_cu.driver;

    if (k->code->library && d->cuLibraryGetGlobal)
        return d->cuLibraryGetGlobal(address, bytes, (CUlibrary)(uintptr_t)k->code->handle, name);
    if (d->cuModuleGetGlobal_v2)
        return d->cuModuleGetGlobal_v2(address, bytes, (CUmodule)(uintptr_t)k->code->handle, name);
    return CUDA_ERROR_NOT_FOUND;
}

/* The @n variables in @found, of the current device, become @k's, unless another thread was first.
 * Under the lock */
static void take_variables(struct tb_cu_kernel *k, const struct tb_cu_global *found, uint32_t n)
{
    int device = tb_cu_tls.device;
    uint64_t bit = device >= 0 && device < 64 ? UINT64_C(1) << device : 0;
    struct tb_cu_global *list =
        k->asked & bit ? NULL : tb_cu_small((k->globals + n + 1) * sizeof(*list));

    if (!list)
        return;
    if (k->globals)
        memcpy(list, k->global, k->globals * sizeof(*list));
    memcpy(list + k->globals, found, n * sizeof(*list));
    k->global = list;
    k->globals += n;
    k->asked |= bit;
}

/* Where module variables lie that the kernel uses; the module's context is current. False: it must
 * be asked again. */
static bool ask_globals(struct tb_cu_kernel *k, uint32_t n)
{
    const struct tb_wire_kernels *h = k->code->image->info;
    const struct tb_wire_global *globals = tb_wire_global_list(h);
    const char *text = tb_wire_text(h);
    uint32_t found = 0;

    tb_cu_here();
    tb_cu_lock();
    struct tb_cu_global *list = tb_cu_small(n * sizeof(*list));
    tb_cu_unlock();
    for (uint32_t i = 0; list && i < n; i++) {
        const struct tb_wire_global *g = &globals[k->info->first_global + i];
        CUdeviceptr address = 0;
        size_t bytes = 0;
        if ((g->flags & TB_GLOBAL_FIXED) && !(g->flags & TB_GLOBAL_WRITE))
            continue;
        CUresult r = find_variable(k, text + g->text, &address, &bytes);
        if (is_too_early(r))
            return false;
        if (r != CUDA_SUCCESS || !bytes) {
            tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", k->name,
                        "a module variable that it uses was not found");
            continue;
        }
        tb_cu_lock();
        struct tb_cu_alloc *a =
            tb_cu_variable(k->code->handle, text + g->text, g->flags, address, bytes);
        if (a)
            list[found++] = (struct tb_cu_global){a, g->flags};
        tb_cu_unlock();
    }
    tb_cu_lock();
    if (list)
        take_variables(k, list, found);
    tb_cu_unlock();
    return true;
}

/* May it use variables of its module that are not in k->global? */
static bool uses_unlisted(const struct tb_cu_kernel *k)
{
    const struct tb_cu_image *i = k->code ? k->code->image : NULL;

    if (k->info && !(k->info->flags & (TB_KERNEL_UNTRACED_READ | TB_KERNEL_UNTRACED_WRITE)))
        return false;
    return !i || !i->info || i->info->variables;
}

/* Once for each kernel, when it is launched first. */
static void tell_unlisted(struct tb_cu_kernel *k)
{
    if (uses_unlisted(k) && !__atomic_exchange_n(&k->told, true, __ATOMIC_RELAXED))
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", "module variables",
                    "kernels whose code is not known, or not followed, may use some unseen");
}

/* What of it cannot be known, once for each kernel. */
static void tell(const struct tb_cu_kernel *k)
{
    uint32_t flags = k->info ? k->info->flags : 0;

    if (k->blind)
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", k->name,
                    "its parameters cannot be known: this driver does not tell them");
    if (flags & TB_KERNEL_HEAP)
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", k->name,
                    "what it prints, or keeps in the device's heap, is not hashed");
}

static void ask(struct tb_cu_kernel *k)
{
    bool known = true;

    k->blind = !ask_params(k);
    k->learns = tb_cu_learns(k);
    if (k->info && k->info->globals) {
        struct tb_cu_visit v;
        tb_cu_visit(k->code->library ? NULL : k->code->context, &v);
        known = ask_globals(k, k->info->globals);
        tb_cu_return(&v);
    }
    if (!known) {
        tb_cu_lock();
        ask_later(k);
        tb_cu_unlock();
        return;
    }
    tell(k);
    __atomic_store_n(&k->ready, true, __ATOMIC_RELEASE);
}

void tb_cu_kernel_globals(struct tb_cu_kernel *k)
{
    int device;

    if (!k->info || !k->info->globals || !k->code->library || !k->ready || !tb_cu_tls.may_call)
        return;
    tb_cu_here();
    device = tb_cu_tls.device;
    if (device >= 0 && device < 64 && !(k->asked >> device & 1))
        (void)ask_globals(k, k->info->globals);
}

/* It was got in a way that no call told. */
static struct tb_cu_kernel *stranger(uint64_t handle)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    const char *symbol = NULL;
    CUmodule module = NULL;
    bool may = tb_cu_tls.may_call;

    if (may && d->cuFuncGetName)
        (void)d->cuFuncGetName(&symbol, (CUfunction)(uintptr_t)handle);
    if (may && !symbol && d->cuKernelGetName)
        (void)d->cuKernelGetName(&symbol, (CUkernel)(uintptr_t)handle);
    if (may && d->cuFuncGetModule)
        (void)d->cuFuncGetModule(&module, (CUfunction)(uintptr_t)handle);
    tb_cu_lock();
    struct tb_cu_kernel *k = add(handle, tb_cu_map_get(&tb_cu.codes, (uint64_t)(uintptr_t)module),
                                 symbol ? symbol : "unnamed");
    tb_cu_unlock();
    return k;
}

struct tb_cu_kernel *tb_cu_kernel_find(struct tb_cu_tls *tls, uint64_t handle)
{
    uint64_t changes = __atomic_load_n(&tb_cu.kernel_changes, __ATOMIC_ACQUIRE);

    if (tls->kernel_changes != changes)
        memset(tls->kernel, 0, sizeof(tls->kernel));
    tls->kernel_changes = changes;
    tb_cu_lock();
    struct tb_cu_kernel *k = tb_cu_map_get(&tb_cu.kernels, handle);
    tb_cu_unlock();
    if (k && k->ready) {
        tell_unlisted(k);
        tls->kernel[TB_CU_SEEN_AT(handle)] = (struct tb_cu_seen){handle, k};
        return k;
    }
    if (!k)
        k = stranger(handle);
    if (k && tls->may_call)
        ask(k);
    else if (k)
        k->blind = true; /* until it may be asked */
    if (k)
        tell_unlisted(k);
    return k;
}

void tb_cu_kernels_ask(void)
{
    tb_cu_lock();
    struct tb_cu_kernel *k = tb_cu.new_kernels;
    tb_cu.new_kernels = NULL;
    tb_cu_unlock();
    for (struct tb_cu_kernel *next; k; k = next) {
        next = k->next_new;
        k->waits = false; /* nobody else takes what is in the list */
        if (!k->ready)
            ask(k);
    }
}

void tb_cu_kernels_forget(void)
{
    for (uint32_t i = 0; i < tb_cu.kernels.capacity; i++) {
        uint64_t key = tb_cu.kernels.slot[i].key;
        struct tb_cu_kernel *k = key ? tb_cu_map_get(&tb_cu.kernels, key) : NULL;
        if (!k || !k->globals || !k->code || !k->code->library)
            continue;
        k->globals = 0;
        k->asked = 0;
        __atomic_store_n(&k->ready, false, __ATOMIC_RELEASE);
        tb_cu_kernels_changed();
        if (tb_cu.config->flags & TB_CFG_DEFER)
            ask_later(k);
    }
}
