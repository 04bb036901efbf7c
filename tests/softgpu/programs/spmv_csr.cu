// Sparse matrix times vector, CSR: a thread a row, a warp a row, and by atomics over a COO list.
#include "check.cuh"

__global__ void row_a_thread(double *y, const int *start, const int *col, const double *val,
                             const double *x, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    double sum = 0;
    for (int i = start[r]; i < start[r + 1]; i++)
        sum += val[i] * x[col[i]];
    y[r] = sum;
}

__global__ void row_a_warp(double *y, const int *start, const int *col, const double *val,
                           const double *__restrict__ x, int rows)
{
    int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (r >= rows)
        return;
    double sum = 0;
    for (int i = start[r] + lane; i < start[r + 1]; i += 32)
        sum += val[i] * x[col[i]];
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0)
        y[r] = sum;
}

__global__ void coo(double *y, const int *row, const int *col, const double *val, const double *x,
                    int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&y[row[i]], val[i] * x[col[i]]);
}

int main()
{
    const int rows = 500, cols = 300;
    rng r(211);
    std::vector<int> start{0}, col, row;
    std::vector<double> val, want(rows);
    auto x = random_ints<double>(cols, 212, -50, 51); // integers: exact in any order
    for (int i = 0; i < rows; i++) {
        int have = i % 50 == 7 ? 200 : (int)r.below(9); // a few long rows, some empty
        for (int k = 0; k < have; k++) {
            col.push_back((int)r.below(cols));
            row.push_back(i);
            val.push_back((double)r.below(100) - 50);
            want[i] += val.back() * x[col.back()];
        }
        start.push_back((int)col.size());
    }
    dev<int> dstart(start), dcol(col), drow(row);
    dev<double> dval(val), dx(x), y(rows);
    row_a_thread<<<blocks_for(rows, 64), 64>>>(y.p, dstart.p, dcol.p, dval.p, dx.p, rows);
    SYNC();
    expect_equal("thread", y.host(), want);
    y.zero();
    row_a_warp<<<blocks_for(rows * 32, 128), 128>>>(y.p, dstart.p, dcol.p, dval.p, dx.p, rows);
    SYNC();
    expect_equal("warp", y.host(), want);
    y.zero();
    coo<<<blocks_for(col.size(), 256), 256>>>(y.p, drow.p, dcol.p, dval.p, dx.p, (int)col.size());
    SYNC();
    expect_equal("coo", y.host(), want);
    return ok("spmv: thread, warp, atomics");
}
