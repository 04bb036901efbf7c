/* What the logs of a job's processes say of pins: draws, listings, names, seeds, orders. */
#include "collector/draws.h"

#include <stdio.h>
#include <string.h>

#include "collector/collector_internal.h"
#include "deterministic/plan.h"
#include "deterministic/preload/config.h"

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

/* What a SEED record says; texts are not ended by NUL */
struct seed {
    char given[80], asked[80];
    const char *where;
    size_t where_n;
};

/* Others' bytes among printable ones */
static void put_text(char *to, size_t room, const char *text, size_t n)
{
    size_t i;

    for (i = 0; i < n && i + 1 < room; i++)
        to[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    to[i] = 0;
}

static bool read_text(struct seed *s, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    const char *text = (const char *)e->payload + sizeof(struct tb_preload_seed_text);
    struct tb_preload_seed_text head;

    if (r->payload < sizeof(head))
        return false;
    memcpy(&head, e->payload, sizeof(head));
    uint64_t both = (uint64_t)head.given + head.asked, all = r->payload - sizeof(head);
    if (both > all || tb_preload_hash(0, text, head.given) == r->asked)
        return false;
    put_text(s->given, sizeof(s->given), text, head.given);
    put_text(s->asked, sizeof(s->asked), text + head.given, head.asked);
    s->where = text + both;
    s->where_n = all - both;
    return true;
}

/* false: the job got what it asked for */
static bool read_seed(struct seed *s, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    uint64_t given;

    if (r->served == 1)
        return read_text(s, e);
    if (r->payload < sizeof(given))
        return false;
    memcpy(&given, e->payload, sizeof(given));
    (void)put_seed(s->given, sizeof(s->given), given, r->served);
    (void)put_seed(s->asked, sizeof(s->asked), r->asked, r->served);
    s->where = (const char *)e->payload + sizeof(given);
    s->where_n = r->payload - sizeof(given);
    return given != r->asked;
}

static void count_seed(struct tb_draws_counts *c, const struct tb_preload_event *e)
{
    struct seed s;

    c->seeds++;
    if (!read_seed(&s, e) || c->changed++)
        return;
    int n = snprintf(c->seed, sizeof(c->seed), "%s in place of %s", s.given, s.asked);
    size_t room = sizeof(c->seed) - (size_t)n;
    if (s.where_n)
        (void)snprintf(c->seed + n, room, " at %.*s", (int)s.where_n, s.where);
    else
        (void)snprintf(c->seed + n, room, " by %.60s+0x%llx", e->module[0] ? e->module : "?",
                       (unsigned long long)e->offset);
}

/* of a loader's indices: _data.py, _END; of an iterator's results: _order.py, _ENDED;
 * of what was cancelled: _order_async.py, _CANCELLED */
static bool is_end(const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    int32_t number = 0;

    if (r->kind == TB_PRELOAD_COMPLETION && r->payload == sizeof(number))
        memcpy(&number, e->payload, sizeof(number));
    return number <= -2 ||
           (r->kind == TB_PRELOAD_INDICES && r->payload == 1 && *(const char *)e->payload == 'E');
}

/* Of one stream they have an order, streams among each other have none: threads write at once. */
static void count_decision(struct tb_draws_counts *c, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;
    struct tb_draws_order *o = &c->order[r->kind - TB_PRELOAD_STREAM];

    c->others += r->kind == TB_PRELOAD_STREAM && (r->marks & TB_PRELOAD_OTHER_CALLER);
    if (r->kind == TB_PRELOAD_PARTED && c->parted++ == 0)
        (void)snprintf(c->first_parted, sizeof(c->first_parted), "%.*s", (int)r->payload,
                       (const char *)e->payload);
    o->decisions += !is_end(e) && (r->kind != TB_PRELOAD_TASK || r->payload == sizeof(uint64_t));
    o->pools += r->kind == TB_PRELOAD_TASK && !r->payload;
    o->put_back += (r->marks & TB_PRELOAD_PUT_BACK) != 0;
    o->hash += tb_preload_mix(tb_preload_mix(r->asked, r->n), r->hash);
    if (r->kind == TB_PRELOAD_PASS && r->payload == 21) { /* _data.py, _told_pass() */
        const char *value = e->payload;
        memcpy(&o->seed, value, sizeof(o->seed));
        memcpy(&o->epoch, value + 8, sizeof(o->epoch));
        o->again += value[20] != 0;
    }
}

void tb_draws_count(struct tb_draws_counts *c, const struct tb_preload_event *e)
{
    const struct tb_preload_record *r = e->record;

    if (tb_draws_count_cublas(&c->cublas, e))
        return;
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
        if (c->folders++ == 0)
            (void)snprintf(c->first_folder, sizeof(c->first_folder),
                           "%llu entries, by %.60s+0x%llx", (unsigned long long)r->asked,
                           e->module[0] ? e->module : "?", (unsigned long long)e->offset);
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
static void say_order(struct tb_pins *pins, const struct tb_preload_file *f,
                      const struct tb_draws_counts *c, const char *id, uint16_t kind, uint32_t mode,
                      const char *what)
{
    const struct tb_draws_order *o = &c->order[kind - TB_PRELOAD_STREAM];
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
    if (o->pools)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "; not followed: workers of %llu pools of multiprocessing",
                      (unsigned long long)o->pools);
    if (o->put_back)
        (void)snprintf(text + n, sizeof(text) - (size_t)n,
                       "; %llu put back to what they were, the job chose others",
                       (unsigned long long)o->put_back);
    say(pins, (pid_t)f->pid, program, id, mode, o->decisions + o->pools, true, text);
}

static void say_orders(struct tb_pins *pins, const struct tb_preload_file *f,
                       const struct tb_draws_counts *c, bool sorts)
{
    const uint32_t log = TB_PRELOAD_LOG;

    say_order(pins, f, c, "data.completion_order", TB_PRELOAD_COMPLETION,
              sorts ? TB_PRELOAD_PIN : log, "hand-outs");
    say_order(pins, f, c, "data.pool_threads", TB_PRELOAD_TASK, log, "tasks");
    say_order(pins, f, c, "data.in_order", TB_PRELOAD_ARRIVAL, log, "arrivals");
    say_order(pins, f, c, "data.shuffle", TB_PRELOAD_INDICES, log, "batches");
    say_order(pins, f, c, "data.distributed_sampler", TB_PRELOAD_PASS, log, "passes");
}

static void say_draws(struct tb_pins *pins, const struct tb_preload_file *f,
                      const struct tb_draws_counts *c)
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

void tb_draws_say(struct tb_pins *pins, const struct tb_preload_file *f,
                  const struct tb_draws_counts *c, bool sorts)
{
    say_draws(pins, f, c);
    say_orders(pins, f, c, sorts);
    tb_draws_say_cublas(pins, f, &c->cublas);
}
