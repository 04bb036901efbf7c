/* The whole model in double precision: loss, gradients of all parameters, a training step. */
#include "examples/cuda_gpt/reference.h"

#include <stdlib.h>
#include <string.h>

/* struct layer - parameters of a layer, or their gradients; the order of gpt_model_values() */
struct layer {
    double *gain1, *bias1, *qkv, *qkv_bias, *proj, *proj_bias, *gain2, *bias2, *fc, *fc_bias, *out,
        *out_bias;
};

struct whole {
    double *token, *position, *gain, *bias, *head;
    struct layer *layers;
};

/* struct acts - what a layer computes; d*: gradients of it */
struct acts {
    double *x, *norm1, *qkv, *attention, *mid, *norm2, *fc, *act;
    double *dx, *dnorm1, *dqkv, *dattention, *dmid, *dnorm2, *dfc, *dact;
};

static double *take(double **at, size_t n)
{
    double *p = *at;

    *at += n;
    return p;
}

/* where each parameter lies in @values; layers are the caller's to free */
static struct whole parameters_at(const struct gpt_options *o, double *values)
{
    size_t c = (size_t)o->width;
    struct whole w = {.layers = calloc((size_t)o->layers, sizeof(struct layer))};

    w.token = take(&values, GPT_VOCABULARY * c);
    w.position = take(&values, (size_t)o->context * c);
    for (int i = 0; i < o->layers; i++) {
        struct layer *l = &w.layers[i];
        l->gain1 = take(&values, c), l->bias1 = take(&values, c);
        l->qkv = take(&values, 3 * c * c), l->qkv_bias = take(&values, 3 * c);
        l->proj = take(&values, c * c), l->proj_bias = take(&values, c);
        l->gain2 = take(&values, c), l->bias2 = take(&values, c);
        l->fc = take(&values, 4 * c * c), l->fc_bias = take(&values, 4 * c);
        l->out = take(&values, 4 * c * c), l->out_bias = take(&values, c);
    }
    w.gain = take(&values, c), w.bias = take(&values, c);
    w.head = take(&values, c * GPT_VOCABULARY);
    return w;
}

size_t ref_parameters(const struct gpt_options *o)
{
    size_t c = (size_t)o->width;

    return (GPT_VOCABULARY * 2 + (size_t)o->context + 2) * c +
           (size_t)o->layers * (12 * c * c + 13 * c);
}

#define WIDTHS 16 /* of c, in all that a layer computes; as much again for gradients */

static struct acts acts_at(double *at, size_t n)
{
    struct acts a = {0};

    a.x = take(&at, n), a.norm1 = take(&at, n), a.qkv = take(&at, 3 * n);
    a.attention = take(&at, n), a.mid = take(&at, n), a.norm2 = take(&at, n);
    a.fc = take(&at, 4 * n), a.act = take(&at, 4 * n);
    a.dx = take(&at, n), a.dnorm1 = take(&at, n), a.dqkv = take(&at, 3 * n);
    a.dattention = take(&at, n), a.dmid = take(&at, n), a.dnorm2 = take(&at, n);
    a.dfc = take(&at, 4 * n), a.dact = take(&at, 4 * n);
    return a;
}

static void forward_layer(const struct gpt_options *o, const struct layer *l, struct acts *a,
                          double *y)
{
    int rows = o->batch * o->context, c = o->width;

    ref_layernorm(a->norm1, a->x, l->gain1, l->bias1, rows, c);
    ref_matmul(a->qkv, a->norm1, l->qkv, l->qkv_bias, NULL, rows, c, 3 * c);
    ref_attention(a->attention, NULL, a->qkv, o->batch, o->context, o->heads, c / o->heads);
    ref_matmul(a->mid, a->attention, l->proj, l->proj_bias, a->x, rows, c, c);
    ref_layernorm(a->norm2, a->mid, l->gain2, l->bias2, rows, c);
    ref_matmul(a->fc, a->norm2, l->fc, l->fc_bias, NULL, rows, c, 4 * c);
    for (int i = 0; i < rows * 4 * c; i++)
        a->act[i] = ref_gelu(a->fc[i]);
    ref_matmul(y, a->act, l->out, l->out_bias, a->mid, rows, 4 * c, c);
}

static void backward_layer(const struct gpt_options *o, const struct layer *l,
                           const struct layer *d, struct acts *a, const double *dy)
{
    int rows = o->batch * o->context, c = o->width;

    ref_matmul_backward(a->dact, d->out, d->out_bias, dy, a->act, l->out, rows, 4 * c, c);
    for (int i = 0; i < rows * 4 * c; i++)
        a->dfc[i] = a->dact[i] * ref_gelu_slope(a->fc[i]);
    ref_matmul_backward(a->dnorm2, d->fc, d->fc_bias, a->dfc, a->norm2, l->fc, rows, c, 4 * c);
    ref_layernorm_backward(a->dmid, d->gain2, d->bias2, a->dnorm2, dy, a->mid, l->gain2, rows, c);
    ref_matmul_backward(a->dattention, d->proj, d->proj_bias, a->dmid, a->attention, l->proj, rows,
                        c, c);
    ref_attention_backward(a->dqkv, a->dattention, a->qkv, o->batch, o->context, o->heads,
                           c / o->heads);
    ref_matmul_backward(a->dnorm1, d->qkv, d->qkv_bias, a->dqkv, a->norm1, l->qkv, rows, c, 3 * c);
    ref_layernorm_backward(a->dx, d->gain1, d->bias1, a->dnorm1, a->dmid, a->x, l->gain1, rows, c);
}

/* acts[layers] is what comes after the last layer: x, norm1 and their gradients are used */
static double both_ways(const struct gpt_options *o, const struct whole *w, const struct whole *d,
                        const int *tokens, const int *targets, struct acts *acts, double *logits,
                        double *dlogits)
{
    int rows = o->batch * o->context, c = o->width, n = o->layers;
    struct acts *end = &acts[n];

    ref_embedding(acts[0].x, tokens, w->token, w->position, o->batch, o->context, c);
    for (int i = 0; i < n; i++)
        forward_layer(o, &w->layers[i], &acts[i], acts[i + 1].x);
    ref_layernorm(end->norm1, end->x, w->gain, w->bias, rows, c);
    ref_matmul(logits, end->norm1, w->head, NULL, NULL, rows, c, GPT_VOCABULARY);
    double loss = ref_crossentropy(NULL, dlogits, logits, targets, rows, GPT_VOCABULARY);
    if (!d)
        return loss;
    ref_matmul_backward(end->dnorm1, d->head, NULL, dlogits, end->norm1, w->head, rows, c,
                        GPT_VOCABULARY);
    ref_layernorm_backward(end->dx, d->gain, d->bias, end->dnorm1, NULL, end->x, w->gain, rows, c);
    for (int i = n - 1; i >= 0; i--)
        backward_layer(o, &w->layers[i], &d->layers[i], &acts[i], acts[i + 1].dx);
    ref_embedding_backward(d->token, d->position, acts[0].dx, tokens, o->batch, o->context, c,
                           GPT_VOCABULARY);
    return loss;
}

double ref_gradient(const struct gpt_options *o, const double *values, const int *tokens,
                    const int *targets, double *gradient)
{
    size_t rows = (size_t)o->batch * (size_t)o->context, n = rows * (size_t)o->width;
    size_t layers = (size_t)o->layers + 1, logits = rows * GPT_VOCABULARY;
    double *copy = malloc(ref_parameters(o) * sizeof(*copy));
    double *memory = calloc(layers * 2 * WIDTHS * n + 2 * logits, sizeof(*memory));
    struct acts *acts = calloc(layers, sizeof(*acts));

    memcpy(copy, values, ref_parameters(o) * sizeof(*copy));
    struct whole w = parameters_at(o, copy), d = parameters_at(o, gradient ? gradient : copy);
    acts[0] = acts_at(memory, n);
    for (size_t i = 1; i < layers; i++)
        acts[i] = acts_at(memory + i * 2 * WIDTHS * n, n);
    double *last = memory + layers * 2 * WIDTHS * n;
    double loss =
        both_ways(o, &w, gradient ? &d : NULL, tokens, targets, acts, last, last + logits);
    free(w.layers);
    free(d.layers);
    free(acts);
    free(memory);
    free(copy);
    return loss;
}

/* what decays: weights and embeddings, not biases and gains */
static void decays(const struct gpt_options *o, double *decay)
{
    size_t c = (size_t)o->width;
    struct whole w = parameters_at(o, decay);

    for (size_t i = 0; i < (GPT_VOCABULARY + (size_t)o->context) * c; i++)
        w.token[i] = GPT_DECAY;
    for (int i = 0; i < o->layers; i++) {
        for (size_t k = 0; k < 4 * c * c; k++) {
            w.layers[i].fc[k] = w.layers[i].out[k] = GPT_DECAY;
            if (k < 3 * c * c)
                w.layers[i].qkv[k] = GPT_DECAY;
            if (k < c * c)
                w.layers[i].proj[k] = GPT_DECAY;
        }
    }
    for (size_t i = 0; i < c * GPT_VOCABULARY; i++)
        w.head[i] = GPT_DECAY;
    free(w.layers);
}

double ref_step(const struct gpt_options *o, double *values, double *m, double *v,
                const int *tokens, const int *targets, int step)
{
    size_t n = ref_parameters(o);
    double *gradient = calloc(2 * n, sizeof(*gradient)), *decay = gradient + n;
    double loss = ref_gradient(o, values, tokens, targets, gradient);

    decays(o, decay);
    ref_limit(gradient, n, (double)o->clip);
    for (size_t i = 0; i < n; i++)
        ref_adamw(&values[i], &m[i], &v[i], &gradient[i], step, (double)o->rate, decay[i], 1);
    free(gradient);
    return loss;
}
