/*
 * The whole model of cuda_gpt: the reference's gradients against differences of its loss (1e-6 of
 * the greatest in a tensor), the device's gradients against the reference's (2e-5), and a training
 * of some steps beside that of the reference (losses to 1e-5, parameters to 1e-3 of the learning
 * rate's way).
 */
#include "tests/cuda_gpt/gpt_test.h"

#include <math.h>

static struct gpt_options tiny(void)
{
    return (struct gpt_options){.layers = 2,
                                .width = 16,
                                .heads = 2,
                                .batch = 3,
                                .context = 37,
                                .steps = 1,
                                .print_every = 1,
                                .streams = 1,
                                .seed = 5,
                                .rate = 0.0078125f,
                                .clip = 1};
}

/* struct job - options with a model, a batch, and the model's parameters as doubles */
struct job {
    struct gpt_options o;
    struct gpt_model *m;
    struct gpt_text text;
    int *tokens, *targets;
    size_t n;
    double *values;
};

static void batch_of(struct job *j, int step)
{
    size_t bytes = (size_t)(j->o.batch * j->o.context) * sizeof(int);

    gpt_text_batch(&j->text, j->o.seed, step, j->o.batch, j->o.context, j->tokens, j->targets);
    GPT_CUDA(cudaMemcpy(j->m->tokens, j->tokens, bytes, cudaMemcpyHostToDevice));
    GPT_CUDA(cudaMemcpy(j->m->targets, j->targets, bytes, cudaMemcpyHostToDevice));
}

static struct job job_new(struct gpt_options o)
{
    struct job j = {.o = o, .m = gpt_model_new(&o)};
    size_t rows = (size_t)(o.batch * o.context);

    gpt_text_init(&j.text);
    j.n = ref_parameters(&o);
    assert_int_equal(j.n, j.m->n_values);
    j.tokens = calloc(rows, sizeof(int));
    j.targets = calloc(rows, sizeof(int));
    j.values = calloc(j.n, sizeof(double));
    float *values = calloc(j.n, sizeof(float));
    gpt_model_values(j.m, values);
    for (size_t i = 0; i < j.n; i++)
        j.values[i] = (double)values[i];
    free(values);
    batch_of(&j, 0);
    return j;
}

static void job_free(struct job *j)
{
    gpt_model_free(j->m);
    gpt_text_release(&j->text);
    free(j->tokens);
    free(j->targets);
    free(j->values);
}

/* gains and biases start as ones and zeros: moved, so that their gradients depend on them */
static void stir(struct job *j)
{
    uint64_t state = 77;

    for (size_t i = 0; i < j->n; i++)
        j->values[i] += 0.1 * ((double)(gpt_random(&state) >> 11) * 0x1p-52 - 1);
}

static void test_reference__gradients_are_differences_of_the_loss(void **state)
{
    struct job j = job_new(tiny());
    double *gradient = calloc(j.n, sizeof(*gradient)), h = 1e-5;
    size_t begin = 0;

    (void)state;
    stir(&j);
    ref_gradient(&j.o, j.values, j.tokens, j.targets, gradient);
    for (int p = 0; p < j.m->n_params; begin += j.m->params[p++].n) {
        double most = 0;
        for (size_t i = 0; i < j.m->params[p].n; i++)
            most = fmax(most, fabs(gradient[begin + i]));
        for (size_t k = 0; k < 6; k++) {
            size_t i = begin + k * 7919 % j.m->params[p].n;
            double was = j.values[i];
            j.values[i] = was + h;
            double above = ref_gradient(&j.o, j.values, j.tokens, j.targets, NULL);
            j.values[i] = was - h;
            double below = ref_gradient(&j.o, j.values, j.tokens, j.targets, NULL);
            j.values[i] = was;
            double off = fabs((above - below) / (2 * h) - gradient[i]);
            if (!(off <= 1e-6 * most + 1e-10))
                fail_msg("%s[%zu]: %.9g, by differences %.9g", j.m->params[p].name, i - begin,
                         gradient[i], (above - below) / (2 * h));
        }
    }
    assert_int_equal(begin, j.n);
    free(gradient);
    job_free(&j);
}

static void device_gradients(unsigned atomics, int streams)
{
    struct gpt_options o = tiny();
    o.atomics = atomics;
    o.streams = streams;
    struct job j = job_new(o);
    double *want = calloc(j.n, sizeof(*want));
    size_t begin = 0;

    ref_gradient(&j.o, j.values, j.tokens, j.targets, want);
    gpt_step(j.m);
    GPT_CUDA(cudaStreamSynchronize(j.m->stream[0]));
    for (int p = 0; p < j.m->n_params; begin += j.m->params[p++].n) {
        float *copy = on_device(NULL, j.m->params[p].n);
        GPT_CUDA(cudaMemcpy(copy, j.m->params[p].gradient, j.m->params[p].n * sizeof(float),
                            cudaMemcpyDeviceToDevice));
        expect_near(j.m->params[p].name, copy, want + begin, j.m->params[p].n, 2e-5);
    }
    free(want);
    job_free(&j);
}

static void test_model__gradients_are_those_of_the_reference(void **state)
{
    (void)state;
    device_gradients(0, 1);
    device_gradients(0, 4);
    for (unsigned flag = 1; flag < GPT_ATOMIC_ALL; flag <<= 1)
        device_gradients(flag, 1);
    device_gradients(GPT_ATOMIC_ALL, 3);
}

static void training(unsigned atomics)
{
    enum { STEPS = 8 };
    struct gpt_options o = tiny();
    o.atomics = atomics;
    struct job j = job_new(o);
    double *m = calloc(j.n, sizeof(*m)), *v = calloc(j.n, sizeof(*v)), first = 0, want = 0, off = 0;
    float *values = calloc(j.n, sizeof(*values));

    for (int step = 0; step < STEPS; step++) {
        float loss;
        batch_of(&j, step);
        gpt_step(j.m);
        GPT_CUDA(cudaStreamSynchronize(j.m->stream[0]));
        GPT_CUDA(cudaMemcpy(&loss, j.m->loss, sizeof(loss), cudaMemcpyDeviceToHost));
        want = ref_step(&j.o, j.values, m, v, j.tokens, j.targets, step + 1);
        first = step ? first : want;
        if (!(fabs((double)loss - want) <= 1e-5 * want))
            fail_msg("step %d: loss %.9g instead of %.9g", step, (double)loss, want);
    }
    assert_true(want < first - 0.3);
    gpt_model_values(j.m, values);
    for (size_t i = 0; i < j.n; i++)
        off += fabs((double)values[i] - j.values[i]) / (double)j.n;
    if (!(off <= 1e-3 * STEPS * (double)o.rate))
        fail_msg("parameters are off by %.3g on average", off);
    free(m);
    free(v);
    free(values);
    job_free(&j);
}

static void test_model__trains_as_the_reference(void **state)
{
    (void)state;
    training(0);
    training(GPT_ATOMIC_ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference__gradients_are_differences_of_the_loss),
        cmocka_unit_test(test_model__gradients_are_those_of_the_reference),
        cmocka_unit_test(test_model__trains_as_the_reference),
    };

    need_device();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
