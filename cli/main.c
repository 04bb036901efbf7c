#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct subcommand {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *help;
};

static const struct subcommand subcommands[] = {
    {"run", tb_cmd_run, "run a job and record a trace of it"},
    {"diff", tb_cmd_diff, "compare two traces: the first bit at which they part"},
    {"bisect", tb_cmd_bisect, "record pairs of runs until one parts, and name where"},
    {"bisect-pins", tb_cmd_bisect_pins, "find the pins that make a job repeat itself"},
    {"replay", tb_cmd_replay, "run a job again with what it drew from the system in a trace"},
    {"show", tb_cmd_show, "look into a trace"},
    {"doctor", tb_cmd_doctor, "what works on this machine, and what mends the rest"},
    {"pins", tb_cmd_pins, "what can differ between two runs, and what would hold it"},
    {"version", tb_cmd_version, "print the version"},
    {"help", tb_cmd_help, "print the help of a subcommand"},
};

static const struct subcommand *find(const char *name)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(subcommands); i++)
        if (strcmp(subcommands[i].name, name) == 0)
            return &subcommands[i];
    return NULL;
}

static void usage(FILE *out)
{
    fputs("usage: twinbit SUBCOMMAND [options]\n\n"
          "Finds the first bit at which two runs of the same training job part.\n\n"
          "subcommands:\n",
          out);
    for (size_t i = 0; i < TB_ARRAY_LEN(subcommands); i++)
        fprintf(out, "  %-12s %s\n", subcommands[i].name, subcommands[i].help);
    fputs("\nhelp of one: twinbit SUBCOMMAND -h\n"
          "exit status: 0 same or passed, 1 differs or failed, 2 error, 3 unknown: nothing was "
          "tested\n"
          "or something needed was not covered; `run` returns the job's own\n",
          out);
}

static int unknown(const char *name)
{
    tb_log("unknown subcommand '%s' (see 'twinbit help')", name);
    return TB_EXIT_ERROR;
}

int tb_cmd_version(int argc, char **argv)
{
    static const struct tb_cli_command cmd = {
        .name = "version", .synopsis = "", .about = "Prints the version of this program.\n"};
    struct tb_cli_rest rest;
    int status;

    if (!tb_cli_parse(&cmd, argc, argv, NULL, &rest, &status))
        return status;
    if (rest.count > 0)
        return tb_cli_usage(&cmd, "unexpected argument '%s'", rest.item[0]);
    puts("twinbit " TB_CLI_VERSION);
    return tb_cli_flush(TB_EXIT_OK);
}

int tb_cmd_help(int argc, char **argv)
{
    static const struct tb_cli_command cmd = {
        .name = "help",
        .synopsis = "[SUBCOMMAND]",
        .about = "Prints the list of subcommands, or the help of one.\n"};
    struct tb_cli_rest rest;
    int status;

    if (!tb_cli_parse(&cmd, argc, argv, NULL, &rest, &status))
        return status;
    if (rest.count > 1)
        return tb_cli_usage(&cmd, "unexpected argument '%s'", rest.item[1]);
    if (rest.count == 1) {
        const struct subcommand *sub = find(rest.item[0]);
        char help[] = "-h";
        char *args[] = {rest.item[0], help, NULL};
        return sub ? sub->fn(2, args) : unknown(rest.item[0]);
    }
    usage(stdout);
    return tb_cli_flush(TB_EXIT_OK);
}

/* What was closed when we were started stays closed for the job: no file of ours takes its number.
 */
static void hold_standard_files(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", O_RDWR | O_CLOEXEC); /* the lowest free number: fd */
}

int main(int argc, char **argv)
{
    hold_standard_files();
    if (argc < 2) {
        usage(stderr);
        return TB_EXIT_ERROR;
    }
    const char *name = argv[1];
    if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0)
        name = "version";
    const struct subcommand *sub = find(name);
    return sub ? sub->fn(argc - 1, argv + 1) : unknown(name);
}
