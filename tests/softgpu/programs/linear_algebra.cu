// LU factorization with partial pivoting, Jacobi iteration until the residual is small (decided on
// the host), and powers of a matrix modulo a 61-bit prime.
#include "check.cuh"

__global__ void find_pivot(const double *a, int n, int k, int *pivot)
{
    __shared__ double best[64];
    __shared__ int at[64];
    int t = threadIdx.x;
    best[t] = -1;
    at[t] = n; // rows of threads that have none never win
    for (int r = k + t; r < n; r += 64)
        if (fabs(a[r * n + k]) > best[t]) {
            best[t] = fabs(a[r * n + k]);
            at[t] = r;
        }
    for (int d = 32; d > 0; d /= 2) {
        __syncthreads();
        if (t < d && (best[t + d] > best[t] || (best[t + d] == best[t] && at[t + d] < at[t]))) {
            best[t] = best[t + d];
            at[t] = at[t + d];
        }
    }
    if (t == 0)
        pivot[k] = at[0];
}

__global__ void swap_rows(double *a, int n, int k, const int *pivot)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, p = pivot[k];
    if (c < n && p != k) {
        double t = a[k * n + c];
        a[k * n + c] = a[p * n + c];
        a[p * n + c] = t;
    }
}

__global__ void factors(double *a, int n, int k)
{
    int r = k + 1 + blockIdx.x * blockDim.x + threadIdx.x;
    if (r < n)
        a[r * n + k] /= a[k * n + k];
}

__global__ void eliminate(double *a, int n, int k)
{
    int c = k + 1 + blockIdx.x * blockDim.x + threadIdx.x, r = k + 1 + blockIdx.y;
    if (c < n)
        a[r * n + c] = fma(-a[r * n + k], a[k * n + c], a[r * n + c]);
}

static void lu(int n)
{
    auto a = random_reals<double>(n * n, 531);
    dev<double> d(a);
    dev<int> pivot(n);
    std::vector<int> want(n);
    for (int k = 0; k < n; k++) {
        find_pivot<<<1, 64>>>(d.p, n, k, pivot.p);
        swap_rows<<<blocks_for(n, 32), 32>>>(d.p, n, k, pivot.p);
        if (k == n - 1)
            break;
        factors<<<blocks_for(n - k - 1, 32), 32>>>(d.p, n, k);
        eliminate<<<dim3(blocks_for(n - k - 1, 32), n - k - 1), 32>>>(d.p, n, k);
    }
    SYNC();
    for (int k = 0; k < n; k++) {
        int p = k;
        for (int r = k; r < n; r++)
            p = fabs(a[r * n + k]) > fabs(a[p * n + k]) ? r : p;
        want[k] = p;
        for (int c = 0; c < n && p != k; c++)
            std::swap(a[k * n + c], a[p * n + c]);
        for (int r = k + 1; r < n; r++)
            a[r * n + k] /= a[k * n + k];
        for (int r = k + 1; r < n; r++)
            for (int c = k + 1; c < n; c++)
                a[r * n + c] = fma(-a[r * n + k], a[k * n + c], a[r * n + c]);
    }
    expect_equal("pivots", pivot.host(), want);
    expect_equal("lu", d.host(), a);
}

__global__ void jacobi_step(double *to, const double *from, const double *a, const double *b,
                            unsigned long long *worst, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n)
        return;
    double sum = b[r];
    for (int c = 0; c < n; c++)
        if (c != r)
            sum -= a[r * n + c] * from[c];
    double x = sum / a[r * n + r];
    to[r] = x; // changes are not negative: their bits order as they do
    atomicMax(worst, (unsigned long long)__double_as_longlong(fabs(x - from[r])));
}

static int jacobi(int n)
{
    auto a = random_reals<double>(n * n, 532), x = random_reals<double>(n, 533);
    std::vector<double> b(n);
    for (int r = 0; r < n; r++) {
        a[r * n + r] = n;
        for (int c = 0; c < n; c++)
            b[r] += a[r * n + c] * x[c];
    }
    dev<double> da(a), db(b), p(n), q(n);
    dev<unsigned long long> worst(1);
    int steps = 0;
    for (double change = 1; change > 1e-13 && steps < 200; steps++) {
        worst.zero();
        jacobi_step<<<blocks_for(n, 32), 32>>>(steps % 2 ? p.p : q.p, steps % 2 ? q.p : p.p, da.p,
                                               db.p, worst.p, n);
        SYNC();
        unsigned long long w = worst.host()[0];
        memcpy(&change, &w, sizeof change);
    }
    expect_close("solution", (steps % 2 ? q : p).host(), x, 0, 1e-11);
    return steps;
}

typedef unsigned long long u64;
static const u64 PRIME = (1ull << 61) - 1;

__host__ __device__ u64 mul_mod(u64 a, u64 b)
{
    unsigned __int128 p = (unsigned __int128)a * b;
    u64 r = (u64)(p & PRIME) + (u64)(p >> 61);
    return r >= PRIME ? r - PRIME : r;
}

__global__ void matmul_mod(u64 *out, const u64 *a, const u64 *b, int n)
{
    int c = threadIdx.x, r = blockIdx.x;
    u64 sum = 0;
    for (int k = 0; k < n; k++) {
        sum += mul_mod(a[r * n + k], b[k * n + c]);
        sum = sum >= PRIME ? sum - PRIME : sum;
    }
    out[r * n + c] = sum;
}

/* Fibonacci-like recurrence of order n by fast exponentiation, against the plain loop */
static void power(int n, unsigned exponent)
{
    std::vector<u64> base(n * n), one(n * n), state(n);
    rng g(534);
    for (int i = 0; i < n; i++) {
        base[i] = g.next() % PRIME;
        state[i] = i + 1;
        one[i * n + i] = 1;
        if (i)
            base[i * n + i - 1] = 1;
    }
    dev<u64> b(base), r(one), t(n * n);
    for (unsigned e = exponent; e; e >>= 1) {
        if (e & 1) {
            matmul_mod<<<n, n>>>(t.p, r.p, b.p, n);
            CHECK(cudaMemcpyAsync(r.p, t.p, n * n * sizeof(u64), cudaMemcpyDeviceToDevice, 0));
        }
        matmul_mod<<<n, n>>>(t.p, b.p, b.p, n);
        CHECK(cudaMemcpyAsync(b.p, t.p, n * n * sizeof(u64), cudaMemcpyDeviceToDevice, 0));
    }
    auto m = r.host();
    u64 got = 0;
    for (int i = 0; i < n; i++)
        got = (got + mul_mod(m[i], state[i])) % PRIME;
    for (unsigned s = 0; s < exponent; s++) {
        u64 next = 0;
        for (int i = 0; i < n; i++)
            next = (next + mul_mod(base[i], state[i])) % PRIME;
        state.insert(state.begin(), next);
        state.pop_back();
    }
    expect_value("power", got, state[0]);
}

int main()
{
    lu(48);
    int steps = jacobi(60);
    power(12, 1000);
    return ok("linear algebra: lu, jacobi in %d steps, matrix power", steps);
}
