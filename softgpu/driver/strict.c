/* What strict mode knows of the moment: the call under way, where it came from, the work that is
 * executed; and the rules that need nothing else. */
#include "softgpu/driver/strict.h"

#include "softgpu/driver/core.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/stream.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 16

static atomic_uint_least64_t calls; /* exported functions entered so far */

/* ---- places ---------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;

    return slash ? slash + 1 : path ? path : "";
}

/* Is the code at that address the driver's or the runtime's? */
static bool is_ours(uintptr_t at)
{
    static const char *const names[] = {"libcuda.so", "libcudart.so", "libsoftgpu_rt.so",
                                        "libcupti.so"};
    Dl_info info;

    if (!dladdr((void *)at, &info))
        return false;
    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++)
        if (strncmp(base_name(info.dli_fname), names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static uintptr_t find_site(void)
{
    void *frames[FRAMES];
    int n = backtrace(frames, FRAMES);

    for (int i = 1; i < n; i++)
        if (!is_ours((uintptr_t)frames[i]))
            return (uintptr_t)frames[i] - 1; /* in the call, not behind it */
    return 0;
}

const char *sg_strict_site_text(uintptr_t site, char *out, size_t n)
{
    Dl_info info;

    *out = '\0';
    if (site && dladdr((void *)site, &info) && info.dli_fbase)
        snprintf(out, n, "%s+%#llx", base_name(info.dli_fname),
                 (unsigned long long)(site - (uintptr_t)info.dli_fbase));
    return out;
}

/* The innermost call under way, or NULL. */
static struct sg_strict_frame *frame_of(struct sg_strict_tls *tls)
{
    return tls->depth && tls->depth <= SG_STRICT_FRAMES ? &tls->frames[tls->depth - 1] : NULL;
}

struct sg_by sg_strict_by(void)
{
    const struct sg_strict_frame *f = frame_of(&sg_tls()->strict);
    struct sg_by by = {0};

    if (f)
        by = (struct sg_by){f->name, f->number, find_site()};
    return by;
}

struct sg_end sg_strict_at(void)
{
    const struct sg_item *item = sg_tls()->strict.item;
    struct sg_end end = {0};

    if (!item || !item->work || item->work->w.kind == SG_WORK_HOST) {
        end.by = sg_strict_by();
        return end;
    }
    end.by = item->work->w.by;
    end.stream = item->stream ? item->stream->id : 0;
    if (item->work->w.kind == SG_WORK_KERNEL)
        end.kernel = item->work->w.kernel.func->info->name;
    return end;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Calls that only ask: nothing waits and nothing changes. */
static bool only_asks(const char *name)
{
    return strstr(name, "Get") || strstr(name, "Query") || strstr(name, "IsCapturing") ||
           strstr(name, "cuOccupancy") == name;
}

/* Host functions, stream callbacks and destructors of user objects must call nothing of CUDA. */
static void in_host_function(const char *name)
{
    const struct sg_item *item = sg_tls()->strict.item;
    struct sg_finding f = {.rule = SG_RULE_CALL_IN_HOST_FUNCTION, .at = sg_strict_at()};

    if (item && item->work)
        f.other.by = item->work->w.by;
    if (item && item->stream)
        f.other.stream = item->stream->id;
    if (strncmp(name, "cuGetError", 10) == 0) { /* texts only */
        f.lower = true;
        f.severity = SG_NOTE;
    }
    snprintf(f.text, sizeof(f.text), "%s is called in a host function that %s (call %llu) queued",
             name, f.other.by.call ? f.other.by.call : "a user object",
             (unsigned long long)f.other.by.number);
    sg_report(&f);
}

static void in_tool(const struct sg_strict_tls *tls, const char *name)
{
    struct sg_finding f = {.rule = SG_RULE_CALL_IN_TOOL_CALLBACK, .at = sg_strict_at()};

    if (tls->depth >= 2 && tls->depth <= SG_STRICT_FRAMES) {
        const struct sg_strict_frame *outer = &tls->frames[tls->depth - 2];

        f.other.by = (struct sg_by){.call = outer->name, .number = outer->number};
    }
    if (only_asks(name)) {
        f.lower = true;
        f.severity = SG_NOTE;
    }
    snprintf(f.text, sizeof(f.text), "%s is called in a tool's callback for %s", name,
             f.other.by.call ? f.other.by.call : "the runtime");
    sg_report(&f);
}

void sg_strict_enter(const char *name)
{
    struct sg_tls *all = sg_tls();
    struct sg_strict_tls *tls = &all->strict;
    uint64_t number = atomic_fetch_add(&calls, 1) + 1;

    if (tls->depth < SG_STRICT_FRAMES)
        tls->frames[tls->depth] = (struct sg_strict_frame){.name = name, .number = number};
    tls->depth++;
    if (all->in_callback)
        in_host_function(name);
    else if (tls->in_tool || all->tool.in_callback) /* of the driver's calls, of others */
        in_tool(tls, name);
}

CUresult sg_strict_exit(CUresult result)
{
    struct sg_strict_tls *tls = &sg_tls()->strict;
    const struct sg_strict_frame *f = frame_of(tls);

    if (f && result == CUDA_SUCCESS)
        result = f->verdict;
    tls->depth -= tls->depth > 0;
    return result;
}

void sg_strict_verdict(CUresult error)
{
    struct sg_strict_tls *tls = &sg_tls()->strict;
    struct sg_strict_frame *f = frame_of(tls);

    if (tls->item && tls->item->work && tls->item->work->w.kind != SG_WORK_HOST)
        tls->item_verdict = error; /* who waits for the work is told */
    else if (f)
        f->verdict = error;
}

void sg_strict_tool(int change)
{
    sg_tls()->strict.in_tool += (unsigned)change;
}

void sg_strict_end(void)
{
    if (sg_ready() == CUDA_SUCCESS)
        sg_strict_leaks();
    sg_report_close();
}

/* ---- captures -------------------------------------------------------------------------------- */

void sg_strict_capture(const struct sg_capture *c)
{
    static const char *const modes[] = {"global", "thread-local", "relaxed"};
    struct sg_finding f = {.rule = SG_RULE_CAPTURE_INVALIDATED, .at = sg_strict_at()};
    bool other_thread = c->thread != sg_tls();

    f.other.by = c->by;
    f.other.stream = c->origin ? c->origin->id : 0;
    snprintf(f.text, sizeof(f.text),
             "%s%s invalidates the capture of stream %llu in %s mode, begun by %s (call %llu)",
             f.at.by.call ? f.at.by.call : "a call", other_thread ? " of another thread" : "",
             (unsigned long long)f.other.stream, modes[c->mode], c->by.call ? c->by.call : "a call",
             (unsigned long long)c->by.number);
    sg_report(&f);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static enum sg_rule rule_of(enum sg_fault_kind kind, const struct sg_near *near)
{
    if (kind == SG_FAULT_MISALIGNED)
        return SG_RULE_MISALIGNED;
    if (kind != SG_FAULT_ADDRESS)
        return SG_RULE_DEVICE_FAULT;
    return near->size && near->freed ? SG_RULE_USE_AFTER_FREE : SG_RULE_OUT_OF_BOUNDS;
}

static void say_near(const struct sg_near *near)
{
    const char *where = near->offset < 0 ? "before" : "into";
    uint64_t n = (uint64_t)(near->offset < 0 ? -near->offset : near->offset);

    if (near->offset >= 0 && (uint64_t)near->offset >= near->size) {
        where = "behind";
        n -= near->size;
    }
    sg_log(1, "strict: that is %llu bytes %s %s memory of %llu bytes at %#llx%s%s, of call %llu",
           (unsigned long long)n, where, near->kind ? near->kind : "",
           (unsigned long long)near->size, (unsigned long long)near->addr,
           near->freed ? ", freed by " : "",
           near->freed && near->released.call ? near->released.call : "",
           (unsigned long long)near->allocated.number);
}

void sg_strict_fault(const struct sg_fault *fault)
{
    struct sg_finding f = {.at = sg_strict_at(), .address = fault->address, .told = true};

    if (fault->told)
        return;
    if ((fault->kind == SG_FAULT_ADDRESS || fault->kind == SG_FAULT_MISALIGNED) &&
        fault->address > UINT32_MAX) /* else it is of shared or local memory */
        sg_book_near(fault->address, &f.near);
    f.rule = rule_of(fault->kind, &f.near);
    f.at.line = fault->line;
    f.at.file = fault->file;
    f.at.src_line = fault->src_line;
    f.at.access = fault->access;
    f.size = fault->size;
    f.at.has_thread = f.at.kernel != NULL;
    for (unsigned d = 0; d < 3; d++) {
        f.at.block[d] = fault->block[d];
        f.at.thread[d] = fault->thread[d];
    }
    snprintf(f.text, sizeof(f.text), "%s", fault->text);
    if (f.near.size)
        say_near(&f.near);
    sg_report(&f);
}

/* ---- freed memory ---------------------------------------------------------------------------- */

void sg_strict_stale(uint64_t addr, const char *what, bool query)
{
    struct sg_finding f = {.rule = SG_RULE_USE_AFTER_FREE, .address = addr};

    /* an allocation node's is there again when it is launched again */
    if (!sg_book_stale(addr, &f.near) || sg_graph_mem_holds(addr, 1))
        return;
    f.at = sg_strict_at();
    if (query) {
        f.lower = true;
        f.severity = SG_WARNING;
    }
    snprintf(f.text, sizeof(f.text),
             "%s: %s is %#llx, in %llu bytes of %s memory that %s (call %llu) freed",
             f.at.by.call ? f.at.by.call : "a call", what, (unsigned long long)addr,
             (unsigned long long)f.near.size, f.near.kind,
             f.near.released.call ? f.near.released.call : "the end of its context",
             (unsigned long long)f.near.released.number);
    sg_report(&f);
}

void sg_strict_outside(uint64_t addr, uint64_t n, const char *what)
{
    struct sg_finding f = {.rule = SG_RULE_OUT_OF_BOUNDS, .address = addr, .size = n};
    struct sg_near stale;

    if (sg_book_stale(addr, &stale)) /* told already */
        return;
    sg_book_near(addr, &f.near);
    f.at = sg_strict_at();
    snprintf(f.text, sizeof(f.text), "%s: %s is %llu bytes at %#llx, which no allocation holds",
             f.at.by.call ? f.at.by.call : "a call", what, (unsigned long long)n,
             (unsigned long long)addr);
    sg_report(&f);
}

void sg_strict_double_free(uint64_t addr)
{
    struct sg_finding f = {.rule = SG_RULE_DOUBLE_FREE, .address = addr};

    if (!sg_book_stale(addr, &f.near) || f.near.addr != addr)
        return;
    f.at = sg_strict_at();
    snprintf(f.text, sizeof(f.text), "%s: %#llx was freed by %s (call %llu)",
             f.at.by.call ? f.at.by.call : "a call", (unsigned long long)addr,
             f.near.released.call ? f.near.released.call : "the end of its context",
             (unsigned long long)f.near.released.number);
    sg_report(&f);
}
