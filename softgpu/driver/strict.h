/*
 * softgpu/driver/strict.h - what the manuals forbid, found and written down (SOFTGPU_STRICT).
 *
 * Who finds something fills a struct sg_finding and calls sg_report(). The report (report.c) counts
 * what comes again, writes the first of a kind to SOFTGPU_REPORT at once, says it in one line on
 * stderr and, where strict mode is "fail", makes the call that is under way return an error. Rules
 * are the rows of one table there. strict.c knows what a finding needs: which call is under way and
 * from where, and what lies, or lay, at an address.
 *
 * Locks: the report and the book of allocations have locks of their own, taken last; everything
 * here may be called with the engine's lock or that of the memory half held, and in no signal
 * handler but that of touch.c. Off, each question is one branch: ask sg_strict() first.
 */
#ifndef SG_DRIVER_STRICT_H
#define SG_DRIVER_STRICT_H

#include "softgpu/driver/driver.h"

static inline bool sg_strict(void)
{
    return __builtin_expect(sg_driver.opt.strict != SG_STRICT_OFF, 0);
}

/* ---- findings ------------------------------------------------------------------------------- */

enum sg_severity {
    SG_NOTE,    /* legal, and worth a look */
    SG_WARNING, /* the manual leaves it open, or advises against it */
    SG_ERROR,   /* the manual forbids it: "fail" acts on these */
};

/* Rows of the table in report.c; their names are what is stable. */
enum sg_rule {
    SG_RULE_NONE = 0,
    SG_RULE_OUT_OF_BOUNDS,
    SG_RULE_MISALIGNED,
    SG_RULE_DEVICE_FAULT,
    SG_RULE_UNINITIALISED_READ,
    SG_RULE_USE_AFTER_FREE,
    SG_RULE_DOUBLE_FREE,
    SG_RULE_LEAK,
    SG_RULE_LEAKED_HANDLE,
    SG_RULE_CALL_IN_HOST_FUNCTION,
    SG_RULE_CALL_IN_TOOL_CALLBACK,
    SG_RULE_CAPTURE_INVALIDATED,
    SG_RULE_HOST_TOUCH,
    SG_RULE_STREAM_RACE,
    SG_RULE_SHARED_RACE,
    SG_RULE_GLOBAL_RACE,
    SG_RULE_STALE_CALLBACK_DATA,
    SG_RULE_COUNT,
};

/* One end of a finding. What is 0 or NULL is not known. */
struct sg_end {
    struct sg_by by;    /* the call, or the one that submitted the work */
    const char *kernel; /* borrowed while sg_report() runs */
    uint32_t line;      /* of the PTX */
    const char *file;   /* of .loc; borrowed */
    uint32_t src_line;
    bool has_thread;
    uint32_t block[3], thread[3];
    uint64_t stream;    /* number; what programs call the NULL stream has one too */
    const char *access; /* static: "read", "write", "atomic" */
};

/* The allocation that holds an address, or the nearest one. */
struct sg_near {
    uint64_t addr, size; /* size 0: none is known */
    int64_t offset;      /* of the address in it; negative: before it */
    const char *kind;    /* static: "device", "pool" ... */
    bool freed;
    struct sg_by allocated, released;
};

struct sg_finding {
    enum sg_rule rule;
    enum sg_severity severity; /* SG_NOTE: as the table has it */
    bool lower;                /* @severity is meant, though it is below the table's */
    bool told;                 /* stderr has its line already */
    struct sg_end at, other;   /* @other: the second event of a pair */
    uint64_t address, size;    /* bytes concerned */
    uint64_t number;           /* how many things: leaks */
    struct sg_near near;
    char text[512]; /* lower case, no full stop */
};

/**
 * sg_report - write a finding down
 *
 * Equal are findings of one rule at one place (calls, sites, kernels and lines of both ends): they
 * are counted. Returns: CUDA_SUCCESS, or in "fail" mode the error of the rule; the call under way
 * on this thread then returns it too, if it would have succeeded. Threads: any. Allocates: yes.
 */
CUresult sg_report(const struct sg_finding *f);
/** sg_report_open - at cuInit, options are read; a report that cannot be written is said on stderr
 */
void sg_report_open(void);
/** sg_report_close - the summary; later findings are lost. Runs when the process ends. */
void sg_report_close(void);
const char *sg_rule_name(enum sg_rule rule);

/* ---- the call under way ---------------------------------------------------------------------- */

/** sg_strict_end - the process ends: leaks, and the summary */
void sg_strict_end(void);

/** sg_strict_enter - an exported function begins: it gets a number; forbidden places are reported
 */
void sg_strict_enter(const char *name);
/** sg_strict_exit - it ends with @result; what it is to return: the error of a finding, if any */
CUresult sg_strict_exit(CUresult result);
/** sg_strict_verdict - what the call under way is to return in place of success */
void sg_strict_verdict(CUresult error);
/** sg_strict_tool - a hook of a tool begins (+1) or ends (-1) on this thread */
void sg_strict_tool(int change);

/** sg_strict_by - the call under way on this thread, and its site; {0} outside of one */
struct sg_by sg_strict_by(void);
/** sg_strict_at - the work that this thread executes, else the call under way */
struct sg_end sg_strict_at(void);
/** sg_strict_site_text - "program+0x1234" for addr2line; "" if it is not known */
const char *sg_strict_site_text(uintptr_t site, char *out, size_t n);

/* ---- the book of allocations (book.c) -------------------------------------------------------- */

struct sg_rec;

/* Called by the memory half where records come and go, and where a call frees in stream order. */
void sg_book_made(const struct sg_alloc *a);
void sg_book_gone(uint64_t addr);
void sg_book_freed(uint64_t addr, bool undo);
/** sg_book_near - what holds @addr, living or freed, else the nearest living one */
bool sg_book_near(uint64_t addr, struct sg_near *out);
/** sg_book_stale - were the bytes freed by an earlier call? Then @out says which. */
bool sg_book_stale(uint64_t addr, struct sg_near *out);

/** sg_book_each - what lives, by ascending address; @fn must not ask the book */
void sg_book_each(void (*fn)(void *arg, const struct sg_near *alive), void *arg);
/* ---- while work runs (strict_exec.c) ----------------------------------------------------------
 */

/** sg_strict_init - at cuInit, the address space is there */
CUresult sg_strict_init(void);
/** sg_strict_watch - kernels run under the checker: exec/check.h */
void sg_strict_watch(struct sg_launch *l);
/** sg_strict_image - a module was loaded: where its variables end */
void sg_strict_image(const struct sg_image *image);
void sg_strict_shadow_made(const struct sg_rec *r);
void sg_strict_shadow_gone(const struct sg_rec *r);
/** sg_strict_written - work or a call has written these bytes */
void sg_strict_written(uint64_t addr, uint64_t n);
/** sg_strict_copied - a row of a copy: what was never written stays so; telling the host is noted
 */
void sg_strict_copied(uint64_t dst, uint64_t src, uint64_t n);

/* ---- rules ----------------------------------------------------------------------------------- */

/** sg_strict_fault - a kernel or copy was stopped: as a finding, with what lies at the address */
void sg_strict_fault(const struct sg_fault *fault);
/** sg_strict_stale - report if a call names freed memory; @what: "source of a copy" ... */
void sg_strict_stale(uint64_t addr, const char *what, bool query);
/** sg_strict_double_free - report if a call frees what an earlier one has freed */
/** sg_strict_outside - a call is refused because its @n bytes at @addr are not in one allocation */
void sg_strict_outside(uint64_t addr, uint64_t n, const char *what);
void sg_strict_double_free(uint64_t addr);

struct sg_capture;

/** sg_strict_capture - a call has just made a capture invalid. With the engine's lock. */
void sg_strict_capture(const struct sg_capture *c);
/** sg_strict_leaks - the process ends: what was made and never freed or destroyed (leak.c) */
void sg_strict_leaks(void);

#endif
