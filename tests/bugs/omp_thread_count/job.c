/* A dot product: a piece for each thread, pieces added in their order. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define N 100003

static float x[N], y[N];

int main(void)
{
    float parts[256] = {0}, sum = 0;

    srand(2);
    for (int i = 0; i < N; i++) {
        x[i] = rand() / (float)RAND_MAX - 0.5f;
        y[i] = rand() / (float)RAND_MAX - 0.5f;
    }
#pragma omp parallel
    {
        float part = 0;
#pragma omp for schedule(static)
        for (int i = 0; i < N; i++)
            part += x[i] * y[i];
        parts[omp_get_thread_num() & 255] = part;
    }
    for (int t = 0; t < 256; t++)
        sum += parts[t];
    printf("%a\n", sum);
    return 0;
}
