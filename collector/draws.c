/*
 * Decisions that the job draws from the system: random bytes, the order of folders, names of
 * temporary files; and those that its Python makes: orders of futures, batches and samples. A
 * preloaded library answers for libc or only looks (deterministic/preload/); its logs go into the
 * trace, from where `twinbit replay` hands them to another run. The front's.
 */
#include "collector/collector_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deterministic/plan.h"
#include "deterministic/preload/config.h"
#include "deterministic/preload/log.h"
#include "deterministic/preload/reach.h"

#define LOG_MOST (64u << 20) /* bytes of one process's log that a trace keeps */

struct tb_draws {
    struct tb_preload_config config;
    bool sorts; /* data.completion_order=@sort */
    char path[200], folder[200];
    uint64_t unread, dropped; /* logs and records for which there was no room */
    uint64_t folders;         /* of a replay: listings of other names than it has */
    uint64_t unknown, others; /* of a replay: not in its log, asked for by another caller */
    uint64_t parted;          /* of a replay: orders that are not as recorded */
    char first[200];          /* of the unknown ones */
    uint64_t seeds;           /* that are not what the job asked for */
    char seed[200];           /* the first of these */
    struct tb_unreached unreached, seen;
    char first_parted[400];
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

enum tb_status tb_draws_open(struct tb_draws **out, const struct tb_pin_plan *plan,
                             const char *replay, const char *folder, struct tb_error *err)
{
    struct tb_draws *d = plan ? calloc(1, sizeof(*d)) : NULL;

    if (!d)
        return plan ? tb_fail(err, TB_ERR_NOMEM, "no memory for the collector") : TB_OK;
    struct tb_preload_config *c = &d->config;
    const struct tb_pin_choice *ends = tb_pin_choice_of(plan, "data.completion_order");
    d->sorts = ends && ends->request == TB_PIN_SET;
    c->seed = plan->seed;
    c->entropy = mode_of(plan, "system.entropy", replay != NULL);
    c->listing = mode_of(plan, "system.readdir", replay != NULL);
    c->tempnames = mode_of(plan, "system.tempnames", replay != NULL);
    c->seeds = mode_of(plan, "system.time_seeds", replay != NULL);
    c->time = plan->decisions || replay ? TB_PRELOAD_LOG : TB_PRELOAD_OFF;
    c->value_limit = 512u << 10; /* of one answer: a replay needs it whole */
    c->flags = (plan->all_entropy ? TB_PRELOAD_ALL_CALLERS : 0u) |
               (plan->decisions || replay ? TB_PRELOAD_DECISIONS : 0u) |
               (mode_of(plan, "system.rdrand", replay != NULL) == TB_PRELOAD_OFF
                    ? TB_PRELOAD_NO_RANDOM_DEVICE
                    : 0u);
    if (!c->entropy && !c->listing && !c->tempnames && !c->seeds && !c->time) {
        free(d);
        return TB_OK;
    }
    (void)snprintf(d->path, sizeof(d->path), "%.150s/draws.config", folder);
    (void)snprintf(d->folder, sizeof(d->folder), "%.150s/draws", folder);
    (void)snprintf(c->folder, sizeof(c->folder), "%s", d->folder);
    (void)snprintf(c->replay, sizeof(c->replay), "%s", replay ? replay : "");
    enum tb_status st = tb_preload_config_write(d->path, c, err);
    if (st == TB_OK)
        *out = d;
    else
        tb_draws_free(d);
    return st;
}

bool tb_draws_environment(const struct tb_draws *d, char **env, size_t *count, const char *libdir)
{
    char path[TB_COL_TEXT];

    if (!d)
        return true;
    (void)snprintf(path, sizeof(path), "%s/libtwinbit_pins.so", libdir);
    const char *asan = tb_environment_value(env, "ASAN_OPTIONS");
    bool told = asan && strstr(asan, "verify_asan_link_order=0"); /* by libtwinbit.so */
    return tb_environment_set(env, count, "LD_PRELOAD", path, ':', true) &&
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
    return d ? d->unreached.count : 0;
}

static void take_unreached(struct tb_draws *d, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    const char *program = e->payload;

    if (r->payload > 0 && program[r->payload - 1] == 0)
        tb_unreached_add(&d->unreached, program,
                         tb_preload_reach_text((enum tb_preload_reach)r->asked), 1);
}

/* ---------------------------------------------------------------- what a process drew */

struct counts {
    uint64_t draws, real, exempt, devices, listings, names, readers, unknown, others, folders;
    char first[160]; /* what a replay did not find: the first */
    uint64_t seeds, changed;
    char seed[200];  /* the first that was changed */
    uint64_t parted; /* orders that a replay could not repeat */
    char first_parted[400];
    struct order {
        uint64_t decisions, put_back, hash, again;
        int64_t seed, epoch; /* of a sampler's last pass */
    } order[TB_PRELOAD_DECISIONS_END - TB_PRELOAD_STREAM];
};

static bool is_draw(uint16_t kind)
{
    return kind >= TB_PRELOAD_GETRANDOM && kind <= TB_PRELOAD_RANDOM_DEVICE;
}

/* A seed as people write it: a double is one by its bits */
static int put_seed(char *text, size_t room, uint64_t seed, uint64_t bits)
{
    double x;

    memcpy(&x, &seed, sizeof(x));
    return bits ? snprintf(text, room, "%llu", (unsigned long long)seed)
                : snprintf(text, room, "%.17g", x);
}

static void count_seed(struct counts *c, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    uint64_t given;

    c->seeds++;
    if (r->payload < sizeof(given))
        return;
    memcpy(&given, e->payload, sizeof(given));
    if (given == r->asked || c->changed++)
        return;
    int n = put_seed(c->seed, sizeof(c->seed), given, r->served), room = (int)sizeof(c->seed);
    n += snprintf(c->seed + n, (size_t)(room - n), " in place of ");
    n += put_seed(c->seed + n, (size_t)(room - n), r->asked, r->served);
    if (r->payload > sizeof(given))
        (void)snprintf(c->seed + n, (size_t)(room - n), " at %.*s",
                       (int)(r->payload - sizeof(given)), (const char *)e->payload + sizeof(given));
    else
        (void)snprintf(c->seed + n, (size_t)(room - n), " by %.60s+0x%llx",
                       e->module[0] ? e->module : "?", (unsigned long long)e->offset);
}

/* Of one stream they have an order, streams among each other have none: threads write at once. */
static void count_decision(struct counts *c, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    struct order *o = &c->order[r->kind - TB_PRELOAD_STREAM];

    c->others += r->kind == TB_PRELOAD_STREAM && (r->marks & TB_PRELOAD_OTHER_CALLER);
    if (r->kind == TB_PRELOAD_PARTED && c->parted++ == 0)
        (void)snprintf(c->first_parted, sizeof(c->first_parted), "%.*s", (int)r->payload,
                       (const char *)e->payload);
    o->decisions++;
    o->put_back += (r->marks & TB_PRELOAD_PUT_BACK) != 0;
    o->hash += tb_preload_mix(tb_preload_mix(r->asked, r->n), r->hash);
    if (r->kind == TB_PRELOAD_PASS && r->payload == 21) { /* _data.py, _told_pass() */
        const char *value = e->payload;
        memcpy(&o->seed, value, sizeof(o->seed));
        memcpy(&o->epoch, value + 8, sizeof(o->epoch));
        o->again += value[20] != 0;
    }
}

static void count(struct counts *c, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;

    if (tb_preload_is_decision(r->kind)) {
        count_decision(c, e);
        return;
    }
    c->draws += is_draw(r->kind);
    c->real += is_draw(r->kind) && (r->marks & TB_PRELOAD_REAL) && !(r->marks & TB_PRELOAD_EXEMPT);
    c->exempt += is_draw(r->kind) && (r->marks & TB_PRELOAD_EXEMPT);
    c->devices += r->kind == TB_PRELOAD_RANDOM_DEVICE;
    c->listings += r->kind == TB_PRELOAD_LISTING;
    c->names += r->kind == TB_PRELOAD_TEMPNAME;
    c->readers += r->kind == TB_PRELOAD_TIME;
    if (r->kind == TB_PRELOAD_SEED)
        count_seed(c, e);
    c->others += (r->marks & TB_PRELOAD_OTHER_CALLER) != 0;
    if (!(r->marks & TB_PRELOAD_NOT_IN_LOG))
        return;
    if (r->kind == TB_PRELOAD_LISTING) { /* it holds other names than then */
        c->folders++;
        return;
    }
    if (c->unknown++ == 0)
        (void)snprintf(c->first, sizeof(c->first), "%s of %llu by %.60s+0x%llx",
                       tb_preload_kind_name(r->kind), (unsigned long long)r->asked,
                       e->module[0] ? e->module : "?", (unsigned long long)e->offset);
}

static void say(struct tb_pins *pins, pid_t pid, const char *program, const char *id, uint32_t mode,
                uint64_t n, bool ok, const char *value)
{
    if (n)
        tb_pins_say(pins, pid, program, id,
                    mode == TB_PRELOAD_LOG ? TB_PIN_WAS_READ
                    : ok                   ? TB_PIN_WAS_HELD
                                           : TB_PIN_WAS_MISSED,
                    value);
}

/* "24 batches, order 0123456789abcdef" */
static void say_order(struct tb_pins *pins, const struct tb_preload_file *f, const struct counts *c,
                      const char *id, uint16_t kind, uint32_t mode, const char *what)
{
    const struct order *o = &c->order[kind - TB_PRELOAD_STREAM];
    char text[300], program[sizeof(f->program) + 1];

    (void)snprintf(program, sizeof(program), "%.*s", (int)sizeof(f->program), f->program);
    int n = snprintf(text, sizeof(text), "%llu %s, order %016llx", (unsigned long long)o->decisions,
                     what, (unsigned long long)o->hash);
    if (kind == TB_PRELOAD_PASS)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", the last with seed %lld, epoch %lld",
                      (long long)o->seed, (long long)o->epoch);
    if (o->again)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "; %llu repeat the one before: set_epoch() was not called",
                      (unsigned long long)o->again);
    if (o->put_back)
        (void)snprintf(text + n, sizeof(text) - (size_t)n,
                       "; %llu put back to what they were, the job chose others",
                       (unsigned long long)o->put_back);
    say(pins, (pid_t)f->pid, program, id, mode, o->decisions, true, text);
}

static void say_orders(struct tb_pins *pins, const struct tb_preload_file *f,
                       const struct counts *c, bool sorts)
{
    const uint32_t log = TB_PRELOAD_LOG;

    say_order(pins, f, c, "data.completion_order", TB_PRELOAD_COMPLETION,
              sorts ? TB_PRELOAD_PIN : log, "hand-outs");
    say_order(pins, f, c, "data.in_order", TB_PRELOAD_ARRIVAL, log, "arrivals");
    say_order(pins, f, c, "data.shuffle", TB_PRELOAD_INDICES, log, "batches");
    say_order(pins, f, c, "data.distributed_sampler", TB_PRELOAD_PASS, log, "passes");
}

static void say_all(struct tb_pins *pins, const struct tb_preload_file *f, const struct counts *c)
{
    char text[400], program[sizeof(f->program) + 1];
    pid_t pid = (pid_t)f->pid;

    (void)snprintf(program, sizeof(program), "%.*s", (int)sizeof(f->program), f->program);
    int n = snprintf(text, sizeof(text), "%llu draws", (unsigned long long)c->draws);
    if (c->exempt)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", %llu real ones of cryptography",
                      (unsigned long long)c->exempt);
    if (c->others)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", %llu by another caller than recorded",
                      (unsigned long long)c->others);
    if (f->dropped)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", %llu not written down: no room",
                      (unsigned long long)f->dropped);
    if (c->unknown)
        (void)snprintf(text + n, sizeof(text) - (size_t)n,
                       ", %llu not in the log that is replayed, first %s",
                       (unsigned long long)c->unknown, c->first);
    say(pins, pid, program, "system.entropy", c->draws > c->exempt ? f->entropy : TB_PRELOAD_LOG,
        c->draws, !c->real && !c->unknown, text);
    (void)snprintf(text, sizeof(text), "%llu values of std::random_device",
                   (unsigned long long)c->devices);
    say(pins, pid, program, "system.rdrand", f->entropy, c->devices, true, text);
    (void)snprintf(text, sizeof(text), "%llu folders", (unsigned long long)c->listings);
    say(pins, pid, program, "system.readdir", f->listing, c->listings, true, text);
    (void)snprintf(text, sizeof(text), "%llu names", (unsigned long long)c->names);
    say(pins, pid, program, "system.tempnames", f->tempnames, c->names, true, text);
    n = snprintf(text, sizeof(text), "%llu seeds", (unsigned long long)c->seeds);
    if (c->changed)
        (void)snprintf(text + n, sizeof(text) - (size_t)n, ", %llu of them changed, the first: %s",
                       (unsigned long long)c->changed, c->seed);
    say(pins, pid, program, "system.time_seeds", f->seeds, c->seeds, true, text);
    (void)snprintf(text, sizeof(text), "%llu callers", (unsigned long long)c->readers);
    say(pins, pid, program, "system.time", TB_PRELOAD_LOG, c->readers, true, text);
}

/* ---------------------------------------------------------------- into the trace */

/* The file up to where its process wrote, as it is */
static char *whole(const char *path, uint64_t bytes)
{
    char *data = bytes <= LOG_MOST ? malloc(bytes ? bytes : 1) : NULL;
    FILE *f = data ? fopen(path, "re") : NULL;

    if (!f || fread(data, 1, bytes, f) != bytes) {
        free(data);
        data = NULL;
    }
    if (f)
        (void)fclose(f);
    return data;
}

/* The log as a text of the trace, and its line in the list of them */
static enum tb_status keep(struct tb_store *store, const struct tb_draws *d, const char *name,
                           uint64_t bytes, FILE *list, struct tb_error *err)
{
    char path[TB_COL_TEXT], key[200];

    (void)snprintf(path, sizeof(path), "%s/%s", d->folder, name);
    (void)snprintf(key, sizeof(key), TB_DRAWS_LOG "%.150s", name);
    char *data = whole(path, bytes);
    enum tb_status st = data ? tb_store_text(store, key, data, bytes, err) : TB_OK;
    if (data)
        (void)fprintf(list, "%s\t%016llx\t%llu\n", name,
                      (unsigned long long)tb_preload_hash(0, data, bytes),
                      (unsigned long long)bytes);
    free(data);
    return st;
}

static enum tb_status one_log(struct tb_draws *d, const struct tb_preload_logs *logs, size_t i,
                              struct tb_store *store, struct tb_pins *pins, FILE *list,
                              struct tb_error *err)
{
    struct tb_preload_log *log = NULL;
    struct tb_preload_event e;
    struct counts c = {0};
    enum tb_status st = tb_preload_log_at(logs, i, &log, err);

    if (st == TB_ERR_FORMAT) { /* there was no room for its head */
        d->unread++;
        return TB_OK;
    }
    if (st != TB_OK)
        return st;
    d->dropped += tb_preload_log_file(log)->dropped;
    const struct tb_preload_file *f = tb_preload_log_file(log);
    while (tb_preload_log_next(log, &e))
        if (e.record->kind == TB_PRELOAD_UNREACHED)
            take_unreached(d, &e);
        else
            count(&c, &e);
    say_all(pins, f, &c);
    say_orders(pins, f, &c, d->sorts);
    if (c.unknown && !d->unknown)
        (void)snprintf(d->first, sizeof(d->first), "%.150s", c.first);
    if (c.changed && !d->seeds)
        (void)snprintf(d->seed, sizeof(d->seed), "%s", c.seed);
    d->seeds += c.changed;
    if (c.parted && !d->parted)
        (void)snprintf(d->first_parted, sizeof(d->first_parted), "%s", c.first_parted);
    d->parted += c.parted;
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
    enum tb_status st = tb_preload_logs_open(d->folder, &logs, err);
    FILE *list = st == TB_OK ? open_memstream(&text, &n) : NULL;
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
    free(text);
    tb_preload_logs_close(logs);
    return st;
}

void tb_draws_report(const struct tb_draws *d, void (*line)(void *arg, const char *text), void *arg)
{
    char text[400];

    if (d)
        tb_unreached_report(&d->unreached, line, arg);
    if (d && (d->unread || d->dropped)) {
        (void)snprintf(
            text, sizeof(text),
            "of what the job drew from the system %llu answers and %llu processes were not "
            "written down, for want of room below TMPDIR: a replay lacks them",
            (unsigned long long)d->dropped, (unsigned long long)d->unread);
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
        (void)snprintf(text, sizeof(text),
                       "replay: %llu listing%s of other names than recorded, in byte order now",
                       (unsigned long long)d->folders, d->folders == 1 ? " is" : "s are");
        line(arg, text);
    }
    if (d && d->others) {
        (void)snprintf(text, sizeof(text),
                       "replay: %llu decision%s asked for by another caller than recorded",
                       (unsigned long long)d->others, d->others == 1 ? " was" : "s were");
        line(arg, text);
    }
}
