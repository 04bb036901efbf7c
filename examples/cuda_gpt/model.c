/* Memory of the model: parameters and what belongs to them, activations and their gradients. */
#include "examples/cuda_gpt/gpt.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/twinbit.h"

void gpt_cuda_check(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    fprintf(stderr, "cuda_gpt: %s: %s: %s\n", what, cudaGetErrorName(e), cudaGetErrorString(e));
    exit(1);
}

/* a block of the host that is there or the process ends; zeroed */
static void *host(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (!p) {
        fprintf(stderr, "cuda_gpt: no memory for %zu bytes\n", n * size);
        exit(1);
    }
    return p;
}

static void remember(struct gpt_model *m, void *p)
{
    if (m->n_memory == m->max_memory) {
        void **more = host((size_t)m->max_memory * 2 + 64, sizeof(*more));
        if (m->n_memory)
            memcpy(more, m->memory, (size_t)m->n_memory * sizeof(*more));
        free(m->memory);
        m->memory = more;
        m->max_memory = m->max_memory * 2 + 64;
    }
    m->memory[m->n_memory++] = p;
}

/* @n elements of 4 bytes in device memory, named for twinbit */
__attribute__((format(printf, 4, 5))) static void *
device(struct gpt_model *m, size_t n, const char *dtype, const char *format, ...)
{
    char name[64];
    void *p = NULL;
    va_list ap;

    va_start(ap, format);
    vsnprintf(name, sizeof(name), format, ap);
    va_end(ap);
    cudaError_t e = cudaMalloc(&p, n * 4);
    if (e != cudaSuccess) {
        fprintf(stderr, "cuda_gpt: cannot have %zu bytes of the device for %s: %s\n", n * 4, name,
                cudaGetErrorString(e));
        exit(1);
    }
    remember(m, p);
    twinbit_tensor(p, n * 4, dtype, name);
    return p;
}

/* @range: values are drawn from -range..range; 0: all are @constant */
static void fill(struct gpt_model *m, struct gpt_param *p, float range, float constant,
                 uint64_t *random)
{
    float *values = host(p->n, sizeof(*values));

    for (size_t i = 0; i < p->n; i++) {
        float unit = (float)(gpt_random(random) >> 40) * 0x1p-24f; /* exact */
        values[i] = range > 0 ? range * (2 * unit - 1) : constant;
    }
    GPT_CUDA(cudaMemcpyAsync(p->value, values, p->n * 4, cudaMemcpyHostToDevice, m->stream[0]));
    GPT_CUDA(cudaMemsetAsync(p->m, 0, p->n * 4, m->stream[0]));
    GPT_CUDA(cudaMemsetAsync(p->v, 0, p->n * 4, m->stream[0]));
    GPT_CUDA(cudaStreamSynchronize(m->stream[0]));
    free(values);
}

/* the next parameter, "layer.name"; @sums: its gradient is a sum over rows */
static struct gpt_param *param(struct gpt_model *m, const char *layer, const char *name, size_t n,
                               bool sums)
{
    struct gpt_param *p = &m->params[m->n_params++];

    snprintf(p->name, sizeof(p->name), "%s%s", layer, name);
    p->n = n;
    p->decay = sums ? 0 : GPT_DECAY;
    p->value = device(m, n, "f32", "%s", p->name);
    p->gradient = device(m, n, "f32", "%s.grad", p->name);
    p->m = device(m, n, "f32", "%s.m", p->name);
    p->v = device(m, n, "f32", "%s.v", p->name);
    if (sums)
        p->partial = device(m, gpt_partials((size_t)m->rows, n), "f32", "%s.partial", p->name);
    m->n_values += n;
    m->n_squares += gpt_chunks(n, GPT_SQUARES);
    return p;
}

static void norm_new(struct gpt_model *m, struct gpt_norm *l, const char *layer, const char *name,
                     uint64_t *random)
{
    size_t width = (size_t)m->o.width, rows = (size_t)m->rows;
    char full[40];

    snprintf(full, sizeof(full), "%s%s", layer, name);
    l->gain = param(m, full, ".gain", width, true);
    l->bias = param(m, full, ".bias", width, true);
    fill(m, l->gain, 0, 1, random);
    fill(m, l->bias, 0, 0, random);
    l->y = device(m, rows * width, "f32", "%s", full);
    l->dy = device(m, rows * width, "f32", "%s.dy", full);
    l->mean = device(m, rows, "f32", "%s.mean", full);
    l->rstd = device(m, rows, "f32", "%s.rstd", full);
}

/* weights of variance 1 / in, times @scale squared */
static void linear_new(struct gpt_model *m, struct gpt_linear *l, const char *layer,
                       const char *name, int in, int out, float scale, bool bias, uint64_t *random)
{
    size_t rows = (size_t)m->rows;
    char full[40];

    snprintf(full, sizeof(full), "%s%s", layer, name);
    l->in = in;
    l->out = out;
    l->weight = param(m, full, ".weight", (size_t)in * (size_t)out, false);
    fill(m, l->weight, scale * sqrtf(3.0f / (float)in), 0, random);
    if (bias) {
        l->bias = param(m, full, ".bias", (size_t)out, true);
        fill(m, l->bias, 0, 0, random);
    }
    l->y = device(m, rows * (size_t)out, "f32", "%s", full);
    l->dy = device(m, rows * (size_t)out, "f32", "%s.dy", full);
}

/* @x, @dx: output of the layer before, and the gradient of it */
static void layer_new(struct gpt_model *m, int number, float *x, float *dx, uint64_t *random)
{
    struct gpt_layer *l = &m->layers[number];
    int width = m->o.width;
    size_t size = (size_t)m->rows * (size_t)width, heads = (size_t)m->rows * (size_t)m->o.heads;
    float deep = 1 / sqrtf(2.0f * (float)m->o.layers); /* what adds to the residual starts small */
    char prefix[24];

    snprintf(l->name, sizeof(l->name), "h.%d", number);
    snprintf(prefix, sizeof(prefix), "%s.", l->name);
    l->x = x;
    l->dx = dx;
    norm_new(m, &l->norm1, prefix, "norm1", random);
    linear_new(m, &l->qkv, prefix, "qkv", width, 3 * width, 1, true, random);
    l->attention = device(m, size, "f32", "%sattention", prefix);
    l->dattention = device(m, size, "f32", "%sattention.dy", prefix);
    l->lse = device(m, heads, "f32", "%sattention.lse", prefix);
    l->delta = device(m, heads, "f32", "%sattention.delta", prefix);
    linear_new(m, &l->proj, prefix, "proj", width, width, deep, true, random);
    norm_new(m, &l->norm2, prefix, "norm2", random);
    linear_new(m, &l->fc, prefix, "fc", width, 4 * width, 1, true, random);
    l->act = device(m, size * 4, "f32", "%sgelu", prefix);
    l->dact = device(m, size * 4, "f32", "%sgelu.dy", prefix);
    linear_new(m, &l->out, prefix, "out", 4 * width, width, deep, true, random);
}

static void streams_new(struct gpt_model *m)
{
    for (int i = 0; i < m->o.streams; i++) {
        GPT_CUDA(cudaStreamCreateWithFlags(&m->stream[i], cudaStreamNonBlocking));
        GPT_CUDA(cudaEventCreateWithFlags(&m->join[i], cudaEventDisableTiming));
    }
    GPT_CUDA(cudaEventCreateWithFlags(&m->fork, cudaEventDisableTiming));
}

static void update_new(struct gpt_model *m)
{
    const struct gpt_update start = {.beta1 = 1, .beta2 = 1};
    size_t at = 0;

    m->squares = device(m, m->n_squares, "f32", "adamw.squares");
    for (int i = 0; i < m->n_params; i++) {
        m->params[i].squares = m->squares + at;
        at += gpt_chunks(m->params[i].n, GPT_SQUARES);
    }
    m->update = device(m, sizeof(start) / 4, "f32", "adamw.update");
    GPT_CUDA(
        cudaMemcpyAsync(m->update, &start, sizeof(start), cudaMemcpyHostToDevice, m->stream[0]));
}

struct gpt_model *gpt_model_new(const struct gpt_options *o)
{
    struct gpt_model *m = host(1, sizeof(*m));
    uint64_t random = o->seed;
    size_t width = (size_t)o->width;

    m->o = *o;
    m->rows = o->batch * o->context;
    m->max_params = o->layers * 12 + 5;
    m->params = host((size_t)m->max_params, sizeof(*m->params));
    m->layers = host((size_t)o->layers, sizeof(*m->layers));
    streams_new(m);
    m->tokens = device(m, (size_t)m->rows, "i32", "tokens");
    m->targets = device(m, (size_t)m->rows, "i32", "targets");
    m->token = param(m, "", "token", GPT_VOCABULARY * width, false);
    m->position = param(m, "", "position", (size_t)o->context * width, false);
    fill(m, m->token, 0.5f, 0, &random);
    fill(m, m->position, 0.1f, 0, &random);
    m->embedded = device(m, (size_t)m->rows * width, "f32", "embedded");
    m->dembedded = device(m, (size_t)m->rows * width, "f32", "embedded.dy");
    layer_new(m, 0, m->embedded, m->dembedded, &random);
    for (int i = 1; i < o->layers; i++)
        layer_new(m, i, m->layers[i - 1].out.y, m->layers[i - 1].out.dy, &random);
    norm_new(m, &m->norm, "", "norm", &random);
    linear_new(m, &m->head, "", "head", o->width, GPT_VOCABULARY, 0.5f, false, &random);
    m->losses = device(m, (size_t)m->rows, "f32", "losses");
    m->loss = device(m, 1, "f32", "loss");
    update_new(m);
    GPT_CUDA(cudaStreamSynchronize(m->stream[0]));
    return m;
}

void gpt_model_free(struct gpt_model *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_memory; i++)
        GPT_CUDA(cudaFree(m->memory[i]));
    for (int i = 0; i < m->o.streams; i++) {
        GPT_CUDA(cudaStreamDestroy(m->stream[i]));
        GPT_CUDA(cudaEventDestroy(m->join[i]));
    }
    GPT_CUDA(cudaEventDestroy(m->fork));
    free(m->memory);
    free(m->layers);
    free(m->params);
    free(m);
}

void gpt_model_values(const struct gpt_model *m, float *out)
{
    GPT_CUDA(cudaStreamSynchronize(m->stream[0]));
    for (int i = 0; i < m->n_params; i++) {
        const struct gpt_param *p = &m->params[i];
        GPT_CUDA(cudaMemcpy(out, p->value, p->n * sizeof(float), cudaMemcpyDeviceToHost));
        out += p->n;
    }
}

uint64_t gpt_checksum(uint64_t sum, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        sum = (sum ^ bits) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    return sum;
}
