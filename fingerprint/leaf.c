/* XXH3-128 of a leaf, and the choice of the code that computes it. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fingerprint/fp_internal.h"

#define SMALL 240 /* XXH3 uses no vector code up to here: call nothing, go through no pointer */

typedef XXH128_hash_t one_fn(const void *src, size_t n);

static XXH128_hash_t builtin_one(const void *src, size_t n)
{
    return XXH3_128bits(src, n);
}

/*
 * The one mutable object of this folder. Written by tb_fp_init() alone, which its caller runs
 * before any other thread uses this folder; read by everybody, with no effect on any value.
 */
static struct {
    one_fn *one;      /* any length */
    fp_full_fn *full; /* whole leaves; NULL: use @one */
    char name[48];
} chosen = {builtin_one, NULL, "builtin"};

static struct tb_fp_leaf leaf_of(XXH128_hash_t h)
{
    return (struct tb_fp_leaf){h.low64, h.high64};
}

static bool same(struct tb_fp_leaf x, struct tb_fp_leaf y)
{
    return x.lo == y.lo && x.hi == y.hi;
}

struct tb_fp_leaf tb_fp_leaf_hash(const void *src, size_t n)
{
    struct tb_fp_leaf d;

    if (n <= SMALL)
        return leaf_of(XXH3_128bits(src, n));
    if (n != TB_FP_LEAF)
        return leaf_of(chosen.one(src, n));
    fp_full_leaves(src, 1, &d);
    return d;
}

void fp_full_leaves(const uint8_t *src, size_t count, struct tb_fp_leaf *out)
{
    if (chosen.full) {
        chosen.full(src, count, out);
        return;
    }
    for (size_t k = 0; k < count; k++)
        out[k] = leaf_of(chosen.one(src + k * TB_FP_LEAF, TB_FP_LEAF));
}

/* What a candidate must get right before it is chosen: a libxxhash may be broken or not be one. */
static void fill_probe(uint8_t probe[3 * TB_FP_LEAF])
{
    uint32_t x = 1;

    for (size_t k = 0; k < 3 * TB_FP_LEAF; k++) {
        x = x * 1664525u + 1013904223u;
        probe[k] = (uint8_t)(x >> 24);
    }
}

static bool one_works(one_fn *one, const uint8_t *probe)
{
    static const size_t lengths[] = {0, 3, 8, 16, 128, 240, 241, 1024, 1025, TB_FP_LEAF};

    for (size_t k = 0; k < TB_ARRAY_LEN(lengths); k++)
        if (!same(leaf_of(one(probe + k, lengths[k])), leaf_of(builtin_one(probe + k, lengths[k]))))
            return false;
    return true;
}

static bool full_works(fp_full_fn *full, const uint8_t *probe)
{
    struct tb_fp_leaf d[2];

    full(probe + 1, 2, d);
    return same(d[0], leaf_of(builtin_one(probe + 1, TB_FP_LEAF))) &&
           same(d[1], leaf_of(builtin_one(probe + 1 + TB_FP_LEAF, TB_FP_LEAF)));
}

/* libxxhash's run-time dispatch, or NULL; the library stays loaded. */
static one_fn *load_dispatch(unsigned *version)
{
    void *lib = dlopen("libxxhash.so.0", RTLD_NOW | RTLD_LOCAL);
    unsigned (*number)(void);
    one_fn *one;

    if (!lib)
        return NULL;
    *(void **)&one = dlsym(lib, "XXH3_128bits_dispatch");
    *(void **)&number = dlsym(lib, "XXH_versionNumber");
    if (!one || !number) {
        dlclose(lib);
        return NULL;
    }
    *version = number();
    return one;
}

void tb_fp_init(void)
{
    int saved = errno;
    uint8_t probe[3 * TB_FP_LEAF];
    unsigned v = 0;
    one_fn *one = load_dispatch(&v);
    bool avx2 = fp_avx2_usable();

    fill_probe(probe);
    if (one && !one_works(one, probe))
        one = NULL;
    if (avx2 && !full_works(fp_full_leaves_avx2, probe))
        avx2 = false;
    chosen.one = one ? one : builtin_one;
    chosen.full = avx2 ? fp_full_leaves_avx2 : NULL;
    if (one)
        snprintf(chosen.name, sizeof chosen.name, "%slibxxhash-dispatch %u.%u.%u",
                 avx2 ? "avx2, " : "", v / 10000 % 100, v / 100 % 100, v % 100);
    else
        snprintf(chosen.name, sizeof chosen.name, "%sbuiltin", avx2 ? "avx2, " : "");
    errno = saved;
}

const char *tb_fp_impl(void)
{
    return chosen.name;
}
