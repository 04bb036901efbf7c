/* Each thread multiplies matrices of its own; the packed panel is shared by mistake. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 48
#define ROUNDS 400

static volatile float panel[N * N];

struct work {
    float a[N * N], b[N * N], c[N * N];
};

static void product(struct work *w)
{
    for (int i = 0; i < N * N; i++)
        panel[i] = w->b[(i % N) * N + i / N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                w->c[i * N + j] += w->a[i * N + k] * panel[j * N + k];
}

static void *run(void *arg)
{
    for (int round = 0; round < ROUNDS; round++)
        product(arg);
    return NULL;
}

int main(void)
{
    static struct work work[2];
    pthread_t thread[2];
    double sum = 0;

    srand(6);
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < N * N; i++) {
            work[t].a[i] = rand() / (float)RAND_MAX - 0.5f;
            work[t].b[i] = rand() / (float)RAND_MAX - 0.5f;
        }
    for (int t = 0; t < 2; t++)
        if (pthread_create(&thread[t], NULL, run, &work[t]) != 0)
            return 1;
    for (int t = 0; t < 2; t++)
        pthread_join(thread[t], NULL);
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < N * N; i++)
            sum += work[t].c[i];
    printf("%a\n", sum);
    return 0;
}
