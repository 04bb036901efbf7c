#include "collector/collector_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *tb_proc_environ(const char *environ_text, size_t n, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = environ_text; p < environ_text + n; p += strlen(p) + 1)
        if (strncmp(p, name, len) == 0 && p[len] == '=')
            return p + len + 1;
    return NULL;
}

/* The file is libcuda.so.1 in the folder "shim" of ours. */
static bool is_shim(const char *line, const char *base)
{
    return base - line >= 5 && strncmp(base - 5, "/shim", 5) == 0;
}

unsigned tb_proc_maps(pid_t pid)
{
    char path[64];
    char *line = NULL;
    size_t size = 0;
    unsigned found = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    while (getline(&line, &size, f) > 0) {
        const char *base = strrchr(line, '/');
        if (!base)
            continue;
        found |= TB_MAPS_FILE;
        if (strncmp(base, "/libtorch_cpu.so", 16) == 0)
            found |= TB_MAPS_TORCH;
        else if (strncmp(base, "/libcuda.so", 11) == 0)
            found |= is_shim(line, base) ? TB_MAPS_SHIM : TB_MAPS_CUDA;
        else if (strncmp(base, "/libtwinbit.so", 14) == 0)
            found |= TB_MAPS_TWINBIT;
        else if (strncmp(base, "/libtwinbit_pins.so", 19) == 0)
            found |= TB_MAPS_PINS;
        else if (strncmp(base, "/ld-linux", 9) == 0 || strncmp(base, "/ld-musl", 8) == 0)
            found |= TB_MAPS_LOADER;
    }
    free(line);
    (void)fclose(f);
    return found;
}

/* Where the kernel lacks task/<tid>/children: all of /proc is looked through. */
static void scan_children(pid_t pid, void (*fn)(void *arg, pid_t child), void *arg)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    struct tb_proc_stat st;

    if (!dir)
        return;
    while ((e = readdir(dir)) != NULL) {
        pid_t child = (pid_t)strtol(e->d_name, NULL, 10);
        if (child > 0 && tb_proc_stat(child, &st) && st.ppid == pid)
            fn(arg, child);
    }
    (void)closedir(dir);
}

static void task_children(pid_t pid, const char *task, void (*fn)(void *arg, pid_t child),
                          void *arg)
{
    char file[64], text[16384];

    (void)snprintf(file, sizeof(file), "task/%.16s/children", task);
    if (tb_proc_read(pid, file, text, sizeof(text)) < 0)
        return;
    for (char *p = text, *end; *p; p = end) {
        long child = strtol(p, &end, 10);
        if (end == p)
            break;
        fn(arg, (pid_t)child);
        while (*end == ' ')
            end++;
    }
}

static bool have_children_files(void)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    return access(path, R_OK) == 0;
}

void tb_proc_children(pid_t pid, void (*fn)(void *arg, pid_t child), void *arg)
{
    char path[64];
    struct dirent *e;

    if (!have_children_files()) {
        scan_children(pid, fn, arg);
        return;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    while ((e = readdir(dir)) != NULL)
        if (e->d_name[0] != '.')
            task_children(pid, e->d_name, fn, arg);
    (void)closedir(dir);
}
