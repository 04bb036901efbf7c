/*
 * Feeds a folder of PTX to the fuzz target: every file whole, cut at every byte, and mutated with a
 * seeded generator. usage: replay_ptx FOLDER [MUTANTS_A_FILE]
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define LARGEST 65536

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

/* Words that take a parser somewhere else */
static const char *const words[] = {
    "{",       "}",     "(",     ")",        "[",     "]",      ";",         ",",       ":",
    "@",       "!",     "|",     "<4>",      "0x",    "0f",     "-",         "+",       "1",
    ".reg",    ".b32",  ".v4",   ".param",   ".func", ".entry", ".global",   "generic", "//",
    "/*",      "\n",    "\"",    "_",        "%r",    "%tid.x", ".align",    "= {",     "0xff(",
    ".extern", "call ", "bra ",  ".section", "??",    "::",     "WARP_SZ",   "((((((",  "{{{{",
    ".s64)",   "99999", ".pred", ".alias",   "%p1",   ".loc 1", ".visible ", "[",       "\\\n",
};

static size_t mutate(uint8_t *d, size_t n)
{
    for (uint32_t k = 1 + draw(4); k > 0 && n > 8; k--) {
        size_t at = draw((uint32_t)n), len = 1 + draw(n / 4 > 40 ? 40 : (uint32_t)n / 4);
        const char *w = words[draw(sizeof(words) / sizeof(words[0]))];

        switch (draw(5)) {
        case 0:
            d[at] = (uint8_t)draw(256);
            break;
        case 1: /* cut a piece out */
            if (len > n - at)
                len = n - at;
            memmove(d + at, d + at + len, n - at - len);
            n -= len;
            break;
        case 2: /* repeat a piece */
            if (len > n - at)
                len = n - at;
            if (n + len > LARGEST)
                break;
            memmove(d + at + len, d + at, n - at);
            n += len;
            break;
        default:
            len = strlen(w);
            if (n + len > LARGEST)
                break;
            memmove(d + at + len, d + at, n - at);
            memcpy(d + at, w, len);
            n += len;
        }
    }
    return n;
}

/* The parser must not read behind the end: each input has a buffer of exactly its size. */
static void feed(const uint8_t *data, size_t n)
{
    uint8_t *exact = malloc(n ? n : 1);

    if (!exact)
        abort();
    memcpy(exact, data, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

static unsigned long replay(const uint8_t *data, size_t n, unsigned mutants)
{
    static uint8_t mutant[LARGEST];
    unsigned long count = 1;

    feed(data, n);
    for (size_t cut = 0; cut < n; cut++, count++)
        feed(data, cut);
    for (unsigned i = 0; i < mutants; i++, count++) {
        memcpy(mutant, data, n);
        feed(mutant, mutate(mutant, n));
    }
    return count;
}

int main(int argc, char **argv)
{
    unsigned mutants = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1000;
    unsigned long files = 0, inputs = 0;
    static uint8_t data[LARGEST];
    struct dirent **list = NULL;
    int n = argc > 1 ? scandir(argv[1], &list, NULL, alphasort) : -1;

    for (int i = 0; i < n; i++) {
        char path[4096];
        FILE *f = NULL;

        snprintf(path, sizeof(path), "%s/%s", argv[1], list[i]->d_name);
        if (list[i]->d_name[0] != '.' && (f = fopen(path, "rb")) != NULL) {
            size_t size = fread(data, 1, sizeof(data), f);

            fclose(f);
            state = files + 1;
            inputs += replay(data, size, mutants);
            files++;
        }
        free(list[i]);
    }
    free(list);
    printf("%lu inputs of %lu files\n", inputs, files);
    if (files > 0)
        return 0;
    fprintf(stderr, "usage: replay_ptx FOLDER [MUTANTS], nothing was read\n");
    return 1;
}
