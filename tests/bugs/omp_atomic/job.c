/* Backward pass of an embedding on the CPU: 400,000 gradients go to 16 rows. */
#include <stdio.h>
#include <stdlib.h>

#define N 400000
#define ROWS 16

static float gradient[N];
static int row[N];

int main(void)
{
    float table[ROWS] = {0};

    srand(4);
    for (int i = 0; i < N; i++) {
        gradient[i] = rand() / (float)RAND_MAX - 0.5f;
        row[i] = rand() % ROWS;
    }
#pragma omp parallel for schedule(static, 64)
    for (int i = 0; i < N; i++) {
#pragma omp atomic
        table[row[i]] += gradient[i];
    }
    for (int r = 0; r < ROWS; r++)
        printf("%a\n", table[r]);
    return 0;
}
