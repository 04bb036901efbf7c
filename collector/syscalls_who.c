/* Who asks: the program, how it came to be started, and from which library. The answering thread's.
 */
#include "collector/syscalls.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/collector_internal.h"
#include "deterministic/preload/config.h"
#include "deterministic/preload/log.h"

#define ENVIRON_MAX (256u * 1024u)

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* ---------------------------------------------------------------- /proc */

static pid_t process_of(pid_t tid)
{
    char text[2048];
    const char *line =
        tb_proc_read(tid, "status", text, sizeof(text)) > 0 ? strstr(text, "\nTgid:") : NULL;

    return line ? (pid_t)strtol(line + 6, NULL, 10) : 0;
}

static bool program_of(pid_t pid, char *out, size_t size)
{
    char link[64];

    (void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(link, out, size - 1);
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

uint64_t tb_syscalls_random_address(pid_t pid, bool *is_static)
{
    uint64_t auxv[128] = {0}, at = 0;
    ssize_t n = tb_proc_read(pid, "auxv", (char *)auxv, sizeof(auxv));

    *is_static = n > 0;
    for (ssize_t i = 0; i + 1 < n / 8 && auxv[i] != AT_NULL; i += 2) {
        if (auxv[i] == AT_RANDOM)
            at = auxv[i + 1];
        if (auxv[i] == AT_BASE && auxv[i + 1]) /* it has a loader */
            *is_static = false;
    }
    return at;
}

/* ---------------------------------------------------------------- identity */

/* The variables that identity.c looks at, in the environment the program was started with */
static uint64_t ranks_of(pid_t pid)
{
    static const char *const names[] = {"RANK", "LOCAL_RANK", "SLURM_PROCID", "PMI_RANK",
                                        "OMPI_COMM_WORLD_RANK"};
    char *text = malloc(ENVIRON_MAX);
    ssize_t n = text ? tb_proc_read(pid, "environ", text, ENVIRON_MAX) : -1;
    uint64_t h = 0;

    for (size_t i = 0; n > 0 && i < TB_ARRAY_LEN(names); i++) {
        const char *value = tb_proc_environ(text, (size_t)n, names[i]);
        if (value)
            h = tb_preload_hash(h + i, value, strlen(value));
    }
    free(text);
    return h;
}

/* Names of the programs from @pid up to the job */
static uint64_t chain_of(pid_t pid)
{
    char program[512];
    struct tb_proc_stat st;
    uint64_t h = 0;
    pid_t self = getpid();

    for (int depth = 0; depth < 64 && pid > 1 && pid != self; depth++) {
        if (!program_of(pid, program, sizeof(program)) || !tb_proc_stat(pid, &st))
            break;
        const char *name = base_name(program);
        h = tb_preload_hash(h, name, strlen(name));
        pid = st.ppid;
    }
    return h;
}

/* How many had this key before */
static uint32_t count_of(struct tb_syscalls_who *w, uint64_t key)
{
    for (size_t i = 0; i < w->names; i++)
        if (w->named[i].key == key)
            return w->named[i].count++;
    if (w->names == w->names_room) {
        size_t room = w->names_room ? 2 * w->names_room : 64;
        void *grown = realloc(w->named, room * sizeof(*w->named));
        if (!grown)
            return 0;
        w->named = grown;
        w->names_room = room;
    }
    w->named[w->names].key = key;
    w->named[w->names++].count = 1;
    return 0;
}

static struct tb_syscalls_image *add(struct tb_syscalls_who *w, pid_t pid, uint64_t start,
                                     const char *program)
{
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        struct tb_syscalls_image **grown =
            realloc(w->image, room * sizeof(struct tb_syscalls_image *));
        if (!grown)
            return NULL;
        w->image = grown;
        w->room = room;
    }
    struct tb_syscalls_image *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    uint64_t key = tb_preload_mix(chain_of(pid), ranks_of(pid));
    m->pid = pid;
    m->start = start;
    m->id = tb_preload_mix(key, count_of(w, key));
    (void)snprintf(m->program, sizeof(m->program), "%s", program);
    w->image[w->count++] = m;
    return m;
}

struct tb_syscalls_image *tb_syscalls_image(struct tb_syscalls_who *w, pid_t tid)
{
    char program[sizeof(w->image[0]->program)];
    struct tb_proc_stat st;
    pid_t pid = process_of(tid);

    if (!pid || !tb_proc_stat(pid, &st) || !program_of(pid, program, sizeof(program)))
        return NULL;
    for (size_t i = w->count; i-- > 0;) {
        struct tb_syscalls_image *m = w->image[i];
        if (m->pid == pid && m->start == st.start && strcmp(m->program, program) == 0)
            return m;
        if (m->pid == pid)
            break; /* another one, or what it was before exec */
    }
    return add(w, pid, st.start, program);
}

void tb_syscalls_who_release(struct tb_syscalls_who *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->image[i]);
    free(w->image);
    free(w->named);
}

/* ---------------------------------------------------------------- the library that calls */

static bool is_crypto(const char *name)
{
    for (const char *real = TB_PRELOAD_REAL_CALLERS; *real; real += strlen(real) + 1)
        if (strncmp(name, real, strlen(real)) == 0)
            return true;
    return false;
}

/* Those of libc are answered there, or are libc's own; so are its loader's and ours */
static bool is_libc(const char *name)
{
    return strncmp(name, "libc.", 5) == 0 || strncmp(name, "libc-", 5) == 0 ||
           strncmp(name, "ld-", 3) == 0 || strncmp(name, "libtwinbit", 10) == 0 ||
           strncmp(name, "libpthread", 10) == 0 || strncmp(name, "[vdso]", 6) == 0;
}

bool tb_syscalls_left_alone(pid_t pid, uint64_t ip, bool all, bool *crypto)
{
    bool hooked = false, of_libc = false, any_crypto = false, of_crypto = false;
    char path[64], *line = NULL;
    size_t size = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && getline(&line, &size, f) > 0) {
        unsigned long long from = 0, to = 0;
        const char *slash = strrchr(line, '/'), *name = slash ? slash + 1 : strchr(line, '[');
        if (!name || sscanf(line, "%llx-%llx", &from, &to) != 2)
            continue;
        bool here = ip >= from && ip < to;
        hooked = hooked || strncmp(name, "libtwinbit_pins.so", 18) == 0;
        of_libc = of_libc || (here && is_libc(name));
        any_crypto = any_crypto || is_crypto(name);
        of_crypto = of_crypto || (here && is_crypto(name));
    }
    free(line);
    if (f)
        (void)fclose(f);
    *crypto = !all && (hooked ? of_crypto : any_crypto);
    return *crypto || (hooked && of_libc);
}
