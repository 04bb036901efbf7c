/*
 * softgpu/mem/index.h - disjoint address ranges, each with a value of fixed size; found without a
 * lock, because clients ask for the owner of a pointer 10^4 to 10^5 times a training step.
 *
 * Readers copy under a sequence count and try again when a writer was there meanwhile; arrays that
 * were outgrown stay until sg_index_free(), so that a late reader never touches freed memory (they
 * double, so all old ones together are no larger than the newest).
 */
#ifndef SG_MEM_INDEX_H
#define SG_MEM_INDEX_H

#include "common/common.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_INDEX_WORDS_MAX 16

struct sg_index;

/** sg_index_new - @words: size of a value in 8-byte words, 1 to SG_INDEX_WORDS_MAX */
TB_MUST_CHECK enum tb_status sg_index_new(size_t words, struct sg_index **out,
                                          struct tb_error *err);
void sg_index_free(struct sg_index *ix);

/** sg_index_put - add [@addr, @addr + @size); TB_ERR_EXISTS where it meets another one,
 * TB_ERR_ARG if it is empty or wraps. Threads: any. */
TB_MUST_CHECK enum tb_status sg_index_put(struct sg_index *ix, uint64_t addr, uint64_t size,
                                          const uint64_t *value, struct tb_error *err);
/** sg_index_update - another value for the range that begins at @addr; false: there is none */
bool sg_index_update(struct sg_index *ix, uint64_t addr, const uint64_t *value);
/** sg_index_remove - drop the range that begins at @addr; @value may be NULL; false: none */
bool sg_index_remove(struct sg_index *ix, uint64_t addr, uint64_t *value);

/** sg_index_next - the lowest range with a byte at or above @addr
 *
 * @base, @size and @value may be NULL. Threads: any. Blocks: no, unless writers never pause. */
bool sg_index_next(const struct sg_index *ix, uint64_t addr, uint64_t *base, uint64_t *size,
                   uint64_t *value);
/** sg_index_find - the same, if it holds @addr */
bool sg_index_find(const struct sg_index *ix, uint64_t addr, uint64_t *base, uint64_t *size,
                   uint64_t *value);
size_t sg_index_count(const struct sg_index *ix);

#endif
