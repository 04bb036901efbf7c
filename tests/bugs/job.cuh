// What the CUDA jobs here share: checked calls, seeded data, a result that is printed bit by bit.
#ifndef BUGS_JOB_CUH
#define BUGS_JOB_CUH

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* n values in device memory: all 0, or from -0.5 to 0.5 by a seed that is not 0 */
template <class T> T *device(int n, unsigned seed = 0)
{
    std::vector<T> host(n);
    T *p;

    srand(seed);
    for (int i = 0; seed && i < n; i++)
        host[i] = (T)(rand() / (double)RAND_MAX - 0.5);
    CHECK(cudaMalloc(&p, n * sizeof(T)));
    CHECK(cudaMemcpy(p, host.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

template <class T> std::vector<T> host(const T *p, int n)
{
    std::vector<T> values(n);

    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(values.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

/* prints the first of n values and a hash of the bits of all */
template <class T> void result(const char *name, const T *p, int n)
{
    unsigned hash = 0;

    static_assert(sizeof(T) == 4, "");
    std::vector<T> values = host(p, n);
    for (int i = 0; i < n; i++) {
        unsigned bits;
        memcpy(&bits, &values[i], 4);
        hash = (hash ^ bits) * 16777619;
    }
    printf("%s: first %.9g, hash %08x\n", name, (double)values[0], hash);
}

#endif
