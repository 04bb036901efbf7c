// __constant__ and __device__ variables: initialisers, pointers to other variables, copies to and
// from symbols with offsets, addresses and sizes, arrays of structs, variables shared by kernels.
#include "check.cuh"

struct entry {
    char name[5];
    short n;
    double weight;
};

__device__ int numbers[6] = {1, 2, 3, 4, 5, 6};
__device__ int *const middle = &numbers[3];
__device__ float matrix[2][3] = {{1.5f, -2, 3}, {0.25f, 5, -6e-3f}};
__device__ unsigned long long total;
__device__ entry table[3] = {{"one", 1, 0.1}, {"two", -2, 0.2}, {"four", 4, 1e300}};
__constant__ int limits[4] = {10, -20, 30, -40};
__constant__ char text[] = "constant text";
__constant__ const char *const texts[2] = {"first", "second!"};
static __device__ short hidden = -5;

__global__ void look(double *out)
{
    int i = 0;
    out[i++] = numbers[0] + *middle * 10;
    out[i++] = matrix[1][0] * matrix[0][2];
    out[i++] = table[1].n + table[2].weight / 1e300;
    out[i++] = table[0].name[2];
    out[i++] = limits[1] + limits[3];
    out[i++] = text[9] * 1000 + (int)sizeof text;
    out[i++] = texts[1][6] + texts[0][4];
    out[i++] = hidden;
    out[i++] = total;
    hidden *= 2;
    total += 7;
    numbers[5] = 99;
}

__global__ void index_constant(int *out)
{
    out[threadIdx.x] = limits[(threadIdx.x * 7 + 1) % 4];
}

int main()
{
    dev<double> out(9);
    look<<<1, 1>>>(out.p);
    SYNC();
    expect_equal("first look", out.host(),
                 {41, 0.75, -1, 'e', -60, 't' * 1000.0 + 14, '!' + (double)'t', -5, 0});
    std::vector<int> got(6);
    CHECK(cudaMemcpyFromSymbol(got.data(), numbers, sizeof numbers));
    expect_equal("numbers", got, {1, 2, 3, 4, 5, 99});

    int two[2] = {70, 80}, three = -9;
    unsigned long long big = 1ull << 40;
    CHECK(cudaMemcpyToSymbol(numbers, two, sizeof two, 2 * sizeof(int)));
    CHECK(cudaMemcpyToSymbol(limits, &three, sizeof three, 3 * sizeof(int)));
    CHECK(cudaMemcpyToSymbolAsync(total, &big, sizeof big, 0, cudaMemcpyHostToDevice, 0));
    look<<<1, 1>>>(out.p);
    SYNC();
    expect_equal("second look", out.host(),
                 {801, 0.75, -1, 'e', -29, 't' * 1000.0 + 14, '!' + (double)'t', -10, 0x1p40});
    void *address, *constant;
    size_t size;
    CHECK(cudaGetSymbolAddress(&address, numbers));
    CHECK(cudaGetSymbolSize(&size, table));
    expect_value("size", size, sizeof table);
    CHECK(cudaMemcpy(&three, (int *)address + 5, sizeof three, cudaMemcpyDeviceToHost));
    expect_value("by address", three, 99);
    CHECK(cudaGetSymbolAddress(&constant, limits));
    int four[4] = {5, 6, 7, 8};
    CHECK(cudaMemcpy(constant, four, sizeof four, cudaMemcpyHostToDevice));
    dev<int> indexed(32);
    index_constant<<<1, 32>>>(indexed.p);
    SYNC();
    std::vector<int> want(32);
    for (int i = 0; i < 32; i++)
        want[i] = four[(i * 7 + 1) % 4];
    expect_equal("indexed", indexed.host(), want);
    CHECK_ERROR(cudaMemcpyToSymbol(limits, four, sizeof four, 4), cudaErrorInvalidValue);
    CHECK_ERROR(cudaGetSymbolAddress(&address, (const void *)&size), cudaErrorInvalidSymbol);
    return ok("symbols: 9 variables, offsets, addresses");
}
