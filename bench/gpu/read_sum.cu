/* The peer of the hash: how fast this device reads. nvcc -ptx -arch=compute_75 makes read_sum.ptx.
 */
#include <stdint.h>

/* Sum of the 16-byte words of @n bytes, a multiple of 2,048; each thread has eight loads under way.
 */
extern "C" __global__ void __launch_bounds__(256)
    read_sum(const ulonglong2 *src, uint64_t n, unsigned long long *out)
{
    uint64_t words = n / 16, stride = 8ull * 256 * gridDim.x;
    unsigned long long sum = 0;

    for (uint64_t at = 8ull * 256 * blockIdx.x + threadIdx.x; at < words; at += stride) {
        ulonglong2 v[8];

#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] = at + k * 256 < words ? src[at + k * 256] : ulonglong2{0, 0};
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum += v[k].x + v[k].y;
    }
    for (int k = 16; k > 0; k /= 2)
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, k);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, sum);
}
