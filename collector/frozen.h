/*
 * frozen - a folder of files goes into a trace and comes back from one; private to collector/.
 *
 * Traces may come from others: what leads out of the folder, is no plain file or is too much, is
 * refused. One thread.
 */
#ifndef TB_COLLECTOR_FROZEN_H
#define TB_COLLECTOR_FROZEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/common.h"
#include "fingerprint/fingerprint.h"
#include "store/store.h"

#define TB_FROZEN_BYTES (1ull << 30) /* of a folder that is frozen, at most */
#define TB_FROZEN_FILES 100000u

/** struct tb_frozen_file - a plain file of the folder */
struct tb_frozen_file {
    char *path; /* in the folder */
    uint64_t bytes;
    uint32_t mode;
    struct tb_fp fp; /* of its bytes, once they were read */
};

/** struct tb_frozen - files by path; zero-initialise, then release */
struct tb_frozen {
    struct tb_frozen_file *file;
    size_t count, room;
    uint64_t bytes;
    uint64_t special; /* links, sockets and the like that were left out */
};

void tb_frozen_release(struct tb_frozen *f);
/** tb_frozen_find - the file at @path; NULL: none */
const struct tb_frozen_file *tb_frozen_find(const struct tb_frozen *f, const char *path);

/**
 * tb_frozen_look - the plain files below @folder, by path; links are not followed
 * Returns: TB_ERR_IO if the folder cannot be read; TB_ERR_NOMEM.
 */
enum tb_status tb_frozen_look(struct tb_frozen *f, const char *folder,
                              struct tb_error *err) TB_MUST_CHECK;

/** tb_frozen_fits - no more than a trace takes, and @most bytes */
bool tb_frozen_fits(const struct tb_frozen *f, uint64_t most);

/**
 * tb_frozen_keep - read each file of @f below @folder; into @store as @name, unless @store is NULL
 * Files that are gone or were cut meanwhile leave @f.
 */
enum tb_status tb_frozen_keep(struct tb_frozen *f, const char *folder, struct tb_store *store,
                              const char *name, struct tb_error *err) TB_MUST_CHECK;

/**
 * tb_frozen_unpack - the files that @t has as @name, into the empty @folder
 * @was: the folder that they were in. Where Triton wrote that path into them, @folder stands now.
 * Returns: TB_ERR_CORRUPT for paths that lead elsewhere, damaged rows; TB_ERR_LIMIT for too much;
 * TB_ERR_IO.
 */
enum tb_status tb_frozen_unpack(struct tb_frozen *f, struct tb_trace *t, const char *name,
                                const char *was, const char *folder,
                                struct tb_error *err) TB_MUST_CHECK;

#endif
