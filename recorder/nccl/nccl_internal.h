/*
 * nccl_internal - the parts of libtwinbit_nccl.so, the profiler plugin that tells what NCCL chose.
 *
 * plugin.c is what NCCL calls; watch.c keeps what was seen of each communicator, under one lock;
 * say.c makes rows of it (wire.h, TB_MSG_PIN); request.c knows what was asked for. Libc alone;
 * nothing here prints, ends the job, allocates from its heap or leaves another errno behind.
 */
#ifndef TB_RECORDER_NCCL_INTERNAL_H
#define TB_RECORDER_NCCL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/wire.h"

/* ---------------------------------------------------------------- request.c */

enum nccl_pin {
    NCCL_PIN_ALGO,
    NCCL_PIN_PROTO,
    NCCL_PIN_CHANNELS,
    NCCL_PIN_THREADS,
    NCCL_PIN_NVLS,
    NCCL_PIN_COLLNET,
    NCCL_PIN_ORDER,
    NCCL_PIN_RANKS,
    NCCL_PINS
};

enum nccl_asked {
    NCCL_ASKED_NOT,  /* no row of it */
    NCCL_ASKED_READ, /* what is seen is told */
    NCCL_ASKED_KEEP,
    NCCL_ASKED_SET, /* to have @value */
    NCCL_ASKED_JOB, /* the job has a value of its own */
};

struct nccl_request {
    enum nccl_asked asked;
    char value[160];
};

/** nccl_pin_id - "nccl.algo" */
const char *nccl_pin_id(enum nccl_pin pin);
/** nccl_requests_read - what the run's plan asks of our pins; false: of none, or there is no plan
 */
bool nccl_requests_read(struct nccl_request out[NCCL_PINS]);
/**
 * nccl_allows - does a value of NCCL_ALGO or NCCL_PROTO allow @word for collective @func?
 *
 * As NCCL reads it: entries with ';' between them, later ones win; "func:" before an entry is for
 * that function alone; '^' before a list means all but these. Names are compared without regard to
 * case and '_': NCCL's events spell them in another way than its variables.
 */
bool nccl_allows(const char *list, const char *func, const char *word);

/* ---------------------------------------------------------------- watch.c */

enum { NCCL_FUNCS = 12, NCCL_WORDS = 8, NCCL_SIZES = 1024 };

/** struct nccl_call - a collective, as NCCL is about to launch it */
struct nccl_call {
    const char *func, *datatype, *algo, *proto;
    uint64_t seq, count;
    int root;
    unsigned channels, warps;
};

struct nccl_words {
    unsigned count;
    char word[NCCL_WORDS][20];
};

/** struct nccl_func - all that was seen of one function */
struct nccl_func {
    char name[24]; /* "": this entry is free */
    struct nccl_words algo, proto;
    unsigned channels[2], warps[2]; /* least and most */
    bool told[NCCL_PINS];           /* a change of it */
    uint64_t asked, ran;            /* calls of the job; those of which NCCL said what ran */
};

/** struct nccl_size - what was chosen last for a function, number of elements and their type */
struct nccl_size {
    uint64_t key; /* 0: free */
    char algo[20], proto[12];
    unsigned channels, warps;
};

struct nccl_comm {
    struct nccl_comm *next;
    char who[64]; /* "communicator 1 (rank 0 of 8)" */
    uint64_t calls, order;
    struct nccl_func func[NCCL_FUNCS];
    unsigned sizes;
    struct nccl_size size[NCCL_SIZES];
};

/** struct nccl_process - filled under the lock of watch.c */
struct nccl_process {
    struct nccl_request request[NCCL_PINS];
    struct nccl_comm *comms; /* that live */
    unsigned made;
    uint64_t calls, order; /* of all communicators, in the order of their launches */
    struct nccl_func func[NCCL_FUNCS];
    const void *runtime; /* struct tb_rec_api of libtwinbit.so, or NULL */
    struct tb_wire_msg msg;
    size_t used; /* of its text */
};

/** nccl_comm_new - NULL: nothing is to be read in this process, or no memory */
struct nccl_comm *nccl_comm_new(const char *name, int nodes, int ranks, int rank);
void nccl_comm_call(struct nccl_comm *c, const struct nccl_call *call);
/** nccl_comm_asked - the job calls @func; what runs is told later, or never: symmetric kernels */
void nccl_comm_asked(const char *func);
void nccl_comm_end(struct nccl_comm *c);

/* ---------------------------------------------------------------- say.c */

/** nccl_say_ranks - @c was made */
void nccl_say_ranks(struct nccl_process *p, const struct nccl_comm *c, const char *name, int nodes,
                    int ranks, int rank);
/** nccl_say_first - the first call of its function in @c */
void nccl_say_first(struct nccl_process *p, const struct nccl_comm *c,
                    const struct nccl_call *call);
/** nccl_say_change - another choice than @before for the same function, number and type */
void nccl_say_change(struct nccl_process *p, const struct nccl_comm *c, struct nccl_func *f,
                     const struct nccl_call *call, const struct nccl_size *before);
/** nccl_say_all - what was seen of all communicators */
void nccl_say_all(struct nccl_process *p);
/** nccl_say_order - @c, NULL: all of them, ends */
void nccl_say_order(struct nccl_process *p, const struct nccl_comm *c);
/** nccl_say_untold - the process ends: sums of which NCCL did not say what ran */
void nccl_say_untold(struct nccl_process *p);
/** nccl_send - hand over what was said */
void nccl_send(struct nccl_process *p);

#endif
