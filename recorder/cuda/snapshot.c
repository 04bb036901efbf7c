/*
 * Snapshots: the bytes of an access, copied by the device into a memfd that the collector reads
 * once a ticket behind the copy is stamped. Copies go through memory that is registered for them
 * alone.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder/cuda/engine.h"

#define PAGE 4096u

static bool stamp(struct tb_cu_ctx *c, CUstream stream, uint64_t ticket)
{
    struct tb_fpd_batch b = {
        .slots = c->slots, .scratch = c->scratch, .mask = TB_CU_SLOTS - 1, .jobs = 1};
    void *params[] = {&b};

    b.job[0] = (struct tb_fpd_job){.src = c->scratch, .bytes = 0, .ticket = ticket};
    uint32_t grid = tb_fpd_plan(&b, c->sms);
    return grid && tb_cu.driver.cuLaunchKernel(c->few, grid, 1, 1, TB_FPD_THREADS, 1, 1, 0, stream,
                                               params, NULL) == CUDA_SUCCESS;
}

static bool copy(struct tb_cu_ctx *c, CUstream stream, uint8_t *to, const struct tb_rec_view *v)
{
    const struct tb_cu_driver *d = &tb_cu.driver;

    (void)c;
    return v->sizes == NULL && d->cuMemcpyDtoHAsync_v2 &&
           d->cuMemcpyDtoHAsync_v2(to, v->address, v->bytes, stream) == CUDA_SUCCESS;
}

static const char *take(struct tb_cu_ctx *c, CUstream stream, const struct tb_rec_view *v,
                        uint64_t seq, uint32_t access)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    size_t bytes = PAGE + ((v->bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1));
    int fd = tb_cu.api->memfd("twinbit-snapshot", bytes);
    uint8_t *p =
        fd >= 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    uint64_t ticket = 0;
    bool drawn, ok = p != MAP_FAILED;

    if (ok)
        ok = d->cuMemHostRegister_v2(p + PAGE, bytes - PAGE, 0) == CUDA_SUCCESS;
    tb_cu_lock();
    drawn = ok && tb_cu_draw(c, 1, &ticket);
    tb_cu_unlock();
    ok = drawn && copy(c, stream, p + PAGE, v) && stamp(c, stream, ticket);
    if (ok) {
        *(struct tb_wire_snapshot *)(void *)p = (struct tb_wire_snapshot){
            .magic = TB_WIRE_MAGIC,
            .version = TB_WIRE_VERSION,
            .nonce = tb_cu.api->nonce(),
            .seq = seq,
            .access = access,
            .table = c->table,
            .bytes = v->bytes,
            .ticket = ticket,
        };
        ok = tb_cu.api->snapshot_fd(fd);
    }
    if (fd >= 0)
        (void)close(fd);
    return ok ? NULL : "a snapshot could not be copied from the device";
}

bool tb_cu_snapshot(struct tb_rec_thread *t, int device, void *stream, const struct tb_rec_view *v,
                    uint64_t seq, uint32_t access)
{
    struct tb_cu_ctx *c = tb_cu_ctx();
    const char *why = "no context for it";

    if (c && c->device == device)
        why = v->sizes ? "only contiguous tensors are copied from the device"
                       : take(c, stream, v, seq, access);
    if (why)
        tb_cu.api->cover(t, 1, seq, "snapshot", "device memory", why, 1);
    return !why;
}
