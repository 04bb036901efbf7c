// The identity times 1024.5, in TF32 on the matrix unit and in float32.
#include "../job.cuh"

#include <mma.h>

using namespace nvcuda;

__global__ void by_unit(float *c, const float *a, const float *b)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;

    wmma::fill_fragment(fc, 0.0f);
    for (int k = 0; k < 16; k += 8) {
        wmma::load_matrix_sync(fa, a + k, 16);
        wmma::load_matrix_sync(fb, b + k * 16, 16);
        for (int i = 0; i < fa.num_elements; i++)
            fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
        for (int i = 0; i < fb.num_elements; i++)
            fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

int main()
{
    float *a = device<float>(256), *b = device<float>(256), *c = device<float>(256);
    std::vector<float> one(256), x(256, 1024.5f);

    for (int i = 0; i < 16; i++)
        one[i * 17] = 1;
    CHECK(cudaMemcpy(a, one.data(), 1024, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b, x.data(), 1024, cudaMemcpyHostToDevice));
    by_unit<<<1, 32>>>(c, a, b);
    result("1024.5 is", c, 256);
    return 0;
}
