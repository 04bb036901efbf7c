#include "deterministic/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What strings of the plan point into */
struct tb_pin_text_list {
    struct tb_pin_text_list *next;
    char text[];
};

#define MAX_NOTES 32
#define MAX_LINE 4096

static const char *keep(struct tb_pin_plan *p, const char *text, size_t n)
{
    struct tb_pin_text_list *t = malloc(sizeof(*t) + n + 1);

    if (!t)
        return NULL;
    memcpy(t->text, text, n);
    t->text[n] = 0;
    t->next = p->texts;
    p->texts = t;
    return t->text;
}

struct tb_pin_plan *tb_pin_plan_new(void)
{
    struct tb_pin_plan *p = calloc(1, sizeof(*p));
    size_t count;
    const struct tb_pin *pins = tb_pins(&count);

    if (!p)
        return NULL;
    p->count = count;
    p->choice = calloc(count, sizeof(*p->choice));
    p->note = calloc(MAX_NOTES, sizeof(*p->note));
    if (!p->choice || !p->note) {
        tb_pin_plan_free(p);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        p->choice[i].pin = &pins[i];
    return p;
}

void tb_pin_plan_free(struct tb_pin_plan *p)
{
    if (!p)
        return;
    while (p->texts) {
        struct tb_pin_text_list *t = p->texts;
        p->texts = t->next;
        free(t);
    }
    for (size_t i = 0; i < p->notes; i++)
        free(p->note[i]);
    free(p->note);
    free(p->choice);
    free(p);
}

static enum tb_status no_memory(struct tb_error *err)
{
    return tb_fail(err, TB_ERR_NOMEM, "no memory for the list of pins");
}

static struct tb_pin_choice *find(const struct tb_pin_plan *p, const char *id)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->choice[i].pin->id, id) == 0)
            return &p->choice[i];
    return NULL;
}

const struct tb_pin_choice *tb_pin_choice_of(const struct tb_pin_plan *p, const char *id)
{
    return find(p, id);
}

bool tb_pin_sets_cache(const struct tb_pin_choice *c)
{
    return c->request == TB_PIN_SET && tb_pin_is_cache(c->pin);
}

const char *tb_pin_cache_from(const struct tb_pin_choice *c)
{
    return tb_pin_sets_cache(c) && strcmp(c->value, "@cache") != 0 ? c->value : NULL;
}

/* ---------------------------------------------------------------- choices */

static void leave(struct tb_pin_choice *c, bool own)
{
    *c = (struct tb_pin_choice){.pin = c->pin, .own = own};
}

/* What the catalogue or the user gives as a value, as a request */
static void ask(struct tb_pin_choice *c, const char *value, const char *source, bool own)
{
    const char *argument = "";
    const struct tb_pin_text *word = tb_pin_word(value, &argument);
    bool changes = tb_pin_changes(value), add = word && strcmp(word->name, "add") == 0;

    *c = (struct tb_pin_choice){.pin = c->pin, .own = own, .add = add, .source = source};
    c->value = add ? argument : value;
    if (c->pin->missing)
        c->request = changes || own ? TB_PIN_UNBUILT : TB_PIN_READ;
    else if (!changes)
        c->request = strcmp(value, "@keep") == 0 ? TB_PIN_KEEP : TB_PIN_READ;
    else
        c->request = TB_PIN_SET;
}

static void take_profile(struct tb_pin_plan *p, enum tb_pin_profile profile)
{
    p->profile = profile;
    for (size_t i = 0; i < p->count; i++) {
        struct tb_pin_choice *c = &p->choice[i];
        const char *value = tb_pin_value(c->pin, profile);
        leave(c, false);
        if (value)
            ask(c, value, tb_pin_profile_text(profile)->name, false);
    }
}

static enum tb_status unknown(const char *id, const char *source, struct tb_error *err)
{
    const struct tb_pin *near[1];
    enum tb_pin_profile profile;

    if (tb_pin_profile_find(id, &profile))
        return tb_fail(err, TB_ERR_ARG,
                       "%s: '%s' is a profile: it has no value and cannot be taken out", source,
                       id);

    if (tb_pin_near(id, near, 1) == 1)
        return tb_fail(err, TB_ERR_ARG,
                       "%s: there is no pin '%s': was '%s' meant? 'twinbit pins' "
                       "lists them",
                       source, id, near[0]->id);
    return tb_fail(err, TB_ERR_ARG,
                   "%s: there is no pin or profile '%s': 'twinbit pins' lists them "
                   "(a file of pins has a '/' in its name or ends in '.pins')",
                   source, id);
}

/* Words are looked at when the plan is finished */
static bool fits(const struct tb_pin *pin, const char *value)
{
    for (const char *c = value; *c; c++)
        if (tb_control(c))
            return false;
    return value[0] == '@' || tb_pin_fits(pin, value);
}

/* It can be counted or read back, and whatever is asked for has no effect. */
static bool is_only_seen(const struct tb_pin *pin)
{
    return pin->mechanism == TB_PIN_NONE || strncmp(pin->sets, "nothing", 7) == 0;
}

static enum tb_status take_pin(struct tb_pin_plan *p, const char *id, const char *value,
                               const char *source, struct tb_error *err)
{
    struct tb_pin_choice *c = find(p, id);
    char form[160];

    if (!c)
        return unknown(id, source, err);
    if (!value)
        value = tb_pin_alone(c->pin);
    if ((!value || value[0] != '@') && is_only_seen(c->pin))
        return tb_fail(err, TB_ERR_ARG,
                       "%s: '%s' can be seen, not held: nothing is known that sets "
                       "it",
                       source, id);
    if (!value)
        return tb_fail(err, TB_ERR_ARG,
                       "%s: '%s' has no value that holds for every job: give one, "
                       "%s=VALUE",
                       source, id, id);
    if (!fits(c->pin, value)) {
        tb_pin_form_text(c->pin, form, sizeof(form));
        return tb_fail(err, TB_ERR_ARG, "%s: '%s' is no value of pin '%s', which takes %s", source,
                       value, id, form);
    }
    if (value[0] == '@' && !tb_pin_word(value, NULL))
        return tb_fail(err, TB_ERR_ARG, "%s: '%s' is no word of values: docs/pins.md lists them",
                       source, value);
    ask(c, value, source, true);
    return TB_OK;
}

/* ---------------------------------------------------------------- items */

/* @text: without blanks at its ends */
static enum tb_status take_item(struct tb_pin_plan *p, const char *text, const char *source,
                                struct tb_error *err)
{
    char id[128];
    enum tb_pin_profile profile;
    size_t n = strcspn(text, "= \t");
    const char *rest = text + n + strspn(text + n, " \t");

    if (n == 0 || n >= sizeof(id) || (*rest && *rest != '='))
        return tb_fail(err, TB_ERR_ARG,
                       "%s: '%.80s' is neither a profile, a pin, '!ID' nor "
                       "'ID=VALUE'",
                       source, text);
    memcpy(id, text, n);
    id[n] = 0;
    if (*rest == '=') {
        rest += 1 + strspn(rest + 1, " \t");
        if (strcmp(id, "entropy") == 0 && strcmp(rest, "all") == 0) {
            p->all_entropy = true;
            return take_pin(p, "system.entropy", NULL, source, err);
        }
        const char *value = keep(p, rest, strlen(rest));
        return value ? take_pin(p, id, value, source, err) : no_memory(err);
    }
    if (id[0] == '!') {
        struct tb_pin_choice *c = find(p, id + 1);
        if (!c)
            return unknown(id + 1, source, err);
        leave(c, true);
        return TB_OK;
    }
    if (tb_pin_profile_find(id, &profile)) {
        take_profile(p, profile);
        return TB_OK;
    }
    return take_pin(p, id, NULL, source, err);
}

static char *trim(char *text)
{
    size_t n;

    text += strspn(text, " \t\r\n");
    for (n = strlen(text); n > 0 && strchr(" \t\r\n", text[n - 1]); n--)
        ;
    text[n] = 0;
    return text;
}

static enum tb_status take_line(struct tb_pin_plan *p, char *line, const char *path,
                                unsigned number, bool *any, struct tb_error *err)
{
    char source[320];
    char *hash = strchr(line, '#');

    if (hash && (hash == line || hash[-1] == ' ' || hash[-1] == '\t'))
        *hash = 0;
    line = trim(line);
    if (!*line)
        return TB_OK;
    *any = true;
    int n = snprintf(source, sizeof(source), "%.300s:%u", path, number);
    const char *kept = keep(p, source, (size_t)n);
    return kept ? take_item(p, line, kept, err) : no_memory(err);
}

/* A file and nothing else: a named pipe would make us wait for who writes it, a device never ends
 */
static enum tb_status open_file(FILE **out, const char *path, struct tb_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0)
        return tb_fail_sys(err, errno == ENOENT ? TB_ERR_NOTFOUND : TB_ERR_IO, errno,
                           "cannot read the file of pins '%s'", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return tb_fail(err, TB_ERR_IO,
                       "cannot read the file of pins '%s': it is no regular file; write the pins "
                       "into one",
                       path);
    }
    if (!(*out = fdopen(fd, "r"))) {
        (void)close(fd);
        return no_memory(err);
    }
    return TB_OK;
}

/* Lines are read as text, so a NUL would hide what is behind it. Editors of some systems put a mark
 * at the begin (UTF-8's byte order mark): the file is left behind it */
static enum tb_status check_text(FILE *f, const char *path, struct tb_error *err)
{
    static const char mark[] = {'\xEF', '\xBB', '\xBF'};
    char head[sizeof(mark)];
    size_t n = fread(head, 1, sizeof(head), f);
    bool marked = n == sizeof(mark) && memcmp(head, mark, n) == 0;

    rewind(f);
    for (int c; (c = getc(f)) != EOF;)
        if (c == 0)
            return tb_fail(err, TB_ERR_ARG,
                           "cannot read the file of pins '%s': it holds a NUL byte, so it is no "
                           "text; save it as UTF-8",
                           path);
    if (ferror(f))
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot read the file of pins '%s'", path);
    return fseek(f, marked ? (long)n : 0, SEEK_SET) == 0
               ? TB_OK
               : tb_fail_sys(err, TB_ERR_IO, errno, "cannot read the file of pins '%s'", path);
}

static enum tb_status take_file(struct tb_pin_plan *p, const char *path, struct tb_error *err)
{
    FILE *f = NULL;
    char line[MAX_LINE];
    bool any = false;
    enum tb_status st = open_file(&f, path, err);

    if (st == TB_OK)
        st = check_text(f, path, err);
    for (unsigned number = 1; st == TB_OK && fgets(line, sizeof(line), f); number++) {
        if (!strchr(line, '\n') && !feof(f))
            st = tb_fail(err, TB_ERR_ARG, "%s:%u: a line of more than %d bytes", path, number,
                         MAX_LINE - 2);
        else
            st = take_line(p, line, path, number, &any, err);
    }
    if (st == TB_OK && !any && !ferror(f))
        st = tb_fail(err, TB_ERR_ARG,
                     "the file of pins '%s' names nothing: write profiles and pins into it, one a "
                     "line; 'twinbit pins' lists them",
                     path);
    if (!f)
        return st;
    if (st == TB_OK && ferror(f))
        st = tb_fail_sys(err, TB_ERR_IO, errno, "cannot read the file of pins '%s'", path);
    (void)fclose(f);
    return st;
}

static bool is_file(const char *item)
{
    size_t n = strlen(item);

    return !strchr(item, '=') &&
           (strchr(item, '/') || (n > 5 && strcmp(item + n - 5, ".pins") == 0));
}

enum tb_status tb_pin_plan_add(struct tb_pin_plan *p, const char *text, struct tb_error *err)
{
    char *copy = strdup(text), *rest = copy;
    enum tb_status st = copy ? TB_OK : no_memory(err);
    bool any = false;

    for (char *item; st == TB_OK && (item = strsep(&rest, ",")) != NULL;) {
        item = trim(item);
        if (!*item)
            continue;
        any = true;
        bool file = is_file(item);
        p->of_file = p->of_file || file;
        st = file ? take_file(p, item, err) : take_item(p, item, "--pin", err);
    }
    if (st == TB_OK && !any)
        st = tb_fail(err, TB_ERR_ARG,
                     "--pin: nothing is named: 'twinbit pins' lists profiles and "
                     "pins");
    free(copy);
    return st;
}

/* ---------------------------------------------------------------- needs, conflicts, seeds */

static bool is_set(const struct tb_pin_choice *c)
{
    return c->request == TB_PIN_SET;
}

static void note(struct tb_pin_plan *p, const char *fmt, ...) TB_PRINTF(2, 3);
static void note(struct tb_pin_plan *p, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (p->notes == MAX_NOTES)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    char *copy = strdup(text);
    if (copy)
        p->note[p->notes++] = copy;
}

/* Of each pair that conflicts one stays: what was named. */
static enum tb_status settle_conflicts(struct tb_pin_plan *p, struct tb_error *err)
{
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = i + 1; k < p->count; k++) {
            struct tb_pin_choice *a = &p->choice[i], *b = &p->choice[k];
            const char *why = is_set(a) && is_set(b) ? tb_pin_conflicting(a->pin, b->pin) : NULL;
            if (!why)
                continue;
            if (a->own && b->own)
                return tb_fail(err, TB_ERR_ARG, "pins '%s' and '%s' conflict: %s: name one of them",
                               a->pin->id, b->pin->id, why);
            struct tb_pin_choice *out = a->own ? b : a;
            note(p, "pin %s is left out: it conflicts with %s (%s)", out->pin->id,
                 (out == a ? b : a)->pin->id, why);
            leave(out, true); /* nobody brings it back */
        }
    return TB_OK;
}

/* One round; true: something changed, and others may need another look */
static bool settle_needs(struct tb_pin_plan *p)
{
    bool changed = false;

    for (size_t i = 0; i < p->count; i++)
        for (const char *const *need = p->choice[i].pin->needs; is_set(&p->choice[i]) && *need;
             need++) {
            struct tb_pin_choice *c = &p->choice[i], *n = find(p, *need);
            const char *value = n ? tb_pin_alone(n->pin) : NULL;
            if (n && !value) /* at least it is kept */
                value = tb_pin_value(n->pin, TB_PIN_STRICT);
            if (!n || (n->request != TB_PIN_LEAVE && n->request != TB_PIN_READ))
                continue;
            changed = true;
            if (!n->own && value) {
                ask(n, value, c->source, false);
                note(p, "pin %s is added: %s needs it", n->pin->id, c->pin->id);
            } else {
                note(p, "pin %s is left out: it needs %s, which was taken out", c->pin->id,
                     n->pin->id);
                leave(c, false);
            }
        }
    return changed;
}

uint32_t tb_pin_seed(uint64_t run, const char *id)
{
    uint64_t h = run + 0x9E3779B97F4A7C15ull;

    for (; *id; id++) { /* SplitMix64's finaliser over each letter */
        h ^= (unsigned char)*id;
        h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ull;
        h = (h ^ (h >> 27)) * 0x94D049BB133111EBull;
        h ^= h >> 31;
    }
    return (uint32_t)(h >> 32);
}

static enum tb_status make_seeds(struct tb_pin_plan *p, struct tb_error *err)
{
    for (size_t i = 0; i < p->count; i++) {
        struct tb_pin_choice *c = &p->choice[i];
        char number[16];
        if (!is_set(c) || strcmp(c->value, "@seed") != 0 || *c->pin->needs)
            continue; /* what needs another seed follows from it */
        int n = snprintf(number, sizeof(number), "%u", tb_pin_seed(p->seed, c->pin->id));
        if (!(c->value = keep(p, number, (size_t)n)))
            return no_memory(err);
    }
    return TB_OK;
}

/* A word that means nothing for this pin, as "@sort" for a seed, was typed by somebody */
static enum tb_status check_words(const struct tb_pin_plan *p, struct tb_error *err)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct tb_pin_choice *c = &p->choice[i];
        if (!is_set(c) || c->add || c->value[0] != '@' || strcmp(c->value, "@seed") == 0)
            continue;
        bool known = c->pin->single && strcmp(c->pin->single, c->value) == 0;
        for (int k = 0; k < TB_PIN_PROFILES && !known; k++)
            known = c->pin->value[k] && strcmp(c->pin->value[k], c->value) == 0;
        if (!known)
            return tb_fail(err, TB_ERR_ARG, "%s: pin '%s' cannot be '%s'", c->source, c->pin->id,
                           c->value);
    }
    return TB_OK;
}

enum tb_status tb_pin_plan_finish(struct tb_pin_plan *p, uint64_t seed, struct tb_error *err)
{
    p->seed = seed;
    enum tb_status st = settle_conflicts(p, err);
    while (st == TB_OK && settle_needs(p))
        ;
    if (p->all_entropy)
        note(
            p,
            "pin entropy=all: libraries for cryptography get pinned bytes, too: keys and tokens of "
            "this run can be guessed");
    if (st == TB_OK)
        st = check_words(p, err);
    return st == TB_OK ? make_seeds(p, err) : st;
}

/* ---------------------------------------------------------------- for the job */

static const char *const states[TB_PIN_STATES] = {
    [TB_PIN_WAS_READ] = "read",       [TB_PIN_WAS_GIVEN] = "given",
    [TB_PIN_WAS_HELD] = "held",       [TB_PIN_WAS_JOB] = "job",
    [TB_PIN_WAS_CHANGED] = "changed", [TB_PIN_WAS_MISSED] = "missed",
    [TB_PIN_WAS_REFUSED] = "refused", [TB_PIN_WAS_UNSEEN] = "unseen",
    [TB_PIN_WAS_UNBUILT] = "unbuilt",
};

const char *tb_pin_state_name(enum tb_pin_state state)
{
    return (unsigned)state < TB_PIN_STATES ? states[state] : "?";
}

bool tb_pin_state_find(const char *name, enum tb_pin_state *out)
{
    for (unsigned i = 0; i < TB_PIN_STATES; i++)
        if (strcmp(states[i], name) == 0) {
            *out = (enum tb_pin_state)i;
            return true;
        }
    return false;
}

bool tb_pin_plan_needs(const struct tb_pin_plan *p, enum tb_pin_mechanism mechanism)
{
    for (size_t i = 0; i < p->count; i++)
        if (is_set(&p->choice[i]) && p->choice[i].pin->mechanism == mechanism)
            return true;
    return false;
}

static const char *request_name(const struct tb_pin_choice *c, bool jobs)
{
    static const char *const names[] = {"leave", "read", "keep", "set", "read"};

    if (is_set(c) && (jobs || c->add))
        return jobs ? "job" : "add";
    return names[c->request];
}

void tb_pin_plan_write(const struct tb_pin_plan *p, const bool *jobs, FILE *out)
{
    (void)fprintf(out, "twinbit-pins 1 %llu %d\n", (unsigned long long)p->seed, p->force);
    for (size_t i = 0; i < p->count; i++) {
        const struct tb_pin_choice *c = &p->choice[i];
        (void)fprintf(out, "%s\t%s\t%s\t%s\t%s\n", c->pin->id,
                      tb_pin_mechanism_text(c->pin->mechanism)->name,
                      request_name(c, jobs && jobs[i]), c->pin->sets,
                      c->request == TB_PIN_SET ? c->value : "");
    }
}
