/*
 * Strict mode while work runs: the shadow of memory (which bytes were written, where allocations
 * end) is told of allocations, copies and fills, and kernels run under the checker of exec/check.h,
 * whose reports become findings here.
 */
#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/strict.h"
#include "softgpu/exec/check.h"

#include <stdio.h>
#include <string.h>

/* Made at cuInit in strict mode, never freed: kernels of other threads may run when the process
 * ends. */
static struct sg_shadow *shadow;
static struct sg_check *check;

/* ---- reports --------------------------------------------------------------------------------- */

static void end_of(struct sg_end *e, const struct sg_check_place *p, const char *kernel)
{
    e->kernel = kernel;
    e->line = p->line;
    e->file = p->file;
    e->src_line = p->src_line;
    e->has_thread = true;
    memcpy(e->block, p->block, sizeof(e->block));
    memcpy(e->thread, p->thread, sizeof(e->thread));
    e->access = p->access;
}

/* What lies at the address, or nearest to it. */
static void near_of(struct sg_near *near, const struct sg_check_report *r)
{
    if (r->shared)
        return;
    if (r->variable) {
        *near = (struct sg_near){.addr = r->variable_addr, .size = r->variable_size};
        near->kind = "variable";
    } else if (r->piece.size) {
        *near = (struct sg_near){.addr = r->piece.addr, .size = r->piece.size};
        near->kind = "device heap";
        near->freed = r->piece.freed;
        near->allocated.call = "malloc";
        near->released.call = r->piece.freed ? "free" : NULL;
    } else {
        sg_book_near(r->address, near);
    }
    near->offset = (int64_t)(r->address - near->addr);
}

static int where(char *to, size_t n, const struct sg_check_place *p)
{
    return snprintf(to, n, "PTX line %u, block (%u,%u,%u), thread (%u,%u,%u)", p->line, p->block[0],
                    p->block[1], p->block[2], p->thread[0], p->thread[1], p->thread[2]);
}

static int what(char *to, size_t n, const struct sg_check_report *r)
{
    const char *space = r->shared ? "shared memory" : "memory";
    unsigned long long size = r->size, addr = r->address;

    switch (r->rule) {
    case SG_CHECK_UNINITIALISED:
        return snprintf(to, n, "%s of %llu bytes of %s at %#llx that were never written",
                        r->other.ptx ? "use" : r->at.access, size, space, addr);
    case SG_CHECK_RACE:
        return snprintf(
            to, n, "%s of %llu bytes of %s at %#llx, not ordered behind a %s of another thread",
            r->at.access, size, space, addr, r->other.access);
    case SG_CHECK_FREED:
        return snprintf(to, n, "%s of %llu bytes at %#llx that were freed", r->at.access, size,
                        addr);
    default:
        return snprintf(to, n, "%s of %llu bytes at %#llx, in no allocation", r->at.access, size,
                        addr);
    }
}

/* "..., 3 bytes behind device memory of 100 bytes" */
static int beside(char *to, size_t n, const struct sg_near *near, const char *name)
{
    uint64_t off = (uint64_t)near->offset;
    const char *side = near->offset < 0 ? "before" : off >= near->size ? "behind" : "in";

    if (!near->size)
        return 0;
    off = near->offset < 0 ? -off : off >= near->size ? off - near->size : off;
    return snprintf(to, n, ", %llu bytes %s %s%s%s of %llu bytes", (unsigned long long)off, side,
                    near->kind, name ? " " : " memory", name ? name : "",
                    (unsigned long long)near->size);
}

/* How much of @n bytes is full after printing @printed more. */
static size_t filled(size_t at, int printed, size_t n)
{
    size_t now = at + (printed > 0 ? (size_t)printed : 0);

    return now < n ? now : n - 1;
}

static void describe(struct sg_finding *f, const struct sg_check_report *r)
{
    char *t = f->text;
    const size_t n = sizeof(f->text);
    size_t at = filled(0, what(t, n, r), n);

    at = filled(at, beside(t + at, n - at, &f->near, r->variable), n);
    at = filled(at, snprintf(t + at, n - at, ", in kernel '%s', ", r->kernel), n);
    at = filled(at, where(t + at, n - at, &r->at), n);
    if (!r->other.ptx)
        return;
    at = filled(
        at,
        snprintf(t + at, n - at, "; %s by ", r->rule == SG_CHECK_RACE ? r->other.access : "loaded"),
        n);
    where(t + at, n - at, &r->other);
}

static enum sg_rule rule_of(const struct sg_check_report *r)
{
    switch (r->rule) {
    case SG_CHECK_UNINITIALISED:
        return SG_RULE_UNINITIALISED_READ;
    case SG_CHECK_RACE:
        return r->shared ? SG_RULE_SHARED_RACE : SG_RULE_GLOBAL_RACE;
    case SG_CHECK_FREED:
        return SG_RULE_USE_AFTER_FREE;
    default:
        return SG_RULE_OUT_OF_BOUNDS;
    }
}

static bool report(void *arg, const struct sg_launch *l, const struct sg_check_report *r)
{
    struct sg_finding f = {.rule = rule_of(r), .address = r->address, .size = r->size};

    (void)arg;
    (void)l;
    f.at = sg_strict_at();
    end_of(&f.at, &r->at, r->kernel);
    if (r->other.ptx)
        end_of(&f.other, &r->other, r->kernel);
    near_of(&f.near, r);
    f.lower = r->lower;
    f.severity = r->lower ? SG_WARNING : SG_NOTE;
    describe(&f, r);
    sg_report(&f);
    return sg_driver.opt.strict == SG_STRICT_FAIL && !r->lower;
}

/* SOFTGPU_TOOL_KERNELS: kernels that read whatever there is, and say so. */
static bool follow(void *arg, const struct sg_launch *l)
{
    (void)arg;
    return !sg_tool_kernel(&sg_driver.opt, sg_kernel_info(l->kernel)->name);
}

/* ---- what work does to memory ---------------------------------------------------------------- */

static bool written_from_the_start(const struct sg_rec *r)
{
    switch (r->a.kind) {
    case SG_ALLOC_DEVICE:
    case SG_ALLOC_VMM:
        return false;
    case SG_ALLOC_POOL:
        return r->host || (r->a.pool && sg_pool_managed(r->a.pool));
    default: /* the host's, or a module's */
        return true;
    }
}

void sg_strict_shadow_made(const struct sg_rec *r)
{
    if (shadow)
        sg_shadow_alloc(shadow, r->a.addr, r->a.size, written_from_the_start(r));
}

void sg_strict_shadow_gone(const struct sg_rec *r)
{
    if (shadow)
        sg_shadow_drop(shadow, r->a.addr, r->a.size);
}

void sg_strict_written(uint64_t addr, uint64_t n)
{
    if (shadow)
        sg_shadow_define(shadow, addr, n, true);
}

static bool is_host(uint64_t addr)
{
    struct sg_rec rec;

    return !sg_rec_find(addr, &rec) || rec.host;
}

void sg_strict_copied(uint64_t dst, uint64_t src, uint64_t n)
{
    struct sg_finding f = {.rule = SG_RULE_UNINITIALISED_READ, .size = n};
    uint64_t at = shadow ? sg_shadow_undefined(shadow, src, n) : n;

    if (!shadow)
        return;
    sg_shadow_copy(shadow, dst, src, n);
    if (at == n || !is_host(dst))
        return;
    sg_strict_written(dst, n); /* the host knows no better */
    f.at = sg_strict_at();
    f.address = src + at;
    f.lower = true;
    f.severity = SG_NOTE;
    sg_book_near(f.address, &f.near);
    snprintf(f.text, sizeof(f.text),
             "a copy to the host reads byte %llu of %llu at %#llx, which was never written",
             (unsigned long long)at, (unsigned long long)n, (unsigned long long)src);
    sg_report(&f);
}

/* ---- launches -------------------------------------------------------------------------------- */

void sg_strict_watch(struct sg_launch *l)
{
    unsigned i = 0;

    while (i < SG_MAX_WATCHERS && l->watchers[i])
        i++;
    if (check && i < SG_MAX_WATCHERS)
        l->watchers[i] = sg_check_watcher(check);
}

void sg_strict_image(const struct sg_image *image)
{
    if (shadow)
        sg_check_image(shadow, image);
}

CUresult sg_strict_init(void)
{
    struct sg_check_env env = {.races = sg_driver.opt.races, .follow = follow, .report = report};
    struct tb_error err = {0};

    if (sg_shadow_new(sg_driver.mem, &shadow, &err) == TB_OK) {
        env.shadow = shadow;
        if (sg_check_new(&env, &check, &err) == TB_OK)
            return CUDA_SUCCESS;
    }
    sg_log(1, "strict mode: %s", err.text);
    return CUDA_ERROR_OUT_OF_MEMORY;
}
