#include "cli/cli.h"
#include "softgpu/run/run.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct options {
    struct sg_run_options run;
    struct tb_cli_list faults;
};

#define AT(member) offsetof(struct options, run.member)

static const struct tb_cli_option options[] = {
    {"--devices", NULL, TB_CLI_NUMBER, AT(devices), "N", "how many devices there are (1)"},
    {"--arch", NULL, TB_CLI_STRING, AT(arch), "ARCH",
     "sm_75, sm_80, sm_86, sm_89 or sm_90 (sm_80)"},
    {"--memory", NULL, TB_CLI_SIZE, AT(memory), "SIZE", "of each device (8G)"},
    {"--seed", NULL, TB_CLI_STRING, AT(seed), "N", "order of blocks, warps and streams (0)"},
    {"--order", NULL, TB_CLI_STRING, AT(order), "ORDER",
     "seed, or index: blocks and warps one after the other"},
    {"--workers", NULL, TB_CLI_NUMBER, AT(workers), "N", "threads that execute (one a core)"},
    {"--sms", NULL, TB_CLI_NUMBER, AT(sms), "N", "multiprocessors that are simulated (4)"},
    {"--log", NULL, TB_CLI_STRING, AT(log), "N", "0 nothing, 1 refusals (1), 2 launches, 3 calls"},
    {"--strict", NULL, TB_CLI_STRING, AT(strict), "MODE",
     "report or fail: find what the manuals forbid (off)"},
    {"--tool-kernels", NULL, TB_CLI_STRING, AT(tool_kernels), "PATTERNS",
     "kernels of a tool (* and ?, ',' between them): they draw nothing from the seed, and may read "
     "memory never written"},
    {"--report", NULL, TB_CLI_STRING, AT(report), "FILE",
     "findings of --strict, a JSON object a line; %p in the name is the process"},
    {"--eager", NULL, TB_CLI_FLAG, AT(eager), NULL,
     "PyTorch's eager operators run on the CPU (twinbit.eager)"},
    {"--fault", NULL, TB_CLI_LIST, offsetof(struct options, faults), "SPEC",
     "break a device: 'unit=fma sm=1 bit=13 rate=1e-6'; may be repeated"},
    {"--races", NULL, TB_CLI_FLAG, AT(races), NULL,
     "with --strict: also races between threads of a launch (slow)"},
    {"--fault-log", NULL, TB_CLI_STRING, AT(fault_log), "FILE",
     "every fault, a JSON object a line; %p in the name is the process"},
    {"--fault-replay", NULL, TB_CLI_STRING, AT(fault_replay), "FILE",
     "inject what such a log holds, and nothing else"},
    {"--force", NULL, TB_CLI_FLAG, AT(force), NULL, "run CMD though it cannot work"},
    {"--libdir", NULL, TB_CLI_STRING, AT(libdir), "DIR",
     "folder of libcuda.so.1 (also: SOFTGPU_LIBDIR)"},
};

static const struct tb_cli_command command = {
    .program = "softgpu",
    .name = "run",
    .synopsis = "[options] -- CMD...",
    .about = "Runs CMD on a software CUDA device. CMD and the system are not changed: the loader "
             "is told to\n"
             "take softgpu's driver and runtime libraries.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes = "exit status: CMD's own; 2 bad options; 125 CMD cannot work on softgpu, or softgpu is "
             "not there;\n"
             "126 CMD cannot be executed; 127 CMD was not found\n",
    .job = true,
};

#define NONE UINT64_MAX /* the option was not given */

/* 0 is no value of these options; for sg_run_prepare() it means that there is none. */
static bool given(uint64_t *value)
{
    if (*value == 0)
        return false;
    if (*value == NONE)
        *value = 0;
    return true;
}

int sg_cmd_run(int argc, char **argv)
{
    struct options all = {.run = {.devices = NONE, .memory = NONE, .workers = NONE, .sms = NONE}};
    struct sg_run_options *opt = &all.run;
    struct tb_error err = {0};
    struct tb_cli_rest rest;
    int status, failed;

    if (!tb_cli_parse(&command, argc, argv, &all, &rest, &status))
        return status;
    if (rest.count == 0)
        return tb_cli_usage(&command, "which program?");
    if (!given(&opt->devices) || !given(&opt->memory) || !given(&opt->workers) || !given(&opt->sms))
        return tb_cli_usage(&command, "0 devices, memory, workers or multiprocessors");
    opt->faults = all.faults.item;
    opt->nfaults = all.faults.count;
    if (sg_run_prepare(opt, rest.item, &err) != TB_OK) {
        status = tb_cli_error(command.name, &err);
        return err.status == TB_ERR_ARG ? status : TB_EXIT_NOT_STARTED;
    }
    execvp(rest.item[0], rest.item);
    failed = errno;
    tb_log("run: cannot execute '%s': %s", rest.item[0], strerror(failed));
    return failed == ENOENT ? 127 : 126;
}
