#include "deterministic/ddmin.h"

#include <stdlib.h>
#include <string.h>

/* What was answered about a set */
struct known {
    struct known *next;
    enum tb_ddmin_answer answer;
    bool in[];
};

struct tb_ddmin {
    size_t items;
    tb_ddmin_ask ask;
    void *arg;
    struct known *known;
    bool *needs; /* [item * items + need] */
    bool *part;  /* the set that is asked about next */
};

struct tb_ddmin *tb_ddmin_new(size_t items, tb_ddmin_ask ask, void *arg)
{
    struct tb_ddmin *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->items = items;
    d->ask = ask;
    d->arg = arg;
    d->needs = calloc(items * items + 1, sizeof(*d->needs));
    d->part = calloc(items + 1, sizeof(*d->part));
    if (d->needs && d->part)
        return d;
    tb_ddmin_free(d);
    return NULL;
}

void tb_ddmin_free(struct tb_ddmin *d)
{
    if (!d)
        return;
    while (d->known) {
        struct known *k = d->known;
        d->known = k->next;
        free(k);
    }
    free(d->needs);
    free(d->part);
    free(d);
}

void tb_ddmin_need(struct tb_ddmin *d, size_t item, size_t need)
{
    d->needs[item * d->items + need] = true;
}

/* ---------------------------------------------------------------- sets */

static size_t size_of(const struct tb_ddmin *d, const bool *in)
{
    size_t n = 0;

    for (size_t i = 0; i < d->items; i++)
        n += in[i];
    return n;
}

/* Adds what the items of @in need, and what that needs */
static void close_set(const struct tb_ddmin *d, bool *in)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < d->items; i++)
            for (size_t k = 0; in[i] && k < d->items; k++)
                if (d->needs[i * d->items + k] && !in[k])
                    more = in[k] = true;
    }
}

/* Takes out what needs something that is not in @in */
static void prune_set(const struct tb_ddmin *d, bool *in)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < d->items; i++)
            for (size_t k = 0; in[i] && k < d->items; k++)
                if (d->needs[i * d->items + k] && !in[k]) {
                    in[i] = false;
                    more = true;
                }
    }
}

static struct known *find(const struct tb_ddmin *d, const bool *in)
{
    struct known *k = d->known;

    while (k && memcmp(k->in, in, d->items * sizeof(*in)) != 0)
        k = k->next;
    return k;
}

static bool holds_all(const struct tb_ddmin *d, const bool *in, const bool *of)
{
    for (size_t i = 0; i < d->items; i++)
        if (of[i] && !in[i])
            return false;
    return true;
}

/* What passed and led to a set that does not may have been wrong, too */
static void doubt(struct tb_ddmin *d, const bool *in)
{
    for (struct known **at = &d->known; *at;) {
        struct known *k = *at;
        if (k->answer == TB_DDMIN_PASS && holds_all(d, k->in, in)) {
            *at = k->next;
            free(k);
        } else {
            at = &k->next;
        }
    }
}

void tb_ddmin_note(struct tb_ddmin *d, const bool *in, enum tb_ddmin_answer answer)
{
    struct known *k = find(d, in);

    if (k && k->answer == TB_DDMIN_PASS && answer == TB_DDMIN_FAIL) {
        doubt(d, in);
        k = NULL;
    }
    if (!k) {
        k = malloc(sizeof(*k) + d->items * sizeof(*in));
        if (!k)
            return; /* then it is asked again */
        memcpy(k->in, in, d->items * sizeof(*in));
        k->next = d->known;
        d->known = k;
    }
    k->answer = answer;
}

static enum tb_ddmin_answer ask(struct tb_ddmin *d, const bool *in)
{
    const struct known *k = find(d, in);

    if (k)
        return k->answer;
    enum tb_ddmin_answer answer = d->ask(in, d->arg);
    if (answer != TB_DDMIN_STOP)
        tb_ddmin_note(d, in, answer);
    return answer;
}

/* ---------------------------------------------------------------- search */

/* d->part: the items of @set whose place in it is in [from, to), or all the others */
static void take_part(struct tb_ddmin *d, const bool *set, size_t from, size_t to, bool others)
{
    size_t place = 0;

    for (size_t i = 0; i < d->items; i++) {
        bool inside = set[i] && place >= from && place < to;
        d->part[i] = set[i] && inside != others;
        place += set[i];
    }
    if (others)
        prune_set(d, d->part);
    else
        close_set(d, d->part);
}

/* PASS: @set is now the part, which is smaller and passes */
static enum tb_ddmin_answer try_part(struct tb_ddmin *d, bool *set, size_t from, size_t to,
                                     bool others)
{
    take_part(d, set, from, to, others);
    if (size_of(d, d->part) >= size_of(d, set))
        return TB_DDMIN_FAIL;
    enum tb_ddmin_answer answer = ask(d, d->part);
    if (answer == TB_DDMIN_PASS)
        memcpy(set, d->part, d->items * sizeof(*set));
    return answer;
}

/*
 * One round with @set cut into *@pieces: each piece alone, the first first, then all but one piece,
 * the last left out first. PASS: @set is smaller now.
 */
static enum tb_ddmin_answer round_of(struct tb_ddmin *d, bool *set, size_t *pieces)
{
    size_t size = size_of(d, set), n = *pieces;
    enum tb_ddmin_answer answer = TB_DDMIN_FAIL;

    for (size_t i = 0; i < n && answer == TB_DDMIN_FAIL && n < size; i++)
        answer = try_part(d, set, size * i / n, size * (i + 1) / n, false);
    if (answer != TB_DDMIN_FAIL) {
        *pieces = 2;
        return answer;
    }
    for (size_t i = n; i-- > 0 && answer == TB_DDMIN_FAIL;)
        answer = try_part(d, set, size * i / n, size * (i + 1) / n, true);
    if (answer == TB_DDMIN_PASS && n > 2)
        (*pieces)--;
    return answer;
}

enum tb_ddmin_answer tb_ddmin_run(struct tb_ddmin *d, bool *set)
{
    close_set(d, set);
    enum tb_ddmin_answer answer = ask(d, set);

    if (answer != TB_DDMIN_PASS)
        return answer;
    for (size_t pieces = 2, size; (size = size_of(d, set)) > 0;) {
        if (pieces > size)
            pieces = size;
        answer = round_of(d, set, &pieces);
        if (answer == TB_DDMIN_STOP)
            return answer;
        if (answer == TB_DDMIN_FAIL && pieces == size)
            break;
        if (answer == TB_DDMIN_FAIL)
            pieces *= 2;
    }
    return TB_DDMIN_PASS;
}
