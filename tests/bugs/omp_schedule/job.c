/* Centre of mass of 200,000 particles: each thread sums its iterations, parts are added by thread
 * number. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define N 200000

static double mass[N], position[N];

int main(void)
{
    double weight[256] = {0}, moment[256] = {0}, total[2] = {0};

    srand(1);
    for (int i = 0; i < N; i++) {
        mass[i] = rand() / (double)RAND_MAX;
        position[i] = rand() / (double)RAND_MAX - 0.5;
    }
#pragma omp parallel for schedule(runtime)
    for (int i = 0; i < N; i++) {
        int t = omp_get_thread_num() & 255;
        weight[t] += mass[i];
        moment[t] += mass[i] * position[i];
    }
    for (int t = 0; t < 256; t++) {
        total[0] += weight[t];
        total[1] += moment[t];
    }
    printf("%a\n", total[1] / total[0]);
    return 0;
}
