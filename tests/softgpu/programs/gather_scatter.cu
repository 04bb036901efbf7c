// Gathers, scatters and permutations by index lists; scatter with a combining maximum; embedding
// lookup and its backward with atomics.
#include "check.cuh"

#include <algorithm>
#include <numeric>

template <class T> __global__ void gather(T *out, const T *in, const int *index, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[index[i]];
}

template <class T> __global__ void scatter(T *out, const T *in, const int *index, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[index[i]] = in[i];
}

__global__ void scatter_max(int *out, const int *in, const int *index, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicMax(&out[index[i]], in[i]);
}

__global__ void embed(float *out, const float *table, const int *tokens, int width)
{
    const float4 *from = (const float4 *)(table + (size_t)tokens[blockIdx.x] * width);
    ((float4 *)(out + (size_t)blockIdx.x * width))[threadIdx.x] = from[threadIdx.x];
}

__global__ void embed_backward(float *dtable, const float *dout, const int *tokens, int width)
{
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        atomicAdd(&dtable[(size_t)tokens[blockIdx.x] * width + i],
                  dout[(size_t)blockIdx.x * width + i]);
}

int main()
{
    const int n = 3000;
    std::vector<int> perm(n);
    std::iota(perm.begin(), perm.end(), 0);
    rng r(221);
    for (int i = n - 1; i > 0; i--)
        std::swap(perm[i], perm[r.below(i + 1)]);
    auto in = random_ints<int64_t>(n, 222, INT64_MIN / 2, INT64_MAX / 2);
    std::vector<int64_t> gathered(n), scattered(n);
    for (int i = 0; i < n; i++) {
        gathered[i] = in[perm[i]];
        scattered[perm[i]] = in[i];
    }
    dev<int> dperm(perm);
    dev<int64_t> din(in), out(n);
    gather<<<blocks_for(n, 128), 128>>>(out.p, din.p, dperm.p, n);
    SYNC();
    expect_equal("gather", out.host(), gathered);
    scatter<<<blocks_for(n, 128), 128>>>(out.p, din.p, dperm.p, n);
    SYNC();
    expect_equal("scatter", out.host(), scattered);

    auto slots = random_ints<int>(n, 223, 0, 100), values = random_ints<int>(n, 224, -500, 500);
    std::vector<int> want(100, INT32_MIN);
    for (int i = 0; i < n; i++)
        want[slots[i]] = std::max(want[slots[i]], values[i]);
    dev<int> dslots(slots), dvalues(values), best(std::vector<int>(100, INT32_MIN));
    scatter_max<<<blocks_for(n, 96), 96>>>(best.p, dvalues.p, dslots.p, n);
    SYNC();
    expect_equal("scatter max", best.host(), want);

    const int vocabulary = 50, width = 64, tokens = 200;
    auto table = random_reals<float>(vocabulary * width, 225);
    auto ids = random_ints<int>(tokens, 226, 0, vocabulary);
    auto dout = random_ints<float>(tokens * width, 227, -8, 9);
    std::vector<float> rows(tokens * width), dtable(vocabulary * width);
    for (int i = 0; i < tokens * width; i++) {
        rows[i] = table[ids[i / width] * width + i % width];
        dtable[ids[i / width] * width + i % width] += dout[i];
    }
    dev<float> d_table(table), d_rows(tokens * width), d_dout(dout), d_dtable(vocabulary * width);
    dev<int> d_ids(ids);
    embed<<<tokens, width / 4>>>(d_rows.p, d_table.p, d_ids.p, width);
    embed_backward<<<tokens, 32>>>(d_dtable.p, d_dout.p, d_ids.p, width);
    SYNC();
    expect_equal("embedding", d_rows.host(), rows);
    expect_equal("embedding backward", d_dtable.host(), dtable);
    return ok("gather, scatter, scatter-max, embedding forward and backward");
}
