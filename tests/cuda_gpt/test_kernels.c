/*
 * Every kernel of cuda_gpt, in both variants, against double precision: forward and backward, with
 * sizes that are no multiple of a tile. Errors are relative to the greatest value: 2e-6 forward and
 * for sums in a fixed order, 1e-5 where a softmax is recomputed. Outputs hold NaN before.
 */
#include "tests/cuda_gpt/gpt_test.h"

#define NEAR 2e-6
#define NEAR_ATTENTION 1e-5

static void one_matmul(int rows, int in, int out, bool atomics)
{
    size_t r = (size_t)rows, i = (size_t)in, o = (size_t)out;
    double *x = numbers(r * i, 1), *w = numbers(i * o, 2), *bias = numbers(o, 3);
    double *residual = numbers(r * o, 4), *dy = numbers(r * o, 5);
    double *y = numbers(r * o, 0), *dx = numbers(r * i, 0), *dw = numbers(i * o, 0);
    double *dbias = numbers(o, 0);
    float *fx = on_device(x, r * i), *fw = on_device(w, i * o), *fbias = on_device(bias, o);
    float *fresidual = on_device(residual, r * o), *fdy = on_device(dy, r * o);
    float *fy = on_device(NULL, r * o), *plain = on_device(NULL, r * o);
    float *fdx = on_device(NULL, r * i), *fdw = on_device(NULL, i * o);
    float *fdbias = on_device(NULL, o), *partial = on_device(NULL, gpt_partials(r, o));

    GPT_CUDA(gpt_matmul_forward(fy, fx, fw, fbias, fresidual, rows, in, out, atomics, NULL));
    GPT_CUDA(gpt_matmul_forward(plain, fx, fw, NULL, NULL, rows, in, out, atomics, NULL));
    GPT_CUDA(gpt_matmul_backward_input(fdx, fdy, fw, rows, in, out, atomics, NULL));
    GPT_CUDA(gpt_matmul_backward_weight(fdw, fx, fdy, rows, in, out, atomics, NULL));
    GPT_CUDA(gpt_matmul_backward_bias(fdbias, partial, fdy, rows, out, atomics, NULL));
    ref_matmul(y, x, w, bias, residual, rows, in, out);
    expect_near("y", fy, y, r * o, NEAR);
    ref_matmul(y, x, w, NULL, NULL, rows, in, out);
    expect_near("y without bias", plain, y, r * o, NEAR);
    ref_matmul_backward(dx, dw, dbias, dy, x, w, rows, in, out);
    expect_near("dx", fdx, dx, r * i, NEAR);
    expect_near("dw", fdw, dw, i * o, NEAR);
    expect_near("dbias", fdbias, dbias, o, NEAR);
    void *host[] = {x, w, bias, residual, dy, y, dx, dw, dbias};
    void *device[] = {fx, fw, fbias, fresidual, fdy, partial};
    for (size_t k = 0; k < sizeof(host) / sizeof(host[0]); k++)
        free(host[k]);
    for (size_t k = 0; k < sizeof(device) / sizeof(device[0]); k++)
        GPT_CUDA(cudaFree(device[k]));
}

static void test_matmul__is_the_reference(void **state)
{
    static const int sizes[][3] = {
        {1, 1, 1}, {64, 64, 64}, {65, 17, 130}, {70, 200, 33}, {5, 8, 32}};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int atomics = 0; atomics < 2; atomics++)
            one_matmul(sizes[i][0], sizes[i][1], sizes[i][2], atomics);
}

static void one_attention(int batch, int context, int heads, int head, bool atomics)
{
    size_t rows = (size_t)(batch * context), n = rows * (size_t)(heads * head);
    double *qkv = numbers(3 * n, 6), *dy = numbers(n, 7);
    double *y = numbers(n, 0), *dqkv = numbers(3 * n, 0), *lse = numbers(rows * (size_t)heads, 0);
    float *fqkv = on_device(qkv, 3 * n), *fdy = on_device(dy, n), *fy = on_device(NULL, n);
    float *flse = on_device(NULL, rows * (size_t)heads), *fdqkv = on_device(NULL, 3 * n);
    float *delta = on_device(NULL, rows * (size_t)heads);

    GPT_CUDA(gpt_attention_forward(fy, flse, fqkv, batch, context, heads, head, NULL));
    GPT_CUDA(gpt_attention_backward(fdqkv, delta, fdy, fqkv, fy, flse, batch, context, heads, head,
                                    atomics, NULL));
    ref_attention(y, lse, qkv, batch, context, heads, head);
    ref_attention_backward(dqkv, dy, qkv, batch, context, heads, head);
    expect_near("y", fy, y, n, NEAR_ATTENTION);
    expect_near("lse", flse, lse, rows * (size_t)heads, NEAR_ATTENTION);
    expect_near("dqkv", fdqkv, dqkv, 3 * n, NEAR_ATTENTION);
    GPT_CUDA(cudaFree(fqkv));
    GPT_CUDA(cudaFree(fdy));
    GPT_CUDA(cudaFree(delta));
    free(qkv);
    free(dy);
    free(y);
    free(dqkv);
    free(lse);
}

static void test_attention__is_the_reference(void **state)
{
    static const int sizes[][4] = {{1, 1, 1, 8}, {2, 33, 2, 16}, {1, 70, 3, 24}, {1, 64, 1, 64}};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int atomics = 0; atomics < 2; atomics++)
            one_attention(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], atomics);
}

static void one_layernorm(int rows, int width, bool residual, bool atomics)
{
    size_t w = (size_t)width, n = (size_t)rows * w;
    double *x = numbers(n, 8), *gain = numbers(w, 9), *bias = numbers(w, 10), *dy = numbers(n, 11);
    double *add = residual ? numbers(n, 12) : NULL;
    double *y = numbers(n, 0), *dx = numbers(n, 0), *dgain = numbers(w, 0), *dbias = numbers(w, 0);
    float *fx = on_device(x, n), *fgain = on_device(gain, w), *fbias = on_device(bias, w);
    float *fdy = on_device(dy, n), *fadd = residual ? on_device(add, n) : NULL;
    float *fy = on_device(NULL, n), *fdx = on_device(NULL, n),
          *mean = on_device(NULL, (size_t)rows);
    float *rstd = on_device(NULL, (size_t)rows), *fdgain = on_device(NULL, w);
    float *fdbias = on_device(NULL, w), *p1 = on_device(NULL, gpt_partials((size_t)rows, w));
    float *p2 = on_device(NULL, gpt_partials((size_t)rows, w));

    GPT_CUDA(gpt_layernorm_forward(fy, mean, rstd, fx, fgain, fbias, rows, width, NULL));
    GPT_CUDA(gpt_layernorm_backward(fdx, fdy, fadd, fx, mean, rstd, fgain, rows, width, NULL));
    GPT_CUDA(gpt_layernorm_backward_params(fdgain, fdbias, p1, p2, fdy, fx, mean, rstd, rows, width,
                                           atomics, NULL));
    ref_layernorm(y, x, gain, bias, rows, width);
    ref_layernorm_backward(dx, dgain, dbias, dy, add, x, gain, rows, width);
    expect_near("y", fy, y, n, NEAR);
    expect_near("dx", fdx, dx, n, NEAR);
    expect_near("dgain", fdgain, dgain, w, NEAR);
    expect_near("dbias", fdbias, dbias, w, NEAR);
    void *host[] = {x, gain, bias, dy, add, y, dx, dgain, dbias};
    void *device[] = {fx, fgain, fbias, fdy, fadd, mean, rstd, p1, p2};
    for (size_t k = 0; k < sizeof(host) / sizeof(host[0]); k++)
        free(host[k]);
    for (size_t k = 0; k < sizeof(device) / sizeof(device[0]); k++)
        GPT_CUDA(cudaFree(device[k]));
}

static void test_layernorm__is_the_reference(void **state)
{
    (void)state;
    for (int atomics = 0; atomics < 2; atomics++) {
        one_layernorm(3, 8, true, atomics);
        one_layernorm(130, 40, false, atomics);
        one_layernorm(64, 96, true, atomics);
    }
}

static void one_gelu(int rows, int width, bool atomics)
{
    size_t w = (size_t)width, n = (size_t)rows * w;
    double *x = numbers(n, 13), *dy = numbers(n, 14), *y = numbers(n, 0), *dx = numbers(n, 0);
    double *dbias = calloc(w, sizeof(*dbias));

    for (size_t i = 0; i < n; i++) {
        x[i] *= 4;
        y[i] = ref_gelu(x[i]);
        dx[i] = dy[i] * ref_gelu_slope(x[i]);
        dbias[i % w] += dx[i];
    }
    float *fx = on_device(x, n), *fdy = on_device(dy, n), *fy = on_device(NULL, n);
    float *fdx = on_device(NULL, n), *fdbias = on_device(NULL, w);
    float *partial = on_device(NULL, gpt_partials((size_t)rows, w));
    GPT_CUDA(gpt_gelu_forward(fy, fx, n, NULL));
    GPT_CUDA(gpt_gelu_backward(fdx, fdbias, partial, fdy, fx, rows, width, atomics, NULL));
    expect_near("y", fy, y, n, NEAR);
    expect_near("dx", fdx, dx, n, NEAR);
    expect_near("dbias", fdbias, dbias, w, NEAR);
    GPT_CUDA(cudaFree(fx));
    GPT_CUDA(cudaFree(fdy));
    GPT_CUDA(cudaFree(partial));
    free(x);
    free(dy);
    free(y);
    free(dx);
    free(dbias);
}

static void test_gelu__is_the_reference(void **state)
{
    (void)state;
    for (int atomics = 0; atomics < 2; atomics++) {
        one_gelu(1, 1, atomics);
        one_gelu(100, 72, atomics);
    }
}

static void one_crossentropy(int rows, int vocabulary, bool atomics)
{
    size_t r = (size_t)rows, n = r * (size_t)vocabulary;
    double *logits = numbers(n, 15), *dlogits = numbers(n, 0), *losses = numbers(r, 0);
    int *targets = calloc(r, sizeof(*targets));

    for (size_t i = 0; i < n; i++)
        logits[i] *= 6;
    for (int i = 0; i < rows; i++)
        targets[i] = i * 7 % vocabulary;
    float *flogits = on_device(logits, n), *fdlogits = on_device(NULL, n);
    float *flosses = on_device(NULL, r), *floss = on_device(NULL, 1);
    int *ftargets = integers_on_device(targets, r);
    GPT_CUDA(gpt_crossentropy(floss, flosses, fdlogits, flogits, ftargets, rows, vocabulary,
                              atomics, NULL));
    double mean = ref_crossentropy(losses, dlogits, logits, targets, rows, vocabulary);
    expect_near("loss", floss, &mean, 1, NEAR);
    expect_near("losses", flosses, losses, r, NEAR);
    expect_near("dlogits", fdlogits, dlogits, n, NEAR);
    GPT_CUDA(cudaFree(flogits));
    GPT_CUDA(cudaFree(ftargets));
    free(logits);
    free(dlogits);
    free(losses);
    free(targets);
}

static void test_crossentropy__is_the_reference(void **state)
{
    (void)state;
    for (int atomics = 0; atomics < 2; atomics++) {
        one_crossentropy(1, 2, atomics);
        one_crossentropy(301, 32, atomics);
        one_crossentropy(37, 70, atomics);
    }
}

static void one_embedding(int batch, int context, int width, bool atomics)
{
    int rows = batch * context, vocabulary = 9;
    size_t w = (size_t)width, n = (size_t)rows * w;
    size_t tokens_n = (size_t)vocabulary * w, positions = (size_t)context * w;
    double *token = numbers(tokens_n, 16), *position = numbers(positions, 17), *dy = numbers(n, 18);
    double *y = numbers(n, 0), *dtoken = numbers(tokens_n, 0), *dposition = numbers(positions, 0);
    int *tokens = calloc((size_t)rows, sizeof(*tokens));

    for (int i = 0; i < rows; i++)
        tokens[i] = i * i % vocabulary; /* some never */
    int *ftokens = integers_on_device(tokens, (size_t)rows);
    float *ftoken = on_device(token, tokens_n), *fposition = on_device(position, positions);
    float *fdy = on_device(dy, n), *fy = on_device(NULL, n);
    float *fdtoken = on_device(NULL, tokens_n), *fdposition = on_device(NULL, positions);
    GPT_CUDA(gpt_embedding_forward(fy, ftokens, ftoken, fposition, batch, context, width, NULL));
    GPT_CUDA(gpt_embedding_backward(fdtoken, fdposition, fdy, ftokens, batch, context, width,
                                    vocabulary, atomics, NULL));
    ref_embedding(y, tokens, token, position, batch, context, width);
    ref_embedding_backward(dtoken, dposition, dy, tokens, batch, context, width, vocabulary);
    expect_near("y", fy, y, n, NEAR);
    expect_near("dtoken", fdtoken, dtoken, tokens_n, NEAR);
    expect_near("dposition", fdposition, dposition, positions, NEAR);
    void *device[] = {ftokens, ftoken, fposition, fdy};
    void *host[] = {token, position, dy, y, dtoken, dposition, tokens};
    for (size_t k = 0; k < sizeof(device) / sizeof(device[0]); k++)
        GPT_CUDA(cudaFree(device[k]));
    for (size_t k = 0; k < sizeof(host) / sizeof(host[0]); k++)
        free(host[k]);
}

static void test_embedding__is_the_reference(void **state)
{
    (void)state;
    for (int atomics = 0; atomics < 2; atomics++) {
        one_embedding(1, 1, 8, atomics);
        one_embedding(3, 21, 40, atomics);
    }
}

/* two parameters with one norm over several steps, above and below the limit */
static void one_adamw(size_t n, double limit, bool atomics)
{
    double *value = numbers(n, 19), *m = calloc(n, sizeof(*m)), *v = calloc(n, sizeof(*v));
    const double start[] = {0, 0, 1, 1, 0};
    size_t first = n / 3, sums = gpt_chunks(first, GPT_SQUARES);
    size_t all = sums + gpt_chunks(n - first, GPT_SQUARES);
    float *fvalue = on_device(value, n), *fm = on_device(m, n), *fv = on_device(v, n);
    float *squares = on_device(NULL, all), *fupdate = on_device(start, 5);
    struct gpt_update *update = (struct gpt_update *)(void *)fupdate;

    for (int step = 1; step <= 4; step++) {
        double *g = numbers(n, 20 + (uint64_t)step);
        float *fg = on_device(g, n);
        GPT_CUDA(gpt_adamw_squares(squares, update, fg, first, atomics, NULL));
        GPT_CUDA(gpt_adamw_squares(squares + sums, update, fg + first, n - first, atomics, NULL));
        GPT_CUDA(gpt_adamw_begin(update, squares, all, (float)limit, atomics, NULL));
        GPT_CUDA(gpt_adamw_update(fvalue, fm, fv, fg, update, 0.0078125f, 0.125f, n, NULL));
        ref_limit(g, n, limit);
        ref_adamw(value, m, v, g, step, 0.0078125, 0.125, n);
        GPT_CUDA(cudaFree(fg));
        free(g);
    }
    expect_near("values", fvalue, value, n, NEAR);
    expect_near("m", fm, m, n, NEAR);
    expect_near("v", fv, v, n, NEAR);
    GPT_CUDA(cudaFree(squares));
    GPT_CUDA(cudaFree(fupdate));
    free(value);
    free(m);
    free(v);
}

static void test_adamw__is_the_reference(void **state)
{
    (void)state;
    for (int atomics = 0; atomics < 2; atomics++) {
        one_adamw(3, 100, atomics);
        one_adamw(30000, 1, atomics);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul__is_the_reference),
        cmocka_unit_test(test_attention__is_the_reference),
        cmocka_unit_test(test_layernorm__is_the_reference),
        cmocka_unit_test(test_gelu__is_the_reference),
        cmocka_unit_test(test_crossentropy__is_the_reference),
        cmocka_unit_test(test_embedding__is_the_reference),
        cmocka_unit_test(test_adamw__is_the_reference),
    };

    need_device();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
