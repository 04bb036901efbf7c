#include "cli/cli.h"
#include "diff/diff.h"

struct diff {
    bool json, verify;
    uint64_t roots;
};

#define AT(member) offsetof(struct diff, member)

static const struct tb_cli_option options[] = {
    {"--json", NULL, TB_CLI_FLAG, AT(json), NULL,
     "the report as JSON, see docs/diff-report.schema.json"},
    {"--roots", NULL, TB_CLI_NUMBER, AT(roots), "N",
     "keep at most N independent divergences (default 32)"},
    {"--verify", NULL, TB_CLI_FLAG, AT(verify), NULL,
     "first read both whole and check all digests"},
};

static const struct tb_cli_command command = {
    .name = "diff",
    .synopsis = "[options] A B",
    .about =
        "Compares two runs of the same job and names the first event whose inputs are equal and\n"
        "whose outputs are not. A and B are traces, or folders of them.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes =
        "exit status: 0 identical, 1 diverged, 2 error, 3 unknown: nothing is known to differ, "
        "but\n"
        "something was lost or not covered.\n",
};

static int run_diff(const struct diff *d, const char *a, const char *b)
{
    struct tb_diff_options o = {.verify = d->verify, .max_roots = (unsigned)d->roots};
    struct tb_diff_report *report = NULL;
    struct tb_error err = {0};

    if (tb_diff_run(&report, a, b, &o, &err) != TB_OK)
        return tb_cli_error("diff", &err);
    int status = (int)report->verdict;
    if (d->json)
        tb_diff_json(report, stdout);
    else
        tb_diff_text(report, stdout, tb_cli_colour());
    tb_diff_free(report);
    return tb_cli_flush(status);
}

int tb_cmd_diff(int argc, char **argv)
{
    struct diff d = {.roots = 32};
    struct tb_cli_rest rest;
    int status = TB_EXIT_ERROR;

    if (!tb_cli_parse(&command, argc, argv, &d, &rest, &status))
        return status;
    if (rest.count != 2)
        return tb_cli_usage(&command, "two runs are needed, %d are given", rest.count);
    if (d.roots == 0 || d.roots > 100000)
        return tb_cli_usage(&command, "option '--roots': 1 to 100000 are possible");
    return run_diff(&d, rest.item[0], rest.item[1]);
}
