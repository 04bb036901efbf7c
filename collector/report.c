/* What the user sees on stderr: a line while it runs, a paragraph at the end. */
#include "collector/collector_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void size_text(uint64_t bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    size_t i = 0;

    while (x >= 1024 && i + 1 < TB_ARRAY_LEN(units)) {
        x /= 1024;
        i++;
    }
    (void)snprintf(out, size, i ? "%.1f %s" : "%.0f %s", x, units[i]);
}

void tb_report_progress(const struct tb_drain_counts *c, double wall_s, double cpu_s)
{
    char line[200], bytes[32];
    int n;

    if (!c) {
        n = snprintf(line, sizeof(line), "\r\033[K");
    } else {
        size_text(c->bytes, bytes, sizeof(bytes));
        n = snprintf(line, sizeof(line),
                     "\r\033[Ktwinbit: %" PRIu64 " events, %.0f/s, step %" PRIu64
                     ", trace %s, collector %.0f %% of a core%s",
                     c->events, wall_s > 0 ? (double)c->events / wall_s : 0, c->steps, bytes,
                     wall_s > 0 ? 100 * cpu_s / wall_s : 0, c->lost ? ", LOSING EVENTS" : "");
    }
    (void)!write(STDERR_FILENO, line, (size_t)n);
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* Records, and fingerprints that a device should have written. */
static void what_was_lost(const struct tb_collector_result *r, char *out, size_t size)
{
    char records[32] = "", unarrived[64] = "";

    if (r->lost)
        (void)snprintf(records, sizeof(records), "%" PRIu64 " lost", r->lost);
    if (r->unarrived)
        (void)snprintf(unarrived, sizeof(unarrived), "%s%" PRIu64 " fingerprint%s never arrived",
                       r->lost ? ", " : "", r->unarrived, plural(r->unarrived));
    if (r->lost || r->unarrived)
        (void)snprintf(out, size, "%s%s (diff will say unknown)", records, unarrived);
    else
        (void)snprintf(out, size, "nothing lost");
}

static void what_was_recorded(const struct tb_collector_result *r)
{
    char lost[160];

    what_was_lost(r, lost, sizeof(lost));
    if (r->processes == 0) {
        tb_log("nothing was recorded: no process of the job loaded libtorch%s%s",
               r->no_cuda ? "; " : " or called CUDA, or none of them could attach (see above)",
               r->no_cuda ? r->no_cuda : "");
        return;
    }
    tb_log("%" PRIu64 " event%s, %" PRIu64 " step%s, %u process%s; coverage: %" PRIu64 " row%s; %s",
           r->events, plural(r->events), r->steps, plural(r->steps), r->processes,
           r->processes == 1 ? "" : "es", r->coverage, plural(r->coverage), lost);
    if (r->trimmed)
        tb_log("--max-size: the detail of the oldest %" PRIu64 " events was deleted; their digests "
               "are kept",
               r->trimmed);
}

void tb_report_end(const struct tb_collector_result *r, char *const *log, uint32_t log_count)
{
    char bytes[32], program[512], trace[4200];

    (void)tb_program("twinbit", program, sizeof(program));
    (void)tb_shell_file(r->trace, trace, sizeof(trace));
    for (uint32_t i = 0; i < log_count; i++)
        if (log[i])
            tb_log("%s", log[i]);
    if (r->not_covered)
        tb_log("%u process%s not covered: %s show %s coverage", r->not_covered,
               r->not_covered == 1 ? "" : "es", program, trace);
    what_was_recorded(r);
    size_text(r->bytes, bytes, sizeof(bytes));
    tb_log("cost: %.1f s in all, %.2f s of CPU for the collector, trace %s", r->wall_s,
           r->collector_cpu_s, bytes);
    if (r->processes && r->events == 0 && r->boundary)
        tb_log("trace: '%s'; next: call twinbit_step() of twinbit.h (twinbit.step() in Python) at "
               "the end of each step, or record at level op",
               r->trace);
    else if (r->processes)
        tb_log("trace: '%s'; next: %s show %s, or record again and compare with %s diff", r->trace,
               program, trace, program);
    else
        tb_log("trace: '%s'", r->trace);
}
