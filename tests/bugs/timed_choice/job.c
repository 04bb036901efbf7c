/* 64 shapes, each summed by the faster of two loops that round differently. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SHAPES 64
#define N 20000

static float data[N];

static float by_stride(const float *x, int n, int stride)
{
    float sum = 0;

    for (int s = 0; s < stride; s++) {
        float part = 0;

        for (int i = s; i < n; i += stride)
            part += x[i];
        sum += part;
    }
    return sum;
}

static long timed(int n, int stride)
{
    struct timespec a, b;
    volatile float result;

    clock_gettime(CLOCK_MONOTONIC, &a);
    result = by_stride(data, n, stride);
    clock_gettime(CLOCK_MONOTONIC, &b);
    (void)result;
    return (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec;
}

int main(void)
{
    double total = 0;
    unsigned long long chosen = 0;

    srand(8);
    for (int i = 0; i < N; i++)
        data[i] = rand() / (float)RAND_MAX - 0.5f;
    timed(N, 4);
    for (int s = 0; s < SHAPES; s++) {
        int n = N - s * 7, wide = timed(n, 4) < timed(n, 5);

        chosen |= (unsigned long long)wide << s;
        total += by_stride(data, n, wide ? 4 : 5);
    }
    printf("choices %016llx, sum %a\n", chosen, total);
    return 0;
}
