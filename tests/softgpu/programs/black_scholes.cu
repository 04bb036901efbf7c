// Prices of European options by the closed formula in f32 and f64, and by a binomial tree in shared
// memory that comes close to it; put-call parity.
#include "check.cuh"

struct option {
    float spot, strike, years;
};

static const float RATE = 0.03f, VOLATILITY = 0.25f;

template <class T> __device__ T normal_cdf(T x)
{
    return (T)0.5 * erfc(-x * (T)0.70710678118654752);
}

template <class T>
__global__ void formula(T *call, T *put, const option *o, int n, T rate, T volatility)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T s = o[i].spot, k = o[i].strike, t = o[i].years, root = volatility * sqrt(t);
    T d1 = (log(s / k) + (rate + volatility * volatility / 2) * t) / root, d2 = d1 - root;
    T discounted = k * exp(-rate * t);
    call[i] = s * normal_cdf(d1) - discounted * normal_cdf(d2);
    put[i] = discounted * normal_cdf(-d2) - s * normal_cdf(-d1);
}

__global__ void binomial(double *call, const option *o, int steps, double rate, double volatility)
{
    extern __shared__ double v[];
    double dt = o[blockIdx.x].years / steps, up = exp(volatility * sqrt(dt)), down = 1 / up;
    double p = (exp(rate * dt) - down) / (up - down), discount = exp(-rate * dt);
    for (int i = threadIdx.x; i <= steps; i += blockDim.x)
        v[i] = fmax(0.0, o[blockIdx.x].spot * pow(up, 2.0 * i - steps) - o[blockIdx.x].strike);
    for (int s = steps; s > 0; s--) {
        for (int base = 0; base < s; base += blockDim.x) { // in place: read all, then write
            int i = base + threadIdx.x;
            __syncthreads();
            double x = i < s ? discount * (p * v[i + 1] + (1 - p) * v[i]) : 0;
            __syncthreads();
            if (i < s)
                v[i] = x;
        }
    }
    if (threadIdx.x == 0)
        call[blockIdx.x] = v[0];
}

int main()
{
    const int n = 1000, trees = 6, steps = 150;
    auto r = random_reals<float>(3 * n, 571, 0, 1);
    std::vector<option> o(n);
    std::vector<double> calls(n), puts(n);
    for (int i = 0; i < n; i++) {
        o[i] = {50 + 50 * r[3 * i], 50 + 50 * r[3 * i + 1], 0.25f + 2 * r[3 * i + 2]};
        double s = o[i].spot, k = o[i].strike, t = o[i].years, v = VOLATILITY, root = v * sqrt(t);
        double d1 = (log(s / k) + (RATE + v * v / 2) * t) / root, d2 = d1 - root;
        double n1 = 0.5 * erfc(-d1 / sqrt(2.0)), n2 = 0.5 * erfc(-d2 / sqrt(2.0));
        calls[i] = s * n1 - k * exp(-RATE * t) * n2;
        puts[i] = calls[i] - s + k * exp(-RATE * t);
    }
    dev<option> d(o);
    dev<float> fc(n), fp(n);
    dev<double> dc(n), dp(n), tree(trees);
    formula<float><<<blocks_for(n, 128), 128>>>(fc.p, fp.p, d.p, n, RATE, VOLATILITY);
    formula<double><<<blocks_for(n, 128), 128>>>(dc.p, dp.p, d.p, n, RATE, VOLATILITY);
    binomial<<<trees, 64, (steps + 1) * sizeof(double)>>>(tree.p, d.p, steps, RATE, VOLATILITY);
    SYNC();
    expect_close("f64 calls", dc.host(), calls, 1e-11, 1e-12);
    expect_close("f64 puts", dp.host(), puts, 1e-11, 1e-12);
    expect_close("f32 calls", fc.host(), std::vector<float>(calls.begin(), calls.end()), 1e-4,
                 5e-5);
    expect_close("f32 puts", fp.host(), std::vector<float>(puts.begin(), puts.end()), 1e-4, 5e-5);
    expect_close("trees", tree.host(), std::vector<double>(calls.begin(), calls.begin() + trees), 0,
                 0.1);
    return ok("black-scholes: %d options, %d trees of %d steps", n, trees, steps);
}
