/*
 * reference.h - the same model on the CPU in double precision, written to be read: what the kernels
 * are checked against. One function for each kernel, then the whole step.
 */
#ifndef CUDA_GPT_REFERENCE_H
#define CUDA_GPT_REFERENCE_H

#include <stddef.h>

#include "examples/cuda_gpt/gpt.h"

/* Shapes as in kernels.h. What is NULL is left out; outputs are written whole. */
void ref_matmul(double *y, const double *x, const double *w, const double *bias,
                const double *residual, int rows, int in, int out);
void ref_matmul_backward(double *dx, double *dw, double *dbias, const double *dy, const double *x,
                         const double *w, int rows, int in, int out);
void ref_attention(double *y, double *lse, const double *qkv, int batch, int context, int heads,
                   int head);
void ref_attention_backward(double *dqkv, const double *dy, const double *qkv, int batch,
                            int context, int heads, int head);
void ref_layernorm(double *y, const double *x, const double *gain, const double *bias, int rows,
                   int width);
void ref_layernorm_backward(double *dx, double *dgain, double *dbias, const double *dy,
                            const double *dresidual, const double *x, const double *gain, int rows,
                            int width);
double ref_gelu(double x);
double ref_gelu_slope(double x);
/* the mean loss; @losses may be NULL */
double ref_crossentropy(double *losses, double *dlogits, const double *logits, const int *targets,
                        int rows, int vocabulary);
void ref_embedding(double *y, const int *tokens, const double *token, const double *position,
                   int batch, int context, int width);
void ref_embedding_backward(double *dtoken, double *dposition, const double *dy, const int *tokens,
                            int batch, int context, int width, int vocabulary);
/* the norm's limit is applied to @gradient; @step counts from 1. Returns the norm */
double ref_limit(double *gradient, size_t n, double limit);
void ref_adamw(double *value, double *m, double *v, const double *gradient, int step, double rate,
               double decay, size_t n);

/** ref_parameters - floats in all parameters of that model, in the order of gpt_model_values() */
size_t ref_parameters(const struct gpt_options *o);
/** ref_gradient - the loss; gradients of all parameters to @gradient, if it is not NULL */
double ref_gradient(const struct gpt_options *o, const double *values, const int *tokens,
                    const int *targets, double *gradient);
/** ref_step - one training step, @step from 1; the loss before it. @m and @v start as zeros */
double ref_step(const struct gpt_options *o, double *values, double *m, double *v,
                const int *tokens, const int *targets, int step);

#endif
