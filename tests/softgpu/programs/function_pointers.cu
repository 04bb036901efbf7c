// Indirect calls: tables of function pointers that differ between lanes, virtual functions of
// objects made on the device, functors and lambdas as template arguments, variadic templates.
#include "check.cuh"

typedef int (*operation)(int, int);

__device__ __noinline__ int add(int a, int b)
{
    return a + b;
}
__device__ __noinline__ int sub(int a, int b)
{
    return a - b;
}
__device__ __noinline__ int mul(int a, int b)
{
    return a * b;
}
__device__ __noinline__ int gcd(int a, int b)
{
    return b ? gcd(b, a % b) : a;
}
__device__ operation operations[4] = {add, sub, mul, gcd};

__global__ void by_table(int *out, const int *a, const int *b, const int *which)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = operations[which[i]](a[i], b[i]); // four targets within a warp
}

__global__ void by_argument(int *out, operation f)
{
    out[threadIdx.x] = f((int)threadIdx.x * 12, 18);
}

__global__ void get_gcd(operation *f)
{
    *f = operations[3];
}

struct shape {
    __device__ virtual double area() const = 0;
    __device__ virtual int corners() const
    {
        return 0;
    }
    __device__ virtual ~shape()
    {
    }
};
struct disc : shape {
    double r;
    __device__ explicit disc(double radius) : r(radius)
    {
    }
    __device__ double area() const override
    {
        return 3 * r * r;
    }
};
struct box : shape {
    double w, h;
    __device__ box(double width, double height) : w(width), h(height)
    {
    }
    __device__ double area() const override
    {
        return w * h;
    }
    __device__ int corners() const override
    {
        return 4;
    }
};

__global__ void make(shape **shapes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (i % 3)
        shapes[i] = new box(i, 0.5);
    else
        shapes[i] = new disc(i);
}

__global__ void measure(double *out, shape **shapes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = shapes[i]->area() + 1000 * shapes[i]->corners();
        delete shapes[i];
    }
}

template <class F> __global__ void apply(int *out, F f)
{
    out[threadIdx.x] = f((int)threadIdx.x);
}

struct affine {
    int a, b;
    __device__ int operator()(int x) const
    {
        return a * x + b;
    }
};

template <class... T> __global__ void sum_of(double *out, T... x)
{
    *out = (0.0 + ... + (double)x);
}

static int host_operation(int which, int a, int b)
{
    if (which < 3)
        return which == 0 ? a + b : which == 1 ? a - b : a * b;
    while (b) {
        int t = a % b;
        a = b;
        b = t;
    }
    return a;
}

int main()
{
    const int n = 512;
    auto a = random_ints<int>(n, 331, 1, 1000), b = random_ints<int>(n, 332, 1, 1000);
    auto which = random_ints<int>(n, 333, 0, 4);
    dev<int> da(a), db(b), dwhich(which), out(n), few(32);
    by_table<<<4, 128>>>(out.p, da.p, db.p, dwhich.p);
    SYNC();
    std::vector<int> want(n), want32(32);
    for (int i = 0; i < n; i++)
        want[i] = host_operation(which[i], a[i], b[i]);
    expect_equal("table", out.host(), want);
    dev<operation> pointer(1);
    get_gcd<<<1, 1>>>(pointer.p);
    by_argument<<<1, 32>>>(few.p, pointer.host()[0]);
    SYNC();
    for (int i = 0; i < 32; i++)
        want32[i] = host_operation(3, i * 12, 18);
    expect_equal("argument", few.host(), want32);

    const int m = 100;
    dev<shape *> shapes(m);
    dev<double> areas(m);
    make<<<2, 64>>>(shapes.p, m);
    measure<<<4, 32>>>(areas.p, shapes.p, m);
    SYNC();
    std::vector<double> want_areas(m);
    for (int i = 0; i < m; i++)
        want_areas[i] = i % 3 ? i * 0.5 + 4000 : 3.0 * i * i;
    expect_equal("virtual", areas.host(), want_areas);

    apply<<<1, 32>>>(few.p, affine{3, -4});
    SYNC();
    for (int i = 0; i < 32; i++)
        want32[i] = 3 * i - 4;
    expect_equal("functor", few.host(), want32);
    sum_of<<<1, 1>>>(areas.p, 1, 2.5f, (char)3, -4ll, 5u);
    SYNC();
    expect_value("variadic", areas.host()[0], 7.5);
    return ok("indirect calls: table, argument, virtual, functor");
}
