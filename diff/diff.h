/*
 * diff - two traces of the same job: where they part first, why, and what follows from it.
 *
 * Start at tb_diff_run(), then tb_diff_text() or tb_diff_json(). A run is one trace or a folder of
 * them. docs/diff.md explains the method and the words of the report; docs/diff-report.schema.json
 * the JSON. The elements of two buffers and event names can be had alone: tb_elements_compare(),
 * tb_event_name_*().
 */
#ifndef TB_DIFF_DIFF_H
#define TB_DIFF_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/common.h"
#include "fingerprint/fingerprint.h"
#include "store/store.h"

/* ---------------------------------------------------------------- event names */

/**
 * struct tb_event_name - "rank/process/role/step/phase:module-path/operator#k", as docs/diff.md has
 * it The parts before the step may be missing, the last first: an empty string or rank -1 matches
 * all.
 */
struct tb_event_name {
    int32_t rank; /* -1: not said */
    char process[96], role[64];
    uint64_t step;
    char module[512]; /* "backward:transformer.h.1.attn"; "forward:" is the forward pass, no module
                       */
    char op[192];     /* "aten::addmm" */
    uint64_t k; /* the k-th such event of its thread since the step began, in order of ending */
};

#define TB_EVENT_NAME_TEXT 1024

/** tb_event_name_parse - TB_ERR_ARG if @text is not a name; the message says what is expected */
enum tb_status tb_event_name_parse(const char *text, struct tb_event_name *out,
                                   struct tb_error *err) TB_MUST_CHECK;
/** tb_event_name_format - the whole name; what is not said is left out. Returns @out */
const char *tb_event_name_format(const struct tb_event_name *n, char *out, size_t size);
/** tb_event_name_short - "step/phase:module-path/operator#k": what `twinbit run --snapshot` takes
 */
const char *tb_event_name_short(const struct tb_event_name *n, char *out, size_t size);
/** tb_event_name_match - does @name (all parts known) fit @pattern? */
bool tb_event_name_match(const struct tb_event_name *pattern, const struct tb_event_name *name);
/** tb_event_name_module - module part of a name from a range's text "phase\tmodule-path\tuser" */
void tb_event_name_module(const char *range, char *out, size_t size);
/** tb_process_label - process part of a name: script, -w<worker>, -r<restart>; no '/' or space in
 * it */
void tb_process_label(const struct tb_trace_process *p, char *out, size_t size);
/**
 * tb_event_name_of - name of event @id of thread @thread
 * Reads the thread's events since the step began. Returns: TB_ERR_NOTFOUND, or what the reader
 * says.
 */
enum tb_status tb_event_name_of(struct tb_trace *t, uint32_t thread, uint64_t id,
                                struct tb_event_name *out, struct tb_error *err) TB_MUST_CHECK;

/** tb_demangle - a C++ name as its source has it, if libstdc++ is there to say so; else @symbol.
 * For the reader's eye only: names of events have the short name. Returns @out */
char *tb_demangle(const char *symbol, char *out, size_t size);

/* ---------------------------------------------------------------- elements */

#define TB_ULP_BINS                                                                                \
    66 /* 0: equal values of other bits (+0/-0); i: distance 2^(i-1)..2^i-1; 65: NaN */

/** struct tb_elements - two buffers of one type, element by element */
struct tb_elements {
    enum tb_dtype dtype;
    uint64_t count;                  /* elements compared */
    uint64_t differ;                 /* of other bits */
    uint64_t nan_a, nan_b, nan_bits; /* NaN in A, in B; both NaN with other payloads */
    uint64_t first;                  /* flat row-major index of the first that differs */
    int ndim;
    int64_t index[TB_FP_MAX_DIMS];  /* the same by dimensions */
    uint8_t a[16], b[16], mask[16]; /* the first one's bytes as in memory, and their XOR */
    unsigned size;                  /* bytes an element */
    unsigned bits;                  /* bits that differ in the first one */
    uint64_t bits_all;              /* bits that differ in all */
    bool ulp_known;                 /* floating types and integers (then the difference itself) */
    uint64_t ulp;                   /* of the first; UINT64_MAX if a NaN is involved */
    uint64_t ulp_max;               /* of all without NaN */
    uint64_t histogram[TB_ULP_BINS];
    double max_abs; /* largest |a-b| of finite elements */
};

/**
 * tb_elements_compare - compare @n bytes of @dt
 * @sizes: shape, row-major; NULL: flat. Returns: TB_ERR_ARG for an unknown type or a size that is
 * not whole.
 */
enum tb_status tb_elements_compare(enum tb_dtype dt, const int64_t *sizes, int ndim, const void *a,
                                   const void *b, uint64_t n, struct tb_elements *out,
                                   struct tb_error *err) TB_MUST_CHECK;
/** tb_element_text - one element in decimal, exact enough to be read back; returns @out */
const char *tb_element_text(enum tb_dtype dt, const void *elem, char *out, size_t size);
/** tb_element_hex - "0x3f800000": the element's bits, most significant first; returns @out */
const char *tb_element_hex(enum tb_dtype dt, const void *elem, char *out, size_t size);

/* ---------------------------------------------------------------- report */

enum tb_diff_verdict { TB_DIFF_IDENTICAL = 0, TB_DIFF_DIVERGED = 1, TB_DIFF_UNKNOWN = 3 };

enum tb_diff_cause {
    TB_CAUSE_UNEXPLAINED = 0,
    TB_CAUSE_INPUT_DATA,
    TB_CAUSE_HOST_VALUE,
    TB_CAUSE_RNG,
    TB_CAUSE_CONTROL_FLOW, /* other operators ran */
    TB_CAUSE_ORDER,        /* the same tensors in another order */
    TB_CAUSE_ALGORITHM,
    TB_CAUSE_ACCUMULATION,
    TB_CAUSE_UNINITIALISED,
    TB_CAUSE_STREAM_RACE,
    TB_CAUSE_COLLECTIVE,
    TB_CAUSE_ENVIRONMENT,
    TB_CAUSE_UNSEEN_WRITER, /* memory changed after its last recorded writer */
    TB_CAUSE_HARDWARE,      /* a suspect, never a verdict */
    TB_CAUSE_STATE, /* state at a step's end differs; what was within the step is not recorded */
    TB_CAUSE_COUNT
};
/** tb_diff_cause_text - "accumulation order"; tb_diff_cause_id - "accumulation_order", as in JSON;
 * static */
const char *tb_diff_cause_text(enum tb_diff_cause cause);
const char *tb_diff_cause_id(enum tb_diff_cause cause);

/** struct tb_diff_place - an event in one of the runs */
struct tb_diff_place {
    bool known;
    uint32_t trace;  /* index of the file in the run */
    uint32_t thread; /* id in that trace */
    uint64_t id;     /* row of that trace, never shown */
    uint64_t seq;
    struct tb_event_name name;
    bool name_known; /* k could be counted */
};

/** struct tb_diff_tensor - an access of an event */
struct tb_diff_tensor {
    bool known;
    uint32_t access; /* index in the site */
    char mode;
    char argument[160], device[24];
    enum tb_dtype dtype;
    int ndim;
    int64_t sizes[8]; /* the first eight */
    uint8_t fp_a[16], fp_b[16];
};

/** struct tb_diff_shape - how work of a GPU was launched in one run; "" is not known */
struct tb_diff_shape {
    char grid[40], block[40]; /* "2,1,1" */
    char shared[24];          /* bytes */
    char image[40];           /* hash of the module with its code */
    uint64_t stream;          /* ordinal in its process */
    bool stream_known;
};
/** struct tb_diff_launch - of a root that is work of a GPU */
struct tb_diff_launch {
    bool known;
    char kernel[512]; /* demangled where that can be done; "" if it is no kernel */
    char other[512];  /* the one of B, where it is another one of the same short name; else "" */
    char device[24];
    struct tb_diff_shape side[2]; /* A, B */
};

/** struct tb_diff_race - two works of a GPU that use the same bytes, and nothing orders them */
struct tb_diff_race {
    bool known;
    bool sure; /* both begin at the same byte, or are copies or sets; else their pointers may be for
                * different parts of one allocation */
    bool in_b; /* it was found in run B */
    bool read; /* @event reads what @other writes; else both write it */
    bool host; /* the program queues host functions, which may order them */
    bool later;                        /* @other was queued behind @event */
    struct tb_diff_place event, other; /* in that run */
    uint64_t stream, other_stream;
    char argument[80]; /* of @event */
    uint64_t lo, hi;   /* bytes of the allocation that both use */
};

#define TB_DIFF_EVIDENCE 8

/** struct tb_diff_part - which of the parts of a tensor differ, from the sums of `run --map` */
struct tb_diff_part {
    bool known;
    uint32_t parts, differ;
    uint64_t count;       /* elements of the tensor */
    uint64_t first, last; /* elements of the first part that differs */
};

/** struct tb_diff_root - one independent divergence */
struct tb_diff_root {
    enum tb_diff_cause cause;
    struct tb_diff_place a, b; /* the event; one side may be unknown (it ran in one run only) */
    struct tb_diff_place writer_a, writer_b; /* UNSEEN_WRITER: who wrote the bytes last */
    struct tb_diff_tensor tensor;            /* the first that differs */
    uint32_t differ, of;                     /* how many of its outputs differ */
    uint64_t step;
    int32_t rank;
    uint32_t epoch;    /* collectives of its process before it */
    uint64_t count;    /* times it was seen, grouped by cause and place */
    uint64_t infected; /* events that follow from it */
    bool of_node;      /* of a node that nothing orders with another one of its graph */
    bool torn;    /* nothing but fingerprints that may hold what another stream wrote meanwhile */
    bool settled; /* ... and what was hashed behind both is equal */
    uint64_t only_a, only_b; /* CONTROL_FLOW: operators that ran in one run only */
    bool elements_known;
    struct tb_elements elements;
    struct tb_diff_part part;
    struct tb_diff_launch launch;
    struct tb_diff_race race; /* STREAM_RACE; not sure: only a possibility */
    char stack[512];          /* source lines, if recorded */
    char summary[256];        /* one line */
    char evidence[TB_DIFF_EVIDENCE][256];
    unsigned evidence_count;
    char next[4096]; /* command to run next */
};

/** struct tb_diff_host - a number that left for the host and differs */
struct tb_diff_host {
    bool known;
    struct tb_diff_place a;
    uint64_t step;
    enum tb_dtype dtype;
    double a_f, b_f;
    int64_t a_i, b_i;
};

/** struct tb_diff_line - one line about the environment, or a note; @severity as in wire.h */
struct tb_diff_line {
    char text[512];
    unsigned severity;
};

struct tb_diff_run_info {
    char path[1024];
    uint32_t files;
    uint64_t events, lost;
    uint32_t processes, threads;
    bool complete;
    char command[1024]; /* of its first process */
    char options[2600]; /* for the next command: "--device softgpu --pin strict ", or "" */
};

struct tb_diff_report {
    enum tb_diff_verdict verdict;
    char reason[256]; /* one line: why this verdict */
    struct tb_diff_run_info run[2];
    struct tb_diff_line *environment;
    size_t environment_count;
    struct tb_diff_line *notes;
    size_t note_count; /* unmatched processes, overlap, reordered ... */
    struct tb_diff_line *coverage;
    size_t coverage_count; /* what was not seen, or seen in one run only */
    struct tb_diff_line *cost;
    size_t cost_count;
    struct tb_diff_root *roots;
    size_t root_count;   /* ranked */
    uint64_t roots_more; /* further ones that were only counted */
    struct tb_diff_host host;
    uint64_t first_step, last_step;
    bool steps_known; /* compared */
    uint64_t skipped; /* events in segments of equal digest, not read */
    uint64_t compared, equal, infected, healed, moved, only_a, only_b, args_only;
    uint64_t setup; /* events outside what both runs have recorded: not compared */
    uint64_t gap;   /* of setup: the other run's recording was paused, cut off, or lost records */
    uint64_t states_infected; /* states at step ends that follow from a root */
    uint64_t orders;          /* synchronisations in one run only: no divergence by themselves */
    uint64_t unhashed;        /* outputs with a fingerprint in one run only, or of other kinds */
    uint64_t cut;             /* outputs hashed of more bytes in one run than in the other */
    uint64_t cut_open;        /* ... and these were not hashed again, equally */
    uint64_t unproven;        /* ... where the other had learnt that nothing is written */
    double seconds;
};

struct tb_diff_options {
    bool verify;        /* read both traces whole first and check every digest */
    unsigned max_roots; /* kept in the report, 0: 32 */
};

/**
 * tb_diff_run - compare run @a with run @b, each a trace or a folder of traces
 * Returns: TB_OK and a report that the caller frees with tb_diff_free(); TB_ERR_CORRUPT and others
 * from the reader; TB_ERR_ARG for runs of unlike jobs. Threads: any. Memory: flat.
 */
enum tb_status tb_diff_run(struct tb_diff_report **out, const char *a, const char *b,
                           const struct tb_diff_options *options,
                           struct tb_error *err) TB_MUST_CHECK;
void tb_diff_free(struct tb_diff_report *r);

/** tb_diff_text - the report on one screen; tb_diff_json - as docs/diff-report.schema.json has it
 */
void tb_diff_text(const struct tb_diff_report *r, FILE *out, bool colour);
void tb_diff_json(const struct tb_diff_report *r, FILE *out);

#endif
