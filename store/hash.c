#include "store/store_internal.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---------------------------------------------------------------- offsets */

uint64_t tb_store_packed(const struct tb_store_access *a)
{
    return a->offset | (uint64_t)a->place << TB_PLACE_SHIFT;
}

void tb_store_unpack(struct tb_store_access *a, uint64_t packed)
{
    bool memory = a->alloc < TB_ALLOC_RNG;

    a->offset = memory ? packed & ((1ull << TB_PLACE_SHIFT) - 1) : packed;
    a->place = memory ? (uint32_t)(packed >> TB_PLACE_SHIFT) : 0;
}

/* Flags that say how an event was recorded, not what it did. */
#define DIGEST_FLAGS ((uint16_t)~TB_EVF_READS_HASHED)

struct tb_seghash {
    XXH3_state_t digest, check;
};

static uint8_t *put64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, 8);
    return p + 8;
}

static void store128(uint8_t out[16], XXH128_hash_t h)
{
    put64(put64(out, h.low64), h.high64);
}

void tb_hash128(const void *data, size_t n, uint8_t out[16])
{
    store128(out, XXH3_128bits(data, n));
}

struct tb_seghash *tb_seghash_new(void)
{
    void *p = NULL;

    if (posix_memalign(&p, 64, sizeof(struct tb_seghash)) != 0)
        return NULL;
    tb_seghash_reset(p);
    return p;
}

void tb_seghash_reset(struct tb_seghash *h)
{
    XXH3_INITSTATE(&h->digest);
    XXH3_INITSTATE(&h->check);
    (void)XXH3_128bits_reset(&h->digest);
    (void)XXH3_64bits_reset(&h->check);
}

/* The part of the digest that one event has before its accesses. */
static uint8_t *digest_head(uint8_t *p, const struct tb_site_full *site,
                            const struct tb_store_event *e)
{
    uint16_t flags = e->flags & DIGEST_FLAGS;

    memcpy(p, site->site.hash, 16);
    p = put64(p + 16, e->args);
    *p++ = e->kind;
    *p++ = (uint8_t)flags;
    *p++ = (uint8_t)(flags >> 8);
    return p;
}

static uint8_t *check_head(uint8_t *p, uint64_t id, const struct tb_store_event *e)
{
    p = put64(p, id);
    p = put64(p, e->thread);
    p = put64(p, e->kind | (uint64_t)e->flags << 8);
    p = put64(p, e->site | (uint64_t)e->range << 32);
    p = put64(p, e->seq);
    p = put64(p, e->open);
    p = put64(p, e->step);
    p = put64(p, e->args);
    return put64(p, e->time_ns);
}

/*
 * Fingerprints of what work of a GPU read count, where there are some: who wrote the bytes may not
 * have been seen. Those of operators do not, they follow from the writes.
 */
static bool reads_count(const struct tb_store_event *e)
{
    return e->kind >= TB_EV_LAUNCH && e->kind <= TB_EV_GRAPH;
}

static bool in_digest(const struct tb_site_full *site, uint32_t i, const struct tb_store_access *a,
                      bool reads)
{
    return (site->traits[i] & TB_TRAIT_DIGEST) ||
           (reads && site->site.access[i].mode == 'r' && a->fp_kind != TB_FP_NONE);
}

void tb_seghash_add(struct tb_seghash *h, const struct tb_site_full *site, uint64_t id,
                    const struct tb_store_event *e, const struct tb_store_access *a)
{
    enum { DIGEST_ONE = 17, CHECK_ONE = 33, ROOM = 16 };
    uint8_t digest[32 + ROOM * DIGEST_ONE], check[72 + ROOM * CHECK_ONE];
    uint8_t *d = digest_head(digest, site, e), *c = check_head(check, id, e);
    static const uint8_t none[16];
    bool reads = reads_count(e);

    for (uint32_t i = 0; i < site->site.access_count; i++) {
        if (i % ROOM == 0 && i > 0) {
            (void)XXH3_128bits_update(&h->digest, digest, (size_t)(d - digest));
            (void)XXH3_64bits_update(&h->check, check, (size_t)(c - check));
            d = digest;
            c = check;
        }
        const uint8_t *fp = a[i].fp_kind == TB_FP_NONE ? none : a[i].fp;
        if (in_digest(site, i, &a[i], reads)) {
            *d = a[i].fp_kind; /* of what was left alone it is chance whether it was hashed */
            memcpy(d + 1, a[i].fp_kind == TB_FP_UNCHANGED ? none : fp, 16);
            d += DIGEST_ONE;
        }
        c = put64(put64(c, a[i].alloc), tb_store_packed(&a[i]));
        *c = a[i].fp_kind;
        memcpy(c + 1, fp, 16);
        c += 17;
    }
    (void)XXH3_128bits_update(&h->digest, digest, (size_t)(d - digest));
    (void)XXH3_64bits_update(&h->check, check, (size_t)(c - check));
}

void tb_seghash_get(const struct tb_seghash *h, uint8_t digest[16], int64_t *check)
{
    store128(digest, XXH3_128bits_digest(&h->digest));
    *check = (int64_t)XXH3_64bits_digest(&h->check);
}

void tb_coverage_add(uint8_t sum[16], unsigned severity, const char *kind, const char *subject,
                     const char *detail, uint64_t count)
{
    const char *const part[] = {kind, subject, detail};
    uint8_t head[16], row[16];
    uint64_t have[2], add[2];
    XXH3_state_t st;

    XXH3_INITSTATE(&st);
    (void)XXH3_128bits_reset(&st);
    put64(put64(head, severity), count);
    (void)XXH3_128bits_update(&st, head, sizeof(head));
    for (size_t i = 0; i < TB_ARRAY_LEN(part); i++)
        (void)XXH3_128bits_update(&st, part[i], strlen(part[i]) + 1);
    store128(row, XXH3_128bits_digest(&st));
    memcpy(have, sum, 16);
    memcpy(add, row, 16);
    put64(put64(sum, le64toh(have[0]) + le64toh(add[0])), le64toh(have[1]) + le64toh(add[1]));
}

/* ---------------------------------------------------------------- tb_check() */

static void check_value(XXH3_state_t *st, sqlite3_value *v)
{
    int type = sqlite3_value_type(v);
    uint8_t head[9];
    const void *bytes = NULL;
    size_t n = 0;
    uint64_t word = 0;

    if (type == SQLITE_TEXT)
        bytes = sqlite3_value_text(v);
    else if (type != SQLITE_NULL && type != SQLITE_INTEGER)
        bytes = sqlite3_value_blob(v);
    if (bytes)
        n = (size_t)sqlite3_value_bytes(v);
    word = type == SQLITE_INTEGER ? (uint64_t)sqlite3_value_int64(v) : n;
    head[0] = (uint8_t)type;
    put64(head + 1, word);
    (void)XXH3_64bits_update(st, head, sizeof(head));
    if (n > 0)
        (void)XXH3_64bits_update(st, bytes, n);
}

static void check_function(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    XXH3_state_t st;

    XXH3_INITSTATE(&st);
    (void)XXH3_64bits_reset(&st);
    for (int i = 0; i < n; i++)
        check_value(&st, v[i]);
    sqlite3_result_int64(ctx, (sqlite3_int64)XXH3_64bits_digest(&st));
}

int tb_hash_register(sqlite3 *db)
{
    return sqlite3_create_function_v2(db, "tb_check", -1,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL,
                                      check_function, NULL, NULL, NULL);
}
