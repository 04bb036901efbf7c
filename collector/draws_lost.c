/*
 * What processes could not write down: they had become another user, or the job had deleted what
 * twinbit has in TMPDIR. They say so in the table that all of them share, which is mapped here from
 * the beginning. The front's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collector/draws.h"
#include "deterministic/preload/config.h"

const struct tb_preload_shared *tb_draws_table(const char *folder)
{
    char path[TB_PRELOAD_PATH + 32];
    void *p = MAP_FAILED;

    (void)snprintf(path, sizeof(path), "%s/processes", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        p = mmap(NULL, sizeof(struct tb_preload_shared), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    return p == MAP_FAILED ? NULL : p;
}

void tb_draws_table_free(const struct tb_preload_shared *table)
{
    if (table)
        (void)munmap((void *)(uintptr_t)table, sizeof(*table));
}

void tb_draws_lost_read(struct tb_draws_lost *l, const struct tb_preload_shared *table,
                        const char *folder)
{
    l->gone = access(folder, F_OK) != 0 && errno == ENOENT;
    if (!table)
        return;
    l->processes = __atomic_load_n(&table->unlogged, __ATOMIC_RELAXED);
    (void)snprintf(l->program, sizeof(l->program), "%.*s", (int)sizeof(table->unlogged_program),
                   table->unlogged_program);
    (void)tb_plain(l->program, false);
}

uint64_t tb_draws_lost_rows(const struct tb_draws_lost *l)
{
    return (uint64_t)l->gone + (l->processes != 0);
}

enum tb_status tb_draws_lost_store(const struct tb_draws_lost *l, struct tb_store *store,
                                   struct tb_error *err)
{
    enum tb_status st = TB_OK;

    if (l->gone)
        st =
            tb_store_coverage(store, 0, 0, 0, 0, "pins", "TMPDIR",
                              "the job deleted what 'twinbit run' has there: what it drew from the "
                              "system is not kept",
                              1, err);
    if (st == TB_OK && l->processes)
        st = tb_store_coverage(store, 0, 0, 0, 0, "pins", l->program[0] ? l->program : "?",
                               "what it drew from the system could not be written down: another "
                               "user's process, or no room",
                               l->processes, err);
    return st;
}

void tb_draws_lost_report(const struct tb_draws_lost *l, void (*line)(void *arg, const char *text),
                          void *arg)
{
    char text[400];

    if (l->gone)
        line(arg, "pins: the job deleted what 'twinbit run' has in TMPDIR: what it drew from the "
                  "system is not in the trace, so that no replay can repeat it, and programs that "
                  "it started afterwards drew real numbers; give twinbit another folder, and set "
                  "the job's own by 'env TMPDIR=... COMMAND'");
    if (l->processes && !l->gone) {
        (void)snprintf(text, sizeof(text),
                       "pins: %llu process%s (the first: '%s') became another user, or found no "
                       "room below TMPDIR: what %s drew from the system is not written down, and "
                       "programs that %s started drew real numbers",
                       (unsigned long long)l->processes, l->processes == 1 ? "" : "es", l->program,
                       l->processes == 1 ? "it" : "they", l->processes == 1 ? "it" : "they");
        line(arg, text);
    }
}
