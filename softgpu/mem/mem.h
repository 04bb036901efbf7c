/*
 * softgpu/mem - the address space of all software devices, and who may touch which byte of it.
 *
 * Device, managed and pinned host memory lie in one reserved range of the process, so a device
 * address *is* the host address of its bytes and addresses are unified as CUDA documents. Pages
 * are committed when touched. For each 512-byte granule one byte says which devices may read it and
 * one which may write it (bit d: device d), so a check is two loads; host memory that was
 * registered lies outside the range and is found by a search.
 * Start at sg_mem_new() and sg_mem_ok(). Generic addresses of shared and local memory are in two
 * windows of the range that are never mapped.
 */
#ifndef SG_MEM_MEM_H
#define SG_MEM_MEM_H

#include "common/common.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_MEM_GRANULE 512u
#define SG_MEM_GRANULE_SHIFT 9
#define SG_MEM_MAX_DEVICES 8
#define SG_MEM_GUARD 65536u               /* bytes of addresses behind a guarded reservation */
#define SG_MEM_WINDOW (UINT64_C(1) << 32) /* bytes of the shared and of the local window */

struct sg_mem {
    uint64_t base, span;                  /* the reserved range */
    const uint8_t *can_read, *can_write;  /* a byte a granule, bit d: device d */
    uint64_t shared_window, local_window; /* generic address of offset 0; inside the range */
    struct sg_mem_private *priv;
};

/** sg_mem_new - reserve the address space (nothing is committed); TB_ERR_NOMEM if not even 64 GiB
 * of addresses can be had */
TB_MUST_CHECK enum tb_status sg_mem_new(struct sg_mem **out, struct tb_error *err);
void sg_mem_free(struct sg_mem *m);

/**
 * sg_mem_reserve - take @size bytes of addresses, aligned to @align (power of two, >= 512)
 * @at: preferred address, 0: any
 * Not accessible until sg_mem_commit() or sg_mem_map(). Lowest fitting addresses first, so that the
 * same calls give the same offsets; freed ranges are used again.
 */
TB_MUST_CHECK enum tb_status sg_mem_reserve(struct sg_mem *m, size_t size, size_t align,
                                            uint64_t at, uint64_t *addr, struct tb_error *err);
/** sg_mem_reserve_guarded - the same anywhere, with SG_MEM_GUARD bytes of addresses behind it that
 * nobody gets: what runs over its end is a fault, not a change of somebody else's bytes */
TB_MUST_CHECK enum tb_status sg_mem_reserve_guarded(struct sg_mem *m, size_t size, size_t align,
                                                    uint64_t *addr, struct tb_error *err);
/** sg_mem_release - give a reservation back; its pages are dropped */
void sg_mem_release(struct sg_mem *m, uint64_t addr);
/** sg_mem_quarantine - from now on released addresses are used again when @bytes more have been
 * released, so that a stale pointer meets nothing new; 0: at once */
void sg_mem_quarantine(struct sg_mem *m, uint64_t bytes);

/** sg_mem_commit - make a whole reservation readable and writable for the host; filled when first
 * touched. @size: as it was reserved.
 * Fresh pages hold zeros; a strict device may fill them otherwise. */
TB_MUST_CHECK enum tb_status sg_mem_commit(struct sg_mem *m, uint64_t addr, size_t size,
                                           struct tb_error *err);
/** sg_mem_map - map @fd at @offset there instead (VMM: one memory at several addresses) */
TB_MUST_CHECK enum tb_status sg_mem_map(struct sg_mem *m, uint64_t addr, size_t size, int fd,
                                        uint64_t offset, struct tb_error *err);
void sg_mem_unmap(struct sg_mem *m, uint64_t addr, size_t size);

/** sg_mem_drop - forget the contents of a reservation and who may use it; it stays reserved */
void sg_mem_drop(struct sg_mem *m, uint64_t addr);

/** sg_mem_allow - set who may read and write the granules of a range */
void sg_mem_allow(struct sg_mem *m, uint64_t addr, size_t size, uint8_t read, uint8_t write);

/** sg_mem_register - host memory outside the range that devices of @mask may use; any alignment */
TB_MUST_CHECK enum tb_status sg_mem_register(struct sg_mem *m, uint64_t addr, size_t size,
                                             uint8_t mask, struct tb_error *err);
void sg_mem_unregister(struct sg_mem *m, uint64_t addr);
bool sg_mem_ok_outside(const struct sg_mem *m, uint64_t addr, uint64_t n, uint8_t device_bit);

/** sg_mem_ok - may the device read (@write: write) the @n bytes at @addr? @n is 1 to 512
 *
 * Threads: any, while nobody frees what is being used. */
static inline bool sg_mem_ok(const struct sg_mem *m, uint64_t addr, uint32_t n, uint8_t device_bit,
                             bool write)
{
    uint64_t off = addr - m->base;

    if (off < m->span && n <= m->span - off) {
        const uint8_t *can = write ? m->can_write : m->can_read;
        return (can[off >> SG_MEM_GRANULE_SHIFT] & can[(off + n - 1) >> SG_MEM_GRANULE_SHIFT] &
                device_bit) != 0;
    }
    return sg_mem_ok_outside(m, addr, n, device_bit);
}

/** sg_mem_ok_range - the same for any @n, granule by granule */
bool sg_mem_ok_range(const struct sg_mem *m, uint64_t addr, uint64_t n, uint8_t device_bit,
                     bool write);

#endif
