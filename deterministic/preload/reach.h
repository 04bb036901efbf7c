/*
 * preload/reach - will the preloaded library be in a program that is about to be executed?
 *
 * Asked in the job before each exec, where the answer no is written down (TB_PRELOAD_UNREACHED),
 * and by the parent for the job's first program. Needs system calls alone.
 */
#ifndef TB_DETERMINISTIC_PRELOAD_REACH_H
#define TB_DETERMINISTIC_PRELOAD_REACH_H

#include <stddef.h>

/** enum tb_preload_reach - values are stored in logs: never reuse one */
enum tb_preload_reach {
    TB_REACH_YES = 0,
    TB_REACH_NO_PROGRAM = 1,  /* it cannot be executed, or cannot be read: nothing is known */
    TB_REACH_STATIC = 2,      /* linked statically: no loader looks at LD_PRELOAD */
    TB_REACH_PRIVILEGED = 3,  /* set-user-id, set-group-id, capabilities: the loader ignores it */
    TB_REACH_MACHINE = 4,     /* for another kind of CPU, as 32-bit programs */
    TB_REACH_ENVIRONMENT = 5, /* LD_PRELOAD or TWINBIT_PINS is not in its environment */
    TB_REACH_USER = 6,     /* the job became a user who cannot read what its parent left for it */
    TB_REACH_GONE = 8,     /* ... and that has been deleted */
    TB_REACH_ISOLATED = 7, /* it is in, but our part in Python is not: TB_PRELOAD_UNREACHED names
                              no path then, but "python -I" */
};

/**
 * tb_preload_reach - of the program at @path, relative to the folder @dir (AT_FDCWD), started with
 * the environment @envp
 * @program: the file that was looked at (of a script: its interpreter), "" if it is not known
 *
 * Threads: any. Allocates: no. Changes neither errno nor, in the end, any descriptor.
 */
enum tb_preload_reach tb_preload_reach(int dir, const char *path, char *const *envp, char *program,
                                       size_t size);

/** tb_preload_reach_text - "statically linked" and so on, static */
const char *tb_preload_reach_text(enum tb_preload_reach reach);

#endif
