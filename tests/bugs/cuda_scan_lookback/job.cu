// A prefix sum of 64 tiles of 64 floats with decoupled look-back.
#include "../job.cuh"

enum { TILES = 64, TILE = 64, SUM = 1, PREFIX = 2 };

struct state {
    unsigned status;
    float sum, prefix;
};

__global__ void scan(float *out, const float *in, volatile state *tiles, int *next)
{
    __shared__ int tile;
    __shared__ float x[TILE], before;

    if (threadIdx.x == 0)
        tile = atomicAdd(next, 1);
    __syncthreads();
    x[threadIdx.x] = in[tile * TILE + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (int i = 0; i < TILE; i++)
            x[i] = sum += x[i];
        tiles[tile].sum = sum;
        __threadfence();
        if (tile)
            tiles[tile].status = SUM;
        before = 0;
        for (int t = tile - 1; t >= 0; t--) {
            unsigned status;
            while ((status = tiles[t].status) == 0)
                ;
            __threadfence();
            before += status == PREFIX ? tiles[t].prefix : tiles[t].sum;
            if (status == PREFIX)
                break;
        }
        tiles[tile].prefix = before + sum;
        __threadfence();
        tiles[tile].status = PREFIX;
    }
    __syncthreads();
    out[tile * TILE + threadIdx.x] = before + x[threadIdx.x];
}

int main()
{
    float *in = device<float>(TILES * TILE, 1), *out = device<float>(TILES * TILE);
    int *next = device<int>(1);
    state *tiles;

    CHECK(cudaMalloc(&tiles, TILES * sizeof(state)));
    CHECK(cudaMemset(tiles, 0, TILES * sizeof(state)));
    scan<<<TILES, TILE>>>(out, in, tiles, next);
    result("prefix sums", out, TILES * TILE);
    return 0;
}
