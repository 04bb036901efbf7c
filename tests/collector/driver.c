/*
 * `twinbit run` for tests, without the program: tb_collector_run() and its result as a line.
 *   driver [-o TRACE] [-d LIBDIR] [-r RING_BYTES] [-t RING_TOTAL] [-w WAIT_MS] [-R RESULT_FILE]
 * [-D] [-f] [-v] [-a HOW] -- CMD... -D: drop when full; -f: overwrite; -v: closing paragraph;
 * RESULT_FILE gets "name value" lines.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/collector.h"

static void write_result(const char *path, const struct tb_collector_result *r)
{
    FILE *f = fopen(path, "w");

    if (!f)
        exit(124);
    fprintf(f,
            "exit_status %d\nevents %" PRIu64 "\naccesses %" PRIu64 "\nsteps %" PRIu64
            "\ncoverage %" PRIu64 "\nlost %" PRIu64 "\nbytes %" PRIu64
            "\nprocesses %u\nnot_covered %u\nwall_s %f\ncpu_s %f\ntrace %s\n",
            r->exit_status, r->events, r->accesses, r->steps, r->coverage, r->lost, r->bytes,
            r->processes, r->not_covered, r->wall_s, r->collector_cpu_s, r->trace);
    fclose(f);
}

int main(int argc, char **argv)
{
    struct tb_collector_options o = {.output = "out.twinbit", .quiet = true};
    struct tb_collector_result result;
    struct tb_error err = {0};
    const char *result_file = NULL;
    int c;

    o.config.step_to = UINT64_MAX;
    o.libdir = TB_TEST_LIBDIR;
    while ((c = getopt(argc, argv, "+o:d:r:t:w:R:a:Dfv")) != -1) {
        switch (c) {
        case 'o':
            o.output = optarg;
            break;
        case 'd':
            o.libdir = optarg;
            break;
        case 'r':
            o.config.ring_bytes = strtoull(optarg, NULL, 10);
            break;
        case 't':
            o.config.ring_total = strtoull(optarg, NULL, 10);
            break;
        case 'w':
            o.config.wait_ms = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'R':
            result_file = optarg;
            break;
        case 'a':
            o.attach = optarg;
            break;
        case 'D':
            o.config.flags |= TB_CFG_DROP;
            break;
        case 'f':
            o.force = true;
            break;
        case 'v':
            o.quiet = false;
            break;
        default:
            return 125;
        }
    }
    o.argv = argv + optind;
    if (tb_collector_run(&o, &result, &err) != TB_OK)
        tb_log("%s", err.text);
    if (result_file)
        write_result(result_file, &result);
    return result.exit_status;
}
