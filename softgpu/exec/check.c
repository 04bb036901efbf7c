/* The watcher: bounds, unwritten memory, the heap of device malloc. */
#include "softgpu/exec/check_internal.h"

#include <stdlib.h>

#define PIECES_MAX 65536u
#define WIDE 64u /* bytes of an access whose unwritten ones are told apart */

/* ---- findings -------------------------------------------------------------------------------- */

void sg_check_place_of(struct sg_check_place *p, const struct sg_func *f,
                       const struct sg_ptx_insn *ptx, const struct sg_warp *w, unsigned lane)
{
    const struct sg_ptx_module *m = f->ptx->module;

    *p = (struct sg_check_place){.ptx = ptx, .func = f, .line = ptx->line};
    if (ptx->file != 0 && ptx->file < m->nfiles && m->files[ptx->file] != NULL) {
        p->file = m->files[ptx->file];
        p->src_line = ptx->src_line;
    }
    for (int d = 0; d < 3 && w != NULL; d++) {
        p->block[d] = w->block->id[d];
        p->thread[d] = w->tid[d][lane];
    }
}

static bool is_atomic(const struct sg_ptx_insn *p)
{
    return p->op == SG_OP_ATOM || p->op == SG_OP_RED || p->op == SG_OP_MBARRIER;
}

/* Was this one told in this launch? */
static bool told(struct sg_check *c, const struct sg_check_report *r)
{
    unsigned rule = 2 * (unsigned)r->rule + r->lower;
    uint64_t h = ((uintptr_t)r->at.ptx * 31 + (uintptr_t)r->other.ptx) * 31 + rule;
    size_t at = (size_t)(h * UINT64_C(0x9e3779b97f4a7c15) >> 54) % SG_CHECK_SEEN;

    if (c->seen[at].ptx == r->at.ptx && c->seen[at].other == r->other.ptx &&
        c->seen[at].rule == rule)
        return true;
    c->seen[at].ptx = r->at.ptx;
    c->seen[at].other = r->other.ptx;
    c->seen[at].rule = rule;
    return false;
}

static void find_variable(const struct sg_image *image, struct sg_check_report *r)
{
    for (uint32_t i = 0; i < image->nvars; i++) {
        const struct sg_var *v = &image->vars[i];
        if (!v->device_space || !v->owner || v->addr > r->address ||
            r->address - v->addr >= v->ptx->size + SG_MEM_GUARD || v->addr < r->variable_addr)
            continue;
        r->variable = v->ptx->name;
        r->variable_addr = v->addr;
        r->variable_size = v->ptx->size;
    }
}

bool sg_check_tell(struct sg_check *c, struct sg_warp *w, unsigned lane, struct sg_check_report *r)
{
    static const struct {
        enum sg_fault_kind kind;
        const char *what;
    } faults[] = {{SG_FAULT_ADDRESS, "access outside of any allocation"},
                  {SG_FAULT_ADDRESS, "access to freed memory"},
                  {SG_FAULT_TRAP, "use of memory that was never written"},
                  {SG_FAULT_TRAP, "race"}};
    struct sg_run *run = w->block->run;

    if (told(c, r))
        return true;
    r->kernel = run->kernel->info.name;
    r->function = r->at.func->ptx->name;
    if (!r->shared && r->rule == SG_CHECK_BOUNDS)
        find_variable(run->image, r);
    if (!c->env.report(c->env.arg, run->launch, r))
        return true;
    sg_warp_fault(w, NULL, faults[r->rule].kind, lane, r->address, faults[r->rule].what);
    run->fault->told = true;
    return false;
}

/* ---- the heap of device malloc --------------------------------------------------------------- */

static struct sg_check_piece *piece_at(struct sg_check *c, uint64_t addr)
{
    size_t n = c->npieces < PIECES_MAX ? c->npieces : PIECES_MAX;

    for (size_t i = 1; i <= n; i++) { /* the newest that holds it */
        struct sg_check_piece *p = &c->pieces[(c->npieces - i) % PIECES_MAX];
        if (addr - p->addr < p->size)
            return p;
    }
    return NULL;
}

/* The one that lies directly before @addr. */
static struct sg_check_piece *piece_before(struct sg_check *c, uint64_t addr)
{
    size_t n = c->npieces < PIECES_MAX ? c->npieces : PIECES_MAX;

    for (size_t i = 1; i <= n; i++) {
        struct sg_check_piece *p = &c->pieces[(c->npieces - i) % PIECES_MAX];
        if (p->addr < addr && addr - p->addr - p->size < 16)
            return p;
    }
    return NULL;
}

static void heap_made(struct sg_check *c, struct sg_warp *w, unsigned lane, uint64_t addr,
                      uint64_t size)
{
    if (c->pieces == NULL)
        c->pieces = calloc(PIECES_MAX, sizeof(*c->pieces));
    sg_shadow_gap(c->env.shadow, addr, size, false);
    sg_shadow_define(c->env.shadow, addr, size, false);
    if (c->env.races)
        sg_race_forget(c, addr, size);
    if (c->pieces == NULL)
        return;
    struct sg_check_piece *p = &c->pieces[c->npieces++ % PIECES_MAX];
    *p = (struct sg_check_piece){.addr = addr, .size = size};
    sg_check_place_of(&p->made, w->func, w->block->run->step->ptx, w, lane);
}

static void heap_event(void *arg, struct sg_warp *w, unsigned lane, enum sg_heap_event event,
                       uint64_t addr, uint64_t size)
{
    struct sg_check *c = arg;
    struct sg_check_piece *p;

    if (event == SG_HEAP_MADE)
        sg_shadow_gap(c->env.shadow, addr, size, true);
    if (w->block->run->step == NULL || event == SG_HEAP_MADE)
        return;
    if (event == SG_HEAP_ALLOC) {
        heap_made(c, w, lane, addr, size);
        return;
    }
    p = c->npieces != 0 ? piece_at(c, addr) : NULL;
    if (p == NULL || p->addr != addr)
        return;
    sg_shadow_gap(c->env.shadow, addr, p->size, true);
    p->freed = true;
    sg_check_place_of(&p->released, w->func, w->block->run->step->ptx, w, lane);
}

/* ---- accesses -------------------------------------------------------------------------------- */

static struct sg_check_report report_of(const struct sg_step *s, const struct sg_access *a,
                                        enum sg_check_rule rule)
{
    struct sg_check_report r = {.rule = rule, .address = a->addr, .size = a->n};

    r.shared = a->block != NULL;
    sg_check_place_of(&r.at, s->func, s->ptx, s->warp, a->lane);
    r.at.access = is_atomic(s->ptx) ? "atomic" : a->write ? "write" : "read";
    return r;
}

/* A byte of the access lies in a gap. */
static bool out_of_bounds(struct sg_check *c, const struct sg_step *s, const struct sg_access *a,
                          uint64_t at)
{
    struct sg_check_report r = report_of(s, a, SG_CHECK_BOUNDS);
    const struct sg_check_piece *p = c->npieces != 0 ? piece_at(c, a->addr + at) : NULL;

    r.address = a->addr + at;
    if (p == NULL && c->npieces != 0)
        p = piece_before(c, a->addr + at);
    if (p != NULL)
        r.piece = *p;
    if (p != NULL && p->freed && r.address - p->addr < p->size)
        r.rule = SG_CHECK_FREED;
    return sg_check_tell(c, s->warp, a->lane, &r);
}

/* Bytes of an access that nobody wrote, a bit each; of long ones only whether there are any. */
static uint64_t unwritten(const struct sg_check *c, const struct sg_access *a)
{
    const struct sg_shadow *sh = c->env.shadow;
    unsigned n = a->n < WIDE ? (unsigned)a->n : WIDE;
    uint64_t all = n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;

    if (a->block != NULL)
        return ~sg_bits_get(a->block->check->written, a->addr, n) & all;
    if (sg_shadow_undefined(sh, a->addr, n) == n)
        return 0;
    return ~sg_bits_get(sh->defined, a->addr - sh->base, n) & all;
}

static void write_down(const struct sg_check *c, const struct sg_access *a, uint64_t missing)
{
    const struct sg_shadow *sh = c->env.shadow;
    uint64_t *bits = a->block != NULL ? a->block->check->written : sh->defined;
    uint64_t at = a->block != NULL ? a->addr : a->addr - sh->base;

    if (a->block == NULL && (at >= sh->span || a->n > sh->span - at))
        return;
    if (a->n > WIDE)
        sg_bits_set(bits, at, a->n, true);
    else
        sg_bits_put(bits, at, (unsigned)a->n, ~missing);
}

/* An asynchronous copy: what it writes is as written as what it reads. */
static void note_copy(const struct sg_check *c, struct sg_check_warp *cw, const struct sg_access *a)
{
    struct sg_check_end *end = a->write ? &cw->to : &cw->from;

    *end = (struct sg_check_end){a->addr, a->n, a->block};
    if (cw->to.n == 0)
        return;
    struct sg_access to = {.addr = cw->to.addr, .n = cw->to.n, .block = cw->to.block};
    write_down(c, &to, 0);
    if (cw->from.n == 0)
        return;
    for (uint64_t done = 0; done < cw->from.n && done < cw->to.n; done += WIDE) {
        uint64_t left = (cw->from.n < cw->to.n ? cw->from.n : cw->to.n) - done;
        struct sg_access f = {
            .addr = cw->from.addr + done, .n = left < WIDE ? left : WIDE, .block = cw->from.block};
        struct sg_access t = {.addr = cw->to.addr + done, .n = f.n, .block = cw->to.block};
        uint64_t missing = unwritten(c, &f);
        if (missing != 0)
            write_down(c, &t, missing);
    }
    cw->from.n = cw->to.n = 0;
}

static bool reads_first(const struct sg_ptx_insn *p)
{
    if (p->op == SG_OP_MBARRIER)
        return !sg_ptx_has(p, SG_M_INIT);
    return (p->op == SG_OP_ATOM || p->op == SG_OP_RED) && !sg_ptx_has(p, SG_M_EXCH);
}

static bool tell_unwritten(struct sg_check *c, const struct sg_step *s, const struct sg_access *a)
{
    struct sg_check_report r = report_of(s, a, SG_CHECK_UNINITIALISED);

    return sg_check_tell(c, s->warp, a->lane, &r);
}

static bool memory(struct sg_check *c, const struct sg_step *s, const struct sg_access *a)
{
    struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    uint64_t missing = 0;

    if (s->ptx->op == SG_OP_CP) {
        note_copy(c, cw, a);
        return true;
    }
    if (c->follow && (!a->write || reads_first(s->ptx)))
        missing = unwritten(c, a);
    if (s->ptx->op == SG_OP_ST && cw->dirty && a->block == NULL && !sg_check_result(c, s, a))
        return false;
    if (a->write)
        write_down(c, a, s->ptx->op == SG_OP_ST && cw->dirty ? sg_check_stored(s, a) : 0);
    if (missing == 0)
        return true;
    if (!a->write && (s->ptx->op == SG_OP_LD || s->ptx->op == SG_OP_LDU)) {
        sg_check_loaded(s, a, missing);
        return true;
    }
    return tell_unwritten(c, s, a);
}

static bool access_seen(void *arg, const struct sg_step *s, const struct sg_access *a)
{
    struct sg_check *c = arg;
    struct sg_touch *touch = s->warp->block->run->launch->touch;

    if (touch != NULL && a->block == NULL)
        sg_touch_mark(touch, a->addr, a->n,
                      is_atomic(s->ptx) ? SG_TOUCH_ATOMIC
                      : a->write        ? SG_TOUCH_WRITE
                                        : SG_TOUCH_READ);
    if (a->block == NULL) {
        uint64_t at = sg_shadow_in_gap(c->env.shadow, a->addr, a->n);
        if (at != a->n && !out_of_bounds(c, s, a, at))
            return false;
    }
    if (s->warp->block->check == NULL || (a->block != NULL && a->block->check == NULL))
        return true;
    if (!memory(c, s, a))
        return false;
    return !c->env.races || sg_race_access(c, s, a);
}

/* ---- blocks and launches --------------------------------------------------------------------- */

static struct sg_check_block *take_block(struct sg_check *c, uint64_t bits)
{
    struct sg_check_block *k = c->blocks;

    while (k != NULL && k->used)
        k = k->next;
    if (k == NULL) {
        k = calloc(1, sizeof(*k));
        if (k == NULL)
            return NULL;
        k->next = c->blocks;
        c->blocks = k;
    }
    if (k->room < bits || k->written == NULL) {
        free(k->written);
        k->room = bits;
        k->written = calloc(bits / 64 + 2, 8);
        if (k->written == NULL)
            return NULL;
    }
    memset(k->written, 0, (bits / 64 + 2) * 8);
    k->used = true;
    return k;
}

static void block_start(void *arg, struct sg_block *b)
{
    struct sg_check *c = arg;

    if (b->run->all->workspace != NULL) /* the engine's own, and written by it */
        sg_shadow_define(c->env.shadow, (uint64_t)(uintptr_t)b->run->all->workspace, 4096, true);
    b->check = take_block(c, b->shared_bytes);
    for (unsigned i = 0; b->check != NULL && i < b->nwarps; i++) {
        struct sg_check_warp *cw = &b->check->warps[i];
        cw->dirty = cw->has_result = false;
        cw->loaded = cw->norigins = 0;
    }
    if (b->check != NULL && c->env.races && !sg_race_block_start(c, b)) {
        b->check->used = false;
        b->check = NULL;
    }
}

static void block_end(void *arg, struct sg_block *b)
{
    struct sg_check *c = arg;

    if (b->check == NULL)
        return;
    if (c->env.races)
        sg_race_block_end(c, b);
    b->check->used = false;
    b->check = NULL;
}

static void begin(void *arg, const struct sg_launch *l)
{
    struct sg_check *c = arg;

    memset(c->seen, 0, sizeof(c->seen));
    c->follow = c->env.follow == NULL || c->env.follow(c->env.arg, l);
    if (c->env.races)
        sg_race_begin(c, l);
}

static void end(void *arg, const struct sg_launch *l, const struct sg_fault *fault)
{
    struct sg_check *c = arg;

    (void)l;
    (void)fault;
    for (struct sg_check_block *k = c->blocks; k != NULL; k = k->next)
        k->used = false; /* blocks of a launch that was stopped have not ended */
    if (c->env.races)
        sg_race_end(c);
}

static void enter(void *arg, const struct sg_step *s)
{
    struct sg_check *c = arg;

    if (s->warp->block->check == NULL)
        return;
    if (c->env.races)
        sg_race_enter(c, s);
    struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    cw->loaded = 0;
    cw->from.n = cw->to.n = 0;
    cw->has_result = false;
    if (cw->dirty)
        sg_check_regs_enter(c, s);
}

static void leave(void *arg, const struct sg_step *s)
{
    struct sg_check *c = arg;

    if (s->warp->block->check == NULL)
        return;
    if (c->env.races)
        sg_race_exit(c, s);
    struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    if (cw->dirty || cw->loaded != 0)
        sg_check_regs_exit(c, s);
}

static void barrier(void *arg, struct sg_block *b, uint32_t id)
{
    struct sg_check *c = arg;

    if (b->check != NULL && c->env.races)
        sg_race_barrier(c, b, id);
}

/* ---- making it ------------------------------------------------------------------------------- */

enum tb_status sg_check_new(const struct sg_check_env *env, struct sg_check **out,
                            struct tb_error *err)
{
    struct sg_check *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return tb_fail(err, TB_ERR_NOMEM, "cannot check launches: no memory");
    c->env = *env;
    c->watcher = (struct sg_watcher){.begin = begin,
                                     .end = end,
                                     .block_start = block_start,
                                     .block_end = block_end,
                                     .barrier = barrier,
                                     .enter = enter,
                                     .exit = leave,
                                     .access = access_seen,
                                     .heap = heap_event,
                                     .serial = true,
                                     .arg = c};
    if (env->races && (c->race = sg_race_new()) == NULL) {
        free(c);
        return tb_fail(err, TB_ERR_NOMEM, "cannot look for races: no memory");
    }
    *out = c;
    return TB_OK;
}

void sg_check_free(struct sg_check *c)
{
    if (c == NULL)
        return;
    while (c->blocks != NULL) {
        struct sg_check_block *next = c->blocks->next;
        for (unsigned i = 0; i < 32; i++) {
            free(c->blocks->warps[i].reg);
            free(c->blocks->warps[i].pred);
        }
        free(c->blocks->written);
        sg_race_block_free(c->blocks->race);
        free(c->blocks);
        c->blocks = next;
    }
    free(c->pieces);
    sg_race_free(c->race);
    free(c);
}

const struct sg_watcher *sg_check_watcher(const struct sg_check *c)
{
    return &c->watcher;
}

void sg_check_image(struct sg_shadow *s, const struct sg_image *image)
{
    uint64_t end = image->region;

    for (uint32_t i = 0; i < image->nvars && end != 0; i++) { /* in the order of their places */
        const struct sg_var *v = &image->vars[i];
        if (!v->device_space || !v->owner || v->ptx->managed)
            continue;
        if (v->addr > end)
            sg_shadow_gap(s, end, v->addr - end, true);
        end = v->addr + v->ptx->size;
    }
    if (end != 0)
        sg_shadow_gap(s, end, -end & (SG_MEM_GRANULE - 1), true);
}
