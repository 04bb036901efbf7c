// Tiled transposes through padded shared memory, elements of 1 to 16 bytes, ragged edges.
// nvcc: --no-compress
#include "check.cuh"

enum { TILE = 32, ROWS = 8 };

template <class T> __global__ void transpose(T *out, const T *in, int rows, int cols)
{
    __shared__ T tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x;
    for (int r = threadIdx.y; r < TILE; r += ROWS) {
        int y = blockIdx.y * TILE + r;
        if (x < cols && y < rows)
            tile[r][threadIdx.x] = in[(size_t)y * cols + x];
    }
    __syncthreads();
    int ox = blockIdx.y * TILE + threadIdx.x;
    for (int r = threadIdx.y; r < TILE; r += ROWS) {
        int oy = blockIdx.x * TILE + r;
        if (ox < rows && oy < cols)
            out[(size_t)oy * rows + ox] = tile[threadIdx.x][r];
    }
}

/* within registers of a warp: lane l ends with column l of a 32x32 matrix */
__global__ void transpose_shuffle(int *data)
{
    int v[32], lane = threadIdx.x;
#pragma unroll
    for (int i = 0; i < 32; i++)
        v[i] = data[i * 32 + lane];
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (!(i & d)) {
                int give = lane & d ? v[i] : v[i + d];
                int got = __shfl_xor_sync(~0u, give, d);
                if (lane & d)
                    v[i] = got;
                else
                    v[i + d] = got;
            }
#pragma unroll
    for (int i = 0; i < 32; i++)
        data[i * 32 + lane] = v[i];
}

template <class T> static void run(const char *type, const std::vector<T> &in, int rows, int cols)
{
    dev<T> din(in), out(in.size());
    transpose<<<dim3(blocks_for(cols, TILE), blocks_for(rows, TILE)), dim3(TILE, ROWS)>>>(
        out.p, din.p, rows, cols);
    SYNC();
    std::vector<T> want(in.size());
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++)
            want[(size_t)c * rows + r] = in[(size_t)r * cols + c];
    expect_equal(type, out.host(), want);
}

int main()
{
    for (int rows : {1, 33, 64}) {
        const int cols = 71, n = rows * cols;
        run("uint8", random_ints<uint8_t>(n, 81, 0, 256), rows, cols);
        run("uint16", random_ints<uint16_t>(n, 82, 0, 65536), rows, cols);
        run("float", random_reals<float>(n, 83), rows, cols);
        run("double", random_reals<double>(n, 84), rows, cols);
        std::vector<float4> v(n);
        for (int i = 0; i < n; i++)
            v[i] = make_float4((float)i, i + .25f, i + .5f, -(float)i);
        run("float4", v, rows, cols);
    }
    auto square = random_ints<int>(1024, 85, 0, 1 << 30);
    auto want = square;
    for (int i = 0; i < 1024; i++)
        want[i] = square[(size_t)(i % 32) * 32 + i / 32];
    dev<int> d(square);
    transpose_shuffle<<<1, 32>>>(d.p);
    SYNC();
    expect_equal("shuffle", d.host(), want);
    return ok("transpose: 5 types, 3 shapes, in registers");
}
