#include "softgpu/run/run.h"

#include "cli/cli.h"

#include <string.h>

static const struct {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *help;
} subcommands[] = {
    {"run", sg_cmd_run, "run a program on a software CUDA device"},
    {"info", sg_cmd_info, "print the devices that it would find"},
    {"ptx", sg_cmd_ptx, "say whether device code loads, and what is refused"},
};

static void usage(FILE *out)
{
    fputs("usage: softgpu SUBCOMMAND [options]\n\n"
          "A software CUDA device: driver and runtime that execute PTX on the CPU.\n\n"
          "subcommands:\n",
          out);
    for (size_t i = 0; i < TB_ARRAY_LEN(subcommands); i++)
        fprintf(out, "  %-9s %s\n", subcommands[i].name, subcommands[i].help);
    fputs("\nhelp of one: softgpu SUBCOMMAND -h\n", out);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return TB_EXIT_ERROR;
    }
    for (size_t i = 0; i < TB_ARRAY_LEN(subcommands); i++)
        if (strcmp(argv[1], subcommands[i].name) == 0)
            return subcommands[i].fn(argc - 1, argv + 1);
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return tb_cli_flush(TB_EXIT_OK);
    }
    tb_log("softgpu: unknown subcommand '%s' (see 'softgpu -h')", argv[1]);
    return TB_EXIT_ERROR;
}
