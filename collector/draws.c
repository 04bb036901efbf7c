/*
 * Decisions that the job draws from the system: random bytes, the order of folders, names of
 * temporary files; and those that its Python makes: orders of futures, batches and samples. A
 * preloaded library answers for libc or only looks (deterministic/preload/); its logs go into the
 * trace, from where `twinbit replay` hands them to another run. The front's.
 */
#include "collector/draws.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/collector_internal.h"
#include "collector/instructions.h"
#include "deterministic/cublas/cublas.h"
#include "deterministic/plan.h"
#include "deterministic/preload/config.h"
#include "deterministic/preload/log.h"
#include "deterministic/preload/reach.h"

#define LOG_MOST (256u << 20) /* bytes of one process's log: it ends there by itself */

struct tb_draws {
    struct tb_preload_config config;
    bool sorts; /* data.completion_order=@sort */
    char path[200], folder[200];
    uint64_t unread, dropped; /* logs and records for which there was no room */
    uint64_t folders;         /* of a replay: listings of other names than it has */
    uint64_t unknown, others; /* of a replay: not in its log, asked for by another caller */
    uint64_t parted;          /* of a replay: orders that are not as recorded */
    char first[200];          /* of the unknown ones */
    char first_folder[120];   /* of the listings */
    uint64_t seeds;           /* that are not what the job asked for */
    char seed[200];           /* the first of these */
    struct tb_unreached unreached, seen;
    struct tb_instructions *code; /* NULL: nobody asks */
    char first_parted[400];
    struct tb_draws_cublas cublas;
    const struct tb_preload_shared *table; /* or NULL */
    struct tb_draws_lost lost;
    char cublas_words[64]; /* for libtwinbit_cublas.so, "": it is not wanted */
};

static uint32_t mode_of(const struct tb_pin_plan *plan, const char *id, bool replay)
{
    const struct tb_pin_choice *c = tb_pin_choice_of(plan, id);

    if (replay)
        return TB_PRELOAD_REPLAY;
    if (c && c->request == TB_PIN_SET)
        return TB_PRELOAD_PIN;
    return plan->decisions && c && c->request == TB_PIN_READ ? TB_PRELOAD_LOG : TB_PRELOAD_OFF;
}

/* The library that answers for cuBLAS is put into jobs alone that ask for one of its pins. */
static void want_cublas(struct tb_draws *d, const struct tb_pin_plan *plan)
{
    const struct tb_pin_choice *atomics = tb_pin_choice_of(plan, "cuda.cublas_atomics");
    const struct tb_pin_choice *named = tb_pin_choice_of(plan, "cuda.cublaslt_heuristics");
    bool set = atomics && atomics->request == TB_PIN_SET;
    bool log = named && named->request == TB_PIN_READ && strcmp(named->value, "@log") == 0 &&
               plan->decisions;

    (void)snprintf(d->cublas_words, sizeof(d->cublas_words), "%s%s%s%s",
                   set ? TB_CUBLAS_ATOMICS : "", set && plan->force ? "," TB_CUBLAS_FORCE : "",
                   set && log ? "," : "", log ? TB_CUBLAS_HEURISTICS : "");
}

enum tb_status tb_draws_open(struct tb_draws **out, const struct tb_pin_plan *plan,
                             const char *replay, const char *folder, struct tb_error *err)
{
    struct tb_draws *d = plan ? calloc(1, sizeof(*d)) : NULL;

    if (!d)
        return plan ? tb_fail(err, TB_ERR_NOMEM, "no memory for the collector") : TB_OK;
    struct tb_preload_config *c = &d->config;
    const struct tb_pin_choice *ends = tb_pin_choice_of(plan, "data.completion_order");
    d->sorts = ends && ends->request == TB_PIN_SET;
    want_cublas(d, plan);
    d->code = tb_instructions_new(plan);
    c->seed = plan->seed;
    c->entropy = mode_of(plan, "system.entropy", replay != NULL);
    c->listing = mode_of(plan, "system.readdir", replay != NULL);
    c->tempnames = mode_of(plan, "system.tempnames", replay != NULL);
    c->seeds = mode_of(plan, "system.time_seeds", replay != NULL);
    c->time = plan->decisions || replay ? TB_PRELOAD_LOG : TB_PRELOAD_OFF;
    c->value_limit = 512u << 10; /* of one answer: a replay needs it whole */
    c->flags = (plan->all_entropy ? TB_PRELOAD_ALL_CALLERS : 0u) |
               (plan->decisions || replay ? TB_PRELOAD_DECISIONS : 0u) |
               (d->code ? TB_PRELOAD_FILES : 0u) |
               (mode_of(plan, "system.rdrand", replay != NULL) == TB_PRELOAD_OFF
                    ? TB_PRELOAD_NO_RANDOM_DEVICE
                    : 0u);
    if (!c->entropy && !c->listing && !c->tempnames && !c->seeds && !c->time) {
        tb_instructions_free(d->code);
        free(d);
        return TB_OK;
    }
    (void)snprintf(d->path, sizeof(d->path), "%.150s/draws.config", folder);
    (void)snprintf(d->folder, sizeof(d->folder), "%.150s/draws", folder);
    (void)snprintf(c->folder, sizeof(c->folder), "%s", d->folder);
    (void)snprintf(c->replay, sizeof(c->replay), "%s", replay ? replay : "");
    enum tb_status st = tb_preload_config_write(d->path, c, err);
    if (st == TB_OK) {
        d->table = tb_draws_table(d->folder);
        *out = d;
    } else {
        tb_draws_free(d);
    }
    return st;
}

static bool set_cublas(const struct tb_draws *d, char **env, size_t *count, const char *libdir)
{
    char path[TB_COL_TEXT];

    if (!d->cublas_words[0])
        return true;
    (void)snprintf(path, sizeof(path), "%s/libtwinbit_cublas.so", libdir);
    return tb_environment_set(env, count, "LD_PRELOAD", path, ':', true) &&
           tb_environment_set(env, count, TB_CUBLAS_ENV, d->cublas_words, 0, true);
}

bool tb_draws_environment(const struct tb_draws *d, char **env, size_t *count, const char *libdir)
{
    char path[TB_COL_TEXT];

    if (!d)
        return true;
    (void)snprintf(path, sizeof(path), "%s/libtwinbit_pins.so", libdir);
    const char *asan = tb_environment_value(env, "ASAN_OPTIONS");
    bool told = asan && strstr(asan, "verify_asan_link_order=0"); /* by libtwinbit.so */
    return set_cublas(d, env, count, libdir) &&
           tb_environment_set(env, count, "LD_PRELOAD", path, ':', true) &&
           (told || tb_environment_set(env, count, "ASAN_OPTIONS", "verify_asan_link_order=0", ':',
                                       false)) &&
           tb_environment_set(env, count, TB_PRELOAD_ENV, d->path, 0, true);
}

/* Its files; those that a process still writes go when it ends */
static void empty_folder(const struct tb_draws *d)
{
    DIR *dir = opendir(d->folder);
    char path[TB_COL_TEXT];

    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        (void)snprintf(path, sizeof(path), "%s/%s", d->folder, e->d_name);
        if (e->d_name[0] != '.')
            (void)unlink(path);
    }
    if (dir)
        (void)closedir(dir);
}

void tb_draws_free(struct tb_draws *d)
{
    if (!d)
        return;
    (void)unlink(d->path); /* what starts from now on passes all on */
    for (int i = 0; i < 20; i++) {
        empty_folder(d);
        if (rmdir(d->folder) == 0 || errno != ENOTEMPTY)
            break;
        (void)usleep(5000); /* one that was starting has made its log meanwhile */
    }
    tb_draws_table_free(d->table);
    tb_instructions_free(d->code);
    free(d);
}

/* ---------------------------------------------------------------- programs without it */

void tb_draws_first(struct tb_draws *d, const char *path, char *const *env)
{
    char program[TB_COL_TEXT];

    if (!d)
        return;
    enum tb_preload_reach reach = tb_preload_reach(AT_FDCWD, path, env, program, sizeof(program));
    if (reach != TB_REACH_YES && reach != TB_REACH_NO_PROGRAM)
        tb_unreached_add(&d->unreached, program, tb_preload_reach_text(reach), 1);
}

void tb_draws_unseen(void *d, const char *program, const char *why)
{
    tb_unreached_add(&((struct tb_draws *)d)->seen, program, why, 1);
}

uint64_t tb_draws_rows(const struct tb_draws *d)
{
    return d ? d->unreached.count + tb_instructions_rows(d->code) + tb_draws_lost_rows(&d->lost)
             : 0;
}

static void take_unreached(struct tb_draws *d, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    const char *program = e->payload;

    if (r->payload > 0 && program[r->payload - 1] == 0)
        tb_unreached_add(&d->unreached, program,
                         tb_preload_reach_text((enum tb_preload_reach)r->asked), 1);
}

static void take_file(struct tb_draws *d, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    const char *path = e->payload;

    if (r->asked == 2)
        tb_instructions_end(d->code);
    else if (r->payload > 0 && path[r->payload - 1] == 0)
        tb_instructions_add(d->code, path, r->asked != 0);
}

/* What is in the code of all programs; of those without the library the libraries are not known */
static enum tb_status look_into_code(struct tb_draws *d, struct tb_store *store,
                                     struct tb_pins *pins, struct tb_error *err)
{
    for (uint32_t i = 0; i < d->unreached.count; i++)
        if (!d->unreached.row[i].python)
            tb_instructions_add(d->code, d->unreached.row[i].program, true);
    tb_instructions_look(d->code);
    tb_instructions_say(d->code, pins);
    return tb_instructions_store(d->code, store, err);
}

/* ---------------------------------------------------------------- into the trace */

/* The file up to where its process wrote; one that could not grow any more ends before that, at
 * @*bytes then */
static char *whole(const char *path, uint64_t *bytes)
{
    char *data = *bytes <= LOG_MOST ? malloc(*bytes ? *bytes : 1) : NULL;
    FILE *f = data ? fopen(path, "re") : NULL;
    size_t n = f ? fread(data, 1, *bytes, f) : 0;

    if (n < TB_PRELOAD_LOG_START || ferror(f)) {
        free(data);
        data = NULL;
    }
    *bytes = n;
    if (f)
        (void)fclose(f);
    return data;
}

static enum tb_status keep(struct tb_store *store, struct tb_draws *d, const char *name,
                           uint64_t bytes, FILE *list, struct tb_error *err)
{
    char path[TB_COL_TEXT], key[200];

    (void)snprintf(path, sizeof(path), "%s/%s", d->folder, name);
    (void)snprintf(key, sizeof(key), TB_DRAWS_LOG "%.150s", name);
    char *data = whole(path, &bytes);
    enum tb_status st = data ? tb_store_text(store, key, data, bytes, err) : TB_OK;
    if (data)
        (void)fprintf(list, "%s\t%016llx\t%llu\n", name,
                      (unsigned long long)tb_preload_hash(0, data, bytes),
                      (unsigned long long)bytes);
    else
        d->unread++;
    free(data);
    return st;
}

static enum tb_status one_log(struct tb_draws *d, const struct tb_preload_logs *logs, size_t i,
                              struct tb_store *store, struct tb_pins *pins, FILE *list,
                              struct tb_error *err)
{
    struct tb_preload_log *log = NULL;
    struct tb_preload_event e;
    struct tb_draws_counts c = {0};
    enum tb_status st = tb_preload_log_at(logs, i, &log, err);

    if (st == TB_ERR_FORMAT) { /* there was no room for its head */
        d->unread++;
        return TB_OK;
    }
    if (st != TB_OK)
        return st;
    d->dropped += tb_preload_log_file(log)->dropped;
    const struct tb_preload_file *f = tb_preload_log_file(log);
    tb_instructions_process(d->code);
    while (tb_preload_log_next(log, &e))
        if (e.record->kind == TB_PRELOAD_UNREACHED)
            take_unreached(d, &e);
        else if (e.record->kind == TB_PRELOAD_FILE)
            take_file(d, &e);
        else
            tb_draws_count(&c, &e);
    tb_draws_say(pins, f, &c, d->sorts);
    if (c.unknown && !d->unknown)
        (void)snprintf(d->first, sizeof(d->first), "%.150s", c.first);
    if (c.changed && !d->seeds)
        (void)snprintf(d->seed, sizeof(d->seed), "%s", c.seed);
    d->seeds += c.changed;
    if (c.parted && !d->parted)
        (void)snprintf(d->first_parted, sizeof(d->first_parted), "%s", c.first_parted);
    if (c.folders && !d->folders)
        (void)snprintf(d->first_folder, sizeof(d->first_folder), "%s", c.first_folder);
    d->parted += c.parted;
    tb_draws_add_cublas(&d->cublas, &c.cublas);
    d->unknown += c.unknown;
    d->others += c.others;
    d->folders += c.folders;
    st = keep(store, d, tb_preload_logs_name(logs, i), f->end, list, err);
    tb_preload_log_close(log);
    return st;
}

enum tb_status tb_draws_store(struct tb_draws *d, struct tb_store *store, struct tb_pins *pins,
                              const struct tb_syscalls *syscalls, struct tb_error *err)
{
    struct tb_preload_logs *logs = NULL;
    char *text = NULL;
    size_t n = 0;

    if (!d)
        return TB_OK;
    tb_draws_lost_read(&d->lost, d->table, d->folder);
    enum tb_status st = d->lost.gone ? TB_OK : tb_preload_logs_open(d->folder, &logs, err);
    FILE *list = st == TB_OK && !d->lost.gone ? open_memstream(&text, &n) : NULL;
    for (size_t i = 0; list && st == TB_OK && i < tb_preload_logs_count(logs); i++)
        st = one_log(d, logs, i, store, pins, list, err);
    if (list && fflush(list) == 0) /* which has text and n brought up to now */
        (void)fprintf(list, "end\t%016llx\n", (unsigned long long)tb_preload_hash(0, text, n));
    if (list && fclose(list) == 0 && st == TB_OK)
        st = tb_store_text(store, TB_DRAWS_LIST, text, n, err);
    tb_unreached_merge(&d->unreached, &d->seen);
    tb_unreached_answered(&d->unreached, syscalls);
    tb_unreached_say(&d->unreached, pins);
    if (st == TB_OK)
        st = tb_unreached_store(&d->unreached, store, err);
    if (st == TB_OK)
        st = tb_draws_lost_store(&d->lost, store, err);
    if (st == TB_OK)
        st = look_into_code(d, store, pins, err);
    free(text);
    tb_preload_logs_close(logs);
    return st;
}

/* "3 answers and 1 process were": what is 0 is not told */
static void unwritten(const struct tb_draws *d, char *out, size_t size)
{
    char answers[48] = "", processes[48] = "";

    if (d->dropped)
        (void)snprintf(answers, sizeof(answers), "%llu answer%s", (unsigned long long)d->dropped,
                       d->dropped == 1 ? "" : "s");
    if (d->unread)
        (void)snprintf(processes, sizeof(processes), "%llu process%s",
                       (unsigned long long)d->unread, d->unread == 1 ? "" : "es");
    (void)snprintf(out, size, "%s%s%s %s", answers, d->dropped && d->unread ? " and " : "",
                   processes, d->dropped + d->unread == 1 ? "was" : "were");
}

void tb_draws_report(const struct tb_draws *d, void (*line)(void *arg, const char *text), void *arg)
{
    char text[400];

    if (d)
        tb_unreached_report(&d->unreached, line, arg);
    if (d)
        tb_draws_lost_report(&d->lost, line, arg);
    if (d)
        tb_instructions_report(d->code, line, arg);
    if (d && (d->unread || d->dropped)) {
        char what[120];
        unwritten(d, what, sizeof(what));
        (void)snprintf(
            text, sizeof(text),
            d->config.entropy == TB_PRELOAD_REPLAY
                ? "replay: of what the job drew from the system %s not written down, as a process "
                  "may write 256 MiB: if the recorded run's were not either, they follow from the "
                  "seed, and are not what it had"
                : "of what the job drew from the system %s not written down: a process may write "
                  "256 MiB, and TMPDIR or a limit on the size of files may allow less: a replay "
                  "lacks that",
            what);
        line(arg, text);
    }
    if (d && d->seeds) {
        char first[sizeof(d->seed)]; /* with a line of the job's */
        (void)snprintf(first, sizeof(first), "%s", d->seed);
        (void)tb_plain(first, false);
        (void)snprintf(text, sizeof(text),
                       d->config.seeds == TB_PRELOAD_REPLAY
                           ? "replay: %llu seed%s not what the job asks for now, the first: %s"
                           : "pin system.time_seeds: %llu seed%s taken from the clock or the pid, "
                             "and given another "
                             "value: %s",
                       (unsigned long long)d->seeds, d->seeds == 1 ? " is" : "s are", first);
        line(arg, text);
    }
    if (d && d->unknown) {
        (void)snprintf(text, sizeof(text),
                       "replay: %llu decision%s not in the log, the first a %s; answered from the "
                       "seed",
                       (unsigned long long)d->unknown, d->unknown == 1 ? " was" : "s were",
                       d->first);
        line(arg, text);
    }
    if (d && d->parted) {
        char where[sizeof(d->first_parted)];
        (void)snprintf(where, sizeof(where), "%s", d->first_parted);
        (void)tb_plain(where, false);
        (void)snprintf(text, sizeof(text),
                       "replay: %llu order%s not as recorded, the first: %.300s",
                       (unsigned long long)d->parted, d->parted == 1 ? " is" : "s are", where);
        line(arg, text);
    }
    if (d && d->folders) {
        (void)snprintf(
            text, sizeof(text),
            "replay: %llu listing%s of other names than recorded, in byte order now, the "
            "first: %s",
            (unsigned long long)d->folders, d->folders == 1 ? " is" : "s are", d->first_folder);
        line(arg, text);
    }
    if (d)
        tb_draws_report_cublas(&d->cublas, line, arg);
    if (d && d->others) {
        (void)snprintf(text, sizeof(text),
                       "replay: %llu decision%s asked for by another caller than recorded",
                       (unsigned long long)d->others, d->others == 1 ? " was" : "s were");
        line(arg, text);
    }
}
