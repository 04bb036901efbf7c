/* Files that hold the code of a job's programs, each looked into once. The front's. */
#include "collector/instructions.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "deterministic/preload/config.h"
#include "deterministic/preload/log.h"

#define MOST_FILES 8192u

static enum tb_pin_request request_of(const struct tb_pin_plan *plan, const char *id)
{
    const struct tb_pin_choice *c = tb_pin_choice_of(plan, id);

    return c ? c->request : TB_PIN_LEAVE;
}

struct tb_instructions *tb_instructions_new(const struct tb_pin_plan *plan)
{
    enum tb_pin_request clock = request_of(plan, "system.rdtsc");
    enum tb_pin_request numbers = request_of(plan, "system.rdrand");
    bool wanted = plan->decisions && (clock != TB_PIN_LEAVE || numbers != TB_PIN_LEAVE);
    struct tb_instructions *t = wanted ? calloc(1, sizeof(*t)) : NULL;

    if (!t)
        return NULL;
    t->current = TB_INSTRUCTIONS_PROGRAMS;
    t->set = numbers == TB_PIN_SET;
    return t;
}

void tb_instructions_free(struct tb_instructions *t)
{
    for (uint32_t i = 0; t && i < t->files; i++)
        free(t->file[i].path);
    if (t) {
        free(t->file);
        free(t->slot);
    }
    free(t);
}

/* ---------------------------------------------------------------- which files */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The interpreter, its library, libc, compilers' libraries, ours */
static bool is_known(const char *name)
{
    static const char *const names[] = {"libc.so",  "libc-",     "ld-",        "libpthread",
                                        "libm.so",  "libdl.so",  "librt.so",   "libstdc++",
                                        "libgcc_s", "libpython", "libtwinbit", "twinbit"};

    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++)
        if (begins(name, names[i]))
            return true;
    for (const char *real = TB_PRELOAD_REAL_CALLERS; *real; real += strlen(real) + 1)
        if (begins(name, real))
            return true;
    return begins(name, "python") && name[6 + strspn(name + 6, "0123456789.")] == 0;
}

static int kind_of(const char *path)
{
    static const char *const systems[] = {"/usr/",  "/lib/", "/lib64/", "/bin/",
                                          "/sbin/", "/opt/", "/nix/",   "/snap/"};
    const char *slash = strrchr(path, '/');

    if (is_known(slash ? slash + 1 : path))
        return TB_FILE_KNOWN;
    if (strstr(path, "/site-packages/") || strstr(path, "/dist-packages/"))
        return TB_FILE_PACKAGE;
    for (size_t i = 0; i < TB_ARRAY_LEN(systems); i++)
        if (begins(path, systems[i]))
            return TB_FILE_SYSTEM;
    return strstr(path, "/lib-dynload/") ? TB_FILE_SYSTEM : TB_FILE_OWN;
}

static bool grow(struct tb_instructions *t)
{
    uint32_t room = t->room ? 2 * t->room : 64, slots = 4 * room;
    void *files = room <= MOST_FILES ? realloc(t->file, room * sizeof(*t->file)) : NULL;

    if (files)
        t->file = files;
    uint32_t *slot = files ? calloc(slots, sizeof(*slot)) : NULL;
    if (!slot)
        return false;
    free(t->slot);
    t->room = room;
    t->slot = slot;
    t->slots = slots;
    for (uint32_t i = 0; i < t->files; i++) {
        uint64_t h = tb_preload_hash(0, t->file[i].path, strlen(t->file[i].path));
        while (slot[h % slots])
            h++;
        slot[h % slots] = i + 1;
    }
    return true;
}

/* MOST_FILES: there is no room for it */
static uint32_t find(struct tb_instructions *t, const char *path)
{
    uint64_t h = tb_preload_hash(0, path, strlen(path));

    for (uint64_t i = h; t->slots && t->slot[i % t->slots]; i++) {
        uint32_t at = t->slot[i % t->slots] - 1;
        if (strcmp(t->file[at].path, path) == 0)
            return at;
    }
    char *copy = (t->slots && t->files < t->room) || grow(t) ? strdup(path) : NULL;
    if (!copy)
        return MOST_FILES;
    while (t->slot[h % t->slots])
        h++;
    t->slot[h % t->slots] = t->files + 1;
    t->file[t->files] = (struct tb_instructions_file){.path = copy};
    t->file[t->files].kind = kind_of(path);
    return t->files++;
}

void tb_instructions_process(struct tb_instructions *t)
{
    if (!t)
        return;
    t->current = TB_INSTRUCTIONS_PROGRAMS;
    t->processes++;
    t->open = true;
}

void tb_instructions_end(struct tb_instructions *t)
{
    if (t && t->open)
        t->ended++;
    if (t)
        t->open = false;
}

static void begin_program(struct tb_instructions *t, uint32_t file)
{
    for (t->current = 0; t->current < t->programs; t->current++)
        if (t->program[t->current] == file)
            return;
    if (t->programs < TB_INSTRUCTIONS_PROGRAMS)
        t->program[t->programs++] = file;
    else
        t->more++;
}

void tb_instructions_add(struct tb_instructions *t, const char *path, bool program)
{
    uint32_t file = t && path[0] == '/' ? find(t, path) : MOST_FILES;

    if (file == MOST_FILES)
        return;
    if (program)
        begin_program(t, file);
    if (t->current < TB_INSTRUCTIONS_PROGRAMS)
        t->file[file].in[t->current / 64] |= 1ull << (t->current % 64);
}

/* ---------------------------------------------------------------- looking */

static time_t seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct tb_instructions_file *)a)->path,
                  ((const struct tb_instructions_file *)b)->path);
}

/* They come as they lie in memory, which differs from run to run; rows shall not */
static void sort(struct tb_instructions *t)
{
    const char *path[TB_INSTRUCTIONS_PROGRAMS] = {0};

    for (uint32_t i = 0; i < t->programs; i++)
        path[i] = t->file[t->program[i]].path;
    if (t->files)
        qsort(t->file, t->files, sizeof(*t->file), by_path);
    free(t->slot);
    t->slot = NULL;
    t->slots = t->room = 0; /* none is added any more */
    for (uint32_t i = 0; i < t->programs; i++)
        for (uint32_t k = 0; k < t->files; k++)
            if (t->file[k].path == path[i])
                t->program[i] = k;
}

static void look_into(struct tb_instructions *t, struct tb_instructions_file *f, uint64_t *left,
                      bool late)
{
    struct tb_error err;
    enum tb_status st = late ? TB_ERR_LIMIT : tb_code_look(f->path, *left, &f->found, &err);

    f->looked = st == TB_OK;
    t->looked += f->looked;
    t->in_part += f->looked && f->found.cut;
    t->late += st == TB_ERR_LIMIT;
    t->unread += !f->looked && st != TB_ERR_LIMIT;
    *left -= f->looked ? f->found.bytes : 0;
}

/* The job's own first: if time or room ends, what is left is of packages */
void tb_instructions_look(struct tb_instructions *t)
{
    uint64_t left = TB_INSTRUCTIONS_CODE;
    time_t end = seconds() + TB_INSTRUCTIONS_SECONDS;

    if (t)
        sort(t);
    for (int kind = 0; t && kind < TB_FILE_KNOWN; kind++)
        for (uint32_t i = 0; i < t->files; i++)
            if ((int)t->file[i].kind == kind)
                look_into(t, &t->file[i], &left, seconds() > end);
}
