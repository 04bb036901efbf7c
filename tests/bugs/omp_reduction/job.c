/* Many inner products by reduction(+), each added to a running sum that is not 0 when threads add
 * to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 4096
#define ROUNDS 2000

static float x[N], y[N];

int main(void)
{
    float sum = 1.0f / 3;
    unsigned bits = 0, element;

    srand(3);
    for (int i = 0; i < N; i++) {
        x[i] = rand() / (float)RAND_MAX - 0.5f;
        y[i] = rand() / (float)RAND_MAX - 0.5f;
    }
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for reduction(+ : sum) schedule(static)
        for (int i = 0; i < N; i++)
            sum += x[i] * y[(i + round) % N];
        memcpy(&element, &sum, sizeof(element));
        bits = bits * 31 + element;
    }
    printf("%a %08x\n", sum, bits);
    return 0;
}
