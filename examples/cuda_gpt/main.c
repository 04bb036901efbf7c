/*
 * cuda_gpt - trains a small GPT on a GPU with kernels of its own; prints the loss of each step and
 * at the end a checksum of all bits.
 */
#include "examples/cuda_gpt/gpt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/twinbit.h"

#define SLOTS 4 /* steps that the host may be ahead of the device */

/* struct pump - what goes between host and device each step, in pinned memory; [SLOTS] of each */
struct pump {
    int *tokens, *targets;
    float *loss;
    cudaEvent_t done[SLOTS];
};

static void pump_init(struct pump *p, int rows)
{
    size_t bytes = SLOTS * (size_t)rows * sizeof(int);

    GPT_CUDA(cudaMallocHost((void **)&p->tokens, bytes));
    GPT_CUDA(cudaMallocHost((void **)&p->targets, bytes));
    GPT_CUDA(cudaMallocHost((void **)&p->loss, SLOTS * sizeof(*p->loss)));
    for (int i = 0; i < SLOTS; i++)
        GPT_CUDA(cudaEventCreateWithFlags(&p->done[i], cudaEventDisableTiming));
}

static void pump_release(struct pump *p)
{
    for (int i = 0; i < SLOTS; i++)
        GPT_CUDA(cudaEventDestroy(p->done[i]));
    GPT_CUDA(cudaFreeHost(p->tokens));
    GPT_CUDA(cudaFreeHost(p->targets));
    GPT_CUDA(cudaFreeHost(p->loss));
}

/* the whole step as a graph, ready to be launched */
static cudaGraphExec_t capture(struct gpt_model *m)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    GPT_CUDA(cudaStreamBeginCapture(m->stream[0], cudaStreamCaptureModeThreadLocal));
    gpt_step(m);
    GPT_CUDA(cudaStreamEndCapture(m->stream[0], &graph));
    GPT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    GPT_CUDA(cudaGraphDestroy(graph));
    return exec;
}

static void one_step(struct gpt_model *m, const struct gpt_text *text, struct pump *p,
                     cudaGraphExec_t graph, int step)
{
    int slot = step % SLOTS, rows = m->rows;
    int *tokens = p->tokens + (size_t)slot * (size_t)rows;
    int *targets = p->targets + (size_t)slot * (size_t)rows;
    size_t bytes = (size_t)rows * sizeof(int);

    twinbit_range_push("batch");
    GPT_CUDA(cudaEventSynchronize(p->done[slot])); /* the slot's last user has ended */
    gpt_text_batch(text, m->o.seed, step, m->o.batch, m->o.context, tokens, targets);
    GPT_CUDA(cudaMemcpyAsync(m->tokens, tokens, bytes, cudaMemcpyHostToDevice, m->stream[0]));
    GPT_CUDA(cudaMemcpyAsync(m->targets, targets, bytes, cudaMemcpyHostToDevice, m->stream[0]));
    twinbit_range_pop();
    if (graph)
        GPT_CUDA(cudaGraphLaunch(graph, m->stream[0]));
    else
        gpt_step(m);
    twinbit_range_push("loss");
    GPT_CUDA(cudaMemcpyAsync(&p->loss[slot], m->loss, sizeof(*p->loss), cudaMemcpyDeviceToHost,
                             m->stream[0]));
    GPT_CUDA(cudaEventRecord(p->done[slot], m->stream[0]));
    twinbit_range_pop();
    twinbit_step();
}

/* prints as it goes; returns the checksum of the losses that were printed */
static uint64_t train(struct gpt_model *m)
{
    const struct gpt_options *o = &m->o;
    struct gpt_text text;
    struct pump pump;
    cudaGraphExec_t graph = NULL;
    uint64_t sum = 0;

    gpt_text_init(&text);
    pump_init(&pump, m->rows);
    if (o->graph)
        graph = capture(m);
    for (int step = 0; step < o->steps; step++) {
        one_step(m, &text, &pump, graph, step);
        if (step % o->print_every && step != o->steps - 1)
            continue;
        GPT_CUDA(cudaEventSynchronize(pump.done[step % SLOTS]));
        printf("step %d loss %.6f\n", step, (double)pump.loss[step % SLOTS]);
        fflush(stdout);
        sum = gpt_checksum(sum, &pump.loss[step % SLOTS], 1);
    }
    if (graph)
        GPT_CUDA(cudaGraphExecDestroy(graph));
    pump_release(&pump);
    gpt_text_release(&text);
    return sum;
}

static void save(const char *path, const float *values, size_t n)
{
    FILE *f = fopen(path, "wb");

    if (f && fwrite(values, sizeof(*values), n, f) == n && fclose(f) == 0)
        return;
    fprintf(stderr, "cuda_gpt: cannot write '%s': %s\n", path, strerror(errno));
    exit(1);
}

static void need_device(void)
{
    int devices = 0;
    cudaError_t e = cudaGetDeviceCount(&devices);

    if (e == cudaSuccess && devices > 0)
        return;
    fprintf(stderr, "cuda_gpt: no GPU: %s; without one: softgpu run -- cuda_gpt\n",
            cudaGetErrorString(e));
    exit(1);
}

int main(int argc, char **argv)
{
    struct gpt_options o;

    gpt_options_read(&o, argc, argv);
    need_device();
    twinbit_range_push("start");
    struct gpt_model *m = gpt_model_new(&o);
    twinbit_range_pop();
    printf("cuda_gpt: %d layers, width %d, %d heads, batch %d x %d, %zu parameters\n", o.layers,
           o.width, o.heads, o.batch, o.context, m->n_values);
    uint64_t losses = train(m);
    float *values = malloc(m->n_values * sizeof(*values));
    if (!values) {
        fputs("cuda_gpt: no memory for the parameters\n", stderr);
        return 1;
    }
    gpt_model_values(m, values);
    if (o.save)
        save(o.save, values, m->n_values);
    printf("checksum parameters %016llx losses %016llx\n",
           (unsigned long long)gpt_checksum(0, values, m->n_values), (unsigned long long)losses);
    free(values);
    gpt_model_free(m);
    return 0;
}
