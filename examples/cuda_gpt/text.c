/*
 * The text: sentences of a small grammar, always the same ones. Enough structure that a tiny model
 * learns it within a few steps, nothing to download.
 */
#include "examples/cuda_gpt/gpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHARACTERS 65536 /* in the text, about */

static const char alphabet[GPT_VOCABULARY + 1] = "\n ,.;'abcdefghijklmnopqrstuvwxyz";

static const char *const nouns[] = {"kernel", "warp", "block", "stream", "tensor", "number",
                                    "sum",    "bit",  "loss",  "row",    "device", "launch"};
static const char *const qualities[] = {"quiet", "broken", "first", "small", "lost", "exact"};
static const char *const verbs[] = {"finds",   "follows", "adds to", "waits for",
                                    "changes", "writes",  "reads",   "forgets"};
static const char *const ends[] = {".\n", ".\n", ", again.\n", "; then it rests.\n"};

uint64_t gpt_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#define PICK(list) list[gpt_random(&state) % (sizeof(list) / sizeof(list[0]))]

void gpt_text_init(struct gpt_text *t)
{
    char sentence[128];
    uint64_t state = 1;

    t->n = 0;
    t->at = malloc(CHARACTERS + sizeof(sentence));
    if (!t->at) {
        fputs("cuda_gpt: no memory for the text\n", stderr);
        exit(1);
    }
    while (t->n < CHARACTERS) {
        const char *first = PICK(nouns), *does = PICK(verbs), *how = PICK(qualities);
        const char *second = PICK(nouns), *end = PICK(ends);
        snprintf(sentence, sizeof(sentence), "the %s %s the %s %s%s", first, does, how, second,
                 end);
        for (const char *c = sentence; *c; c++)
            t->at[t->n++] = (unsigned char)(strchr(alphabet, *c) - alphabet);
    }
}

void gpt_text_release(struct gpt_text *t)
{
    free(t->at);
    *t = (struct gpt_text){0};
}

void gpt_text_batch(const struct gpt_text *t, uint64_t seed, int step, int batch, int context,
                    int *tokens, int *targets)
{
    uint64_t state = seed ^ (uint64_t)step << 32 ^ 0x7465787473u;

    for (int b = 0; b < batch; b++) {
        size_t start = gpt_random(&state) % t->n;
        for (int i = 0; i < context; i++) {
            tokens[b * context + i] = t->at[(start + (size_t)i) % t->n];
            targets[b * context + i] = t->at[(start + (size_t)i + 1) % t->n];
        }
    }
}
