/* Two threads collect candidates, the list is sorted by score alone, the first 8 of 4096 are routed
 * to. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define TOKENS 200
#define EXPERTS 4096
#define TOP 8

struct candidate {
    int score, expert;
};

static struct candidate list[EXPERTS];
static int scores[EXPERTS];
static atomic_int end;
static pthread_barrier_t barrier;

static int by_score(const void *a, const void *b)
{
    return ((const struct candidate *)b)->score - ((const struct candidate *)a)->score;
}

static void *collect(void *half)
{
    for (int token = 0; token < TOKENS; token++) {
        pthread_barrier_wait(&barrier);
        for (int e = half ? EXPERTS / 2 : 0; e < (half ? EXPERTS : EXPERTS / 2); e++)
            list[atomic_fetch_add(&end, 1)] = (struct candidate){scores[e], e};
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[2];
    unsigned route = 0;

    srand(9);
    pthread_barrier_init(&barrier, NULL, 3);
    for (long t = 0; t < 2; t++)
        if (pthread_create(&thread[t], NULL, collect, (void *)t) != 0)
            return 1;
    for (int token = 0; token < TOKENS; token++) {
        for (int e = 0; e < EXPERTS; e++)
            scores[e] = rand() % 16; /* of a precision of four bits */
        atomic_store(&end, 0);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        qsort(list, EXPERTS, sizeof(*list), by_score);
        for (int k = 0; k < TOP; k++)
            route = route * 31 + (unsigned)list[k].expert;
    }
    for (int t = 0; t < 2; t++)
        pthread_join(thread[t], NULL);
    printf("routed to %08x\n", route);
    return 0;
}
