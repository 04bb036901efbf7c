/*
 * What the writer and the reader of a trace share: hashes, parsed sites, the schema's texts.
 *
 * FORMAT.md defines every byte that these functions produce.
 */
#ifndef TB_STORE_STORE_INTERNAL_H
#define TB_STORE_STORE_INTERNAL_H

#include <sqlite3.h>

#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"
#include "store/store.h"

#define TB_STORE_MIN_READER 1 /* oldest reader that understands what this writer writes */
/* Feature bits; a reader refuses unknown ones in the low half. DEVICE: work of a GPU (kinds of
 * events from 6 on, sites with more than a name, mode q, fingerprints of kinds 5 and 6); set by the
 * first of it. */
#define TB_STORE_FEATURE_DEVICE 1u
#define TB_STORE_FEATURES TB_STORE_FEATURE_DEVICE               /* those that this reader knows */
#define TB_STORE_ELSEWHERE "twinbit trace recorded elsewhere\n" /* head of a placeholder file */

/* ---------------------------------------------------------------- hash.c */

/** tb_hash128 - XXH3-128, seed 0: low half, then high half, little-endian */
void tb_hash128(const void *data, size_t n, uint8_t out[16]);
/** tb_hash_register - make the SQL function tb_check(...), the row checksum, known to @db */
int tb_hash_register(sqlite3 *db);

/* What a site says about one access, in the words of the digest. */
enum tb_trait {
    TB_TRAIT_KIND = 0x0f, /* low bits: the fp_kind that is not stored because the site implies it */
    TB_TRAIT_DIGEST = 0x10, /* mode w, h, s, g: part of the segment digest */
};

/** struct tb_site_full - a site and what the store derives from it; one allocation, free() it */
struct tb_site_full {
    struct tb_site site;
    const uint8_t *traits; /* site.access_count */
};

/** struct tb_seghash - running digest and checksum of one segment; opaque, free() it */
struct tb_seghash;
struct tb_seghash *tb_seghash_new(void);
void tb_seghash_reset(struct tb_seghash *h);
void tb_seghash_add(struct tb_seghash *h, const struct tb_site_full *site, uint64_t id,
                    const struct tb_store_event *e, const struct tb_store_access *a);
/** tb_seghash_get - values so far; more may be added afterwards */
void tb_seghash_get(const struct tb_seghash *h, uint8_t digest[16], int64_t *check);
/** tb_coverage_add - add a coverage row to a segment's order-free coverage digest */
void tb_coverage_add(uint8_t sum[16], unsigned severity, const char *kind, const char *subject,
                     const char *detail, uint64_t count);

/* ---------------------------------------------------------------- site.c */

/**
 * tb_site_parse - parse a site text (recorder/wire.h) of @n bytes
 * Returns: TB_OK, a malloc'ed site with id 0 in *@out; TB_ERR_FORMAT names the line; TB_ERR_NOMEM.
 */
enum tb_status tb_site_parse(const char *text, size_t n, struct tb_site_full **out,
                             struct tb_error *err) TB_MUST_CHECK;
/* ---------------------------------------------------------------- schema.c, views.c */

extern const char tb_schema_tables[];
extern const char tb_schema_views[];

/* ---------------------------------------------------------------- map.c */

/** struct tb_map - 128-bit hash to 32-bit id; zero-initialise */
struct tb_map_slot {
    uint8_t key[16];
    uint32_t id; /* 0: empty */
};
struct tb_map {
    struct tb_map_slot *slot;
    size_t cap, count;
};
/** tb_map_get - id of @key, 0 if there is none */
uint32_t tb_map_get(const struct tb_map *m, const uint8_t key[16]);
/** tb_map_put - add @key, which must not be there; false: no memory, nothing changed */
bool tb_map_put(struct tb_map *m, const uint8_t key[16], uint32_t id);
void tb_map_release(struct tb_map *m);

/* ---------------------------------------------------------------- place.c */

/** tb_place_network - true if the folder of @path is on a network or FUSE file system */
bool tb_place_network(const char *path);
/** tb_place_locked - true if another process has the database @path open */
bool tb_place_locked(int fd);
/** tb_place_ballast - an unnamed file of @bytes in the folder of @path, freed by close(); -1: none
 */
int tb_place_ballast(const char *path, uint64_t bytes);
/** tb_place_copy - copy a file; @exclusive: the target must not exist. On failure the target is
 * removed */
enum tb_status tb_place_copy(const char *from, const char *to, bool exclusive,
                             struct tb_error *err) TB_MUST_CHECK;
/* replaced.c */

/** tb_replaced_aside - the trace at @path, with what lies beside it, is PATH.replaced from now on
 */
enum tb_status tb_replaced_aside(const char *path, struct tb_error *err) TB_MUST_CHECK;
/** tb_replaced_back - it is what it was, over what is there by now; nothing if it is not aside */
void tb_replaced_back(const char *path);
void tb_replaced_drop(const char *path);

/* place.c */

/** tb_place_join - malloc'ed @a followed by @b; NULL: no memory */
char *tb_place_join(const char *a, const char *b);
/** tb_place_sqlite - malloc'ed name of @path for SQLite, to which ":memory:" and "file:..." are no
 * files; NULL: no memory */
char *tb_place_sqlite(const char *path);

#endif
