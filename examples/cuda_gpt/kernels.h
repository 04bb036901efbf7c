/*
 * kernels.h - launchers of the kernels of cuda_gpt, one group a .cu file.
 *
 * Every matrix is row-major, f32, in device memory. Work is queued in the stream and not waited
 * for; what is returned is whether the launch was accepted. Each output is written whole, so that
 * nothing needs to be cleared before, unless it says "adds". @atomics chooses the variant that sums
 * with atomicAdd, in whatever order the device comes to it; without it every sum has one fixed
 * order.
 *
 * Sums over rows are made in two passes: chunks of GPT_CHUNK rows into @partial
 * (gpt_partials(rows, cols) floats), then these. With @atomics @partial is not used.
 */
#ifndef CUDA_GPT_KERNELS_H
#define CUDA_GPT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPT_CHUNK 32     /* rows in one partial sum */
#define GPT_MAX_HEAD 64  /* widest head of attention; a multiple of 8 */
#define GPT_SQUARES 1024 /* elements in one partial sum of the gradient's norm */
#define GPT_BETA1 0.9f
#define GPT_BETA2 0.95f
#define GPT_EPSILON 1e-8f

static inline size_t gpt_chunks(size_t n, size_t chunk)
{
    return (n + chunk - 1) / chunk;
}

static inline size_t gpt_partials(size_t rows, size_t cols)
{
    return gpt_chunks(rows, GPT_CHUNK) * cols;
}

/* y[rows,out] = x[rows,in] w[in,out] + bias[out] + residual[rows,out]; these two may be NULL */
cudaError_t gpt_matmul_forward(float *y, const float *x, const float *w, const float *bias,
                               const float *residual, int rows, int in, int out, bool atomics,
                               cudaStream_t stream);
/* dx[rows,in] = dy[rows,out] w[in,out]^T */
cudaError_t gpt_matmul_backward_input(float *dx, const float *dy, const float *w, int rows, int in,
                                      int out, bool atomics, cudaStream_t stream);
/* dw[in,out] = x[rows,in]^T dy[rows,out] */
cudaError_t gpt_matmul_backward_weight(float *dw, const float *x, const float *dy, int rows, int in,
                                       int out, bool atomics, cudaStream_t stream);
/* dbias[out] = sum over rows of dy */
cudaError_t gpt_matmul_backward_bias(float *dbias, float *partial, const float *dy, int rows,
                                     int out, bool atomics, cudaStream_t stream);

/* causal; qkv[batch,context,3,heads,head], y[batch,context,heads,head], lse[batch,heads,context] */
cudaError_t gpt_attention_forward(float *y, float *lse, const float *qkv, int batch, int context,
                                  int heads, int head, cudaStream_t stream);
/* delta[batch,heads,context] is scratch */
cudaError_t gpt_attention_backward(float *dqkv, float *delta, const float *dy, const float *qkv,
                                   const float *y, const float *lse, int batch, int context,
                                   int heads, int head, bool atomics, cudaStream_t stream);

/* mean, rstd: one a row, for the way back */
cudaError_t gpt_layernorm_forward(float *y, float *mean, float *rstd, const float *x,
                                  const float *gain, const float *bias, int rows, int width,
                                  cudaStream_t stream);
/* dx = gradient through the norm + dresidual, which may be NULL */
cudaError_t gpt_layernorm_backward(float *dx, const float *dy, const float *dresidual,
                                   const float *x, const float *mean, const float *rstd,
                                   const float *gain, int rows, int width, cudaStream_t stream);
cudaError_t gpt_layernorm_backward_params(float *dgain, float *dbias, float *partial_gain,
                                          float *partial_bias, const float *dy, const float *x,
                                          const float *mean, const float *rstd, int rows, int width,
                                          bool atomics, cudaStream_t stream);

/* the approximation with tanh */
cudaError_t gpt_gelu_forward(float *y, const float *x, size_t n, cudaStream_t stream);
/* dx, and dbias[width], its sum over rows: the gradient of the bias that x was made with */
cudaError_t gpt_gelu_backward(float *dx, float *dbias, float *partial, const float *dy,
                              const float *x, int rows, int width, bool atomics,
                              cudaStream_t stream);

/* loss[1], the mean over rows; losses[rows]; dlogits of the mean */
cudaError_t gpt_crossentropy(float *loss, float *losses, float *dlogits, const float *logits,
                             const int *targets, int rows, int vocabulary, bool atomics,
                             cudaStream_t stream);

/* y[batch,context,width] = token[tokens] + position */
cudaError_t gpt_embedding_forward(float *y, const int *tokens, const float *token,
                                  const float *position, int batch, int context, int width,
                                  cudaStream_t stream);
cudaError_t gpt_embedding_backward(float *dtoken, float *dposition, const float *dy,
                                   const int *tokens, int batch, int context, int width,
                                   int vocabulary, bool atomics, cudaStream_t stream);

/* struct gpt_update - what all parameters' updates share; in device memory, starts as {0, 0, 1, 1}
 */
struct gpt_update {
    float squares;      /* with atomics: sum of squares so far */
    float scale;        /* of gradients: 1, or less where their norm is above the limit */
    float beta1, beta2; /* to the power of the step's number */
    float norm;
};

/* squares[gpt_chunks(n, GPT_SQUARES)] = sums of squares; with atomics adds to @update->squares */
cudaError_t gpt_adamw_squares(float *squares, struct gpt_update *update, const float *gradient,
                              size_t n, bool atomics, cudaStream_t stream);
/* a step begins: norm and scale from all partial sums (or, with atomics, from @update->squares) */
cudaError_t gpt_adamw_begin(struct gpt_update *update, const float *squares, size_t n, float limit,
                            bool atomics, cudaStream_t stream);
cudaError_t gpt_adamw_update(float *value, float *m, float *v, const float *gradient,
                             const struct gpt_update *update, float rate, float decay, size_t n,
                             cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
