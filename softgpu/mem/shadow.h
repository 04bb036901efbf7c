/*
 * softgpu/mem/shadow.h - two bits for each byte of the address space, kept by strict devices: has
 * it been written since it was allocated, and does it belong to no allocation though its granule
 * does?
 *
 * Start at sg_shadow_alloc(), which is told of every allocation. The bits lie in two reserved
 * ranges of an eighth of the space each and cost memory only where something is set. Addresses
 * outside the space are the host's: written, and nobody's gap. Threads: any; bytes of one word that
 * two threads change at once are changed one after the other.
 */
#ifndef SG_MEM_SHADOW_H
#define SG_MEM_SHADOW_H

#include "softgpu/mem/mem.h"

struct sg_shadow {
    uint64_t base, span;      /* of the space */
    uint64_t *defined, *gaps; /* a bit a byte */
};

TB_MUST_CHECK enum tb_status sg_shadow_new(const struct sg_mem *m, struct sg_shadow **out,
                                           struct tb_error *err);
void sg_shadow_free(struct sg_shadow *s); /* NULL is legal */

/** sg_shadow_alloc - [@addr, @addr + @size) is an allocation: what is left of its last granule is a
 * gap; @defined: its bytes count as written */
void sg_shadow_alloc(struct sg_shadow *s, uint64_t addr, uint64_t size, bool defined);
/** sg_shadow_drop - the granules of that range are nothing: not written, no gaps */
void sg_shadow_drop(struct sg_shadow *s, uint64_t addr, uint64_t size);

void sg_shadow_define(struct sg_shadow *s, uint64_t addr, uint64_t n, bool defined);
void sg_shadow_gap(struct sg_shadow *s, uint64_t addr, uint64_t n, bool gap);
/** sg_shadow_copy - what @dst holds is now as written as what @src holds; they may overlap */
void sg_shadow_copy(struct sg_shadow *s, uint64_t dst, uint64_t src, uint64_t n);

/** sg_shadow_undefined - offset of the first byte that was never written, @n: there is none */
uint64_t sg_shadow_undefined(const struct sg_shadow *s, uint64_t addr, uint64_t n);
/** sg_shadow_in_gap - offset of the first byte in a gap, @n: there is none */
uint64_t sg_shadow_in_gap(const struct sg_shadow *s, uint64_t addr, uint64_t n);

/* The same for bits of somebody's own, e.g. of shared memory: from bit @at on. */
void sg_bits_set(uint64_t *bits, uint64_t at, uint64_t n, bool value);
uint64_t sg_bits_find(const uint64_t *bits, uint64_t at, uint64_t n, bool value);
/** sg_bits_get - @n bits, at most 64, the first in bit 0 */
uint64_t sg_bits_get(const uint64_t *bits, uint64_t at, unsigned n);
void sg_bits_put(uint64_t *bits, uint64_t at, unsigned n, uint64_t value);

#endif
