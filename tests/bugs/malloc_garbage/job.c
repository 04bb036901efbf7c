/* Circular padding of rows that writes the middle and one side; the blocks come from lists of
 * pointers that were freed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 32
#define WIDTH 600

int main(void)
{
    void *used[ROWS], *keep[ROWS];
    uint32_t sum = 0;

    for (int r = 0; r < ROWS; r++) {
        used[r] = malloc(WIDTH * sizeof(float));
        keep[r] = malloc(64);
        if (!used[r] || !keep[r])
            return 1;
        for (size_t i = 0; i < WIDTH * sizeof(float) / sizeof(void *); i++)
            ((void **)used[r])[i] = keep[r];
    }
    for (int r = 0; r < ROWS; r++)
        free(used[r]);
    for (int r = 0; r < ROWS; r++) {
        volatile float *row = malloc(WIDTH * sizeof(float));
        uint32_t bits;

        if (!row)
            return 1;
        for (int i = 0; i < WIDTH - 8; i++) /* the right side is forgotten */
            row[i] = (float)i;
        for (int i = 0; i < WIDTH; i++) {
            memcpy(&bits, (const void *)(row + i), sizeof(bits));
            sum = sum * 31 + bits;
        }
    }
    printf("%08x\n", sum);
    return 0;
}
