/* bisect-pins: runs of the job with a set of pins, and whether they are equal. */
#include "cli/bisect_pins.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diff/diff.h"

/* ---------------------------------------------------------------- pins of a run */

static int cost_rank(const struct tb_pin *pin)
{
    static const int rank[TB_PIN_COSTS] = {
        [TB_PIN_COST_NONE] = 0,    [TB_PIN_COST_SMALL] = 1, [TB_PIN_COST_VARIES] = 2,
        [TB_PIN_COST_UNKNOWN] = 3, [TB_PIN_COST_LARGE] = 4,
    };

    return rank[pin->cost];
}

static bool dropped(const struct tb_bp *b, const struct tb_pin *pin)
{
    for (size_t i = 0; i < b->drops; i++)
        if (b->dropped[i].pin == pin && !b->dropped[i].instead)
            return true;
    return false;
}

/* A cache that begins empty in each run holds nothing. What a pin needs was set, too, when the plan
 * was finished; one that was dropped since then takes it along. */
static bool is_item(const struct tb_bp *b, const struct tb_pin_choice *c)
{
    bool item = c->request == TB_PIN_SET && !dropped(b, c->pin) && !tb_pin_sets_cache(c);

    for (const char *const *need = c->pin->needs; item && *need; need++)
        item = !dropped(b, tb_pin_find(*need));
    return item;
}

enum tb_status tb_bp_items(struct tb_bp *b, struct tb_error *err)
{
    size_t count = b->all->count;

    free(b->item);
    free(b->set.choice);
    b->item = calloc(count, sizeof(*b->item));
    b->set.choice = calloc(count, sizeof(*b->set.choice));
    if (!b->item || !b->set.choice)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the list of pins");
    b->items = b->unbuilt = 0;
    for (int rank = 0; rank <= 4; rank++)
        for (size_t i = 0; i < count; i++)
            if (cost_rank(b->all->choice[i].pin) == rank && is_item(b, &b->all->choice[i]))
                b->item[b->items++] = i;
    for (size_t i = 0; i < count; i++)
        b->unbuilt += b->all->choice[i].request == TB_PIN_UNBUILT;
    return TB_OK;
}

bool *tb_bp_new_set(const struct tb_bp *b, bool in)
{
    bool *set = calloc(b->items + 1, sizeof(*set));

    for (size_t i = 0; set && i < b->items; i++)
        set[i] = in;
    return set;
}

static void choose_pins(struct tb_bp *b, const bool *in)
{
    struct tb_pin_choice *choice = b->set.choice;

    b->set = *b->all;
    b->set.choice = choice;
    b->set.profile = TB_PIN_OBSERVE;
    memcpy(choice, b->none->choice, b->none->count * sizeof(*choice));
    for (size_t i = 0; in && i < b->items; i++)
        if (in[i])
            choice[b->item[i]] = b->all->choice[b->item[i]];
    b->rec.pins = &b->set;
}

/* ---------------------------------------------------------------- files and progress */

static const char *file_of(const struct tb_bp *b, const struct tb_bp_run *run, const char *what,
                           char out[4096])
{
    (void)snprintf(out, 4096, "%.4000s/run-%u.%s", b->folder, run->number, what);
    return out;
}

const char *tb_bp_trace(const struct tb_bp *b, const struct tb_bp_run *run, char out[4096])
{
    return file_of(b, run, "twinbit", out);
}

void tb_bp_drop(const struct tb_bp *b, const struct tb_bp_run *run)
{
    static const char *const what[] = {"twinbit", "out", "err"};
    char path[4096];

    for (size_t i = 0; run->number && i < TB_ARRAY_LEN(what); i++)
        (void)unlink(file_of(b, run, what[i], path));
}

void tb_bp_doing(struct tb_bp *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(b->doing, sizeof(b->doing), fmt, ap);
    va_end(ap);
}

static void show_progress(const struct tb_bp *b)
{
    if (b->terminal >= 0)
        (void)dprintf(b->terminal, "\r\033[Ktwinbit: run %u: %s", b->runs, b->doing);
}

/* The last line that the job itself wrote to its standard error, for the eye */
static void read_last_line(struct tb_bp *b, const struct tb_bp_run *run)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    FILE *f = fopen(file_of(b, run, "err", path), "re");

    b->last_line[0] = 0;
    while (f && getline(&line, &room, f) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (line[strspn(line, " \t\r")] && strncmp(line, "twinbit: ", 9) != 0)
            (void)snprintf(b->last_line, sizeof(b->last_line), "%s", tb_plain(line, false));
    }
    free(line);
    if (f)
        (void)fclose(f);
}

/* ---------------------------------------------------------------- a run */

/* @fd is the file from now on; what it was, or -1 */
static int redirect(int fd, const char *path)
{
    int saved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (saved >= 0 && (file < 0 || dup2(file, fd) < 0)) {
        (void)close(saved);
        saved = -1;
    }
    if (file >= 0)
        (void)close(file);
    return saved;
}

static void restore(int fd, int saved)
{
    if (saved < 0)
        return;
    (void)dup2(saved, fd);
    (void)close(saved);
}

/* Between runs signals wait; while the job runs the collector passes them on. A Ctrl-C that came
 * meanwhile ends the search. */
static int signal_waits(int how)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set, pending;
    int found = 0;

    (void)sigemptyset(&set);
    (void)sigpending(&pending);
    for (size_t i = 0; i < TB_ARRAY_LEN(all); i++) {
        (void)sigaddset(&set, all[i]);
        if (sigismember(&pending, all[i]) == 1)
            found = 128 + all[i];
    }
    if (found == 0 || how == SIG_BLOCK)
        (void)sigprocmask(how, &set, NULL);
    return found;
}

static enum tb_status record(struct tb_bp *b, const struct tb_bp_run *run,
                             struct tb_collector_result *result)
{
    char trace[4096], out[4096], err[4096];

    (void)fflush(stdout);
    int saved_out = redirect(STDOUT_FILENO, file_of(b, run, "out", out));
    int saved_err = redirect(STDERR_FILENO, file_of(b, run, "err", err));
    enum tb_status st = TB_OK;
    if (saved_out < 0 || saved_err < 0)
        st = tb_fail_sys(&b->err, TB_ERR_IO, errno, "cannot write into '%s'", b->folder);
    else
        st = tb_cli_record(&b->rec, tb_bp_trace(b, run, trace), result, &b->err);
    restore(STDERR_FILENO, saved_err);
    restore(STDOUT_FILENO, saved_out);
    return st;
}

bool tb_bp_once(struct tb_bp *b, const bool *in, struct tb_bp_run *out)
{
    struct tb_collector_result result = {.exit_status = 0};

    if (b->stopped || b->at_limit || b->nothing || b->err.status != TB_OK)
        return false;
    if ((b->at_limit = b->runs == b->max_runs) || (b->stopped = signal_waits(SIG_UNBLOCK)) != 0)
        return false;
    *out = (struct tb_bp_run){.number = ++b->runs};
    show_progress(b);
    choose_pins(b, in);
    enum tb_status st = record(b, out, &result);
    int waits = signal_waits(SIG_BLOCK);
    if (st != TB_OK)
        return false;
    out->status = result.exit_status;
    out->wall_s = result.wall_s;
    read_last_line(b, out);
    if (waits || out->status == 128 + SIGINT || out->status == 128 + SIGTERM)
        b->stopped = waits ? waits : out->status;
    return b->stopped == 0;
}

/* ---------------------------------------------------------------- equal? */

static void quote(const char *line, char out[64])
{
    (void)snprintf(out, 64, "%.*s%s", (int)(strcspn(line, "\n") > 56 ? 56 : strcspn(line, "\n")),
                   line, strcspn(line, "\n") > 56 ? "..." : "");
    (void)tb_plain(out, false);
}

/* What was printed, line by line; false: the first line that differs is in b->difference */
static bool same_lines(struct tb_bp *b, FILE *x, FILE *y)
{
    char *line[2] = {NULL, NULL}, text[2][64];
    size_t room[2] = {0, 0};
    bool same = true;

    for (unsigned number = 1; same; number++) {
        ssize_t n = getline(&line[0], &room[0], x), m = getline(&line[1], &room[1], y);
        if (n < 0 && m < 0)
            break;
        same = n == m && memcmp(line[0], line[1], (size_t)n) == 0;
        if (same)
            continue;
        if (n < 0 || m < 0) {
            (void)snprintf(b->difference, sizeof(b->difference),
                           "one run printed %u line%s, the other more", number - 1,
                           number == 2 ? "" : "s");
            continue;
        }
        quote(line[0], text[0]);
        quote(line[1], text[1]);
        (void)snprintf(b->difference, sizeof(b->difference), "line %u of the output: '%s', '%s'",
                       number, text[0], text[1]);
    }
    free(line[0]);
    free(line[1]);
    return same;
}

static enum tb_bp_outcome compare_output(struct tb_bp *b, const struct tb_bp_run *x,
                                         const struct tb_bp_run *y)
{
    char path[4096];
    FILE *a = fopen(file_of(b, x, "out", path), "re");
    FILE *c = fopen(file_of(b, y, "out", path), "re");
    enum tb_bp_outcome outcome = TB_BP_STOPPED;

    if (a && c)
        outcome = same_lines(b, a, c) ? TB_BP_SAME : TB_BP_DIFFER;
    else
        (void)tb_fail_sys(&b->err, TB_ERR_IO, errno, "cannot read '%s'", path);
    if (a)
        (void)fclose(a);
    if (c)
        (void)fclose(c);
    return outcome;
}

/* The first comparison settles by what runs are compared, unless that was said */
static void decide(struct tb_bp *b, const struct tb_diff_report *r)
{
    bool something = r && (r->root_count > 0 || r->compared + r->skipped > 0);

    b->decided = true;
    b->by_output = b->compare == TB_BP_OUTPUT || (b->compare == TB_BP_AUTO && !something);
    b->nothing = !b->by_output && !something;
}

static enum tb_bp_outcome take_report(struct tb_bp *b, const struct tb_diff_report *r)
{
    if (r->verdict == TB_DIFF_DIVERGED) {
        (void)snprintf(b->difference, sizeof(b->difference), "%s", r->reason);
        return TB_BP_DIFFER;
    }
    if (r->verdict == TB_DIFF_UNKNOWN && !b->uncovered[0])
        (void)snprintf(b->uncovered, sizeof(b->uncovered), "%s", r->reason);
    return TB_BP_SAME;
}

static enum tb_bp_outcome compare_traces(struct tb_bp *b, const struct tb_bp_run *x,
                                         const struct tb_bp_run *y)
{
    char a[4096], c[4096];
    struct tb_diff_report *report = NULL;
    struct tb_error err = {0};

    if (tb_diff_run(&report, tb_bp_trace(b, x, a), tb_bp_trace(b, y, c), NULL, &err) != TB_OK) {
        b->err = err;
        return TB_BP_STOPPED;
    }
    if (!b->decided)
        decide(b, report);
    enum tb_bp_outcome outcome = b->nothing     ? TB_BP_STOPPED
                                 : b->by_output ? compare_output(b, x, y)
                                                : take_report(b, report);
    tb_diff_free(report);
    return outcome;
}

enum tb_bp_outcome tb_bp_compare(struct tb_bp *b, const struct tb_bp_run *x,
                                 const struct tb_bp_run *y)
{
    if (x->status != y->status) {
        (void)snprintf(b->difference, sizeof(b->difference), "status %d, %d", x->status, y->status);
        return TB_BP_DIFFER;
    }
    if (!b->decided && b->compare == TB_BP_OUTPUT)
        decide(b, NULL);
    return b->decided && b->by_output ? compare_output(b, x, y) : compare_traces(b, x, y);
}

enum tb_bp_outcome tb_bp_trial(struct tb_bp *b, const bool *in, uint64_t n)
{
    struct tb_bp_run first = {.number = 0}, now = {.number = 0};
    enum tb_bp_outcome outcome = TB_BP_SAME;

    for (uint64_t i = 0; i < n && outcome == TB_BP_SAME; i++) {
        bool more = tb_bp_once(b, in, &now);
        if (!more)
            outcome = TB_BP_STOPPED;
        else if (!b->any_status && now.status != b->status)
            outcome = TB_BP_UNUSABLE;
        else if (i > 0)
            outcome = tb_bp_compare(b, &first, &now);
        if (i == 0)
            first = now;
        else if (outcome == TB_BP_SAME)
            tb_bp_drop(b, &now);
    }
    tb_bp_drop(b, &first);
    tb_bp_drop(b, &now);
    return outcome;
}
