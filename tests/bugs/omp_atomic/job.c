/* Backward passes of an embedding on the CPU: 50,000 gradients go to 16 rows, 100 times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 50000
#define ROWS 16
#define STEPS 100

static float gradient[N];
static int row[N];

int main(void)
{
    float table[ROWS] = {0};
    unsigned bits[ROWS], hash = 0;

    srand(4);
    for (int i = 0; i < N; i++) {
        gradient[i] = rand() / (float)RAND_MAX - 0.5f;
        row[i] = rand() % ROWS;
    }
#pragma omp parallel
    for (int step = 0; step < STEPS; step++) {
#pragma omp for schedule(static, 64)
        for (int i = 0; i < N; i++) {
#pragma omp atomic
            table[row[i]] += gradient[i];
        }
    }
    memcpy(bits, table, sizeof(bits));
    for (int r = 0; r < ROWS; r++)
        hash = hash * 31 + bits[r];
    printf("first %a, hash %08x\n", table[0], hash);
    return 0;
}
