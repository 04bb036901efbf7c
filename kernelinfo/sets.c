/*
 * Sets of origins. Each set is kept once and known by its number; unions and maps are remembered,
 * so that asking again costs a look into a table.
 *
 * What can be an address and what cannot: a number that was multiplied, or shifted left by other
 * than whole bytes, is an index. It is kept (weak), because shifting right may undo that, and the
 * other way round. A word smaller than an address is a number until it is put together with others
 * (JOIN), as code does that copies a pointer in parts.
 */
#include "kernelinfo/kernelinfo_internal.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SETS (1u << 20)
#define MOST_MEMOS (1u << 22)
#define MOST_ATOMS ((size_t)1 << 25)

static uint64_t mix(uint64_t h)
{
    h ^= h >> 31;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t hash(const uint32_t *atoms, uint32_t n)
{
    uint64_t h = n;

    for (uint32_t i = 0; i < n; i++)
        h = mix(h + atoms[i]);
    return h;
}

static bool grow_index(struct ki_sets *s)
{
    uint32_t cap = s->index_cap ? s->index_cap * 2 : 1024;
    uint32_t *index = calloc(cap, sizeof(*index));

    if (!index)
        return false;
    for (uint32_t id = 0; id < s->n; id++) {
        uint32_t i = (uint32_t)hash(s->atoms + s->set[id].at, s->set[id].n) & (cap - 1);

        while (index[i])
            i = (i + 1) & (cap - 1);
        index[i] = id + 1;
    }
    free(s->index);
    s->index = index;
    s->index_cap = cap;
    return true;
}

static bool room(struct ki_sets *s, uint32_t more)
{
    if (s->n >= MOST_SETS || s->natoms + more > MOST_ATOMS)
        return false;
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 256;
        struct ki_set *set = realloc(s->set, cap * sizeof(*set));

        if (!set)
            return false;
        s->set = set;
        s->cap = cap;
    }
    if (s->natoms + more > s->atoms_cap) {
        size_t cap = 2 * s->atoms_cap + more + 1024;
        uint32_t *atoms = realloc(s->atoms, cap * sizeof(*atoms));

        if (!atoms)
            return false;
        s->atoms = atoms;
        s->atoms_cap = cap;
    }
    return s->n * 2 < s->index_cap || grow_index(s);
}

/* The number of the set whose @n sorted atoms stand behind the last one. */
static uint32_t intern(struct ki_sets *s, uint32_t n)
{
    const uint32_t *atoms = s->atoms + s->natoms;
    uint32_t i = (uint32_t)hash(atoms, n) & (s->index_cap - 1);

    for (; s->index[i]; i = (i + 1) & (s->index_cap - 1)) {
        const struct ki_set *have = &s->set[s->index[i] - 1];

        if (have->n == n && memcmp(s->atoms + have->at, atoms, n * sizeof(*atoms)) == 0)
            return s->index[i] - 1;
    }
    s->set[s->n] = (struct ki_set){(uint32_t)s->natoms, n};
    s->natoms += n;
    s->index[i] = ++s->n;
    return s->n - 1;
}

static bool grow_memo(struct ki_sets *s)
{
    uint32_t cap = s->memo_cap ? s->memo_cap * 2 : 1024;
    struct ki_memo *memo = calloc(cap, sizeof(*memo));

    if (!memo)
        return false;
    for (uint32_t k = 0; k < s->memo_cap; k++) {
        uint32_t i = (uint32_t)mix(s->memo[k].key) & (cap - 1);

        if (!s->memo[k].key)
            continue;
        while (memo[i].key)
            i = (i + 1) & (cap - 1);
        memo[i] = s->memo[k];
    }
    free(s->memo);
    s->memo = memo;
    s->memo_cap = cap;
    return true;
}

/* The place of @key, never 0, in what is remembered; NULL without memory */
static struct ki_memo *recall(struct ki_sets *s, uint64_t key)
{
    uint32_t i;

    if (s->memo_n >= MOST_MEMOS || (s->memo_n * 2 >= s->memo_cap && !grow_memo(s))) {
        s->failed = true;
        return NULL;
    }
    i = (uint32_t)mix(key) & (s->memo_cap - 1);
    while (s->memo[i].key && s->memo[i].key != key)
        i = (i + 1) & (s->memo_cap - 1);
    return &s->memo[i];
}

static uint32_t remember(struct ki_sets *s, struct ki_memo *m, uint64_t key, uint32_t value)
{
    *m = (struct ki_memo){key, value};
    s->memo_n++;
    return value;
}

bool ki_sets_init(struct ki_sets *s)
{
    *s = (struct ki_sets){0};
    s->pieces = calloc((TB_KI_MOST_WORDS + 63) / 64, sizeof(*s->pieces));
    if (!s->pieces || !room(s, 0) || !grow_memo(s))
        return false;
    ki_sets_clear(s);
    return true;
}

void ki_sets_clear(struct ki_sets *s)
{
    memset(s->index, 0, s->index_cap * sizeof(*s->index));
    memset(s->memo, 0, s->memo_cap * sizeof(*s->memo));
    memset(s->pieces, 0, (TB_KI_MOST_WORDS + 63) / 64 * sizeof(*s->pieces));
    s->n = 0;
    s->memo_n = 0;
    s->natoms = 0;
    s->failed = false;
    (void)intern(s, 0);
}

void ki_sets_release(struct ki_sets *s)
{
    free(s->atoms);
    free(s->set);
    free(s->index);
    free(s->memo);
    free(s->pieces);
    *s = (struct ki_sets){0};
}

uint32_t ki_one(struct ki_sets *s, uint32_t atom)
{
    if (!room(s, 1)) {
        s->failed = true;
        return 0;
    }
    s->atoms[s->natoms] = atom;
    return intern(s, 1);
}

uint32_t ki_union(struct ki_sets *s, uint32_t a, uint32_t b)
{
    uint64_t key = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
    struct ki_memo *m;
    const uint32_t *x, *y, *xend, *yend;
    uint32_t *to;

    if (a == b || !b)
        return a;
    if (!a)
        return b;
    m = recall(s, key);
    if (!m || m->key)
        return m ? m->value : a;
    if (!room(s, s->set[a].n + s->set[b].n)) {
        s->failed = true;
        return a;
    }
    x = s->atoms + s->set[a].at;
    y = s->atoms + s->set[b].at;
    xend = x + s->set[a].n;
    yend = y + s->set[b].n;
    to = s->atoms + s->natoms;
    while (x < xend || y < yend) {
        uint32_t least = y == yend || (x < xend && *x < *y) ? *x : *y;

        x += x < xend && *x == least;
        y += y < yend && *y == least;
        *to++ = least;
    }
    return remember(s, m, key, intern(s, (uint32_t)(to - (s->atoms + s->natoms))));
}

/* Words of 4 bytes are indices more often than parts: only 64 bits make an address of them. */
static bool joins(const struct ki_sets *s, uint32_t atom, enum ki_map map)
{
    uint32_t i = KI_INDEX(atom);

    return map == KI_MAP_JOIN ||
           (KI_KIND(atom) == KI_PIECE && !(s->pieces[i / 64] >> (i % 64) & 1));
}

/* What becomes of @atom; 0: nothing is left of it */
static uint32_t mapped(const struct ki_sets *s, enum ki_map map, uint32_t atom)
{
    bool whole = KI_KIND(atom) == KI_WORD || KI_KIND(atom) == KI_LOADED;

    if (!whole && KI_KIND(atom) != KI_PIECE && KI_KIND(atom) != KI_LOADED_PIECE)
        return KI_KIND(atom) == KI_CONST && map == KI_MAP_SCALE ? 0 : atom;
    switch (map) {
    case KI_MAP_SCALE:
        if (whole && (atom & KI_DOWN))
            return (atom & ~KI_DOWN) | KI_STRONG;
        return whole ? atom & ~KI_STRONG : 0;
    case KI_MAP_SHIFT:
        return whole ? atom : 0;
    case KI_MAP_BACK:
        if (whole && (atom & KI_STRONG))
            return atom | KI_DOWN;
        return whole ? atom | KI_STRONG : atom & ~KI_STRONG;
    default:
        return !whole && joins(s, atom, map) ? atom | KI_STRONG : atom;
    }
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

uint32_t ki_map(struct ki_sets *s, enum ki_map map, uint32_t a)
{
    uint64_t key = UINT64_C(1) << 63 | (uint64_t)map << 32 | a;
    struct ki_memo *m = a ? recall(s, key) : NULL;
    uint32_t n = 0, kept = 0, *to;

    if (!m || m->key)
        return m ? m->value : a;
    if (!room(s, s->set[a].n)) {
        s->failed = true;
        return a;
    }
    to = s->atoms + s->natoms;
    for (uint32_t i = 0; i < s->set[a].n; i++) {
        to[n] = mapped(s, map, s->atoms[s->set[a].at + i]);
        n += to[n] != 0;
    }
    qsort(to, n, sizeof(*to), by_number);
    for (uint32_t i = 0; i < n; i++)
        if (!kept || to[kept - 1] != to[i])
            to[kept++] = to[i];
    return remember(s, m, key, intern(s, kept));
}
