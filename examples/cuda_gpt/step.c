/* What a training step queues: forward, backward, update. */
#include "examples/cuda_gpt/gpt.h"

#include "include/twinbit.h"

static bool atomics(const struct gpt_model *m, unsigned kernel)
{
    return (m->o.atomics & kernel) != 0;
}

/* a stream for work that nothing waits for until join_sides(); what was queued in [0] comes before
 */
static cudaStream_t side(struct gpt_model *m)
{
    if (m->o.streams == 1)
        return m->stream[0];
    m->next = m->next % (m->o.streams - 1) + 1;
    GPT_CUDA(cudaEventRecord(m->fork, m->stream[0]));
    GPT_CUDA(cudaStreamWaitEvent(m->stream[m->next], m->fork, 0));
    return m->stream[m->next];
}

static void join_sides(struct gpt_model *m)
{
    for (int i = 1; i < m->o.streams; i++) {
        GPT_CUDA(cudaEventRecord(m->join[i], m->stream[i]));
        GPT_CUDA(cudaStreamWaitEvent(m->stream[0], m->join[i], 0));
    }
}

static void norm_forward(struct gpt_model *m, const struct gpt_norm *l, const float *x)
{
    GPT_CUDA(gpt_layernorm_forward(l->y, l->mean, l->rstd, x, l->gain->value, l->bias->value,
                                   m->rows, m->o.width, m->stream[0]));
}

static void linear_forward(struct gpt_model *m, const struct gpt_linear *l, const float *x,
                           const float *residual)
{
    GPT_CUDA(gpt_matmul_forward(l->y, x, l->weight->value, l->bias ? l->bias->value : NULL,
                                residual, m->rows, l->in, l->out, atomics(m, GPT_ATOMIC_MATMUL),
                                m->stream[0]));
}

static void layer_forward(struct gpt_model *m, const struct gpt_layer *l)
{
    const struct gpt_options *o = &m->o;

    twinbit_range_push(l->name);
    norm_forward(m, &l->norm1, l->x);
    linear_forward(m, &l->qkv, l->norm1.y, NULL);
    GPT_CUDA(gpt_attention_forward(l->attention, l->lse, l->qkv.y, o->batch, o->context, o->heads,
                                   o->width / o->heads, m->stream[0]));
    linear_forward(m, &l->proj, l->attention, l->x);
    norm_forward(m, &l->norm2, l->proj.y);
    linear_forward(m, &l->fc, l->norm2.y, NULL);
    GPT_CUDA(gpt_gelu_forward(l->act, l->fc.y, (size_t)m->rows * (size_t)l->fc.out, m->stream[0]));
    linear_forward(m, &l->out, l->act, l->proj.y);
    twinbit_range_pop();
}

static void forward(struct gpt_model *m)
{
    const struct gpt_options *o = &m->o;
    const float *last = m->layers[o->layers - 1].out.y;

    twinbit_range_push("forward");
    GPT_CUDA(gpt_embedding_forward(m->embedded, m->tokens, m->token->value, m->position->value,
                                   o->batch, o->context, o->width, m->stream[0]));
    for (int i = 0; i < o->layers; i++)
        layer_forward(m, &m->layers[i]);
    norm_forward(m, &m->norm, last);
    linear_forward(m, &m->head, m->norm.y, NULL);
    GPT_CUDA(gpt_crossentropy(m->loss, m->losses, m->head.dy, m->head.y, m->targets, m->rows,
                              GPT_VOCABULARY, atomics(m, GPT_ATOMIC_CROSSENTROPY), m->stream[0]));
    twinbit_range_pop();
}

/* gradients of weight and, if @bias, of the bias; then dx, that of the input */
static void linear_backward(struct gpt_model *m, const struct gpt_linear *l, float *dx,
                            const float *dy, const float *x, bool bias)
{
    bool atomic = atomics(m, GPT_ATOMIC_MATMUL);
    cudaStream_t beside = side(m);

    GPT_CUDA(gpt_matmul_backward_weight(l->weight->gradient, x, dy, m->rows, l->in, l->out, atomic,
                                        beside));
    if (bias)
        GPT_CUDA(gpt_matmul_backward_bias(l->bias->gradient, l->bias->partial, dy, m->rows, l->out,
                                          atomic, beside));
    GPT_CUDA(gpt_matmul_backward_input(dx, dy, l->weight->value, m->rows, l->in, l->out, atomic,
                                       m->stream[0]));
}

/* dx = gradient of the norm's input @x, plus @dresidual */
static void norm_backward(struct gpt_model *m, const struct gpt_norm *l, float *dx,
                          const float *dresidual, const float *x)
{
    GPT_CUDA(gpt_layernorm_backward_params(l->gain->gradient, l->bias->gradient, l->gain->partial,
                                           l->bias->partial, l->dy, x, l->mean, l->rstd, m->rows,
                                           m->o.width, atomics(m, GPT_ATOMIC_LAYERNORM), side(m)));
    GPT_CUDA(gpt_layernorm_backward(dx, l->dy, dresidual, x, l->mean, l->rstd, l->gain->value,
                                    m->rows, m->o.width, m->stream[0]));
}

/* from the gradient of the layer's output, in l->out.dy, to l->dx */
static void layer_backward(struct gpt_model *m, const struct gpt_layer *l)
{
    const struct gpt_options *o = &m->o;
    const float *dy = l->out.dy;

    twinbit_range_push(l->name);
    linear_backward(m, &l->out, l->dact, dy, l->act, true);
    GPT_CUDA(gpt_gelu_backward(l->fc.dy, l->fc.bias->gradient, l->fc.bias->partial, l->dact,
                               l->fc.y, m->rows, l->fc.out, atomics(m, GPT_ATOMIC_GELU),
                               m->stream[0]));
    linear_backward(m, &l->fc, l->norm2.dy, l->fc.dy, l->norm2.y, false);
    norm_backward(m, &l->norm2, l->proj.dy, dy, l->proj.y);
    linear_backward(m, &l->proj, l->dattention, l->proj.dy, l->attention, true);
    GPT_CUDA(gpt_attention_backward(l->qkv.dy, l->delta, l->dattention, l->qkv.y, l->attention,
                                    l->lse, o->batch, o->context, o->heads, o->width / o->heads,
                                    atomics(m, GPT_ATOMIC_ATTENTION), m->stream[0]));
    linear_backward(m, &l->qkv, l->norm1.dy, l->qkv.dy, l->norm1.y, true);
    norm_backward(m, &l->norm1, l->dx, l->proj.dy, l->x);
    twinbit_range_pop();
}

static void backward(struct gpt_model *m)
{
    const struct gpt_options *o = &m->o;
    struct gpt_layer *last = &m->layers[o->layers - 1];

    twinbit_range_push("backward");
    linear_backward(m, &m->head, m->norm.dy, m->head.dy, m->norm.y, false);
    norm_backward(m, &m->norm, last->out.dy, NULL, last->out.y);
    for (int i = o->layers - 1; i >= 0; i--)
        layer_backward(m, &m->layers[i]);
    GPT_CUDA(gpt_embedding_backward(m->token->gradient, m->position->gradient, m->dembedded,
                                    m->tokens, o->batch, o->context, o->width, GPT_VOCABULARY,
                                    atomics(m, GPT_ATOMIC_EMBEDDING), m->stream[0]));
    join_sides(m);
    twinbit_range_pop();
}

static void update(struct gpt_model *m)
{
    bool atomic = atomics(m, GPT_ATOMIC_ADAMW);

    twinbit_range_push("update");
    for (int i = 0; i < m->n_params; i++)
        GPT_CUDA(gpt_adamw_squares(m->params[i].squares, m->update, m->params[i].gradient,
                                   m->params[i].n, atomic, m->stream[0]));
    GPT_CUDA(gpt_adamw_begin(m->update, m->squares, m->n_squares, m->o.clip, atomic, m->stream[0]));
    for (int i = 0; i < m->n_params; i++) {
        const struct gpt_param *p = &m->params[i];
        GPT_CUDA(gpt_adamw_update(p->value, p->m, p->v, p->gradient, m->update, m->o.rate, p->decay,
                                  p->n, m->stream[0]));
    }
    twinbit_range_pop();
}

void gpt_step(struct gpt_model *m)
{
    m->next = 0;
    forward(m);
    backward(m);
    update(m);
}
