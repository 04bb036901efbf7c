/*
 * Causal attention that never writes the scores to memory. Forward, a block has 32 queries of a
 * head and goes over the keys, 16 at a time, with a running softmax; `lse`, the logarithm of each
 * query's sum, is kept, and from it the way back makes the scores anew.
 *
 * Back, in a fixed order: one kernel goes over the keys for the gradient of the queries, one over
 * the queries for that of keys and values. With atomics the second does all: what each block of
 * keys has for the gradient of the queries is added by atomicAdd.
 */
#include "examples/cuda_gpt/kernels.h"

#define QUERIES 32
#define KEYS 16
#define PITCH (GPT_MAX_HEAD + 1)
#define THREADS 256
#define PER_ROW (THREADS / QUERIES)  /* threads that share a query: side by side in a warp */
#define PER_KEY (THREADS / KEYS)     /* threads that share a key */
#define OWN (GPT_MAX_HEAD / PER_ROW) /* elements of a query's row that a thread has */
#define OWN_KEY (GPT_MAX_HEAD / PER_KEY)
#define SCORES (KEYS / PER_ROW) /* scores that a thread makes */

/* struct place - the head that this block has; offsets in qkv and in y */
struct place {
    int context, head, pitch; /* pitch: of qkv; that of y is a third */
    size_t qkv, y, row;       /* row: in lse and delta */
};

static __device__ inline struct place place_of_block(int context, int heads, int head)
{
    size_t width = (size_t)heads * head, batch = blockIdx.z, h = blockIdx.y;
    struct place p = {context,
                      head,
                      (int)(3 * width),
                      batch * context * 3 * width + h * head,
                      batch * context * width + h * head,
                      (batch * heads + h) * context};
    return p;
}

/* tile[i] = row first + i of m, zero behind the last */
static __device__ inline void load_rows(float (*tile)[PITCH], const float *m, int pitch, int first,
                                        int n, const struct place *p)
{
    for (int t = threadIdx.x; t < n * p->head; t += THREADS) {
        int i = t / p->head, d = t % p->head;
        tile[i][d] = first + i < p->context ? m[(size_t)(first + i) * pitch + d] : 0;
    }
}

static __device__ inline float dot(const float *a, const float *b, int n)
{
    float sum = 0;

    for (int d = 0; d < n; d++)
        sum = fmaf(a[d], b[d], sum);
    return sum;
}

static __device__ inline float row_max(float x)
{
    for (int d = PER_ROW / 2; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

static __device__ inline float row_sum(float x)
{
    for (int d = PER_ROW / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(~0u, x, d);
    return x;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_forward(float *y, float *lse, const float *qkv, int context, int heads, int head,
                      float scale)
{
    __shared__ float q[QUERIES][PITCH], k[KEYS][PITCH], v[KEYS][PITCH], weight[QUERIES][KEYS + 1];
    struct place p = place_of_block(context, heads, head);
    int row = threadIdx.x / PER_ROW, part = threadIdx.x % PER_ROW;
    int first = blockIdx.x * QUERIES, query = first + row;
    float most = -INFINITY, total = 0, out[OWN] = {};

    load_rows(q, qkv + p.qkv, p.pitch, first, QUERIES, &p);
    for (int key0 = 0; key0 < min(first + QUERIES, context); key0 += KEYS) {
        float score[SCORES], now = most;
        __syncthreads();
        load_rows(k, qkv + p.qkv + p.pitch / 3, p.pitch, key0, KEYS, &p);
        load_rows(v, qkv + p.qkv + p.pitch / 3 * 2, p.pitch, key0, KEYS, &p);
        __syncthreads();
        for (int i = 0; i < SCORES; i++) {
            int key = part + i * PER_ROW;
            score[i] = key0 + key <= query ? dot(q[row], k[key], head) * scale : -INFINITY;
            now = fmaxf(now, score[i]);
        }
        now = row_max(now);
        float less = expf(most - now), sum = 0;
        for (int i = 0; i < SCORES; i++) {
            float w = expf(score[i] - now);
            weight[row][part + i * PER_ROW] = w;
            sum += w;
        }
        total = total * less + row_sum(sum);
        most = now;
        __syncwarp();
        for (int i = 0; i < OWN && part + i * PER_ROW < head; i++) {
            float add = 0;
            for (int key = 0; key < KEYS; key++)
                add = fmaf(weight[row][key], v[key][part + i * PER_ROW], add);
            out[i] = out[i] * less + add;
        }
    }
    if (query >= context)
        return;
    for (int i = 0; i < OWN && part + i * PER_ROW < head; i++)
        y[p.y + (size_t)query * (p.pitch / 3) + part + i * PER_ROW] = out[i] / total;
    if (part == 0)
        lse[p.row + query] = most + logf(total);
}

/* a warp has a row of one head */
extern "C" __global__ void attention_delta(float *delta, const float *dy, const float *y,
                                           int context, int heads, int head, size_t n)
{
    size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) / 32; /* [batch, context, heads] */
    float sum = 0;

    if (i >= n)
        return;
    for (int d = threadIdx.x % 32; d < head; d += 32)
        sum = fmaf(dy[i * head + d], y[i * head + d], sum);
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    size_t h = i % heads, at = i / heads % context, batch = i / heads / context;
    if (threadIdx.x % 32 == 0)
        delta[(batch * heads + h) * context + at] = sum;
}

/* struct tiles - what the kernels of the way back have in shared memory */
struct tiles {
    float q[QUERIES][PITCH], dy[QUERIES][PITCH], k[KEYS][PITCH], v[KEYS][PITCH];
    float weight[QUERIES][KEYS + 1], dscore[QUERIES][KEYS + 1];
};

static __device__ inline void load_queries(struct tiles *s, const float *qkv, const float *dy,
                                           int first, const struct place *p)
{
    load_rows(s->q, qkv + p->qkv, p->pitch, first, QUERIES, p);
    load_rows(s->dy, dy + p->y, p->pitch / 3, first, QUERIES, p);
}

static __device__ inline void load_keys(struct tiles *s, const float *qkv, int first,
                                        const struct place *p)
{
    load_rows(s->k, qkv + p->qkv + p->pitch / 3, p->pitch, first, KEYS, p);
    load_rows(s->v, qkv + p->qkv + p->pitch / 3 * 2, p->pitch, first, KEYS, p);
}

/* weights and gradients of the scores between the queries and the keys in s */
static __device__ inline void score_tile(struct tiles *s, const float *lse, const float *delta,
                                         int query0, int key0, float scale, const struct place *p)
{
    int row = threadIdx.x / PER_ROW, query = query0 + row;

    for (int key = threadIdx.x % PER_ROW; key < KEYS; key += PER_ROW) {
        float w = 0, d = 0;
        if (query < p->context && key0 + key <= query) {
            w = expf(dot(s->q[row], s->k[key], p->head) * scale - lse[p->row + query]);
            d = w * (dot(s->dy[row], s->v[key], p->head) - delta[p->row + query]) * scale;
        }
        s->weight[row][key] = w;
        s->dscore[row][key] = d;
    }
}

/* what the keys in s have for the gradient of this thread's query, element @d */
static __device__ inline float query_gradient(const struct tiles *s, int row, int d)
{
    float sum = 0;

    for (int key = 0; key < KEYS; key++)
        sum = fmaf(s->dscore[row][key], s->k[key][d], sum);
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_backward_query(float *dqkv, const float *dy, const float *qkv, const float *lse,
                             const float *delta, int context, int heads, int head, float scale)
{
    __shared__ struct tiles s;
    struct place p = place_of_block(context, heads, head);
    int row = threadIdx.x / PER_ROW, part = threadIdx.x % PER_ROW;
    int first = blockIdx.x * QUERIES, query = first + row;
    float dq[OWN] = {};

    load_queries(&s, qkv, dy, first, &p);
    for (int key0 = 0; key0 < min(first + QUERIES, context); key0 += KEYS) {
        __syncthreads();
        load_keys(&s, qkv, key0, &p);
        __syncthreads();
        score_tile(&s, lse, delta, first, key0, scale, &p);
        __syncwarp();
        for (int i = 0; i < OWN && part + i * PER_ROW < head; i++)
            dq[i] += query_gradient(&s, row, part + i * PER_ROW);
    }
    for (int i = 0; i < OWN && part + i * PER_ROW < head && query < context; i++)
        dqkv[p.qkv + (size_t)query * p.pitch + part + i * PER_ROW] = dq[i];
}

/* adds what the keys in s have for the gradients of the queries from @first on */
static __device__ inline void add_queries(float *dqkv, const struct tiles *s, int first,
                                          const struct place *p)
{
    int row = threadIdx.x / PER_ROW, query = first + row;

    for (int d = threadIdx.x % PER_ROW; d < p->head && query < p->context; d += PER_ROW)
        atomicAdd(&dqkv[p->qkv + (size_t)query * p->pitch + d], query_gradient(s, row, d));
}

template <bool ATOMICS>
static __device__ inline void backward_keys(float *dqkv, const float *dy, const float *qkv,
                                            const float *lse, const float *delta, int context,
                                            int heads, int head, float scale)
{
    __shared__ struct tiles s;
    struct place p = place_of_block(context, heads, head);
    int row = threadIdx.x / PER_KEY, part = threadIdx.x % PER_KEY;
    int first = blockIdx.x * KEYS, key = first + row;
    float dk[OWN_KEY] = {}, dv[OWN_KEY] = {};

    load_keys(&s, qkv, first, &p);
    for (int query0 = first / QUERIES * QUERIES; query0 < context; query0 += QUERIES) {
        __syncthreads();
        load_queries(&s, qkv, dy, query0, &p);
        __syncthreads();
        score_tile(&s, lse, delta, query0, first, scale, &p);
        __syncthreads();
        if (ATOMICS)
            add_queries(dqkv, &s, query0, &p);
        for (int i = 0; i < OWN_KEY && part + i * PER_KEY < head; i++) {
            for (int r = 0; r < QUERIES; r++) {
                dv[i] = fmaf(s.weight[r][row], s.dy[r][part + i * PER_KEY], dv[i]);
                dk[i] = fmaf(s.dscore[r][row], s.q[r][part + i * PER_KEY], dk[i]);
            }
        }
    }
    for (int i = 0; i < OWN_KEY && part + i * PER_KEY < head && key < context; i++) {
        size_t at = p.qkv + (size_t)key * p.pitch + part + i * PER_KEY;
        dqkv[at + p.pitch / 3] = dk[i];
        dqkv[at + p.pitch / 3 * 2] = dv[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_backward_keys(float *dqkv, const float *dy, const float *qkv, const float *lse,
                            const float *delta, int context, int heads, int head, float scale)
{
    backward_keys<false>(dqkv, dy, qkv, lse, delta, context, heads, head, scale);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_backward_atomic(float *dqkv, const float *dy, const float *qkv, const float *lse,
                              const float *delta, int context, int heads, int head, float scale)
{
    backward_keys<true>(dqkv, dy, qkv, lse, delta, context, heads, head, scale);
}

static dim3 grid_of(int batch, int context, int heads, int rows)
{
    return dim3((unsigned)gpt_chunks(context, rows), (unsigned)heads, (unsigned)batch);
}

extern "C" cudaError_t gpt_attention_forward(float *y, float *lse, const float *qkv, int batch,
                                             int context, int heads, int head, cudaStream_t stream)
{
    dim3 grid = grid_of(batch, context, heads, QUERIES);

    if (head > GPT_MAX_HEAD)
        return cudaErrorInvalidValue;
    attention_forward<<<grid, THREADS, 0, stream>>>(y, lse, qkv, context, heads, head,
                                                    1 / sqrtf((float)head));
    return cudaGetLastError();
}

extern "C" cudaError_t gpt_attention_backward(float *dqkv, float *delta, const float *dy,
                                              const float *qkv, const float *y, const float *lse,
                                              int batch, int context, int heads, int head,
                                              bool atomics, cudaStream_t stream)
{
    dim3 queries = grid_of(batch, context, heads, QUERIES),
         keys = grid_of(batch, context, heads, KEYS);
    size_t rows = (size_t)batch * context * heads;
    float scale = 1 / sqrtf((float)head);
    cudaError_t e;

    if (head > GPT_MAX_HEAD)
        return cudaErrorInvalidValue;
    attention_delta<<<(unsigned)gpt_chunks(rows * 32, THREADS), THREADS, 0, stream>>>(
        delta, dy, y, context, heads, head, rows);
    if ((e = cudaGetLastError()))
        return e;
    if (atomics) {
        e = cudaMemsetAsync(dqkv, 0, rows * head * 3 * sizeof(*dqkv), stream);
        if (e != cudaSuccess)
            return e;
        attention_backward_atomic<<<keys, THREADS, 0, stream>>>(dqkv, dy, qkv, lse, delta, context,
                                                                heads, head, scale);
        return cudaGetLastError();
    }
    attention_backward_query<<<queries, THREADS, 0, stream>>>(dqkv, dy, qkv, lse, delta, context,
                                                              heads, head, scale);
    if ((e = cudaGetLastError()))
        return e;
    attention_backward_keys<<<keys, THREADS, 0, stream>>>(dqkv, dy, qkv, lse, delta, context, heads,
                                                          head, scale);
    return cudaGetLastError();
}
