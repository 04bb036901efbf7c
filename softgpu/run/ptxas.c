/*
 * What Triton runs in the place of ptxas (TRITON_PTXAS_PATH): the PTX itself becomes the "cubin",
 * and the driver's loader takes it as text.
 *
 * Triton asks for --version first and takes its own ptxas, without a word, if that fails or names
 * no "release N.M"; from the release it derives the PTX .version that it writes (13.0: 9.0). Then
 * it gives options, one file that ends in .ptx, and -o with the file to write. All options of ptxas
 * say how machine code is made, and none is: they are accepted and have no effect.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NAME "softgpu-ptxas"
#define VERSION_LINE NAME ": hands PTX on to softgpu; as ptxas, release 13.0, V13.0.0"

static int fail(const char *what, const char *subject)
{
    fprintf(stderr, NAME ": %s '%s': %s\n", what, subject, strerror(errno));
    return 1;
}

static bool ends_in_ptx(const char *arg)
{
    size_t n = strlen(arg);

    return n > 4 && arg[0] != '-' && strcmp(arg + n - 4, ".ptx") == 0;
}

/* Options with their value as the next argument, which could look like an input. */
static bool takes_value(const char *arg)
{
    static const char *const all[] = {"--opt-level",    "-O",      "--gpu-name", "-arch",
                                      "--maxrregcount", "--entry", "-e",         "--options-file"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(arg, all[i]) == 0)
            return true;
    return false;
}

static int copy(FILE *from, const char *in, const char *out)
{
    char buffer[1 << 16];
    FILE *to = fopen(out, "wb");
    bool bad = false;
    size_t n;

    if (!to)
        return fail("cannot write", out);
    while (!bad && (n = fread(buffer, 1, sizeof(buffer), from)) > 0)
        bad = fwrite(buffer, 1, n, to) != n;
    if (ferror(from)) {
        fail("cannot read", in);
        fclose(to);
        return 1;
    }
    if (fclose(to) != 0 || bad)
        return fail("cannot write", out);
    return 0;
}

int main(int argc, char **argv)
{
    const char *in = NULL, *out = NULL;
    FILE *from;
    int status;

    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];

        if (strcmp(a, "--version") == 0 || strcmp(a, "-V") == 0)
            return puts(VERSION_LINE) < 0;
        if (strcmp(a, "-o") == 0 || strcmp(a, "--output-file") == 0) {
            out = i + 1 < argc ? argv[++i] : NULL;
        } else if (takes_value(a)) {
            i++;
        } else if (ends_in_ptx(a)) {
            if (in) {
                fprintf(stderr, NAME ": two inputs, '%s' and '%s': one is handed on\n", in, a);
                return 1;
            }
            in = a;
        }
    }
    if (!in || !out) {
        fprintf(stderr, NAME ": %s; usage: " NAME " [options of ptxas] IN.ptx -o OUT\n",
                in ? "no -o with the file to write" : "no input that ends in .ptx");
        return 1;
    }
    from = fopen(in, "rb");
    if (!from)
        return fail("cannot read", in);
    status = copy(from, in, out);
    fclose(from);
    return status;
}
