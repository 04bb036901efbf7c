// Gradients of 4096 tokens go to a table of 50 rows.
#include "../job.cuh"

__global__ void backward(float *table, const float *gradient, const int *tokens, int channels)
{
    int token = blockIdx.x;

    for (int c = threadIdx.x; c < channels; c += blockDim.x)
        atomicAdd(&table[tokens[token] * channels + c], gradient[token * channels + c]);
}

int main()
{
    const int n = 4096, channels = 16, rows = 50;
    std::vector<int> tokens(n);
    int *t = device<int>(n);
    float *gradient = device<float>(n * channels, 1), *table = device<float>(rows * channels);

    for (int i = 0; i < n; i++)
        tokens[i] = i * 7919 % rows;
    CHECK(cudaMemcpy(t, tokens.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    backward<<<n, 16>>>(table, gradient, t, channels);
    result("table", table, rows * channels);
    return 0;
}
