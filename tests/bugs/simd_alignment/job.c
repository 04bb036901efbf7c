/* A dot product with a scalar prologue up to 64-byte alignment, then 16 lanes; its vectors lie on
 * the stack. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 1003

static float dot(const float *x, const float *y, int n)
{
    float head = 0, lanes[16] = {0}, sum = 0;
    int i = 0;

    for (; i < n && ((uintptr_t)(x + i) & 63) != 0; i++)
        head += x[i] * y[i];
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++)
            lanes[k] += x[i + k] * y[i + k];
    for (int k = 0; k < 16; k++)
        sum += lanes[k];
    for (; i < n; i++)
        sum += x[i] * y[i];
    return head + sum;
}

/* as a library finds its caller's data: nothing is known of their alignment */
static float (*volatile library)(const float *, const float *, int) = dot;

int main(void)
{
    float x[N], y[N];

    srand(5);
    for (int i = 0; i < N; i++) {
        x[i] = rand() / (float)RAND_MAX - 0.5f;
        y[i] = rand() / (float)RAND_MAX - 0.5f;
    }
    printf("%a\n", library(x, y, N));
    return 0;
}
