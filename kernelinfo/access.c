/* An address is used: which words of the parameters, which variables, or what unknown lies behind
 * it? */
#include "kernelinfo/kernelinfo_internal.h"

#include <stdlib.h>

void ki_untraced(struct ki_flow *k, unsigned how)
{
    if (!k->report)
        return;
    k->flags |= how & KI_READ ? TB_KERNEL_UNTRACED_READ : 0;
    k->flags |= how & KI_WRITE ? TB_KERNEL_UNTRACED_WRITE : 0;
}

static void indirect(struct ki_flow *k, unsigned how)
{
    k->flags |= how & KI_READ ? TB_KERNEL_INDIRECT_READ : 0;
    k->flags |= how & KI_WRITE ? TB_KERNEL_INDIRECT_WRITE : 0;
}

static void use_word(struct ki_flow *k, uint32_t word, unsigned how, uint8_t dt)
{
    struct ki_word *w = &k->words[word];

    w->flags |= (uint8_t)how;
    if (how & KI_WRITE)
        w->write = ki_dt_merge(w->write, dt);
    if (how & KI_READ)
        w->read = ki_dt_merge(w->read, dt);
}

struct piece {
    uint32_t offset, bytes, word;
};

static int by_offset(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Pieces that lie side by side and make 8 bytes are a word that the kernel loads in parts. False:
 * some are left over. */
static bool use_pieces(struct ki_flow *k, struct piece *p, uint32_t n, unsigned how, uint8_t dt)
{
    bool all = true;

    qsort(p, n, sizeof(*p), by_offset);
    for (uint32_t i = 0; i < n;) {
        uint32_t end = p[i].offset, to = i, word;

        while (to < n && p[to].offset == end && end - p[i].offset < 8)
            end += p[to++].bytes;
        if (end - p[i].offset != 8) {
            all = false;
            i++;
            continue;
        }
        word = ki_word(k, p[i].offset, 8);
        if (k->failed || k->gave_up)
            return false;
        k->words[word].made = true;
        use_word(k, word, how, dt);
        for (; i < to; i++)
            k->words[p[i].word].part = true;
    }
    return all;
}

/* Strong pieces of words in @set; to be freed. */
static struct piece *pieces_of(struct ki_flow *k, const struct ki_set *s, uint32_t *n)
{
    struct piece *p = malloc((s->n + 1) * sizeof(*p));

    *n = 0;
    k->failed |= !p;
    for (uint32_t i = 0; p && i < s->n; i++) {
        uint32_t atom = k->sets.atoms[s->at + i];
        const struct ki_word *w = &k->words[KI_INDEX(atom)];

        if (KI_KIND(atom) == KI_PIECE && (atom & KI_STRONG))
            p[(*n)++] = (struct piece){w->offset, w->bytes, KI_INDEX(atom)};
    }
    return p;
}

/* True if @atom can be what the address points with. */
static bool use_atom(struct ki_flow *k, uint32_t atom, unsigned how, uint8_t dt, bool *pieces)
{
    bool strong = atom & KI_STRONG;

    switch (KI_KIND(atom)) {
    case KI_WORD:
        if (strong)
            use_word(k, KI_INDEX(atom), how, dt);
        else
            k->words[KI_INDEX(atom)].flags |= TB_WORD_VALUE;
        return strong;
    case KI_PIECE:
        *pieces |= strong;
        k->words[KI_INDEX(atom)].flags |= strong ? 0 : TB_WORD_VALUE;
        return false;
    case KI_LOADED:
    case KI_LOADED_PIECE:
        if (strong)
            indirect(k, how);
        return strong;
    case KI_GLOBAL:
        k->used[KI_INDEX(atom)] |= how & (KI_READ | KI_WRITE);
        return true;
    case KI_CONST:
    case KI_UNKNOWN:
        ki_untraced(k, how);
        return true;
    default: /* memory of the thread or block, parameters, the heap (that has its own flag) */
        return true;
    }
}

void ki_access(struct ki_flow *k, uint32_t set, unsigned how, uint8_t dt)
{
    struct ki_set s = k->sets.set[set];
    bool found = false, pieces = false;
    struct piece *p;
    uint32_t n;

    if (!k->report)
        return;
    for (uint32_t i = 0; i < s.n; i++)
        found |= use_atom(k, k->sets.atoms[s.at + i], how, dt, &pieces);
    if (pieces) {
        p = pieces_of(k, &s, &n);
        if (p && !use_pieces(k, p, n, how, dt))
            ki_untraced(k, how);
        found = true;
        free(p);
    }
    if (!found)
        ki_untraced(k, how);
}
