/* The kernels of cuda_gpt in double precision; reference_model.c puts them together. */
#include "examples/cuda_gpt/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ref_matmul(double *y, const double *x, const double *w, const double *bias,
                const double *residual, int rows, int in, int out)
{
    for (int r = 0; r < rows; r++) {
        for (int o = 0; o < out; o++) {
            double sum = (bias ? bias[o] : 0) + (residual ? residual[r * out + o] : 0);
            for (int i = 0; i < in; i++)
                sum += x[r * in + i] * w[i * out + o];
            y[r * out + o] = sum;
        }
    }
}

void ref_matmul_backward(double *dx, double *dw, double *dbias, const double *dy, const double *x,
                         const double *w, int rows, int in, int out)
{
    for (int r = 0; r < rows && dx; r++)
        for (int i = 0; i < in; i++) {
            dx[r * in + i] = 0;
            for (int o = 0; o < out; o++)
                dx[r * in + i] += dy[r * out + o] * w[i * out + o];
        }
    for (int i = 0; i < in && dw; i++)
        for (int o = 0; o < out; o++) {
            dw[i * out + o] = 0;
            for (int r = 0; r < rows; r++)
                dw[i * out + o] += x[r * in + i] * dy[r * out + o];
        }
    for (int o = 0; o < out && dbias; o++) {
        dbias[o] = 0;
        for (int r = 0; r < rows; r++)
            dbias[o] += dy[r * out + o];
    }
}

/* struct head - one head of one text: rows of qkv and y are this far apart */
struct head {
    int context, head, width;
    size_t qkv, y;
};

static struct head head_at(int b, int h, int context, int heads, int head)
{
    int width = heads * head;
    return (struct head){context, head, width,
                         (size_t)b * (size_t)context * 3 * (size_t)width + (size_t)(h * head),
                         (size_t)b * (size_t)context * (size_t)width + (size_t)(h * head)};
}

/* weights of query @t over keys 0..t; returns the logarithm of the sum of exponentials */
static double attention_weights(double *weight, const double *qkv, const struct head *a, int t)
{
    const double *q = qkv + a->qkv + (size_t)t * 3 * (size_t)a->width;
    double most = -INFINITY, sum = 0;

    for (int s = 0; s <= t; s++) {
        const double *k = qkv + a->qkv + (size_t)s * 3 * (size_t)a->width + a->width;
        weight[s] = 0;
        for (int d = 0; d < a->head; d++)
            weight[s] += q[d] * k[d] / sqrt(a->head);
        most = fmax(most, weight[s]);
    }
    for (int s = 0; s <= t; s++)
        sum += weight[s] = exp(weight[s] - most);
    for (int s = 0; s <= t; s++)
        weight[s] /= sum;
    return most + log(fmax(sum, 1)); /* the greatest alone is 1 */
}

static void attention_head(double *y, double *lse, const double *qkv, const struct head *a,
                           double *weight)
{
    for (int t = 0; t < a->context; t++) {
        double *row = y + a->y + (size_t)t * (size_t)a->width;
        double all = attention_weights(weight, qkv, a, t);
        if (lse)
            lse[t] = all;
        for (int d = 0; d < a->head; d++) {
            row[d] = 0;
            for (int s = 0; s <= t; s++)
                row[d] +=
                    weight[s] * qkv[a->qkv + (size_t)(s * 3 + 2) * (size_t)a->width + (size_t)d];
        }
    }
}

void ref_attention(double *y, double *lse, const double *qkv, int batch, int context, int heads,
                   int head)
{
    double *weight = calloc((size_t)context, sizeof(*weight));

    for (int b = 0; b < batch; b++)
        for (int h = 0; h < heads; h++) {
            struct head a = head_at(b, h, context, heads, head);
            attention_head(y, lse ? lse + (b * heads + h) * context : NULL, qkv, &a, weight);
        }
    free(weight);
}

static void attention_head_backward(double *dqkv, const double *dy, const double *qkv,
                                    const struct head *a, double *weight, double *dweight)
{
    size_t pitch = 3 * (size_t)a->width;

    for (int t = 0; t < a->context; t++) {
        const double *row = dy + a->y + (size_t)t * (size_t)a->width;
        double mean = 0;
        attention_weights(weight, qkv, a, t);
        for (int s = 0; s <= t; s++) {
            const double *v = qkv + a->qkv + (size_t)s * pitch + 2 * a->width;
            dweight[s] = 0;
            for (int d = 0; d < a->head; d++) {
                dweight[s] += row[d] * v[d];
                dqkv[a->qkv + (size_t)s * pitch + (size_t)(2 * a->width + d)] += weight[s] * row[d];
            }
            mean += weight[s] * dweight[s];
        }
        for (int s = 0; s <= t; s++) {
            double dscore = weight[s] * (dweight[s] - mean) / sqrt(a->head);
            size_t q = a->qkv + (size_t)t * pitch;
            size_t k = a->qkv + (size_t)s * pitch + (size_t)a->width;
            for (int d = 0; d < a->head; d++) {
                dqkv[q + (size_t)d] += dscore * qkv[k + (size_t)d];
                dqkv[k + (size_t)d] += dscore * qkv[q + (size_t)d];
            }
        }
    }
}

void ref_attention_backward(double *dqkv, const double *dy, const double *qkv, int batch,
                            int context, int heads, int head)
{
    size_t n = (size_t)batch * (size_t)context * 3 * (size_t)(heads * head);
    double *weight = calloc(2 * (size_t)context, sizeof(*weight));

    memset(dqkv, 0, n * sizeof(*dqkv));
    for (int b = 0; b < batch; b++)
        for (int h = 0; h < heads; h++) {
            struct head a = head_at(b, h, context, heads, head);
            attention_head_backward(dqkv, dy, qkv, &a, weight, weight + context);
        }
    free(weight);
}

static void mean_and_rstd(double *mean, double *rstd, const double *x, int width)
{
    double sum = 0, squares = 0;

    for (int c = 0; c < width; c++)
        sum += x[c];
    *mean = sum / width;
    for (int c = 0; c < width; c++)
        squares += (x[c] - *mean) * (x[c] - *mean);
    *rstd = 1 / sqrt(squares / width + 1e-5);
}

void ref_layernorm(double *y, const double *x, const double *gain, const double *bias, int rows,
                   int width)
{
    double mean, rstd;

    for (int r = 0; r < rows; r++, x += width, y += width) {
        mean_and_rstd(&mean, &rstd, x, width);
        for (int c = 0; c < width; c++)
            y[c] = (x[c] - mean) * rstd * gain[c] + bias[c];
    }
}

void ref_layernorm_backward(double *dx, double *dgain, double *dbias, const double *dy,
                            const double *dresidual, const double *x, const double *gain, int rows,
                            int width)
{
    memset(dgain, 0, (size_t)width * sizeof(*dgain));
    memset(dbias, 0, (size_t)width * sizeof(*dbias));
    for (int r = 0; r < rows; r++) {
        const double *row = x + (size_t)r * (size_t)width, *d = dy + (size_t)r * (size_t)width;
        double mean, rstd, sum = 0, sum_x = 0;
        mean_and_rstd(&mean, &rstd, row, width);
        for (int c = 0; c < width; c++) {
            double unit = (row[c] - mean) * rstd;
            dgain[c] += d[c] * unit;
            dbias[c] += d[c];
            sum += d[c] * gain[c] / width;
            sum_x += d[c] * gain[c] * unit / width;
        }
        for (int c = 0; c < width; c++) {
            size_t at = (size_t)r * (size_t)width + (size_t)c;
            dx[at] = (d[c] * gain[c] - sum - (row[c] - mean) * rstd * sum_x) * rstd;
            if (dresidual)
                dx[at] += dresidual[at];
        }
    }
}

#define ROOT 0.79788456080286535588 /* of 2/pi */

double ref_gelu(double x)
{
    return 0.5 * x * (1 + tanh(ROOT * (x + 0.044715 * x * x * x)));
}

double ref_gelu_slope(double x)
{
    double t = tanh(ROOT * (x + 0.044715 * x * x * x));

    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 3 * 0.044715 * x * x);
}

double ref_crossentropy(double *losses, double *dlogits, const double *logits, const int *targets,
                        int rows, int vocabulary)
{
    double mean = 0;

    for (int r = 0; r < rows; r++, logits += vocabulary, dlogits += vocabulary) {
        double most = -INFINITY, sum = 0;
        for (int i = 0; i < vocabulary; i++)
            most = fmax(most, logits[i]);
        for (int i = 0; i < vocabulary; i++)
            sum += exp(logits[i] - most);
        for (int i = 0; i < vocabulary; i++)
            dlogits[i] = (exp(logits[i] - most) / sum - (i == targets[r])) / rows;
        double loss = log(fmax(sum, 1)) + most - logits[targets[r]];
        if (losses)
            losses[r] = loss;
        mean += loss / rows;
    }
    return mean;
}

void ref_embedding(double *y, const int *tokens, const double *token, const double *position,
                   int batch, int context, int width)
{
    for (int r = 0; r < batch * context; r++)
        for (int c = 0; c < width; c++)
            y[r * width + c] = token[tokens[r] * width + c] + position[r % context * width + c];
}

void ref_embedding_backward(double *dtoken, double *dposition, const double *dy, const int *tokens,
                            int batch, int context, int width, int vocabulary)
{
    memset(dtoken, 0, (size_t)(vocabulary * width) * sizeof(*dtoken));
    memset(dposition, 0, (size_t)(context * width) * sizeof(*dposition));
    for (int r = 0; r < batch * context; r++)
        for (int c = 0; c < width; c++) {
            dtoken[tokens[r] * width + c] += dy[r * width + c];
            dposition[r % context * width + c] += dy[r * width + c];
        }
}

double ref_limit(double *gradient, size_t n, double limit)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += gradient[i] * gradient[i];
    for (size_t i = 0; i < n && sqrt(sum) > limit; i++)
        gradient[i] *= limit / sqrt(sum);
    return sqrt(sum);
}

void ref_adamw(double *value, double *m, double *v, const double *gradient, int step, double rate,
               double decay, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        m[i] = (double)GPT_BETA1 * m[i] + (1 - (double)GPT_BETA1) * gradient[i];
        v[i] = (double)GPT_BETA2 * v[i] + (1 - (double)GPT_BETA2) * gradient[i] * gradient[i];
        double first = m[i] / (1 - pow((double)GPT_BETA1, step));
        double second = v[i] / (1 - pow((double)GPT_BETA2, step));
        value[i] -= rate * (first / (sqrt(second) + (double)GPT_EPSILON) + decay * value[i]);
    }
}
