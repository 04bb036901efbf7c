/*
 * What kernels write whose code is not known: learnt from their launches.
 *
 * Each pointer of a launch may be written through. The first launches hash what it leads to before
 * and after the work. What changed once is written. What stayed, in launches that found two
 * different contents of the same size there, is kept: one content alone may be what the kernel
 * writes, zeros over zeros. From then on only what is written is hashed, after the work; some
 * launches, chosen by the seed, look at all of it again, and what changes then was a surprise, and
 * all but it is open again.
 *
 * An event's accesses are the same whatever is known, and the collector makes the same of bytes
 * that were hashed twice and stayed and of bytes that were believed to stay (TB_FP_UNCHANGED): when
 * the device got round to a hash, and so when something is known, leaves no trace.
 */
#include <stdio.h>
#include <string.h>

#include "recorder/cuda/engine.h"

#define SETS 32u       /* of a kernel; launches with further layouts are not learnt from */
#define CANDIDATES 64u /* pointers of a launch */
#define WAITING 4u     /* launches of a set whose hashes are waited for */
#define CONTENTS 4u    /* that are remembered of a candidate, of different sizes */
#define CHECK 256u     /* one launch in so many looks again */
#define PATIENCE 8u    /* what is waited for is looked at every so many launches */

enum state { OPEN, WRITTEN, KEPT };

struct content {
    uint64_t bytes, a, b;
};

struct candidate {
    uint16_t word;
    uint8_t state; /* enum state */
    uint8_t contents;
    struct content content[CONTENTS];
};

/* Two hashes of a candidate. */
struct pair {
    uint64_t before, after, bytes;
    uint16_t candidate; /* 0xffff: none */
    bool by_code;       /* its PTX says that it may be written */
};

struct look {
    struct tb_cu_ctx *ctx;
    struct pair *pair; /* as many as the set has candidates */
    uint32_t next;     /* those before it are over */
};

struct tb_cu_learn {
    struct tb_cu_learn *next;
    uint64_t layout;
    uint64_t launches, check; /* number of the next one that looks again */
    uint32_t version;         /* grows when a candidate's state changes; from 1 */
    uint32_t n;
    uint16_t unlike_code; /* TB_CFG_LEARN: 1 + a word that was written though no code does */
    struct candidate *candidate;
    uint32_t first, waiting; /* looks, in the order of their launches */
    struct look look[WAITING];
};

/* ---------------------------------------------------------------- sets */

/* Other tasks may write memory of these kinds, or it is hashed in part: not learnt from. */
static bool is_candidate(const struct tb_cu_access *a)
{
    return a->mode == 'w' && a->word != 0xffff && (a->flags & TB_CU_HASH) && !a->rate &&
           a->alloc->kind == TB_CU_DEVICE && !a->alloc->unstable;
}

/* Which words are pointers, and to memory of their own. */
static uint64_t layout_of(const struct tb_cu_work *w, uint32_t *n)
{
    uint64_t h = 0x4c45;

    *n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        if (is_candidate(&w->access[i])) {
            h = tb_cu_mix(h, w->access[i].word);
            (*n)++;
        }
    return h;
}

/* One of the CHECK launches from @from on; the same ones in every run. */
static uint64_t draw_check(const struct tb_cu_kernel *k, const struct tb_cu_learn *l, uint64_t from)
{
    uint64_t h = tb_cu_mix(tb_cu_mix(tb_cu_mix(tb_cu.config->seed, k->site_hash), l->layout), from);

    return from + (h >> 24) % CHECK;
}

static struct tb_cu_learn *make(const struct tb_cu_work *w, uint64_t layout, uint32_t n)
{
    struct tb_cu_learn *l = tb_cu_small(sizeof(*l));

    if (!l || !(l->candidate = tb_cu_small(n * sizeof(*l->candidate))))
        return NULL;
    for (uint32_t i = 0; i < WAITING; i++)
        if (!(l->look[i].pair = tb_cu_small(n * sizeof(*l->look[i].pair))))
            return NULL;
    l->layout = layout;
    l->version = 1;
    l->check = draw_check(w->kernel, l, 0);
    for (uint32_t i = 0; i < w->n; i++)
        if (is_candidate(&w->access[i]))
            l->candidate[l->n++].word = w->access[i].word;
    return l;
}

static struct tb_cu_learn *find(struct tb_cu_kernel *k, const struct tb_cu_work *w)
{
    uint32_t n, sets = 0;
    uint64_t layout = layout_of(w, &n);
    struct tb_cu_learn *l;

    if (!n || n > CANDIDATES)
        return NULL;
    for (l = k->learn; l; l = l->next, sets++)
        if (l->layout == layout)
            return l;
    if (sets == SETS || !(l = make(w, layout, n)))
        return NULL;
    l->next = k->learn;
    k->learn = l;
    return l;
}

/* ---------------------------------------------------------------- what was seen */

/* 1: *@fp is what the device left for @ticket; 0: it comes yet; -1: it was written over. */
static int read_slot(const struct tb_cu_ctx *c, uint64_t ticket, struct tb_fp *fp)
{
    const struct tb_wire_slot *s = &c->slot[ticket & (TB_CU_SLOTS - 1)];
    uint64_t stamp = __atomic_load_n(&s->stamp, __ATOMIC_ACQUIRE);

    if (stamp != ticket + 1)
        return stamp > ticket + 1 || c->ticket - ticket > TB_CU_SLOTS ? -1 : 0;
    fp->a = __atomic_load_n(&s->a, __ATOMIC_ACQUIRE);
    fp->b = __atomic_load_n(&s->b, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&s->stamp, __ATOMIC_RELAXED) == ticket + 1 &&
                   c->ticket - ticket <= TB_CU_SLOTS
               ? 1
               : -1;
}

/* It stayed. Has it stayed with another content of the same size, too? */
static void stayed(struct tb_cu_learn *l, struct candidate *d, const struct tb_fp *fp,
                   uint64_t bytes)
{
    for (uint32_t i = 0; i < d->contents; i++)
        if (d->content[i].bytes == bytes) {
            if (d->content[i].a != fp->a || d->content[i].b != fp->b) {
                d->state = KEPT;
                l->version++;
            }
            return;
        }
    if (d->contents < CONTENTS)
        d->content[d->contents++] = (struct content){bytes, fp->a, fp->b};
}

static void forget(struct tb_cu_learn *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->candidate[i].state != WRITTEN) {
            l->candidate[i].state = OPEN;
            l->candidate[i].contents = 0;
        }
}

static void changed(struct tb_cu_learn *l, const struct pair *p)
{
    struct candidate *d = &l->candidate[p->candidate];
    bool surprise = d->state == KEPT;

    l->version += d->state != WRITTEN;
    d->state = WRITTEN;
    if (surprise)
        forget(l);
    if (!p->by_code)
        l->unlike_code = (uint16_t)(d->word + 1);
}

/* What has come of a pair of hashes; false: it comes yet. */
static bool fold_pair(struct tb_cu_learn *l, const struct look *k, const struct pair *p)
{
    struct candidate *d = &l->candidate[p->candidate];
    struct tb_fp before, after;
    int b = read_slot(k->ctx, p->before, &before), a = read_slot(k->ctx, p->after, &after);

    if ((!a || !b) && k->ctx->state != TB_CU_CTX_BROKEN)
        return false;
    if (a == 1 && b == 1 && !tb_fp_equal(before, after))
        changed(l, p);
    else if (a == 1 && b == 1 && d->state == OPEN)
        stayed(l, d, &after, p->bytes);
    return true;
}

/* The looks that are over, oldest first: one that is not costs a launch little. */
static void fold_all(struct tb_cu_learn *l)
{
    while (l->waiting) {
        struct look *k = &l->look[l->first];
        for (; k->next < l->n; k->next++)
            if (k->pair[k->next].candidate != 0xffff && !fold_pair(l, k, &k->pair[k->next]))
                return;
        l->first = (l->first + 1) % WAITING;
        l->waiting--;
    }
}

/* ---------------------------------------------------------------- a launch */

/* Does its PTX say that it may write where @a is? Only asked for in the test mode. */
static bool by_code(const struct tb_cu_work *w, const struct tb_cu_access *a, const uint8_t *block,
                    uint32_t bytes)
{
    const struct tb_cu_kernel *k = w->kernel;

    if (!k->info || (k->info->flags & (TB_KERNEL_INDIRECT_WRITE | TB_KERNEL_UNTRACED_WRITE)))
        return true;
    for (uint32_t i = 0; i < k->globals; i++)
        if (k->global[i].alloc == a->alloc && (k->global[i].flags & TB_GLOBAL_WRITE))
            return true;
    for (uint32_t i = 0; i < k->info->words; i++) {
        const struct tb_wire_word *x = &k->word[i];
        uint64_t v = 0;
        if (x->bytes != 8 || !(x->flags & TB_WORD_WRITE) || x->offset + 8u > bytes)
            continue;
        memcpy(&v, block + x->offset, 8);
        if (v - a->alloc->base < a->alloc->bytes || x->offset == a->word)
            return true;
    }
    return false;
}

/* Counts the launch. */
static bool count(const struct tb_cu_kernel *k, struct tb_cu_learn *l)
{
    bool check = l->launches == l->check;

    l->launches++;
    if (l->launches % CHECK == 0)
        l->check = draw_check(k, l, l->launches);
    return check;
}

static void choose(struct tb_cu_access *a, const struct candidate *d, bool check)
{
    if (d->state == OPEN || (d->state == KEPT && check))
        a->flags |= d->state == OPEN ? TB_CU_CHANGE : TB_CU_CHANGE | TB_CU_DOUBT;
    else if (d->state == KEPT)
        a->flags = (uint8_t)((a->flags & ~TB_CU_HASH) | TB_CU_BELIEVED);
}

bool tb_cu_learns(const struct tb_cu_kernel *k)
{
    return (!k->info || (tb_cu.config->flags & TB_CFG_LEARN)) && !k->blind &&
           !(tb_cu.config->flags & TB_CFG_DEFER);
}

void tb_cu_learn_plan(struct tb_cu_work *w, const uint8_t *block, uint32_t bytes)
{
    struct tb_cu_learn *l = find(w->kernel, w);
    uint32_t n = 0;

    w->learns = true;
    w->learn = l;
    if (!l)
        return;
    fold_all(l);
    bool check = count(w->kernel, l);
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (!is_candidate(a))
            continue;
        if (tb_cu.config->flags & TB_CFG_LEARN)
            a->by_code = by_code(w, a, block, bytes);
        choose(a, &l->candidate[n++], check);
    }
}

uint32_t tb_cu_learn_stable(const struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->access[i].flags & TB_CU_CHANGE)
            return 0;
    return w->learn ? w->learn->version : 0;
}

bool tb_cu_learn_again(const struct tb_cu_kernel *k, struct tb_cu_learn *l, uint32_t version)
{
    if (tb_unlikely(l->waiting && l->launches % PATIENCE == 0))
        fold_all(l);
    if (l->version != version || l->launches == l->check)
        return false;
    (void)count(k, l);
    return true;
}

void tb_cu_learn_note(struct tb_cu_work *w)
{
    struct tb_cu_learn *l = w->learn;
    struct look *k = l && l->waiting < WAITING ? &l->look[(l->first + l->waiting) % WAITING] : NULL;
    bool any = false;

    for (uint32_t i = 0, n = 0; k && i < w->n && n < l->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (a->mode != 'w' || a->word != l->candidate[n].word)
            continue;
        bool both = (a->flags & TB_CU_CHANGE) && a->table;
        k->pair[n] = (struct pair){.before = a->before,
                                   .after = a->ticket,
                                   .bytes = a->bytes,
                                   .candidate = both ? (uint16_t)n : 0xffff,
                                   .by_code = a->by_code || !(tb_cu.config->flags & TB_CFG_LEARN)};
        any = any || both;
        n++;
    }
    if (!any)
        return;
    k->ctx = w->ctx;
    k->next = 0;
    l->waiting++;
}

/* ---------------------------------------------------------------- the test mode */

static void add_words(char *out, size_t size, const struct tb_cu_learn *l, uint8_t state)
{
    size_t at = strlen(out);

    for (uint32_t i = 0; i < l->n && at < size; i++)
        if (l->candidate[i].state == state) {
            int n = snprintf(out + at, size - at, " arg+%u", l->candidate[i].word);
            at += n > 0 ? (size_t)n : 0;
        }
}

static void tell(struct tb_cu_learn *l, const char *name)
{
    static const char *const titles[] = {[WRITTEN] = "written:", [KEPT] = "; kept:"};
    char text[512] = "its code does not write what changed:";

    fold_all(l);
    if (l->unlike_code) {
        (void)snprintf(text + strlen(text), 16, " arg+%u", l->unlike_code - 1u);
        tb_cu_cover(1, TB_REC_NO_SEQ, "learnt", name, text);
        return;
    }
    text[0] = 0;
    for (unsigned state = WRITTEN; state <= KEPT; state++) {
        (void)strncat(text, titles[state], sizeof(text) - strlen(text) - 1);
        add_words(text, sizeof(text), l, (uint8_t)state);
    }
    tb_cu_cover(0, TB_REC_NO_SEQ, "learnt", name, text);
}

void tb_cu_learn_end(void)
{
    const struct tb_cu_map *m = &tb_cu.kernels;

    for (uint32_t i = 0; (tb_cu.config->flags & TB_CFG_LEARN) && i < m->capacity; i++) {
        const struct tb_cu_kernel *k = m->slot[i].key ? tb_cu_map_get(m, m->slot[i].key) : NULL;
        for (struct tb_cu_learn *l = k ? k->learn : NULL; l; l = l->next)
            tell(l, k->name);
    }
}
