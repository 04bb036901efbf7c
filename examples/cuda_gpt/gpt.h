/*
 * gpt.h - a character-level GPT that trains on a GPU: options, text, model, step.
 *
 * main.c reads from top to bottom; model.c has the memory, step.c what a training step queues.
 * Every tensor has memory of its own, and everything but parameters and AdamW's moments is written
 * once a step, whole. Functions end the process with a line on stderr where CUDA fails.
 */
#ifndef CUDA_GPT_GPT_H
#define CUDA_GPT_GPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "examples/cuda_gpt/kernels.h"

/* kernels in the variant with atomicAdd */
enum gpt_atomics {
    GPT_ATOMIC_MATMUL = 1 << 0,
    GPT_ATOMIC_ATTENTION = 1 << 1,
    GPT_ATOMIC_LAYERNORM = 1 << 2,
    GPT_ATOMIC_GELU = 1 << 3,
    GPT_ATOMIC_CROSSENTROPY = 1 << 4,
    GPT_ATOMIC_ADAMW = 1 << 5,
    GPT_ATOMIC_EMBEDDING = 1 << 6,
    GPT_ATOMIC_ALL = (1 << 7) - 1
};

#define GPT_MAX_STREAMS 8
#define GPT_DECAY 0.1f /* of weights and embeddings; none of biases and gains */

struct gpt_options {
    int layers, width, heads, batch, context;
    int steps, print_every, streams;
    uint64_t seed;
    float rate, clip;
    unsigned atomics; /* enum gpt_atomics */
    bool graph;
    const char *save; /* borrowed from argv; NULL: no file */
};

/**
 * gpt_options_read - the command line; prints why and ends with status 2 if it cannot be used, with
 * 0 after --help
 */
void gpt_options_read(struct gpt_options *o, int argc, char **argv);

/* ---- text.c: what it trains on ---- */

#define GPT_VOCABULARY 32

/** struct gpt_text - sentences of a small fixed grammar, as numbers 0..31 of characters */
struct gpt_text {
    unsigned char *at;
    size_t n;
};

void gpt_text_init(struct gpt_text *t);
void gpt_text_release(struct gpt_text *t);
/** gpt_text_batch - what step @step trains on, drawn from @seed: each [batch,context] */
void gpt_text_batch(const struct gpt_text *t, uint64_t seed, int step, int batch, int context,
                    int *tokens, int *targets);
/** gpt_random - the next of a sequence of 64-bit numbers (splitmix64) */
uint64_t gpt_random(uint64_t *state);

/* ---- model.c: memory ---- */

/** struct gpt_param - a parameter with all that belongs to it; device memory, @n floats each */
struct gpt_param {
    char name[40];
    size_t n;
    float *value, *gradient, *m, *v;
    float *partial; /* of a bias or gain: sums of chunks of rows */
    float *squares; /* in gpt_model.squares */
    float decay;
};

struct gpt_norm {
    struct gpt_param *gain, *bias;
    float *y, *mean, *rstd, *dy;
};

struct gpt_linear {
    struct gpt_param *weight, *bias; /* bias NULL: none */
    int in, out;
    float *y, *dy;
};

/** struct gpt_layer - one of the N; y and dy are a part's output and the gradient of it */
struct gpt_layer {
    char name[16];
    float *x; /* the output of the layer before; not its own */
    struct gpt_norm norm1, norm2;
    struct gpt_linear qkv, proj, fc, out; /* proj.y and out.y include the residual */
    float *attention, *dattention, *lse, *delta;
    float *act, *dact;
    float *dx; /* gradient of x: the dy of the layer before */
};

struct gpt_model {
    struct gpt_options o;
    int rows; /* batch * context */
    struct gpt_param *params;
    int n_params, max_params;
    size_t n_values; /* floats in all parameters */
    struct gpt_param *token, *position;
    struct gpt_layer *layers;
    struct gpt_norm norm;
    struct gpt_linear head;
    int *tokens, *targets;
    float *embedded, *dembedded; /* what the first layer reads */
    float *losses, *loss;
    float *squares;
    size_t n_squares;
    struct gpt_update *update;
    cudaStream_t stream[GPT_MAX_STREAMS]; /* [0]: where the step begins and ends */
    cudaEvent_t fork, join[GPT_MAX_STREAMS];
    int next;      /* side stream */
    void **memory; /* everything that was allocated */
    int n_memory, max_memory;
};

/** gpt_model_new - all memory, parameters drawn from @o->seed; gpt_model_free releases it */
struct gpt_model *gpt_model_new(const struct gpt_options *o);
void gpt_model_free(struct gpt_model *m);
/** gpt_model_values - all parameters, in order, to @out: n_values floats; waits for the device */
void gpt_model_values(const struct gpt_model *m, float *out);
/** gpt_checksum - of the bits of @n floats */
uint64_t gpt_checksum(uint64_t sum, const float *values, size_t n);

/* ---- step.c ---- */

/**
 * gpt_step - queue a training step in stream[0]: forward, backward, update
 * It reads tokens and targets and leaves the loss in m->loss. Nothing is waited for, so that it can
 * be captured.
 */
void gpt_step(struct gpt_model *m);

void gpt_cuda_check(cudaError_t e, const char *what);
#define GPT_CUDA(call) gpt_cuda_check((call), #call)

#endif
