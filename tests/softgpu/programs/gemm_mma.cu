// A half-precision GEMM as real ones are built: cp.async into two stages of shared memory,
// ldmatrix (plain and transposed), mma.sync m16n8k16, f32 accumulators, stores as half2.
#include "check.cuh"

#include <cuda_fp16.h>

enum { BM = 32, BN = 32, BK = 16, PAD = 8 };

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void copy16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}

__device__ void load_x4(unsigned *r, const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p)));
}

__device__ void load_x2_transposed(unsigned *r, const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(p)));
}

__device__ void mma(float *c, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* four warps, each 16x16 of the block's 32x32 */
__global__ void gemm(half *c, const half *a, const half *b, int n, int k)
{
    __shared__ __align__(16) half sa[2][BM][BK + PAD], sb[2][BK][BN + PAD];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int row = blockIdx.y * BM, col = blockIdx.x * BN, wr = warp / 2 * 16, wc = warp % 2 * 16;
    float acc[2][4] = {};
    auto stage = [&](int s, int base) {
        if (t < 64)
            copy16(&sa[s][t / 2][t % 2 * 8], &a[(row + t / 2) * k + base + t % 2 * 8]);
        else
            copy16(&sb[s][(t - 64) / 4][t % 4 * 8],
                   &b[(base + (t - 64) / 4) * n + col + t % 4 * 8]);
        asm volatile("cp.async.commit_group;");
    };
    stage(0, 0);
    for (int base = 0, s = 0; base < k; base += BK, s ^= 1) {
        if (base + BK < k) {
            stage(s ^ 1, base + BK);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_all;" ::: "memory");
        }
        __syncthreads();
        unsigned fa[4], fb[2];
        load_x4(fa, &sa[s][wr + lane % 16][lane / 16 * 8]);
        for (int j = 0; j < 2; j++) {
            load_x2_transposed(fb, &sb[s][lane % 16][wc + j * 8]);
            mma(acc[j], fa, fb);
        }
        __syncthreads();
    }
    for (int j = 0; j < 2; j++)
        for (int half_row = 0; half_row < 2; half_row++) {
            int r = row + wr + lane / 4 + half_row * 8, q = col + wc + j * 8 + lane % 4 * 2;
            *(half2 *)&c[r * n + q] =
                __floats2half2_rn(acc[j][half_row * 2], acc[j][half_row * 2 + 1]);
        }
}

int main()
{
    need_capability(8, 0);
    const int m = 64, n = 96, k = 80;
    auto ia = random_ints<int>(m * k, 171, -4, 5), ib = random_ints<int>(k * n, 172, -4, 5);
    std::vector<half> a(m * k), b(k * n), want(m * n);
    for (int i = 0; i < m * k; i++)
        a[i] = __float2half((float)ia[i] / 4);
    for (int i = 0; i < k * n; i++)
        b[i] = __float2half((float)ib[i]);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            int sum = 0;
            for (int l = 0; l < k; l++)
                sum += ia[i * k + l] * ib[l * n + j];
            want[i * n + j] = __float2half((float)sum / 4);
        }
    dev<half> da(a), db(b), c(m * n);
    gemm<<<dim3(n / BN, m / BM), 128>>>(c.p, da.p, db.p, n, k);
    SYNC();
    expect_equal("gemm", c.host(), want);
    return ok("gemm f16: cp.async, ldmatrix, mma.sync");
}
