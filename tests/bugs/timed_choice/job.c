/* 64 shapes, each summed by the faster of two loops: upwards and downwards. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SHAPES 64
#define N 20000

static float data[N];

static float sum(const float *x, int n, int step)
{
    float total = 0;

    for (int i = 0; i < n; i++, x += step)
        total += *x;
    return total;
}

static float sum_of(int n, int down)
{
    return down ? sum(data + n - 1, n, -1) : sum(data, n, 1);
}

static long timed(int n, int down)
{
    struct timespec a, b;
    volatile float result;

    clock_gettime(CLOCK_MONOTONIC, &a);
    result = sum_of(n, down);
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
    timed(N, 0);
    timed(N, 1);
    for (int s = 0; s < SHAPES; s++) {
        int n = N - s * 7, down = timed(n, 1) < timed(n, 0);

        chosen |= (unsigned long long)down << s;
        total += sum_of(n, down);
    }
    printf("choices %016llx, sum %a\n", chosen, total);
    return 0;
}
