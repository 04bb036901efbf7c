/*
 * blame_internal.h - what the parts of blame share; private to blame.c, roots.c, inputs.c,
 * singles.c, charge.c, doubt.c and collective.c.
 */
#ifndef TB_DIFF_BLAME_INTERNAL_H
#define TB_DIFF_BLAME_INTERNAL_H

#include "diff/diff_internal.h"

#define ROOTS 256u
#define OVERFLOW (ROOTS + 1) /* the number of all further roots */
#define NO_MATE UINT64_MAX
#define SETUP (UINT64_MAX - 1) /* before the compared steps: no mate is expected */
#define LINEAGE (1u << 18)     /* events that are remembered, at least */
#define COLLS 4096u
#define PENDING 256u
#define OUTSIDE 0x6F757473u /* in the table of unseen writers: an allocation, not an event */
#define TORN 0x746F726Eu    /* in the group of a root: all that differs may be torn */
#define GENERATORS 32u
#define CHARGES 64u

struct generator {
    uint64_t key;
    uint32_t root;    /* its state differs since then, because of it; 0: equal */
    uint32_t suspect; /* what drew from it in one run only, or differently */
};

/* What a thread did last, for operators that ran others inside, and for bursts of unmatched events
 */
struct thread_state {
    uint64_t bad_seq;
    uint32_t bad_root;
    uint32_t partner; /* thread of the other run */
    uint32_t burst;   /* root of the running burst, 0: none */
};

/* A collective that was issued and whose results were not seen yet; numbers are those of run A */
struct pending {
    uint64_t name, key;
    uint64_t alloc[4]; /* of the first tensors given to it */
    uint32_t root;     /* behind what this rank gave, 0: equal */
};
struct colls {
    struct pending p[PENDING];
    size_t n;
    struct gentab count; /* name -> value: how many were issued */
    uint64_t key;        /* of the collective that is looked at */
};

/* Bytes [lo, hi) of an allocation of A, and so many of B's, @shift further on */
struct doubt {
    uint64_t alloc[2];
    int64_t lo, hi, shift;
};
struct doubts {
    struct doubt *d;
    size_t n, cap;
    bool lost; /* there were too many, or some are not of bytes: never settled */
};

/* Launches of other arguments whose results could not be compared, as the roots they may become */
struct charges {
    struct root *root; /* CHARGES */
    size_t n;
};

struct blame {
    struct gentab line[2];  /* event -> value: mate or NO_MATE, aux: root */
    struct gentab alloc[2]; /* allocation -> value: the other run's */
    struct gentab groups;   /* group -> value: root */
    struct gentab unseen;   /* last writer -> value: root */
    struct gentab cut; /* events of A with outputs that could not be compared, for threads use parts
                          of one allocation; value: blame_charge() */
    struct charges charges;
    struct thread_state *thread[2];
    size_t threads[2];
    struct generator gen[GENERATORS];
    size_t gens;
    uint64_t overlap[2];
    uint32_t state; /* root of the first state that differed without a recorded writer */
    uint32_t host;  /* root behind the first number that left for the host and differed */
    struct colls colls;
    struct doubts doubts;
    bool ops;          /* operators were recorded since the step began */
    bool other_leaves; /* fingerprints of some leaves are of other ones in the other run */
    struct blame_result res;
};

/* ---------------------------------------------------------------- roots.c */

/** blame_thread - what thread @thread of a run did last; NULL: no memory. Valid until the next call
 */
struct thread_state *blame_thread(struct blame *b, int side, uint32_t thread);
/** blame_root_for - number of the root of this group; *@fresh: it is new, fill it in. 0: no memory
 */
uint32_t blame_root_for(struct blame *b, enum tb_diff_cause cause, uint64_t group, bool *fresh);
void blame_set_place(struct tb_diff_place *p, const struct ev *e);
/** blame_fill_root - where it is: @x in A, @y in B; one may be NULL */
void blame_fill_root(struct root *r, const struct ev *x, const struct ev *y);
void blame_fill_tensor(struct tb_diff_tensor *t, const struct ev *x, const struct ev *y,
                       uint32_t i);
/** blame_is_inside - did @p happen inside of @outer, in the same run? */
bool blame_is_inside(const struct tb_diff_place *p, const struct ev *outer);
uint64_t blame_place_key(enum tb_diff_cause cause, const struct ev *e);
/** blame_mark_bad - @e differs because of @root: what it ran inside of is not to blame */
void blame_mark_bad(struct blame *b, int side, const struct ev *e, uint32_t root);

/** blame_sure - what follows from root @n, or is found there once more, could not be torn */
void blame_sure(struct blame *b, uint32_t n);

/** struct line - what is known of an event that wrote or verified bytes */
struct line {
    bool known;
    uint64_t mate;
    uint32_t root;
};
struct line blame_line(struct blame *b, int side, uint64_t event);

/* ---------------------------------------------------------------- blame.c */

/** blame_is_cut - are @p and @q hashed, but of other extents, since threads came to use parts of
 * the allocation earlier in one run than in the other? */
bool blame_is_cut(const struct acc *p, const struct acc *q);
/** blame_comparable - do the fingerprints of @p and @q say whether the bytes are equal? */
bool blame_comparable(const struct blame *b, const struct acc *p, const struct acc *q);

/* ---------------------------------------------------------------- inputs.c */

/* What is known of the inputs of a pair; the worst counts */
struct inputs {
    bool tainted, crossed, unknown;
    uint32_t root;       /* TAINT: number, 0: not known which */
    uint32_t cross;      /* access */
    uint64_t writer[2];  /* CROSS: who wrote what each read */
    bool before;         /* written before the compared steps */
    bool hashed_differs; /* a read that was hashed differs: it is remembered under this event */
    bool read_differs;   /* ... and no other stream wrote there meanwhile */
    bool self;           /* the event itself is what the root names */
    uint32_t host;       /* 1 + access: bytes that the host wrote differ; 0: none */
};

/** blame_taint - it read what differs because of @root, 0: not known which */
void blame_taint(const struct blame *b, struct inputs *in, uint32_t root);
/** blame_inputs - all that @x and @y read */
enum tb_status blame_inputs(struct blame *b, const struct ev *x, const struct ev *y,
                            struct inputs *in) TB_MUST_CHECK;
/** blame_host_wrote - the outputs differ because of what the host wrote, in->host; where that has
 * no root yet, it gets one */
enum tb_status blame_host_wrote(struct blame *b, const struct ev *x, const struct ev *y,
                                struct inputs *in) TB_MUST_CHECK;
/** blame_kept - output @i may hold what it held before; root behind that if it differs already,
 * else
 * 0 */
uint32_t blame_kept(struct blame *b, const struct ev *x, const struct ev *y, uint32_t i);
/** blame_generator - the state of a generator, access @i */
enum tb_status blame_generator(struct blame *b, const struct ev *x, const struct ev *y, uint32_t i,
                               struct inputs *in) TB_MUST_CHECK;
/** blame_suspect - @e drew numbers in one run only, or other ones: that explains a state later */
void blame_suspect(struct blame *b, const struct ev *e, uint32_t root);
/** blame_learn - which buffer of B is which of A, as far as nobody was seen to write them */
enum tb_status blame_learn(struct blame *b, const struct ev *x, const struct ev *y) TB_MUST_CHECK;

/* ---------------------------------------------------------------- doubt.c */

/** blame_doubts - what @x and @y hashed is in doubt now, or settled; @equal: nothing differs */
enum tb_status blame_doubts(struct blame *b, const struct ev *x, const struct ev *y,
                            bool equal) TB_MUST_CHECK;
/** blame_is_shared - does it use an allocation that several threads write? */
bool blame_is_shared(const struct ev *e);
/**
 * blame_uneven - a pair of launches that do not list as many accesses: a pointer of one is to bytes
 * that another one's extent takes in
 *
 * Where threads use parts of the allocation, that is so in one run and not in the other, and
 * nothing can be compared. Else they are no pair.
 */
enum tb_status blame_uneven(struct blame *b, const struct ev *x, const struct ev *y) TB_MUST_CHECK;

/* ---------------------------------------------------------------- charge.c */

/** blame_charge - outputs of @x and @y could not be compared, for threads use parts of one
 * allocation: blame_is_cut(), blame_uneven() */
enum tb_status blame_charge(struct blame *b, const struct ev *x, const struct ev *y) TB_MUST_CHECK;
/** blame_charged - root of the launch of other arguments that such bytes, which @x uses, come of;
 * *@root 0: there is none. @torn: what differs may be nothing but torn */
enum tb_status blame_charged(struct blame *b, const struct ev *x, bool torn,
                             uint32_t *root) TB_MUST_CHECK;

/* ---------------------------------------------------------------- collective.c */

/** blame_coll_inputs - what the collective was given when it was issued, if this event is its end
 * only */
enum tb_status blame_coll_inputs(struct blame *b, const struct ev *x,
                                 struct inputs *in) TB_MUST_CHECK;
/** blame_coll_note - keep what other ranks must know; @root: behind the pair, 0: none */
enum tb_status blame_coll_note(struct blame *b, const struct ev *x, bool in_differs, uint32_t root,
                               bool self) TB_MUST_CHECK;

#endif
