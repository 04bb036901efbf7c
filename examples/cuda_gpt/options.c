/* The command line of cuda_gpt. */
#include "examples/cuda_gpt/gpt.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: cuda_gpt [options]\n"
    "\n"
    "Trains a small character-level GPT on the GPU and prints the loss of each step. The same "
    "options\n"
    "give the same bits, unless --atomics says otherwise.\n"
    "\n"
    "  --preset NAME     small (default) or gpu: 12 layers, width 768, 12 heads, batch 8, context "
    "1024\n"
    "  --steps N         training steps (10)\n"
    "  --layers N        (2)\n"
    "  --width N         of a token's vector (64)\n"
    "  --heads N         of attention; width / heads is at most 64 (4)\n"
    "  --batch N         texts a step (8)\n"
    "  --context N       characters a text (64)\n"
    "  --seed N          draws parameters and batches (1)\n"
    "  --lr X            learning rate (0.003; preset gpu: 0.0003)\n"
    "  --clip X          limit of the gradient's norm (1)\n"
    "  --atomics LIST    sum with atomicAdd, in no fixed order, in these kernels: all, or some of\n"
    "                    matmul,attention,layernorm,gelu,crossentropy,adamw,embedding\n"
    "  --graph           capture the step in a CUDA graph and replay it\n"
    "  --streams N       gradients of weights on N-1 streams beside the first (1)\n"
    "  --print-every N   print the loss of each N-th step and the last; others are not waited for "
    "(1)\n"
    "  --save FILE       write the parameters there, as raw floats\n"
    "  --help            print this\n";

/* struct option_of_number - an integer, its range and where it goes */
struct number {
    const char *name;
    int min, max;
    size_t at;
};

static const struct number numbers[] = {
    {"steps", 1, 1000000000, offsetof(struct gpt_options, steps)},
    {"layers", 1, 256, offsetof(struct gpt_options, layers)},
    {"width", 8, 16384, offsetof(struct gpt_options, width)},
    {"heads", 1, 256, offsetof(struct gpt_options, heads)},
    {"batch", 1, 65535, offsetof(struct gpt_options, batch)},
    {"context", 1, 65536, offsetof(struct gpt_options, context)},
    {"streams", 1, GPT_MAX_STREAMS, offsetof(struct gpt_options, streams)},
    {"print-every", 1, 1000000000, offsetof(struct gpt_options, print_every)},
};

static const struct {
    const char *name;
    unsigned flag;
} kernels[] = {
    {"matmul", GPT_ATOMIC_MATMUL},
    {"attention", GPT_ATOMIC_ATTENTION},
    {"layernorm", GPT_ATOMIC_LAYERNORM},
    {"gelu", GPT_ATOMIC_GELU},
    {"crossentropy", GPT_ATOMIC_CROSSENTROPY},
    {"adamw", GPT_ATOMIC_ADAMW},
    {"embedding", GPT_ATOMIC_EMBEDDING},
    {"all", GPT_ATOMIC_ALL},
};

__attribute__((noreturn, format(printf, 1, 2))) static void refuse(const char *format, ...)
{
    va_list ap;

    fputs("cuda_gpt: ", stderr);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputs("; see --help\n", stderr);
    exit(2);
}

static void read_number(struct gpt_options *o, const struct number *n, const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);

    if (end == text || *end || errno || value < n->min || value > n->max)
        refuse("--%s wants a number from %d to %d, not '%s'", n->name, n->min, n->max, text);
    memcpy((char *)o + n->at, &(int){(int)value}, sizeof(int));
}

static uint64_t read_seed(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);

    if (end == text || *end || errno || strchr(text, '-'))
        refuse("--seed wants a number, 0 or greater, not '%s'", text);
    return value;
}

static float read_positive(const char *name, const char *text)
{
    char *end;
    float value = strtof(text, &end);

    if (end == text || *end || !isfinite(value) || !(value > 0))
        refuse("--%s wants a number above 0, not '%s'", name, text);
    return value;
}

static unsigned read_atomics(const char *text)
{
    unsigned flags = 0;

    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ","), i = 0;
        while (i < sizeof(kernels) / sizeof(kernels[0]) &&
               (strlen(kernels[i].name) != n || memcmp(kernels[i].name, at, n) != 0))
            i++;
        if (i == sizeof(kernels) / sizeof(kernels[0]))
            refuse("--atomics: '%.*s' is not one of matmul, attention, layernorm, gelu, "
                   "crossentropy, adamw, embedding, all",
                   (int)n, at);
        flags |= kernels[i].flag;
        at += n;
        if (!*at)
            return flags;
    }
}

static void preset(struct gpt_options *o, const char *name)
{
    if (strcmp(name, "gpu") == 0) {
        o->layers = 12, o->width = 768, o->heads = 12, o->batch = 8, o->context = 1024;
        o->rate = 3e-4f;
    } else if (strcmp(name, "small") == 0) {
        o->layers = 2, o->width = 64, o->heads = 4, o->batch = 8, o->context = 64;
        o->rate = 3e-3f;
    } else {
        refuse("--preset '%s' is neither small nor gpu", name);
    }
}

/* what one option cannot know of another */
static void check(const struct gpt_options *o)
{
    int head = o->width / o->heads;

    if (o->width % o->heads)
        refuse("--heads %d does not divide --width %d", o->heads, o->width);
    if (head % 8 || head > GPT_MAX_HEAD)
        refuse("--width %d in %d heads is %d a head: it must be a multiple of 8, at most %d",
               o->width, o->heads, head, GPT_MAX_HEAD);
    if ((long long)o->batch * o->context > 1 << 20)
        refuse("--batch %d times --context %d is more than %d characters a step", o->batch,
               o->context, 1 << 20);
}

enum {
    OPT_NUMBER,
    OPT_PRESET = 100,
    OPT_SEED,
    OPT_LR,
    OPT_CLIP,
    OPT_ATOMICS,
    OPT_GRAPH,
    OPT_SAVE,
    OPT_HELP
};

static const struct option options[] = {
    {"steps", required_argument, NULL, OPT_NUMBER},
    {"layers", required_argument, NULL, OPT_NUMBER + 1},
    {"width", required_argument, NULL, OPT_NUMBER + 2},
    {"heads", required_argument, NULL, OPT_NUMBER + 3},
    {"batch", required_argument, NULL, OPT_NUMBER + 4},
    {"context", required_argument, NULL, OPT_NUMBER + 5},
    {"streams", required_argument, NULL, OPT_NUMBER + 6},
    {"print-every", required_argument, NULL, OPT_NUMBER + 7},
    {"preset", required_argument, NULL, OPT_PRESET},
    {"seed", required_argument, NULL, OPT_SEED},
    {"lr", required_argument, NULL, OPT_LR},
    {"clip", required_argument, NULL, OPT_CLIP},
    {"atomics", required_argument, NULL, OPT_ATOMICS},
    {"graph", no_argument, NULL, OPT_GRAPH},
    {"save", required_argument, NULL, OPT_SAVE},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static void read_one(struct gpt_options *o, int which, const char *text)
{
    switch (which) {
    case OPT_PRESET:
        preset(o, text);
        break;
    case OPT_SEED:
        o->seed = read_seed(text);
        break;
    case OPT_LR:
        o->rate = read_positive("lr", text);
        break;
    case OPT_CLIP:
        o->clip = read_positive("clip", text);
        break;
    case OPT_ATOMICS:
        o->atomics |= read_atomics(text);
        break;
    case OPT_GRAPH:
        o->graph = true;
        break;
    case OPT_SAVE:
        o->save = text;
        break;
    default:
        read_number(o, &numbers[which - OPT_NUMBER], text);
    }
}

void gpt_options_read(struct gpt_options *o, int argc, char **argv)
{
    int which;

    *o = (struct gpt_options){.steps = 10, .print_every = 1, .streams = 1, .seed = 1, .clip = 1};
    preset(o, "small");
    opterr = 0;
    while ((which = getopt_long(argc, argv, "+:", options, NULL)) != -1) {
        if (which == '?')
            refuse("no option '%s'", argv[optind - 1]);
        if (which == ':')
            refuse("'%s' wants a value", argv[optind - 1]);
        if (which == OPT_HELP) {
            fputs(usage, stdout);
            exit(0);
        }
        read_one(o, which, optarg);
    }
    if (optind < argc)
        refuse("'%s' is not an option", argv[optind]);
    check(o);
}
