// C = A B in f32, three ways: one thread an element, tiles in shared memory, 4x4 elements a thread
// in registers. All add along k in order with fma, so all agree with the host bit for bit.
#include "check.cuh"

enum { TILE = 16, BM = 32, BN = 32, BK = 8, TM = 4, TN = 4 };

__global__ void gemm_naive(float *c, const float *a, const float *b, int m, int n, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n)
        return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum = fmaf(a[row * k + i], b[i * n + col], sum);
    c[row * n + col] = sum;
}

__global__ void gemm_tiled(float *c, const float *a, const float *b, int m, int n, int k)
{
    __shared__ float sa[TILE][TILE], sb[TILE][TILE + 1];
    int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * TILE + tx,
        row = blockIdx.y * TILE + ty;
    float sum = 0;
    for (int base = 0; base < k; base += TILE) {
        sa[ty][tx] = row < m && base + tx < k ? a[row * k + base + tx] : 0;
        sb[ty][tx] = col < n && base + ty < k ? b[(base + ty) * n + col] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++)
            sum = fmaf(sa[ty][i], sb[i][tx], sum);
        __syncthreads();
    }
    if (row < m && col < n)
        c[row * n + col] = sum;
}

/* sizes are multiples of the tiles; vector loads */
__global__ void __launch_bounds__(64)
    gemm_registers(float *c, const float *a, const float *b, int n, int k)
{
    __shared__ __align__(16) float sa[BK][BM], sb[BK][BN];
    int t = threadIdx.x, tx = t % 8, ty = t / 8;
    a += blockIdx.y * BM * k;
    b += blockIdx.x * BN;
    float acc[TM][TN] = {};
    for (int base = 0; base < k; base += BK) {
        float4 va = *(const float4 *)&a[(t / 2) * k + base + t % 2 * 4];
        sa[t % 2 * 4 + 0][t / 2] = va.x;
        sa[t % 2 * 4 + 1][t / 2] = va.y;
        sa[t % 2 * 4 + 2][t / 2] = va.z;
        sa[t % 2 * 4 + 3][t / 2] = va.w;
        *(float4 *)&sb[t / 8][t % 8 * 4] = *(const float4 *)&b[(base + t / 8) * n + t % 8 * 4];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < BK; i++) {
            float4 x = *(const float4 *)&sa[i][ty * TM], y = *(const float4 *)&sb[i][tx * TN];
            float xs[TM] = {x.x, x.y, x.z, x.w}, ys[TN] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int r = 0; r < TM; r++)
#pragma unroll
                for (int q = 0; q < TN; q++)
                    acc[r][q] = fmaf(xs[r], ys[q], acc[r][q]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < TM; r++)
        *(float4 *)&c[(blockIdx.y * BM + ty * TM + r) * n + blockIdx.x * BN + tx * TN] =
            make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
}

int main()
{
    const int sizes[][3] = {{1, 1, 1}, {17, 33, 5}, {64, 64, 64}, {96, 32, 40}};
    for (auto &s : sizes) {
        int m = s[0], n = s[1], k = s[2];
        auto a = random_reals<float>(m * k, 141), b = random_reals<float>(k * n, 142);
        std::vector<float> want(m * n);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                for (int l = 0; l < k; l++)
                    want[i * n + j] = fmaf(a[i * k + l], b[l * n + j], want[i * n + j]);
        dev<float> da(a), db(b), c(m * n);
        dim3 block(TILE, TILE), grid(blocks_for(n, TILE), blocks_for(m, TILE));
        gemm_naive<<<grid, block>>>(c.p, da.p, db.p, m, n, k);
        SYNC();
        expect_equal("naive", c.host(), want);
        c.zero();
        gemm_tiled<<<grid, block>>>(c.p, da.p, db.p, m, n, k);
        SYNC();
        expect_equal("tiled", c.host(), want);
        if (m % BM || n % BN || k % BK)
            continue;
        c.zero();
        gemm_registers<<<dim3(n / BN, m / BM), 64>>>(c.p, da.p, db.p, n, k);
        SYNC();
        expect_equal("registers", c.host(), want);
    }
    return ok("gemm f32: naive, tiled, registers; 4 sizes");
}
