// The part of attention's backward pass that is summed over tiles of keys.
#include "../job.cuh"

enum { QUERIES = 64, KEYS = 512, DIM = 16, TILE = 16 };

__global__ void tile(float *dq, float *dk, const float *ds, const float *q, const float *k)
{
    int first = blockIdx.x * TILE;

    for (int i = threadIdx.x; i < QUERIES * DIM; i += blockDim.x) {
        float part = 0;
        for (int j = first; j < first + TILE; j++)
            part += ds[i / DIM * KEYS + j] * k[j * DIM + i % DIM];
        atomicAdd(&dq[i], part);
    }
    for (int i = threadIdx.x; i < TILE * DIM; i += blockDim.x) {
        float sum = 0;
        for (int r = 0; r < QUERIES; r++)
            sum += ds[r * KEYS + first + i / DIM] * q[r * DIM + i % DIM];
        dk[first * DIM + i] = sum;
    }
}

int main()
{
    float *dq = device<float>(QUERIES * DIM), *dk = device<float>(KEYS * DIM);
    float *ds = device<float>(QUERIES * KEYS, 1), *q = device<float>(QUERIES * DIM, 2);
    float *k = device<float>(KEYS * DIM, 3);

    tile<<<KEYS / TILE, 64>>>(dq, dk, ds, q, k);
    result("dk", dk, KEYS * DIM);
    result("dq", dq, QUERIES * DIM);
    return 0;
}
