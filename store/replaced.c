/*
 * What a new trace replaces, kept beside it as PATH.replaced until the new one has begun. What
 * SQLite keeps beside a trace goes with it, under names that belong together again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_internal.h"

static const char *const suffix[] = {"-wal", "-shm", "-journal", ""};

/* @path and @aside with this suffix behind them; false: no memory */
static bool names(const char *path, const char *behind, char **here, char **aside)
{
    *here = tb_place_join(path, behind);
    if (asprintf(aside, "%s.replaced%s", path, behind) < 0)
        *aside = NULL;
    return *here && *aside;
}

static int each(const char *path, int (*fn)(const char *here, const char *aside))
{
    int failed = 0;

    for (size_t i = 0; i < TB_ARRAY_LEN(suffix); i++) {
        char *here = NULL, *aside = NULL;
        int rc = names(path, suffix[i], &here, &aside) ? fn(here, aside) : ENOMEM;
        failed = failed ? failed : rc;
        free(here);
        free(aside);
    }
    return failed;
}

static int move(const char *from, const char *to)
{
    struct stat st;

    if (lstat(from, &st) != 0)
        return 0;
    return rename(from, to) == 0 ? 0 : errno;
}

static int put_aside(const char *here, const char *aside)
{
    return move(here, aside);
}

static int put_back(const char *here, const char *aside)
{
    return move(aside, here);
}

static int drop(const char *here, const char *aside)
{
    (void)here;
    return unlink(aside) == 0 || errno == ENOENT ? 0 : errno;
}

enum tb_status tb_replaced_aside(const char *path, struct tb_error *err)
{
    int sys = each(path, put_aside);

    return sys ? tb_fail_sys(err, TB_ERR_IO, sys, "cannot set '%s' aside", path) : TB_OK;
}

void tb_replaced_back(const char *path)
{
    (void)each(path, put_back);
}

void tb_replaced_drop(const char *path)
{
    (void)each(path, drop);
}
