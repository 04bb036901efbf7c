/*
 * doctor.h - what `twinbit doctor` looks at; private to cli/. cmd_doctor.c has the table of checks.
 */
#ifndef TB_CLI_DOCTOR_H
#define TB_CLI_DOCTOR_H

#include "cli/cli.h"

enum tb_doctor_state {
    TB_DOCTOR_OK,
    TB_DOCTOR_NOTE,    /* works, but slower or less; `mend` may say how to have more */
    TB_DOCTOR_MISSING, /* recording does not work without it */
};

/** struct tb_doctor_check - one line of the result, filled by its check */
struct tb_doctor_check {
    enum tb_doctor_state state;
    char text[512];
    char mend[256]; /* a command, "": none needed or none known */
};

/** struct tb_doctor - what checks find out for those after them; "" where there is none */
struct tb_doctor {
    const char *given_libdir;
    char libdir[4096];
    char python[1024];
    char libtorch[1024];
};

void tb_doctor_kernel(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_memfd(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_pidfd(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_shm(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_filesystem(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_hash(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_libdir(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_preload(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_python(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_torch(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_compiler(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_tap(struct tb_doctor *d, struct tb_doctor_check *c);
void tb_doctor_cuda(struct tb_doctor *d, struct tb_doctor_check *c);

/** tb_doctor_say - set a check's state and text; tb_doctor_mend - its command */
void tb_doctor_say(struct tb_doctor_check *c, enum tb_doctor_state state, const char *fmt, ...)
    TB_PRINTF(3, 4);
void tb_doctor_mend(struct tb_doctor_check *c, const char *fmt, ...) TB_PRINTF(2, 3);

/**
 * tb_doctor_capture - run a program, its stdout into @out, NUL-terminated and cut at @size
 * @preload: value of LD_PRELOAD for it, NULL: as it is
 * Returns: its exit status, 128 + n after a signal, 127 if it could not be started.
 */
int tb_doctor_capture(char *const *argv, const char *preload, char *out, size_t size);

/** tb_doctor_find - full path of the program @name, as execvp(3) would find it; false if there is
 * none */
bool tb_doctor_find(const char *name, char *out, size_t size);

#endif
