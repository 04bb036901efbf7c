/* Centre of mass of 20,000 particles at 60 times: each thread sums its iterations, parts are added
 * by thread number. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 20000
#define TIMES 60

static double mass[N], position[N];

static double centre(int time)
{
    double weight[256] = {0}, moment[256] = {0}, total[2] = {0};

#pragma omp parallel for schedule(runtime)
    for (int i = 0; i < N; i++) {
        int t = omp_get_thread_num() & 255;
        weight[t] += mass[i];
        moment[t] += mass[i] * (position[i] + 0.01 * time * mass[i]);
    }
    for (int t = 0; t < 256; t++) {
        total[0] += weight[t];
        total[1] += moment[t];
    }
    return total[1] / total[0];
}

int main(void)
{
    unsigned long long bits, hash = 0;
    double last = 0;

    srand(1);
    for (int i = 0; i < N; i++) {
        mass[i] = rand() / (double)RAND_MAX;
        position[i] = rand() / (double)RAND_MAX - 0.5;
    }
    for (int time = 0; time < TIMES; time++) {
        last = centre(time);
        memcpy(&bits, &last, sizeof(bits));
        hash = hash * 31 + bits;
    }
    printf("%a, hash %016llx\n", last, hash);
    return 0;
}
