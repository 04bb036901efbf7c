/*
 * diff_internal.h - how the parts of diff/ see each other; private to diff/ and its tests.
 *
 * The way of an event: stream.c takes it from a trace, resolves what it reads with the run's own
 * struct rangemap and makes a struct ev of it, and meet.c knows which other streams' work it meets;
 * align.c finds its mate in the other run; blame.c compares the two and keeps what differs as
 * roots; doubt.c knows what of it may be torn; process.c drives that for a pair of processes,
 * window by window; diff.c does it for all processes and makes the report.
 */
#ifndef TB_DIFF_INTERNAL_H
#define TB_DIFF_INTERNAL_H

#include "diff/diff.h"
#include "recorder/wire.h"

/** plural - what a word has behind it after this number */
static inline const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}
static inline const char *are(uint64_t n)
{
    return n == 1 ? "is" : "are";
}
static inline const char *were(uint64_t n)
{
    return n == 1 ? "was" : "were";
}

/* ---------------------------------------------------------------- table.c */

/* A table of 64-bit keys that forgets: when it is full the half not touched for longest goes. */
struct gentab_slot {
    uint64_t key, value;
    uint32_t aux;
    bool moved; /* in the old half: it lives on in the young one */
};
struct gentab {
    struct gentab_slot *cur, *old;
    size_t cur_cap, old_cap, used, limit;
    bool forgot;
    void (*drop)(void *arg, struct gentab_slot *s); /* called for what is forgotten; may be NULL */
    void *drop_arg;
};
/** gentab_init - @limit: entries of a half. No memory is taken before the first put */
void gentab_init(struct gentab *t, size_t limit);
void gentab_release(struct gentab *t);
/** gentab_get - NULL: not there; valid until the next call. @key is not 0 */
struct gentab_slot *gentab_get(struct gentab *t, uint64_t key);
/** gentab_put - the slot of @key, new ones zeroed; NULL: no memory */
struct gentab_slot *gentab_put(struct gentab *t, uint64_t key);

/** mix64 - hash of two numbers; not symmetric */
uint64_t mix64(uint64_t h, uint64_t v);
uint64_t hash_text(const char *s, size_t n);

/* ---------------------------------------------------------------- rangemap.c */

/* Bytes [lo, hi) of an allocation and what lies there: token of the content, from byte `start` on.
 */
struct range {
    int64_t lo, hi;
    int64_t start;  /* where the access that made the token begins; lo - start is the place in it */
    int64_t whole;  /* where it ends */
    uint64_t token; /* equal in both runs if the bytes were made equal; 0: unknown */
    uint64_t lineage; /* event that last wrote or verified the bytes, 0: none */
    uint64_t writer;  /* event that last wrote them, 0: no recorded one */
    uint64_t seq;     /* of the lineage event */
    bool guess;       /* the token says who wrote the bytes, not what they are */
};
struct range_vec {
    struct range *r;
    size_t n, cap;
};
struct rangemap;

struct rangemap *rangemap_new(void);
void rangemap_free(struct rangemap *m);
/** rangemap_clear - forget all */
void rangemap_clear(struct rangemap *m);
/** rangemap_forgot - were entries dropped for want of room since new or clear? */
bool rangemap_forgot(const struct rangemap *m);
/**
 * rangemap_resolve - what [lo, hi) of @alloc held before the event with number @open
 * @out: emptied, then the pieces in order without gaps; unknown ones have token 0
 */
enum tb_status rangemap_resolve(struct rangemap *m, uint64_t alloc, int64_t lo, int64_t hi,
                                uint64_t open, struct range_vec *out) TB_MUST_CHECK;
/** rangemap_write - [r->lo, r->hi) of @alloc is now @r; !@dense: only some of the bytes were
 * written */
enum tb_status rangemap_write(struct rangemap *m, uint64_t alloc, const struct range *r,
                              bool dense) TB_MUST_CHECK;

/* ---------------------------------------------------------------- stream.c */

enum acc_flags {
    ACC_HASHED = 1 << 0,  /* the access has a fingerprint */
    ACC_UNKNOWN = 1 << 1, /* a read: some byte has no recorded writer */
    ACC_FRESH = 1 << 2,   /* ... and the allocation was made within what was read */
    ACC_LEFT = 1 << 3,    /* a write that left the bytes as they were, or was believed to */
    ACC_MET = 1 << 4,  /* another stream uses the bytes, in no order with it; one of them writes */
    ACC_TORN = 1 << 5, /* ... and its fingerprint may hold what the other wrote meanwhile */
    ACC_SHARED = 1 << 6, /* of a launch, to an allocation that several threads write */
};

/* One access of a struct ev */
struct acc {
    uint64_t alloc;
    int64_t lo, hi; /* bytes touched in the allocation */
    uint64_t offset;
    struct tb_fp fp;
    uint32_t piece, pieces; /* reads, states, writes that may keep some: what lay there before */
    uint8_t kind, flags;
};

struct ev {
    struct ev *mate; /* in the other run */
    uint64_t id, seq, open, step, args;
    const struct tb_site *site;
    const char *range;
    uint64_t site_key;
    uint64_t key;     /* site, phase and module */
    uint64_t alike;   /* the same, whatever the launch shape and the code of a kernel are */
    uint64_t content; /* all that was seen of it: key, args, what it read, what it wrote */
    uint32_t thread;  /* id in its trace */
    uint32_t epoch;   /* collectives of the process before it */
    uint16_t flags;
    uint8_t kind;
    uint8_t moved : 1, done : 1, setup : 1;
    uint8_t stays : 1; /* align_moved(): it is not taken elsewhere */
    uint8_t gap : 1;   /* the other run did not record its mate */
    uint32_t n;
    const struct range *pieces;
    struct acc acc[];
};

/* Where events come from: a cursor, or a test's array. At the end *e is NULL. */
struct ev_source {
    enum tb_status (*next)(void *ctx, const struct tb_trace_event **e, struct tb_error *err);
    const char *(*range)(void *ctx, uint32_t id);
    void *ctx;
};

struct stream;
struct stream *stream_new(const struct ev_source *source);
void stream_free(struct stream *s);
/** stream_source - go on with another source; @forget: and nothing known of memory */
void stream_source(struct stream *s, const struct ev_source *source, bool forget);
/** stream_next - the next event, to be freed with free(); *@out NULL at the end */
enum tb_status stream_next(struct stream *s, struct ev **out, struct tb_error *err) TB_MUST_CHECK;
/** stream_mark - set ACC_MET, ACC_TORN and ACC_SHARED of @e's accesses, as far as is known from all
 * events so far */
void stream_mark(struct stream *s, struct ev *e);

/* ---------------------------------------------------------------- meet.c */

struct meetings;
struct meetings *meetings_new(void);
void meetings_free(struct meetings *m);
/** meetings_forget - uses and orders, for events follow that do not go on from the last one */
void meetings_forget(struct meetings *m);
/** meetings_event - the next event of the process */
enum tb_status meetings_event(struct meetings *m, const struct tb_trace_event *e) TB_MUST_CHECK;
void meetings_mark(struct meetings *m, struct ev *e);
/** meetings_begun - was there work of a GPU? */
bool meetings_begun(const struct meetings *m);

/* ---------------------------------------------------------------- align.c */

enum align_flags {
    ALIGN_FREE_LEAD =
        1 << 0, /* B (or A) begins with events that the other cannot have: pair from behind */
    ALIGN_FREE_TAIL = 1 << 1, /* one of them was cut off: pair from the front */
    ALIGN_GAP = 1 << 2,  /* one of them was not recorded for a while: pair by what they wrote */
    ALIGN_PART = 1 << 3, /* there is more of both: equal numbers mean nothing */
};
/** align - set the mates of two sequences of one thread, in order; mates are NULL before */
enum tb_status align(struct ev **a, size_t n, struct ev **b, size_t m,
                     unsigned flags) TB_MUST_CHECK;
/**
 * align_moved - pair what is left, and what differs, by content regardless of order
 * @moved: how many pairs are new
 *
 * Not what got the same in both runs and made something else of it; nor what writes the same bytes
 * in one thread and stream, in another order in each run: they end as something else.
 */
enum tb_status align_moved(struct ev **a, size_t n, struct ev **b, size_t m,
                           uint64_t *moved) TB_MUST_CHECK;

/* ---------------------------------------------------------------- blame.c */

/* What the comparison found, before names and elements are looked up */
struct root {
    struct tb_diff_root r;
    uint8_t kind;   /* enum tb_wire_event_kind of its event */
    uint8_t device; /* plus 1: of its event's stream; 0: not known */
    uint64_t group; /* hash of cause and place: equal ones are counted together */
    const struct tb_site *site_a, *site_b;
    const char *range_a, *range_b;
    uint64_t coll;       /* COLLECTIVE: which one, equal on all ranks; 0: none */
    size_t process;      /* index in run A, set by diff.c */
    bool changed[2];     /* UNSEEN_WRITER: the run in which the bytes are not what was written */
    bool differs;        /* the event's own outputs do */
    bool weak;           /* only if nothing better is found */
    bool hunted;         /* one of the first: what is around it is read again, for races */
    bool reads_unhashed; /* some read was not hashed: an unseen writer cannot be excluded */
    bool deleted;        /* only digests are left of its step */
    bool shared;       /* read memory (@input) that the host may write unseen, and was not hashed */
    bool stale;        /* its output (@input) may hold bytes that nobody was seen to write */
    bool not_compared; /* HOST_VALUE: what it wrote, for its extents differ: blame_charge() */
    bool guessed;      /* read bytes (@input) whose last writer left no fingerprint */
    bool fresh_input;  /* read bytes that no recorded operator wrote, and that were not hashed */
    char input[160];   /* that argument */
    char inner[192];   /* ALGORITHM: the first operator that ran in one run only */
    bool inner_device; /* it is work of a GPU */
};

struct report_builder;

/* A collective that differs; ranks are told apart by it */
struct coll {
    uint64_t key, step;
    bool in_differs;
    uint32_t root; /* number of the root behind it, 0: none */
};

struct blame_result {
    struct root *roots; /* number n is roots[n - 1] */
    size_t root_count;
    uint64_t roots_more;
    uint64_t compared, equal, infected, healed, moved, only_a, only_b, args_only, setup;
    uint64_t gap; /* of setup: the other run did not record them */
    uint64_t states_infected, orders, unhashed, unproven;
    uint64_t cut; /* outputs of other extents: threads use parts of the allocation */
    struct coll *colls;
    size_t coll_count;
    struct tb_diff_host host;
    bool settled; /* what may be torn was hashed once more, and is equal */
};

struct blame;
struct blame *blame_new(void);
void blame_free(struct blame *b);
/** blame_lineage - remember who is whose mate; for all events of a window before they are compared
 */
enum tb_status blame_lineage(struct blame *b, const struct ev *e, int side) TB_MUST_CHECK;
/** blame_pair - compare an event with its mate; in A's order */
enum tb_status blame_pair(struct blame *b, const struct ev *x) TB_MUST_CHECK;
/** blame_single - one that has none; @side 0: it ran in A */
enum tb_status blame_single(struct blame *b, const struct ev *e, int side) TB_MUST_CHECK;
/** blame_overlap - events with smaller row ids were only looked at, not compared */
void blame_overlap(struct blame *b, uint64_t first_a, uint64_t first_b);
/** blame_add_root - a root found outside (a thread's end, a dropped segment); NULL: no memory */
struct root *blame_add_root(struct blame *b, enum tb_diff_cause cause, uint64_t group);
/** blame_other_leaves - the runs hashed other shares of large buffers: those are not compared */
void blame_other_leaves(struct blame *b);
struct blame_result *blame_result(struct blame *b);

/* ---------------------------------------------------------------- device.c */

/** is_work - something computed: an operator, or work of a GPU; is_device - the latter */
bool is_work(uint8_t kind);
bool is_device(uint8_t kind);
/** is_from_host - a copy to a device, of memory that is not a device's; is_to_host - the other way
 */
bool is_from_host(const struct ev *e);
bool is_to_host(const struct ev *e);
/**
 * may_keep - access @i is a write that may leave some of its bytes as they were: the extents of
 * launches are what a pointer may be for, those of boxes reach from their first byte to their last
 */
bool may_keep(uint8_t kind, const struct tb_site *s, uint32_t i);
/** host_may_write - access @i of work of a GPU is to memory that the host, too, writes unseen */
bool host_may_write(const struct ev *e, uint32_t i);
/** is_beside - it is read only to tell what lay there before a launch wrote */
bool is_beside(const struct tb_site *s, uint32_t i);
/** site_key - hash of a site; of a launch but for how many bytes of each allocation it uses */
uint64_t site_key(const struct tb_site *s);
/** site_alike - hash of a site but for the detail of its name: launch shape, code; of a launch
 * also but for how many bytes of each allocation it uses */
uint64_t site_alike(const struct tb_site *s);
/** site_says - has @key the value @want in the detail of its name? */
bool site_says(const struct tb_site *s, const char *key, const char *want);
/** site_torn - may nodes of its graph write what its fingerprints are of, meanwhile? NULL: no */
bool site_torn(const struct tb_site *s);
/** site_launches - is it one of launches, of kernels or graphs? */
bool site_launches(const struct tb_site *s);
/** note_stream - the stream of a root's event; fill_launch - all the rest of r->r.launch */
void note_stream(struct root *r, const struct ev *e, int side);
void fill_launch(struct root *r);

/* ---------------------------------------------------------------- race.c */

/** find_race - did work of another stream write what the root's event, or the one that wrote its
 * input, used, with nothing that orders the two? Names are filled in */
bool find_race(const struct report_builder *rb, const struct root *r, struct tb_diff_race *out);
/** say_race - the evidence for r->r.race */
void say_race(struct root *r);

/* ---------------------------------------------------------------- run.c */

struct run_process {
    uint32_t file; /* index of its trace */
    const struct tb_trace_process *p;
    char label[96];
    int32_t mate; /* index in the other run, -1: none */
    bool loosely; /* matched without equal identity */
};
struct run {
    char path[1024];
    struct tb_trace **trace;
    char **file; /* paths */
    size_t files;
    struct run_process *proc;
    size_t procs;
};
enum tb_status run_open(struct run *r, const char *path, struct tb_error *err) TB_MUST_CHECK;
void run_close(struct run *r);
/** run_match - set mates; TB_ERR_ARG if the runs are of unlike jobs */
enum tb_status run_match(struct run *a, struct run *b, struct tb_error *err) TB_MUST_CHECK;

/* ---------------------------------------------------------------- ways.c */

/** struct ways - what the runs recorded in ways of their own */
struct ways {
    bool graphs;   /* CUDA graphs: node by node in one run, as a whole in the other */
    bool nodes[2]; /* which run has nodes */
    bool codes;    /* kernels: what they write is known from their code in one run only */
    bool filters;  /* --kernel, --sample or --seed differ, and a run left launches out by them */
    bool windows;  /* --steps differs */
    struct gentab kernel;
    struct gentab left[2]; /* names of kernels of which a run left launches out */
};
struct report_builder;
/** note_ways - is there such, and why; release with ways_release() */
enum tb_status note_ways(struct report_builder *rb, struct tb_error *err) TB_MUST_CHECK;
void ways_release(struct ways *w);
/** ways_left_out - run @side left launches of @kernel out, by what the other was not told; false:
 * no memory */
bool ways_left_out(struct ways *w, int side, const char *kernel);
/** ways_part - where one run lacks some launches of a kernel, those stay mates in which all is
 * equal. @e: of run A, aligned */
void ways_part(struct ways *w, struct ev **e, size_t n);
/** ways_mark - those of @e, which run @side has, that the other one has recorded otherwise, or was
 * told to leave out */
void ways_mark(struct ways *w, struct ev **e, size_t n, int side);

/* ---------------------------------------------------------------- window.c */

struct thread_pair {
    uint32_t a, b; /* thread ids; 0: no such thread in that run */
};
struct span_options {
    uint64_t overlap; /* first step compared; events before it are only looked at */
    uint64_t last;    /* last step compared */
    bool lead;   /* a run begins inside the first step: what comes before the first mate is setup */
    bool levels; /* kernels inside of operators are recorded in one run only */
    bool tail; /* a run ends inside the last step: what comes after the last mate is not compared */
    bool gap[2];   /* the run was not recorded all the time: events may be missing anywhere */
    bool cut[2];   /* its recording was cut off: what comes after its last event is missing */
    size_t window; /* events of a run held at once, about; 0: 65536 */
    /* jump - may the streams go on elsewhere? Asked before step @step while no root is known; true
     * if it has given them other sources */
    bool (*jump)(void *arg, uint64_t step);
    void *jump_arg;
    struct ways *ways; /* what has no mate and was recorded otherwise is left out; NULL: nothing */
};
/**
 * compare_streams - align and blame two runs of one process, to the end
 * Threads are matched by @pairs; threads of no pair are compared by content only.
 */
enum tb_status compare_streams(struct blame *blame, struct stream *a, struct stream *b,
                               const struct thread_pair *pairs, size_t n,
                               const struct span_options *o, struct tb_error *err) TB_MUST_CHECK;

/* ---------------------------------------------------------------- process.c, env.c, ends.c,
 * classify.c */

struct report_builder {
    struct tb_diff_report *rep;
    struct run *a, *b;
    bool paused[2]; /* the run was not recorded all the time */
    struct ways ways;
    bool incomplete; /* lost, cut or not covered in one run only: no "identical" */
    char incomplete_why[256];
    char window_why[256];  /* --steps differs: what that means; "" it does not */
    char left_by[64];      /* "--kernel and --sample": by what; "" nothing */
    char left_out[200];    /* of the runs, by what the user asked for; "" nothing */
    bool settings_cut;     /* setting[] lacks some, for want of room */
    char setting[2][1024]; /* "OMP_NUM_THREADS='2' ": variables that a repetition must set */
};
enum tb_status add_line(struct tb_diff_line **list, size_t *n, unsigned severity, const char *fmt,
                        ...) TB_PRINTF(4, 5);
enum tb_status compare_environment(struct report_builder *rb) TB_MUST_CHECK;
/** note_ends - do the statuses differ that the jobs ended with? */
enum tb_status note_ends(struct report_builder *rb) TB_MUST_CHECK;
/** env_differs - is there a difference in a key that starts with or contains @word? @line: the line
 */
const char *env_differs(const struct tb_diff_report *rep, const char *word);
/** poisons - was fresh memory filled with another byte in each run (run --poison)? @fill: with
 * which, may be NULL */
bool poisons(const struct report_builder *rb, uint8_t fill[2]);
/** run_options - options of `twinbit run` that the next command repeats, each with a blank behind
 * it */
void run_options(struct tb_trace *t, char *out, size_t size);
/** struct pin_seen - what was seen of a pin, not NUL-terminated */
struct pin_seen {
    const char *id, *value;
    size_t id_len, value_len;
};
/** next_pin - the next row of a trace's text "pins" (store/FORMAT.md) that has something; *@at from
 * 0 */
bool next_pin(const char *text, size_t n, size_t *at, struct pin_seen *out);
enum tb_status compare_coverage(struct report_builder *rb, struct tb_error *err) TB_MUST_CHECK;
/** run_has_launches - was a launch of a kernel or of a graph recorded? */
bool run_has_launches(const struct run *r);
/** say_left_out - the evidence for it: what differs may begin there */
void say_left_out(const struct report_builder *rb, struct root *r);
void note_incomplete(struct report_builder *rb, const char *fmt, ...) TB_PRINTF(2, 3);
enum tb_status compare_process(struct report_builder *rb, size_t pa, struct blame *blame,
                               struct tb_error *err) TB_MUST_CHECK;
/** compare_maps - fill root->r.part, if both traces have the map of its tensor */
enum tb_status compare_maps(const struct report_builder *rb, struct root *root,
                            struct tb_error *err) TB_MUST_CHECK;
/** struct thread_match - a thread of both runs, or of one (then the other's th is NULL) */
struct thread_match {
    const struct tb_trace_thread *th[2];
    struct tb_trace_segment *seg[2]; /* the caller frees them */
    size_t n[2];
};
/** match_threads - which thread of process[0] in t[0] is which of process[1] in t[1]; the caller
 * frees *@out, whatever is returned */
enum tb_status match_threads(struct tb_trace *const t[2], const uint32_t process[2],
                             struct thread_match **out, size_t *n,
                             struct tb_error *err) TB_MUST_CHECK;
/** evidence - one more line of it, if there is room */
void evidence(struct root *r, const char *fmt, ...) TB_PRINTF(2, 3);
/** classify_root - settle the cause and give its evidence; names and elements are known */
void classify_root(const struct report_builder *rb, struct root *root);
/** next_command - fill root->r.next */
void next_command(const struct report_builder *rb, struct root *root);

/* ---------------------------------------------------------------- rank.c, finish.c, operators.c */

/* Of one process pair: what outlives its comparison */
struct found {
    struct coll *colls;
    size_t coll_count;
    size_t root_base; /* its roots among all */
    size_t root_count;
};

struct all_roots {
    struct root *r;
    size_t n;
    struct found *of; /* by process of A */
};

/** rank_roots - drop what others explain, and sort the rest: the first one is where the runs part
 */
enum tb_status rank_roots(struct report_builder *rb, struct all_roots *all) TB_MUST_CHECK;
/** finish_roots - names, elements, causes of the first @max into rb->rep */
enum tb_status finish_roots(struct report_builder *rb, struct all_roots *all, unsigned max,
                            struct tb_error *err) TB_MUST_CHECK;

/** op_is_reduction - does the operator add many numbers? op_is_product: is it a product or a
 * convolution? op_is_scatter: do several threads add to the same place? */
bool op_is_reduction(const char *name);
bool op_is_product(const char *name);
bool op_is_scatter(const char *name);

#endif
