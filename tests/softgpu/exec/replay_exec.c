/*
 * Feeds a folder of PTX to the engine's fuzz target: every file as it is, then mutants of it.
 * usage: replay_exec FOLDER [MUTANTS_A_FILE]; FOLDER may be a file
 */
#include "tests/softgpu/exec/fuzz_exec.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST 65536

static size_t read_file(const char *path, uint8_t *data)
{
    FILE *f = fopen(path, "rb");
    size_t n = f != NULL ? fread(data, 1, LARGEST, f) : 0;

    if (f != NULL)
        fclose(f);
    return n;
}

/* Nothing may read behind the end: each input has a buffer of exactly its size. */
static void feed(const uint8_t *data, size_t n)
{
    uint8_t *exact = malloc(n ? n : 1);

    if (exact == NULL)
        abort();
    memcpy(exact, data, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

static unsigned long replay(const char *path, unsigned mutants)
{
    static uint8_t data[LARGEST], mutant[LARGEST];
    size_t n = read_file(path, data);

    if (n == 0)
        return 0;
    feed(data, n);
    for (unsigned i = 0; i < mutants; i++) {
        memcpy(mutant, data, n);
        feed(mutant, mutate_ptx(mutant, n, sizeof(mutant), i));
    }
    return 1 + mutants;
}

int main(int argc, char **argv)
{
    unsigned mutants = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100;
    unsigned long files = 0, inputs = 0;
    struct dirent **list = NULL;
    int n = argc > 1 ? scandir(argv[1], &list, NULL, alphasort) : -1;

    if (n < 0 && argc > 1)
        inputs = replay(argv[1], mutants);
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", argv[1], list[i]->d_name);
        if (list[i]->d_name[0] != '.') {
            inputs += replay(path, mutants);
            files++;
        }
        free(list[i]);
    }
    free(list);
    printf("%lu inputs of %lu files\n", inputs, files);
    return inputs > 0 ? 0 : 1;
}
