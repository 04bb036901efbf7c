/* What was found in the files of a job's programs, as rows and lines. The front's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/collector_internal.h"
#include "collector/instructions.h"

#define FILES 5u /* that are named for one program */
#define PACKAGES 4u
#define LINES 5u

static const struct {
    const char *pin, *names, *what;
} kinds[TB_CODE_KINDS] = {
#ifdef __x86_64__
    [TB_CODE_RANDOM] = {"system.rdrand", "rdrand or rdseed", "draw random numbers of the CPU"},
    [TB_CODE_CLOCK] = {"system.rdtsc", "rdtsc", "read the CPU's counter"},
#else
    [TB_CODE_RANDOM] = {"system.rdrand", "RNDR", "draw random numbers of the CPU"},
    [TB_CODE_CLOCK] = {"system.rdtsc", "CNTVCT_EL0", "read the CPU's counter"},
#endif
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static uint32_t count_in(const struct tb_instructions *t, uint32_t program, uint32_t file,
                         enum tb_code_kind kind)
{
    const struct tb_instructions_file *f = &t->file[file];

    return f->looked && (f->in[program / 64] >> (program % 64) & 1) ? f->found.count[kind] : 0;
}

/* ---------------------------------------------------------------- "3 in job (seed_of), ..." */

struct text {
    FILE *out;
    uint32_t named, count, more, more_count; /* files, instructions; of those without a name */
    const char *package[PACKAGES + 1];
    size_t length[PACKAGES + 1];
    uint32_t packages;
};

static void put_file(struct text *x, const struct tb_instructions_file *f, enum tb_code_kind kind,
                     bool whole)
{
    const char *functions = f->found.functions[kind];

    if (x->named == FILES) {
        x->more++;
        x->more_count += f->found.count[kind];
        return;
    }
    (void)fprintf(x->out, "%s%s%" PRIu32 " in %s%s%s%s", x->named++ ? ", " : "",
                  f->found.cut ? "at least " : "", f->found.count[kind],
                  whole ? f->path : base_name(f->path), functions[0] ? " (" : "", functions,
                  functions[0] ? ")" : "");
}

/* "numpy" of .../site-packages/numpy.libs/libx.so */
static void add_package(struct text *x, const char *path)
{
    static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
    const char *at = strstr(path, folders[0]);

    at = at ? at : strstr(path, folders[1]);
    at = at ? at + strlen(folders[0]) : "";
    size_t n = strcspn(at, "./");
    for (uint32_t i = 0; i < x->packages; i++)
        if (x->length[i] == n && memcmp(x->package[i], at, n) == 0)
            return;
    if (!n || x->packages > PACKAGES)
        return;
    x->package[x->packages] = at;
    x->length[x->packages++] = n;
}

static void put_packages(struct text *x, const struct tb_instructions *t, uint32_t program,
                         enum tb_code_kind kind)
{
    uint32_t files = 0, count = 0;

    for (uint32_t i = 0; i < t->files; i++) {
        uint32_t n = t->file[i].kind == TB_FILE_PACKAGE ? count_in(t, program, i, kind) : 0;
        files += n != 0;
        count += n;
        if (n)
            add_package(x, t->file[i].path);
    }
    if (!files)
        return;
    (void)fprintf(x->out, "%s%" PRIu32 " in %" PRIu32 " file%s of Python packages (",
                  x->named ? ", " : "", count, files, files == 1 ? "" : "s");
    for (uint32_t i = 0; i < x->packages; i++)
        (void)fprintf(x->out, "%s%.*s", i ? ", " : "", i < PACKAGES ? (int)x->length[i] : 3,
                      i < PACKAGES ? x->package[i] : "...");
    (void)fputc(')', x->out);
    x->count += count;
}

/* The files of a program that have such instructions: itself, the job's own, the system's, then
 * packages in short. How many instructions there are; *@out to be freed, NULL: none, or no memory
 */
static uint32_t list(const struct tb_instructions *t, uint32_t program, enum tb_code_kind kind,
                     bool whole, int last, char **out)
{
    struct text x = {0};
    size_t n = 0;
    uint32_t self = t->program[program];

    *out = NULL;
    x.out = open_memstream(out, &n);
    if (!x.out)
        return 0;
    for (int k = -1; k <= TB_FILE_SYSTEM && k <= last; k++)
        for (uint32_t i = 0; i < t->files; i++) {
            bool now = k < 0 ? i == self && (int)t->file[i].kind <= last
                             : i != self && (int)t->file[i].kind == k;
            uint32_t count = now ? count_in(t, program, i, kind) : 0;
            if (count)
                put_file(&x, &t->file[i], kind, whole && k == TB_FILE_OWN);
            x.count += count;
        }
    if (x.more)
        (void)fprintf(x.out, ", %" PRIu32 " in %" PRIu32 " files more", x.more_count, x.more);
    if (last >= TB_FILE_PACKAGE)
        put_packages(&x, t, program, kind);
    if (fclose(x.out) != 0 || x.count == 0) {
        free(*out);
        *out = NULL;
        return 0;
    }
    (void)tb_plain(*out, false);
    return x.count;
}

/* ---------------------------------------------------------------- rows */

static void say_program(const struct tb_instructions *t, struct tb_pins *pins, uint32_t program,
                        enum tb_code_kind kind, const char *files)
{
    char text[150];
    bool unseen = kind == TB_CODE_RANDOM && t->set;
    int n = snprintf(text, sizeof(text), "real, nothing can answer an instruction: %s", files);

    if (n >= (int)sizeof(text))
        memcpy(text + sizeof(text) - 4, "...", 4);
    tb_pins_say(pins, -1000 - (pid_t)program, base_name(t->file[t->program[program]].path),
                kinds[kind].pin, unseen ? TB_PIN_WAS_UNSEEN : TB_PIN_WAS_READ, text);
}

/* "; 2 in part, 1 not looked into" */
static void put_rest(const struct tb_instructions *t, char *out, size_t size)
{
    uint32_t not_looked = t->unread + t->late;
    char part[60] = "", none[40] = "";

    if (t->in_part)
        (void)snprintf(part, sizeof(part), "; %" PRIu32 " in part, up to a limit", t->in_part);
    if (not_looked)
        (void)snprintf(none, sizeof(none), "; %" PRIu32 " not looked into", not_looked);
    (void)snprintf(out, size, "%s%s", part, none);
}

/* No instruction was found. It is an all-clear only if files were looked into, and all of them */
static void say_none(const struct tb_instructions *t, struct tb_pins *pins, enum tb_code_kind kind)
{
    char text[150], rest[110];

    put_rest(t, rest, sizeof(rest));
    if (t->looked)
        (void)snprintf(text, sizeof(text), "no such instruction in %" PRIu32 " file%s%s%s",
                       t->looked, t->looked == 1 ? "" : "s",
                       t->ended < t->processes ? ", of those known at a process's start" : "",
                       rest);
    else
        (void)snprintf(text, sizeof(text), "not known: no file of the job's was looked into%s",
                       rest);
    tb_pins_say(pins, -999, "the job", kinds[kind].pin, TB_PIN_WAS_READ, text);
}

void tb_instructions_say(const struct tb_instructions *t, struct tb_pins *pins)
{
    char *files;

    for (int kind = 0; t && kind < TB_CODE_KINDS; kind++) {
        uint32_t told = 0;
        for (uint32_t p = 0; p < t->programs; p++) {
            if (list(t, p, (enum tb_code_kind)kind, false, TB_FILE_PACKAGE, &files)) {
                say_program(t, pins, p, (enum tb_code_kind)kind, files);
                told++;
            }
            free(files);
        }
        if (told || (kind == TB_CODE_RANDOM && t->set))
            continue; /* whether std::random_device was asked is said elsewhere */
        say_none(t, pins, (enum tb_code_kind)kind);
    }
}

/** struct rest - what is not known, as a row of coverage */
struct rest {
    uint64_t count;
    const char *subject, *why;
};

static void rest_of(const struct tb_instructions *t, struct rest out[4])
{
    out[0] = (struct rest){t->unread, "files not looked into",
                           "they cannot be read any more, or are for another kind of CPU"};
    out[1] = (struct rest){t->late + t->more, "files not looked into",
                           "limits of a run: 2 GiB of code, 10 s, 256 programs"};
    out[2] = (struct rest){t->in_part, "files looked into in part",
                           "limits of a file: 1048576 places that look like one, 64 MiB decoded"};
    out[3] = (struct rest){t->processes - t->ended, "files of processes not known at their end",
                           "killed, or ended so that no list was written: libraries opened after "
                           "their start are not known"};
}

static enum tb_status store_rest(const struct tb_instructions *t, struct tb_store *store,
                                 struct tb_error *err)
{
    enum tb_status st = TB_OK;
    struct rest r[4];

    rest_of(t, r);
    for (int i = 0; i < 4 && st == TB_OK; i++)
        if (r[i].count)
            st = tb_store_coverage(store, 0, 0, 0, 0, "instructions", r[i].subject, r[i].why,
                                   r[i].count, err);
    return st;
}

static enum tb_status store_program(const struct tb_instructions *t, uint32_t program,
                                    enum tb_code_kind kind, struct tb_store *store,
                                    struct tb_error *err)
{
    enum tb_status st = TB_OK;
    char name[64], *files, *detail = NULL;
    uint32_t count = list(t, program, kind, true, TB_FILE_PACKAGE, &files);

    if (!count)
        return TB_OK;
    (void)snprintf(name, sizeof(name), "%s instruction", kinds[kind].names);
    if (asprintf(&detail, "%s: values are real: nothing can answer an instruction", files) >= 0)
        st = tb_store_coverage(store, 0, 0, 0, 0, name, t->file[t->program[program]].path, detail,
                               count, err);
    free(detail);
    free(files);
    return st;
}

enum tb_status tb_instructions_store(const struct tb_instructions *t, struct tb_store *store,
                                     struct tb_error *err)
{
    enum tb_status st = t ? store_rest(t, store, err) : TB_OK;

    for (int kind = 0; t && kind < TB_CODE_KINDS; kind++)
        for (uint32_t p = 0; st == TB_OK && p < t->programs; p++)
            st = store_program(t, p, (enum tb_code_kind)kind, store, err);
    return st;
}

uint64_t tb_instructions_rows(const struct tb_instructions *t)
{
    struct rest r[4] = {0};
    uint64_t rows = 0;

    if (t)
        rest_of(t, r);
    for (int i = 0; i < 4; i++)
        rows += r[i].count != 0;
    for (int kind = 0; t && kind < TB_CODE_KINDS; kind++)
        for (uint32_t p = 0; p < t->programs; p++) {
            bool any = false;
            for (uint32_t i = 0; i < t->files && !any; i++)
                any = count_in(t, p, i, (enum tb_code_kind)kind) > 0;
            rows += any;
        }
    return rows;
}

void tb_instructions_report(const struct tb_instructions *t,
                            void (*line)(void *arg, const char *text), void *arg)
{
    char text[700], program[300], *files = NULL;
    uint32_t told = 0;

    for (int kind = 0; t && kind < TB_CODE_KINDS; kind++)
        for (uint32_t p = 0; p < t->programs; p++) {
            if (told < LINES && list(t, p, (enum tb_code_kind)kind, false, TB_FILE_OWN, &files)) {
                (void)snprintf(program, sizeof(program), "%s", t->file[t->program[p]].path);
                (void)tb_plain(program, false);
                (void)snprintf(text, sizeof(text),
                               "pins: '%s' can %s by an instruction (%s): %.200s: such values "
                               "are real: nothing can answer it",
                               program, kinds[kind].what, kinds[kind].names, files);
                line(arg, text);
                told++;
            }
            free(files);
            files = NULL;
        }
}
