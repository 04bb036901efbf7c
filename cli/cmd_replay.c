/* replay: run a job again with the decisions that a trace has, and say whether it came out the
 * same. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/record.h"
#include "deterministic/plan.h"
#include "deterministic/preload/log.h"
#include "diff/diff.h"

#define MAX_ARGS 1024

struct replay {
    struct tb_cli_recording rec;
    const char *output;
    char folder[4000]; /* of the logs that are handed to the job */
    int status;        /* of the job then, -1: not known */
    char words[64 * 1024];
    char *argv[MAX_ARGS + 1];
};

#define AT(member) offsetof(struct replay, member)

static const struct tb_cli_option options[] = {
    {"--output", "-o", TB_CLI_STRING, AT(output), "TRACE",
     "file to write (default: <job>-<n>.twinbit)"},
    {"--inputs", NULL, TB_CLI_FLAG, AT(rec.inputs), NULL, "hash what is read too"},
    {"--snapshot", NULL, TB_CLI_LIST, AT(rec.snapshots), "EVENT",
     "keep the tensors of this event whole; may be repeated"},
    {"--stack", NULL, TB_CLI_FLAG, AT(rec.stack), NULL, "keep Python source lines"},
    {"--attach", NULL, TB_CLI_CHOICE, AT(rec.attach), TB_CLI_ATTACH,
     "how to get into the job (default preload)"},
    {"--force", NULL, TB_CLI_FLAG, AT(rec.force), NULL, "overwrite an existing trace"},
    {"--quiet", NULL, TB_CLI_FLAG, AT(rec.quiet), NULL, "no progress, no closing paragraph"},
    {"--libdir", NULL, TB_CLI_STRING, AT(rec.libdir), "DIR",
     "folder of libtwinbit.so (also: TWINBIT_LIBDIR)"},
};

static const struct tb_cli_command command = {
    .name = "replay",
    .synopsis = "[options] TRACE [-- CMD...]",
    .about =
        "Runs CMD, or the job of TRACE, again, and gives it what that run drew from the system: "
        "random bytes,\n"
        "the order of folders, names of temporary files; what ends by itself is handed out in the "
        "order that it\n"
        "had then. Pins and level are the same. Then compares.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes =
        "TRACE must have been recorded with --pin (observe will do): only then are decisions "
        "written down.\n"
        "exit status: the job's own; 2 bad options or a trace without decisions; 125 to 127 as "
        "run. The verdict\n"
        "is the last line on standard output.\n",
    .job = true,
};

/* ---------------------------------------------------------------- the logs */

/* Names come from a file that anybody may have written */
static bool good_name(const char *name)
{
    return *name && strlen(name) < 64 && !strchr(name, '/') && name[0] != '.';
}

static enum tb_status corrupted(struct tb_error *err, const char *what, const char *name)
{
    return tb_fail(err, TB_ERR_CORRUPT, "trace corrupted: %s '%.60s': record it again", what, name);
}

/* A text that cannot be read tells where it is damaged */
static enum tb_status lacks(struct tb_error *err, const struct tb_trace *t, const char *what,
                            const char *name)
{
    const struct tb_error *why = tb_trace_text_error(t);

    if (why->status == TB_ERR_NOTFOUND)
        return tb_fail(err, TB_ERR_CORRUPT, "trace corrupted: it lacks %s '%.60s': record it again",
                       what, name);
    return tb_fail(err, why->status, "%s", why->text);
}

/* The line of the list with this name: hash and length are as they were when it was stored? */
static bool is_whole(const char *data, size_t n, const char *hash, const char *bytes)
{
    return strtoull(bytes, NULL, 10) == n &&
           strtoull(hash, NULL, 16) == tb_preload_hash(0, data, n);
}

static enum tb_status write_file(const struct replay *r, const char *name, const char *data,
                                 size_t n, struct tb_error *err)
{
    char path[4200];
    size_t done = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", r->folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    while (fd >= 0 && done < n) {
        ssize_t got = write(fd, data + done, n - done);
        if (got < 0 && errno != EINTR)
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    int sys = errno;
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0 && done == n ? TB_OK
                                : tb_fail_sys(err, TB_ERR_IO, sys, "cannot write '%s'", path);
}

/* @line: NAME \t HASH \t BYTES */
static enum tb_status write_log(const struct replay *r, struct tb_trace *t, char *line,
                                struct tb_error *err)
{
    char *hash = strchr(line, '\t'), *bytes = hash ? strchr(hash + 1, '\t') : NULL, key[128];
    size_t n = 0;

    if (hash)
        *hash++ = 0;
    if (!bytes || !good_name(line))
        return corrupted(err, "it names a log", line);
    (void)snprintf(key, sizeof(key), TB_DRAWS_LOG "%s", line);
    const char *data = tb_trace_text(t, key, &n);
    if (!data)
        return lacks(err, t, "its log", line);
    if (!is_whole(data, n, hash, bytes + 1))
        return corrupted(err, "another hash than stored, of its log", line);
    return write_file(r, line, data, n, err);
}

/* Its last line has a hash of those before it */
static enum tb_status check_list(const char *list, size_t n, struct tb_error *err)
{
    static const char end[] = "end\t0123456789abcdef\n";
    size_t last = sizeof(end) - 1;
    char line[sizeof(end)];

    if (n >= last) {
        (void)snprintf(line, sizeof(line), "end\t%016llx\n",
                       (unsigned long long)tb_preload_hash(0, list, n - last));
        if (memcmp(list + n - last, line, last) == 0)
            return TB_OK;
    }
    return corrupted(err, "another hash than stored, of the list of its logs", TB_DRAWS_LIST);
}

static bool is_lost(void *arg, const struct tb_trace_coverage *row)
{
    bool *lost = arg;

    *lost = *lost || (strcmp(row->kind, "pins") == 0 && strcmp(row->subject, "TMPDIR") == 0);
    return !*lost;
}

static bool has_lost(struct tb_trace *t)
{
    struct tb_error ignored = {0};
    bool lost = false;

    return tb_trace_coverage(t, 0, is_lost, &lost, &ignored) == TB_OK && lost;
}

/* Decisions are stored when the job has ended */
static enum tb_status no_decisions(struct tb_trace *t, struct tb_error *err)
{
    const char *asked = tb_trace_meta(t, "pins.asked");

    if (tb_trace_info(t)->complete && asked && has_lost(t))
        return tb_fail(err, TB_ERR_UNSUPPORTED,
                       "this trace holds no decisions: its job deleted what 'twinbit run' had in "
                       "TMPDIR; record it again, with another TMPDIR for twinbit ('env "
                       "TMPDIR=... COMMAND' gives the job its own)");
    if (tb_trace_info(t)->complete || !tb_trace_meta(t, "pins.asked"))
        return tb_fail(err, TB_ERR_UNSUPPORTED,
                       "this trace holds no decisions: record it with 'twinbit run --pin observe'");
    return tb_fail(err, TB_ERR_UNSUPPORTED,
                   "the recording of this trace was cut before its decisions were stored: record "
                   "it again");
}

static enum tb_status write_logs(struct replay *r, struct tb_trace *t, struct tb_error *err)
{
    size_t n = 0;
    const char *list = tb_trace_text(t, TB_DRAWS_LIST, &n);
    enum tb_status st;

    if (!list && tb_trace_text_error(t)->status != TB_ERR_NOTFOUND)
        return lacks(err, t, "the list of its logs", TB_DRAWS_LIST);
    if (!list)
        return no_decisions(t, err);
    st = check_list(list, n, err);
    if (st == TB_OK)
        st = tb_cli_scratch_make("replay", r->folder, sizeof(r->folder), err);
    if (st != TB_OK)
        return st;
    char *copy = strndup(list, n), *rest = copy;
    for (char *line; st == TB_OK && copy && (line = strsep(&rest, "\n")) != NULL;)
        st = *line && strncmp(line, "end\t", 4) != 0 ? write_log(r, t, line, err) : TB_OK;
    free(copy);
    return st;
}

/* ---------------------------------------------------------------- as it was recorded */

/* "--pin strict --pin-seed 3": what is not ours ends it */
static enum tb_status same_pins(struct tb_pin_plan *plan, struct tb_trace *t, struct tb_error *err)
{
    const char *asked = tb_trace_meta(t, "pins.asked");
    char word[512], value[sizeof(plan->asked)];
    uint64_t seed = 0;
    enum tb_status st = tb_pin_plan_add(plan, "observe", err);

    for (const char *s = asked; st == TB_OK && s && (s = tb_shell_next(s, word, sizeof(word)));) {
        plan->force = plan->force || strcmp(word, "--force-pins") == 0;
        if (strcmp(word, "--force-pins") == 0)
            continue;
        if (!(s = tb_shell_next(s, value, sizeof(value))))
            break;
        if (strcmp(word, "--pin") == 0)
            st = tb_pin_plan_add(plan, value, err);
        else if (strcmp(word, "--pin-seed") == 0)
            (void)tb_cli_parse_number(value, &seed);
    }
    if (asked)
        (void)snprintf(plan->asked, sizeof(plan->asked), "%s", asked);
    plan->decisions = true;
    return st == TB_OK ? tb_pin_plan_finish(plan, seed, err) : st;
}

static void same_recording(struct replay *r, struct tb_trace *t)
{
    const char *status = tb_trace_meta(t, "exit_status");
    static const char *const levels[] = {"boundary", "op", "kernel"};
    const char *level = tb_trace_meta(t, "level"), *inputs = tb_trace_meta(t, "inputs");
    const char *device = tb_trace_meta(t, "device"), *steps = tb_trace_meta(t, "steps");

    r->status = status ? atoi(status) : -1; /* NOLINT(cert-err34-c) */
    for (unsigned i = 0; level && i < TB_ARRAY_LEN(levels); i++)
        if (strcmp(level, levels[i]) == 0)
            r->rec.level = i;
    r->rec.inputs = r->rec.inputs || (inputs && strcmp(inputs, "yes") == 0);
    if (device && strcmp(device, "softgpu") == 0)
        r->rec.device = TB_CLI_DEVICE_SOFTGPU;
    if (steps && !tb_cli_parse_steps(steps, &r->rec.steps))
        r->rec.steps = (struct tb_cli_steps){0};
}

/* The command of the trace, word by word */
static enum tb_status same_command(struct replay *r, struct tb_trace *t, struct tb_error *err)
{
    const char *line = tb_trace_meta(t, "argv");
    size_t used = 0, n = 0;

    for (const char *s = line; s && n < MAX_ARGS && used + 1 < sizeof(r->words);) {
        s = tb_shell_next(s, r->words + used, sizeof(r->words) - used);
        if (!s)
            break;
        r->argv[n++] = r->words + used;
        used += strlen(r->words + used) + 1;
    }
    if (n == 0)
        return tb_fail(err, TB_ERR_ARG,
                       "the trace does not say what it ran: name the command "
                       "behind '--'");
    r->rec.argv = r->argv;
    return TB_OK;
}

/* ---------------------------------------------------------------- and the same? */

/* A job that ends in another way is another one, whatever was recorded of it */
static void print_verdict(const struct replay *r, const struct tb_diff_report *report, int status)
{
    if (report->verdict == TB_DIFF_DIVERGED)
        tb_diff_text(report, stdout, tb_cli_colour());
    if (report->verdict != TB_DIFF_DIVERGED && r->status >= 0 && r->status != status)
        printf("replay: not the same: status %d then, %d now\n", r->status, status);
    else
        printf("replay: %s: %s%s\n",
               report->verdict == TB_DIFF_IDENTICAL  ? "bit-exact"
               : report->verdict == TB_DIFF_DIVERGED ? "not the same"
                                                     : "unknown",
               report->reason,
               report->verdict == TB_DIFF_DIVERGED
                   ? ""
                   : "; what the job printed or wrote to files is not compared");
}

static void compare(const struct replay *r, const char *before,
                    const struct tb_collector_result *now)
{
    struct tb_diff_report *report = NULL;
    struct tb_error err = {0};

    if (tb_diff_run(&report, before, now->trace, NULL, &err) != TB_OK) {
        printf("replay: unknown: %s\n", err.text);
        return;
    }
    print_verdict(r, report, now->exit_status);
    tb_diff_free(report);
}

static int record(struct replay *r, const char *trace, struct tb_error *err)
{
    struct tb_collector_result result = {.exit_status = TB_EXIT_NOT_STARTED};
    char job[256], path[4096];
    enum tb_status st = TB_OK;

    tb_cli_job_name(r->rec.argv, job, sizeof(job));
    if (r->output)
        (void)snprintf(path, sizeof(path), "%s", r->output);
    else
        st = tb_cli_free_trace(job, path, sizeof(path), err);
    if (st == TB_OK)
        st = tb_cli_use_device(&r->rec, err);
    if (st == TB_OK)
        st = tb_cli_record(&r->rec, path, &result, err);
    if (st != TB_OK)
        (void)tb_cli_error("replay", err);
    else
        compare(r, trace, &result);
    return result.exit_status;
}

static int replay(struct replay *r, const char *trace, int argc, struct tb_error *err)
{
    struct tb_pin_plan *plan = tb_pin_plan_new();
    struct tb_trace *t = NULL;
    int status = TB_EXIT_ERROR;

    if (!plan)
        return TB_EXIT_ERROR;
    enum tb_status st = tb_trace_open(&t, trace, err);
    if (st == TB_OK)
        st = write_logs(r, t, err);
    if (st == TB_OK)
        st = same_pins(plan, t, err);
    if (st == TB_OK) {
        same_recording(r, t);
        st = argc ? TB_OK : same_command(r, t, err);
    }
    tb_trace_close(t);
    if (st == TB_OK) {
        r->rec.pins = plan;
        r->rec.replay = r->folder;
        r->rec.frozen = trace;
        status = record(r, trace, err);
    } else {
        (void)tb_cli_error("replay", err);
    }
    tb_cli_scratch_remove(r->folder);
    tb_pin_plan_free(plan);
    return status;
}

int tb_cmd_replay(int argc, char **argv)
{
    struct replay *r = calloc(1, sizeof(*r));
    struct tb_error err = {0};
    struct tb_cli_rest rest;
    int status = TB_EXIT_ERROR;

    if (!r)
        return TB_EXIT_ERROR;
    r->rec = (struct tb_cli_recording)TB_CLI_RECORDING;
    if (!tb_cli_parse(&command, argc, argv, r, &rest, &status))
        goto out;
    if (rest.count == 0 || (rest.count > 1 && strcmp(rest.item[1], "--") != 0)) {
        status =
            tb_cli_usage(&command, rest.count == 0          ? "no trace named"
                                   : rest.item[1][0] == '-' ? "options stand before TRACE"
                                                            : "the command stands behind '--'");
        goto out;
    }
    if (tb_cli_check_snapshots(&r->rec.snapshots, &err) != TB_OK) {
        status = tb_cli_usage(&command, "%s", err.text);
        goto out;
    }
    if (r->output && tb_cli_one_file(r->output, rest.item[0])) {
        status = tb_cli_usage(&command, "'%s' is the trace that is replayed: name another with -o",
                              r->output);
        goto out;
    }
    r->rec.argv = rest.item + 2;
    status = tb_cli_flush(replay(r, rest.item[0], rest.count > 2 ? rest.count - 2 : 0, &err));
out:
    free(r);
    return status;
}
